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

// Ascending distinct numbers >= 0 that answer "first one not below x": by one
// table read while the numbers are small, by binary search above that.
class SortedIndex {
 public:
  SortedIndex() = default;
  explicit SortedIndex(std::vector<std::int32_t> values);

  // Position of the first value >= x (x >= 0); size() when there is none.
  [[nodiscard]] std::size_t at_or_above(std::int64_t x) const {
    if (values_.empty() || x > values_.back()) return values_.size();
    if (!table_.empty()) {
      return static_cast<std::size_t>(table_[static_cast<std::size_t>(x)]);
    }
    return static_cast<std::size_t>(
        std::lower_bound(values_.begin(), values_.end(), x) - values_.begin());
  }

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::int32_t operator[](std::size_t i) const {
    return values_[i];
  }
  [[nodiscard]] std::span<const std::int32_t> values() const { return values_; }

 private:
  // 2**17 entries are 512 KiB, well above every capture size in use.
  static constexpr std::int32_t kLargestTable = 1 << 17;
  std::vector<std::int32_t> values_;
  std::vector<std::int32_t> table_;
};

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

  // Index of the graph that serves a sound step, or -1. O(1) while sizes are
  // below 2**17 tokens, O(log sizes) above.
  [[nodiscard]] std::int64_t dispatch(const Step& step) const {
    const std::int64_t lora = lora_position(step.num_active_loras);
    if (lora < 0 || step.num_tokens == 0) return -1;
    const GraphShape* shape = full_shape(step);
    if (shape == nullptr) shape = piecewise_shape(step);
    return shape == nullptr ? -1 : index_of(*shape, lora);
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

  // Marks, by shape, the graphs some diagonal batch uses, and those a tier
  // keeps for batches that shrank below it (see docs/reachability.md). Mixed
  // graphs count as used: any mixed step may need them. O(shapes + runs).
  [[nodiscard]] std::vector<std::uint8_t> used_shapes(
      std::span<const DiagonalRun> diagonal) const;

  [[nodiscard]] CandidateTable candidates() const;

 private:
  // FULL shapes of one query length (0: any), by tokens / unit.
  struct Ladder {
    std::uint32_t unit = 1;  // the query length, 1 for any
    SortedIndex index;
    std::vector<std::int32_t> shapes;
  };
  // Ladders of one micro-batch count.
  struct Bank {
    SortedIndex query_lens;
    std::vector<Ladder> ladders;
    Ladder any;
  };

  static constexpr std::size_t kNoShape = static_cast<std::size_t>(-1);

  [[nodiscard]] std::size_t shape_at_or_above(const Ladder& ladder,
                                              std::int64_t tokens) const {
    std::int64_t count = tokens;
    if (ladder.unit != 1) {
      if (tokens > kMaxTokens) return kNoShape;
      count =
          (static_cast<std::uint32_t>(tokens) + ladder.unit - 1) / ladder.unit;
    }
    const std::size_t at = ladder.index.at_or_above(count);
    return at == ladder.index.size()
               ? kNoShape
               : static_cast<std::size_t>(ladder.shapes[at]);
  }

  [[nodiscard]] const Ladder* ladder_of(const Bank& bank,
                                        std::int64_t query_len) const {
    if (query_len == 0) return nullptr;
    const std::size_t at = bank.query_lens.at_or_above(query_len);
    if (at == bank.query_lens.size() || bank.query_lens[at] != query_len) {
      return nullptr;
    }
    return &bank.ladders[at];
  }

  // The shared ladder stops at the smallest FULL size that holds the tokens,
  // whichever query length it belongs to.
  [[nodiscard]] bool is_nearest(const GraphShape& shape,
                                std::int64_t tokens) const {
    return policy_ != GraphPolicy::kVllm033 ||
           levels_[levels_.at_or_above(tokens)] == shape.num_tokens;
  }

  [[nodiscard]] const GraphShape* full_shape(const Step& step) const {
    if (step.num_ubatches != 1 && step.num_ubatches != num_ubatches_) {
      return nullptr;
    }
    const Bank& bank = step.num_ubatches == 1 ? bank_ : twin_bank_;
    if (const Ladder* ladder = ladder_of(bank, step.query_len)) {
      const std::size_t at = shape_at_or_above(*ladder, step.num_tokens);
      if (at != kNoShape) {
        const GraphShape& shape = graphs_.shapes[at];
        if (shape.num_reqs >= step.num_reqs &&
            is_nearest(shape, step.num_tokens)) {
          return &shape;
        }
      }
    }
    const std::size_t at = shape_at_or_above(bank.any, step.num_tokens);
    if (at == kNoShape) return nullptr;
    const GraphShape& shape = graphs_.shapes[at];
    const bool fits_length =
        shape.max_query_len == 0 ||
        (step.max_query_len != 0 && step.max_query_len <= shape.max_query_len);
    return shape.num_reqs >= step.num_reqs && fits_length ? &shape : nullptr;
  }

  [[nodiscard]] const GraphShape* piecewise_shape(const Step& step) const {
    if (step.num_ubatches != 1) return nullptr;
    const std::size_t at = piecewise_.at_or_above(step.num_tokens);
    if (at == piecewise_.size()) return nullptr;
    // Captured largest first, indexed smallest first.
    return &graphs_.shapes[piecewise_.size() - 1 - at];
  }

  [[nodiscard]] std::int64_t index_of(const GraphShape& shape,
                                      std::int64_t lora) const {
    return shape.first + lora * shape.stride;
  }

  // Position of the LoRA case that serves an active count, or -1.
  [[nodiscard]] std::int64_t lora_position(std::int64_t active) const {
    if (active == 0) return no_lora_position_;
    std::size_t at = positive_loras_.at_or_above(active);
    if (at == positive_loras_.size()) {
      if (!clamp_loras_ || at == 0) return -1;
      --at;
    }
    return lora_positions_[at];
  }

  void index_full_shapes();
  void mark_used(const Ladder& ladder, const DiagonalRun& run,
                 std::vector<std::uint8_t>& used) const;

  static constexpr std::int64_t kMaxTokens = 2147483647;

  GraphShapes graphs_;
  GraphPolicy policy_;
  std::int64_t max_num_seqs_;
  std::int64_t num_ubatches_;
  bool clamp_loras_;
  std::vector<std::int64_t> lora_cases_;
  SortedIndex positive_loras_;
  std::vector<std::int64_t> lora_positions_;  // beside positive_loras_
  std::int64_t no_lora_position_ = -1;
  SortedIndex piecewise_;
  SortedIndex levels_;  // distinct FULL token counts
  Bank bank_;
  Bank twin_bank_;
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
