// Capture sizes at the ends of their ranges.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/capture.hpp"

namespace specgrid {
namespace {

using Sizes = std::vector<std::int64_t>;

CaptureConfig config_of(std::int64_t max_num_seqs, std::int64_t query_len,
                        CaptureRule rule = CaptureRule::kVllm033) {
  CaptureConfig config;
  config.max_num_seqs = max_num_seqs;
  config.query_len = query_len;
  config.max_num_batched_tokens = 8192;
  config.rule = rule;
  return config;
}

TEST_CASE("the largest counts do not overflow") {
  for (const auto rule : {CaptureRule::kVllm028, CaptureRule::kVllm50488,
                          CaptureRule::kVllm033, CaptureRule::kKeepMax}) {
    CaptureConfig config = config_of(2147483647, 2147483646, rule);
    config.max_num_batched_tokens = 2147483647;
    config.platform_ceiling = 2147483647;
    const CaptureResult result = capture_sizes(config);
    CHECK(result.fault == CaptureFault::kTooLarge);
    CHECK(result.sizes.empty());
  }
}

TEST_CASE("the token grid: 1, 2, 4, every 8th below 256, then every 16th") {
  Sizes grid{1, 2, 4};
  for (std::int64_t size = 8; size < 256; size += 8) grid.push_back(size);
  for (std::int64_t size = 256; size <= 512; size += 16) grid.push_back(size);
  CHECK(capture_sizes(config_of(256, 1)).sizes == grid);
  CHECK(capture_sizes(config_of(4096, 1)).sizes == grid);
}

TEST_CASE("the maximum is twice the widest decode batch, under the ceiling") {
  CHECK(capture_sizes(config_of(16, 1)).max_size == 32);
  CHECK(capture_sizes(config_of(16, 4)).max_size == 128);
  CaptureConfig config = config_of(16, 4);
  config.platform_ceiling = 100;
  CHECK(capture_sizes(config).max_size == 96);
}

TEST_CASE("a size is rounded up to the maximum, and no further") {
  CHECK(align_sizes(Sizes{5}, 6, 3) == Sizes{6});
  CHECK(align_sizes(Sizes{5, 7}, 8, 3) == Sizes{6});
}

TEST_CASE("a maximum below the query length marks nothing at zero") {
  CaptureConfig config = config_of(8, 17, CaptureRule::kKeepMax);
  config.explicit_max = 3;
  CHECK(capture_sizes(config).sizes == Sizes{1, 2, 3});
}

TEST_CASE("the ceiling 65,536 with 17 tiers holds every tier's widest batch") {
  std::vector<DecodeTier> tiers;
  for (std::int64_t q = 1; q <= 17; ++q) tiers.push_back({q, 65536 / q});
  CaptureConfig config = config_of(65536, 17);
  config.tiers = tiers;
  config.platform_ceiling = 65536;
  config.max_num_batched_tokens = 65536;
  const CaptureResult result = capture_sizes(config);
  CHECK(result.max_size == 65536);
  for (const DecodeTier& tier : tiers) {
    const std::int64_t widest = tier.query_len * tier.max_batch;
    CHECK(std::ranges::binary_search(result.sizes, widest));
  }
}

TEST_CASE("rounding near the end of int64 stays below the maximum") {
  const std::int64_t huge = std::int64_t{1} << 62;
  CHECK(align_sizes(Sizes{huge, 5}, huge, 3) == Sizes{6});
  CHECK(align_sizes(Sizes{}, 9, 3) == Sizes{3});
  CHECK(align_sizes(Sizes{5}, 2, 3).empty());
}

TEST_CASE("an explicit list is taken up to the largest size handled") {
  CaptureConfig config = config_of(8, 1);
  config.max_num_batched_tokens = kMaxCaptureTokens + 1;
  const Sizes fits{kMaxCaptureTokens, 4};
  config.explicit_sizes = fits;
  CHECK(capture_sizes(config).sizes == Sizes{4, kMaxCaptureTokens});
  const Sizes beyond{4, kMaxCaptureTokens + 1};
  config.explicit_sizes = beyond;
  const CaptureResult refused = capture_sizes(config);
  CHECK(refused.fault == CaptureFault::kTooLarge);
  CHECK(refused.value == kMaxCaptureTokens + 1);
  CHECK(refused.sizes.empty());
  // Sizes that no step can have are left out before they are too large.
  config.max_num_batched_tokens = 8192;
  CHECK(capture_sizes(config).sizes == Sizes{4});
}

}  // namespace
}  // namespace specgrid
