# SPDX-License-Identifier: Apache-2.0
"""Step counters that another process can read while the server runs.

The scheduler lives in the engine core, the dispatch in a worker, and `/metrics` in the
API process. Each counting process maps one small file into memory and adds to it in
place: no lock, no message, well under a microsecond a step. The API process and
`specgrid doctor` read the files. Where no file can be written the counts stay in this
process and doctor says so.

Layout: a header of HEADER bytes (JSON, padded with spaces), then slots of five 64-bit
integers: kind, three key numbers, count. A slot is claimed by its first count; the
last slot collects what no longer fits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from specgrid._read import File, ReadError, as_text, parse_json, read_text

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


class Count(NamedTuple):
    """One counter: `kind` is STEP, DRAFT, TRANSITION or OVERFLOW."""

    kind: int
    key: tuple[int, int, int]
    total: int


class Counters:
    """The counters of this process.

    Args:
        path: File to map, or None to count in memory only.
        header: What to say about this process; JSON values.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self.path = path
        self.problem = ""
        buffer: mmap.mmap | bytearray = bytearray(_SIZE)
        if path is not None:
            try:
                _make(path.parent)
                with path.open("w+b") as file:
                    file.truncate(_SIZE)
                    buffer = mmap.mmap(file.fileno(), _SIZE)
            except (OSError, ValueError) as error:
                self.path = None
                self.problem = f"{type(error).__name__}: {error}"
        text = json.dumps(header).encode()[:HEADER]
        buffer[:HEADER] = text.ljust(HEADER)
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
    return Path(tempfile.gettempdir()) / f"specgrid-{os.getuid()}"


def server() -> str:
    """Name that the processes of one server share: the first one coins it.

    It travels in the environment, because children inherit that, and not in vLLM's
    configuration, whose hash keys vLLM's compilation cache.
    """
    return os.environ.setdefault(_SERVER, f"{time.time_ns():x}-{os.getpid()}")


def _make(folder: Path) -> None:
    """Create a server's folder, readable by this user alone.

    The temporary directory is shared: a folder of our name that someone else made is
    not written to.
    """
    for made in (folder.parent, folder):
        made.mkdir(parents=made is folder.parent, exist_ok=True, mode=0o700)
        if made.stat().st_uid != os.getuid() or made.is_symlink():
            raise PermissionError(f"{made} belongs to another user")


def is_first() -> bool:
    """Whether this process is the first one of its server."""
    return _SERVER not in os.environ


def publish(document: dict[str, Any]) -> None:
    """Write what this process has to say, for doctor; silent where it cannot."""
    folder = root() / server()
    path = folder / f"process-{os.getpid()}.json"
    with contextlib.suppress(OSError):
        _make(folder)
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(document))
        scratch.replace(path)


def published(name: str) -> list[dict[str, Any]]:
    """What the processes of one server published."""
    found = []
    for path in sorted((root() / name).glob("process-*.json")):
        with contextlib.suppress(ReadError):
            said = parse_json(read_text(path, _MAX_SAID))
            if isinstance(said, dict) and isinstance(said.get("pid"), int):
                found.append(said)
    return found


_SERVER: Final = "SPECGRID_SERVER"
on_open: list[Callable[[], None]] = []
"""Called before counters are opened: a forked process then publishes itself."""

_serial = itertools.count()


def open_counters(role: str, **header: Any) -> Counters:
    """Counters of this process.

    Args:
        role: What is counted here ("scheduler", "worker").
        **header: Further JSON values to store with them.
    """
    pid = os.getpid()
    for callback in on_open:
        callback()
    header = {"role": role, "pid": pid, "started": time.time(), **header}
    name = f"{role}-{pid}-{next(_serial)}{_SUFFIX}"
    return Counters(root() / server() / name, header)


class Reading(NamedTuple):
    """One counter file: its header and its counters."""

    header: dict[str, Any]
    counts: list[Count]


def read_server(name: str) -> list[Reading]:
    """Counters of every process of one server on this machine.

    A file that is not whole, as one just being made, is passed over.
    """
    found = []
    for path in sorted((root() / name).glob("*" + _SUFFIX)):
        with contextlib.suppress(ReadError):
            found.append(_read(path))
    return found


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
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_dead() -> None:
    """Delete the folders of servers none of whose processes is alive."""
    for name in servers():
        folder = root() / name
        with contextlib.suppress(OSError, ValueError):
            files = list(folder.iterdir())
            pids = [int(f.stem.split("-")[1]) for f in files]
            if files and not any(alive(pid) for pid in pids):
                for file in files:
                    file.unlink()
                folder.rmdir()


def _read(path: Path) -> Reading:
    data = File(path).whole(_SIZE)
    header = parse_json(as_text(data[:HEADER]))
    if len(data) != _SIZE or not isinstance(header, dict):
        raise ReadError("is no file of counters", "wrong_format")
    return Reading(header, list(_scan(memoryview(data)[HEADER:].cast("q"))))


def _scan(slots: memoryview) -> Iterator[Count]:
    for at in range(0, len(slots), _FIELDS):
        kind, a, b, c, count = slots[at : at + _FIELDS]
        if not kind:
            return  # slots are claimed in order, the last one only when all are full
        yield Count(kind, (a, b, c), count)
