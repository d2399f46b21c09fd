# SPDX-License-Identifier: Apache-2.0
"""Captured graphs: one line a query length, a tick a graph, unused ones pale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT, RIGHT, TOP, BOTTOM = 34.0, 14.0, 26.0, 40.0
ROW = 26.0


def draw(ladders: list[dict[str, Any]], width: float) -> Figure:
    """The ladders.

    Args:
        ladders: query_len, used and unused (tokens) of each.
        width: pixels.
    """
    height = TOP + BOTTOM + ROW * len(ladders)
    drawn = style.figure(width, height)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    largest = max(
        (t for row in ladders for t in (*row["used"], *row["unused"])), default=1
    )
    columns = int(width - LEFT - RIGHT)
    for y, row in enumerate(ladders):
        made.plot([0, largest], [y + 0.5] * 2, color=style.color("rule"), linewidth=0.8)
        used = set(_thinned(row["used"], largest, columns))
        unused = [t for t in _thinned(row["unused"], largest, columns) if t not in used]
        made.vlines(
            unused, y + 0.3, y + 0.7, color=style.color("hidden-dim"), linewidth=2
        )
        made.vlines(
            sorted(used), y + 0.1, y + 0.9, color=style.color("ramp-4"), linewidth=2
        )
    made.set_xlim(0, largest)
    made.set_ylim(0, max(len(ladders), 1))
    made.set_yticks(
        [y + 0.5 for y in range(len(ladders))], [str(r["query_len"]) for r in ladders]
    )
    made.spines["bottom"].set_visible(False)
    style.whole_ticks(made, 4 if width < 500 else 8)
    style.above(made, "query length", LEFT)
    style.below(made, "tokens the graph holds")
    return drawn


def _thinned(tokens: list[int], largest: int, columns: int) -> list[int]:
    """At most one tick a pixel.

    >>> _thinned([1, 2, 500, 1000], 1000, 10)
    [1, 500, 1000]
    """
    if largest <= columns:
        return sorted(tokens)
    seen: dict[int, int] = {}
    for t in sorted(tokens):
        seen.setdefault(t * columns // largest, t)
    return list(seen.values())
