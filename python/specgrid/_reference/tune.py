# SPDX-License-Identifier: Apache-2.0
"""The tuner in plain Python: surfaces, the grid, compression, joint planning.

The specification of csrc/core/tune_*.cpp, function by function, with the same
order of arithmetic and the same ties. Slow on purpose; small grids only.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Points = tuple[Ints, Ints, Floats]  # batches, contexts, step_us

# Bits shared with csrc/core/tune_grid.hpp.
NO_K_MEASURED = 1
SOME_K_NOT_MEASURED = 2
LIMIT_NOT_MET = 4

_TIE = 1e-12


# ---- surfaces: step time of one K, interpolated or not measured ---------------


class _Line(NamedTuple):
    """Measured points at one position, ascending along the other axis."""

    at: float
    along: list[float]
    step_us: list[float]

    def value(self, position: float) -> float:
        if not self.along[0] <= position <= self.along[-1]:
            return math.nan
        hi = bisect_left(self.along, position)
        if self.along[hi] == position:
            return self.step_us[hi]
        return _between(
            position,
            (self.along[hi - 1], self.step_us[hi - 1]),
            (self.along[hi], self.step_us[hi]),
        )


def _between(x: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    (x0, y0), (x1, y1) = low, high
    if x1 == x0:
        return y0
    return y0 + (y1 - y0) * ((x - x0) / (x1 - x0))


def _lines(fixed: Ints, along: Ints, step_us: Floats) -> list[_Line]:
    lines: dict[float, _Line] = {}
    for at, position, us in sorted(
        zip(fixed.tolist(), along.tolist(), step_us.tolist(), strict=True)
    ):
        line = lines.setdefault(float(at), _Line(float(at), [], []))
        line.along.append(float(position))
        line.step_us.append(us)
    return list(lines.values())


def _along_lines(lines: list[_Line], at: float, position: float) -> float:
    """Between the nearest lines at or below, and at or above, that reach."""
    below = above = None
    for line in lines:
        value = line.value(position)
        if math.isnan(value):
            continue
        if line.at <= at:
            below = (line.at, value)
        if line.at >= at and above is None:
            above = (line.at, value)
    if below is None or above is None:
        return math.nan
    return _between(at, below, above)


class _Surface:
    def __init__(self, points: Points) -> None:
        batches, contexts, step_us = points
        self._by_batch = _lines(batches, contexts, step_us)
        self._by_context = _lines(contexts, batches, step_us)

    def at(self, batch: float, context: float) -> float:
        """Step time, or NaN where it was not measured."""
        value = _along_lines(self._by_batch, batch, context)
        if math.isnan(value):
            value = _along_lines(self._by_context, context, batch)
        return value


def tune_surface(
    batches: Ints,
    contexts: Ints,
    step_us: Floats,
    rows: Floats,
    columns: Ints,
    threads: int,
) -> Floats:
    """Step times at every (row, column), NaN where not measured."""
    del threads
    surface = _Surface((batches, contexts, step_us))
    return np.array(
        [[surface.at(row, column) for column in columns.tolist()] for row in rows]
    ).reshape(len(rows), len(columns))


# ---- the grid: best K per cell, and the cost of every K in blocks -------------


def tune_grid(
    points: Sequence[Points],
    tokens_per_step: Floats,
    max_num_seqs: int,
    columns: Ints,
    padded_batch: Floats,
    extra_us: Floats,
    weights: Floats,
    max_us_per_token: float,
    tolerance: float,
    max_rows: int,
    max_columns: int,
    threads: int,
) -> tuple[npt.NDArray[np.generic], ...]:
    """See csrc/core/tune_grid.hpp for the meaning of every array."""
    del threads
    labels, width = len(points), len(columns)
    shape = (max_num_seqs, width)
    surfaces = [_Surface(p) for p in points]
    best = np.full(shape, -1, dtype=np.int32)
    best_us = np.full(shape, math.nan)
    second_us = np.full(shape, math.nan)
    flags = np.zeros(shape, dtype=np.uint8)
    cost = np.zeros((max_num_seqs, labels, width))
    worst = np.ones((max_num_seqs, labels, width))
    for row in range(max_num_seqs):
        batch = float(row + 1)
        for column, context in enumerate(columns.tolist()):
            us: list[float] = []
            for k in range(labels):
                served = padded_batch[k, row] if padded_batch.size else batch
                extra = extra_us[k, row] if extra_us.size else 0.0
                step_us = surfaces[k].at(float(served), float(context))
                us.append((step_us + float(extra)) / float(tokens_per_step[k, column]))
            measured = [k for k in range(labels) if not math.isnan(us[k])]
            if not measured:
                flags[row, column] = NO_K_MEASURED
                continue
            chosen = measured[0]
            for k in measured[1:]:
                if us[k] < us[chosen] * (1 - _TIE):
                    chosen = k
            least = us[chosen]
            best[row, column] = chosen
            best_us[row, column] = least
            second_us[row, column] = min(
                (us[k] for k in measured if k != chosen), default=math.inf
            )
            limit = max_us_per_token
            if len(measured) < labels:
                flags[row, column] |= SOME_K_NOT_MEASURED
            if least > limit:
                flags[row, column] |= LIMIT_NOT_MET
                limit = math.inf
            weight = float(weights[row, column]) if weights.size else 1.0
            if weight > 0:
                limit = min(limit, least * (1 + tolerance) * (1 + _TIE))
            share = weight / batch
            for k in range(labels):
                allowed = us[k] <= limit
                cost[row, k, column] = share * us[k] if allowed else math.inf
                if not allowed:
                    worst[row, k, column] = math.inf
                elif weight > 0:
                    worst[row, k, column] = us[k] / least
    _fill_from_nearest(columns.tolist(), best)
    if max_rows == 0:
        none = np.empty(0, dtype=np.int64)
        nothing = np.empty((0, labels, 0))
        return best, best_us, second_us, flags, none, none, nothing, nothing
    cost, worst, row_ends = _merge(cost, worst, max_rows)
    cost, worst, column_ends = _merge(
        cost.transpose(2, 1, 0), worst.transpose(2, 1, 0), max_columns
    )
    return (
        best,
        best_us,
        second_us,
        flags,
        np.array(row_ends, dtype=np.int64),
        np.array(column_ends, dtype=np.int64),
        np.ascontiguousarray(cost.transpose(2, 1, 0)),
        np.ascontiguousarray(worst.transpose(2, 1, 0)),
    )


def tune_report(
    points: Sequence[Points],
    tokens: Floats,
    max_num_seqs: int,
    columns: Ints,
    padded_batch: Floats,
    extra_us: Floats,
    weights: Floats,
    table: npt.NDArray[np.int32],
    threads: int,
) -> tuple[Floats, npt.NDArray[np.uint8], float, float, float, Floats, Floats, Ints]:
    """What a finished table is worth; see TuneReport in csrc/core/tune_grid.hpp."""
    del threads
    assumptions, labels, _ = tokens.shape
    surfaces = [_Surface(p) for p in points]
    us_per_token = np.full(table.shape, math.nan)
    best_changes = np.zeros(table.shape, dtype=np.uint8)
    cost = best_cost = 0.0
    worst_ratio = 1.0
    label_cost = np.zeros((assumptions, labels))
    table_cost = np.zeros((assumptions, labels))
    cells_measured = np.zeros(labels, dtype=np.int64)
    for row in range(max_num_seqs):
        for column, context in enumerate(columns.tolist()):
            step_us = []
            for k in range(labels):
                served = padded_batch[k, row] if padded_batch.size else row + 1
                extra = extra_us[k, row] if extra_us.size else 0.0
                step = surfaces[k].at(float(served), float(context))
                step_us.append(step + float(extra))
            measured = [k for k in range(labels) if not math.isnan(step_us[k])]
            chosen = int(table[row, column])
            weight = float(weights[row, column]) if weights.size else 1.0
            share = weight / (row + 1)
            known = chosen in measured
            best_label = None
            for a in range(assumptions):
                us = [step_us[k] / float(tokens[a, k, column]) for k in range(labels)]
                best = None
                for k in measured:
                    if best is None or us[k] < us[best] * (1 - _TIE):
                        best = k
                if known:
                    for k in measured:
                        label_cost[a, k] += share * us[k]
                        table_cost[a, k] += share * us[chosen]
                        cells_measured[k] += a == 0
                if a > 0:
                    best_changes[row, column] |= best != best_label
                    continue
                best_label = best
                us_per_token[row, column] = us[chosen]
                if known and best is not None:
                    cost += share * us[chosen]
                    best_cost += share * us[best]
                    if weight > 0:
                        worst_ratio = max(worst_ratio, us[chosen] / us[best])
    return (
        us_per_token,
        best_changes,
        cost,
        best_cost,
        worst_ratio,
        label_cost,
        table_cost,
        cells_measured,
    )


def _nearest(known: list[int], position: Callable[[int], int], at: int) -> int:
    """The known index nearest to `at`; the smaller of two equally near."""
    return min(known, key=lambda i: (abs(position(i) - position(at)), i))


def _fill_from_nearest(columns: list[int], best: npt.NDArray[np.int32]) -> None:
    filled = []
    for column in range(len(columns)):
        known = [r for r in range(len(best)) if best[r, column] >= 0]
        if not known:
            continue
        filled.append(column)
        best[:, column] = [
            best[_nearest(known, lambda r: r, row), column] for row in range(len(best))
        ]
    for column in range(len(columns)):
        if filled and column not in filled:
            best[:, column] = best[:, _nearest(filled, columns.__getitem__, column)]


def _merge(cost: Floats, worst: Floats, limit: int) -> tuple[Floats, Floats, list[int]]:
    """Joins neighbouring slices of the first axis until at most `limit` are left.

    Slices come in one by one; past the limit the adjacent pair whose joining
    costs least becomes one. Pairs without a common admissible label never do.
    """
    if len(cost) <= limit:
        return cost, worst, list(range(1, len(cost) + 1))

    def low(slab: Floats) -> float:
        return float(slab.min(axis=0).sum())

    slabs: list[Floats] = []
    worsts: list[Floats] = []
    ends: list[int] = []
    for i in range(len(cost)):
        slabs.append(cost[i].copy())
        worsts.append(worst[i].copy())
        ends.append(i + 1)
        if len(slabs) <= limit:
            continue
        price = [
            low(slabs[j - 1] + slabs[j]) - low(slabs[j - 1]) - low(slabs[j])
            for j in range(1, len(slabs))
        ]
        at = min(range(len(price)), key=lambda j: (price[j], j))
        if price[at] == math.inf:
            continue
        slabs[at] += slabs.pop(at + 1)
        worsts[at] = np.maximum(worsts[at], worsts.pop(at + 1))
        ends.pop(at)
    return np.array(slabs), np.array(worsts), ends


# ---- compression: the least cost in at most so many entries --------------------


class _Choice(NamedTuple):
    total: float
    runs: list[tuple[int, int, int]]  # begin, end (exclusive), label


def _line(cost: Floats, max_entries: int, non_increasing: bool) -> list[_Choice]:
    """Best choice with at most e runs, for e = 1..max_entries."""
    rows, labels = cost.shape
    choices: list[_Choice] = []
    previous: list[list[float]] = []
    # came[e][row][label]: the label before a switch at this row, or None.
    came: list[list[list[int | None]]] = []
    solved = last = -1
    for e in range(max_entries):
        current = [cost[0].tolist()]
        came.append([[None] * labels])
        for row in range(1, rows):
            value = list(current[row - 1])
            source: list[int | None] = [None] * labels
            if e > 0:
                before = previous[row - 1]
                for label in range(labels):
                    others = range(label, labels) if non_increasing else range(labels)
                    other = min(others, key=lambda j: (before[j], j))
                    if before[other] < value[label]:
                        value[label], source[label] = before[other], other
            current.append(
                [v + c for v, c in zip(value, cost[row].tolist(), strict=True)]
            )
            came[e].append(source)
        label = min(range(labels), key=lambda j: (current[-1][j], j))
        total = current[-1][label]
        previous = current
        if solved < 0 or total < choices[solved].total * (1 - _TIE):
            solved, last = e, label
            choices.append(_Choice(total, _runs(came, e, last)))
        else:
            choices.append(choices[solved])
    return [c if c.total < math.inf else _Choice(c.total, []) for c in choices]


def _runs(
    came: list[list[list[int | None]]], e: int, label: int
) -> list[tuple[int, int, int]]:
    out = []
    end = len(came[e])
    for row in range(end - 1, -1, -1):
        source = came[e][row][label]
        if row > 0 and source is None:
            continue
        out.append((row, end, label))
        if source is not None:
            end, label, e = row, source, e - 1
    return out[::-1]


def compress_line(
    cost: Floats, max_entries: int, non_increasing: bool
) -> tuple[Floats, Ints]:
    """Totals, and (entries, begin, end, label) rows."""
    choices = _line(cost, max_entries, non_increasing)
    runs = [(e, *run) for e, choice in enumerate(choices, 1) for run in choice.runs]
    return np.array([c.total for c in choices]), np.array(runs, np.int64).reshape(-1, 4)


def _bands(
    cost: Floats, max_entries: int, non_increasing: bool
) -> list[tuple[float, list[tuple[int, int, int, int, int]]]]:
    """Bands along the first axis of bands x line x labels, runs along the second.

    A rectangle is (band_begin, band_end, line_begin, line_end, label).
    """
    bands = len(cost)
    joined: dict[tuple[int, int], list[_Choice]] = {}
    for a in range(bands):
        total = np.zeros(cost.shape[1:])
        for b in range(a + 1, bands + 1):
            total = total + cost[b - 1]
            joined[a, b] = _line(total, max_entries, non_increasing)
    best: list[list[tuple[float, tuple[int, int] | None]]]
    best = [[(0.0, None)] * (max_entries + 1)]
    for b in range(1, bands + 1):
        best.append([(math.inf, None)] * (max_entries + 1))
        for a in range(b):
            for e in range(1, max_entries + 1):
                for f in range(1, e + 1):
                    total_cost = best[a][e - f][0] + joined[a, b][f - 1].total
                    if total_cost < best[b][e][0]:
                        best[b][e] = (total_cost, (a, f))
    out: list[tuple[float, list[tuple[int, int, int, int, int]]]] = []
    for e in range(1, max_entries + 1):
        value = best[bands][e][0]
        rectangles: list[tuple[int, int, int, int, int]] = []
        if value == math.inf:
            out.append((value, rectangles))
            continue
        if out and not value < out[-1][0] * (1 - _TIE):
            out.append(out[-1])
            continue
        b, left = bands, e
        while b > 0:
            step = best[b][left][1]
            assert step is not None
            a, f = step
            for begin, end, label in joined[a, b][f - 1].runs:
                rectangles.append((a, b, begin, end, label))
            b, left = a, left - f
        out.append((value, rectangles))
    return out


def compress_bands(
    cost: Floats, max_entries: int, non_increasing: bool, threads: int
) -> tuple[Floats, Ints, Ints]:
    """Totals, whether bands are of batches, and rectangle rows.

    A rectangle row is (entries, row_begin, row_end, column_begin, column_end,
    label).
    """
    del threads
    by_context = _bands(cost.transpose(2, 0, 1), max_entries, non_increasing)
    by_batch = None
    if not non_increasing:
        by_batch = _bands(cost.transpose(0, 2, 1), max_entries, False)
    totals, orders, rows = [], [], []
    for e in range(1, max_entries + 1):
        total, rectangles = by_context[e - 1]
        order = 0
        swapped = [(r0, r1, c0, c1, k) for c0, c1, r0, r1, k in rectangles]
        if by_batch is not None and by_batch[e - 1][0] < total * (1 - _TIE):
            total, swapped = by_batch[e - 1]
            order = 1
        totals.append(total)
        orders.append(order)
        rows += [(e, *rectangle) for rectangle in swapped]
    return (
        np.array(totals),
        np.array(orders, dtype=np.int64),
        np.array(rows, dtype=np.int64).reshape(-1, 6),
    )


# ---- schedule and captures together, graphs keyed by (K, requests) -------------


# Total and segments (begin, end, label, eager).
_Plan = tuple[float, tuple[tuple[int, int, int, int], ...]]


def tune_joint(
    share: Floats, graph_us: Floats, eager_us: Floats, run_us: float, max_graphs: int
) -> tuple[Floats, Ints]:
    """Totals for at most 0..max_graphs graphs, and segment rows.

    A segment row is (graphs, begin, end, label, eager).
    """
    labels, batches = graph_us.shape
    # reached[g, b, label, eager] = (total, segments)
    reached: dict[tuple[int, int, int, int], _Plan] = {}

    def start(g: int, a: int, label: int) -> _Plan:
        """The cheapest plan a segment of this label may follow."""
        if a == 0:
            return (run_us, ()) if g == 0 else (math.inf, ())
        best = reached[g, a, label, 0]
        larger: _Plan = (math.inf, ())
        for other in range(labels - 1, label, -1):
            for eager in (0, 1):
                plan = reached[g, a, other, eager]
                if plan[0] < larger[0]:
                    larger = plan
        if larger[0] + run_us < best[0]:
            best = (larger[0] + run_us, larger[1])
        return best

    for b in range(1, batches + 1):
        for g in range(max_graphs + 1):
            for label in range(labels):
                tail: _Plan = (math.inf, ())
                graph: _Plan = (math.inf, ())
                work = eager_total = 0.0
                for a in range(b - 1, -1, -1):
                    work += float(share[a])
                    eager_total += float(share[a] * eager_us[label, a])
                    total, before = start(g, a, label)
                    if total + eager_total < tail[0]:
                        tail = (total + eager_total, (*before, (a, b, label, 1)))
                    if g == 0:
                        continue
                    total, before = start(g - 1, a, label)
                    total += float(graph_us[label, b - 1]) * work
                    if total < graph[0]:
                        graph = (total, (*before, (a, b, label, 0)))
                reached[g, b, label, 1] = tail
                reached[g, b, label, 0] = graph

    totals: list[float] = []
    rows: list[tuple[int, int, int, int, int]] = []
    best: _Plan = (math.inf, ())
    for g in range(max_graphs + 1):
        plans = [
            reached[g, batches, label, eager]
            for label in range(labels)
            for eager in (0, 1)
        ]
        plan = min(plans, key=lambda p: p[0])
        if plan[0] < best[0] * (1 - _TIE):
            best = plan
        totals.append(best[0])
        rows += [(g, *segment) for segment in best[1]]
    return np.array(totals), np.array(rows, dtype=np.int64).reshape(-1, 5)
