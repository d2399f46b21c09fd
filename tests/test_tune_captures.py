# SPDX-License-Identifier: Apache-2.0
"""Schedule and captures together: values through the dispatcher, few graphs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from specgrid import ConfigError, GraphSet, Schedule, tune_schedule, tune_with_captures
from specgrid._budget import Budget
from specgrid._costs import Costs

N = 24
SURVIVAL = [0.7, 0.45, 0.3]
TOKENS = {0: 1.0, 1: 1.7, 3: 2.45}
COSTS = Costs.linear(7000, 200, 3000, 12000)


def step_us(batch: int, k: int) -> float:
    return 7000.0 + 500 * k + 900.0 * batch * (k + 1)


def tuned(**kwargs: Any) -> Any:
    points = [(b, 0, k, step_us(b, k)) for b in (1, 8, 16, N) for k in (0, 1, 3)]
    return tune_schedule(
        points, SURVIVAL, max_num_seqs=N, num_speculative_tokens=3, **kwargs
    )


def served_us(schedule: Schedule, sizes: Any, policy: str) -> float:
    """Time per emitted token by dispatching every batch, equal tokens each."""
    graphs = GraphSet(
        sizes,
        max_num_seqs=N,
        num_speculative_tokens=3,
        schedule=schedule,
        policy=policy,
    )
    lookup = schedule.lookup(N, 3)
    total = 0.0
    for batch in range(1, N + 1):
        k = lookup[batch]
        tokens = batch * (k + 1)
        graph = graphs.dispatch(batch, tokens, k + 1)
        extra = {
            "FULL": COSTS.full(graph.num_tokens),
            "PIECEWISE": COSTS.piecewise(graph.num_tokens),
            "NONE": COSTS.eager(tokens),
        }[graph.mode] - COSTS.full(tokens)
        total += (step_us(batch, k) + extra) / (batch * TOKENS[k])
    return total / N


@pytest.mark.parametrize(
    ("dispatcher", "policy"),
    [("union", "vllm-0.33"), ("per-query-length", "per-query-length")],
)
def test_every_pair_is_worth_what_dispatch_says(dispatcher: str, policy: str) -> None:
    plan = tune_with_captures(
        tuned(), COSTS, budget=Budget(graphs=40), dispatcher=dispatcher
    )
    assert len(plan.frontier) > 3
    for pair in plan.frontier:
        assert pair.us_per_token == pytest.approx(
            served_us(pair.schedule, pair.sizes, policy)
        )
        assert pair.num_graphs <= 40
    for before, after in itertools.pairwise(plan.frontier):
        assert before.num_graphs < after.num_graphs
        assert before.us_per_token > after.us_per_token
    assert plan.best == plan.frontier[-1]
    assert plan.plan is not None
    assert plan.plan.schedule == plan.best.schedule


def test_few_graphs_ask_for_fewer_tiers() -> None:
    plan = tune_with_captures(tuned(), COSTS, budget=Budget(graphs=60))
    assert plan.change_below is not None
    few = [p for p in plan.frontier if p.num_graphs < plan.change_below]
    assert few
    assert few[-1].schedule != plan.best.schedule
    assert len(few[0].schedule.rows) < len(plan.best.schedule.rows)
    # The schedule of ample graphs, with its own best captures, loses there.
    alone = [
        p
        for p in tune_with_captures(
            tuned(), COSTS, budget=Budget(graphs=few[0].num_graphs)
        ).frontier
        if p.schedule == plan.best.schedule
    ]
    assert not alone or alone[-1].us_per_token > few[0].us_per_token


def test_keyed_graphs_are_chosen_exactly_with_the_schedule() -> None:
    plan = tune_with_captures(
        tuned(), COSTS, budget=Budget(graphs=6), dispatcher="direct"
    )
    assert plan.plan is None
    for pair in plan.frontier:
        lookup = pair.schedule.lookup(N, 3)
        total = 0.0
        for batch in range(1, N + 1):
            k = lookup[batch]
            fitting = [n for q, n in pair.graphs if q == k + 1 and n >= batch]
            us = step_us(min(fitting), k) if fitting else step_us(batch, k) + 12000
            total += us / (batch * TOKENS[k])
        assert pair.us_per_token == pytest.approx(total / N)
        assert len(pair.graphs) == pair.num_graphs
        table = lookup.tolist()[1:]
        assert table == sorted(table, reverse=True)
    # No schedule of the frontier with as many keyed graphs is better.
    best = plan.frontier[-1].us_per_token
    for entry in tuned().frontier:
        table = entry.schedule.lookup(N, 3).tolist()[1:]
        for ends in itertools.combinations(range(1, N + 1), 2):
            total = 0.0
            for batch, k in enumerate(table, 1):
                fitting = [n for n in ends if n >= batch and table[n - 1] == k]
                us = step_us(min(fitting), k) if fitting else step_us(batch, k) + 12000
                total += us / (batch * TOKENS[k])
            assert total / N >= best - 1e-9


def test_a_budget_nothing_fits_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="graphs"):
        tune_with_captures(tuned(), COSTS, budget=Budget(graphs=0))


def test_two_dimensions_work_with_a_shared_list_only() -> None:
    points = [
        (b, c, k, step_us(b, k) + 0.05 * b * c * (1 - 0.2 * k))
        for b in (1, 8, 16, N)
        for c in (100, 9000)
        for k in (0, 1, 3)
    ]
    both = tune_schedule(points, SURVIVAL, max_num_seqs=N, num_speculative_tokens=3)
    assert both.schedule.is_2d
    plan = tune_with_captures(both, COSTS, budget=Budget(graphs=40))
    assert plan.best.num_graphs <= 40
    with pytest.raises(ConfigError, match="one dimension only"):
        tune_with_captures(both, COSTS, dispatcher="direct")
    with pytest.raises(ConfigError, match="under a number of graphs"):
        tune_with_captures(
            tuned(), COSTS, dispatcher="direct", budget=Budget(bytes=1e9)
        )
