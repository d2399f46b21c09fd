// Fewest rows for a table of K: by batch, and in bands. See tune_compress.hpp.
#include "core/tune_compress.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A further entry must gain at least this share to count as a gain.
constexpr double kTie = 1e-12;
constexpr std::uint8_t kStay = 255;

// Viterbi over (row, label) for one entry count after another. Kept as an
// object so that many lines of one size reuse the memory.
class LineSolver {
 public:
  LineSolver(std::size_t rows, std::size_t labels, std::size_t max_entries,
             bool non_increasing)
      : rows_(rows),
        labels_(labels),
        max_entries_(max_entries),
        non_increasing_(non_increasing),
        previous_(rows * labels),
        current_(rows * labels),
        switch_from_(labels),
        switch_cost_(labels) {}

  // Fills totals[e - 1] for every e. With `keep` the choices can be read with
  // runs(); without, only the totals are known.
  void solve(std::span<const double> cost, bool keep, std::span<double> totals,
             const StopRequested& stop) {
    if (keep) from_.resize(max_entries_);
    last_label_.assign(max_entries_, 0);
    for (std::size_t e = 0; e < max_entries_; ++e) {
      ask(stop);
      std::swap(previous_, current_);
      if (keep) from_[e].assign(rows_ * labels_, kStay);
      std::uint8_t* from = keep ? from_[e].data() : nullptr;
      const bool changed = step(cost, e > 0, from);
      const double* last = current_.data() + (rows_ - 1) * labels_;
      std::size_t best = 0;
      for (std::size_t i = 1; i < labels_; ++i) {
        if (last[i] < last[best]) best = i;
      }
      totals[e] = last[best];
      last_label_[e] = best;
      if (e > 0 && !changed) {
        // One more entry changed nothing anywhere, so no further one will.
        std::fill(totals.begin() + static_cast<std::ptrdiff_t>(e), totals.end(),
                  totals[e]);
        break;
      }
    }
    // An entry that gains nothing is not used.
    solved_with_.resize(max_entries_);
    solved_with_[0] = 0;
    for (std::size_t e = 1; e < max_entries_; ++e) {
      const std::size_t before = solved_with_[e - 1];
      solved_with_[e] = totals[e] < totals[before] * (1 - kTie) ? e : before;
    }
  }

  // Runs of the best choice with at most e + 1 entries; needs keep.
  [[nodiscard]] std::vector<Run> runs(std::size_t e) const {
    e = solved_with_[e];
    std::vector<Run> out;
    std::size_t label = last_label_[e];
    std::size_t end = rows_;
    for (std::size_t r = rows_; r-- > 0;) {
      const std::uint8_t from = from_[e][r * labels_ + label];
      if (r > 0 && from == kStay) continue;
      out.push_back({r, end, static_cast<std::int32_t>(label)});
      end = r;
      label = from;
      if (r > 0) --e;
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  // One entry count; reads previous_, writes current_. False if both are equal.
  bool step(std::span<const double> cost, bool may_switch, std::uint8_t* from) {
    std::copy_n(cost.begin(), labels_, current_.begin());
    bool changed = false;
    for (std::size_t r = 1; r < rows_; ++r) {
      const double* stay = current_.data() + (r - 1) * labels_;
      double* now = current_.data() + r * labels_;
      const double* here = cost.data() + r * labels_;
      if (!may_switch) {
        for (std::size_t i = 0; i < labels_; ++i) now[i] = stay[i] + here[i];
        continue;
      }
      find_switches(previous_.data() + (r - 1) * labels_);
      for (std::size_t i = 0; i < labels_; ++i) {
        double value = stay[i];
        if (switch_cost_[i] < value) {
          value = switch_cost_[i];
          if (from != nullptr) from[r * labels_ + i] = switch_from_[i];
        }
        now[i] = value + here[i];
        changed |= now[i] != previous_[r * labels_ + i];
      }
    }
    return changed;
  }

  // The cheapest label to come from, for every label; smaller label on ties.
  // Coming from the label itself never beats staying, so it need not be
  // excluded.
  void find_switches(const double* before) {
    if (!non_increasing_) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < labels_; ++i) {
        if (before[i] < before[best]) best = i;
      }
      std::fill(switch_from_.begin(), switch_from_.end(),
                static_cast<std::uint8_t>(best));
      std::fill(switch_cost_.begin(), switch_cost_.end(), before[best]);
      return;
    }
    std::size_t best = labels_ - 1;
    for (std::size_t i = labels_; i-- > 0;) {
      if (before[i] <= before[best]) best = i;
      switch_from_[i] = static_cast<std::uint8_t>(best);
      switch_cost_[i] = before[best];
    }
  }

  std::size_t rows_;
  std::size_t labels_;
  std::size_t max_entries_;
  bool non_increasing_;
  std::vector<double> previous_;
  std::vector<double> current_;
  std::vector<std::uint8_t> switch_from_;
  std::vector<double> switch_cost_;
  std::vector<std::vector<std::uint8_t>> from_;  // [entry][row, label]
  std::vector<std::size_t> last_label_;
  std::vector<std::size_t> solved_with_;
};

// One order of bands: bands are cut along one axis, runs along the other, the
// "line".
struct BandProblem {
  std::span<const double> cost;  // rows x labels x columns
  std::size_t rows;
  std::size_t labels;
  std::size_t columns;
  bool batch_bands;

  [[nodiscard]] std::size_t num_bands() const {
    return batch_bands ? rows : columns;
  }
  [[nodiscard]] std::size_t line_length() const {
    return batch_bands ? columns : rows;
  }

  // Adds one band's costs (line x labels) to `sum`.
  void add_band(std::size_t band, std::vector<double>& sum) const {
    for (std::size_t line = 0; line < line_length(); ++line) {
      const std::size_t row = batch_bands ? band : line;
      const std::size_t column = batch_bands ? line : band;
      for (std::size_t k = 0; k < labels; ++k) {
        sum[line * labels + k] += cost[(row * labels + k) * columns + column];
      }
    }
  }
};

struct BandSolution {
  std::vector<double> totals;
  std::vector<std::vector<Rectangle>> rectangles;
};

BandSolution solve_bands(const BandProblem& problem, std::size_t max_entries,
                         bool non_increasing, int threads,
                         const StopRequested& stop) {
  const std::size_t bands = problem.num_bands();
  const std::size_t line = problem.line_length();
  const std::size_t labels = problem.labels;
  // joined[a][(b - a) * max_entries + e - 1]: bands a..b as one, in e runs.
  std::vector<std::vector<double>> joined(bands);
  constexpr std::size_t kStepsPerThread = std::size_t{1} << 20;
  const int useful =
      useful_threads(threads, bands * bands / 2 * line * labels * max_entries,
                     kStepsPerThread);
  parallel_for_long(
      bands, useful,
      [&](std::size_t a, const std::function<void()>& pause) {
        LineSolver solver(line, labels, max_entries, non_increasing);
        std::vector<double> sum(line * labels, 0.0);
        joined[a].resize((bands - a) * max_entries);
        for (std::size_t b = a; b < bands; ++b) {
          pause();
          problem.add_band(b, sum);
          solver.solve(
              sum, false,
              std::span(joined[a]).subspan((b - a) * max_entries, max_entries),
              {});
        }
      },
      stop);

  // value[b][e]: the first b bands in at most e entries.
  struct From {
    std::size_t band = 0;
    std::size_t entries = 0;
  };
  const std::size_t stride = max_entries + 1;
  std::vector<double> value((bands + 1) * stride, kInfinity);
  std::vector<From> from((bands + 1) * stride);
  std::fill_n(value.begin(), stride, 0.0);
  for (std::size_t b = 1; b <= bands; ++b) {
    ask(stop);
    for (std::size_t a = 0; a < b; ++a) {
      const double* one = joined[a].data() + (b - 1 - a) * max_entries;
      for (std::size_t e = 1; e <= max_entries; ++e) {
        double& best = value[b * stride + e];
        for (std::size_t f = 1; f <= e; ++f) {
          const double total = value[a * stride + e - f] + one[f - 1];
          if (total < best) {
            best = total;
            from[b * stride + e] = {a, f};
          }
        }
      }
    }
  }

  BandSolution out;
  out.totals.resize(max_entries);
  out.rectangles.resize(max_entries);
  LineSolver solver(line, labels, max_entries, non_increasing);
  std::vector<double> totals(max_entries);
  for (std::size_t e = 1; e <= max_entries; ++e) {
    out.totals[e - 1] = value[bands * stride + e];
    if (out.totals[e - 1] == kInfinity) continue;
    if (e > 1 && !(out.totals[e - 1] < out.totals[e - 2] * (1 - kTie))) {
      out.totals[e - 1] = out.totals[e - 2];
      out.rectangles[e - 1] = out.rectangles[e - 2];
      continue;
    }
    std::size_t left = e;
    for (std::size_t b = bands; b > 0;) {
      const From step = from[b * stride + left];
      std::vector<double> sum(line * labels, 0.0);
      for (std::size_t band = step.band; band < b; ++band) {
        problem.add_band(band, sum);
      }
      solver.solve(sum, true, totals, stop);
      for (const Run& run : solver.runs(step.entries - 1)) {
        out.rectangles[e - 1].push_back(
            problem.batch_bands
                ? Rectangle{step.band, b, run.begin, run.end, run.label}
                : Rectangle{run.begin, run.end, step.band, b, run.label});
      }
      left -= step.entries;
      b = step.band;
    }
  }
  return out;
}

}  // namespace

std::vector<LineChoice> compress_line(std::span<const double> cost,
                                      std::size_t labels,
                                      std::size_t max_entries,
                                      bool non_increasing,
                                      const StopRequested& stop) {
  LineSolver solver(cost.size() / labels, labels, max_entries, non_increasing);
  std::vector<double> totals(max_entries);
  solver.solve(cost, true, totals, stop);
  std::vector<LineChoice> out;
  for (std::size_t e = 0; e < max_entries; ++e) {
    out.push_back({totals[e], {}});
    if (totals[e] < kInfinity) out.back().runs = solver.runs(e);
  }
  return out;
}

std::vector<BandChoice> compress_bands(std::span<const double> cost,
                                       std::size_t rows, std::size_t labels,
                                       std::size_t columns,
                                       std::size_t max_entries,
                                       bool non_increasing, int threads,
                                       const StopRequested& stop) {
  BandSolution context_bands =
      solve_bands({cost, rows, labels, columns, false}, max_entries,
                  non_increasing, threads, stop);
  BandSolution batch_bands;
  if (!non_increasing) {
    batch_bands = solve_bands({cost, rows, labels, columns, true}, max_entries,
                              false, threads, stop);
  }
  std::vector<BandChoice> out;
  for (std::size_t e = 0; e < max_entries; ++e) {
    const bool by_batch =
        !non_increasing &&
        batch_bands.totals[e] < context_bands.totals[e] * (1 - kTie);
    BandSolution& better = by_batch ? batch_bands : context_bands;
    out.push_back(
        {better.totals[e], by_batch, std::move(better.rectangles[e])});
  }
  return out;
}

}  // namespace specgrid
