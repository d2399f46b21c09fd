# SPDX-License-Identifier: Apache-2.0
"""The coverage map: one row a query length, batches from left to right.

A cell stands for one batch, or for a run of batches when there are more of them than
columns; it shows the worst any of its batches meets, so a hole is never drawn over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specgrid.cli._output import Printer, Style

MAX_ROWS = 24

# Worst last: what a cell shows when its batches differ.
_KINDS = ("empty", "FULL", "PIECEWISE", "hidden", "NONE")
_PLAIN = {"empty": " ", "FULL": "#", "PIECEWISE": "p", "hidden": "h", "NONE": "."}
_FANCY = {"empty": " ", "FULL": "█", "PIECEWISE": "▒", "hidden": "▓", "NONE": "·"}
_STYLES: dict[str, Style] = {
    "empty": "",
    "FULL": "good",
    "PIECEWISE": "warn",
    "hidden": "bad",
    "NONE": "bad",
}
_LEGEND = {
    "FULL": "FULL graph",
    "PIECEWISE": "PIECEWISE graph only",
    "hidden": "own FULL graph captured but hidden by another query length's",
    "NONE": "no graph",
}


def draw_map(stretches: Sequence[dict[str, Any]], widest: int, out: Printer) -> None:
    """Draws the map and its legend.

    Args:
        stretches: query_len, batch_lo, batch_hi, mode and hidden of each.
        widest: the last batch, requests.
        out: where to draw.
    """
    rows: dict[int, list[str]] = {}
    columns = min(widest, max(16, min(out.width - 20, 100)))
    for s in stretches:
        cells = rows.setdefault(s["query_len"], ["empty"] * columns)
        kind = "hidden" if s["hidden"] and s["mode"] != "FULL" else s["mode"]
        first = (s["batch_lo"] - 1) * columns // widest
        last = (s["batch_hi"] - 1) * columns // widest
        for i in range(first, last + 1):
            cells[i] = max(cells[i], kind, key=_KINDS.index)
    signs = _FANCY if out.draws("".join(_FANCY.values())) else _PLAIN
    label = "query length"
    out.line(f"{label:>12}  {_scale(columns, widest)}", "dim")
    for query_len, cells in list(rows.items())[:MAX_ROWS]:
        parts: list[tuple[str, Style]] = [(f"{query_len:>12}  ", "")]
        parts += [(signs[kind], _STYLES[kind]) for kind in cells]
        out.spans(parts)
    if len(rows) > MAX_ROWS:
        out.line(f"... {len(rows) - MAX_ROWS} more query lengths (--json has all)")
    seen = {kind for cells in rows.values() for kind in cells}
    legend = [
        (signs[kind], _STYLES[kind], f" {meaning}")
        for kind, meaning in _LEGEND.items()
        if kind in seen
    ]
    each = f"one cell is {widest / columns:.3g} batches and shows the worst of them"
    if widest > columns:
        legend.append(("", "", each))
    _draw_legend(legend, out)


def _draw_legend(entries: Sequence[tuple[str, Style, str]], out: Printer) -> None:
    """On one line where it fits, else one line an entry."""
    parts: list[tuple[str, Style]] = [("Legend: ", "")]
    for sign, style, text in entries:
        parts += [(sign, style), (text + "   ", "")]
    if not out.terminal or sum(len(text) for text, _ in parts) <= out.width:
        out.spans(parts)
        return
    out.line("Legend:")
    for sign, style, text in entries:
        out.spans([("  ", ""), (sign, style), (text if sign else text.strip(), "")])


def _scale(columns: int, widest: int) -> str:
    """Batch numbers over their cells: the first, the last, and some between.

    >>> _scale(4, 4), _scale(16, 16)
    ('1  4', '1 3 5 7 9 11  16')
    """
    text = [" "] * columns
    step = max(1, columns // 6)
    for i in [0, columns - 1, *range(step, columns - 1, step)]:
        number = str(widest if i == columns - 1 else -(-(i * widest) // columns) + 1)
        start = min(i, columns - len(number))
        around = text[max(start - 1, 0) : start + len(number) + 1]
        if start >= 0 and all(c == " " for c in around):
            text[start : start + len(number)] = number
    return "".join(text)
