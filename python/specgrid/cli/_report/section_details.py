# SPDX-License-Identifier: Apache-2.0
"""What the report rests on: findings, capture sizes, settings with sources, notes."""

from __future__ import annotations

from specgrid.cli._analysis import steps_text
from specgrid.cli._report.bound import Bound, table
from specgrid.cli._report.html import Child, Element, el


def build(page: Bound) -> list[Element]:
    """The sections."""
    found = []
    if page.at("lint.findings"):
        found.append(_findings(page))
    found += [_sizes(page), _settings(page)]
    return found


def _findings(page: Bound) -> Element:
    rows = []
    for finding in page.at("lint.findings"):
        severity = finding["severity"]
        rows.append(
            el(
                "li",
                el(
                    "p",
                    el("span", severity, class_=f"tag {severity}"),
                    finding["message"],
                    ".",
                ),
                el("p", "Change: ", finding["fix"], class_="fixline"),
            )
        )
    return el(
        "section",
        el("h2", "What else to change"),
        el("ul", rows, class_="findings"),
    )


def _sizes(page: Bound) -> Element:
    capture = page.at("explain.capture")
    if not capture["enabled"]:
        return el("section", el("h2", "Capture sizes"), el("p", "CUDA graphs are off."))
    sizes = [s["tokens"] for s in capture["sizes"]]
    notes = [el("li", note["message"]) for note in capture["notes"]]
    return el(
        "section",
        el("h2", "Capture sizes"),
        el(
            "p",
            page.number("explain.capture.count"),
            " sizes up to ",
            page.number("explain.capture.max_size"),
            " tokens; the widest decode batch needs ",
            page.number("explain.capture.sufficient_max"),
            ".",
        ),
        el("p", steps_text(sizes), class_="note"),
        el("ul", notes, class_="plain") if notes else None,
    )


def _settings(page: Bound) -> Element:
    rows: list[list[Child]] = [
        [
            el("th", setting["name"], scope="row"),
            el("td", value_text(setting["value"])),
            el(
                "td",
                setting["source"],
                ": " if setting["detail"] else None,
                setting["detail"],
            ),
        ]
        for setting in page.at("explain.settings")
    ]
    notes = page.at("explain.notes")
    return el(
        "section",
        el("h2", "The settings it rests on"),
        el(
            "div",
            table(
                [("setting", ""), ("value", ""), ("where from", "")], rows, "Settings"
            ),
            class_="settings",
        ),
        el("ul", [el("li", note) for note in notes], class_="plain") if notes else None,
    )


def value_text(value: object) -> str:
    """A setting as people write it."""
    if isinstance(value, list) and all(isinstance(x, int) for x in value):
        return steps_text(sorted(set(value)), limit=12) or "(empty)"
    return "–" if value is None else str(value)
