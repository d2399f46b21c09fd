// Ladders that share a budget and nothing else, joined by (min,+) convolution:
// exact for any curves, convex or not.

#ifndef SPECGRID_CORE_PLAN_MERGE_HPP_
#define SPECGRID_CORE_PLAN_MERGE_HPP_

#include <cstdint>
#include <vector>

#include "core/plan_frontier.hpp"
#include "core/plan_ladder.hpp"

namespace specgrid {

// The best set of graphs for every budget up to budget_graphs. Points' entries
// are ladder * 2^32 + index, ladder by ladder. `plain` solves each ladder by
// the plain recurrence instead of the hull. Among sets of equal time: fewest
// graphs, then fewest entries in the last ladder, in the one before, and so on.
[[nodiscard]] Frontier solve_ladders(const std::vector<Ladder>& ladders,
                                     std::int64_t budget_graphs, bool plain,
                                     int num_threads,
                                     const StopRequested& stop);

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_MERGE_HPP_
