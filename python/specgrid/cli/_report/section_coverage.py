# SPDX-License-Identifier: Apache-2.0
"""The coverage map with its readout, and the table of query lengths."""

from __future__ import annotations

from typing import Any

from specgrid.cli._charts import coverage as chart
from specgrid.cli._report.bound import Bound, ranges, table
from specgrid.cli._report.html import Child, Element, data, el
from specgrid.cli._report.pictures import drawings, legend
from specgrid.cli._report.words import describe, first_to_show


def build(page: Bound) -> list[Element]:
    """The section; empty where coverage is not known."""
    found = page.at("coverage")
    tiers = _tiers(page)
    if found is None:
        return [el("section", el("h2", "Decode batches"), tiers)]
    rows = found["map"]["rows"]
    shown = min(len(rows), chart.MAX_ROWS)
    batch, row = first_to_show(rows[:shown])
    head, text = describe(rows[row], batch)
    counts = found["counts"]
    label = (
        f"Coverage of decode batches 1 to {found['map']['widest']:,}: "
        f"{counts['FULL']:,} on a FULL graph, {counts['PIECEWISE']:,} PIECEWISE, "
        f"{counts['NONE']:,} eager."
    )
    drawn = drawings("map", label, lambda width: chart.draw(found["map"], width))
    return [
        el(
            "section",
            el("h2", "Which graph each decode batch gets"),
            el("p", _how_to_read(found["map"])),
            el(
                "figure",
                el(
                    "div",
                    drawn,
                    id="map",
                    class_="map",
                    role="group",
                    aria_label="Coverage map; arrow keys move between batches",
                    data_batch=batch,
                    data_row=row,
                ),
                legend([(k, v) for k, v in chart.LEGEND.items() if k in _kinds(rows)]),
                el(
                    "p",
                    el("b", head),
                    text,
                    id="readout",
                    class_="readout",
                    aria_live="polite",
                ),
                el(
                    "p",
                    el("kbd", "←"),
                    " ",
                    el("kbd", "→"),
                    " batch, with ",
                    el("kbd", "Shift"),
                    " farther; ",
                    el("kbd", "↑"),
                    " ",
                    el("kbd", "↓"),
                    " query length; ",
                    el("kbd", "Page Down"),
                    " next batch without a FULL graph",
                    class_="keys",
                ),
            ),
            data(_for_script(found["map"], shown), "map-data"),
            tiers,
        )
    ]


def _how_to_read(map_: dict[str, Any]) -> str:
    if len(map_["rows"]) == 1:
        text = "One query length, so one row."
    elif map_["complete"]:
        text = (
            "Full colour: batches the schedule decodes at that query length. Pale: all "
            "others, which occur only while requests finish."
        )
    else:
        text = "Only batches the schedule decodes at that query length are drawn."
    if len(map_["rows"]) > chart.MAX_ROWS:
        text += f" The first {chart.MAX_ROWS} of the query lengths."
    if map_["widest"] > 896:
        text += " A pixel holds several batches and shows the worst of them."
    return text


def _kinds(rows: list[dict[str, Any]]) -> set[str]:
    from specgrid.cli._charts.bands import kind_of

    return {kind_of(run) for row in rows for run in row["runs"]}


def _for_script(map_: dict[str, Any], shown: int) -> dict[str, Any]:
    """The map in few bytes: runs as [first, last, mode, graph, own, hidden by]."""

    def graph(found: dict[str, Any] | None) -> list[Any] | None:
        return None if found is None else [found["tokens"], found["query_len"]]

    rows = [
        {
            "query_len": row["query_len"],
            "decoded": row["decoded"],
            "runs": [
                [
                    run["batch_lo"],
                    run["batch_hi"],
                    run["mode"],
                    graph(run["graph"]),
                    graph(run["own"]),
                    graph(run["hidden_by"]),
                ]
                for run in row["runs"]
            ],
        }
        for row in map_["rows"][:shown]
    ]
    return {"widest": map_["widest"], "rows": rows}


def _tiers(page: Bound) -> Element:
    tiers = page.at("explain.tiers")
    graphs = {
        row["query_len"]: i
        for i, row in enumerate((page.at("coverage") or {"ladders": []})["ladders"])
    }
    columns = [
        ("query length", "n"),
        ("drafts", "n"),
        ("batches", "n"),
        ("widest, tokens", "n"),
        ("FULL graphs", "n"),
        ("never used", "n"),
        ("batches without a FULL graph", ""),
    ]
    rows: list[list[Child]] = []
    for i, tier in enumerate(tiers[:64]):
        path = f"explain.tiers.{i}"
        ladder = graphs.get(tier["query_len"])
        missed = tier["missed"]
        rows.append(
            [
                page.cell(f"{path}.query_len"),
                page.cell(f"{path}.drafts"),
                el(
                    "td",
                    page.number(f"{path}.min_batch"),
                    "–",
                    page.number(f"{path}.max_batch"),
                    class_="n",
                ),
                page.cell(f"{path}.tokens"),
                *(
                    [el("td", "–", class_="n")] * 2
                    if ladder is None
                    else [
                        page.cell(f"coverage.ladders.{ladder}.captured"),
                        page.cell(f"coverage.ladders.{ladder}.num_unused"),
                    ]
                ),
                el(
                    "td",
                    _missed(page, ladder, missed),
                    class_="text bad" if missed else "text",
                ),
            ]
        )
    return table(columns, rows, "Decode batches by query length")


def _missed(page: Bound, ladder: int | None, missed: list[Any] | None) -> Child:
    if missed is None or ladder is None:
        return "not worked out"
    if not missed:
        return "none"
    number = page.number(f"coverage.ladders.{ladder}.num_missed")
    return [number, f": {ranges(missed)}"]
