# SPDX-License-Identifier: Apache-2.0
"""Which graphs are captured: used and unused, hidden ones, policies, padding."""

from __future__ import annotations

from typing import Any

from specgrid.cli._charts import ladders as ladder_chart
from specgrid.cli._charts import padding as padding_chart
from specgrid.cli._report.assumed import is_assumed
from specgrid.cli._report.bound import Bound, integer, table
from specgrid.cli._report.html import Child, Element, el
from specgrid.cli._report.pictures import legend, picture

MAX_HIDDEN = 200


def build(page: Bound) -> list[Element]:
    """The sections; none where coverage is not known."""
    if page.at("coverage") is None:
        return []
    found = [_captured(page)]
    if page.at("coverage.hidden"):
        found.append(_hidden(page))
    found.append(_padding(page))
    return found


def _captured(page: Bound) -> Element:
    ladders = page.at("coverage.ladders")
    unused = any(row["num_unused"] for row in ladders)
    entries = [("ramp-4", "serves a batch")]
    if unused:
        entries.append(("hidden-dim", "no batch of the schedule can use it"))
    label = "Captured FULL graphs by query length and tokens: " + "; ".join(
        f"query length {row['query_len']}: {row['captured']} captured, "
        f"{row['num_unused']} unused"
        for row in ladders
    )
    return el(
        "section",
        el("h2", "Which graphs are captured for it"),
        el(
            "p",
            "vLLM makes a FULL graph of every capture size for every query length, "
            "whether or not the schedule has a batch for it.",
        ),
        picture("ladders", label, lambda width: ladder_chart.draw(ladders, width))
        if ladders
        else None,
        legend(entries),
        _policies(page),
    )


def _policies(page: Bound) -> Element:
    names = {
        "vllm-0.33": "vLLM alone",
        "per-query-length": "plug-in, a ladder per query length",
        "reachable": "plug-in, reachable graphs only",
    }
    columns = [
        ("dispatch policy", ""),
        ("FULL graphs", "n"),
        ("never used", "n"),
        ("PIECEWISE graphs", "n"),
        ("batches FULL", "n"),
        ("PIECEWISE", "n"),
        ("eager", "n"),
        ("mean padding", "n"),
    ]
    rows: list[list[Child]] = []
    for i, policy in enumerate(page.at("explain.coverage.policies")):
        path = f"explain.coverage.policies.{i}"
        name = policy["policy"]
        in_force = name == page.at("headline.policy")
        rows.append(
            [
                el(
                    "th",
                    names.get(name, name),
                    " (in force)" if in_force else None,
                    scope="row",
                    class_="now" if in_force else None,
                ),
                page.cell(f"{path}.full_graphs"),
                page.cell(f"{path}.unused_graphs"),
                page.cell(f"{path}.piecewise_graphs"),
                page.cell(f"{path}.batches.FULL"),
                page.cell(f"{path}.batches.PIECEWISE"),
                page.cell(f"{path}.batches.NONE"),
                page.cell(f"{path}.mean_padding", "percent"),
            ]
        )
    return table(columns, rows, "The same sizes under each dispatch policy")


def _hidden(page: Bound) -> Element:
    hidden = page.at("coverage.hidden")
    columns = [
        ("batches", "n"),
        ("query length", "n"),
        ("own graph, tokens", "n"),
        ("hidden by, tokens", "n"),
        ("of query length", "n"),
        ("runs PIECEWISE at", "n"),
    ]
    rows: list[list[Child]] = []
    for i, run in enumerate(hidden[:MAX_HIDDEN]):
        path = f"coverage.hidden.{i}"
        rows.append(
            [
                el("td", _batches(page, path, run), class_="n"),
                page.cell(f"{path}.query_len"),
                page.cell(f"{path}.own.tokens"),
                page.cell(f"{path}.hidden_by.tokens"),
                page.cell(f"{path}.hidden_by.query_len"),
                page.cell(f"{path}.graph.tokens")
                if run["graph"]
                else el("td", "eager", class_="n"),
            ]
        )
    shown = None
    if len(hidden) > MAX_HIDDEN:
        shown = el(
            "p",
            f"The first {integer(MAX_HIDDEN)} runs; the JSON has all.",
            class_="note",
        )
    return el(
        "section",
        el("h2", "What hides the missing graphs"),
        el(
            "p",
            "For a batch vLLM looks up the nearest captured token count of any query "
            "length. When that graph is of another length, the batch drops to "
            "PIECEWISE, although a FULL graph of its own is a few tokens farther on.",
        ),
        el(
            "details",
            el("summary", "Every hidden batch, and the graph that hides it"),
            table(columns, rows, "Batches whose own FULL graph is hidden"),
            shown,
        ),
    )


def _batches(page: Bound, path: str, run: dict[str, Any]) -> Child:
    if run["batch_lo"] == run["batch_hi"]:
        return page.number(f"{path}.batch_lo")
    return [page.number(f"{path}.batch_lo"), "–", page.number(f"{path}.batch_hi")]


def _padding(page: Bound) -> Element:
    padding = page.at("coverage.padding")
    widest = page.at("coverage.map.widest")
    worst: Child = None
    if padding["worst"] is not None:
        worst = [
            " The worst is batch ",
            page.number("coverage.padding.worst.batch"),
            ": ",
            page.number("coverage.padding.worst.share", "percent"),
            ", padded to ",
            page.number("coverage.padding.worst.padded_tokens"),
            " tokens.",
        ]
    plan = page.at("plan")
    load = None if plan is None or plan["problems"] else plan["data"]["load"] or None
    assumed = load is not None and is_assumed(page, "load")
    weighted: Child = None
    if load is not None and plan["before"] is not None:
        weighted = [
            " Over the assumed load: " if assumed else " Over the recorded steps: ",
            page.number("plan.before.padding", "percent"),
            ".",
        ]
    return el(
        "section",
        el("h2", "What padding costs"),
        el(
            "p",
            "A batch between two sizes computes up to the larger one. On average ",
            page.number("coverage.padding.mean", "percent"),
            " more tokens than asked for, every batch counted alike (dashed).",
            worst,
            weighted,
        ),
        picture(
            "padding",
            f"Padding by batch; the mean is {100 * padding['mean']:.1f} percent.",
            lambda width: padding_chart.draw(
                padding, widest, width, load, assumed=assumed
            ),
        ),
    )
