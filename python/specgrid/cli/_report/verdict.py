# SPDX-License-Identifier: Apache-2.0
"""The first lines of the page: is this server losing graphs, and how many."""

from __future__ import annotations

from typing import Any

from specgrid._coverage import Coverage
from specgrid.cli._analysis import POLICIES, Analysis


def policy_in_force(analysis: Analysis) -> str:
    """vLLM's own dispatch, or the policy the settings ask the plug-in for."""
    asked = analysis.config.plugin.get("policy")
    return asked if asked in POLICIES else POLICIES[0]


def summary(coverage: Coverage) -> dict[str, int]:
    """The numbers of one coverage that the page compares."""
    return {
        "batches": coverage.graph_set.max_num_seqs,
        "full": coverage.counts["FULL"],
        "piecewise": coverage.counts["PIECEWISE"],
        "eager": coverage.counts["NONE"],
        "missed": len(coverage.missed),
        "graphs": coverage.graph_set.count("FULL"),
        "unused": len(coverage.unreachable),
    }


def headline(
    analysis: Analysis,
    coverage: Coverage | None,
    num_hidden: int,
    fixes: list[dict[str, Any]],
) -> dict[str, Any]:
    """Verdict, sentence, and the numbers before and after the first fix.

    Args:
        analysis: the server.
        coverage: under the policy in force; None where not known.
        num_hidden: batches whose own graph is captured and hidden.
        fixes: what can be pasted, the best first.
    """
    before = None if coverage is None else summary(coverage)
    verdict, sentence, why = _judge(analysis, coverage, num_hidden)
    return {
        "verdict": verdict,
        "sentence": sentence,
        "why": why,
        "policy": policy_in_force(analysis),
        "before": before,
        "after": fixes[0]["result"] if fixes else None,
    }


def _judge(
    analysis: Analysis, coverage: Coverage | None, num_hidden: int
) -> tuple[str, str, str]:
    config = analysis.config
    if analysis.schedule_status == "invalid":
        return (
            "invalid",
            "vLLM will fail on this schedule.",
            analysis.schedule_reason,
        )
    if coverage is None:
        if analysis.sizes is None:
            return (
                "off",
                "CUDA graphs are off: every decode batch runs eager.",
                f"cudagraph_mode is {config.cudagraph_mode}.",
            )
        return (
            "unknown",
            "Too many batches to look at one by one.",
            "The capture sizes below are exact; the coverage of single batches is not "
            "worked out.",
        )
    now = summary(coverage)
    if "FULL" not in config.cudagraph_mode:
        return (
            "piecewise",
            "No decode batch gets a FULL graph.",
            f"cudagraph_mode is {config.cudagraph_mode}.",
        )
    batches, missed, unused = now["batches"], now["missed"], now["unused"]
    if missed:
        why = _where_to(now, num_hidden)
        if unused:
            why += (
                f" {unused:,} of {now['graphs']:,} FULL graphs serve no batch at all."
            )
        verb = "loses its" if missed == 1 else "lose their"
        return (
            "losing",
            f"{missed:,} of {batches:,} decode batches {verb} graph.",
            why,
        )
    if unused:
        return (
            "unused",
            f"Every decode batch has its graph; {unused:,} of "
            f"{now['graphs']:,} graphs {'is' if unused == 1 else 'are'} never "
            "used.",
            "They cost memory and start-up time, and no decode batch of this schedule "
            "can replay them.",
        )
    return (
        "complete",
        "Every decode batch has its graph.",
        f"{now['graphs']:,} FULL graphs are captured and each of them is used.",
    )


def _where_to(now: dict[str, int], hidden: int) -> str:
    """What the missed batches get instead, and why."""
    piecewise, eager = now["piecewise"], now["eager"]
    if piecewise and eager:
        why = f"{piecewise:,} drop to PIECEWISE and {eager:,} run eager."
    else:
        why = "They drop to PIECEWISE." if piecewise else "They run eager."
    if hidden:
        who = "their" if hidden == now["missed"] else f"for {hidden:,} of them their"
        why = (
            f"{why[:-1]}: {who} own graph is captured, but dispatch passes it over for "
            "one of another query length (vLLM #56136)."
        )
    return why
