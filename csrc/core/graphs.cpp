#include "core/graphs.hpp"

#include <algorithm>
#include <array>

namespace specgrid {
namespace {

std::int32_t narrow(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}

// Appends a shape and, where micro-batching splits it evenly, its twin. A twin
// is captured for the query length its requests really have.
void add_with_twin(const GraphConfig& config, const GraphShape& shape,
                   std::vector<GraphShape>& out) {
  out.push_back(shape);
  if (config.num_ubatches <= 1 || shape.mode != GraphMode::kFull ||
      shape.num_reqs == 0 || shape.num_tokens % shape.num_reqs != 0 ||
      shape.num_tokens < config.num_ubatches ||
      shape.num_tokens < config.ubatch_min_tokens) {
    return;
  }
  const std::int32_t query_len = shape.num_tokens / shape.num_reqs;
  if (shape.query_len != 0 && shape.query_len != query_len) return;
  GraphShape twin = shape;
  twin.query_len = query_len;
  twin.num_ubatches = narrow(config.num_ubatches);
  out.push_back(twin);
}

// Sizes ascend, so each query length's rounded sizes ascend too: a duplicate
// can only equal the last one, and no search is needed.
class UniformShapes {
 public:
  explicit UniformShapes(const GraphConfig& config)
      : config_(config),
        last_(config.query_lens.size(), 0),
        limit_(std::min(config.max_size,
                        config.max_num_seqs * config.decode_query_len)) {}

  void add(std::int64_t size, std::vector<GraphShape>& out) {
    for (std::size_t i = 0; i < last_.size(); ++i) {
      const std::int64_t query_len = config_.query_lens[i];
      const std::int64_t reqs = (size + query_len - 1) / query_len;
      const std::int64_t tokens = reqs * query_len;
      if (tokens > limit_ || reqs > config_.max_num_seqs) continue;
      if (tokens == last_[i]) continue;
      last_[i] = tokens;
      add_with_twin(config_,
                    {.mode = config_.decode_mode,
                     .num_tokens = narrow(tokens),
                     .num_reqs = narrow(reqs),
                     .query_len = narrow(query_len),
                     .source = narrow(size)},
                    out);
    }
  }

 private:
  const GraphConfig& config_;
  std::vector<std::int64_t> last_;  // last rounded size per query length
  std::int64_t limit_;
};

void add_varlen(const GraphConfig& config, std::int64_t size,
                std::vector<GraphShape>& out) {
  if (size > config.max_num_seqs * config.decode_query_len) return;
  out.push_back({.mode = config.decode_mode,
                 .num_tokens = narrow(size),
                 .num_reqs = narrow(std::min(size, config.max_num_seqs)),
                 .max_query_len = narrow(config.decode_query_len),
                 .source = narrow(size)});
}

void add_mixed(const GraphConfig& config, std::int64_t size,
               std::vector<GraphShape>& out) {
  if (config.mixed_max_tokens != 0 && size > config.mixed_max_tokens) return;
  const bool full = config.mixed_mode == GraphMode::kFull;
  add_with_twin(
      config,
      {.mode = config.mixed_mode,
       .num_tokens = narrow(size),
       .num_reqs = full ? narrow(std::min(size, config.max_num_seqs)) : 0,
       .source = narrow(size)},
      out);
}

// Stable radix sort by tokens, largest first.
void sort_largest_first(std::vector<GraphShape>& shapes) {
  constexpr int kDigitBits = 11;
  constexpr std::uint32_t kDigits = 1U << kDigitBits;
  std::uint32_t largest = 0;
  for (const GraphShape& shape : shapes) {
    largest = std::max(largest, static_cast<std::uint32_t>(shape.num_tokens));
  }
  std::vector<GraphShape> sorted(shapes.size());
  for (int shift = 0; shift < 32 && (largest >> shift) != 0;
       shift += kDigitBits) {
    const auto digit = [shift](const GraphShape& shape) {
      const auto tokens = static_cast<std::uint32_t>(shape.num_tokens);
      return kDigits - 1 - ((tokens >> shift) & (kDigits - 1));
    };
    std::array<std::size_t, kDigits + 1> starts{};
    for (const GraphShape& shape : shapes) ++starts[digit(shape) + 1];
    for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
    for (const GraphShape& shape : shapes) {
      sorted[starts[digit(shape)]++] = shape;
    }
    shapes.swap(sorted);
  }
}

// Marks what one query length's ladder (requests, ascending) needs so that
// each of its batches is served as if the whole ladder were there.
void mark_needed(std::span<const std::int32_t> ladder,
                 std::span<const DiagonalRun> runs, std::vector<bool>& needed) {
  if (ladder.empty()) return;
  std::int64_t widest = 0;
  for (const DiagonalRun& run : runs) {
    widest = std::max(widest, run.batch_hi);
    auto at = std::lower_bound(ladder.begin(), ladder.end(), run.batch_lo);
    std::int64_t served = run.batch_lo - 1;
    for (; at != ladder.end() && served < run.batch_hi; ++at) {
      needed[static_cast<std::size_t>(at - ladder.begin())] = true;
      served = *at;
    }
  }
  // A tier whose widest batches no graph can hold still shrinks below the
  // largest graph when requests finish: that graph serves what is left.
  if (widest > ladder.back()) needed.back() = true;
}

// Drops uniform decode graphs no step of the schedule replays. `shapes` are
// sorted largest first; twins follow the shape they belong to.
void keep_reachable(const GraphConfig& config,
                    std::vector<GraphShape>& shapes) {
  const auto lens = config.query_lens;
  const auto row_of = [lens](std::int64_t query_len) {
    return static_cast<std::size_t>(
        std::lower_bound(lens.begin(), lens.end(), query_len) - lens.begin());
  };
  std::vector<std::vector<DiagonalRun>> runs(lens.size());
  for (const DiagonalRun& run : config.diagonal) {
    const std::size_t row = row_of(run.query_len);
    if (row < lens.size() && lens[row] == run.query_len) {
      runs[row].push_back(run);
    }
  }
  std::vector<std::vector<std::int32_t>> ladders(lens.size());
  for (auto shape = shapes.rbegin(); shape != shapes.rend(); ++shape) {
    if (shape->num_ubatches == 1) {
      ladders[row_of(shape->query_len)].push_back(shape->num_reqs);
    }
  }
  std::vector<std::vector<bool>> needed(lens.size());
  for (std::size_t row = 0; row < lens.size(); ++row) {
    needed[row].resize(ladders[row].size());
    mark_needed(ladders[row], runs[row], needed[row]);
  }
  std::erase_if(shapes, [&](const GraphShape& shape) {
    const std::size_t row = row_of(shape.query_len);
    const auto& ladder = ladders[row];
    const auto at =
        std::lower_bound(ladder.begin(), ladder.end(), shape.num_reqs);
    return !needed[row][static_cast<std::size_t>(at - ladder.begin())];
  });
}

// vLLM lists, for one size, all query lengths of one LoRA case before the next
// case, and keeps that order among equal token counts. So shapes of equal
// tokens and equal source form a block that is repeated per LoRA case.
std::int64_t number_blocks(std::span<GraphShape> shapes, std::int64_t next,
                           std::int64_t num_lora_cases) {
  for (std::size_t begin = 0; begin < shapes.size();) {
    std::size_t end = begin;
    while (end < shapes.size() &&
           shapes[end].num_tokens == shapes[begin].num_tokens &&
           shapes[end].source == shapes[begin].source) {
      ++end;
    }
    const auto width = static_cast<std::int64_t>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      shapes[i].first = next + static_cast<std::int64_t>(i - begin);
      shapes[i].stride = width;
    }
    next += width * num_lora_cases;
    begin = end;
  }
  return next;
}

}  // namespace

GraphShapes build_graphs(const GraphConfig& config) {
  std::vector<GraphShape> full;
  std::vector<GraphShape> piecewise;
  const bool uniform =
      config.decode_mode != GraphMode::kNone && !config.varlen_decode;
  if (uniform) full.reserve(config.sizes.size() * config.query_lens.size());
  UniformShapes uniform_shapes(config);
  for (const std::int64_t size : config.sizes) {
    if (uniform) {
      uniform_shapes.add(size, full);
    } else if (config.decode_mode != GraphMode::kNone) {
      add_varlen(config, size, full);
    }
    if (config.mixed_mode == GraphMode::kFull) add_mixed(config, size, full);
    if (config.mixed_mode == GraphMode::kPiecewise) {
      add_mixed(config, size, piecewise);
    }
  }
  std::reverse(piecewise.begin(), piecewise.end());
  sort_largest_first(full);
  if (uniform && config.policy == GraphPolicy::kReachable) {
    keep_reachable(config, full);
  }
  GraphShapes result;
  result.num_piecewise = piecewise.size();
  result.num_lora_cases = static_cast<std::int64_t>(config.lora_cases.size());
  result.shapes = std::move(piecewise);
  result.shapes.insert(result.shapes.end(), full.begin(), full.end());
  const std::span<GraphShape> all(result.shapes);
  const std::int64_t next =
      number_blocks(all.first(result.num_piecewise), 0, result.num_lora_cases);
  number_blocks(all.subspan(result.num_piecewise), next, result.num_lora_cases);
  return result;
}

}  // namespace specgrid
