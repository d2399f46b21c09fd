// A grid laid over one server: runs, tiers, canonical form. See lookup.hpp.
#include "core/lookup.hpp"

#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace specgrid {
namespace {

// Widens the tier of `k` to hold batches lo..hi.
void widen(Tier& tier, std::int64_t lo, std::int64_t hi) {
  tier.min_batch = std::min(tier.min_batch, lo);
  tier.max_batch = std::max(tier.max_batch, hi);
}

}  // namespace

Lookup make_lookup(const Grid& grid, std::int64_t max_num_seqs,
                   std::int32_t num_speculative_tokens) {
  if (max_num_seqs < 1 ||
      max_num_seqs == std::numeric_limits<std::int64_t>::max() ||
      num_speculative_tokens < 1) {
    throw std::invalid_argument("lookup limits must be positive");
  }
  Lookup lookup;
  lookup.max_num_seqs = max_num_seqs;
  lookup.num_speculative_tokens = num_speculative_tokens;
  for (const Range& range : grid.contexts) {
    lookup.context_his.push_back(range.hi);
  }
  const std::size_t width = grid.contexts.size();
  for (std::size_t r = 0; r < grid.batches.size(); ++r) {
    if (grid.batches[r].lo > max_num_seqs) break;  // sorted: none follows
    lookup.starts.push_back(grid.batches[r].lo);
    for (std::size_t c = 0; c < width; ++c) {
      const std::int64_t k = grid.k[r * width + c];
      lookup.k.push_back(static_cast<std::int32_t>(
          std::min<std::int64_t>(k, num_speculative_tokens)));
    }
  }
  return lookup;
}

std::vector<Tier> tiers(const Lookup& lookup) {
  // Ks are few and usually small: a flat array, and a map for the rare rest.
  constexpr std::int32_t kFlat = 256;
  const auto empty = [](std::int32_t k) {
    return Tier{k + 1, k, std::numeric_limits<std::int64_t>::max(), 0};
  };
  std::vector<Tier> flat;
  const std::int32_t flat_size =
      std::min(kFlat, lookup.num_speculative_tokens + 1);
  flat.reserve(static_cast<std::size_t>(flat_size));
  for (std::int32_t k = 0; k < flat_size; ++k) flat.push_back(empty(k));
  std::map<std::int32_t, Tier> rest;
  for (std::size_t run = 0; run < lookup.starts.size(); ++run) {
    const std::int64_t lo = lookup.starts[run];
    const std::int64_t hi = lookup.run_end(run) - 1;
    std::int32_t last = -1;  // neighbouring columns often agree
    for (const std::int32_t k : lookup.row(run)) {
      if (k == last) continue;
      last = k;
      if (k < flat_size) {
        widen(flat[static_cast<std::size_t>(k)], lo, hi);
      } else {
        widen(rest.try_emplace(k, empty(k)).first->second, lo, hi);
      }
    }
  }
  std::vector<Tier> result;
  for (const Tier& tier : flat) {
    if (tier.max_batch > 0) result.push_back(tier);
  }
  for (const auto& [k, tier] : rest) result.push_back(tier);
  return result;
}

Lookup canonical(const Lookup& lookup) {
  const std::size_t width = lookup.num_columns();
  const std::size_t runs = lookup.starts.size();
  std::vector<bool> differs(width, false);  // from the column before it
  for (std::size_t run = 0; run < runs; ++run) {
    const auto row = lookup.row(run);
    for (std::size_t c = 1; c < width; ++c) {
      if (row[c] != row[c - 1]) differs[c] = true;
    }
  }
  Lookup result;
  result.max_num_seqs = lookup.max_num_seqs;
  result.num_speculative_tokens = lookup.num_speculative_tokens;
  for (std::size_t c = 0; c < width; ++c) {
    if (c + 1 == width || differs[c + 1]) {
      result.context_his.push_back(lookup.context_his[c]);
    }
  }
  for (std::size_t run = 0; run < runs; ++run) {
    const auto row = lookup.row(run);
    if (run > 0 && std::ranges::equal(row, lookup.row(run - 1))) continue;
    result.starts.push_back(lookup.starts[run]);
    for (std::size_t c = 0; c < width; ++c) {
      if (c == 0 || differs[c]) result.k.push_back(row[c]);
    }
  }
  return result;
}

std::int64_t gather(const Lookup& lookup, std::span<const std::int64_t> batches,
                    std::span<const std::int64_t> contexts,
                    std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::int64_t batch = batches[i];
    const std::int64_t context = contexts.empty() ? 0 : contexts[i];
    if (batch < 0 || batch > lookup.max_num_seqs || context < 0) {
      return static_cast<std::int64_t>(i);
    }
    out[i] = lookup.at(batch, context);
  }
  return -1;
}

}  // namespace specgrid
