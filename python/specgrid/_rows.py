# SPDX-License-Identifier: Apache-2.0
"""Schedule rows as a user has them, to an int64 array of five columns.

The only place that looks at the form of rows; both back ends get its result.
Numbers are not judged here, except that rows before a fault of form are, so
that the first fault named is the one vLLM's row-by-row reading would name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import shown, whole
from specgrid._errors import (
    CONTEXT_INFINITY,
    ScheduleError,
    form_error,
    kind_of,
    schedule_error,
)

Rows: TypeAlias = npt.NDArray[np.int64]
RowsLike: TypeAlias = "Iterable[Iterable[int]] | npt.NDArray[Any]"

# How rows are read; numbers shared with `enum class Form` in the core.
BATCH_ONLY, GRID, RAGGED = 0, 1, 2

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_FIELDS = {
    3: ("batch_lo", "batch_hi", "k"),
    5: ("batch_lo", "batch_hi", "context_lo", "context_hi", "k"),
}


def normalise(rows: object, *, ragged: bool) -> tuple[Rows, int]:
    """Rows as (n x 5 array, form).

    Raises:
        ScheduleError: For rows that are no rows; see `_errors.form_error`.
    """
    plain = _backend.active().rows_from_list(rows)
    if plain is not None:
        array, only_batches = plain
    elif isinstance(rows, np.ndarray):
        array, only_batches = _from_array(rows)
    else:
        array, only_batches = _from_iterable(rows, ragged=ragged)
    if ragged:
        return array.reshape(-1, 5), RAGGED
    return array.reshape(-1, 5), BATCH_ONLY if only_batches else GRID


def _from_array(rows: npt.NDArray[Any]) -> tuple[Rows, bool]:
    if isinstance(rows, np.ma.MaskedArray):
        raise form_error("not_list", None, "a masked array; fill it or drop rows")
    if rows.size == 0:
        raise form_error("empty", None, "")
    if rows.ndim != 2 or rows.shape[1] not in _FIELDS:
        raise form_error("arity", None, f"an array of shape {rows.shape}")
    if rows.dtype.kind not in "iu":
        # Floats, objects, booleans: each value is looked at by itself.
        return _from_iterable(rows.tolist(), ragged=False)
    if rows.dtype.kind == "u" and rows.max() > _INT64_MAX:
        return _from_iterable(rows.tolist(), ragged=False)
    if rows.shape[1] == 5:
        return np.ascontiguousarray(rows, dtype=np.int64), False
    wide = np.empty((rows.shape[0], 5), dtype=np.int64)
    wide[:, :2] = rows[:, :2]
    wide[:, 2] = 1
    wide[:, 3] = CONTEXT_INFINITY
    wide[:, 4] = rows[:, 2]
    return wide, True


def _from_iterable(rows: object, *, ragged: bool) -> tuple[Rows, bool]:
    if rows is None:
        raise form_error("none", None, "")
    if isinstance(rows, str | bytes | bytearray | Mapping | set | frozenset):
        raise form_error("not_list", None, kind_of(rows))
    if not isinstance(rows, Iterable):
        raise form_error("not_list", None, f"{rows!r:.80}")
    numbers: list[tuple[int, ...]] = []
    arities: list[int] = []
    for index, row in enumerate(rows):
        try:
            parsed = _one_row(row, index)
        except ScheduleError:
            raise_row_fault(numbers, _row_form(arities, ragged=ragged))
            raise
        arities.append(len(parsed))
        if len(parsed) == 3:
            parsed = (parsed[0], parsed[1], 1, CONTEXT_INFINITY, parsed[2])
        numbers.append(parsed)
    if not numbers:
        raise form_error("empty", None, "")
    array = np.array(numbers, dtype=np.int64)
    if not ragged and len(set(arities)) > 1:
        raise_row_fault(numbers, GRID)
        other = next(i for i, n in enumerate(arities) if n != arities[0])
        raise form_error(
            "mixed",
            other,
            f"row 0 has {arities[0]} items, row {other} {arities[other]}",
        )
    return array, 5 not in arities


def _one_row(row: object, index: int) -> tuple[int, ...]:
    if isinstance(row, np.ndarray):
        row = row.tolist()
    if not isinstance(row, list | tuple):
        raise form_error("arity", index, f"{row!r:.80}")
    row = tuple(row)  # what it iterates over, whatever a subclass says of itself
    if len(row) not in _FIELDS:
        items = f"{len(row)} items" if len(row) != 1 else "1 item"
        raise form_error("arity", index, f"{items}: {row!r:.80}")
    return tuple(
        _one_number(value, name, index)
        for value, name in zip(row, _FIELDS[len(row)], strict=True)
    )


def _one_number(value: object, name: str, index: int) -> int:
    number = whole(value)
    if number is None:
        raise form_error("not_integer", index, f"{name} is {value!r:.80}")
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise form_error(
            "not_integer", index, f"{name} is {shown(number)}, beyond 64 bits"
        )
    return number


def raise_row_fault(numbers: list[tuple[int, ...]], form: int) -> None:
    """Raises the first rule that one of these rows (five numbers) breaks alone."""
    if not numbers:
        return
    fault = _backend.active().check_rows(np.array(numbers, dtype=np.int64), form)
    if fault[0]:
        raise schedule_error(fault, numbers, form)


def _row_form(arities: list[int], *, ragged: bool) -> int:
    if ragged:
        return RAGGED
    return GRID if 5 in arities else BATCH_ONLY
