// Ladders and prepared answers: which graph serves a step, and why.
#include "core/dispatch.hpp"

#include <functional>
#include <iterator>
#include <utility>

namespace specgrid {
namespace {

// Answers are prepared up to these; both are far above what GPUs capture.
constexpr std::int32_t kMostAnswerTokens = 1 << 17;
constexpr std::int32_t kMostAnswerQueryLen = 1 << 12;

}  // namespace

Dispatcher::Dispatcher(const GraphConfig& config, bool clamp_loras)
    : graphs_(build_graphs(config)),
      policy_(config.policy),
      max_num_seqs_(config.max_num_seqs),
      decode_query_len_(config.decode_query_len),
      num_ubatches_(config.num_ubatches),
      clamp_loras_(clamp_loras),
      lora_cases_(config.lora_cases.begin(), config.lora_cases.end()) {
  order_lora_cases();
  for (std::size_t i = graphs_.num_piecewise; i-- > 0;) {
    piecewise_.tokens.push_back(graphs_.shapes[i].num_tokens);
    piecewise_.shapes.push_back(static_cast<std::int32_t>(i));
  }
  index_full_shapes();
  prepare_answers();
}

void Dispatcher::order_lora_cases() {
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
  for (const auto& [count, position] : positive) {
    positive_loras_.push_back(count);
    lora_positions_.push_back(position);
  }
}

void Dispatcher::index_full_shapes() {
  const auto& shapes = graphs_.shapes;
  for (std::size_t i = graphs_.num_piecewise; i < shapes.size(); ++i) {
    Bank& bank = shapes[i].num_ubatches == 1 ? bank_ : twin_bank_;
    const std::size_t at = at_or_above(bank.query_lens, shapes[i].query_len);
    if (shapes[i].query_len != 0 &&
        (at == bank.query_lens.size() ||
         bank.query_lens[at] != shapes[i].query_len)) {
      bank.query_lens.insert(
          bank.query_lens.begin() + static_cast<std::ptrdiff_t>(at),
          shapes[i].query_len);
    }
  }
  bank_.ladders.resize(bank_.query_lens.size());
  twin_bank_.ladders.resize(twin_bank_.query_lens.size());
  level_below_.resize(shapes.size());
  std::int32_t below = 0;
  for (std::size_t i = shapes.size(); i-- > graphs_.num_piecewise;) {
    const GraphShape& shape = shapes[i];
    if (levels_.empty() || levels_.back() != shape.num_tokens) {
      below = levels_.empty() ? 0 : levels_.back();
      levels_.push_back(shape.num_tokens);
    }
    level_below_[i] = below;
    Bank& bank = shape.num_ubatches == 1 ? bank_ : twin_bank_;
    Ladder& ladder =
        shape.query_len == 0
            ? bank.any
            : bank.ladders[at_or_above(bank.query_lens, shape.query_len)];
    ladder.tokens.push_back(shape.num_tokens);
    ladder.shapes.push_back(static_cast<std::int32_t>(i));
  }
}

void Dispatcher::prepare_answers() {
  std::int32_t most = piecewise_.tokens.empty() ? 0 : piecewise_.tokens.back();
  if (!levels_.empty()) most = std::max(most, levels_.back());
  const std::int32_t longest =
      bank_.query_lens.empty() ? 0 : bank_.query_lens.back();
  if (most > kMostAnswerTokens || longest > kMostAnswerQueryLen ||
      !bank_.any.tokens.empty()) {
    return;
  }
  auto& shapes = answers_.shapes;
  shapes.reserve(static_cast<std::size_t>(most) + 1);
  // Steps of no query length: PIECEWISE or nothing.
  for (std::size_t i = 0; i < piecewise_.tokens.size(); ++i) {
    shapes.resize(static_cast<std::size_t>(piecewise_.tokens[i]) + 1,
                  piecewise_.shapes[i]);
  }
  shapes.resize(static_cast<std::size_t>(most) + 1, kNoShape);
  answers_.begins = {0};
  for (std::size_t row = 0; row < bank_.ladders.size(); ++row) {
    const std::int32_t query_len = bank_.query_lens[row];
    answers_.begins.resize(static_cast<std::size_t>(query_len) + 1,
                           static_cast<std::uint32_t>(shapes.size()));
    const Ladder& ladder = bank_.ladders[row];
    std::size_t at = 0;
    for (std::int32_t tokens = 0; tokens <= most; tokens += query_len) {
      if (at < ladder.tokens.size() && ladder.tokens[at] < tokens) ++at;
      const bool full =
          at < ladder.tokens.size() && is_nearest(ladder.shapes[at], tokens);
      shapes.push_back(full ? ladder.shapes[at]
                            : shapes[static_cast<std::size_t>(tokens)]);
    }
  }
  answers_.begins.push_back(static_cast<std::uint32_t>(shapes.size()));
}

std::int32_t Dispatcher::search(const Step& step) const {
  const std::int32_t full = search_full(step);
  if (full != kNoShape) return full;
  if (step.num_ubatches != 1) return kNoShape;
  return shape_at_or_above(piecewise_, step.num_tokens);
}

std::int32_t Dispatcher::search_full(const Step& step) const {
  const Bank* bank = bank_of(step.num_ubatches);
  if (bank == nullptr) return kNoShape;
  if (const Ladder* ladder = ladder_of(*bank, step.query_len)) {
    const std::int32_t at = shape_at_or_above(*ladder, step.num_tokens);
    if (at != kNoShape && shape_of(at).num_reqs >= step.num_reqs &&
        is_nearest(at, step.num_tokens)) {
      return at;
    }
  }
  const std::int32_t at = shape_at_or_above(bank->any, step.num_tokens);
  if (at == kNoShape || shape_of(at).num_reqs < step.num_reqs) return kNoShape;
  const std::int32_t longest = shape_of(at).max_query_len;
  const bool fits = longest == 0 ||
                    (step.max_query_len != 0 && step.max_query_len <= longest);
  return fits ? at : kNoShape;
}

std::int64_t Dispatcher::effective_loras(std::int64_t active) const {
  const std::int64_t position = lora_position(active);
  return position < 0 ? active
                      : lora_cases_[static_cast<std::size_t>(position)];
}

Dispatcher::Place Dispatcher::locate(std::int64_t index) const {
  const auto& firsts = graphs_.firsts;
  if (firsts.empty()) return {static_cast<std::size_t>(index), 0};
  const auto next = std::upper_bound(firsts.begin(), firsts.end(), index);
  const auto found = static_cast<std::size_t>(next - firsts.begin()) - 1;
  if (firsts[found] == index) return {found, 0};
  // Past the first LoRA case, the search ends at the block's last shape.
  const auto width = static_cast<std::size_t>(graphs_.strides[found]);
  const auto ahead =
      static_cast<std::size_t>(index - firsts[found]) + width - 1;
  return {found + 1 - width + ahead % width, ahead / width};
}

Served Dispatcher::explain(const Step& step) const {
  Served served;
  served.graph = dispatch(step);
  const std::int64_t lora = lora_position(step.num_active_loras);
  const Bank* bank = bank_of(step.num_ubatches);
  if (lora < 0 || step.num_tokens == 0 || bank == nullptr) return served;
  const Ladder* ladder = ladder_of(*bank, step.query_len);
  if (ladder == nullptr) return served;
  const std::int32_t own = shape_at_or_above(*ladder, step.num_tokens);
  if (own == kNoShape || shape_of(own).num_reqs < step.num_reqs) return served;
  served.own = graphs_.index_of(own, lora);
  if (is_nearest(own, step.num_tokens)) return served;
  // Sorted largest first: the last shape of the nearest level is tried first.
  const std::int32_t level = levels_[at_or_above(levels_, step.num_tokens)];
  const auto begin = graphs_.shapes.begin();
  const auto end = std::upper_bound(
      begin + static_cast<std::ptrdiff_t>(graphs_.num_piecewise),
      graphs_.shapes.end(), level,
      [](std::int32_t tokens, const GraphShape& shape) {
        return tokens > shape.num_tokens;
      });
  served.hidden_by =
      graphs_.index_of(static_cast<std::int32_t>(end - begin) - 1, lora);
  return served;
}

void Dispatcher::mark_used(const Ladder& ladder, const DiagonalRun& run,
                           std::vector<std::uint8_t>& used) const {
  const std::int64_t query_len = run.query_len;
  std::size_t i = at_or_above(ladder.tokens, run.batch_lo * query_len);
  std::int64_t served = run.batch_lo - 1;
  for (; i < ladder.shapes.size() && served < run.batch_hi; ++i) {
    const std::int32_t at = ladder.shapes[i];
    // The widest batch of the run this graph is the first to hold: when the
    // shared ladder passes over the graph there, it does so for all others.
    served = std::min<std::int64_t>(shape_of(at).num_reqs, run.batch_hi);
    if (is_nearest(at, served * query_len)) {
      used[static_cast<std::size_t>(at)] = 1;
    }
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
      const std::int64_t widest = widest_step(run.query_len, decode_query_len_,
                                              run.batch_hi, max_num_seqs_);
      if (widest > run.batch_hi) {
        mark_used(*ladder, {run.query_len, widest, widest}, used);
      }
      if (widest > shape_of(ladder->shapes.back()).num_reqs) {
        used[static_cast<std::size_t>(ladder->shapes.back())] = 1;
      }
    }
  }
  return used;
}

// Appends what is tried for a token count. `level_end` is one past the shapes
// of the nearest level; it is moved down to it, so tokens must ascend.
void Dispatcher::append_candidates(std::int64_t tokens, std::size_t& level_end,
                                   std::vector<std::int32_t>& shapes) const {
  const auto begin = static_cast<std::ptrdiff_t>(shapes.size());
  const auto append = [&shapes](std::int32_t at) {
    if (at != kNoShape) shapes.push_back(at);
  };
  if (policy_ == GraphPolicy::kVllm033) {
    // All FULL shapes of the nearest level, in reversed capture order.
    const auto& all = graphs_.shapes;
    while (level_end > graphs_.num_piecewise &&
           all[level_end - 1].num_tokens < tokens) {
      --level_end;
    }
    for (std::size_t i = level_end;
         i > graphs_.num_piecewise &&
         all[i - 1].num_tokens == all[level_end - 1].num_tokens;
         --i) {
      append(static_cast<std::int32_t>(i) - 1);
    }
  } else {
    // The nearest FULL shape of each query length, smallest first.
    for (const Bank* bank : {&bank_, &twin_bank_}) {
      for (const Ladder& ladder : bank->ladders) {
        append(shape_at_or_above(ladder, tokens));
      }
      append(shape_at_or_above(bank->any, tokens));
    }
    std::sort(shapes.begin() + begin, shapes.end(), std::greater<>());
  }
  append(shape_at_or_above(piecewise_, tokens));
}

CandidateTable Dispatcher::candidates() const {
  std::vector<std::int64_t> lasts;
  lasts.reserve(levels_.size() + piecewise_.tokens.size());
  std::merge(levels_.begin(), levels_.end(), piecewise_.tokens.begin(),
             piecewise_.tokens.end(), std::back_inserter(lasts));
  lasts.erase(std::unique(lasts.begin(), lasts.end()), lasts.end());
  // Rows of one LoRA case; the other cases repeat them.
  std::vector<std::int32_t> shapes;
  std::vector<std::size_t> ends;
  std::size_t level_end = graphs_.shapes.size();
  for (const std::int64_t tokens : lasts) {
    append_candidates(tokens, level_end, shapes);
    ends.push_back(shapes.size());
  }
  CandidateTable table;
  table.offsets.push_back(0);
  for (std::size_t lora = 0; lora < lora_cases_.size(); ++lora) {
    std::int64_t first = 0;
    std::size_t at = 0;
    for (std::size_t row = 0; row < lasts.size(); ++row) {
      table.lora_cases.push_back(lora_cases_[lora]);
      table.first_tokens.push_back(first);
      table.last_tokens.push_back(lasts[row]);
      for (; at < ends[row]; ++at) {
        table.indices.push_back(
            graphs_.index_of(shapes[at], static_cast<std::int64_t>(lora)));
      }
      table.offsets.push_back(static_cast<std::int64_t>(table.indices.size()));
      first = lasts[row] + 1;
    }
  }
  return table;
}

std::int64_t dispatch_many(const Dispatcher& dispatcher,
                           const StepColumns& steps,
                           std::span<std::int64_t> out) {
  // 0 for a column of one element, which every step then reads.
  const auto stride_of = [](std::span<const std::int64_t> column) {
    return static_cast<std::size_t>(column.size() == 1 ? 0 : 1);
  };
  const std::size_t reqs = stride_of(steps.num_reqs);
  const std::size_t tokens = stride_of(steps.num_tokens);
  const std::size_t lens = stride_of(steps.query_len);
  const std::size_t loras = stride_of(steps.num_active_loras);
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
