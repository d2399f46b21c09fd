// Marks sizes in one byte a token, and reads them back in order.
#include "core/capture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace specgrid {
namespace {

// One byte of origins per token count: marking is idempotent, and reading it
// back in order sorts and removes duplicates at once.
class TokenMap {
 public:
  explicit TokenMap(std::int64_t largest)
      : marks_((static_cast<std::size_t>(largest) / 8 + 1) * 8) {}

  void mark(std::int64_t size, Origin origin) {
    auto& cell = marks_[static_cast<std::size_t>(size)];
    cell = static_cast<std::uint8_t>(cell | origin);
  }

  void mark_stride(std::int64_t first, std::int64_t last, std::int64_t step,
                   Origin origin) {
    for (std::int64_t size = first; size <= last; size += step) {
      mark(size, origin);
    }
  }

  void read(CaptureResult& result, std::int64_t multiple_of) const {
    for (std::size_t word = 0; word < marks_.size(); word += 8) {
      std::uint64_t any;
      std::memcpy(&any, &marks_[word], sizeof(any));
      if (any == 0) continue;
      for (std::size_t size = word; size < word + 8; ++size) {
        const auto tokens = static_cast<std::int64_t>(size);
        if (marks_[size] == 0 || tokens % multiple_of != 0) continue;
        result.sizes.push_back(tokens);
        result.origins.push_back(marks_[size]);
      }
    }
    result.max_size = result.sizes.empty() ? 0 : result.sizes.back();
  }

 private:
  std::vector<std::uint8_t> marks_;
};

CaptureResult fail(CaptureFault fault, std::int64_t value) {
  CaptureResult result;
  result.fault = fault;
  result.value = value;
  return result;
}

// min(a * b, limit) without overflow; all positive.
std::int64_t capped_product(std::int64_t a, std::int64_t b,
                            std::int64_t limit) {
  return a > limit / b ? limit : std::min(a * b, limit);
}

// The ceiling without an explicit maximum: twice the widest decode batch, but
// never above the platform's.
std::int64_t inferred_ceiling(const CaptureConfig& config) {
  const std::int64_t widest = capped_product(
      config.max_num_seqs, config.query_len, config.platform_ceiling);
  return capped_product(widest, 2, config.platform_ceiling);
}

void mark_token_grid(TokenMap& map, std::int64_t max, bool interactivity) {
  if (interactivity) {
    map.mark_stride(1, std::min<std::int64_t>(max, 32), 1, kFromGrid);
  } else {
    for (const std::int64_t size : {1, 2, 4}) {
      if (size <= max) map.mark(size, kFromGrid);
    }
  }
  map.mark_stride(8, std::min<std::int64_t>(max, 255), 8, kFromGrid);
  map.mark_stride(256, max, 16, kFromGrid);
}

// Marks n * query_len for the request-count grid of one tier: 1, 2, 4, then
// every 8th below 256, every 16th above, and the widest batch itself.
void mark_decode_tier(TokenMap& map, const DecodeTier& tier,
                      std::int64_t max_reqs_cap, std::int64_t limit) {
  const std::int64_t max_reqs = std::min(tier.max_batch, max_reqs_cap);
  const std::int64_t fitting = limit / tier.query_len;  // requests
  const auto add = [&](std::int64_t first, std::int64_t last,
                       std::int64_t step) {
    map.mark_stride(first * tier.query_len,
                    std::min(last, fitting) * tier.query_len,
                    step * tier.query_len, kFromDecode);
  };
  for (const std::int64_t n :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}, max_reqs}) {
    if (0 < n && n <= max_reqs) add(n, n, 1);
  }
  add(8, std::min<std::int64_t>(max_reqs, 255), 8);
  add(256, max_reqs, 16);
}

void mark_decode_sizes(TokenMap& map, const CaptureConfig& config,
                       std::int64_t ceiling, std::int64_t limit) {
  if (config.query_len == 1) {
    if (config.max_num_seqs <= std::min(ceiling, limit)) {
      map.mark(config.max_num_seqs, kFromDecode);
    }
    return;
  }
  const DecodeTier widest{config.query_len, config.max_num_seqs};
  const auto tiers =
      config.tiers.empty() ? std::span(&widest, 1) : config.tiers;
  // Releases stop at the ceiling, read as a number of requests; a kept maximum
  // is filled to the widest batch that fits under it.
  const bool kept = config.rule == CaptureRule::kKeepMax && config.explicit_max;
  for (const DecodeTier& tier : tiers) {
    const std::int64_t max_reqs =
        kept ? limit / tier.query_len : config.platform_ceiling;
    mark_decode_tier(map, tier, max_reqs, limit);
  }
}

CaptureResult from_explicit_list(const CaptureConfig& config,
                                 std::span<const std::int64_t> sizes) {
  if (sizes.empty()) return fail(CaptureFault::kEmptyList, 0);
  std::int64_t largest = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1) return fail(CaptureFault::kSizeNotPositive, size);
    if (size <= config.max_num_batched_tokens) {
      largest = std::max(largest, size);
    }
  }
  if (largest > kMaxCaptureTokens) {
    return fail(CaptureFault::kTooLarge, largest);
  }
  TokenMap map(largest);
  for (const std::int64_t size : sizes) {
    if (size <= config.max_num_batched_tokens) {
      map.mark(size, kFromExplicitList);
    }
  }
  CaptureResult result;
  map.read(result, config.multiple_of);
  if (config.explicit_max && *config.explicit_max != result.max_size) {
    return fail(CaptureFault::kMaxMismatch, result.max_size);
  }
  return result;
}

}  // namespace

CaptureResult capture_sizes(const CaptureConfig& config) {
  const bool inferred = !config.explicit_max.has_value();
  const std::int64_t ceiling =
      inferred ? inferred_ceiling(config) : *config.explicit_max;
  const std::int64_t max = std::min(ceiling, config.max_num_batched_tokens);
  if (max < 1) return fail(CaptureFault::kMaxNotPositive, max);
  if (config.explicit_sizes) {
    return from_explicit_list(config, *config.explicit_sizes);
  }

  const bool decode_sizes = config.rule == CaptureRule::kKeepMax ||
                            (inferred && config.rule != CaptureRule::kVllm028);
  // Where decode sizes stop: at the ceiling, except under #50488 (and there
  // only for drafting servers: the K = 0 size came later, with #57355).
  std::int64_t limit = max;
  if (config.rule == CaptureRule::kVllm50488) {
    const std::int64_t widest =
        capped_product(std::min(config.max_num_seqs, config.platform_ceiling),
                       config.query_len, kMaxCaptureTokens + 1);
    limit = std::min(std::max(widest, max), config.max_num_batched_tokens);
  }
  if (std::max(max, limit) > kMaxCaptureTokens) {
    return fail(CaptureFault::kTooLarge, std::max(max, limit));
  }
  TokenMap map(std::max(max, limit));
  mark_token_grid(map, max, config.interactivity);
  if (config.max_num_batched_tokens <= max) {
    map.mark(config.max_num_batched_tokens, kFromMaxBatchedTokens);
  }
  if (decode_sizes &&
      !(config.rule == CaptureRule::kVllm50488 && config.query_len == 1)) {
    mark_decode_sizes(map, config, ceiling, limit);
  }
  if (config.rule == CaptureRule::kKeepMax && !inferred) {
    map.mark(max, kFromExplicitMax);
  }
  CaptureResult result;
  map.read(result, config.multiple_of);
  return result;
}

std::vector<std::int64_t> align_sizes(std::span<const std::int64_t> sizes,
                                      std::int64_t max_size,
                                      std::int64_t query_len) {
  std::vector<std::int64_t> aligned;
  for (const std::int64_t size : sizes) {
    const std::int64_t short_by = (query_len - size % query_len) % query_len;
    if (size <= max_size - short_by) aligned.push_back(size + short_by);
  }
  std::sort(aligned.begin(), aligned.end());
  aligned.erase(std::unique(aligned.begin(), aligned.end()), aligned.end());
  if (aligned.empty() && query_len <= max_size) aligned.push_back(query_len);
  return aligned;
}

}  // namespace specgrid
