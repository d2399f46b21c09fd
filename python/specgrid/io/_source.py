# SPDX-License-Identifier: Apache-2.0
"""Opening what a person points at: plain or gzip, small or endless.

Two ways in. `iter_lines` streams lines in constant memory, whatever the size of
the file or of a line. `load_json` and `read_text` take small files whole and
refuse what is too large before reading it, and what is nested too deeply.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NoReturn, TypeAlias, cast

from specgrid._errors import json_fault
from specgrid.io._types import DataError, ReadReport

#: Called with (bytes done, bytes in all or None) now and then while streaming.
Progress: TypeAlias = Callable[[int, int | None], None]

CHUNK_BYTES = 1 << 20
#: A longer line is no log line; it is counted as damaged and passed over.
MAX_LINE_BYTES = 1 << 20
MAX_JSON_BYTES = 256 << 20

_MAGIC_HINTS = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ", "xz", "xz -dc"),
)


def refuse(
    message: str, rule: str, source: str | None = None, line: int | None = None
) -> NoReturn:
    """Raises the `DataError`; one spelling for every reader."""
    raise DataError(message, rule=rule, source=source, line=line)


def _open(name: str | Path) -> tuple[BufferedIOBase, IO[bytes], int | None]:
    """Returns the stream to read, the raw file under it, and the raw size."""
    if not str(name):
        refuse("a file name is empty; name the file to read", "unreadable")
    path = Path(name)
    try:
        raw = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        refuse(f"cannot be opened: {reason}", "unreadable", str(path))
    try:
        size = path.stat().st_size if path.is_file() else None
        head = raw.peek(6)[:6]
    except OSError as error:
        raw.close()
        reason = error.strerror or type(error).__name__
        refuse(f"cannot be read: {reason}", "unreadable", str(path))
    for magic, name, command in _MAGIC_HINTS:
        if head.startswith(magic):
            raw.close()
            refuse(
                f"is {name}-compressed; only gzip is read directly. Pipe it in: "
                f"{command} {path} | specgrid ... --log -",
                "wrong_format",
                str(path),
            )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raw.close()
        refuse(
            "is UTF-16 text; save it as UTF-8 (PowerShell: -Encoding utf8)",
            "wrong_format",
            str(path),
        )
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw), raw, size
    return raw, raw, size


def iter_lines(
    path: str | Path,
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
        yield from _split(stdin, sys.stdin.buffer, None, report, progress, max_line)
        return
    stream, raw, size = _open(path)
    try:
        yield from _split(stream, raw, size, report, progress, max_line)
    finally:
        stream.close()
        raw.close()


def _split(
    stream: BufferedIOBase,
    raw: IO[bytes],
    size: int | None,
    report: ReadReport,
    progress: Progress | None,
    max_line: int,
) -> Iterator[tuple[int, bytes]]:
    number = 0
    tail = b""
    overlong = False  # inside a line that has already been given up
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
                overlong = False
            elif len(line) > max_line:
                report.add_damage(number, f"line longer than {max_line >> 20} MiB")
            else:
                yield number, line
        if len(tail) > max_line:
            if not overlong:
                report.add_damage(number + 1, f"line longer than {max_line >> 20} MiB")
            overlong = True
            tail = b""


def read_head(path: str | Path, max_bytes: int = 4096) -> str:
    """A file's first bytes as text, to see what kind it is.

    Raises:
        DataError: It cannot be read.
    """
    stream, raw, _ = _open(path)
    try:
        data = stream.read(max_bytes)
    except (EOFError, zlib.error, OSError) as error:
        refuse(f"cannot be read: {error}", "unreadable", str(path))
    finally:
        stream.close()
        raw.close()
    return data.decode("utf-8", "replace")


def read_text(path: str | Path, max_bytes: int = MAX_JSON_BYTES) -> str:
    """A whole small text file, gzip or plain.

    Raises:
        DataError: It cannot be read, is larger than `max_bytes`, or is not
            UTF-8.
    """
    name = str(path)
    stream, raw, _ = _open(path)
    try:
        data = stream.read(max_bytes + 1)
    except (EOFError, zlib.error, OSError) as error:
        refuse(f"cannot be read: {error}", "unreadable", name)
    finally:
        stream.close()
        raw.close()
    if len(data) > max_bytes:
        refuse(
            f"is larger than {max_bytes >> 20} MiB, which no file of this kind is",
            "too_large",
            name,
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(f"is not UTF-8 text ({error.reason})", "wrong_format", name)


def parse_json(text: str, source: str, line: int | None = None) -> object:
    """JSON, with NaN and Infinity let through as floats.

    Non-finite numbers are let through because vLLM writes them; whoever uses a
    field checks it with `number`.

    Raises:
        DataError: Not JSON (cut short, for instance), or nested beyond what the
            parser takes (some hundreds of levels).
    """
    try:
        return json.loads(text)
    except RecursionError:
        refuse(
            "is nested too deeply; no file of this kind is", "too_deep", source, line
        )
    except ValueError as error:
        at = getattr(error, "pos", None)
        if at is not None and text[at:].strip() == "":
            refuse(
                "is JSON cut short; was the run that wrote it stopped?",
                "not_json",
                source,
                line,
            )
        refuse(f"is not JSON: {json_fault(error)}", "not_json", source, line)


def load_json(path: str | Path) -> object:
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
