// Several ladders under one budget. See plan_merge.hpp.
#include "core/plan_merge.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

// Curves of all ladders; each is worked out by one thread.
std::vector<LadderCurve> solve_each(const std::vector<Ladder>& ladders,
                                    std::int64_t budget, bool plain,
                                    int num_threads,
                                    const StopRequested& stop) {
  std::vector<LadderCurve> curves(ladders.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  auto work = [&](const StopRequested& asks) {
    for (;;) {
      const std::size_t at = next.fetch_add(1);
      if (at >= ladders.size()) return;
      const auto most =
          static_cast<std::size_t>(budget / ladders[at].graphs_each);
      curves[at] = plain ? solve_ladder_plain(ladders[at], most, asks)
                         : solve_ladder_hull(ladders[at], most, asks);
      if (curves[at].stopped) stopped.store(true);
    }
  };
  const auto asked = [&] {
    if (stop && stop()) stopped.store(true);
  };
  work_together(
      useful_threads(num_threads, ladders.size(), 1),
      [&](bool is_caller, const std::atomic<bool>& failed) {
        work([&] {
          if (is_caller) asked();
          return stopped.load() || failed.load();
        });
      },
      asked);
  return curves;
}

}  // namespace

Frontier solve_ladders(const std::vector<Ladder>& ladders,
                       std::int64_t budget_graphs, bool plain, int num_threads,
                       const StopRequested& stop) {
  Frontier frontier;
  const std::vector<LadderCurve> curves =
      solve_each(ladders, budget_graphs, plain, num_threads, stop);
  for (const LadderCurve& curve : curves) {
    if (curve.stopped) {
      frontier.stopped = true;
      return frontier;
    }
  }

  const auto width = static_cast<std::size_t>(budget_graphs) + 1;
  std::vector<std::int64_t> best(width, kNoPlan);
  best[0] = 0;
  std::vector<std::vector<std::int32_t>> taken;  // [ladder][graphs]: entries
  for (std::size_t at = 0; at < ladders.size(); ++at) {
    const auto each = static_cast<std::size_t>(ladders[at].graphs_each);
    const std::vector<std::int64_t>& curve = curves[at].time;
    std::vector<std::int64_t> next(width, kNoPlan);
    std::vector<std::int32_t> choice(width, 0);
    for (std::size_t k = 0; k < curve.size(); ++k) {
      if (stop && stop()) {
        frontier.stopped = true;
        return frontier;
      }
      if (curve[k] >= kNoPlan) continue;
      for (std::size_t g = k * each; g < width; ++g) {
        if (best[g - k * each] >= kNoPlan) continue;
        const std::int64_t time = best[g - k * each] + curve[k];
        if (time < next[g]) {
          next[g] = time;
          choice[g] = static_cast<std::int32_t>(k);
        }
      }
    }
    best = std::move(next);
    taken.push_back(std::move(choice));
  }

  std::int64_t reached = kNoPlan;
  for (std::size_t g = 0; g < width; ++g) {
    if (stop && stop()) {
      frontier = {};
      frontier.stopped = true;
      return frontier;
    }
    if (best[g] >= reached) continue;
    reached = best[g];
    FrontierPoint point{
        .time = best[g], .graphs = static_cast<std::int64_t>(g), .entries = {}};
    std::vector<std::size_t> counts(ladders.size());
    std::size_t left = g;
    for (std::size_t at = ladders.size(); at-- > 0;) {
      counts[at] = static_cast<std::size_t>(taken[at][left]);
      left -= counts[at] * static_cast<std::size_t>(ladders[at].graphs_each);
    }
    for (std::size_t at = 0; at < ladders.size(); ++at) {
      for (const std::int64_t index : curves[at].entries(counts[at])) {
        point.entries.push_back((static_cast<std::int64_t>(at) << 32) + index);
      }
    }
    frontier.points.push_back(std::move(point));
  }
  return frontier;
}

}  // namespace specgrid
