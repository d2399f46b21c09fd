// Several threads at one piece of work, the caller's among them. Nothing escapes
// a thread: what one throws is thrown again in the caller, and a system that
// gives fewer threads than asked for gets the work done with those.
#ifndef SPECGRID_CORE_TOGETHER_HPP_
#define SPECGRID_CORE_TOGETHER_HPP_

#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace specgrid {

// Runs work(true) on this thread and work(false) on up to `threads` - 1 others,
// and returns when all have ended. The work takes its pieces from a counter, so
// that any number of threads gets through them all.
template <typename Work>
void work_together(std::size_t threads, const Work& work) {
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
      for (std::size_t i = 1; i < threads; ++i) {
        others.emplace_back(guarded, false);
      }
    } catch (const std::exception&) {
      // No more threads to be had: those there are do it.
    }
    guarded(true);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_TOGETHER_HPP_
