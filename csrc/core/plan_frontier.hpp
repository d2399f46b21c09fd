// The best plan for every number of graphs, by the plain recurrence over
// (largest entry so far, graphs used). Exact for any costs: nothing is assumed
// about their shape.

#ifndef SPECGRID_CORE_PLAN_FRONTIER_HPP_
#define SPECGRID_CORE_PLAN_FRONTIER_HPP_

#include <cstdint>
#include <vector>

#include "core/plan_dag.hpp"

namespace specgrid {

struct FrontierPoint {
  std::int64_t time = 0;
  std::int64_t graphs = 0;
  std::vector<std::int64_t> entries;  // in path order
};

struct Frontier {
  // By strictly falling time and strictly rising number of graphs: the answer
  // for a budget is the last point within it. Empty: nothing fits.
  std::vector<FrontierPoint> points;
  bool stopped = false;  // the caller asked to; points are then meaningless
};

// Among plans of equal time: fewest graphs, then fewest entries, then the
// smaller largest entry, then the smaller next-largest, and so on. The result
// does not depend on num_threads.
[[nodiscard]] Frontier solve_frontier(const PlanDag& dag,
                                      std::int64_t budget_graphs,
                                      int num_threads,
                                      const StopRequested& stop);

// The best plan whatever it takes; one point, or none. Same ties.
[[nodiscard]] Frontier solve_unlimited(const PlanDag& dag,
                                       const StopRequested& stop);

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_FRONTIER_HPP_
