// Plans as paths from entry to entry. See plan_dag.hpp.
#include "core/plan_dag.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/parallel.hpp"

namespace specgrid {
KeptDag::KeptDag(const PlanDag& dag, int num_threads, const StopRequested& stop,
                 std::size_t max_arcs)
    : dag_(dag) {
  const auto num = static_cast<std::size_t>(dag.num_nodes());
  arcs_.resize(num);
  std::atomic<std::size_t> next{1};
  std::atomic<std::size_t> total{0};
  auto work = [&](bool is_caller, const std::atomic<bool>& failed) {
    std::vector<Arc> scratch;
    for (;;) {
      if (is_caller) ask(stop);
      const std::size_t node = next.fetch_add(1);
      if (node >= num || failed) return;
      if (total.load(std::memory_order_relaxed) > max_arcs) return;
      const auto found =
          dag.arcs_into(static_cast<std::int32_t>(node), scratch);
      arcs_[node].assign(found.begin(), found.end());
      total.fetch_add(found.size(), std::memory_order_relaxed);
    }
  };
  work_together(num_threads, work, [&] { ask(stop); });
  if (total.load() > max_arcs) arcs_ = {};
}

std::int32_t KeptDag::num_nodes() const { return dag_.num_nodes(); }

std::span<const Arc> KeptDag::arcs_into(std::int32_t node,
                                        std::vector<Arc>& scratch) const {
  if (arcs_.empty()) return dag_.arcs_into(node, scratch);
  return arcs_[static_cast<std::size_t>(node)];
}

const std::vector<std::int32_t>& KeptDag::group_starts() const {
  return dag_.group_starts();
}

std::int32_t KeptDag::graph_limit(std::int32_t node) const {
  return dag_.graph_limit(node);
}

std::int64_t KeptDag::entry(std::int32_t node) const {
  return dag_.entry(node);
}

}  // namespace specgrid
