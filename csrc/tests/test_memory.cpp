// When memory runs out: every function says so and gives back what it took.
//
// The allocator below counts what is in use, and refuses everything from a
// chosen request on.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <variant>
#include <vector>

#include "core/capture.hpp"
#include "core/dispatch.hpp"
#include "core/lookup.hpp"
#include "core/plan_frontier.hpp"
#include "core/plan_labels.hpp"
#include "core/plan_ladder.hpp"
#include "core/plan_merge.hpp"
#include "core/plan_shared.hpp"
#include "core/schedule.hpp"
#include "core/tune_compress.hpp"
#include "core/tune_grid.hpp"
#include "core/tune_joint.hpp"
#include "tests/with_groups.hpp"

namespace {

constexpr std::int64_t kPlenty = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> requests_left{kPlenty};
std::atomic<std::int64_t> blocks_in_use{0};

}  // namespace

// Every form a program without over-aligned types uses.
void* operator new(std::size_t size) {
  if (requests_left.load() != kPlenty && requests_left.fetch_sub(1) <= 0) {
    throw std::bad_alloc();
  }
  void* block = std::malloc(size == 0 ? 1 : size);
  if (block == nullptr) throw std::bad_alloc();
  ++blocks_in_use;
  return block;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size) { return operator new(size); }

void operator delete(void* block) noexcept {
  if (block != nullptr) --blocks_in_use;
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  operator delete(block);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
  operator delete(block);
}
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, std::size_t) noexcept {
  operator delete(block);
}

namespace specgrid {
namespace {

using Values = std::vector<std::int64_t>;

// Calls with memory for n requests, n = 0, 1, 2 and so on until that is enough.
// Returns how often it was not.
template <typename Call>
int count_failures(const Call& call) {
  int failures = 0;
  for (std::int64_t n = 0;; n += 1 + n / 8) {
    const std::int64_t before = blocks_in_use.load();
    bool failed = false;
    requests_left = n;
    try {
      call();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    const bool enough = requests_left.load() >= 0;
    requests_left = kPlenty;
    CHECK(blocks_in_use.load() == before);
    // What a function can do without, it may: a buffer, a thread.
    if (enough) {
      CHECK_FALSE(failed);
      return failures;
    }
    failures += failed ? 1 : 0;
  }
}

TEST_CASE("schedules, lookups and capture sizes out of memory") {
  const Values rows{5, 8, 1, 3, 1, 1, 4, 4, 9, 2, 5, 8, 4, 9, 0, 1, 4, 1, 3, 3};
  for (const Form form : {Form::kBatchOnly, Form::kGrid, Form::kRagged}) {
    CHECK(count_failures([&] { static_cast<void>(build_grid(rows, form)); }) >
          1);
  }
  const Values twice{1, 4, 1, 3, 1, 5, 8, 1, 3, 1,
                     5, 8, 4, 9, 1, 5, 8, 4, 9, 1};
  CHECK(count_failures(
            [&] { static_cast<void>(build_grid(twice, Form::kGrid)); }) > 1);
  const Grid grid = std::get<Grid>(build_grid(rows, Form::kGrid));
  CHECK(count_failures([&] {
          const Lookup lookup = make_lookup(grid, 900, 900);
          static_cast<void>(tiers(lookup));
          static_cast<void>(canonical(lookup));
        }) > 5);
  CaptureConfig config;
  config.max_num_seqs = 64;
  config.query_len = 4;
  config.max_num_batched_tokens = 8192;
  const Values sizes{9, 4, 4};
  CHECK(count_failures([&] { static_cast<void>(capture_sizes(config)); }) > 2);
  CHECK(count_failures([&] { static_cast<void>(align_sizes(sizes, 16, 3)); }) >
        1);
  config.explicit_sizes = sizes;
  CHECK(count_failures([&] { static_cast<void>(capture_sizes(config)); }) > 2);
}

TEST_CASE("graphs and dispatch out of memory") {
  const Values sizes{1, 2, 4, 8, 16, 24};
  const Values query_lens{1, 3};
  const Values lora_cases{0, 2};
  const std::vector<DiagonalRun> diagonal{{1, 5, 8}, {3, 1, 4}};
  for (const GraphPolicy policy :
       {GraphPolicy::kVllm033, GraphPolicy::kReachable}) {
    GraphConfig config;
    config.sizes = sizes;
    config.query_lens = query_lens;
    config.lora_cases = lora_cases;
    config.max_num_seqs = 8;
    config.max_size = 24;
    config.decode_query_len = 3;
    config.decode_mode = GraphMode::kFull;
    config.mixed_mode = GraphMode::kPiecewise;
    config.num_ubatches = 2;
    config.policy = policy;
    config.diagonal = diagonal;
    CHECK(count_failures([&] {
            const Dispatcher dispatcher(config, true);
            static_cast<void>(dispatcher.candidates());
            static_cast<void>(dispatcher.used_shapes(diagonal));
          }) > 20);
  }
}

TEST_CASE("planners out of memory, their threads as well") {
  const SharedProblem p = with_groups(3);
  CHECK(count_failures([&] {
          const SharedListDag list(p);
          const KeptDag dag(list, 2);
          static_cast<void>(solve_frontier(dag, 9, 2, {}));
        }) > 20);
  const SharedListDag dag(p);
  CHECK(count_failures([&] { static_cast<void>(solve_unlimited(dag, {})); }) >
        2);
  for (const Resources limits :
       {Resources{6, 9, kNoLimit}, Resources{6, 9, 9}}) {
    CHECK(count_failures([&] {
            static_cast<void>(solve_labels(dag, limits, 2, {}));
          }) > 20);
    CHECK(count_failures(
              [&] { static_cast<void>(solve_roughly(dag, limits, {})); }) > 20);
  }
  Ladder ladder;
  ladder.weight = {0, 1, 1, 2};
  ladder.cost = {0, 10, 30, 20};
  ladder.eager_time = {0, 100, 100, 200};
  const std::vector<Ladder> ladders{ladder, ladder};
  for (const bool plain : {false, true}) {
    CHECK(count_failures([&] {
            static_cast<void>(solve_ladders(ladders, 6, plain, 2, {}));
          }) > 20);
  }
  CHECK(count_failures([&] {
          static_cast<void>(solve_frontier(LadderDag(ladders), 6, 1, {}));
        }) > 20);
}

TEST_CASE("the tuner out of memory, its threads as well") {
  const Values batches{1, 1, 9};
  const Values contexts{0, 10, 0};
  const std::vector<double> us{10, 20, 50};
  const Values columns{0, 5, 10, 20};
  const std::vector<double> tokens(8, 1.0);
  TuneInput input;
  input.surfaces = {{batches, contexts, us}, {batches, contexts, us}};
  input.tokens_per_step = tokens;
  input.max_num_seqs = 6;
  input.columns = columns;
  input.max_us_per_token = 100;
  input.tolerance = 1;
  input.max_rows = 3;
  input.max_columns = 2;
  CHECK(count_failures([&] { static_cast<void>(tune_grid(input)); }) > 20);
  const std::vector<std::int32_t> table(24, 1);
  CHECK(count_failures([&] {
          static_cast<void>(tune_report(input, tokens, table));
        }) > 20);
  const std::vector<double> asked{1, 2, 9};
  CHECK(count_failures([&] {
          static_cast<void>(
              surface_rows({batches, contexts, us}, asked, columns, 2));
        }) > 10);
  const std::vector<double> cost{1, 2, 3, 4, 9, 2, 7, 1, 5, 5, 2, 8};
  CHECK(count_failures(
            [&] { static_cast<void>(compress_line(cost, 2, 3, false)); }) > 5);
  for (const bool non_increasing : {false, true}) {
    CHECK(count_failures([&] {
            static_cast<void>(
                compress_bands(cost, 3, 2, 2, 3, non_increasing, 2));
          }) > 10);
  }
  const std::vector<double> share{1, 1, 2};
  const std::vector<double> step{5, 6, 7, 4, 8, 9};
  JointInput joint;
  joint.labels = 2;
  joint.share = share;
  joint.graph_us = step;
  joint.eager_us = step;
  joint.max_graphs = 2;
  CHECK(count_failures([&] { static_cast<void>(tune_joint(joint)); }) > 5);
}

}  // namespace
}  // namespace specgrid
