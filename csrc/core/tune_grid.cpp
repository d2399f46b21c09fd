// The best K of every cell. See tune_grid.hpp.
#include "core/tune_grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
// Times closer than this are equal, and the smaller K wins.
constexpr double kTie = 1e-12;

// A group of neighbouring rows (or columns): labels x width, label-major.
struct Slab {
  std::int64_t end = 0;
  std::vector<double> cost;
  std::vector<double> worst;
  double low = 0;         // sum over the width of the least cost of any label
  double merge_cost = 0;  // what merging with the slab before it would add
};

// Keeps a list of slabs short: past the limit the adjacent pair whose merging
// adds the least cost becomes one. Pairs without a common admissible label are
// never merged, so the list may then stay longer.
class SlabList {
 public:
  SlabList(std::size_t labels, std::size_t width, std::size_t expected,
           std::size_t limit)
      : labels_(labels),
        width_(width),
        limit_(limit),
        merging_(expected > limit) {}

  void push(Slab slab) {
    if (merging_) {
      slab.low = low_of(slab.cost, nullptr);
      slabs_.push_back(std::move(slab));
      update_merge_cost(slabs_.size() - 1);
      if (slabs_.size() > limit_) merge_cheapest();
    } else {
      slabs_.push_back(std::move(slab));
    }
  }

  [[nodiscard]] std::vector<Slab>& slabs() { return slabs_; }

 private:
  double low_of(const std::vector<double>& a, const std::vector<double>* b) {
    least_.assign(width_, kInfinity);
    for (std::size_t k = 0; k < labels_; ++k) {
      const double* x = a.data() + k * width_;
      if (b == nullptr) {
        for (std::size_t i = 0; i < width_; ++i) {
          least_[i] = std::min(least_[i], x[i]);
        }
      } else {
        const double* y = b->data() + k * width_;
        for (std::size_t i = 0; i < width_; ++i) {
          least_[i] = std::min(least_[i], x[i] + y[i]);
        }
      }
    }
    double sum = 0;
    for (const double value : least_) sum += value;
    return sum;
  }

  void update_merge_cost(std::size_t i) {
    if (i == 0 || i >= slabs_.size()) return;
    const Slab& before = slabs_[i - 1];
    slabs_[i].merge_cost =
        low_of(before.cost, &slabs_[i].cost) - before.low - slabs_[i].low;
  }

  void merge_cheapest() {
    std::size_t at = 0;
    for (std::size_t i = 1; i < slabs_.size(); ++i) {
      if (slabs_[i].merge_cost < kInfinity &&
          (at == 0 || slabs_[i].merge_cost < slabs_[at].merge_cost)) {
        at = i;
      }
    }
    if (at == 0) return;
    Slab& into = slabs_[at - 1];
    const Slab& from = slabs_[at];
    for (std::size_t i = 0; i < into.cost.size(); ++i) {
      into.cost[i] += from.cost[i];
      into.worst[i] = std::max(into.worst[i], from.worst[i]);
    }
    into.end = from.end;
    into.low = low_of(into.cost, nullptr);
    slabs_.erase(slabs_.begin() + static_cast<std::ptrdiff_t>(at));
    update_merge_cost(at - 1);
    update_merge_cost(at);
  }

  std::size_t labels_;
  std::size_t width_;
  std::size_t limit_;
  bool merging_;
  std::vector<Slab> slabs_;
  std::vector<double> least_;
};

// Step time of every label in one row, labels x columns; NaN where unmeasured.
void row_step_us(const TuneInput& input, const std::vector<Surface>& surfaces,
                 std::size_t row, std::span<double> out) {
  const std::size_t width = input.columns.size();
  const auto rows = static_cast<std::size_t>(input.max_num_seqs);
  for (std::size_t k = 0; k < surfaces.size(); ++k) {
    const std::span<double> us = out.subspan(k * width, width);
    const std::size_t at = k * rows + row;
    surfaces[k].row(input.padded_batch.empty() ? static_cast<double>(row + 1)
                                               : input.padded_batch[at],
                    us);
    if (input.extra_us.empty()) continue;
    for (double& value : us) value += input.extra_us[at];
  }
}

std::vector<Surface> surfaces_of(const TuneInput& input,
                                 const StopRequested& stop) {
  std::vector<Surface> surfaces;
  surfaces.reserve(input.surfaces.size());
  for (const SurfacePoints& points : input.surfaces) {
    ask(stop);
    surfaces.emplace_back(points, input.columns);
  }
  return surfaces;
}

// The label of least time per token in one cell, -1 where none is measured.
struct BestLabel {
  std::int32_t label = -1;
  double us = kInfinity;

  void offer(std::size_t k, double value) {
    if (std::isnan(value)) return;
    if (label < 0 || value < us * (1 - kTie)) {
      label = static_cast<std::int32_t>(k);
      us = value;
    }
  }
};

// Evaluates one row of the grid: fills the row's cells in `out`, and a slab.
// Loops run over columns inside, so that they vectorise; NaN (not measured)
// compares false with everything.
Slab evaluate_row(const TuneInput& input, const std::vector<Surface>& surfaces,
                  std::size_t row, TuneGrid& out) {
  const std::size_t labels = surfaces.size();
  const std::size_t width = input.columns.size();
  const auto batch = static_cast<double>(row + 1);
  Slab slab;
  slab.end = static_cast<std::int64_t>(row) + 1;
  slab.cost.resize(labels * width);
  slab.worst.resize(input.max_rows > 0 ? labels * width : 0);
  // First `cost` holds time per output token.
  row_step_us(input, surfaces, row, slab.cost);
  std::int32_t* best = out.best.data() + row * width;
  double* best_us = out.best_us_per_token.data() + row * width;
  double* second_us = out.second_us_per_token.data() + row * width;
  std::uint8_t* flags = out.flags.data() + row * width;
  std::fill_n(best, width, -1);
  std::fill_n(best_us, width, kInfinity);
  std::fill_n(second_us, width, kInfinity);
  std::vector<std::size_t> measured(width, 0);
  for (std::size_t k = 0; k < labels; ++k) {
    double* us = slab.cost.data() + k * width;
    const double* tokens = input.tokens_per_step.data() + k * width;
    for (std::size_t c = 0; c < width; ++c) {
      us[c] /= tokens[c];
      const bool better = us[c] < best_us[c] * (1 - kTie);
      const double loser = better ? best_us[c] : us[c];
      second_us[c] = loser < second_us[c] ? loser : second_us[c];
      best_us[c] = better ? us[c] : best_us[c];
      best[c] = better ? static_cast<std::int32_t>(k) : best[c];
      measured[c] += us[c] == us[c] ? 1 : 0;
    }
  }
  const bool blocks = input.max_rows > 0;
  std::vector<double> limit(width);
  std::vector<double> share(width);
  bool all_measured = true;
  for (std::size_t c = 0; c < width; ++c) {
    const double weight =
        input.weights.empty() ? 1.0 : input.weights[row * width + c];
    share[c] = weight / batch;
    flags[c] = measured[c] == 0       ? kNoKMeasured
               : measured[c] < labels ? kSomeKNotMeasured
                                      : std::uint8_t{0};
    all_measured &= measured[c] > 0;
    limit[c] = input.max_us_per_token;
    if (measured[c] > 0 && best_us[c] > limit[c]) {
      flags[c] |= kLimitNotMet;
      limit[c] = kInfinity;
    }
    if (weight > 0) {
      const double close = best_us[c] * (1 + input.tolerance) * (1 + kTie);
      limit[c] = std::min(limit[c], close);
    }
  }
  for (std::size_t k = 0; blocks && k < labels; ++k) {
    double* cost = slab.cost.data() + k * width;
    double* worst = slab.worst.data() + k * width;
    for (std::size_t c = 0; c < width; ++c) {
      const double us = cost[c];
      const bool allowed = us <= limit[c];
      const double ratio = share[c] > 0 ? us / best_us[c] : 1.0;
      cost[c] = allowed ? share[c] * us : kInfinity;
      worst[c] = allowed ? ratio : kInfinity;
    }
  }
  if (all_measured) return slab;
  for (std::size_t c = 0; c < width; ++c) {
    if (measured[c] > 0) continue;
    best_us[c] = kNotMeasured;
    second_us[c] = kNotMeasured;
    for (std::size_t k = 0; blocks && k < labels; ++k) {
      slab.cost[k * width + c] = 0;
      slab.worst[k * width + c] = 1;
    }
  }
  return slab;
}

// Gives cells without any measurement the label of the nearest measured one:
// in the same column by batch, else the nearest column that has one.
void fill_from_nearest(std::size_t rows, std::span<const std::int64_t> columns,
                       std::vector<std::int32_t>& best) {
  const std::size_t width = columns.size();
  std::vector<std::size_t> filled;
  for (std::size_t c = 0; c < width; ++c) {
    std::vector<std::size_t> known;
    for (std::size_t r = 0; r < rows; ++r) {
      if (best[r * width + c] >= 0) known.push_back(r);
    }
    if (known.empty()) continue;
    filled.push_back(c);
    if (known.size() == rows) continue;
    std::size_t next = 0;  // first known row at or after r
    std::vector<std::int32_t> column(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      while (next < known.size() && known[next] < r) ++next;
      std::size_t from;
      if (next == known.size()) {
        from = known.back();
      } else if (next == 0 || known[next] - r < r - known[next - 1]) {
        from = known[next];
      } else {
        from = known[next - 1];
      }
      if (next < known.size() && known[next] == r) from = r;
      column[r] = best[from * width + c];
    }
    for (std::size_t r = 0; r < rows; ++r) best[r * width + c] = column[r];
  }
  if (filled.empty() || filled.size() == width) return;
  std::size_t next = 0;
  for (std::size_t c = 0; c < width; ++c) {
    while (next < filled.size() && filled[next] < c) ++next;
    if (next < filled.size() && filled[next] == c) continue;
    std::size_t from;
    if (next == filled.size()) {
      from = filled.back();
    } else if (next == 0 || columns[filled[next]] - columns[c] <
                                columns[c] - columns[filled[next - 1]]) {
      from = filled[next];
    } else {
      from = filled[next - 1];
    }
    for (std::size_t r = 0; r < rows; ++r) {
      best[r * width + c] = best[r * width + from];
    }
  }
}

// The slabs of rows turned into slabs of columns: labels x rows each.
Slab column_slab(const std::vector<Slab>& rows, std::size_t labels,
                 std::size_t width, std::size_t column) {
  Slab slab;
  slab.end = static_cast<std::int64_t>(column) + 1;
  slab.cost.resize(labels * rows.size());
  slab.worst.resize(labels * rows.size());
  for (std::size_t k = 0; k < labels; ++k) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      slab.cost[k * rows.size() + r] = rows[r].cost[k * width + column];
      slab.worst[k * rows.size() + r] = rows[r].worst[k * width + column];
    }
  }
  return slab;
}

}  // namespace

TuneGrid tune_grid(const TuneInput& input, const StopRequested& stop) {
  const std::size_t labels = input.surfaces.size();
  const std::size_t width = input.columns.size();
  const auto rows = static_cast<std::size_t>(input.max_num_seqs);
  const std::vector<Surface> surfaces = surfaces_of(input, stop);
  TuneGrid out;
  out.best.resize(rows * width);
  out.best_us_per_token.resize(rows * width);
  out.second_us_per_token.resize(rows * width);
  out.flags.resize(rows * width);

  // Rows are evaluated in parallel a chunk at a time and merged in order, so
  // the whole (cells x labels) table never exists.
  constexpr std::size_t kValuesPerThread = std::size_t{1} << 18;
  const int threads =
      useful_threads(input.threads, rows * width * labels, kValuesPerThread);
  constexpr std::size_t kChunkRows = 32;
  SlabList row_list(labels, width, rows, input.max_rows);
  std::vector<Slab> chunk(kChunkRows);
  for (std::size_t first = 0; first < rows; first += kChunkRows) {
    const std::size_t count = std::min(kChunkRows, rows - first);
    parallel_for(
        count, threads,
        [&](std::size_t i) {
          chunk[i] = evaluate_row(input, surfaces, first + i, out);
        },
        stop);
    for (std::size_t i = 0; i < count && input.max_rows > 0; ++i) {
      ask(stop);
      row_list.push(std::move(chunk[i]));
    }
  }
  fill_from_nearest(rows, input.columns, out.best);
  if (input.max_rows == 0) return out;

  const std::vector<Slab>& row_slabs = row_list.slabs();
  for (const Slab& slab : row_slabs) out.row_ends.push_back(slab.end);
  SlabList column_list(labels, row_slabs.size(), width, input.max_columns);
  for (std::size_t c = 0; c < width; ++c) {
    ask(stop);
    column_list.push(column_slab(row_slabs, labels, width, c));
  }
  const std::vector<Slab>& column_slabs = column_list.slabs();
  for (const Slab& slab : column_slabs) out.column_ends.push_back(slab.end);

  const std::size_t num_rows = row_slabs.size();
  const std::size_t num_columns = column_slabs.size();
  out.cost.resize(num_rows * labels * num_columns);
  out.worst_ratio.resize(out.cost.size());
  for (std::size_t r = 0; r < num_rows; ++r) {
    for (std::size_t k = 0; k < labels; ++k) {
      for (std::size_t c = 0; c < num_columns; ++c) {
        const std::size_t to = (r * labels + k) * num_columns + c;
        out.cost[to] = column_slabs[c].cost[k * num_rows + r];
        out.worst_ratio[to] = column_slabs[c].worst[k * num_rows + r];
      }
    }
  }
  return out;
}

TuneReport tune_report(const TuneInput& input, std::span<const double> tokens,
                       std::span<const std::int32_t> table,
                       const StopRequested& stop) {
  const std::size_t labels = input.surfaces.size();
  const std::size_t width = input.columns.size();
  const auto rows = static_cast<std::size_t>(input.max_num_seqs);
  const std::size_t assumptions = tokens.size() / (labels * width);
  const std::vector<Surface> surfaces = surfaces_of(input, stop);
  TuneReport out;
  out.us_per_token.resize(rows * width);
  out.best_changes.resize(rows * width);
  out.label_cost.assign(assumptions * labels, 0.0);
  out.table_cost.assign(assumptions * labels, 0.0);
  out.cells_measured.assign(labels, 0);

  // Every row keeps sums of its own; they are added in order afterwards.
  struct RowSums {
    double cost = 0;
    double best_cost = 0;
    double worst_ratio = 1;
    std::vector<double> label_cost;
    std::vector<double> table_cost;
    std::vector<std::int64_t> cells_measured;
  };
  std::vector<RowSums> sums(rows);
  const auto evaluate = [&](std::size_t row) {
    RowSums& sum = sums[row];
    sum.label_cost.assign(assumptions * labels, 0.0);
    sum.table_cost.assign(assumptions * labels, 0.0);
    sum.cells_measured.assign(labels, 0);
    std::vector<double> step_us(labels * width);
    row_step_us(input, surfaces, row, step_us);
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t cell = row * width + c;
      const auto chosen = static_cast<std::size_t>(table[cell]);
      const double weight = input.weights.empty() ? 1.0 : input.weights[cell];
      const double share = weight / static_cast<double>(row + 1);
      const bool known = !std::isnan(step_us[chosen * width + c]);
      std::int32_t best_label = -1;
      for (std::size_t a = 0; a < assumptions; ++a) {
        const double* gained = tokens.data() + a * labels * width + c;
        const double chosen_us =
            step_us[chosen * width + c] / gained[chosen * width];
        BestLabel best;
        for (std::size_t k = 0; k < labels; ++k) {
          const double us = step_us[k * width + c] / gained[k * width];
          best.offer(k, us);
          if (!known || std::isnan(us)) continue;
          sum.label_cost[a * labels + k] += share * us;
          sum.table_cost[a * labels + k] += share * chosen_us;
          if (a == 0) ++sum.cells_measured[k];
        }
        if (a > 0) {
          out.best_changes[cell] |= best.label != best_label ? 1 : 0;
          continue;
        }
        best_label = best.label;
        out.us_per_token[cell] = chosen_us;
        if (!known) continue;
        sum.cost += share * chosen_us;
        sum.best_cost += share * best.us;
        if (weight > 0) {
          sum.worst_ratio = std::max(sum.worst_ratio, chosen_us / best.us);
        }
      }
    }
  };
  constexpr std::size_t kValuesPerThread = std::size_t{1} << 18;
  parallel_for(
      rows,
      useful_threads(input.threads, rows * width * labels, kValuesPerThread),
      evaluate, stop);
  for (const RowSums& sum : sums) {
    out.cost += sum.cost;
    out.best_cost += sum.best_cost;
    out.worst_ratio = std::max(out.worst_ratio, sum.worst_ratio);
    for (std::size_t i = 0; i < assumptions * labels; ++i) {
      out.label_cost[i] += sum.label_cost[i];
      out.table_cost[i] += sum.table_cost[i];
    }
    for (std::size_t k = 0; k < labels; ++k) {
      out.cells_measured[k] += sum.cells_measured[k];
    }
  }
  return out;
}

}  // namespace specgrid
