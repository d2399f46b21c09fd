// Capture sizes: the token counts vLLM's configuration would capture, under
// the rules of several releases. Sizes are tokens, never requests.
#ifndef SPECGRID_CORE_CAPTURE_HPP_
#define SPECGRID_CORE_CAPTURE_HPP_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace specgrid {

// Numbers shared with the Python table of rule names.
enum class CaptureRule : std::int32_t {
  kVllm028 = 0,    // token grid alone
  kVllm50488 = 1,  // decode sizes raise the maximum (nightly builds only)
  kVllm033 = 2,    // decode sizes below the ceiling, inferred maximum only
  kKeepMax = 3,    // 0.33, but an explicit maximum is kept and filled too
};

// Why a size is in the list; a size may have several origins.
enum Origin : std::uint8_t {
  kFromGrid = 1,
  kFromDecode = 2,
  kFromMaxBatchedTokens = 4,
  kFromExplicitList = 8,
  kFromExplicitMax = 16,
};

enum class CaptureFault : std::int32_t {
  kNone = 0,
  kMaxNotPositive = 1,   // the resolved maximum is below 1
  kEmptyList = 2,        // an explicit list without elements
  kSizeNotPositive = 3,  // an explicit size below 1 (`value`)
  kMaxMismatch = 4,      // explicit maximum and list disagree (`value`: last)
  kTooLarge = 5,         // more tokens than kMaxCaptureTokens (`value`)
};

// Largest size handled. Far above any GPU's, and small enough that one byte a
// token is always affordable.
inline constexpr std::int64_t kMaxCaptureTokens = std::int64_t{1} << 26;

// A query length and the widest batch that runs at it.
struct DecodeTier {
  std::int64_t query_len;
  std::int64_t max_batch;
};

struct CaptureConfig {
  std::int64_t max_num_seqs = 1;
  std::int64_t query_len = 1;  // 1 + num_speculative_tokens
  // Without a schedule: one tier, (query_len, max_num_seqs).
  std::span<const DecodeTier> tiers;
  std::int64_t max_num_batched_tokens = 1;
  std::int64_t platform_ceiling = 512;
  std::optional<std::span<const std::int64_t>> explicit_sizes;
  std::optional<std::int64_t> explicit_max;
  bool interactivity = false;  // performance_mode "interactivity"
  CaptureRule rule = CaptureRule::kVllm033;
  // Keep only multiples of this; 1 keeps everything.
  std::int64_t multiple_of = 1;
};

struct CaptureResult {
  std::vector<std::int64_t> sizes;    // ascending, distinct
  std::vector<std::uint8_t> origins;  // Origin bits, one per size
  std::int64_t max_size = 0;          // last size, 0 when there is none
  CaptureFault fault = CaptureFault::kNone;
  std::int64_t value = 0;  // the number the fault is about
};

// Sizes under a rule. O(largest size / 8 + sizes added). All counts must be at
// least 1 except those that faults are about.
[[nodiscard]] CaptureResult capture_sizes(const CaptureConfig& config);

// The V1 runner's rounding: each size up to a multiple of `query_len`, those
// above `max_size` dropped; [query_len] when nothing is left but that fits;
// empty when not even that does. `sizes` need not be sorted.
[[nodiscard]] std::vector<std::int64_t> align_sizes(
    std::span<const std::int64_t> sizes, std::int64_t max_size,
    std::int64_t query_len);

}  // namespace specgrid

#endif  // SPECGRID_CORE_CAPTURE_HPP_
