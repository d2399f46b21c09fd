# SPDX-License-Identifier: Apache-2.0
"""Coverage: which graph serves every batch a schedule decodes, and which do not.

The diagonal of a schedule is every (batch, query length) it decodes: for each
batch and context column, 1 + k tokens per request. Batches that shrink between
drafting and verification are off the diagonal; docs/reachability.md says why
they need no more graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid._check import count
from specgrid._errors import ConfigError

if TYPE_CHECKING:
    from specgrid._graphs import Graph, GraphSet, Served

MAX_CELLS = 2**24

_MODES = ("NONE", "PIECEWISE", "FULL")  # worst first


class CoverageRun(NamedTuple):
    """Neighbouring batches of one context column that share a graph.

    Attributes:
        batch_lo: First batch, inclusive.
        batch_hi: Last batch, inclusive.
        query_len: Tokens per request.
        graph: The graph that serves them; None when they run eager.
        hidden_by: The graph of another query length that hides a FULL graph of
            their own; None when nothing is hidden.
        own: The smallest captured FULL graph of their query length that could
            serve the first of them, whether or not dispatch finds it.
    """

    batch_lo: int
    batch_hi: int
    query_len: int
    graph: Graph | None
    hidden_by: Graph | None
    own: Graph | None = None

    @property
    def mode(self) -> str:
        """ "FULL", "PIECEWISE" or "NONE"."""
        return "NONE" if self.graph is None else self.graph.mode


class TierCoverage(NamedTuple):
    """One query length of the schedule.

    Attributes:
        query_len: Tokens per request.
        k: Draft tokens per request.
        min_batch: Fewest requests the schedule decodes at this length.
        max_batch: Most requests the schedule decodes at this length.
        num_batches: Batches it decodes at this length, in any context.
        missed: Of these, batches without a FULL graph.
        num_graphs: FULL graphs captured for this length.
        num_unreachable: Of these, graphs no batch uses.
        sufficient_max_size: The smallest max_cudagraph_capture_size, in tokens,
            that can cover the widest batch: query_len x max_batch.
    """

    query_len: int
    k: int
    min_batch: int
    max_batch: int
    num_batches: int
    missed: list[int]
    num_graphs: int
    num_unreachable: int
    sufficient_max_size: int


class Coverage:
    """The serving graph of every batch of a schedule; made by `GraphSet.coverage`.

    Arrays have one row per batch, from batch 1, and one column per context
    column of the schedule (one column without context ranges).

    Args:
        graph_set: The graphs and the schedule.
        num_active_loras: Active LoRA adapters of the batches; the first LoRA
            case when not given.

    Raises:
        ConfigError: If the table would have more than 2**24 cells.

    Example:
        >>> from specgrid import GraphSet, capture_sizes
        >>> rows = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 512, 0)]
        >>> sizes = capture_sizes(256, 5, rows)
        >>> GraphSet(sizes, max_num_seqs=256, num_speculative_tokens=5,
        ...          schedule=rows).coverage().counts
        {'FULL': 170, 'PIECEWISE': 86, 'NONE': 0}
    """

    def __init__(
        self, graph_set: GraphSet, num_active_loras: int | None = None
    ) -> None:
        self.graph_set = graph_set
        loras = (
            graph_set.lora_cases[0]
            if num_active_loras is None
            else count("num_active_loras", num_active_loras, 0)
        )
        self.num_active_loras = loras
        self.query_lens = _query_lens(graph_set)
        batches = np.arange(1, graph_set.max_num_seqs + 1, dtype=np.int64)
        found = graph_set._table.explain_many(
            np.ascontiguousarray(
                np.broadcast_to(batches[:, None], self.query_lens.shape)
            ).ravel(),
            self.query_lens.ravel(),
            loras,
        )
        shape = self.query_lens.shape
        self._graph, self._own, self._hidden_by = (a.reshape(shape) for a in found)
        # One more element, so that index -1 (no graph) has an answer too.
        mode, tokens, *_ = graph_set.columns()
        self._mode = np.append(mode, 0)[self._graph]
        self.num_tokens: npt.NDArray[np.int64] = batches[:, None] * self.query_lens
        self.padded_tokens: npt.NDArray[np.int64] = np.where(
            self._graph >= 0, np.append(tokens, 0)[self._graph], self.num_tokens
        )

    # ---- batches -----------------------------------------------------------------

    @property
    def num_columns(self) -> int:
        """Context columns of the schedule."""
        return int(self.query_lens.shape[1])

    @cached_property
    def missed(self) -> list[int]:
        """Batches without a FULL graph, in any context column."""
        return self._batches_where(np.any(self._mode != 2, axis=1))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Batches by mode; a batch counts with the worst of its contexts."""
        return _counts(self._mode.min(axis=1))

    @cached_property
    def counts_by_column(self) -> list[dict[str, int]]:
        """Batches by mode, for each context column."""
        return [_counts(column) for column in self._mode.T]

    @cached_property
    def hidden(self) -> list[Served]:
        """Batches whose FULL graph is captured but hidden by another one."""
        rows, columns = np.nonzero(self._hidden_by >= 0)
        pairs = {
            (int(row) + 1, int(self.query_lens[row, column]))
            for row, column in zip(rows, columns, strict=True)
        }
        return [self._served(batch, query_len) for batch, query_len in sorted(pairs)]

    def __getitem__(self, batch: int) -> Served:
        """The serving graph of one batch; the first of its context columns."""
        batch = count("batch", batch, 1, self.graph_set.max_num_seqs)
        return self._served(batch, int(self.query_lens[batch - 1, 0]))

    def at(self, num_reqs: int, query_len: int) -> Served:
        """The serving graph of any uniform decode step, on the diagonal or not.

        Args:
            num_reqs: Requests in the step.
            query_len: Tokens per request.
        """
        return self._served(num_reqs, query_len)

    def runs(self, column: int = 0) -> Iterator[CoverageRun]:
        """Batches of one context column, joined while they share a graph.

        Args:
            column: Index of the context column.

        Example:
            >>> from specgrid import GraphSet
            >>> coverage = GraphSet([1, 2, 4], max_num_seqs=6).coverage()
            >>> [(run.batch_lo, run.batch_hi, run.mode) for run in coverage.runs()]
            [(1, 1, 'FULL'), (2, 2, 'FULL'), (3, 4, 'FULL'), (5, 6, 'NONE')]
        """
        keys = np.stack(
            [
                a[:, column]
                for a in (self.query_lens, self._graph, self._hidden_by, self._own)
            ]
        )
        yield from self._joined(keys, 1, splitting=3)

    def runs_at(
        self, query_len: int, first: int = 1, last: int | None = None
    ) -> Iterator[CoverageRun]:
        """Batches of one query length, on the diagonal or not, joined likewise.

        Unlike `runs` these also part where the FULL graph of their own changes.

        Args:
            query_len: Tokens per request.
            first: First batch.
            last: Last batch, inclusive; max_num_seqs when not given.

        Example:
            >>> from specgrid import GraphSet
            >>> coverage = GraphSet([1, 2, 4], max_num_seqs=6).coverage()
            >>> [(run.batch_lo, run.batch_hi, run.mode)
            ...  for run in coverage.runs_at(1, first=2)]
            [(2, 2, 'FULL'), (3, 4, 'FULL'), (5, 6, 'NONE')]
        """
        most = self.graph_set.max_num_seqs
        first = count("first", first, 1, most)
        last = most if last is None else count("last", last, first, most)
        query_len = count("query_len", query_len)
        batches = np.arange(first, last + 1, dtype=np.int64)
        found = self.graph_set._table.explain_many(
            batches, np.full_like(batches, query_len), self.num_active_loras
        )
        graph, own, hidden_by = found
        keys = np.stack([np.full_like(batches, query_len), graph, hidden_by, own])
        yield from self._joined(keys, first, splitting=4)

    def _joined(
        self, keys: npt.NDArray[np.int64], first: int, splitting: int
    ) -> Iterator[CoverageRun]:
        """Runs of equal columns; the first ``splitting`` rows decide equality."""
        lines = keys[:splitting]
        changes = np.any(lines[:, 1:] != lines[:, :-1], axis=0)
        starts = [0, *(np.nonzero(changes)[0] + 1).tolist()]
        ends = [*starts[1:], keys.shape[1]]
        for start, end in zip(starts, ends, strict=True):
            query_len, graph, hidden_by, own = keys[:, start].tolist()
            yield CoverageRun(
                start + first,
                end + first - 1,
                query_len,
                self._graph_at(graph),
                self._graph_at(hidden_by),
                self._graph_at(own),
            )

    # ---- graphs ------------------------------------------------------------------

    @cached_property
    def unreachable(self) -> list[Graph]:
        """FULL decode graphs that no batch uses, in capture order.

        A graph counts as used when it serves a batch of the diagonal, or what
        docs/reachability.md adds to it: the widest graph of a query length
        whose batches go beyond it (it serves what is left of such a batch when
        requests finish), and, where the schedule drafts nothing, the graph of
        max_num_seqs requests of one token (requests that arrive with one token
        to prefill). PIECEWISE and mixed graphs are always used.
        """
        used = self._used
        return [
            g for g, u in zip(self.graph_set.all_graphs, used, strict=True) if not u
        ]

    @cached_property
    def _used(self) -> list[bool]:
        runs = np.array(self.graph_set.diagonal_runs, np.int64).ravel()
        used: list[bool] = self.graph_set._table.used(runs).tolist()
        return used

    # ---- padding -----------------------------------------------------------------

    @property
    def padding(self) -> npt.NDArray[np.int64]:
        """Tokens added per batch and context column; 0 for eager steps."""
        padding: npt.NDArray[np.int64] = self.padded_tokens - self.num_tokens
        return padding

    def mean_padding(self, weights: npt.ArrayLike | None = None) -> float:
        """Padding tokens as a share of the tokens asked for.

        Args:
            weights: Steps per batch (from batch 1), or per batch and context
                column; equal when not given.

        Returns:
            0.1 when steps compute 10 % more tokens than asked for.

        Raises:
            ConfigError: If weights have another shape, or none is positive.
        """
        shape = self.num_tokens.shape
        given = np.ones(shape) if weights is None else np.asarray(weights, float)
        if given.shape == shape[:1]:
            given = given[:, None]
        if given.shape not in (shape, (shape[0], 1)):
            raise ConfigError(
                f"weights must have shape {shape[:1]} or {shape}, not {given.shape}"
            )
        if not (np.all(given >= 0) and np.isfinite(given).all() and given.any()):
            raise ConfigError("weights must be finite, >= 0 and not all zero")
        asked = float(np.sum(given * self.num_tokens))
        return float(np.sum(given * self.padding)) / asked

    # ---- tiers -------------------------------------------------------------------

    @cached_property
    def tiers(self) -> list[TierCoverage]:
        """Coverage by query length, ascending."""
        graph_set = self.graph_set
        captured = dict.fromkeys(graph_set.query_lens, 0)
        idle = dict(captured)
        for graph, used in zip(graph_set.all_graphs, self._used, strict=True):
            if graph.query_len in captured:
                captured[graph.query_len] += 1
                idle[graph.query_len] += not used
        tiers = []
        for tier in graph_set.tiers:
            q = tier.query_len
            mine = self.query_lens == q
            missed = self._batches_where(np.any(mine & (self._mode != 2), axis=1))
            tiers.append(
                TierCoverage(
                    *tier,
                    num_batches=int(np.any(mine, axis=1).sum()),
                    missed=missed,
                    num_graphs=captured[q],
                    num_unreachable=idle[q],
                    sufficient_max_size=q * tier.max_batch,
                )
            )
        return tiers

    @property
    def sufficient_max_size(self) -> int:
        """Smallest maximum, in tokens, that can cover every batch of every tier."""
        return max(tier.query_len * tier.max_batch for tier in self.graph_set.tiers)

    # ---- as data -----------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The coverage as plain data, for JSON.

        Returns:
            Keys: policy, mode, runner, max_num_seqs, num_speculative_tokens,
            num_graphs (by mode), counts, missed, hidden, unreachable, tiers,
            columns (runs per context column), sufficient_max_size,
            mean_padding. Graphs are objects with the fields of `Graph`.
        """
        graph_set = self.graph_set
        contexts: list[Any] = [None]
        if graph_set.lookup is not None and self.num_columns > 1:
            contexts = [list(c) for c in graph_set.lookup.context_ranges]
        return {
            "policy": graph_set.policy,
            "mode": graph_set.mode,
            "runner": graph_set.runner,
            "max_num_seqs": graph_set.max_num_seqs,
            "num_speculative_tokens": graph_set.num_speculative_tokens,
            "num_graphs": {
                mode: graph_set.count(mode) for mode in ("FULL", "PIECEWISE")
            },
            "counts": self.counts,
            "missed": self.missed,
            "hidden": [
                {
                    "num_reqs": served.num_reqs,
                    "query_len": served.query_len,
                    "graph": served.graph._asdict(),
                    "own": _as_dict(served.own),
                    "hidden_by": _as_dict(served.hidden_by),
                }
                for served in self.hidden
            ],
            "unreachable": [graph._asdict() for graph in self.unreachable],
            "tiers": [tier._asdict() for tier in self.tiers],
            "columns": [
                {
                    "contexts": context,
                    "runs": [
                        {
                            "batch_lo": run.batch_lo,
                            "batch_hi": run.batch_hi,
                            "query_len": run.query_len,
                            "mode": run.mode,
                            "graph": _as_dict(run.graph),
                            "hidden_by": _as_dict(run.hidden_by),
                        }
                        for run in self.runs(column)
                    ],
                }
                for column, context in enumerate(contexts)
            ],
            "sufficient_max_size": self.sufficient_max_size,
            "mean_padding": self.mean_padding(),
        }

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"<Coverage of {len(self.num_tokens)} batches: {counts['FULL']} FULL, "
            f"{counts['PIECEWISE']} PIECEWISE, {counts['NONE']} eager>"
        )

    # ---- helpers -----------------------------------------------------------------

    def _served(self, num_reqs: int, query_len: int) -> Served:
        return self.graph_set.explain(num_reqs, query_len, self.num_active_loras)

    def _graph_at(self, index: int) -> Graph | None:
        return None if index < 0 else self.graph_set.all_graphs[index]

    @staticmethod
    def _batches_where(mask: npt.NDArray[np.bool_]) -> list[int]:
        batches: list[int] = (np.nonzero(mask)[0] + 1).tolist()
        return batches


def _query_lens(graph_set: GraphSet) -> npt.NDArray[np.int64]:
    """Query length per batch and context column, batches from 1."""
    rows = graph_set.max_num_seqs
    lookup = graph_set.lookup if graph_set.varies_query_len else None
    columns = 1 if lookup is None else lookup.num_columns
    if rows * columns > MAX_CELLS:
        raise ConfigError(
            f"coverage of {rows} batches x {columns} context columns is over "
            f"{MAX_CELLS} cells; ask explain() or dispatch_many() for single batches"
        )
    if lookup is None:
        return np.full((rows, 1), graph_set.decode_query_len, np.int64)
    own = graph_set.decode_query_len - graph_set.num_speculative_tokens
    return lookup.dense()[1:].astype(np.int64) + own


def _counts(modes: npt.NDArray[np.int64]) -> dict[str, int]:
    found = np.bincount(modes, minlength=3).tolist()
    return {mode: found[_MODES.index(mode)] for mode in ("FULL", "PIECEWISE", "NONE")}


def _as_dict(graph: Graph | None) -> dict[str, Any] | None:
    return None if graph is None else graph._asdict()


__all__ = ["Coverage", "CoverageRun", "TierCoverage"]
