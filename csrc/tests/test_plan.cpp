// The planner against every possible choice, on instances small enough to list.
// The dispatchers here are restated from vLLM's rules step by step, and share
// no code with the core.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "core/plan_bound.hpp"
#include "core/plan_frontier.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_ladder.hpp"
#include "core/plan_merge.hpp"
#include "core/plan_shared.hpp"

namespace specgrid {
namespace {

using List = std::vector<std::int64_t>;

struct Outcome {
  std::int64_t time = 0;
  std::int64_t graphs = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;
  bool kept_promises = true;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool one_in(std::int64_t n) { return in(1, n) == 1; }
  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        in(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
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

Outcome run(const SharedProblem& p, const List& list) {
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

SharedProblem random_problem(Random& random, bool one_ladder) {
  SharedProblem p;
  p.query_lens = random.of<List>({{1, 2, 4},
                                  {3, 4},
                                  {2, 3, 5},
                                  {4},
                                  {1},
                                  {1, 4},
                                  {3, 5, 7},
                                  {1, 2, 3, 6}});
  p.max_num_seqs = random.of<std::int64_t>({2, 3, 4, 6});
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
  p.graphs_per_full = random.of<std::int64_t>({1, 1, 2, 3});
  p.graphs_per_entry = p.piecewise ? p.graphs_per_full : 0;
  p.graphs_per_small_entry = random.of<std::int64_t>({0, 0, 1, 2});
  return p;
}

void price(Random& random, SharedProblem& p) {
  for (std::int64_t size = 0; size <= p.max_size; ++size) {
    p.graph_bytes.push_back(random.in(0, 20));
    p.graph_seconds.push_back(random.in(0, 9));
    p.pool_bytes.push_back(5 + size * random.in(0, 2));
  }
}

// Best first: by time, graphs, entries, then entries from the largest down.
auto rank(const Outcome& outcome, List list) {
  std::reverse(list.begin(), list.end());
  return std::tuple(outcome.time, outcome.graphs, list.size(), list);
}

void check_frontier(const SharedProblem& p, Random& random) {
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
  const std::int64_t budget = random.in(0, 30);
  const SharedListDag dag(p);
  const Frontier frontier =
      solve_frontier(dag, budget, static_cast<int>(random.in(1, 3)), {});
  REQUIRE_FALSE(frontier.stopped);
  std::size_t i = 0;
  for (const auto& [outcome, list] : wanted) {
    if (outcome.graphs > budget) break;
    REQUIRE(i < frontier.points.size());
    CHECK(frontier.points[i].time == outcome.time);
    CHECK(frontier.points[i].graphs == outcome.graphs);
    CHECK(frontier.points[i].entries == list);
    ++i;
  }
  CHECK(frontier.points.size() == i);
  const Frontier unlimited = solve_unlimited(dag, {});
  REQUIRE(unlimited.points.size() == (wanted.empty() ? 0 : 1));
  if (!wanted.empty()) {
    CHECK(unlimited.points[0].time == wanted.back().first.time);
    CHECK(unlimited.points[0].graphs == wanted.back().first.graphs);
  }
}

TEST_CASE(
    "every budget of a shared list equals trying every list: one ladder") {
  Random random(1);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    check_frontier(random_problem(random, true), random);
  }
}

TEST_CASE(
    "every budget of a shared list equals trying every list: a ladder each") {
  Random random(2);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    check_frontier(random_problem(random, false), random);
  }
}

// Eight requests, drafts 3, 1 and 0; shares in thousandths, times in
// microseconds. The worked example of docs/planner.md.
SharedProblem worked_example(bool one_ladder) {
  SharedProblem p;
  p.query_lens = {1, 2, 4};
  p.max_num_seqs = 8;
  p.max_decode_tokens = 32;
  p.max_size = 16;
  p.one_ladder = one_ladder;
  for (std::int64_t t = 0; t <= 16; ++t) {
    p.full_time.push_back(6000 + 60 * t);
    p.piecewise_time.push_back(8500 + 60 * t);
    if (t > 0) p.sizes.push_back(t);
  }
  const std::vector<List> decode{
      {2, 1, 140}, {2, 2, 180}, {2, 3, 150}, {2, 4, 120}, {1, 5, 90},
      {1, 6, 70},  {0, 7, 50},  {0, 8, 90},  {1, 4, 12},  {0, 6, 8}};
  for (const List& step : decode) {
    const std::int64_t q = p.query_lens[static_cast<std::size_t>(step[0])];
    p.decode_tier.push_back(step[0]);
    p.decode_reqs.push_back(step[1]);
    p.decode_weight.push_back(step[2]);
    p.decode_eager.push_back(14000 + 60 * q * step[1]);
    p.decode_required.push_back(0);
  }
  p.mixed_tokens = {9, 11, 13, 16};
  p.mixed_weight = {20, 20, 20, 30};
  for (const std::int64_t t : p.mixed_tokens) {
    p.mixed_eager.push_back(14000 + 60 * t);
  }
  return p;
}

TEST_CASE("the worked example equals trying all 65,536 lists") {
  for (const bool one_ladder : {true, false}) {
    CAPTURE(one_ladder);
    const SharedProblem p = worked_example(one_ladder);
    std::vector<std::int64_t> best(25, kNoPlan);
    for (const List& list : subsets(p.sizes)) {
      const Outcome outcome = run(p, list);
      for (auto g = static_cast<std::size_t>(outcome.graphs); g < best.size();
           ++g) {
        best[g] = std::min(best[g], outcome.time);
      }
    }
    const Frontier frontier = solve_frontier(SharedListDag(p), 24, 2, {});
    for (std::int64_t g = 0; g < 25; ++g) {
      std::int64_t found = kNoPlan;
      for (const FrontierPoint& point : frontier.points) {
        if (point.graphs <= g) found = point.time;
      }
      CHECK(found == best[static_cast<std::size_t>(g)]);
    }
  }
}

TEST_CASE("limits on bytes and seconds equal trying every list") {
  Random random(3);
  int proven = 0;
  int gaps = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    SharedProblem p = random_problem(random, random.one_in(2));
    price(random, p);
    Resources limits{random.one_in(2) ? kNoLimit : random.in(0, 30),
                     random.one_in(4) ? kNoLimit : random.in(0, 120),
                     random.one_in(2) ? kNoLimit : random.in(0, 60)};
    std::int64_t best = kNoPlan;
    Resources least{kNoLimit, kNoLimit, kNoLimit};
    for (const List& list : subsets(p.sizes)) {
      const Outcome o = run(p, list);
      if (!o.kept_promises) continue;
      least.graphs = std::min(least.graphs, o.graphs);
      least.bytes = std::min(least.bytes, o.bytes);
      least.seconds = std::min(least.seconds, o.seconds);
      if (o.graphs <= limits.graphs && o.bytes <= limits.bytes &&
          o.seconds <= limits.seconds) {
        best = std::min(best, o.time);
      }
    }
    const SharedListDag dag(p);
    const LabelResult result = solve_labels(dag, limits, 1000, {});
    REQUIRE(result.found == (best < kNoPlan));
    if (least.graphs != kNoLimit) {
      CHECK(result.least.graphs == least.graphs);
      CHECK(result.least.bytes == least.bytes);
      CHECK(result.least.seconds == least.seconds);
    }
    if (!result.found) continue;
    CHECK(result.best.time == best);
    CHECK(result.bound == best);
    const Outcome again = run(p, result.best.entries);
    CHECK(again.time == best);
    CHECK(again.bytes == result.best.used.bytes);
    CHECK(within(result.best.used, limits));
    ++proven;
    // Starved of labels, it may miss the best but not overstate its case.
    const LabelResult starved = solve_labels(dag, limits, 1, {});
    if (!starved.found) continue;
    CHECK(starved.best.time >= best);
    CHECK(starved.bound <= best);
    CHECK(run(p, starved.best.entries).time == starved.best.time);
    CHECK(within(starved.best.used, limits));
    gaps += starved.best.time > best ? 1 : 0;
  }
  CHECK(proven > 200);
  MESSAGE("one label a node missed the best on ", gaps, " of ", proven);
}

// ---- ladders
// -------------------------------------------------------------------

Ladder random_ladder(Random& random, std::int64_t most) {
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
  ladder.graphs_each = random.of<std::int64_t>({1, 1, 2, 3});
  return ladder;
}

Outcome run(const Ladder& ladder, const List& list) {
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
std::vector<std::pair<Outcome, List>> every_choice(
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

TEST_CASE("every budget of direct captures equals trying every set") {
  Random random(4);
  for (int i = 0; i < 1200; ++i) {
    CAPTURE(i);
    std::vector<Ladder> ladders;
    const std::int64_t num = random.in(1, 3);
    for (std::int64_t k = 0; k < num; ++k) {
      ladders.push_back(random_ladder(random, num == 1 ? 10 : 4));
    }
    const std::int64_t budget = random.in(0, 25);
    std::vector<std::int64_t> best(static_cast<std::size_t>(budget) + 1,
                                   kNoPlan);
    for (const auto& [outcome, entries] : every_choice(ladders)) {
      if (outcome.graphs > budget) continue;
      std::int64_t& time = best[static_cast<std::size_t>(outcome.graphs)];
      time = std::min(time, outcome.time);
    }
    const Frontier hull = solve_ladders(ladders, budget, false, 2, {});
    const Frontier plain = solve_ladders(ladders, budget, true, 1, {});
    const Frontier path = solve_frontier(LadderDag(ladders), budget, 1, {});
    std::int64_t reached = kNoPlan;
    std::size_t at = 0;
    for (std::int64_t g = 0; g <= budget; ++g) {
      const std::int64_t time = best[static_cast<std::size_t>(g)];
      if (time >= reached) continue;
      reached = time;
      REQUIRE(at < hull.points.size());
      REQUIRE(at < plain.points.size());
      REQUIRE(at < path.points.size());
      CHECK(hull.points[at].time == time);
      CHECK(hull.points[at].graphs == g);
      CHECK(plain.points[at].entries == hull.points[at].entries);
      CHECK(plain.points[at].time == time);
      CHECK(path.points[at].time == time);
      ++at;
    }
    CHECK(hull.points.size() == at);
    CHECK(plain.points.size() == at);
    CHECK(path.points.size() == at);
  }
}

TEST_CASE("direct captures under bytes and seconds equal trying every set") {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    std::vector<Ladder> ladders{random_ladder(random, 4),
                                random_ladder(random, 4)};
    const Resources limits{kNoLimit, random.in(0, 80), random.in(0, 40)};
    std::int64_t best = kNoPlan;
    for (const auto& [o, entries] : every_choice(ladders)) {
      if (o.bytes <= limits.bytes && o.seconds <= limits.seconds) {
        best = std::min(best, o.time);
      }
    }
    const LabelResult result =
        solve_labels(LadderDag(ladders), limits, 1000, {});
    REQUIRE(result.found == (best < kNoPlan));
    if (result.found) CHECK(result.best.time == best);
  }
}

TEST_CASE("the hull picks the plain recurrence's entries on long ladders") {
  Random random(6);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    Ladder ladder;
    const bool noisy = i % 2 == 1;
    const bool ties = i % 3 == 0;
    for (std::int64_t n = 0; n <= 120; ++n) {
      ladder.weight.push_back(n == 0 ? 0 : random.in(0, ties ? 2 : 1'000'000));
      ladder.cost.push_back(1000 + (ties ? n / 10 : 10 * n) +
                            (noisy ? random.in(0, 300) : 0));
      ladder.eager_time.push_back(ladder.weight.back() * 5000);
    }
    const LadderCurve hull = solve_ladder_hull(ladder, 40, {});
    const LadderCurve plain = solve_ladder_plain(ladder, 40, {});
    CHECK(hull.time == plain.time);
    for (std::size_t k = 0; k <= 40; ++k) {
      if (plain.time[k] < kNoPlan) CHECK(hull.entries(k) == plain.entries(k));
    }
  }
}

TEST_CASE("the answer does not depend on the number of threads") {
  Random random(7);
  for (int i = 0; i < 20; ++i) {
    SharedProblem p = random_problem(random, true);
    p.max_num_seqs = 40;
    p.max_decode_tokens = 40 * p.query_lens.back();
    p.max_size = 60;
    p.full_time.clear();
    p.piecewise_time.clear();
    p.sizes.clear();
    p.forced.clear();
    for (std::int64_t size = 0; size <= p.max_size; ++size) {
      p.full_time.push_back(100 + random.in(0, 5) * size);
      p.piecewise_time.push_back(150 + random.in(0, 5) * size);
      if (size > 0) p.sizes.push_back(size);
    }
    const SharedListDag dag(p);
    const Frontier one = solve_frontier(dag, 80, 1, {});
    for (const int threads : {2, 3, 7}) {
      const Frontier many = solve_frontier(dag, 80, threads, {});
      REQUIRE(many.points.size() == one.points.size());
      for (std::size_t k = 0; k < one.points.size(); ++k) {
        CHECK(many.points[k].time == one.points[k].time);
        CHECK(many.points[k].entries == one.points[k].entries);
      }
    }
  }
}

SharedProblem two_steps() {
  SharedProblem p;
  p.query_lens = {1};
  p.max_num_seqs = p.max_decode_tokens = p.max_size = 4;
  p.full_time = p.piecewise_time = {0, 10, 20, 30, 40};
  p.decode_tier = {0, 0};
  p.decode_reqs = {2, 4};
  p.decode_weight = {1, 1};
  p.decode_eager = {100, 100};
  p.decode_required = {0, 0};
  p.sizes = {2, 4};
  return p;
}

TEST_CASE("a solver stops when asked to") {
  SharedProblem p = two_steps();
  p.graph_bytes = {0, 1, 2, 3, 4};
  const SharedListDag dag(p);
  const StopRequested stop = [] { return true; };
  CHECK(solve_frontier(dag, 20, 2, stop).stopped);
  CHECK(solve_unlimited(dag, stop).stopped);
  CHECK(solve_labels(dag, {kNoLimit, 5, kNoLimit}, 10, stop).stopped);
  Ladder ladder;
  ladder.weight = {0, 1, 1};
  ladder.cost = {0, 10, 20};
  ladder.eager_time = {0, 100, 100};
  CHECK(solve_ladders({ladder, ladder}, 20, false, 1, stop).stopped);
}

TEST_CASE("a limit may depend on the largest entry") {
  // Sizes 2 and 4; a pool that leaves no room for a graph above 2.
  SharedProblem p = two_steps();
  p.graph_limits = {4, -1};
  const Frontier frontier = solve_frontier(SharedListDag(p), 4, 1, {});
  REQUIRE(frontier.points.size() == 2);
  CHECK(frontier.points[1].entries == List{2});
}

}  // namespace
}  // namespace specgrid
