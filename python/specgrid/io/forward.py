# SPDX-License-Identifier: Apache-2.0
"""``vllm bench forward --output-json``: step times of exact batches.

A list of ``{case, requests, median_us, ranks}``; times are the replay of a graph
captured for that one batch, without padding, sampling or host time, the largest
over ranks (vllm/benchmarks/forward/main.py, capture.py). The file names neither
model nor drafter, so files that contradict each other are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from specgrid.io._points import Measured, collect
from specgrid.io._source import (
    AnyPath,
    as_files,
    integer,
    joined,
    load_json,
    mapping,
    number,
    refuse,
)
from specgrid.io._types import DataError, LatencyData, LatencyPoint, ReadReport


def read_forward(paths: AnyPath | Iterable[AnyPath]) -> LatencyData:
    """Reads one file or several, for one K or several.

    Cases that are not a uniform decode step (prefills, mixed batches) are
    passed over. The context of a case is the mean over its requests: by
    default vLLM draws each within 50 %, ``--kv-len-jitter 0`` keeps it exact.

    Args:
        paths: Files of one model with one drafter.

    Raises:
        DataError: See `specgrid.io._points.collect`; also ``mixed_scope`` where
            some files time the drafter and others do not.
    """
    files = as_files(paths)
    report = ReadReport(joined(files), "vllm bench forward")
    measured: list[Measured] = []
    scopes: dict[str, str] = {}
    for file in files:
        name = str(file)
        data = load_json(file)
        if not is_forward(data):
            refuse(
                "is not the output of vllm bench forward --output-json, a list of "
                "{case, requests, median_us, ranks}",
                "wrong_format",
                name,
            )
        assert isinstance(data, list)
        for index, record in enumerate(data):
            try:
                item, scope = _one_case(record, name, report)
            except DataError as error:
                if error.rule in ("unit", "inconsistent"):
                    raise
                report.add_damage(index + 1, str(error))
                continue
            if item is None:
                report.num_skipped += 1
                continue
            report.num_read += 1
            measured.append(item)
            # Without drafts there is no drafter to time.
            if item.point.k:
                scopes.setdefault(scope, item.where)
    if len(scopes) > 1:
        (one, at), (other, there) = list(scopes.items())[:2]
        refuse(
            f"{at} times {one} and {there} times {other}; measure all cases with or "
            "all without --exclude-drafter",
            "mixed_scope",
            report.source,
        )
    return collect(measured, next(iter(scopes), "target_only"), report)


def is_forward(data: object) -> bool:
    """Whether parsed JSON has the form of these files."""
    return (
        isinstance(data, list)
        and bool(data)
        and isinstance(data[0], dict)
        and "requests" in data[0]
        and "median_us" in data[0]
    )


def _one_case(
    record: object, name: str, report: ReadReport
) -> tuple[Measured | None, str]:
    entry = mapping(record, "a case", name)
    where = f"{Path(name).name} case {entry.get('case')!r}"
    requests = entry.get("requests")
    if not isinstance(requests, list) or not requests:
        refuse(f"{where}: no requests", "missing", name)
    shapes = set()
    total_prefix = num_tokens = 0
    decode = True
    for item in requests:
        request = mapping(item, f"{where}: a request", name)
        query_len = integer(
            request.get("query_len"), f"{where}: query_len", name, minimum=1
        )
        kv_len = integer(request.get("kv_len"), f"{where}: kv_len", name, minimum=1)
        k = integer(
            request.get("num_draft_tokens", 0), f"{where}: num_draft_tokens", name
        )
        prefix = kv_len - query_len
        decode = decode and prefix > 0 and query_len == k + 1
        shapes.add(k)
        total_prefix += prefix
        num_tokens += query_len
    step_us = number(entry.get("median_us"), f"{where}: median_us", name)
    if step_us == 0:
        refuse(f"{where}: median_us is 0", "inconsistent", name)
    spread, scope = _check_ranks(entry, num_tokens, step_us, where, name, report)
    if not decode or len(shapes) != 1:
        return None, scope
    point = LatencyPoint(
        len(requests), round(total_prefix / len(requests)), shapes.pop(), step_us
    )
    return Measured(point, spread, where), scope


def _check_ranks(
    entry: dict[str, object],
    num_tokens: int,
    step_us: float,
    where: str,
    name: str,
    report: ReadReport,
) -> tuple[float, str]:
    """Returns (relative spread, timing scope), having compared the ranks."""
    ranks = entry.get("ranks")
    if not isinstance(ranks, list) or not ranks:
        return math.nan, "unknown"
    rank = mapping(ranks[0], f"{where}: a rank", name)
    stated = rank.get("num_tokens", num_tokens)
    if stated != num_tokens:
        refuse(
            f"{where}: requests have {num_tokens} tokens, the rank says {stated}",
            "inconsistent",
            name,
        )
    if rank.get("finite") is False:
        report.add_note(f"{where}: the model's output was not finite")
    scope = str(rank.get("timing_scope", "unknown"))
    latency = rank.get("latency_us")
    if not isinstance(latency, dict):
        return math.nan, scope
    median = number(latency.get("median"), f"{where}: latency_us.median", name)
    if median and not 0.5 < step_us / median < 2:
        refuse(
            f"{where}: median_us is {step_us:g} but the samples' median is "
            f"{median:g}; microseconds and another unit mixed?",
            "unit",
            name,
        )
    spread = latency.get("sample_spread_pct")
    if isinstance(spread, (int, float)) and math.isfinite(spread):
        return float(spread) / 100, scope
    return math.nan, scope
