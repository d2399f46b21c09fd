# SPDX-License-Identifier: Apache-2.0
"""Graph sets and dispatch: what a user or the plug-in calls, beside its rivals.

    python -m pytest benchmarks/bench_graphs.py

Rivals: vLLM's real manager (where vLLM is installed; its slowest case runs only
with SPECGRID_BENCH_SLOW=1), and a plain-Python manager with a set for duplicates
and one pass for ranges. Every case asserts its answer against specgrid's.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.graph_rivals import (
    NumpyDispatch,
    PythonManager,
    schedule_of,
    spread,
    vllm_manager,
)
from specgrid import DraftGraphs, GraphSet, _backend, capture_sizes

# sizes, largest size, query lengths, LoRA cases
CASES = [(100, 512, 4, 9), (581, 8192, 4, 9), (2048, 8192, 4, 1)]
IDS = [f"{n}x{q}x{loras}" for n, _, q, loras in CASES]
SLOW = os.environ.get("SPECGRID_BENCH_SLOW") == "1"
VLLM_SECONDS = {100: 1, 581: 30, 2048: 3}  # roughly; above 5 only when asked for

vllm = cache(vllm_manager)


@cache
def graphs_of(case: tuple[int, int, int, int], policy: str = "vllm-0.33") -> GraphSet:
    count, largest, lens, loras = case
    return GraphSet(
        spread(count, largest),
        max_num_seqs=largest,
        num_speculative_tokens=16,
        schedule=schedule_of(lens, largest),
        lora_cases=range(loras),
        policy=policy,
    )


def core_call(graphs: GraphSet) -> Callable[[], Any]:
    """The back end alone, with arrays ready."""
    sizes = np.array(graphs.sizes, np.int64)
    lens = np.array(graphs.query_lens, np.int64)
    loras = np.array(graphs.lora_cases, np.int64)
    runs = np.array(graphs.diagonal_runs, np.int64).ravel()
    limits = np.array(
        (graphs.max_num_seqs, graphs.max_size, graphs.decode_query_len, 0, 1, 0),
        np.int64,
    )
    table = _backend.active().GraphTable
    return lambda: table(sizes, lens, loras, runs, limits, 2, 1, False, 0, True)


# ---- building ------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize(
    "who", ["specgrid-core", "specgrid", "specgrid-tables", "python-set", "vllm"]
)
def test_build(benchmark: Any, case: tuple[int, int, int, int], who: str) -> None:
    count, largest, lens, loras = case
    benchmark.group = f"build {count} sizes x {lens} query lengths x {loras} LoRA cases"
    ready = graphs_of(case)
    schedule = schedule_of(lens, largest)
    sizes = spread(count, largest)
    cases = list(range(loras))

    def tables() -> Any:
        """All a runner needs: graphs as arrays, and its candidate table."""
        graphs = GraphSet(
            sizes,
            max_num_seqs=largest,
            num_speculative_tokens=16,
            schedule=schedule,
            lora_cases=cases,
        )
        graphs.candidate_table()
        return graphs.columns()

    rounds = {"rounds": 20, "warmup_rounds": 1}
    if who == "specgrid-core":
        table = benchmark.pedantic(core_call(ready), **rounds)
        assert table.num_graphs == ready.num_graphs
    elif who == "specgrid":
        graphs = benchmark.pedantic(
            GraphSet,
            (sizes,),
            {
                "max_num_seqs": largest,
                "num_speculative_tokens": 16,
                "schedule": schedule,
                "lora_cases": cases,
            },
            **rounds,
        )
        assert graphs.num_graphs == ready.num_graphs
    elif who == "specgrid-tables":
        columns = benchmark.pedantic(tables, **rounds)
        assert np.array_equal(columns, ready.columns())
    elif who == "python-set":
        manager = benchmark.pedantic(
            PythonManager,
            (sizes, list(ready.query_lens), largest, cases),
            rounds=3,
        )
        for mode, descs in manager.descs.items():
            assert descs == [tuple(g[:5]) for g in ready.graphs(mode)]
    else:
        build = vllm()
        if build is None:
            pytest.skip("vLLM is not installed here")
        if VLLM_SECONDS[count] > 5 and not SLOW:
            pytest.skip("takes vLLM half a minute; SPECGRID_BENCH_SLOW=1 runs it")
        theirs = benchmark.pedantic(build(sizes, largest, schedule, cases), rounds=1)
        for mode, descs in theirs._capture_descs.items():
            assert [
                (d.num_tokens, d.num_reqs, d.uniform_token_count, d.num_active_loras)
                for d in descs
            ] == [g[1:5] for g in ready.graphs(mode.name)]


@pytest.mark.parametrize("tokens", [8192, 65536])
def test_build_every_token_count(benchmark: Any, tokens: int) -> None:
    benchmark.group = f"build tables of {tokens} token counts"
    ready = GraphSet(range(1, tokens + 1), max_num_seqs=tokens)
    table = benchmark.pedantic(core_call(ready), rounds=10, warmup_rounds=1)
    assert table.num_graphs == 2 * tokens


def best_of(call: Callable[[], Any], rounds: int = 15) -> float:
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("largest", [65536, 1 << 24])
def test_building_grows_linearly(largest: int) -> None:
    """Four times the descriptors in less than five times the time."""
    small, large = (
        GraphSet(
            spread(n, largest),
            max_num_seqs=largest,
            num_speculative_tokens=16,
            schedule=schedule_of(4, largest),
        )
        for n in (1250, 5000)
    )
    assert 3.8 < large.num_graphs / small.num_graphs < 4.2
    ratio = best_of(core_call(large)) / best_of(core_call(small))
    print(f"{small.num_graphs} to {large.num_graphs} graphs: {ratio:.2f}x the time")
    assert ratio < 5


# ---- dispatch ------------------------------------------------------------------------


@cache
def default_graphs(policy: str = "vllm-0.33") -> GraphSet:
    schedule = schedule_of(3, 256)
    return GraphSet(
        capture_sizes(256, 16, schedule),
        max_num_seqs=256,
        num_speculative_tokens=16,
        schedule=schedule,
        policy=policy,
    )


def steps_of(kind: str) -> list[tuple[int, int, int | None, int]]:
    graphs = default_graphs()
    rng = np.random.default_rng(0)
    steps: list[tuple[int, int, int | None, int]] = []
    while len(steps) < 1000:
        q = int(rng.choice(graphs.query_lens))
        b = int(rng.integers(1, 257))
        if kind == "over the maximum":
            steps.append((b, graphs.max_size + 1, q, 0))
        elif b * q <= graphs.max_size:
            steps.append((b, b * q, q if kind == "uniform" else None, 0))
    return steps


@pytest.mark.parametrize("kind", ["uniform", "mixed", "over the maximum"])
@pytest.mark.parametrize("who", ["specgrid", "python-set", "vllm"])
def test_dispatch_1000_steps_one_by_one(benchmark: Any, kind: str, who: str) -> None:
    benchmark.group = f"1000 calls of dispatch, {kind}"
    graphs = default_graphs()
    steps = steps_of(kind)
    if who == "specgrid":
        dispatch: Any = graphs.dispatch
    elif who == "python-set":
        dispatch = PythonManager(
            graphs.sizes, list(graphs.query_lens), 256, [0]
        ).dispatch
    else:
        build = vllm()
        if build is None:
            pytest.skip("vLLM is not installed here")
        dispatch = build(graphs.sizes, 256, schedule_of(3, 256), [0])().dispatch
    found = benchmark(lambda: [dispatch(a, b, c, d) for a, b, c, d in steps])
    expected = [graphs.dispatch(*step) for step in steps]
    if who == "vllm":
        assert [(d.cg_mode.name, d.num_tokens, d.num_reqs) for d in found] == [
            graph[:3] for graph in expected
        ]
    else:
        assert [tuple(graph[:5]) for graph in found] == [g[:5] for g in expected]


@pytest.mark.parametrize("who", ["specgrid", "numpy"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_dispatch_a_million_steps_at_once(
    benchmark: Any, case: tuple[int, int, int, int], who: str
) -> None:
    benchmark.group = f"a million steps, {case[0]} sizes x {case[2]} query lengths"
    graphs = graphs_of((*case[:3], 1))
    rng = np.random.default_rng(0)
    lens = rng.choice(np.array(graphs.query_lens, np.int64), 1_000_000)
    reqs = rng.integers(1, case[1] // 17 + 1, 1_000_000)
    tokens = reqs * lens
    expected = graphs.dispatch_many(reqs, tokens, lens)
    if who == "specgrid":
        found = benchmark(graphs.dispatch_many, reqs, tokens, lens)
    else:
        rival = NumpyDispatch(graphs.all_graphs, graphs.query_lens)
        found = benchmark(rival, tokens, lens)
    assert np.array_equal(found, expected)


# ---- what the command line shows -----------------------------------------------------

EAGLE3 = [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]


@pytest.mark.parametrize("policy", ["vllm-0.33", "per-query-length", "reachable"])
def test_coverage_of_the_documented_schedule(benchmark: Any, policy: str) -> None:
    benchmark.group = "sizes, graphs and coverage of 256 requests"

    def answer() -> dict[str, int]:
        return (
            GraphSet(
                capture_sizes(256, 5, EAGLE3),
                max_num_seqs=256,
                num_speculative_tokens=5,
                schedule=EAGLE3,
                policy=policy,
            )
            .coverage()
            .counts
        )

    counts = benchmark(answer)
    assert counts["FULL"] == (170 if policy == "vllm-0.33" else 256)


def test_graphs_of_a_drafter(benchmark: Any) -> None:
    benchmark.group = "drafter of 256 requests"
    sizes = capture_sizes(256, 5, EAGLE3)
    drafts = benchmark(
        lambda: DraftGraphs(
            sizes, max_num_seqs=256, num_speculative_tokens=5, schedule=EAGLE3
        )
    )
    assert drafts.num_graphs == 418
