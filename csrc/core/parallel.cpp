// Starting threads, and bringing back what they throw. See parallel.hpp.
#include "core/parallel.hpp"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace specgrid {

void work_together(int threads, const std::function<void(bool)>& work) {
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one thread that set `failed`
  const auto guarded = [&](bool is_caller) noexcept {
    try {
      work(is_caller);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < threads; ++i) others.emplace_back(guarded, false);
    } catch (const std::exception&) {
      // No more threads to be had.
    }
    guarded(true);
  }
  if (error) std::rethrow_exception(error);
}

void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t)>& piece) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  work_together(threads, [&](bool /*is_caller*/) {
    try {
      for (std::size_t i = next++; i < count && !failed; i = next++) piece(i);
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

}  // namespace specgrid
