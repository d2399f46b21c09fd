# SPDX-License-Identifier: Apache-2.0
"""Writing files so that no reader ever sees half of one.

Everything specgrid writes for others goes through here. It raises what the system
raises (OSError); the command line makes a sentence of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file in one step: the old content stays, or all of the new is there.

    A link is followed, so it goes on pointing where it did. An old file's
    permissions are kept. Devices and pipes are written to as they are: there is
    nothing to replace.

    Args:
        path: The file.
        data: All it is to hold.

    Raises:
        OSError: It cannot be written; nothing has changed.
    """
    target = Path(os.path.realpath(path))
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with target.open("wb") as file:  # a folder is refused here
            file.write(data)
        return
    # Beside the target, since only a rename within one file system is atomic.
    scratch = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.tmp")
    try:
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise _naming(error, path) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            with contextlib.suppress(OSError):  # another owner's file
                scratch.chmod(stat.S_IMODE(old.st_mode))
        scratch.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            scratch.unlink()
        if isinstance(error, OSError):
            raise _naming(error, path) from None
        raise


def _naming(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """The error about the file that was asked for, not about the scratch one."""
    if error.filename is not None:
        error.filename, error.filename2 = str(path), None
    return error


__all__ = ["write_whole"]
