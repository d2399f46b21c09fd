// What Python cannot reach cheaply: the ends of int64, and sizes of grids.
#include <doctest/doctest.h>

#include <limits>

#include "core/schedule.hpp"

namespace specgrid {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

using Values = std::vector<std::int64_t>;

Fault fault_of(const Values& rows, Form form) {
  const auto result = build_grid(rows, form);
  const Fault* fault = std::get_if<Fault>(&result);
  return fault == nullptr ? Fault{} : *fault;
}

Grid grid_of(const Values& rows, Form form) {
  return std::get<Grid>(build_grid(rows, form));
}

TEST_CASE("rows are judged one by one, in vLLM's order of rules") {
  CHECK(fault_of({0, 1, 1, 1, -1}, Form::kBatchOnly).rule ==
        Rule::kBatchPositive);
  CHECK(fault_of({2, 1, 1, 1, -1}, Form::kBatchOnly).rule == Rule::kBatchOrder);
  CHECK(fault_of({1, 1, 0, 1, -1}, Form::kGrid).rule == Rule::kContextPositive);
  CHECK(fault_of({1, 1, 2, 1, -1}, Form::kGrid).rule == Rule::kContextOrder);
  CHECK(fault_of({1, 1, 1, 1, -1}, Form::kGrid).rule == Rule::kNegativeK);
  // A 1-D schedule does not look at contexts at all.
  CHECK(fault_of({1, 1, -5, -9, 1}, Form::kBatchOnly).rule == Rule::kNone);
}

TEST_CASE("the ends of int64 neither overflow nor crash") {
  for (const Form form : {Form::kBatchOnly, Form::kGrid, Form::kRagged}) {
    CHECK(fault_of({1, kMax, 1, kMax, kMax}, form).rule == Rule::kNone);
    CHECK(fault_of({kMin, kMax, 1, 1, 0}, form).rule == Rule::kBatchPositive);
    CHECK(fault_of({1, 1, 1, 1, kMin}, form).rule == Rule::kNegativeK);
  }
  CHECK(fault_of({1, kMax, 1, 9, 1, kMax, kMax, 1, 9, 2}, Form::kBatchOnly)
            .rule == Rule::kBatchOverlap);
  CHECK(fault_of({1, 1, 1, kMax, 1, 1, 1, 5, kMax, 1}, Form::kGrid).rule ==
        Rule::kContextContiguous);
  CHECK(fault_of({1, 1, kMax, kMax, 1}, Form::kGrid).rule ==
        Rule::kContextOrder);
  const Grid grid = grid_of({1, kMax, 1, kMax, kMax}, Form::kRagged);
  CHECK(grid.contexts.back().hi == kContextInfinity);
  CHECK(grid.k == Values{kMax});
}

TEST_CASE("rows fill the rectangle wherever they stand") {
  const Grid grid =
      grid_of({5, 8, 4, 9, 4, 1, 4, 4, 9, 2, 5, 8, 1, 3, 3, 1, 4, 1, 3, 1},
              Form::kGrid);
  CHECK(grid.batches == std::vector<Range>{{1, 4}, {5, 8}});
  CHECK(grid.contexts == std::vector<Range>{{1, 3}, {4, kContextInfinity}});
  CHECK(grid.k == Values{1, 2, 3, 4});
}

TEST_CASE("a cell given twice is a duplicate when another is missing") {
  const Fault fault =
      fault_of({1, 4, 1, 3, 1, 1, 4, 1, 3, 1, 5, 8, 1, 3, 1, 5, 8, 4, 9, 1},
               Form::kGrid);
  CHECK(fault.rule == Rule::kDuplicate);
  CHECK(fault.row == 1);
  CHECK(fault.other == 0);
}

TEST_CASE("ragged rows are refined to every distinct bound") {
  const Grid grid =
      grid_of({1, 8, 1, 9, 2, 1, 8, 10, 20, 1, 9, 9, 1, 5, 0}, Form::kRagged);
  CHECK(grid.batches == std::vector<Range>{{1, 8}, {9, 9}});
  CHECK(grid.contexts ==
        std::vector<Range>{{1, 5}, {6, 9}, {10, kContextInfinity}});
  CHECK(grid.k == Values{2, 2, 1, 0, 0, 0});
}

TEST_CASE("ragged conflicts are found exactly, however many rows agree") {
  Values rows;
  for (int i = 0; i < 1000; ++i) {
    rows.insert(rows.end(), {1, 8, 1, 9, 5});
  }
  CHECK(fault_of(rows, Form::kRagged).rule == Rule::kNone);
  rows.insert(rows.end(), {8, 8, 9, 9, 6});
  const Fault fault = fault_of(rows, Form::kRagged);
  CHECK(fault.rule == Rule::kConflict);
  CHECK(fault.row == 1000);
  CHECK(fault.other == 0);
  CHECK(fault.batch_lo == 8);
  CHECK(fault.context_lo == 9);
}

TEST_CASE("ragged sums cannot cancel out: 1 + 3 is not 2 + 2") {
  CHECK(fault_of({1, 1, 1, 9, 1, 1, 1, 1, 9, 3, 2, 2, 1, 9, 2}, Form::kRagged)
            .rule == Rule::kConflict);
}

TEST_CASE("the first cell given twice is named, past cells that are not") {
  const Fault fault =
      fault_of({1, 4, 1, 3, 1, 5, 8, 1, 3, 1, 5, 8, 4, 9, 1, 5, 8, 4, 9, 1},
               Form::kGrid);
  CHECK(fault.rule == Rule::kDuplicate);
  CHECK(fault.row == 3);
  CHECK(fault.other == 2);
}

TEST_CASE("a ragged schedule too large to refine is refused by rows") {
  const Values rows((kMaxRaggedRows + 1) * 5, 1);
  const Fault fault = fault_of(rows, Form::kRagged);
  CHECK(fault.rule == Rule::kTooLarge);
  CHECK(fault.row == -1);
  CHECK(fault.batch_lo == static_cast<std::int64_t>(kMaxRaggedRows) + 1);
  CHECK(fault.batch_hi == static_cast<std::int64_t>(kMaxRaggedRows));
}

TEST_CASE("a ragged schedule too large to refine is refused by cells") {
  // A diagonal of n rows is refined to n x n cells: 2**28 are 16,384 x 16,384.
  Values rows;
  for (std::int64_t i = 1; i <= 16385; ++i) {
    rows.insert(rows.end(), {i, i, i, i, 0});
  }
  const Fault fault = fault_of(rows, Form::kRagged);
  CHECK(fault.rule == Rule::kTooLarge);
  CHECK(fault.batch_lo == 16385);
  CHECK(fault.context_lo == 16385);
  CHECK(fault.context_hi == static_cast<std::int64_t>(kMaxRaggedCells));
}

TEST_CASE("contexts that leave a gap, or start late, are refused") {
  const Fault gap = fault_of({1, 4, 1, 3, 1, 1, 4, 5, 9, 1}, Form::kGrid);
  CHECK(gap.rule == Rule::kContextContiguous);
  CHECK(gap.row == 1);
  CHECK(gap.other == 0);
  CHECK(fault_of({1, 4, 2, 3, 1}, Form::kGrid).rule == Rule::kContextStart);
  CHECK(fault_of({1, 4, 1, 3, 1, 1, 4, 4, 9, 1}, Form::kGrid).rule ==
        Rule::kNone);
}

TEST_CASE("ragged batches may leave a gap, which the range before carries") {
  const Grid grid = grid_of({1, 2, 1, 9, 1, 5, 6, 1, 9, 2}, Form::kRagged);
  CHECK(grid.batches == std::vector<Range>{{1, 2}, {5, 6}});
  CHECK(grid.k == Values{1, 2});
}

}  // namespace
}  // namespace specgrid
