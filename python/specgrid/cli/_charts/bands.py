# SPDX-License-Identifier: Apache-2.0
"""Batches to pixels: many batches share a column, and the worst of them shows.

A missed batch is never averaged away, however many batches there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Best first: what a column shows when its batches differ is the last of theirs.
KINDS = ("full", "piecewise", "hidden", "eager")


def kind_of(run: dict[str, Any]) -> str:
    """How a run of batches fares, in the palette's words."""
    if run["mode"] == "FULL":
        return "full"
    if run["mode"] == "NONE":
        return "eager"
    return "hidden" if run["hidden_by"] else "piecewise"


def columns_of(
    runs: Iterable[tuple[int, int, str]], widest: int, columns: int
) -> list[tuple[float, float, str]]:
    """Runs (first batch, last batch, kind) as spans of x to fill.

    Args:
        runs: inclusive, of one row.
        widest: the last batch on the axis.
        columns: pixels there are; runs are drawn exactly where they suffice.

    Returns:
        (x from, x to, kind) in batches, where batch b reaches from b - 0.5 to
        b + 0.5; neighbours of a kind are joined.

    >>> columns_of([(1, 2, "full"), (3, 3, "hidden")], 3, 100)
    [(0.5, 2.5, 'full'), (2.5, 3.5, 'hidden')]
    >>> columns_of([(1, 999, "full"), (1000, 1000, "hidden")], 1000, 2)
    [(0.5, 500.5, 'full'), (500.5, 1000.5, 'hidden')]
    """
    if widest <= columns:
        return _joined((lo - 0.5, hi + 0.5, kind) for lo, hi, kind in runs)
    worst: list[int] = [-1] * columns
    for lo, hi, kind in runs:
        rank = KINDS.index(kind)
        first = (lo - 1) * columns // widest
        last = (hi - 1) * columns // widest
        for i in range(first, last + 1):
            worst[i] = max(worst[i], rank)
    step = widest / columns
    return _joined(
        (0.5 + i * step, 0.5 + (i + 1) * step, KINDS[rank])
        for i, rank in enumerate(worst)
        if rank >= 0
    )


def _joined(
    spans: Iterable[tuple[float, float, str]],
) -> list[tuple[float, float, str]]:
    joined: list[tuple[float, float, str]] = []
    for lo, hi, kind in spans:
        if joined and joined[-1][2] == kind and abs(joined[-1][1] - lo) < 1e-9:
            joined[-1] = (joined[-1][0], hi, kind)
        else:
            joined.append((lo, hi, kind))
    return joined


def fill(
    made: Axes,
    spans: Sequence[tuple[float, float, str]],
    low: float,
    high: float,
    suffix: str = "",
) -> None:
    """Rectangles from ``low`` to ``high`` on y; one path a kind keeps files small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    from specgrid.cli._charts.style import color

    for kind in KINDS:
        vertices: list[tuple[float, float]] = []
        codes: list[Any] = []
        for lo, hi, found in spans:
            if found == kind:
                vertices += [(lo, low), (lo, high), (hi, high), (hi, low), (lo, low)]
                codes += [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]
        if vertices:
            patch = PathPatch(
                Path(vertices, codes),
                facecolor=color(kind + suffix),
                edgecolor="none",
                clip_on=False,
                gid="crisp",
            )
            made.add_patch(patch)
