# SPDX-License-Identifier: Apache-2.0
"""Reading what others wrote: the one place that opens a file or parses JSON or YAML.

The rules are the same for all input. Only files, pipes and terminals are opened; a
device may have no end. What is taken whole has a largest size, a largest number of
values and a greatest depth, each checked before memory is spent. Text is UTF-8
without NUL, with or without a byte order mark. A key given twice is refused, for one
of its values would be dropped. Nothing is ever run: no pickle, no YAML tags.

Logs have no largest size: `specgrid.io._source.iter_lines` streams them. What is
wrong is a `ReadError`; each reader adds the file's name and its own advice.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from specgrid._errors import json_fault

#: Values in one JSON text; results with every token's time have some millions.
MAX_VALUES = 8 << 20
#: Values in one YAML text, where aliases make a short text stand for billions.
MAX_YAML_VALUES = 200_000
#: Deeper nesting is refused: neither settings nor results come near.
MAX_DEPTH = 100
#: Digits of one YAML number; some forms of it take quadratic time to read.
MAX_DIGITS = 64

_OTHERS = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ", "xz", "xz -dc"),
)
_BROKEN = (EOFError, OSError, zlib.error)  # what a damaged gzip file raises


class ReadError(ValueError):
    """Why a text cannot be taken, without the name of what it is from.

    Attributes:
        rule: ``"unreadable"``, ``"too_large"``, ``"wrong_format"``, ``"not_json"``,
            ``"not_yaml"``, ``"too_deep"`` or ``"conflict"``.
        at: Where in the text, in characters, where that is known.
        line: The line, from 1, where that is known.
    """

    def __init__(
        self, message: str, rule: str, at: int | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.at = at
        self.line = line


class Opened(NamedTuple):
    """A file being read.

    Attributes:
        stream: Its content, unpacked.
        raw: What is on disk, whose position tells the progress.
        size: Bytes on disk; None where there is no end yet.
    """

    stream: io.BufferedIOBase
    raw: IO[bytes]
    size: int | None

    def close(self) -> None:
        self.stream.close()
        self.raw.close()


class File(os.PathLike[str]):
    """A file someone named, which may be looked at before it is read.

    A regular file is opened anew each time. A pipe gives its bytes once, so what was
    looked at is kept and given again.
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        self._name = os.fspath(name)
        self._pipe: Opened | None = None
        self._kept = b""  # the beginning of a pipe, as far as it was looked at
        self._ended = False  # that beginning is all there is
        self._streamed = False

    def __del__(self) -> None:
        if self._pipe is not None:  # looked at, and refused
            self._pipe.close()

    def __fspath__(self) -> str:
        return self._name

    def __str__(self) -> str:
        return self._name

    def open(self) -> Opened:
        """Opens the file, or goes on with a pipe from its beginning.

        Raises:
            ReadError: It cannot be opened, or is a pipe that has been read.
        """
        if self._pipe is None:
            opened = _open(self._name)
            if opened.size is not None:
                return opened
            self._pipe = opened
        if self._ended:  # held whole
            again = io.BytesIO(self._kept)
            return Opened(again, again, None)
        if self._streamed:
            raise ReadError(
                "is a pipe and was read already; save it in a file", "unreadable"
            )
        self._streamed = True
        rest = io.BufferedReader(_Joined(self._kept, self._pipe.stream))
        return Opened(rest, self._pipe.raw, None)

    def head(self, most: int) -> bytes:
        """The first bytes, unpacked; fewer where there are no more.

        Raises:
            ReadError: It cannot be read.
        """
        return self._taken(most)

    def whole(self, most: int) -> bytes:
        """All of it.

        Raises:
            ReadError: It cannot be read, or has more than so many bytes.
        """
        data = self._taken(most + 1)
        if len(data) > most:
            raise _too_large(most)
        return data

    def _taken(self, most: int) -> bytes:
        if self._pipe is None:
            opened = _open(self._name)
            if opened.size is not None:
                try:
                    return _exactly(opened.stream, most)
                finally:
                    opened.close()
            self._pipe = opened
        if not self._ended and len(self._kept) < most:
            wanted = most - len(self._kept)
            more = _exactly(self._pipe.stream, wanted)
            self._kept += more
            self._ended = len(more) < wanted
            if self._ended:
                self._pipe.close()
        return self._kept[:most]


class _Joined(io.RawIOBase):
    """Bytes that were read already, then the rest of their stream."""

    def __init__(self, first: bytes, rest: io.BufferedIOBase) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._first[: len(buffer)] or self._rest.read1(len(buffer))
        self._first = self._first[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether it is a folder; False for what cannot be asked, as too long a name."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises there


def as_file(path: str | os.PathLike[str]) -> File:
    """The path as a `File`, which it may be already."""
    return path if isinstance(path, File) else File(path)


def _open(name: str) -> Opened:
    if not name:
        raise ReadError("a file name is empty; name the file to read", "unreadable")
    try:
        path = Path(name)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ReadError(
                "cannot be opened: Is a directory; name a file in it", "unreadable"
            )
        raw = path.open("rb")
        try:
            if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not raw.isatty():
                raise ReadError(
                    "is a device, which may have no end; name a file", "unreadable"
                )
            size = os.fstat(raw.fileno()).st_size if stat.S_ISREG(mode) else None
            start = raw.peek(6)[:6]
            _refuse_packed(start)
        except BaseException:
            raw.close()
            raise
    except ReadError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadError(f"cannot be opened: {reason}", "unreadable") from None
    if start.startswith(b"\x1f\x8b"):
        return Opened(gzip.GzipFile(fileobj=raw), raw, size)
    return Opened(raw, raw, size)


def _refuse_packed(start: bytes) -> None:
    for magic, kind, command in _OTHERS:
        if start.startswith(magic):
            raise ReadError(
                f"is {kind}-compressed; only gzip is read directly. Unpack it first "
                f"(`{command} FILE`), or pipe it in",
                "wrong_format",
            )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ReadError(
            "is UTF-16 text; save it as UTF-8 (PowerShell: -Encoding utf8)",
            "wrong_format",
        )


def _exactly(stream: IO[bytes] | io.BufferedIOBase, most: int) -> bytes:
    """So many bytes, or all there are; a pipe gives them piece by piece."""
    try:
        return stream.read(most)
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadError(f"cannot be read: {reason}", "unreadable") from None


def _too_large(most: int) -> ReadError:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return ReadError(
        f"is larger than {size}, which no file of this kind is", "too_large"
    )


def read_stream(stream: IO[bytes], most: int) -> str:
    """All of an open stream as text; it may be endless.

    Raises:
        ReadError: It cannot be read, is too large, or is no text.
    """
    data = _exactly(stream, most + 1)
    if len(data) > most:
        raise _too_large(most)
    _refuse_packed(data[:6])
    return as_text(data)


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """A whole text file, plain or gzip.

    Raises:
        ReadError: It cannot be read, is larger than so many bytes, or is no text.
    """
    return as_text(as_file(path).whole(most))


def as_text(data: bytes | bytearray) -> str:
    """Bytes as UTF-8 text, its byte order mark left out.

    Raises:
        ReadError: They are not.
    """
    try:
        text = bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not UTF-8 text ({error.reason})", "wrong_format") from None
    if "\0" in text:
        raise ReadError("holds NUL bytes, which no text has", "wrong_format")
    return text


def parse_json(text: str, *, finite: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        text: All of it.
        finite: Refuse NaN and Infinity, which are not JSON though vLLM writes them.
            Where they are let through, whoever uses a number checks it.

    Raises:
        ReadError: It is no JSON, gives a key twice, or has more values or levels
            than any input.
    """
    # Each value but the first follows one of these; counting them costs no memory.
    if text.count(",") + text.count("[") + text.count("{") > MAX_VALUES:
        raise ReadError(f"it has more than {MAX_VALUES:,} values", "too_large")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_no_repeats,
            parse_constant=_no_constant if finite else None,
        )
    except ReadError:
        raise
    except RecursionError as error:
        raise ReadError(json_fault(error), "too_deep") from None
    except json.JSONDecodeError as error:
        raise ReadError(json_fault(error), "not_json", error.pos) from None
    except ValueError as error:  # thousands of digits
        raise ReadError(json_fault(error), "not_json") from None
    _check_shape(value, MAX_VALUES)
    return value


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _refuse_repeat(key)
            seen.add(key)
    return found


def _refuse_repeat(key: str, line: int | None = None) -> NoReturn:
    raise ReadError(f"key {key!r:.60} is given twice; keep one", "conflict", line=line)


def _no_constant(name: str) -> NoReturn:
    raise ReadError(f"{name} is no JSON number", "not_json")


def _check_shape(value: Any, most: int) -> None:
    """Refuses what is nested too deeply, or stands for too many values."""
    level: Iterable[Any] = [value]
    number = 0
    for _ in range(MAX_DEPTH + 1):
        level = [part for part in level if isinstance(part, (dict, list, tuple, set))]
        if not level:
            return
        # Counted before they are listed: aliases make few holders hold billions.
        number += sum(map(len, level))
        if number > most:
            raise ReadError(f"it expands to more than {most:,} values", "too_large")
        level = [part for holder in level for part in _parts(holder)]
    raise ReadError("it is nested too deeply", "too_deep")


def _parts(holder: Any) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder


def parse_yaml(text: str) -> tuple[Any, ...]:
    """The documents of a YAML text, plain values only.

    Raises:
        ReadError: As `parse_json`.
    """
    import yaml

    try:
        documents = tuple(yaml.load_all(text, Loader=_yaml_loader()))
    except ReadError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "malformed"
        if "exceeded max" in problem:  # libyaml's own limit on nesting
            raise ReadError("it is nested too deeply", "too_deep") from None
        line = None if mark is None else mark.line + 1
        raise ReadError(" ".join(str(problem).split()), "not_yaml", line=line) from None
    except RecursionError as error:
        raise ReadError(json_fault(error), "too_deep") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # PyYAML checks no value against its tag: `!!int ""`, `!!bool x`.
        raise ReadError("a value is not what its tag says", "not_yaml") from None
    _check_shape(documents, MAX_YAML_VALUES)
    return documents


@functools.cache
def _yaml_loader() -> Any:
    """PyYAML's safe loader with the rules above; made late, since few need it."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self._seen: set[int] = set()
            self._merged = 0

        def flatten_mapping(self, node: Any) -> None:
            """Merge keys copy what they name: counted here, as they happen."""
            if id(node) not in self._seen:  # as written, nothing merged in yet
                self._seen.add(id(node))
                _refuse_repeats(node)
            super().flatten_mapping(node)
            self._merged += len(node.value)
            if self._merged > MAX_YAML_VALUES:
                raise ReadError(
                    f"it expands to more than {MAX_YAML_VALUES:,} values", "too_large"
                )

        def short_int(self, node: Any) -> Any:
            return self.construct_yaml_int(_short_number(node))

        def short_float(self, node: Any) -> Any:
            return self.construct_yaml_float(_short_number(node))

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.short_int)
    Loader.add_constructor("tag:yaml.org,2002:float", Loader.short_float)
    return Loader


_MERGE = "tag:yaml.org,2002:merge"


def _refuse_repeats(node: Any) -> None:
    keys: set[tuple[str, str]] = set()
    for key, _ in node.value:
        # Of others than plain keys PyYAML knows which are equal, not we.
        if not isinstance(key.value, str) or key.tag == _MERGE:
            continue
        mark = (key.tag, key.value)
        if mark in keys:
            _refuse_repeat(key.value, key.start_mark.line + 1)
        keys.add(mark)


def _short_number(node: Any) -> Any:
    if isinstance(node.value, str) and len(node.value) > MAX_DIGITS:
        raise ReadError(
            f"a number in it has more than {MAX_DIGITS} digits",
            "not_yaml",
            line=node.start_mark.line + 1,
        )
    return node


#: What a number in a table may look like; Python's own reading takes far more.
_PLAIN_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)",
    re.ASCII | re.IGNORECASE,
)


def plain_number(text: str) -> float | None:
    """A number as tables hold it, which may be nan or infinite; else None.

    >>> plain_number("12.5"), plain_number("1_000"), plain_number("1e999")
    (12.5, None, inf)
    """
    if len(text) > 400 or _PLAIN_NUMBER.fullmatch(text) is None:
        return None
    return float(text)


__all__ = [
    "File",
    "Opened",
    "ReadError",
    "as_file",
    "as_text",
    "is_folder",
    "parse_json",
    "parse_yaml",
    "plain_number",
    "read_stream",
    "read_text",
]
