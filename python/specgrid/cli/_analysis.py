# SPDX-License-Identifier: Apache-2.0
"""What follows from a ServeConfig: schedule, tiers, capture sizes, what is lost.

``explain``, ``lint`` and ``report`` start from the same Analysis, so that they cannot
contradict each other. Nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from specgrid import (
    CaptureSizes,
    ConfigError,
    Coverage,
    GraphSet,
    Schedule,
    ScheduleError,
    Tier,
    align_sizes,
    capture_sizes,
)
from specgrid._capture import Rule
from specgrid.io.vllm_command import short
from specgrid.io.vllm_config import ServeConfig

RULES: tuple[Rule, ...] = get_args(Rule)
# 2**20 tokens are 65,792 sizes; no GPU captures a thousandth of that.
MAX_CAPTURE_TOKENS = 1 << 20
# Beyond these, tables over every batch or graph take longer than an answer may.
MAX_COVERAGE_BATCHES = 1 << 20
MAX_COVERAGE_GRAPHS = 1 << 21
POLICIES = ("vllm-0.33", "per-query-length", "reachable")
_FULL_MODES = ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


@dataclass(frozen=True)
class Analysis:
    """A server, read and worked out.

    Attributes:
        config: the settings.
        rule: the capture-size rule applied.
        schedule: the schedule in force; None without one.
        schedule_error: why the schedule is invalid; None when it is not.
        tiers: uniform decode batches the server can form.
        sizes: what the configuration captures; None when graphs are off.
    """

    config: ServeConfig
    rule: Rule
    schedule: Schedule | None
    schedule_error: ScheduleError | None
    tiers: tuple[Tier, ...]
    sizes: CaptureSizes | None

    @property
    def schedule_status(self) -> str:
        """One of none, in force, dropped, invalid, ignored."""
        if self.config.schedule is None:
            return "none"
        if self.config.schedule_dropped:
            return "dropped"
        if self.schedule_error is not None:
            return "invalid"
        return "in force" if self.config.num_speculative_tokens else "ignored"

    @property
    def schedule_reason(self) -> str:
        """Why the schedule is not in force; empty when it is or there is none."""
        if self.schedule_status == "invalid":
            return str(self.schedule_error)
        if self.schedule_status == "ignored":
            return "there are no draft tokens for it to choose"
        return self.config.schedule_dropped

    @cached_property
    def runner_sizes(self) -> list[int]:
        """The sizes the model runner works with: V1 rounds them to its query length."""
        if self.sizes is None:
            return []
        config = self.config
        rounds = (
            config.model_runner == "V1"
            and config.cudagraph_mode in _FULL_MODES
            and config.num_speculative_tokens > 0
        )
        if not rounds:
            return self.sizes.sizes
        q = 1 + config.num_speculative_tokens
        return align_sizes(self.sizes.sizes, self.sizes.max_size, q)

    @property
    def sufficient_max(self) -> int:
        """Smallest maximum, in tokens, that reaches every uniform decode batch.

        A step never has more than max_num_batched_tokens, so no batch needs more.
        """
        return max(t.query_len * self.schedulable(t) for t in self.tiers)

    def schedulable(self, tier: Tier) -> int:
        """Widest decode batch of a tier that fits max_num_batched_tokens."""
        return min(tier.max_batch, self.config.max_num_batched_tokens // tier.query_len)

    @cached_property
    def coverage(self) -> Coverage | None:
        """Which graph serves every decode batch, as vLLM 0.33.0 dispatches.

        None without graphs, or where the table would be too large to make.
        """
        return self._cover(POLICIES[0])

    @cached_property
    def policies(self) -> dict[str, Coverage]:
        """The same for every policy that can differ from vLLM's here."""
        found = {}
        if self.coverage is not None:
            found[POLICIES[0]] = self.coverage
            if self._has_decode_graphs:
                for policy in POLICIES[1:]:
                    coverage = self._cover(policy)
                    if coverage is not None:
                        found[policy] = coverage
        return found

    @property
    def _has_decode_graphs(self) -> bool:
        config = self.config
        return config.model_runner == "V2" and config.cudagraph_mode in _FULL_MODES[1:]

    def _cover(self, policy: str) -> Coverage | None:
        config = self.config
        if self.sizes is None or not self.sizes.sizes:
            return None
        columns = len(self.schedule.context_ranges) if self.schedule else 1
        graphs = len(self.sizes) * len(self.tiers) * len(config.lora_cases)
        cells = config.max_num_seqs * columns
        if cells > MAX_COVERAGE_BATCHES or graphs > MAX_COVERAGE_GRAPHS:
            return None
        # Where V1 captures no FULL decode graph both runners dispatch alike, and only
        # the V2 table lets the query length vary.
        decodes_full = config.cudagraph_mode in _FULL_MODES
        v1 = config.model_runner == "V1" and decodes_full
        in_force = self.schedule_status == "in force"
        return GraphSet(
            self.sizes.sizes,
            max_num_seqs=config.max_num_seqs,
            num_speculative_tokens=config.num_speculative_tokens,
            schedule=self.schedule if in_force else None,
            mode=config.cudagraph_mode,
            lora_cases=config.lora_cases,
            policy=policy,
            varlen_decode=config.adaptive_verification and not v1,
            runner="v1" if v1 else "v2",
        ).coverage()

    def decode_origins(self, size: int) -> list[int]:
        """Query lengths for whose tier ``size`` is one of vLLM's decode sizes."""
        if self.config.num_speculative_tokens == 0:
            return [1]
        ceiling = self.config.platform_ceiling
        found = []
        for tier in self.tiers:
            if tier.query_len > size:
                break
            requests, rest = divmod(size, tier.query_len)
            most = min(tier.max_batch, ceiling)
            if rest == 0 and requests <= most and _is_counted(requests, most):
                found.append(tier.query_len)
        return found


def _is_counted(requests: int, most: int) -> bool:
    """Whether vLLM's grid of request counts up to ``most`` has ``requests``."""
    if requests in (1, 2, 4, most):
        return True
    return requests % (8 if requests < 256 else 16) == 0


def analyse(config: ServeConfig, rule: Rule = "vllm-0.33") -> Analysis:
    """Works out what a server captures.

    Args:
        config: the server.
        rule: a capture-size rule of ``specgrid.capture_sizes``.

    Raises:
        ConfigError: vLLM would refuse to start; says which flag to change.
    """
    schedule: Schedule | None = None
    error: ScheduleError | None = None
    if config.effective_schedule is not None:
        try:
            # The plug-in reads rows of any shape, vLLM only a grid.
            ragged = config.effective_schedule is config.plugin.get("schedule")
            schedule = Schedule(config.effective_schedule, ragged=ragged)
        except ScheduleError as caught:
            error = caught
    n, k = config.max_num_seqs, config.num_speculative_tokens
    if schedule is not None and k > 0:
        tiers = tuple(schedule.lookup(n, k).tiers())
    else:
        tiers = (Tier(1 + k, k, 1, n),)
    sizes: CaptureSizes | None = None
    if config.graphs_enabled:
        asked = config.max_cudagraph_capture_size
        if asked and min(asked, config.max_num_batched_tokens) > MAX_CAPTURE_TOKENS:
            raise ConfigError(
                f"max_cudagraph_capture_size {asked} is beyond any GPU; sizes are in "
                f"tokens, and {MAX_CAPTURE_TOKENS} is the most explained here"
            )
        arguments = config.capture_arguments()
        arguments["schedule"] = schedule
        sizes = capture_sizes(**arguments, rule=rule)
    return Analysis(config, rule, schedule, error, tiers, sizes)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring batches of one query length that fare alike.

    Attributes:
        query_len: tokens per request.
        batch_lo: first batch, inclusive.
        batch_hi: last batch, inclusive.
        mode: FULL, PIECEWISE or NONE.
        hidden: a FULL graph of their own is captured and dispatch passes it over.
    """

    query_len: int
    batch_lo: int
    batch_hi: int
    mode: str
    hidden: bool


def stretches(coverage: Coverage) -> list[Stretch]:
    """The coverage of all context columns, joined as far as batches fare alike."""
    found: dict[tuple[int, str, bool], list[tuple[int, int]]] = {}
    for column in range(coverage.num_columns):
        for run in coverage.runs(column):
            key = (run.query_len, run.mode, run.hidden_by is not None)
            found.setdefault(key, []).append((run.batch_lo, run.batch_hi))
    joined = [
        Stretch(q, lo, hi, mode, hidden)
        for (q, mode, hidden), spans in found.items()
        for lo, hi in join_ranges(spans)
    ]
    return sorted(joined, key=lambda s: (s.query_len, s.batch_lo, s.mode))


def join_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Inclusive ranges, sorted and joined where they touch or overlap.

    >>> join_ranges([(5, 8), (1, 3), (4, 4), (7, 9), (20, 21)])
    [(1, 9), (20, 21)]
    """
    joined: list[tuple[int, int]] = []
    for lo, hi in sorted(ranges):
        if joined and lo <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(hi, joined[-1][1]))
        else:
            joined.append((lo, hi))
    return joined


def steps_text(numbers: Sequence[int], limit: int = 24) -> str:
    """Ascending numbers with equal steps drawn together.

    >>> steps_text([1, 2, 4, 8, 16, 24, 32, 40])
    '1 2 4, 8-40 by 8'
    """
    parts: list[str] = []
    loose: list[str] = []
    i = 0
    while i < len(numbers):
        j = i + 1
        while j + 1 < len(numbers) and (
            numbers[j + 1] - numbers[j] == numbers[i + 1] - numbers[i]
        ):
            j += 1
        if j - i >= 3:
            if loose:
                parts.append(" ".join(loose))
                loose = []
            step = numbers[i + 1] - numbers[i]
            by = "" if step == 1 else f" by {step}"
            parts.append(f"{numbers[i]}-{numbers[j]}{by}")
            i = j + 1
        else:
            loose.append(str(numbers[i]))
            i += 1
    if loose:
        parts.append(" ".join(loose))
    if len(parts) > limit:
        parts = [*parts[:limit], f"... ({len(numbers)} in all)"]
    return ", ".join(parts)


def schedule_text(rows: Any, limit: int = 8) -> str:
    """Raw schedule rows on one line, whatever they hold.

    >>> schedule_text([[1, 16, 5], [17, 32, 4]])
    '1-16:5 17-32:4'
    >>> schedule_text([[1, 16, 1, 512, 5]])
    '1-16 x 1-512:5'
    """
    if not isinstance(rows, (list, tuple)):
        return short(rows)
    parts = []
    for row in rows[:limit]:
        numbers = isinstance(row, (list, tuple)) and all(
            isinstance(x, int) and abs(x) < 2**63 for x in row
        )
        if numbers and len(row) == 3:
            parts.append("{}-{}:{}".format(*row))
        elif numbers and len(row) == 5:
            parts.append("{}-{} x {}-{}:{}".format(*row))
        else:
            parts.append(short(row))
    if len(rows) > limit:
        parts.append(f"... ({len(rows)} rows)")
    return " ".join(parts) if parts else "[]"


__all__ = [
    "POLICIES",
    "RULES",
    "Analysis",
    "Stretch",
    "analyse",
    "join_ranges",
    "schedule_text",
    "steps_text",
    "stretches",
]
