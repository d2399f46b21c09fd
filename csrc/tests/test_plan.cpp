// The planner against every possible choice (every_plan.hpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan_bound.hpp"
#include "core/plan_dag.hpp"
#include "core/plan_frontier.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_ladder.hpp"
#include "core/plan_merge.hpp"
#include "core/plan_shared.hpp"
#include "tests/every_plan.hpp"
#include "tests/with_groups.hpp"

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

// ---- edges of the solvers
// ----------------------------------------------------------

// A graph drawn by hand: arcs by the node they end in, entries by node.
class DrawnDag final : public PlanDag {
 public:
  DrawnDag(std::vector<std::int64_t> entries, std::vector<std::vector<Arc>> in)
      : entries_(std::move(entries)), in_(std::move(in)) {
    starts_.push_back(num_nodes() - 1);
  }
  [[nodiscard]] std::int32_t num_nodes() const override {
    return static_cast<std::int32_t>(in_.size());
  }
  [[nodiscard]] std::span<const Arc> arcs_into(
      std::int32_t node, std::vector<Arc>& /*scratch*/) const override {
    return in_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] const std::vector<std::int32_t>& group_starts() const override {
    return starts_;
  }
  [[nodiscard]] std::int32_t graph_limit(std::int32_t) const override {
    return 1000;
  }
  [[nodiscard]] std::int64_t entry(std::int32_t node) const override {
    return entries_[static_cast<std::size_t>(node)];
  }

 private:
  std::vector<std::int64_t> entries_;
  std::vector<std::vector<Arc>> in_;
  std::vector<std::int32_t> starts_;
};

TEST_CASE("of plans equal in time and graphs the one of fewer entries wins") {
  // 10, 20, 40 and 30, 40 both take 11 and two graphs; the longer comes first.
  const DrawnDag dag({kNoEntry, 10, 20, 30, 40, kNoEntry},
                     {{},
                      {{.from = 0, .graphs = 1, .time = 5}},
                      {{.from = 1, .graphs = 1, .time = 5}},
                      {{.from = 0, .graphs = 2, .time = 10}},
                      {{.from = 2, .time = 1}, {.from = 3, .time = 1}},
                      {{.from = 4}}});
  for (const Frontier& found :
       {solve_frontier(dag, 9, 1, {}), solve_unlimited(dag, {})}) {
    REQUIRE(found.points.size() == 1);
    CHECK(found.points[0].time == 11);
    CHECK(found.points[0].graphs == 2);
    CHECK(found.points[0].entries == List{30, 40});
  }
}

TEST_CASE("graphs of the last arc count against the budget") {
  const DrawnDag dag(
      {kNoEntry, 7, kNoEntry},
      {{},
       {{.from = 0, .graphs = 1, .time = 10}},
       {{.from = 0, .time = 100}, {.from = 1, .graphs = 2, .time = 1}}});
  CHECK(solve_frontier(dag, 2, 1, {}).points.size() == 1);
  const Frontier found = solve_frontier(dag, 3, 1, {});
  REQUIRE(found.points.size() == 2);
  CHECK(found.points[0].time == 100);
  CHECK(found.points[0].graphs == 0);
  CHECK(found.points[1].time == 11);
  CHECK(found.points[1].graphs == 3);
  CHECK(found.points[1].entries == List{7});
}

TEST_CASE("a plan lost with dropped labels is not said to be impossible") {
  // The fast start leads nowhere, which only its two ends together show; the
  // slow one fits, and costs too much for any price to find it.
  const DrawnDag dag({kNoEntry, 7, kNoEntry},
                     {{},
                      {{.from = 0, .bytes = 10, .seconds = 5, .time = 1},
                       {.from = 0, .bytes = 4, .seconds = 4, .time = 100'000}},
                      {{.from = 1, .bytes = 6}, {.from = 1, .seconds = 6}}});
  const Resources limits{kNoLimit, 10, 10};
  const LabelResult enough = solve_labels(dag, limits, 2, {});
  REQUIRE(enough.found);
  CHECK(enough.best.time == 100'000);
  CHECK(enough.bound == 100'000);
  CHECK(enough.best.used.bytes + enough.best.used.seconds == 14);
  const LabelResult starved = solve_labels(dag, limits, 1, {});
  CHECK_FALSE(starved.found);
  CHECK(starved.bound > 1);
  CHECK(starved.bound <= 100'000);
  CHECK_FALSE(solve_roughly(dag, limits, {}).found);
  // Where no label was dropped, nothing can be.
  const LabelResult none = solve_labels(dag, {kNoLimit, 9, 9}, 2, {});
  CHECK_FALSE(none.found);
  CHECK(none.bound == kNoPlan);
}

// Answers yes from its n-th question on.
struct Patience {
  int left;
  int asked = 0;
  [[nodiscard]] StopRequested stop() {
    return [this] { return ++asked > left; };
  }
};

TEST_CASE("the frontier may be stopped at every question, and asks each node") {
  const SharedProblem p = with_groups(4);
  const SharedListDag dag(p);
  REQUIRE(dag.group_starts().size() > 2);
  constexpr std::int64_t kBudget = 30;
  const Frontier whole = solve_frontier(dag, kBudget, 1, {});
  for (const int threads : {1, 3}) {
    Patience endless{1 << 30};
    const Frontier again =
        solve_frontier(dag, kBudget, threads, endless.stop());
    CHECK_FALSE(again.stopped);
    CHECK(again.points.size() == whole.points.size());
    // Once for every budget at least; alone, for every node but the ends too.
    CHECK(endless.asked > kBudget);
    if (threads == 1) CHECK(endless.asked > kBudget + dag.num_nodes() - 2);
    for (int n = 0; n <= kBudget; ++n) {
      Patience patience{n};
      CHECK(solve_frontier(dag, kBudget, threads, patience.stop()).stopped);
    }
  }
  for (int n = 0; n < dag.num_nodes() + kBudget - 1; ++n) {
    Patience patience{n};
    CHECK(solve_frontier(dag, kBudget, 1, patience.stop()).stopped);
    CHECK(patience.asked < n + dag.num_nodes());
  }
  for (int n = 0; n < dag.num_nodes() - 1; ++n) {
    Patience patience{n};
    CHECK(solve_unlimited(dag, patience.stop()).stopped);
    CHECK(patience.asked == n + 1);
  }
}

TEST_CASE("labels stopped at a question keep a true bound and a plan") {
  const SharedProblem p = with_groups(4);
  const SharedListDag dag(p);
  const Resources limits{9, 12, 8};
  const LabelResult best = solve_labels(dag, limits, 1000, {});
  REQUIRE(best.found);
  CHECK(best.bound == best.best.time);
  for (const bool roughly : {false, true}) {
    int stops = 0;
    int plans = 0;
    for (int n = 0;; n += 1 + n / 8) {
      Patience patience{n};
      const LabelResult early =
          roughly ? solve_roughly(dag, limits, patience.stop())
                  : solve_labels(dag, limits, 1000, patience.stop());
      CHECK(early.stopped == (patience.asked > n));
      if (early.found) {
        CHECK(within(early.best.used, limits));
        CHECK(early.best.time >= best.best.time);
        CHECK(early.bound <= best.best.time);
        CHECK(run(p, early.best.entries).time == early.best.time);
      }
      if (!early.stopped) {
        REQUIRE(early.found);
        if (!roughly) CHECK(early.best.time == best.best.time);
        break;
      }
      ++stops;
      plans += early.found ? 1 : 0;
    }
    CHECK(stops > 15);
    CHECK(plans > 10);
  }
}

TEST_CASE("ladders may be stopped before any row of any of them") {
  Ladder ladder;
  ladder.weight = {0, 3, 1, 2};
  ladder.cost = {0, 10, 30, 20};
  ladder.eager_time = {0, 300, 100, 200};
  const std::vector<Ladder> ladders{ladder, ladder};
  const Frontier whole = solve_ladders(ladders, 12, false, 1, {});
  for (const bool plain : {false, true}) {
    for (int n = 0;; ++n) {
      Patience patience{n};
      const Frontier found =
          solve_ladders(ladders, 12, plain, 1, patience.stop());
      CHECK(found.stopped == (patience.asked > n));
      if (found.stopped) {
        CHECK(found.points.empty());
        continue;
      }
      CHECK(n > 6);  // every number of entries of each, and their merging
      CHECK(found.points.size() == whole.points.size());
      break;
    }
  }
}

TEST_CASE("without limits ladders in a row give the largest budget's plan") {
  Random random(10);
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const std::vector<Ladder> ladders{random_ladder(random, 5),
                                      random_ladder(random, 5)};
    const Frontier merged = solve_ladders(ladders, 40, false, 1, {});
    const Frontier path = solve_unlimited(LadderDag(ladders), {});
    REQUIRE(path.points.size() == (merged.points.empty() ? 0 : 1));
    if (merged.points.empty()) continue;
    CHECK(path.points[0].time == merged.points.back().time);
    CHECK(path.points[0].graphs == merged.points.back().graphs);
    const LadderDag dag(ladders);
    std::vector<Arc> scratch;
    CHECK(dag.arcs_into(0, scratch).empty());
  }
}

TEST_CASE("a ladder that must reach further than it can has no plan") {
  Ladder ladder;
  ladder.weight = {0, 1, 1};
  ladder.cost = {0, 10, 20};
  ladder.eager_time = {0, 100, 100};
  const auto points = [&] {
    const std::vector<Ladder> ladders{ladder};
    const std::size_t found =
        solve_ladders(ladders, 5, false, 1, {}).points.size();
    CHECK(solve_ladders(ladders, 5, true, 1, {}).points.size() == found);
    CHECK(solve_frontier(LadderDag(ladders), 5, 1, {}).points.size() == found);
    CHECK(solve_unlimited(LadderDag(ladders), {}).points.empty() ==
          (found == 0));
    // Ladders without prices, limited in graphs alone.
    const LabelResult label =
        solve_labels(LadderDag(ladders), {1, kNoLimit, kNoLimit}, 9, {});
    CHECK(label.found == (found != 0));
    if (label.found) {
      CHECK(label.best.time == 40);
      CHECK(label.best.used.bytes == 0);
    }
    return found;
  };
  CHECK(points() == 3);  // none, the upper one, both
  ladder.must_reach = 2;
  CHECK(points() == 2);
  ladder.must_reach = 3;
  CHECK(points() == 0);
}

TEST_CASE("a list for steps of no query length equals trying every list") {
  Random random(11);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    SharedProblem p = random_problem(random, random.one_in(2));
    p.query_lens.clear();
    for (auto* column : {&p.decode_tier, &p.decode_reqs, &p.decode_weight,
                         &p.decode_eager, &p.decode_required}) {
      column->clear();
    }
    check_frontier(p, random);
  }
}

TEST_CASE("of equal sets the last ladder has fewest entries, then the others") {
  Random random(12);
  int ties = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    // Few distinct numbers, so that many sets are equal.
    std::vector<Ladder> ladders;
    for (int which = 0; which < 3; ++which) {
      Ladder ladder = random_ladder(random, 3);
      for (std::size_t n = 1; n < ladder.weight.size(); ++n) {
        ladder.weight[n] = random.in(0, 1);
        ladder.cost[n] = 10;
        ladder.eager_time[n] = 20 * ladder.weight[n];
      }
      ladders.push_back(ladder);
    }
    // By entries in the last ladder, in the one before, and then by the
    // entries themselves, from the largest down.
    using Key = std::tuple<std::int64_t, std::vector<std::size_t>, List>;
    std::map<std::int64_t, Key> best;  // by graphs
    for (const auto& [outcome, entries] : every_choice(ladders)) {
      std::vector<std::size_t> counts(ladders.size());
      for (const std::int64_t entry : entries) {
        ++counts[ladders.size() - 1 - static_cast<std::size_t>(entry >> 32)];
      }
      List down(entries.rbegin(), entries.rend());
      const Key key{outcome.time, counts, down};
      const auto [at, first] = best.try_emplace(outcome.graphs, key);
      if (first) continue;
      ties += std::get<0>(at->second) == outcome.time ? 1 : 0;
      at->second = std::min(at->second, key);
    }
    const Frontier found = solve_ladders(ladders, 30, i % 2 == 0, 1, {});
    std::size_t point = 0;
    std::int64_t reached = kNoPlan;
    for (const auto& [graphs, key] : best) {
      if (std::get<0>(key) >= reached) continue;
      reached = std::get<0>(key);
      REQUIRE(point < found.points.size());
      CHECK(found.points[point].graphs == graphs);
      CHECK(found.points[point].time == reached);
      List down = found.points[point].entries;
      std::reverse(down.begin(), down.end());
      CHECK(down == std::get<2>(key));
      ++point;
    }
    CHECK(point == found.points.size());
  }
  CHECK(ties > 1000);
}

TEST_CASE("kept arcs are the graph's own, few or too many to keep") {
  const SharedProblem p = with_groups(4);
  const SharedListDag dag(p);
  for (const std::size_t most :
       {std::size_t{0}, std::size_t{5}, kMaxKeptArcs}) {
    CAPTURE(most);
    const KeptDag kept(dag, 2, {}, most);
    REQUIRE(kept.num_nodes() == dag.num_nodes());
    CHECK(kept.group_starts() == dag.group_starts());
    std::vector<Arc> a;
    std::vector<Arc> b;
    for (std::int32_t node = 0; node < dag.num_nodes(); ++node) {
      CHECK(kept.entry(node) == dag.entry(node));
      CHECK(kept.graph_limit(node) == dag.graph_limit(node));
      const auto one = kept.arcs_into(node, a);
      const auto other = dag.arcs_into(node, b);
      CHECK(std::ranges::equal(one, other, [](const Arc& x, const Arc& y) {
        return x.from == y.from && x.time == y.time && x.graphs == y.graphs &&
               x.bytes == y.bytes && x.seconds == y.seconds;
      }));
    }
  }
}

}  // namespace
}  // namespace specgrid
