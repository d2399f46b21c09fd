# SPDX-License-Identifier: Apache-2.0
"""What a step costs, from a hand-made table or ``vllm bench forward``.

A number that is no cost is refused, never left out: a table with a hole in it
would plan something else than what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable

from specgrid._read import as_file
from specgrid.io._points import MIN_STEP_US, UNIT_RATIO
from specgrid.io._source import AnyPath, integer, load_json, mapping, number, refuse
from specgrid.io._table import (
    TIME_UNITS,
    cell,
    is_csv,
    optional,
    read_table,
    time_column,
)
from specgrid.io._types import CostData, ReadReport
from specgrid.io.forward import is_forward, read_forward

_TIMES = ("full_us", "base_us", "per_token_us", "piecewise_us", "eager_us")
_GRAPH_KEYS = ("graph_bytes", "pool_bytes", "graph_seconds")


def read_costs(path: AnyPath) -> CostData:
    """Step costs by padded tokens.

    ``vllm bench forward`` output: FULL times by tokens, of uniform decode steps
    at the smallest context measured (a plan compares sizes, not contexts).

    CSV: ``num_tokens,full_us[,piecewise_us][,eager_us]``, a row a size; an empty
    cell is a size not measured in that mode. JSON: the same as ``{"full_us":
    {"8": 7100, ...}, "piecewise_us": {...}, "eager_us": {...}}``, or a straight
    line ``{"base_us": 7000, "per_token_us": 20, "piecewise_us": 3000, "eager_us":
    12000}`` whose last two are penalties; either with ``graph_bytes``,
    ``pool_bytes``, ``graph_seconds``, which also do alone. ``_ms`` in place of
    ``_us`` throughout is converted.

    Raises:
        DataError: Anything in it that is not a cost.
    """
    path = as_file(path)
    name = str(path)
    report = ReadReport(name, "costs")
    if is_csv(path):
        return _costs_csv(path, report)
    data = load_json(path)
    if is_forward(data):
        return _costs_forward(path)
    entries = mapping(data, "costs", name)
    known = {*_TIMES, *_GRAPH_KEYS, "comment"}
    if unknown := sorted({_in_us(key) for key in entries} - known):
        refuse(
            f"has unknown keys {', '.join(unknown[:4])}; known are "
            f"{', '.join((*_TIMES, *_GRAPH_KEYS))}",
            "wrong_format",
            name,
        )
    in_ms = any(key.endswith("_ms") for key in entries)
    if in_ms and any(key.endswith("_us") for key in entries):
        refuse("mixes _us and _ms keys; use one unit", "unit", name)
    factor = 1000.0 if in_ms else 1.0
    result = _costs_json(
        {_in_us(key): value for key, value in entries.items()}, factor, report
    )
    _check_units(result, name)
    return result


def _in_us(key: str) -> str:
    return key.removesuffix("_ms") + "_us" if key.endswith("_ms") else key


def _costs_json(data: dict[str, object], factor: float, report: ReadReport) -> CostData:
    name = report.source
    graph_bytes, pool_bytes, graph_seconds = (
        optional(data, key, name) for key in _GRAPH_KEYS
    )
    report.num_read = sum(
        len(v) if isinstance(v, (dict, list)) else 1
        for key, v in data.items()
        if key != "comment"
    )
    if report.num_read == 0:
        refuse("is empty", "empty", name)
    if "base_us" in data and "full_us" in data:
        refuse("gives both a line (base_us) and a table (full_us)", "conflict", name)
    if "full_us" in data:
        return CostData(
            report=report,
            full_us=_cost_table(data["full_us"], "full_us", name, factor),
            piecewise_us=_optional_table(data, "piecewise_us", name, factor),
            eager_us=_optional_table(data, "eager_us", name, factor),
            piecewise_penalty_us=_optional_penalty(data, "piecewise_us", name, factor),
            eager_penalty_us=_optional_penalty(data, "eager_us", name, factor),
            graph_bytes=graph_bytes,
            pool_bytes=pool_bytes,
            graph_seconds=graph_seconds,
        )
    base = optional(data, "base_us", name, factor)
    slope = optional(data, "per_token_us", name, factor)
    if (base is None) != (slope is None):
        refuse("a line needs both base_us and per_token_us", "missing", name)
    return CostData(
        report=report,
        base_us=base,
        per_token_us=slope,
        piecewise_penalty_us=optional(data, "piecewise_us", name, factor),
        eager_penalty_us=optional(data, "eager_us", name, factor),
        graph_bytes=graph_bytes,
        pool_bytes=pool_bytes,
        graph_seconds=graph_seconds,
    )


def _optional_table(
    data: dict[str, object], key: str, name: str, factor: float
) -> dict[int, float] | None:
    value = data.get(key)
    if value is None or isinstance(value, (int, float)):
        return None
    return _cost_table(value, key, name, factor)


def _optional_penalty(
    data: dict[str, object], key: str, name: str, factor: float
) -> float | None:
    """A number beside a FULL table is a penalty on it."""
    if not isinstance(data.get(key), (int, float)):
        return None
    return optional(data, key, name, factor)


def _costs_forward(path: AnyPath) -> CostData:
    data = read_forward(path)
    context = min(p.context for p in data.points)
    by_tokens: dict[int, list[float]] = {}
    nearest: dict[tuple[int, int], int] = {}
    for p in data.points:
        key = (p.batch, p.k)
        nearest[key] = min(p.context, nearest.get(key, p.context))
    for p in data.points:
        if p.context == nearest[p.batch, p.k]:
            by_tokens.setdefault(p.batch * (p.k + 1), []).append(p.step_us)
    data.report.add_note(
        f"FULL times are those of the smallest context measured, {context} tokens and "
        "up; where several K give one size, their mean"
    )
    return CostData(
        report=data.report,
        full_us={t: sum(us) / len(us) for t, us in sorted(by_tokens.items())},
    )


def _costs_csv(path: AnyPath, report: ReadReport) -> CostData:
    name = str(path)
    columns, rows = read_table(path)
    if "num_tokens" not in columns:
        refuse(
            f"needs a column num_tokens; it has {', '.join(columns[:8])}",
            "missing",
            name,
        )
    modes = {
        mode: time_column(columns, mode, name)
        for mode in ("full", "piecewise", "eager")
        if mode == "full" or any(mode + u in columns for u in TIME_UNITS)
    }
    tables: dict[str, dict[int, float]] = {mode: {} for mode in modes}
    for line, row in rows:
        if "\0" in row:
            refuse(row["\0"], "damaged", name, line)
        tokens = integer(
            cell(row, "num_tokens", name, line),
            "num_tokens",
            name,
            minimum=1,
            line=line,
        )
        report.num_read += 1
        for mode, (column, factor) in modes.items():
            if not row[column]:
                continue
            us = number(cell(row, column, name, line), column, name, line=line) * factor
            if tables[mode].setdefault(tokens, us) != us:
                refuse(
                    f"num_tokens {tokens} is given twice with different {column}",
                    "conflict",
                    name,
                    line,
                )
    if not tables["full"]:
        refuse("gives no full cost", "empty", name)
    result = CostData(
        report=report,
        full_us=tables["full"],
        piecewise_us=tables.get("piecewise") or None,
        eager_us=tables.get("eager") or None,
    )
    _check_units(result, name)
    return result


def _cost_table(value: object, key: str, name: str, factor: float) -> dict[int, float]:
    pairs: Iterable[tuple[object, object]]
    if isinstance(value, dict):
        pairs = [
            (int(k) if k.strip().isdecimal() and len(k) < 12 else k, v)
            for k, v in value.items()
        ]
    elif isinstance(value, list) and all(
        isinstance(p, list) and len(p) == 2 for p in value
    ):
        pairs = [(p[0], p[1]) for p in value]
    else:
        refuse(f"{key} is no table of [num_tokens, us]", "wrong_format", name)
    out: dict[int, float] = {}
    for tokens, us in pairs:
        t = integer(tokens, f"{key}: num_tokens", name, minimum=1)
        u = number(us, f"{key} at {t} tokens", name) * factor
        if out.setdefault(t, u) != u:
            refuse(f"{key} gives {t} tokens twice, differently", "conflict", name)
    if not out:
        refuse(f"{key} is empty", "empty", name)
    return out


def _check_units(costs: CostData, name: str) -> None:
    times = list(costs.full_us.values())
    if costs.base_us is not None and costs.per_token_us is not None:
        times.append(costs.base_us + 512 * costs.per_token_us)
    if times and max(times) < MIN_STEP_US:
        refuse(
            f"the longest FULL step is {max(times):g} us; no step is that short. "
            "Milliseconds? Name the columns _ms",
            "unit",
            name,
        )
    for label, table in (
        ("piecewise", costs.piecewise_us),
        ("eager", costs.eager_us),
    ):
        for tokens, us in (table or {}).items():
            full = costs.full_us.get(tokens)
            if full and not 1 / UNIT_RATIO < us / full < UNIT_RATIO:
                refuse(
                    f"{label} at {tokens} tokens is {us:g} us against {full:g} us "
                    "FULL; milliseconds and microseconds mixed?",
                    "unit",
                    name,
                )
