# SPDX-License-Identifier: Apache-2.0
"""The ``specgrid`` command's way in, and nothing else: the command is ``_main``.

Nothing is imported before `main` can answer Ctrl-C in one line, since importing is
most of what a short command does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's, without importing it
if TYPE_CHECKING:
    from collections.abc import Sequence

    from specgrid.cli._main import COMMANDS, cli, run

__all__ = ["COMMANDS", "cli", "main", "run"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    import sys  # built in: there already

    try:
        from specgrid.cli._main import start

        status = start(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # As the shell reports a command that Ctrl-C ended.
        status = 130
        try:  # noqa: SIM105 - contextlib may be what was being imported
            print("specgrid: interrupted", file=sys.stderr, flush=True)  # noqa: T201
        except (OSError, ValueError):
            pass  # nobody to tell
    sys.exit(status)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from specgrid.cli import _main

    return getattr(_main, name)
