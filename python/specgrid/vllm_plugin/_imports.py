# SPDX-License-Identifier: Apache-2.0
"""Call back when a module is imported, without importing it ourselves.

The engine core never loads the graph manager and a worker never loads the scheduler;
importing both everywhere would cost every process most of a second. The finder below
stands in front of the others, lets them find the module, and runs the callbacks right
after the module's own code.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_callbacks: dict[str, list[Callable[[], None]]] = {}


class _AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self._searching: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _callbacks or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
            loader: Any = spec.loader  # type: ignore[union-attr]
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _run(fullname)

            loader.exec_module = exec_module
        except Exception:
            return None  # no module, or a loader we cannot follow: not our business
        finally:
            self._searching.discard(fullname)
        return spec


_finder = _AfterImport()


def when_imported(module: str, callback: Callable[[], None]) -> None:
    """Run `callback` right after `module` has been imported."""
    _callbacks.setdefault(module, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget() -> None:
    """Drop every callback and the finder."""
    _callbacks.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _run(module: str) -> None:
    for callback in _callbacks.pop(module, []):
        callback()
