# SPDX-License-Identifier: Apache-2.0
"""What a shown plan's numbers rest on, and the mark of those nobody measured."""

from __future__ import annotations

from specgrid.cli._report.bound import Bound

_STEPS = ("workload", "FULL step", "PIECEWISE step", "eager step")
#: Numbers of a plan -> the sources each rests on, as ``data.sources`` names them.
_RESTS_ON = {
    "mean_step_us": _STEPS,
    "full_share": ("workload",),
    "piecewise_share": ("workload",),
    "eager_share": ("workload",),
    "padding": ("workload",),
    "load": ("workload",),
    "graph_bytes": ("graph memory",),
    "graph_seconds": ("capture time",),
    "kv_tokens": ("graph memory",),
}
#: All of those names.
SOURCES = (*_STEPS, "graph memory", "capture time")


def is_assumed(page: Bound, key: str) -> bool:
    """Whether a number of the plan rests on something that was not measured."""
    assumed = {s["name"] for s in page.at("plan.data.sources") if s["assumed"]}
    return not assumed.isdisjoint(_RESTS_ON.get(key, ()))


def mark(page: Bound, key: str) -> str:
    """What to write behind the name of such a number."""
    return " (assumed)" if is_assumed(page, key) else ""
