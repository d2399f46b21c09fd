# SPDX-License-Identifier: Apache-2.0
"""How charts look: one palette by meaning, one type size, axes placed by hand.

Lightness alone tells the four states apart (a batch on a FULL graph is pale, an eager
one black), so prints and colour-blind readers lose nothing; the one strong hue marks
what is lost. The page turns every colour here into a CSS variable of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specgrid._errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours for light paper, each used for one meaning only, so that the page can map
#: them back (specgrid.cli._report.theme has both themes).
LIGHT = {
    "paper": "#fdfcfa",
    "ink": "#1b1f23",
    "soft": "#59626b",
    "rule": "#e2e1dc",
    "full": "#b3c6d5",
    "full-dim": "#e6edf2",
    "piecewise": "#de8c54",
    "piecewise-dim": "#f8e6da",
    "hidden": "#c2410c",
    "hidden-dim": "#f4d3c4",
    "eager": "#23272c",
    "eager-dim": "#e0e0de",
    "ramp-0": "#edf2f6",
    "ramp-1": "#d3e0ea",
    "ramp-2": "#b5cbdc",
    "ramp-3": "#95b4cc",
    "ramp-4": "#5a83a4",
    "ramp-5": "#416b8d",
    "ramp-6": "#2c5475",
    "ramp-7": "#1b3d5b",
    "loss-0": "#f7f3ee",
    "loss-1": "#f9dccb",
    "loss-2": "#f3b998",
    "loss-3": "#e98f62",
    "loss-4": "#b93e0d",
    "loss-5": "#86290a",
}

#: Units of a figure are CSS pixels: 72 dots an inch make a point one pixel.
DPI = 72
SIZE = 12.0
INSTALL = "pip install 'specgrid[plot]'"


def require() -> None:
    """Loads matplotlib, or says how to get it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigError(
            f"pictures need matplotlib, which is not installed; run: {INSTALL}"
        ) from None
    # Text stays text; ids are the same in every run.
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "specgrid",
            "font.size": SIZE,
            "font.family": "sans-serif",
            "axes.linewidth": 0.8,
            "hatch.linewidth": 0.8,
            "path.simplify": False,
        }
    )


def color(name: str) -> str:
    """The colour with a meaning, on light paper."""
    return LIGHT[name]


def figure(width: float, height: float) -> Figure:
    """An empty figure, in pixels."""
    from matplotlib.figure import Figure

    return Figure(
        figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=color("paper")
    )


def axes(drawn: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Axes inside margins given in pixels, bare but for horizontal rules."""
    width, height = (side * DPI for side in drawn.get_size_inches())
    made = drawn.add_axes(
        (
            left / width,
            bottom / height,
            (width - left - right) / width,
            (height - top - bottom) / height,
        )
    )
    made.set_facecolor("none")
    for side in ("top", "right", "left"):
        made.spines[side].set_visible(False)
    made.spines["bottom"].set_color(color("soft"))
    made.tick_params(length=0, pad=5, colors=color("soft"), labelsize=SIZE)
    return made


def ruled(made: Axes, steps: int = 4) -> None:
    """Quiet horizontal rules at few round values."""
    from matplotlib.ticker import MaxNLocator

    made.yaxis.set_major_locator(MaxNLocator(steps))
    made.grid(axis="y", color=color("rule"), linewidth=0.8)
    made.set_axisbelow(True)


def whole_ticks(made: Axes, steps: int) -> None:
    """Ticks on x at few round whole numbers, with thousands set apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    made.xaxis.set_major_locator(
        MaxNLocator(steps, integer=True, steps=[1, 2, 2.5, 4, 5, 8, 10])
    )
    made.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def label(
    made: Axes, x: float, y: float, text: str, tone: str = "soft", **where: Any
) -> None:
    """A few words at a place in the axes' data."""
    made.text(x, y, text, color=color(tone), fontsize=SIZE, **where)


def above(made: Axes, text: str, left: float) -> None:
    """The name of the y axis: words above it, set flush left, not turned."""
    made.annotate(
        text,
        (0, 1),
        (-left, 10),  # flush with the text column
        xycoords="axes fraction",
        textcoords="offset points",
        color=color("soft"),
        fontsize=SIZE,
    )


def alone(drawn: Figure, heading: str, legend: dict[str, str]) -> None:
    """A heading above and a legend below, for a picture without a page around it."""
    width, height = (side * DPI for side in drawn.get_size_inches())
    drawn.text(
        0,
        1 + 14 / height,
        heading,
        fontsize=18,
        fontweight="bold",
        color=color("ink"),
        parse_math=False,
    )
    x = 0.0
    for name, meaning in legend.items():
        for text, tone, at in (
            ("\N{BLACK SQUARE}", name, x),
            (meaning, "soft", x + 16),
        ):
            drawn.text(at / width, -14 / height, text, fontsize=SIZE, color=color(tone))
        # Wide enough for any typeface: seven pixels a letter.
        x += 44 + 7 * len(meaning)


def below(made: Axes, text: str) -> None:
    """The name of the x axis."""
    made.set_xlabel(text, color=color("soft"), fontsize=SIZE, labelpad=6)
