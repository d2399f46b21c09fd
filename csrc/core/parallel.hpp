// The one place that starts threads: independent pieces of work, each written
// to its own place, so that results never depend on the number of threads.
#ifndef SPECGRID_CORE_PARALLEL_HPP_
#define SPECGRID_CORE_PARALLEL_HPP_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace specgrid {

// At most `wanted` threads, and one per `work_per_thread` units of work.
[[nodiscard]] inline int useful_threads(int wanted, std::size_t work,
                                        std::size_t work_per_thread) {
  const std::size_t worth = std::max<std::size_t>(1, work / work_per_thread);
  return static_cast<int>(
      std::min(worth, static_cast<std::size_t>(std::max(1, wanted))));
}

// Runs piece(0) .. piece(count - 1), each once. The first exception of a piece
// is thrown again here, after all threads have ended.
template <typename Piece>
void parallel_for(std::size_t count, int threads, const Piece& piece) {
  if (threads <= 1) {
    for (std::size_t i = 0; i < count; ++i) piece(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one thread that set `failed`
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count && !failed; i = next++) piece(i);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_PARALLEL_HPP_
