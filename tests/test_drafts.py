# SPDX-License-Identifier: Apache-2.0
"""The drafter's graphs: published totals, per-k decode sets, kinds of drafters."""

from __future__ import annotations

from typing import Any

import pytest

from specgrid import ConfigError, DraftGraph, DraftGraphs, GraphSet, capture_sizes

pytestmark = pytest.mark.usefixtures("backend")

EAGLE3 = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 512, 0)]


def both(
    max_num_seqs: int, k: int, schedule: Any, ceiling: int = 512, **settings: Any
) -> tuple[GraphSet, DraftGraphs]:
    sizes = capture_sizes(max_num_seqs, k, schedule, platform_ceiling=ceiling)
    shared = {
        "max_num_seqs": max_num_seqs,
        "num_speculative_tokens": k,
        "schedule": schedule,
    }
    policy = settings.get("policy", "vllm-0.33")
    return GraphSet(sizes, **shared, policy=policy), DraftGraphs(
        sizes, **shared, **settings
    )


@pytest.mark.parametrize(
    ("max_num_seqs", "k", "schedule", "ceiling", "total"),
    [
        (256, 3, None, 512, 235),
        (256, 16, None, 512, 208),
        (256, 24, None, 512, 186),
        (256, 3, [(1, 64, 3), (65, 128, 1), (129, 512, 0)], 512, 405),
        (256, 5, EAGLE3, 512, 716),
        (128, 6, [(1, 8, 6), (9, 32, 4), (33, 128, 3)], 512, 489),
        (
            256,
            3,
            [(1, 64, 3), (65, 101, 2), (102, 165, 1), (166, 256, 0)],
            512,
            584,
        ),
        (256, 15, [(1, 16, 15), (17, 64, 7), (65, 256, 3)], 512, 465),
        (256, 15, [(1, 16, 15), (17, 64, 7), (65, 256, 3)], 1024, 721),
    ],
)
def test_all_captures_of_target_and_drafter(
    max_num_seqs: int, k: int, schedule: Any, ceiling: int, total: int
) -> None:
    target, drafts = both(max_num_seqs, k, schedule, ceiling)
    assert target.num_graphs + drafts.num_graphs == total
    assert drafts.num_graphs == drafts.prefill.num_graphs + len(drafts.decode)
    assert drafts.prefill.all_graphs == target.all_graphs


def test_decode_graphs_are_captured_largest_first_once_per_k() -> None:
    _, drafts = both(8, 5, [(1, 2, 5), (3, 4, 2), (5, 6, 1), (7, 8, 0)])
    assert drafts.decode[:4] == [
        DraftGraph(8, 8, 5),
        DraftGraph(8, 8, 2),
        DraftGraph(6, 6, 5),
        DraftGraph(6, 6, 2),
    ]
    assert {graph.k for graph in drafts.decode} == {5, 2}


def test_reachable_keeps_the_pairs_of_size_and_k_that_drafting_uses() -> None:
    target, drafts = both(256, 5, EAGLE3, policy="reachable")
    assert drafts.prefill.graphs("FULL") == target.graphs("FULL")
    assert len(target.graphs("FULL")) == 71
    assert len(drafts.decode) == 16
    assert drafts.dispatch_decode(10, 5) == DraftGraph(10, 10, 5)
    assert drafts.dispatch_decode(10, 4) is None  # the schedule drafts 5 there
    assert drafts.dispatch_decode(40, 3) == DraftGraph(40, 40, 3)


def test_static_and_unfused_drafters_have_one_graph_for_every_k() -> None:
    _, static = both(8, 3, None)
    assert static.decode[0] == DraftGraph(8, 8, None)
    assert static.dispatch_decode(3, 3) == DraftGraph(4, 4, None)
    rows = [(1, 4, 3), (5, 8, 1)]
    _, unfused = both(8, 3, rows, fused_decode=False)
    assert {graph.k for graph in unfused.decode} == {None}
    _, kept = both(8, 3, rows, fused_decode=False, policy="reachable")
    assert {graph.num_reqs for graph in kept.decode} == {1, 2, 4}
    assert {graph.num_reqs for graph in unfused.decode} == {1, 2, 4, 8}


@pytest.mark.parametrize(
    ("k", "mode", "decode"),
    [
        (1, "FULL_AND_PIECEWISE", 0),  # one draft needs no decode loop
        (2, "FULL_AND_PIECEWISE", 5),
        (2, "FULL", 5),
        (2, "FULL_DECODE_ONLY", 5),
        (2, "PIECEWISE", 0),
        (2, "NONE", 0),
    ],
)
def test_decode_loops_have_full_graphs_or_none(k: int, mode: str, decode: int) -> None:
    drafts = DraftGraphs(
        [1, 2, 4, 6, 8, 16], max_num_seqs=8, num_speculative_tokens=k, mode=mode
    )
    assert len(drafts.decode) == decode
    assert (drafts.dispatch_decode(3, k) is None) == (decode == 0)
    assert drafts.dispatch_decode(3, 1) is None
    assert drafts.dispatch_decode(9, k) is None


def test_multi_module_mtp_has_one_set_without_piecewise() -> None:
    settings = {"max_num_seqs": 8, "num_speculative_tokens": 2}
    drafts = DraftGraphs([3, 6, 24], kind="multi-module-mtp", **settings)
    assert drafts.prefill.mode == "FULL_DECODE_ONLY"
    assert drafts.decode == []
    assert [g.num_tokens for g in drafts.prefill.all_graphs] == [24, 6, 3]


def test_dflash_drafts_at_one_query_length() -> None:
    rows = [(1, 16, 15), (17, 64, 7), (65, 256, 3)]
    _, shared = both(256, 15, rows, kind="dflash")
    assert shared.prefill.query_lens == (4, 8, 16)
    assert shared.prefill.count("PIECEWISE") == 0
    _, kept = both(256, 15, rows, kind="dflash", policy="reachable")
    assert kept.prefill.query_lens == (16,)
    assert set(kept.prefill.all_graphs) <= set(shared.prefill.all_graphs)
    assert kept.decode == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "medusa"}, "kind must be one of autoregressive"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens must be between 1"),
        ({"mode": "ALL"}, "mode must be one of"),
        ({"policy": "least"}, "policy must be one of"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DraftGraphs([1], **{"max_num_seqs": 4, "num_speculative_tokens": 2, **settings})


def test_more_drafts_than_a_query_length_can_hold_are_refused() -> None:
    with pytest.raises(ConfigError, match=f"between 1 and {2**31 - 2}"):
        DraftGraphs([8], max_num_seqs=8, num_speculative_tokens=2**31 - 1)


def test_batches_beyond_every_size_draft_eagerly() -> None:
    """On a ladder of more sizes than there are small integers."""
    sizes = range(1, 301)
    graphs = DraftGraphs(sizes, max_num_seqs=512, num_speculative_tokens=3)
    assert graphs.dispatch_decode(300, 3) is not None
    assert graphs.dispatch_decode(301, 3) is None
