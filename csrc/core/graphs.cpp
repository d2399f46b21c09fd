#include "core/graphs.hpp"

#include <algorithm>
#include <array>
#include <utility>

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
  twin.num_ubatches = static_cast<std::int16_t>(config.num_ubatches);
  out.push_back(twin);
}

// Sizes ascend, so each query length's rounded sizes ascend too: a size that
// the last one holds is a duplicate, the next step is one request further, and
// only a wider gap needs a division.
class UniformShapes {
 public:
  explicit UniformShapes(const GraphConfig& config) : config_(config) {
    const std::int64_t most = config.max_num_seqs * config.decode_query_len;
    const std::int64_t limit = std::min(config.max_size, most);
    for (const std::int64_t query_len : config.query_lens) {
      lengths_.push_back(
          {.query_len = query_len,
           .most_reqs = std::min(limit / query_len, config.max_num_seqs)});
    }
  }

  void add(std::int64_t size, std::vector<GraphShape>& out) {
    for (Length& length : lengths_) {
      const std::int64_t q = length.query_len;
      const std::int64_t gap = size - length.last_reqs * q;
      if (gap <= 0) continue;
      const std::int64_t reqs =
          length.last_reqs + (gap <= q ? 1 : (gap + q - 1) / q);
      if (reqs > length.most_reqs) continue;
      length.last_reqs = reqs;
      add_with_twin(config_,
                    {.num_tokens = narrow(reqs * q),
                     .num_reqs = narrow(reqs),
                     .query_len = narrow(q),
                     .source = narrow(size),
                     .mode = config_.decode_mode},
                    out);
    }
  }

 private:
  struct Length {
    std::int64_t query_len;
    std::int64_t most_reqs;
    std::int64_t last_reqs = 0;
  };
  const GraphConfig& config_;
  std::vector<Length> lengths_;
};

void add_varlen(const GraphConfig& config, std::int64_t size,
                std::vector<GraphShape>& out) {
  if (size > config.max_num_seqs * config.decode_query_len) return;
  out.push_back({.num_tokens = narrow(size),
                 .num_reqs = narrow(std::min(size, config.max_num_seqs)),
                 .max_query_len = narrow(config.decode_query_len),
                 .source = narrow(size),
                 .mode = config.decode_mode});
}

void add_mixed(const GraphConfig& config, std::int64_t size,
               std::vector<GraphShape>& out) {
  if (config.mixed_max_tokens != 0 && size > config.mixed_max_tokens) return;
  const bool full = config.mixed_mode == GraphMode::kFull;
  add_with_twin(
      config,
      {.num_tokens = narrow(size),
       .num_reqs = full ? narrow(std::min(size, config.max_num_seqs)) : 0,
       .source = narrow(size),
       .mode = config.mixed_mode},
      out);
}

// Stable radix sort by tokens, largest first.
void sort_largest_first(std::span<GraphShape> shapes) {
  constexpr int kDigitBits = 11;
  constexpr std::uint32_t kDigits = 1U << kDigitBits;
  std::uint32_t largest = 0;
  for (const GraphShape& shape : shapes) {
    largest = std::max(largest, static_cast<std::uint32_t>(shape.num_tokens));
  }
  std::vector<GraphShape> scratch(shapes.size());
  std::span<GraphShape> from = shapes;
  std::span<GraphShape> to = scratch;
  for (int shift = 0; shift < 32 && (largest >> shift) != 0;
       shift += kDigitBits) {
    const auto digit = [shift](const GraphShape& shape) {
      const auto tokens = static_cast<std::uint32_t>(shape.num_tokens);
      return kDigits - 1 - ((tokens >> shift) & (kDigits - 1));
    };
    std::array<std::size_t, kDigits + 1> starts{};
    for (const GraphShape& shape : from) ++starts[digit(shape) + 1];
    for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
    for (const GraphShape& shape : from) to[starts[digit(shape)]++] = shape;
    std::swap(from, to);
  }
  if (from.data() != shapes.data()) std::ranges::copy(from, shapes.begin());
}

// Marks what one query length's ladder (requests, ascending) needs so that
// each of its batches is served as if the whole ladder were there, and every
// narrower or wider step it can see finds a graph where the ladder has one.
void mark_needed(const GraphConfig& config,
                 std::span<const std::int32_t> ladder,
                 std::span<const DiagonalRun> runs, std::vector<bool>& needed) {
  if (ladder.empty() || runs.empty()) return;
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
  // A graph that holds the widest step holds every narrower one. Where none
  // can, the largest serves what is left when requests finish.
  widest = widest_step(runs[0].query_len, config.decode_query_len, widest,
                       config.max_num_seqs);
  const auto at = std::lower_bound(ladder.begin(), ladder.end() - 1, widest);
  needed[static_cast<std::size_t>(at - ladder.begin())] = true;
}

// Drops uniform decode graphs no step of the schedule replays. Those from
// `first` on are sorted largest first.
void keep_reachable(const GraphConfig& config, std::size_t first,
                    std::vector<GraphShape>& all) {
  const auto shapes = std::span(all).subspan(first);
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
    mark_needed(config, ladders[row], runs[row], needed[row]);
  }
  const auto idle = [&](const GraphShape& shape) {
    const std::size_t row = row_of(shape.query_len);
    const auto& ladder = ladders[row];
    const auto at =
        std::lower_bound(ladder.begin(), ladder.end(), shape.num_reqs);
    return !needed[row][static_cast<std::size_t>(at - ladder.begin())];
  };
  all.erase(std::remove_if(all.begin() + static_cast<std::ptrdiff_t>(first),
                           all.end(), idle),
            all.end());
}

// vLLM lists, for one size, all query lengths of one LoRA case before the next
// case, and keeps that order among equal token counts. So shapes of equal
// tokens and equal source form a block that is repeated per LoRA case.
void number_blocks(GraphShapes& graphs) {
  const auto& shapes = graphs.shapes;
  graphs.firsts.resize(shapes.size());
  graphs.strides.resize(shapes.size());
  for (std::size_t begin = 0; begin < shapes.size();) {
    std::size_t end = begin;
    while (end < shapes.size() && shapes[end].mode == shapes[begin].mode &&
           shapes[end].num_tokens == shapes[begin].num_tokens &&
           shapes[end].source == shapes[begin].source) {
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      graphs.firsts[i] =
          static_cast<std::int64_t>(begin) * graphs.num_lora_cases +
          static_cast<std::int64_t>(i - begin);
      graphs.strides[i] = static_cast<std::int32_t>(end - begin);
    }
    begin = end;
  }
}

}  // namespace

GraphShapes build_graphs(const GraphConfig& config) {
  const bool decodes = config.decode_mode != GraphMode::kNone;
  const bool uniform = decodes && !config.varlen_decode;
  GraphShapes result;
  result.num_lora_cases = static_cast<std::int64_t>(config.lora_cases.size());
  auto& shapes = result.shapes;
  shapes.reserve(config.sizes.size() *
                 (1 + (uniform ? config.query_lens.size() : 1)));
  if (config.mixed_mode == GraphMode::kPiecewise) {
    for (auto size = config.sizes.rbegin(); size != config.sizes.rend();
         ++size) {
      add_mixed(config, *size, shapes);
    }
  }
  result.num_piecewise = shapes.size();
  UniformShapes uniform_shapes(config);
  for (const std::int64_t size : config.sizes) {
    if (uniform) uniform_shapes.add(size, shapes);
    if (decodes && config.varlen_decode) add_varlen(config, size, shapes);
    if (config.mixed_mode == GraphMode::kFull) add_mixed(config, size, shapes);
  }
  sort_largest_first(std::span(shapes).subspan(result.num_piecewise));
  if (uniform && config.policy == GraphPolicy::kReachable) {
    keep_reachable(config, result.num_piecewise, shapes);
  }
  if (result.num_lora_cases > 1) number_blocks(result);
  return result;
}

}  // namespace specgrid
