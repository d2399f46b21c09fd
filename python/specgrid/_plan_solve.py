# SPDX-License-Identifier: Apache-2.0
"""Hands a planning task to the back end and reads its answer.

Two forms reach the core: one list of sizes shared by every query length
(`SharedProblem`), and independent ladders (`LadderProblem`, the direct
dispatcher). Three kinds of budget do: a number of graphs, no limit, and limits on
bytes or seconds that differ from graph to graph.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._errors import ConfigError
from specgrid._plan_inputs import Inputs, Int64, candidate_sizes

#: Without a budget, the frontier stops at this many graphs.
MAX_FRONTIER = 1024

#: Labels a node may hold before the search gives up proving its answer.
MAX_LABELS = 4096

_FAR = 1 << 60
_MIB = 1 << 20


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


def _int64(values: Any) -> Int64:
    return np.ascontiguousarray(values, dtype=np.int64)


@dataclass(frozen=True)
class _Unit:
    """What one unit of a limited resource is; amounts are rounded up to it."""

    limit: int  # in units, -1 for none
    size: float

    @classmethod
    def of(cls, limit: float | None, usual: float, smallest: float) -> _Unit:
        if limit is None:
            return cls(-1, usual)
        size = usual
        if limit < 256 * usual:  # the usual unit would be coarse
            size = smallest
            while limit / size >= 2**20:
                size *= 2
        while limit / size >= 2**20:
            size *= 2
        return cls(math.floor(limit / size), size)

    def units(self, amounts: npt.NDArray[np.float64]) -> Int64:
        # More than the whole limit is just that; it also keeps numbers small.
        units = np.ceil(amounts / self.size)
        if self.limit >= 0:
            units = np.minimum(units, self.limit + 1)
        whole: Int64 = units.astype(np.int64)
        return whole


class Task:
    """A planning task in the form its dispatcher needs."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.sizes = candidate_sizes(inputs)
        self.each = inputs.limits.graphs_each
        low = inputs.min_size
        self.bytes = inputs.graph_bytes
        self.pool = inputs.pool_bytes
        self.seconds = inputs.graph_seconds
        budget = inputs.budget
        # Equal prices turn every budget into a number of graphs.
        self.by_count = all(
            limit is None or np.ptp(prices[low:]) == 0
            for limit, prices in (
                (budget.bytes, self.bytes),
                (budget.seconds, self.seconds),
            )
        )
        self.byte_unit = _Unit.of(budget.bytes, _MIB, 1)
        self.second_unit = _Unit.of(budget.seconds, 0.01, 1e-6)

    def graph_limits(self) -> Int64:
        """Most graphs when each candidate is the largest entry, under equal prices."""
        budget, low = self.inputs.budget, self.inputs.min_size
        limits = np.full(len(self.sizes), np.inf)
        if budget.bytes is not None:
            left = budget.bytes - self.pool[self.sizes]
            price = self.bytes[low]
            with np.errstate(divide="ignore"):
                fits = np.floor(left / price) if price else np.full(len(left), np.inf)
            limits = np.minimum(limits, np.where(left < 0, -1, fits))
        if budget.seconds is not None and self.seconds[low] > 0:
            limits = np.minimum(limits, math.floor(budget.seconds / self.seconds[low]))
        if budget.graphs is not None:
            limits = np.minimum(limits, budget.graphs)
        whole: Int64 = np.minimum(limits, 2**30).astype(np.int64)
        return whole

    @property
    def most_graphs(self) -> int:
        """As many graphs as any plan can have."""
        limits, (full, entry, small) = self.inputs.limits, self.each
        reqs = sum(
            min(limits.max_num_seqs, self.inputs.max_size // q)
            for q, _, _ in limits.tiers
        )
        # With keyed graphs, one more for the drafter's later positions.
        return reqs * (full + 1) + len(self.sizes) * (entry + small)

    def best_conceivable(self) -> int:
        """Time if every step had the graph that suits it best."""
        inputs, steps, scale = self.inputs, self.inputs.steps, self.inputs.scale
        total = 0
        for table, tokens, share, eager in (
            (
                inputs.full_us,
                steps.decode_q * steps.decode_n,
                steps.decode_share,
                steps.decode_eager,
            ),
            (
                inputs.piecewise_us,
                steps.mixed_t,
                steps.mixed_share,
                steps.mixed_eager,
            ),
        ):
            best = scale.times(eager)
            if table is inputs.full_us or inputs.piecewise:
                usable = table.copy()
                usable[: inputs.min_size] = np.inf
                above = np.minimum.accumulate(usable[::-1])[::-1]
                above = np.where(np.isinf(above), above[inputs.min_size], above)
                inside = tokens <= inputs.max_size
                best[inside] = np.minimum(
                    best[inside], scale.times(above[tokens[inside]])
                )
            total += int(np.dot(scale.shares(share), best))
        return total

    # ---- the two forms ----------------------------------------------------------

    def shared(self) -> Any:
        """The task as one list of sizes for every query length."""
        inputs, steps, scale = self.inputs, self.inputs.steps, self.inputs.scale
        limits = inputs.limits
        query_lens = [q for q, _, _ in limits.tiers]
        tier_of = {q: i for i, q in enumerate(query_lens)}
        decode = np.zeros((len(steps.decode_q) + len(inputs.required), 5), np.int64)
        weighted = len(steps.decode_q)
        decode[:weighted, 0] = [tier_of[q] for q in steps.decode_q.tolist()]
        decode[:weighted, 1] = steps.decode_n
        decode[:weighted, 2] = scale.shares(steps.decode_share)
        decode[:weighted, 3] = scale.times(steps.decode_eager)
        for row, (q, n) in enumerate(inputs.required, start=weighted):
            decode[row] = (tier_of[q], n, 0, 0, 1)
        mixed = np.stack(
            [
                steps.mixed_t,
                scale.shares(steps.mixed_share),
                scale.times(steps.mixed_eager),
            ],
            axis=1,
        )
        none = np.zeros(0, np.int64)
        return _backend.active().SharedProblem(
            query_lens=_int64(query_lens),
            max_num_seqs=limits.max_num_seqs,
            max_decode_tokens=limits.max_decode_tokens,
            max_size=inputs.max_size,
            one_ladder=inputs.dispatcher == "union",
            piecewise=inputs.piecewise,
            decode=_int64(decode),
            mixed=_int64(mixed),
            full_time=scale.times(inputs.full_us),
            piecewise_time=scale.times(inputs.piecewise_us),
            sizes=self.sizes,
            forced=_int64(inputs.forced_sizes),
            graphs_each=_int64(self.each),
            graph_bytes=none if self.by_count else self.byte_unit.units(self.bytes),
            graph_seconds=(
                none if self.by_count else self.second_unit.units(self.seconds)
            ),
            pool_bytes=none if self.by_count else self.byte_unit.units(self.pool),
            graph_limits=self.graph_limits() if self.by_count else none,
        )

    def ladders(self) -> tuple[Any, list[tuple[int, list[int]]]]:
        """The task as a ladder per query length, and one for mixed steps.

        Returns:
            The problem, and for each ladder its query length (0: PIECEWISE
            sizes) with the requests or tokens of its entries.
        """
        inputs, steps, scale = self.inputs, self.inputs.steps, self.inputs.scale
        limits = inputs.limits
        entry = self.each[1]
        full_time = scale.times(inputs.full_us)
        piecewise_time = scale.times(inputs.piecewise_us)
        decode_share = scale.shares(steps.decode_share)
        decode_eager = scale.times(steps.decode_eager)
        rows: list[npt.NDArray[np.int64]] = []
        heads, names = [], []

        def add(
            q: int,
            entries: Int64,
            tokens: Int64,
            cost: Int64,
            at: Int64,
            share: Int64,
            eager: Int64,
            forced: list[int],
            reach: int,
            each: int,
        ) -> None:
            # Steps `at` round up to the next entry; those above are eager always.
            where = np.searchsorted(entries, at)
            inside = where < len(entries)
            table = np.zeros((len(entries), 6), np.int64)
            np.add.at(table[:, 0], where[inside], share[inside])
            np.add.at(table[:, 2], where[inside], (share * eager)[inside])
            table[:, 1] = cost[tokens]
            table[:, 3] = np.isin(entries, forced)
            table[:, 4] = self.byte_unit.units(self.bytes)[tokens]
            table[:, 5] = self.second_unit.units(self.seconds)[tokens]
            must = int(np.searchsorted(entries, reach)) + 1 if reach else 0
            rows.append(table)
            heads.append((must, int((share * eager)[~inside].sum()), each))
            names.append((q, entries.tolist()))

        for q, _, _ in limits.tiers:
            most = min(limits.max_num_seqs, inputs.max_size // q)
            entries = np.arange(-(-inputs.min_size // q), most + 1, dtype=np.int64)
            mine = steps.decode_q == q
            add(
                q,
                entries,
                entries * q,
                full_time,
                steps.decode_n[mine],
                decode_share[mine],
                decode_eager[mine],
                [n for p, n in inputs.forced_graphs if p == q],
                max((n for p, n in inputs.required if p == q), default=0),
                limits.graphs_for_key(q),
            )
        if inputs.piecewise:
            marks = set(inputs.forced_sizes)
            kept = sorted(
                t
                for t in {*steps.mixed_t.tolist(), *marks}
                if inputs.min_size <= t <= inputs.max_size
            )
            sizes: set[int] = set()
            previous = inputs.min_size - 1
            for mark in kept:
                # The cheapest size that still serves what lies below it.
                gap = inputs.piecewise_us[previous + 1 : mark + 1]
                sizes.update((mark, previous + 1 + int(np.argmin(gap))))
                previous = mark
            entries = _int64(sorted(sizes))
            add(
                0,
                entries,
                entries,
                piecewise_time,
                steps.mixed_t,
                scale.shares(steps.mixed_share),
                scale.times(steps.mixed_eager),
                list(inputs.forced_sizes),
                0,
                entry,
            )
        elif len(steps.mixed_t):
            heads[0] = (
                heads[0][0],
                heads[0][1]
                + int(
                    (
                        scale.shares(steps.mixed_share) * scale.times(steps.mixed_eager)
                    ).sum()
                ),
                heads[0][2],
            )
        problem = _backend.active().LadderProblem(
            lengths=_int64([len(entries) for _, entries in names]),
            steps=_int64(np.concatenate(rows)),
            limits=_int64(heads),
        )
        return problem, names


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
    threads = num_threads or min(8, os.cpu_count() or 1)
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
        if inputs.budget.graphs is None and width > 4 * MAX_FRONTIER:
            # Solved up to there; what more graphs could gain is bounded.
            found = _pick(task, problem, frontier(4 * MAX_FRONTIER), read, [])
            least = min(found.bound, task.best_conceivable())
            return Solved(found.points, found.chosen, least)
        return _pick(task, problem, frontier(width), read, [])
    unlimited = Points(problem.unlimited(threads), read)
    if not unlimited:
        raise _unmet(inputs, {})
    best = unlimited[0]
    width = max(most, 0)
    if len(np.unique(limits)) > 1:
        return _pick(task, problem, frontier(min(width, task.most_graphs)), read, [])
    # More graphs than the best plan of all uses buy nothing.
    capped = min(width, best.graphs)
    if inputs.budget.graphs is None:
        capped = min(capped, MAX_FRONTIER)
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
        _int64([graph_limit, byte_limit, second_limit]), max_labels
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
