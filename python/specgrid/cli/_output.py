# SPDX-License-Identifier: Apache-2.0
"""Printing for all commands: styled in a terminal, plain text when piped, JSON.

Piped text is for grep and for bug reports: no colour, no line broken to fit a screen.
Control characters never reach the output. Nothing outside ``specgrid.cli`` prints.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

from specgrid.cli._layout import stacked_lines, table_lines, wrapped
from specgrid.cli._streams import printable, takes

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
            stream, and FORCE_COLOR counts as a terminal.
    """

    def __init__(
        self, stream: IO[str] | None = None, terminal: bool | None = None
    ) -> None:
        self._stream = stream or sys.stdout
        if terminal is None:
            terminal = self._stream.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self.terminal = terminal
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

    def draws(self, characters: str) -> bool:
        """Whether these characters can be shown: a terminal, and one that has them."""
        return self.terminal and takes(self._stream, characters)

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
            text = "".join(printable(text) for text, _ in parts)
            self._stream.write(text.rstrip() + "\n")
            return
        from rich.text import Text

        line = Text()
        for text, style in parts:
            line.append(printable(text), style=_RICH_STYLES[style])
        self._console.print(line, soft_wrap=True)

    def paragraph(self, text: str, bullet: str = "- ", style: Style = "") -> None:
        """A sentence or more: wrapped in a terminal, one line when piped."""
        width = self.width - len(bullet) if self.terminal else None
        lines = wrapped(printable(text), width)
        for i, part in enumerate(lines):
            lead = bullet if i == 0 else " " * len(bullet)
            self.spans([(lead, ""), (part, style)])

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        right: Sequence[str] = (),
    ) -> None:
        """A table; columns named in ``right`` are set flush right.

        In a terminal too narrow for it each row becomes a paragraph.
        """
        cells = [[printable(_cell(value)) for value in row] for row in rows]
        width = self.width if self.terminal else None
        found = table_lines(columns, cells, right, width)
        if found is None:
            for row in cells:
                first, *rest = stacked_lines(columns, row, self.width)
                self.line(first, "bold")
                for text in rest:
                    self.line(text)
            return
        header, body = found
        for text in header:
            self.line(text, "bold")
        for text in body:
            self.line(text)


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
