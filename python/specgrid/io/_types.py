# SPDX-License-Identifier: Apache-2.0
"""What the readers return: plain data, and a report of how the reading went.

Nothing here reads a file or judges a value; that is each reader's work. Every
count says its unit in its name: requests, tokens, microseconds (``*_us``).

==================  =====================================================
`ReadReport`        what was used, passed over, damaged; first bad lines
`DataError`         the input was refused, with the reason's name
`LatencyPoint`      one measured step: (batch, context, k, step_us)
`LatencyData`       an iterable of them, with what the time includes
`AcceptanceCounts`  drafts proposed and accepted, per draft position
`StepCounts`        how often each step shape ran
`GraphTable`        ``--cudagraph-metrics``: which mode served which size
`StartupRecord`     one server start: graph seconds and bytes, KV tokens
`SizeTimes`         ``VLLM_LOG_BATCHSIZE_INTERVAL``: times by tokens
`LogData`           all of the above that one log holds
`ServeResult`       one ``vllm bench serve`` run
`CostData`          step time by padded tokens, and what a graph costs
==================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: How many damaged records a report keeps in full; the rest are only counted.
MAX_DAMAGE_KEPT = 5
#: Notes a report keeps; nobody reads more, and a damaged log could make millions.
MAX_NOTES = 50


_MAX_MESSAGE = 800


class DataError(ValueError):
    """Input that was refused, because any use of it would be a guess.

    Attributes:
        message: The reason alone; ``str`` puts file and line in front.
        rule: Short fixed name of the reason, for programs: ``"empty"``,
            ``"not_json"``, ``"too_large"``, ``"too_deep"``, ``"missing"``,
            ``"not_number"``, ``"not_finite"``, ``"negative"``, ``"unit"``,
            ``"mixed_models"``, ``"mixed_drafters"``, ``"mixed_scope"``,
            ``"conflict"``, ``"acceptance_above_one"``, ``"zero_drafts"``,
            ``"k_varied"``, ``"k_unknown"``, ``"counter_reset"``,
            ``"inconsistent"``, ``"damaged"``, ``"unreadable"``,
            ``"wrong_format"``.
        source: The file, or None.
        line: 1-based line number in it, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        source: str | None = None,
        line: int | None = None,
    ) -> None:
        if len(message) > _MAX_MESSAGE:  # it quotes something absurd
            message = f"{message[:400]} ... {message[-200:]}"
        where = "" if source is None else source
        if line is not None:
            where += f":{line}"
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.rule = rule
        self.source = source
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.rule, self.source, self.line)


def _rebuild(
    message: str, rule: str, source: str | None, line: int | None
) -> DataError:
    return DataError(message, rule=rule, source=source, line=line)


class Damage(NamedTuple):
    """One record that could not be used.

    Attributes:
        line: 1-based line number, or the record's index plus one where the
            format has no lines.
        reason: What was wrong with it.
        text: Its first characters, control characters removed.
    """

    line: int
    reason: str
    text: str


@dataclass
class ReadReport:
    """What became of everything a reader looked at.

    Attributes:
        source: File, folder, or ``"<stream>"``.
        format: The reader's name for what it read.
        num_read: Records used.
        num_skipped: Lines or records of other kinds, passed over.
        num_damaged: Records of the right kind that could not be used.
        damaged: The first `MAX_DAMAGE_KEPT` of those.
        notes: Things a person should know before trusting the numbers.
    """

    source: str
    format: str
    num_read: int = 0
    num_skipped: int = 0
    num_damaged: int = 0
    damaged: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_damage(self, line: int, reason: str, text: str = "") -> None:
        """Counts one unusable record, and keeps it if it is among the first."""
        self.num_damaged += 1
        if len(self.damaged) < MAX_DAMAGE_KEPT:
            shown = "".join(c if c.isprintable() else " " for c in text[:120]).strip()
            self.damaged.append(Damage(line, reason, shown))

    def add_note(self, text: str) -> None:
        """Adds a note once, while there are not too many."""
        if len(self.notes) < MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def lines(self) -> list[str]:
        """The report as lines for a person.

        Example:
            >>> report = ReadReport("server.log", "log", num_read=3)
            >>> report.add_damage(7, "cut short", "Iteration(9): 0 con")
            >>> for line in report.lines():
            ...     print(line)
            server.log: 3 records used, 0 lines of other kinds, 1 damaged
              line 7: cut short: Iteration(9): 0 con
        """
        out = [
            f"{self.source}: {self.num_read:,} records used, "
            f"{self.num_skipped:,} lines of other kinds, {self.num_damaged:,} damaged"
        ]
        for damage in self.damaged:
            text = f": {damage.text}" if damage.text else ""
            out.append(f"  line {damage.line}: {damage.reason}{text}")
        if self.num_damaged > len(self.damaged):
            out.append(f"  ... and {self.num_damaged - len(self.damaged):,} more")
        out += [f"  note: {note}" for note in self.notes]
        return out

    def to_dict(self) -> dict[str, object]:
        """The report as JSON-ready data."""
        return {
            "source": self.source,
            "format": self.format,
            "num_read": self.num_read,
            "num_skipped": self.num_skipped,
            "num_damaged": self.num_damaged,
            "damaged": [d._asdict() for d in self.damaged],
            "notes": list(self.notes),
        }


class LatencyPoint(NamedTuple):
    """One measured decode step.

    A plain tuple underneath, so ``(batch, context, k, step_us)`` does as well.

    Attributes:
        batch: Requests in the step.
        context: Tokens already computed per request, the mean where they differ;
            0 where the source does not say.
        k: Draft tokens verified per request (query length minus one).
        step_us: Time of the step, microseconds.
    """

    batch: int
    context: int
    k: int
    step_us: float


@dataclass(frozen=True)
class LatencyData:
    """Measured steps of one model with one drafter.

    Iterating gives the points, so it goes wherever an iterable of points goes.

    Attributes:
        points: Sorted by (k, context, batch), one per such key.
        scope: What the time includes: ``"target_and_drafter"``,
            ``"target_only"``, ``"end_to_end"`` (a whole server step, host time
            included), or ``"unknown"``.
        spread: Relative spread of the samples behind each point, in the order
            of `points`; NaN where the source does not say.
        report: How the reading went.
    """

    points: tuple[LatencyPoint, ...]
    scope: str
    spread: tuple[float, ...]
    report: ReadReport

    def __iter__(self) -> Iterator[LatencyPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class AcceptanceCounts:
    """Draft tokens proposed and accepted, per draft position.

    Index j - 1 holds position j. The three counts allow both estimators of the
    survival s_j, the probability that the first j drafts all pass:
    ``accepted / drafted`` per position, and the product-limit estimator, which
    multiplies ``accepted / at_risk``. Neither divides by the number of drafts,
    which is biased low at deep positions as soon as K varies.

    Attributes:
        drafted: Drafts that proposed position j.
        accepted: Drafts whose first j tokens all passed.
        at_risk: Drafts that proposed position j and passed j - 1 (for position
            1 all that proposed it); None where the source cannot tell.
        num_drafts: Drafts altogether.
        constant_k: The one K of the window, or None where it varied.
        approximate: True where counts were rebuilt from rounded rates.
        source: Which reader.
        report: How the reading went.
    """

    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    at_risk: tuple[int, ...] | None
    num_drafts: int
    constant_k: int | None
    approximate: bool
    source: str
    report: ReadReport


@dataclass(frozen=True)
class ContextAcceptance:
    """Acceptance of the drafts made within one context range.

    Attributes:
        context_lo: Smallest context, tokens computed before the step.
        context_hi: Largest, inclusive.
        counts: The drafts in that range.
    """

    context_lo: int
    context_hi: int
    counts: AcceptanceCounts


@dataclass
class StepCounts:
    """How often each step shape ran.

    Attributes:
        uniform: Steps by (query_len, num_reqs): decode only, every request the
            same number of tokens.
        ragged: Decode-only steps by (num_reqs, num_tokens) whose tokens do not
            divide evenly; they cannot use a uniform graph.
        mixed: Steps with a prefill in them, by num_tokens.
        num_dummy: Steps that only kept data-parallel ranks together; in none of
            the above.
        elapsed_us: Median elapsed time by ("uniform", query_len, num_reqs),
            ("ragged", num_reqs, num_tokens) or ("mixed", num_tokens, 0), within
            1 %; microseconds.
        num_engines: Engines that reported.
    """

    uniform: dict[tuple[int, int], float] = field(default_factory=dict)
    ragged: dict[tuple[int, int], float] = field(default_factory=dict)
    mixed: dict[int, float] = field(default_factory=dict)
    num_dummy: int = 0
    elapsed_us: dict[tuple[str, int, int], float] = field(default_factory=dict)
    num_engines: int = 0

    @property
    def num_steps(self) -> float:
        """Steps counted, dummy steps excluded."""
        return (
            sum(self.uniform.values())
            + sum(self.ragged.values())
            + sum(self.mixed.values())
        )

    def mixed_by_tokens(self) -> dict[int, float]:
        """Steps no uniform graph can serve, by num_tokens: mixed and ragged."""
        out = dict(self.mixed)
        for (_, num_tokens), count in self.ragged.items():
            out[num_tokens] = out.get(num_tokens, 0) + count
        return out


@dataclass
class GraphTable:
    """Which graph mode served which size, summed over a log's intervals.

    Attributes:
        rows: Steps by (num_unpadded_tokens, num_padded_tokens, mode), mode one
            of ``"FULL"``, ``"PIECEWISE"``, ``"NONE"``.
        mode: The configured mode the table states.
        capture_sizes: The configured sizes the table states, tokens.
        num_intervals: Tables summed.
    """

    rows: dict[tuple[int, int, str], int] = field(default_factory=dict)
    mode: str | None = None
    capture_sizes: tuple[int, ...] | None = None
    num_intervals: int = 0

    def share(self, mode: str) -> float:
        """Share of steps served by a mode; 0 for an empty table."""
        total = sum(self.rows.values())
        hits = sum(n for (_, _, m), n in self.rows.items() if m == mode)
        return hits / total if total else 0.0


@dataclass(frozen=True)
class StartupRecord:
    """What one server start said about graphs and KV cache.

    Attributes:
        graph_seconds: Capture time, whole seconds as printed.
        graph_bytes: Memory the captured graphs took.
        num_graphs: Captured graphs by stage name ("CUDA graphs (FULL)" ...),
            where the progress bars are in the log.
        pool_bytes_estimated: vLLM's estimate before the capture.
        kv_bytes: "Available KV cache memory".
        kv_tokens: "KV cache size".
        max_model_len: Tokens per request in the concurrency figure.
        capture_sizes: Sizes in the configuration line, tokens.
        version: vLLM's version in that line.
        line: Line of the capture message.
    """

    graph_seconds: float | None = None
    graph_bytes: int | None = None
    num_graphs: Mapping[str, int] = field(default_factory=dict)
    pool_bytes_estimated: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int | None = None
    max_model_len: int | None = None
    capture_sizes: tuple[int, ...] | None = None
    version: str | None = None
    line: int | None = None

    @property
    def kv_bytes_per_token(self) -> float | None:
        """KV bytes a token takes, where the log states both totals."""
        if not self.kv_bytes or not self.kv_tokens:
            return None
        return self.kv_bytes / self.kv_tokens


@dataclass(frozen=True)
class SizeTimes:
    """Forward times by scheduled tokens, from one process's last line.

    vLLM prints these totals since the start of the process, so lines supersede
    each other and are never added up.

    Attributes:
        counts: Steps by num_tokens.
        median_us: Median forward time by num_tokens, microseconds. vLLM adds a
            device synchronisation to take it.
    """

    counts: Mapping[int, int]
    median_us: Mapping[int, float]


@dataclass(frozen=True)
class LogData:
    """Everything one pass over a server log found.

    Attributes:
        steps: Iteration lines.
        graphs: ``--cudagraph-metrics`` tables.
        startups: One record per server start, in order.
        sizes: ``VLLM_LOG_BATCHSIZE_INTERVAL`` totals, or None.
        acceptance: "SpecDecoding metrics" lines of the intervals in which K was
            constant, or None.
        report: How the reading went.
    """

    steps: StepCounts
    graphs: GraphTable
    startups: tuple[StartupRecord, ...]
    sizes: SizeTimes | None
    acceptance: AcceptanceCounts | None
    report: ReadReport


@dataclass(frozen=True)
class ServeResult:
    """One ``vllm bench serve`` run.

    Attributes:
        path: File it came from.
        model: ``model_id``.
        drafter: Drafter's name where a sweep states it, else None.
        k: Draft tokens per step, where the run or its sweep states it; None
            where it varied or is unknown.
        max_concurrency: Requests allowed in flight, None for unlimited.
        completed: Requests that completed.
        failed: Requests that failed.
        output_tokens_per_s: ``output_throughput``.
        median_tpot_us: Median time per output token, microseconds.
        mean_input_tokens: Prompt tokens per completed request.
        mean_output_tokens: Output tokens per completed request.
        tokens_per_step: ``spec_decode_acceptance_length``, 1 without drafts.
        acceptance: Counts per position, or None.
        acceptance_refused: Why there are none, or None.
        settings: Sweep overrides and metadata, as read.
    """

    path: str
    model: str
    drafter: str | None
    k: int | None
    max_concurrency: int | None
    completed: int
    failed: int
    output_tokens_per_s: float
    median_tpot_us: float | None
    mean_input_tokens: float
    mean_output_tokens: float
    tokens_per_step: float
    acceptance: AcceptanceCounts | None
    acceptance_refused: str | None
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class CostData:
    """Step time by padded tokens, microseconds, and what a graph costs.

    FULL times are a table, or a straight line, or (both empty) not known. A
    missing part is None, never zero: the user of the data says what it assumes
    instead.

    Attributes:
        report: How the reading went.
        full_us: FULL graph replay by tokens.
        base_us: FULL step at zero tokens, of a straight line.
        per_token_us: What each padded token adds, of a straight line.
        piecewise_us: PIECEWISE step by tokens.
        eager_us: Eager step by tokens.
        piecewise_penalty_us: PIECEWISE minus FULL at equal size, where the data
            give a constant rather than a table.
        eager_penalty_us: Eager minus FULL at equal size, likewise.
        graph_bytes: Bytes each further graph takes.
        split_assumed: True where the total of graph_bytes and pool_bytes was
            measured and how it divides between them was not.
        pool_bytes: Bytes the shared pool takes once.
        graph_seconds: Seconds to capture one graph.
    """

    report: ReadReport
    full_us: Mapping[int, float] = field(default_factory=dict)
    base_us: float | None = None
    per_token_us: float | None = None
    piecewise_us: Mapping[int, float] | None = None
    eager_us: Mapping[int, float] | None = None
    piecewise_penalty_us: float | None = None
    eager_penalty_us: float | None = None
    graph_bytes: float | None = None
    pool_bytes: float | None = None
    graph_seconds: float | None = None
    split_assumed: bool = False
