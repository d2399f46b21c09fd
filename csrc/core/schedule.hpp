// Schedule rows to a validated grid: batch ranges x context ranges -> K.
// Knows the rules and nothing of the texts: a fault is a code and a row.
#ifndef SPECGRID_CORE_SCHEDULE_HPP_
#define SPECGRID_CORE_SCHEDULE_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace specgrid {

// The upper bound that stands for "every longer context".
inline constexpr std::int64_t kContextInfinity = 2147483647;  // 2**31 - 1

// One rule a schedule can break. The numbers are shared with the Python table
// of texts (_errors.py); form faults (not a list, wrong arity, ...) are found
// there, before rows reach the core.
enum class Rule : std::int32_t {
  kNone = 0,
  kBatchPositive = 1,
  kBatchOrder = 2,
  kContextPositive = 3,
  kContextOrder = 4,
  kNegativeK = 5,
  kBatchOverlap = 6,
  kBatchStart = 7,
  kRectangular = 8,
  kContextStart = 9,
  kContextContiguous = 10,
  kDuplicate = 11,
  kUncovered = 12,
  kConflict = 13,
  kTooLarge = 14,
};

// What is wrong, with the row at fault (-1: no single row), a second row it
// collides with (-1: none), and, for uncovered or conflicting cells, the cell.
struct Fault {
  Rule rule = Rule::kNone;
  std::int64_t row = -1;
  std::int64_t other = -1;
  std::int64_t batch_lo = 0;
  std::int64_t batch_hi = 0;
  std::int64_t context_lo = 0;
  std::int64_t context_hi = 0;
};

struct Range {
  std::int64_t lo;
  std::int64_t hi;
  friend bool operator==(const Range&, const Range&) = default;
};

// A rectangular schedule. `k[r * contexts.size() + c]` is K for batch range r
// and context range c. Batch ranges are sorted and disjoint, start at 1 and
// may leave gaps; context ranges start at 1, are contiguous and end at
// kContextInfinity.
struct Grid {
  std::vector<Range> batches;
  std::vector<Range> contexts;
  std::vector<std::int64_t> k;
};

// How rows are to be read.
enum class Form : std::int32_t {
  kBatchOnly = 0,  // rules of vLLM 0.33.0: contexts are ignored
  kGrid = 1,       // rules of vLLM #48944: rectangular as given
  kRagged = 2,     // refined to a rectangle first
};

// Most grid cells a ragged schedule may be refined to, and most rows it may
// have: 2**28 cells are 2 GiB of K, and 2**21 rows keep the sums exact.
inline constexpr std::size_t kMaxRaggedCells = std::size_t{1} << 28;
inline constexpr std::size_t kMaxRaggedRows = std::size_t{1} << 21;

// Checks the rules that look at one row, in vLLM's order, row by row.
// `rows` holds five numbers a row: batch_lo, batch_hi, context_lo, context_hi,
// k. Returns a fault with Rule::kNone when every row is sound. O(rows).
[[nodiscard]] Fault check_rows(std::span<const std::int64_t> rows, Form form);

// Validates rows (as above) and arranges them as a grid. Rules are checked in
// vLLM's order, so the first fault is the one vLLM would name.
// O(rows log rows); linear when rows come sorted.
[[nodiscard]] std::variant<Grid, Fault> build_grid(
    std::span<const std::int64_t> rows, Form form);

}  // namespace specgrid

#endif  // SPECGRID_CORE_SCHEDULE_HPP_
