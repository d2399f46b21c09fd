# SPDX-License-Identifier: Apache-2.0
"""Checks for decode batches beyond the captured sizes, and for why they are."""

from __future__ import annotations

from collections.abc import Iterator

from specgrid.cli._analysis import Analysis
from specgrid.cli._fixes import MAX_SIZES_SHOWN, covering_text
from specgrid.cli._lint.finding import (
    Finding,
    Subject,
    batches_of,
    batches_text,
    batches_that,
    count_batches,
    plural,
)
from specgrid.io.vllm_config import ServeConfig

#: Beyond this a step is no real one; fewer requests are the way then.
MOST_TOKENS = 1 << 20


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
        f"{plural(number, 'decode batch', 'have')} {kind}: {batches_text(batches)}; "
        + _why_no_graph(analysis),
        covering_text(analysis),
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
            covering_text(analysis),
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
        lost = "; " + batches_that(
            note.batches, "loses its graph by it", "lose their graph by it"
        )
        yield Finding(
            "maximum-truncated",
            "error" if note.batches else "warning",
            f"max_cudagraph_capture_size {asked} becomes {analysis.sizes.max_size}: "
            "the list under an explicit maximum is the token grid without the decode "
            "sizes" + (lost if note.batches else ""),
            covering_text(analysis)
            if note.batches or any(decode_without_graph(subject))
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
        covering_text(analysis),
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
        message += f", so {batches_that(lost, 'has none', 'have none')}"
    best = min(up, q * analysis.schedulable(tier))
    sizes = [*(s for s in analysis.sizes.sizes if s != largest), best]
    listed = "--cudagraph-capture-sizes " + " ".join(map(str, sizes))
    short_enough = len(sizes) <= MAX_SIZES_SHOWN
    yield Finding(
        "last-size-off-widest-tier",
        "warning" if lost else "info",
        message,
        listed
        if config.cudagraph_capture_sizes is not None and short_enough
        else covering_text(analysis),
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
        reach = min(analysis.schedulable(t) for t in analysis.tiers)
        raised = f"--max-num-batched-tokens {needed}"
        lowered = f"--max-num-seqs {max(reach, 1)}"
        yield Finding(
            "token-budget-below-decode",
            "warning",
            f"max_num_batched_tokens {subject.config.max_num_batched_tokens} is too "
            f"small for decode batches {batches_text(short)}: they never run, and "
            "graphs for them are never used",
            raised if needed <= MOST_TOKENS else lowered,
            short,
            reference=("InferenceX #2444",),
        )
