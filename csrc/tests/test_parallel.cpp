// Threads: each piece once, what they throw, and a system that gives none.
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

TEST_CASE("work is done once each, and exceptions come back from threads") {
  std::vector<int> times(1000);
  parallel_for(times.size(), 4, [&](std::size_t i) { ++times[i]; });
  for (const int count : times) CHECK(count == 1);
  CHECK_THROWS_AS(parallel_for(100, 4,
                               [](std::size_t i) {
                                 if (i == 50) throw std::bad_alloc();
                               }),
                  std::bad_alloc);
}

TEST_CASE("no work starts no piece, and one thread starts no other") {
  parallel_for(0, 4, [](std::size_t) { FAIL("there is no piece"); });
  std::vector<std::thread::id> by(3);
  parallel_for(3, 1,
               [&](std::size_t i) { by[i] = std::this_thread::get_id(); });
  for (const auto id : by) CHECK(id == std::this_thread::get_id());
}

TEST_CASE("after a piece has thrown no other is started") {
  std::vector<std::size_t> begun;
  CHECK_THROWS_WITH_AS(parallel_for(100, 1,
                                    [&](std::size_t i) {
                                      begun.push_back(i);
                                      if (i == 3) throw std::range_error("3");
                                    }),
                       "3", std::range_error);
  CHECK(begun == std::vector<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("what a thread throws reaches the caller, and the others end first") {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> ended{0};
    CHECK_THROWS_AS(work_together(
                        threads,
                        [&](bool, const std::atomic<bool>&) {
                          ++ended;
                          throw std::bad_alloc();
                        },
                        [] {}),
                    std::bad_alloc);
    CHECK(ended == threads);
  }
}

TEST_CASE("what the stop throws ends all work, that of other threads too") {
  CHECK_THROWS_AS(
      parallel_for(
          100, 4, [](std::size_t) {}, []() -> bool { throw std::bad_alloc(); }),
      std::bad_alloc);
  // Pieces that never end by themselves, wherever they run.
  for (const int threads : {1, 2, 4}) {
    int asked = 0;
    CHECK_THROWS_AS(parallel_for_long(
                        4, threads,
                        [](std::size_t, const std::function<void()>& pause) {
                          for (;;) pause();
                        },
                        [&]() -> bool {
                          if (++asked < 5) return false;
                          throw std::bad_alloc();
                        }),
                    std::bad_alloc);
  }
}

TEST_CASE("the caller asks while it waits for others") {
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> begun{false};
  int asked = 0;
  CHECK_THROWS_AS(parallel_for_long(
                      2, 2,
                      [&](std::size_t, const std::function<void()>& pause) {
                        if (std::this_thread::get_id() != caller) {
                          begun = true;
                          for (;;) pause();
                        }
                        while (!begun) std::this_thread::yield();
                      },
                      [&]() -> bool {
                        if (++asked < 6) return false;
                        throw std::bad_alloc();
                      }),
                  std::bad_alloc);
}

TEST_CASE("threads are as many as the work is worth, at least one") {
  CHECK(useful_threads(8, 100, 1000) == 1);
  CHECK(useful_threads(8, 3000, 1000) == 3);
  CHECK(useful_threads(2, 3000, 1000) == 2);
  CHECK(useful_threads(0, 9000, 1000) == 1);
  CHECK(useful_threads(-7, 0, 1000) == 1);
}

#ifdef __GLIBC__
TEST_CASE("where the system gives no thread the caller does all the work") {
  // Threads with a stack larger than the address space cannot be started.
  pthread_attr_t usual;
  pthread_attr_t impossible;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_getattr_default_np(&impossible) == 0);
  REQUIRE(pthread_attr_setstacksize(&impossible, std::size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&impossible) == 0);
  bool refused = false;
  try {
    std::thread([] {}).join();
  } catch (const std::exception&) {
    refused = true;
  }
  std::vector<std::thread::id> by(50);
  parallel_for(50, 4,
               [&](std::size_t i) { by[i] = std::this_thread::get_id(); });
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  CHECK(refused);
  CHECK(std::ranges::count(by, std::this_thread::get_id()) == 50);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&impossible);
}
#endif

}  // namespace
}  // namespace specgrid
