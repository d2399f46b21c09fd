# SPDX-License-Identifier: Apache-2.0
"""What a check is given and what it yields. No check is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specgrid import Coverage
from specgrid.cli._analysis import Analysis, Stretch, join_ranges, stretches
from specgrid.cli._output import ranges_text
from specgrid.io.vllm_config import ServeConfig

Severity = Literal["error", "warning", "info"]
Batches: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Finding:
    """One thing to change.

    Attributes:
        id: stable name; a section of docs/lint.md.
        severity: error: vLLM will not start, or decode runs without a graph;
            warning: something is lost; info: worth knowing.
        message: what is wrong, with its numbers.
        fix: the exact flag to change, or what to do.
        batches: decode batches touched: (query_len, first, last) in requests.
        cost: what somebody measured in such a case; empty where nobody has.
        reference: public reports, as in "vLLM #54933".
    """

    id: str
    severity: Severity
    message: str
    fix: str
    batches: Batches = ()
    cost: str = ""
    reference: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """What is checked: a server, and its analysis unless vLLM refuses its sizes."""

    config: ServeConfig
    analysis: Analysis | None
    refusal: str = ""

    @property
    def coverage(self) -> Coverage | None:
        """Coverage under the policy in force: vLLM's, or one the plug-in is given."""
        if self.analysis is None:
            return None
        policy = str(self.config.plugin.get("policy"))
        return self.analysis.policies.get(policy, self.analysis.coverage)

    @property
    def stretches(self) -> list[Stretch]:
        """Runs of batches that fare alike, those no step can hold cut off."""
        if self.coverage is None:
            return []
        tokens = self.config.max_num_batched_tokens
        return [
            Stretch(s.query_len, s.batch_lo, min(s.batch_hi, last), s.mode, s.hidden)
            for s in stretches(self.coverage)
            if (last := tokens // s.query_len) >= s.batch_lo
        ]

    @property
    def decodes_full(self) -> bool:
        """Whether decode batches are meant to get FULL graphs."""
        return "FULL" in self.config.cudagraph_mode


Check: TypeAlias = Callable[[Subject], Iterator[Finding]]


def batches_of(found: list[Stretch]) -> Batches:
    """Stretches as (query_len, first, last), joined where they touch."""
    by_length: dict[int, list[tuple[int, int]]] = {}
    for s in found:
        by_length.setdefault(s.query_len, []).append((s.batch_lo, s.batch_hi))
    return tuple(
        (q, lo, hi) for q, spans in by_length.items() for lo, hi in join_ranges(spans)
    )


def batches_text(batches: Batches) -> str:
    """Batches as people read them.

    >>> batches_text(((7, 6, 6), (3, 9, 12)))
    '6 at query length 7; 9-12 at query length 3'
    """
    by_length: dict[int, list[tuple[int, int]]] = {}
    for q, lo, hi in batches:
        by_length.setdefault(q, []).append((lo, hi))
    parts = [
        f"{ranges_text(spans, limit=8)} at query length {q}"
        for q, spans in by_length.items()
    ]
    if len(parts) > 8:
        parts = [*parts[:8], f"... ({len(parts)} query lengths)"]
    return "; ".join(parts)


def batches_that(batches: Batches, one: str, many: str) -> str:
    """The batches with their noun and a verb in the right number.

    >>> batches_that(((7, 6, 6),), "loses its graph", "lose their graph")
    'batch 6 at query length 7 loses its graph'
    """
    single = count_batches(batches) == 1
    noun, verb = ("batch", one) if single else ("batches", many)
    return f"{noun} {batches_text(batches)} {verb}"


def count_batches(batches: Batches) -> int:
    """How many (query length, batch) pairs the ranges hold."""
    return sum(hi - lo + 1 for _, lo, hi in batches)


def plural(number: int, noun: str, verb: str) -> str:
    """
    >>> plural(1, "decode batch", "have"), plural(2, "decode batch", "have")
    ('1 decode batch has', '2 decode batches have')
    """
    singular = {"have": "has", "drop": "drops", "run": "runs"}[verb]
    return f"1 {noun} {singular}" if number == 1 else f"{number} {noun}es {verb}"
