# SPDX-License-Identifier: Apache-2.0
"""Measured step times for the tuner, whatever file they are in.

`read_latency` is the front door: it looks at the content, not the name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from specgrid._read import File, is_folder
from specgrid.io._points import Measured, collect
from specgrid.io._source import (
    AnyPath,
    as_files,
    integer,
    joined,
    load_json,
    number,
    read_head,
    refuse,
)
from specgrid.io._table import is_csv, loose, read_table, time_column
from specgrid.io._types import DataError, LatencyData, LatencyPoint, ReadReport
from specgrid.io.forward import is_forward, read_forward
from specgrid.io.serve import is_serve, read_serve, read_sweep, serve_latency


def read_latency(paths: AnyPath | Iterable[AnyPath]) -> LatencyData:
    """Latency points from any of the files that hold them.

    ``vllm bench forward`` output, ``vllm bench serve`` results, a ``vllm bench
    sweep serve`` folder, a CSV or a JSON list of points. Several files must be of
    one kind: times that include the host cannot be mixed with times that do not.

    Raises:
        DataError: ``mixed_scope`` for files of different kinds, and as the
            reader of the kind.
    """
    files = as_files(paths)
    if not files:
        refuse("no latency file was given", "empty")
    kinds = {str(file): _kind(file) for file in files}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{n} ({k})" for n, k in list(kinds.items())[:4])
        refuse(f"files of different kinds: {listed}; give one kind", "mixed_scope")
    kind = kinds[str(files[0])]
    if kind == "forward":
        return read_forward(files)
    if kind == "sweep":
        if len(files) > 1:
            refuse("give one sweep folder", "mixed_scope", str(files[1]))
        return serve_latency(*read_sweep(str(files[0])))
    if kind == "serve":
        return serve_latency(*read_serve(files))
    return read_latency_table(files)


def _kind(file: File) -> str:
    if is_folder(file):
        return "sweep"
    if is_csv(file):
        return "table"
    try:
        data = load_json(file)
    except DataError as error:
        # JSON lines are no JSON document; the serve reader takes them.
        if error.rule == "not_json" and '"model_id"' in read_head(file, 65536):
            return "serve"
        raise
    if is_forward(data):
        return "forward"
    if is_serve(data) or (isinstance(data, list) and data and is_serve(data[0])):
        return "serve"
    return "table"


def read_latency_table(paths: AnyPath | Iterable[AnyPath]) -> LatencyData:
    """Latency points: CSV ``batch,context,k,step_us`` (or ``step_ms``), or JSON.

    ``context`` may be missing (0 throughout). JSON: a list of ``[batch, context,
    k, step_us]`` or of objects with those names. Rows that are no point are
    counted as damaged; K missing is refused.

    Raises:
        DataError: ``k_unknown``, ``unit``, and as `specgrid.io._points.collect`.
    """
    files = as_files(paths)
    report = ReadReport(joined(files), "latency table")
    measured: list[Measured] = []
    for file in files:
        name = str(file)
        for line, row in _latency_rows(file, report):
            try:
                point = _point(row, name, line)
            except DataError as error:
                report.add_damage(line, str(error))
                continue
            report.num_read += 1
            measured.append(Measured(point, math.nan, f"{Path(name).name} line {line}"))
    return collect(measured, "unknown", report)


def _latency_rows(
    file: File, report: ReadReport
) -> list[tuple[int, tuple[object, object, object, object]]]:
    name = str(file)
    out: list[tuple[int, tuple[object, object, object, object]]] = []
    if is_csv(file):
        columns, rows = read_table(file)
        _need_latency_columns(columns, name)
        step, factor = time_column(columns, "step", name)
        for line, row in rows:
            if "\0" in row:
                report.add_damage(line, row["\0"])
                continue
            values = [loose(row.get(c, "0")) for c in ("batch", "context", "k", step)]
            us = values[3]
            us = us * factor if isinstance(us, (int, float)) else us
            out.append((line, (values[0], values[1], values[2], us)))
        return out
    data = load_json(file)
    if not isinstance(data, list):
        refuse("is no list of latency points", "wrong_format", name)
    for index, item in enumerate(data, 1):
        if isinstance(item, dict):
            columns = [str(k).lower() for k in item]
            _need_latency_columns(columns, name)
            step, factor = time_column(columns, "step", name)
            lowered = {str(k).lower(): v for k, v in item.items()}
            us = lowered[step]
            us = us * factor if isinstance(us, (int, float)) else us
            context = lowered.get("context", 0)
            out.append((index, (lowered["batch"], context, lowered["k"], us)))
        elif isinstance(item, list) and len(item) == 4:
            out.append((index, (item[0], item[1], item[2], item[3])))
        else:
            report.add_damage(index, "no [batch, context, k, step_us]")
    return out


def _need_latency_columns(columns: Sequence[str], name: str) -> None:
    if "k" not in columns:
        refuse(
            "does not say K; add a column k (draft tokens per request, 0 without "
            "speculation)",
            "k_unknown",
            name,
        )
    if "batch" not in columns:
        refuse("has no column batch (requests in the step)", "missing", name)


def _point(
    row: tuple[object, object, object, object], name: str, line: int
) -> LatencyPoint:
    batch, context, k, us = row
    step_us = number(us, "step", name, line=line)
    if step_us == 0:
        refuse("step is 0", "inconsistent", name, line)
    return LatencyPoint(
        integer(batch, "batch", name, minimum=1, line=line),
        integer(context, "context", name, line=line),
        integer(k, "k", name, line=line),
        step_us,
    )
