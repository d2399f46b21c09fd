# SPDX-License-Identifier: Apache-2.0
"""Step counters that another process can read while the server runs.

The scheduler lives in the engine core, the dispatch in a worker, and `/metrics` in the
API process. Each counting process maps one small file into memory and adds to it in
place: no lock, no message, well under a microsecond a step. The API process and
`specgrid doctor` read the files. Where no file can be written the counts stay in this
process and the log says so.

Layout: a header of HEADER bytes (JSON, padded with spaces), then slots of five 64-bit
integers: kind, three key numbers, count. A slot is claimed by its first count; the
last slot collects what no longer fits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import mmap
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from specgrid._read import File, ReadError, as_text, parse_json, read_text

from . import _log

HEADER: Final = 4096
SLOTS: Final = 8192
_FIELDS: Final = 5
_SIZE: Final = HEADER + SLOTS * _FIELDS * 8
_MAX_SAID: Final = 1 << 20
_SUFFIX: Final = ".counters"

STEP: Final = 1
"""(query length or 0 for a mixed step, requests, mode): one dispatched step."""
DRAFT: Final = 2
"""(requests, context column, k): one scheduled step and the K chosen in it."""
TRANSITION: Final = 3
"""(previous k, k, 0): two consecutive scheduled steps whose K differs."""
OVERFLOW: Final = 4
"""(0, 0, 0): counts that found no free slot."""

MODES: Final = ("NONE", "PIECEWISE", "FULL")


def mode_name(mode: int) -> str:
    """A graph mode in words; one that is not known by its number."""
    return MODES[mode] if 0 <= mode < len(MODES) else str(mode)


class Count(NamedTuple):
    """One counter: `kind` is STEP, DRAFT, TRANSITION or OVERFLOW."""

    kind: int
    key: tuple[int, int, int]
    total: int


class Counters:
    """The counters of this process.

    Args:
        path: File to map; where that fails, counts stay in memory.
        header: What to say about this process; JSON values.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path: Path | None = path
        self.problem = ""
        buffer: mmap.mmap | bytearray
        try:
            buffer = _map(path, _SIZE)
        except (OSError, ValueError) as error:
            self.path = None
            self.problem = f"{type(error).__name__}: {error}"
            buffer = bytearray(_SIZE)
        buffer[:HEADER] = json.dumps(header).encode().ljust(HEADER)
        self._slots = memoryview(buffer)[HEADER:].cast("q")
        self._index: dict[tuple[int, int, int, int], int] = {}

    def add(self, kind: int, a: int, b: int, c: int) -> None:
        """Count one step under a key."""
        key = (kind, a, b, c)
        try:
            at = self._index[key]
        except KeyError:
            at = self._claim(key)
        self._slots[at] += 1

    def counts(self) -> Iterator[Count]:
        """This process's counters."""
        yield from _scan(self._slots)

    def _claim(self, key: tuple[int, int, int, int]) -> int:
        slot = len(self._index)
        if slot >= SLOTS - 1:
            slot, key = SLOTS - 1, (OVERFLOW, 0, 0, 0)
        at = slot * _FIELDS
        self._slots[at + 1] = key[1]
        self._slots[at + 2] = key[2]
        self._slots[at + 3] = key[3]
        self._slots[at] = key[0]
        self._index[key] = at + 4
        return at + 4


def root() -> Path:
    """Directory of all servers of this user: $SPECGRID_RUN_DIR or the temporary one."""
    given = os.environ.get("SPECGRID_RUN_DIR")
    if given:
        return Path(given)
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:  # nothing is writable: who writes will find out
        temporary = "/tmp"
    return Path(temporary) / f"specgrid-{os.getuid()}"


def server() -> str:
    """Name that the processes of one server share: the first one coins it.

    It travels in the environment, because children inherit that, and not in vLLM's
    configuration, whose hash keys vLLM's compilation cache.
    """
    if is_first():
        os.environ[_SERVER] = f"{time.time_ns():x}-{os.getpid()}"
    return os.environ[_SERVER]


def _make(folder: Path) -> None:
    """Create a server's folder, readable by this user alone.

    The temporary directory is shared: a folder of our name that someone else made is
    not written to. Where SPECGRID_RUN_DIR leads is the user's own choice.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    chosen = bool(os.environ.get("SPECGRID_RUN_DIR"))
    for made in (folder,) if chosen else (folder.parent, folder):
        if made.is_symlink() or made.stat().st_uid != os.getuid():
            raise PermissionError(f"{made} is a link or belongs to another user")


def _map(path: Path, size: int) -> mmap.mmap:
    """A new file in memory.

    Its blocks are taken now: a page for which a full disk has no room later would end
    the process (SIGBUS) in the middle of a step.
    """
    _make(path.parent)
    try:
        with path.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def is_first() -> bool:
    """Whether this process is the first one of its server."""
    return not os.environ.get(_SERVER)


def publish(document: dict[str, Any]) -> None:
    """Write what this process has to say, for doctor; silent where it cannot."""
    folder = root() / server()
    path = folder / f"process-{os.getpid()}.json"
    with contextlib.suppress(OSError, ValueError):
        _make(folder)
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(document))
        scratch.replace(path)


def published(name: str) -> list[dict[str, Any]]:
    """What the processes of one server published."""
    found = []
    for path in _files(name, "process-*.json"):
        with contextlib.suppress(ReadError):
            document = parse_json(read_text(path, _MAX_SAID))
            if _is_published(document):
                found.append(document)
    return found


def _is_published(document: Any) -> bool:
    """Whether JSON values are what a process says about itself."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("process"), str)
        and isinstance(document.get("pid"), int)
        and isinstance(document.get("active"), list)
        and all(isinstance(name, str) for name in document["active"])
        and isinstance(document.get("reasons"), dict)
    )


_SERVER: Final = "SPECGRID_SERVER"
on_open: list[Callable[[], None]] = []
"""Called before counters are opened: a forked process then publishes itself."""

_serial = itertools.count()


def open_counters(role: str) -> Counters:
    """Counters of this process.

    Args:
        role: What is counted here ("scheduler", "worker").
    """
    pid = os.getpid()
    for callback in on_open:
        callback()
    header = {"role": role, "pid": pid, "started": time.time()}
    name = f"{role}-{pid}-{next(_serial)}{_SUFFIX}"
    counters = Counters(root() / server() / name, header)
    if counters.problem:
        _log.once(
            logging.INFO,
            "steps are counted in memory alone, not in /metrics: %s",
            counters.problem,
        )
    return counters


class Reading(NamedTuple):
    """One counter file: its header and its counters."""

    header: dict[str, Any]
    counts: list[Count]


def read_server(name: str) -> list[Reading]:
    """Counters of every process of one server on this machine.

    Processes come, go and write while this looks: what is no whole counter file at
    this moment is left out.
    """
    found = map(_read, _files(name, "*" + _SUFFIX))
    return [reading for reading in found if reading is not None]


def servers() -> list[str]:
    """Servers with counter files on this machine, newest first."""
    with contextlib.suppress(OSError):
        found = [p for p in root().iterdir() if p.is_dir()]
        return [
            p.name for p in sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)
        ]
    return []


def alive(pid: int) -> bool:
    """Whether a process of this machine still runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


_OUR_FOLDER: Final = re.compile(r"[0-9a-f]{12,}-[0-9]+")
_OUR_FILE: Final = re.compile(
    r"(?:process-([0-9]+)\.(?:json|tmp)|(?:scheduler|worker)-([0-9]+)-[0-9]+\.counters)"
)


def remove_dead() -> None:
    """Delete the folders of servers none of whose processes is alive.

    SPECGRID_RUN_DIR may name any folder of the user's: nothing is deleted unless its
    name and the name of everything beside it are ones that only specgrid gives.
    """
    for name in servers():
        if not _OUR_FOLDER.fullmatch(name):
            continue
        folder = root() / name
        with contextlib.suppress(OSError):
            files = list(folder.iterdir())
            names = [_OUR_FILE.fullmatch(file.name) for file in files]
            if files and all(m and not alive(int(m[1] or m[2])) for m in names):
                for file in files:
                    file.unlink()
                folder.rmdir()


def _files(name: str, pattern: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted((root() / name).glob(pattern))
    return []


def _read(path: Path) -> Reading | None:
    """A counter file, or None for what is none (not yet, not any more, never)."""
    try:
        data = File(path).whole(_SIZE)
        header = parse_json(as_text(data[:HEADER]))
    except ReadError:
        return None
    if len(data) != _SIZE or not isinstance(header, dict):
        return None
    return Reading(header, list(_scan(memoryview(data)[HEADER:].cast("q"))))


def _scan(slots: memoryview) -> Iterator[Count]:
    for at in range(0, len(slots), _FIELDS):
        kind, a, b, c, count = slots[at : at + _FIELDS]
        if not kind:
            return  # slots are claimed in order, the last one only when all are full
        yield Count(kind, (a, b, c), count)
