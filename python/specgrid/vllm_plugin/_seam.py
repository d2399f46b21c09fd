# SPDX-License-Identifier: Apache-2.0
"""One place where vLLM calls us: find it, check it, replace it, put it back.

A seam names a function of vLLM and what specgrid does there. It is installed only
when the function is where it was, takes the parameters it took, and passes the
seam's own check; in every other case vLLM keeps its function and the seam says why.
This module knows nothing about graphs or schedules, and imports no vLLM.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from . import _log

LEAVE: Final = object()
"""What an answer returns to hand the call to vLLM."""

WAITING: Final = "waiting"
ACTIVE: Final = "active"
LEFT: Final = "left to vLLM"
OFF: Final = "off"

_MARK: Final = "__specgrid_seam__"


class StopStartupError(RuntimeError):
    """The one exception of ours that reaches vLLM: going on would hang the server."""


class Seam:
    """A function of vLLM, and what happens around it.

    Either `answer` computes the result in place of vLLM (or returns LEAVE), or `before`
    runs before vLLM's own call; `after` runs after it. An exception in any of the three
    is reported once, the seam steps aside for the rest of the process, and vLLM's
    function runs as if nothing had been there. vLLM's own exceptions pass.

    Args:
        name: Short name for logs and `specgrid doctor`.
        module: Module that defines the function.
        qualname: Function or `Class.method` inside it.
        parameters: Parameter names, `self` left out, that vLLM's function must start
            with. Where `answer` replaces it, further ones must have defaults.
        purpose: What is gained, in one line.
        answer: Called with the original and the call's arguments.
        before: Called with the call's arguments.
        after: Called with vLLM's result and the call's arguments.
        check: Compares vLLM's function with ours on a fixed battery; returns the
            first difference in words, or None.
    """

    def __init__(
        self,
        name: str,
        module: str,
        qualname: str,
        parameters: tuple[str, ...],
        purpose: str,
        *,
        answer: Callable[..., Any] | None = None,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
        check: Callable[[Callable[..., Any]], str | None] | None = None,
    ) -> None:
        self.name = name
        self.module = module
        self.qualname = qualname
        self.parameters = parameters
        self.purpose = purpose
        self.answer = answer
        self.before = before
        self.after = after
        self.check = check
        self.state = OFF
        self.reason = "not installed"
        self.check_us = 0.0
        self.calls = 0
        self.original: Callable[..., Any] | None = None
        self._wrapper: Callable[..., Any] | None = None
        self._bindings: list[tuple[Any, str]] = []

    def install(self) -> None:
        """Put the seam in place if its module is loaded, else wait for it."""
        if self.state == ACTIVE:
            return
        module = sys.modules.get(self.module)
        if module is None:
            self.state = WAITING
            self.reason = f"{self.module} is not imported in this process yet"
            return
        try:
            reason = self._try_install(module)
        except Exception as error:  # this runs inside vLLM's own imports
            self.undo()
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            self.state = LEFT
            self.reason = reason
            _log.warning("%s is left to vLLM: %s", self.name, reason)

    def undo(self) -> None:
        """Give every binding its original back."""
        for namespace, attribute in self._bindings:
            if vars(namespace).get(attribute) is self._wrapper:
                setattr(namespace, attribute, self.original)
        if self._wrapper is not None and "." not in self.qualname:
            # Modules imported since then took the wrapper for the function.
            for namespace in _holders(self.qualname, self._wrapper):
                setattr(namespace, self.qualname, self.original)
        self._bindings.clear()
        self.original = None
        self._wrapper = None
        self.state = OFF
        self.reason = "undone"

    def step_aside(self, error: BaseException) -> None:
        """Report an exception of ours once and hand all further calls to vLLM."""
        if self.state == ACTIVE:
            self.state = LEFT
            self.reason = f"{type(error).__name__}: {error}"
            _log.warning(
                "%s raised %s; vLLM's own function is used from here on",
                self.name,
                self.reason,
                exc_info=error,
            )

    def describe(self) -> dict[str, Any]:
        """What `specgrid doctor` shows."""
        return {
            "seam": self.name,
            "target": f"{self.module}.{self.qualname}",
            "purpose": self.purpose,
            "state": self.state,
            "reason": self.reason,
            "calls": self.calls,
            "check_us": round(self.check_us, 1),
        }

    def _try_install(self, module: Any) -> str | None:
        owner: Any = module
        *path, attribute = self.qualname.split(".")
        for part in path:
            owner = vars(owner).get(part)
            if owner is None:
                return f"{self.module} has no {part}"
        original = vars(owner).get(attribute)
        if not inspect.isfunction(original):
            return f"{self.module} has no function {self.qualname}"
        if hasattr(original, _MARK):
            return f"{self.qualname} is already replaced by another specgrid"
        reason = self._compare_parameters(original, is_method=bool(path))
        if reason is not None:
            return reason
        if self.check is not None:
            start = time.perf_counter()
            try:
                reason = self.check(original)
            except Exception as error:
                reason = f"self-check raised {type(error).__name__}: {error}"
            self.check_us = (time.perf_counter() - start) * 1e6
            if reason is not None:
                return f"self-check: {reason}"
        self.original = original
        self._wrapper = self._wrap(original)
        namespaces = [owner] if path else _holders(attribute, original)
        for namespace in namespaces:
            setattr(namespace, attribute, self._wrapper)
            self._bindings.append((namespace, attribute))
        self.state = ACTIVE
        self.reason = ""
        return None

    def _compare_parameters(
        self, original: Callable[..., Any], *, is_method: bool
    ) -> str | None:
        parameters = list(inspect.signature(original).parameters.values())
        if is_method:
            parameters = parameters[1:]
        found = tuple(p.name for p in parameters)
        extra = parameters[len(self.parameters) :]
        if found[: len(self.parameters)] == self.parameters and (
            self.answer is None  # what runs around a call passes anything on
            or all(
                p.default is not inspect.Parameter.empty
                or p.kind
                in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
                for p in extra
            )
        ):
            return None
        return (
            f"{self.qualname} takes ({', '.join(found)}), "
            f"expected ({', '.join(self.parameters)})"
        )

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        answer, before, after = self.answer, self.before, self.after
        seam = self

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if seam.state != ACTIVE:
                return original(*args, **kwargs)
            try:
                if answer is not None:
                    result = answer(original, *args, **kwargs)
                    if result is not LEAVE:
                        seam.calls += 1
                        return result
                else:
                    seam.calls += 1
                    if before is not None:
                        before(*args, **kwargs)
            except StopStartupError:
                raise
            except Exception as error:
                seam.step_aside(error)
            result = original(*args, **kwargs)
            if after is not None and seam.state == ACTIVE:
                try:
                    after(result, *args, **kwargs)
                except Exception as error:
                    seam.step_aside(error)
            return result

        setattr(wrapper, _MARK, self.name)
        return wrapper


def _holders(attribute: str, original: Callable[..., Any]) -> list[Any]:
    """Every loaded module that binds `original` under this name.

    `from x import f` copies the binding, so replacing `x.f` alone would miss the
    modules imported before us; only bindings that are the original are touched.
    """
    holders = []
    for module in list(sys.modules.values()):
        # Whatever else stands there may raise when it is looked at.
        with contextlib.suppress(Exception):
            if vars(module).get(attribute) is original:
                holders.append(module)
    return holders
