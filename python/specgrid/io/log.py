# SPDX-License-Identifier: Apache-2.0
"""Server logs: one streaming pass that picks up everything worth having.

Found in it (vLLM 0.33.0, file that prints it):

- ``--enable-logging-iteration-details`` lines, one a step (v1/metrics/loggers.py)
- ``--cudagraph-metrics`` tables (compilation/cuda_graph.py)
- start-up lines: KV cache, graph capture (v1/worker/gpu/model_runner.py,
  v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py)
- ``VLLM_LOG_BATCHSIZE_INTERVAL`` lines (forward_context.py)
- "SpecDecoding metrics" lines (v1/spec_decode/metrics.py)

Several processes may interleave; colours, timestamps in front, carriage
returns, gzip and vLLM's own JSON log format are all read. A line of one of
these kinds that does not parse to its end is damaged: counted, never guessed.
This is not a general log parser, and it keeps no line.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from specgrid._read import ReadError, as_text, parse_json
from specgrid.io._source import (
    AnyPath,
    Progress,
    as_files,
    iter_lines,
    joined,
    refuse,
)
from specgrid.io._types import (
    AcceptanceCounts,
    GraphTable,
    LogData,
    ReadReport,
    SizeTimes,
    StartupRecord,
    StepCounts,
)

GIB = 1 << 30
#: Distinct step shapes kept; far above any server, a bound against bad input.
MAX_SHAPES = 1 << 18
#: Server starts kept, for a server in a restart loop.
MAX_STARTS = 1000
_MAX_COUNT = 2**31 - 1
_MAX_PROCESSES = 10_000
#: Kinds of graphs one start captures; each has a progress bar of its own.
_MAX_CAPTURES = 100
_MAX_K = 4096
_UNTIMED = -(10**6)  # a bucket no time reaches
_NO_TOKENS = "a step without tokens"

#: ("uniform", query_len, num_reqs), ("ragged", num_reqs, num_tokens) or
#: ("mixed", num_tokens, 0).
_Key: TypeAlias = tuple[str, int, int]

_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
# Digits are bounded so that no number overflows; vLLM's never come near.
_ITERATION = re.compile(
    rb"(?:Engine (\d{1,9}): )?Iteration\((\d{1,15})\): "
    rb"(\d{1,15} context requests, \d{1,15} context tokens, "
    rb"\d{1,15} generation requests, \d{1,15} generation tokens), "
    rb"iteration elapsed time: (\d{1,12}\.\d\d) ms( \(dummy\))?, "
    rb"[A-Z]\w{0,31} KV cache usage: (?:\d{1,9}\.\d|nan)%"
)
_NUMBERS = re.compile(rb"\d+")
_TABLE_ROW = re.compile(
    rb"\|\s*(\d{1,15})\s*\|\s*(\d{1,15})\s*\|\s*(\d{1,15})\s*"
    rb"\|\s*([A-Z_]{1,32})\s*\|\s*(\d{1,15})\s*\|\s*$"
)
_TABLE_ROW_START = re.compile(rb"\|\s*\d{1,15}\s*\|\s*\d{1,15}\s*\|")
# Of a list each part has one reading only: of two, a long broken line would take
# for ever.
_SIZES = rb"\[((?:\d{1,9}(?:, \d{1,9})*)?)\]"
_CAPTURE_SIZES = re.compile(rb"- Capture sizes: " + _SIZES + rb"\s*$")
_TABLE_MODE = re.compile(rb"- Mode: ([A-Z_]{1,32})\s*$")
_BATCHSIZE = b"median_time(ms)): ["
_BATCHSIZE_ITEM = re.compile(
    rb"\((\d{1,9}), (\d{1,15}), (\d{1,9}(?:\.\d{1,9})?)\)(?:, |$)"
)
_SPEC = re.compile(
    rb"SpecDecoding metrics: Mean acceptance length: (?:[\d.]{1,20}|nan), "
    rb"Accepted throughput: [\d.]{1,20} tokens/s, "
    rb"Drafted throughput: [\d.]{1,20} tokens/s, "
    rb"Accepted: (\d{1,15}) tokens, Drafted: (\d{1,15}) tokens, "
    rb"Per-position acceptance rate: ([\d., an]*), "
    rb"Avg Draft acceptance rate: (?:[\d.]{1,20}|nan)%"
)
_GIB_NUMBER = rb"(-?\d{1,9}(?:\.\d{1,9})?) GiB"
_STARTUP = {
    "graphs": re.compile(
        rb"Graph capturing finished in (\d{1,9}) secs, took " + _GIB_NUMBER
    ),
    "pool": re.compile(
        rb"CUDA graph pool memory: "
        + _GIB_NUMBER
        + rb" \(actual\), "
        + _GIB_NUMBER
        + rb" \(estimated\)"
    ),
    "kv_bytes": re.compile(rb"Available KV cache memory: " + _GIB_NUMBER),
    "kv_tokens": re.compile(
        rb"KV cache size: ([\d,]{1,20}) tokens, "
        rb"Maximum concurrency for ([\d,]{1,20}) tokens per request: [\d.]{1,20}x"
    ),
}
_STARTUP_WORDS = (
    (b"Graph capturing finished", "graphs"),
    (b"CUDA graph pool memory", "pool"),
    (b"Available KV cache memory", "kv_bytes"),
    (b" KV cache size: ", "kv_tokens"),
)
_ENGINE_CONFIG = re.compile(rb"Initializing a V1 LLM engine \(v([^)\s]{1,64})\)")
_CONFIG_SIZES = re.compile(rb"'cudagraph_capture_sizes': " + _SIZES)
_PROGRESS_BAR = re.compile(
    rb"Capturing ([\w -]{0,60}CUDA graphs(?: \([\w, -]{1,60}\))?): {1,3}\d{1,3}%"
    rb"\|[^|\r]{0,400}\| {0,3}(\d{1,9})/(\d{1,9})"
)


def read_log(
    paths: AnyPath | Iterable[AnyPath], progress: Progress | None = None
) -> LogData:
    """Reads one server's log, from one file or several in order.

    Memory stays constant: a few numbers for every distinct step shape.

    Args:
        paths: Files, plain or gzip; ``"-"`` is standard input. Several are taken
            as consecutive parts of one log, oldest first.
        progress: Called with (bytes done, bytes of this file or None).

    Returns:
        What was found; parts that are not in the log are empty.

    Raises:
        DataError: A file cannot be read at all, or two processes report
            contradictory things that cannot both be true.
    """
    files = as_files(paths)
    if not files:
        refuse("no log was given", "empty")
    pass_ = _Pass(ReadReport(joined(files), "log"))
    for file in files:
        for line_number, line in iter_lines(file, pass_.report, progress):
            pass_.take(line_number, line)
    return pass_.finish()


@dataclass
class _Start:
    """A server start being put together from several processes' lines."""

    seen: set[tuple[bytes, str]] = field(default_factory=set)
    values: dict[str, float] = field(default_factory=dict)
    num_graphs: dict[str, int] = field(default_factory=dict)
    capture_sizes: tuple[int, ...] | None = None
    version: str | None = None
    line: int | None = None


class _Pass:
    """The state of one pass; `take` gets every line, `finish` the result."""

    def __init__(self, report: ReadReport) -> None:
        self.report = report
        self.steps = StepCounts()
        self.graphs = GraphTable()
        self.starts: deque[_Start] = deque(maxlen=MAX_STARTS)
        self.sizes: dict[bytes, SizeTimes] = {}
        # Log-spaced buckets of the elapsed time, 1 % wide, for each shape.
        self.elapsed: dict[_Key, dict[int, int]] = {}
        self.shapes: dict[bytes, _Key | str] = {}
        self.engines: set[bytes] = set()
        self.last_index: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
        self.num_missing = 0
        self.num_repeated = 0
        self.num_backward = 0
        self.spec = _SpecLines()

    def take(self, number: int, line: bytes) -> None:
        """Sends a line to the one parser it belongs to, if any."""
        if b"teration" in line and (
            b"Iteration(" in line or b"iteration elapsed time" in line
        ):
            kind = self.iteration
        elif b"|" in line:
            if b"Capturing " in line:
                kind = self.progress_bar
            elif b"Unpadded Tokens" in line or _TABLE_ROW_START.search(line):
                kind = self.table_row
            else:
                self.report.num_skipped += 1
                return
        elif b"KV cache" in line or b"CUDA graph" in line or b"Graph capt" in line:
            kind = self.startup
        elif b"- Capture sizes:" in line or b"- Mode:" in line:
            kind = self.table_header
        elif b"SpecDecoding metrics" in line:
            kind = self.spec_line
        elif b"Batchsize forward time stats" in line:
            kind = self.batchsize
        elif b"Initializing a V1 LLM engine" in line:
            kind = self.engine_config
        else:
            self.report.num_skipped += 1
            return
        if line.startswith(b"{") and b'"message"' in line:
            self.json_line(number, line)
            return
        if b"\x1b" in line:
            line = _ANSI.sub(b"", line)
        kind(number, line)

    def json_line(self, number: int, line: bytes) -> None:
        """A record of vLLM's JSON log format: its message, line by line."""
        try:
            record = parse_json(as_text(line))
            message = record["message"]
            process = f"({record.get('processName', '')} pid={record.get('process')}) "
        except (ReadError, KeyError, TypeError, AttributeError):
            self.damage(number, "JSON log record cut short or broken", line)
            return
        if not isinstance(message, str):
            self.damage(number, "JSON log record whose message is no text", line)
            return
        parts = [p for p in message.split("\n") if p and not p.startswith("{")]
        if not parts:
            self.report.num_skipped += 1
        for part in parts:
            self.take(number, (process + part).encode("utf-8", "replace"))

    def damage(self, number: int, reason: str, line: bytes) -> None:
        self.report.add_damage(number, reason, line[-400:].decode("utf-8", "replace"))

    # Iteration lines.

    def iteration(self, number: int, line: bytes) -> None:
        match = _ITERATION.search(line)
        if match is None:
            self.damage(number, "iteration line cut short or broken", line)
            return
        engine, index, shape, ms, dummy = match.groups()
        # A server has few shapes and many steps: each text is judged once.
        key = self.shapes.get(shape)
        if key is None:
            key = _step_key(shape)
            if len(self.shapes) < MAX_SHAPES:
                self.shapes[shape] = key
        if isinstance(key, str) and not (dummy and key == _NO_TOKENS):
            self.damage(number, key, line)
            return
        if self.repeated(line, engine or b"0", int(index), match[0]):
            return
        self.report.num_read += 1
        if dummy or isinstance(key, str):
            self.steps.num_dummy += 1
            return
        buckets = self.elapsed.get(key)
        if buckets is None:
            if len(self.elapsed) >= MAX_SHAPES:
                self.damage(number, "more distinct step shapes than any server", line)
                return
            buckets = self.elapsed[key] = {}
        us = float(ms) * 1000
        bucket = round(math.log(us) * 100) if us > 0 else _UNTIMED
        buckets[bucket] = buckets.get(bucket, 0) + 1

    def repeated(self, line: bytes, engine: bytes, index: int, text: bytes) -> bool:
        """Follows an engine's step numbers; True for a line printed twice."""
        if len(self.engines) < _MAX_PROCESSES:
            self.engines.add(engine)
        key = (_process(line), engine)
        last = self.last_index.get(key)
        if last is not None:
            if index == last[0] and text == last[1]:
                self.num_repeated += 1
                self.report.num_skipped += 1
                return True
            if index > last[0] + 1:
                self.num_missing += index - last[0] - 1
            elif index <= last[0]:
                self.num_backward += 1
        if last is not None or len(self.last_index) < _MAX_PROCESSES:
            self.last_index[key] = (index, text)
        return False

    # --cudagraph-metrics tables.

    def table_row(self, number: int, line: bytes) -> None:
        if b"Unpadded Tokens" in line:
            self.graphs.num_intervals += 1
            self.report.num_skipped += 1
            return
        match = _TABLE_ROW.search(line)
        if match is None:
            self.damage(number, "table row cut short or broken", line)
            return
        unpadded, padded, paddings, count = (int(match[i]) for i in (1, 2, 3, 5))
        mode = match[4].decode()
        if mode not in ("FULL", "PIECEWISE", "NONE"):
            self.damage(number, f"unknown runtime mode {mode}", line)
            return
        if unpadded + paddings != padded or max(padded, count) > _MAX_COUNT:
            self.damage(number, "row whose columns do not add up", line)
            return
        rows = self.graphs.rows
        key = (unpadded, padded, mode)
        if key not in rows and len(rows) >= MAX_SHAPES:
            self.damage(number, "more distinct rows than any server", line)
            return
        rows[key] = rows.get(key, 0) + count
        self.report.num_read += 1

    def table_header(self, number: int, line: bytes) -> None:
        if match := _TABLE_MODE.search(line):
            mode = match[1].decode()
            if self.graphs.mode not in (None, mode):
                self.report.add_note(
                    f"tables of two configurations: mode {self.graphs.mode}, then "
                    f"{mode}; the later one is shown, the counts are added up"
                )
            self.graphs.mode = mode
            self.report.num_read += 1
        elif match := _CAPTURE_SIZES.search(line):
            sizes = _int_list(match[1])
            if self.graphs.capture_sizes not in (None, sizes):
                self.report.add_note(
                    "tables of two capture lists; the later list is shown, the "
                    "counts are added up"
                )
            self.graphs.capture_sizes = sizes
            self.report.num_read += 1
        elif b"- Capture sizes:" in line:
            self.damage(number, "capture sizes cut short", line)
        else:
            self.report.num_skipped += 1

    # Start-up lines.

    def startup(self, number: int, line: bytes) -> None:
        kind = next((kind for word, kind in _STARTUP_WORDS if word in line), None)
        if kind is None:
            self.report.num_skipped += 1
            return
        match = _STARTUP[kind].search(line)
        values = None if match is None else _plain_numbers(match.groups())
        if values is None:
            self.damage(number, "start-up line cut short or broken", line)
            return
        self.report.num_read += 1
        start = self.start_for(line, kind)
        first, second = (*values, 0.0)[:2]
        if kind == "graphs":
            start.line = number
            _keep_max(start.values, "graph_seconds", first)
            if second < 0:
                self.report.add_note(
                    f"line {number}: graph capture took {second:.2f} GiB; memory was "
                    "freed meanwhile, so the figure is not used"
                )
            else:
                _keep_max(start.values, "graph_gib", second)
        elif kind == "pool":
            _keep_max(start.values, "pool_estimated_gib", second)
        elif kind == "kv_bytes":
            # The graphs captured so far were vLLM's own memory estimate.
            start.num_graphs.clear()
            start.values["kv_gib"] = min(first, start.values.get("kv_gib", first))
        else:
            start.values["kv_tokens"] = first
            start.values["max_model_len"] = second

    def start_for(self, line: bytes, kind: str) -> _Start:
        """The start a line belongs to: a new one where a process repeats itself."""
        # By name without pid, so that a restarted process is seen to repeat itself.
        mark = (_process(line).partition(b" pid=")[0], kind)
        if not self.starts or mark in self.starts[-1].seen:
            if len(self.starts) == MAX_STARTS:
                self.report.add_note(f"only the last {MAX_STARTS:,} starts are kept")
            self.starts.append(_Start())
        if len(self.starts[-1].seen) < _MAX_PROCESSES:
            self.starts[-1].seen.add(mark)
        return self.starts[-1]

    def engine_config(self, number: int, line: bytes) -> None:
        match = _ENGINE_CONFIG.search(line)
        if match is None:
            self.damage(number, "engine configuration line broken", line)
            return
        self.report.num_read += 1
        start = self.start_for(line, "config")
        start.version = match[1].decode("utf-8", "replace")
        if sizes := _CONFIG_SIZES.search(line):
            start.capture_sizes = _int_list(sizes[1])

    def progress_bar(self, number: int, line: bytes) -> None:
        """A capture progress bar, redrawn many times in one line."""
        found = False
        for match in _PROGRESS_BAR.finditer(line):
            found = True
            if match[2] == match[3] and self.starts:
                name = " ".join(match[1].decode("utf-8", "replace").split())
                graphs = self.starts[-1].num_graphs
                if name in graphs or len(graphs) < _MAX_CAPTURES:
                    graphs[name] = int(match[3])
        if found:
            self.report.num_read += 1
        else:
            self.report.num_skipped += 1

    # The two lines with totals or rates.

    def batchsize(self, number: int, line: bytes) -> None:
        _, found, rest = line.rstrip().partition(_BATCHSIZE)
        items = _BATCHSIZE_ITEM.findall(rest.removesuffix(b"]"))
        if not found or not rest.endswith(b"]") or rest.count(b"(") != len(items):
            self.damage(number, "batch-size line cut short or broken", line)
            return
        self.report.num_read += 1
        counts = {int(size): int(count) for size, count, _ in items}
        median_us = {int(size): float(ms) * 1000 for size, _, ms in items}
        process = _process(line)
        if process in self.sizes or len(self.sizes) < _MAX_PROCESSES:
            self.sizes[process] = SizeTimes(counts, median_us)

    def spec_line(self, number: int, line: bytes) -> None:
        match = _SPEC.search(line)
        if match is None:
            self.damage(number, "SpecDecoding line cut short or broken", line)
            return
        reason = self.spec.add(match)
        if reason:
            self.damage(number, reason, line)
        else:
            self.report.num_read += 1

    def finish(self) -> LogData:
        """Turns the state into the result, and says what a person must know."""
        steps, report = self.steps, self.report
        for key, buckets in self.elapsed.items():
            count = sum(buckets.values())
            kind, first, second = key
            if kind == "uniform":
                steps.uniform[first, second] = count
            elif kind == "ragged":
                steps.ragged[first, second] = count
            else:
                steps.mixed[first] = count
            if (median := _median(buckets)) is not None:
                steps.elapsed_us[key] = median
        steps.num_engines = len(self.engines)
        if self.num_repeated:
            report.add_note(
                f"{self.num_repeated:,} iteration lines appear twice in a row and "
                "were counted once"
            )
        if self.num_backward > 10:
            report.add_note(
                f"step numbers go back {self.num_backward:,} times: several servers, "
                "or parts out of order, in one log; their steps are added up"
            )
        elif self.num_missing:
            report.add_note(
                f"{self.num_missing:,} steps are missing between the iteration lines "
                "(rotated, filtered or damaged log); shares assume they were alike"
            )
        if len(self.engines) > 1 and steps.num_dummy:
            report.add_note(
                f"{len(self.engines)} engines step together (dummy steps seen): the "
                "widest rank chooses the graph for all, so counting each rank's own "
                "batches understates the sizes"
            )
        sizes = max(
            self.sizes.values(), key=lambda s: sum(s.counts.values()), default=None
        )
        if len(self.sizes) > 1:
            report.add_note(
                f"{len(self.sizes)} processes print batch-size totals; the one with "
                "most steps is used, ranks are not added up"
            )
        return LogData(
            steps=steps,
            graphs=self.graphs,
            startups=tuple(_finish_start(s) for s in self.starts),
            sizes=sizes,
            acceptance=self.spec.finish(report),
            report=report,
        )


class _SpecLines:
    """ "SpecDecoding metrics" lines, summed where their rates mean something.

    A line prints accepted / drafts per position. That is the survival only when
    every draft of the interval had the same length; other intervals are counted
    and left out.
    """

    def __init__(self) -> None:
        self.drafts: dict[int, float] = {}  # by K
        self.accepted: dict[int, list[float]] = {}
        self.num_varied = 0
        self.num_empty = 0

    def add(self, match: re.Match[bytes]) -> str | None:
        """Takes a line; returns why it is damaged, or None."""
        accepted, drafted = int(match[1]), int(match[2])
        if accepted > drafted:
            return "more tokens accepted than drafted"
        if drafted == 0 or b"n" in match[3] or not match[3].strip():
            self.num_empty += 1
            return None
        try:
            rates = [float(r) for r in match[3].split(b", ")]
        except ValueError:
            return "per-position rates broken"
        if len(rates) > _MAX_K:
            return f"more than {_MAX_K} positions"
        if max(rates) > 1.0:
            return "a per-position acceptance above 1"
        if any(deep > shallow for shallow, deep in pairwise(rates)):
            return "acceptance that rises with the position"
        if accepted == 0 or sum(rates) == 0:
            self.num_empty += 1
            return None
        # sum(rates) is accepted / drafts, printed to more digits than the mean.
        mean_k = drafted * sum(rates) / accepted
        # Each rate is rounded by up to 0.0005: allow for that and no more.
        slack = 0.0005 * len(rates) / sum(rates) * mean_k + 1e-9
        k = round(mean_k)
        constant = (
            1 <= k <= len(rates)
            and abs(mean_k - k) <= slack <= 0.1
            and (k == len(rates) or (rates[k - 1] > 0 and not any(rates[k:])))
        )
        if not constant:
            self.num_varied += 1
            return None
        drafts = drafted / k
        self.drafts[k] = self.drafts.get(k, 0.0) + drafts
        sums = self.accepted.setdefault(k, [0.0] * k)
        for j in range(k):
            sums[j] += rates[j] * drafts
        return None

    def finish(self, report: ReadReport) -> AcceptanceCounts | None:
        if self.num_varied:
            report.add_note(
                f"{self.num_varied:,} SpecDecoding intervals had a varying K; their "
                "per-position rates are biased low and were left out. Record "
                "--per-request-spec-decode-metrics detailed instead"
            )
        if not self.drafts:
            return None
        deepest = max(self.drafts)
        drafted = [0.0] * deepest
        accepted = [0.0] * deepest
        for k, drafts in self.drafts.items():
            for j in range(k):
                drafted[j] += drafts
                accepted[j] += self.accepted[k][j]
        at_risk = [drafted[0]] + [
            sum(self.accepted[k][j - 1] for k in self.drafts if k > j)
            for j in range(1, deepest)
        ]
        return AcceptanceCounts(
            drafted=tuple(round(x) for x in drafted),
            accepted=tuple(round(x) for x in accepted),
            at_risk=tuple(round(x) for x in at_risk),
            num_drafts=round(sum(self.drafts.values())),
            constant_k=deepest if len(self.drafts) == 1 else None,
            approximate=True,
            source="log",
            report=report,
        )


def _process(line: bytes) -> bytes:
    """The ``(Name pid=N`` that vLLM puts before a line, empty without one."""
    at = line.find(b" pid=")
    if at < 0:
        return b""
    return line[line.rfind(b"(", 0, at) : line.find(b")", at)][:128]


def _step_key(shape: bytes) -> _Key | str:
    """What kind of step four counts make, or why no step has them."""
    ctx_reqs, ctx_tokens, reqs, tokens = map(int, _NUMBERS.findall(shape))
    if max(ctx_reqs, ctx_tokens, reqs, tokens) > _MAX_COUNT:
        return "a count beyond 2**31"
    if ctx_reqs + ctx_tokens + reqs + tokens == 0:
        return _NO_TOKENS
    if (not ctx_reqs and ctx_tokens) or (not reqs and tokens):
        return "tokens without requests"
    if ctx_tokens < ctx_reqs or tokens < reqs:
        return "fewer tokens than requests"
    if ctx_reqs:
        return ("mixed", ctx_tokens + tokens, 0)
    if tokens % reqs == 0:
        return ("uniform", tokens // reqs, reqs)
    return ("ragged", reqs, tokens)


def _median(buckets: dict[int, int]) -> float | None:
    """Median of a 1 % wide log-bucket count, microseconds; None if only zeros."""
    timed = {b: n for b, n in buckets.items() if b != _UNTIMED}
    half = sum(timed.values()) / 2
    seen = 0
    for bucket in sorted(timed):
        seen += timed[bucket]
        if seen >= half:
            return math.exp(bucket / 100)
    return None


def _int_list(text: bytes) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(b",") if x.strip())


def _plain_numbers(groups: tuple[bytes | None, ...]) -> list[float] | None:
    try:
        return [float((g or b"").replace(b",", b"")) for g in groups]
    except ValueError:
        return None


def _keep_max(values: dict[str, float], key: str, value: float) -> None:
    """Ranks differ a little; the largest is the one that must fit."""
    values[key] = max(value, values.get(key, value))


def _finish_start(start: _Start) -> StartupRecord:
    def gib(name: str) -> int | None:
        value = start.values.get(name)
        return None if value is None else round(value * GIB)

    def whole(name: str) -> int | None:
        value = start.values.get(name)
        return None if value is None else int(value)

    return StartupRecord(
        graph_seconds=start.values.get("graph_seconds"),
        graph_bytes=gib("graph_gib"),
        num_graphs=dict(start.num_graphs),
        pool_bytes_estimated=gib("pool_estimated_gib"),
        kv_bytes=gib("kv_gib"),
        kv_tokens=whole("kv_tokens"),
        max_model_len=whole("max_model_len"),
        capture_sizes=start.capture_sizes,
        version=start.version,
        line=start.line,
    )
