// What two neighbouring entries of a capture list settle between them.
//
// vLLM makes, for every entry and every query length, a FULL graph at the entry
// rounded up to a multiple of the query length, and one PIECEWISE graph at the
// entry itself. Which graph serves a step then depends only on the two entries
// around it, under both ladders: one for all query lengths (vLLM 0.33.0) or one
// per query length (#56136). The largest entry ("top") matters too, because a
// rounded size above it gets no FULL graph.
//
// Not a dispatcher: graphs.hpp answers for single steps, and a plan's value is
// checked against it.

#ifndef SPECGRID_CORE_PLAN_PAIRS_HPP_
#define SPECGRID_CORE_PLAN_PAIRS_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan_dag.hpp"

namespace specgrid {

inline constexpr std::size_t kMaxQueryLens = 64;

// The load, the costs and the limits of a plan over one shared list of sizes.
// Sizes are tokens. Tables by size have max_size + 1 entries.
struct SharedProblem {
  std::vector<std::int64_t> query_lens;  // ascending, at most kMaxQueryLens
  std::int64_t max_num_seqs = 0;
  std::int64_t max_decode_tokens = 0;  // max_num_seqs x the static query length
  std::int64_t max_size = 0;
  bool one_ladder = true;  // as shipped; false: a ladder per query length
  bool piecewise = true;   // PIECEWISE graphs exist; false: eager instead

  // Uniform decode steps: which query length (index), how many requests, the
  // weight, the eager time, and whether a FULL graph must serve it.
  std::vector<std::int64_t> decode_tier;
  std::vector<std::int64_t> decode_reqs;
  std::vector<std::int64_t> decode_weight;
  std::vector<std::int64_t> decode_eager;
  std::vector<std::int64_t> decode_required;
  // All other steps: tokens, weight, eager time.
  std::vector<std::int64_t> mixed_tokens;
  std::vector<std::int64_t> mixed_weight;
  std::vector<std::int64_t> mixed_eager;

  std::vector<std::int64_t> full_time;       // by size
  std::vector<std::int64_t> piecewise_time;  // by size

  std::vector<std::int64_t> sizes;   // candidates, ascending, 1..max_size
  std::vector<std::int64_t> forced;  // subset of sizes, ascending

  // Graphs captured for each new FULL size, for each entry, and for each entry
  // of at most max_num_seqs (LoRA cases and the drafter multiply them).
  std::int64_t graphs_per_full = 1;
  std::int64_t graphs_per_entry = 1;
  std::int64_t graphs_per_small_entry = 0;
  std::vector<std::int64_t> graph_bytes;    // by size; may be empty
  std::vector<std::int64_t> graph_seconds;  // by size; may be empty
  std::vector<std::int64_t> pool_bytes;     // by largest entry; may be empty
  // Most graphs when the largest entry is this candidate; may be empty.
  std::vector<std::int64_t> graph_limits;
};

class PairCosts {
 public:
  explicit PairCosts(const SharedProblem& problem);

  // The arc between neighbours a < b (a = 0: b is the smallest entry) in a list
  // whose largest entry is `top`; time is kNoPlan where a required step would
  // miss its FULL graph.
  [[nodiscard]] Arc pair(std::int64_t a, std::int64_t b,
                         std::int64_t top) const;
  // Time of the steps that no entry serves; kNoPlan if one of them is required.
  [[nodiscard]] std::int64_t beyond(std::int64_t top) const;
  // Whether `top` takes away a FULL graph that entry b would otherwise make.
  [[nodiscard]] bool top_matters(std::int64_t b, std::int64_t top) const;

 private:
  // Running sums over tokens of one kind of step.
  struct Load {
    std::vector<std::int64_t> weight;
    std::vector<std::int64_t> eager;
    std::vector<std::int64_t> required;
    std::int64_t beyond_eager = 0;     // of steps above the tables
    std::int64_t beyond_required = 0;  // likewise
  };

  [[nodiscard]] std::int64_t rounded(std::size_t tier,
                                     std::int64_t size) const {
    return rounded_[tier * stride_ + static_cast<std::size_t>(size)];
  }
  [[nodiscard]] static std::int64_t between(
      const std::vector<std::int64_t>& sums, std::int64_t lo, std::int64_t hi) {
    return sums[static_cast<std::size_t>(hi)] -
           sums[static_cast<std::size_t>(lo)];
  }
  [[nodiscard]] bool required_between(const Load& load, std::int64_t lo,
                                      std::int64_t hi) const {
    return between(load.required, lo, hi) != 0;
  }
  [[nodiscard]] std::int64_t fallback(const Load& load, std::int64_t lo,
                                      std::int64_t hi, std::int64_t b) const;
  [[nodiscard]] std::int64_t one_ladder_time(std::int64_t a, std::int64_t b,
                                             std::int64_t top) const;
  [[nodiscard]] std::int64_t per_length_time(std::int64_t a, std::int64_t b,
                                             std::int64_t top) const;

  const SharedProblem& problem_;
  std::size_t stride_;
  // Entry rounded up to each query length, 0 where no FULL graph may exist
  // whatever the largest entry; [tier][size].
  std::vector<std::int64_t> rounded_;
  std::vector<Load> decode_;
  Load mixed_;
};

}  // namespace specgrid

#endif  // SPECGRID_CORE_PLAN_PAIRS_HPP_
