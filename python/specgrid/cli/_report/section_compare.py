# SPDX-License-Identifier: Apache-2.0
"""The page's configuration against another one."""

from __future__ import annotations

from typing import Any

from specgrid.cli._charts import strips
from specgrid.cli._report.bound import Bound, table
from specgrid.cli._report.html import Child, Element, el
from specgrid.cli._report.pictures import legend, picture
from specgrid.cli._report.section_details import value_text

_NAMES = {"FULL": "FULL", "PIECEWISE": "PIECEWISE", "NONE": "eager"}
_ROWS = {
    "missed": "batches without a FULL graph",
    "graphs": "FULL graphs captured",
    "unused": "graphs no batch can use",
}


def build(page: Bound) -> list[Element]:
    """The section; none where nothing is compared."""
    found = page.at("compare")
    if found is None:
        return []
    return [
        el(
            "section",
            el("h2", "What changes from ", found["name"]),
            _counts(page, "compare"),
            *changed_batches(page, "compare.diff", "compare"),
            _settings(found["settings"]),
        )
    ]


def _counts(page: Bound, path: str) -> Element | None:
    if page.at(f"{path}.before") is None or page.at(f"{path}.after") is None:
        return None
    rows: list[list[Child]] = [
        [
            el("th", words, scope="row"),
            page.cell(f"{path}.before.{key}"),
            page.cell(f"{path}.after.{key}"),
        ]
        for key, words in _ROWS.items()
    ]
    columns = [("", ""), ("before", "n"), ("after", "n")]
    return table(columns, rows, "Before and after")


def changed_batches(page: Bound, path: str, name: str) -> list[Element]:
    """Sentence, picture and table of a ``diff`` in the document."""
    diff = page.at(path)
    if diff is None:
        return []
    parts: list[Child] = []
    for key, words in (
        ("better", " batches get a better graph, "),
        ("worse", " a worse one, "),
        ("same", " the same."),
    ):
        parts += [page.number(f"{path}.batches.{key}"), words]
    for key, words in (
        ("only_before", " batches existed only before."),
        ("only_after", " batches are new."),
    ):
        if diff["batches"][key]:
            parts += [" ", page.number(f"{path}.batches.{key}"), words]
    counts = diff["batches"]
    label = (
        f"{counts['better']} batches better, {counts['worse']} worse, "
        f"{counts['same']} the same"
    )
    found = [
        el("p", parts),
        picture(name, label, lambda width: strips.draw(diff, width)),
        legend(
            [("full", "FULL graph"), ("piecewise", "PIECEWISE"), ("eager", "eager")]
        ),
    ]
    if diff["changes"]:
        found.append(
            el(
                "details",
                el("summary", "Every batch that changes"),
                _changes(page, path, diff),
            )
        )
    return found


def _changes(page: Bound, path: str, diff: dict[str, Any]) -> Element:
    rows: list[list[Child]] = []
    for i, change in enumerate(diff["changes"]):
        worse = list(_NAMES).index(change["after"]) > list(_NAMES).index(
            change["before"]
        )
        batches: Child = page.number(f"{path}.changes.{i}.batch_lo")
        if change["batch_hi"] != change["batch_lo"]:
            batches = [batches, "–", page.number(f"{path}.changes.{i}.batch_hi")]
        rows.append(
            [
                el("td", batches, class_="n"),
                el("td", _NAMES[change["before"]]),
                el("td", _NAMES[change["after"]], class_="bad" if worse else None),
            ]
        )
    columns = [("batches", "n"), ("before", ""), ("after", "")]
    return table(columns, rows, "Batches whose graph changes")


def _settings(rows: list[dict[str, Any]]) -> Element:
    if not rows:
        return el("p", "No setting that matters differs.", class_="note")
    cells: list[list[Child]] = [
        [
            el("th", row["name"], scope="row"),
            el("td", value_text(row["before"])),
            el("td", value_text(row["after"])),
        ]
        for row in rows
    ]
    columns = [("setting", ""), ("before", ""), ("after", "")]
    return el("div", table(columns, cells, "Settings that differ"), class_="settings")
