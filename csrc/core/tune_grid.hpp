// The tuner's grid: for every (batch, context column) the K of least time per
// emitted token, and the cost of every K in blocks of neighbouring cells small
// enough for exact compression (tune_compress.hpp).
//
// A cell's cost is weight * step_us / (batch * tokens_per_step): the time spent
// on its share of the work. Costs add up, so the best K of each cell is the
// best table, and any other table's loss is a sum.
#ifndef SPECGRID_CORE_TUNE_GRID_HPP_
#define SPECGRID_CORE_TUNE_GRID_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stop.hpp"
#include "core/tune_surface.hpp"

namespace specgrid {

// Bits of TuneGrid::flags.
inline constexpr std::uint8_t kNoKMeasured = 1;
inline constexpr std::uint8_t kSomeKNotMeasured = 2;
inline constexpr std::uint8_t kLimitNotMet = 4;

struct TuneInput {
  // One per candidate K, ascending in K ("label" = index of the K).
  std::vector<SurfacePoints> surfaces;
  // Mean tokens a request gains per step, bonus token included; labels x
  // columns.
  std::span<const double> tokens_per_step;
  std::int64_t max_num_seqs = 0;
  std::span<const std::int64_t> columns;  // contexts, ascending
  // labels x max_num_seqs, or empty: requests of the graph that serves the
  // batch, and time its mode adds.
  std::span<const double> padded_batch;
  std::span<const double> extra_us;
  // Emitted tokens per cell, max_num_seqs x columns; empty means 1 each.
  std::span<const double> weights;
  // A label is inadmissible in a cell above this time per output token (unless
  // even the best is) and, in a cell with work, above (1 + tolerance) times the
  // cell's best.
  double max_us_per_token = 0;
  double tolerance = 0;
  // Neighbouring rows and columns are merged, cheapest pair first, until at
  // most so many are left; without merging the blocks are the cells. With
  // max_rows = 0 no blocks are made, which takes less than half the time.
  std::size_t max_rows = 0;
  std::size_t max_columns = 0;
  int threads = 1;
};

struct TuneGrid {
  // Per cell, max_num_seqs x columns. Where nothing is measured, `best` is the
  // nearest measured cell's and the times are NaN.
  std::vector<std::int32_t> best;           // label
  std::vector<double> best_us_per_token;    // step_us / tokens_per_step
  std::vector<double> second_us_per_token;  // infinity without a second label
  std::vector<std::uint8_t> flags;
  // Blocks: ends (exclusive, counted from 0) of row and column groups.
  std::vector<std::int64_t> row_ends;
  std::vector<std::int64_t> column_ends;
  // rows x labels x columns. Infinity where a label is inadmissible.
  std::vector<double> cost;
  std::vector<double>
      worst_ratio;  // largest time / best time of a cell with work
};

// Every label must have at least one point. O(cells x labels).
[[nodiscard]] TuneGrid tune_grid(const TuneInput& input,
                                 const StopRequested& stop = {});

// What a finished table of labels is worth. `tokens` holds the input's tokens
// per step under one or more assumptions (assumptions x labels x columns, the
// first being the estimate itself).
struct TuneReport {
  std::vector<double> us_per_token;  // of the table's label, per cell
  // 1 where another label is best under another assumption.
  std::vector<std::uint8_t> best_changes;
  // Over measured cells: cost of the table and of the best labels, and the
  // largest time / best time of a cell with work.
  double cost = 0;
  double best_cost = 0;
  double worst_ratio = 1;
  // assumptions x labels, over cells where label and table are both measured:
  // cost of the label everywhere, cost of the table there.
  std::vector<double> label_cost;
  std::vector<double> table_cost;
  std::vector<std::int64_t> cells_measured;  // per label, such cells
};

// Uses the input's surfaces, padding and weights. The same result for any
// number of threads. O(cells x labels x assumptions).
[[nodiscard]] TuneReport tune_report(const TuneInput& input,
                                     std::span<const double> tokens,
                                     std::span<const std::int32_t> table,
                                     const StopRequested& stop = {});

}  // namespace specgrid

#endif  // SPECGRID_CORE_TUNE_GRID_HPP_
