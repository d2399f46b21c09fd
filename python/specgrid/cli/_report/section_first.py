# SPDX-License-Identifier: Apache-2.0
"""The first screen: is this server losing graphs, and what to paste."""

from __future__ import annotations

from specgrid.cli._report.assumed import mark
from specgrid.cli._report.bound import Bound
from specgrid.cli._report.html import Element, el


def build(page: Bound) -> Element:
    """The header."""
    head = page.at("headline")
    return el(
        "header",
        el(
            "p",
            el("b", page.at("title")),
            f" · vLLM {page.at('vllm')} · CUDA graphs",
            class_="kicker",
        ),
        el("h1", head["sentence"]),
        el("p", head["why"], class_="lead"),
        None if head["before"] is None else _figures(page),
        _fixes(page),
    )


def _figures(page: Bound) -> Element:
    missed = page.at("headline.before.missed")
    return el(
        "dl",
        _figure(page, "missed", "batches without a FULL graph", bool(missed)),
        _figure(page, "graphs", "FULL graphs captured", False),
        _figure(page, "unused", "graphs no batch can use", False),
        *_load(page),
        class_="figures",
    )


def _load(page: Bound) -> list[Element]:
    """What a plan does to the load, recorded or assumed, where there is one."""
    plan = page.at("plan")
    if plan is None or plan["problems"] or plan["before"] is None:
        return []
    return [
        el(
            "div",
            el("dt", words + mark(page, key)),
            el(
                "dd",
                page.number(f"plan.before.{key}", as_),
                el("span", "→", class_="arrow", role="img", aria_label="becomes"),
                page.number(f"plan.after.{key}", as_),
            ),
            class_="load",
        )
        for key, as_, words in (
            ("full_share", "percent", "steps on a FULL graph, by load"),
            ("mean_step_us", "millis_short", "mean step, by load"),
            ("graph_bytes", "gib", "graph memory"),
        )
    ]


def _figure(page: Bound, key: str, words: str, bad: bool) -> Element:
    after = page.at("headline.after")
    values = [
        el(
            "span",
            page.number(f"headline.before.{key}"),
            class_="bad" if bad else None,
        )
    ]
    if after is not None and after[key] != page.at(f"headline.before.{key}"):
        values += [
            el("span", "→", class_="arrow", role="img", aria_label="becomes"),
            page.number(f"headline.after.{key}"),
        ]
    return el("div", el("dt", words), el("dd", values))


def _fixes(page: Bound) -> Element | None:
    fixes = page.at("fixes")
    if not fixes:
        return None
    return el("div", [_fix(page, i) for i in range(len(fixes))], class_="fixes")


def _fix(page: Bound, index: int) -> Element:
    fix = page.at(f"fixes.{index}")
    path = f"fixes.{index}.result"
    return el(
        "div",
        el("h2", fix["title"]),
        el(
            "p",
            fix["needs"],
            " Then ",
            page.number(f"{path}.missed"),
            " of ",
            page.number(f"{path}.batches"),
            " batches lack a FULL graph, with ",
            page.number(f"{path}.graphs"),
            " captured.",
            class_="note",
        ),
        paste(fix["flags"]),
        class_="fix",
    )


def paste(lines: list[str], label: str = "Flags for vllm serve") -> Element:
    """Text to copy."""
    return el(
        "div",
        el(
            "pre",
            el("code", " \\\n".join(lines)),
            tabindex="0",
            role="region",
            aria_label=label,
        ),
        el("button", "Copy", type="button"),
        class_="paste",
    )
