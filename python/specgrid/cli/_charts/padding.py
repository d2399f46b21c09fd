# SPDX-License-Identifier: Apache-2.0
"""Padding by batch, and under it how often each batch runs, where that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 26.0, 40.0
#: Pixels for the load under the curve.
LOAD = 70.0


def draw(
    padding: dict[str, Any],
    widest: int,
    width: float,
    load: list[list[float]] | None = None,
    *,
    assumed: bool = False,
) -> Figure:
    """The curve.

    Args:
        padding: mean and runs (batch_lo, batch_hi, query_len, padded_tokens).
        widest: the last batch.
        width: pixels.
        load: (query length, requests, weight) of decode steps.
        assumed: the load is one nobody recorded.
    """
    below = 0.0 if load is None else LOAD
    drawn = style.figure(width, 190 + below)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM + below)
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
    if load is not None:
        _draw_load(drawn, load, edges, assumed)
    return drawn


def _draw_load(
    drawn: Figure, load: list[list[float]], edges: list[float], assumed: bool
) -> None:
    """Shares of the steps, hanging under the curve."""
    made = style.axes(drawn, LEFT, 190 + 8, RIGHT, 8)
    bars = len(edges) - 1
    widest = edges[-1] - 0.5
    shares = [0.0] * bars
    for _, batch, weight in load:
        if 1 <= batch <= widest:
            shares[int((batch - 1) * bars / widest)] += weight
    made.stairs(shares, edges, fill=True, color=style.color("ramp-5"), linewidth=0)
    made.set_xlim(edges[0], edges[-1])
    made.set_ylim(max(shares) or 1, 0)
    made.set_xticks([])
    made.set_yticks([])
    made.spines["bottom"].set_visible(False)
    made.annotate(
        "how often each batch is assumed to run"
        if assumed
        else "how often each batch ran",
        (1, 0),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        color=style.color("soft"),
        fontsize=style.SIZE,
    )
