// Which CUDA graphs a runner captures: shapes in capture order, for one size
// list. Decides nothing about steps (dispatch.hpp) and captures nothing.
#ifndef SPECGRID_CORE_GRAPHS_HPP_
#define SPECGRID_CORE_GRAPHS_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace specgrid {

// Numbers shared with the Python tables of mode and policy names.
enum class GraphMode : std::int8_t { kNone = 0, kPiecewise = 1, kFull = 2 };

enum class GraphPolicy : std::int32_t {
  kVllm033 = 0,         // one ladder of FULL sizes for all query lengths
  kPerQueryLength = 1,  // the same graphs, one ladder per query length
  kReachable = 2,       // only graphs the schedule replays, one ladder each
};

// Batches batch_lo..batch_hi, all of which the schedule runs at one query
// length (in some context column).
struct DiagonalRun {
  std::int64_t query_len;
  std::int64_t batch_lo;
  std::int64_t batch_hi;
};

// Everything that shapes the captured set. Counts must be at least 1 and fit
// int32; lists are checked by the caller (ascending and distinct where said).
struct GraphConfig {
  std::span<const std::int64_t> sizes;       // tokens, ascending, distinct
  std::span<const std::int64_t> query_lens;  // ascending, distinct
  std::span<const std::int64_t> lora_cases;  // distinct, in capture order
  std::int64_t max_num_seqs = 1;
  std::int64_t max_size = 1;                 // no FULL decode graph above it
  std::int64_t decode_query_len = 1;         // the widest a decode step can be
  GraphMode decode_mode = GraphMode::kNone;  // kNone: no decode routine
  GraphMode mixed_mode = GraphMode::kNone;   // kFull only without a routine
  // Mixed graphs only up to this many tokens; 0 means no such limit.
  std::int64_t mixed_max_tokens = 0;
  // FULL decode graphs that take any mix of 1..decode_query_len tokens a
  // request, instead of uniform ones.
  bool varlen_decode = false;
  // Micro-batch twins of FULL graphs; num_ubatches 1 means none.
  std::int64_t num_ubatches = 1;
  std::int64_t ubatch_min_tokens = 0;
  GraphPolicy policy = GraphPolicy::kVllm033;
  std::span<const DiagonalRun> diagonal;  // read by kReachable alone
};

// A graph without its LoRA case. Kept small: there is one per size and query
// length, and reading them is most of what building them costs.
struct GraphShape {
  std::int32_t num_tokens = 0;
  std::int32_t num_reqs = 0;       // 0: any number
  std::int32_t query_len = 0;      // 0: any
  std::int32_t max_query_len = 0;  // 0: not bounded
  std::int32_t source = 0;         // the capture size that asked for it
  std::int16_t num_ubatches = 1;
  GraphMode mode = GraphMode::kNone;
};

// Shapes in the order in which vLLM captures them, PIECEWISE first, then FULL,
// each largest first, and where the graphs of each LoRA case stand among them.
struct GraphShapes {
  std::vector<GraphShape> shapes;
  std::size_t num_piecewise = 0;
  std::int64_t num_lora_cases = 1;
  // By shape: the index of its first LoRA case's graph, and the distance to the
  // next case's. Empty with one LoRA case, when a graph's index is its shape.
  std::vector<std::int64_t> firsts;
  std::vector<std::int32_t> strides;

  [[nodiscard]] std::int64_t num_graphs() const {
    return static_cast<std::int64_t>(shapes.size()) * num_lora_cases;
  }

  // Index, in capture order, of a shape's graph for a LoRA case (a position).
  [[nodiscard]] std::int64_t index_of(std::int32_t shape,
                                      std::int64_t lora) const {
    if (firsts.empty()) return shape;
    const auto at = static_cast<std::size_t>(shape);
    return firsts[at] + lora * strides[at];
  }
};

// The widest uniform step of a query length whose widest scheduled batch is
// given. A request that arrives with one token left to prefill runs as a decode
// of one token; where a server that drafts schedules no drafts (query length
// 1), such requests widen uniform steps up to max_num_seqs.
[[nodiscard]] inline std::int64_t widest_step(std::int64_t query_len,
                                              std::int64_t decode_query_len,
                                              std::int64_t widest_batch,
                                              std::int64_t max_num_seqs) {
  return query_len == 1 && decode_query_len > 1 ? max_num_seqs : widest_batch;
}

// O(shapes x log(query lengths) + sizes x query lengths).
[[nodiscard]] GraphShapes build_graphs(const GraphConfig& config);

}  // namespace specgrid

#endif  // SPECGRID_CORE_GRAPHS_HPP_
