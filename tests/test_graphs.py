# SPDX-License-Identifier: Apache-2.0
"""Graph sets: public cases, orders, variants of graphs, and refusals."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from specgrid import (
    ConfigError,
    Graph,
    GraphSet,
    Schedule,
    ScheduleError,
    Tier,
    capture_sizes,
)

pytestmark = pytest.mark.usefixtures("backend")

FULL, PIECEWISE = "FULL", "PIECEWISE"


def default_graphs(
    max_num_seqs: int, k: int, schedule: Any = None, **settings: Any
) -> GraphSet:
    """The graphs of a server that leaves its capture sizes to vLLM."""
    return GraphSet(
        capture_sizes(max_num_seqs, k, schedule),
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=k,
        schedule=schedule,
        **settings,
    )


# ---- public cases ------------------------------------------------------------------


def test_padded_full_graph_beats_a_nearer_piecewise_one() -> None:
    """vLLM #52000, #53407: 4 requests of 3 tokens used to take PIECEWISE 16."""
    graphs = GraphSet([1, 2, 4, 8, 16, 24], max_num_seqs=8, num_speculative_tokens=2)
    assert [g.num_tokens for g in graphs.graphs(FULL)] == [24, 18, 9, 6, 3]
    assert graphs.dispatch(4, 12, 3) == Graph(FULL, 18, 6, 3, 0)


def test_v1_rounds_sizes_to_multiples_of_the_query_length() -> None:
    """vLLM #28015, #28207: sizes 4 and 8 at 3 tokens a request captured a prefill."""
    graphs = GraphSet(
        [1, 2, 4, 8], max_num_seqs=8, num_speculative_tokens=2, runner="v1"
    )
    assert graphs.sizes == [3, 6]
    assert [g[1:4] for g in graphs.graphs(FULL)] == [(6, 2, 3), (3, 1, 3)]
    assert graphs.max_size == 6


def test_a_step_with_prompt_chunks_is_never_full() -> None:
    """vLLM #50532, #49918: 6 decodes and 2 prompt chunks of 8 tokens look uniform."""
    graphs = default_graphs(64, 7)
    assert graphs.dispatch(8, 64, query_len=None).mode == PIECEWISE
    assert graphs.dispatch(8, 64, query_len=8).mode == FULL


def test_only_the_decode_query_length_has_full_graphs() -> None:
    """vLLM's test of the V2 runner, 512 requests and 7 drafts."""
    graphs = default_graphs(512, 7)
    modes = [graphs.dispatch(4, 4 * q, q).mode for q in range(1, 9)]
    assert modes == [PIECEWISE] * 7 + [FULL]


def test_three_tokens_over_two_requests_are_not_a_uniform_step() -> None:
    """vLLM's test of the V2 runner."""
    graphs = GraphSet([1, 2, 3, 4], max_num_seqs=4)
    assert graphs.dispatch(2, 3).mode == PIECEWISE
    assert graphs.dispatch(2, 3).num_tokens == 3


def test_piecewise_sizes_stay_unaligned() -> None:
    """vLLM #46324 (open): with PIECEWISE alone nothing is rounded, on V1 either."""
    graphs = GraphSet(
        [1, 2, 4, 8],
        max_num_seqs=8,
        num_speculative_tokens=15,
        mode="PIECEWISE",
        runner="v1",
    )
    assert graphs.sizes == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("max_num_seqs", "k", "rows", "served"),
    [
        # vLLM #50488, #54418: (requests, query length) -> tokens.
        (128, 16, [(1, 16, 16), (17, 128, 2)], {(16, 17): 272, (128, 3): 384}),
        # vLLM #50488: k above the maximum is clamped; no length 6.
        (16, 3, [(1, 16, 5)], {(16, 4): 64}),
        # vLLM #50488: the gap 3-4 keeps 4 drafts, the tail 6-17 keeps 1.
        (17, 4, [(1, 2, 4), (5, 5, 1)], {(4, 5): 20, (17, 2): 34}),
        # vLLM #48494.
        (128, 6, [(1, 8, 6), (9, 32, 4), (33, 128, 3)], {(8, 7): 56, (32, 5): 160}),
        # vLLM-ascend #12368.
        (128, 3, [(1, 32, 3), (33, 64, 2), (65, 128, 1)], {(128, 2): 256}),
    ],
)
def test_the_widest_batch_of_each_tier_has_its_graph(
    max_num_seqs: int, k: int, rows: Any, served: dict[tuple[int, int], int]
) -> None:
    graphs = default_graphs(max_num_seqs, k, rows)
    for (reqs, query_len), tokens in served.items():
        graph = graphs.explain(reqs, query_len).graph
        assert graph == Graph(FULL, tokens, reqs, query_len, 0)


def test_clamped_schedule_adds_no_query_length() -> None:
    """vLLM #50488: 1-16:5 with 3 drafts at most is length 4 alone, no size 6."""
    graphs = default_graphs(16, 3, [(1, 16, 5)])
    assert graphs.query_lens == (4,)
    assert 6 not in graphs.sizes


def test_narrow_tier_reaches_its_widest_batch_under_the_merged_rule() -> None:
    """vLLM #50488 review: sizes of length 17 alone stop length 3 at 227 of 256."""
    rows = [(1, 16, 16), (17, 256, 2)]
    sizes = capture_sizes(256, 16, rows, rule="vllm-50488")
    graphs = GraphSet(sizes, max_num_seqs=256, num_speculative_tokens=16, schedule=rows)
    assert graphs.explain(256, 3).graph == Graph(FULL, 768, 256, 3, 0)
    alone = GraphSet(
        [17 * n for n in (1, 2, 4, *range(8, 257, 8))],
        max_num_seqs=256,
        num_speculative_tokens=16,
        schedule=rows,
    )
    assert max(g.num_reqs or 0 for g in alone.graphs(FULL) if g.query_len == 3) == 227


def test_full_graphs_only_for_the_lengths_of_the_schedule() -> None:
    """vLLM #45953's test: 1-31:4, 32-128:3, at most 7 drafts."""
    graphs = default_graphs(128, 7, [(1, 31, 4), (32, 128, 3)])
    modes = {q: graphs.dispatch(4, 4 * q, q).mode for q in range(1, 9)}
    assert [q for q, mode in modes.items() if mode == FULL] == [4, 5]
    assert set(modes.values()) == {FULL, PIECEWISE}


def test_draft_decode_takes_no_query_length_from_the_schedule() -> None:
    """vLLM #48329, #48494: k=1 of 7 gave a draft decode the length 1 + (1 - 7)."""
    graphs = GraphSet(
        [1, 2, 4],
        max_num_seqs=4,
        num_speculative_tokens=7,
        schedule=[(1, 4, 1)],
        decode_query_len=1,
    )
    assert graphs.query_lens == (1,)
    assert graphs.tiers == [Tier(1, 0, 1, 4)]


def test_tier_tops_of_the_documented_dflash_schedule() -> None:
    """vLLM's user guide, 512 requests: 2048 tokens suffice, not 6144."""
    graphs = default_graphs(512, 11, [(1, 32, 7), (33, 128, 5), (129, 512, 3)])
    tops = {t.query_len: t.query_len * t.max_batch for t in graphs.tiers}
    assert tops == {8: 256, 6: 768, 4: 2048}
    assert graphs.explain(83, 6).graph.num_tokens == 498
    assert graphs.explain(83, 6).graph.mode == FULL
    assert graphs.explain(84, 6).graph.mode != FULL


# ---- what is captured --------------------------------------------------------------


def test_capture_order_is_piecewise_then_full_largest_first() -> None:
    graphs = GraphSet([4, 2], max_num_seqs=4, lora_cases=(0, 3))
    assert graphs.all_graphs == [
        Graph(PIECEWISE, 4, None, None, 0),
        Graph(PIECEWISE, 4, None, None, 3),
        Graph(PIECEWISE, 2, None, None, 0),
        Graph(PIECEWISE, 2, None, None, 3),
        Graph(FULL, 4, 4, 1, 0),
        Graph(FULL, 4, 4, 1, 3),
        Graph(FULL, 2, 2, 1, 0),
        Graph(FULL, 2, 2, 1, 3),
    ]
    assert graphs.num_graphs == 8
    assert graphs.count(FULL) == graphs.count(PIECEWISE) == 4
    assert graphs.graphs("NONE") == []


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        ("NONE", (0, 0)),
        ("PIECEWISE", (0, 3)),
        ("FULL", (3, 0)),
        ("FULL_DECODE_ONLY", (3, 0)),
        ("FULL_AND_PIECEWISE", (3, 3)),
    ],
)
def test_modes(mode: str, counts: tuple[int, int]) -> None:
    graphs = GraphSet([1, 2, 4], max_num_seqs=4, mode=mode)
    assert (graphs.count(FULL), graphs.count(PIECEWISE)) == counts
    # FULL alone also serves mixed steps, with the requests it was captured for.
    mixed = graphs.dispatch(2, 3)
    assert mixed.mode == {
        "FULL": FULL,
        "PIECEWISE": PIECEWISE,
        "FULL_AND_PIECEWISE": PIECEWISE,
    }.get(mode, "NONE")


def test_no_size_means_no_graph() -> None:
    graphs = GraphSet([], max_num_seqs=4, num_speculative_tokens=2)
    assert graphs.all_graphs == []
    assert graphs.dispatch(2, 6, 3) == Graph("NONE", 6, 2, None, 0)
    assert graphs.dispatch_many([1, 2], [3, 6], 3).tolist() == [-1, -1]
    assert len(graphs.candidate_table()) == 0
    assert graphs.coverage().counts == {"FULL": 0, "PIECEWISE": 0, "NONE": 4}


def test_variable_length_decode_graphs_bound_the_query_length() -> None:
    graphs = GraphSet(
        [2, 4, 8, 16, 64],
        max_num_seqs=4,
        num_speculative_tokens=3,
        mode="FULL_DECODE_ONLY",
        varlen_decode=True,
    )
    assert graphs.graphs(FULL)[0] == Graph(FULL, 16, 4, None, 0, max_query_len=4)
    assert graphs.dispatch(3, 7, max_query_len=4).num_tokens == 8
    assert graphs.dispatch(3, 7, max_query_len=5).mode == "NONE"
    assert graphs.dispatch(3, 7).mode == "NONE"  # a prefill takes part
    assert graphs.coverage().counts["FULL"] == 4


def test_micro_batch_twins_follow_their_graph_and_serve_split_steps_alone() -> None:
    graphs = GraphSet(
        [8, 16, 32], max_num_seqs=32, num_ubatches=2, ubatch_min_tokens=16
    )
    assert [(g.num_tokens, g.num_ubatches) for g in graphs.graphs(FULL)] == [
        (32, 1),
        (32, 2),
        (16, 1),
        (16, 2),
        (8, 1),
    ]
    assert graphs.dispatch(9, 9, 1, num_ubatches=2) == Graph(
        FULL, 16, 16, 1, 0, num_ubatches=2
    )
    assert graphs.dispatch(9, 9, 1, num_ubatches=3).mode == "NONE"
    assert graphs.dispatch(9, 9, None, num_ubatches=2).mode == "NONE"


def test_twins_of_mixed_graphs_take_the_query_length_their_requests_have() -> None:
    graphs = GraphSet(
        [2, 4, 6, 8], max_num_seqs=4, mode="FULL", num_ubatches=2, ubatch_min_tokens=0
    )
    twins = [g[1:4] for g in graphs.graphs(FULL) if g.num_ubatches == 2]
    assert twins == [(8, 4, 2), (4, 4, 1), (2, 2, 1)]
    assert graphs.dispatch(4, 8, 2, num_ubatches=2).num_tokens == 8


def test_mixed_graphs_can_be_kept_within_the_decode_width() -> None:
    graphs = GraphSet(
        [1, 8, 16], max_num_seqs=4, num_speculative_tokens=1, mixed_within_decode=True
    )
    assert [g.num_tokens for g in graphs.graphs(PIECEWISE)] == [8, 1]


@pytest.mark.parametrize(
    ("cases", "active", "served"),
    [
        ((0, 1, 2, 4, 5), 3, 4),
        ((0, 1, 2, 4, 5), 9, 5),  # above the largest: the largest
        ((0, 9), 1, 9),
        ((0, 9), 0, 0),
        ((0,), 2, None),
        ((9,), 0, None),
    ],
)
def test_active_loras_run_at_the_next_captured_case(
    cases: tuple[int, ...], active: int, served: int | None
) -> None:
    graph = GraphSet([4], max_num_seqs=4, lora_cases=cases).dispatch(2, 2, 1, active)
    if served is None:
        assert graph == Graph("NONE", 2, 2, None, active)
    else:
        assert graph == Graph(FULL, 4, 4, 1, served)


def test_v1_finds_no_graph_above_the_largest_lora_case() -> None:
    graphs = GraphSet([4], max_num_seqs=4, lora_cases=(0, 2), runner="v1")
    assert graphs.dispatch(2, 2, 1, 1).num_active_loras == 2
    assert graphs.dispatch(2, 2, 1, 3).mode == "NONE"
    # V1 captures the larger LoRA case of a size first.
    assert [g.num_active_loras for g in graphs.graphs(FULL)] == [2, 0]


def test_v1_pads_every_token_count_to_a_rounded_size() -> None:
    """vLLM #49548: at 2 drafts compile_sizes [1] is refused, 1 is padded to 3."""
    graphs = GraphSet(
        [1, 2, 4, 8], max_num_seqs=8, num_speculative_tokens=2, runner="v1"
    )
    assert graphs.padding_table().tolist() == [0, 3, 3, 3, 6, 6, 6]
    assert GraphSet([], max_num_seqs=8).padding_table().tolist() == [0]


def test_v1_turns_a_schedule_into_piecewise() -> None:
    """vLLM 0.33.0 overrides every FULL mode under a schedule on the V1 runner."""
    graphs = GraphSet(
        [1, 2, 4],
        max_num_seqs=4,
        num_speculative_tokens=1,
        schedule=[(1, 4, 1)],
        runner="v1",
    )
    assert graphs.mode == "PIECEWISE"
    assert graphs.sizes == [1, 2, 4]
    assert graphs.coverage().counts == {"FULL": 0, "PIECEWISE": 2, "NONE": 2}


# ---- dispatch ----------------------------------------------------------------------


def test_dispatch_many_broadcasts_and_equals_dispatch() -> None:
    graphs = default_graphs(32, 5, [(1, 8, 5), (9, 32, 2)], lora_cases=(0, 1, 4))
    reqs = np.arange(1, 33)[:, None]
    lens = np.array([[0, 1, 3, 6]])
    many = graphs.dispatch_many(reqs, reqs * np.maximum(lens, 2), lens, 1)
    assert many.shape == (32, 4)
    for i, b in enumerate(range(1, 33)):
        for j, q in enumerate(lens[0].tolist()):
            graph = graphs.dispatch(b, b * max(q, 2), q or None, 1)
            at = int(many[i, j])
            assert at == -1 if graph.mode == "NONE" else graphs.all_graphs[at] == graph
    assert graphs.dispatch_many([], [], 1).shape == (0,)
    assert graphs.dispatch_many(3, 18, 6).shape == ()


def test_tokens_need_not_be_requests_times_length() -> None:
    """Data-parallel ranks dispatch at the widest rank's tokens."""
    graphs = GraphSet([3, 6, 12], max_num_seqs=4, num_speculative_tokens=2)
    assert graphs.dispatch(1, 7, 3) == Graph(FULL, 12, 4, 3, 0)
    assert graphs.dispatch(4, 6, 3).mode == PIECEWISE  # 6 tokens hold 2 requests
    assert graphs.dispatch(0, 0, 3).mode == "NONE"


def test_huge_limits_need_no_memory() -> None:
    most = 2**31 - 1
    graphs = GraphSet(
        [1, most - 1, most],
        max_num_seqs=most,
        num_speculative_tokens=3,
        schedule=[(1, 100, 3), (101, 10**6, 1)],
        policy="reachable",
    )
    assert graphs.dispatch(2, 4, 2).mode == FULL
    assert graphs.dispatch(5, most).num_tokens == most
    assert graphs.explain(most, 4).graph.mode == "NONE"
    with pytest.raises(ConfigError, match="explain"):
        graphs.coverage()


def test_candidate_rows_hold_what_dispatch_answers() -> None:
    rows = [(1, 8, 6), (9, 32, 4), (33, 128, 3)]
    for policy in ("vllm-0.33", "per-query-length", "reachable"):
        graphs = default_graphs(128, 6, rows, policy=policy, lora_cases=(0, 2))
        table = graphs.candidate_table()
        assert len(table.offsets) == len(table) + 1
        for lora, first, last, indices in table:
            found = [graphs.all_graphs[i] for i in indices]
            assert {g.num_active_loras for g in found} == {lora}
            for tokens in {max(first, 1), last}:
                for q in graphs.query_lens:
                    if tokens % q or tokens // q > 128:
                        continue
                    # vLLM takes the first compatible one.
                    first_fit = next(
                        (
                            g
                            for g in found
                            if g.query_len in (None, q)
                            and (g.num_reqs or 10**9) >= tokens // q
                        ),
                        None,
                    )
                    served = graphs.dispatch(tokens // q, tokens, q, lora)
                    assert first_fit == (served if served.mode != "NONE" else None)


def test_graph_sets_pickle() -> None:
    graphs = default_graphs(
        32, 5, [(1, 8, 5), (9, 32, 2)], policy="reachable", lora_cases=(0, 2)
    )
    again = pickle.loads(pickle.dumps(graphs))
    assert again.all_graphs == graphs.all_graphs
    assert again.dispatch(3, 18, 6, 1) == graphs.dispatch(3, 18, 6, 1)
    assert repr(again) == repr(graphs)


def test_keywords_and_positions_mean_the_same() -> None:
    graphs = GraphSet([4], max_num_seqs=4, lora_cases=(0, 1))
    assert graphs.dispatch(2, 2, 1, 1) == graphs.dispatch(
        num_reqs=2, num_tokens=2, query_len=1, num_active_loras=1
    )
    assert GraphSet.dispatch(graphs, 2, 2, 1) == graphs.dispatch(2, 2, 1)


# ---- settings: refused, or normalised as documented --------------------------------


def test_unsorted_and_repeated_sizes_are_joined_as_vllm_does() -> None:
    graphs = GraphSet([8, 2, 2, 4.0, np.int32(8)], max_num_seqs=8)  # type: ignore[list-item]
    assert graphs.sizes == [2, 4, 8]
    assert GraphSet(np.array([8, 2, 2]), max_num_seqs=8).sizes == [2, 8]
    assert GraphSet((n for n in (1, 2)), max_num_seqs=8).sizes == [1, 2]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1, 0], r"sizes\[1\] must be between 1"),
        ([-4], r"sizes\[0\] must be between 1 and 2147483647, not -4"),
        ([1, 2**31], "2147483648"),
        ([2**70], r"sizes\[0\]"),
        ([True], "whole number"),
        (["8"], "whole number"),
        ([1.5], "whole number"),
        ("124", "list of token counts"),
        (8, "list of token counts"),
        (np.array([0, 1]), r"sizes\[0\]"),
        (np.array([2**40]), r"sizes\[0\]"),
        (np.array([1.5]), "whole number"),
    ],
)
def test_bad_sizes_are_named(sizes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GraphSet(sizes, max_num_seqs=8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be between 1"),
        ({"max_num_seqs": 2**31}, "max_num_seqs"),
        ({"num_speculative_tokens": -1}, "num_speculative_tokens"),
        ({"max_size": 0}, "max_size"),
        ({"decode_query_len": 0}, "decode_query_len"),
        ({"mode": "FULL_AND_NONE"}, "mode must be one of NONE, PIECEWISE"),
        ({"policy": "best"}, "policy must be one of vllm-0.33"),
        ({"runner": "v3"}, "runner must be one of v2, v1"),
        ({"lora_cases": (0, 0)}, "repeats a case"),
        ({"lora_cases": (-1,)}, r"lora_cases\[0\]"),
        ({"num_ubatches": 0}, "num_ubatches"),
        ({"ubatch_min_tokens": -1}, "ubatch_min_tokens"),
        ({"runner": "v1", "policy": "reachable"}, "V1 runner"),
        ({"runner": "v1", "varlen_decode": True}, "V1 runner"),
        # A query length above every size: V1 refuses, as vLLM does.
        ({"runner": "v1", "num_speculative_tokens": 9}, "no capture size is left"),
        ({"schedule": [(1, 4, 2)], "num_speculative_tokens": 0}, "server that drafts"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GraphSet([1, 2, 4, 8], **{"max_num_seqs": 8, **settings})


def test_empty_lora_cases_mean_no_lora_as_in_vllm() -> None:
    assert GraphSet([4], max_num_seqs=4, lora_cases=()).lora_cases == (0,)


def test_query_lengths_above_every_size_have_no_full_graph() -> None:
    graphs = GraphSet([1, 2, 4], max_num_seqs=4, num_speculative_tokens=6)
    assert graphs.count(FULL) == 0
    assert graphs.coverage().missed == [1, 2, 3, 4]


def test_bad_schedules_raise_schedule_errors() -> None:
    with pytest.raises(ScheduleError) as error:
        GraphSet([4], max_num_seqs=4, num_speculative_tokens=3, schedule=[])
    assert error.value.rule == "empty"
    ready = Schedule([(1, 4, 2)])
    assert GraphSet(
        [6], max_num_seqs=4, num_speculative_tokens=3, schedule=ready
    ).query_lens == (3,)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"num_reqs": 9}, "num_reqs must be between 0 and max_num_seqs=8, not 9"),
        ({"num_reqs": -1}, "num_reqs"),
        ({"num_reqs": 2**80}, "num_reqs"),
        ({"num_tokens": -1}, "num_tokens must be >= 0"),
        ({"query_len": 0}, "query_len must be at least 1, or None"),
        ({"query_len": -2}, "query_len must be at least 1, or None"),
        ({"num_active_loras": -1}, "num_active_loras"),
        ({"max_query_len": 0}, "max_query_len must be at least 1, or None"),
        ({"num_ubatches": 0}, "num_ubatches must be at least 1"),
    ],
)
def test_bad_steps_are_refused(step: dict[str, Any], message: str) -> None:
    graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8)
    with pytest.raises(ConfigError, match=message):
        graphs.dispatch(**{"num_reqs": 1, "num_tokens": 1, **step})


def test_bad_steps_of_many_are_refused_by_their_place() -> None:
    graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8)
    with pytest.raises(ConfigError, match=r"step 2: num_reqs .* not 9"):
        graphs.dispatch_many([1, 2, 9], [1, 2, 9], 1)
    with pytest.raises(ConfigError, match="whole numbers"):
        graphs.dispatch_many([1.5], [1], 1)
    with pytest.raises(ConfigError, match="max_query_len"):
        graphs.dispatch_many([1], [1], 1, max_query_len=0)
    assert graphs.dispatch_many([1.0, 2.0], [1, 2], 1).tolist() == [7, 6]
    with pytest.raises(ConfigError, match="num_reqs"):
        graphs.explain(9, 1)


def test_wrong_calls_are_type_errors() -> None:
    graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8)
    for args, kwargs in (
        ((), {}),
        ((1,), {}),
        ((1, 1, 1, 0, 1), {}),
        ((1, 1), {"query_length": 1}),
        ((1, 1), {"num_reqs": 1}),
    ):
        with pytest.raises(TypeError):
            graphs.dispatch(*args, **kwargs)  # type: ignore[arg-type,call-arg,misc]


def test_steps_without_query_length_are_mixed_in_bulk_too() -> None:
    graphs = GraphSet([1, 2, 4, 8], max_num_seqs=8, num_speculative_tokens=0)
    mixed, decode = graphs.dispatch_many([4], [4]), graphs.dispatch_many([4], [4], 1)
    assert graphs.all_graphs[int(mixed[0])].mode == PIECEWISE
    assert graphs.all_graphs[int(decode[0])].mode == FULL


def test_neighbouring_batches_of_one_length_are_one_run() -> None:
    """Ranges far above the small integers, of which there is one object each."""
    schedule = [(1, 999, 1), (1000, 1999, 1), (2000, 2999, 0), (3000, 3999, 1)]
    graphs = GraphSet(
        [8], max_num_seqs=3999, num_speculative_tokens=1, schedule=schedule
    )
    assert graphs.diagonal_runs == [(1, 2000, 2999), (2, 1, 1999), (2, 3000, 3999)]


def test_too_many_graphs_are_refused_before_they_are_built() -> None:
    sizes = np.arange(1, 2**20 + 1)
    schedule = [(n, n, n) for n in range(1, 66)]
    with pytest.raises(ConfigError, match="1048576 sizes x 65 query lengths"):
        GraphSet(sizes, max_num_seqs=65, num_speculative_tokens=65, schedule=schedule)
