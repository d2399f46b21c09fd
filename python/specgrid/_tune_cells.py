# SPDX-License-Identifier: Apache-2.0
"""The cells of a tuned schedule: each one's choice, time and flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid._errors import CONTEXT_INFINITY

Floats = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """One cell of the grid.

    Attributes:
        batch: Requests in the step.
        context: Context the column stands for, tokens.
        k: K of the tuned schedule.
        best_k: K of least time per emitted token here.
        us_per_token: Time per output token of a request at `k`, microseconds.
        loss: Share of time lost against `best_k`.
        measured: False where no K was measured here; K is then the nearest
            measured cell's, and the times are NaN.
        all_k_measured: False where some candidate K was not measured here and so
            could not be chosen.
        within_noise: True where the runner-up is too near to tell apart.
        limit_met: False where even the best K exceeds `max_us_per_token`.
    """

    batch: int
    context: int
    k: int
    best_k: int
    us_per_token: float
    loss: float
    measured: bool
    all_k_measured: bool
    within_noise: bool
    limit_met: bool


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells as arrays of shape (max_num_seqs, columns); row 0 is batch 1.

    `cells[batch]` (one column) and `cells[batch, context]` give one `Cell`;
    iterating gives all of them.
    """

    contexts: tuple[int, ...]
    context_ranges: tuple[tuple[int, int], ...]
    k: npt.NDArray[np.int32]
    best_k: npt.NDArray[np.int32]
    us_per_token: Floats
    best_us_per_token: Floats
    measured: npt.NDArray[np.bool_]
    all_k_measured: npt.NDArray[np.bool_]
    within_noise: npt.NDArray[np.bool_]
    limit_met: npt.NDArray[np.bool_]

    @cached_property
    def loss(self) -> Floats:
        """Share of time lost against the best K; NaN where not measured."""
        loss: Floats = self.us_per_token / self.best_us_per_token - 1.0
        return loss

    def __len__(self) -> int:
        return int(self.k.size)

    def __getitem__(self, where: int | tuple[int, int]) -> Cell:
        batch, context = where if isinstance(where, tuple) else (where, None)
        if not 1 <= batch <= len(self.k):
            raise IndexError(f"batch {batch} is outside 1..{len(self.k)}")
        if context is None:
            if len(self.contexts) > 1:
                raise IndexError("cells of a 2-D schedule need [batch, context]")
            return self._cell(batch - 1, 0)
        if not 0 <= context <= CONTEXT_INFINITY:
            raise IndexError(f"context {context} is outside 0..{CONTEXT_INFINITY}")
        column = next(
            i for i, (_, hi) in enumerate(self.context_ranges) if context <= hi
        )
        return self._cell(batch - 1, column)

    def __iter__(self) -> Iterator[Cell]:
        for row in range(len(self.k)):
            for column in range(len(self.contexts)):
                yield self._cell(row, column)

    def _cell(self, row: int, column: int) -> Cell:
        at = (row, column)
        return Cell(
            row + 1,
            self.contexts[column],
            int(self.k[at]),
            int(self.best_k[at]),
            float(self.us_per_token[at]),
            float(self.loss[at]),
            bool(self.measured[at]),
            bool(self.all_k_measured[at]),
            bool(self.within_noise[at]),
            bool(self.limit_met[at]),
        )
