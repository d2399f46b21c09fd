# SPDX-License-Identifier: Apache-2.0
"""``--plot FILE``: a figure into a PNG, SVG or PDF file, all or nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specgrid._errors import ConfigError
from specgrid.cli._charts import style
from specgrid.cli._files import check_target, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
WIDTH = 960.0

#: Adds ``--plot`` to a command, as parameter ``plot``.
plot_option = click.option(
    "--plot",
    "plot",
    metavar="FILE",
    help=f"Also draw it: a .png, .svg or .pdf file (needs the extra: {style.INSTALL}).",
)


def check(path: str | None) -> None:
    """Refuses a file that cannot be drawn, before anything is worked out."""
    if path is None:
        return
    check_target(path, "--plot")
    if Path(path).suffix.lower().lstrip(".") not in FORMATS:
        raise ConfigError(
            f"--plot {path!r:.80} is no picture; end its name with "
            + " or ".join(f".{name}" for name in FORMATS)
        )
    style.require()


def save(
    path: str | None,
    draw: Callable[[], Figure],
    heading: str = "",
    legend: dict[str, str] | None = None,
) -> None:
    """Draws and writes, where a file was asked for.

    Args:
        path: the file; nothing is done without.
        draw: makes the figure.
        heading: what the picture says; a file stands alone, so it needs one.
        legend: colour -> what it stands for.
    """
    if path is None:
        return
    style.require()
    kind = Path(path).suffix.lower().lstrip(".")
    # Dates would make equal pictures differ.
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": "specgrid"},
        "svg": {"Date": None, "Creator": "specgrid"},
        "pdf": {"CreationDate": None, "Creator": "specgrid"},
    }
    figure = draw()
    style.alone(figure, heading, legend or {})
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format=kind,
        bbox_inches="tight",
        pad_inches=24 / style.DPI,
        dpi=2 * style.DPI if kind == "png" else style.DPI,
        metadata=metadata[kind],
    )
    write_whole(path, buffer.getvalue())
