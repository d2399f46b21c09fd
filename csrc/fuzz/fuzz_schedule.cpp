// Any rows, in each form: a fault names rows that really break the rule, and a
// grid says about every cell what the rows say.
#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "core/lookup.hpp"
#include "core/schedule.hpp"
#include "fuzz/input.hpp"

namespace specgrid::fuzz {
namespace {

struct Row {
  std::int64_t batch_lo, batch_hi, context_lo, context_hi, k;
};

std::vector<Row> rows_of(Input& input) {
  std::vector<Row> rows;
  // Half the time rows continue where the last one ended, so that long valid
  // schedules are found without luck.
  const bool chained = input.one_in(2);
  const std::int64_t count = input.in(1, 12);
  for (std::int64_t i = 0; i < count; ++i) {
    Row row{input.number(0, 12), input.number(0, 12), input.number(0, 12),
            input.number(0, 12), input.number(-1, 9)};
    if (chained && row.batch_hi >= 0 && row.context_hi >= 0) {
      const std::int64_t columns = 3;
      row.batch_lo = i / columns * 4 + 1;
      row.batch_hi = row.batch_lo + row.batch_hi % 4;
      row.context_lo = i % columns * 8 + 1;
      row.context_hi = row.context_lo + (row.context_hi == 9 ? 6 : 7);
    }
    if (input.one_in(4)) row.context_hi = kContextInfinity;
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::int64_t> flat(const std::vector<Row>& rows) {
  std::vector<std::int64_t> values;
  for (const Row& row : rows) {
    values.insert(values.end(), {row.batch_lo, row.batch_hi, row.context_lo,
                                 row.context_hi, row.k});
  }
  return values;
}

bool sound(const Row& row, Form form) {
  if (row.batch_lo < 1 || row.batch_lo > row.batch_hi || row.k < 0)
    return false;
  if (form == Form::kBatchOnly) return true;
  return row.context_lo >= (form == Form::kRagged ? 0 : 1) &&
         row.context_hi >= 1 && row.context_lo <= row.context_hi &&
         row.context_lo <= kContextInfinity;
}

bool covers(const Row& row, std::int64_t batch, std::int64_t context) {
  return row.batch_lo <= batch && batch <= row.batch_hi &&
         row.context_lo <= context && context <= row.context_hi;
}

bool same_batches(const Row& a, const Row& b) {
  return a.batch_lo == b.batch_lo && a.batch_hi == b.batch_hi;
}

bool same_contexts(const Row& a, const Row& b) {
  return a.context_lo == b.context_lo && a.context_hi == b.context_hi;
}

std::size_t distinct(const std::vector<Row>& rows,
                     bool (*same)(const Row&, const Row&)) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    count += std::none_of(rows.begin(),
                          rows.begin() + static_cast<std::ptrdiff_t>(i),
                          [&](const Row& row) { return same(row, rows[i]); });
  }
  return count;
}

void check_fault(const std::vector<Row>& rows, Form form, const Fault& fault) {
  const auto count = static_cast<std::int64_t>(rows.size());
  expect(fault.row >= -1 && fault.row < count, "row is a row");
  expect(fault.other >= -1 && fault.other < count, "other is a row");
  const auto at = [&](std::int64_t i) {
    expect(i >= 0, "the rule names a row");
    return rows[static_cast<std::size_t>(i)];
  };
  switch (fault.rule) {
    case Rule::kBatchPositive:
      expect(at(fault.row).batch_lo < 1 || at(fault.row).batch_hi < 1, "bs");
      return;
    case Rule::kBatchOrder:
      expect(at(fault.row).batch_lo > at(fault.row).batch_hi, "bs order");
      return;
    case Rule::kContextPositive:
    case Rule::kContextOrder:
      expect(form != Form::kBatchOnly && !sound(at(fault.row), form), "ctx");
      return;
    case Rule::kNegativeK:
      expect(at(fault.row).k < 0, "k");
      return;
    case Rule::kBatchOverlap: {
      const Row a = at(fault.row);
      const Row b = at(fault.other);
      expect(fault.row != fault.other && a.batch_lo <= b.batch_hi &&
                 b.batch_lo <= a.batch_hi,
             "batches overlap");
      return;
    }
    case Rule::kBatchStart:
      expect(at(fault.row).batch_lo != 1, "named row starts late");
      expect(std::none_of(rows.begin(), rows.end(),
                          [](const Row& row) { return row.batch_lo == 1; }),
             "no row starts at 1");
      return;
    case Rule::kRectangular:
      expect(rows.size() !=
                 distinct(rows, same_batches) * distinct(rows, same_contexts),
             "not a rectangle");
      return;
    case Rule::kContextStart:
      expect(at(fault.row).context_lo != 1, "context starts late");
      return;
    case Rule::kContextContiguous:
      // In this order: past the largest of all numbers there is no next.
      expect(at(fault.other).context_hi >= kContextInfinity ||
                 at(fault.row).context_lo != at(fault.other).context_hi + 1,
             "contexts do not meet");
      return;
    case Rule::kDuplicate:
      expect(fault.row != fault.other &&
                 same_batches(at(fault.row), at(fault.other)) &&
                 same_contexts(at(fault.row), at(fault.other)),
             "two rows of one cell");
      return;
    case Rule::kUncovered:
      for (const Row& row : rows) {
        expect(!covers(row, fault.batch_lo, fault.context_lo) &&
                   !covers(row, fault.batch_lo, fault.context_hi),
               "nothing covers the cell");
      }
      return;
    case Rule::kConflict: {
      const Row a = at(fault.row);
      const Row b = at(fault.other);
      expect(a.k != b.k, "they disagree");
      for (const Row& row : {a, b}) {
        expect(covers(row, fault.batch_lo, fault.context_lo) &&
                   covers(row, fault.batch_hi, fault.context_hi),
               "both cover the cell");
      }
      return;
    }
    case Rule::kNone:
    case Rule::kTooLarge:
      break;
  }
  expect(false, "a rule that a dozen rows can break");
}

void check_shape(const Grid& grid) {
  expect(!grid.batches.empty() && !grid.contexts.empty(), "not empty");
  expect(grid.k.size() == grid.batches.size() * grid.contexts.size(), "cells");
  expect(grid.batches.front().lo == 1, "batches start at 1");
  expect(grid.contexts.front().lo == 1, "contexts start at 1");
  expect(grid.contexts.back().hi == kContextInfinity, "contexts never end");
  for (std::size_t i = 0; i < grid.batches.size(); ++i) {
    expect(grid.batches[i].lo <= grid.batches[i].hi, "batch order");
    expect(i == 0 || grid.batches[i - 1].hi < grid.batches[i].lo, "disjoint");
  }
  for (std::size_t i = 1; i < grid.contexts.size(); ++i) {
    expect(grid.contexts[i - 1].hi + 1 == grid.contexts[i].lo, "contiguous");
  }
}

// K by the rows alone; contexts past a batch's last one carry its K on.
std::int64_t k_of(const std::vector<Row>& rows, Form form, std::int64_t batch,
                  std::int64_t context) {
  const Row* nearest = nullptr;
  for (const Row& row : rows) {
    if (row.batch_lo > batch || row.batch_hi < batch) continue;
    if (form == Form::kBatchOnly || covers(row, batch, context)) return row.k;
    if (row.context_hi < context &&
        (nearest == nullptr || nearest->context_hi < row.context_hi)) {
      nearest = &row;
    }
  }
  expect(nearest != nullptr, "the grid has batches that no row has");
  return nearest->k;
}

void check_cells(const std::vector<Row>& rows, Form form, const Grid& grid) {
  for (std::size_t r = 0; r < grid.batches.size(); ++r) {
    for (std::size_t c = 0; c < grid.contexts.size(); ++c) {
      for (const std::int64_t batch :
           {grid.batches[r].lo, grid.batches[r].hi}) {
        for (const std::int64_t context :
             {grid.contexts[c].lo, grid.contexts[c].hi}) {
          expect(grid.k[r * grid.contexts.size() + c] ==
                     k_of(rows, form, batch, context),
                 "K is what the rows say");
        }
      }
    }
  }
}

bool equal(const Grid& a, const Grid& b) {
  return a.batches == b.batches && a.contexts == b.contexts && a.k == b.k;
}

// The grid's own cells, written as rows, are a rectangle and give it back.
void check_again(const Grid& grid) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < grid.k.size(); ++i) {
    const Range batch = grid.batches[i / grid.contexts.size()];
    const Range context = grid.contexts[i % grid.contexts.size()];
    rows.push_back({batch.lo, batch.hi, context.lo, context.hi, grid.k[i]});
  }
  const auto again = build_grid(flat(rows), Form::kGrid);
  expect(std::holds_alternative<Grid>(again), "a grid's cells are a rectangle");
  expect(equal(std::get<Grid>(again), grid), "and give the grid back");
}

void run(Input& input) {
  const Form form = Form{static_cast<std::int32_t>(input.in(0, 2))};
  std::vector<Row> rows = rows_of(input);
  const std::vector<std::int64_t> values = flat(rows);
  const Fault first = check_rows(values, form);
  const auto broken =
      std::find_if_not(rows.begin(), rows.end(),
                       [&](const Row& row) { return sound(row, form); });
  expect((first.rule == Rule::kNone) == (broken == rows.end()), "sound rows");
  if (broken != rows.end()) {
    expect(first.row == broken - rows.begin(), "the first unsound row");
  }
  const auto result = build_grid(values, form);
  if (const Fault* fault = std::get_if<Fault>(&result)) {
    check_fault(rows, form, *fault);
    if (first.rule != Rule::kNone) {
      expect(fault->rule == first.rule && fault->row == first.row,
             "same fault");
    }
  } else {
    check_shape(std::get<Grid>(result));
    check_cells(rows, form, std::get<Grid>(result));
    check_again(std::get<Grid>(result));
  }
  // The order of rows names faults but never decides.
  std::reverse(rows.begin(), rows.end());
  const auto reversed = build_grid(flat(rows), form);
  expect(result.index() == reversed.index(), "order does not matter");
  if (const Grid* grid = std::get_if<Grid>(&reversed)) {
    expect(equal(*grid, std::get<Grid>(result)), "nor for the grid");
  }
  // What the strict reading takes, the ragged one takes and reads alike.
  if (form != Form::kGrid || !std::holds_alternative<Grid>(result)) return;
  const auto ragged = build_grid(values, Form::kRagged);
  expect(std::holds_alternative<Grid>(ragged), "a rectangle is ragged too");
  const Lookup a = canonical(make_lookup(std::get<Grid>(result), 64, 9));
  const Lookup b = canonical(make_lookup(std::get<Grid>(ragged), 64, 9));
  expect(a.starts == b.starts && a.context_his == b.context_his && a.k == b.k,
         "and means the same");
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  specgrid::fuzz::run(input);
  return 0;
}
