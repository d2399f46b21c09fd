# SPDX-License-Identifier: Apache-2.0
"""What the readers of data share: a file's lines, its whole text, single numbers.

Two ways in. `iter_lines` streams lines in constant memory, whatever the size of
the file or of a line. `load_json` and `read_text` take small files whole. How a
file is opened and what is refused is in `specgrid._read`; here a refusal gets the
file's name and becomes a `DataError`.
"""

from __future__ import annotations

import gzip
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NoReturn, TypeAlias, cast

from specgrid import _read
from specgrid._read import File, Opened, ReadError, as_file
from specgrid.io._types import DataError, ReadReport

#: Called with (bytes done, bytes in all or None) now and then while streaming.
Progress: TypeAlias = Callable[[int, int | None], None]
#: A file by its name, or as a `File` where a pipe is looked at before it is read.
AnyPath: TypeAlias = str | Path | File

CHUNK_BYTES = 1 << 20
#: A longer line is no log line; it is counted as damaged and passed over.
MAX_LINE_BYTES = 1 << 20
#: Nothing with a line like this is read by lines; it may have no end.
MAX_GAP_BYTES = 256 << 20
MAX_JSON_BYTES = 256 << 20


def refuse(
    message: str, rule: str, source: str | None = None, line: int | None = None
) -> NoReturn:
    """Raises the `DataError`; one spelling for every reader."""
    raise DataError(message, rule=rule, source=source, line=line)


def _refuse_for(
    error: ReadError, source: str | None, line: int | None = None
) -> NoReturn:
    refuse(str(error), error.rule, source or None, line)


def _open(path: AnyPath) -> Opened:
    try:
        return as_file(path).open()
    except ReadError as error:
        _refuse_for(error, str(path))


def as_files(paths: AnyPath | Iterable[AnyPath]) -> list[File]:
    """One path or several as a list; the name ``"-"`` stays standard input's."""
    if isinstance(paths, (str, Path, File)):
        paths = [paths]
    return [as_file(path) for path in paths]


def joined(files: Iterable[File]) -> str:
    """The files' names, for a report's source."""
    return ", ".join(map(str, files))


def iter_lines(
    path: AnyPath,
    report: ReadReport,
    progress: Progress | None = None,
    max_line: int = MAX_LINE_BYTES,
) -> Iterator[tuple[int, bytes]]:
    """Streams the lines of a file as (1-based number, bytes without newline).

    A line over `max_line` bytes is counted as damaged and not yielded; a gzip
    file that ends early or is corrupt is read as far as it goes and noted.

    Args:
        path: File, or ``"-"`` for standard input.
        report: Where damage is counted.
        progress: Called after every chunk.
        max_line: Longest line taken, bytes.

    Raises:
        DataError: The file cannot be opened, or is compressed otherwise.
    """
    if str(path) == "-":
        if sys.stdin is None:
            refuse("is closed; pipe the text in, or name a file", "unreadable", "-")
        stdin = cast(BufferedIOBase, sys.stdin.buffer)
        yield from _split(
            path, stdin, sys.stdin.buffer, None, report, progress, max_line
        )
        return
    opened = _open(path)
    stream, raw, size = opened
    try:
        yield from _split(path, stream, raw, size, report, progress, max_line)
    finally:
        opened.close()


def _split(
    path: AnyPath,
    stream: BufferedIOBase,
    raw: IO[bytes],
    size: int | None,
    report: ReadReport,
    progress: Progress | None,
    max_line: int,
) -> Iterator[tuple[int, bytes]]:
    number = 0
    tail = b""
    overlong = 0  # bytes of a line that has already been given up
    streamed = 0
    while True:
        try:
            # read1: what can be had before a corrupt gzip block is had.
            chunk = stream.read1(CHUNK_BYTES)
        except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
            report.add_damage(number + 1, f"file ends early or is corrupt ({error})")
            report.add_note(
                f"only the readable part was used: up to line {number:,} ({error})"
            )
            chunk = b""
        if progress is not None:
            streamed += len(chunk)
            progress(streamed if size is None else raw.tell(), size)
        if not chunk:
            if tail and not overlong:
                yield number + 1, tail
            return
        lines = chunk.split(b"\n")
        lines[0] = tail + lines[0]
        tail = lines.pop()
        for line in lines:
            number += 1
            if overlong:
                overlong = 0
            elif len(line) > max_line:
                report.add_damage(number, f"line longer than {max_line >> 20} MiB")
            else:
                yield number, line
        if len(tail) > max_line:
            if not overlong:
                report.add_damage(number + 1, f"line longer than {max_line >> 20} MiB")
            overlong += len(tail)
            tail = b""
            if overlong > MAX_GAP_BYTES:
                refuse(
                    f"has a line of over {MAX_GAP_BYTES >> 20} MiB, which no log has",
                    "too_large",
                    str(path),
                    number + 1,
                )


def read_head(path: AnyPath, max_bytes: int = 4096) -> str:
    """A file's first bytes as text, to see what kind it is.

    Whoever reads a file after looking at it gives both the same `File`, since a pipe
    gives its bytes once.

    Raises:
        DataError: It cannot be read.
    """
    try:
        return as_file(path).head(max_bytes).decode("utf-8", "replace")
    except ReadError as error:
        _refuse_for(error, str(path))


def read_text(path: AnyPath, max_bytes: int = MAX_JSON_BYTES) -> str:
    """A whole small text file, gzip or plain.

    Raises:
        DataError: It cannot be read, is larger than `max_bytes`, or is no UTF-8
            text.
    """
    try:
        return _read.read_text(path, max_bytes)
    except ReadError as error:
        _refuse_for(error, str(path))


def parse_json(text: str, source: str, line: int | None = None) -> object:
    """JSON, with NaN and Infinity let through as floats.

    Non-finite numbers are let through because vLLM writes them; whoever uses a
    field checks it with `number`.

    Raises:
        DataError: Not JSON (cut short, for instance), a key given twice, or more
            values or levels than any file of this kind.
    """
    try:
        return _read.parse_json(text)
    except ReadError as error:
        if error.rule == "too_deep":
            refuse(
                "is nested too deeply; no file of this kind is",
                "too_deep",
                source,
                line,
            )
        if error.rule != "not_json":
            _refuse_for(error, source, line)
        if not text.strip():
            refuse("is empty", "empty", source, line)
        if error.at is not None and text[error.at :].strip() == "":
            refuse(
                "is JSON cut short; was the run that wrote it stopped?",
                "not_json",
                source,
                line,
            )
        refuse(f"is not JSON: {error}", "not_json", source, line)


def load_json(path: AnyPath) -> object:
    """A whole JSON file; see `parse_json`."""
    text = read_text(path)
    if not text.strip():
        refuse("is empty", "empty", str(path))
    return parse_json(text, str(path))


def number(
    value: object,
    name: str,
    source: str,
    *,
    minimum: float | None = 0.0,
    line: int | None = None,
) -> float:
    """A finite number of at least `minimum`, or a refusal that names the field.

    Raises:
        DataError: Not a number, NaN or infinite, or below the minimum.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        refuse(f"{name} is {value!r}, not a number", "not_number", source, line)
    try:
        out = float(value)
    except OverflowError:
        refuse(f"{name} is beyond every real number", "not_finite", source, line)
    if not math.isfinite(out):
        refuse(f"{name} is {value!r}", "not_finite", source, line)
    if minimum is not None and out < minimum:
        rule = "negative" if out < 0 else "inconsistent"
        refuse(f"{name} is {value!r}, below {minimum:g}", rule, source, line)
    return out


def integer(
    value: object,
    name: str,
    source: str,
    *,
    minimum: int = 0,
    line: int | None = None,
) -> int:
    """A whole number of at least `minimum` and below 2**31; see `number`."""
    out = number(value, name, source, minimum=minimum, line=line)
    if out != int(out):
        refuse(f"{name} is {value!r}, not a whole number", "not_number", source, line)
    if out >= 2**31:
        refuse(f"{name} is {value!r}, beyond 2**31", "inconsistent", source, line)
    return int(out)


def mapping(value: object, what: str, source: str) -> dict[str, object]:
    """A JSON object, or a refusal."""
    if not isinstance(value, dict):
        refuse(
            f"{what} is {type(value).__name__}, not a JSON object",
            "wrong_format",
            source,
        )
    return value
