# SPDX-License-Identifier: Apache-2.0
"""Laws of graph sets: policies compared, back ends compared, and a server's life."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid import DraftGraphs, GraphSet, _backend, capture_sizes

POLICIES = ("vllm-0.33", "per-query-length", "reachable")


@st.composite
def servers(draw: st.DrawFn, varied: bool = True) -> dict[str, Any]:
    """Settings of one server: sizes, limits and a schedule in one or two axes."""
    max_num_seqs = draw(st.integers(1, 48))
    k = draw(st.integers(0, 6))
    schedule = None
    if k and draw(st.sampled_from([True, True, True, False])):
        starts = [1, *sorted(draw(st.sets(st.integers(2, 50), max_size=4)))]
        ends = [*(s - 1 for s in starts[1:]), 60]
        contexts = draw(st.sampled_from([[(1, 10)], [(1, 10), (11, 20)]]))
        schedule = [
            (lo, hi, *context, draw(st.integers(0, 7)))
            for lo, hi in zip(starts, ends, strict=True)
            for context in contexts
        ]
    if draw(st.booleans()):
        sizes = list(capture_sizes(max_num_seqs, k, schedule, platform_ceiling=64))
    else:
        sizes = draw(st.lists(st.integers(1, 90), min_size=1, max_size=14))
    settings: dict[str, Any] = {
        "sizes": sizes,
        "max_num_seqs": max_num_seqs,
        "num_speculative_tokens": k,
        "schedule": schedule,
        "mode": "FULL_AND_PIECEWISE",
    }
    if varied:
        settings |= {
            "mode": draw(
                st.sampled_from(
                    ["FULL_AND_PIECEWISE", "FULL_DECODE_ONLY", "FULL", "PIECEWISE"]
                )
            ),
            "lora_cases": draw(st.sampled_from([(0,), (0, 1, 2), (0, 5), (3,)])),
            "max_size": draw(st.none() | st.integers(1, 100)),
            "decode_query_len": draw(st.sampled_from([None, None, 1, k + 2])),
            "varlen_decode": draw(st.sampled_from([False, False, True])),
            "num_ubatches": draw(st.sampled_from([1, 1, 2])),
            "ubatch_min_tokens": draw(st.sampled_from([0, 8])),
            "mixed_within_decode": draw(st.sampled_from([False, False, True])),
        }
    return settings


# ---- the policies ------------------------------------------------------------------


@given(servers(varied=False))
def test_reachable_covers_no_less_with_no_more_and_pads_no_further(
    server: dict[str, Any],
) -> None:
    shared, own, reachable = (GraphSet(**server, policy=policy) for policy in POLICIES)
    covered = [graphs.coverage() for graphs in (shared, own, reachable)]
    assert set(covered[2].missed) <= set(covered[0].missed)
    assert covered[2].missed == covered[1].missed
    assert set(reachable.graphs("FULL")) <= set(own.graphs("FULL"))
    assert own.all_graphs == shared.all_graphs
    assert reachable.graphs("PIECEWISE") == shared.graphs("PIECEWISE")
    # Not only no further: the very same graph serves each batch.
    assert np.array_equal(covered[2].padded_tokens, covered[1].padded_tokens)
    assert covered[2].unreachable == []


@given(servers(varied=False))
def test_every_kept_graph_serves_a_batch_or_what_is_left_of_one(
    server: dict[str, Any],
) -> None:
    graphs = GraphSet(**server, policy="reachable")
    serving = set()
    for query_len, lo, hi in graphs.diagonal_runs:
        for batch in range(1, hi + 1):
            graph = graphs.explain(batch, query_len).graph
            widest = max(
                (
                    g.num_reqs or 0
                    for g in graphs.graphs("FULL")
                    if g.query_len == query_len
                ),
                default=0,
            )
            if batch >= lo or graph.num_reqs == widest < hi:
                serving.add(graph)
    if 1 in graphs.query_lens:  # one-token arrivals widen steps without drafts
        limit = server["max_num_seqs"]
        ones = [g for g in graphs.graphs("FULL") if g.query_len == 1]
        serving.add(graphs.explain(limit, 1).graph)
        serving.update(ones[:1] if (ones and (ones[0].num_reqs or 0) < limit) else [])
    assert set(graphs.graphs("FULL")) <= serving


@given(servers(varied=False), st.integers(0, 2**32 - 1))
def test_every_uniform_decode_step_of_a_servers_life_finds_its_graph(
    server: dict[str, Any], seed: int
) -> None:
    """A random walk of arrivals and finishes, with K applied one step late."""
    graphs = GraphSet(**server, policy="reachable")
    everything = GraphSet(**server, policy="per-query-length")
    captured = [
        {
            q: max(
                (g.num_reqs or 0 for g in some.graphs("FULL") if g.query_len == q),
                default=0,
            )
            for q in graphs.query_lens
        }
        for some in (graphs, everything)
    ]
    walk = random.Random(seed)
    limit = server["max_num_seqs"]
    running = walk.randint(1, limit)
    query_len = None  # of the step that verifies what the last one drafted
    for _ in range(80):
        arrivals = walk.choice([0, 0, 0, walk.randint(0, limit - running)])
        scheduled = running + arrivals
        if scheduled == 0:
            query_len = None
            running = walk.randint(1, limit)
            continue
        # Requests that arrive are prefilled, and the step is not uniform, unless
        # all have one token to prefill and no other request carries drafts.
        joins = query_len == 1 and walk.random() < 0.5
        if query_len is not None and (arrivals == 0 or joins):
            served = graphs.explain(scheduled, query_len).graph
            assert (served.mode == "FULL") == (scheduled <= captured[0][query_len])
            # Nor would any graph that vLLM captures have served it otherwise.
            assert (served.mode == "FULL") == (scheduled <= captured[1][query_len])
        # K for the next step comes from the requests scheduled in this one.
        k = server["num_speculative_tokens"]
        if graphs.lookup is not None:
            k = graphs.lookup[scheduled, walk.choice([0, 5, 15, 1000])]
        query_len = 1 + k
        finished = walk.choice([0, 0, walk.randint(0, scheduled), walk.randint(0, 1)])
        running = scheduled - finished


# ---- the drafter -------------------------------------------------------------------


@given(servers(varied=False), st.booleans())
def test_every_draft_loop_keeps_its_graph_under_reachable(
    server: dict[str, Any], fused: bool
) -> None:
    server["num_speculative_tokens"] = max(server["num_speculative_tokens"], 1)
    shared = DraftGraphs(**server, fused_decode=fused)
    kept = DraftGraphs(**server, policy="reachable", fused_decode=fused)
    assert set(kept.decode) <= set(shared.decode)
    used = set()
    lookup = kept.prefill.lookup
    for batch in range(1, server["max_num_seqs"] + 1):
        ks = {server["num_speculative_tokens"]}
        if lookup is not None:
            ks = set(lookup.dense()[batch].tolist())
        for k in ks:
            graph = kept.dispatch_decode(batch, k)
            assert graph == shared.dispatch_decode(batch, k)
            used.add(graph)
    if lookup is not None:
        assert set(kept.decode) == used - {None}


# ---- the back ends -----------------------------------------------------------------


@given(servers(), st.sampled_from(POLICIES), st.integers(0, 2**32 - 1))
def test_native_equals_reference(
    server: dict[str, Any], policy: str, seed: int
) -> None:
    pair = []
    for name in ("native", "reference"):
        with _backend.use(name):
            pair.append(GraphSet(**server, policy=policy))
    native, reference = pair
    assert native.all_graphs == reference.all_graphs
    for ours, theirs in zip(
        native._table.candidates(), reference._table.candidates(), strict=True
    ):
        assert np.array_equal(ours, theirs)
    runs = np.array(native.diagonal_runs, np.int64).ravel()
    assert np.array_equal(native._table.used(runs), reference._table.used(runs))

    rng = np.random.default_rng(seed)
    reqs = rng.integers(0, server["max_num_seqs"] + 1, 40)
    lens = rng.integers(0, 9, 40)
    tokens = np.where(rng.random(40) < 0.7, reqs * lens, rng.integers(0, 110, 40))
    loras = rng.integers(0, 7, 40)
    for extra in (
        {},
        {"num_ubatches": 2},
        {"max_query_len": int(rng.integers(1, 9))},
    ):
        many = native.dispatch_many(reqs, tokens, lens, loras, **extra)
        assert np.array_equal(
            many, reference.dispatch_many(reqs, tokens, lens, loras, **extra)
        )
        for i in range(0, 40, 8):
            step = [int(a[i]) for a in (reqs, tokens, lens, loras)]
            step[2] = step[2] or None  # type: ignore[call-overload]
            graph = native.dispatch(*step, **extra)
            assert graph == reference.dispatch(*step, **extra)
            if many[i] >= 0:
                assert graph == native.all_graphs[int(many[i])]
            else:
                assert graph.mode == "NONE"
    some = np.maximum(lens, 1)
    for ours, theirs in zip(
        native._table.explain_many(reqs, some, 0),
        reference._table.explain_many(reqs, some, 0),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)


@pytest.mark.usefixtures("backend")
@given(servers(varied=False))
def test_coverage_adds_up(server: dict[str, Any]) -> None:
    coverage = GraphSet(**server).coverage()
    assert sum(coverage.counts.values()) == server["max_num_seqs"]
    assert len(coverage.missed) == server["max_num_seqs"] - coverage.counts["FULL"]
    for column in range(coverage.num_columns):
        runs = list(coverage.runs(column))
        assert runs[0].batch_lo == 1
        assert runs[-1].batch_hi == server["max_num_seqs"]
        for left, right in pairwise(runs):
            assert right.batch_lo == left.batch_hi + 1
    hidden = {(s.num_reqs, s.query_len) for s in coverage.hidden}
    assert {b for b, _ in hidden} <= set(coverage.missed)
    for served in coverage.hidden:
        assert served.own is not None
        assert served.hidden_by is not None
        assert served.num_tokens <= served.hidden_by.num_tokens < served.own.num_tokens
