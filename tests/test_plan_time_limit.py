# SPDX-License-Identifier: Apache-2.0
"""A plan within a time: good, within its budget, and honest about how good."""

from __future__ import annotations

import time
from typing import Any

import pytest

from specgrid import (
    Budget,
    ConfigError,
    Costs,
    Workload,
    evaluate_captures,
    plan_captures,
)
from tests.plan_cases import SIZED

COSTS = Costs.linear(100, 1, 30, 900)
PRICED = Costs.linear(
    100, 1, 30, 900, graph_bytes=lambda size: (1 << 20) + 70_000 * size
)


def load(most: int) -> Workload:
    return Workload(
        {(1, n): 1.0 + (n * 7919) % 101 for n in range(1, most + 1)}, floor=0
    )


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length", "direct"])
def test_a_long_solve_ends_in_time_with_its_gap(dispatcher: str) -> None:
    most = 1500
    begin = time.monotonic()
    found = plan_captures(
        load(most),
        COSTS,
        max_num_seqs=most,
        max_num_batched_tokens=most,
        budget=Budget(graphs=300, full_coverage=False),
        dispatcher=dispatcher,
        time_limit_s=0.2,
    )
    assert time.monotonic() - begin < 30  # generous: the machine may be busy
    worth = evaluate_captures(
        found.sizes,
        load(most),
        COSTS,
        graphs=found.graphs or None,
        max_num_seqs=most,
        max_num_batched_tokens=most,
        dispatcher=dispatcher,
    )
    assert worth.num_graphs == found.value.num_graphs <= 300
    assert worth.mean_step_us == found.mean_step_us
    if not found.optimal:
        assert 0 < found.gap < 1
        assert "solving stopped after 0.2 seconds" in found.notes[-1]


def small(limit: float | None, **budget: Any) -> Any:
    return plan_captures(
        load(14),
        COSTS if "graphs" in budget else PRICED,
        max_num_seqs=14,
        budget=Budget(full_coverage=False, **budget),
        time_limit_s=limit,
    )


@pytest.mark.parametrize("budget", [{"graphs": 6}, {"bytes": 9 << 20}])
def test_the_gap_is_true(backend: Any, budget: dict[str, Any]) -> None:
    best = small(None, **budget)
    assert best.optimal
    hasty = small(1e-9, **budget)
    assert best.mean_step_us <= hasty.mean_step_us
    floor = hasty.mean_step_us * (1 - hasty.gap)
    assert floor <= best.mean_step_us * (1 + 1e-9)
    ample = small(600, **budget)
    assert (ample.sizes, ample.optimal, ample.notes) == (best.sizes, True, best.notes)


@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan"), "soon", True])
def test_limits_that_are_no_time_are_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match="number of seconds above 0"):
        small(limit, graphs=3)


def test_a_budget_that_nothing_fits_is_still_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="needs at least"):
        plan_captures(
            load(14), COSTS, max_num_seqs=14, budget=Budget(graphs=1),
            forced_sizes=[1, 2, 3, 14], time_limit_s=60,
        )  # fmt: skip


POOLED = Costs.linear(
    100, 1, 30, 900, graph_bytes=1 << 20, pool_bytes=lambda size: 70_000 * size
)


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length", "direct"])
@pytest.mark.parametrize(
    ("costs", "budget"),
    [
        (COSTS, Budget()),
        (COSTS, Budget(full_coverage=False)),
        (COSTS, Budget(graphs=4)),
        (POOLED, Budget(bytes=9 << 20)),
        (PRICED, Budget(bytes=9 << 20, full_coverage=False)),
    ],
)
def test_no_time_at_all_gives_a_plan_within_the_budget_and_a_true_gap(
    dispatcher: str, costs: Costs, budget: Budget
) -> None:
    def solve(limit: float | None) -> Any:
        return plan_captures(
            load(14),
            costs,
            max_num_seqs=14,
            budget=budget,
            dispatcher=dispatcher,
            time_limit_s=limit,
        )

    best, hasty = solve(None), solve(1e-9)
    assert best.optimal
    assert hasty.value.num_graphs <= (budget.graphs or 100)
    assert hasty.value.graph_bytes <= (budget.bytes or 1 << 40)
    assert best.mean_step_us <= hasty.mean_step_us * (1 + 1e-9)
    floor = hasty.mean_step_us * (1 - hasty.gap)
    assert floor <= best.mean_step_us * (1 + 1e-9)


def test_no_plan_in_time_is_said_with_the_time() -> None:
    schedule = [[1, 4, 3], [5, 6, 1], [7, 8, 0]]
    with pytest.raises(ConfigError) as error:
        plan_captures(
            Workload({(4, 2): 5, (2, 6): 2, (1, 8): 1}, {11: 1}),
            SIZED,
            schedule=schedule,
            max_num_seqs=8,
            num_speculative_tokens=3,
            budget=Budget(bytes=20 << 20),
            time_limit_s=1e-9,
        )
    assert str(error.value) == (
        "no plan was found in 1e-09 seconds; allow more, or lower max_size so that "
        "there are fewer to try"
    )
