# SPDX-License-Identifier: Apache-2.0
"""The plug-in's voice: vLLM's log, one prefix.

vLLM configures handlers for the logger tree "vllm" alone, so the name hangs there. It
loads plug-ins before it configures them; what is said until then waits for `flush`.
"""

from __future__ import annotations

import logging
from typing import Any

_logger = logging.getLogger("vllm.specgrid")
_said: set[tuple[Any, ...]] = set()
_waiting: list[tuple[str, tuple[object, ...]]] = []


def info(message: str, *args: object) -> None:
    """Say something once logging works."""
    if not _logger.hasHandlers():
        _waiting.append((message, args))
        return
    flush()
    _logger.info("specgrid: " + message, *args)


def warning(message: str, *args: object, exc_info: BaseException | None = None) -> None:
    """Warn now; Python prints warnings even without a handler."""
    _logger.warning("specgrid: " + message, *args)
    if exc_info is not None:
        _logger.debug("specgrid: traceback", exc_info=exc_info)


def once(level: int, message: str, *args: object) -> None:
    """Say a thing one time in this process."""
    key = (message, *map(str, args))
    if key in _said:
        return
    _said.add(key)
    if level == logging.INFO:
        info(message, *args)
    else:
        _logger.log(level, "specgrid: " + message, *args)


def flush() -> None:
    """Say what was waiting for vLLM to configure its log."""
    if _waiting and _logger.hasHandlers():
        waiting, _waiting[:] = list(_waiting), []
        for message, args in waiting:
            _logger.info("specgrid: " + message, *args)
