# SPDX-License-Identifier: Apache-2.0
"""Which implementation answers: the native core or its pure-Python twin.

`SPECGRID_BACKEND` is `native` (fail loudly without the extension), `reference`,
or `auto` (the default: native, and without it the reference with one warning
that names the reason). The choice is made once, on first use.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

NATIVE = "native"
REFERENCE = "reference"
_MODULES = {NATIVE: "specgrid._core", REFERENCE: "specgrid._reference"}

# Why the native core is not in use when `auto` fell back; empty otherwise.
fallback_reason = ""


class BackendError(ImportError):
    """`SPECGRID_BACKEND` asks for what is not there."""


def _load(name: str) -> ModuleType:
    return importlib.import_module(_MODULES[name])


def _choose() -> tuple[str, ModuleType]:
    global fallback_reason
    wanted = os.environ.get("SPECGRID_BACKEND", "auto") or "auto"
    if wanted not in ("auto", NATIVE, REFERENCE):
        raise BackendError(
            f"SPECGRID_BACKEND={wanted!r} is not known; "
            "use native, reference or auto (the default)"
        )
    if wanted == REFERENCE:
        return REFERENCE, _load(REFERENCE)
    try:
        return NATIVE, _load(NATIVE)
    except ImportError as error:
        if wanted == NATIVE:
            raise BackendError(
                f"SPECGRID_BACKEND=native, but the extension does not load: {error}; "
                "reinstall specgrid with a C++20 compiler at hand"
            ) from error
        fallback_reason = str(error)
        warnings.warn(
            f"specgrid runs on its slow pure-Python reference: {error}; reinstall "
            "with a C++20 compiler at hand, or set SPECGRID_BACKEND=reference to "
            "silence this",
            RuntimeWarning,
            stacklevel=2,
        )
        return REFERENCE, _load(REFERENCE)


# Settled on first use.
_name: str | None = None
_module: ModuleType | None = None


def _settle() -> ModuleType:
    global _name, _module
    _name, _module = _choose()
    return _module


# The two modules have the same names and signatures, which a type checker
# cannot be told; tests compare them call by call.
def active() -> Any:
    """The module in force: `specgrid._core` or `specgrid._reference`."""
    return _module or _settle()


def name() -> str:
    """The name of the back end in force: "native" or "reference"."""
    if _name is None:
        _settle()
    assert _name is not None
    return _name


@contextlib.contextmanager
def use(backend: str) -> Iterator[Any]:
    """Switches the back end for a block. For tests and comparisons only.

    Objects keep the back end they were made with.
    """
    global _name, _module
    previous = (_name, _module)
    _name, _module = backend, _load(backend)
    try:
        yield _module
    finally:
        _name, _module = previous
