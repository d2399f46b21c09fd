# SPDX-License-Identifier: Apache-2.0
"""The coverage map: batch on x, one row a query length, colour by what serves it.

Batches the schedule decodes at that query length stand in full colour, all others pale:
they only occur while requests finish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import bands, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the colours say, best first.
LEGEND = {
    "full": "FULL graph",
    "piecewise": "PIECEWISE graph only",
    "hidden": "own FULL graph hidden, runs PIECEWISE",
    "eager": "no graph, eager",
}
#: Rows drawn; a schedule has rarely more than eight query lengths.
MAX_ROWS = 32
LEFT, RIGHT, TOP, BOTTOM = 34.0, 14.0, 26.0, 40.0


def row_height(rows: int) -> float:
    """Pixels a row takes."""
    return 34.0 if rows <= 8 else 20.0


def draw(document: dict[str, Any], width: float) -> Figure:
    """The map.

    Args:
        document: ``coverage.map`` of a report: widest, rows.
        width: pixels.
    """
    rows = document["rows"][:MAX_ROWS]
    widest = document["widest"]
    height = TOP + BOTTOM + row_height(len(rows)) * len(rows)
    drawn = style.figure(width, height)
    made = style.axes(drawn, LEFT, TOP, RIGHT, BOTTOM)
    columns = int(width - LEFT - RIGHT)
    # Rows rise with the query length, as on any axis; 0.1 is the gap between them.
    for y, row in enumerate(rows):
        low, high = y + 0.1, y + 0.9
        runs = [(r["batch_lo"], r["batch_hi"], bands.kind_of(r)) for r in row["runs"]]
        inside, outside = _split(runs, row["decoded"])
        for part, suffix in ((outside, "-dim"), (inside, "")):
            spans = bands.columns_of(part, widest, columns)
            bands.fill(made, spans, low, high, suffix)
    made.set_xlim(0.5, widest + 0.5)
    made.set_ylim(0, max(len(rows), 1))
    made.set_yticks(
        [y + 0.5 for y in range(len(rows))], [str(r["query_len"]) for r in rows]
    )
    made.spines["bottom"].set_visible(False)
    batch_ticks(made, widest, 4 if width < 500 else 8)
    style.above(made, "query length (tokens per request)", LEFT)
    style.below(made, "requests in the decode batch")
    return drawn


def batch_ticks(made: Any, widest: int, steps: int) -> None:
    """Round batches, and always the first and the last."""
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(steps, integer=True, steps=[1, 2, 2.5, 4, 5, 8, 10])
    gap = widest / steps / 2
    inner = [
        round(x) for x in locator.tick_values(1, widest) if 1 + gap < x < widest - gap
    ]
    ticks = list(dict.fromkeys([1, *inner, widest]))
    made.set_xticks(ticks, [f"{t:,}" for t in ticks])


def _split(
    runs: list[tuple[int, int, str]], decoded: list[list[int]]
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    """Runs cut at the edges of the decoded batches: those inside, those outside.

    >>> _split([(1, 4, "full"), (5, 9, "hidden")], [[3, 6]])[0]
    [(3, 4, 'full'), (5, 6, 'hidden')]
    >>> _split([(1, 4, "full"), (5, 9, "hidden")], [[3, 6]])[1]
    [(1, 2, 'full'), (7, 9, 'hidden')]
    """
    inside: list[tuple[int, int, str]] = []
    outside: list[tuple[int, int, str]] = []
    next_span = 0
    for lo, hi, kind in runs:
        while next_span < len(decoded) and decoded[next_span][1] < lo:
            next_span += 1
        at, span = lo, next_span
        while span < len(decoded) and decoded[span][0] <= hi:
            first, last = decoded[span]
            if at < first:
                outside.append((at, first - 1, kind))
            inside.append((max(lo, first), min(hi, last), kind))
            at = min(hi, last) + 1
            span += 1
        if at <= hi:
            outside.append((at, hi, kind))
    return inside, outside
