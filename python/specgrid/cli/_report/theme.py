# SPDX-License-Identifier: Apache-2.0
"""The two themes: what each colour of the charts is on light and on dark paper."""

from __future__ import annotations

from specgrid.cli._charts.style import LIGHT

DARK = {
    "paper": "#15181b",
    "ink": "#e9e7e2",
    "soft": "#a2abb4",
    "rule": "#2e3338",
    "full": "#466680",
    "full-dim": "#22303a",
    "piecewise": "#b8703f",
    "piecewise-dim": "#38281f",
    "hidden": "#ff7d4d",
    "hidden-dim": "#4a2a1d",
    "eager": "#f2efe8",
    "eager-dim": "#4a4d50",
    "ramp-0": "#1c262e",
    "ramp-1": "#22333f",
    "ramp-2": "#294253",
    "ramp-3": "#31536a",
    "ramp-4": "#7ea6c4",
    "ramp-5": "#9bbcd4",
    "ramp-6": "#b8d1e3",
    "ramp-7": "#d6e6f1",
    "loss-0": "#1f1c1a",
    "loss-1": "#3a261c",
    "loss-2": "#5a311d",
    "loss-3": "#7c3d1d",
    "loss-4": "#f08a58",
    "loss-5": "#ffc3a3",
}


def variables() -> str:
    """The themes as CSS; printing is always on light paper."""
    light, dark = _block(LIGHT, "light"), _block(DARK, "dark")
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )


def _block(colors: dict[str, str], scheme: str) -> str:
    rows = "".join(f"--{name}:{value};" for name, value in colors.items())
    return f"color-scheme:{scheme};{rows}"
