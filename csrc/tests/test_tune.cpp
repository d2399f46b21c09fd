// The tuner against exhaustive search, and under threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "core/parallel.hpp"
#include "core/tune_compress.hpp"
#include "core/tune_grid.hpp"
#include "core/tune_joint.hpp"
#include "core/tune_surface.hpp"

namespace specgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> row_at(const Surface& surface, double batch,
                           std::size_t width) {
  std::vector<double> out(width);
  surface.row(batch, out);
  return out;
}

TEST_CASE("a surface is bilinear inside a full mesh and silent outside") {
  const std::vector<std::int64_t> batches{1, 1, 5, 5};
  const std::vector<std::int64_t> contexts{0, 10, 0, 10};
  const std::vector<double> us{10, 20, 50, 100};
  const std::vector<std::int64_t> columns{0, 5, 10, 11};
  const Surface surface({batches, contexts, us}, columns);
  const auto middle = row_at(surface, 3, 4);
  CHECK(middle[0] == 30);
  CHECK(middle[1] == 45);
  CHECK(middle[2] == 60);
  CHECK(std::isnan(middle[3]));
  CHECK(std::isnan(row_at(surface, 6, 4)[0]));
  CHECK(std::isnan(row_at(surface, 0.5, 4)[0]));
  CHECK(row_at(surface, 1.5, 4)[0] == 15);
}

TEST_CASE("lines with few contexts do not cut a hole into longer ones") {
  const std::vector<std::int64_t> batches{1, 1, 2, 4, 4};
  const std::vector<std::int64_t> contexts{0, 8, 0, 0, 8};
  const std::vector<double> us{1, 9, 5, 4, 12};
  const std::vector<std::int64_t> columns{0, 8};
  const Surface surface({batches, contexts, us}, columns);
  CHECK(row_at(surface, 2, 2)[0] == 5);
  CHECK(row_at(surface, 2, 2)[1] == doctest::Approx(10));
}

TEST_CASE("lines along the batch are used where lines along the context end") {
  const std::vector<std::int64_t> batches{1, 4, 2, 8};
  const std::vector<std::int64_t> contexts{0, 0, 10, 10};
  const std::vector<double> us{1, 4, 20, 80};
  const std::vector<std::int64_t> columns{5};
  const Surface surface({batches, contexts, us}, columns);
  CHECK(row_at(surface, 2, 1)[0] == 11);
  CHECK(std::isnan(row_at(surface, 1, 1)[0]));
}

// Least total over every assignment of labels with at most `entries` runs.
double brute_line(const std::vector<double>& cost, std::size_t labels,
                  std::size_t entries, bool non_increasing) {
  const std::size_t rows = cost.size() / labels;
  double best = kInfinity;
  const std::function<void(std::size_t, std::size_t, std::size_t, double)>
      extend = [&](std::size_t row, std::size_t last, std::size_t runs,
                   double total) {
        if (runs > entries) return;
        if (row == rows) {
          best = std::min(best, total);
          return;
        }
        for (std::size_t k = 0; k < labels; ++k) {
          if (row > 0 && non_increasing && k > last) continue;
          extend(row + 1, k, runs + (row == 0 || k != last ? 1 : 0),
                 total + cost[row * labels + k]);
        }
      };
  extend(0, 0, 0, 0.0);
  return best;
}

TEST_CASE("runs equal brute force for every number of entries") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> value(0.0, 1.0);
  for (int round = 0; round < 40; ++round) {
    const std::size_t rows = 2 + random() % 5;
    const std::size_t labels = 1 + random() % 3;
    std::vector<double> cost(rows * labels);
    for (double& c : cost) c = random() % 8 == 0 ? kInfinity : value(random);
    for (const bool non_increasing : {false, true}) {
      const auto choices = compress_line(cost, labels, 4, non_increasing);
      for (std::size_t e = 1; e <= 4; ++e) {
        const LineChoice& choice = choices[e - 1];
        const double expected = brute_line(cost, labels, e, non_increasing);
        if (expected == kInfinity) {
          CHECK(choice.total == kInfinity);
          CHECK(choice.runs.empty());
          continue;
        }
        CHECK(choice.total == doctest::Approx(expected));
        CHECK(choice.runs.size() <= e);
        double total = 0;
        std::size_t next = 0;
        for (const Run& run : choice.runs) {
          CHECK(run.begin == next);
          next = run.end;
          for (std::size_t r = run.begin; r < run.end; ++r) {
            total += cost[r * labels + static_cast<std::size_t>(run.label)];
          }
        }
        CHECK(next == rows);
        CHECK(total == doctest::Approx(expected));
      }
    }
  }
}

TEST_CASE("bands tile the grid, cost what they say, whatever the threads") {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> value(0.0, 1.0);
  const std::size_t rows = 9;
  const std::size_t labels = 3;
  const std::size_t columns = 5;
  std::vector<double> cost(rows * labels * columns);
  for (double& c : cost) c = value(random);
  const auto one = compress_bands(cost, rows, labels, columns, 12, false, 1);
  const auto four = compress_bands(cost, rows, labels, columns, 12, false, 4);
  for (std::size_t e = 0; e < 12; ++e) {
    CHECK(one[e].total == four[e].total);
    CHECK(one[e].rectangles.size() <= e + 1);
    std::vector<int> covered(rows * columns);
    double total = 0;
    for (const Rectangle& r : one[e].rectangles) {
      for (std::size_t row = r.row_begin; row < r.row_end; ++row) {
        for (std::size_t c = r.column_begin; c < r.column_end; ++c) {
          ++covered[row * columns + c];
          total += cost[(row * labels + static_cast<std::size_t>(r.label)) *
                            columns +
                        c];
        }
      }
    }
    for (const int times : covered) CHECK(times == 1);
    CHECK(total == doctest::Approx(one[e].total));
    if (e > 0) CHECK(one[e].total <= one[e - 1].total);
  }
}

TEST_CASE("merging blocks keeps every label's total and stops at the limit") {
  const std::vector<std::int64_t> batches{1, 64};
  const std::vector<std::int64_t> contexts{0, 0};
  const std::vector<double> flat{100, 100};
  const std::vector<double> steep{50, 400};
  const std::vector<std::int64_t> columns{0};
  const std::vector<double> tokens{1, 1};
  TuneInput input;
  input.surfaces = {{batches, contexts, flat}, {batches, contexts, steep}};
  input.tokens_per_step = tokens;
  input.max_num_seqs = 64;
  input.columns = columns;
  input.max_us_per_token = kInfinity;
  input.tolerance = kInfinity;
  input.max_rows = 64;
  input.max_columns = 1;
  const TuneGrid full = tune_grid(input);
  input.max_rows = 5;
  input.threads = 3;
  const TuneGrid merged = tune_grid(input);
  CHECK(full.row_ends.size() == 64);
  CHECK(merged.row_ends.size() == 5);
  CHECK(merged.best == full.best);
  for (std::size_t k = 0; k < 2; ++k) {
    double a = 0;
    double b = 0;
    for (std::size_t r = 0; r < 64; ++r) a += full.cost[r * 2 + k];
    for (std::size_t r = 0; r < 5; ++r) b += merged.cost[r * 2 + k];
    CHECK(a == doctest::Approx(b));
  }
}

TEST_CASE("work is done once each, and exceptions come back from threads") {
  std::vector<int> times(1000);
  parallel_for(times.size(), 4,
               [&](std::size_t i, const auto&) { ++times[i]; });
  for (const int count : times) CHECK(count == 1);
  CHECK_THROWS_AS(parallel_for(100, 4,
                               [](std::size_t i, const auto&) {
                                 if (i == 50) throw std::bad_alloc();
                               }),
                  std::bad_alloc);
  // A piece that never ends by itself ends when another has thrown.
  CHECK_THROWS_AS(parallel_for(2, 2,
                               [](std::size_t i, const auto& pause) {
                                 if (i == 1) throw std::bad_alloc();
                                 for (;;) pause();
                               }),
                  std::bad_alloc);
  CHECK_THROWS_AS(parallel_for(
                      100, 4, [](std::size_t, const auto&) {},
                      []() -> bool { throw std::bad_alloc(); }),
                  std::bad_alloc);
  CHECK(useful_threads(8, 100, 1000) == 1);
  CHECK(useful_threads(8, 3000, 1000) == 3);
  CHECK(useful_threads(0, 9000, 1000) == 1);
}

TEST_CASE("grid and report are the same for any number of threads") {
  const std::vector<std::int64_t> batches{1, 1, 1000, 1000};
  const std::vector<std::int64_t> contexts{0, 200, 0, 200};
  const std::vector<std::vector<double>> us{
      {10, 11, 90, 95}, {14, 15, 100, 130}, {18, 18, 130, 150}};
  std::vector<std::int64_t> columns;
  for (std::int64_t c = 0; c < 200; ++c) columns.push_back(c);
  std::vector<double> tokens;
  for (const double gained : {1.0, 1.6, 2.0}) {
    tokens.insert(tokens.end(), columns.size(), gained);
  }
  TuneInput input;
  for (const auto& times : us) {
    input.surfaces.push_back({batches, contexts, times});
  }
  input.tokens_per_step = tokens;
  input.max_num_seqs = 1000;
  input.columns = columns;
  input.max_us_per_token = kInfinity;
  input.tolerance = kInfinity;
  input.max_rows = 16;
  input.max_columns = 8;
  const TuneGrid one = tune_grid(input);
  const TuneReport report = tune_report(input, tokens, one.best);
  input.threads = 4;
  const TuneGrid four = tune_grid(input);
  CHECK(one.best == four.best);
  CHECK(one.cost == four.cost);
  CHECK(one.row_ends == four.row_ends);
  const TuneReport again = tune_report(input, tokens, one.best);
  CHECK(report.cost == again.cost);
  CHECK(report.label_cost == again.label_cost);
  CHECK(report.cost == report.best_cost);
  CHECK(report.worst_ratio == 1);
  input.max_rows = 0;
  const TuneGrid cells = tune_grid(input);
  CHECK(cells.best == one.best);
  CHECK(cells.cost.empty());
}

TEST_CASE("cells outside every mesh take the nearest label and are flagged") {
  const std::vector<std::int64_t> batches{2, 3};
  const std::vector<std::int64_t> contexts{0, 0};
  const std::vector<double> us{5, 5};
  const std::vector<std::int64_t> columns{0, 100};
  const std::vector<double> tokens{1, 1};
  TuneInput input;
  input.surfaces = {{batches, contexts, us}};
  input.tokens_per_step = tokens;
  input.max_num_seqs = 5;
  input.columns = columns;
  input.max_us_per_token = kInfinity;
  input.tolerance = kInfinity;
  input.max_rows = 5;
  input.max_columns = 2;
  const TuneGrid grid = tune_grid(input);
  for (const std::int32_t best : grid.best) CHECK(best == 0);
  CHECK(grid.flags[0] == kNoKMeasured);
  CHECK(grid.flags[2] == 0);
  CHECK(grid.flags[3] == kNoKMeasured);
  CHECK(grid.cost[0] == 0);
}

TEST_CASE(
    "more graphs never cost more, and a shared graph can beat the best K") {
  // Two batches, two labels. Label 1 is best at batch 1, label 0 at batch 2.
  const std::vector<double> share{1, 1};
  const std::vector<double> graph{10, 10, 9, 11};
  const std::vector<double> eager{20, 20, 20, 20};
  JointInput input;
  input.labels = 2;
  input.share = share;
  input.graph_us = graph;
  input.eager_us = eager;
  input.max_graphs = 3;
  const auto choices = tune_joint(input);
  CHECK(choices[0].total == 40);
  CHECK(choices[1].total == 20);
  CHECK(choices[1].segments.size() == 1);
  CHECK(choices[1].segments[0].label == 0);
  CHECK(choices[2].total == 19);
  CHECK(choices[2].segments.size() == 2);
  CHECK(choices[3].total == 19);
}

}  // namespace
}  // namespace specgrid
