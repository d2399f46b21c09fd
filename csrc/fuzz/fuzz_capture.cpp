// Any configuration under any capture rule, against the rules written as sets.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/capture.hpp"
#include "fuzz/input.hpp"

namespace specgrid::fuzz {
namespace {

using Marks = std::map<std::int64_t, std::uint8_t>;

struct Owned {  // a configuration and the lists it points to
  CaptureConfig config;
  std::vector<DecodeTier> tiers;
  std::vector<std::int64_t> sizes;
};

// The largest count a caller may hand in.
constexpr std::int64_t kMaxCount = 2147483647;

std::int64_t count_of(Input& input, std::int64_t usual) {
  return std::clamp<std::int64_t>(input.number(1, usual), 1, kMaxCount);
}

void read(Input& input, Owned& owned) {
  CaptureConfig& config = owned.config;
  config.max_num_seqs = count_of(input, 600);
  config.query_len = count_of(input, 9);
  config.max_num_batched_tokens = count_of(input, 3000);
  config.platform_ceiling = input.of<std::int64_t>({512, 1024, 7, 4096});
  config.interactivity = input.one_in(4);
  config.rule = CaptureRule{static_cast<std::int32_t>(input.in(0, 3))};
  config.multiple_of = input.one_in(4) ? input.in(1, 9) : 1;
  const std::int64_t num_tiers = input.one_in(2) ? input.in(0, 4) : 0;
  for (std::int64_t i = 0; i < num_tiers; ++i) {
    owned.tiers.push_back({count_of(input, 9), count_of(input, 600)});
  }
  config.tiers = owned.tiers;
  if (input.one_in(3)) {
    const std::int64_t number = input.in(0, 6);
    for (std::int64_t i = 0; i < number; ++i) {
      owned.sizes.push_back(input.number(0, 900));
    }
    config.explicit_sizes = owned.sizes;
  }
  if (input.one_in(3)) config.explicit_max = input.number(0, 900);
}

// Sizes far apart would need a map too large to fuzz with; the answer to those
// is a fault, or comes from limits that are small.
bool affordable(const CaptureConfig& config) {
  const auto is_huge = [](std::int64_t size) {
    return size > 20000 && size <= kMaxCaptureTokens;
  };
  const auto tokens = config.max_num_batched_tokens;
  if (is_huge(tokens)) return false;
  if (config.explicit_max && is_huge(*config.explicit_max)) return false;
  if (!config.explicit_sizes) return true;
  return std::none_of(config.explicit_sizes->begin(),
                      config.explicit_sizes->end(), is_huge);
}

std::vector<std::int64_t> grid(std::int64_t largest, bool interactivity) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n <= std::min<std::int64_t>(largest, 20000); ++n) {
    const bool small = interactivity ? n <= 32 : n == 1 || n == 2 || n == 4;
    if (small || (n < 256 && n % 8 == 0) || (n >= 256 && n % 16 == 0)) {
      sizes.push_back(n);
    }
  }
  return sizes;
}

CaptureResult expected(const CaptureConfig& c) {
  const auto fault = [](CaptureFault code, std::int64_t value) {
    CaptureResult result;
    result.fault = code;
    result.value = value;
    return result;
  };
  const std::int64_t asked =
      c.explicit_max ? *c.explicit_max
                     : std::min(2 * std::min(c.max_num_seqs * c.query_len,
                                             c.platform_ceiling),
                                c.platform_ceiling);
  const std::int64_t largest = std::min(asked, c.max_num_batched_tokens);
  if (largest < 1) return fault(CaptureFault::kMaxNotPositive, largest);

  Marks marks;
  const auto mark = [&](std::int64_t size, int origin) {
    marks[size] = static_cast<std::uint8_t>(marks[size] | origin);
  };
  const auto finish = [&] {
    CaptureResult result;
    for (const auto& [size, origins] : marks) {
      if (size % c.multiple_of != 0) continue;
      result.sizes.push_back(size);
      result.origins.push_back(origins);
      result.max_size = size;
    }
    return result;
  };
  if (c.explicit_sizes) {
    if (c.explicit_sizes->empty()) return fault(CaptureFault::kEmptyList, 0);
    for (const std::int64_t size : *c.explicit_sizes) {
      if (size < 1) return fault(CaptureFault::kSizeNotPositive, size);
      if (size <= c.max_num_batched_tokens) mark(size, kFromExplicitList);
    }
    if (!marks.empty() && marks.rbegin()->first > kMaxCaptureTokens) {
      return fault(CaptureFault::kTooLarge, marks.rbegin()->first);
    }
    CaptureResult result = finish();
    if (c.explicit_max && *c.explicit_max != result.max_size) {
      return fault(CaptureFault::kMaxMismatch, result.max_size);
    }
    return result;
  }
  std::int64_t limit = largest;
  if (c.rule == CaptureRule::kVllm50488) {
    const std::int64_t widest =
        std::min(std::min(c.max_num_seqs, c.platform_ceiling) * c.query_len,
                 kMaxCaptureTokens + 1);
    limit = std::min(std::max(widest, largest), c.max_num_batched_tokens);
  }
  if (std::max(largest, limit) > kMaxCaptureTokens) {
    return fault(CaptureFault::kTooLarge, std::max(largest, limit));
  }
  for (const std::int64_t n : grid(largest, c.interactivity))
    mark(n, kFromGrid);
  if (c.max_num_batched_tokens <= largest) {
    mark(c.max_num_batched_tokens, kFromMaxBatchedTokens);
  }
  const bool kept = c.rule == CaptureRule::kKeepMax && c.explicit_max;
  const bool decode = c.rule == CaptureRule::kKeepMax ||
                      (!c.explicit_max && c.rule != CaptureRule::kVllm028);
  if (decode && c.query_len == 1) {
    if (c.rule != CaptureRule::kVllm50488 &&
        c.max_num_seqs <= std::min(asked, limit)) {
      mark(c.max_num_seqs, kFromDecode);
    }
  } else if (decode) {
    std::vector<DecodeTier> tiers(c.tiers.begin(), c.tiers.end());
    if (tiers.empty()) tiers.push_back({c.query_len, c.max_num_seqs});
    for (const DecodeTier& tier : tiers) {
      const std::int64_t most = std::min(
          tier.max_batch, kept ? limit / tier.query_len : c.platform_ceiling);
      std::vector<std::int64_t> counts = grid(most, false);
      counts.push_back(most);
      for (const std::int64_t n : counts) {
        if (n >= 1 && n * tier.query_len <= limit) {
          mark(n * tier.query_len, kFromDecode);
        }
      }
    }
  }
  if (kept) mark(largest, kFromExplicitMax);
  return finish();
}

void check_alignment(Input& input, const std::vector<std::int64_t>& sizes) {
  const std::int64_t max_size = count_of(input, 900);
  const std::int64_t query_len = count_of(input, 9);
  std::vector<std::int64_t> aligned;
  for (std::int64_t size = query_len; size <= max_size && size <= 20000;
       size += query_len) {
    const bool wanted =
        std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t given) {
          return given <= size && given > size - query_len;
        });
    if (wanted) aligned.push_back(size);
  }
  if (aligned.empty() && query_len <= max_size) aligned.push_back(query_len);
  const bool small = std::all_of(sizes.begin(), sizes.end(),
                                 [](auto size) { return size <= 10000; });
  if (small && query_len <= 10000) {
    expect(align_sizes(sizes, max_size, query_len) == aligned, "aligned sizes");
  }
}

void run(Input& input) {
  Owned owned;
  read(input, owned);
  if (!affordable(owned.config)) return;
  const CaptureResult found = capture_sizes(owned.config);
  const CaptureResult wanted = expected(owned.config);
  expect(found.fault == wanted.fault && found.value == wanted.value, "fault");
  expect(found.sizes == wanted.sizes, "sizes");
  expect(found.origins == wanted.origins, "origins");
  expect(found.max_size == wanted.max_size, "largest size");
  check_alignment(input, found.sizes);
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  specgrid::fuzz::run(input);
  return 0;
}
