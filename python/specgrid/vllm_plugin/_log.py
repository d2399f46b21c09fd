# SPDX-License-Identifier: Apache-2.0
"""The plug-in's voice: vLLM's log, one prefix.

vLLM configures handlers for the logger tree "vllm" alone, so the name hangs there.
"""

from __future__ import annotations

import logging
from typing import Any

_logger = logging.getLogger("vllm.specgrid")
_said: set[tuple[Any, ...]] = set()


def info(message: str, *args: object) -> None:
    _logger.info("specgrid: " + message, *args)


def warning(message: str, *args: object, exc_info: BaseException | None = None) -> None:
    _logger.warning("specgrid: " + message, *args)
    if exc_info is not None:
        _logger.debug("specgrid: traceback", exc_info=exc_info)


def once(level: int, message: str, *args: object) -> None:
    """Say a thing one time in this process."""
    key = (message, *map(str, args))
    if key not in _said:
        _said.add(key)
        _logger.log(level, "specgrid: " + message, *args)
