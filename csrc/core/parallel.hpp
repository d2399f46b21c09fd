// The one place that starts threads: independent pieces of work, each written
// to its own place, so that results never depend on the number of threads.
#ifndef SPECGRID_CORE_PARALLEL_HPP_
#define SPECGRID_CORE_PARALLEL_HPP_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>

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
// thrown again here; `failed` is then true, and the others are to end soon.
using SharedWork = std::function<void(bool, const std::atomic<bool>&)>;
void work_together(int threads, const SharedWork& work,
                   const std::function<void()>& idle);

// Runs piece(0) .. piece(count - 1), each once, none after one has thrown, be
// it `stop`, which this thread asks now and then.
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t)>& piece,
                  const StopRequested& stop = {});

// The same for pieces that take longer than a few milliseconds. They call
// pause() that often, which throws where `stop` or another piece has thrown.
using LongPiece =
    std::function<void(std::size_t, const std::function<void()>&)>;
void parallel_for_long(std::size_t count, int threads, const LongPiece& piece,
                       const StopRequested& stop);

}  // namespace specgrid

#endif  // SPECGRID_CORE_PARALLEL_HPP_
