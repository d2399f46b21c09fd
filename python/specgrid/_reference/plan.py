# SPDX-License-Identifier: Apache-2.0
"""Capture planning, the slow and obvious way; mirrors csrc/core/plan_*.

Two problems: one list of sizes shared by all query lengths, and independent
ladders. Both are a choice of entries in ascending order where what an entry
costs depends on the entry before it alone, so both are solved by keeping, for
every (largest entry so far, graphs used), the best list. Lists are compared as
`(time, number of entries, entries from the largest down)`: the order in which
ties are broken is that tuple's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

# (time, number of entries, entries from the largest down)
_List = tuple[int, int, tuple[int, ...]]
# Time and used (graphs, bytes, seconds) of the choice between two neighbours.
_Arc = tuple[int, tuple[int, int, int]]
_Table = tuple[Int64, Int64, Int64]

_FAR = 1 << 60


def _table(points: Iterable[tuple[list[int], tuple[int, ...]]], width: int) -> _Table:
    """Points as the core returns them: numbers, offsets, entries ascending."""
    numbers: list[list[int]] = []
    offsets = [0]
    entries: list[int] = []
    for row, found in points:
        numbers.append(row)
        entries += sorted(found)
        offsets.append(len(entries))
    return (
        np.array(numbers, dtype=np.int64).reshape(len(numbers), width),
        np.array(offsets, dtype=np.int64),
        np.array(entries, dtype=np.int64),
    )


def _falling(best: dict[int, _List]) -> list[tuple[list[int], tuple[int, ...]]]:
    """Of the best list for each exact number of graphs, those that pay."""
    out: list[tuple[list[int], tuple[int, ...]]] = []
    for graphs in sorted(best):
        time, _, entries = best[graphs]
        if not out or time < out[-1][0][1]:
            out.append(([graphs, time], entries))
    return out


class SharedProblem:
    """One list of sizes for every query length, in one ladder or a ladder each.

    Arguments are those of the core's class of this name: `decode` has rows
    (query length's index, num_reqs, weight, eager time, required), `mixed` rows
    (num_tokens, weight, eager time), times and prices are by size.
    """

    def __init__(
        self,
        *,
        query_lens: Int64,
        max_num_seqs: int,
        max_decode_tokens: int,
        max_size: int,
        one_ladder: bool,
        piecewise: bool,
        decode: Int64,
        mixed: Int64,
        full_time: Int64,
        piecewise_time: Int64,
        sizes: Int64,
        forced: Int64,
        graphs_each: Int64,
        graph_bytes: Int64,
        graph_seconds: Int64,
        pool_bytes: Int64,
        graph_limits: Int64,
    ) -> None:
        self._lens: list[int] = query_lens.tolist()
        self._max_num_seqs = max_num_seqs
        self._max_decode_tokens = max_decode_tokens
        self._one_ladder = one_ladder
        self._piecewise = piecewise
        self._decode: list[list[int]] = decode.tolist()
        self._mixed: list[list[int]] = mixed.tolist()
        self._full: list[int] = full_time.tolist()
        self._pw: list[int] = piecewise_time.tolist()
        self._sizes: list[int] = sizes.tolist()
        self._forced: list[int] = forced.tolist()
        self._each: list[int] = graphs_each.tolist()
        none = [0] * (max_size + 1)
        self._bytes: list[int] = graph_bytes.tolist() or none
        self._seconds: list[int] = graph_seconds.tolist() or none
        self._pool: list[int] = pool_bytes.tolist() or none
        # By largest entry; the empty list has no limit.
        self._limits: dict[int, int] = dict(
            zip(self._sizes, graph_limits.tolist(), strict=False)
        )

    # ---- what two neighbouring entries settle -------------------------------------

    def _rounded(self, size: int, q: int, top: int) -> int | None:
        """The FULL graph an entry makes for a query length, if it makes one."""
        reqs = -(-size // q)
        tokens = reqs * q
        if (
            size == 0
            or reqs > self._max_num_seqs
            or tokens > min(top, self._max_decode_tokens)
        ):
            return None
        return tokens

    def _decode_graph(
        self, q: int, tokens: int, a: int, b: int, top: int
    ) -> int | None:
        """The FULL graph of a decode step owned by neighbours a < b, if any."""
        if not self._one_ladder:
            return self._rounded(b, q, top)
        levels: dict[int, set[int]] = {}
        for size in (a, b):
            for length in self._lens:
                made = self._rounded(size, length, top)
                if made is not None:
                    levels.setdefault(made, set()).add(length)
        nearest = min((level for level in levels if level >= tokens), default=None)
        return nearest if nearest is not None and q in levels[nearest] else None

    def _pair(self, a: int, b: int, top: int) -> _Arc | None:
        """The choice of b right above a; None where it breaks a promise."""
        time = 0
        for tier, reqs, weight, eager, required in self._decode:
            q = self._lens[tier]
            tokens = q * reqs
            # With a ladder of its own, a step is also served by an entry that
            # merely rounds up to it.
            owner = tokens if self._one_ladder else tokens - q + 1
            if not a < owner <= b:
                continue
            graph = self._decode_graph(q, tokens, a, b, top)
            if graph is not None:
                time += weight * self._full[graph]
            elif required:
                return None
            elif self._piecewise and tokens <= b:
                time += weight * self._pw[b]
            else:
                time += weight * eager
        for tokens, weight, eager in self._mixed:
            if a < tokens <= b:
                time += weight * (self._pw[b] if self._piecewise else eager)
        captured = [(self._each[1], b)]
        if b <= self._max_num_seqs:
            captured.append((self._each[2], b))
        for q in self._lens:
            made = self._rounded(b, q, top)
            if made is not None and made != self._rounded(a, q, top):
                captured.append((self._each[0], made))
        return time, (
            sum(number for number, _ in captured),
            sum(number * self._bytes[size] for number, size in captured),
            sum(number * self._seconds[size] for number, size in captured),
        )

    def _beyond(self, top: int) -> int | None:
        """Time of the steps above every entry; None if one was promised a graph."""
        time = 0
        for tier, reqs, weight, eager, required in self._decode:
            q = self._lens[tier]
            if q * reqs - (0 if self._one_ladder else q - 1) > top:
                if required:
                    return None
                time += weight * eager
        return time + sum(
            weight * eager for tokens, weight, eager in self._mixed if tokens > top
        )

    def _skips_forced(self, a: int, b: int) -> bool:
        return any(a < size < b for size in self._forced)

    def _tops(self) -> Iterator[tuple[int, int]]:
        """Every possible largest entry (0: none) with the time beyond it."""
        for top in [0, *self._sizes]:
            time = self._beyond(top)
            if time is not None and (not self._forced or top >= self._forced[-1]):
                yield top, time

    # ---- solvers --------------------------------------------------------------------

    def _best_by_graphs(self, budget: int | None) -> dict[int, _List]:
        """The best list for every exact number of graphs; None for no limit."""
        best: dict[int, _List] = {}
        for top, beyond in self._tops():
            # [largest entry so far][graphs used]
            lists: dict[int, dict[int, _List]] = {0: {0: (0, 0, ())}}
            for b in [size for size in self._sizes if size <= top]:
                here: dict[int, _List] = {}
                for a, found in lists.items():
                    arc = None if self._skips_forced(a, b) else self._pair(a, b, top)
                    if arc is None:
                        continue
                    time, (graphs, _, _) = arc
                    for used, (before, number, entries) in found.items():
                        total = used + graphs
                        if budget is not None and total > budget:
                            continue
                        new = (before + time, number + 1, (b, *entries))
                        if total not in here or new < here[total]:
                            here[total] = new
                lists[b] = here
            most = _FAR if budget is None else self._limits.get(top, _FAR)
            for graphs, (time, number, entries) in lists.get(top, {}).items():
                new = (time + beyond, number, entries)
                if graphs <= most and (graphs not in best or new < best[graphs]):
                    best[graphs] = new
        return best

    def frontier(
        self, budget: int, num_threads: int, time_limit: float
    ) -> _Table | None:
        """The best list for every number of graphs up to a budget."""
        return _table(_falling(self._best_by_graphs(budget)), 2)

    def unlimited(self, num_threads: int, time_limit: float) -> _Table | None:
        """The best list of all."""
        return _table(_falling(self._best_by_graphs(None))[-1:], 2)

    def _chains(self) -> Iterator[tuple[list[int], Any, _Arc]]:
        """For every largest entry: its nodes, their arcs, and the last arc."""
        for top, beyond in self._tops():
            nodes = [0] + [size for size in self._sizes if size <= top]

            def arc(a: int, b: int, top: int = top) -> _Arc | None:
                return None if self._skips_forced(a, b) else self._pair(a, b, top)

            pool = self._pool[top] if top else 0
            yield nodes, arc, (beyond, (0, pool, 0))

    def labels(self, limits: Int64, max_labels: int, time_limit: float) -> Any:
        """The best list within limits on graphs, bytes and seconds."""
        return _labels(self._chains(), limits)

    def rough(self, limits: Int64, time_limit: float) -> Any:
        """Some list within the limits and a bound; here the best one."""
        return self.labels(limits, 0, time_limit)

    def least(self) -> Int64:
        """The least graphs, bytes and seconds any list needs, each alone."""
        return _least(self._chains())


def _labels(
    chains: Iterable[tuple[list[int], Any, _Arc]], limits: Int64
) -> tuple[bool, int, Int64, Int64, Int64, Int64]:
    """Every combination of time and resources that no other beats, node by node."""
    most = [_FAR if limit < 0 else limit for limit in limits.tolist()]
    best: tuple[int, tuple[int, int, int], _List] | None = None
    kept_chains = list(chains)
    for nodes, arc, (beyond, last) in kept_chains:
        labels: dict[int, list[tuple[int, tuple[int, ...], _List]]] = {
            nodes[0]: [(0, (0, 0, 0), (0, 0, ()))]
        }
        for at, b in enumerate(nodes[1:], start=1):
            found = []
            for a in nodes[:at]:
                choice = arc(a, b) if labels[a] else None
                if choice is None:
                    continue
                time, used = choice
                for before, spent, (_, number, entries) in labels[a]:
                    total = tuple(x + y for x, y in zip(spent, used, strict=True))
                    if all(x <= y for x, y in zip(total, most, strict=True)):
                        new = before + time
                        name = (new, number + (b > 0), (b, *entries))
                        found.append((new, total, name))
            kept: list[tuple[int, tuple[int, ...], _List]] = []
            for label in sorted(found, key=lambda x: (x[0], x[1], x[2])):
                if not any(
                    all(x <= y for x, y in zip(k[1], label[1], strict=True))
                    for k in kept
                ):
                    kept.append(label)
            labels[b] = kept
        for time, spent, (_, number, entries) in labels[nodes[-1]]:
            total = tuple(x + y for x, y in zip(spent, last, strict=True))
            if any(x > y for x, y in zip(total, most, strict=True)):
                continue
            whole = (time + beyond, total, (time + beyond, number, entries))
            if best is None or whole < best:
                best = whole
    least = _least(kept_chains)
    if best is None:
        none = _table([], 4)
        return False, 1 << 62, least, *none
    time, total, (_, _, entries) = best
    return True, time, least, *_table([([time, *total], entries)], 4)


def _least(chains: Iterable[tuple[list[int], Any, _Arc]]) -> Int64:
    """The least of each resource on any path, taken alone."""
    best = [_FAR, _FAR, _FAR]
    for nodes, arc, (_, last) in chains:
        least: dict[int, list[int]] = {nodes[0]: [0, 0, 0]}
        for at, b in enumerate(nodes[1:], start=1):
            least[b] = [_FAR, _FAR, _FAR]
            for a in nodes[:at]:
                choice = arc(a, b)
                if choice is not None:
                    least[b] = [
                        min(x, y + z)
                        for x, y, z in zip(least[b], least[a], choice[1], strict=True)
                    ]
        best = [
            min(x, y + z) for x, y, z in zip(best, least[nodes[-1]], last, strict=True)
        ]
    return np.array(best, dtype=np.int64)


class LadderProblem:
    """Ladders that share a budget and nothing else.

    Arguments are those of the core's class of this name: `steps` has a row
    (weight, cost, eager time, forced, bytes, seconds) for every index of every
    ladder, `limits` a row (smallest admissible largest index, eager time above
    the ladder, graphs per entry) for every ladder. Entries are ladder * 2**32 +
    index, indices from 1.
    """

    def __init__(self, *, lengths: Int64, steps: Int64, limits: Int64) -> None:
        rows: list[list[int]] = steps.tolist()
        self._ladders: list[tuple[list[list[int]], int, int, int]] = []
        at = 0
        for length, (reach, beyond, each) in zip(
            lengths.tolist(), limits.tolist(), strict=True
        ):
            unused = [0, 0, 0, 0, 0, 0]
            ladder = [unused, *rows[at : at + length]]
            forced = [i for i, row in enumerate(ladder) if row[3]]
            self._ladders.append((ladder, max([reach, *forced]), beyond, each))
            at += length

    @staticmethod
    def _segment(ladder: list[list[int]], a: int, b: int) -> int | None:
        """Steps above a that round up to b; None where it jumps a forced entry."""
        if any(ladder[i][3] for i in range(a + 1, b)):
            return None
        return ladder[b][1] * sum(ladder[i][0] for i in range(a + 1, b + 1))

    def _curve(self, which: int, most: int) -> dict[int, tuple[int, tuple[int, ...]]]:
        """The best entries of one ladder for every exact number of them."""
        ladder, reach, beyond, _ = self._ladders[which]
        tail = [
            beyond + sum(row[2] for row in ladder[b + 1 :]) for b in range(len(ladder))
        ]
        curve: dict[int, tuple[int, tuple[int, ...]]] = {}
        lists: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
        for number in range(min(most, len(ladder) - 1) + 1):
            ends = [
                (time + tail[b], entries)
                for b, (time, entries) in lists.items()
                if b >= reach
            ]
            if ends:
                curve[number] = min(ends)
            after: dict[int, tuple[int, tuple[int, ...]]] = {}
            for b in range(1, len(ladder)):
                for a, (before, entries) in lists.items():
                    time = self._segment(ladder, a, b) if a < b else None
                    if time is not None:
                        new = (before + time, (b, *entries))
                        after[b] = min(after.get(b, new), new)
            lists = after
        return curve

    def frontier(
        self, budget: int, plain: bool, num_threads: int, time_limit: float
    ) -> _Table | None:
        """The best entries for every number of graphs up to a budget."""
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
        for which, (_, _, _, each) in enumerate(self._ladders):
            merged: dict[int, tuple[int, tuple[int, ...]]] = {}
            for number, (time, entries) in self._curve(which, budget // each).items():
                named = tuple((which << 32) + index for index in entries)
                for graphs, (before, others) in best.items():
                    total = graphs + number * each
                    # Fewer entries come first and are kept among equals.
                    if total <= budget and (
                        total not in merged or before + time < merged[total][0]
                    ):
                        merged[total] = (before + time, (*others, *named))
            best = merged
        out: list[tuple[list[int], tuple[int, ...]]] = []
        for graphs in sorted(best):
            time, entries = best[graphs]
            if not out or time < out[-1][0][1]:
                out.append(([graphs, time], entries))
        return _table(out, 2)

    def _chain(self) -> Iterator[tuple[list[int], Any, _Arc]]:
        """All ladders one after the other; (ladder, 0) starts a ladder."""
        nodes = [
            (which << 32) + index
            for which, (ladder, _, _, _) in enumerate(self._ladders)
            for index in range(len(ladder))
        ]
        end = len(self._ladders) << 32
        nodes.append(end)

        def arc(a: int, b: int) -> _Arc | None:
            from_ladder, i = a >> 32, a & 0xFFFFFFFF
            to_ladder, j = b >> 32, b & 0xFFFFFFFF
            ladder, reach, beyond, each = self._ladders[from_ladder]
            if to_ladder == from_ladder:
                time = self._segment(ladder, i, j)
                row = ladder[j]
                return (
                    None
                    if time is None
                    else (time, (each, each * row[4], each * row[5]))
                )
            if to_ladder != from_ladder + 1 or j != 0 or i < reach:
                return None
            tail = beyond + sum(row[2] for row in ladder[i + 1 :])
            return tail, (0, 0, 0)

        yield nodes, arc, (0, (0, 0, 0))

    def labels(self, limits: Int64, max_labels: int, time_limit: float) -> Any:
        """The best entries within limits on graphs, bytes and seconds."""
        found, bound, least, numbers, _, entries = _labels(self._chain(), limits)
        # Joints between ladders are no entries.
        entries = entries[(entries & 0xFFFFFFFF) != 0]
        offsets = np.array([0, len(entries)][: len(numbers) + 1], dtype=np.int64)
        return found, bound, least, numbers, offsets, entries

    def rough(self, limits: Int64, time_limit: float) -> Any:
        """Some entries within the limits and a bound; here the best ones."""
        return self.labels(limits, 0, time_limit)

    def least(self) -> Int64:
        """The least graphs, bytes and seconds any choice needs, each alone."""
        return _least(self._chain())
