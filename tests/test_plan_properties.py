# SPDX-License-Identifier: Apache-2.0
"""What must hold of every plan."""

from __future__ import annotations

import random
from itertools import chain, combinations, pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specgrid import (
    Budget,
    CapturePlan,
    ConfigError,
    Costs,
    Drafter,
    GraphSet,
    Workload,
    _backend,
    evaluate_captures,
    plan_captures,
)
from specgrid._plan_inputs import make_inputs, make_limits
from specgrid._plan_solve import solve
from tests.plan_cases import DISPATCHERS, Case, cases

FREE = Budget(graphs=12, full_coverage=False)
dispatchers = st.sampled_from(DISPATCHERS)
shared = st.sampled_from(DISPATCHERS[:2])


def plan(
    case: Case, dispatcher: str, budget: Budget = FREE, **more: Any
) -> CapturePlan:
    return plan_captures(
        case.workload,
        case.costs,
        **case.arguments(),
        dispatcher=dispatcher,
        budget=budget,
        **more,
    )


def same(a: CapturePlan, b: CapturePlan) -> bool:
    return (a.sizes, a.graphs) == (b.sizes, b.graphs)


@given(cases(largest=6), shared, st.integers(0, 12))
@settings(max_examples=40)
def test_no_list_of_sizes_is_better(case: Case, dispatcher: str, graphs: int) -> None:
    found = plan(case, dispatcher, Budget(graphs=graphs, full_coverage=False))
    sizes = range(1, case.max_size + 1)
    means = []
    for subset in chain.from_iterable(combinations(sizes, k) for k in range(7)):
        value = evaluate_captures(
            subset, case.workload, case.costs, **case.server, dispatcher=dispatcher
        )
        if value.num_graphs <= graphs:
            means.append(value.mean_step_us)
    assert found.mean_step_us == pytest.approx(min(means), rel=1e-7)


@given(cases(largest=6), shared, st.integers(0, 150), st.integers(-9, 9))
@settings(max_examples=25)
def test_no_list_of_sizes_is_better_for_its_bytes(
    case: Case, dispatcher: str, limit: int, slope: int
) -> None:
    """Prices that rise, fall or jump with the size."""
    costs = Costs(
        case.costs.full,
        case.costs.piecewise,
        case.costs.eager,
        graph_bytes=lambda t: max(1, 20 + slope * (t % 5)),
        pool_bytes=lambda t: 2 * t,
    )
    found = plan_captures(
        case.workload,
        costs,
        **case.arguments(),
        dispatcher=dispatcher,
        budget=Budget(bytes=limit, full_coverage=False),
    )
    means = []
    for subset in chain.from_iterable(combinations(range(1, 7), k) for k in range(7)):
        value = evaluate_captures(
            subset, case.workload, costs, **case.server, dispatcher=dispatcher
        )
        if value.graph_bytes <= limit:
            means.append(value.mean_step_us)
    assert found.mean_step_us == pytest.approx(min(means), rel=1e-7)


@given(cases(), shared)
@settings(max_examples=60)
def test_the_stated_value_is_what_dispatch_makes_of_it(
    case: Case, dispatcher: str
) -> None:
    """Step by step through GraphSet.dispatch, with nothing of the planner's."""
    found = plan(case, dispatcher)
    graphs = None
    if found.sizes:
        graphs = GraphSet(
            found.sizes,
            **case.server,
            policy="vllm-0.33" if dispatcher == "union" else dispatcher,
        )
        assert found.value.num_graphs == graphs.num_graphs

    def step(reqs: int, tokens: int, query_len: int | None) -> float:
        graph = graphs.dispatch(reqs, tokens, query_len) if graphs else None
        if graph is None or graph.mode == "NONE":
            return case.costs.eager(tokens)
        cost = case.costs.full if graph.mode == "FULL" else case.costs.piecewise
        return cost(graph.num_tokens)

    load = case.workload
    total = sum(
        weight * step(n, q * n, q) for (q, n), weight in load.decode.items()
    ) + sum(weight * step(1, t, None) for t, weight in load.mixed.items())
    mean = (1 - load.floor) * total / load.total
    if load.floor:
        inputs = found._inputs
        assert inputs is not None
        diagonal = inputs.limits.diagonal()
        mean += load.floor * sum(step(n, q * n, q) for q, n in diagonal) / len(diagonal)
    assert found.mean_step_us == pytest.approx(mean, rel=1e-12)


@given(cases(), dispatchers)
@settings(max_examples=60)
def test_the_frontier_falls_and_stays_within_budget(
    case: Case, dispatcher: str
) -> None:
    frontier = list(plan(case, dispatcher).frontier)
    for before, after in pairwise(frontier):
        assert after.num_graphs > before.num_graphs
        assert after.mean_step_us < before.mean_step_us
    assert frontier[-1].num_graphs <= 12


@given(cases(), dispatchers, st.floats(1e-6, 1e6))
@settings(max_examples=60)
def test_scaling_the_weights_changes_nothing(
    case: Case, dispatcher: str, factor: float
) -> None:
    load = case.workload
    scaled = Workload(
        {key: weight * factor for key, weight in load.decode.items()},
        {key: weight * factor for key, weight in load.mixed.items()},
        floor=load.floor,
    )
    other = Case(case.server, scaled, case.costs, case.max_size)
    assert same(plan(case, dispatcher), plan(other, dispatcher))


@given(cases(), dispatchers, st.integers(0, 5000))
@settings(max_examples=60)
def test_a_constant_on_every_step_shifts_the_value_alone(
    case: Case, dispatcher: str, extra: int
) -> None:
    costs = case.costs
    shifted = Costs(
        lambda t: costs.full(t) + extra,
        lambda t: costs.piecewise(t) + extra,
        lambda t: costs.eager(t) + extra,
    )
    here = plan(case, dispatcher)
    there = plan(Case(case.server, case.workload, shifted, case.max_size), dispatcher)
    assert same(here, there)
    assert there.mean_step_us == pytest.approx(here.mean_step_us + extra, rel=1e-9)


@given(cases(), dispatchers, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_order_and_empty_weights_change_nothing(
    case: Case, dispatcher: str, rng: random.Random
) -> None:
    load = case.workload
    decode = list(load.decode.items()) + [
        ((q, n), 0) for q, n in load.decode if (q, n + 1) not in load.decode
    ]
    mixed = [
        *load.mixed.items(),
        *((t, 0) for t in range(1, 5) if t not in load.mixed),
    ]
    rng.shuffle(decode)
    rng.shuffle(mixed)
    other = Workload(
        {key: max(weight, load.decode.get(key, 0)) for key, weight in decode},
        dict(mixed),
        floor=load.floor,
    )
    server = dict(case.server)
    if server["schedule"] is not None:
        server["schedule"] = list(server["schedule"])
        rng.shuffle(server["schedule"])
    here = plan(case, dispatcher)
    there = plan(Case(server, other, case.costs, case.max_size), dispatcher)
    assert same(here, there)
    assert there.mean_step_us == pytest.approx(here.mean_step_us, rel=1e-12)


@given(
    cases(),
    dispatchers,
    st.integers(1, 400),
    st.integers(0, 40),
    st.integers(1, 300),
    st.booleans(),
)
@settings(max_examples=60)
def test_bytes_and_seconds_stay_within_budget(
    case: Case, dispatcher: str, limit: int, slope: int, seconds: int, drafts: bool
) -> None:
    costs = Costs(
        case.costs.full,
        case.costs.piecewise,
        case.costs.eager,
        graph_bytes=lambda t: 10 + slope * t,
        pool_bytes=lambda t: 3 * t,
        graph_seconds=lambda t: 0.5 + t / 8,
    )
    drafter = None
    if drafts and case.server["num_speculative_tokens"]:
        drafter = Drafter()
    # Keyed graphs pay for the largest pool, which may not leave any room.
    assume(dispatcher != "direct" or limit >= 3 * case.max_size)
    found = plan_captures(
        case.workload,
        costs,
        **case.arguments(),
        dispatcher=dispatcher,
        drafter=drafter,
        budget=Budget(bytes=limit, seconds=seconds / 10, full_coverage=False),
    )
    assert found.value.graph_bytes <= limit
    assert found.value.graph_seconds <= seconds / 10 + 1e-9
    assert found.optimal
    points = list(found.frontier)
    assert min(p.mean_step_us for p in points) <= found.mean_step_us * (1 + 1e-9)


@given(cases(), dispatchers)
@settings(max_examples=60)
def test_full_coverage_covers(case: Case, dispatcher: str) -> None:
    for coverage in (True, "every-batch"):
        budget = Budget(graphs=60, full_coverage=coverage)
        inputs = make_inputs(
            case.workload,
            case.costs,
            budget,
            dispatcher,
            make_limits(
                case.server["max_num_seqs"],
                case.server["num_speculative_tokens"],
                case.server["schedule"],
            ),
        )
        found = plan_captures(
            case.workload,
            case.costs,
            **case.server,
            dispatcher=dispatcher,
            budget=budget,
        )
        if dispatcher == "direct":
            for q, n in inputs.required:
                assert any(p == q and m >= n for p, m in found.graphs)
            continue
        graphs = GraphSet(
            found.sizes,
            **case.server,
            policy="vllm-0.33" if dispatcher == "union" else dispatcher,
        )
        for q, n in inputs.required:
            assert graphs.dispatch(n, q * n, q).mode == "FULL"
        if coverage == "every-batch":
            assert graphs.coverage().missed == []


@given(cases(), dispatchers, st.sampled_from([True, False, "every-batch"]))
@settings(max_examples=80)
def test_both_back_ends_find_the_same_plan(
    case: Case, dispatcher: str, coverage: bool | str
) -> None:
    budget = Budget(graphs=14, full_coverage=coverage)  # type: ignore[arg-type]
    answers = []
    for name in ("native", "reference"):
        with _backend.use(name):
            try:
                found = plan(case, dispatcher, budget)
                answers.append([found.sizes, found.graphs, list(found.frontier)])
            except ConfigError as error:
                answers.append([str(error)])
    assert answers[0] == answers[1]


@given(cases(), dispatchers, st.integers(1, 300), st.integers(0, 20))
@settings(max_examples=60)
def test_both_back_ends_agree_on_prices_by_size(
    case: Case, dispatcher: str, limit: int, slope: int
) -> None:
    costs = Costs(
        case.costs.full,
        case.costs.piecewise,
        case.costs.eager,
        graph_bytes=lambda t: 7 + slope * (t % 5),
    )
    answers = []
    for name in ("native", "reference"):
        with _backend.use(name):
            found = plan_captures(
                case.workload,
                costs,
                **case.arguments(),
                dispatcher=dispatcher,
                budget=Budget(bytes=limit, full_coverage=False),
            )
            answers.append(found.mean_step_us)
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)


@given(cases(max_num_seqs=12, largest=40))
@settings(max_examples=60)
def test_hull_and_plain_recurrence_find_the_same_graphs(case: Case) -> None:
    limits = make_limits(
        case.server["max_num_seqs"],
        case.server["num_speculative_tokens"],
        case.server["schedule"],
    )
    inputs = make_inputs(
        case.workload,
        case.costs,
        Budget(graphs=30, full_coverage=False),
        "direct",
        limits,
        (),
        40,
    )
    hull, plain = solve(inputs), solve(inputs, plain=True)
    assert list(hull.points) == list(plain.points)


@given(cases(), dispatchers)
@settings(max_examples=40)
def test_threads_change_nothing(case: Case, dispatcher: str) -> None:
    one = plan(case, dispatcher, num_threads=1)
    many = plan(case, dispatcher, num_threads=5)
    assert same(one, many)
    assert list(one.frontier) == list(many.frontier)


@given(cases(), dispatchers)
@settings(max_examples=40)
def test_what_a_capture_is_worth_is_never_negative(case: Case, dispatcher: str) -> None:
    """A plan with a capture that costs time would not be the best."""
    found = plan(case, dispatcher)
    worth = found.worth()
    assert list(worth) == [*found.sizes, *found.graphs]
    assert all(us >= -1e-6 for us in worth.values())


@given(cases(), dispatchers)
@settings(max_examples=40)
def test_the_plan_holds_inside_its_eager_range_and_not_beyond(
    case: Case, dispatcher: str
) -> None:
    found = plan(case, dispatcher)
    low, high = found.eager_shift_range()
    assert low <= 0 <= high

    def still_best(shift: float) -> bool:
        costs = Costs(
            case.costs.full,
            case.costs.piecewise,
            lambda t: max(case.costs.eager(t) + shift, 0.0),
        )
        moved = plan_captures(
            case.workload,
            costs,
            **case.arguments(),
            dispatcher=dispatcher,
            budget=FREE,
        )
        value = evaluate_captures(
            found.sizes,
            case.workload,
            costs,
            graphs=found.graphs,
            **case.server,
            dispatcher=dispatcher,
        )
        return value.mean_step_us <= moved.mean_step_us * (1 + 1e-7)

    if high < float("inf"):
        assert still_best(high * 0.999)
        assert not still_best(high * 1.01 + 0.01)
    if low > -float("inf"):
        assert still_best(low * 0.999)


@given(cases(), dispatchers)
@settings(max_examples=30)
def test_saving_and_loading_keeps_the_plan(
    tmp_path_factory: pytest.TempPathFactory, case: Case, dispatcher: str
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    found = plan(case, dispatcher)
    found.save(path)
    loaded = CapturePlan.load(path)
    assert loaded == found
    loaded.save(path)
    assert CapturePlan.load(path) == found
