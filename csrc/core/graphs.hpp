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
enum class GraphMode : std::int32_t { kNone = 0, kPiecewise = 1, kFull = 2 };

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
  GraphMode mixed_mode = GraphMode::kNone;
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

// A graph without its LoRA case. The graph of the j-th LoRA case has index
// first + j * stride in capture order, so no array grows with LoRA cases.
struct GraphShape {
  GraphMode mode = GraphMode::kNone;
  std::int32_t num_tokens = 0;
  std::int32_t num_reqs = 0;       // 0: any number
  std::int32_t query_len = 0;      // 0: any
  std::int32_t max_query_len = 0;  // 0: not bounded
  std::int32_t num_ubatches = 1;
  std::int32_t source = 0;  // the capture size that asked for it
  std::int64_t first = 0;
  std::int64_t stride = 1;
};

// PIECEWISE shapes first, then FULL, each largest first: the order in which
// vLLM captures them.
struct GraphShapes {
  std::vector<GraphShape> shapes;
  std::size_t num_piecewise = 0;
  std::int64_t num_lora_cases = 1;

  [[nodiscard]] std::int64_t num_graphs() const {
    return static_cast<std::int64_t>(shapes.size()) * num_lora_cases;
  }
};

// Linear in the shapes: O(sizes x query lengths).
[[nodiscard]] GraphShapes build_graphs(const GraphConfig& config);

}  // namespace specgrid

#endif  // SPECGRID_CORE_GRAPHS_HPP_
