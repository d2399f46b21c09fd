# SPDX-License-Identifier: Apache-2.0
"""What a given plan does to the batches of the report's server."""

from __future__ import annotations

import shlex
from typing import Any

from specgrid import ConfigError, GraphSet, Schedule
from specgrid._coverage import Coverage
from specgrid.cli._analysis import Analysis
from specgrid.cli._report.diff import diff
from specgrid.cli._report.verdict import summary

_POLICIES = {"union": "vllm-0.33", "per-query-length": "per-query-length"}


def with_plan(
    analysis: Analysis, coverage: Coverage | None, plan: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The document's ``plan``, and the fix that pastes it.

    Args:
        analysis: the server.
        coverage: what serves its batches today.
        plan: as ``given.read_plan`` returns it.
    """
    problems = _problems(analysis, plan["server"])
    after = None if problems else _covered(analysis, plan["plan"])
    found = dict(plan) | {"problems": problems, "diff": None}
    if problems:
        return found, None
    if plan["before"] is not None and plan["server"]["sizes"] != analysis.runner_sizes:
        found["before"] = found["default"] = None
        found["notes"] = [
            *plan["notes"],
            "It was made beside other capture sizes than this server has, so what it "
            "says of today is left out; make it again with this server's settings.",
        ]
    if isinstance(after, Coverage):
        result = summary(after)
        if coverage is not None:
            found["diff"] = diff(coverage, after)
    else:
        result = _keyed(analysis, plan["plan"]["graphs"])
    needs = "In place of any capture sizes set so far."
    if plan["plan"]["dispatcher"] != "union":
        needs = "With the specgrid plug-in beside vLLM. " + needs
    fix = {
        "title": "With this plan",
        "needs": needs,
        "flags": _lines(plan["plan"]["args"]),
        "result": result,
    }
    return found, fix


def _lines(args: list[str]) -> list[str]:
    """Arguments as lines to paste, a flag each."""
    lines: list[list[str]] = []
    for word in args:
        if word.startswith("--") or not lines:
            lines.append([])
        lines[-1].append(word)
    return [shlex.join(line) for line in lines]


def _problems(analysis: Analysis, server: dict[str, Any]) -> list[str]:
    """Why a plan is not of this server; empty when it is."""
    config = analysis.config
    found = [
        f"it was made for {name} {server[name]}, this server has "
        f"{getattr(config, name)}"
        for name in ("max_num_seqs", "num_speculative_tokens", "max_num_batched_tokens")
        if server[name] != getattr(config, name)
    ]
    try:
        schedule = None if server["schedule"] is None else Schedule(server["schedule"])
    except ValueError as error:
        return [*found, f"its schedule is invalid: {error}"]
    if schedule != analysis.schedule:
        found.append("it was made for another schedule")
    return found


def _covered(analysis: Analysis, plan: dict[str, Any]) -> Coverage | None:
    policy = _POLICIES.get(plan["dispatcher"])
    if policy is None or not plan["sizes"]:
        return None
    config = analysis.config
    try:
        return GraphSet(
            plan["sizes"],
            max_num_seqs=config.max_num_seqs,
            num_speculative_tokens=config.num_speculative_tokens,
            schedule=analysis.schedule,
            mode=config.cudagraph_mode,
            lora_cases=config.lora_cases,
            policy=policy,
        ).coverage()
    except ConfigError as error:
        raise ConfigError(
            f"the plan cannot be laid over this server: {error}"
        ) from None


def _keyed(analysis: Analysis, graphs: list[list[int]]) -> dict[str, int]:
    """Coverage of graphs keyed by query length and requests."""
    missed: set[int] = set()
    used = 0
    for tier in analysis.tiers:
        ladder = sorted(n for q, n in graphs if q == tier.query_len)
        reach = ladder[-1] if ladder else 0
        first = max(reach + 1, tier.min_batch)
        missed |= set(range(first, tier.max_batch + 1))
        below = [n for n in ladder if n < tier.min_batch]
        used += len(ladder) - len(below)
    batches = analysis.config.max_num_seqs
    return {
        "batches": batches,
        "full": batches - len(missed),
        "piecewise": 0,
        "eager": len(missed),
        "missed": len(missed),
        "graphs": len(graphs),
        "unused": len(graphs) - used,
    }
