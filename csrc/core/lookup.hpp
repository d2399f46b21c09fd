// Which K for this step: a schedule laid over one server's limits, kept
// factorised (batch -> run, context -> column, small matrix of K).
#ifndef SPECGRID_CORE_LOOKUP_HPP_
#define SPECGRID_CORE_LOOKUP_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/schedule.hpp"

namespace specgrid {

// Runs of batches that share one row of K. Run r holds batches
// starts[r] .. starts[r + 1] - 1, the last one up to max_num_seqs. K is
// clamped to num_speculative_tokens. Gaps and the tail of the schedule carry
// the range before them, so runs cover 1..max_num_seqs without holes.
struct Lookup {
  std::int64_t max_num_seqs = 0;
  std::int32_t num_speculative_tokens = 0;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> context_his;  // inclusive upper bounds
  std::vector<std::int32_t> k;            // runs x columns, row-major

  [[nodiscard]] std::size_t num_columns() const { return context_his.size(); }

  [[nodiscard]] std::span<const std::int32_t> row(std::size_t run) const {
    return std::span(k).subspan(run * num_columns(), num_columns());
  }

  // First batch past run r.
  [[nodiscard]] std::int64_t run_end(std::size_t run) const {
    return run + 1 < starts.size() ? starts[run + 1] : max_num_seqs + 1;
  }

  // Run of a batch in 1..max_num_seqs. O(log runs).
  [[nodiscard]] std::size_t run_of(std::int64_t batch) const {
    const auto next = std::upper_bound(starts.begin(), starts.end(), batch);
    return static_cast<std::size_t>(next - starts.begin()) - 1;
  }

  // Column of a context >= 0; the last column has no upper end. O(log columns).
  [[nodiscard]] std::size_t column_of(std::int64_t context) const {
    const auto at =
        std::lower_bound(context_his.begin(), context_his.end() - 1, context);
    return static_cast<std::size_t>(at - context_his.begin());
  }

  // K for a batch in 0..max_num_seqs (0 for batch 0) and a context >= 0.
  [[nodiscard]] std::int32_t at(std::int64_t batch,
                                std::int64_t context) const {
    if (batch == 0) return 0;
    return row(run_of(batch))[column_of(context)];
  }
};

// All batches of one query length: the narrowest and widest batch at which
// any context column schedules k drafts.
struct Tier {
  std::int32_t query_len;
  std::int32_t k;
  std::int64_t min_batch;
  std::int64_t max_batch;
};

// Lays a grid over 1..max_num_seqs. Both limits must be at least 1; throws
// std::invalid_argument otherwise. O(runs x columns).
[[nodiscard]] Lookup make_lookup(const Grid& grid, std::int64_t max_num_seqs,
                                 std::int32_t num_speculative_tokens);

// Tiers sorted by query length. Reads the matrix only, never a dense table.
[[nodiscard]] std::vector<Tier> tiers(const Lookup& lookup);

// The same table with equal neighbouring runs and equal neighbouring columns
// joined: equal tables have equal canonical forms.
[[nodiscard]] Lookup canonical(const Lookup& lookup);

// K for many (batch, context) pairs. An empty `contexts` means context 0
// throughout. Returns the index of the first pair out of range (batch outside
// 0..max_num_seqs, context below 0), or -1 when all of `out` was written.
[[nodiscard]] std::int64_t gather(const Lookup& lookup,
                                  std::span<const std::int64_t> batches,
                                  std::span<const std::int64_t> contexts,
                                  std::span<std::int32_t> out);

// Writes the dense table, (max_num_seqs + 1) x columns, row 0 zero. `out` must
// have exactly that size, and T must hold num_speculative_tokens.
template <typename T>
void fill_dense(const Lookup& lookup, std::span<T> out) {
  const std::size_t width = lookup.num_columns();
  // Long runs are written by copying blocks that stay in the fastest cache.
  constexpr std::size_t kBlockBytes = 16384;
  std::fill_n(out.data(), width, T{0});
  T* next = out.data() + width;
  for (std::size_t run = 0; run < lookup.starts.size(); ++run) {
    const auto count =
        static_cast<std::size_t>(lookup.run_end(run) - lookup.starts[run]);
    const auto row = lookup.row(run);
    if (width == 1) {
      std::fill_n(next, count, static_cast<T>(row[0]));
      next += count;
      continue;
    }
    const std::size_t total = count * width;
    T* const first = next;
    for (const std::int32_t value : row) *next++ = static_cast<T>(value);
    std::size_t written = width;
    const std::size_t block =
        std::max(width, kBlockBytes / sizeof(T) / width * width);
    while (written < total) {
      const std::size_t size = std::min({written, block, total - written});
      std::memcpy(first + written, first, size * sizeof(T));
      written += size;
    }
    next = first + total;
  }
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_LOOKUP_HPP_
