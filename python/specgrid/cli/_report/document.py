# SPDX-License-Identifier: Apache-2.0
"""The report as JSON values (docs/report.md); the page shows these and nothing else."""

from __future__ import annotations

from typing import Any

from specgrid._version import __version__
from specgrid.cli._analysis import Analysis
from specgrid.cli._report.coverage import coverage_document, num_hidden
from specgrid.cli._report.diff import compare
from specgrid.cli._report.fixes import fixes
from specgrid.cli._report.plan_document import with_plan
from specgrid.cli._report.verdict import headline, policy_in_force
from specgrid.cli.explain import to_document as explain_document
from specgrid.cli.lint import lint
from specgrid.cli.lint import to_document as lint_document
from specgrid.io._vllm_flags import VLLM_VERSION

SCHEMA_VERSION = 1


def to_document(
    analysis: Analysis,
    title: str | None = None,
    before: tuple[str, Analysis] | None = None,
    plan: dict[str, Any] | None = None,
    tuned: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything the page shows about one configuration.

    Args:
        analysis: the server.
        title: what to call it; the model when not given.
        before: name and analysis of a configuration to compare it with.
        plan: a plan, as ``given.read_plan`` returns it.
        tuned: a tuned schedule, as ``given.read_tuned`` returns it.
    """
    coverage = analysis.policies.get(policy_in_force(analysis), analysis.coverage)
    covered = None if coverage is None else coverage_document(coverage)
    found = fixes(analysis)
    if plan is not None:
        plan, fix = with_plan(analysis, coverage, plan)
        found = ([] if fix is None else [fix]) + found
    return {
        "schema": "specgrid.report",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "title": title or analysis.config.model or "vLLM server",
        "headline": headline(analysis, coverage, num_hidden(covered), found),
        "fixes": found,
        "explain": explain_document(analysis),
        "lint": lint_document(lint(analysis.config), 0),
        "coverage": covered,
        "schedule": _schedule(analysis),
        "compare": None if before is None else compare(before[1], analysis, before[0]),
        "plan": plan,
        "tuned": tuned,
    }


def _schedule(analysis: Analysis) -> dict[str, Any] | None:
    """K by batch and context, for the map; None where one K holds throughout."""
    if analysis.schedule is None or analysis.schedule_status != "in force":
        return None
    config = analysis.config
    lookup = analysis.schedule.lookup(
        config.max_num_seqs, config.num_speculative_tokens
    )
    contexts = lookup.context_ranges
    batches: list[list[int]] = []
    drafts: list[list[int]] = []
    starts = sorted({lo for lo, _ in _batch_ranges(analysis) if lo <= len(lookup) - 1})
    for start, after in zip(starts, [*starts[1:], len(lookup)], strict=True):
        line = [int(lookup[start, c[0]]) for c in contexts]
        if drafts and drafts[-1] == line:
            batches[-1][1] = after - 1
        else:
            batches.append([start, after - 1])
            drafts.append(line)
    return {
        "batches": batches,
        "contexts": [list(c) for c in contexts],
        "drafts": [list(column) for column in zip(*drafts, strict=True)],
    }


def _batch_ranges(analysis: Analysis) -> list[tuple[int, int]]:
    assert analysis.schedule is not None
    return [(lo, hi) for lo, hi in analysis.schedule.batch_ranges]
