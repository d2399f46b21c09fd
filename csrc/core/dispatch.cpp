#include "core/dispatch.hpp"

#include <functional>
#include <iterator>
#include <utility>

namespace specgrid {

SortedIndex::SortedIndex(std::vector<std::int32_t> values)
    : values_(std::move(values)) {
  if (values_.empty() || values_.back() > kLargestTable) return;
  table_.resize(static_cast<std::size_t>(values_.back()) + 1);
  auto next = table_.begin();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto end = table_.begin() + values_[i] + 1;
    std::fill(next, end, static_cast<std::int32_t>(i));
    next = end;
  }
}

Dispatcher::Dispatcher(const GraphConfig& config, bool clamp_loras)
    : graphs_(build_graphs(config)),
      policy_(config.policy),
      max_num_seqs_(config.max_num_seqs),
      num_ubatches_(config.num_ubatches),
      clamp_loras_(clamp_loras),
      lora_cases_(config.lora_cases.begin(), config.lora_cases.end()) {
  std::vector<std::pair<std::int32_t, std::int64_t>> positive;
  for (std::size_t i = 0; i < lora_cases_.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    if (lora_cases_[i] == 0) {
      no_lora_position_ = position;
    } else {
      positive.emplace_back(static_cast<std::int32_t>(lora_cases_[i]),
                            position);
    }
  }
  std::sort(positive.begin(), positive.end());
  std::vector<std::int32_t> counts;
  for (const auto& [count, position] : positive) {
    counts.push_back(count);
    lora_positions_.push_back(position);
  }
  positive_loras_ = SortedIndex(std::move(counts));

  std::vector<std::int32_t> tokens;
  for (std::size_t i = graphs_.num_piecewise; i-- > 0;) {
    tokens.push_back(graphs_.shapes[i].num_tokens);
  }
  piecewise_ = SortedIndex(std::move(tokens));
  index_full_shapes();
}

void Dispatcher::index_full_shapes() {
  const std::span<const GraphShape> shapes(graphs_.shapes);
  std::vector<std::int32_t> lens[2];
  for (const GraphShape& shape : shapes.subspan(graphs_.num_piecewise)) {
    auto& known = lens[shape.num_ubatches == 1 ? 0 : 1];
    const auto at =
        std::lower_bound(known.begin(), known.end(), shape.query_len);
    if (shape.query_len != 0 && (at == known.end() || *at != shape.query_len)) {
      known.insert(at, shape.query_len);
    }
  }
  std::vector<std::int32_t> levels;
  for (Bank* bank : {&bank_, &twin_bank_}) {
    const bool twins = bank == &twin_bank_;
    bank->query_lens = SortedIndex(std::move(lens[twins ? 1 : 0]));
    bank->ladders.resize(bank->query_lens.size());
    // The last list is that of `any`.
    std::vector<std::vector<std::int32_t>> counts(bank->ladders.size() + 1);
    for (std::size_t i = 0; i < bank->ladders.size(); ++i) {
      bank->ladders[i].unit = static_cast<std::uint32_t>(bank->query_lens[i]);
    }
    for (std::size_t i = shapes.size(); i-- > graphs_.num_piecewise;) {
      const GraphShape& shape = shapes[i];
      if ((shape.num_ubatches != 1) != twins) continue;
      if (!twins && (levels.empty() || levels.back() != shape.num_tokens)) {
        levels.push_back(shape.num_tokens);
      }
      std::size_t row = bank->ladders.size();
      if (shape.query_len != 0) {
        row = bank->query_lens.at_or_above(shape.query_len);
      }
      Ladder& ladder =
          row == bank->ladders.size() ? bank->any : bank->ladders[row];
      counts[row].push_back(shape.num_tokens /
                            static_cast<std::int32_t>(ladder.unit));
      ladder.shapes.push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < bank->ladders.size(); ++i) {
      bank->ladders[i].index = SortedIndex(std::move(counts[i]));
    }
    bank->any.index = SortedIndex(std::move(counts.back()));
  }
  levels_ = SortedIndex(std::move(levels));
}

std::int64_t Dispatcher::effective_loras(std::int64_t active) const {
  const std::int64_t position = lora_position(active);
  return position < 0 ? active
                      : lora_cases_[static_cast<std::size_t>(position)];
}

Dispatcher::Place Dispatcher::locate(std::int64_t index) const {
  const auto next =
      std::upper_bound(graphs_.shapes.begin(), graphs_.shapes.end(), index,
                       [](std::int64_t at, const GraphShape& shape) {
                         return at < shape.first;
                       });
  const auto found =
      static_cast<std::size_t>(next - graphs_.shapes.begin()) - 1;
  const GraphShape& shape = graphs_.shapes[found];
  if (shape.first == index) return {found, 0};
  // Past the first LoRA case, the search ends at the block's last shape.
  const auto width = static_cast<std::size_t>(shape.stride);
  const auto ahead = static_cast<std::size_t>(index - shape.first) + width - 1;
  return {found + 1 - width + ahead % width, ahead / width};
}

Served Dispatcher::explain(const Step& step) const {
  Served served;
  served.graph = dispatch(step);
  const std::int64_t lora = lora_position(step.num_active_loras);
  if (lora < 0 || step.num_tokens == 0 ||
      (step.num_ubatches != 1 && step.num_ubatches != num_ubatches_)) {
    return served;
  }
  const Bank& bank = step.num_ubatches == 1 ? bank_ : twin_bank_;
  const Ladder* ladder = ladder_of(bank, step.query_len);
  if (ladder == nullptr) return served;
  const std::size_t at = shape_at_or_above(*ladder, step.num_tokens);
  if (at == kNoShape) return served;
  const GraphShape& own = graphs_.shapes[at];
  if (own.num_reqs < step.num_reqs) return served;
  served.own = index_of(own, lora);
  if (is_nearest(own, step.num_tokens)) return served;
  // Sorted largest first: the last shape of the nearest level is tried first.
  const std::int32_t level = levels_[levels_.at_or_above(step.num_tokens)];
  const auto end =
      std::upper_bound(graphs_.shapes.begin() +
                           static_cast<std::ptrdiff_t>(graphs_.num_piecewise),
                       graphs_.shapes.end(), level,
                       [](std::int32_t tokens, const GraphShape& shape) {
                         return tokens > shape.num_tokens;
                       });
  served.hidden_by = index_of(*(end - 1), lora);
  return served;
}

void Dispatcher::mark_used(const Ladder& ladder, const DiagonalRun& run,
                           std::vector<std::uint8_t>& used) const {
  const auto counts = ladder.index.values();
  const auto query_len = static_cast<std::int64_t>(ladder.unit);
  const auto reqs_of = [&](std::size_t i) {
    const auto at = static_cast<std::size_t>(ladder.shapes[i]);
    return std::int64_t{graphs_.shapes[at].num_reqs};
  };
  auto i = static_cast<std::size_t>(
      std::lower_bound(counts.begin(), counts.end(), run.batch_lo) -
      counts.begin());
  std::int64_t served = run.batch_lo - 1;
  for (; i < counts.size() && served < run.batch_hi; ++i) {
    // The widest batch of the run this graph is the first to hold: when the
    // shared ladder passes over the graph there, it does so for all others.
    const std::int64_t batch = std::min(reqs_of(i), run.batch_hi);
    const auto at = static_cast<std::size_t>(ladder.shapes[i]);
    if (is_nearest(graphs_.shapes[at], batch * query_len)) used[at] = 1;
    served = batch;
  }
}

std::vector<std::uint8_t> Dispatcher::used_shapes(
    std::span<const DiagonalRun> diagonal) const {
  std::vector<std::uint8_t> used(graphs_.shapes.size(), 1);
  for (const Bank* bank : {&bank_, &twin_bank_}) {
    for (const Ladder& ladder : bank->ladders) {
      for (const std::int32_t at : ladder.shapes) {
        used[static_cast<std::size_t>(at)] = 0;
      }
    }
  }
  for (const DiagonalRun& run : diagonal) {
    for (const Bank* bank : {&bank_, &twin_bank_}) {
      const Ladder* ladder = ladder_of(*bank, run.query_len);
      if (ladder == nullptr) continue;
      mark_used(*ladder, run, used);
      if (run.batch_hi > ladder->index.values().back()) {
        used[static_cast<std::size_t>(ladder->shapes.back())] = 1;
      }
    }
  }
  return used;
}

CandidateTable Dispatcher::candidates() const {
  // Shape lists of one LoRA case, row by row; the other cases repeat them.
  std::vector<std::int64_t> lasts;
  lasts.reserve(levels_.size() + piecewise_.size());
  std::merge(levels_.values().begin(), levels_.values().end(),
             piecewise_.values().begin(), piecewise_.values().end(),
             std::back_inserter(lasts));
  lasts.erase(std::unique(lasts.begin(), lasts.end()), lasts.end());
  std::vector<std::size_t> row_shapes;
  std::vector<std::size_t> row_ends;
  std::size_t level_end = graphs_.shapes.size();  // of the level looked at
  for (const std::int64_t tokens : lasts) {
    const std::size_t begin = row_shapes.size();
    if (policy_ == GraphPolicy::kVllm033) {
      // All FULL shapes of the nearest level, in reversed capture order.
      while (level_end > graphs_.num_piecewise &&
             graphs_.shapes[level_end - 1].num_tokens < tokens) {
        --level_end;
      }
      for (std::size_t i = level_end;
           i > graphs_.num_piecewise &&
           graphs_.shapes[i - 1].num_tokens ==
               graphs_.shapes[level_end - 1].num_tokens;
           --i) {
        row_shapes.push_back(i - 1);
      }
    } else {
      // The nearest FULL shape of each query length, smallest first.
      for (const Bank* bank : {&bank_, &twin_bank_}) {
        for (const Ladder& ladder : bank->ladders) {
          const std::size_t at = shape_at_or_above(ladder, tokens);
          if (at != kNoShape) row_shapes.push_back(at);
        }
        const std::size_t at = shape_at_or_above(bank->any, tokens);
        if (at != kNoShape) row_shapes.push_back(at);
      }
      std::sort(row_shapes.begin() + static_cast<std::ptrdiff_t>(begin),
                row_shapes.end(), std::greater<>());
    }
    const std::size_t at = piecewise_.at_or_above(tokens);
    if (at != piecewise_.size()) {
      row_shapes.push_back(piecewise_.size() - 1 - at);
    }
    row_ends.push_back(row_shapes.size());
  }

  CandidateTable table;
  table.offsets.push_back(0);
  for (std::size_t lora = 0; lora < lora_cases_.size(); ++lora) {
    std::int64_t first = 0;
    std::size_t begin = 0;
    for (std::size_t row = 0; row < lasts.size(); ++row) {
      table.lora_cases.push_back(lora_cases_[lora]);
      table.first_tokens.push_back(first);
      table.last_tokens.push_back(lasts[row]);
      for (std::size_t i = begin; i < row_ends[row]; ++i) {
        table.indices.push_back(index_of(graphs_.shapes[row_shapes[i]],
                                         static_cast<std::int64_t>(lora)));
      }
      table.offsets.push_back(static_cast<std::int64_t>(table.indices.size()));
      first = lasts[row] + 1;
      begin = row_ends[row];
    }
  }
  return table;
}

std::int64_t dispatch_many(const Dispatcher& dispatcher,
                           const StepColumns& steps,
                           std::span<std::int64_t> out) {
  // 0 for a column of one element, which every step then reads.
  const auto step_of = [](std::span<const std::int64_t> column) {
    return static_cast<std::size_t>(column.size() == 1 ? 0 : 1);
  };
  const std::size_t reqs = step_of(steps.num_reqs);
  const std::size_t tokens = step_of(steps.num_tokens);
  const std::size_t lens = step_of(steps.query_len);
  const std::size_t loras = step_of(steps.num_active_loras);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Step step{.num_reqs = steps.num_reqs[i * reqs],
                    .num_tokens = steps.num_tokens[i * tokens],
                    .query_len = steps.query_len[i * lens],
                    .num_active_loras = steps.num_active_loras[i * loras],
                    .max_query_len = steps.max_query_len,
                    .num_ubatches = steps.num_ubatches};
    if (!dispatcher.is_sound(step)) return static_cast<std::int64_t>(i);
    out[i] = dispatcher.dispatch(step);
  }
  return -1;
}

}  // namespace specgrid
