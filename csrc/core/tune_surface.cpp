// Step times between and beyond measured points. See tune_surface.hpp.
#include "core/tune_surface.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

double fraction(double x, double low, double high) {
  return (x - low) / (high - low);
}

double between(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * fraction(x, x0, x1);
}

}  // namespace

double Surface::Line::value(double position) const {
  if (!(position >= along.front() && position <= along.back())) {
    return kNotMeasured;
  }
  const auto next = std::lower_bound(along.begin(), along.end(), position);
  const auto hi = static_cast<std::size_t>(next - along.begin());
  if (along[hi] == position) return step_us[hi];
  return between(position, along[hi - 1], step_us[hi - 1], along[hi],
                 step_us[hi]);
}

std::vector<Surface::Line> Surface::lines_of(
    std::span<const std::int64_t> fixed, std::span<const std::int64_t> along,
    std::span<const double> step_us) {
  std::vector<std::size_t> order(fixed.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return fixed[a] != fixed[b] ? fixed[a] < fixed[b] : along[a] < along[b];
  });
  std::vector<Line> lines;
  for (const std::size_t i : order) {
    const auto at = static_cast<double>(fixed[i]);
    if (lines.empty() || lines.back().at != at) lines.push_back({at, {}, {}});
    lines.back().along.push_back(static_cast<double>(along[i]));
    lines.back().step_us.push_back(step_us[i]);
  }
  return lines;
}

Surface::Surface(const SurfacePoints& points,
                 std::span<const std::int64_t> columns)
    : columns_(columns.begin(), columns.end()),
      by_batch_(lines_of(points.batches, points.contexts, points.step_us)),
      by_context_(lines_of(points.contexts, points.batches, points.step_us)) {
  const std::size_t width = columns_.size();
  const std::size_t count = by_batch_.size();
  values_.resize(count * width);
  below_.assign(count * width, -1);
  above_.assign(count * width, -1);
  for (std::size_t line = 0; line < count; ++line) {
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t here = line * width + c;
      values_[here] = by_batch_[line].value(columns_[c]);
      if (!std::isnan(values_[here])) {
        below_[here] = static_cast<std::int32_t>(line);
      } else if (line > 0) {
        below_[here] = below_[here - width];
      }
    }
  }
  for (std::size_t line = count; line-- > 0;) {
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t here = line * width + c;
      if (!std::isnan(values_[here])) {
        above_[here] = static_cast<std::int32_t>(line);
      } else if (line + 1 < count) {
        above_[here] = above_[here + width];
      }
    }
  }
}

void Surface::row(double batch, std::span<double> out) const {
  const std::size_t width = columns_.size();
  const std::size_t count = by_batch_.size();
  std::fill(out.begin(), out.end(), kNotMeasured);
  // Last line at or below the batch, first at or above it.
  const auto first_above = static_cast<std::size_t>(
      std::lower_bound(
          by_batch_.begin(), by_batch_.end(), batch,
          [](const Line& line, double value) { return line.at < value; }) -
      by_batch_.begin());
  const bool exact = first_above < count && by_batch_[first_above].at == batch;
  bool complete = first_above < count && (first_above > 0 || exact);
  if (complete) {
    const std::size_t last_below = exact ? first_above : first_above - 1;
    const std::int32_t* below = below_.data() + last_below * width;
    const std::int32_t* above = above_.data() + first_above * width;
    // Neighbouring columns mostly lie between the same two lines.
    std::int32_t lo = -1;
    std::int32_t hi = -1;
    const double* low = nullptr;
    const double* high = nullptr;
    double part = 0;
    for (std::size_t c = 0; c < width; ++c) {
      if (below[c] < 0 || above[c] < 0) {
        complete = false;
        continue;
      }
      if (below[c] != lo || above[c] != hi) {
        lo = below[c];
        hi = above[c];
        low = values_.data() + static_cast<std::size_t>(lo) * width;
        high = values_.data() + static_cast<std::size_t>(hi) * width;
        part = lo == hi
                   ? 0.0
                   : fraction(batch, by_batch_[static_cast<std::size_t>(lo)].at,
                              by_batch_[static_cast<std::size_t>(hi)].at);
      }
      out[c] = low[c] + (high[c] - low[c]) * part;
    }
  }
  if (complete || by_context_.size() < 2) return;

  // The axes exchanged, for the columns still without a value.
  std::vector<double> at_batch;
  std::vector<double> position;
  for (const Line& line : by_context_) {
    const double value = line.value(batch);
    if (std::isnan(value)) continue;
    position.push_back(line.at);
    at_batch.push_back(value);
  }
  if (position.empty()) return;
  std::size_t hi = 0;
  for (std::size_t c = 0; c < width; ++c) {
    while (hi < position.size() && position[hi] < columns_[c]) ++hi;
    if (hi == position.size()) break;
    // A column at one of these contexts has its value already.
    if (std::isnan(out[c]) && hi > 0) {
      out[c] = between(columns_[c], position[hi - 1], at_batch[hi - 1],
                       position[hi], at_batch[hi]);
    }
  }
}

std::vector<double> surface_rows(const SurfacePoints& points,
                                 std::span<const double> batches,
                                 std::span<const std::int64_t> columns,
                                 int threads, const StopRequested& stop) {
  const Surface surface(points, columns);
  const std::size_t width = columns.size();
  std::vector<double> out(batches.size() * width);
  // Under about a million cells starting a thread costs more than it saves.
  constexpr std::size_t kCellsPerThread = std::size_t{1} << 20;
  parallel_for(
      batches.size(), useful_threads(threads, out.size(), kCellsPerThread),
      [&](std::size_t r) {
        surface.row(batches[r], std::span(out).subspan(r * width, width));
      },
      stop);
  return out;
}

}  // namespace specgrid
