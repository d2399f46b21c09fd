// Tables, tiers and their limits.
#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

#include "core/lookup.hpp"

namespace specgrid {
namespace {

Grid two_by_two() {
  return {{{1, 4}, {7, 9}}, {{1, 5}, {6, kContextInfinity}}, {3, 2, 1, 300}};
}

TEST_CASE("limits that make no table are refused") {
  const Grid grid = two_by_two();
  CHECK_THROWS_AS(static_cast<void>(make_lookup(grid, 0, 1)),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(make_lookup(grid, 1, 0)),
                  std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(make_lookup(
                      grid, std::numeric_limits<std::int64_t>::max(), 1)),
                  std::invalid_argument);
}

TEST_CASE("gaps and the tail carry the range before, per column") {
  const Lookup lookup = make_lookup(two_by_two(), 12, 1000);
  CHECK(lookup.at(0, 0) == 0);
  CHECK(lookup.at(6, 5) == 3);
  CHECK(lookup.at(6, 6) == 2);
  CHECK(lookup.at(12, 0) == 1);
  CHECK(lookup.at(12, kContextInfinity + 9) == 300);
}

TEST_CASE("K is clamped to what the server can draft") {
  const Lookup lookup = make_lookup(two_by_two(), 12, 2);
  CHECK(lookup.k == std::vector<std::int32_t>{2, 2, 1, 2});
}

TEST_CASE("ranges beyond max_num_seqs are left out") {
  const Lookup lookup = make_lookup(two_by_two(), 6, 1000);
  CHECK(lookup.starts.size() == 1);
  CHECK(tiers(lookup).size() == 2);
}

TEST_CASE("tiers of large k are found as well as those of small k") {
  const std::vector<Tier> found = tiers(make_lookup(two_by_two(), 12, 1000));
  CHECK(found.size() == 4);
  CHECK(found.back().k == 300);
  CHECK(found.back().query_len == 301);
  CHECK(found.back().min_batch == 7);
  CHECK(found.back().max_batch == 12);
}

TEST_CASE_TEMPLATE("dense rows repeat exactly, for every width and type", T,
                   std::uint8_t, std::uint16_t, std::uint32_t) {
  for (const std::int64_t columns : {1, 2, 7, 40}) {
    Grid grid{{{1, 3}, {4, 5000}}, {}, {}};
    for (std::int64_t c = 0; c < columns; ++c) {
      grid.contexts.push_back({c + 1, c + 1});
      grid.k.push_back(c % 7);
    }
    for (std::int64_t c = 0; c < columns; ++c) grid.k.push_back(c % 5);
    const Lookup lookup = make_lookup(grid, 5011, 6);
    std::vector<T> table(static_cast<std::size_t>(5012 * columns), T{99});
    fill_dense<T>(lookup, table);
    std::int64_t wrong = 0;
    for (std::int64_t b = 0; b <= 5011; ++b) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto cell = static_cast<std::size_t>(b * columns + c);
        wrong += table[cell] != static_cast<T>(lookup.at(b, c + 1)) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("canonical joins equal runs and equal columns") {
  const Grid grid{{{1, 2}, {3, 4}, {5, 6}},
                  {{1, 2}, {3, 4}, {5, kContextInfinity}},
                  {1, 1, 2, 1, 1, 2, 3, 3, 2}};
  const Lookup joined = canonical(make_lookup(grid, 9, 9));
  CHECK(joined.starts == std::vector<std::int64_t>{1, 5});
  CHECK(joined.context_his == std::vector<std::int64_t>{4, kContextInfinity});
  CHECK(joined.k == std::vector<std::int32_t>{1, 2, 3, 2});
}

TEST_CASE("gather stops at the first pair out of range") {
  const Lookup lookup = make_lookup(two_by_two(), 12, 9);
  std::vector<std::int32_t> out(3);
  const std::vector<std::int64_t> batches{1, 13, -1};
  CHECK(gather(lookup, batches, {}, out) == 1);
  const std::vector<std::int64_t> contexts{0, 0, -1};
  CHECK(gather(lookup, std::vector<std::int64_t>{1, 2, 3}, contexts, out) == 2);
  CHECK(gather(lookup, std::vector<std::int64_t>{1, 2, 3}, {}, out) == -1);
  CHECK(out == std::vector<std::int32_t>{3, 3, 3});
}

}  // namespace
}  // namespace specgrid
