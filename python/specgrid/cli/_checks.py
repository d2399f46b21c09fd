# SPDX-License-Identifier: Apache-2.0
"""The findings of ``specgrid lint``: one function a finding, each with its evidence.

A check looks at an Analysis and yields findings; it prints nothing and decides nothing
about exit status. Costs are only those somebody measured and published, with the number
of the report. Every id has a section in docs/lint.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specgrid import ConfigError, Coverage
from specgrid.cli._analysis import Analysis, Stretch, join_ranges, stretches
from specgrid.cli._fixes import covering_flags
from specgrid.cli._output import ranges_text
from specgrid.io.vllm_config import ServeConfig

Severity = Literal["error", "warning", "info"]
Batches: TypeAlias = tuple[tuple[int, int, int], ...]

PLUGIN_FIX = '--additional-config \'{"specgrid": {"policy": "reachable"}}\''


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


def count_batches(batches: Batches) -> int:
    """How many (query length, batch) pairs the ranges hold."""
    return sum(hi - lo + 1 for _, lo, hi in batches)


def _plural(number: int, noun: str, verb: str) -> str:
    """
    >>> _plural(1, "decode batch", "have"), _plural(2, "decode batch", "have")
    ('1 decode batch has', '2 decode batches have')
    """
    singular = {"have": "has", "drop": "drops", "run": "runs"}[verb]
    return f"1 {noun} {singular}" if number == 1 else f"{number} {noun}es {verb}"


# -- what vLLM refuses --------------------------------------------------------------


def list_and_maximum_disagree(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    sizes, largest = config.cudagraph_capture_sizes, config.max_cudagraph_capture_size
    if not config.graphs_enabled or not sizes or largest is None:
        return
    tokens = config.max_num_batched_tokens
    kept = max((s for s in sizes if s <= tokens), default=0)
    if kept == largest:
        return
    if max(sizes) == largest:
        message = (
            f"the list and the maximum agree as typed ({largest}), but "
            f"max_num_batched_tokens {tokens} drops every size above it, the list ends "
            f"at {kept}, and vLLM refuses to start"
        )
        fix = (
            f"--max-num-batched-tokens {largest}, or drop --max-cudagraph-capture-size"
        )
    else:
        message = (
            f"max_cudagraph_capture_size {largest} is not the last size the list "
            f"leaves, {kept}, and vLLM refuses to start"
        )
        fix = "drop --max-cudagraph-capture-size; the list's last size is the maximum"
    yield Finding("list-and-maximum-disagree", "error", message, fix)


def refused_sizes(subject: Subject) -> Iterator[Finding]:
    if subject.refusal and not any(list_and_maximum_disagree(subject)):
        what, _, fix = subject.refusal.rpartition("; ")
        yield Finding(
            "refused-sizes",
            "error",
            f"vLLM refuses to start: {what or subject.refusal}",
            fix if what else "change the capture sizes",
        )


def schedule_empty(subject: Subject) -> Iterator[Finding]:
    schedule = subject.config.effective_schedule
    if isinstance(schedule, list) and not schedule:
        yield Finding(
            "schedule-empty",
            "error",
            "the schedule is an empty list: graph planning takes it for a schedule, "
            "the scheduler for none, and start-up fails between the two",
            "drop num_speculative_tokens_per_batch_size, or give it rows such as "
            f"[[1, {subject.config.max_num_seqs}, "
            f"{subject.config.num_speculative_tokens}]]",
        )


def schedule_invalid(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.schedule_status != "invalid":
        return
    if analysis.config.effective_schedule == []:
        return
    what, _, fix = analysis.schedule_reason.rpartition("; ")
    yield Finding(
        "schedule-invalid",
        "error",
        "vLLM fails on this schedule, after having planned graphs without it: "
        + (what or analysis.schedule_reason),
        fix if what else "correct the row named",
    )


def context_schedule_unsupported(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    rows = config.effective_schedule
    if rows is None or "speculative" not in config.setting("schedule").detail:
        return
    if isinstance(rows, list) and any(
        isinstance(row, (list, tuple)) and len(row) == 5 for row in rows
    ):
        yield Finding(
            "context-schedule-unsupported",
            "error",
            "vLLM 0.33.0 takes (first, last, k) rows only and fails on rows with "
            "context ranges",
            '--additional-config \'{"specgrid": {"schedule": [...]}}\' with the '
            "specgrid plug-in, or a vLLM that has #48944",
            reference=("vLLM #48944",),
        )


def json_replaced(subject: Subject) -> Iterator[Finding]:
    for text in subject.config.replaced:
        what, _, fix = text.rpartition(". ")
        yield Finding("json-replaced", "error", what, fix.rstrip("."))


def unknown_flag(subject: Subject) -> Iterator[Finding]:
    flags = subject.config.unknown_flags
    if flags:
        yield Finding(
            "unknown-flag",
            "warning",
            "vLLM 0.33.0 does not know, and stops at: " + ", ".join(flags[:20]),
            "correct or drop " + ("it" if len(flags) == 1 else "them"),
        )


# -- batches without a graph --------------------------------------------------------


def decode_without_graph(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or not subject.config.graphs_enabled:
        return
    if analysis.coverage is None:
        yield from _uncovered_tiers(analysis)
        return
    lost = [
        s
        for s in subject.stretches
        if s.mode == "NONE" or (s.mode == "PIECEWISE" and subject.decodes_full)
    ]
    lost = [s for s in lost if not s.hidden]
    if not lost:
        return
    batches = batches_of(lost)
    eager = any(s.mode == "NONE" for s in lost)
    cost, reference = _cost_of_no_graph(subject.config)
    kind = "no graph" if eager else "no FULL graph"
    number = count_batches(batches)
    yield Finding(
        "decode-without-graph",
        "error" if eager and subject.config.is_given("max_num_seqs") else "warning",
        f"{_plural(number, 'decode batch', 'have')} {kind}: {batches_text(batches)}; "
        + _why_no_graph(analysis),
        _covering_text(analysis),
        batches,
        cost,
        reference,
    )


def _why_no_graph(analysis: Analysis) -> str:
    largest = 0 if analysis.sizes is None else analysis.sizes.max_size
    widest = analysis.sufficient_max
    if largest >= widest:
        return f"no captured size makes a FULL graph for them, up to {widest} tokens"
    return (
        f"the largest capture size is {largest} tokens, the widest batch has {widest}"
    )


def _uncovered_tiers(analysis: Analysis) -> Iterator[Finding]:
    sizes = analysis.sizes
    assert sizes is not None
    lost = tuple(
        (t.query_len, sizes.covered_batch(t) + 1, last)
        for t in analysis.tiers
        if sizes.covered_batch(t) < (last := analysis.schedulable(t))
    )
    if lost:
        yield Finding(
            "decode-without-graph",
            "error",
            f"decode batches beyond the largest capture size, {sizes.max_size} tokens: "
            f"{batches_text(lost)}",
            _covering_text(analysis),
            lost,
        )


def _cost_of_no_graph(config: ServeConfig) -> tuple[str, tuple[str, ...]]:
    if config.num_speculative_tokens == 0:
        return (
            "about 7.5 times slower decode where the widest batches ran eager "
            "(Ascend, 12 and 20 requests)",
            ("vllm-ascend #16049",),
        )
    if config.max_cudagraph_capture_size is not None:
        return (
            "25.3 instead of 133.3 tok/s and TTFT 26.0 instead of 0.84 s where one "
            "batch of six requests lost its graph (2 DGX Spark)",
            ("vLLM #54933",),
        )
    if config.cudagraph_mode == "FULL_DECODE_ONLY":
        return (
            "throughput 3 to 4 times lower once more sequences ran than were covered",
            ("vllm-ascend #14440",),
        )
    return (
        "1127 against 7559 tok/s at 64 requests with 7 drafts, captured up to 512 "
        "against 1024 tokens (B300)",
        ("vLLM #49390",),
    )


def _covering_text(analysis: Analysis) -> str:
    config = analysis.config
    needed = analysis.sufficient_max
    proposal = covering_flags(analysis)
    if proposal is None:
        text = "specgrid plan, for graphs within a memory budget"
        reach = _reach(analysis)
        return f"lower --max-num-seqs to {reach}, or {text}" if reach else text
    text = proposal.flags
    given = [
        config.setting(name).detail
        for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
        if config.is_given(name)
    ]
    replaced = [detail for detail in given if detail != text.split()[0]]
    if replaced:
        text += f" (in place of {' and '.join(replaced)})"
    if proposal.missed:
        text += f"; {proposal.missed} batches remain without a FULL graph"
    if needed > 2 * config.platform_ceiling:
        text += (
            "; graphs this large may not fit (6400 tokens ran out of memory on an "
            "H200, vLLM #54418)"
        )
        if reach := _reach(analysis):
            text += f", else lower --max-num-seqs to {reach}"
    return text


def _reach(analysis: Analysis) -> int:
    """Requests all of whose decode batches are covered; 0 where a schedule decides."""
    if len(analysis.tiers) != 1 or analysis.sizes is None:
        return 0
    return analysis.sizes.covered_batch(analysis.tiers[0])


def maximum_truncated(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.sizes is None:
        return
    if any(maximum_in_requests(subject)):
        return
    asked = subject.config.max_cudagraph_capture_size
    for note in analysis.sizes.notes:
        if note.kind != "truncated":
            continue
        lost = f"; batches {batches_text(note.batches)} lose their graph by it"
        yield Finding(
            "maximum-truncated",
            "error" if note.batches else "warning",
            f"max_cudagraph_capture_size {asked} becomes {analysis.sizes.max_size}: "
            "the list under an explicit maximum is the token grid without the decode "
            "sizes" + (lost if note.batches else ""),
            _covering_text(analysis)
            if note.batches
            else _grid_steps(analysis.sizes.max_size),
            note.batches,
            "25.3 instead of 133.3 tok/s for 42 lowered to 40 (2 DGX Spark)"
            if note.batches
            else "",
            ("vLLM #54933", "vLLM #37865", "vLLM #55004"),
        )


def _grid_steps(size: int) -> str:
    """The maximum in force and the next one vLLM's token grid has."""
    step = 8 if size < 256 else 16
    after = {1: 2, 2: 4, 4: 8}.get(size, (size // step + 1) * step)
    flag = "--max-cudagraph-capture-size"
    return f"{flag} {after}, the next step of the grid, or {size}, as it is"


def maximum_in_requests(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    if analysis is None or analysis.sizes is None:
        return
    sizes, largest = config.cudagraph_capture_sizes, config.max_cudagraph_capture_size
    name = "max_cudagraph_capture_size"
    if largest is None and sizes:
        name, largest = "the last of cudagraph_capture_sizes", max(sizes)
    widest = max(t.query_len for t in analysis.tiers)
    needed = analysis.sufficient_max
    if largest != config.max_num_seqs or widest == 1 or needed <= largest:
        return
    given = "cudagraph_capture_sizes" if sizes else "max_cudagraph_capture_size"
    if not config.is_given(given):
        return
    yield Finding(
        "maximum-in-requests",
        "error",
        f"{name} is {largest}, the number of requests, but it counts tokens: a decode "
        f"batch has up to {widest} tokens a request, {needed} in all",
        _covering_text(analysis),
        cost="a second request dropped to under 1 tok/s with 6 in place of 24 "
        "(2 DGX Spark)",
        reference=("tonyd2wild DeepSeek-v4 2x-DGX-Spark recipe, pull request 5",),
    )


def last_size_off_widest_tier(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    explicit = (
        config.cudagraph_capture_sizes is not None
        or config.max_cudagraph_capture_size is not None
    )
    if analysis is None or analysis.sizes is None or not analysis.sizes.sizes:
        return
    tier = max(analysis.tiers, key=lambda t: t.query_len * t.max_batch)
    largest, q = analysis.sizes.max_size, tier.query_len
    if not explicit or not subject.decodes_full or largest % q == 0:
        return
    within = min(largest // q, analysis.schedulable(tier))
    covered = analysis.sizes.covered_batch(tier)
    lost = ((q, covered + 1, within),) if covered < within else ()
    if not lost and largest // q >= analysis.schedulable(tier):
        return
    up = -(-largest // q) * q
    message = (
        f"the last size, {largest}, is no multiple of {q}, the query length of the "
        f"widest batch: a FULL graph of {up} tokens would pass the maximum and is not "
        "captured"
    )
    if lost:
        message += f", so batches {batches_text(lost)} have none"
    best = min(up, q * analysis.schedulable(tier))
    sizes = [*(s for s in analysis.sizes.sizes if s != largest), best]
    listed = "--cudagraph-capture-sizes " + " ".join(map(str, sizes))
    yield Finding(
        "last-size-off-widest-tier",
        "warning" if lost else "info",
        message,
        listed
        if config.cudagraph_capture_sizes is not None
        else _covering_text(analysis),
        lost,
        reference=("vLLM #54933",),
    )


def token_budget_below_decode(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None:
        return
    short = tuple(
        (t.query_len, analysis.schedulable(t) + 1, t.max_batch)
        for t in analysis.tiers
        if analysis.schedulable(t) < t.max_batch
    )
    if short:
        needed = max(t.query_len * t.max_batch for t in analysis.tiers)
        yield Finding(
            "token-budget-below-decode",
            "warning",
            f"max_num_batched_tokens {subject.config.max_num_batched_tokens} is too "
            f"small for decode batches {batches_text(short)}: they never run, and "
            "graphs for them are never used",
            f"--max-num-batched-tokens {needed}",
            short,
            reference=("InferenceX #2444",),
        )


# -- lists -------------------------------------------------------------------------


def sizes_not_multiples(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    sizes = config.cudagraph_capture_sizes
    q = 1 + config.num_speculative_tokens
    if analysis is None or analysis.sizes is None or sizes is None or q == 1:
        return
    if config.model_runner != "V1" or not subject.decodes_full:
        return
    off = [s for s in analysis.sizes.sizes if s % q]
    if off:
        yield Finding(
            "sizes-not-multiples",
            "warning",
            f"the V1 model runner rounds sizes up to multiples of {q} and drops what "
            f"then passes {analysis.sizes.max_size}: {ranges_text(_points(off))} do "
            f"not stay, and {ranges_text(_points(analysis.runner_sizes))} are captured",
            "--cudagraph-capture-sizes "
            + " ".join(str(s) for s in _multiples(off, analysis.sizes.sizes, q)),
            cost="about every second decode batch ran attention eagerly at query "
            "length 3",
            reference=("vLLM #52000", "vLLM #28015", "vLLM #28207"),
        )


def _multiples(off: list[int], sizes: list[int], q: int) -> list[int]:
    return sorted({-(-s // q) * q for s in {*off, *sizes}})


def _points(sizes: list[int]) -> list[tuple[int, int]]:
    return [(s, s) for s in sizes]


def compile_sizes_padded(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    if analysis is None or analysis.sizes is None or not config.compile_sizes:
        return
    sizes = set(analysis.runner_sizes)
    largest = max(sizes, default=0)
    wanted = {s for s in config.compile_sizes if isinstance(s, int)}
    if "cudagraph_capture_sizes" in config.compile_sizes:
        wanted |= set(analysis.sizes.sizes)
    padded = sorted(s for s in wanted if s <= largest and s not in sizes)
    if not padded:
        return
    v1 = config.model_runner == "V1"
    what = "and the V1 model runner refuses to start" if v1 else "so they never run"
    keep = sorted(s for s in wanted if s in sizes or s > largest)
    because = (
        f" (sizes are rounded to multiples of {1 + config.num_speculative_tokens})"
        if analysis.runner_sizes != analysis.sizes.sizes
        else ""
    )
    yield Finding(
        "compile-sizes-padded",
        "error" if v1 else "warning",
        f"compile_sizes {ranges_text(_points(padded))} are not captured{because}: "
        f"steps of that size are padded to another one, {what}",
        f"-cc.compile_sizes={keep}",
        reference=("vLLM #49548", "vLLM #49549"),
    )


# -- schedules ---------------------------------------------------------------------


def schedule_with_data_parallel(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    if config.schedule is not None and config.data_parallel_size > 1:
        yield Finding(
            "schedule-with-data-parallel",
            "warning",
            f"vLLM drops the schedule with data_parallel_size "
            f"{config.data_parallel_size} and drafts "
            f"{config.num_speculative_tokens} tokens at every batch",
            f"--data-parallel-size 1 (and {config.data_parallel_size} servers behind "
            "a balancer), or drop the schedule",
            reference=("vLLM #45963",),
        )


def schedule_on_v1(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    if (
        config.schedule is None
        or config.model_runner != "V1"
        or config.data_parallel_size > 1
    ):
        return
    setting = config.setting("model_runner")
    why = "" if setting.source == "given" else f" ({setting.detail})"
    fix = (
        "VLLM_USE_V2_MODEL_RUNNER=1"
        if setting.source == "given"
        else "use a method the V2 runner supports, or drop the schedule"
    )
    if config.schedule_dropped:
        yield Finding(
            "schedule-on-v1",
            "warning",
            f"{config.schedule_dropped}{why}: it is dropped, and "
            f"{config.num_speculative_tokens} tokens are drafted at every batch",
            fix,
        )
    elif "V1 model runner lowers" in config.setting("cudagraph_mode").detail:
        yield Finding(
            "schedule-on-v1",
            "warning",
            f"the V1 model runner{why} has one query length: with a schedule FULL "
            "graphs are switched off and every decode batch runs PIECEWISE",
            fix,
            cost="107 with the schedule against 333 tok/s without it (Ascend, padding "
            "off; 368 with padding restored)",
            reference=("vllm-ascend #16637",),
        )


def schedule_constant(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.schedule_status != "in force":
        return
    if len(analysis.tiers) != 1:
        return
    k = analysis.tiers[0].k
    if k == 0:
        yield Finding(
            "schedule-constant",
            "warning",
            "the schedule never drafts at any batch up to max_num_seqs "
            f"{analysis.config.max_num_seqs}: the drafter is loaded, runs and holds "
            "memory for nothing",
            "drop --speculative-config",
            cost="+6.56 % step time at batch 2 to +21.58 % at batch 189, and 10.6 % of "
            "the KV pool (V1 runner)",
            reference=("vLLM #51575", "vLLM #52087"),
        )
    else:
        yield Finding(
            "schedule-constant",
            "warning",
            f"the schedule drafts {k} tokens at every batch up to max_num_seqs "
            f"{analysis.config.max_num_seqs}: it changes nothing and switches off what "
            "vLLM only does for one draft length (padding of fresh requests, data "
            "parallelism)",
            f"drop num_speculative_tokens_per_batch_size; "
            f"--speculative-config.num_speculative_tokens {k}",
            reference=("vLLM #52087",),
        )


def drafts_above_maximum(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.schedule_status != "in force":
        return
    assert analysis.schedule is not None
    most = analysis.config.num_speculative_tokens
    over = [row for row in analysis.schedule.rows if row[4] > most]
    if over:
        largest = max(row[4] for row in over)
        spans = join_ranges([(row[0], row[1]) for row in over])
        yield Finding(
            "drafts-above-maximum",
            "warning",
            f"the schedule asks for up to {largest} drafts (batches "
            f"{ranges_text(spans)}), num_speculative_tokens is {most}: vLLM drafts "
            f"{most} there without saying so",
            f"--speculative-config.num_speculative_tokens {largest}, or write {most} "
            "in the schedule",
        )


def batches_beyond_max_num_seqs(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.schedule_status != "in force":
        return
    assert analysis.schedule is not None
    seqs = analysis.config.max_num_seqs
    beyond = [span for span in analysis.schedule.batch_ranges if span[0] > seqs]
    if beyond:
        yield Finding(
            "batches-beyond-max-num-seqs",
            "warning",
            f"schedule ranges {ranges_text(beyond)} begin above max_num_seqs {seqs} "
            "and are never used",
            f"--max-num-seqs {beyond[-1][1]}, or drop the ranges"
            if beyond[-1][1] < 2**31 - 1
            else "drop the ranges, or raise --max-num-seqs",
        )


# -- graphs ------------------------------------------------------------------------


def hidden_graphs(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None:
        return
    hidden = [s for s in subject.stretches if s.hidden and s.mode != "FULL"]
    if not hidden:
        return
    batches = batches_of(hidden)
    eager = any(s.mode == "NONE" for s in hidden)
    number = count_batches(batches)
    fate = (
        _plural(number, "decode batch", "run") + " without any graph"
        if eager
        else _plural(number, "decode batch", "drop") + " to PIECEWISE"
    )
    yield Finding(
        "hidden-graphs",
        "error" if eager else "warning",
        f"{fate} although a FULL graph of the same query length is captured: the "
        f"nearest token count belongs to another one ({batches_text(batches)})",
        f"{PLUGIN_FIX} (specgrid plug-in)",
        batches,
        "decode of 2000 tokens under 1000 tok/s a server where batches 97 to 100 ran "
        "PIECEWISE (B200 TP4)",
        ("vLLM #56136", "vLLM #57355"),
    )


def unreachable_graphs(subject: Subject) -> Iterator[Finding]:
    coverage = subject.coverage
    if coverage is None:
        return
    total = coverage.graph_set.count("FULL")
    unused = len(coverage.unreachable)
    if not unused:
        return
    share = unused / total
    yield Finding(
        "unreachable-graphs",
        "warning" if share >= 0.5 else "info",
        f"{unused} of {total} FULL graphs ({100 * share:.0f} %) can never be replayed: "
        "every query length is captured over every size",
        f"{PLUGIN_FIX} (specgrid plug-in)",
        cost="6 to 40 MiB and 0.05 to 0.4 s a graph in public reports",
        reference=("vLLM #50780", "vLLM #22897", "vLLM #11349"),
    )


#: id -> check, in the order of printing.
CHECKS: dict[str, Check] = {
    "list-and-maximum-disagree": list_and_maximum_disagree,
    "refused-sizes": refused_sizes,
    "schedule-empty": schedule_empty,
    "schedule-invalid": schedule_invalid,
    "context-schedule-unsupported": context_schedule_unsupported,
    "json-replaced": json_replaced,
    "maximum-in-requests": maximum_in_requests,
    "maximum-truncated": maximum_truncated,
    "decode-without-graph": decode_without_graph,
    "last-size-off-widest-tier": last_size_off_widest_tier,
    "token-budget-below-decode": token_budget_below_decode,
    "hidden-graphs": hidden_graphs,
    "unreachable-graphs": unreachable_graphs,
    "schedule-with-data-parallel": schedule_with_data_parallel,
    "schedule-on-v1": schedule_on_v1,
    "schedule-constant": schedule_constant,
    "drafts-above-maximum": drafts_above_maximum,
    "batches-beyond-max-num-seqs": batches_beyond_max_num_seqs,
    "sizes-not-multiples": sizes_not_multiples,
    "compile-sizes-padded": compile_sizes_padded,
    "unknown-flag": unknown_flag,
}


def examine(config: ServeConfig) -> Subject:
    """The analysis of a server, or why vLLM refuses to start with its sizes."""
    from specgrid.cli._analysis import analyse

    try:
        analysis = analyse(config)
        _ = analysis.runner_sizes, analysis.coverage
    except ConfigError as error:
        return Subject(config, None, str(error))
    return Subject(config, analysis)
