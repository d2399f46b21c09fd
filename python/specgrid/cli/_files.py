# SPDX-License-Identifier: Apache-2.0
"""Results in files: refused before the work where that can be known, then written
whole.

How a file is written is in ``specgrid._atomic``; here its errors become sentences.
"""

from __future__ import annotations

import os
from pathlib import Path

from specgrid import _atomic
from specgrid._errors import ConfigError


def check_target(path: str | os.PathLike[str] | None, flag: str) -> None:
    """Refuses a file that cannot be written, before anything is worked out.

    Nothing is opened: a pipe's reader must not see it closed.

    Args:
        path: The file asked for; None for none.
        flag: The flag or argument that names it.

    Raises:
        ConfigError: It is a folder, its folder is missing, or it has no name.
    """
    if path is None:
        return
    name = os.fspath(path)
    if not name:
        raise ConfigError(f"{flag} is empty; name a file to write")
    target = Path(name)
    if target.is_dir():
        raise ConfigError(f"{flag} {name}: Is a directory; name a file in it")
    # An open pipe's own name, as /dev/stdout has, leads to no folder.
    beside = target if target.exists() else Path(os.path.realpath(name)).parent
    if not beside.exists():
        raise ConfigError(
            f"{flag} {name}: No such file or directory; make its folder first"
        )
    if beside is not target and not beside.is_dir():
        raise ConfigError(f"{flag} {name}: Not a directory; name a file in a folder")
    if not os.access(beside, os.W_OK):
        raise ConfigError(
            f"{flag} {name}: Permission denied; name a file you may write to"
        )


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file in one step: the old content, or all of the new.

    Links are followed; pipes and devices are written to as they are.

    Raises:
        ConfigError: It cannot be written; says why.
    """
    try:
        _atomic.write_whole(path, data)
    except OSError as error:
        raise ConfigError(
            f"{os.fspath(path)} cannot be written: {error.strerror}; name a file in a "
            "folder you may write to"
        ) from None
