# SPDX-License-Identifier: Apache-2.0
"""The Prometheus text of ``/metrics``: acceptance since start, or of a window.

One scrape covers everything since the server started; two give the window
between them. Parsed here by a small strict parser rather than
prometheus_client: a dozen lines of grammar serve the handful of names we need,
the client would be one more dependency of the command line, and it repairs or
drops in silence what must be refused here (a sample given twice, a value that
is no number). Names: vllm/v1/spec_decode/metrics.py, v1/metrics/loggers.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from specgrid._read import plain_number
from specgrid.io._accept import from_totals
from specgrid.io._source import AnyPath, read_text, refuse
from specgrid.io._types import AcceptanceCounts, DataError, ReadReport

MAX_SCRAPE_BYTES = 64 << 20
_PREFIX = "vllm:spec_decode_num_"
_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(\S+)(?:\s+-?[\d.]+)?(?:\s+#.*)?$"
)
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*)"\s*(?:,|$)')


@dataclass(frozen=True)
class MetricsData:
    """What one scrape, or the window between two, says.

    Attributes:
        model: ``model_name``.
        engines: ``engine`` labels, sorted.
        num_drafts: Drafts made.
        draft_tokens: Tokens proposed.
        accepted_tokens: Tokens accepted.
        accepted_per_pos: Drafts that accepted position 1, 2, ...
        running: Mean of the running-requests gauge over scrapes, all engines;
            None where absent. It samples time, not steps.
        acceptance: Counts per position, or None.
        acceptance_refused: Why there are none, or None.
        report: How the reading went.
    """

    model: str
    engines: tuple[str, ...]
    num_drafts: float
    draft_tokens: float
    accepted_tokens: float
    accepted_per_pos: tuple[float, ...]
    running: float | None
    acceptance: AcceptanceCounts | None
    acceptance_refused: str | None
    report: ReadReport


def read_metrics(
    path: AnyPath,
    before: AnyPath | None = None,
    *,
    drafts_by_k: Mapping[int, float] | None = None,
) -> MetricsData:
    """Reads one scrape, or the difference of two.

    Args:
        path: The scrape, or the later of two.
        before: The earlier scrape.
        drafts_by_k: How often each K was drafted in the window, for a server
            whose K varies (`specgrid.io.drafts_by_k` of a log's steps).

    Raises:
        DataError: ``missing`` (no speculation counters), ``mixed_models``,
            ``counter_reset``, ``conflict``, ``not_finite``, ``negative``,
            ``acceptance_above_one``, ``inconsistent``.
    """
    name = str(path) if before is None else f"{before} to {path}"
    report = ReadReport(name, "/metrics")
    late = _Scrape(path, report)
    early = None if before is None else _Scrape(before, report)
    if early is not None:
        if early.model != late.model:
            refuse(f"two models: {early.model} and {late.model}", "mixed_models", name)
        late.subtract(early, name)
    drafts, tokens, accepted = (
        sum(v for (n, _, _), v in late.values.items() if n == part)
        for part in ("drafts", "draft_tokens", "accepted_tokens")
    )
    depth = 1 + max((p for _, _, p in late.values), default=-1)
    per_pos = [0.0] * depth
    for (part, _, position), value in late.values.items():
        if part == "accepted_tokens_per_pos":
            per_pos[position] += value
    acceptance = refused = None
    try:
        acceptance = from_totals(
            drafts, tokens, accepted, per_pos, "/metrics", report, drafts_by_k
        )
    except DataError as error:
        if error.rule not in ("k_varied", "zero_drafts"):
            raise
        refused = str(error)
    gauges = [s.running for s in (early, late) if s and s.running is not None]
    return MetricsData(
        model=late.model,
        engines=tuple(sorted({e for _, e, _ in late.values})),
        num_drafts=drafts,
        draft_tokens=tokens,
        accepted_tokens=accepted,
        accepted_per_pos=tuple(per_pos),
        running=sum(gauges) / len(gauges) if gauges else None,
        acceptance=acceptance,
        acceptance_refused=refused,
        report=report,
    )


def looks_like_metrics(text: str) -> bool:
    """Whether a file's beginning is Prometheus text."""
    return text.lstrip().startswith(("# HELP", "# TYPE", "vllm:"))


class _Scrape:
    """The counters of one scrape, by (name, engine, position or -1)."""

    def __init__(self, path: AnyPath, report: ReadReport) -> None:
        name = str(path)
        self.values: dict[tuple[str, str, int], float] = {}
        self.created: dict[tuple[str, str, int], float] = {}
        self.running: float | None = None
        models: set[str] = set()
        diffusion = False
        whole = read_text(path, MAX_SCRAPE_BYTES)
        lines = whole.splitlines()
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            diffusion = diffusion or text.startswith("vllm:diffusion_num_")
            is_gauge = text.startswith("vllm:num_requests_running")
            if not text.startswith(_PREFIX) and not is_gauge:
                report.num_skipped += 1
                continue
            match = _SAMPLE.match(text) if len(text) < 65536 else None
            labels = None if match is None else _labels(match[2] or "")
            # The format ends every line; a last line without an end may be cut
            # inside its number.
            cut = number == len(lines) and not whole.endswith("\n")
            if match is None or labels is None or cut:
                refuse(
                    "sample cut short or broken; totals without it would be wrong",
                    "damaged",
                    name,
                    number,
                )
            value = _value(match[3], match[1], name, number)
            models.add(labels.get("model_name", ""))
            if len(models) > 1:
                refuse(
                    f"holds two models, {' and '.join(sorted(models))}; scrape one "
                    "server",
                    "mixed_models",
                    name,
                    number,
                )
            if is_gauge:
                self.running = (self.running or 0.0) + value
                continue
            self._add(match[1], labels, value, name, number)
            report.num_read += 1
        if not self.values:
            if diffusion:
                refuse(
                    "holds a diffusion model's counters; their denoising steps are "
                    "not drafts",
                    "wrong_format",
                    name,
                )
            refuse(f"holds no {_PREFIX}* counters; is speculation on?", "missing", name)
        self.model = models.pop()
        self._check_complete(name)

    def _check_complete(self, name: str) -> None:
        """Each engine must give every counter, and every position in turn."""
        parts: dict[str, list[tuple[str, int]]] = {}
        for part, engine, position in self.values:
            parts.setdefault(engine, []).append((part, position))
        for engine, have in parts.items():
            depth = sum(1 for part, _ in have if part == "accepted_tokens_per_pos")
            need = {("drafts", -1), ("draft_tokens", -1), ("accepted_tokens", -1)}
            need |= {("accepted_tokens_per_pos", j) for j in range(depth)}
            if need != set(have) or depth == 0:
                refuse(
                    f"engine {engine!r} lacks some of its speculation counters; the "
                    "scrape is incomplete",
                    "damaged",
                    name,
                )

    def _add(
        self, metric: str, labels: dict[str, str], value: float, name: str, line: int
    ) -> None:
        part = metric.removeprefix(_PREFIX)
        created = part.endswith("_created")
        part = part.removesuffix("_created").removesuffix("_total")
        position = -1
        if part == "accepted_tokens_per_pos":
            text = labels.get("position", "")
            if not text.isdecimal() or int(text[:9]) > 4096:
                refuse(f"position {text!r} is no number", "not_number", name, line)
            position = int(text[:9])
        elif part not in ("drafts", "draft_tokens", "accepted_tokens"):
            return
        key = (part, labels.get("engine", ""), position)
        target = self.created if created else self.values
        if key in target and target[key] != value:
            refuse(
                f"{metric} of engine {key[1]!r} is given twice with different values",
                "conflict",
                name,
                line,
            )
        target[key] = value

    def subtract(self, early: _Scrape, name: str) -> None:
        """Leaves the window's increase, refusing a restart in between."""
        for key, value in early.values.items():
            if key not in self.values:
                refuse(
                    f"engine {key[1]!r} is only in the earlier scrape; compare the "
                    "same servers",
                    "inconsistent",
                    name,
                )
            if self.values[key] < value or self.created.get(
                key, 0.0
            ) > early.created.get(key, math.inf):
                refuse(
                    "counters went back: the server restarted between the scrapes, "
                    "or they are in the wrong order",
                    "counter_reset",
                    name,
                )
        for key in self.values:
            self.values[key] -= early.values.get(key, 0.0)


def _labels(text: str) -> dict[str, str] | None:
    out: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            return None if text[at:].strip() else out
        out[match[1]] = match[2]
        at = match.end()
    return out


def _value(text: str, metric: str, name: str, line: int) -> float:
    number = plain_number(text)
    if number is None:
        refuse(f"{metric} is {text[:40]!r}", "not_number", name, line)
    if not math.isfinite(number):
        refuse(f"{metric} is {text:.40}", "not_finite", name, line)
    if number < 0:
        refuse(f"{metric} is {text:.40}, below 0", "negative", name, line)
    return number
