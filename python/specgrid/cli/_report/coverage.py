# SPDX-License-Identifier: Apache-2.0
"""Which graph serves which batch, as JSON values: map, hidden batches, ladders."""

from __future__ import annotations

from typing import Any

from specgrid._coverage import Coverage

#: Runs of batches listed in full; beyond, only those of decoded batches are.
MAX_RUNS = 16384


def coverage_document(coverage: Coverage) -> dict[str, Any]:
    """All the page shows about which graph serves which batch."""
    map_ = map_of(coverage)
    return {
        "policy": coverage.graph_set.policy,
        "counts": coverage.counts,
        "map": map_,
        "hidden": _hidden(map_["rows"]),
        "ladders": _ladders(coverage),
        "padding": _padding(coverage),
    }


def map_of(coverage: Coverage) -> dict[str, Any]:
    """Every query length's batches, joined while they fare alike."""
    graph_set = coverage.graph_set
    decoded: dict[int, list[list[int]]] = {}
    for query_len, lo, hi in graph_set.diagonal_runs:
        decoded.setdefault(query_len, []).append([lo, hi])
    rows: list[dict[str, Any]] = [
        {"query_len": q, "decoded": spans, "runs": _runs(coverage, q)}
        for q, spans in decoded.items()
    ]
    complete = sum(len(row["runs"]) for row in rows) <= MAX_RUNS
    if not complete:
        rows = [
            {**row, "runs": _runs(coverage, row["query_len"], row["decoded"])}
            for row in rows
        ]
    return {"widest": graph_set.max_num_seqs, "complete": complete, "rows": rows}


def _runs(
    coverage: Coverage, query_len: int, spans: list[list[int]] | None = None
) -> list[dict[str, Any]]:
    return [
        {
            "batch_lo": run.batch_lo,
            "batch_hi": run.batch_hi,
            "mode": run.mode,
            "graph": _graph(run.graph),
            "own": _graph(run.own) if run.hidden_by else None,
            "hidden_by": _graph(run.hidden_by),
        }
        for first, last in spans or [[1, coverage.graph_set.max_num_seqs]]
        for run in coverage.runs_at(query_len, first, last)
    ]


def _graph(graph: Any) -> dict[str, Any] | None:
    if graph is None:
        return None
    return {
        "tokens": graph.num_tokens,
        "reqs": graph.num_reqs,
        "query_len": graph.query_len,
    }


def _hidden(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decoded batches whose own graph is hidden, run by run."""
    found = []
    for row in rows:
        for run in row["runs"]:
            if run["hidden_by"] is None:
                continue
            for lo, hi in row["decoded"]:
                first, last = max(lo, run["batch_lo"]), min(hi, run["batch_hi"])
                if first <= last:
                    found.append(
                        {
                            "query_len": row["query_len"],
                            "batch_lo": first,
                            "batch_hi": last,
                            "graph": run["graph"],
                            "own": run["own"],
                            "hidden_by": run["hidden_by"],
                        }
                    )
    return found


def num_hidden(covered: dict[str, Any] | None) -> int:
    """Batches with a graph of their own that is hidden, in any context."""
    if covered is None:
        return 0
    return len(
        {
            batch
            for run in covered["hidden"]
            for batch in range(run["batch_lo"], run["batch_hi"] + 1)
        }
    )


def _ladders(coverage: Coverage) -> list[dict[str, Any]]:
    """FULL graphs by query length: which are used, which never."""
    unused = {(g.query_len, g.num_tokens) for g in coverage.unreachable}
    # LoRA cases repeat every graph; one stands for all.
    captured = {
        (g.query_len, g.num_tokens)
        for g in coverage.graph_set.all_graphs
        if g.mode == "FULL" and g.query_len is not None
    }
    found: dict[int, dict[str, Any]] = {
        q: {"query_len": q, "used": [], "unused": []}
        for q in coverage.graph_set.query_lens
    }
    for query_len, tokens in sorted(captured):
        if query_len in found:
            key = "unused" if (query_len, tokens) in unused else "used"
            found[query_len][key].append(tokens)
    for row in found.values():
        row["captured"] = len(row["used"]) + len(row["unused"])
        row["num_unused"] = len(row["unused"])
    for tier in coverage.tiers:
        found[tier.query_len]["num_missed"] = len(tier.missed)
    return list(found.values())


def _padding(coverage: Coverage) -> dict[str, Any]:
    """Padding of the decoded batches; a batch with several lengths keeps all."""
    runs: list[dict[str, Any]] = [
        {
            "batch_lo": run.batch_lo,
            "batch_hi": run.batch_hi,
            "query_len": run.query_len,
            "padded_tokens": None if run.graph is None else run.graph.num_tokens,
        }
        for column in range(coverage.num_columns)
        for run in coverage.runs(column)
    ]
    # Padding is widest at the first batch of a run.
    worst: dict[str, Any] | None = None
    for row in runs:
        if row["padded_tokens"] is None:
            continue
        share = row["padded_tokens"] / (row["batch_lo"] * row["query_len"]) - 1
        if worst is None or share > worst["share"]:
            worst = {
                "batch": row["batch_lo"],
                "query_len": row["query_len"],
                "padded_tokens": row["padded_tokens"],
                "share": share,
            }
    return {"mean": coverage.mean_padding(), "worst": worst, "runs": runs}
