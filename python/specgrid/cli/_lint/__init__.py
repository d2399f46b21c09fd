# SPDX-License-Identifier: Apache-2.0
"""The findings of ``specgrid lint``: one function a finding, each with its evidence.

A check looks at a Subject and yields findings; it prints nothing and decides nothing
about exit status. Costs are only those somebody measured and published, with the number
of the report. Every id has a section in findings.md and docs/lint.md.
"""

from __future__ import annotations

from dataclasses import replace

from specgrid import ConfigError
from specgrid.cli._analysis import analyse
from specgrid.cli._lint import graphs, lists, schedules, start, uncovered
from specgrid.cli._lint.finding import Check, Finding, Severity, Subject
from specgrid.io.vllm_config import ServeConfig

#: id -> check, in the order of printing.
CHECKS: dict[str, Check] = {
    "list-and-maximum-disagree": start.list_and_maximum_disagree,
    "refused-sizes": start.refused_sizes,
    "schedule-empty": start.schedule_empty,
    "schedule-invalid": start.schedule_invalid,
    "context-schedule-unsupported": start.context_schedule_unsupported,
    "json-replaced": start.json_replaced,
    "maximum-in-requests": uncovered.maximum_in_requests,
    "maximum-truncated": uncovered.maximum_truncated,
    "decode-without-graph": uncovered.decode_without_graph,
    "last-size-off-widest-tier": uncovered.last_size_off_widest_tier,
    "token-budget-below-decode": uncovered.token_budget_below_decode,
    "hidden-graphs": graphs.hidden_graphs,
    "unreachable-graphs": graphs.unreachable_graphs,
    "schedule-with-data-parallel": schedules.schedule_with_data_parallel,
    "schedule-on-v1": schedules.schedule_on_v1,
    "schedule-without-drafts": schedules.schedule_without_drafts,
    "schedule-constant": schedules.schedule_constant,
    "drafts-above-maximum": schedules.drafts_above_maximum,
    "batches-beyond-max-num-seqs": schedules.batches_beyond_max_num_seqs,
    "sizes-not-multiples": lists.sizes_not_multiples,
    "compile-sizes-padded": lists.compile_sizes_padded,
    "plugin-setting": start.plugin_setting,
    "unknown-flag": start.unknown_flag,
}


#: Findings that can have one cause and then one fix; the first most severe one stays.
_ONE_CAUSE = ("maximum-in-requests", "maximum-truncated", "decode-without-graph")


def join_causes(findings: list[Finding]) -> list[Finding]:
    """Leaves one finding where several offer the same fix for the same batches."""
    kept: dict[str, Finding] = {}
    for finding in findings:
        if finding.id not in _ONE_CAUSE:
            continue
        other = kept.get(finding.fix)
        if other is None:
            kept[finding.fix] = finding
        elif finding.severity == "error" and other.severity != "error":
            message = f"{finding.message} ({other.message})"
            kept[finding.fix] = replace(finding, message=message)
        else:
            batches = other.batches + tuple(
                b for b in finding.batches if b not in other.batches
            )
            kept[finding.fix] = replace(other, batches=batches)
    stay = {f.id: f for f in kept.values()}
    return [
        stay.get(f.id, f) for f in findings if f.id not in _ONE_CAUSE or f.id in stay
    ]


def examine(config: ServeConfig) -> Subject:
    """The analysis of a server, or why vLLM refuses to start with its sizes."""
    try:
        analysis = analyse(config)
        _ = analysis.runner_sizes, analysis.coverage
    except ConfigError as error:
        return Subject(config, None, str(error))
    return Subject(config, analysis)


__all__ = [
    "CHECKS",
    "Check",
    "Finding",
    "Severity",
    "Subject",
    "examine",
    "join_causes",
]
