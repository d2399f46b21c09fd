// Step time of one K over (batch, context): linear interpolation between the
// measured points, and "not measured" (NaN) wherever that would need a guess.
//
// Points of one batch form a line along the context. A cell is interpolated
// along the two nearest lines that reach its context, below and above its
// batch, then between them. Where no such pair exists, the same is tried with
// the axes exchanged. On a full mesh both are plain bilinear interpolation.
// Nothing is extrapolated, fitted or smoothed.
#ifndef SPECGRID_CORE_TUNE_SURFACE_HPP_
#define SPECGRID_CORE_TUNE_SURFACE_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stop.hpp"

namespace specgrid {

// Measured steps of one K; batch and context pairs are distinct.
struct SurfacePoints {
  std::span<const std::int64_t> batches;   // requests
  std::span<const std::int64_t> contexts;  // tokens
  std::span<const double> step_us;
};

class Surface {
 public:
  // `columns` are the contexts at which every row will be asked, ascending.
  Surface(const SurfacePoints& points, std::span<const std::int64_t> columns);

  // Step time at one batch for every column. The batch need not be whole: a
  // padded step has num_tokens / query_len requests.
  void row(double batch, std::span<double> out) const;

 private:
  // One line of measured points: a fixed position, and values along the other
  // axis, ascending.
  struct Line {
    double at;
    std::vector<double> along;
    std::vector<double> step_us;

    // Linear between the points; NaN outside them.
    [[nodiscard]] double value(double position) const;
  };

  [[nodiscard]] static std::vector<Line> lines_of(
      std::span<const std::int64_t> fixed, std::span<const std::int64_t> along,
      std::span<const double> step_us);

  std::vector<double> columns_;
  std::vector<Line> by_batch_;
  std::vector<Line> by_context_;
  // by_batch_ at every column, and for each (line, column) the nearest line at
  // or below, and at or above, that reaches the column; lines x columns.
  std::vector<double> values_;
  std::vector<std::int32_t> below_;
  std::vector<std::int32_t> above_;
};

// Rows for many batches, rows x columns, row-major. The same result for any
// number of threads.
[[nodiscard]] std::vector<double> surface_rows(
    const SurfacePoints& points, std::span<const double> batches,
    std::span<const std::int64_t> columns, int threads,
    const StopRequested& stop = {});

}  // namespace specgrid

#endif  // SPECGRID_CORE_TUNE_SURFACE_HPP_
