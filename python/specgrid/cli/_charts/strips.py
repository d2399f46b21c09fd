# SPDX-License-Identifier: Apache-2.0
"""Before and after: a strip each, batch on x, colour by what serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import bands, style
from specgrid.cli._charts.coverage import batch_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 56.0, 14.0, 10.0, 40.0
_KIND = {"FULL": "full", "PIECEWISE": "piecewise", "NONE": "eager"}


def draw(diff: dict[str, Any], width: float) -> Figure:
    """The strips.

    Args:
        diff: widest, strips (before, after) of a comparison.
        width: pixels.
    """
    drawn = style.figure(width, TOP + BOTTOM + 2 * 34)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    widest = diff["widest"]
    columns = int(width - LEFT - RIGHT)
    for y, name in ((1, "before"), (0, "after")):
        runs = [
            (r["batch_lo"], r["batch_hi"], _KIND[r["mode"]])
            for r in diff["strips"][name]
        ]
        spans = bands.columns_of(runs, widest, columns)
        bands.fill(made, spans, y + 0.1, y + 0.9)
    made.set_xlim(0.5, widest + 0.5)
    made.set_ylim(0, 2)
    made.set_yticks([1.5, 0.5], ["before", "after"])
    made.spines["bottom"].set_visible(False)
    batch_ticks(made, widest, 4 if width < 500 else 8)
    style.below(made, "requests in the decode batch")
    return drawn
