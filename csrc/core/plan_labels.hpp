// The best plan when graphs differ in bytes or seconds: label setting.
//
// With one price for every graph a budget in bytes is a budget in graphs, and
// plan_frontier answers. With prices by size the choice is a knapsack (weakly
// NP-hard), so labels are kept per node, dominated ones dropped, and those a
// Lagrangian bound rules out too. If a node would hold more than max_labels,
// the rest is dropped and the answer says how far from the best it can be.

#ifndef SPECGRID_CORE_PLAN_LABELS_HPP_
#define SPECGRID_CORE_PLAN_LABELS_HPP_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan_dag.hpp"

namespace specgrid {

inline constexpr std::int64_t kNoLimit =
    std::numeric_limits<std::int64_t>::max();

// What a plan uses, in the caller's units; kNoLimit where a limit is absent.
struct Resources {
  std::int64_t graphs = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;
};

struct LabelPoint {
  std::int64_t time = kNoPlan;
  Resources used;
  std::vector<std::int64_t> entries;
};

struct LabelResult {
  bool found = false;
  LabelPoint best;
  // No plan within the limits is faster than this; equal to best.time unless
  // labels were dropped.
  std::int64_t bound = kNoPlan;
  // Other plans met on the way, each the best for some price of the resources,
  // within the limits or not: the corners of the trade-off.
  std::vector<LabelPoint> corners;
  // The least of each resource any plan needs, taken alone.
  Resources least;
  // The caller asked to: `best` is then what was found so far, `bound` what was
  // proven so far.
  bool stopped = false;
};

[[nodiscard]] LabelResult solve_labels(const PlanDag& dag,
                                       const Resources& limits,
                                       std::size_t max_labels,
                                       const StopRequested& stop);

// A good plan within the limits and a bound, by prices alone: a fixed number of
// passes over the graph, each short. `found` may be false although there is
// one.
[[nodiscard]] LabelResult solve_roughly(const PlanDag& dag,
                                        const Resources& limits,
                                        const StopRequested& stop);

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_LABELS_HPP_
