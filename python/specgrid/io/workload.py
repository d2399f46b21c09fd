# SPDX-License-Identifier: Apache-2.0
"""A workload: how often each step shape runs, from a log or a hand-made file.

The front door for ``--log`` style inputs; docs/data.md shows each form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from specgrid._read import as_file
from specgrid.io._source import (
    AnyPath,
    Progress,
    as_files,
    integer,
    load_json,
    number,
    read_head,
    refuse,
)
from specgrid.io._table import cell, is_csv, is_number, read_table
from specgrid.io._types import LogData, StepCounts
from specgrid.io.log import read_log


def read_workload(
    paths: AnyPath | Sequence[AnyPath],
    progress: Progress | None = None,
    *,
    need_steps: bool = True,
) -> tuple[StepCounts, LogData | None]:
    """Step counts from server logs, or from one hand-made file.

    A file that is JSON with "uniform" or "mixed", or a CSV whose header names
    num_reqs or num_tokens, is a workload table; everything else is read as a log.

    Args:
        paths: Log files in order, or one table.
        progress: Called with (bytes done, bytes of this file or None).
        need_steps: Refuse a log without iteration lines; False where its other
            contents may do, and `no_steps` is asked for otherwise.

    Returns:
        The counts, and all the log held where it was a log.

    Raises:
        DataError: No step shape was found in it.
    """
    files = as_files(paths)
    if len(files) == 1 and str(files[0]) != "-" and _is_table(files[0]):
        return read_workload_table(files[0]), None
    log = read_log(files, progress)
    if need_steps and log.steps.num_steps <= 0:
        no_steps(log)
    return log.steps, log


def no_steps(log: LogData) -> NoReturn:
    """Refuses a log without iteration lines, saying what it holds instead."""
    refuse(_why_no_steps(log), "empty", log.report.source)


def _is_table(file: AnyPath) -> bool:
    head = read_head(file).lstrip("\ufeff \t\r\n")
    if head.startswith("{"):
        return '"message"' not in head.split("\n", 1)[0]
    if re.match(r"\[\s*[]\[{]", head):  # not a log's own bracket, as in [rank0]
        return '"message"' not in head.split("\n", 1)[0]
    first = next((x for x in head.splitlines() if x and not x.startswith("#")), "")
    columns = {c.strip().lower() for c in first.replace(";", ",").split(",")}
    if len(columns) > 1 and all(not c or is_number(c) for c in columns):
        return True  # refused as a table, with what its first line must be
    return bool(columns & {"num_reqs", "num_tokens"})


def _why_no_steps(log: LogData) -> str:
    found = []
    if log.graphs.rows:
        found.append("--cudagraph-metrics tables")
    if log.sizes is not None:
        found.append("batch-size times")
    if log.startups:
        found.append("start-up lines")
    if log.acceptance is not None:
        found.append("SpecDecoding lines")
    what = f"only {', '.join(found)}" if found else "nothing of use"
    damage = (
        f" and {log.report.num_damaged:,} damaged lines (first: line "
        f"{log.report.damaged[0].line}, {log.report.damaged[0].reason})"
        if log.report.damaged
        else ""
    )
    return (
        f"no iteration lines; it holds {what}{damage}. Run the server with "
        "--enable-logging-iteration-details for a minute of typical load (the other "
        "lines do not say how many requests a step had)"
    )


def read_workload_table(path: AnyPath) -> StepCounts:
    """A workload: CSV ``query_len,num_reqs,num_tokens,weight`` or JSON.

    A row with query_len and num_reqs is a uniform decode step, one with only
    num_tokens a step with a prefill. JSON: ``{"uniform": [[query_len, num_reqs,
    weight], ...], "mixed": [[num_tokens, weight], ...]}``.

    Returns:
        The counts; weights may be fractions, repeated shapes add up.

    Raises:
        DataError: Nothing usable in it, or a negative or non-finite weight.
    """
    path = as_file(path)
    name = str(path)
    steps = StepCounts(num_engines=1)
    if not is_csv(path):
        given = load_json(path)
        data = given if isinstance(given, dict) else {}
        unknown = set(data) - {"uniform", "mixed", "comment"}
        if unknown or not {"uniform", "mixed"} & set(data):
            refuse(
                'is no workload; expected {"uniform": [[query_len, num_reqs, weight]],'
                ' "mixed": [[num_tokens, weight]]}',
                "wrong_format",
                name,
            )
        for q, n, w in _rows(data, "uniform", 3, name):
            _add_uniform(steps, q, n, w, name)
        for t, w in _rows(data, "mixed", 2, name):
            _add_mixed(steps, t, w, name)
    else:
        columns, rows = read_table(path)
        weight = next((c for c in ("weight", "count", "steps") if c in columns), None)
        if weight is None or not {"num_reqs", "num_tokens"} & set(columns):
            refuse(
                "needs the columns query_len, num_reqs, weight (and num_tokens for "
                f"steps with a prefill); it has {', '.join(columns[:8])}",
                "missing",
                name,
            )
        for line, row in rows:
            if "\0" in row:
                refuse(row["\0"], "damaged", name, line)
            share = cell(row, weight, name, line)
            if row.get("num_reqs"):
                query_len = cell(row, "query_len", name, line)
                num_reqs = cell(row, "num_reqs", name, line)
                if row.get("num_tokens"):
                    num_tokens = cell(row, "num_tokens", name, line)
                    if num_tokens != query_len * num_reqs:
                        refuse(
                            f"num_tokens is {num_tokens:g}, but query_len {query_len:g}"
                            f" x num_reqs {num_reqs:g} is {query_len * num_reqs:g}; "
                            "leave num_tokens empty there, or num_reqs where a prefill "
                            "is in the step",
                            "inconsistent",
                            name,
                            line,
                        )
                _add_uniform(steps, query_len, num_reqs, share, name, line)
            else:
                num_tokens = cell(row, "num_tokens", name, line)
                _add_mixed(steps, num_tokens, share, name, line)
    if steps.num_steps <= 0:
        refuse("holds no step with a weight above 0", "empty", name)
    return steps


def _add_uniform(
    steps: StepCounts,
    query_len: object,
    num_reqs: object,
    weight: object,
    name: str,
    line: int | None = None,
) -> None:
    q = integer(query_len, "query_len", name, minimum=1, line=line)
    n = integer(num_reqs, "num_reqs", name, minimum=1, line=line)
    w = number(weight, "weight", name, line=line)
    steps.uniform[q, n] = steps.uniform.get((q, n), 0.0) + w


def _add_mixed(
    steps: StepCounts,
    num_tokens: object,
    weight: object,
    name: str,
    line: int | None = None,
) -> None:
    t = integer(num_tokens, "num_tokens", name, minimum=1, line=line)
    w = number(weight, "weight", name, line=line)
    steps.mixed[t] = steps.mixed.get(t, 0.0) + w


def _rows(
    data: dict[str, object], key: str, width: int, name: str
) -> list[list[object]]:
    value = data.get(key, [])
    if not isinstance(value, list):
        refuse(f"{key} is not a list", "wrong_format", name)
    for index, row in enumerate(value):
        if not isinstance(row, list) or len(row) != width:
            refuse(f"{key}[{index}] has not {width} numbers", "wrong_format", name)
    return value
