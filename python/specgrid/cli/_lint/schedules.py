# SPDX-License-Identifier: Apache-2.0
"""Checks of schedules that do not do what they say."""

from __future__ import annotations

from collections.abc import Iterator

from specgrid.cli._analysis import join_ranges
from specgrid.cli._lint.finding import Finding, Subject
from specgrid.cli._output import ranges_text


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


def schedule_without_drafts(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None or analysis.schedule_status != "ignored":
        return
    assert analysis.schedule is not None
    most = max(row[4] for row in analysis.schedule.rows)
    advice = f"--spec-tokens {most} with your method and drafter, or " if most else ""
    yield Finding(
        "schedule-without-drafts",
        "warning",
        "the schedule has no effect: num_speculative_tokens is not given, so there is "
        "nothing it could choose",
        advice + "drop the schedule",
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
