// The answer for every budget. See plan_frontier.hpp.
#include "core/plan_frontier.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include "core/parallel.hpp"

namespace specgrid {
namespace {

class Recurrence {
 public:
  Recurrence(const PlanDag& dag, std::int64_t budget)
      : dag_(dag),
        width_(static_cast<std::size_t>(budget) + 1),
        num_nodes_(static_cast<std::size_t>(dag.num_nodes())),
        best_(width_ * num_nodes_, kNoPlan),
        first_(num_nodes_, 0),
        last_(num_nodes_, -1) {
    best_[0] = 0;
    last_[0] = 0;
  }

  bool run(int num_threads, const StopRequested& stop);
  [[nodiscard]] Frontier read(const StopRequested& stop);

 private:
  // How a state's plan with the fewest entries goes on downwards.
  struct Choice {
    std::int32_t entries = -1;  // -1: not worked out yet
    std::int32_t from = 0;
    std::int32_t from_graphs = 0;
  };

  [[nodiscard]] std::int64_t best(std::int32_t node,
                                  std::int64_t graphs) const {
    return best_[static_cast<std::size_t>(node) * width_ +
                 static_cast<std::size_t>(graphs)];
  }
  void relax(std::int32_t node, std::vector<Arc>& scratch);
  Choice& choice(std::int32_t node, std::int64_t graphs);
  bool settle(std::int32_t node, std::int64_t graphs,
              const StopRequested& stop);

  const PlanDag& dag_;
  std::size_t width_;
  std::size_t num_nodes_;
  std::vector<std::int64_t> best_;   // [node][graphs used exactly]
  std::vector<std::int64_t> first_;  // graphs range in which best_ is finite
  std::vector<std::int64_t> last_;
  std::vector<std::vector<Choice>> choices_;
  std::vector<Arc> scratch_;
};

void Recurrence::relax(std::int32_t node, std::vector<Arc>& scratch) {
  const auto width = static_cast<std::int64_t>(width_);
  std::int64_t* row = &best_[static_cast<std::size_t>(node) * width_];
  std::int64_t first = width;
  std::int64_t last = -1;
  for (const Arc& arc : dag_.arcs_into(node, scratch)) {
    const auto from = static_cast<std::size_t>(arc.from);
    const std::int64_t lo = first_[from];
    const std::int64_t hi = std::min<std::int64_t>(
        last_[from], width - 1 - std::int64_t{arc.graphs});
    if (hi < lo) continue;
    const std::int64_t* in = &best_[from * width_];
    std::int64_t* out = row + arc.graphs;
    for (std::int64_t g = lo; g <= hi; ++g) {
      const std::int64_t time = in[g] + arc.time;
      out[g] = time < out[g] ? time : out[g];
    }
    first = std::min(first, lo + arc.graphs);
    last = std::max(last, hi + arc.graphs);
  }
  first_[static_cast<std::size_t>(node)] = std::min(first, width - 1);
  last_[static_cast<std::size_t>(node)] = last;
}

bool Recurrence::run(int num_threads, const StopRequested& stop) {
  const std::vector<std::int32_t>& starts = dag_.group_starts();
  std::vector<Arc> scratch;
  for (std::int32_t node = 1; node < starts.front(); ++node) {
    if (stop && stop()) return false;
    relax(node, scratch);
  }
  // Every group writes its own rows only, so threads never meet.
  const std::size_t num_groups = starts.size() - 1;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  auto work = [&](bool is_caller, const std::atomic<bool>& failed) {
    std::vector<Arc> mine;
    for (;;) {
      const std::size_t group = next.fetch_add(1);
      if (group >= num_groups || stopped.load()) return;
      for (std::int32_t node = starts[group]; node < starts[group + 1];
           ++node) {
        if (is_caller && stop && stop()) stopped.store(true);
        if (stopped.load() || failed) return;
        relax(node, mine);
      }
    }
  };
  work_together(useful_threads(num_threads, num_groups, 1), work, [&] {
    if (stop && stop()) stopped.store(true);
  });
  return !stopped.load();
}

Recurrence::Choice& Recurrence::choice(std::int32_t node, std::int64_t graphs) {
  std::vector<Choice>& row = choices_[static_cast<std::size_t>(node)];
  if (row.empty()) row.resize(width_);
  return row[static_cast<std::size_t>(graphs)];
}

// False where it was stopped. Finds the plan with the fewest entries among
// those of the state's best time. A state's plans only lead downwards, so a
// stack serves in place of recursion.
bool Recurrence::settle(std::int32_t node, std::int64_t graphs,
                        const StopRequested& stop) {
  struct State {
    std::int32_t node;
    std::int64_t graphs;
  };
  std::vector<State> todo{{node, graphs}};
  while (!todo.empty()) {
    if (stop && stop()) return false;
    const State state = todo.back();
    Choice& here = choice(state.node, state.graphs);
    if (here.entries >= 0) {
      todo.pop_back();
      continue;
    }
    if (state.node == 0) {
      here.entries = 0;
      todo.pop_back();
      continue;
    }
    const std::int64_t target = best(state.node, state.graphs);
    const std::size_t before = todo.size();
    Choice found;
    for (const Arc& arc : dag_.arcs_into(state.node, scratch_)) {
      const std::int64_t left = state.graphs - arc.graphs;
      if (left < 0 || best(arc.from, left) + arc.time != target) continue;
      const Choice& below = choice(arc.from, left);
      if (below.entries < 0) {
        todo.push_back({arc.from, left});
      } else if (todo.size() == before) {
        const std::int32_t entries =
            below.entries + (dag_.entry(state.node) == kNoEntry ? 0 : 1);
        if (found.entries < 0 || entries < found.entries) {
          found = {entries, arc.from, static_cast<std::int32_t>(left)};
        }
      }
    }
    if (todo.size() == before) {
      choice(state.node, state.graphs) = found;
      todo.pop_back();
    }
  }
  return true;
}

Frontier Recurrence::read(const StopRequested& stop) {
  Frontier frontier;
  const std::int32_t sink = dag_.num_nodes() - 1;
  std::vector<Arc> last_scratch;
  const std::span<const Arc> last_arcs = dag_.arcs_into(sink, last_scratch);
  choices_.resize(num_nodes_);
  std::int64_t reached = kNoPlan;
  for (std::size_t g = 0; g < width_; ++g) {
    if (stop && stop()) {
      frontier.stopped = true;
      return frontier;
    }
    const auto graphs = static_cast<std::int64_t>(g);
    auto allowed = [&](const Arc& arc) {
      return graphs >= arc.graphs && graphs <= dag_.graph_limit(arc.from) &&
             best(arc.from, graphs - arc.graphs) < kNoPlan;
    };
    std::int64_t time = kNoPlan;
    for (const Arc& arc : last_arcs) {
      if (!allowed(arc)) continue;
      time = std::min(time, best(arc.from, graphs - arc.graphs) + arc.time);
    }
    if (time >= reached) continue;
    reached = time;
    const Arc* chosen = nullptr;
    auto rank = [&](const Arc& arc) {
      return std::pair(choice(arc.from, graphs - arc.graphs).entries,
                       dag_.entry(arc.from));
    };
    for (const Arc& arc : last_arcs) {
      if (!allowed(arc) ||
          best(arc.from, graphs - arc.graphs) + arc.time != time) {
        continue;
      }
      if (!settle(arc.from, graphs - arc.graphs, stop)) {
        frontier.stopped = true;
        return frontier;
      }
      if (chosen == nullptr || rank(arc) < rank(*chosen)) chosen = &arc;
    }
    FrontierPoint point{.time = time, .graphs = graphs, .entries = {}};
    std::int32_t node = chosen->from;
    std::int64_t left = graphs - chosen->graphs;
    while (node != 0) {
      if (dag_.entry(node) != kNoEntry)
        point.entries.push_back(dag_.entry(node));
      const Choice step = choice(node, left);
      node = step.from;
      left = step.from_graphs;
    }
    std::reverse(point.entries.begin(), point.entries.end());
    frontier.points.push_back(std::move(point));
  }
  return frontier;
}

}  // namespace

Frontier solve_frontier(const PlanDag& dag, std::int64_t budget_graphs,
                        int num_threads, const StopRequested& stop) {
  Recurrence recurrence(dag, budget_graphs);
  if (!recurrence.run(num_threads, stop)) {
    Frontier frontier;
    frontier.stopped = true;
    return frontier;
  }
  return recurrence.read(stop);
}

Frontier solve_unlimited(const PlanDag& dag, const StopRequested& stop) {
  struct State {
    std::int64_t time = kNoPlan;
    std::int64_t graphs = 0;
    std::int32_t entries = 0;
    std::int32_t from = 0;
  };
  Frontier frontier;
  std::vector<State> states(static_cast<std::size_t>(dag.num_nodes()));
  states[0].time = 0;
  std::vector<Arc> scratch;
  const std::int32_t sink = dag.num_nodes() - 1;
  for (std::int32_t node = 1; node <= sink; ++node) {
    if (stop && stop()) {
      frontier.stopped = true;
      return frontier;
    }
    State& here = states[static_cast<std::size_t>(node)];
    auto key = [](const State& s) {
      return std::tuple(s.time, s.graphs, s.entries);
    };
    std::int64_t chosen_entry = kNoEntry;
    for (const Arc& arc : dag.arcs_into(node, scratch)) {
      const State& below = states[static_cast<std::size_t>(arc.from)];
      if (below.time >= kNoPlan) continue;
      const State next{
          .time = below.time + arc.time,
          .graphs = below.graphs + arc.graphs,
          .entries = below.entries + (dag.entry(node) == kNoEntry ? 0 : 1),
          .from = arc.from};
      // Arcs come by node, and groups put larger nodes beside smaller entries.
      const std::int64_t entry = dag.entry(arc.from);
      if (key(next) < key(here) ||
          (key(next) == key(here) && entry < chosen_entry)) {
        here = next;
        chosen_entry = entry;
      }
    }
  }
  const State& end = states[static_cast<std::size_t>(sink)];
  if (end.time >= kNoPlan) return frontier;
  FrontierPoint point{.time = end.time, .graphs = end.graphs, .entries = {}};
  for (std::int32_t node = end.from; node != 0;
       node = states[static_cast<std::size_t>(node)].from) {
    if (dag.entry(node) != kNoEntry) point.entries.push_back(dag.entry(node));
  }
  std::reverse(point.entries.begin(), point.entries.end());
  frontier.points.push_back(std::move(point));
  return frontier;
}

}  // namespace specgrid
