// The tuner against exhaustive search, and under threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

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

TEST_CASE("a graph has no best plan where no time is known") {
  const std::vector<double> share{1, 1};
  const std::vector<double> graph{kInfinity, 5};
  const std::vector<double> eager{kInfinity, kInfinity};
  JointInput input;
  input.labels = 1;
  input.share = share;
  input.graph_us = graph;
  input.eager_us = eager;
  input.max_graphs = 2;
  const auto choices = tune_joint(input);
  CHECK(choices[0].total == kInfinity);
  CHECK(choices[0].segments.empty());
  // The graph of two requests serves both batches; a second gains nothing.
  CHECK(choices[1].total == 10);
  REQUIRE(choices[1].segments.size() == 1);
  CHECK(choices[1].segments[0].end == 2);
  CHECK(choices[2].total == 10);
  CHECK(choices[2].segments.size() == 1);
}

TEST_CASE("many rows of a surface equal single ones, for any threads") {
  const std::vector<std::int64_t> batches{1, 1, 9, 9};
  const std::vector<std::int64_t> contexts{0, 999, 0, 999};
  const std::vector<double> us{1, 5, 20, 90};
  std::vector<std::int64_t> columns;
  for (std::int64_t c = 0; c < 1002; ++c) columns.push_back(c);
  std::vector<double> asked;
  for (int i = 0; i < 2100; ++i) asked.push_back(0.5 + i * 0.005);
  const SurfacePoints points{batches, contexts, us};
  const auto one = surface_rows(points, asked, columns, 1);
  const auto three = surface_rows(points, asked, columns, 3);
  const Surface surface(points, columns);
  REQUIRE(one.size() == asked.size() * columns.size());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < asked.size(); i += 7) {
    const auto row = row_at(surface, asked[i], columns.size());
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::size_t at = i * columns.size() + c;
      // Nothing measured is nothing measured, not a number.
      const bool same = std::isnan(row[c])
                            ? std::isnan(one[at]) && std::isnan(three[at])
                            : one[at] == row[c] && three[at] == row[c];
      differ += same ? 0 : 1;
    }
  }
  CHECK(differ == 0);
  CHECK(surface_rows(points, {}, columns, 2).empty());
}

TEST_CASE("a column beside every line along the batch takes their values") {
  // No line along the context reaches further than its one point, so cells are
  // read across: at a measured context, between two, and before the first.
  const std::vector<std::int64_t> batches{1, 4, 2, 8};
  const std::vector<std::int64_t> contexts{2, 2, 10, 10};
  const std::vector<double> us{1, 4, 20, 80};
  const std::vector<std::int64_t> columns{0, 2, 6, 10, 12};
  const Surface surface({batches, contexts, us}, columns);
  const auto row = row_at(surface, 3, 5);
  CHECK(std::isnan(row[0]));
  CHECK(row[1] == 3);
  CHECK(row[2] == 16.5);
  CHECK(row[3] == 30);
  CHECK(std::isnan(row[4]));
}

TEST_CASE("a line that ends early leaves its columns to the next ones") {
  // Context 100 is reached by batches 1 and 9 alone, 0 and 50 by 5 too.
  const std::vector<std::int64_t> batches{1, 1, 5, 5, 9, 9};
  const std::vector<std::int64_t> contexts{0, 100, 0, 50, 0, 100};
  const std::vector<double> us{10, 10, 90, 90, 50, 50};
  const std::vector<std::int64_t> columns{0, 50, 100};
  const Surface surface({batches, contexts, us}, columns);
  const auto row = row_at(surface, 3, 3);
  CHECK(row[0] == 50);
  CHECK(row[1] == 50);
  CHECK(row[2] == 20);
}

// One label measured at some (batch, context) points.
struct Measured {
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> contexts;
  std::vector<double> us;
};

// A grid of labels over batches 1..max_num_seqs, one token a step.
struct GridSetup {
  std::vector<Measured> labels;
  std::vector<std::int64_t> columns{0};
  std::int64_t max_num_seqs = 1;
  std::vector<double> padded_batch{};
  std::vector<double> extra_us{};
  std::vector<double> weights{};
  double max_us_per_token = kInfinity;
  double tolerance = kInfinity;
  std::size_t max_rows = 8;
  std::size_t max_columns = 8;
  std::vector<double> tokens{};

  TuneInput input() {
    TuneInput in;
    tokens.assign(labels.size() * columns.size(), 1.0);
    for (const Measured& m : labels) {
      in.surfaces.push_back({m.batches, m.contexts, m.us});
    }
    in.tokens_per_step = tokens;
    in.max_num_seqs = max_num_seqs;
    in.columns = columns;
    in.padded_batch = padded_batch;
    in.extra_us = extra_us;
    in.weights = weights;
    in.max_us_per_token = max_us_per_token;
    in.tolerance = tolerance;
    in.max_rows = max_rows;
    in.max_columns = max_columns;
    return in;
  }
};

TEST_CASE("a batch is timed at its graph's requests plus what its mode adds") {
  GridSetup setup{.labels = {{{1, 4}, {0, 0}, {10, 40}}},
                  .max_num_seqs = 3,
                  .padded_batch = {1, 4, 4},
                  .extra_us = {0, 0, 7}};
  const TuneGrid grid = tune_grid(setup.input());
  CHECK(grid.best_us_per_token == std::vector<double>{10, 40, 47});
  // Cost of a cell: its share of the step, a request's.
  CHECK(grid.cost[1] == 20);
}

TEST_CASE("above the limit only the best label stays, and it is flagged") {
  GridSetup setup{
      .labels = {{{1, 2}, {0, 0}, {10, 30}}, {{1, 2}, {0, 0}, {12, 40}}},
      .max_num_seqs = 2,
      .max_us_per_token = 20,
      .tolerance = 0.1};
  const TuneGrid grid = tune_grid(setup.input());
  CHECK(grid.flags == std::vector<std::uint8_t>{0, kLimitNotMet});
  CHECK(grid.cost == std::vector<double>{10, kInfinity, 15, kInfinity});
  setup.tolerance = 0.3;
  // Batch 1 has both labels under the limit; batch 2 still keeps to the best
  // and what is close to it.
  const TuneGrid wider = tune_grid(setup.input());
  CHECK(wider.cost == std::vector<double>{10, 12, 15, kInfinity});
  CHECK(wider.worst_ratio[1] == 1.2);
}

TEST_CASE("cells without work cost nothing and are bound by the limit alone") {
  GridSetup setup{
      .labels = {{{1, 2}, {0, 0}, {10, 10}}, {{1, 2}, {0, 0}, {30, 30}}},
      .max_num_seqs = 2,
      .weights = {0, 4},
      .max_us_per_token = 40,
      .tolerance = 0.5};
  const TuneInput input = setup.input();
  const TuneGrid grid = tune_grid(input);
  CHECK(grid.cost == std::vector<double>{0, 0, 20, kInfinity});
  CHECK(grid.worst_ratio[1] == 1);
  const std::vector<std::int32_t> table{1, 1};
  const TuneReport report = tune_report(input, setup.tokens, table);
  CHECK(report.cost == 60);
  CHECK(report.best_cost == 20);
  CHECK(report.worst_ratio == 3);
  const std::vector<std::int32_t> idle{1, 0};
  CHECK(tune_report(input, setup.tokens, idle).worst_ratio == 1);
}

TEST_CASE("unmeasured batches take the nearest label, the smaller on a tie") {
  // Batch 2 is best at label 0, batch 6 at label 1; nothing between.
  GridSetup setup{.labels = {{{2}, {0}, {10}}, {{6}, {0}, {10}}},
                  .max_num_seqs = 8,
                  .max_rows = 0};
  const TuneGrid grid = tune_grid(setup.input());
  CHECK(grid.best == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(grid.flags[1] == kSomeKNotMeasured);
  CHECK(grid.flags[3] == kNoKMeasured);
  CHECK(std::isnan(grid.best_us_per_token[3]));
}

TEST_CASE("unmeasured contexts take the nearest column's labels") {
  // Label 0 is measured at context 10, label 1 at context 30.
  GridSetup setup{.labels = {{{1}, {10}, {10}}, {{1}, {30}, {10}}},
                  .columns = {0, 10, 19, 20, 21, 30, 90},
                  .max_rows = 0};
  const TuneGrid grid = tune_grid(setup.input());
  CHECK(grid.best == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1});
}

TEST_CASE("rows without a common admissible label are never merged") {
  // Label 0 is too slow at batch 2 and label 1 at batch 1.
  GridSetup setup{
      .labels = {{{1, 2}, {0, 0}, {10, 90}}, {{1, 2}, {0, 0}, {90, 10}}},
      .max_num_seqs = 2,
      .tolerance = 0.5,
      .max_rows = 1};
  CHECK(tune_grid(setup.input()).row_ends == std::vector<std::int64_t>{1, 2});
  setup.tolerance = kInfinity;
  const TuneGrid merged = tune_grid(setup.input());
  CHECK(merged.row_ends == std::vector<std::int64_t>{2});
  CHECK(merged.cost == std::vector<double>{55, 95});
}

TEST_CASE("a pair that cannot merge leaves the limit to one that can") {
  // Batch 1 allows label 0 alone, 2 and 3 label 1 alone.
  GridSetup setup{.labels = {{{1, 2, 3}, {0, 0, 0}, {10, 90, 90}},
                             {{1, 2, 3}, {0, 0, 0}, {90, 10, 10}}},
                  .max_num_seqs = 3,
                  .tolerance = 0.5,
                  .max_rows = 2};
  CHECK(tune_grid(setup.input()).row_ends == std::vector<std::int64_t>{1, 3});
}

TEST_CASE(
    "a report leaves out what is not measured and marks what may change") {
  // Label 0 is measured at both batches, label 1 at the first alone.
  GridSetup setup{.labels = {{{1, 2}, {0, 0}, {10, 20}}, {{1}, {0}, {15}}},
                  .max_num_seqs = 2};
  const TuneInput input = setup.input();
  // Twice the tokens of label 1 make it the best at batch 1.
  const std::vector<double> assumptions{1, 1, 1, 2};
  const std::vector<std::int32_t> table{0, 1};
  const TuneReport report = tune_report(input, assumptions, table);
  CHECK(report.us_per_token[0] == 10);
  CHECK(std::isnan(report.us_per_token[1]));
  CHECK(report.best_changes == std::vector<std::uint8_t>{1, 0});
  CHECK(report.cost == 10);
  CHECK(report.best_cost == 10);
  // Batch 2's table entry is not measured, so the cell counts for no label.
  CHECK(report.cells_measured == std::vector<std::int64_t>{1, 1});
  CHECK(report.label_cost == std::vector<double>{10, 15, 10, 7.5});
  CHECK(report.table_cost == std::vector<double>{10, 10, 10, 10});
}

}  // namespace
}  // namespace specgrid
