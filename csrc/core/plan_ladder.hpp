// One ladder of graphs: sizes 1..n, each step rounds up to the next chosen one.
//
// This is what direct captures consist of, a ladder per query length (indexed
// by requests) and one for the steps only PIECEWISE graphs serve (indexed by
// tokens). Ladders share nothing but the budget; plan_merge joins them.

#ifndef SPECGRID_CORE_PLAN_LADDER_HPP_
#define SPECGRID_CORE_PLAN_LADDER_HPP_

#include <cstdint>
#include <vector>

#include "core/plan_dag.hpp"

namespace specgrid {

// Tables have n + 1 entries; entry 0 is unused.
struct Ladder {
  std::vector<std::int64_t> weight;
  std::vector<std::int64_t> cost;        // step time on the graph of this size
  std::vector<std::int64_t> eager_time;  // of these steps without a graph
  std::vector<std::int64_t> forced;  // indices that must be chosen, ascending
  std::int64_t must_reach = 0;       // the largest chosen is at least this
  std::int64_t beyond_time = 0;      // steps above n: eager in every plan
  std::int64_t graphs_each = 1;
  std::vector<std::int64_t> graph_bytes;    // by index; may be empty
  std::vector<std::int64_t> graph_seconds;  // by index; may be empty
};

// Best time with exactly k entries, k = 0..num, and which entries.
struct LadderCurve {
  std::vector<std::int64_t> time;   // kNoPlan where k entries are impossible
  std::vector<std::int32_t> top;    // largest entry of the best plan
  std::vector<std::int32_t> below;  // [k - 1][b]: entry before b; 0 for none
  std::size_t stride = 0;
  bool stopped = false;

  // The entries of the best plan with k of them, ascending.
  [[nodiscard]] std::vector<std::int64_t> entries(std::size_t k) const;
};

// Through the lower envelope of lines: O(k n log n), O(k n) when costs never
// fall. Exact for any costs, and picks the same entries as the plain
// recurrence: the smaller largest entry, then the smaller next-largest, and so
// on.
[[nodiscard]] LadderCurve solve_ladder_hull(const Ladder& ladder,
                                            std::size_t max_entries,
                                            const StopRequested& stop);

// The plain recurrence, O(k n^2): what the hull is checked against.
[[nodiscard]] LadderCurve solve_ladder_plain(const Ladder& ladder,
                                             std::size_t max_entries,
                                             const StopRequested& stop);

// All ladders one after the other as one path, for the solvers that need arcs
// (size-dependent bytes and seconds). Entries are ladder * 2^32 + index.
class LadderDag final : public PlanDag {
 public:
  // `ladders` must outlive the graph.
  explicit LadderDag(const std::vector<Ladder>& ladders);

  [[nodiscard]] std::int32_t num_nodes() const override;
  [[nodiscard]] std::span<const Arc> arcs_into(
      std::int32_t node, std::vector<Arc>& scratch) const override;
  [[nodiscard]] const std::vector<std::int32_t>& group_starts() const override;
  [[nodiscard]] std::int32_t graph_limit(std::int32_t node) const override;
  [[nodiscard]] std::int64_t entry(std::int32_t node) const override;

 private:
  const std::vector<Ladder>& ladders_;
  // Node of each ladder's index 0: the joint with the ladder before it.
  std::vector<std::int32_t> joints_;
  std::vector<std::vector<std::int64_t>> weight_sums_;
  std::vector<std::vector<std::int64_t>> tails_;  // eager time above an index
  std::vector<std::int32_t> group_starts_;
};

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_LADDER_HPP_
