// Captured shapes and dispatch: orders, policies, and the edges of tables.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "core/dispatch.hpp"
#include "core/graphs.hpp"

namespace {

using specgrid::Dispatcher;
using specgrid::GraphConfig;
using specgrid::GraphMode;
using specgrid::GraphPolicy;
using specgrid::GraphShape;

// Owns the lists a config only views.
struct Setup {
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> query_lens{1};
  std::vector<std::int64_t> lora_cases{0};
  std::vector<specgrid::DiagonalRun> diagonal{};
  std::int64_t max_num_seqs = 8;
  std::int64_t decode_query_len = 1;
  GraphMode decode_mode = GraphMode::kFull;
  GraphMode mixed_mode = GraphMode::kPiecewise;
  std::int64_t num_ubatches = 1;
  bool varlen_decode = false;
  GraphPolicy policy = GraphPolicy::kVllm033;

  [[nodiscard]] GraphConfig config() const {
    return {.sizes = sizes,
            .query_lens = query_lens,
            .lora_cases = lora_cases,
            .max_num_seqs = max_num_seqs,
            .max_size = sizes.empty() ? 1 : sizes.back(),
            .decode_query_len = decode_query_len,
            .decode_mode = decode_mode,
            .mixed_mode = mixed_mode,
            .varlen_decode = varlen_decode,
            .num_ubatches = num_ubatches,
            .policy = policy,
            .diagonal = diagonal};
  }
  [[nodiscard]] Dispatcher build(bool clamp_loras = true) const {
    return Dispatcher(config(), clamp_loras);
  }
};

const GraphShape* serve(const Dispatcher& dispatcher, std::int64_t reqs,
                        std::int64_t query_len) {
  const std::int64_t at = dispatcher.dispatch({.num_reqs = reqs,
                                               .num_tokens = reqs * query_len,
                                               .query_len = query_len,
                                               .max_query_len = query_len});
  if (at < 0) return nullptr;
  return &dispatcher.graphs().shapes[dispatcher.locate(at).shape];
}

}  // namespace

TEST_CASE("a uniform batch pads up to a larger FULL graph (vLLM #53407)") {
  Setup setup{
      .sizes = {1, 2, 4, 8, 16, 24}, .query_lens = {3}, .decode_query_len = 3};
  const Dispatcher dispatcher = setup.build();
  const GraphShape* graph = serve(dispatcher, 4, 3);
  REQUIRE(graph != nullptr);
  CHECK(graph->mode == GraphMode::kFull);
  CHECK(graph->num_tokens == 18);
  CHECK(graph->num_reqs == 6);
}

TEST_CASE("the shared ladder hides a graph that a ladder per length finds") {
  Setup setup{.sizes = {5, 16, 20},
              .query_lens = {1, 5},
              .max_num_seqs = 16,
              .decode_query_len = 5};
  const Dispatcher shared = setup.build();
  CHECK(serve(shared, 3, 5)->mode == GraphMode::kPiecewise);
  const auto served =
      shared.explain({.num_reqs = 3, .num_tokens = 15, .query_len = 5});
  CHECK(served.own >= 0);
  REQUIRE(served.hidden_by >= 0);
  const auto hider = shared.locate(served.hidden_by).shape;
  CHECK(shared.graphs().shapes[hider].query_len == 1);
  setup.policy = GraphPolicy::kPerQueryLength;
  CHECK(serve(setup.build(), 3, 5)->mode == GraphMode::kFull);
}
