// The one place that starts threads: independent pieces of work, each written
// to its own place, so that results never depend on the number of threads.
#ifndef SPECGRID_CORE_PARALLEL_HPP_
#define SPECGRID_CORE_PARALLEL_HPP_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
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
// the system gives fewer than asked for, those do it. While this thread waits
// for others it calls idle() now and then. The first exception of a thread is
// thrown again here; `failed` is then true, and the others end soon.
template <typename Work, typename Idle>
void work_together(int threads, const Work& work, const Idle& idle) {
  constexpr std::chrono::milliseconds kIdle(20);
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one thread that set `failed`
  const auto guarded = [&](const auto& part) noexcept {
    try {
      part();
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  std::mutex mutex;
  std::condition_variable ended;
  int busy = 0;
  const auto leave = [&] {
    const std::lock_guard lock(mutex);
    if (--busy == 0) ended.notify_one();
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) {
      {
        const std::lock_guard lock(mutex);
        ++busy;
      }
      try {
        others.emplace_back([&] {
          guarded([&] { work(false, std::as_const(failed)); });
          leave();
        });
      } catch (const std::exception&) {
        leave();  // No more threads to be had.
        break;
      }
    }
    guarded([&] { work(true, std::as_const(failed)); });
    guarded([&] {
      std::unique_lock lock(mutex);
      while (!ended.wait_for(lock, kIdle, [&] { return busy == 0; })) {
        lock.unlock();
        idle();
        lock.lock();
      }
    });
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
  const auto work = [&](bool is_caller, const std::atomic<bool>& failed) {
    const auto pause = [&] {
      if (failed) throw Ended{};
      if (is_caller) ask(stop);
    };
    for (;;) {
      if (is_caller) ask(stop);
      const std::size_t i = next++;
      if (i >= count || failed) return;
      piece(i, pause);
    }
  };
  work_together(threads, work, [&] { ask(stop); });
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_PARALLEL_HPP_
