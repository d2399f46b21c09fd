// Any sound grid over any limits: the dense table, single answers, many answers
// and tiers all say the same.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/lookup.hpp"
#include "fuzz/input.hpp"

namespace specgrid::fuzz {
namespace {

Grid grid_of(Input& input) {
  Grid grid;
  std::int64_t next = 1;
  const std::int64_t runs = input.in(1, 8);
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t lo = next + (i > 0 && input.one_in(4) ? 2 : 0);
    grid.batches.push_back({lo, lo + input.in(0, 20)});
    next = grid.batches.back().hi + 1;
  }
  next = 1;
  const std::int64_t columns = input.in(1, 5);
  for (std::int64_t c = 0; c < columns; ++c) {
    grid.contexts.push_back({next, next + input.in(0, 99)});
    next = grid.contexts.back().hi + 1;
  }
  grid.contexts.back().hi = kContextInfinity;
  for (std::int64_t i = 0; i < runs * columns; ++i) {
    grid.k.push_back(std::max<std::int64_t>(0, input.number(0, 12)));
  }
  return grid;
}

// K from the grid itself: the last range that starts at or below the batch.
std::int64_t k_of(const Grid& grid, std::int64_t most, std::int64_t batch,
                  std::int64_t context) {
  if (batch == 0) return 0;
  std::size_t run = 0;
  while (run + 1 < grid.batches.size() && grid.batches[run + 1].lo <= batch) {
    ++run;
  }
  std::size_t column = 0;
  while (column + 1 < grid.contexts.size() &&
         grid.contexts[column].hi < context) {
    ++column;
  }
  return std::min(grid.k[run * grid.contexts.size() + column], most);
}

template <typename T>
std::vector<T> dense(const Lookup& lookup) {
  std::vector<T> table((static_cast<std::size_t>(lookup.max_num_seqs) + 1) *
                       lookup.num_columns());
  fill_dense(lookup, std::span(table));
  return table;
}

void check_tables(const Grid& grid, const Lookup& lookup) {
  const auto wide = dense<std::int32_t>(lookup);
  std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> scanned;
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> contexts;
  for (std::int64_t batch = 0; batch <= lookup.max_num_seqs; ++batch) {
    for (std::size_t c = 0; c < lookup.num_columns(); ++c) {
      const std::int64_t hi = lookup.context_his[c];
      const std::int32_t k =
          wide[static_cast<std::size_t>(batch) * lookup.num_columns() + c];
      expect(k == k_of(grid, lookup.num_speculative_tokens, batch, hi),
             "dense says what the grid says");
      expect(k == lookup.at(batch, hi), "at says what dense says");
      batches.push_back(batch);
      contexts.push_back(hi);
      if (batch == 0) continue;
      const auto [at, fresh] = scanned.try_emplace(k, batch, batch);
      at->second.second = batch;
    }
    expect(lookup.at(batch, 0) == lookup.at(batch, 1), "0 is in the first");
    expect(lookup.at(batch, kContextInfinity) ==
               lookup.at(batch, std::numeric_limits<std::int64_t>::max()),
           "no context is too long");
  }
  std::vector<std::int32_t> many(batches.size());
  expect(gather(lookup, batches, contexts, many) == -1, "all in range");
  expect(many == wide, "many answers are the single ones");
  const auto found = tiers(lookup);
  expect(found.size() == scanned.size(), "a tier for each K of the table");
  std::size_t i = 0;
  for (const auto& [k, range] : scanned) {
    expect(found[i].k == k && found[i].query_len == k + 1 &&
               found[i].min_batch == range.first &&
               found[i].max_batch == range.second,
           "tiers are what a scan finds");
    ++i;
  }
  if (lookup.num_speculative_tokens < 256) {
    const auto narrow = dense<std::uint8_t>(lookup);
    expect(std::equal(narrow.begin(), narrow.end(), wide.begin(), wide.end()),
           "narrow tables hold the same");
  }
}

void check_canonical(const Lookup& lookup) {
  const Lookup small = canonical(lookup);
  const Lookup again = canonical(small);
  expect(again.starts == small.starts && again.k == small.k &&
             again.context_his == small.context_his,
         "canonical once is canonical");
  for (const std::int64_t start : lookup.starts) {
    for (const std::int64_t batch : {start - 1, start}) {
      for (const std::int64_t hi : lookup.context_his) {
        expect(small.at(batch, hi) == lookup.at(batch, hi), "the same table");
      }
    }
  }
}

void run(Input& input) {
  const Grid grid = grid_of(input);
  std::int64_t max_num_seqs = input.number(1, 200);
  const auto most = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(input.number(1, 15), 1, 2147483646));
  if (max_num_seqs < 1 ||
      max_num_seqs == std::numeric_limits<std::int64_t>::max()) {
    max_num_seqs = 1;
  }
  const Lookup lookup = make_lookup(grid, max_num_seqs, most);
  expect(lookup.k.size() == lookup.starts.size() * lookup.num_columns(),
         "size");
  check_canonical(lookup);
  if (max_num_seqs <= 1000) check_tables(grid, lookup);

  const std::vector<std::int64_t> batches{0, input.number(0, 250), 1};
  const std::vector<std::int64_t> contexts{0, input.number(-2, 600), 0};
  std::vector<std::int32_t> out(3, -7);
  const bool in_range =
      batches[1] >= 0 && batches[1] <= max_num_seqs && contexts[1] >= 0;
  expect(gather(lookup, batches, contexts, out) == (in_range ? -1 : 1),
         "the first pair out of range is named");
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  specgrid::fuzz::run(input);
  return 0;
}
