# SPDX-License-Identifier: Apache-2.0
"""Graphs and dispatch by lists and scans. Mirrors csrc/core/graphs.cpp and
csrc/core/dispatch.cpp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from specgrid._reference.schedule import Int64

NONE, PIECEWISE, FULL = range(3)
VLLM_033, PER_QUERY_LENGTH, REACHABLE = range(3)
MODE_NAMES = ("NONE", "PIECEWISE", "FULL")


class Desc(NamedTuple):
    """A graph; 0 stands for "any" or "not bounded"."""

    mode: int
    num_tokens: int
    num_reqs: int
    query_len: int
    num_active_loras: int
    max_query_len: int = 0
    num_ubatches: int = 1


class GraphTable:
    """All graphs of a size list and their dispatch; see `specgrid.GraphSet`."""

    def __init__(
        self,
        sizes: Int64,
        query_lens: Int64,
        lora_cases: Int64,
        diagonal: Int64,
        limits: Int64,
        decode_mode: int,
        mixed_mode: int,
        varlen_decode: bool,
        policy: int,
        clamp_loras: bool,
    ) -> None:
        self.max_num_seqs: int
        (
            self.max_num_seqs,
            self.max_size,
            self.decode_query_len,
            self.mixed_max_tokens,
            self.num_ubatches,
            self.ubatch_min_tokens,
        ) = limits.tolist()
        self.query_lens = query_lens.tolist()
        self.lora_cases = lora_cases.tolist()
        self.decode_mode = decode_mode
        self.mixed_mode = mixed_mode
        self.varlen_decode = varlen_decode
        self.policy = policy
        self.clamp_loras = clamp_loras
        by_mode: dict[int, list[Desc]] = {PIECEWISE: [], FULL: []}
        for size in sizes.tolist():
            for lora in self.lora_cases:
                for desc in self._descs_of(size, lora):
                    by_mode[desc.mode].append(desc)
        for mode, descs in by_mode.items():
            distinct = dict.fromkeys(descs)  # the first of equal ones stays
            by_mode[mode] = sorted(distinct, key=lambda desc: -desc.num_tokens)
        if policy == REACHABLE and decode_mode == FULL and not varlen_decode:
            by_mode[FULL] = self._reachable(by_mode[FULL], _runs(diagonal))
        self.descs = by_mode[PIECEWISE] + by_mode[FULL]
        self.index = {desc: i for i, desc in enumerate(self.descs)}
        self.num_graphs = len(self.descs)

    # ---- what is captured ------------------------------------------------------

    def _descs_of(self, size: int, lora: int) -> list[Desc]:
        """What one size asks for, in vLLM's order; repeats included."""
        descs = []
        most = self.max_num_seqs * self.decode_query_len
        if self.decode_mode != NONE and self.varlen_decode:
            if size <= most:
                reqs = min(size, self.max_num_seqs)
                descs.append(
                    Desc(FULL, size, reqs, 0, lora, max_query_len=self.decode_query_len)
                )
        elif self.decode_mode != NONE:
            for query_len in self.query_lens:
                reqs = -(-size // query_len)
                tokens = reqs * query_len
                if tokens <= min(most, self.max_size) and reqs <= self.max_num_seqs:
                    descs += self._with_twin(Desc(FULL, tokens, reqs, query_len, lora))
        if self.mixed_mode != NONE and not 0 < self.mixed_max_tokens < size:
            reqs = min(size, self.max_num_seqs) if self.mixed_mode == FULL else 0
            descs += self._with_twin(Desc(self.mixed_mode, size, reqs, 0, lora))
        return descs

    def _with_twin(self, desc: Desc) -> list[Desc]:
        """The graph and, where micro-batching splits it evenly, its twin."""
        if (
            self.num_ubatches == 1
            or desc.num_reqs == 0
            or desc.num_tokens % desc.num_reqs != 0
            or desc.num_tokens < max(self.num_ubatches, self.ubatch_min_tokens)
        ):
            return [desc]
        query_len = desc.num_tokens // desc.num_reqs
        twin = desc._replace(query_len=query_len, num_ubatches=self.num_ubatches)
        return [desc, twin]

    def _reachable(
        self, descs: list[Desc], runs: list[tuple[int, int, int]]
    ) -> list[Desc]:
        """Graphs that serve a batch of the schedule, or what is left of one."""
        kept = set()
        for query_len in self.query_lens:
            own = [run for run in runs if run[0] == query_len]
            ladder = sorted({d.num_reqs for d in descs if d.query_len == query_len})
            below = 0
            for reqs in ladder:
                # It is the first to hold batches below + 1 .. reqs.
                if any(max(lo, below + 1) <= min(hi, reqs) for _, lo, hi in own):
                    kept.add((query_len, reqs))
                below = reqs
            if own and ladder:
                widest = self._widest_step(query_len, own)
                kept.add(
                    (query_len, min((n for n in ladder if n >= widest), default=below))
                )
        return [desc for desc in descs if (desc.query_len, desc.num_reqs) in kept]

    def _widest_step(self, query_len: int, runs: list[tuple[int, int, int]]) -> int:
        """The widest uniform step: a batch of the schedule, or, where a server
        that drafts schedules no drafts, one widened by one-token arrivals."""
        if query_len == 1 and self.decode_query_len > 1:
            return self.max_num_seqs
        return max(hi for _, _, hi in runs)

    def columns(self) -> tuple[Int64, ...]:
        return tuple(
            np.array([desc[field] for desc in self.descs], np.int64)
            for field in range(7)
        )

    # ---- which graph serves a step ------------------------------------------------

    def _lora_case(self, active: int) -> int:
        """The captured case an active count runs at; itself when none does."""
        if active == 0:
            return 0
        positive: list[int] = [case for case in self.lora_cases if case > 0]
        enough = [case for case in positive if case >= active]
        if enough:
            return min(enough)
        return max(positive) if positive and self.clamp_loras else active

    def _candidates(self, tokens: int, lora: int) -> list[Desc]:
        """Graphs tried for a token count and a LoRA case, in order."""
        # Smallest first, and the later captured first among equal ones.
        holding = [
            desc
            for desc in reversed(self.descs)
            if desc.num_active_loras == lora and desc.num_tokens >= tokens
        ]
        full = [desc for desc in holding if desc.mode == FULL]
        piecewise = [desc for desc in holding if desc.mode == PIECEWISE]
        found: list[Desc] = []
        if self.policy == VLLM_033:
            found = [desc for desc in full if desc.num_tokens == full[0].num_tokens]
        else:
            for desc in full:
                key = (desc.query_len, desc.num_ubatches)
                if key not in {(d.query_len, d.num_ubatches) for d in found}:
                    found.append(desc)
        return found + piecewise[:1]

    def _is_sound(self, step: tuple[int, ...]) -> bool:
        reqs, tokens, query_len, loras, max_query_len, ubatches = step
        return (
            0 <= reqs <= self.max_num_seqs
            and min(tokens, query_len, loras, max_query_len) >= 0
            and ubatches >= 1
        )

    def _dispatch(self, step: tuple[int, ...]) -> Desc | None:
        reqs, tokens, query_len, loras, max_query_len, ubatches = step
        if tokens == 0:
            return None
        for desc in self._candidates(tokens, self._lora_case(loras)):
            if (
                desc.query_len in (0, query_len)
                and (desc.num_reqs == 0 or desc.num_reqs >= reqs)
                and (
                    desc.max_query_len == 0 or 1 <= max_query_len <= desc.max_query_len
                )
                and desc.num_ubatches == ubatches
            ):
                return desc
        return None

    def dispatch_many(
        self,
        num_reqs: Int64,
        num_tokens: Int64,
        query_len: Int64,
        num_active_loras: Int64,
        max_query_len: int,
        num_ubatches: int,
    ) -> tuple[int, Int64]:
        steps = zip(
            *(
                array.tolist()
                for array in np.broadcast_arrays(
                    num_reqs, num_tokens, query_len, num_active_loras
                )
            ),
            strict=True,
        )
        found: list[int] = []
        for i, step in enumerate(steps):
            full_step = (*step, max_query_len, num_ubatches)
            if not self._is_sound(full_step):
                return i, np.array(found, np.int64)
            desc = self._dispatch(full_step)
            found.append(-1 if desc is None else self.index[desc])
        return -1, np.array(found, np.int64)

    def bind_dispatch(
        self, graph_type: Callable[..., Any], refuse: Callable[..., Any]
    ) -> Callable[..., Any]:
        def dispatch(
            num_reqs: int,
            num_tokens: int,
            query_len: int | None = None,
            num_active_loras: int = 0,
            *,
            max_query_len: int | None = None,
            num_ubatches: int = 1,
        ) -> Any:
            lengths = [
                0 if value is None else max(value, 0) or -1
                for value in (query_len, max_query_len)
            ]
            step = (num_reqs, num_tokens, lengths[0], num_active_loras)
            full_step = (*step, lengths[1], num_ubatches)
            if not self._is_sound(full_step):
                return refuse(*full_step, self.max_num_seqs)
            desc = self._dispatch(full_step)
            if desc is None:
                loras = self._lora_case(num_active_loras)
                return graph_type(
                    "NONE", num_tokens, num_reqs, None, loras, None, num_ubatches
                )
            return graph_type(
                MODE_NAMES[desc.mode],
                desc.num_tokens,
                desc.num_reqs or None,
                desc.query_len or None,
                desc.num_active_loras,
                desc.max_query_len or None,
                desc.num_ubatches,
            )

        return dispatch

    def explain_many(
        self, num_reqs: Int64, query_len: Int64, num_active_loras: int
    ) -> tuple[Int64, Int64, Int64]:
        rows = [
            self._explain(reqs, length, num_active_loras)
            for reqs, length in zip(
                *(a.tolist() for a in np.broadcast_arrays(num_reqs, query_len)),
                strict=True,
            )
        ]
        graph, own, hidden_by = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        return graph, own, hidden_by

    def _explain(self, reqs: int, query_len: int, active: int) -> tuple[int, int, int]:
        tokens = reqs * query_len
        lora = self._lora_case(active)
        served = self._dispatch((reqs, tokens, query_len, active, query_len, 1))
        graph = -1 if served is None else self.index[served]
        own = [
            desc
            for desc in reversed(self.descs)
            if (desc.mode, desc.query_len, desc.num_ubatches) == (FULL, query_len, 1)
            and desc.num_active_loras == lora
            and desc.num_tokens >= tokens
        ]
        if tokens == 0 or not own or own[0].num_reqs < reqs:
            return graph, -1, -1
        tried = self._candidates(tokens, lora)
        hidden_by = -1 if own[0] in tried else self.index[tried[0]]
        return graph, self.index[own[0]], hidden_by

    def used(self, diagonal: Int64) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array(
            [self._is_used(desc, _runs(diagonal)) for desc in self.descs], np.bool_
        )

    def _is_used(self, desc: Desc, runs: list[tuple[int, int, int]]) -> bool:
        if desc.query_len == 0:
            return True  # any mixed step may need it
        same = [d for d in self.descs if d[3:] == desc[3:]]
        below = max((d.num_reqs for d in same if d.num_reqs < desc.num_reqs), default=0)
        widest = max(d.num_reqs for d in same)
        own = [run for run in runs if run[0] == desc.query_len]
        if not own:
            return False
        widest_step = self._widest_step(desc.query_len, own)
        if desc.num_reqs == widest < widest_step:
            return True  # what is left of wider batches when some finish
        for query_len, lo, hi in [*own, (desc.query_len, widest_step, widest_step)]:
            batch = min(hi, desc.num_reqs)
            step = (
                batch,
                batch * query_len,
                query_len,
                desc.num_active_loras,
                query_len,
                desc.num_ubatches,
            )
            if max(lo, below + 1) <= batch and self._dispatch(step) == desc:
                return True
        return False

    def candidates(self) -> tuple[Int64, Int64, Int64, Int64, Int64]:
        rows = []
        for lora in self.lora_cases:
            lasts = sorted(
                {d.num_tokens for d in self.descs if d.num_active_loras == lora}
            )
            first = 0
            for last in lasts:
                rows.append((lora, first, last, self._candidates(last, lora)))
                first = last + 1
        offsets = [0]
        for row in rows:
            offsets.append(offsets[-1] + len(row[3]))
        return (
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int64),
            np.array([row[2] for row in rows], np.int64),
            np.array(offsets, np.int64),
            np.array([self.index[desc] for row in rows for desc in row[3]], np.int64),
        )


def _runs(diagonal: Int64) -> list[tuple[int, int, int]]:
    return [(q, lo, hi) for q, lo, hi in diagonal.reshape(-1, 3).tolist()]


__all__ = ["GraphTable"]
