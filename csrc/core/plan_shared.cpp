// One list shared by all query lengths, as vLLM's dispatch reads it.
#include "core/plan_shared.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace specgrid {

SharedListDag::SharedListDag(const SharedProblem& problem)
    : problem_(problem), costs_(problem) {
  const auto num_sizes = static_cast<std::int32_t>(problem.sizes.size());
  forced_before_.assign(static_cast<std::size_t>(num_sizes) + 1, 0);
  for (std::int32_t i = 0; i < num_sizes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    forced_before_[at + 1] =
        forced_before_[at] +
        (std::binary_search(problem.forced.begin(), problem.forced.end(),
                            problem.sizes[at])
             ? 1
             : 0);
  }
  const std::int32_t num_forced = forced_before_.back();
  for (std::int32_t i = 0; i < num_sizes; ++i) {
    nodes_.push_back({.candidate = i, .top = -1});
  }

  if (num_forced == 0) {
    const std::int64_t time = costs_.beyond(0);
    if (time < kNoPlan) last_arcs_.push_back({.from = 0, .time = time});
  }
  for (std::int32_t top = 0; top < num_sizes; ++top) {
    const std::int64_t top_size = problem.sizes[static_cast<std::size_t>(top)];
    if (forced_before_[static_cast<std::size_t>(top) + 1] != num_forced)
      continue;
    const std::int64_t time = costs_.beyond(top_size);
    if (time >= kNoPlan) continue;
    std::int32_t first = top + 1;
    const std::int64_t reach =
        problem.query_lens.empty() ? 0 : problem.query_lens.back();
    for (std::int32_t i = top; i >= 0; --i) {
      const std::int64_t size = problem.sizes[static_cast<std::size_t>(i)];
      if (size + reach <= top_size) break;
      if (costs_.top_matters(size, top_size)) first = i;
    }
    Arc last{.from = top + 1, .time = time};
    if (first <= top) {
      const auto group_node = static_cast<std::int32_t>(nodes_.size()) + 1;
      group_starts_.push_back(group_node);
      for (std::int32_t i = first; i <= top; ++i) {
        nodes_.push_back({.candidate = i,
                          .group_first = first,
                          .group_node = group_node,
                          .top = top});
      }
      last.from = static_cast<std::int32_t>(nodes_.size());
    }
    if (!problem.pool_bytes.empty()) {
      last.bytes = static_cast<std::int32_t>(
          problem.pool_bytes[static_cast<std::size_t>(top_size)]);
    }
    last_arcs_.push_back(last);
  }
  std::sort(last_arcs_.begin(), last_arcs_.end(),
            [](const Arc& x, const Arc& y) { return x.from < y.from; });
  group_starts_.push_back(num_nodes() - 1);
}

std::int32_t SharedListDag::num_nodes() const {
  return static_cast<std::int32_t>(nodes_.size()) + 2;
}

const std::vector<std::int32_t>& SharedListDag::group_starts() const {
  return group_starts_;
}

bool SharedListDag::forced_between(std::int32_t a, std::int32_t b) const {
  // Candidates strictly between; a = -1 stands for the empty list.
  return forced_before_[static_cast<std::size_t>(b)] !=
         forced_before_[static_cast<std::size_t>(a + 1)];
}

void SharedListDag::add_arc(std::int32_t from, std::int32_t a, std::int32_t b,
                            std::int64_t top, std::vector<Arc>& out) const {
  if (forced_between(a, b)) return;
  const std::int64_t size_a =
      a < 0 ? 0 : problem_.sizes[static_cast<std::size_t>(a)];
  Arc arc =
      costs_.pair(size_a, problem_.sizes[static_cast<std::size_t>(b)], top);
  if (arc.time >= kNoPlan) return;
  arc.from = from;
  out.push_back(arc);
}

std::span<const Arc> SharedListDag::arcs_into(std::int32_t node,
                                              std::vector<Arc>& scratch) const {
  scratch.clear();
  if (node == 0) return scratch;
  if (node == num_nodes() - 1) return last_arcs_;
  const Node& here = nodes_[static_cast<std::size_t>(node) - 1];
  const bool base = here.group_first < 0;
  const std::int64_t top =
      base ? std::numeric_limits<std::int64_t>::max()
           : problem_.sizes[static_cast<std::size_t>(here.top)];
  const std::int32_t base_end = base ? here.candidate : here.group_first;
  for (std::int32_t a = -1; a < base_end; ++a) {
    add_arc(a + 1, a, here.candidate, top, scratch);
  }
  if (base) return scratch;
  for (std::int32_t a = here.group_first; a < here.candidate; ++a) {
    add_arc(here.group_node + (a - here.group_first), a, here.candidate, top,
            scratch);
  }
  return scratch;
}

std::int32_t SharedListDag::graph_limit(std::int32_t node) const {
  if (problem_.graph_limits.empty()) {
    return std::numeric_limits<std::int32_t>::max();
  }
  const std::int64_t size = entry(node);
  if (size == kNoEntry) return std::numeric_limits<std::int32_t>::max();
  const auto at =
      std::lower_bound(problem_.sizes.begin(), problem_.sizes.end(), size) -
      problem_.sizes.begin();
  return static_cast<std::int32_t>(
      problem_.graph_limits[static_cast<std::size_t>(at)]);
}

std::int64_t SharedListDag::entry(std::int32_t node) const {
  if (node == 0 || node == num_nodes() - 1) return kNoEntry;
  const Node& here = nodes_[static_cast<std::size_t>(node) - 1];
  return problem_.sizes[static_cast<std::size_t>(here.candidate)];
}

}  // namespace specgrid
