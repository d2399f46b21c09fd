# SPDX-License-Identifier: Apache-2.0
"""What to paste: each fix tried through the dispatcher before it is offered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specgrid.cli._analysis import Analysis
from specgrid.cli._fixes import covering_flags
from specgrid.cli._report.verdict import policy_in_force, summary


def fixes(analysis: Analysis) -> list[dict[str, Any]]:
    """Fixes that leave fewer batches without a graph, or fewer useless graphs.

    Returns:
        title, flags (one a line), needs and result (a coverage summary) of each; the
        best first.
    """
    in_force = policy_in_force(analysis)
    now = analysis.policies.get(in_force)
    if now is None or "FULL" not in analysis.config.cudagraph_mode:
        return []
    before = summary(now)
    covering = covering_flags(analysis) if before["missed"] else None
    found = []
    wider = analysis if covering is None else covering.analysis
    reachable = wider.policies.get("reachable")
    if reachable is not None and in_force != "reachable":
        after = summary(reachable)
        if _better(after, before):
            flags = [plugin_flag(analysis.config.plugin)]
            if covering is not None:
                flags.insert(0, covering.flags)
            found.append(
                {
                    "title": "With the specgrid plug-in",
                    "needs": "pip install specgrid beside vLLM, nothing more.",
                    "flags": flags,
                    "result": after,
                }
            )
    if covering is not None and covering.analysis.coverage is not None:
        after = summary(covering.analysis.coverage)
        if _better(after, before):
            found.append(
                {
                    "title": "With capture sizes alone"
                    if analysis.config.plugin
                    else "With vLLM alone",
                    "needs": "In place of any capture sizes set so far.",
                    "flags": [covering.flags],
                    "result": after,
                }
            )
    return found


def plugin_flag(plugin: Mapping[str, Any]) -> str:
    """The flag that gives the plug-in policy "reachable", other keys kept."""
    settings = json.dumps({"specgrid": {**plugin, "policy": "reachable"}})
    quoted = settings.replace("'", "'\\''")
    return f"--additional-config '{quoted}'"


def _better(after: dict[str, int], before: dict[str, int]) -> bool:
    return (after["missed"], after["unused"]) < (before["missed"], before["unused"])
