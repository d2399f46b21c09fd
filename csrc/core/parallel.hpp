// The one place that starts threads: independent pieces of work, each written
// to its own place, so that results never depend on the number of threads.
#ifndef SPECGRID_CORE_PARALLEL_HPP_
#define SPECGRID_CORE_PARALLEL_HPP_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/stop.hpp"

namespace specgrid {

// At most `wanted` threads, and one per `work_per_thread` units of work.
[[nodiscard]] inline int useful_threads(int wanted, std::size_t work,
                                        std::size_t work_per_thread) {
  const std::size_t worth = std::max<std::size_t>(1, work / work_per_thread);
  return static_cast<int>(
      std::min(worth, static_cast<std::size_t>(std::max(1, wanted))));
}

// Runs work(true, failed) on this thread and work(false, failed) on up to
// `threads` - 1 others, and returns when all have ended. The work takes its
// pieces from a counter, so any number of threads gets through them all: where
// the system gives fewer than asked for, those do it. The first exception of a
// thread is thrown again here; `failed` is then true, and the others end soon.
template <typename Work>
void work_together(int threads, const Work& work) {
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one thread that set `failed`
  const auto guarded = [&](bool is_caller) noexcept {
    try {
      work(is_caller, std::as_const(failed));
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

// Runs piece(0, pause) .. piece(count - 1, pause), each once, none after one
// has thrown. A long piece calls pause() every few milliseconds: it throws
// where `stop`, which only this thread asks, or another piece has thrown.
template <typename Piece>
void parallel_for(std::size_t count, int threads, const Piece& piece,
                  const StopRequested& stop = {}) {
  struct Ended {};  // of a piece whose end nobody waits for
  std::atomic<std::size_t> next{0};
  work_together(threads, [&](bool is_caller, const std::atomic<bool>& failed) {
    const auto pause = [&] {
      if (failed) throw Ended{};
      if (is_caller) ask(stop);
    };
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      if (is_caller) ask(stop);
      piece(i, pause);
    }
  });
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_PARALLEL_HPP_
