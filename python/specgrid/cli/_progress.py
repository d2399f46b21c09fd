# SPDX-License-Identifier: Apache-2.0
"""Progress on standard error, and only where a person is watching.

A pipe, a file or a CI log gets nothing, so that output stays the same there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from specgrid.io._source import Progress


@contextmanager
def reading(what: str) -> Iterator[Progress | None]:
    """A progress bar over bytes read; yields its callback, or None unwatched."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)

        def advance(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        yield advance


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner around a computation, unless nobody is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
