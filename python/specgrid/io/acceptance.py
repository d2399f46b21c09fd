# SPDX-License-Identifier: Apache-2.0
"""Acceptance counts for the tuner, whatever file they are in.

`read_acceptance` is the front door: it looks at the content, not the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgrid._read import as_file, is_folder
from specgrid.io._source import AnyPath, integer, read_head, refuse
from specgrid.io._table import cell, read_table
from specgrid.io._types import AcceptanceCounts, ContextAcceptance, ReadReport
from specgrid.io.log import read_log
from specgrid.io.metrics import looks_like_metrics, read_metrics
from specgrid.io.requests import read_requests
from specgrid.io.serve import read_serve, read_sweep, serve_acceptance


def read_acceptance(
    path: AnyPath,
    before: AnyPath | None = None,
    *,
    context_ranges: Sequence[tuple[int, int]] = (),
    drafts_by_k: Mapping[int, float] | None = None,
) -> tuple[AcceptanceCounts, list[ContextAcceptance]]:
    """Acceptance from any of the files that hold it.

    Per-request metrics (JSON lines), ``/metrics`` text, ``vllm bench serve``
    results, a sweep folder, a server log's SpecDecoding lines, or a CSV table.

    Args:
        path: The file or folder.
        before: An earlier ``/metrics`` scrape, to read the window between.
        context_ranges: For per-request metrics: ranges to count separately.
        drafts_by_k: For ``/metrics`` of a server whose K varied.

    Returns:
        The counts, and those per context range (empty for other sources).

    Raises:
        DataError: There is no acceptance in it, or none that means anything
            (``k_varied``, ``zero_drafts``), and as the reader of the kind.
    """
    name = str(path)
    path = as_file(path)
    if is_folder(path):
        return serve_acceptance(*read_sweep(name)), []
    head = read_head(path, 65536).lstrip("\ufeff \t\r\n")
    if looks_like_metrics(head):
        metrics = read_metrics(path, before, drafts_by_k=drafts_by_k)
        if metrics.acceptance is None:
            refuse(
                metrics.acceptance_refused or "no acceptance in it",
                "k_varied" if metrics.num_drafts else "zero_drafts",
            )
        return metrics.acceptance, []
    if before is not None:
        refuse("is no /metrics text, so it has no earlier scrape", "wrong_format", name)
    if head.startswith(("{", "[", "data:")) and '"message": "' not in head[:2000]:
        if '"model_id"' in head:
            return serve_acceptance(*read_serve(path)), []
        return read_requests(path, context_ranges=context_ranges)
    first = next((x for x in head.splitlines() if x and not x.startswith("#")), "")
    if "position" in first.lower() and "SpecDecoding" not in first:
        return read_acceptance_table(path), []
    log = read_log(path)
    if log.acceptance is None:
        reason = next((n for n in log.report.notes if "varying K" in n), None)
        refuse(
            reason or "holds no SpecDecoding line; was speculation on?",
            "k_varied" if reason else "missing",
            name,
        )
    return log.acceptance, []


def read_acceptance_table(path: AnyPath) -> AcceptanceCounts:
    """Acceptance counts: CSV ``position,drafted,accepted``, position from 1.

    An optional column ``at_risk`` holds the drafts that proposed the position
    and passed the one before; without it the product-limit estimate is not
    available.

    Raises:
        DataError: ``zero_drafts``, ``acceptance_above_one``, positions that are
            not 1, 2, 3 ..., counts that contradict each other.
    """
    name = str(path)
    report = ReadReport(name, "acceptance table")
    columns, rows = read_table(path)
    need = {"position", "drafted", "accepted"}
    if not need <= set(columns):
        refuse(
            "needs the columns position, drafted, accepted; rates alone do not say "
            f"how certain they are. It has {', '.join(columns[:8])}",
            "missing",
            name,
        )
    drafted: list[int] = []
    accepted: list[int] = []
    at_risk: list[int] = []
    for line, row in rows:
        if "\0" in row:
            refuse(row["\0"], "damaged", name, line)
        values = {
            c: integer(cell(row, c, name, line), c, name, line=line)
            for c in (*sorted(need), *(["at_risk"] if "at_risk" in columns else []))
        }
        if values["position"] != len(drafted) + 1:
            refuse(
                f"position {values['position']} where {len(drafted) + 1} was expected; "
                "list positions 1, 2, 3 ... once each",
                "inconsistent",
                name,
                line,
            )
        base = values.get("at_risk", values["drafted"])
        if values["accepted"] > min(base, values["drafted"]):
            refuse(
                f"acceptance above 1 at position {values['position']}: "
                f"{values['accepted']:,} of {min(base, values['drafted']):,}",
                "acceptance_above_one",
                name,
                line,
            )
        if drafted and (
            values["drafted"] > drafted[-1] or values["accepted"] > accepted[-1]
        ):
            refuse(
                f"position {values['position']} has more drafts or passes than the one "
                "before",
                "inconsistent",
                name,
                line,
            )
        drafted.append(values["drafted"])
        accepted.append(values["accepted"])
        at_risk.append(base)
        report.num_read += 1
    if not drafted or drafted[0] == 0:
        refuse("no draft was made", "zero_drafts", name)
    same = len(set(drafted)) == 1
    return AcceptanceCounts(
        drafted=tuple(drafted),
        accepted=tuple(accepted),
        at_risk=(
            tuple(at_risk)
            if "at_risk" in columns
            else (drafted[0], *accepted[:-1])
            if same
            else None
        ),
        num_drafts=drafted[0],
        constant_k=len(drafted) if same else None,
        approximate=False,
        source="table",
        report=report,
    )
