# SPDX-License-Identifier: Apache-2.0
"""Per-request speculation metrics: the exact source for survival.

Responses of a server run with ``--per-request-spec-decode-metrics detailed``
carry, for each verify step, how many tokens were drafted and accepted
(vllm/v1/metrics/stats.py RequestSpecDecodeMetrics). With both per step, K may
vary freely. The ``summary`` level is used where the totals show one K.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from specgrid._read import ReadError, as_text, parse_json
from specgrid.io._source import (
    AnyPath,
    Progress,
    as_files,
    iter_lines,
    joined,
    load_json,
    read_head,
    refuse,
)
from specgrid.io._types import (
    AcceptanceCounts,
    ContextAcceptance,
    ReadReport,
)

MAX_RECORD_BYTES = 64 << 20
MAX_K = 4096


def read_requests(
    paths: AnyPath | Iterable[AnyPath],
    *,
    context_ranges: Sequence[tuple[int, int]] = (),
    progress: Progress | None = None,
) -> tuple[AcceptanceCounts, list[ContextAcceptance]]:
    """Reads responses, one JSON object a line or one JSON array a file.

    Whole responses, their ``metrics`` object, or the block inside it are taken;
    so are streamed chunks (``data: {...}``), of which the last carries the block.

    Args:
        paths: Files of one model.
        context_ranges: Inclusive context ranges to count separately, tokens.
            A step's context is taken as prompt tokens plus what the drafted
            steps before it emitted, so requests need their ``usage``.
        progress: Called with (bytes done, bytes of this file or None).

    Returns:
        The counts over everything, and those per range with any draft in it.

    Raises:
        DataError: ``mixed_models``; ``empty`` where no usable block was found,
            with the first reason.
    """
    files = as_files(paths)
    report = ReadReport(joined(files), "per-request speculation metrics")
    total = _Counts()
    ranges = [_Counts() for _ in context_ranges]
    models: set[str] = set()
    request_ks: set[int] = set()
    for file in files:
        name = str(file)
        for number, record in _records(file, report, progress):
            block = _find_block(record)
            if block is None:
                report.num_skipped += 1
                continue
            model = record.get("model")
            if isinstance(model, str):
                models.add(model)
                if len(models) > 1:
                    refuse(
                        f"two models: {', '.join(sorted(models))}; give the "
                        "responses of one",
                        "mixed_models",
                        name,
                        number,
                    )
            steps, reason = _steps(block)
            if reason is not None:
                report.add_damage(number, reason)
                continue
            report.num_read += 1
            ks = {k for k, _ in steps if k}
            if len(ks) == 1:
                request_ks |= ks
            context = _prompt_tokens(record) if context_ranges else None
            for k, accepted in steps:
                total.add(k, accepted)
                if context is None:
                    continue
                for (lo, hi), counts in zip(context_ranges, ranges, strict=True):
                    if lo <= context <= hi:
                        counts.add(k, accepted)
                context += accepted + 1
    if total.num_drafts == 0:
        if report.damaged:
            first = report.damaged[0]
            why = f"record {first.line}: {first.reason}"
            refuse(f"no usable record; {why}", "empty", report.source)
        refuse(
            "no drafts in it; start the server with "
            "--per-request-spec-decode-metrics detailed and send n = 1 requests",
            "zero_drafts" if report.num_read else "empty",
            report.source,
        )
    if len(request_ks) > 1 and len(request_ks) == len(total.ks):
        report.add_note(
            "K differs between requests but not within them: if it was chosen by "
            "request, no pooled survival is right for deep positions"
        )
    by_range = [
        ContextAcceptance(lo, hi, counts.result(report))
        for (lo, hi), counts in zip(context_ranges, ranges, strict=True)
        if counts.num_drafts
    ]
    return total.result(report), by_range


@dataclass
class _Counts:
    """Drafts, accepted and at-risk counts per position, growing as needed."""

    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    at_risk: list[int] = field(default_factory=list)
    ks: set[int] = field(default_factory=set)
    num_drafts: int = 0

    def add(self, k: int, accepted: int) -> None:
        if k == 0:
            return
        self.num_drafts += 1
        self.ks.add(k)
        while len(self.drafted) < k:
            self.drafted.append(0)
            self.accepted.append(0)
            self.at_risk.append(0)
        for j in range(k):
            self.drafted[j] += 1
        for j in range(accepted):
            self.accepted[j] += 1
        for j in range(min(accepted + 1, k)):
            self.at_risk[j] += 1

    def result(self, report: ReadReport) -> AcceptanceCounts:
        return AcceptanceCounts(
            drafted=tuple(self.drafted),
            accepted=tuple(self.accepted),
            at_risk=tuple(self.at_risk),
            num_drafts=self.num_drafts,
            constant_k=next(iter(self.ks)) if len(self.ks) == 1 else None,
            approximate=False,
            source="per-request",
            report=report,
        )


def _records(
    file: AnyPath, report: ReadReport, progress: Progress | None
) -> Iterator[tuple[int, dict[str, object]]]:
    """Objects of a JSON lines file, or of one that holds an array."""
    first = read_head(file).lstrip("\ufeff \t\r\n").partition("\n")[0]
    if first.strip() in ("[", "{"):
        # Indented JSON: one document, not one object a line.
        whole = load_json(file)
        items = whole if isinstance(whole, list) else [whole]
        for index, item in enumerate(items, 1):
            if isinstance(item, dict):
                yield index, item
            else:
                report.add_damage(index, "not a JSON object")
        return
    for number, line in iter_lines(file, report, progress, MAX_RECORD_BYTES):
        text = line.strip().removeprefix(b"data:").strip()
        if not text or text == b"[DONE]":
            continue
        try:
            data = parse_json(as_text(text))
        except ReadError as error:
            reason = "JSON cut short or broken"
            if error.rule != "not_json":
                reason = f"JSON refused: {error}"
            report.add_damage(number, reason, text[:200].decode("utf-8", "replace"))
            continue
        for item in data if isinstance(data, list) else [data]:
            if isinstance(item, dict):
                yield number, item
            else:
                report.add_damage(number, "not a JSON object")


def _find_block(record: dict[str, object]) -> dict[str, object] | None:
    metrics = record.get("metrics")
    for holder in (metrics, record):
        if isinstance(holder, dict):
            block = holder.get("speculative_decoding")
            if isinstance(block, dict):
                return block
    return record if "num_spec_steps" in record else None


def _prompt_tokens(record: dict[str, object]) -> int | None:
    usage = record.get("usage")
    value = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return value if _is_count(value) else None


def _is_count(value: object, top: int = 2**31) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < top


def _steps(block: dict[str, object]) -> tuple[list[tuple[int, int]], str | None]:
    """The (drafted, accepted) pairs of a request, or why it is damaged."""
    drafted, accepted = block.get("per_step_drafted"), block.get("per_step_accepted")
    if drafted is None and accepted is None:
        return _steps_from_summary(block)
    if not isinstance(drafted, list) or not isinstance(accepted, list):
        return [], "only one of per_step_drafted and per_step_accepted"
    if len(drafted) != len(accepted):
        return [], f"{len(drafted)} drafted steps but {len(accepted)} accepted"
    if not all(_is_count(x, MAX_K + 1) for x in (*drafted, *accepted)):
        return [], f"a step count that is no whole number from 0 to {MAX_K}"
    if any(a > d for d, a in zip(drafted, accepted, strict=True)):
        return [], "acceptance above 1: a step accepted more than it drafted"
    limit = block.get("num_spec_tokens")
    if _is_count(limit) and any(d > limit for d in drafted):
        return [], f"a step drafted more than num_spec_tokens = {limit}"
    for key, value in (
        ("num_draft_tokens", sum(drafted)),
        ("num_accepted_draft_tokens", sum(accepted)),
    ):
        if key in block and block[key] != value:
            return [], f"{key} is {block[key]!r} but the steps add up to {value}"
    return list(zip(drafted, accepted, strict=True)), None


def _steps_from_summary(
    block: dict[str, object],
) -> tuple[list[tuple[int, int]], str | None]:
    """Exact only if every step drafted num_spec_tokens, which the totals show."""
    histogram = block.get("acceptance_histogram")
    k, tokens = block.get("num_spec_tokens"), block.get("num_draft_tokens")
    if (
        not isinstance(histogram, list)
        or not all(_is_count(x) for x in histogram)
        or not _is_count(k, MAX_K + 1)
        or not _is_count(tokens)
    ):
        return [], "neither per-step arrays nor a whole summary"
    assert isinstance(k, int)
    steps = sum(histogram)
    if steps == 0:
        return [], None
    if len(histogram) != k + 1 or steps > 1_000_000:
        return [], "histogram does not fit num_spec_tokens"
    if tokens != steps * k:
        return [], "summary without per-step arrays, and K varied"
    return [(k, j) for j, count in enumerate(histogram) for _ in range(count)], None
