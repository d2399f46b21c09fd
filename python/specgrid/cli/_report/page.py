# SPDX-License-Identifier: Apache-2.0
"""The page: first the answer and what to paste, then the evidence."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from specgrid.cli._charts import style
from specgrid.cli._report import (
    section_compare,
    section_coverage,
    section_details,
    section_first,
    section_graphs,
    section_plan,
    section_schedule,
    section_tuned,
    theme,
)
from specgrid.cli._report.bound import Bound
from specgrid.cli._report.html import Element, el, write


def render(document: dict[str, Any]) -> str:
    """The document as one self-contained HTML file."""
    style.require()
    page = Bound(document)
    body: list[Element] = []
    for section in (
        section_coverage,
        section_graphs,
        section_plan,
        section_schedule,
        section_tuned,
        section_compare,
        section_details,
    ):
        body += section.build(page)
    script = _asset("script.js")
    root = el(
        "html",
        _head(document["title"], script),
        el(
            "body",
            section_first.build(page),
            el("main", body),
            _footer(page),
            _raw("script", script),
        ),
        lang="en",
    )
    return write(root)


def _head(title: str, script: str) -> Element:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # No address is allowed at all, and only this script runs.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("link", rel="icon", href="data:,"),
        el("title", f"{title} · specgrid"),
        _raw("style", theme.variables() + _asset("style.css")),
    )


def _footer(page: Bound) -> Element:
    return el(
        "footer",
        el(
            "p",
            f"specgrid {page.at('specgrid')} for vLLM {page.at('vllm')}. Worked out "
            "from settings alone: what vLLM changes after looking at the model or the "
            "attention back end is not seen, and the start-up log has the last word. "
            "Every number here is in the JSON that specgrid report --json prints.",
        ),
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _raw(tag: str, text: str) -> Element:
    """A style sheet or script of this package; the serialiser leaves it as it is."""
    made = el(tag)
    made.text = text
    return made
