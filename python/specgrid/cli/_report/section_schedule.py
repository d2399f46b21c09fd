# SPDX-License-Identifier: Apache-2.0
"""The schedule in force as a map: draft tokens by batch and context."""

from __future__ import annotations

from typing import Any

from specgrid.cli._charts import heat
from specgrid.cli._report.bound import Bound
from specgrid.cli._report.html import Element, el
from specgrid.cli._report.pictures import picture


def build(page: Bound) -> list[Element]:
    """The section; none without a schedule in force."""
    schedule = page.at("schedule")
    if schedule is None:
        return []
    return [
        el(
            "section",
            el("h2", "How many tokens are drafted"),
            el(
                "p",
                "Draft tokens K of a step by the number of its requests",
                _by(schedule),
            ),
            picture("drafts", label(schedule), lambda w: heat.draw_drafts(schedule, w))
            if heat.can_draw(schedule)
            else el("p", "Too many ranges to draw; the JSON has all.", class_="note"),
        )
    ]


def _by(schedule: dict[str, Any]) -> str:
    if len(schedule["contexts"]) == 1:
        return ", whatever their context."
    return " and the context they have."


def label(schedule: dict[str, Any]) -> str:
    """The map in words."""
    parts = []
    for (lo, hi), line in zip(schedule["contexts"], schedule["drafts"], strict=True):
        where = "" if len(schedule["contexts"]) == 1 else f"context {lo} to {hi}: "
        cells = [
            f"batches {a} to {b} draft {k}"
            for (a, b), k in zip(schedule["batches"][:32], line[:32], strict=True)
        ]
        parts.append(where + ", ".join(cells))
    return "Draft tokens. " + "; ".join(parts[:16])
