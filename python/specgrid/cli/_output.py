# SPDX-License-Identifier: Apache-2.0
"""Printing for all commands: rich tables in a terminal, plain text when piped, JSON.

Piped text is for grep and for bug reports: no colour, no box characters, no line
broken to fit a screen. Nothing outside ``specgrid.cli`` prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["", "good", "bad", "warn", "dim", "bold"]
_RICH_STYLES = {
    "": "",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "dim": "dim",
    "bold": "bold",
}


class Printer:
    """Writes headings, lines and tables to standard output.

    Args:
        stream: where to write; standard output by default.
        terminal: force terminal (True) or plain (False) output; by default asks the
            stream.
    """

    def __init__(
        self, stream: IO[str] | None = None, terminal: bool | None = None
    ) -> None:
        self._stream = stream or sys.stdout
        self.terminal = self._stream.isatty() if terminal is None else terminal
        self._console: Console | None = None
        if self.terminal:
            from rich.console import Console

            self._console = Console(
                file=self._stream, highlight=False, force_terminal=True
            )

    @property
    def width(self) -> int:
        """Columns there are to draw in."""
        return self._console.width if self._console is not None else 100

    def heading(self, text: str) -> None:
        """A heading with an empty line before it."""
        self.line()
        self.line(text, "bold")

    def line(self, text: str = "", style: Style = "") -> None:
        """One line of text."""
        self.spans([(text, style)])

    def spans(self, parts: Sequence[tuple[str, Style]]) -> None:
        """One line made of differently styled parts."""
        if self._console is None:
            self._stream.write("".join(text for text, _ in parts).rstrip() + "\n")
            return
        from rich.text import Text

        line = Text()
        for text, style in parts:
            line.append(text, style=_RICH_STYLES[style])
        self._console.print(line, soft_wrap=True)

    def paragraph(self, text: str, bullet: str = "- ", style: Style = "") -> None:
        """A sentence or more: wrapped in a terminal, one line when piped."""
        if self._console is None:
            self._stream.write(f"{bullet}{text}\n")
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid()
        grid.add_column(width=len(bullet))
        grid.add_column(overflow="fold")
        grid.add_row(bullet, Text(text, style=_RICH_STYLES[style]))
        self._console.print(grid)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        right: Sequence[str] = (),
    ) -> None:
        """A table; columns named in ``right`` are set flush right."""
        cells = [[_cell(value) for value in row] for row in rows]
        if self._console is not None:
            self._rich_table(columns, cells, right)
            return
        lines = [list(columns), *cells]
        widths = [max(len(row[i]) for row in lines) for i in range(len(columns))]
        for row in lines:
            parts = [
                text.rjust(width) if name in right else text.ljust(width)
                for text, width, name in zip(row, widths, columns, strict=True)
            ]
            self._stream.write("  ".join(parts).rstrip() + "\n")

    def _rich_table(
        self, columns: Sequence[str], cells: list[list[str]], right: Sequence[str]
    ) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(
                name,
                justify="right" if name in right else "left",
                overflow="fold",
                no_wrap=name in right,
            )
        for row in cells:
            table.add_row(*(Text(text) for text in row))
        assert self._console is not None
        self._console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def print_json(document: dict[str, Any]) -> None:
    """Writes one JSON document; NaN and infinities are refused, as JSON has none."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive ascending integers as inclusive ranges.

    >>> runs([1, 2, 3, 7, 9, 10])
    [(1, 3), (7, 7), (9, 10)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def ranges_text(ranges: Iterable[tuple[int, int]], limit: int = 12) -> str:
    """Ranges as people write them, cut short after ``limit`` of them.

    >>> ranges_text([(1, 3), (7, 7)])
    '1-3, 7'
    """
    shown = list(ranges)
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in shown[:limit]]
    if len(shown) > limit:
        texts.append(f"... ({len(shown)} ranges)")
    return ", ".join(texts)
