# SPDX-License-Identifier: Apache-2.0
"""A chart in the page: drawn twice, for telephones and for everything wider."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from specgrid.cli._report.html import Child, Element, el
from specgrid.cli._report.svg import inline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROW, WIDE = 358.0, 944.0


def picture(
    name: str,
    label: str,
    draw: Callable[[float], Figure],
    heading: Child = None,
    wide: float = WIDE,
) -> Element:
    """A ``figure`` with both drawings.

    Args:
        name: prefix of ids.
        label: what the picture shows, for those who do not see it.
        draw: makes the figure for a width in pixels.
        heading: above it.
        wide: pixels of the wider drawing.
    """
    return el(
        "figure",
        None if heading is None else el("figcaption", heading),
        drawings(name, label, draw, wide),
    )


def drawings(
    name: str, label: str, draw: Callable[[float], Figure], wide: float = WIDE
) -> list[Element]:
    """Both drawings as ``svg`` elements, each with the place of its axes."""
    found = []
    for kind, width in (("narrow", NARROW), ("wide", wide)):
        figure = draw(width)
        svg = inline(figure, f"{name}-{kind}-")
        box = figure.axes[0].get_position()
        svg.set(
            "data-axes", f"{box.x0:.6f} {box.x1:.6f} {1 - box.y1:.6f} {1 - box.y0:.6f}"
        )
        svg.set("class", kind)
        svg.set("role", "img")
        svg.set("aria-label", label)
        found.append(svg)
    return found


def legend(entries: list[tuple[str, str]]) -> Element:
    """Colours and what they stand for."""
    return el(
        "ul",
        [
            el("li", el("i", style=f"background:var(--{name})"), meaning)
            for name, meaning in entries
        ],
        class_="legend",
    )
