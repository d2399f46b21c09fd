# SPDX-License-Identifier: Apache-2.0
"""A tuned schedule: draft tokens by batch and context, loss, gains, throughput."""

from __future__ import annotations

import json
import shlex
from typing import Any

from specgrid.cli._charts import heat, throughput
from specgrid.cli._report.bound import Bound, table
from specgrid.cli._report.html import Child, Element, el
from specgrid.cli._report.pictures import WIDE, legend, picture
from specgrid.cli._report.section_first import paste
from specgrid.cli._report.section_schedule import label


def build(page: Bound) -> list[Element]:
    """The sections; none without a tuned schedule."""
    tuned = page.at("tuned")
    if tuned is None:
        return []
    found = [_schedule(page)]
    if tuned["grid"] is not None and heat.can_draw(tuned["grid"]):
        found.append(_loss(page))
    found.append(_gains(page))
    if tuned["throughput"]:
        found.append(_throughput(page))
    return found


def _schedule(page: Bound) -> Element:
    tuned = page.at("tuned")
    settings = tuned["settings"]
    words = settings.get("args") or [settings["flag"], json.dumps(settings["value"])]
    flags = shlex.join(words)
    grid = tuned["grid"]
    if grid is not None and not heat.can_draw(grid):
        grid = None
    return el(
        "section",
        el("h2", "The schedule tuned from measurements"),
        el(
            "p",
            page.number("tuned.num_points"),
            " measured steps. The schedule loses ",
            page.number("tuned.loss.weighted", "percent2"),
            " of the time against the best draft length of every cell, ",
            page.number("tuned.loss.worst", "percent2"),
            " in the worst cell.",
        ),
        None
        if grid is None
        else picture(
            "tuned-drafts", label(grid), lambda width: heat.draw_drafts(grid, width)
        ),
        _hatched(grid),
        paste([flags], "Settings for vllm serve"),
        el("ul", [el("li", n) for n in tuned["notes"]], class_="plain")
        if tuned["notes"]
        else None,
    )


def _hatched(grid: dict[str, Any] | None) -> Element | None:
    if grid is None or all(all(row) for row in grid["measured"]):
        return None
    return el("p", "Hatched: not measured; the nearest measured choice.", class_="note")


def _loss(page: Bound) -> Element:
    grid = page.at("tuned.grid")
    worst = [
        max((x for x in row if x is not None), default=0.0) for row in grid["loss"]
    ]
    steps = (0.0, *heat.LOSS_STEPS)
    names = [f"from {100 * s:g} %" if s else "less" for s in steps]
    used = {
        sum(x >= step for step in heat.LOSS_STEPS)
        for row in grid["loss"]
        for x in row
        if x is not None
    }
    return el(
        "section",
        el("h2", "What the few entries give away"),
        el(
            "p",
            "Time lost against the best draft length of each cell, in percent; a range "
            "of batches shows its worst.",
            " Cells where the runner-up is within noise carry a dot."
            if any(any(row) for row in grid["within_noise"])
            else None,
        ),
        picture(
            "tuned-loss",
            "Worst loss by context, percent: "
            + ", ".join(f"{100 * x:.2f}" for x in worst),
            lambda width: heat.draw_loss(grid, width),
        ),
        legend([(f"loss-{i}", names[i]) for i in sorted(used)]),
    )


def _gains(page: Bound) -> Element:
    tuned = page.at("tuned")
    rows: list[list[Child]] = [
        [
            el(
                "th",
                ["static K = ", page.number(f"tuned.gains.{i}.k")]
                if gain["k"]
                else "no speculation",
                scope="row",
            ),
            page.cell(f"tuned.gains.{i}.factor", "times"),
            el(
                "td",
                page.number(f"tuned.gains.{i}.low", "times"),
                "–",
                page.number(f"tuned.gains.{i}.high", "times"),
                class_="n",
            ),
            page.cell(f"tuned.gains.{i}.share_measured", "percent"),
        ]
        for i, gain in enumerate(tuned["gains"])
    ]
    columns = [
        ("against", ""),
        ("times as fast", "n"),
        ("interval", "n"),
        ("cells compared", "n"),
    ]
    entries: list[list[Child]] = [
        [
            page.cell(f"tuned.frontier.{i}.entries"),
            page.cell(f"tuned.frontier.{i}.loss.weighted", "percent2"),
            page.cell(f"tuned.frontier.{i}.loss.worst", "percent2"),
        ]
        for i in range(len(tuned["frontier"]))
    ]
    return el(
        "section",
        el("h2", "What it gains"),
        el(
            "div",
            table(columns, rows, "Speed against one draft length for all"),
            table(
                [("entries", "n"), ("time lost", "n"), ("worst cell", "n")],
                entries,
                "Loss by number of entries",
            ),
            class_="pair",
        ),
    )


def _throughput(page: Bound) -> Element:
    found = page.at("tuned.throughput")
    top = max(y for c in found for line in c["lines"] for _, y in line["points"])
    largest = page.at("explain.capture.max_size")
    most = page.at("tuned.max_num_seqs")
    cliffs = {
        line["k"]: reach
        for c in found
        for line in c["lines"]
        if (reach := largest // (line["k"] + 1)) < most
    }
    widest = max(x for c in found for line in c["lines"] for x, _ in line["points"])
    pictures = [_one(page, i, cliffs, (widest, top)) for i in range(len(found))]
    return el(
        "section",
        el("h2", "Throughput by batch"),
        el(
            "p",
            "Output tokens per second at the measured points, acceptance applied; a "
            "line a draft length K.",
            " A ring is the widest batch that this configuration has a graph for."
            if cliffs
            else None,
        ),
        pictures if len(found) == 1 else el("div", pictures, class_="multiples"),
    )


def _one(
    page: Bound, index: int, cliffs: dict[int, int], ends: tuple[float, float]
) -> Element:
    path = f"tuned.throughput.{index}"
    lines = page.at(f"{path}.lines")
    best = ", ".join(
        f"K {line['k']} up to {max(y for _, y in line['points']):,.0f}"
        for line in lines
    )
    alone = len(page.at("tuned.throughput")) == 1
    return picture(
        f"throughput-{index}",
        f"Output tokens per second at context {page.at(f'{path}.context'):,}: {best}",
        lambda width: throughput.draw(lines, cliffs, ends, width),
        None if alone else ["Context ", page.number(f"{path}.context")],
        WIDE if alone else 456,
    )
