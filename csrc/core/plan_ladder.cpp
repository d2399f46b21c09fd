// One ladder by itself: plain recurrence and hull form. See plan_ladder.hpp.
#include "core/plan_ladder.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace specgrid {
namespace {

using Sums = std::vector<std::int64_t>;

Sums weight_sums(const Ladder& ladder) {
  Sums sums(ladder.weight.size(), 0);
  for (std::size_t i = 1; i < sums.size(); ++i) {
    sums[i] = sums[i - 1] + ladder.weight[i];
  }
  return sums;
}

// What a plan whose largest entry is b (0: none) leaves to eager; kNoPlan where
// that breaks a promise.
Sums tails(const Ladder& ladder) {
  const std::size_t n = ladder.weight.size();
  Sums out(n, 0);
  std::int64_t sum = ladder.beyond_time;
  for (std::size_t b = n; b-- > 0;) {
    out[b] = sum;
    if (b > 0) sum += ladder.eager_time[b];
  }
  std::int64_t reach = ladder.must_reach;
  if (!ladder.forced.empty()) reach = std::max(reach, ladder.forced.back());
  for (std::size_t b = 0; b < n && static_cast<std::int64_t>(b) < reach; ++b) {
    out[b] = kNoPlan;
  }
  return out;
}

// Segments must not jump over a forced entry: first_from[b] is the smallest a
// that b may follow.
std::vector<std::int32_t> first_from(const Ladder& ladder) {
  std::vector<std::int32_t> first(ladder.weight.size(), 0);
  std::size_t next = 0;
  std::int32_t last = 0;
  for (std::size_t b = 0; b < first.size(); ++b) {
    first[b] = last;
    if (next < ladder.forced.size() &&
        ladder.forced[next] == static_cast<std::int64_t>(b)) {
      last = static_cast<std::int32_t>(b);
      ++next;
    }
  }
  return first;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return (a % b != 0 && a < 0) ? quotient - 1 : quotient;  // b is positive
}

// Lower envelope of lines start - slope * x with slopes that never fall, asked
// at whole x. Of equal lines the one added first is kept, so ties go to the
// smaller entry. Crossings are whole numbers too: a line is better than the one
// before it strictly above its crossing.
class Envelope {
 public:
  explicit Envelope(std::size_t capacity) { lines_.reserve(capacity); }

  void clear() {
    lines_.clear();
    at_ = 0;
  }

  void add(std::int64_t slope, std::int64_t start, std::int32_t owner) {
    Line line{slope, start, std::numeric_limits<std::int64_t>::min(), owner};
    while (!lines_.empty()) {
      const Line& last = lines_.back();
      if (last.slope == slope) {
        if (last.start <= start) return;
      } else {
        line.above = floor_div(start - last.start, slope - last.slope);
        if (line.above > last.above) break;
      }
      lines_.pop_back();
      line.above = std::numeric_limits<std::int64_t>::min();
    }
    lines_.push_back(line);
  }

  [[nodiscard]] bool empty() const { return lines_.empty(); }

  // The owner of the lowest line at x; x must not fall between calls.
  [[nodiscard]] std::int32_t lowest_rising(std::int64_t x) {
    if (at_ >= lines_.size()) at_ = lines_.size() - 1;
    while (at_ + 1 < lines_.size() && lines_[at_ + 1].above < x) ++at_;
    return lines_[at_].owner;
  }

  // The owner of the lowest line at any x.
  [[nodiscard]] std::int32_t lowest(std::int64_t x) const {
    std::size_t lo = 0;
    std::size_t hi = lines_.size() - 1;
    while (lo < hi) {
      const std::size_t mid = (lo + hi + 1) / 2;
      if (lines_[mid].above < x) {
        lo = mid;
      } else {
        hi = mid - 1;
      }
    }
    return lines_[lo].owner;
  }

 private:
  struct Line {
    std::int64_t slope;
    std::int64_t start;
    std::int64_t above;
    std::int32_t owner;
  };
  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

// What both solvers share: the rows, the curve, and the ends of the plans.
class LadderSolver {
 public:
  LadderSolver(const Ladder& ladder, std::size_t max_entries)
      : ladder_(ladder),
        n_(ladder.weight.size()),
        num_(std::min(max_entries, n_ - 1)),
        sums_(weight_sums(ladder)),
        tails_(tails(ladder)),
        first_from_(first_from(ladder)) {
    curve_.stride = n_;
    curve_.below.assign(num_ * n_, 0);
  }

  // `fill(previous, row, below)` computes the row of one more entry.
  template <typename Fill>
  LadderCurve run(const StopRequested& stop, Fill fill) {
    Sums previous(n_, kNoPlan);
    previous[0] = 0;
    curve_.time.push_back(tails_[0]);
    curve_.top.push_back(0);
    Sums row(n_);
    for (std::size_t k = 1; k <= num_; ++k) {
      if (stop && stop()) {
        curve_.stopped = true;
        return std::move(curve_);
      }
      std::fill(row.begin(), row.end(), kNoPlan);
      fill(previous, row, &curve_.below[(k - 1) * n_]);
      std::int64_t time = kNoPlan;
      std::int32_t top = 0;
      for (std::size_t b = 1; b < n_; ++b) {
        if (row[b] >= kNoPlan || tails_[b] >= kNoPlan) continue;
        if (row[b] + tails_[b] < time) {
          time = row[b] + tails_[b];
          top = static_cast<std::int32_t>(b);
        }
      }
      curve_.time.push_back(time);
      curve_.top.push_back(top);
      std::swap(previous, row);
    }
    return std::move(curve_);
  }

  const Ladder& ladder_;
  std::size_t n_;
  std::size_t num_;
  Sums sums_;
  Sums tails_;
  std::vector<std::int32_t> first_from_;
  LadderCurve curve_;
};

}  // namespace

std::vector<std::int64_t> LadderCurve::entries(std::size_t k) const {
  std::vector<std::int64_t> out(k);
  std::int32_t b = top[k];
  for (std::size_t i = k; i > 0; --i) {
    out[i - 1] = b;
    b = below[(i - 1) * stride + static_cast<std::size_t>(b)];
  }
  return out;
}

LadderCurve solve_ladder_hull(const Ladder& ladder, std::size_t max_entries,
                              const StopRequested& stop) {
  LadderSolver solver(ladder, max_entries);
  const std::vector<std::int64_t>& cost = ladder.cost;
  const bool rising = std::is_sorted(cost.begin() + 1, cost.end());
  Envelope envelope(solver.n_);
  return solver.run(stop, [&](const Sums& previous, Sums& row,
                              std::int32_t* below) {
    envelope.clear();
    for (std::size_t b = 1; b < solver.n_; ++b) {
      // Following a costs previous[a] + cost[b] * (sums[b] - sums[a]): a line
      // in cost[b].
      if (solver.first_from_[b] != solver.first_from_[b - 1]) envelope.clear();
      if (previous[b - 1] < kNoPlan) {
        envelope.add(solver.sums_[b - 1], previous[b - 1],
                     static_cast<std::int32_t>(b - 1));
      }
      if (envelope.empty()) continue;
      const std::int32_t a =
          rising ? envelope.lowest_rising(cost[b]) : envelope.lowest(cost[b]);
      const auto at = static_cast<std::size_t>(a);
      row[b] = previous[at] + cost[b] * (solver.sums_[b] - solver.sums_[at]);
      below[b] = a;
    }
  });
}

LadderCurve solve_ladder_plain(const Ladder& ladder, std::size_t max_entries,
                               const StopRequested& stop) {
  LadderSolver solver(ladder, max_entries);
  return solver.run(stop, [&](const Sums& previous, Sums& row,
                              std::int32_t* below) {
    for (std::size_t b = 1; b < solver.n_; ++b) {
      ask(stop);
      for (auto a = static_cast<std::size_t>(solver.first_from_[b]); a < b;
           ++a) {
        if (previous[a] >= kNoPlan) continue;
        const std::int64_t time =
            previous[a] + ladder.cost[b] * (solver.sums_[b] - solver.sums_[a]);
        if (time < row[b]) {
          row[b] = time;
          below[b] = static_cast<std::int32_t>(a);
        }
      }
    }
  });
}

LadderDag::LadderDag(const std::vector<Ladder>& ladders) : ladders_(ladders) {
  std::int32_t node = 0;
  for (const Ladder& ladder : ladders) {
    joints_.push_back(node);
    node += static_cast<std::int32_t>(ladder.weight.size());
    weight_sums_.push_back(weight_sums(ladder));
    tails_.push_back(tails(ladder));
  }
  joints_.push_back(node);
  group_starts_.push_back(node);
}

std::int32_t LadderDag::num_nodes() const { return joints_.back() + 1; }

const std::vector<std::int32_t>& LadderDag::group_starts() const {
  return group_starts_;
}

std::int32_t LadderDag::graph_limit(std::int32_t /*node*/) const {
  return std::numeric_limits<std::int32_t>::max();
}

std::int64_t LadderDag::entry(std::int32_t node) const {
  const auto after = std::upper_bound(joints_.begin(), joints_.end(), node);
  const std::int32_t joint = *(after - 1);
  if (node == joint) return kNoEntry;
  const auto ladder = (after - 1) - joints_.begin();
  return (static_cast<std::int64_t>(ladder) << 32) + (node - joint);
}

std::span<const Arc> LadderDag::arcs_into(std::int32_t node,
                                          std::vector<Arc>& scratch) const {
  scratch.clear();
  if (node == 0) return scratch;
  const auto after = std::upper_bound(joints_.begin(), joints_.end(), node);
  const std::int32_t joint = *(after - 1);
  const auto which = static_cast<std::size_t>((after - 1) - joints_.begin());
  if (node == joint) {
    // The ladder before this joint is finished: one arc for each largest entry.
    const Sums& tail = tails_[which - 1];
    for (std::size_t b = 0; b < tail.size(); ++b) {
      if (tail[b] >= kNoPlan) continue;
      scratch.push_back(
          {.from = joints_[which - 1] + static_cast<std::int32_t>(b),
           .time = tail[b]});
    }
    return scratch;
  }
  const Ladder& ladder = ladders_[which];
  const Sums& sums = weight_sums_[which];
  const auto b = static_cast<std::size_t>(node - joint);
  std::size_t first = 0;
  for (const std::int64_t forced : ladder.forced) {
    if (forced < static_cast<std::int64_t>(b)) {
      first = static_cast<std::size_t>(forced);
    }
  }
  for (std::size_t a = first; a < b; ++a) {
    Arc arc{.from = joint + static_cast<std::int32_t>(a),
            .graphs = static_cast<std::int32_t>(ladder.graphs_each),
            .time = ladder.cost[b] * (sums[b] - sums[a])};
    if (!ladder.graph_bytes.empty()) {
      arc.bytes =
          static_cast<std::int32_t>(ladder.graphs_each * ladder.graph_bytes[b]);
    }
    if (!ladder.graph_seconds.empty()) {
      arc.seconds = static_cast<std::int32_t>(ladder.graphs_each *
                                              ladder.graph_seconds[b]);
    }
    scratch.push_back(arc);
  }
  return scratch;
}

}  // namespace specgrid
