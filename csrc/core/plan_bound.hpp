// Lower bounds by pricing resources: any prices give a bound that no plan
// within the limits can beat, and a path that may itself be within them.

#ifndef SPECGRID_CORE_PLAN_BOUND_HPP_
#define SPECGRID_CORE_PLAN_BOUND_HPP_

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan_dag.hpp"
#include "core/plan_labels.hpp"

namespace specgrid {

// Price of a graph, a byte unit and a second unit, in time.
using Prices = std::array<double, 3>;

[[nodiscard]] double priced(const Prices& prices, const Resources& used);
[[nodiscard]] bool within(const Resources& used, const Resources& limits);

// The path of least time + prices x resources. Its value minus prices x limits
// is the bound. `time` is kNoPlan where there is no path at all.
[[nodiscard]] LabelPoint cheapest_path(const PlanDag& dag, const Prices& prices,
                                       const StopRequested& stop);

// From each node to the end: least time + prices x resources.
[[nodiscard]] std::vector<double> priced_to_go(const PlanDag& dag,
                                               const Prices& prices,
                                               const StopRequested& stop);

// From each node to the end: the least of each resource, taken alone.
[[nodiscard]] std::vector<Resources> least_to_go(const PlanDag& dag,
                                                 const StopRequested& stop);

struct PriceSearch {
  Prices prices{};   // of the best bound
  double bound = 0;  // no plan within the limits is faster
  LabelPoint best;   // fastest path met within the limits, if any
  std::vector<LabelPoint> corners;  // every distinct path met
  bool stopped = false;
};

[[nodiscard]] PriceSearch search_prices(const PlanDag& dag,
                                        const Resources& limits,
                                        const StopRequested& stop);

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_BOUND_HPP_
