// Budgets whose price depends on the size: labels with dominance.
#include "core/plan_labels.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/plan_bound.hpp"

namespace specgrid {
namespace {

// More labels than this at one node are thinned out while they are collected:
// memory stays small, and no sort takes long.
constexpr std::size_t kMaxFound = std::size_t{1} << 17;
// Labels looked at between two questions whether to go on.
constexpr std::size_t kMaxTried = std::size_t{1} << 16;

struct Label {
  std::int64_t time = 0;
  Resources used;
  std::int32_t entries = 0;
  std::int32_t from = 0;  // node
  std::int64_t from_entry = kNoEntry;
  std::uint32_t from_label = 0;  // label at that node
  double bound = 0;              // of any plan that goes on from here
};

bool comes_first(const Label& x, const Label& y) {
  auto key = [](const Label& l) {
    return std::tuple(l.time, l.used.graphs, l.used.bytes, l.used.seconds,
                      l.entries, l.from_entry);
  };
  return key(x) < key(y);
}

// Keeps the labels no other beats in time and every limited resource. They are
// taken by rising time, so a kept one is never slower.
class Dominance {
 public:
  explicit Dominance(const Resources& limits)
      : graphs_(limits.graphs != kNoLimit),
        bytes_(limits.bytes != kNoLimit),
        seconds_(limits.seconds != kNoLimit) {}

  void drop_dominated(std::vector<Label>& labels,
                      const StopRequested& stop) const {
    std::sort(labels.begin(), labels.end(), comes_first);
    std::vector<Label> kept;
    if (graphs_ && bytes_ && seconds_) {
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const Label& label = labels[i];
        if (i % 1024 == 1023) ask(stop);
        const bool dominated =
            std::any_of(kept.begin(), kept.end(), [&](const Label& k) {
              return k.used.graphs <= label.used.graphs &&
                     k.used.bytes <= label.used.bytes &&
                     k.used.seconds <= label.used.seconds;
            });
        if (!dominated) kept.push_back(label);
      }
    } else {
      // At most two resources count: kept labels' amounts form a staircase, the
      // second falling while the first rises.
      std::map<std::int64_t, std::int64_t> stairs;
      for (const Label& label : labels) {
        const auto [first, second] = amounts(label.used);
        auto above = stairs.upper_bound(first);
        if (above != stairs.begin() && std::prev(above)->second <= second) {
          continue;
        }
        while (above != stairs.end() && above->second >= second) {
          above = stairs.erase(above);
        }
        stairs[first] = second;
        kept.push_back(label);
      }
    }
    labels = std::move(kept);
  }

 private:
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> amounts(
      const Resources& used) const {
    if (!bytes_)
      return {graphs_ ? used.graphs : 0, seconds_ ? used.seconds : 0};
    if (graphs_) return {used.graphs, used.bytes};
    return {used.bytes, seconds_ ? used.seconds : 0};
  }

  bool graphs_;
  bool bytes_;
  bool seconds_;
};

// What the prices alone found and proved.
LabelResult rough_result(const PriceSearch& search, const Resources& least) {
  LabelResult result;
  result.corners = search.corners;
  result.least = least;
  result.stopped = search.stopped;
  if (search.best.time >= kNoPlan) return result;
  result.found = true;
  result.best = search.best;
  // A hair's breadth below, as the bound is a sum of rounded products.
  const double bound = std::max(search.bound, 0.0);
  result.bound = std::min(static_cast<std::int64_t>(bound - 1e-9 * bound - 1.0),
                          search.best.time);
  result.bound = std::max<std::int64_t>(result.bound, 0);
  return result;
}

}  // namespace

LabelResult solve_roughly(const PlanDag& dag, const Resources& limits,
                          const StopRequested& stop) {
  const Resources least = least_to_go(dag, stop).front();
  return rough_result(search_prices(dag, limits, stop), least);
}

LabelResult solve_labels(const PlanDag& dag, const Resources& limits,
                         std::size_t max_labels, const StopRequested& stop) {
  const std::vector<Resources> least = least_to_go(dag, stop);
  PriceSearch search = search_prices(dag, limits, stop);
  LabelResult result = rough_result(search, least.front());
  if (result.stopped || !within(least.front(), limits) ||
      search.bound == -std::numeric_limits<double>::infinity()) {
    return result;
  }
  result.found = false;
  result.best = {};
  result.bound = kNoPlan;

  const std::vector<double> to_go = priced_to_go(dag, search.prices, stop);
  const double credit = priced(search.prices, limits);
  // Bounds are floating point; a hair's breadth keeps ties and rounding in.
  auto ceiling = [&](std::int64_t time) {
    const auto value = static_cast<double>(time);
    return value + 1e-9 * value + 1.0;
  };
  double most = search.best.time < kNoPlan
                    ? ceiling(search.best.time)
                    : std::numeric_limits<double>::infinity();
  double least_dropped = std::numeric_limits<double>::infinity();

  const auto num_nodes = static_cast<std::size_t>(dag.num_nodes());
  std::vector<std::vector<Label>> labels(num_nodes);
  labels[0].emplace_back();
  const Dominance dominance(limits);
  std::vector<Label> found;
  std::vector<Arc> scratch;
  for (std::int32_t node = 1; node < dag.num_nodes(); ++node) {
    if (stop && stop()) {
      result = rough_result(search, least.front());
      result.stopped = true;
      return result;
    }
    const auto at = static_cast<std::size_t>(node);
    found.clear();
    const std::int32_t counted = dag.entry(node) == kNoEntry ? 0 : 1;
    std::size_t room = kMaxFound;
    std::size_t tried = 0;
    for (const Arc& arc : dag.arcs_into(node, scratch)) {
      if (tried > kMaxTried) {
        ask(stop);
        tried = 0;
      }
      if (found.size() > room) {
        // What one label beats, no later one brings back.
        dominance.drop_dominated(found, stop);
        room = std::max(kMaxFound, 2 * found.size());
      }
      const std::vector<Label>& below =
          labels[static_cast<std::size_t>(arc.from)];
      tried += below.size();
      const std::int64_t from_entry = dag.entry(arc.from);
      for (std::size_t i = 0; i < below.size(); ++i) {
        Label next = below[i];
        next.time += arc.time;
        next.used.graphs += arc.graphs;
        next.used.bytes += arc.bytes;
        next.used.seconds += arc.seconds;
        const Resources reach{next.used.graphs + least[at].graphs,
                              next.used.bytes + least[at].bytes,
                              next.used.seconds + least[at].seconds};
        if (!within(reach, limits)) continue;
        next.bound = static_cast<double>(next.time) +
                     priced(search.prices, next.used) + to_go[at] - credit;
        if (next.bound > most) continue;
        next.entries += counted;
        next.from = arc.from;
        next.from_entry = from_entry;
        next.from_label = static_cast<std::uint32_t>(i);
        found.push_back(next);
      }
    }
    dominance.drop_dominated(found, stop);
    if (found.size() > max_labels) {
      auto better = [](const Label& x, const Label& y) {
        return std::tuple(x.bound, x.time) < std::tuple(y.bound, y.time);
      };
      std::sort(found.begin(), found.end(), better);
      least_dropped = std::min(least_dropped, found[max_labels].bound);
      found.resize(max_labels);
      std::sort(found.begin(), found.end(), comes_first);
    }
    labels[at] = found;
  }

  const std::vector<Label>& last = labels.back();
  if (!last.empty() && last.front().time <= search.best.time) {
    const Label* label = &last.front();
    result.best.time = label->time;
    result.best.used = label->used;
    while (label->from != 0) {
      const std::int64_t entry = dag.entry(label->from);
      if (entry != kNoEntry) result.best.entries.push_back(entry);
      label = &labels[static_cast<std::size_t>(label->from)][label->from_label];
    }
    std::reverse(result.best.entries.begin(), result.best.entries.end());
    result.found = true;
  } else if (search.best.time < kNoPlan) {
    result.best = search.best;
    result.found = true;
  }
  if (!result.found) {
    // Nothing within the limits, unless a dropped label led there.
    if (least_dropped != std::numeric_limits<double>::infinity()) {
      result.bound = static_cast<std::int64_t>(least_dropped);
    }
    return result;
  }
  result.bound = result.best.time;
  if (least_dropped < static_cast<double>(result.best.time)) {
    result.bound = static_cast<std::int64_t>(
        std::max(std::max(least_dropped, search.bound), 0.0));
  }
  return result;
}

}  // namespace specgrid
