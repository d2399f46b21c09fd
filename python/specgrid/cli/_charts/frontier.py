# SPDX-License-Identifier: Apache-2.0
"""Graphs against mean step time: the best plan of every budget, and today's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 26.0, 44.0


def draw(plan: dict[str, Any], width: float) -> Figure:
    """The frontier.

    Args:
        plan: frontier, before, default, after and plan of a plan document.
        width: pixels.
    """
    narrow = width < 500
    drawn = style.figure(width, 300)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    points = plan["frontier"]
    xs = [p["num_graphs"] for p in points]
    ys = [p["mean_step_us"] / 1000 for p in points]
    marks = [("plan", plan["after"], "hidden")]
    if plan["before"] is not None:
        marks.insert(0, ("today", plan["before"], "ink"))
    if plan["default"] is not None:
        marks.insert(0, ("vLLM default", plan["default"], "soft"))
    right = max([*xs, *(m["num_graphs"] for _, m, _ in marks)])
    # Each point is the best until the next; beyond the last nothing is known.
    made.step(xs, ys, where="post", color=style.color("ramp-5"))
    bound = plan["plan"]["lower_bound_us"]
    low = min([*ys, *(m["mean_step_us"] / 1000 for _, m, _ in marks)])
    high = max([*ys, *(m["mean_step_us"] / 1000 for _, m, _ in marks)])
    if bound is not None:
        low = min(low, bound / 1000)
        made.axhline(
            bound / 1000, color=style.color("soft"), linewidth=1, linestyle=(0, (3, 3))
        )
        text = "bound" if narrow else "lower bound: every step a graph of its own size"
        made.annotate(
            text,
            (1, bound / 1000),
            (0, -5),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="top",
            color=style.color("soft"),
            fontsize=style.SIZE,
        )
    for name, value, tone in marks:
        x, y = value["num_graphs"], value["mean_step_us"] / 1000
        made.plot(
            [x],
            [y],
            marker="o",
            markersize=8,
            markerfacecolor=style.color(tone),
            markeredgecolor=style.color("paper"),
            markeredgewidth=1.5,
            clip_on=False,
        )
        left = x > 0.75 * right
        made.annotate(
            f"{name}: {x:,} graphs, {y:.2f} ms" if not narrow else name,
            (x, y),
            (-9 if left else 9, 7),
            textcoords="offset points",
            ha="right" if left else "left",
            va="bottom",
            color=style.color(tone),
            fontsize=style.SIZE,
            fontweight="bold",
        )
    span = max(high - low, 0.01 * high)
    made.set_xlim(0, right)
    made.set_ylim(low - 0.12 * span, high + 0.12 * span)
    style.ruled(made, 4)
    made.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    style.whole_ticks(made, 4 if narrow else 8)
    style.above(made, "mean step, ms", LEFT)
    style.below(made, "graphs captured")
    return drawn
