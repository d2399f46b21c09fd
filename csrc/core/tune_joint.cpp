// A schedule and its captures chosen together. See tune_joint.hpp.
#include "core/tune_joint.hpp"

#include <algorithm>
#include <limits>

namespace specgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A further graph must gain at least this share to count as a gain.
constexpr double kTie = 1e-12;

// Where a value came from: the state before its last segment.
struct From {
  std::uint32_t batch = 0;
  std::int32_t label = -1;  // -1: nothing before
  bool eager = false;
};

struct State {
  double total = kInfinity;
  From from;
};

}  // namespace

std::vector<JointChoice> tune_joint(const JointInput& input,
                                    const StopRequested& stop) {
  const std::size_t batches = input.share.size();
  const std::size_t labels = input.labels;
  const std::size_t states_per_count = (batches + 1) * labels;

  // Best total for the first b batches, the last segment of label k being a
  // graph or an eager tail, with exactly g graphs; and the best state that a
  // segment of label k starting after batch b may follow.
  std::vector<State> by_graph((input.max_graphs + 1) * states_per_count);
  std::vector<State> by_eager(by_graph.size());
  std::vector<State> start(by_graph.size());
  const auto at = [&](std::size_t g, std::size_t b, std::size_t k) {
    return g * states_per_count + b * labels + k;
  };
  for (std::size_t k = 0; k < labels; ++k) {
    start[at(0, 0, k)].total = input.run_us;
  }
  for (std::size_t b = 1; b <= batches; ++b) {
    for (std::size_t g = 0; g <= input.max_graphs; ++g) {
      ask(stop);
      for (std::size_t k = 0; k < labels; ++k) {
        State& tail = by_eager[at(g, b, k)];
        State& graph = by_graph[at(g, b, k)];
        const double replay_us = input.graph_us[k * batches + b - 1];
        double share = 0;
        double eager = 0;
        for (std::size_t a = b; a-- > 0;) {
          share += input.share[a];
          eager += input.share[a] * input.eager_us[k * batches + a];
          const State& before = start[at(g, a, k)];
          const double total = before.total + eager;
          if (total < tail.total) {
            tail = {total, before.from};
            tail.from.batch = static_cast<std::uint32_t>(a);
          }
          if (g == 0) continue;
          const State& less = start[at(g - 1, a, k)];
          const double served = less.total + replay_us * share;
          if (served < graph.total) {
            graph = {served, less.from};
            graph.from.batch = static_cast<std::uint32_t>(a);
          }
        }
      }
      // Whom a segment starting here may follow: the same label's graph, or
      // any larger label at the price of a new run.
      State larger;
      for (std::size_t k = labels; k-- > 0;) {
        const std::size_t here = at(g, b, k);
        const auto label = static_cast<std::int32_t>(k);
        State& next = start[here];
        next = {by_graph[here].total, {0, label, false}};
        if (larger.total + input.run_us < next.total) {
          next = {larger.total + input.run_us, larger.from};
        }
        if (by_graph[here].total < larger.total) {
          larger = {by_graph[here].total, {0, label, false}};
        }
        if (by_eager[here].total < larger.total) {
          larger = {by_eager[here].total, {0, label, true}};
        }
      }
    }
  }

  std::vector<JointChoice> out;
  for (std::size_t graphs = 0; graphs <= input.max_graphs; ++graphs) {
    JointChoice best{out.empty() ? kInfinity : out.back().total, {}};
    std::int32_t label = -1;
    bool is_eager = false;
    for (std::size_t k = 0; k < labels; ++k) {
      for (const bool tail : {false, true}) {
        const double total =
            (tail ? by_eager : by_graph)[at(graphs, batches, k)].total;
        const double margin = label < 0 && best.total < kInfinity ? kTie : 0.0;
        if (total < best.total * (1 - margin)) {
          best.total = total;
          label = static_cast<std::int32_t>(k);
          is_eager = tail;
        }
      }
    }
    if (label < 0) {
      if (!out.empty()) best.segments = out.back().segments;
      out.push_back(std::move(best));
      continue;
    }
    std::size_t g = graphs;
    std::size_t b = batches;
    while (label >= 0) {
      const State& state =
          (is_eager ? by_eager
                    : by_graph)[at(g, b, static_cast<std::size_t>(label))];
      best.segments.push_back({state.from.batch, b, label, is_eager});
      if (!is_eager) --g;
      b = state.from.batch;
      label = state.from.label;
      is_eager = state.from.eager;
    }
    std::reverse(best.segments.begin(), best.segments.end());
    out.push_back(std::move(best));
  }
  return out;
}

}  // namespace specgrid
