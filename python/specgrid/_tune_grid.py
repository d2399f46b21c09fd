# SPDX-License-Identifier: Apache-2.0
"""The evaluated grid in blocks, and its compression into rectangles.

Labels are indices into the measured K; rectangles count cells from 0, ends
exclusive. The arrays are described in csrc/core/tune_grid.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._errors import ConfigError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# row_begin, row_end, column_begin, column_end, label
Rectangle = tuple[int, int, int, int, int]

# Bits of `Grid.flags`, shared with csrc/core/tune_grid.hpp.
NO_K_MEASURED, SOME_K_NOT_MEASURED, LIMIT_NOT_MET = 1, 2, 4

# Exact compression in two dimensions takes work in proportion to this; larger
# grids have their cheapest neighbours merged first.
_BAND_STEPS = 1e8
_MAX_BLOCK_ROWS = 512
_MAX_BLOCK_COLUMNS = 64
# In one dimension: bytes of back-pointers, one per (entry, row, label).
_LINE_BYTES = 5e8


def block_limits(num_columns: int, num_labels: int, entries: int) -> tuple[int, int]:
    """Most block rows and columns that can be compressed in a moment."""
    if num_columns == 1:
        return max(1, int(_LINE_BYTES / (entries * num_labels))), 1
    columns = min(num_columns, _MAX_BLOCK_COLUMNS)
    rows = math.sqrt(2 * _BAND_STEPS / (columns * num_labels * entries))
    return max(64, min(int(rows), _MAX_BLOCK_ROWS)), columns


class Option(NamedTuple):
    """One compressed table: its cost, worst cell and rectangles of cells."""

    total: float
    worst_ratio: float
    rectangles: tuple[Rectangle, ...]


class Grid:
    """The evaluated grid (csrc/core/tune_grid.hpp) and its compression."""

    def __init__(
        self,
        best_labels: npt.NDArray[np.int32],
        best_us_per_token: Floats,
        second_us_per_token: Floats,
        flags: npt.NDArray[np.uint8],
        row_ends: Ints,
        column_ends: Ints,
        cost: Floats,
        worst_ratio: Floats,
        *,
        threads: int,
    ) -> None:
        if int(best_labels.min()) < 0:
            raise ConfigError(
                "no cell of the grid lies inside the measured points; measure batches "
                "up to max_num_seqs at the contexts asked for"
            )
        self.best_labels = best_labels
        self.best_us_per_token = best_us_per_token
        self.second_us_per_token = second_us_per_token
        self.flags = flags
        self._rows = [0, *row_ends.tolist()]
        self._columns = [0, *column_ends.tolist()]
        self._cost = cost
        self._worst = worst_ratio
        self._threads = threads

    def options(self, max_entries: int, monotone: bool) -> list[Option]:
        """Every number of entries that gains over fewer; admissible ones only."""
        module = _backend.active()
        if self._cost.shape[2] == 1:
            line = np.ascontiguousarray(self._cost[:, :, 0])
            totals, runs = module.compress_line(
                line, min(max_entries, len(line)), monotone
            )
            found = [(e, a, b, 0, 1, label) for e, a, b, label in runs.tolist()]
        else:
            cells = self._cost.shape[0] * self._cost.shape[2]
            totals, _, rectangles = module.compress_bands(
                self._cost, min(max_entries, cells), monotone, self._threads
            )
            found = [tuple(r) for r in rectangles.tolist()]
        options: list[Option] = []
        for entries, total in enumerate(totals.tolist(), 1):
            if total == math.inf or (options and not total < options[-1].total):
                continue
            blocks = [r[1:] for r in found if r[0] == entries]
            worst = max(
                float(self._worst[r0:r1, label, c0:c1].max())
                for r0, r1, c0, c1, label in blocks
            )
            options.append(Option(total, worst, tuple(map(self._cells, blocks))))
        return options

    def monotone_columns(self) -> tuple[Rectangle, ...]:
        """Each column's best table with k non-increasing in the batch."""
        labels = self._cost.shape[1]
        out: list[Rectangle] = []
        for column in range(self._cost.shape[2]):
            line = np.ascontiguousarray(self._cost[:, :, column])
            entries = min(labels, len(line))
            totals, runs = _backend.active().compress_line(line, entries, True)
            if totals[-1] == math.inf:
                raise ConfigError(
                    "no schedule with k non-increasing in the batch uses measured K "
                    "only; measure every K at every batch, or drop monotone=True"
                )
            out += [
                self._cells((a, b, column, column + 1, label))
                for e, a, b, label in runs.tolist()
                if e == entries
            ]
        return tuple(out)

    def _cells(self, block: Sequence[int]) -> Rectangle:
        r0, r1, c0, c1, label = block
        rows, columns = self._rows, self._columns
        return rows[r0], rows[r1], columns[c0], columns[c1], label
