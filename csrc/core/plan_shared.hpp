// Lists of sizes shared by all query lengths, as a PlanDag.
//
// Base nodes are candidates that some larger entry follows closely enough not
// to matter. The few entries just below the largest one lose FULL graphs to it,
// so each possible largest entry has a small group of nodes of its own.

#ifndef SPECGRID_CORE_PLAN_SHARED_HPP_
#define SPECGRID_CORE_PLAN_SHARED_HPP_

#include <cstdint>
#include <vector>

#include "core/plan_dag.hpp"
#include "core/plan_pairs.hpp"

namespace specgrid {

class SharedListDag final : public PlanDag {
 public:
  // `problem` must outlive the graph.
  explicit SharedListDag(const SharedProblem& problem);

  [[nodiscard]] std::int32_t num_nodes() const override;
  [[nodiscard]] std::span<const Arc> arcs_into(
      std::int32_t node, std::vector<Arc>& scratch) const override;
  [[nodiscard]] const std::vector<std::int32_t>& group_starts() const override;
  [[nodiscard]] std::int32_t graph_limit(std::int32_t node) const override;
  [[nodiscard]] std::int64_t entry(std::int32_t node) const override;

 private:
  struct Node {
    std::int32_t candidate = -1;    // index into sizes
    std::int32_t group_first = -1;  // first candidate of the group; -1: base
    std::int32_t group_node = 0;    // first node of the group
    std::int32_t top = -1;          // candidate that is the largest entry
  };

  [[nodiscard]] bool forced_between(std::int32_t a, std::int32_t b) const;
  void add_arc(std::int32_t from, std::int32_t a, std::int32_t b,
               std::int64_t top, std::vector<Arc>& out) const;

  const SharedProblem& problem_;
  PairCosts costs_;
  std::vector<std::int32_t> forced_before_;  // forced among the first i sizes
  std::vector<Node> nodes_;                  // without source and sink
  std::vector<std::int32_t> group_starts_;
  std::vector<Arc> last_arcs_;  // into the sink
};

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_SHARED_HPP_
