// Which captured graph serves a step, and what vLLM's own candidate table
// would hold. Flat arrays only; built once, then read.
#ifndef SPECGRID_CORE_DISPATCH_HPP_
#define SPECGRID_CORE_DISPATCH_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graphs.hpp"

namespace specgrid {

// Position of the first value not below x in an ascending list, or its size.
[[nodiscard]] inline std::size_t at_or_above(
    std::span<const std::int32_t> values, std::int64_t x) {
  return static_cast<std::size_t>(
      std::lower_bound(values.begin(), values.end(), x) - values.begin());
}

// A step to be served. query_len 0: not a uniform decode step. max_query_len
// 0: not known, or a prefill takes part.
struct Step {
  std::int64_t num_reqs = 0;
  std::int64_t num_tokens = 0;
  std::int64_t query_len = 0;
  std::int64_t num_active_loras = 0;
  std::int64_t max_query_len = 0;
  std::int64_t num_ubatches = 1;
};

// Why a step has the graph it has. All are graph indices, -1 for none.
struct Served {
  std::int64_t graph = -1;  // what dispatch answers
  // The smallest FULL graph of the step's own query length, where one can hold
  // it.
  std::int64_t own = -1;
  // The FULL graph, of another query length, that made the shared ladder pass
  // over `own`.
  std::int64_t hidden_by = -1;
};

// Rows of the table that vLLM's V2 manager looks graphs up in: every token
// count in first..last, for one LoRA case, has the same candidates, in the
// order they are tried: indices[offsets[row] .. offsets[row + 1]].
struct CandidateTable {
  std::vector<std::int64_t> lora_cases;
  std::vector<std::int64_t> first_tokens;
  std::vector<std::int64_t> last_tokens;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> indices;
};

class Dispatcher {
 public:
  // `clamp_loras`: more active LoRAs than any case use the largest case (V2);
  // otherwise they find no graph (V1).
  Dispatcher(const GraphConfig& config, bool clamp_loras);

  [[nodiscard]] const GraphShapes& graphs() const { return graphs_; }
  [[nodiscard]] std::span<const std::int64_t> lora_cases() const {
    return lora_cases_;
  }
  [[nodiscard]] std::int64_t max_num_seqs() const { return max_num_seqs_; }

  // A step's numbers are sound: counts >= 0, at most max_num_seqs requests, at
  // least one micro-batch.
  [[nodiscard]] bool is_sound(const Step& step) const {
    return step.num_reqs >= 0 && step.num_reqs <= max_num_seqs_ &&
           step.num_tokens >= 0 && step.query_len >= 0 &&
           step.num_active_loras >= 0 && step.max_query_len >= 0 &&
           step.num_ubatches >= 1;
  }

  // Index of the graph that serves a sound step, or -1. O(1) for usual steps
  // and sizes (see Answers), O(log sizes) for all others.
  [[nodiscard]] std::int64_t dispatch(const Step& step) const {
    const std::int64_t lora = lora_position(step.num_active_loras);
    if (lora < 0 || step.num_tokens == 0) return -1;
    std::int32_t shape = kUnknown;
    if (step.num_ubatches == 1) shape = answers_.find(step);
    if (shape == kUnknown) shape = search(step);
    return shape < 0 ? -1 : graphs_.index_of(shape, lora);
  }

  [[nodiscard]] Served explain(const Step& step) const;

  // Shape and LoRA case (a position) of a graph index below num_graphs().
  struct Place {
    std::size_t shape;
    std::size_t lora;
  };
  [[nodiscard]] Place locate(std::int64_t index) const;

  // The LoRA case an active count runs at; the count itself when no case fits.
  [[nodiscard]] std::int64_t effective_loras(std::int64_t active) const;

  // Marks, by shape, the graphs some diagonal batch uses, and the one of each
  // query length that its widest step needs (see docs/reachability.md). Mixed
  // graphs count as used: any mixed step may need them. O(shapes + runs).
  [[nodiscard]] std::vector<std::uint8_t> used_shapes(
      std::span<const DiagonalRun> diagonal) const;

  [[nodiscard]] CandidateTable candidates() const;

 private:
  static constexpr std::int32_t kNoShape = -1;
  static constexpr std::int32_t kUnknown = -2;

  // FULL shapes of one query length, or of any, by tokens.
  struct Ladder {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> shapes;
  };
  // Ladders of one micro-batch count.
  struct Bank {
    std::vector<std::int32_t> query_lens;  // beside `ladders`
    std::vector<Ladder> ladders;
    Ladder any;
  };
  // Shapes worked out beforehand, for steps without micro-batches: a uniform
  // step of b requests in full (b x query_len tokens) by b, and a step of no
  // query length by its tokens. Left empty where sizes or lengths are huge, or
  // where the answer needs more than that; kUnknown then.
  struct Answers {
    std::vector<std::int32_t> shapes;
    std::vector<std::uint32_t> begins;  // row of query length q: begins[q]..

    [[nodiscard]] std::int32_t find(const Step& step) const {
      const auto q = static_cast<std::size_t>(step.query_len);
      if (q + 1 >= begins.size()) return kUnknown;
      const std::uint32_t begin = begins[q];
      const std::uint32_t end = begins[q + 1];
      std::int64_t at = step.num_tokens;
      if (q != 0) {
        at = step.num_reqs;
        if (step.num_reqs * step.query_len != step.num_tokens) return kUnknown;
      }
      if (begin == end) return kUnknown;
      if (at >= std::int64_t{end - begin}) return kNoShape;
      return shapes[begin + static_cast<std::size_t>(at)];
    }
  };

  static std::int32_t shape_at_or_above(const Ladder& ladder,
                                        std::int64_t tokens) {
    const std::size_t at = at_or_above(ladder.tokens, tokens);
    return at == ladder.tokens.size() ? kNoShape : ladder.shapes[at];
  }

  [[nodiscard]] const Bank* bank_of(std::int64_t num_ubatches) const {
    if (num_ubatches == 1) return &bank_;
    return num_ubatches == num_ubatches_ ? &twin_bank_ : nullptr;
  }

  [[nodiscard]] static const Ladder* ladder_of(const Bank& bank,
                                               std::int64_t query_len) {
    if (query_len == 0) return nullptr;
    const std::size_t at = at_or_above(bank.query_lens, query_len);
    if (at == bank.query_lens.size() || bank.query_lens[at] != query_len) {
      return nullptr;
    }
    return &bank.ladders[at];
  }

  [[nodiscard]] const GraphShape& shape_of(std::int32_t shape) const {
    return graphs_.shapes[static_cast<std::size_t>(shape)];
  }

  // The shared ladder stops at the smallest FULL size that holds the tokens,
  // whichever query length it belongs to: at this shape only when the next
  // smaller size does not hold them.
  [[nodiscard]] bool is_nearest(std::int32_t shape, std::int64_t tokens) const {
    return policy_ != GraphPolicy::kVllm033 ||
           level_below_[static_cast<std::size_t>(shape)] < tokens;
  }

  // Position of the LoRA case that serves an active count, or -1.
  [[nodiscard]] std::int64_t lora_position(std::int64_t active) const {
    if (active == 0) return no_lora_position_;
    std::size_t at = at_or_above(positive_loras_, active);
    if (at == positive_loras_.size()) {
      if (!clamp_loras_ || at == 0) return -1;
      --at;
    }
    return lora_positions_[at];
  }

  // The shape that serves a step, without the prepared answers.
  [[nodiscard]] std::int32_t search(const Step& step) const;
  [[nodiscard]] std::int32_t search_full(const Step& step) const;

  void order_lora_cases();
  void index_full_shapes();
  void prepare_answers();
  void mark_used(const Ladder& ladder, const DiagonalRun& run,
                 std::vector<std::uint8_t>& used) const;
  void append_candidates(std::int64_t tokens, std::size_t& level_end,
                         std::vector<std::int32_t>& shapes) const;

  GraphShapes graphs_;
  GraphPolicy policy_;
  std::int64_t max_num_seqs_;
  std::int64_t decode_query_len_;
  std::int64_t num_ubatches_;
  bool clamp_loras_;
  std::vector<std::int64_t> lora_cases_;
  std::vector<std::int32_t> positive_loras_;  // ascending
  std::vector<std::int64_t> lora_positions_;  // beside positive_loras_
  std::int64_t no_lora_position_ = -1;
  Ladder piecewise_;
  std::vector<std::int32_t> levels_;  // distinct FULL token counts, ascending
  std::vector<std::int32_t> level_below_;  // by shape; 0 for the lowest level
  Bank bank_;
  Bank twin_bank_;
  Answers answers_;
};

// Graph indices for many steps. A span of one element holds for all steps.
struct StepColumns {
  std::span<const std::int64_t> num_reqs;
  std::span<const std::int64_t> num_tokens;
  std::span<const std::int64_t> query_len;
  std::span<const std::int64_t> num_active_loras;
  std::int64_t max_query_len = 0;
  std::int64_t num_ubatches = 1;
};

// Writes one index a step. Returns the first step that is not sound, or -1
// when all of `out` was written.
[[nodiscard]] std::int64_t dispatch_many(const Dispatcher& dispatcher,
                                         const StepColumns& steps,
                                         std::span<std::int64_t> out);

}  // namespace specgrid

#endif  // SPECGRID_CORE_DISPATCH_HPP_
