# SPDX-License-Identifier: Apache-2.0
"""The same table of K in the fewest strict rows."""

from __future__ import annotations

import numpy as np

from specgrid._rows import RowsLike
from specgrid._schedule import Schedule


def compress_schedule(schedule: Schedule | RowsLike) -> Schedule:
    """Joins neighbouring ranges that schedule the same K: fewer rows, same K.

    The strict form is one grid of batch ranges x context ranges, so two batch
    ranges can be joined where they agree at every context, and two context
    ranges where they agree at every batch; the result is the smallest such grid.
    To trade accuracy for fewer rows, tune with `max_entries`.

    Args:
        schedule: Any schedule, or its rows; a dense one included.

    Returns:
        A schedule with an equal lookup for every (batch, context).

    Raises:
        ScheduleError: The rows break a rule.

    Example:
        >>> compress_schedule(Schedule([(1, 4, 3), (5, 8, 3), (9, 64, 1)])).to_rows()
        [[1, 8, 3], [9, 64, 1]]
    """
    if not isinstance(schedule, Schedule):
        schedule = Schedule(schedule)
    # The schedule's own arrays: a million rows are not made into tuples.
    batches, contexts, table = schedule._batches, schedule._contexts, schedule._k
    new_batch = np.append(True, np.any(table[1:] != table[:-1], axis=1))
    new_context = np.append(True, np.any(table[:, 1:] != table[:, :-1], axis=0))
    table = table[np.ix_(new_batch, new_context)]
    starts = batches[new_batch, 0]
    ends = batches[np.append(new_batch[1:], True), 1]
    lows = contexts[new_context, 0]
    highs = contexts[np.append(new_context[1:], True), 1]
    if len(lows) == 1:
        return Schedule(np.column_stack([starts, ends, table[:, 0]]))
    joined = np.empty((table.size, 5), dtype=np.int64)
    joined[:, 0] = np.repeat(starts, len(lows))
    joined[:, 1] = np.repeat(ends, len(lows))
    joined[:, 2] = np.tile(lows, len(starts))
    joined[:, 3] = np.tile(highs, len(starts))
    joined[:, 4] = table.ravel()
    return Schedule(joined)
