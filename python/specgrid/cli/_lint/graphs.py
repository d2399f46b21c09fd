# SPDX-License-Identifier: Apache-2.0
"""Checks of captured graphs: hidden ones and useless ones."""

from __future__ import annotations

from collections.abc import Iterator

from specgrid.cli._lint.finding import (
    Finding,
    Subject,
    batches_of,
    batches_text,
    count_batches,
    plural,
)

PLUGIN_FIX = '--additional-config \'{"specgrid": {"policy": "reachable"}}\''


def hidden_graphs(subject: Subject) -> Iterator[Finding]:
    analysis = subject.analysis
    if analysis is None:
        return
    hidden = [s for s in subject.stretches if s.hidden and s.mode != "FULL"]
    if not hidden:
        return
    batches = batches_of(hidden)
    eager = any(s.mode == "NONE" for s in hidden)
    number = count_batches(batches)
    fate = (
        plural(number, "decode batch", "run") + " without any graph"
        if eager
        else plural(number, "decode batch", "drop") + " to PIECEWISE"
    )
    yield Finding(
        "hidden-graphs",
        "error" if eager else "warning",
        f"{fate} although a FULL graph of the same query length is captured: the "
        f"nearest token count belongs to another one ({batches_text(batches)})",
        f"{PLUGIN_FIX} (specgrid plug-in)",
        batches,
        "decode of 2000 tokens under 1000 tok/s a server where batches 97 to 100 ran "
        "PIECEWISE (B200 TP4)",
        ("vLLM #56136", "vLLM #57355"),
    )


def unreachable_graphs(subject: Subject) -> Iterator[Finding]:
    coverage = subject.coverage
    if coverage is None:
        return
    total = coverage.graph_set.count("FULL")
    unused = len(coverage.unreachable)
    if not unused:
        return
    share = unused / total
    # Where every batch has its graph the useless ones cost memory and nothing else.
    lost = any(s.mode != "FULL" for s in subject.stretches)
    yield Finding(
        "unreachable-graphs",
        "warning" if share >= 0.5 and lost else "info",
        f"{unused} of {total} FULL graphs ({100 * share:.0f} %) can never be replayed: "
        "every query length is captured over every size",
        f"{PLUGIN_FIX} (specgrid plug-in)",
        cost="6 to 40 MiB and 0.05 to 0.4 s a graph in public reports",
        reference=("vLLM #50780", "vLLM #22897", "vLLM #11349"),
    )
