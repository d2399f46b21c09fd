# SPDX-License-Identifier: Apache-2.0
"""Coverage: published figures, hidden graphs, context columns, padding."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from specgrid import ConfigError, Coverage, GraphSet, capture_sizes

pytestmark = pytest.mark.usefixtures("backend")

EAGLE3 = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 512, 0)]
EAGLE = [(1, 64, 3), (65, 128, 1), (129, 512, 0)]
DFLASH = [(1, 16, 15), (17, 64, 7), (65, 256, 3)]


def cover(
    max_num_seqs: int,
    k: int,
    schedule: Any,
    policy: str = "vllm-0.33",
    ceiling: int = 512,
    **settings: Any,
) -> Coverage:
    sizes = capture_sizes(max_num_seqs, k, schedule, platform_ceiling=ceiling)
    return GraphSet(
        sizes,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=k,
        schedule=schedule,
        policy=policy,
        **settings,
    ).coverage()


@pytest.mark.parametrize(
    ("policy", "full_graphs", "full", "piecewise", "unreachable"),
    [
        ("vllm-0.33", 242, 170, 86, 171),
        ("per-query-length", 242, 256, 0, 171),
        ("reachable", 71, 256, 0, 0),
    ],
)
def test_documented_eagle3_schedule(
    policy: str, full_graphs: int, full: int, piecewise: int, unreachable: int
) -> None:
    """vLLM's user guide, 256 requests, at most 5 drafts."""
    coverage = cover(256, 5, EAGLE3, policy)
    assert coverage.graph_set.count("FULL") == full_graphs
    assert coverage.counts == {"FULL": full, "PIECEWISE": piecewise, "NONE": 0}
    assert len(coverage.missed) == len(coverage.hidden) == piecewise
    assert len(coverage.unreachable) == unreachable
    assert coverage.sufficient_max_size == 256


@pytest.mark.parametrize(
    ("max_num_seqs", "k", "schedule", "ceiling", "shared", "own", "graphs", "dead"),
    [
        (256, 3, None, 512, (128, 0, 128), (128, 0, 128), 49, 0),
        (256, 16, None, 512, (30, 0, 226), (30, 0, 226), 30, 0),
        (256, 24, None, 512, (20, 0, 236), (20, 0, 236), 20, 0),
        # vLLM's user guide: lengths 4, 2 and 1 share the grid, nothing misses.
        (256, 3, EAGLE, 512, (256, 0, 0), (256, 0, 0), 134, 69),
        (256, 5, EAGLE3, 512, (170, 86, 0), (256, 0, 0), 242, 171),
        # vLLM #56136's example.
        (
            128,
            6,
            [(1, 8, 6), (9, 32, 4), (33, 128, 3)],
            512,
            (101, 27, 0),
            (128, 0, 0),
            150,
            95,
        ),
        # vLLM #32374's profiled schedule.
        (
            256,
            3,
            [(1, 64, 3), (65, 101, 2), (102, 165, 1), (166, 256, 0)],
            512,
            (221, 35, 0),
            (256, 0, 0),
            197,
            126,
        ),
        (256, 15, DFLASH, 512, (128, 0, 128), (128, 0, 128), 129, 65),
        (256, 15, DFLASH, 1024, (256, 0, 0), (256, 0, 0), 225, 129),
    ],
)
def test_default_sizes_of_known_configurations(
    max_num_seqs: int,
    k: int,
    schedule: Any,
    ceiling: int,
    shared: tuple[int, int, int],
    own: tuple[int, int, int],
    graphs: int,
    dead: int,
) -> None:
    for policy, expected in (
        ("vllm-0.33", shared),
        ("per-query-length", own),
        ("reachable", own),
    ):
        coverage = cover(max_num_seqs, k, schedule, policy, ceiling)
        assert tuple(coverage.counts.values()) == expected
        reachable = policy == "reachable"
        assert coverage.graph_set.count("FULL") == graphs - dead * reachable
        assert len(coverage.unreachable) == dead * (not reachable)


def test_hidden_batch_names_its_graph_and_the_one_before_it() -> None:
    """vLLM #56136: 3 requests of 5 tokens, and a graph of 16 single tokens."""
    graphs = GraphSet(
        [5, 16, 20],
        max_num_seqs=16,
        num_speculative_tokens=4,
        schedule=[(1, 4, 4), (5, 16, 0)],
    )
    coverage = graphs.coverage()
    assert [served.num_reqs for served in coverage.hidden] == [2, 3]
    served = coverage[3]
    assert served.graph.mode == "PIECEWISE"
    assert served.padding == 1
    assert served.own is not None
    assert served.own[1:4] == (20, 4, 5)
    assert served.hidden_by is not None
    assert served.hidden_by[1:4] == (16, 16, 1)
    assert coverage.missed == [2, 3]


def test_every_context_column_counts() -> None:
    """vLLM #48944: k by batch and context."""
    rows = [(1, 32, 1, 512, 3), (1, 32, 513, 4096, 2)]
    rows += [(33, 128, 1, 512, 2), (33, 128, 513, 4096, 1)]
    coverage = cover(128, 3, rows, mode="FULL_DECODE_ONLY")
    assert coverage.num_columns == 2
    assert coverage.query_lens.shape == (128, 2)
    assert coverage.query_lens[[0, 31, 32, 127]].tolist() == [
        [4, 3],
        [4, 3],
        [3, 2],
        [3, 2],
    ]
    assert [t.query_len for t in coverage.tiers] == [2, 3, 4]
    lengths = {t.query_len: (t.min_batch, t.max_batch) for t in coverage.tiers}
    assert lengths == {2: (33, 128), 3: (1, 128), 4: (1, 32)}
    served = {
        (b, q): coverage.at(b, q).graph.mode == "FULL"
        for b in range(1, 129)
        for q in set(coverage.query_lens[b - 1].tolist())
    }
    missed = sorted({b for (b, _), full in served.items() if not full})
    assert coverage.missed == missed
    assert sum(coverage.counts.values()) == 128
    for column, counts in enumerate(coverage.counts_by_column):
        lens = coverage.query_lens[:, column].tolist()
        assert counts["FULL"] == sum(served[b, q] for b, q in enumerate(lens, start=1))
    kept = cover(128, 3, rows, "reachable", mode="FULL_DECODE_ONLY")
    assert len(kept.missed) <= len(missed)
    assert kept.unreachable == []
    assert len(kept.to_dict()["columns"]) == 2


def test_runs_join_batches_that_share_a_graph() -> None:
    coverage = GraphSet([4, 8], max_num_seqs=10).coverage()
    runs = list(coverage.runs())
    assert [(r.batch_lo, r.batch_hi, r.mode) for r in runs] == [
        (1, 4, "FULL"),
        (5, 8, "FULL"),
        (9, 10, "NONE"),
    ]
    assert runs[0].graph is not None
    assert runs[0].graph.num_tokens == 4
    assert runs[2].graph is None
    for run in cover(256, 5, EAGLE3).runs():
        assert run.graph is not None


def test_tiers_tell_what_is_missed_idle_and_enough() -> None:
    """vLLM's user guide, 512 requests: tier tops 256, 768 and 2048 tokens."""
    coverage = cover(512, 11, [(1, 32, 7), (33, 128, 5), (129, 512, 3)])
    tiers = {t.query_len: t for t in coverage.tiers}
    assert {q: t.sufficient_max_size for q, t in tiers.items()} == {
        8: 256,
        6: 768,
        4: 2048,
    }
    assert coverage.sufficient_max_size == 2048
    assert max(set(range(33, 129)) - set(tiers[6].missed)) == 83
    assert sum(t.num_batches for t in coverage.tiers) == 512
    assert sum(t.num_graphs for t in coverage.tiers) == coverage.graph_set.count("FULL")
    assert sum(t.num_unreachable for t in coverage.tiers) == len(coverage.unreachable)
    enough = GraphSet(
        range(8, 2049, 8),
        max_num_seqs=512,
        num_speculative_tokens=11,
        schedule=[(1, 32, 7), (33, 128, 5), (129, 512, 3)],
        policy="reachable",
    ).coverage()
    assert enough.missed == []


def test_widest_graph_of_a_tier_it_cannot_hold_is_not_idle() -> None:
    """Batches of 9 to 16 run eager, but what is left of one after requests finish
    is served by the widest graph of their query length."""
    rows = [(1, 8, 3), (9, 16, 1)]
    for policy, kept in (("per-query-length", 6), ("reachable", 4)):
        graphs = GraphSet(
            [4, 8, 12],
            max_num_seqs=16,
            num_speculative_tokens=3,
            schedule=rows,
            policy=policy,
        )
        coverage = graphs.coverage()
        assert graphs.count("FULL") == kept
        assert graphs.explain(6, 2).graph[1:4] == (12, 6, 2)
        idle = [g.num_tokens for g in coverage.unreachable]
        assert idle == ([8, 4] if policy == "per-query-length" else [])


def test_padding_per_batch_and_weighted() -> None:
    coverage = GraphSet([2, 4], max_num_seqs=5).coverage()
    assert coverage.num_tokens[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert coverage.padded_tokens[:, 0].tolist() == [2, 2, 4, 4, 5]
    assert coverage.padding[:, 0].tolist() == [1, 0, 1, 0, 0]
    assert coverage.mean_padding() == pytest.approx(2 / 15)
    assert coverage.mean_padding([1, 0, 0, 0, 0]) == pytest.approx(1.0)
    assert coverage.mean_padding(np.ones((5, 1))) == pytest.approx(2 / 15)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "must have shape"),
        ([0, 0, 0, 0, 0], "not all zero"),
        ([1, -1, 0, 0, 0], ">= 0"),
        ([1, np.nan, 0, 0, 0], "finite"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    coverage = GraphSet([2, 4], max_num_seqs=5).coverage()
    with pytest.raises(ConfigError, match=message):
        coverage.mean_padding(weights)


def test_all_lora_cases_have_the_same_coverage() -> None:
    one = cover(64, 3, [(1, 8, 3), (9, 64, 1)])
    for loras in (0, 2):
        coverage = cover(64, 3, [(1, 8, 3), (9, 64, 1)], lora_cases=(0, 2, 5))
        again = coverage.graph_set.coverage(loras)
        assert again.counts == one.counts
        assert again.missed == one.missed
        assert len(again.unreachable) == 3 * len(one.unreachable)
        assert {s.graph.num_active_loras for s in again.hidden} <= {loras}


def test_to_dict_is_plain_data() -> None:
    data = cover(256, 5, EAGLE3).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["counts"] == {"FULL": 170, "PIECEWISE": 86, "NONE": 0}
    assert data["num_graphs"] == {"FULL": 242, "PIECEWISE": 56}
    assert len(data["hidden"]) == len(data["missed"]) == 86
    runs = data["columns"][0]["runs"]
    assert runs[0]["batch_lo"] == 1
    assert runs[-1]["batch_hi"] == 256
    assert "170 FULL, 86 PIECEWISE, 0 eager" in repr(cover(256, 5, EAGLE3))


def test_batches_outside_the_server_are_refused() -> None:
    coverage = GraphSet([2, 4], max_num_seqs=5).coverage()
    for batch in (0, 6):
        with pytest.raises(ConfigError, match="batch must be between 1 and 5"):
            coverage[batch]


def test_one_token_arrivals_reach_the_widest_step_without_drafts() -> None:
    """A prefix hit with one token to prefill runs as a decode (vLLM 0.33.0)."""
    graphs = GraphSet(
        [1, 2, 4, 8, 16],
        max_num_seqs=16,
        num_speculative_tokens=3,
        schedule=[(1, 4, 0), (5, 16, 3)],
        policy="reachable",
    )
    singles = [g.num_reqs for g in graphs.graphs("FULL") if g.query_len == 1]
    assert singles == [16, 4, 2, 1]
    assert graphs.explain(9, 1).graph[1:4] == (16, 16, 1)
    assert graphs.coverage().unreachable == []


def test_batches_stand_at_their_own_tokens() -> None:
    """Query length times requests, tier edge by tier edge."""
    coverage = cover(256, 5, EAGLE3)
    for batch, query_len in ((1, 6), (16, 6), (17, 5), (32, 5), (33, 4), (129, 1)):
        served = coverage[batch]
        assert (served.num_reqs, served.query_len) == (batch, query_len)
        assert coverage.num_tokens[batch - 1, 0] == batch * query_len


def test_more_batches_than_a_coverage_may_have_cells_are_refused() -> None:
    graphs = GraphSet([1, 8], max_num_seqs=2**24 + 1, num_speculative_tokens=0)
    with pytest.raises(ConfigError, match=f"{2**24 + 1} batches x 1 context"):
        graphs.coverage()
