# SPDX-License-Identifier: Apache-2.0
"""A planning task in the arrays a back end takes.

Two forms: one list of sizes shared by every query length (`SharedProblem`), and
independent ladders (`LadderProblem`, the direct dispatcher). Nothing is solved
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._errors import ConfigError
from specgrid._plan_inputs import (
    Inputs,
    Int64,
    candidate_sizes,
    worthwhile_sizes,
)

#: Largest table of times; bytes.
MAX_BYTES = 4 << 30

_MIB = 1 << 20
#: Seven graphs of 0.1 seconds take 0.7, whatever the last binary digit says.
_ROUNDING = 1e-12


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
        return cls(math.floor(limit / size * (1 + _ROUNDING)), size)

    def units(self, amounts: npt.NDArray[np.float64]) -> Int64:
        # More than the whole limit is just that; it also keeps numbers small.
        units = np.ceil(amounts / self.size * (1 - _ROUNDING))
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
            left = budget.bytes * (1 + _ROUNDING) - self.pool[self.sizes]
            price = self.bytes[low]
            with np.errstate(divide="ignore"):
                fits = np.floor(left / price) if price else np.full(len(left), np.inf)
            limits = np.minimum(limits, np.where(left < 0, -1, fits))
        if budget.seconds is not None and self.seconds[low] > 0:
            fits = math.floor(budget.seconds / self.seconds[low] * (1 + _ROUNDING))
            limits = np.minimum(limits, fits)
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

    def refuse_if_large(self, width: int) -> None:
        """Refuses a table of times that would not fit a machine's memory."""
        inputs, limits = self.inputs, self.inputs.limits
        if inputs.dispatcher == "direct":
            reqs = max(
                min(limits.max_num_seqs, inputs.max_size // q)
                for q, _, _ in limits.tiers
            )
            needed = 4 * reqs * width
        else:
            # Entries near the largest are worked out for each largest one.
            nodes = len(self.sizes) * (1 + max(q for q, _, _ in limits.tiers))
            needed = 8 * nodes * width
        if needed > MAX_BYTES:
            raise ConfigError(
                f"a plan over {len(self.sizes)} sizes for every budget to {width} "
                f"graphs would take {needed / 2**30:.1f} GiB; lower the budget or "
                "max_size"
            )

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
        ladders = _Ladders(self)
        for q, _, _ in limits.tiers:
            most = min(limits.max_num_seqs, inputs.max_size // q)
            entries = np.arange(-(-inputs.min_size // q), most + 1, dtype=np.int64)
            mine = steps.decode_q == q
            ladders.add(
                query_len=q,
                entries=entries,
                tokens=entries * q,
                cost=scale.times(inputs.full_us),
                at=steps.decode_n[mine],
                share=scale.shares(steps.decode_share[mine]),
                eager=scale.times(steps.decode_eager[mine]),
                forced=[n for p, n in inputs.forced_graphs if p == q],
                reach=max((n for p, n in inputs.required if p == q), default=0),
                each=limits.graphs_for_key(q),
            )
        # Without PIECEWISE graphs mixed steps are eager: a ladder of no entries.
        entries = np.zeros(0, np.int64)
        if inputs.piecewise:
            marks = {*steps.mixed_t.tolist(), *inputs.forced_sizes}
            entries = worthwhile_sizes(inputs, marks)
        ladders.add(
            query_len=0,
            entries=entries,
            tokens=entries,
            cost=scale.times(inputs.piecewise_us),
            at=steps.mixed_t,
            share=scale.shares(steps.mixed_share),
            eager=scale.times(steps.mixed_eager),
            forced=list(inputs.forced_sizes),
            reach=0,
            each=max(self.each[1], 1),
        )
        return ladders.problem(), ladders.names


class _Ladders:
    """Ladders on their way into the arrays the core takes."""

    def __init__(self, task: Task) -> None:
        self.names: list[tuple[int, list[int]]] = []
        self._bytes = task.byte_unit.units(task.bytes)
        self._seconds = task.second_unit.units(task.seconds)
        self._rows: list[Int64] = []
        self._heads: list[tuple[int, int, int]] = []

    def add(
        self,
        *,
        query_len: int,
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
        """Adds one; steps are at `at` and use the next entry, or none above all."""
        where = np.searchsorted(entries, at)
        inside = where < len(entries)
        table = np.zeros((len(entries), 6), np.int64)
        np.add.at(table[:, 0], where[inside], share[inside])
        np.add.at(table[:, 2], where[inside], (share * eager)[inside])
        table[:, 1] = cost[tokens]
        table[:, 3] = np.isin(entries, forced)
        table[:, 4] = self._bytes[tokens]
        table[:, 5] = self._seconds[tokens]
        must = int(np.searchsorted(entries, reach)) + 1 if reach else 0
        self._rows.append(table)
        self._heads.append((must, int((share * eager)[~inside].sum()), each))
        self.names.append((query_len, entries.tolist()))

    def problem(self) -> Any:
        """The back end's problem."""
        return _backend.active().LadderProblem(
            lengths=_int64([len(entries) for _, entries in self.names]),
            steps=_int64(np.concatenate(self._rows)),
            limits=_int64(self._heads),
        )
