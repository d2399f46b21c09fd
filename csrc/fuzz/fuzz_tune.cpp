// Small tables to compress: runs against every labelling, bands tile the grid
// and cost what they say.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/tune_compress.hpp"
#include "fuzz/input.hpp"

namespace specgrid::fuzz {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whole numbers, so that sums are exact in any order.
std::vector<double> costs_of(Input& input, std::size_t count) {
  std::vector<double> costs;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = input.in(0, 40);
    costs.push_back(value == 40 ? kInfinity : static_cast<double>(value));
  }
  return costs;
}

std::size_t pick(Input& input, std::int64_t low, std::int64_t high) {
  return static_cast<std::size_t>(input.in(low, high));
}

// least[e - 1]: the least total of any labelling with at most e runs.
std::vector<double> every_labelling(const std::vector<double>& cost,
                                    std::size_t labels, std::size_t entries,
                                    bool non_increasing) {
  const std::size_t rows = cost.size() / labels;
  std::vector<double> least(entries, kInfinity);
  std::vector<std::size_t> label(rows, 0);
  for (;;) {
    std::size_t runs = 1;
    bool allowed = true;
    double total = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      total += cost[row * labels + label[row]];
      if (row == 0) continue;
      runs += label[row] != label[row - 1] ? std::size_t{1} : std::size_t{0};
      allowed = allowed && !(non_increasing && label[row] > label[row - 1]);
    }
    for (std::size_t e = runs; allowed && e <= entries; ++e) {
      least[e - 1] = std::min(least[e - 1], total);
    }
    std::size_t at = 0;
    while (at < rows && ++label[at] == labels) label[at++] = 0;
    if (at == rows) return least;
  }
}

void check_line(Input& input) {
  const std::size_t labels = pick(input, 1, 4);
  const std::size_t rows = pick(input, 1, 5);
  const std::size_t entries = pick(input, 1, 6);
  const bool non_increasing = input.one_in(2);
  const auto cost = costs_of(input, rows * labels);
  const auto least = every_labelling(cost, labels, entries, non_increasing);
  const auto choices = compress_line(cost, labels, entries, non_increasing);
  expect(choices.size() == entries, "a choice for every number of entries");
  for (std::size_t e = 1; e <= entries; ++e) {
    const LineChoice& choice = choices[e - 1];
    expect(choice.total == least[e - 1], "the least total");
    if (choice.total == kInfinity) continue;
    expect(choice.runs.size() <= e, "within the entries");
    double total = 0;
    std::size_t next = 0;
    for (const Run& run : choice.runs) {
      expect(run.begin == next && run.end > run.begin,
             "runs follow each other");
      next = run.end;
      for (std::size_t row = run.begin; row < run.end; ++row) {
        total += cost[row * labels + static_cast<std::size_t>(run.label)];
      }
    }
    expect(next == rows && total == choice.total, "and cost what they say");
  }
}

void check_bands(Input& input) {
  const std::size_t labels = pick(input, 1, 3);
  const std::size_t rows = pick(input, 1, 5);
  const std::size_t columns = pick(input, 1, 4);
  const std::size_t entries = pick(input, 1, 7);
  const bool non_increasing = input.one_in(2);
  const auto cost = costs_of(input, rows * labels * columns);
  const auto cell = [&](std::size_t row, std::size_t label,
                        std::size_t column) {
    return cost[(row * labels + label) * columns + column];
  };
  const auto choices =
      compress_bands(cost, rows, labels, columns, entries, non_increasing, 1);
  const auto threaded =
      compress_bands(cost, rows, labels, columns, entries, non_increasing, 3);
  expect(choices.size() == entries, "a choice for every number of entries");
  // A single band of columns is a line along the rows.
  std::vector<double> line;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t label = 0; label < labels; ++label) {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) sum += cell(row, label, c);
      line.push_back(sum);
    }
  }
  const auto one_band = compress_line(line, labels, entries, non_increasing);
  for (std::size_t e = 0; e < entries; ++e) {
    const BandChoice& choice = choices[e];
    expect(choice.total == threaded[e].total, "whatever the threads");
    expect(choice.total <= one_band[e].total, "no worse than one band");
    expect(e == 0 || choice.total <= choices[e - 1].total,
           "no worse with more");
    if (choice.total == kInfinity) continue;
    expect(choice.rectangles.size() <= e + 1, "within the entries");
    std::vector<int> covered(rows * columns, 0);
    double total = 0;
    for (const Rectangle& r : choice.rectangles) {
      for (std::size_t row = r.row_begin; row < r.row_end; ++row) {
        for (std::size_t c = r.column_begin; c < r.column_end; ++c) {
          ++covered[row * columns + c];
          total += cell(row, static_cast<std::size_t>(r.label), c);
        }
      }
    }
    expect(std::all_of(covered.begin(), covered.end(),
                       [](int times) { return times == 1; }),
           "rectangles tile the grid");
    expect(total == choice.total, "and cost what they say");
  }
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  if (input.one_in(2)) {
    specgrid::fuzz::check_line(input);
  } else {
    specgrid::fuzz::check_bands(input);
  }
  return 0;
}
