# SPDX-License-Identifier: Apache-2.0
"""Hands a planning task to the back end and reads its answer.

Three kinds of budget are told apart: a number of graphs (which equal prices turn
every budget into), none at all, and limits on bytes or seconds where graphs
differ.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        f"{getattr(inputs.budget, name):.12g} {name}"
        for name in ("graphs", "bytes", "seconds")
        if getattr(inputs.budget, name) is not None
    )
    needs = ", ".join(f"{value:.12g} {name}" for name, value in least.items())
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
) -> Solved:
    """The best plan for a task, and the frontier around it.

    Args:
        inputs: The task.
        num_threads: Threads to use; None for the machine's, at most eight. The
            answer does not depend on it.
        max_labels: Labels a node may hold, where bytes or seconds differ by size.
        plain: Ladders by the plain recurrence instead of the hull.

    Raises:
        ConfigError: Nothing fits the budget; the message says what would.
    """
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
            return problem.frontier(budget, plain, threads)

    else:
        problem = task.shared()

        def read(entry: int) -> Entry:
            return Entry(entry)

        def frontier(budget: int) -> Any:
            return problem.frontier(budget, threads)

    if task.by_count:
        return _solve_by_count(task, problem, frontier, read, threads)
    return _solve_by_labels(task, problem, read, max_labels)


def _solve_by_count(
    task: Task,
    problem: Any,
    frontier: Callable[[int], Any],
    read: Callable[[int], Entry],
    threads: int,
) -> Solved:
    inputs = task.inputs
    direct = inputs.dispatcher == "direct"
    limits = task.graph_limits()
    most = int(limits.max(initial=0))
    if direct and len(limits):
        # A pool that grows with the largest graph is charged at its largest.
        most = int(limits[-1])
    if most < 0:
        raise _unmet(inputs, _least_by_count(task, problem))
    if direct:
        width = min(most, task.most_graphs)
        if inputs.budget.graphs is None and width > MAX_FRONTIER:
            # Solved up to there; what more graphs could gain is bounded.
            task.refuse_if_large(MAX_FRONTIER)
            found = _pick(task, problem, frontier(MAX_FRONTIER), read, [])
            least = min(found.bound, task.best_conceivable())
            return Solved(found.points, found.chosen, least)
        task.refuse_if_large(width)
        return _pick(task, problem, frontier(width), read, [])
    unlimited = Points(problem.unlimited(threads), read)
    if not unlimited:
        raise _unmet(inputs, {})
    best = unlimited[0]
    width = max(most, 0)
    if len(np.unique(limits)) > 1:
        width = min(width, task.most_graphs)
        task.refuse_if_large(width)
        return _pick(task, problem, frontier(width), read, [])
    # More graphs than the best plan of all uses buy nothing.
    capped = min(width, best.graphs)
    if inputs.budget.graphs is None:
        capped = min(capped, MAX_FRONTIER)
    task.refuse_if_large(capped)
    beyond = unlimited[:] if width >= best.graphs > capped else []
    return _pick(task, problem, frontier(capped), read, beyond)


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


def _solve_by_labels(
    task: Task, problem: Any, read: Callable[[int], Entry], max_labels: int
) -> Solved:
    inputs = task.inputs
    byte_limit, second_limit = task.byte_unit.limit, task.second_unit.limit
    if inputs.dispatcher == "direct" and byte_limit >= 0:
        # A pool that grows with the largest graph is charged at its largest.
        pool = int(task.byte_unit.units(task.pool[task.sizes[-1:]])[0])
        byte_limit = byte_limit - pool
        if byte_limit < 0:
            raise _unmet(inputs, {"bytes": math.ceil(task.pool[task.sizes[-1]])})
    graph_limit = -1 if inputs.budget.graphs is None else int(inputs.budget.graphs)
    found, bound, least, *table = problem.labels(
        np.array([graph_limit, byte_limit, second_limit], np.int64), max_labels
    )
    numbers, offsets, entries = table
    # The best plan comes first, then the corners of the trade-off.
    points = Points((numbers[:, [1, 0]], offsets, entries), read)
    if not found:
        if least[0] >= _FAR:
            raise _unmet(inputs, {})
        needs = {}
        if graph_limit >= 0:
            needs["graphs"] = float(least[0])
        if inputs.budget.bytes is not None:
            extra = task.byte_unit.limit - byte_limit
            needs["bytes"] = float((least[1] + extra) * task.byte_unit.size)
        if inputs.budget.seconds is not None:
            needs["seconds"] = float(least[2] * task.second_unit.size)
        note = " (each taken alone)" if len(needs) > 1 else ""
        raise _unmet(inputs, needs, note)
    # Without those another one beats.
    kept: list[Solution] = []
    for i in np.lexsort((numbers[:, 0], numbers[:, 3], numbers[:, 2])).tolist():
        if not kept or points[i].time < kept[-1].time:
            kept.append(points[i])
    return Solved(kept, points[0], int(bound))
