# SPDX-License-Identifier: Apache-2.0
"""Capture plans: whole calls, beside what a good Python program would do.

    python -m pytest benchmarks/bench_plan.py

No rival plans for vLLM's dispatcher. For one ladder the rivals are the plain
recurrence in NumPy (a row at a time) and in Python; for the shared list it is
specgrid's own plain-Python reference. Every case asserts its answer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from specgrid import Budget, CapturePlan, Costs, Workload, _backend, plan_captures

COSTS = Costs.linear(7000, 20, 3000, 12000)
ONCE = {"rounds": 3, "iterations": 1, "warmup_rounds": 1}


def five_tiers(max_num_seqs: int, mixed: int = 0) -> dict[str, Any]:
    """K from 5 to 0 over a doubling of batches each, and a load on all of them."""
    n = max_num_seqs
    rows = [
        [1, n // 16, 5],
        [n // 16 + 1, n // 8, 4],
        [n // 8 + 1, n // 4, 3],
        [n // 4 + 1, n // 2, 1],
        [n // 2 + 1, n, 0],
    ]
    rng = np.random.default_rng(n)
    decode = {
        (1 + k, b): float(rng.random()) for lo, hi, k in rows for b in range(lo, hi + 1)
    }
    steps = {int(t): 1.0 for t in rng.integers(1, n + 1, mixed)}
    return {
        "workload": Workload(decode, steps),
        "schedule": rows,
        "max_num_seqs": n,
        "num_speculative_tokens": 5,
    }


# ---- the two calls with a promise ----------------------------------------------------


@pytest.mark.parametrize("coverage", [True, False])
@pytest.mark.parametrize("dispatcher", ["union", "per-query-length"])
def test_512_sizes_every_budget_to_300(
    benchmark: Any, dispatcher: str, coverage: bool
) -> None:
    benchmark.group = "512 sizes, 5 query lengths, every budget to 300"
    task = five_tiers(512, mixed=200)
    plan: CapturePlan = benchmark.pedantic(
        plan_captures,
        kwargs={
            **task,
            "costs": COSTS,
            "dispatcher": dispatcher,
            "max_size": 512,
            "budget": Budget(graphs=300, full_coverage=coverage),
        },
        **ONCE,
    )
    assert plan.optimal
    assert plan.frontier[-1].sizes == tuple(plan.sizes)
    assert plan.value.num_graphs <= 300


def test_direct_4096_requests_every_budget_to_512(benchmark: Any) -> None:
    benchmark.group = "direct, 4,096 requests, 6 query lengths, every budget to 512"
    bounds = [0, 256, 512, 1024, 2048, 3072, 4096]
    rows = [[lo + 1, hi, 5 - i] for i, (lo, hi) in enumerate(pairwise(bounds))]
    rng = np.random.default_rng(0)
    load = Workload(
        {
            (1 + k, b): float(rng.random())
            for lo, hi, k in rows
            for b in range(lo, hi + 1)
        }
    )
    plan: CapturePlan = benchmark.pedantic(
        plan_captures,
        (load, COSTS),
        {
            "schedule": rows,
            "max_num_seqs": 4096,
            "num_speculative_tokens": 5,
            "dispatcher": "direct",
            "max_num_batched_tokens": 32768,
            "max_size": 24576,
            "budget": Budget(graphs=512),
        },
        **ONCE,
    )
    assert plan.optimal
    assert plan.value.eager_share == 0


# ---- growth ------------------------------------------------------------


@pytest.mark.parametrize("size", [512, 4096, 16384, 65536])
def test_one_ladder_128_graphs(benchmark: Any, size: int) -> None:
    benchmark.group = "one ladder, every budget to 128 graphs"
    weights = np.random.default_rng(size).random(size)
    load = Workload(
        {(1, n): float(w) for n, w in enumerate(weights.tolist(), 1)}, floor=0
    )
    plan: CapturePlan = benchmark.pedantic(
        plan_captures,
        (load, COSTS),
        {
            "max_num_seqs": size,
            "max_num_batched_tokens": max(size, 8192),
            "dispatcher": "direct",
            "budget": Budget(graphs=128),
        },
        **ONCE,
    )
    assert len(plan.graphs) == 128
    assert plan.graphs[-1] == (1, size)


@pytest.mark.parametrize("size", [256, 512, 1024, 2048, 4096])
def test_shared_list_128_graphs(benchmark: Any, size: int) -> None:
    benchmark.group = "one shared list, 5 query lengths, every budget to 128 graphs"
    plan: CapturePlan = benchmark.pedantic(
        plan_captures,
        kwargs={**five_tiers(size), "costs": COSTS, "budget": Budget(graphs=128)},
        rounds=1,
    )
    assert plan.optimal
    assert plan.value.num_graphs <= 128


# ---- rivals ------------------------------------------------------------


def numpy_ladder(weights: Any, cost: Any, graphs: int) -> float:
    """The plain recurrence, all predecessors of an entry at once."""
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    best = np.full(len(sums), np.inf)
    best[0] = 0.0
    for _ in range(graphs):
        row = np.full(len(sums), np.inf)
        for b in range(1, len(sums)):
            row[b] = (best[:b] + cost[b] * (sums[b] - sums[:b])).min()
        best = row
    return float(best[-1] / sums[-1])


def python_ladder(weights: Any, cost: Any, graphs: int) -> float:
    """The plain recurrence in loops."""
    sums = [0.0]
    for w in weights.tolist():
        sums.append(sums[-1] + w)
    times = cost.tolist()
    best = [0.0] + [float("inf")] * len(weights)
    for _ in range(graphs):
        best = [float("inf")] + [
            min(best[a] + times[b] * (sums[b] - sums[a]) for a in range(b))
            for b in range(1, len(sums))
        ]
    return float(best[-1] / sums[-1])


@pytest.mark.parametrize("who", ["specgrid", "numpy", "python"])
def test_one_ladder_against_the_plain_recurrence(benchmark: Any, who: str) -> None:
    benchmark.group = "one ladder, 512 sizes, 16 graphs"
    weights = np.random.default_rng(1).random(512)
    cost = 7000 + 20.0 * np.arange(513)

    def specgrid() -> float:
        plan = plan_captures(
            Workload({(1, n): w for n, w in enumerate(weights.tolist(), 1)}, floor=0),
            COSTS,
            max_num_seqs=512,
            dispatcher="direct",
            budget=Budget(graphs=16),
        )
        return plan.mean_step_us

    call = {
        "specgrid": specgrid,
        "numpy": lambda: numpy_ladder(weights, cost, 16),
        "python": lambda: python_ladder(weights, cost, 16),
    }[who]
    found = benchmark.pedantic(call, rounds=1 if who == "python" else 3)
    assert found == pytest.approx(numpy_ladder(weights, cost, 16), rel=1e-8)


@pytest.mark.parametrize("who", ["native", "reference"])
def test_shared_list_against_the_reference(benchmark: Any, who: str) -> None:
    benchmark.group = "one shared list, 64 requests, every budget to 60"
    arguments = {**five_tiers(64), "costs": COSTS, "budget": Budget(graphs=60)}

    def call() -> CapturePlan:
        with _backend.use(who):
            return plan_captures(**arguments)

    plan = benchmark.pedantic(call, rounds=1 if who == "reference" else 5)
    assert plan.sizes == plan_captures(**arguments).sizes
