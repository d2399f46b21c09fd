// Tables of K in few entries: exact for every number of entries at once.
//
// One dimension: runs of neighbouring batches. Two dimensions: bands along one
// axis, each with its own runs along the other; both orders are tried and the
// better one kept for each number of entries. Free-form rectangles are not
// searched.
#ifndef SPECGRID_CORE_TUNE_COMPRESS_HPP_
#define SPECGRID_CORE_TUNE_COMPRESS_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stop.hpp"

namespace specgrid {

// Rows [begin, end) take one label.
struct Run {
  std::size_t begin;
  std::size_t end;
  std::int32_t label;
};

struct LineChoice {
  double total;  // infinity when no choice is admissible
  std::vector<Run> runs;
};

// choice[e - 1]: least total with at most e runs, for e = 1..max_entries.
// `cost` is rows x labels, infinity where inadmissible; at most 255 labels.
// With `non_increasing` the label never rises from one run to the next.
// Ties: fewer runs, then the smaller label. O(entries x rows x labels).
[[nodiscard]] std::vector<LineChoice> compress_line(
    std::span<const double> cost, std::size_t labels, std::size_t max_entries,
    bool non_increasing, const StopRequested& stop = {});

struct Rectangle {
  std::size_t row_begin;
  std::size_t row_end;
  std::size_t column_begin;
  std::size_t column_end;
  std::int32_t label;
};

struct BandChoice {
  double total;
  bool batch_bands;  // bands of rows (batches); else of columns (contexts)
  std::vector<Rectangle> rectangles;
};

// choice[e - 1]: least total with at most e rectangles in band form. `cost` is
// rows x labels x columns. With `non_increasing` (in the row, per column) only
// bands of columns are used, the order in which it is exact. The same result
// for any number of threads.
// O((rows + columns) x rows x columns x labels x entries).
[[nodiscard]] std::vector<BandChoice> compress_bands(
    std::span<const double> cost, std::size_t rows, std::size_t labels,
    std::size_t columns, std::size_t max_entries, bool non_increasing,
    int threads, const StopRequested& stop = {});

}  // namespace specgrid

#endif  // SPECGRID_CORE_TUNE_COMPRESS_HPP_
