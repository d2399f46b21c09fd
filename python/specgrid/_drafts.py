# SPDX-License-Identifier: Apache-2.0
"""The drafter's graphs, which vLLM captures beside the target's.

Counted apart from `GraphSet`: the drafter repeats the capture list up to twice,
and once more for every distinct k. Nothing here is about the target model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from specgrid._check import MAX_COUNT, count
from specgrid._graphs import MODES, GraphSet, one_of
from specgrid._rows import RowsLike
from specgrid._schedule import Schedule

DrafterKind: TypeAlias = Literal["autoregressive", "multi-module-mtp", "dflash"]


class DraftGraph(NamedTuple):
    """One FULL graph of the draft decode loop.

    Attributes:
        num_tokens: Tokens of a draft step after padding, one per request.
        num_reqs: Most requests it serves.
        k: Draft tokens the loop inside it makes; None where one graph serves
            every k.
        num_active_loras: LoRA case; drafters capture none but 0.
    """

    num_tokens: int
    num_reqs: int
    k: int | None
    num_active_loras: int = 0


class DraftGraphs:
    """All graphs of a drafter, as vLLM 0.33.0's V2 runner captures them.

    - "autoregressive" (EAGLE, EAGLE3, MTP, draft models): a prefill set like
      the target's, and a decode set with one graph per size up to
      max_num_seqs. Where the decode loop is fused and a schedule is given, the
      decode set is captured once for every distinct k above 1.
    - "multi-module-mtp": one set like the target's, without PIECEWISE.
    - "dflash": FULL decode graphs alone; every draft step has 1 +
      num_speculative_tokens tokens per request, although vLLM captures the
      query lengths of the schedule too.

    Policy "reachable" keeps, of the prefill set, what the target's `GraphSet`
    keeps, and of the decode set the pairs of size and k that the schedule
    drafts at. K and the batch belong to the same step here, so unlike
    verification no batch has shrunk in between.

    Args:
        sizes: Capture sizes in tokens.
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: Draft tokens per request, the most if a schedule
            is given; at least 1.
        schedule: A Schedule, or rows as it takes them.
        max_size: Largest FULL graph in tokens; the largest size if not given.
        mode: The target's cudagraph_mode, resolved for the drafter.
        policy: As in `GraphSet`.
        kind: See above.
        fused_decode: Whether one graph holds the whole draft loop (attention
            backends that update their metadata on the device).

    Raises:
        ConfigError: If a setting is out of range or unknown.
        ScheduleError: If the schedule is not valid.

    Source: vLLM 0.33.0, `v1/worker/gpu/spec_decode/target_dependent_ar/`.

    Example:
        >>> rows = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 512, 0)]
        >>> sizes = [1, 2, 4, *range(8, 257, 8)]
        >>> drafts = DraftGraphs(sizes, max_num_seqs=256, num_speculative_tokens=5,
        ...                      schedule=rows)
        >>> len(drafts.decode), sorted({graph.k for graph in drafts.decode})
        (105, [3, 4, 5])
    """

    def __init__(
        self,
        sizes: Iterable[int],
        *,
        max_num_seqs: int,
        num_speculative_tokens: int,
        schedule: Schedule | RowsLike | None = None,
        max_size: int | None = None,
        mode: str = "FULL_AND_PIECEWISE",
        policy: str = "vllm-0.33",
        kind: DrafterKind | str = "autoregressive",
        fused_decode: bool = True,
    ) -> None:
        self.kind = one_of(
            "kind", kind, ("autoregressive", "multi-module-mtp", "dflash")
        )
        if schedule is not None and not isinstance(schedule, Schedule):
            schedule = Schedule(schedule)
        prefill_mode = one_of("mode", mode, MODES)
        full_only = "FULL_DECODE_ONLY" if "FULL" in mode else "NONE"
        if self.kind == "dflash" or (
            self.kind == "multi-module-mtp" and "PIECEWISE" in mode
        ):
            prefill_mode = full_only
        one_length = self.kind == "dflash" and policy == "reachable"
        # The set that takes the target's batch shape.
        self.prefill = GraphSet(
            sizes,
            max_num_seqs=max_num_seqs,
            num_speculative_tokens=count(
                "num_speculative_tokens", num_speculative_tokens, 1, MAX_COUNT - 1
            ),
            schedule=None if one_length else schedule,
            max_size=max_size,
            mode=prefill_mode,
            policy=policy,
        )
        self.decode: list[DraftGraph] = []
        self._ladder: list[int] = []  # requests, ascending
        if (
            self.kind == "autoregressive"
            and self.prefill.num_speculative_tokens > 1
            and full_only != "NONE"
        ):
            self.decode = self._decode_graphs(fused_decode)
        self._captured = {(graph.num_reqs, graph.k) for graph in self.decode}
        self._shares_k = any(graph.k is None for graph in self.decode)

    def _decode_graphs(self, fused: bool) -> list[DraftGraph]:
        """Largest first, and for one size the largest k first, as vLLM does."""
        target = self.prefill
        base = GraphSet(
            target.sizes,
            max_num_seqs=target.max_num_seqs,
            max_size=target.max_size,
            mode="FULL_DECODE_ONLY",
        )
        reqs = [graph.num_tokens for graph in base.graphs("FULL")]
        self._ladder = reqs[::-1]
        lookup = target.lookup
        if lookup is None:
            return [DraftGraph(n, n, None) for n in reqs]
        ks = sorted({tier.k for tier in lookup.tiers()} - {0, 1}, reverse=True)
        if target.policy == "reachable":
            served = {k: self._sizes_for(k) for k in ks}
        else:
            served = {k: set(reqs) for k in ks}
        if fused:
            return [DraftGraph(n, n, k) for n in reqs for k in ks if n in served[k]]
        if target.policy != "reachable":
            return [DraftGraph(n, n, None) for n in reqs]
        return [DraftGraph(n, n, None) for n in reqs if any(n in served[k] for k in ks)]

    def _sizes_for(self, k: int) -> set[int]:
        """Sizes that serve a batch at which the schedule drafts k."""
        sizes: set[int] = set()
        ladder = self._ladder
        own = self.prefill.decode_query_len - self.prefill.num_speculative_tokens
        for query_len, lo, hi in self.prefill.diagonal_runs:
            if query_len == k + own:
                last = bisect_left(ladder, hi)
                sizes.update(ladder[bisect_left(ladder, lo) : last + 1])
        return sizes

    @property
    def num_graphs(self) -> int:
        """Captured graphs of both sets and all modes."""
        return self.prefill.num_graphs + len(self.decode)

    def dispatch_decode(self, num_reqs: int, k: int) -> DraftGraph | None:
        """The graph of a draft loop, or None when it runs eager.

        As vLLM does, the size is the smallest that holds the requests, and the
        graph must then have been captured for k.

        Args:
            num_reqs: Requests in the step.
            k: Draft tokens per request in this step.
        """
        at = bisect_left(self._ladder, num_reqs)
        if k < 2 or at == len(self._ladder):
            return None
        key = (self._ladder[at], None if self._shares_k else k)
        return DraftGraph(key[0], *key) if key in self._captured else None

    def __repr__(self) -> str:
        return (
            f"<DraftGraphs {self.kind}: {self.prefill.num_graphs} prefill, "
            f"{len(self.decode)} decode>"
        )


__all__ = ["DraftGraph", "DraftGraphs", "DrafterKind"]
