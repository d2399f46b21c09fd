# SPDX-License-Identifier: Apache-2.0
"""What a schedule is tuned from: the files given, read and turned into arrays.

Nothing is solved and nothing is printed here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specgrid._acceptance import Acceptance
from specgrid._errors import ConfigError
from specgrid._read import plain_number
from specgrid._tune_jitter import align_contexts
from specgrid.io.acceptance import read_acceptance
from specgrid.io.latency import read_latency
from specgrid.io.workload import read_workload

Point = tuple[int, int, int, float]


#: Of more measured contexts, a schedule is evaluated at so many.
MAX_COLUMNS = 128


@dataclass
class TuneData:
    """Everything the files said.

    Attributes:
        points: (batch, context, k, step_us).
        scope: What the times include, as `LatencyData.scope`.
        spread: Relative spread of samples per point.
        acceptance: An `Acceptance`, or what `read_acceptance` returned.
        weights: Emitted tokens by (batch, context), or None for equal ones.
        mixed: Steps with a prefill, by tokens.
        contexts: Contexts to evaluate.
        notes: What a person must know.
        report: So that a `TuneData` goes where latency data go; same notes.
    """

    points: list[Point]
    scope: str
    spread: tuple[float, ...]
    acceptance: Any
    weights: dict[tuple[int, int], float] | None
    mixed: dict[int, float]
    contexts: tuple[int, ...]
    notes: list[str] = field(default_factory=list)

    @property
    def report(self) -> TuneData:
        """Itself; readers' data keep their notes in a report."""
        return self

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)


def gather(
    latency: Sequence[str],
    acceptance: str,
    acceptance_before: str | None,
    workload: Sequence[str],
    *,
    ignore_context: bool,
    num_columns: int | None,
    max_num_seqs: int,
) -> TuneData:
    """Reads the files.

    Args:
        latency: Files of measured steps.
        acceptance: A file, or survival values with commas between them.
        acceptance_before: An earlier ``/metrics`` scrape.
        workload: Server logs, or one workload table; empty for equal weights.
        ignore_context: Take every point as measured at the one context 0.
        num_columns: Context columns to evaluate; the measured ones, and more
            between them, when not given.
        max_num_seqs: Most requests in a step.

    Raises:
        DataError: A file is not what it should be.
        ConfigError: Values make no sense together.
    """
    data = read_latency(list(latency))
    notes = list(data.report.notes)
    if data.report.num_damaged:
        notes.append(
            f"{data.report.num_damaged} records of {data.report.source} could not be "
            "read"
        )
    points = [
        (p.batch, 0 if ignore_context else p.context, p.k, p.step_us) for p in data
    ]
    points = align_contexts(points, notes)
    contexts = _columns({c for _, c, _, _ in points}, num_columns, notes)
    rates = _acceptance(acceptance, acceptance_before, contexts, notes)
    weights: dict[tuple[int, int], float] | None = None
    mixed: dict[int, float] = {}
    if workload:
        weights, mixed = _weights(workload, rates, contexts, max_num_seqs, notes)
    return TuneData(
        points,
        data.scope,
        tuple(data.spread),
        rates,
        weights,
        mixed,
        contexts,
        list(dict.fromkeys(notes)),
    )


def _columns(
    measured: set[int], num_columns: int | None, notes: list[str]
) -> tuple[int, ...]:
    """The measured contexts, and others evenly spaced between on a log scale.

    Of very many, so many as are shown and compared in seconds; every point counts
    all the same, since the times between columns rest on all of them.
    """
    columns = sorted(measured)
    most = max(num_columns or 0, MAX_COLUMNS)
    if len(columns) > most:
        notes.append(
            f"{len(columns):,} contexts were measured; {most} of them are evaluated "
            "(--context-columns N for more)"
        )
        last = len(columns) - 1
        columns = [columns[round(i * last / (most - 1))] for i in range(most)]
    wanted = (1 if len(columns) == 1 else 24) if num_columns is None else num_columns
    if wanted == 1 and len(columns) > 1:
        raise ConfigError(
            f"{len(columns)} contexts were measured; --context-columns must be at "
            "least 2, or take --ignore-context"
        )
    while len(columns) < wanted:
        gaps = [
            (math.log((b + 1) / (a + 1)), a, b)
            for a, b in itertools.pairwise(columns)
            if b - a > 1
        ]
        if not gaps:
            break
        _, a, b = max(gaps, key=lambda gap: (gap[0], -gap[1]))
        middle = round(math.sqrt((a + 1) * (b + 1))) - 1
        columns = sorted({*columns, min(b - 1, max(a + 1, middle))})
    return tuple(columns)


def _acceptance(
    given: str, before: str | None, contexts: Sequence[int], notes: list[str]
) -> Any:
    values = _numbers(given)
    if values is not None:
        if before is not None:
            raise ConfigError(
                f"--acceptance-before {before} goes with a later /metrics scrape, and "
                f"--acceptance {given} is values; give the scrape, or leave it out"
            )
        return Acceptance.given(values)
    counts, by_context = read_acceptance(
        given, before, context_ranges=_quarters(contexts)
    )
    notes += counts.report.notes
    return counts, by_context


def _quarters(contexts: Sequence[int]) -> list[tuple[int, int]]:
    """Up to four context ranges, each factor four apart, to count separately."""
    if len(contexts) < 2:
        return []
    bounds = [0]
    top = max(contexts)
    for divisor in (64, 16, 4):
        if top // divisor > max(bounds[-1], 255):
            bounds.append(top // divisor)
    return [(lo, hi - 1) for lo, hi in itertools.pairwise([*bounds, 2**31])]


def _numbers(text: str) -> list[float] | None:
    """Values such as 0.76,0.54; None when the text is a file name."""
    values = [plain_number(word.strip()) for word in text.split(",")]
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else None


def _weights(
    workload: Sequence[str],
    acceptance: Any,
    contexts: Sequence[int],
    max_num_seqs: int,
    notes: list[str],
) -> tuple[dict[tuple[int, int], float], dict[int, float]]:
    """Emitted tokens by batch, spread evenly over the context columns.

    A step of n requests at K emits n x A_K tokens; logs do not say at which
    context.
    """
    steps, log = read_workload(list(workload))
    if log is not None:
        notes += log.report.notes
    overall = (
        acceptance
        if isinstance(acceptance, Acceptance)
        else Acceptance.from_counts(acceptance[0])
    )
    weights: dict[tuple[int, int], float] = {}
    wide = unknown = 0.0
    for (query_len, num_reqs), count in steps.uniform.items():
        if num_reqs > max_num_seqs:
            wide += count
            continue
        k = query_len - 1
        if k > len(overall):
            unknown += count
            continue
        emitted = count * num_reqs * overall.tokens_per_step(k) / len(contexts)
        for context in contexts:
            key = num_reqs, context
            weights[key] = weights.get(key, 0.0) + emitted
    total = sum(steps.uniform.values())
    for dropped, why in (
        (wide, f"have more than max_num_seqs = {max_num_seqs} requests"),
        (unknown, f"draft more than the {len(overall)} tokens acceptance is known for"),
    ):
        if dropped:
            notes.append(
                f"{dropped:,.0f} of {total:,.0f} steps {why} and were left out"
            )
    if not weights:
        raise ConfigError(
            "no uniform decode step of the workload fits this server; use one "
            "recorded with it"
        )
    if len(contexts) > 1:
        notes.append(
            "The workload does not say at which context steps ran; every context "
            "column gets the same share."
        )
    return weights, steps.mixed_by_tokens()


__all__ = ["TuneData", "gather"]
