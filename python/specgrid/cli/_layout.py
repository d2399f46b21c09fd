# SPDX-License-Identifier: Apache-2.0
"""Tables as lines of text for a given width. Nothing is printed here.

A number or an identifier is never cut or broken: cells wrap between words, and
where even that is too wide each row becomes a paragraph of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

GAP = "  "


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
    width: int | None = None,
) -> tuple[list[str], list[str]] | None:
    """Header lines and body lines; None where the columns do not fit the width.

    Args:
        columns: headings.
        rows: cells, one for each heading.
        right: headings of the columns set flush right.
        width: columns of text to keep within; None for as wide as it gets.

    >>> table_lines(["name", "n"], [["one two", "1"]], ["n"])
    (['name     n'], ['one two  1'])
    >>> table_lines(["name", "n"], [["one two", "1"]], ["n"], width=8)
    (['name   n'], ['one    1', 'two'])
    """
    table = [list(columns), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    if width is not None and _total(widths) > width:
        least = [
            max(_longest_word(row[i]) for row in table) for i in range(len(widths))
        ]
        if _total(least) > width:
            return None
        widths = _shared_out(least, widths, width)
    flush_right = [name in right for name in columns]
    lines = [_row_lines(row, widths, flush_right) for row in table]
    return lines[0], [line for row in lines[1:] for line in row]


def stacked_lines(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """One row as a paragraph: its first cell, then the others with their headings.

    >>> stacked_lines(["name", "size", "from"], ["a", "12", "file"], 16)
    ['a', '  size: 12', '  from: file']
    """
    # A bare number says nothing without its heading.
    name = f"{columns[0]} {row[0]}" if row[0][:1].isdigit() else row[0]
    lines = wrapped(name, width)
    line = ""
    for name, cell in zip(columns[1:], row[1:], strict=True):
        item = f"{name}: {cell}"
        if line and len(line) + 3 + len(item) <= width:
            line += "   " + item
            continue
        lines += [line] if line else []
        first, *more = wrapped(item, width - 2)
        lines += ["  " + part for part in [first, *more][: len(more)]]
        line = "  " + (more[-1] if more else first)
    return [*lines, line] if line else lines


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _shared_out(least: list[int], most: list[int], width: int) -> list[int]:
    """Widths between the two that fill the width, the wanting columns served alike."""
    widths = list(least)
    spare = width - _total(widths)
    while spare > 0:
        wanting = [i for i, w in enumerate(widths) if w < most[i]]
        if not wanting:
            break
        for i in wanting[:spare]:
            widths[i] += 1
        spare -= len(wanting[:spare])
    return widths


def _row_lines(
    row: Sequence[str], widths: Sequence[int], flush_right: Sequence[bool]
) -> list[str]:
    cells = [wrapped(text, width) for text, width in zip(row, widths, strict=True)]
    lines = []
    for i in range(max(map(len, cells), default=0)):
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for cell, width, right in zip(cells, widths, flush_right, strict=True)
            for text in [cell[i] if i < len(cell) else ""]
        ]
        lines.append(GAP.join(parts).rstrip())
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """Text as lines no wider than ``width`` unless a single word is."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(
        text, max(width, 1), break_long_words=False, break_on_hyphens=False
    ) or [""]


__all__ = ["stacked_lines", "table_lines", "wrapped"]
