# SPDX-License-Identifier: Apache-2.0
"""specgrid inside vLLM, found through the entry-point group `vllm.general_plugins`.

vLLM calls `register` in its API process, its engine core and every worker, without
protection: an exception here would stop the server. So nothing is imported before the
call, everything runs behind one guard, and each seam (docs/vllm.md) is checked against
the vLLM it finds and left alone when anything differs. Of the rest of
specgrid, `specgrid doctor` alone loads this package, when it runs.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register", "status", "undo"]


def register() -> None:
    """Install every seam that fits this vLLM; called by vLLM, safe to repeat.

    Never raises. Says in one line of vLLM's log what is active, and in one warning for
    each seam that is left to vLLM why it is.
    """
    try:
        from . import _register

        _register.register()
    except Exception as error:
        import logging

        logging.getLogger("vllm.specgrid").warning(
            "specgrid: not active, vLLM runs unchanged: %s: %s",
            type(error).__name__,
            error,
        )


def status() -> dict[str, Any]:
    """What is active in this process, as `specgrid doctor` shows it.

    Returns:
        `version`, `vllm`, `active`, `reason`, `backend` and `seams`, a list of what
        each seam targets, its state and why.
    """
    from . import _register

    return _register.status()


def undo() -> None:
    """Give vLLM all its functions back."""
    from . import _register

    _register.undo()
