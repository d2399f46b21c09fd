// Bounds on what any plan can reach. See plan_bound.hpp.
#include "core/plan_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace specgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double arc_price(const Prices& prices, const Arc& arc) {
  return static_cast<double>(arc.time) +
         prices[0] * static_cast<double>(arc.graphs) +
         prices[1] * static_cast<double>(arc.bytes) +
         prices[2] * static_cast<double>(arc.seconds);
}

}  // namespace

double priced(const Prices& prices, const Resources& used) {
  double sum = 0;
  // A price is positive only where there is a limit.
  if (prices[0] > 0) sum += prices[0] * static_cast<double>(used.graphs);
  if (prices[1] > 0) sum += prices[1] * static_cast<double>(used.bytes);
  if (prices[2] > 0) sum += prices[2] * static_cast<double>(used.seconds);
  return sum;
}

bool within(const Resources& used, const Resources& limits) {
  return used.graphs <= limits.graphs && used.bytes <= limits.bytes &&
         used.seconds <= limits.seconds;
}

LabelPoint cheapest_path(const PlanDag& dag, const Prices& prices,
                         const StopRequested& stop) {
  std::vector<Arc> scratch;
  const auto num = static_cast<std::size_t>(dag.num_nodes());
  std::vector<double> best(num, kInfinity);
  std::vector<Arc> by(num);
  best[0] = 0;
  for (std::int32_t node = 1; node < dag.num_nodes(); ++node) {
    ask(stop);
    const auto at = static_cast<std::size_t>(node);
    for (const Arc& arc : dag.arcs_into(node, scratch)) {
      const double value =
          best[static_cast<std::size_t>(arc.from)] + arc_price(prices, arc);
      if (value < best[at]) {
        best[at] = value;
        by[at] = arc;
      }
    }
  }
  LabelPoint point;
  if (best.back() == kInfinity) return point;
  point.time = 0;
  for (std::int32_t node = dag.num_nodes() - 1; node != 0;) {
    const Arc& arc = by[static_cast<std::size_t>(node)];
    const std::int64_t entry = dag.entry(node);
    if (entry != kNoEntry) point.entries.push_back(entry);
    point.time += arc.time;
    point.used.graphs += arc.graphs;
    point.used.bytes += arc.bytes;
    point.used.seconds += arc.seconds;
    node = arc.from;
  }
  std::reverse(point.entries.begin(), point.entries.end());
  return point;
}

std::vector<double> priced_to_go(const PlanDag& dag, const Prices& prices,
                                 const StopRequested& stop) {
  std::vector<Arc> scratch;
  std::vector<double> to_go(static_cast<std::size_t>(dag.num_nodes()),
                            kInfinity);
  to_go.back() = 0;
  for (std::int32_t node = dag.num_nodes() - 1; node > 0; --node) {
    ask(stop);
    const double rest = to_go[static_cast<std::size_t>(node)];
    if (rest == kInfinity) continue;
    for (const Arc& arc : dag.arcs_into(node, scratch)) {
      double& there = to_go[static_cast<std::size_t>(arc.from)];
      there = std::min(there, rest + arc_price(prices, arc));
    }
  }
  return to_go;
}

std::vector<Resources> least_to_go(const PlanDag& dag,
                                   const StopRequested& stop) {
  std::vector<Arc> scratch;
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  std::vector<Resources> to_go(static_cast<std::size_t>(dag.num_nodes()),
                               {kFar, kFar, kFar});
  to_go.back() = {};
  for (std::int32_t node = dag.num_nodes() - 1; node > 0; --node) {
    ask(stop);
    const Resources rest = to_go[static_cast<std::size_t>(node)];
    if (rest.graphs >= kFar) continue;
    for (const Arc& arc : dag.arcs_into(node, scratch)) {
      Resources& there = to_go[static_cast<std::size_t>(arc.from)];
      there.graphs = std::min(there.graphs, rest.graphs + arc.graphs);
      there.bytes = std::min(there.bytes, rest.bytes + arc.bytes);
      there.seconds = std::min(there.seconds, rest.seconds + arc.seconds);
    }
  }
  return to_go;
}

PriceSearch search_prices(const PlanDag& dag, const Resources& limits,
                          const StopRequested& stop) {
  PriceSearch search;
  search.bound = -kInfinity;
  const std::array<std::int64_t, 3> limit{limits.graphs, limits.bytes,
                                          limits.seconds};
  auto used_of = [](const LabelPoint& point) {
    return std::array<double, 3>{static_cast<double>(point.used.graphs),
                                 static_cast<double>(point.used.bytes),
                                 static_cast<double>(point.used.seconds)};
  };
  // One trial: the path for these prices, its bound, and what it teaches.
  auto attempt = [&](const Prices& prices) {
    LabelPoint point = cheapest_path(dag, prices, stop);
    if (point.time >= kNoPlan) return point;
    const double bound = static_cast<double>(point.time) +
                         priced(prices, point.used) - priced(prices, limits);
    if (bound > search.bound) {
      search.bound = bound;
      search.prices = prices;
    }
    if (within(point.used, limits) && point.time < search.best.time) {
      search.best = point;
    }
    const bool known = std::any_of(
        search.corners.begin(), search.corners.end(),
        [&](const LabelPoint& p) { return p.entries == point.entries; });
    if (!known) search.corners.push_back(point);
    return point;
  };

  const LabelPoint free = attempt({});
  if (free.time >= kNoPlan || within(free.used, limits)) return search;

  // A price that pays one whole limit with the whole time is a natural unit.
  const double time_scale = std::max(static_cast<double>(free.time), 1.0);
  std::array<double, 3> unit{};
  for (std::size_t r = 0; r < 3; ++r) {
    if (limit[r] == kNoLimit) continue;
    unit[r] = time_scale / std::max(static_cast<double>(limit[r]), 1.0);
  }
  auto attempt_at = [&](int exponent) {
    Prices prices{};
    for (std::size_t r = 0; r < 3; ++r)
      prices[r] = std::ldexp(unit[r], exponent);
    return attempt(prices);
  };
  // The highest price finds something within the limits, if only that; halving
  // then comes near the best price in few passes, should there be time for few.
  constexpr int kHighest = 8;
  constexpr int kLowest = -24;
  attempt_at(kHighest);
  for (int low = kLowest, high = kHighest; high - low > 1;) {
    if (stop && stop()) {
      search.stopped = true;
      return search;
    }
    const int middle = low + (high - low) / 2;
    (within(attempt_at(middle).used, limits) ? high : low) = middle;
  }
  for (int exponent = kLowest; exponent < kHighest; ++exponent) {
    if (stop && stop()) {
      search.stopped = true;
      return search;
    }
    attempt_at(exponent);
  }
  // Subgradient steps from the best of them: raise the price of what is
  // overspent, lower that of what is left over.
  Prices prices = search.prices;
  double stride = 1.0;
  for (int step = 0; step < 60; ++step) {
    if (stop && stop()) {
      search.stopped = true;
      return search;
    }
    const double before = search.bound;
    const LabelPoint point = attempt(prices);
    if (search.bound <= before) stride *= 0.8;
    const auto used = used_of(point);
    std::array<double, 3> excess{};
    double norm = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      if (limit[r] == kNoLimit) continue;
      excess[r] = (used[r] - static_cast<double>(limit[r])) * unit[r];
      norm += excess[r] * excess[r];
    }
    if (norm == 0) break;
    const double target = search.best.time < kNoPlan
                              ? static_cast<double>(search.best.time)
                              : search.bound + 0.05 * time_scale;
    const double length = stride * std::max(target - search.bound, 0.0) / norm;
    if (length == 0) break;
    for (std::size_t r = 0; r < 3; ++r) {
      prices[r] = std::max(0.0, prices[r] + length * excess[r] * unit[r]);
    }
  }
  return search;
}

}  // namespace specgrid
