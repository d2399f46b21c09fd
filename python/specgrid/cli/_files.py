# SPDX-License-Identifier: Apache-2.0
"""Writing files so that no reader ever sees half of one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from specgrid._errors import ConfigError


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file in one step: the old content, or all of the new.

    Raises:
        ConfigError: It cannot be written; says why.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file in it")
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".tmp", dir=path.parent
        )
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name a file in a folder "
            "you may write to"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes files private; a result is as readable as any other.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError):
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
        raise
