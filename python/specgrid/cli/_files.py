# SPDX-License-Identifier: Apache-2.0
"""Result files of commands: written whole, refused in one line."""

from __future__ import annotations

from pathlib import Path

from specgrid import _atomic
from specgrid._errors import ConfigError


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file in one step: the old content, or all of the new.

    Raises:
        ConfigError: It cannot be written; says why.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file in it")
    try:
        _atomic.write_whole(path, data)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; name a file in a folder "
            "you may write to"
        ) from None
