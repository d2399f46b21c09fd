# SPDX-License-Identifier: Apache-2.0
"""What serves one batch, in a sentence; script.js says the same under the mouse."""

from __future__ import annotations

from typing import Any


def describe(row: dict[str, Any], batch: int) -> tuple[str, str]:
    """Head and text for one batch of one row of the map."""
    query_len = row["query_len"]
    asked = batch * query_len
    head = f"Batch {batch:,}, query length {query_len}: {asked:,} tokens. "
    run = next(
        (r for r in row["runs"] if r["batch_lo"] <= batch <= r["batch_hi"]), None
    )
    if run is None:
        return head, "Not listed."
    if run["graph"] is None:
        text = "No graph holds it; it runs eager."
    else:
        held = run["graph"]["tokens"]
        text = (
            f"{run['mode']} graph of {held:,} tokens, {held - asked:,} of them padding."
        )
    if run["hidden_by"] is not None:
        text += (
            f" Its own FULL graph ({run['own']['tokens']:,} tokens) is captured, but "
            f"hidden by the {run['hidden_by']['tokens']:,}-token graph of query length "
            f"{run['hidden_by']['query_len']}."
        )
    if not any(lo <= batch <= hi for lo, hi in row["decoded"]):
        text += " The schedule decodes this batch at another query length."
    return head, text


def first_to_show(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """(batch, row) the map opens at: the first missed batch, else the first."""
    best: tuple[int, int] | None = None
    for y, row in enumerate(rows):
        for run in row["runs"]:
            if run["mode"] == "FULL":
                continue
            for lo, hi in row["decoded"]:
                batch = max(lo, run["batch_lo"])
                if batch <= min(hi, run["batch_hi"]) and (
                    best is None or batch < best[0]
                ):
                    best = (batch, y)
    if best is not None:
        return best
    for y, row in enumerate(rows):
        if any(lo <= 1 <= hi for lo, hi in row["decoded"]):
            return 1, y
    return 1, 0
