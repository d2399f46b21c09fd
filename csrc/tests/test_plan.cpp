// The planner against every possible choice (every_plan.hpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "core/parallel.hpp"
#include "core/plan_bound.hpp"
#include "core/plan_frontier.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_ladder.hpp"
#include "core/plan_merge.hpp"
#include "core/plan_shared.hpp"
#include "tests/every_plan.hpp"

namespace specgrid {
using namespace every_plan;  // NOLINT: a test's own model

namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool one_in(std::int64_t n) { return in(1, n) == 1; }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        in(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

void check_frontier(const SharedProblem& p, Random& random) {
  const auto wanted = best_lists(p);
  const std::int64_t budget = random.in(0, 30);
  const SharedListDag dag(p);
  const Frontier frontier =
      solve_frontier(dag, budget, static_cast<int>(random.in(1, 3)), {});
  REQUIRE_FALSE(frontier.stopped);
  std::size_t i = 0;
  for (const auto& [outcome, list] : wanted) {
    if (outcome.graphs > budget) break;
    REQUIRE(i < frontier.points.size());
    CHECK(frontier.points[i].time == outcome.time);
    CHECK(frontier.points[i].graphs == outcome.graphs);
    CHECK(frontier.points[i].entries == list);
    ++i;
  }
  CHECK(frontier.points.size() == i);
  const Frontier unlimited = solve_unlimited(dag, {});
  REQUIRE(unlimited.points.size() == (wanted.empty() ? 0 : 1));
  if (!wanted.empty()) {
    CHECK(unlimited.points[0].time == wanted.back().first.time);
    CHECK(unlimited.points[0].graphs == wanted.back().first.graphs);
  }
}

TEST_CASE(
    "every budget of a shared list equals trying every list: one ladder") {
  Random random(1);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    check_frontier(random_problem(random, true), random);
  }
}

TEST_CASE(
    "every budget of a shared list equals trying every list: a ladder each") {
  Random random(2);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    check_frontier(random_problem(random, false), random);
  }
}

// Eight requests, drafts 3, 1 and 0; shares in thousandths, times in
// microseconds. The worked example of docs/planner.md.
SharedProblem worked_example(bool one_ladder) {
  SharedProblem p;
  p.query_lens = {1, 2, 4};
  p.max_num_seqs = 8;
  p.max_decode_tokens = 32;
  p.max_size = 16;
  p.one_ladder = one_ladder;
  for (std::int64_t t = 0; t <= 16; ++t) {
    p.full_time.push_back(6000 + 60 * t);
    p.piecewise_time.push_back(8500 + 60 * t);
    if (t > 0) p.sizes.push_back(t);
  }
  const std::vector<List> decode{
      {2, 1, 140}, {2, 2, 180}, {2, 3, 150}, {2, 4, 120}, {1, 5, 90},
      {1, 6, 70},  {0, 7, 50},  {0, 8, 90},  {1, 4, 12},  {0, 6, 8}};
  for (const List& step : decode) {
    const std::int64_t q = p.query_lens[static_cast<std::size_t>(step[0])];
    p.decode_tier.push_back(step[0]);
    p.decode_reqs.push_back(step[1]);
    p.decode_weight.push_back(step[2]);
    p.decode_eager.push_back(14000 + 60 * q * step[1]);
    p.decode_required.push_back(0);
  }
  p.mixed_tokens = {9, 11, 13, 16};
  p.mixed_weight = {20, 20, 20, 30};
  for (const std::int64_t t : p.mixed_tokens) {
    p.mixed_eager.push_back(14000 + 60 * t);
  }
  return p;
}

TEST_CASE("the worked example equals trying all 65,536 lists") {
  for (const bool one_ladder : {true, false}) {
    CAPTURE(one_ladder);
    const SharedProblem p = worked_example(one_ladder);
    std::vector<std::int64_t> best(25, kNoPlan);
    for (const List& list : subsets(p.sizes)) {
      const Outcome outcome = run(p, list);
      for (auto g = static_cast<std::size_t>(outcome.graphs); g < best.size();
           ++g) {
        best[g] = std::min(best[g], outcome.time);
      }
    }
    const Frontier frontier = solve_frontier(SharedListDag(p), 24, 2, {});
    for (std::int64_t g = 0; g < 25; ++g) {
      std::int64_t found = kNoPlan;
      for (const FrontierPoint& point : frontier.points) {
        if (point.graphs <= g) found = point.time;
      }
      CHECK(found == best[static_cast<std::size_t>(g)]);
    }
  }
}

TEST_CASE("limits on bytes and seconds equal trying every list") {
  Random random(3);
  int proven = 0;
  int gaps = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    SharedProblem p = random_problem(random, random.one_in(2));
    price(random, p);
    Resources limits{random.one_in(2) ? kNoLimit : random.in(0, 30),
                     random.one_in(4) ? kNoLimit : random.in(0, 120),
                     random.one_in(2) ? kNoLimit : random.in(0, 60)};
    std::int64_t best = kNoPlan;
    Resources least{kNoLimit, kNoLimit, kNoLimit};
    for (const List& list : subsets(p.sizes)) {
      const Outcome o = run(p, list);
      if (!o.kept_promises) continue;
      least.graphs = std::min(least.graphs, o.graphs);
      least.bytes = std::min(least.bytes, o.bytes);
      least.seconds = std::min(least.seconds, o.seconds);
      if (o.graphs <= limits.graphs && o.bytes <= limits.bytes &&
          o.seconds <= limits.seconds) {
        best = std::min(best, o.time);
      }
    }
    const SharedListDag dag(p);
    const LabelResult result = solve_labels(dag, limits, 1000, {});
    REQUIRE(result.found == (best < kNoPlan));
    if (least.graphs != kNoLimit) {
      CHECK(result.least.graphs == least.graphs);
      CHECK(result.least.bytes == least.bytes);
      CHECK(result.least.seconds == least.seconds);
    }
    if (!result.found) continue;
    CHECK(result.best.time == best);
    CHECK(result.bound == best);
    const Outcome again = run(p, result.best.entries);
    CHECK(again.time == best);
    CHECK(again.bytes == result.best.used.bytes);
    CHECK(within(result.best.used, limits));
    ++proven;
    // Starved of labels, it may miss the best but not overstate its case.
    const LabelResult starved = solve_labels(dag, limits, 1, {});
    if (!starved.found) continue;
    CHECK(starved.best.time >= best);
    CHECK(starved.bound <= best);
    CHECK(run(p, starved.best.entries).time == starved.best.time);
    CHECK(within(starved.best.used, limits));
    gaps += starved.best.time > best ? 1 : 0;
  }
  CHECK(proven > 200);
  MESSAGE("one label a node missed the best on ", gaps, " of ", proven);
}

// ---- ladders
// -------------------------------------------------------------------

TEST_CASE("every budget of direct captures equals trying every set") {
  Random random(4);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    std::vector<Ladder> ladders;
    const std::int64_t num = random.in(1, 3);
    for (std::int64_t k = 0; k < num; ++k) {
      ladders.push_back(random_ladder(random, num == 1 ? 10 : 4));
    }
    const std::int64_t budget = random.in(0, 25);
    std::vector<std::int64_t> best(static_cast<std::size_t>(budget) + 1,
                                   kNoPlan);
    for (const auto& [outcome, entries] : every_choice(ladders)) {
      if (outcome.graphs > budget) continue;
      std::int64_t& time = best[static_cast<std::size_t>(outcome.graphs)];
      time = std::min(time, outcome.time);
    }
    const Frontier hull = solve_ladders(ladders, budget, false, 2, {});
    const Frontier plain = solve_ladders(ladders, budget, true, 1, {});
    const Frontier path = solve_frontier(LadderDag(ladders), budget, 1, {});
    std::int64_t reached = kNoPlan;
    std::size_t at = 0;
    for (std::int64_t g = 0; g <= budget; ++g) {
      const std::int64_t time = best[static_cast<std::size_t>(g)];
      if (time >= reached) continue;
      reached = time;
      REQUIRE(at < hull.points.size());
      REQUIRE(at < plain.points.size());
      REQUIRE(at < path.points.size());
      CHECK(hull.points[at].time == time);
      CHECK(hull.points[at].graphs == g);
      CHECK(plain.points[at].entries == hull.points[at].entries);
      CHECK(plain.points[at].time == time);
      CHECK(path.points[at].time == time);
      ++at;
    }
    CHECK(hull.points.size() == at);
    CHECK(plain.points.size() == at);
    CHECK(path.points.size() == at);
  }
}

TEST_CASE("direct captures under bytes and seconds equal trying every set") {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    std::vector<Ladder> ladders{random_ladder(random, 4),
                                random_ladder(random, 4)};
    const Resources limits{kNoLimit, random.in(0, 80), random.in(0, 40)};
    std::int64_t best = kNoPlan;
    for (const auto& [o, entries] : every_choice(ladders)) {
      if (o.bytes <= limits.bytes && o.seconds <= limits.seconds) {
        best = std::min(best, o.time);
      }
    }
    const LabelResult result =
        solve_labels(LadderDag(ladders), limits, 1000, {});
    REQUIRE(result.found == (best < kNoPlan));
    if (result.found) CHECK(result.best.time == best);
  }
}

TEST_CASE("the hull picks the plain recurrence's entries on long ladders") {
  Random random(6);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    Ladder ladder;
    const bool noisy = i % 2 == 1;
    const bool ties = i % 3 == 0;
    for (std::int64_t n = 0; n <= 120; ++n) {
      ladder.weight.push_back(n == 0 ? 0 : random.in(0, ties ? 2 : 1'000'000));
      ladder.cost.push_back(1000 + (ties ? n / 10 : 10 * n) +
                            (noisy ? random.in(0, 300) : 0));
      ladder.eager_time.push_back(ladder.weight.back() * 5000);
    }
    const LadderCurve hull = solve_ladder_hull(ladder, 40, {});
    const LadderCurve plain = solve_ladder_plain(ladder, 40, {});
    CHECK(hull.time == plain.time);
    for (std::size_t k = 0; k <= 40; ++k) {
      if (plain.time[k] < kNoPlan) CHECK(hull.entries(k) == plain.entries(k));
    }
  }
}

TEST_CASE("the answer does not depend on the number of threads") {
  Random random(7);
  for (int i = 0; i < 20; ++i) {
    SharedProblem p = random_problem(random, true);
    p.max_num_seqs = 40;
    p.max_decode_tokens = 40 * p.query_lens.back();
    p.max_size = 60;
    p.full_time.clear();
    p.piecewise_time.clear();
    p.sizes.clear();
    p.forced.clear();
    for (std::int64_t size = 0; size <= p.max_size; ++size) {
      p.full_time.push_back(100 + random.in(0, 5) * size);
      p.piecewise_time.push_back(150 + random.in(0, 5) * size);
      if (size > 0) p.sizes.push_back(size);
    }
    const SharedListDag dag(p);
    const Frontier one = solve_frontier(dag, 80, 1, {});
    for (const int threads : {2, 3, 7}) {
      const Frontier many = solve_frontier(dag, 80, threads, {});
      REQUIRE(many.points.size() == one.points.size());
      for (std::size_t k = 0; k < one.points.size(); ++k) {
        CHECK(many.points[k].time == one.points[k].time);
        CHECK(many.points[k].entries == one.points[k].entries);
      }
    }
  }
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

TEST_CASE("every solver passes on what its stop throws, and starts anew") {
  struct Abandoned {};
  SharedProblem p;
  p.query_lens = {1, 2, 3};
  p.max_num_seqs = p.max_decode_tokens = p.max_size = 40;
  for (std::int64_t size = 0; size <= 40; ++size) {
    p.full_time.push_back(100 + size);
    p.piecewise_time.push_back(150 + size);
    p.graph_bytes.push_back(5 + size % 7);
    p.graph_seconds.push_back(3 + size % 5);
    if (size > 0) p.sizes.push_back(size);
  }
  for (std::int64_t n = 1; n <= 13; ++n) {
    for (std::int64_t tier = 0; tier < 3; ++tier) {
      p.decode_tier.push_back(tier);
      p.decode_reqs.push_back(n);
      p.decode_weight.push_back(1 + n % 4);
      p.decode_eager.push_back(900);
      p.decode_required.push_back(0);
    }
  }
  const SharedListDag dag(p);
  std::vector<Ladder> ladders(2);
  for (Ladder& ladder : ladders) {
    ladder.weight = {0, 3, 1, 2, 4};
    ladder.cost = {0, 10, 11, 13, 20};
    ladder.eager_time = {0, 300, 100, 200, 400};
    ladder.graph_bytes = ladder.graph_seconds = {0, 5, 7, 6, 9};
  }
  const Resources limits{.graphs = 20, .bytes = 90, .seconds = 70};
  // Each is let go on a little further every time, until it ends by itself.
  const std::vector<std::function<void(const StopRequested&)>> solvers{
      [&](const StopRequested& stop) { (void)KeptDag(dag, 3, stop); },
      [&](const StopRequested& stop) { (void)least_to_go(dag, stop); },
      [&](const StopRequested& stop) { (void)solve_unlimited(dag, stop); },
      [&](const StopRequested& stop) {
        (void)solve_frontier(dag, 40, 3, stop);
      },
      [&](const StopRequested& stop) {
        (void)solve_roughly(dag, limits, stop);
      },
      [&](const StopRequested& stop) {
        (void)solve_labels(dag, limits, 100, stop);
      },
      [&](const StopRequested& stop) {
        (void)solve_ladders(ladders, 6, false, 2, stop);
      },
      [&](const StopRequested& stop) {
        (void)solve_ladders(ladders, 6, true, 2, stop);
      }};
  for (const auto& solver : solvers) {
    int abandoned = 0;
    for (int patience = 0;; patience += 1 + patience / 2) {
      int asked = 0;
      try {
        solver([&]() -> bool {
          if (asked++ >= patience) throw Abandoned{};
          return false;
        });
        break;
      } catch (const Abandoned&) {
        ++abandoned;
      }
    }
    CHECK(abandoned > 0);
  }
}

SharedProblem two_steps() {
  SharedProblem p;
  p.query_lens = {1};
  p.max_num_seqs = p.max_decode_tokens = p.max_size = 4;
  p.full_time = p.piecewise_time = {0, 10, 20, 30, 40};
  p.decode_tier = {0, 0};
  p.decode_reqs = {2, 4};
  p.decode_weight = {1, 1};
  p.decode_eager = {100, 100};
  p.decode_required = {0, 0};
  p.sizes = {2, 4};
  return p;
}

TEST_CASE("a solver stops when asked to") {
  SharedProblem p = two_steps();
  p.graph_bytes = {0, 1, 2, 3, 4};
  const SharedListDag dag(p);
  const StopRequested stop = [] { return true; };
  CHECK(solve_frontier(dag, 20, 2, stop).stopped);
  CHECK(solve_unlimited(dag, stop).stopped);
  CHECK(solve_labels(dag, {kNoLimit, 5, kNoLimit}, 10, stop).stopped);
  Ladder ladder;
  ladder.weight = {0, 1, 1};
  ladder.cost = {0, 10, 20};
  ladder.eager_time = {0, 100, 100};
  CHECK(solve_ladders({ladder, ladder}, 20, false, 1, stop).stopped);
}

TEST_CASE("prices alone give a plan within the limits and a true bound") {
  Random random(8);
  int found = 0;
  int proven = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    SharedProblem p = random_problem(random, random.one_in(2));
    price(random, p);
    const Resources limits{random.in(2, 30), random.one_in(3) ? kNoLimit : 80,
                           kNoLimit};
    const SharedListDag dag(p);
    const LabelResult best = solve_labels(dag, limits, 1000, {});
    // Stopped at once, and never.
    for (const StopRequested& stop :
         {StopRequested([] { return true; }), StopRequested()}) {
      for (const LabelResult& rough : {solve_roughly(dag, limits, stop),
                                       solve_labels(dag, limits, 1, stop)}) {
        if (!rough.found) continue;
        REQUIRE(best.found);
        ++found;
        proven += rough.bound == best.best.time ? 1 : 0;
        CHECK(within(rough.best.used, limits));
        CHECK(rough.best.time >= best.best.time);
        CHECK(rough.bound <= best.best.time);
        CHECK(run(p, rough.best.entries).time == rough.best.time);
      }
    }
  }
  CHECK(found > 500);
  CHECK(proven > 50);
}

TEST_CASE("a limit may depend on the largest entry") {
  // Sizes 2 and 4; a pool that leaves no room for a graph above 2.
  SharedProblem p = two_steps();
  p.graph_limits = {4, -1};
  const Frontier frontier = solve_frontier(SharedListDag(p), 4, 1, {});
  REQUIRE(frontier.points.size() == 2);
  CHECK(frontier.points[1].entries == List{2});
}

}  // namespace
}  // namespace specgrid
