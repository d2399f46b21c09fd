# SPDX-License-Identifier: Apache-2.0
"""The report as JSON values (docs/report.md); the page shows these and nothing else."""

from __future__ import annotations

from typing import Any

from specgrid._coverage import Coverage
from specgrid._version import __version__
from specgrid.cli._analysis import Analysis
from specgrid.cli._report.fixes import fixes
from specgrid.cli._report.verdict import headline, policy_in_force
from specgrid.cli.explain import to_document as explain_document
from specgrid.cli.lint import lint
from specgrid.cli.lint import to_document as lint_document
from specgrid.io._vllm_flags import VLLM_VERSION

SCHEMA_VERSION = 1
#: Runs of batches listed in full; beyond, only those of decoded batches are.
MAX_RUNS = 16384


def to_document(analysis: Analysis, title: str | None = None) -> dict[str, Any]:
    """Everything the page shows about one configuration.

    Args:
        analysis: the server.
        title: what to call it; the model when not given.
    """
    coverage = analysis.policies.get(policy_in_force(analysis), analysis.coverage)
    found = fixes(analysis)
    return {
        "schema": "specgrid.report",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "title": title or analysis.config.model or "vLLM server",
        "headline": headline(analysis, coverage, found),
        "fixes": found,
        "explain": explain_document(analysis),
        "lint": lint_document(lint(analysis.config), 0),
        "coverage": None if coverage is None else _coverage(coverage),
        "schedule": _schedule(analysis),
        "compare": None,
        "plan": None,
        "tuned": None,
    }


def _coverage(coverage: Coverage) -> dict[str, Any]:
    map_ = _map(coverage)
    return {
        "policy": coverage.graph_set.policy,
        "counts": coverage.counts,
        "map": map_,
        "hidden": _hidden(map_["rows"]),
        "ladders": _ladders(coverage),
        "padding": _padding(coverage),
    }


def _map(coverage: Coverage) -> dict[str, Any]:
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


def _ladders(coverage: Coverage) -> list[dict[str, Any]]:
    """FULL graphs by query length: which are used, which never."""
    unused = {(g.query_len, g.num_tokens) for g in coverage.unreachable}
    lengths = coverage.graph_set.query_lens
    found: dict[int, dict[str, Any]] = {
        q: {"query_len": q, "used": [], "unused": []} for q in lengths
    }
    for graph in coverage.graph_set.all_graphs:
        if graph.mode != "FULL" or graph.query_len not in found:
            continue
        key = "unused" if (graph.query_len, graph.num_tokens) in unused else "used"
        row = found[graph.query_len]
        if graph.num_tokens not in row[key]:
            row[key].append(graph.num_tokens)
    for row in found.values():
        row["used"].sort()
        row["unused"].sort()
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


def _schedule(analysis: Analysis) -> dict[str, Any] | None:
    """K by batch and context, for the map; None where one K holds throughout."""
    if analysis.schedule is None or analysis.schedule_status != "in force":
        return None
    config = analysis.config
    lookup = analysis.schedule.lookup(
        config.max_num_seqs, config.num_speculative_tokens
    )
    contexts = lookup.context_ranges
    batches: list[list[int]] = []
    drafts: list[list[int]] = []
    starts = sorted({lo for lo, _ in _batch_ranges(analysis) if lo <= len(lookup) - 1})
    for start, after in zip(starts, [*starts[1:], len(lookup)], strict=True):
        line = [int(lookup[start, c[0]]) for c in contexts]
        if drafts and drafts[-1] == line:
            batches[-1][1] = after - 1
        else:
            batches.append([start, after - 1])
            drafts.append(line)
    return {
        "batches": batches,
        "contexts": [list(c) for c in contexts],
        "drafts": [list(column) for column in zip(*drafts, strict=True)],
    }


def _batch_ranges(analysis: Analysis) -> list[tuple[int, int]]:
    assert analysis.schedule is not None
    return [(lo, hi) for lo, hi in analysis.schedule.batch_ranges]
