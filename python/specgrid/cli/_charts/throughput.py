# SPDX-License-Identifier: Apache-2.0
"""Output tokens per second by batch, a line a draft length, at one context.

A ring on a line is the widest batch with a captured graph: beyond it steps run eager.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 52.0, 40.0, 26.0, 44.0
HEIGHT = 250.0


def draw(
    lines: list[dict[str, Any]],
    cliffs: dict[int, int],
    ends: tuple[float, float],
    width: float,
) -> Figure:
    """The lines.

    Args:
        lines: k and points (batch, tokens per second) of each.
        cliffs: k -> widest batch with a graph.
        ends: of x and y, the same for all contexts so that they compare.
        width: pixels.
    """
    widest, top = ends
    drawn = style.figure(width, HEIGHT)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    most = max((line["k"] for line in lines), default=0)
    names: list[tuple[float, float, str]] = []
    for line in lines:
        k = line["k"]
        # Level 0 would not be seen as a line.
        tone = f"ramp-{2 + round(5 * k / most) if most else 5}"
        xs, ys = zip(*line["points"], strict=True)
        made.plot(
            xs,
            ys,
            color=style.color(tone),
            linewidth=2,
            marker="o",
            markersize=3,
            clip_on=False,
        )
        names.append((xs[-1], ys[-1], f"K {k}"))
        cliff = cliffs.get(k)
        if cliff is not None and xs[0] <= cliff < xs[-1]:
            made.plot(
                [cliff],
                [_at(line["points"], cliff)],
                marker="o",
                markersize=10,
                markerfacecolor="none",
                markeredgecolor=style.color("hidden"),
                markeredgewidth=2,
                clip_on=False,
            )
    made.set_xlim(0, widest)
    made.set_ylim(0, 1.05 * top)
    # Names at the ends of the lines, pushed apart where lines end close together.
    gap = 15 * 1.05 * top / (HEIGHT - TOP - BOTTOM)
    last, place = -1.0, 0.0
    for x, y, name in sorted(names):
        place = max(y, place + gap) if x == last else y
        last = x
        made.annotate(
            name,
            (x, place),
            (8, 0),
            textcoords="offset points",
            va="center",
            color=style.color("ink"),
            fontsize=style.SIZE,
            annotation_clip=False,
        )
    style.ruled(made, 4)
    made.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
    style.whole_ticks(made, 4 if width < 500 else 8)
    style.above(made, "output tokens per second", LEFT)
    style.below(made, "requests in the step")
    return drawn


def _at(points: list[list[float]], batch: float) -> float:
    """A line's height between its points.

    >>> _at([[1, 10], [3, 30]], 2)
    20.0
    """
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= batch <= x1:
            return y0 + (y1 - y0) * (batch - x0) / (x1 - x0)
    return points[-1][1]
