# SPDX-License-Identifier: Apache-2.0
"""The lookup, one batch at a time. Mirrors csrc/core/lookup.cpp."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from specgrid._reference.schedule import Int64


class Lookup:
    """A grid laid over 1..max_num_seqs; see `specgrid.Lookup`."""

    def __init__(
        self,
        batches: Int64,
        contexts: Int64,
        k: Int64,
        max_num_seqs: int,
        num_speculative_tokens: int,
    ) -> None:
        if max_num_seqs < 1 or num_speculative_tokens < 1:
            raise ValueError("lookup limits must be positive")
        self.max_num_seqs = max_num_seqs
        self.num_speculative_tokens = num_speculative_tokens
        self.context_his = [hi for _, hi in contexts.tolist()]
        self.num_columns = len(self.context_his)
        lines = k.reshape(len(batches), self.num_columns).tolist()
        # Runs start where ranges do: gaps and the tail carry the range before.
        self.runs = [
            (lo, [min(value, num_speculative_tokens) for value in line])
            for (lo, _), line in zip(batches.tolist(), lines, strict=True)
            if lo <= max_num_seqs
        ]

    def at(self, batch: int, context: int) -> int:
        batch, context = index(batch), index(context)
        if not 0 <= batch <= self.max_num_seqs:
            raise IndexError("batch out of range")
        column = self.column_of(context)
        found = 0
        for start, line in self.runs:
            if start <= batch:
                found = line[column]
        return found

    def column_of(self, context: int) -> int:
        if context < 0:
            raise IndexError("context out of range")
        for column, context_hi in enumerate(self.context_his[:-1]):
            if context <= context_hi:
                return column
        return self.num_columns - 1

    def _lines(self) -> list[list[int]]:
        """The dense table as lists."""
        table = [[0] * self.num_columns]
        ends = [start for start, _ in self.runs[1:]] + [self.max_num_seqs + 1]
        for (start, line), end in zip(self.runs, ends, strict=True):
            table.extend([line] * (end - start))
        return table

    def dense(self, item_bytes: int) -> npt.NDArray[Any]:
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[item_bytes]
        return np.array(self._lines(), dtype=dtype)

    def column_list(self) -> list[int]:
        if self.num_columns != 1:
            raise ValueError("needs one column")
        return [line[0] for line in self._lines()]

    def tiers(self) -> tuple[tuple[int, int, int, int], ...]:
        spans: dict[int, tuple[int, int]] = {}
        ends = [start for start, _ in self.runs[1:]] + [self.max_num_seqs + 1]
        for (start, line), end in zip(self.runs, ends, strict=True):
            for k in line:
                low, high = spans.get(k, (start, end - 1))
                spans[k] = (min(low, start), max(high, end - 1))
        return tuple((k + 1, k, *spans[k]) for k in sorted(spans))

    def canonical(self) -> tuple[Int64, Int64, Int64]:
        kept = [
            column
            for column in range(self.num_columns)
            if column == 0
            or any(line[column] != line[column - 1] for _, line in self.runs)
        ]
        last_of_kept = [column - 1 for column in kept[1:]] + [self.num_columns - 1]
        joined: list[tuple[int, list[int]]] = []
        for start, line in self.runs:
            if not joined or line != joined[-1][1]:
                joined.append((start, line))
        return (
            np.array([start for start, _ in joined], dtype=np.int64),
            np.array([self.context_his[c] for c in last_of_kept], dtype=np.int64),
            np.array([[line[c] for c in kept] for _, line in joined]).ravel(),
        )

    def gather(self, batches: Int64, contexts: Int64) -> npt.NDArray[np.int32]:
        if contexts.size not in (0, batches.size):
            raise ValueError("batches and contexts differ in length")
        out = np.zeros(batches.size, dtype=np.int32)
        for i, batch in enumerate(batches.tolist()):
            try:
                out[i] = self.at(batch, int(contexts[i]) if contexts.size else 0)
            except IndexError:
                raise IndexError(str(i)) from None
        return out
