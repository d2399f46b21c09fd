# SPDX-License-Identifier: Apache-2.0
"""The tuner's input as arrays, and the way back from labels to schedules."""

from __future__ import annotations

import itertools
import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import whole
from specgrid._errors import CONTEXT_INFINITY, ConfigError
from specgrid._schedule import Schedule
from specgrid._tune_grid import Floats, Grid, Ints, Rectangle, block_limits
from specgrid._tune_input import (
    BucketAcceptance,
    bucket_for,
    column_ranges,
    read_acceptance,
    read_columns,
    read_points,
    read_weights,
)
from specgrid._tune_jitter import align_contexts
from specgrid._tune_padding import Served, served_by

_MAX_CELLS = 2**26


@dataclass
class Problem:
    """The tuner's input as arrays, and the way back from labels to K."""

    ks: tuple[int, ...]
    points: list[tuple[Ints, Ints, Floats]]
    buckets: list[BucketAcceptance]
    tokens_per_step: Floats  # labels x columns
    tokens_low: Floats
    tokens_high: Floats
    columns: tuple[int, ...]
    ranges: list[tuple[int, int]]
    weights: Floats
    served: Served
    max_num_seqs: int
    num_speculative_tokens: int
    noise: float
    threads: int
    notes: list[str]

    @classmethod
    def read(
        cls,
        latency: Iterable[Any],
        acceptance: Any,
        *,
        max_num_seqs: int,
        num_speculative_tokens: int,
        weights: Any,
        contexts: Iterable[int] | None,
        min_k: int,
        forbidden_k: Iterable[int],
        captures: Any,
        piecewise_us: float,
        eager_us: float,
        noise: float,
        threads: int | None,
    ) -> Problem:
        notes = _source_notes(latency)
        points: Iterable[Any] = latency
        if hasattr(latency, "scope"):  # a reader's data, so checked already
            points = align_contexts(list(latency), notes)
        measured = read_points(points, num_speculative_tokens)
        notes += measured.notes
        forbidden = {k for k in map(whole, forbidden_k) if k is not None}
        ks = tuple(k for k in measured.by_k if k >= min_k and k not in forbidden)
        if not ks:
            limits = [f"min_k = {min_k}"] if min_k else []
            if forbidden:
                limits.append(f"forbidden_k = {','.join(map(str, sorted(forbidden)))}")
            raise ConfigError(
                f"every measured k ({', '.join(map(str, measured.by_k))}) is excluded "
                f"by {' and '.join(limits)}; measure others or allow them"
            )
        columns = read_columns(contexts, weights, measured.contexts)
        if max_num_seqs * len(columns) > _MAX_CELLS:
            raise ConfigError(
                f"{max_num_seqs} batches x {len(columns)} contexts are more than "
                f"{_MAX_CELLS} cells; give fewer contexts"
            )
        buckets = read_acceptance(acceptance, notes)
        tokens = np.empty((3, len(ks), len(columns)))
        uncovered = []
        for column, context in enumerate(columns):
            bucket, covers = bucket_for(buckets, context)
            if not covers:
                uncovered.append(context)
            for label, k in enumerate(ks):
                low, high = bucket.acceptance.tokens_interval(k)
                mean = bucket.acceptance.tokens_per_step(k)
                tokens[:, label, column] = mean, low, high
        if uncovered:
            notes.append(
                f"acceptance was not measured at contexts {uncovered[:8]}; the nearest "
                "range is used"
            )
        notes += dict.fromkeys(n for b in buckets for n in b.acceptance.notes)
        spread = sorted(s for s in getattr(latency, "spread", ()) if not math.isnan(s))
        if spread and spread[len(spread) // 2] > noise:
            noise = spread[len(spread) // 2]
            notes.append(
                f"half of the points vary by more than {noise:.1%} between samples; "
                "that is taken as the noise"
            )
        return cls(
            ks,
            [measured.by_k[k] for k in ks],
            buckets,
            tokens[0],
            tokens[1],
            tokens[2],
            columns,
            column_ranges(columns),
            read_weights(weights, max_num_seqs, columns),
            served_by(captures, ks, max_num_seqs, piecewise_us, eager_us),
            max_num_seqs,
            num_speculative_tokens,
            noise,
            threads or os.cpu_count() or 1,
            notes,
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.max_num_seqs, len(self.columns)

    def grid(self, limit: float, tolerance: float, entries: int) -> Grid:
        """Evaluates every cell.

        Args:
            limit: Time per output token above which K is not used, microseconds.
            tolerance: Share of time a cell may lose.
            entries: Entries to compress to later; 0 for cells alone, which takes
                less than half the time.
        """
        max_rows, max_columns = 0, 0
        if entries:
            max_rows, max_columns = block_limits(
                len(self.columns), len(self.ks), entries
            )
        arrays = _backend.active().tune_grid(
            self.points,
            self.tokens_per_step,
            self.max_num_seqs,
            np.array(self.columns, dtype=np.int64),
            self.served.padded_batch,
            self.served.extra_us,
            self.weights,
            limit,
            tolerance,
            max_rows,
            max_columns,
            self.threads,
        )
        return Grid(*arrays, threads=self.threads)

    # ---- from labels to schedules --------------------------------------------

    def entry(self, rectangle: Rectangle) -> tuple[int, ...]:
        row, row_end, column, column_end, label = rectangle
        k = self.ks[label]
        if column == 0 and column_end == len(self.columns):
            contexts: tuple[int, ...] = (
                ()
                if len(self.columns) == 1
                else (
                    1,
                    CONTEXT_INFINITY,
                )
            )
        else:
            contexts = (self.ranges[column][0], self.ranges[column_end - 1][1])
        return (row + 1, row_end, *contexts, k)

    def schedule_of(self, rectangles: Sequence[Rectangle]) -> Schedule:
        """The strict schedule of rectangles: their cuts, as one grid."""
        rows = sorted({r[0] for r in rectangles})
        columns = sorted({r[2] for r in rectangles})
        table = np.empty((len(rows), len(columns)), dtype=np.int32)
        for row, row_end, column, column_end, label in rectangles:
            table[
                bisect_left(rows, row) : bisect_left(rows, row_end),
                bisect_left(columns, column) : bisect_left(columns, column_end),
            ] = label
        return self._strict(table, rows, columns)

    def schedule_of_table(self, table: npt.NDArray[np.int32]) -> Schedule:
        """The strict schedule of one label per cell."""
        return self._strict(table, range(len(table)), range(len(self.columns)))

    def _strict(
        self,
        table: npt.NDArray[np.int32],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> Schedule:
        """Joins equal neighbours of a table whose rows start at these cells."""
        row_starts, column_starts = _starts(table), _starts(table.T)
        k = np.array(self.ks)[table[np.ix_(row_starts, column_starts)]]
        first = np.array([rows[i] for i in row_starts])
        last = np.append(first[1:], self.max_num_seqs)
        if len(column_starts) == 1:
            return Schedule(np.column_stack([first + 1, last, k[:, 0]]))
        starts = [columns[i] for i in column_starts]
        lows = [self.ranges[c][0] for c in starts]
        highs = [self.ranges[c - 1][1] for c in starts[1:]] + [CONTEXT_INFINITY]
        out = np.empty((k.size, 5), dtype=np.int64)
        out[:, 0] = np.repeat(first + 1, len(lows))
        out[:, 1] = np.repeat(last, len(lows))
        out[:, 2] = np.tile(lows, len(first))
        out[:, 3] = np.tile(highs, len(first))
        out[:, 4] = k.ravel()
        return Schedule(out)

    def entries_of(self, table: npt.NDArray[np.int32]) -> tuple[tuple[int, ...], ...]:
        """A label table in bands of contexts: equal columns joined, then runs."""
        starts = _starts(table.T)
        ends = [*starts[1:], len(self.columns)]
        entries = []
        for column, column_end in zip(starts, ends, strict=True):
            line = table[:, column]
            cuts = [0, *(np.flatnonzero(line[1:] != line[:-1]) + 1).tolist(), len(line)]
            entries += [
                self.entry((a, b, column, column_end, int(line[a])))
                for a, b in itertools.pairwise(cuts)
            ]
        return tuple(entries)

    def points_of(self, k: int) -> tuple[Ints, Ints]:
        """Batches and contexts at which a K was measured."""
        return self.points[self.ks.index(k)][:2]

    def work(self) -> Floats:
        """Work per cell: emitted tokens / batch."""
        batches = np.arange(1.0, self.max_num_seqs + 1)[:, None]
        if self.weights.size:
            return self.weights / batches
        return np.broadcast_to(1.0 / batches, self.shape)

    def labels_of(self, schedule: Schedule) -> Ints:
        """Index into `ks` of a schedule's K in every cell.

        Raises:
            ConfigError: If the schedule uses a K that was not measured.
        """
        lookup = schedule.lookup(self.max_num_seqs, self.num_speculative_tokens)
        # A column's range starts where the schedule's ranges are cut.
        starts = np.array([lo for lo, _ in self.ranges], dtype=np.int64)
        batches = np.arange(1, self.max_num_seqs + 1, dtype=np.int64)
        k = lookup.gather(
            np.repeat(batches, len(starts)), np.tile(starts, self.max_num_seqs)
        ).reshape(self.shape)
        labels = np.searchsorted(self.ks, k)
        known = np.array([*self.ks, -1])[labels] == k
        if not known.all():
            raise ConfigError(
                f"k = {int(k[~known][0])} of the schedule was not measured; measured "
                f"are {', '.join(map(str, self.ks))}"
            )
        return labels.astype(np.int64)

    def step_us_of(self, choice: int | Ints) -> Floats:
        """Measured step time of one label, or of a table; NaN where unmeasured."""
        if not isinstance(choice, int):
            out = np.full(self.shape, math.nan)
            for label in np.unique(choice).tolist():
                here = choice == label
                out[here] = self.step_us_of(int(label))[here]
            return out
        batches, contexts, us = self.points[choice]
        surface: Floats = _backend.active().tune_surface(
            batches,
            contexts,
            us,
            np.arange(1.0, self.max_num_seqs + 1),
            np.array(self.columns, dtype=np.int64),
            self.threads,
        )
        return surface

    def assumptions(self) -> Floats:
        """Tokens per step at the estimate, and at both ends of its interval."""
        if (self.tokens_low == self.tokens_high).all():
            return self.tokens_per_step[None].copy()
        return np.stack([self.tokens_per_step, self.tokens_low, self.tokens_high])

    def table_of(self, rectangles: Iterable[Rectangle]) -> npt.NDArray[np.int32]:
        """One label per cell."""
        table = np.empty(self.shape, dtype=np.int32)
        for row, row_end, column, column_end, label in rectangles:
            table[row:row_end, column:column_end] = label
        return table


def _starts(table: npt.NDArray[np.int32]) -> list[int]:
    """First row of every group of equal neighbouring rows."""
    changes = np.any(table[1:] != table[:-1], axis=1)
    return [0, *(np.flatnonzero(changes) + 1).tolist()]


def _source_notes(latency: Any) -> list[str]:
    """What a reader said about the points."""
    notes = list(getattr(getattr(latency, "report", None), "notes", ()))
    if getattr(latency, "scope", None) == "target_only":
        notes.append(
            "the times leave the drafter out, so every k looks cheaper than it is; "
            "measure without --exclude-drafter"
        )
    return notes
