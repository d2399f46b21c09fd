// What a step costs between two neighbouring entries. See plan_pairs.hpp.
#include "core/plan_pairs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

namespace specgrid {
namespace {

struct Level {
  std::int64_t size = 0;
  std::size_t tier = 0;
};

}  // namespace

PairCosts::PairCosts(const SharedProblem& problem)
    : problem_(problem),
      stride_(static_cast<std::size_t>(problem.max_size) + 1),
      decode_(problem.query_lens.size()) {
  const std::size_t num_tiers = problem.query_lens.size();
  rounded_.resize(num_tiers * stride_);
  for (std::size_t tier = 0; tier < num_tiers; ++tier) {
    const std::int64_t q = problem.query_lens[tier];
    for (std::size_t size = 1; size < stride_; ++size) {
      const std::int64_t reqs = (static_cast<std::int64_t>(size) + q - 1) / q;
      const bool allowed = reqs <= problem.max_num_seqs &&
                           reqs * q <= problem.max_decode_tokens &&
                           reqs * q <= problem.max_size;
      rounded_[tier * stride_ + size] = allowed ? reqs * q : 0;
    }
  }
  // A step of t tokens under ladders of its own is owned by entries up to
  // t - q + 1, so sums must reach q - 1 past the largest size.
  const std::size_t length =
      stride_ +
      static_cast<std::size_t>(num_tiers == 0 ? 1 : problem.query_lens.back());
  auto prepare = [length](Load& load) {
    load.weight.assign(length, 0);
    load.eager.assign(length, 0);
    load.required.assign(length, 0);
  };
  auto add = [length](Load& load, std::int64_t tokens, std::int64_t weight,
                      std::int64_t eager, std::int64_t required) {
    if (tokens >= static_cast<std::int64_t>(length)) {
      load.beyond_eager += weight * eager;
      load.beyond_required += required;
      return;
    }
    const auto t = static_cast<std::size_t>(tokens);
    load.weight[t] += weight;
    load.eager[t] += weight * eager;
    load.required[t] += required;
  };
  auto accumulate = [](Load& load) {
    for (auto* sums : {&load.weight, &load.eager, &load.required}) {
      std::partial_sum(sums->begin(), sums->end(), sums->begin());
    }
  };
  for (Load& load : decode_) prepare(load);
  prepare(mixed_);
  for (std::size_t i = 0; i < problem.decode_tier.size(); ++i) {
    const auto tier = static_cast<std::size_t>(problem.decode_tier[i]);
    add(decode_[tier], problem.decode_reqs[i] * problem.query_lens[tier],
        problem.decode_weight[i], problem.decode_eager[i],
        problem.decode_required[i]);
  }
  for (std::size_t i = 0; i < problem.mixed_tokens.size(); ++i) {
    add(mixed_, problem.mixed_tokens[i], problem.mixed_weight[i],
        problem.mixed_eager[i], 0);
  }
  for (Load& load : decode_) accumulate(load);
  accumulate(mixed_);
}

bool PairCosts::top_matters(std::int64_t b, std::int64_t top) const {
  for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
    if (rounded(tier, b) > top) return true;
  }
  return false;
}

std::int64_t PairCosts::fallback(const Load& load, std::int64_t lo,
                                 std::int64_t hi, std::int64_t b) const {
  if (!problem_.piecewise) return between(load.eager, lo, hi);
  return between(load.weight, lo, hi) *
         problem_.piecewise_time[static_cast<std::size_t>(b)];
}

std::int64_t PairCosts::one_ladder_time(std::int64_t a, std::int64_t b,
                                        std::int64_t top) const {
  // The FULL sizes above a that a or b make: any other entry's are either not
  // above a, or not below these.
  std::array<Level, 2 * kMaxQueryLens> levels;
  std::size_t num_levels = 0;
  for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
    const std::int64_t from_a = a == 0 ? 0 : rounded(tier, a);
    const std::int64_t from_b = rounded(tier, b);
    if (from_a > a && from_a <= top) levels[num_levels++] = {from_a, tier};
    if (from_b != from_a && from_b != 0 && from_b <= top) {
      levels[num_levels++] = {from_b, tier};
    }
  }
  std::sort(levels.begin(),
            levels.begin() + static_cast<std::ptrdiff_t>(num_levels),
            [](const Level& x, const Level& y) { return x.size < y.size; });
  std::int64_t time = 0;
  std::int64_t lo = a;
  std::size_t next = 0;
  while (lo < b) {
    // Steps in (lo, hi] see the graphs of one size only, whoever owns them.
    std::uint64_t owners = 0;
    std::int64_t size = b;
    std::int64_t hi = b;
    if (next < num_levels) {
      size = levels[next].size;
      hi = std::min(size, b);
      while (next < num_levels && levels[next].size == size) {
        owners |= std::uint64_t{1} << levels[next++].tier;
      }
    }
    for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
      const Load& load = decode_[tier];
      if ((owners >> tier) & 1U) {
        time += between(load.weight, lo, hi) *
                problem_.full_time[static_cast<std::size_t>(size)];
      } else {
        if (required_between(load, lo, hi)) return kNoPlan;
        time += fallback(load, lo, hi, b);
      }
    }
    lo = hi;
  }
  return time;
}

std::int64_t PairCosts::per_length_time(std::int64_t a, std::int64_t b,
                                        std::int64_t top) const {
  std::int64_t time = 0;
  for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
    const Load& load = decode_[tier];
    const std::int64_t q = problem_.query_lens[tier];
    const std::int64_t lo = a + q - 1;
    const std::int64_t hi = b + q - 1;
    const std::int64_t size = rounded(tier, b);
    if (size != 0 && size <= top) {
      time += between(load.weight, lo, hi) *
              problem_.full_time[static_cast<std::size_t>(size)];
      continue;
    }
    // No graph of its own: PIECEWISE up to b. What is above b is then above
    // every entry, because b rounds up to it.
    if (required_between(load, lo, hi)) return kNoPlan;
    const std::int64_t split = std::max(lo, b);
    if (lo < b) time += fallback(load, lo, b, b);
    time += between(load.eager, split, hi);
  }
  return time;
}

Arc PairCosts::pair(std::int64_t a, std::int64_t b, std::int64_t top) const {
  Arc arc;
  arc.time = problem_.one_ladder ? one_ladder_time(a, b, top)
                                 : per_length_time(a, b, top);
  if (arc.time < kNoPlan) arc.time += fallback(mixed_, a, b, b);

  const bool with_bytes = !problem_.graph_bytes.empty();
  const bool with_seconds = !problem_.graph_seconds.empty();
  std::int64_t graphs = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;
  auto capture = [&](std::int64_t count, std::int64_t size) {
    graphs += count;
    if (with_bytes) {
      bytes += count * problem_.graph_bytes[static_cast<std::size_t>(size)];
    }
    if (with_seconds) {
      seconds += count * problem_.graph_seconds[static_cast<std::size_t>(size)];
    }
  };
  for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
    const std::int64_t size = rounded(tier, b);
    // A size that a smaller entry already made, this one's neighbour made too.
    if (size == 0 || size > top || (a != 0 && rounded(tier, a) == size)) {
      continue;
    }
    capture(problem_.graphs_per_full, size);
  }
  capture(problem_.graphs_per_entry, b);
  if (b <= problem_.max_num_seqs) capture(problem_.graphs_per_small_entry, b);
  arc.graphs = static_cast<std::int32_t>(graphs);
  arc.bytes = static_cast<std::int32_t>(bytes);
  arc.seconds = static_cast<std::int32_t>(seconds);
  return arc;
}

std::int64_t PairCosts::beyond(std::int64_t top) const {
  std::int64_t time = 0;
  auto add = [&](const Load& load, std::int64_t lo) {
    const auto last = static_cast<std::int64_t>(load.weight.size()) - 1;
    if (required_between(load, lo, last) || load.beyond_required != 0) {
      return false;
    }
    time += between(load.eager, lo, last) + load.beyond_eager;
    return true;
  };
  for (std::size_t tier = 0; tier < decode_.size(); ++tier) {
    const std::int64_t extra =
        problem_.one_ladder ? 0 : problem_.query_lens[tier] - 1;
    if (!add(decode_[tier], top + extra)) return kNoPlan;
  }
  static_cast<void>(add(mixed_, top));  // none of them is required
  return time;
}

}  // namespace specgrid
