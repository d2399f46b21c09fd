# SPDX-License-Identifier: Apache-2.0
"""Heat maps over batch and context: draft tokens in the cell, or the loss of a choice.

Cells are as wide as their place in a list, not as their number of batches: small
batches are where schedules differ most. Cells nobody measured are hatched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid.cli._charts import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RIGHT, TOP, BOTTOM = 14.0, 26.0, 44.0
INFINITY = 2**31 - 1
#: Ranges of batches, and cells, drawn at most.
MAX_RANGES, MAX_CELLS = 400, 4000
#: Shares of time from which a loss takes the next colour.
LOSS_STEPS = (0.0025, 0.01, 0.03, 0.10, 0.30)


def can_draw(table: dict[str, Any]) -> bool:
    """Whether a map has few enough cells to be read."""
    ranges, contexts = len(table["batches"]), len(table["contexts"])
    return ranges <= MAX_RANGES and ranges * contexts <= MAX_CELLS


def draw_drafts(table: dict[str, Any], width: float) -> Figure:
    """Draft tokens.

    Args:
        table: batches and contexts (inclusive ranges), drafts (a row a context), and
            where measurements were taken ``measured`` of the same shape.
        width: pixels.
    """
    drafts = table["drafts"]
    most = max((k for row in drafts for k in row), default=0)
    made, drawn, cell = _grid(table, width)
    for y, row in enumerate(drafts):
        for x, k in enumerate(row):
            level = 0 if not most else round(7 * k / most)
            known = "measured" not in table or table["measured"][y][x]
            _cell(made, x, y, f"ramp-{level}", cell, known, level >= 4)
            if cell >= 12:
                tone = "ink" if level < 4 else "paper"
                style.label(
                    made, x + 0.5, y + 0.5, str(k), tone, ha="center", va="center"
                )
    return drawn


def draw_loss(table: dict[str, Any], width: float) -> Figure:
    """Share of time lost against the best draft length of each cell.

    Args:
        table: as for ``draw_drafts``, with ``loss`` (None where not measured).
        width: pixels.
    """
    made, drawn, cell = _grid(table, width)
    for y, row in enumerate(table["loss"]):
        for x, share in enumerate(row):
            if share is None:
                _cell(made, x, y, "loss-0", cell, False)
                continue
            level = sum(share >= step for step in LOSS_STEPS)
            _cell(made, x, y, f"loss-{level}", cell)
            if cell >= 30 and share >= 0.0005:
                tone = "ink" if level < 4 else "paper"
                text = f"{100 * share:.1f}"
                style.label(
                    made, x + 0.5, y + 0.5, text, tone, ha="center", va="center"
                )
            if table["within_noise"][y][x]:
                made.plot(
                    [x + 0.88],
                    [y + 0.78],
                    marker="o",
                    markersize=3,
                    color=style.color("ink" if level < 4 else "paper"),
                    clip_on=False,
                )
    return drawn


def _grid(table: dict[str, Any], width: float) -> tuple[Axes, Figure, float]:
    """Axes with a column a batch range and a row a context range."""
    batches, contexts = table["batches"], table["contexts"]
    names = [_context(c) for c in contexts]
    left = 0.0 if len(contexts) == 1 else 20.0 + 6.4 * max(map(len, names))
    row = 40.0 if len(contexts) <= 6 else 24.0
    drawn = style.figure(width, TOP + BOTTOM + row * len(contexts))
    made = style.axes(drawn, left, TOP, RIGHT, BOTTOM)
    made.set_xlim(0, len(batches))
    made.set_ylim(0, len(contexts))
    cell = (width - left - RIGHT) / len(batches)
    texts = [_batches(b) for b in batches]
    every = max(1, -(-int(7.2 * max(map(len, texts)) + 8) // max(int(cell), 1)))
    ticks = list(range(0, len(batches), every))
    made.set_xticks([x + 0.5 for x in ticks], [texts[x] for x in ticks])
    if len(contexts) > 1:
        made.set_yticks([y + 0.5 for y in range(len(contexts))], names)
        style.above(made, "context, tokens", left)
    else:
        made.set_yticks([])
    made.spines["bottom"].set_visible(False)
    style.below(made, "requests in the step")
    return made, drawn, cell


def _cell(
    made: Axes,
    x: int,
    y: int,
    tone: str,
    width: float,
    measured: bool = True,
    dark: bool = False,
) -> None:
    from matplotlib.patches import Rectangle

    made.add_patch(
        Rectangle(
            (x, y),
            1,
            1,
            facecolor=style.color(tone),
            edgecolor=style.color("paper"),
            # Narrow cells would be all edge.
            linewidth=1.5 if width >= 10 else 0,
            clip_on=False,
        )
    )
    if not measured:
        made.add_patch(
            Rectangle(
                (x, y),
                1,
                1,
                facecolor="none",
                edgecolor=style.color("paper" if dark else "soft"),
                hatch="////",
                linewidth=0,
                clip_on=False,
            )
        )


def _batches(span: list[int]) -> str:
    lo, hi = span
    return f"{lo:,}" if lo == hi else f"{lo:,}–{hi:,}"


def _context(span: list[int]) -> str:
    lo, hi = span
    if hi >= INFINITY:
        return f"from {lo:,}" if lo > 1 else "any"
    return f"{lo:,}–{hi:,}"
