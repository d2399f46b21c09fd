# SPDX-License-Identifier: Apache-2.0
"""Seam: K for each scheduled step, by batch and context.

vLLM's scheduler indexes its table with the number of requests and hands the finished
step to `_update_after_schedule`. At that moment the step's K is set but nothing has
read it, and the requests' computed tokens are still those before the step. There a 2-D
schedule replaces K, and the step is counted. Asynchronous scheduling reads K after this
point as well, so its draft placeholders follow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from . import _counters, _schedule_of, _settings
from ._seam import Seam

_ATTRIBUTE = "_specgrid_steps"


def mean(contexts: list[int]) -> int:
    """Integer mean, rounded down."""
    return sum(contexts) // len(contexts)


def median(contexts: list[int]) -> int:
    """Upper median: element n // 2 of the sorted list."""
    return sorted(contexts)[len(contexts) // 2]


AGGREGATES: dict[str, Callable[[list[int]], int]] = {
    "mean": mean,
    "median": median,
    "max": max,
}


def pool(requests: Iterable[Any]) -> list[int]:
    """Contexts that count: of requests past their prompt, of all when none is.

    A fresh prefill has computed next to nothing and would drag a mean or median of
    the decoding requests towards the first column.

    Args:
        requests: vLLM requests, before the step's tokens are added to them.

    Returns:
        Computed tokens of each request in the pool.
    """
    pairs = [(r.num_computed_tokens, r.num_prompt_tokens) for r in requests]
    decoding = [computed for computed, prompt in pairs if computed >= prompt]
    return decoding or [computed for computed, _ in pairs]


class Steps:
    """What the seam keeps for one scheduler.

    Args:
        scheduler: A vLLM V1 scheduler, fully built.
    """

    def __init__(self, scheduler: Any) -> None:
        config = scheduler.vllm_config
        settings = _settings.read(config)
        self.counters: _counters.Counters | None = None
        if settings.counters:
            self.counters = _counters.open_counters("scheduler")
        self.rows: list[list[int]] | None = None
        self.bounds: list[int] = []
        self.previous = -1
        self.aggregate = AGGREGATES[settings.context_aggregate]
        if settings.schedule is None or settings.shadow:
            return
        if scheduler.dynamic_sd_lookup is None:
            return  # vLLM runs a static K, for reasons it has given
        lookup = _schedule_of.lookup_of(config, settings)
        if lookup is not None:
            self.rows = _schedule_of.rows_of(lookup)
            self.bounds = [high for _, high in lookup.context_ranges[:-1]]

    def choose(self, scheduler: Any, output: Any) -> None:
        """Set the step's K and count it.

        Args:
            scheduler: The vLLM scheduler.
            output: Its SchedulerOutput, not yet read by anyone.
        """
        scheduled = output.num_scheduled_tokens
        num_reqs = len(scheduled)
        if not num_reqs:
            return
        column = 0
        if self.rows is not None:
            row = self.rows[num_reqs]
            if self.bounds:
                requests = scheduler.requests
                contexts = pool(requests[name] for name in scheduled)
                column = bisect_left(self.bounds, self.aggregate(contexts))
            output.num_spec_tokens_to_schedule = row[column]
        counters = self.counters
        if counters is not None:
            k = output.num_spec_tokens_to_schedule
            counters.add(_counters.DRAFT, num_reqs, column, k)
            if k != self.previous:
                if self.previous >= 0:
                    counters.add(_counters.TRANSITION, self.previous, k, 0)
                self.previous = k


def _before(scheduler: Any, scheduler_output: Any) -> None:
    try:
        steps = getattr(scheduler, _ATTRIBUTE)
    except AttributeError:
        steps = Steps(scheduler)
        setattr(scheduler, _ATTRIBUTE, steps)
    steps.choose(scheduler, scheduler_output)


SEAM = Seam(
    "scheduler",
    "vllm.v1.core.sched.scheduler",
    "Scheduler._update_after_schedule",
    ("scheduler_output",),
    "K of each step by batch and context; step counters",
    before=_before,
)
