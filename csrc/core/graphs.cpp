// Shapes of one size list in capture order, per policy. See graphs.hpp.
#include "core/graphs.hpp"

#include <algorithm>
#include <queue>
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
      shape.num_tokens % shape.num_reqs != 0 ||
      shape.num_tokens < config.num_ubatches ||
      shape.num_tokens < config.ubatch_min_tokens) {
    return;
  }
  GraphShape twin = shape;
  twin.query_len = shape.num_tokens / shape.num_reqs;
  twin.num_ubatches = static_cast<std::int16_t>(config.num_ubatches);
  out.push_back(twin);
}

// A capture size rounded up to whole requests of one query length.
struct Rounded {
  std::int32_t reqs;
  std::int32_t source;  // the size
};

// All of one query length, ascending. Sizes ascend, so a size that the last
// one holds is a duplicate, the next step is one request further, and only a
// wider gap needs a division.
std::vector<Rounded> round_sizes(const GraphConfig& config,
                                 std::int64_t query_len) {
  const std::int64_t most_tokens =
      std::min(config.max_size, config.max_num_seqs * config.decode_query_len);
  const std::int64_t most_reqs =
      std::min(most_tokens / query_len, config.max_num_seqs);
  std::vector<Rounded> rounded;
  std::int64_t last = 0;
  for (const std::int64_t size : config.sizes) {
    const std::int64_t gap = size - last * query_len;
    if (gap <= 0) continue;
    last += gap <= query_len ? 1 : (gap + query_len - 1) / query_len;
    if (last > most_reqs) break;
    rounded.push_back({narrow(last), narrow(size)});
  }
  return rounded;
}

// Uniform decode shapes, largest first. vLLM lists them size by size and sorts
// them by tokens alone: among equal ones the smaller size comes first, then
// the shorter query length. A merge of one list per query length gives that.
void add_uniform(const GraphConfig& config, std::vector<GraphShape>& out) {
  std::vector<std::vector<Rounded>> lists;
  // What comes out first is largest: tokens, then the complements of the size
  // and of the list.
  using Head = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Head> heads;
  std::size_t total = 0;
  const auto offer = [&](std::uint32_t list) {
    if (lists[list].empty()) return;
    const Rounded last = lists[list].back();
    const auto tokens =
        static_cast<std::uint64_t>(last.reqs * config.query_lens[list]);
    heads.emplace(tokens << 32U | ~static_cast<std::uint32_t>(last.source),
                  ~list);
  };
  for (const std::int64_t query_len : config.query_lens) {
    lists.push_back(round_sizes(config, query_len));
    total += lists.back().size();
    offer(static_cast<std::uint32_t>(lists.size() - 1));
  }
  out.reserve(out.size() + total);
  while (!heads.empty()) {
    const std::uint32_t list = ~heads.top().second;
    heads.pop();
    const Rounded rounded = lists[list].back();
    lists[list].pop_back();
    offer(list);
    const std::int64_t query_len = config.query_lens[list];
    add_with_twin(config,
                  {.num_tokens = narrow(rounded.reqs * query_len),
                   .num_reqs = rounded.reqs,
                   .query_len = narrow(query_len),
                   .source = rounded.source,
                   .mode = config.decode_mode},
                  out);
  }
}

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
  GraphShapes result;
  result.num_lora_cases = static_cast<std::int64_t>(config.lora_cases.size());
  auto& shapes = result.shapes;
  const auto add_largest_first = [&](auto add) {
    shapes.reserve(shapes.size() + config.sizes.size());
    for (std::size_t i = config.sizes.size(); i-- > 0;) {
      add(config, config.sizes[i], shapes);
    }
  };
  if (config.mixed_mode == GraphMode::kPiecewise) add_largest_first(add_mixed);
  result.num_piecewise = shapes.size();
  if (config.decode_mode != GraphMode::kNone) {
    if (config.varlen_decode) {
      add_largest_first(add_varlen);
    } else {
      add_uniform(config, shapes);
      if (config.policy == GraphPolicy::kReachable) {
        keep_reachable(config, result.num_piecewise, shapes);
      }
    }
  }
  // Only without a decode routine: FULL decode and FULL mixed never meet.
  if (config.mixed_mode == GraphMode::kFull) add_largest_first(add_mixed);
  if (result.num_lora_cases > 1) number_blocks(result);
  return result;
}

}  // namespace specgrid
