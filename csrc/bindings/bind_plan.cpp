// Capture planning: arrays in, problems held in the core's own form, arrays
// out.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "bindings/interruptible.hpp"
#include "core/plan_bound.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_merge.hpp"
#include "core/plan_shared.hpp"

namespace specgrid {
namespace {

std::vector<std::int64_t> vector_of(const Int64Array& array) {
  const auto values = span_of(array);
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> column_of(const Int64Array& table, std::size_t width,
                                    std::size_t column) {
  if (table.ndim() != 2 || table.shape(1) != static_cast<py::ssize_t>(width)) {
    throw py::value_error("table has the wrong number of columns");
  }
  const auto values = span_of(table);
  std::vector<std::int64_t> out;
  for (std::size_t i = column; i < values.size(); i += width) {
    out.push_back(values[i]);
  }
  return out;
}

void require(bool holds, const char* what) {
  if (!holds) throw py::value_error(what);
}

template <typename Points, typename Row>
py::tuple points_tuple(const Points& points, std::size_t width, Row row) {
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> entries;
  for (const auto& point : points) {
    row(point, numbers);
    entries.insert(entries.end(), point.entries.begin(), point.entries.end());
    offsets.push_back(static_cast<std::int64_t>(entries.size()));
  }
  py::array_t<std::int64_t> table({static_cast<py::ssize_t>(points.size()),
                                   static_cast<py::ssize_t>(width)});
  std::copy(numbers.begin(), numbers.end(), table.mutable_data());
  return py::make_tuple(table, to_array(offsets), to_array(entries));
}

// None when time ran out before all was known.
py::object frontier_tuple(const Frontier& frontier) {
  if (frontier.stopped) return py::none();
  return points_tuple(frontier.points, 2,
                      [](const FrontierPoint& point, auto& numbers) {
                        numbers.push_back(point.graphs);
                        numbers.push_back(point.time);
                      });
}

py::tuple labels_tuple(LabelResult result) {
  std::vector<LabelPoint> points;
  if (result.found) points.push_back(std::move(result.best));
  for (LabelPoint& corner : result.corners) points.push_back(std::move(corner));
  const py::tuple table =
      points_tuple(points, 4, [](const LabelPoint& point, auto& numbers) {
        numbers.insert(numbers.end(), {point.time, point.used.graphs,
                                       point.used.bytes, point.used.seconds});
      });
  const std::vector<std::int64_t> least{result.least.graphs, result.least.bytes,
                                        result.least.seconds};
  return py::make_tuple(result.found, result.bound, to_array(least), table[0],
                        table[1], table[2]);
}

Resources limits_from(const Int64Array& limits) {
  const auto values = span_of(limits);
  require(values.size() == 3, "limits are graphs, bytes and seconds");
  auto limit = [](std::int64_t value) { return value < 0 ? kNoLimit : value; };
  return {limit(values[0]), limit(values[1]), limit(values[2])};
}

template <typename Problem>
py::tuple labels_of(const Problem& problem, const Int64Array& limits,
                    std::size_t max_labels, double time_limit) {
  const Resources most = limits_from(limits);
  return labels_tuple(interruptible(time_limit, [&](const StopRequested& stop) {
    return solve_labels(problem.dag(1, stop), most, max_labels, stop);
  }));
}

template <typename Problem>
py::tuple rough_of(const Problem& problem, const Int64Array& limits,
                   double time_limit) {
  const Resources most = limits_from(limits);
  return labels_tuple(interruptible(time_limit, [&](const StopRequested& stop) {
    return solve_roughly(problem.dag(1, stop), most, stop);
  }));
}

template <typename Problem>
py::array_t<std::int64_t> least_of(const Problem& problem) {
  const Resources least =
      interruptible(kNoTimeLimit, [&](const StopRequested& stop) {
        return least_to_go(problem.dag(1, stop), stop).front();
      });
  return to_array(
      std::vector<std::int64_t>{least.graphs, least.bytes, least.seconds});
}

SharedProblem shared_from(
    const Int64Array& query_lens, std::int64_t max_num_seqs,
    std::int64_t max_decode_tokens, std::int64_t max_size, bool one_ladder,
    bool piecewise, const Int64Array& decode, const Int64Array& mixed,
    const Int64Array& full_time, const Int64Array& piecewise_time,
    const Int64Array& sizes, const Int64Array& forced,
    const Int64Array& graphs_each, const Int64Array& graph_bytes,
    const Int64Array& graph_seconds, const Int64Array& pool_bytes,
    const Int64Array& graph_limits) {
  SharedProblem problem;
  problem.query_lens = vector_of(query_lens);
  problem.max_num_seqs = max_num_seqs;
  problem.max_decode_tokens = max_decode_tokens;
  problem.max_size = max_size;
  problem.one_ladder = one_ladder;
  problem.piecewise = piecewise;
  problem.decode_tier = column_of(decode, 5, 0);
  problem.decode_reqs = column_of(decode, 5, 1);
  problem.decode_weight = column_of(decode, 5, 2);
  problem.decode_eager = column_of(decode, 5, 3);
  problem.decode_required = column_of(decode, 5, 4);
  problem.mixed_tokens = column_of(mixed, 3, 0);
  problem.mixed_weight = column_of(mixed, 3, 1);
  problem.mixed_eager = column_of(mixed, 3, 2);
  problem.full_time = vector_of(full_time);
  problem.piecewise_time = vector_of(piecewise_time);
  problem.sizes = vector_of(sizes);
  problem.forced = vector_of(forced);
  const std::vector<std::int64_t> each = vector_of(graphs_each);
  require(each.size() == 3, "graphs_each has three entries");
  problem.graphs_per_full = each[0];
  problem.graphs_per_entry = each[1];
  problem.graphs_per_small_entry = each[2];
  problem.graph_bytes = vector_of(graph_bytes);
  problem.graph_seconds = vector_of(graph_seconds);
  problem.pool_bytes = vector_of(pool_bytes);
  problem.graph_limits = vector_of(graph_limits);

  // The core indexes without checking, so nothing may point outside a table.
  const auto length = static_cast<std::size_t>(max_size) + 1;
  auto fits = [length](const std::vector<std::int64_t>& table, bool optional) {
    return table.size() == length || (optional && table.empty());
  };
  require(max_size >= 1 && max_num_seqs >= 1, "limits must be positive");
  require(problem.query_lens.size() <= kMaxQueryLens &&
              std::is_sorted(problem.query_lens.begin(),
                             problem.query_lens.end()) &&
              (problem.query_lens.empty() || problem.query_lens.front() >= 1),
          "query_lens must be ascending and few");
  require(
      fits(problem.full_time, false) && fits(problem.piecewise_time, false) &&
          fits(problem.graph_bytes, true) &&
          fits(problem.graph_seconds, true) && fits(problem.pool_bytes, true),
      "tables by size need max_size + 1 entries");
  require(problem.graph_limits.empty() ||
              problem.graph_limits.size() == problem.sizes.size(),
          "graph_limits need one entry a size");
  for (const auto* list : {&problem.sizes, &problem.forced}) {
    require(
        std::is_sorted(list->begin(), list->end()) &&
            (list->empty() || (list->front() >= 1 && list->back() <= max_size)),
        "sizes must be ascending within 1..max_size");
  }
  const auto tiers = static_cast<std::int64_t>(problem.query_lens.size());
  for (const std::int64_t tier : problem.decode_tier) {
    require(tier >= 0 && tier < tiers,
            "decode steps name an unknown query length");
  }
  for (const auto* counts : {&problem.decode_reqs, &problem.mixed_tokens}) {
    for (const std::int64_t count : *counts) {
      require(count >= 1, "steps need at least one request or token");
    }
  }
  return problem;
}

// The problem and the graph over it; each refers to the one before it. Arcs are
// worked out when first needed, by whichever solver comes first.
class Shared {
 public:
  explicit Shared(SharedProblem given)
      : problem_(std::move(given)), dag_(problem_) {}

  [[nodiscard]] const PlanDag& dag(int num_threads,
                                   const StopRequested& stop) const {
    std::unique_lock lock(building_, std::defer_lock);
    while (!lock.try_lock_for(std::chrono::milliseconds(20))) ask(stop);
    if (!kept_) kept_.emplace(dag_, num_threads, stop);
    return *kept_;
  }

 private:
  SharedProblem problem_;
  SharedListDag dag_;
  mutable std::timed_mutex building_;
  mutable std::optional<KeptDag> kept_;
};

class Ladders {
 public:
  explicit Ladders(std::vector<Ladder> given)
      : ladders(std::move(given)), dag_(ladders) {}

  [[nodiscard]] const PlanDag& dag(int /*num_threads*/,
                                   const StopRequested& /*stop*/) const {
    return dag_;
  }

  const std::vector<Ladder> ladders;

 private:
  LadderDag dag_;
};

std::vector<Ladder> ladders_from(const Int64Array& lengths,
                                 const Int64Array& steps,
                                 const Int64Array& limits) {
  const std::vector<std::int64_t> counts = vector_of(lengths);
  const auto weight = column_of(steps, 6, 0);
  const auto cost = column_of(steps, 6, 1);
  const auto eager = column_of(steps, 6, 2);
  const auto forced = column_of(steps, 6, 3);
  const auto bytes = column_of(steps, 6, 4);
  const auto seconds = column_of(steps, 6, 5);
  const auto reach = column_of(limits, 3, 0);
  const auto beyond = column_of(limits, 3, 1);
  const auto each = column_of(limits, 3, 2);
  require(reach.size() == counts.size(), "limits need one row a ladder");
  std::vector<Ladder> ladders;
  std::size_t at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    require(counts[i] >= 0 && each[i] >= 1 &&
                at + static_cast<std::size_t>(counts[i]) <= weight.size(),
            "lengths do not add up to the steps");
    Ladder ladder;
    for (auto* table : {&ladder.weight, &ladder.cost, &ladder.eager_time,
                        &ladder.graph_bytes, &ladder.graph_seconds}) {
      table->push_back(0);
    }
    for (std::int64_t n = 1; n <= counts[i]; ++n, ++at) {
      ladder.weight.push_back(weight[at]);
      ladder.cost.push_back(cost[at]);
      ladder.eager_time.push_back(eager[at]);
      ladder.graph_bytes.push_back(bytes[at]);
      ladder.graph_seconds.push_back(seconds[at]);
      if (forced[at] != 0) ladder.forced.push_back(n);
    }
    ladder.must_reach = reach[i];
    ladder.beyond_time = beyond[i];
    ladder.graphs_each = each[i];
    ladders.push_back(std::move(ladder));
  }
  return ladders;
}

void check_budget(std::int64_t budget) {
  require(budget >= 0 && budget <= 1'000'000, "budget out of range");
}

}  // namespace

void bind_plan(py::module_& m) {
  py::class_<Shared>(m, "SharedProblem")
      .def(
          py::init(
              [](const Int64Array& query_lens, std::int64_t max_num_seqs,
                 std::int64_t max_decode_tokens, std::int64_t max_size,
                 bool one_ladder, bool piecewise, const Int64Array& decode,
                 const Int64Array& mixed, const Int64Array& full_time,
                 const Int64Array& piecewise_time, const Int64Array& sizes,
                 const Int64Array& forced, const Int64Array& graphs_each,
                 const Int64Array& graph_bytes, const Int64Array& graph_seconds,
                 const Int64Array& pool_bytes, const Int64Array& graph_limits) {
                return std::make_unique<Shared>(shared_from(
                    query_lens, max_num_seqs, max_decode_tokens, max_size,
                    one_ladder, piecewise, decode, mixed, full_time,
                    piecewise_time, sizes, forced, graphs_each, graph_bytes,
                    graph_seconds, pool_bytes, graph_limits));
              }),
          py::kw_only(), py::arg("query_lens").noconvert(),
          py::arg("max_num_seqs"), py::arg("max_decode_tokens"),
          py::arg("max_size"), py::arg("one_ladder"), py::arg("piecewise"),
          py::arg("decode").noconvert(), py::arg("mixed").noconvert(),
          py::arg("full_time").noconvert(),
          py::arg("piecewise_time").noconvert(), py::arg("sizes").noconvert(),
          py::arg("forced").noconvert(), py::arg("graphs_each").noconvert(),
          py::arg("graph_bytes").noconvert(),
          py::arg("graph_seconds").noconvert(),
          py::arg("pool_bytes").noconvert(),
          py::arg("graph_limits").noconvert())
      .def(
          "frontier",
          [](const Shared& problem, std::int64_t budget, int num_threads,
             double time_limit) {
            check_budget(budget);
            return frontier_tuple(
                interruptible(time_limit, [&](const StopRequested& stop) {
                  return solve_frontier(problem.dag(num_threads, stop), budget,
                                        num_threads, stop);
                }));
          },
          py::arg("budget"), py::arg("num_threads"), py::arg("time_limit"))
      .def(
          "unlimited",
          [](const Shared& problem, int num_threads, double time_limit) {
            return frontier_tuple(
                interruptible(time_limit, [&](const StopRequested& stop) {
                  return solve_unlimited(problem.dag(num_threads, stop), stop);
                }));
          },
          py::arg("num_threads"), py::arg("time_limit"))
      .def("labels", &labels_of<Shared>, py::arg("limits").noconvert(),
           py::arg("max_labels"), py::arg("time_limit"))
      .def("rough", &rough_of<Shared>, py::arg("limits").noconvert(),
           py::arg("time_limit"))
      .def("least", &least_of<Shared>);

  py::class_<Ladders>(m, "LadderProblem")
      .def(py::init([](const Int64Array& lengths, const Int64Array& steps,
                       const Int64Array& limits) {
             return std::make_unique<Ladders>(
                 ladders_from(lengths, steps, limits));
           }),
           py::kw_only(), py::arg("lengths").noconvert(),
           py::arg("steps").noconvert(), py::arg("limits").noconvert())
      .def(
          "frontier",
          [](const Ladders& problem, std::int64_t budget, bool plain,
             int num_threads, double time_limit) {
            check_budget(budget);
            return frontier_tuple(
                interruptible(time_limit, [&](const StopRequested& stop) {
                  return solve_ladders(problem.ladders, budget, plain,
                                       num_threads, stop);
                }));
          },
          py::arg("budget"), py::arg("plain"), py::arg("num_threads"),
          py::arg("time_limit"))
      .def("labels", &labels_of<Ladders>, py::arg("limits").noconvert(),
           py::arg("max_labels"), py::arg("time_limit"))
      .def("rough", &rough_of<Ladders>, py::arg("limits").noconvert(),
           py::arg("time_limit"))
      .def("least", &least_of<Ladders>);
}

}  // namespace specgrid
