# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as they really are: closed, full, or not UTF-8.

Every command goes through here, so that a broken stream is one line and exit 2 and
never a traceback, and so that no character can stop a report.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import IO


def prepare() -> None:
    """Lets any character be written: what the encoding lacks becomes an escape."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def silence(stream: IO[str] | None) -> None:
    """Makes the interpreter's last flush of a broken stream succeed.

    What is still in its buffer cannot be written anyway, and the complaint at exit
    would change the exit status.
    """
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)
    with contextlib.suppress(OSError, ValueError):
        stream.flush()


def complain(line: str) -> None:
    """One line on standard error, if it takes one."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(printable(line) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def takes(stream: IO[str], characters: str) -> bool:
    """Whether a stream's encoding has all of these characters."""
    try:
        characters.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def printable(text: str) -> str:
    r"""Control characters as escapes, so that a name cannot steer a terminal.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


__all__ = ["complain", "prepare", "printable", "silence", "takes"]
