// Every possible plan, on instances small enough to list: what the planner is
// checked against. The dispatchers here are restated from vLLM's rules step by
// step, and share no code with the core. Instances come from any source of
// numbers (`in`, `one_in`, `of`): a random engine in tests, bytes in fuzzing.
#ifndef SPECGRID_TESTS_EVERY_PLAN_HPP_
#define SPECGRID_TESTS_EVERY_PLAN_HPP_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan_ladder.hpp"
#include "core/plan_shared.hpp"

namespace specgrid::every_plan {

using List = std::vector<std::int64_t>;

struct Outcome {
  std::int64_t time = 0;
  std::int64_t graphs = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;
  bool kept_promises = true;
};

template <typename T>
std::vector<List> subsets(const std::vector<T>& all) {
  std::vector<List> out;
  for (std::uint32_t mask = 0; mask < (1U << all.size()); ++mask) {
    List list;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((mask >> i) & 1U) list.push_back(all[i]);
    }
    out.push_back(list);
  }
  return out;
}

// ---- one shared list
// ---------------------------------------------------------

inline Outcome run(const SharedProblem& p, const List& list) {
  Outcome out;
  const std::int64_t top = list.empty() ? 0 : list.back();
  std::set<std::pair<std::int64_t, std::int64_t>> made;  // (tokens, query len)
  auto count = [&](std::int64_t number, std::int64_t size) {
    const auto at = static_cast<std::size_t>(size);
    out.graphs += number;
    if (!p.graph_bytes.empty()) out.bytes += number * p.graph_bytes[at];
    if (!p.graph_seconds.empty()) out.seconds += number * p.graph_seconds[at];
  };
  for (const std::int64_t size : list) {
    for (const std::int64_t q : p.query_lens) {
      const std::int64_t reqs = (size + q - 1) / q;
      if (reqs * q > top || reqs > p.max_num_seqs ||
          reqs * q > p.max_decode_tokens) {
        continue;
      }
      if (made.insert({reqs * q, q}).second) count(p.graphs_per_full, reqs * q);
    }
    count(p.graphs_per_entry, size);
    if (size <= p.max_num_seqs) count(p.graphs_per_small_entry, size);
  }
  if (!p.pool_bytes.empty() && top != 0) {
    out.bytes += p.pool_bytes[static_cast<std::size_t>(top)];
  }
  auto piecewise = [&](std::int64_t tokens) -> std::optional<std::int64_t> {
    const auto at = std::lower_bound(list.begin(), list.end(), tokens);
    if (!p.piecewise || at == list.end()) return std::nullopt;
    return p.piecewise_time[static_cast<std::size_t>(*at)];
  };
  for (std::size_t i = 0; i < p.decode_tier.size(); ++i) {
    const std::int64_t q =
        p.query_lens[static_cast<std::size_t>(p.decode_tier[i])];
    const std::int64_t tokens = q * p.decode_reqs[i];
    std::optional<std::int64_t> graph;
    if (p.one_ladder) {
      const auto nearest = made.lower_bound({tokens, 0});
      if (nearest != made.end() && made.contains({nearest->first, q})) {
        graph = nearest->first;
      }
    } else {
      for (const auto& [size, length] : made) {
        if (length == q && size >= tokens) {
          graph = size;
          break;
        }
      }
    }
    if (graph) {
      out.time +=
          p.decode_weight[i] * p.full_time[static_cast<std::size_t>(*graph)];
      continue;
    }
    if (p.decode_required[i] != 0) out.kept_promises = false;
    out.time +=
        p.decode_weight[i] * piecewise(tokens).value_or(p.decode_eager[i]);
  }
  for (std::size_t i = 0; i < p.mixed_tokens.size(); ++i) {
    out.time += p.mixed_weight[i] *
                piecewise(p.mixed_tokens[i]).value_or(p.mixed_eager[i]);
  }
  for (const std::int64_t size : p.forced) {
    if (!std::binary_search(list.begin(), list.end(), size)) {
      out.kept_promises = false;
    }
  }
  return out;
}

template <typename Source>
SharedProblem random_problem(Source& random, bool one_ladder) {
  SharedProblem p;
  p.query_lens = random.template of<List>({{1, 2, 4},
                                           {3, 4},
                                           {2, 3, 5},
                                           {4},
                                           {1},
                                           {1, 4},
                                           {3, 5, 7},
                                           {1, 2, 3, 6}});
  p.max_num_seqs = random.template of<std::int64_t>({2, 3, 4, 6});
  const std::int64_t widest = p.query_lens.back() + (random.one_in(4) ? 1 : 0);
  p.max_decode_tokens = p.max_num_seqs * widest;
  p.max_size = random.in(3, 10);
  p.one_ladder = one_ladder;
  p.piecewise = !random.one_in(4);
  const bool noisy = random.one_in(3);
  const bool flat = random.one_in(5);
  for (std::int64_t size = 0; size <= p.max_size; ++size) {
    const std::int64_t step = flat ? 100 : 100 + 10 * size;
    p.full_time.push_back(step + (noisy ? random.in(0, 60) : 0));
    p.piecewise_time.push_back(step + 40 + (noisy ? random.in(0, 60) : 0));
  }
  for (std::size_t tier = 0; tier < p.query_lens.size(); ++tier) {
    for (std::int64_t n = 1; n <= p.max_num_seqs; ++n) {
      if (random.one_in(4)) continue;
      p.decode_tier.push_back(static_cast<std::int64_t>(tier));
      p.decode_reqs.push_back(n);
      p.decode_weight.push_back(random.one_in(4) ? 0 : random.in(1, 9));
      p.decode_eager.push_back(random.one_in(6) ? random.in(50, 150)
                                                : random.in(200, 400));
      p.decode_required.push_back(0);
    }
  }
  if (random.one_in(3) && !p.decode_required.empty()) {
    p.decode_required[static_cast<std::size_t>(random.in(
        0, static_cast<std::int64_t>(p.decode_required.size()) - 1))] = 1;
  }
  for (std::int64_t tokens = 1; tokens <= p.max_size + 2; ++tokens) {
    if (random.one_in(2)) continue;
    p.mixed_tokens.push_back(tokens);
    p.mixed_weight.push_back(random.in(0, 9));
    p.mixed_eager.push_back(random.in(150, 400));
  }
  for (std::int64_t size = 1; size <= p.max_size; ++size) {
    if (!random.one_in(12)) p.sizes.push_back(size);
  }
  if (random.one_in(5) && !p.sizes.empty())
    p.forced.push_back(random.of(p.sizes));
  p.graphs_per_full = random.template of<std::int64_t>({1, 1, 2, 3});
  p.graphs_per_entry = p.piecewise ? p.graphs_per_full : 0;
  p.graphs_per_small_entry = random.template of<std::int64_t>({0, 0, 1, 2});
  return p;
}

template <typename Source>
void price(Source& random, SharedProblem& p) {
  for (std::int64_t size = 0; size <= p.max_size; ++size) {
    p.graph_bytes.push_back(random.in(0, 20));
    p.graph_seconds.push_back(random.in(0, 9));
    p.pool_bytes.push_back(5 + size * random.in(0, 2));
  }
}

// Best first: by time, graphs, entries, then entries from the largest down.
inline auto rank(const Outcome& outcome, List list) {
  std::reverse(list.begin(), list.end());
  return std::tuple(outcome.time, outcome.graphs, list.size(), list);
}

// The best lists for every number of graphs: by strictly falling time.
inline std::vector<std::pair<Outcome, List>> best_lists(
    const SharedProblem& p) {
  std::map<std::int64_t, std::pair<Outcome, List>> best;  // by exact graphs
  for (const List& list : subsets(p.sizes)) {
    const Outcome outcome = run(p, list);
    if (!outcome.kept_promises) continue;
    const auto at = best.find(outcome.graphs);
    if (at == best.end() ||
        rank(outcome, list) < rank(at->second.first, at->second.second)) {
      best[outcome.graphs] = {outcome, list};
    }
  }
  std::vector<std::pair<Outcome, List>> wanted;
  for (const auto& [graphs, found] : best) {
    if (wanted.empty() || found.first.time < wanted.back().first.time) {
      wanted.push_back(found);
    }
  }
  return wanted;
}

// ---- ladders
// -------------------------------------------------------------------

template <typename Source>
Ladder random_ladder(Source& random, std::int64_t most) {
  Ladder ladder;
  const std::int64_t n = random.in(0, most);
  const bool noisy = random.one_in(3);
  for (std::int64_t i = 0; i <= n; ++i) {
    ladder.weight.push_back(i == 0 || random.one_in(4) ? 0 : random.in(1, 9));
    ladder.cost.push_back(100 + (noisy ? random.in(0, 80) : 10 * i));
    ladder.eager_time.push_back(ladder.weight.back() * random.in(120, 400));
    ladder.graph_bytes.push_back(random.in(0, 20));
    ladder.graph_seconds.push_back(random.in(0, 9));
    if (i > 0 && random.one_in(12)) ladder.forced.push_back(i);
  }
  ladder.must_reach = random.one_in(3) ? random.in(0, n) : 0;
  ladder.beyond_time = random.in(0, 50);
  ladder.graphs_each = random.template of<std::int64_t>({1, 1, 2, 3});
  return ladder;
}

inline Outcome run(const Ladder& ladder, const List& list) {
  Outcome out;
  out.time = ladder.beyond_time;
  for (std::size_t i = 1; i < ladder.weight.size(); ++i) {
    const auto at = std::lower_bound(list.begin(), list.end(),
                                     static_cast<std::int64_t>(i));
    out.time +=
        at == list.end()
            ? ladder.eager_time[i]
            : ladder.weight[i] * ladder.cost[static_cast<std::size_t>(*at)];
  }
  for (const std::int64_t entry : list) {
    const auto at = static_cast<std::size_t>(entry);
    out.graphs += ladder.graphs_each;
    out.bytes += ladder.graphs_each * ladder.graph_bytes[at];
    out.seconds += ladder.graphs_each * ladder.graph_seconds[at];
  }
  const std::int64_t top = list.empty() ? 0 : list.back();
  out.kept_promises = top >= ladder.must_reach &&
                      std::includes(list.begin(), list.end(),
                                    ladder.forced.begin(), ladder.forced.end());
  return out;
}

// Every choice over all ladders, as (outcome, entries named by ladder).
inline std::vector<std::pair<Outcome, List>> every_choice(
    const std::vector<Ladder>& ladders) {
  std::vector<std::pair<Outcome, List>> all{{Outcome{}, {}}};
  for (std::size_t which = 0; which < ladders.size(); ++which) {
    List indices;
    for (std::size_t i = 1; i < ladders[which].weight.size(); ++i) {
      indices.push_back(static_cast<std::int64_t>(i));
    }
    std::vector<std::pair<Outcome, List>> next;
    for (const List& list : subsets(indices)) {
      const Outcome o = run(ladders[which], list);
      if (!o.kept_promises) continue;
      for (const auto& [sum, entries] : all) {
        Outcome total{sum.time + o.time, sum.graphs + o.graphs,
                      sum.bytes + o.bytes, sum.seconds + o.seconds, true};
        List named = entries;
        for (const std::int64_t index : list) {
          named.push_back((static_cast<std::int64_t>(which) << 32) + index);
        }
        next.push_back({total, named});
      }
    }
    all = std::move(next);
  }
  return all;
}

}  // namespace specgrid::every_plan

#endif  // SPECGRID_TESTS_EVERY_PLAN_HPP_
