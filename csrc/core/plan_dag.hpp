// The shape every capture plan shares: a path through an acyclic graph.
//
// A node is "this entry is the largest chosen so far"; an arc from a to b means
// that no entry lies between them, and carries everything that choice settles:
// the time of the steps it serves and the graphs it captures. Solvers
// (plan_frontier, plan_labels) see only this; what an arc costs under which
// dispatcher is the business of plan_shared and plan_ladder.
//
// Times are whole numbers (weights and microseconds scaled by the caller), so
// sums are exact in any order and two equal plans are equal to the last bit.

#ifndef SPECGRID_CORE_PLAN_DAG_HPP_
#define SPECGRID_CORE_PLAN_DAG_HPP_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/stop.hpp"

namespace specgrid {

// Larger than any plan's time (callers keep totals below 2^61), small enough
// that adding a time to it cannot overflow.
inline constexpr std::int64_t kNoPlan = std::int64_t{1} << 62;

struct Arc {
  std::int32_t from = 0;
  std::int32_t graphs = 0;
  std::int32_t bytes = 0;    // in the caller's unit
  std::int32_t seconds = 0;  // in the caller's unit
  std::int64_t time = 0;
};

// Nodes are numbered so that every arc goes from a smaller to a larger number:
// 0 is the empty list, the last node is the finished plan. Nodes from
// first_group on come in groups; a group's arcs start in it or before
// first_group, so groups can be worked on independently.
class PlanDag {
 public:
  virtual ~PlanDag() = default;
  [[nodiscard]] virtual std::int32_t num_nodes() const = 0;
  // The arcs that end in `node`, by ascending `from`; they may be put in
  // `scratch`, and are valid while neither it nor the graph changes.
  [[nodiscard]] virtual std::span<const Arc> arcs_into(
      std::int32_t node, std::vector<Arc>& scratch) const = 0;
  // Starts of the groups, ascending; one more for the end, which is the sink.
  // Without groups it holds the sink alone.
  [[nodiscard]] virtual const std::vector<std::int32_t>& group_starts()
      const = 0;
  // Most graphs a plan may have when its path enters the sink from `node`.
  [[nodiscard]] virtual std::int32_t graph_limit(std::int32_t node) const = 0;
  // Appends what choosing `node` captures (a size, or a ladder and an index).
  [[nodiscard]] virtual std::int64_t entry(std::int32_t node) const = 0;
};

// Most arcs a KeptDag keeps: about 200 MB of them.
inline constexpr std::size_t kMaxKeptArcs = std::size_t{8} << 20;

// A graph whose arcs are worked out once, by several threads, and kept; or,
// where they are too many to keep, each time they are asked for.
class KeptDag final : public PlanDag {
 public:
  // `dag` must outlive this.
  KeptDag(const PlanDag& dag, int num_threads, const StopRequested& stop = {},
          std::size_t max_arcs = kMaxKeptArcs);

  [[nodiscard]] std::int32_t num_nodes() const override;
  [[nodiscard]] std::span<const Arc> arcs_into(
      std::int32_t node, std::vector<Arc>& scratch) const override;
  [[nodiscard]] const std::vector<std::int32_t>& group_starts() const override;
  [[nodiscard]] std::int32_t graph_limit(std::int32_t node) const override;
  [[nodiscard]] std::int64_t entry(std::int32_t node) const override;

 private:
  const PlanDag& dag_;
  std::vector<std::vector<Arc>> arcs_;  // by node; empty: not kept
};

// A node that captures nothing (the source, the sink, a joint between ladders).
inline constexpr std::int64_t kNoEntry = -1;

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_DAG_HPP_
