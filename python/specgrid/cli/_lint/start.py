# SPDX-License-Identifier: Apache-2.0
"""Checks for what vLLM refuses, fails on later, or drops while reading flags."""

from __future__ import annotations

from collections.abc import Iterator

from specgrid.cli._lint.finding import Finding, Subject


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


def plugin_setting(subject: Subject) -> Iterator[Finding]:
    problems = subject.config.plugin_problems
    if problems:
        yield Finding(
            "plugin-setting",
            "warning",
            "the specgrid plug-in cannot use what --additional-config gives it: "
            + "; ".join(problems[:5]),
            "correct the settings named, or drop them",
        )


def unknown_flag(subject: Subject) -> Iterator[Finding]:
    flags = subject.config.unknown_flags
    if flags:
        yield Finding(
            "unknown-flag",
            "warning",
            "vLLM 0.33.0 does not know, and stops at: " + ", ".join(flags[:20]),
            "correct or drop " + ("it" if len(flags) == 1 else "them"),
        )
