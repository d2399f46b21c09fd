# SPDX-License-Identifier: Apache-2.0
"""Padding by batch: tokens computed for nothing, and where eager steps pad none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 26.0, 40.0


def draw(padding: dict[str, Any], widest: int, width: float) -> Figure:
    """The curve.

    Args:
        padding: steps (batch_lo, tokens asked for by one batch more, padded tokens).
        widest: the last batch.
        width: pixels.
    """
    drawn = style.figure(width, 190)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    columns = int(width - LEFT - RIGHT)
    worst = [-1.0] * min(widest, columns)
    for run in padding["runs"]:
        for batch in range(run["batch_lo"], run["batch_hi"] + 1):
            asked = batch * run["query_len"]
            share = run["padded_tokens"] / asked - 1 if run["padded_tokens"] else 0.0
            i = (batch - 1) * len(worst) // widest
            worst[i] = max(worst[i], 100 * share)
    step = widest / len(worst)
    edges = [0.5 + i * step for i in range(len(worst) + 1)]
    values = [max(w, 0.0) for w in worst]
    made.stairs(values, edges, fill=True, color=style.color("full"), linewidth=0)
    mean = 100 * padding["mean"]
    made.axhline(mean, color=style.color("ink"), linewidth=1, linestyle=(0, (3, 3)))
    made.set_xlim(0.5, widest + 0.5)
    made.set_ylim(0, max(5.0, 1.08 * max(values, default=0), 1.5 * mean))
    style.ruled(made, 3)
    made.yaxis.set_major_formatter(lambda y, _: f"{y:g} %")
    from specgrid.cli._charts.coverage import batch_ticks

    batch_ticks(made, widest, 4 if width < 500 else 8)
    style.above(made, "padding, share of the tokens asked for", LEFT)
    style.below(made, "requests in the decode batch")
    return drawn
