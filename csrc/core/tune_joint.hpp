// Schedule and captures chosen together, for graphs keyed by (K, requests):
// exact when every K has one contiguous run, K non-increasing in the batch.
//
// Choosing K first and captures second is not optimal when few graphs are
// allowed: a slightly worse K can share a graph, or avoid an eager tail.
#ifndef SPECGRID_CORE_TUNE_JOINT_HPP_
#define SPECGRID_CORE_TUNE_JOINT_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/stop.hpp"

namespace specgrid {

struct JointInput {
  std::size_t labels = 0;  // candidate K, ascending
  // Work per batch, emitted tokens / batch, above 0. Index 0 is batch 1.
  std::span<const double> share;
  // Time per emitted token and request, labels x batches: in the graph captured
  // for exactly this many requests, and eager. Infinity where unknown.
  std::span<const double> graph_us;
  std::span<const double> eager_us;
  double run_us = 0;  // added once per run; prefers fewer runs
  std::size_t max_graphs = 0;
};

// Batches (begin, end] take one label and are served by the graph for `end`
// requests, or run eager.
struct JointSegment {
  std::size_t begin;
  std::size_t end;
  std::int32_t label;
  bool eager;
};

struct JointChoice {
  double total;
  std::vector<JointSegment> segments;
};

// choice[g]: least total with at most g graphs, g = 0..max_graphs. Eager
// segments end their run. Ties: fewer graphs.
// O(graphs x batches^2 x labels).
[[nodiscard]] std::vector<JointChoice> tune_joint(
    const JointInput& input, const StopRequested& stop = {});

}  // namespace specgrid

#endif  // SPECGRID_CORE_TUNE_JOINT_HPP_
