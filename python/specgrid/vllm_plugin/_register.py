# SPDX-License-Identifier: Apache-2.0
"""The list of seams, and installing and removing all of them."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from functools import partial
from typing import Any

from specgrid import _backend
from specgrid._version import __version__

from . import (
    _capture,
    _config,
    _counters,
    _dispatcher,
    _graphs,
    _imports,
    _log,
    _lookup,
    _metrics,
    _scheduler,
    _settings,
    _sizes,
)
from ._seam import ACTIVE, LEFT, WAITING, Seam

SEAMS: tuple[Seam, ...] = (
    _config.RESOLVE,
    _config.ROWS,
    _lookup.SEAM,
    _sizes.SEAM,
    _graphs.SEAM,
    _capture.CAPTURE,
    _capture.STEPS,
    _dispatcher.PADDING,
    _dispatcher.KEYS,
    _capture.V1_CAPTURE,
    _capture.V1_STEPS,
    _scheduler.SEAM,
    _metrics.LOGGER,
    _metrics.REGISTRIES,
)

_reason = "register() has not run in this process"
_active = False
_register_us = 0.0
_publishing = True
_published_pid = 0


def register(*, publish: bool = True) -> None:
    """Install the seams; a second call changes nothing.

    Args:
        publish: Whether this process belongs to a server and says so; doctor does
            not.
    """
    global _reason
    if _active:
        return
    if _settings.disabled():
        _reason = "switched off by SPECGRID_DISABLE"
        _log.info("%s", _reason)
        return
    try:
        _install(publish)
    except Exception as error:
        undo()  # all of it or nothing
        _reason = f"{type(error).__name__}: {error}"
        raise


def _install(publish: bool) -> None:
    global _active, _reason, _register_us, _publishing
    start = time.perf_counter()
    _backend.active()  # a core that does not load is said here, before any seam
    _publishing = publish
    if publish:
        if _counters.is_first():
            _counters.remove_dead()
        _counters.server()
    for seam in SEAMS:
        seam.install()
        if seam.state == WAITING:
            _imports.when_imported(seam.module, partial(_install_late, seam))
    _active, _reason = True, ""
    _register_us = (time.perf_counter() - start) * 1e6
    _counters.on_open[:] = [_publish_fork]
    _log.info("%s", _summary())
    version = _vllm_version()
    if not version.startswith(TESTED):
        _log.info(
            "vLLM %s is not among the tested versions (%s*); every seam was checked "
            "against it one by one",
            version,
            TESTED,
        )
    _publish()


def _install_late(seam: Seam) -> None:
    seam.install()
    _publish()


def _publish_fork() -> None:
    """A process forked from a registered one has its seams, but has said nothing."""
    if _published_pid != os.getpid():
        _log.info("%s", _summary())
        _publish()


def _publish() -> None:
    """Leave what is active here where `specgrid doctor` finds it, if it can."""
    global _published_pid
    if not _publishing:
        return
    _published_pid = os.getpid()
    names = {state: [s.name for s in SEAMS if s.state == state] for state in _STATES}
    left = {s.name: s.reason for s in SEAMS if s.state == LEFT}
    _counters.publish(
        {"process": _process_name(), "pid": os.getpid(), **names, "reasons": left}
    )


def _process_name() -> str:
    """What vLLM calls this process in its log."""
    info = getattr(sys.modules.get("vllm.logger"), "_vllm_process_info", None)
    if isinstance(info, tuple) and info:
        return str(info[0])
    return multiprocessing.current_process().name


TESTED = "0.33."
"""Prefix of the vLLM versions the tests run against."""

_STATES = (ACTIVE, WAITING, LEFT)


def undo() -> None:
    """Remove every seam from this process."""
    global _active, _reason
    _imports.forget()
    for seam in SEAMS:
        seam.undo()
    _active, _reason = False, "undone"


def check_all() -> None:
    """Import the module of every seam, so that none is left waiting."""
    import contextlib
    import importlib

    for seam in SEAMS:
        if seam.state == WAITING:
            with contextlib.suppress(Exception):
                importlib.import_module(seam.module)
            seam.install()


def status() -> dict[str, Any]:
    """What is active in this process."""
    return {
        "version": __version__,
        "vllm": _vllm_version(),
        "active": _active,
        "reason": _reason,
        "backend": _backend.name(),
        "pid": os.getpid(),
        "register_us": round(_register_us, 1),
        "seams": [seam.describe() for seam in SEAMS],
    }


def _summary() -> str:
    names = {
        state: ", ".join(s.name for s in SEAMS if s.state == state)
        for state in (ACTIVE, WAITING, LEFT)
    }
    parts = [f"{__version__} ({_backend.name()}) with vLLM {_vllm_version()}"]
    if names[ACTIVE]:
        parts.append(f"active: {names[ACTIVE]}")
    if names[WAITING]:
        parts.append(f"when loaded: {names[WAITING]}")
    if names[LEFT]:
        parts.append(f"left to vLLM: {names[LEFT]}")
    return "; ".join(parts)


def _vllm_version() -> str:
    module = sys.modules.get("vllm")
    version = getattr(module, "__version__", None)
    return str(version) if version is not None else "not imported"
