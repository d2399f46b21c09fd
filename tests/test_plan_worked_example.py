# SPDX-License-Identifier: Apache-2.0
"""The planner on two worked examples whose answers are known.

The small one was solved by trying all 65,535 lists (csrc/tests/test_plan.cpp
tries them again); the large one was checked through the dispatcher.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from specgrid import (
    Budget,
    Costs,
    GraphSet,
    Workload,
    capture_sizes,
    evaluate_captures,
    plan_captures,
)
from tests.conftest import GOLDEN

SCHEDULE = [[1, 4, 3], [5, 6, 1], [7, 8, 0]]
DECODE = {
    (4, 1): 140,
    (4, 2): 180,
    (4, 3): 150,
    (4, 4): 120,
    (2, 5): 90,
    (2, 6): 70,
    (1, 7): 50,
    (1, 8): 90,
    (2, 4): 12,
    (1, 6): 8,
}
MIXED = {9: 20, 11: 20, 13: 20, 16: 30}
COSTS = Costs.linear(6000, 60, 2500, 8000)
SERVER: dict[str, Any] = {
    "schedule": SCHEDULE,
    "max_num_seqs": 8,
    "num_speculative_tokens": 3,
}

# Smallest budget -> (mean milliseconds, sizes).
SHARED_BY_BUDGET = {
    0: (14.589, ()),
    1: (10.132, (13,)),
    2: (9.753, (14,)),
    3: (7.555, (16,)),
    4: (7.543, (15, 16)),
    7: (6.955, (8, 16)),
    8: (6.951, (8, 15, 16)),
    10: (6.868, (8, 11, 16)),
    11: (6.867, (8, 11, 15, 16)),
    12: (6.855, (8, 9, 11, 16)),
    13: (6.854, (8, 9, 11, 15, 16)),
    14: (6.835, (1, 8, 11, 16)),
    15: (6.833, (1, 8, 11, 15, 16)),
    16: (6.821, (1, 8, 9, 11, 16)),
    17: (6.820, (1, 8, 9, 11, 15, 16)),
    18: (6.818, (1, 8, 9, 11, 13, 16)),
    19: (6.817, (1, 7, 8, 9, 11, 15, 16)),
    20: (6.814, (1, 7, 8, 9, 11, 13, 16)),
    23: (6.814, (1, 6, 7, 8, 9, 11, 13, 16)),
}
BY_BUDGET: dict[str, dict[int, tuple[float, tuple[int, ...]]]] = {
    "union": SHARED_BY_BUDGET | {6: (7.345, (11, 16))},
    "per-query-length": SHARED_BY_BUDGET
    | {5: (7.497, (13, 16)), 6: (7.335, (9, 16)), 9: (6.925, (8, 13, 16))},
}
DIRECT_BY_BUDGET = (
    [14.589, 10.092, 8.730, 7.550, 7.073, 6.919, 6.883, 6.849, 6.837]
    + [6.825, 6.822, 6.818, 6.816, 6.814]
    + [6.814] * 11
)


def plan(dispatcher: str, graphs: int) -> Any:
    return plan_captures(
        Workload(DECODE, MIXED, floor=0),
        COSTS,
        **SERVER,
        dispatcher=dispatcher,
        budget=Budget(graphs=graphs, full_coverage=False),
    )


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length"])
def test_every_budget_of_the_small_example(backend: Any, dispatcher: str) -> None:
    expected = (0.0, ())
    for budget in range(25):
        expected = BY_BUDGET[dispatcher].get(budget, expected)
        found = plan(dispatcher, budget)
        assert (round(found.mean_step_us / 1000, 3), tuple(found.sizes)) == expected
        assert found.value.num_graphs <= budget
        assert found.optimal


def test_every_budget_of_the_small_example_with_keyed_graphs(backend: Any) -> None:
    for budget in range(25):
        found = plan("direct", budget)
        assert round(found.mean_step_us / 1000, 3) == DIRECT_BY_BUDGET[budget]
        assert len(found.graphs) + len(found.sizes) <= budget


def test_one_plan_holds_every_smaller_budget(backend: Any) -> None:
    for dispatcher in ("union", "per-query-length", "direct"):
        whole = plan(dispatcher, 24)
        for budget in range(25):
            found = plan(dispatcher, budget)
            point = whole.at(budget)
            assert point.sizes == tuple(found.sizes)
            assert point.graphs == tuple(found.graphs)
            assert point.mean_step_us == pytest.approx(found.mean_step_us, rel=1e-8)


def test_budget_seven_by_hand(backend: Any) -> None:
    found = plan("union", 7)
    assert found.mean_step_us == pytest.approx(
        (480 * 6480 + 430 * 6960 + 90 * 9460) / 1000
    )


def test_the_frontier_has_dents(backend: Any) -> None:
    """3 -> 4 graphs gains little, 6 -> 7 a lot: greedy would stop too early."""
    means = [plan("union", g).mean_step_us for g in (3, 4, 6, 7)]
    assert means[0] - means[1] == pytest.approx(12, abs=0.5)
    assert means[2] - means[3] == pytest.approx(390, abs=0.5)


def test_the_default_list_of_the_small_example(backend: Any) -> None:
    for dispatcher in ("union", "per-query-length"):
        value = evaluate_captures(
            [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64],
            Workload(DECODE, MIXED, floor=0),
            COSTS,
            **SERVER,
            dispatcher=dispatcher,
        )
        assert value.num_graphs == 27
        assert round(value.mean_step_us / 1000, 3) == 6.837


def test_adding_a_size_can_hurt_under_one_ladder(backend: Any) -> None:
    """14 makes a level for query length 2 alone, which hides 16 from 3 x 4."""
    both = [
        evaluate_captures(
            sizes, Workload(DECODE, MIXED, floor=0), COSTS, **SERVER
        ).mean_step_us
        for sizes in ([15, 16], [14, 15, 16])
    ]
    assert both[1] - both[0] == pytest.approx(1085, abs=0.5)


# ---- 256 requests, five query lengths ------------------------------------------

LARGE: dict[str, Any] = {
    "schedule": [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 256, 0]],
    "max_num_seqs": 256,
    "num_speculative_tokens": 5,
}
LARGE_COSTS = Costs.linear(7000, 20, 3000, 12000)


@pytest.fixture(scope="module")
def load() -> Workload:
    data = json.loads((GOLDEN / "plan_two_mode_load.json").read_text())
    return Workload({(q, n): weight for q, n, weight in data["decode"]}, floor=0)


@pytest.mark.parametrize(
    ("dispatcher", "mean_ms", "full", "piecewise"),
    [("union", 10.362, 69.9, 30.1), ("per-query-length", 9.472, 100.0, 0.0)],
)
def test_the_default_list_of_the_large_example(
    load: Workload, dispatcher: str, mean_ms: float, full: float, piecewise: float
) -> None:
    sizes = capture_sizes(256, 5, LARGE["schedule"])
    assert len(sizes) == 56
    value = evaluate_captures(sizes, load, LARGE_COSTS, **LARGE, dispatcher=dispatcher)
    assert value.num_graphs == 298
    assert round(value.mean_step_us / 1000, 3) == mean_ms
    assert round(100 * value.full_share, 1) == full
    assert round(100 * value.piecewise_share, 1) == piecewise


LARGE_ROWS = {
    # (budget, graphs used, number of sizes, mean ms, FULL %, sizes or None)
    "union": [
        (20, 16, 3, 10.169, 100.0, [90, 180, 256]),
        (30, 28, 5, 9.904, 99.3, [66, 120, 160, 204, 256]),
        (60, 60, 11, 9.660, 99.6, None),
        (120, 120, 22, 9.538, 99.1, None),
    ],
    "per-query-length": [
        (30, 30, 6, 9.822, 100.0, [55, 96, 155, 197, 198, 256]),
        (60, 60, 11, 9.614, 100.0, None),
        (120, 120, 21, 9.499, 100.0, None),
    ],
}


@pytest.mark.parametrize("dispatcher", list(LARGE_ROWS))
def test_plans_of_the_large_example(load: Workload, dispatcher: str) -> None:
    whole = plan_captures(
        load,
        LARGE_COSTS,
        **LARGE,
        dispatcher=dispatcher,
        budget=Budget(graphs=120, full_coverage=False),
    )
    assert whole.lower_bound_us is not None
    assert round(whole.lower_bound_us / 1000, 3) == 9.431
    assert round(whole.eager_us / 1000, 3) == 21.431
    for budget, used, number, mean_ms, full, sizes in LARGE_ROWS[dispatcher]:
        point = whole.at(budget)
        assert (point.num_graphs, len(point.sizes)) == (used, number)
        assert round(point.mean_step_us / 1000, 3) == mean_ms
        value = evaluate_captures(
            point.sizes, load, LARGE_COSTS, **LARGE, dispatcher=dispatcher
        )
        assert value.mean_step_us == pytest.approx(point.mean_step_us, rel=1e-8)
        assert value.num_graphs == used
        assert round(100 * value.full_share, 1) == full
        if sizes is not None:
            assert list(point.sizes) == sizes


def test_keyed_graphs_of_the_large_example(load: Workload) -> None:
    whole = plan_captures(
        load,
        LARGE_COSTS,
        **LARGE,
        dispatcher="direct",
        budget=Budget(graphs=60, full_coverage=False),
    )
    for budget, mean_ms in [(15, 9.716), (30, 9.547), (60, 9.467)]:
        assert round(whole.at(budget).mean_step_us / 1000, 3) == mean_ms


def test_full_coverage_costs_little_there(load: Workload) -> None:
    """Default plan: the widest batch of every query length on FULL."""
    found = plan_captures(load, LARGE_COSTS, **LARGE, budget=Budget(graphs=60))
    value = evaluate_captures(found.sizes, load, LARGE_COSTS, **LARGE)
    assert value.mean_step_us < 9700
    every = plan_captures(
        load,
        LARGE_COSTS,
        **LARGE,
        budget=Budget(graphs=60, full_coverage="every-batch"),
    )
    graphs = GraphSet(every.sizes, **LARGE)
    assert graphs.coverage().missed == []
    assert every.value.mean_step_us >= found.value.mean_step_us
    widest = [(t.query_len, t.max_batch) for t in GraphSet(found.sizes, **LARGE).tiers]
    assert widest == [(1, 256), (2, 128), (4, 64), (5, 32), (6, 16)]
    for q, n in widest:
        served = GraphSet(found.sizes, **LARGE).dispatch(n, n * q, query_len=q)
        assert served.mode == "FULL"
