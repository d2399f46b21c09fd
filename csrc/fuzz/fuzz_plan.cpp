// Small planning problems, against every possible plan: each budget's best, the
// best under bytes and seconds, and a bound that is never above it.
#include <cstdint>
#include <vector>

#include "core/plan_bound.hpp"
#include "core/plan_frontier.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_merge.hpp"
#include "fuzz/input.hpp"
#include "tests/every_plan.hpp"

namespace specgrid::fuzz {
namespace {

using namespace every_plan;  // NOLINT: the model this file compares with

std::int64_t limit(Input& input, std::int64_t most) {
  return input.one_in(3) ? kNoLimit : input.in(0, most);
}

// Best times by number of graphs, and the best within other limits.
struct Best {
  std::vector<std::int64_t> time;
  std::int64_t within_limits = kNoPlan;

  void add(const Outcome& o, const Resources& limits) {
    const auto at = static_cast<std::size_t>(o.graphs);
    if (at >= time.size()) time.resize(at + 1, kNoPlan);
    time[at] = std::min(time[at], o.time);
    if (o.graphs <= limits.graphs && o.bytes <= limits.bytes &&
        o.seconds <= limits.seconds) {
      within_limits = std::min(within_limits, o.time);
    }
  }
};

void check_frontier(const Best& best, const Frontier& frontier,
                    std::int64_t budget) {
  expect(!frontier.stopped, "nobody asked to stop");
  std::int64_t reached = kNoPlan;
  std::size_t at = 0;
  for (std::size_t g = 0; g < best.time.size(); ++g) {
    if (static_cast<std::int64_t>(g) > budget) break;
    if (best.time[g] >= reached) continue;
    reached = best.time[g];
    expect(at < frontier.points.size(), "every step of the frontier");
    expect(frontier.points[at].time == reached, "its time");
    expect(frontier.points[at].graphs == static_cast<std::int64_t>(g),
           "its graphs");
    ++at;
  }
  expect(frontier.points.size() == at, "and no more");
}

void check_labels(const Best& best, const PlanDag& dag, const Resources& limits,
                  std::size_t max_labels) {
  const LabelResult result = solve_labels(dag, limits, max_labels, {});
  if (max_labels >= 1000) {
    expect(result.found == (best.within_limits < kNoPlan), "found if there");
  }
  if (!result.found) return;
  expect(within(result.best.used, limits), "within the limits");
  expect(result.best.time >= best.within_limits, "no better than the best");
  expect(result.bound <= best.within_limits, "a bound");
  if (max_labels >= 1000) {
    expect(result.best.time == best.within_limits, "the best");
    expect(result.bound == best.within_limits, "proven");
  }
}

void check_shared(Input& input) {
  SharedProblem p = random_problem(input, input.one_in(2));
  if (p.sizes.size() > 8) p.sizes.resize(8);
  std::erase_if(p.forced,
                [&](std::int64_t size) { return size > p.sizes.back(); });
  const bool priced = input.one_in(2);
  if (priced) price(input, p);
  const Resources limits{limit(input, 30), limit(input, 120), limit(input, 60)};
  Best best;
  for (const List& list : subsets(p.sizes)) {
    const Outcome outcome = run(p, list);
    if (outcome.kept_promises) best.add(outcome, limits);
  }
  const SharedListDag dag(p);
  const std::int64_t budget = input.in(0, 30);
  const Frontier frontier =
      solve_frontier(dag, budget, static_cast<int>(input.in(1, 2)), {});
  check_frontier(best, frontier, budget);
  const KeptDag kept(dag, 2, {});
  check_frontier(best, solve_frontier(kept, budget, 1, {}), budget);
  for (const FrontierPoint& point : frontier.points) {
    const Outcome outcome = run(p, point.entries);
    expect(outcome.kept_promises && outcome.time == point.time &&
               outcome.graphs == point.graphs,
           "a point's list is worth what the point says");
  }
  if (priced) {
    check_labels(best, dag, limits, 1000);
    check_labels(best, dag, limits, 1);
  }
}

void check_ladders(Input& input) {
  std::vector<Ladder> ladders;
  const std::int64_t count = input.in(1, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    ladders.push_back(random_ladder(input, count == 1 ? 8 : 3));
  }
  const Resources limits{limit(input, 20), limit(input, 80), limit(input, 40)};
  Best best;
  for (const auto& [outcome, entries] : every_choice(ladders)) {
    best.add(outcome, limits);
  }
  const std::int64_t budget = input.in(0, 25);
  const Frontier hull = solve_ladders(ladders, budget, false, 2, {});
  const Frontier plain = solve_ladders(ladders, budget, true, 1, {});
  check_frontier(best, hull, budget);
  check_frontier(best, plain, budget);
  for (std::size_t i = 0; i < plain.points.size(); ++i) {
    expect(plain.points[i].entries == hull.points[i].entries, "same entries");
  }
  const LadderDag dag(ladders);
  check_frontier(best, solve_frontier(dag, budget, 1, {}), budget);
  check_labels(best, dag, limits, 1000);
}

void run_one(Input& input) {
  if (input.one_in(2)) {
    check_shared(input);
  } else {
    check_ladders(input);
  }
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  specgrid::fuzz::run_one(input);
  return 0;
}
