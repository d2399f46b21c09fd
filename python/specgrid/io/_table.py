# SPDX-License-Identifier: Apache-2.0
"""Hand-made CSV tables: rows, cells, and the unit in a column's name.

A time column without a unit in its name is refused, because a millisecond read
as a microsecond looks like a very fast server.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from specgrid._read import plain_number
from specgrid.io._source import AnyPath, number, read_head, read_text, refuse

#: Larger than any table made by hand or by a script of measurements.
MAX_TABLE_BYTES = 64 << 20
MAX_ROWS = 1 << 20
MAX_COLUMNS = 64
MAX_NAME = 80
TIME_UNITS = {"_us": 1.0, "_ms": 1000.0, "_s": 1e6}
_UNITLESS = ("step", "latency", "time", "full", "piecewise", "eager", "median")


def read_table(path: AnyPath) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """A CSV file with a header as (columns, [(line number, row)]).

    Names are lower-cased; lines that start with ``#`` are comments; comma,
    semicolon and tab separate.

    Raises:
        DataError: ``empty``, ``too_large``, ``wrong_format`` (a column named twice,
            no header).
    """
    name = str(path)
    text = read_text(path, MAX_TABLE_BYTES)
    if text.count("\n") > MAX_ROWS:
        refuse(f"has more than {MAX_ROWS:,} lines, as no table has", "too_large", name)
    lines = [
        (i, line)
        for i, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        refuse("is empty", "empty", name)
    head = lines[0][1]
    delimiter = max(",;\t", key=head.count)
    if head.count(delimiter) >= MAX_COLUMNS:
        refuse(f"has over {MAX_COLUMNS} columns, as no table has", "too_large", name)
    try:
        rows = list(csv.reader((line for _, line in lines), delimiter=delimiter))
    except csv.Error as error:
        refuse(f"is not CSV: {error}", "wrong_format", name)
    if len(rows) != len(lines):
        refuse(
            "has quoted line breaks, which no such table needs", "wrong_format", name
        )
    columns = [c.strip().lower() for c in rows[0]]
    if max(map(len, columns)) > MAX_NAME:
        refuse(
            f"names a column with over {MAX_NAME} characters: {head.strip()[:80]}",
            "wrong_format",
            name,
        )
    if len(set(columns)) != len(columns):
        refuse(f"names a column twice: {head.strip()[:80]}", "wrong_format", name)
    if any(is_number(c) for c in columns):
        refuse(
            f"starts with numbers; its first line must name the columns: "
            f"{head.strip()[:80]}",
            "wrong_format",
            name,
        )
    out = []
    for (line, _), cells in zip(lines[1:], rows[1:], strict=True):
        values = dict.fromkeys(columns, "")
        values |= dict(zip(columns, (c.strip() for c in cells), strict=False))
        if len(cells) != len(columns):
            values["\0"] = f"{len(cells)} fields instead of {len(columns)}"
        out.append((line, values))
    return columns, out


def time_column(columns: Sequence[str], stem: str, source: str) -> tuple[str, float]:
    """The column ``stem_us``, ``stem_ms`` or ``stem_s`` and its factor to us.

    Raises:
        DataError: ``unit`` where only the bare name is there, ``missing``.
    """
    found = [
        (c, f) for suffix, f in TIME_UNITS.items() if (c := stem + suffix) in columns
    ]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        refuse(f"has {stem} in two units; keep one", "unit", source)
    bare = [c for c in columns if c in _UNITLESS]
    if bare:
        refuse(
            f"column {bare[0]!r} has no unit; name it {stem}_us or {stem}_ms",
            "unit",
            source,
        )
    return refuse(
        f"has no column {stem}_us; it has {', '.join(columns[:8])}", "missing", source
    )


def is_csv(path: AnyPath) -> bool:
    """By content: JSON starts with a bracket, a table does not."""
    return not read_head(path).lstrip("\ufeff \t\r\n").startswith(("{", "["))


def is_number(text: str) -> bool:
    return plain_number(text) is not None


def loose(text: str) -> object:
    """A number if it is one, else the text, for the check that follows."""
    value = plain_number(text)
    return text if value is None else value


def cell(row: dict[str, str], column: str, name: str, line: int) -> float:
    text = row.get(column, "")
    value = plain_number(text)
    if value is None:
        refuse(f"{column} is {text!r:.60}, not a number", "not_number", name, line)
    return value


def optional(
    data: dict[str, object], key: str, name: str, factor: float = 1.0
) -> float | None:
    value = data.get(key)
    return None if value is None else number(value, key, name) * factor
