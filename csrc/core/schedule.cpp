// The rules of a schedule, and the three ways rows become a grid.
#include "core/schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace specgrid {
namespace {

struct Row {
  Range batch;
  Range context;
  std::int64_t k;
};

class Rows {
 public:
  explicit Rows(std::span<const std::int64_t> values) : values_(values) {}
  [[nodiscard]] std::size_t size() const { return values_.size() / 5; }
  [[nodiscard]] Row operator[](std::size_t i) const {
    const auto v = values_.subspan(i * 5, 5);
    return {{v[0], v[1]}, {v[2], v[3]}, v[4]};
  }

 private:
  std::span<const std::int64_t> values_;
};

bool before(const Range& a, const Range& b) {
  return a.lo != b.lo ? a.lo < b.lo : a.hi < b.hi;
}

Fault row_fault(Rule rule, std::size_t row, std::int64_t other = -1) {
  return {.rule = rule, .row = static_cast<std::int64_t>(row), .other = other};
}

// Row numbers in order of first batch; equal ones keep the order they were
// written in.
std::vector<std::size_t> order_by_batch(const Rows& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto less = [&](std::size_t a, std::size_t b) {
    return rows[a].batch.lo < rows[b].batch.lo;
  };
  if (!std::is_sorted(order.begin(), order.end(), less)) {
    std::stable_sort(order.begin(), order.end(), less);
  }
  return order;
}

// The distinct ranges that `member` picks from the rows, sorted. Schedules of
// many rows have few of them: a small table of ranges just seen keeps most
// repeats from being stored and sorted at all.
template <typename Member>
std::vector<Range> distinct_sorted(const Rows& rows, Member member) {
  constexpr std::size_t kSeen = 4096;
  std::vector<Range> seen(kSeen, Range{0, 0});  // 0 is no valid bound
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Range range = member(rows[i]);
    const auto mixed = (static_cast<std::uint64_t>(range.lo) * 31 +
                        static_cast<std::uint64_t>(range.hi)) *
                       0x9E3779B97F4A7C15u;
    Range& slot = seen[mixed >> 52];
    if (slot == range) continue;
    slot = range;
    ranges.push_back(range);
  }
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) {
    std::sort(ranges.begin(), ranges.end(), before);
  }
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

std::size_t place_of(const std::vector<Range>& ranges, const Range& range) {
  return static_cast<std::size_t>(
      std::lower_bound(ranges.begin(), ranges.end(), range, before) -
      ranges.begin());
}

Range batch_of(const Row& row) { return row.batch; }
Range context_of(const Row& row) { return row.context; }

std::variant<Grid, Fault> build_batch_only(const Rows& rows) {
  const std::vector<std::size_t> order = order_by_batch(rows);
  Grid grid;
  grid.batches.reserve(order.size());
  grid.k.reserve(order.size());
  grid.contexts.push_back({1, kContextInfinity});
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Row row = rows[order[i]];
    if (i > 0 && row.batch.lo <= grid.batches.back().hi) {
      return row_fault(Rule::kBatchOverlap, order[i],
                       static_cast<std::int64_t>(order[i - 1]));
    }
    grid.batches.push_back(row.batch);
    grid.k.push_back(row.k);
  }
  if (grid.batches.front().lo != 1) {
    return row_fault(Rule::kBatchStart, order.front());
  }
  return grid;
}

// The first row (as written) that has this batch or context range; one does.
template <typename Member>
std::int64_t row_with(const Rows& rows, const Range& range, Member member) {
  std::size_t i = 0;
  while (member(rows[i]) != range) ++i;
  return static_cast<std::int64_t>(i);
}

std::int64_t row_with_batch(const Rows& rows, const Range& range) {
  return row_with(rows, range, batch_of);
}

std::int64_t row_with_context(const Rows& rows, const Range& range) {
  return row_with(rows, range, context_of);
}

std::optional<Fault> check_batch_axis(const Rows& rows,
                                      const std::vector<Range>& batches) {
  for (std::size_t i = 1; i < batches.size(); ++i) {
    if (batches[i].lo <= batches[i - 1].hi) {
      return Fault{.rule = Rule::kBatchOverlap,
                   .row = row_with_batch(rows, batches[i]),
                   .other = row_with_batch(rows, batches[i - 1])};
    }
  }
  if (batches.front().lo != 1) {
    return Fault{.rule = Rule::kBatchStart,
                 .row = row_with_batch(rows, batches.front())};
  }
  return std::nullopt;
}

// Names the first cell, in order, that is given twice.
Fault duplicate_fault(const Rows& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    const Row x = rows[a];
    const Row y = rows[b];
    return x.batch == y.batch ? before(x.context, y.context)
                              : before(x.batch, y.batch);
  });
  const auto twice =
      std::adjacent_find(order.begin(), order.end(), [&](auto a, auto b) {
        return rows[a].batch == rows[b].batch &&
               rows[a].context == rows[b].context;
      });
  return row_fault(Rule::kDuplicate, *(twice + 1),
                   static_cast<std::int64_t>(*twice));
}

std::variant<Grid, Fault> build_rectangular(const Rows& rows) {
  const std::size_t n = rows.size();
  std::vector<Range> batches = distinct_sorted(rows, batch_of);
  if (const auto fault = check_batch_axis(rows, batches)) return *fault;
  std::vector<Range> contexts = distinct_sorted(rows, context_of);

  // Compared by division: the product of two counts may not fit.
  if (n % batches.size() != 0 || n / batches.size() != contexts.size()) {
    return Fault{.rule = Rule::kRectangular,
                 .batch_lo = static_cast<std::int64_t>(batches.size()),
                 .context_lo = static_cast<std::int64_t>(contexts.size())};
  }
  if (contexts.front().lo != 1) {
    return Fault{.rule = Rule::kContextStart,
                 .row = row_with_context(rows, contexts.front())};
  }
  for (std::size_t i = 1; i < contexts.size(); ++i) {
    if (contexts[i - 1].hi >= kContextInfinity ||
        contexts[i].lo != contexts[i - 1].hi + 1) {
      return Fault{.rule = Rule::kContextContiguous,
                   .row = row_with_context(rows, contexts[i]),
                   .other = row_with_context(rows, contexts[i - 1])};
    }
  }

  // The counts agree, so every row finds a free cell unless one is given
  // twice (and another not at all).
  Grid grid;
  grid.k.assign(n, -1);
  for (std::size_t i = 0; i < n; ++i) {
    const Row row = rows[i];
    const std::size_t cell = place_of(batches, row.batch) * contexts.size() +
                             place_of(contexts, row.context);
    if (grid.k[cell] >= 0) return duplicate_fault(rows);
    grid.k[cell] = row.k;
  }
  contexts.back().hi = kContextInfinity;
  grid.batches = std::move(batches);
  grid.contexts = std::move(contexts);
  return grid;
}

// ---- ragged -----------------------------------------------------------------

// Segments between consecutive starts and ends of ranges on one axis. `starts`
// ends with a sentinel: one past the last covered value.
std::vector<std::int64_t> segment_starts(std::vector<std::int64_t> points) {
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

// One past an upper bound, staying inside int64.
std::int64_t past(std::int64_t hi) {
  return hi == std::numeric_limits<std::int64_t>::max() ? hi : hi + 1;
}

std::size_t segment_of(const std::vector<std::int64_t>& starts,
                       std::int64_t value) {
  return static_cast<std::size_t>(
      std::lower_bound(starts.begin(), starts.end(), value) - starts.begin());
}

// Sums over the rows that cover one context segment. Equal ranks are told
// from different ones exactly: by Cauchy and Schwarz, count * squares equals
// sum * sum only when all ranks agree.
struct Cover {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;

  void add(std::uint64_t rank) {
    count += 1;
    sum += rank;
    squares += rank * rank;
  }
  void remove(std::uint64_t rank) {
    count -= 1;
    sum -= rank;
    squares -= rank * rank;
  }
  void accumulate(const Cover& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
  }
  [[nodiscard]] bool agrees() const {
    const std::uint64_t mean = sum / count;
    return sum % count == 0 && squares == count * mean * mean;
  }
};

// Finds two rows of different K that cover a cell already known to conflict.
void name_conflicting_rows(const Rows& rows, Fault& fault) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    const bool covers = row.batch.lo <= fault.batch_lo &&
                        fault.batch_lo <= row.batch.hi &&
                        row.context.lo <= fault.context_lo &&
                        fault.context_lo <= row.context.hi;
    if (!covers) continue;
    if (fault.other < 0) {
      fault.other = static_cast<std::int64_t>(i);
    } else if (row.k != rows[static_cast<std::size_t>(fault.other)].k) {
      fault.row = static_cast<std::int64_t>(i);
      return;
    }
  }
}

std::variant<Grid, Fault> build_ragged(const Rows& rows) {
  const std::size_t n = rows.size();
  if (n > kMaxRaggedRows) {
    return Fault{.rule = Rule::kTooLarge,
                 .batch_lo = static_cast<std::int64_t>(n),
                 .batch_hi = static_cast<std::int64_t>(kMaxRaggedRows)};
  }
  std::vector<Row> sound(n);
  std::vector<std::int64_t> batch_points;
  std::vector<std::int64_t> context_points;
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < n; ++i) {
    Row row = rows[i];
    // Context 0 (a fresh request) always falls in the first range.
    row.context.lo = std::max<std::int64_t>(row.context.lo, 1);
    row.context.hi = std::min(row.context.hi, kContextInfinity);
    sound[i] = row;
    batch_points.push_back(row.batch.lo);
    batch_points.push_back(past(row.batch.hi));
    context_points.push_back(row.context.lo);
    context_points.push_back(past(row.context.hi));
    values.push_back(row.k);
  }
  context_points.push_back(1);
  const auto batch_starts = segment_starts(std::move(batch_points));
  auto context_starts = segment_starts(std::move(context_points));
  values = segment_starts(std::move(values));
  if (batch_starts.front() != 1) {
    return Fault{
        .rule = Rule::kBatchStart,
        .row = row_with(rows, {batch_starts.front(), 0},
                        [](const Row& row) { return Range{row.batch.lo, 0}; })};
  }
  const std::size_t num_segments = batch_starts.size() - 1;
  const std::size_t num_columns = context_starts.size() - 1;
  if (num_columns > kMaxRaggedCells / num_segments) {
    return Fault{.rule = Rule::kTooLarge,
                 .batch_lo = static_cast<std::int64_t>(num_segments),
                 .context_lo = static_cast<std::int64_t>(num_columns),
                 .context_hi = static_cast<std::int64_t>(kMaxRaggedCells)};
  }

  // Sweep over the batch axis, keeping for each context segment what starts
  // and stops there; one prefix sum per batch segment gives its whole row.
  std::vector<std::size_t> by_start(n);
  std::iota(by_start.begin(), by_start.end(), std::size_t{0});
  std::vector<std::size_t> by_end = by_start;
  std::sort(by_start.begin(), by_start.end(), [&](auto a, auto b) {
    return sound[a].batch.lo < sound[b].batch.lo;
  });
  std::sort(by_end.begin(), by_end.end(), [&](auto a, auto b) {
    return sound[a].batch.hi < sound[b].batch.hi;
  });
  std::vector<Cover> edges(num_columns + 1);
  const auto apply = [&](std::size_t i, bool enters) {
    const Row& row = sound[i];
    const auto rank = static_cast<std::uint64_t>(segment_of(values, row.k));
    Cover& first = edges[segment_of(context_starts, row.context.lo)];
    Cover& last = edges[segment_of(context_starts, past(row.context.hi))];
    if (enters) {
      first.add(rank);
      last.remove(rank);
    } else {
      first.remove(rank);
      last.add(rank);
    }
  };

  Grid grid;
  std::size_t entered = 0;
  std::size_t left = 0;
  std::vector<std::int64_t> line(num_columns);
  for (std::size_t s = 0; s < num_segments; ++s) {
    const Range batch{batch_starts[s], batch_starts[s + 1] - 1};
    // The row that ends last never leaves.
    while (sound[by_end[left]].batch.hi < batch.lo) {
      apply(by_end[left++], false);
    }
    while (entered < n && sound[by_start[entered]].batch.lo <= batch.lo) {
      apply(by_start[entered++], true);
    }
    if (entered == left) continue;  // a gap: the range before carries on

    Cover cover;
    std::size_t covered = 0;
    for (std::size_t c = 0; c < num_columns; ++c) {
      cover.accumulate(edges[c]);
      if (cover.count == 0) continue;
      Fault fault{.batch_lo = batch.lo,
                  .batch_hi = batch.hi,
                  .context_lo = context_starts[c],
                  .context_hi = context_starts[c + 1] - 1};
      if (!cover.agrees()) {
        fault.rule = Rule::kConflict;
        name_conflicting_rows(rows, fault);
        return fault;
      }
      if (covered != c) {  // something covered follows something that is not
        fault.rule = Rule::kUncovered;
        fault.context_hi = context_starts[c] - 1;
        fault.context_lo = context_starts[covered];
        return fault;
      }
      line[c] = values[static_cast<std::size_t>(cover.sum / cover.count)];
      covered = c + 1;
    }
    // The last range of each batch segment reaches to every longer context.
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(covered), line.end(),
              line[covered - 1]);
    grid.batches.push_back(batch);
    grid.k.insert(grid.k.end(), line.begin(), line.end());
  }
  for (std::size_t c = 0; c < num_columns; ++c) {
    grid.contexts.push_back({context_starts[c], context_starts[c + 1] - 1});
  }
  grid.contexts.back().hi = kContextInfinity;
  return grid;
}

}  // namespace

Fault check_rows(std::span<const std::int64_t> values, Form form) {
  const Rows rows(values);
  // A ragged context range may start at 0, and must reach at least 1.
  const std::int64_t least_lo = form == Form::kRagged ? 0 : 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    if (row.batch.lo <= 0 || row.batch.hi <= 0) {
      return row_fault(Rule::kBatchPositive, i);
    }
    if (row.batch.lo > row.batch.hi) return row_fault(Rule::kBatchOrder, i);
    if (form != Form::kBatchOnly) {
      if (row.context.lo < least_lo || row.context.hi <= 0) {
        return row_fault(Rule::kContextPositive, i);
      }
      if (row.context.lo > row.context.hi ||
          row.context.lo > kContextInfinity) {
        return row_fault(Rule::kContextOrder, i);
      }
    }
    if (row.k < 0) return row_fault(Rule::kNegativeK, i);
  }
  return {};
}

std::variant<Grid, Fault> build_grid(std::span<const std::int64_t> values,
                                     Form form) {
  const Fault fault = check_rows(values, form);
  if (fault.rule != Rule::kNone) return fault;
  const Rows rows(values);
  if (form == Form::kBatchOnly) return build_batch_only(rows);
  if (form == Form::kGrid) return build_rectangular(rows);
  return build_ragged(rows);
}

}  // namespace specgrid
