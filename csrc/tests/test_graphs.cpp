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
using Numbers = std::vector<std::int64_t>;

// Owns the lists a config only views.
struct Setup {
  Numbers sizes{};
  Numbers query_lens{1};
  Numbers lora_cases{0};
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

// Several query lengths over a 16-token grid, as a schedule has them.
Setup several_lengths(GraphPolicy policy) {
  Setup setup{.query_lens = {1, 4, 5},
              .lora_cases = {0, 1, 4},
              .diagonal = {{1, 33, 64}, {4, 9, 32}, {5, 1, 8}},
              .max_num_seqs = 64,
              .decode_query_len = 5,
              .policy = policy};
  for (std::int64_t size = 16; size <= 256; size += 16) {
    setup.sizes.push_back(size);
  }
  return setup;
}

specgrid::Step uniform(std::int64_t reqs, std::int64_t query_len) {
  return {.num_reqs = reqs,
          .num_tokens = reqs * query_len,
          .query_len = query_len,
          .max_query_len = query_len};
}

const GraphShape* serve(const Dispatcher& dispatcher,
                        const specgrid::Step& step) {
  const std::int64_t at = dispatcher.dispatch(step);
  if (at < 0) return nullptr;
  return &dispatcher.graphs().shapes[dispatcher.locate(at).shape];
}

Numbers tokens_of(const Dispatcher& dispatcher, GraphMode mode) {
  Numbers tokens;
  for (const GraphShape& shape : dispatcher.graphs().shapes) {
    if (shape.mode == mode) tokens.push_back(shape.num_tokens);
  }
  return tokens;
}

}  // namespace

TEST_CASE("a uniform batch pads up to a larger FULL graph (vLLM #53407)") {
  const Setup setup{
      .sizes = {1, 2, 4, 8, 16, 24}, .query_lens = {3}, .decode_query_len = 3};
  const Dispatcher dispatcher = setup.build();
  CHECK(tokens_of(dispatcher, GraphMode::kFull) == Numbers{24, 18, 9, 6, 3});
  const GraphShape* graph = serve(dispatcher, uniform(4, 3));
  REQUIRE(graph != nullptr);
  CHECK(graph->num_tokens == 18);
  CHECK(graph->num_reqs == 6);
  CHECK(graph->query_len == 3);
}

TEST_CASE("the shared ladder hides a graph that a ladder per length finds") {
  Setup setup{.sizes = {5, 16, 20},
              .query_lens = {1, 5},
              .max_num_seqs = 16,
              .decode_query_len = 5};
  const Dispatcher shared = setup.build();
  CHECK(serve(shared, uniform(3, 5))->num_reqs == 0);  // PIECEWISE
  const auto served = shared.explain(uniform(3, 5));
  REQUIRE(served.own >= 0);
  REQUIRE(served.hidden_by >= 0);
  const auto& shapes = shared.graphs().shapes;
  CHECK(shapes[shared.locate(served.own).shape].num_tokens == 20);
  CHECK(shapes[shared.locate(served.hidden_by).shape].query_len == 1);
  setup.policy = GraphPolicy::kPerQueryLength;
  const Dispatcher per_length = setup.build();
  CHECK(serve(per_length, uniform(3, 5))->num_tokens == 20);
  CHECK(per_length.explain(uniform(3, 5)).hidden_by == -1);
}

TEST_CASE("reachable keeps what batches use and the widest of a tier") {
  const Dispatcher own = several_lengths(GraphPolicy::kPerQueryLength).build();
  const Dispatcher kept = several_lengths(GraphPolicy::kReachable).build();
  CHECK(kept.graphs().num_graphs() < own.graphs().num_graphs());
  for (const auto& run : several_lengths(GraphPolicy::kReachable).diagonal) {
    for (std::int64_t b = run.batch_lo; b <= run.batch_hi; ++b) {
      const GraphShape* before = serve(own, uniform(b, run.query_len));
      const GraphShape* after = serve(kept, uniform(b, run.query_len));
      REQUIRE(before != nullptr);
      REQUIRE(after != nullptr);
      CHECK(before->num_tokens == after->num_tokens);
    }
  }
  // Batches 9..16 of length 2 are beyond the widest graph, but shrink to it.
  const Setup wide{.sizes = {4, 8, 12},
                   .query_lens = {2},
                   .diagonal = {{2, 9, 16}},
                   .max_num_seqs = 16,
                   .decode_query_len = 2,
                   .policy = GraphPolicy::kReachable};
  const Dispatcher dispatcher = wide.build();
  CHECK(tokens_of(dispatcher, GraphMode::kFull) == Numbers{12});
  CHECK(serve(dispatcher, uniform(3, 2))->num_reqs == 6);
  CHECK(dispatcher.used_shapes(wide.diagonal) ==
        std::vector<std::uint8_t>{1, 1, 1, 1});
}

TEST_CASE("an index leads back to its shape and LoRA case, for every graph") {
  for (const auto policy : {GraphPolicy::kVllm033, GraphPolicy::kPerQueryLength,
                            GraphPolicy::kReachable}) {
    const Dispatcher dispatcher = several_lengths(policy).build();
    const auto& graphs = dispatcher.graphs();
    std::vector<bool> seen(static_cast<std::size_t>(graphs.num_graphs()));
    for (std::size_t shape = 0; shape < graphs.shapes.size(); ++shape) {
      for (std::int64_t lora = 0; lora < graphs.num_lora_cases; ++lora) {
        const std::int64_t index =
            graphs.index_of(static_cast<std::int32_t>(shape), lora);
        const auto place = dispatcher.locate(index);
        CHECK(place.shape == shape);
        CHECK(static_cast<std::int64_t>(place.lora) == lora);
        CHECK(!seen[static_cast<std::size_t>(index)]);
        seen[static_cast<std::size_t>(index)] = true;
      }
    }
  }
}

TEST_CASE("prepared answers equal the search, at every batch and length") {
  for (const auto policy : {GraphPolicy::kVllm033, GraphPolicy::kPerQueryLength,
                            GraphPolicy::kReachable}) {
    Setup setup = several_lengths(policy);
    const Dispatcher prepared = setup.build();
    // One size beyond the prepared range turns the answers off.
    setup.sizes.push_back(1 << 20);
    GraphConfig config = setup.config();
    config.max_size = 256;
    const Dispatcher searched(config, true);
    for (std::int64_t q = 0; q <= 7; ++q) {
      for (std::int64_t b = 1; b <= 64; ++b) {
        specgrid::Step step = uniform(b, q);
        if (q == 0) step.num_tokens = b;
        const GraphShape* one = serve(prepared, step);
        const GraphShape* other = serve(searched, step);
        if (one == nullptr) {
          CHECK((other == nullptr || other->num_tokens == 1 << 20));
        } else {
          REQUIRE(other != nullptr);
          CHECK(one->num_tokens == other->num_tokens);
          CHECK(one->query_len == other->query_len);
        }
      }
    }
  }
}

TEST_CASE("LoRA counts run at the next case; V1 does not clamp above") {
  const Setup setup{.sizes = {8}, .lora_cases = {0, 1, 4}};
  const auto served = [](const Dispatcher& dispatcher, std::int64_t active) {
    specgrid::Step step = uniform(2, 1);
    step.num_active_loras = active;
    const std::int64_t at = dispatcher.dispatch(step);
    if (at < 0) return std::int64_t{-1};
    return dispatcher.lora_cases()[dispatcher.locate(at).lora];
  };
  const Dispatcher v2 = setup.build(true);
  const Dispatcher v1 = setup.build(false);
  CHECK(served(v2, 0) == 0);
  CHECK(served(v2, 2) == 4);
  CHECK(served(v2, 9) == 4);
  CHECK(served(v1, 4) == 4);
  CHECK(served(v1, 9) == -1);
  CHECK(v1.effective_loras(9) == 9);
}

TEST_CASE("variable-length graphs bound the longest query") {
  const Setup setup{.sizes = {2, 8, 64},
                    .max_num_seqs = 4,
                    .decode_query_len = 4,
                    .mixed_mode = GraphMode::kNone,
                    .varlen_decode = true};
  const Dispatcher dispatcher = setup.build();
  CHECK(tokens_of(dispatcher, GraphMode::kFull) == Numbers{8, 2});
  CHECK(serve(dispatcher,
              {.num_reqs = 3, .num_tokens = 7, .max_query_len = 4}) != nullptr);
  CHECK(serve(dispatcher, {.num_reqs = 3, .num_tokens = 7}) == nullptr);
}

TEST_CASE("empty, single and largest sizes") {
  const Dispatcher nothing = Setup{}.build();
  CHECK(nothing.graphs().num_graphs() == 0);
  CHECK(nothing.dispatch(uniform(1, 1)) == -1);
  CHECK(nothing.candidates().lora_cases.empty());
  CHECK(nothing.explain(uniform(1, 1)).own == -1);

  constexpr std::int64_t kMost = 2147483647;
  const Setup huge{.sizes = {1, kMost - 1, kMost},
                   .query_lens = {2, kMost},
                   .max_num_seqs = kMost,
                   .decode_query_len = kMost};
  const Dispatcher dispatcher = huge.build();
  CHECK(serve(dispatcher, uniform(1, kMost))->query_len == kMost);
  CHECK(serve(dispatcher, uniform(3, 2))->num_tokens == kMost - 1);
  CHECK(dispatcher.dispatch(uniform(2, kMost)) == -1);
}

TEST_CASE("many steps equal one at a time, and a bad one is named") {
  const Dispatcher dispatcher = several_lengths(GraphPolicy::kVllm033).build();
  const Numbers reqs{1, 2, 63, 64};
  const Numbers tokens{5, 10, 63, 256};
  const Numbers lens{5, 5, 1, 0};
  const Numbers lora{1};
  Numbers out(4);
  CHECK(specgrid::dispatch_many(dispatcher, {reqs, tokens, lens, lora}, out) ==
        -1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    CHECK(out[i] == dispatcher.dispatch({.num_reqs = reqs[i],
                                         .num_tokens = tokens[i],
                                         .query_len = lens[i],
                                         .num_active_loras = 1}));
  }
  const Numbers bad{1, 2, 65, 64};
  CHECK(specgrid::dispatch_many(dispatcher, {bad, tokens, lens, lora}, out) ==
        2);
}

TEST_CASE("twins follow their graph; equal tokens keep vLLM's order") {
  Setup setup{.sizes = {11, 12},
              .query_lens = {3, 4},
              .lora_cases = {0, 7},
              .max_num_seqs = 16,
              .decode_query_len = 4,
              .mixed_mode = GraphMode::kNone,
              .num_ubatches = 2};
  const Dispatcher dispatcher = setup.build();
  const auto& graphs = dispatcher.graphs();
  // Size 11 asks for 12 tokens at both lengths, so size 12 adds nothing.
  REQUIRE(graphs.shapes.size() == 4);
  std::vector<std::int64_t> order(8);
  for (std::int32_t shape = 0; shape < 4; ++shape) {
    const auto at = static_cast<std::size_t>(shape);
    CHECK(graphs.shapes[at].num_tokens == 12);
    CHECK(graphs.shapes[at].query_len == (shape < 2 ? 3 : 4));
    CHECK(graphs.shapes[at].num_ubatches == 1 + shape % 2);
    for (const std::int64_t lora : {0, 1}) {
      // All shapes of one LoRA case, then all of the next.
      CHECK(graphs.index_of(shape, lora) == lora * 4 + shape);
    }
  }
  setup.decode_mode = GraphMode::kNone;
  setup.mixed_mode = GraphMode::kFull;
  setup.max_num_seqs = 6;
  const Dispatcher mixed = setup.build();
  CHECK(tokens_of(mixed, GraphMode::kFull) == Numbers{12, 12, 11});
  CHECK(serve(mixed, {.num_reqs = 6,
                      .num_tokens = 12,
                      .query_len = 2,
                      .num_ubatches = 2}) != nullptr);
}

TEST_CASE("query lengths beyond the prepared answers are searched for") {
  const Setup setup{.sizes = {4097, 8194},
                    .query_lens = {4097},
                    .decode_query_len = 4097,
                    .mixed_mode = GraphMode::kNone};
  const Dispatcher dispatcher = setup.build();
  CHECK(serve(dispatcher, uniform(1, 4097))->num_reqs == 1);
  CHECK(serve(dispatcher, uniform(2, 4097))->num_reqs == 2);
  CHECK(serve(dispatcher, uniform(3, 4097)) == nullptr);
  CHECK(serve(dispatcher, uniform(1, 4096)) == nullptr);
}

TEST_CASE("nothing is explained for steps no graph could be meant for") {
  const Setup setup{.sizes = {8}, .lora_cases = {0, 1}, .num_ubatches = 2};
  const Dispatcher v1 = setup.build(false);
  specgrid::Step step = uniform(4, 1);
  CHECK(v1.explain(step).own >= 0);
  step.num_active_loras = 2;  // more than any case
  CHECK(v1.explain(step).own == -1);
  step = uniform(4, 1);
  step.num_ubatches = 3;  // neither whole nor twins
  CHECK(v1.explain(step).own == -1);
  CHECK(v1.explain(step).graph == -1);
  CHECK(v1.explain(uniform(0, 1)).own == -1);
}

TEST_CASE("an active LoRA count runs at the case that holds it") {
  const Setup setup{.sizes = {8}, .lora_cases = {4, 0, 2}};
  const Dispatcher v2 = setup.build(true);
  CHECK(v2.effective_loras(0) == 0);
  CHECK(v2.effective_loras(1) == 2);
  CHECK(v2.effective_loras(2) == 2);
  CHECK(v2.effective_loras(3) == 4);
  CHECK(v2.effective_loras(5) == 4);
  CHECK(setup.build(false).effective_loras(5) == 5);
  // Without any LoRA case an active LoRA finds no graph at all.
  CHECK(Setup{.sizes = {8}}.build(true).effective_loras(1) == 1);
}

TEST_CASE("a step with an impossible number is not sound") {
  const Dispatcher dispatcher = Setup{.sizes = {8}}.build();
  const specgrid::Step sound = uniform(8, 1);
  CHECK(dispatcher.is_sound(sound));
  for (const auto member :
       {&specgrid::Step::num_reqs, &specgrid::Step::num_tokens,
        &specgrid::Step::query_len, &specgrid::Step::num_active_loras,
        &specgrid::Step::max_query_len}) {
    specgrid::Step step = sound;
    step.*member = -1;
    CHECK_FALSE(dispatcher.is_sound(step));
    step.*member = 0;
    CHECK(dispatcher.is_sound(step));
  }
  specgrid::Step step = sound;
  step.num_ubatches = 0;
  CHECK_FALSE(dispatcher.is_sound(step));
  CHECK_FALSE(dispatcher.is_sound(uniform(9, 1)));
}

TEST_CASE("runs of query lengths without graphs keep none (reachable)") {
  const Setup setup{.sizes = {4, 8},
                    .query_lens = {1, 4},
                    .diagonal = {{1, 5, 8}, {2, 1, 4}, {9, 1, 2}},
                    .decode_query_len = 1,
                    .mixed_mode = GraphMode::kNone,
                    .policy = GraphPolicy::kReachable};
  const Dispatcher dispatcher = setup.build();
  CHECK(tokens_of(dispatcher, GraphMode::kFull) == Numbers{8});
  CHECK(serve(dispatcher, uniform(5, 1))->num_tokens == 8);
}

TEST_CASE("no FULL graph holds more requests than can run") {
  const Setup setup{.sizes = {8, 9}, .mixed_mode = GraphMode::kNone};
  CHECK(tokens_of(setup.build(), GraphMode::kFull) == Numbers{8});
}

TEST_CASE("a size that an earlier one was rounded to adds no graph") {
  const Setup setup{.sizes = {1, 4, 12},
                    .query_lens = {4},
                    .decode_query_len = 4,
                    .mixed_mode = GraphMode::kNone};
  CHECK(tokens_of(setup.build(), GraphMode::kFull) == Numbers{12, 4});
}

TEST_CASE("a graph is hidden by one of exactly the step's tokens") {
  // Length 2 has graphs of 14 and 20 tokens, length 4 of 16 and 20.
  const Setup setup{.sizes = {13, 20},
                    .query_lens = {2, 4},
                    .max_num_seqs = 16,
                    .decode_query_len = 4};
  const Dispatcher dispatcher = setup.build();
  CHECK(serve(dispatcher, uniform(7, 2))->num_tokens == 14);
  CHECK(serve(dispatcher, uniform(8, 2))->mode == GraphMode::kPiecewise);
  CHECK(serve(dispatcher, uniform(9, 2))->mode == GraphMode::kFull);
  CHECK(dispatcher.explain(uniform(8, 2)).hidden_by >= 0);
}
