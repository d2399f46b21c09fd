# SPDX-License-Identifier: Apache-2.0
"""A plan's stated mean step, against vLLM's own configuration and graph manager.

The plan's sizes go through vLLM's real `_set_cudagraph_sizes`, the graphs are those
of the real `CudaGraphManager`, and its real dispatch serves every step. The plug-in
only watches (policy "vllm").
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from specgrid import Budget, Costs, Workload, plan_captures

pytest.importorskip("vllm")

SCHEDULES: list[tuple[int, int, Any]] = [
    (16, 0, None),
    (24, 3, None),
    (32, 5, [[1, 4, 5], [5, 8, 4], [9, 16, 3], [17, 24, 1], [25, 32, 0]]),
    (32, 3, [[1, 10, 3], [11, 20, 1], [21, 64, 0]]),
    (20, 6, [[1, 5, 6], [6, 20, 2]]),
    (12, 2, [[1, 3, 0], [4, 12, 2]]),
    (40, 4, [[1, 7, 4], [12, 30, 3]]),
]


def task(number: int) -> tuple[dict[str, Any], Workload, Costs, Budget]:
    """A random load, wobbling costs and a budget; the same for the same number."""
    rng = random.Random(number)
    seqs, k, rows = SCHEDULES[number % len(SCHEDULES)]
    lens = sorted({1 + min(k, r[2]) for r in rows}) if rows else [1 + k]
    decode = {
        (q, n): rng.randint(1, 99)
        for q in lens
        for n in range(1, seqs + 1)
        if rng.random() < 0.5
    }
    decode[lens[0], seqs] = 5
    mixed = {rng.randint(1, 150): rng.randint(1, 30) for _ in range(rng.randint(0, 9))}
    wobble = [rng.randint(0, 60) for _ in range(400)]
    costs = Costs(
        lambda t: 900 + 12 * t + wobble[t],
        lambda t: 1300 + 12 * t + wobble[t],
        lambda t: 2500 + 12 * t,
    )
    coverage: Any = rng.choice([True, False, "every-batch"])
    least = 2 * len(lens) ** 2 + 3 * len(lens)
    graphs = 4000 if coverage == "every-batch" else least + rng.randint(0, 60)
    server = {"max_num_seqs": seqs, "num_speculative_tokens": k, "schedule": rows}
    return (
        server,
        Workload(decode, mixed),
        costs,
        Budget(graphs, full_coverage=coverage),
    )


def check(sim: Any, number: int) -> None:
    """One task: plan it, and serve its steps with a real manager."""
    server, load, costs, budget = task(number)
    plan = plan_captures(load, costs, **server, budget=budget)
    assert plan.sizes
    config = sim.stub_config(
        max_num_seqs=server["max_num_seqs"],
        num_spec=server["num_speculative_tokens"],
        schedule=server["schedule"],
        sizes=list(plan.sizes),
        settings={"policy": "vllm"},
    )
    config._set_cudagraph_sizes()
    assert config.compilation_config.cudagraph_capture_sizes == plan.sizes
    manager = sim.make_manager(config)
    captured = sum(len(descs) for descs in manager._capture_descs.values())
    assert captured == plan.value.num_graphs

    def step(reqs: int, tokens: int, query_len: int | None) -> float:
        found = manager.dispatch(reqs, tokens, query_len, 0)
        if found.cg_mode.name == "NONE":
            return costs.eager(tokens)
        cost = costs.full if found.cg_mode.name == "FULL" else costs.piecewise
        return cost(found.num_tokens)

    inputs = plan._inputs
    assert inputs is not None
    diagonal = inputs.limits.diagonal()
    given = sum(w * step(n, q * n, q) for (q, n), w in load.decode.items())
    given += sum(w * step(1, t, None) for t, w in load.mixed.items())
    floor = sum(step(n, q * n, q) for q, n in diagonal) / len(diagonal)
    mean = (1 - load.floor) * given / load.total + load.floor * floor
    assert plan.mean_step_us == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("first", range(0, 210, 30))
def test_plans_are_worth_what_real_vllm_makes_of_them(
    plugin: Any, sim: Any, first: int
) -> None:
    for number in range(first, first + 30):
        check(sim, number)
