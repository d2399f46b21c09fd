# SPDX-License-Identifier: Apache-2.0
"""Rows to a grid: the rules of a schedule, one after the other.

Mirrors csrc/core/schedule.cpp. A fault is (rule, row, other row, batch_lo,
batch_hi, context_lo, context_hi) with -1 for "no row"; rule numbers are the
places in `_errors.RULES`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specgrid._errors import CONTEXT_INFINITY, RULES, Fault

Row: TypeAlias = tuple[int, int, int, int, int]
Int64: TypeAlias = npt.NDArray[np.int64]
GridOrFault: TypeAlias = tuple[Fault | None, Int64 | None, Int64 | None, Int64 | None]

BATCH_ONLY, GRID, RAGGED = 0, 1, 2
MAX_RAGGED_ROWS = 2**21
MAX_RAGGED_CELLS = 2**28
_INT64_MAX = 2**63 - 1


def _fault(
    rule: str,
    row: int = -1,
    other: int = -1,
    batch: tuple[int, int] = (0, 0),
    context: tuple[int, int] = (0, 0),
) -> Fault:
    return (RULES.index(rule), row, other, *batch, *context)


def _as_rows(array: Int64) -> list[Row]:
    return [(a, b, c, d, k) for a, b, c, d, k in array.reshape(-1, 5).tolist()]


def rows_from_list(rows: object) -> tuple[Int64, bool] | None:
    """A plain list of plain int rows as (flat array, all 3-item), else None."""
    if type(rows) not in (list, tuple) or not rows:
        return None
    values: list[int] = []
    arity = 0
    for row in rows:  # type: ignore[attr-defined]
        if type(row) not in (list, tuple) or len(row) not in (3, 5):
            return None
        if arity not in (0, len(row)):
            return None
        arity = len(row)
        if any(type(v) is not int or not -(2**63) <= v <= _INT64_MAX for v in row):
            return None
        if arity == 3:
            row = (row[0], row[1], 1, CONTEXT_INFINITY, row[2])
        values.extend(row)
    return np.array(values, dtype=np.int64), arity == 3


def check_rows(rows: Int64, form: int) -> Fault:
    """The first fault that a row shows by itself; rule 0 for none."""
    least_context = 0 if form == RAGGED else 1
    for index, row in enumerate(_as_rows(rows)):
        batch_lo, batch_hi, context_lo, context_hi, k = row
        if batch_lo <= 0 or batch_hi <= 0:
            return _fault("bs_positive", index)
        if batch_lo > batch_hi:
            return _fault("bs_order", index)
        if form != BATCH_ONLY:
            if context_lo < least_context or context_hi <= 0:
                return _fault("ctx_positive", index)
            if context_lo > context_hi or context_lo > CONTEXT_INFINITY:
                return _fault("ctx_order", index)
        if k < 0:
            return _fault("k_negative", index)
    return (0, -1, -1, 0, 0, 0, 0)


def build_grid(rows: Int64, form: int) -> GridOrFault:
    """Rows as (None, batch ranges, context ranges, k), or (fault, ...)."""
    fault = check_rows(rows, form)
    if fault[0]:
        return fault, None, None, None
    build = {BATCH_ONLY: _batch_only, GRID: _rectangular, RAGGED: _ragged}[form]
    result = build(_as_rows(rows))
    if len(result) == 7:
        return result, None, None, None
    batches, contexts, k = result
    return (
        None,
        np.array(batches, dtype=np.int64).reshape(-1, 2),
        np.array(contexts, dtype=np.int64).reshape(-1, 2),
        np.array(k, dtype=np.int64).ravel(),
    )


def _batch_only(rows: list[Row]) -> Any:
    order = sorted(range(len(rows)), key=lambda i: rows[i][0])
    for before, after in pairwise(order):
        if rows[after][0] <= rows[before][1]:
            return _fault("bs_overlap", after, before)
    if rows[order[0]][0] != 1:
        return _fault("bs_start", order[0])
    batches = [rows[i][:2] for i in order]
    return batches, [(1, CONTEXT_INFINITY)], [rows[i][4] for i in order]


def _rectangular(rows: list[Row]) -> Any:
    row_of_batch: dict[tuple[int, int], int] = {}
    row_of_context: dict[tuple[int, int], int] = {}
    for index, row in enumerate(rows):
        row_of_batch.setdefault((row[0], row[1]), index)
        row_of_context.setdefault((row[2], row[3]), index)
    batches = sorted(row_of_batch)
    contexts = sorted(row_of_context)
    for before, after in pairwise(batches):
        if after[0] <= before[1]:
            return _fault("bs_overlap", row_of_batch[after], row_of_batch[before])
    if batches[0][0] != 1:
        return _fault("bs_start", row_of_batch[batches[0]])
    if len(rows) != len(batches) * len(contexts):
        return _fault("rectangular", -1, -1, (len(batches), 0), (len(contexts), 0))
    if contexts[0][0] != 1:
        return _fault("ctx_start", row_of_context[contexts[0]])
    for before, after in pairwise(contexts):
        if before[1] >= CONTEXT_INFINITY or after[0] != before[1] + 1:
            return _fault(
                "ctx_contiguous", row_of_context[after], row_of_context[before]
            )
    order = sorted(range(len(rows)), key=lambda i: rows[i][:4])
    for before_row, after_row in pairwise(order):
        if rows[before_row][:4] == rows[after_row][:4]:
            return _fault("duplicate", after_row, before_row)
    contexts[-1] = (contexts[-1][0], CONTEXT_INFINITY)
    return batches, contexts, [rows[i][4] for i in order]


def _ragged(rows: list[Row]) -> Any:
    if len(rows) > MAX_RAGGED_ROWS:
        return _fault("too_large", -1, -1, (len(rows), MAX_RAGGED_ROWS))
    # Context 0 (a fresh request) always falls in the first range.
    clipped = [
        (lo, hi, max(context_lo, 1), min(context_hi, CONTEXT_INFINITY), k)
        for lo, hi, context_lo, context_hi, k in rows
    ]
    batch_points = sorted(
        {r[0] for r in clipped} | {min(r[1] + 1, _INT64_MAX) for r in clipped}
    )
    context_points = sorted({1} | {r[2] for r in clipped} | {r[3] + 1 for r in clipped})
    if batch_points[0] != 1:
        first = next(i for i, r in enumerate(rows) if r[0] == batch_points[0])
        return _fault("bs_start", first)
    if (len(batch_points) - 1) * (len(context_points) - 1) > MAX_RAGGED_CELLS:
        return _fault(
            "too_large",
            -1,
            -1,
            (len(batch_points) - 1, 0),
            (len(context_points) - 1, MAX_RAGGED_CELLS),
        )
    batches = []
    lines = []
    for batch_lo, batch_past in pairwise(batch_points):
        here = [i for i, r in enumerate(clipped) if r[0] <= batch_lo <= r[1]]
        if not here:
            continue  # a gap: the range before carries on
        line = _ragged_line(clipped, here, (batch_lo, batch_past - 1), context_points)
        if isinstance(line, tuple):
            return line
        batches.append((batch_lo, batch_past - 1))
        lines.append(line)
    contexts = [(lo, past - 1) for lo, past in pairwise(context_points)]
    contexts[-1] = (contexts[-1][0], CONTEXT_INFINITY)
    return batches, contexts, lines


def _ragged_line(
    rows: list[Row], here: list[int], batch: tuple[int, int], points: list[int]
) -> list[int] | Fault:
    """k of every context segment for one batch segment, or a fault."""
    line: list[int] = []
    for column in range(len(points) - 1):
        low, past = points[column], points[column + 1]
        covering = [i for i in here if rows[i][2] <= low <= rows[i][3]]
        if not covering:
            continue
        first = covering[0]
        for other in covering[1:]:
            if rows[other][4] != rows[first][4]:
                return _fault("conflict", other, first, batch, (low, past - 1))
        if len(line) != column:  # something covered follows something that is not
            return _fault("uncovered", -1, -1, batch, (points[len(line)], low - 1))
        line.append(rows[first][4])
    # The last range of each batch segment reaches to every longer context.
    return line + [line[-1]] * (len(points) - 1 - len(line))
