// Starting threads, and bringing back what they throw. See parallel.hpp.
#include "core/parallel.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace specgrid {

void work_together(int threads, const SharedWork& work,
                   const std::function<void()>& idle) {
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
          guarded([&] { work(false, failed); });
          leave();
        });
      } catch (const std::exception&) {
        leave();  // No more threads to be had.
        break;
      }
    }
    guarded([&] { work(true, failed); });
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

void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t)>& piece,
                  const StopRequested& stop) {
  parallel_for_long(
      count, threads,
      [&](std::size_t i, const std::function<void()>&) { piece(i); }, stop);
}

void parallel_for_long(std::size_t count, int threads, const LongPiece& piece,
                       const StopRequested& stop) {
  struct Ended {};  // of a piece whose end nobody waits for
  std::atomic<std::size_t> next{0};
  const auto work = [&](bool is_caller, const std::atomic<bool>& failed) {
    const std::function<void()> pause = [&] {
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
