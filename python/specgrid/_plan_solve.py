# SPDX-License-Identifier: Apache-2.0
"""Hands a planning task to the back end and reads its answer.

Three kinds of budget are told apart: a number of graphs (which equal prices turn
every budget into), none at all, and limits on bytes or seconds where graphs
differ.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from specgrid._check import count
from specgrid._errors import ConfigError
from specgrid._plan_inputs import Inputs
from specgrid._plan_problem import Task

#: Without a budget, the frontier stops at this many graphs.
MAX_FRONTIER = 1024

#: Labels a node may hold before the search gives up proving its answer.
MAX_LABELS = 4096

#: For back ends: go on until the answer is known.
NO_TIME_LIMIT = -1.0

_FAR = 1 << 60


@dataclass(frozen=True)
class Entry:
    """What a plan captures by one choice: a size, or a (query_len, num_reqs)."""

    size: int
    graph: tuple[int, int] | None = None


@dataclass(frozen=True)
class Solution:
    """One plan as the solver sees it."""

    time: int
    graphs: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Solved:
    """All a solver found. `points` ascend in graphs, or in bytes, and fall in time."""

    points: Sequence[Solution]
    chosen: Solution
    bound: int  # no plan within the budget is faster
    out_of_time: bool = False


class Clock:
    """How long a solver may go on. Most of the time goes to the exact search; what
    is left finds a good plan and a bound if that did not end."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._begin = time.monotonic()

    def _left(self, share: float) -> float:
        if self.limit is None:
            return NO_TIME_LIMIT
        return max(0.0, share * self.limit - (time.monotonic() - self._begin))

    def exact(self) -> float:
        """Seconds the exact search may take."""
        return self._left(0.6)

    def rest(self) -> float:
        """Seconds until all is over."""
        return self._left(1.0)

    def over(self) -> bool:
        return self.limit is not None and self.rest() == 0


class Points(Sequence[Solution]):
    """A back end's answer, its entries read when somebody asks for them."""

    def __init__(
        self, table: tuple[Any, Any, Any], read: Callable[[int], Entry]
    ) -> None:
        self._numbers, self._offsets, self._entries = table
        self._read = read

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> list[Solution]: ...
    def __getitem__(self, index: int | slice) -> Solution | list[Solution]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        graphs, time = self._numbers[i].tolist()
        part = self._entries[self._offsets[i] : self._offsets[i + 1]].tolist()
        return Solution(time, graphs, tuple(self._read(e) for e in part))


def _amount(value: float, name: str) -> str:
    """A budget in words, rounded up where it is no whole number."""
    if name == "seconds":
        return f"{math.ceil(value * 1000 - 1e-6) / 1000:,g} seconds"
    return f"{math.ceil(value)} {name}"


def _unmet(inputs: Inputs, least: dict[str, float], notes: str = "") -> ConfigError:
    """The error for a budget in which no plan holds what is promised."""
    promise = []
    if inputs.budget.full_coverage == "every-batch":
        promise.append("a FULL graph for every batch of the schedule")
    elif inputs.budget.full_coverage:
        promise.append("a FULL graph for the widest batch of every query length")
    if inputs.forced_sizes or inputs.forced_graphs:
        promise.append(f"{len(inputs.forced_sizes) + len(inputs.forced_graphs)} forced")
    what = " and ".join(promise) or "any plan"
    if not least:
        return ConfigError(
            f"no plan holds {what}: the sizes considered are {inputs.min_size} to "
            f"{inputs.max_size} tokens. Raise max_size, force fewer sizes, or pass "
            "full_coverage=False"
        )
    given = ", ".join(
        _amount(getattr(inputs.budget, name), name)
        for name in ("graphs", "bytes", "seconds")
        if getattr(inputs.budget, name) is not None
    )
    needs = ", ".join(_amount(value, name) for name, value in least.items())
    drop = ""
    if inputs.budget.full_coverage:
        drop = ", or pass full_coverage=False to leave wide batches without a graph"
    return ConfigError(
        f"the budget of {given} is too small: {what} needs at least {needs}{notes}. "
        f"Raise the budget to that{drop}"
    )


def solve(
    inputs: Inputs,
    *,
    num_threads: int | None = None,
    max_labels: int = MAX_LABELS,
    plain: bool = False,
    time_limit_s: float | None = None,
) -> Solved:
    """The best plan for a task, and the frontier around it.

    Args:
        inputs: The task.
        num_threads: Threads to use; None for the machine's, at most eight. The
            answer does not depend on it.
        max_labels: Labels a node may hold, where bytes or seconds differ by size.
        plain: Ladders by the plain recurrence instead of the hull.
        time_limit_s: Seconds after which a good plan with a proven bound is the
            answer; None to go on until the best is known.

    Raises:
        ConfigError: Nothing fits the budget; the message says what would.
    """
    clock = Clock(time_limit_s)
    if num_threads is None:
        threads = min(8, os.cpu_count() or 1)
    else:
        threads = count("num_threads", num_threads, high=1024)
    max_labels = count("max_labels", max_labels)
    task = Task(inputs)
    if inputs.dispatcher == "direct":
        problem, names = task.ladders()

        def read(entry: int) -> Entry:
            q, entries = names[entry >> 32]
            n = entries[(entry & 0xFFFFFFFF) - 1]
            return Entry(n, None) if q == 0 else Entry(q * n, (q, n))

        def frontier(budget: int) -> Any:
            return problem.frontier(budget, plain, threads, clock.exact())

    else:
        problem = task.shared()

        def read(entry: int) -> Entry:
            return Entry(entry)

        def frontier(budget: int) -> Any:
            return problem.frontier(budget, threads, clock.exact())

    if task.by_count:
        return _solve_by_count(task, problem, frontier, read, threads, clock)
    return _solve_by_labels(task, problem, read, max_labels, clock)


def _solve_by_count(
    task: Task,
    problem: Any,
    frontier: Callable[[int], Any],
    read: Callable[[int], Entry],
    threads: int,
    clock: Clock,
) -> Solved:
    inputs = task.inputs
    direct = inputs.dispatcher == "direct"
    limits = task.graph_limits()
    most = int(limits.max(initial=0))
    if direct and len(limits):
        # A pool that grows with the largest graph is charged at its largest.
        most = int(limits[-1])
    most = max(most, 0)  # a plan without graphs needs no pool
    if direct:
        width = min(most, task.most_graphs)
        if inputs.budget.graphs is None and width > MAX_FRONTIER:
            # Solved up to there; what more graphs could gain is bounded.
            task.refuse_if_large(MAX_FRONTIER)
            table = frontier(MAX_FRONTIER)
            if table is None:
                return _solve_roughly(task, problem, read, MAX_FRONTIER, clock)
            found = _pick(task, problem, table, read, [])
            least = min(found.bound, task.best_conceivable())
            return Solved(found.points, found.chosen, least)
        task.refuse_if_large(width)
        table = frontier(width)
        if table is None:
            return _solve_roughly(task, problem, read, width, clock)
        return _pick(task, problem, table, read, [])
    # One pass over the sizes, which a plan needs at the least.
    unlimited = Points(problem.unlimited(threads, NO_TIME_LIMIT), read)
    if not unlimited:
        raise _unmet(inputs, {})
    best = unlimited[0]
    width = most
    if len(np.unique(limits)) > 1:
        width = min(width, task.most_graphs)
        task.refuse_if_large(width)
        table = frontier(width)
        if table is None:
            return _solve_roughly(task, problem, read, width, clock)
        return _pick(task, problem, table, read, [])
    # More graphs than the best plan of all uses buy nothing.
    capped = min(width, best.graphs)
    if inputs.budget.graphs is None:
        capped = min(capped, MAX_FRONTIER)
    task.refuse_if_large(capped)
    if width >= best.graphs and clock.over():
        return Solved(unlimited, best, best.time)
    table = frontier(capped)
    if table is None:
        if width >= best.graphs:  # the best of all fits; only the rest is unknown
            return Solved(unlimited, best, best.time)
        return _solve_roughly(task, problem, read, capped, clock)
    beyond = unlimited[:] if width >= best.graphs > capped else []
    return _pick(task, problem, table, read, beyond)


def _solve_roughly(
    task: Task,
    problem: Any,
    read: Callable[[int], Entry],
    most: int,
    clock: Clock,
) -> Solved:
    """A good plan of at most so many graphs, and how good one could be."""
    found, bound, _, numbers, offsets, entries = problem.rough(
        np.array([most, -1, -1], np.int64), clock.rest()
    )
    points = Points((numbers[:, [1, 0]], offsets, entries), read)
    shared = task.inputs.dispatcher != "direct"
    allowed = dict(zip(task.sizes.tolist(), task.graph_limits().tolist(), strict=True))
    kept: list[Solution] = []
    for point in sorted(points, key=lambda point: (point.graphs, point.time)):
        limit = most
        if shared and point.entries:
            limit = min(most, allowed[max(e.size for e in point.entries)])
        if point.graphs <= limit and (not kept or point.time < kept[-1].time):
            kept.append(point)
    if not kept:
        raise _out_of_time(clock)
    # Without a plan within its limits the solver states no bound of its own.
    least = max(int(bound) if found else 0, min(task.best_conceivable(), kept[-1].time))
    return Solved(kept, kept[-1], least, out_of_time=True)


def _out_of_time(clock: Clock) -> ConfigError:
    return ConfigError(
        f"no plan was found in {clock.limit:g} seconds; allow more, or lower max_size "
        "so that there are fewer to try"
    )


def _pick(
    task: Task,
    problem: Any,
    table: tuple[Any, Any, Any],
    read: Callable[[int], Entry],
    beyond: list[Solution],
) -> Solved:
    points: Sequence[Solution] = Points(table, read)
    if beyond:
        points = [*points, *beyond]
    if not points:
        raise _unmet(task.inputs, _least_by_count(task, problem))
    return Solved(points, points[-1], points[-1].time)


def _least_by_count(task: Task, problem: Any) -> dict[str, float]:
    """What the smallest plan takes, for the error message."""
    inputs = task.inputs
    graphs = int(problem.least()[0])
    if graphs >= _FAR:
        return {}
    low = inputs.min_size
    out: dict[str, float] = {}
    if inputs.budget.graphs is not None:
        out["graphs"] = graphs
    if inputs.budget.bytes is not None:
        pool = task.pool[task.sizes[-1]]
        out["bytes"] = math.ceil(pool + graphs * task.bytes[low])
    if inputs.budget.seconds is not None:
        out["seconds"] = graphs * task.seconds[low]
    return out


def _least_by_labels(task: Task) -> dict[str, float]:
    """The same where prices differ by size.

    In the units of a budget an amount beyond all of it counts as just that, so the
    sums are made in units that hold any plan.
    """
    inputs, budget, most = task.inputs, task.inputs.budget, task.most_graphs
    ample = Task(
        replace(
            inputs,
            budget=replace(
                budget,
                bytes=float(task.pool.max() + most * task.bytes.max()),
                seconds=float(most * task.seconds.max()),
            ),
        )
    )
    pool = 0
    if inputs.dispatcher == "direct":
        graphs, size, seconds = ample.ladders()[0].least().tolist()
        pool = int(ample.byte_unit.units(task.pool[task.sizes[-1:]])[0])
    else:
        graphs, size, seconds = ample.shared().least().tolist()
    if graphs >= _FAR:
        return {}
    out: dict[str, float] = {}
    if budget.graphs is not None:
        out["graphs"] = graphs
    if budget.bytes is not None:
        out["bytes"] = (size + pool) * ample.byte_unit.size
    if budget.seconds is not None:
        out["seconds"] = seconds * ample.second_unit.size
    return out


def _solve_by_labels(
    task: Task,
    problem: Any,
    read: Callable[[int], Entry],
    max_labels: int,
    clock: Clock,
) -> Solved:
    inputs = task.inputs
    byte_limit, second_limit = task.byte_unit.limit, task.second_unit.limit
    pool = 0
    if inputs.dispatcher == "direct" and byte_limit >= 0:
        # A pool that grows with the largest graph is charged at its largest.
        pool = int(task.byte_unit.units(task.pool[task.sizes[-1:]])[0])
        # What does not hold the pool holds the plan without graphs alone.
        byte_limit = max(byte_limit - pool, 0)
    graph_limit = -1 if inputs.budget.graphs is None else int(inputs.budget.graphs)
    found, bound, _, *table = problem.labels(
        np.array([graph_limit, byte_limit, second_limit], np.int64),
        max_labels,
        clock.rest(),
    )
    numbers, offsets, entries = table
    # The best plan comes first, then the corners of the trade-off.
    points = Points((numbers[:, [1, 0]], offsets, entries), read)
    if not found and clock.over():
        raise _out_of_time(clock)
    if not found:
        needs = _least_by_labels(task)
        raise _unmet(inputs, needs, " (each taken alone)" if len(needs) > 1 else "")
    # Without those another one beats.
    kept: list[Solution] = []
    for i in np.lexsort((numbers[:, 0], numbers[:, 3], numbers[:, 2])).tolist():
        if not kept or points[i].time < kept[-1].time:
            kept.append(points[i])
    # Of two proofs the better one.
    least_time = max(int(bound), min(task.best_conceivable(), points[0].time))
    return Solved(kept, points[0], least_time, clock.over())
