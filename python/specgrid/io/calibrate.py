# SPDX-License-Identifier: Apache-2.0
"""From what a log happened to record to what a plan needs.

Two fits, both plain least squares, both saying what they could not tell: bytes
and seconds per graph from start-up lines, and step time by mode from iteration
lines. And one deduction: step shapes from --cudagraph-metrics tables, where only
one shape fits a row. Not a benchmark: elapsed times hold host work, and under
asynchronous scheduling they miss the part of a step that overlaps the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from specgrid.io._source import refuse
from specgrid.io._types import (
    CostData,
    LogData,
    ReadReport,
    StartupRecord,
    StepCounts,
)

#: Assumed bytes a graph adds, and the least the shared pool takes, where one
#: start-up cannot separate them; vLLM's threads report 6 to 40 MiB a graph
#: (#22897, #50780, #11349).
ASSUMED_GRAPH_BYTES = 24 << 20
ASSUMED_POOL_BYTES = 256 << 20
_MIN_COUNT = 5
_MIN_SIZES = 3

#: Gives (padded tokens, "FULL" | "PIECEWISE" | "NONE") of a step of num_reqs
#: requests and num_tokens tokens, query_len tokens each (None: they differ).
Dispatch = Callable[[int, int, int | None], tuple[int, str]]


def graph_costs(
    startups: Sequence[StartupRecord],
    report: ReadReport,
    num_graphs: Callable[[StartupRecord], int | None] | None = None,
) -> CostData:
    """Bytes and seconds per graph, and the pool, from start-up lines.

    Two starts with different numbers of graphs give both; one gives the total,
    of which each graph is assumed to be `ASSUMED_GRAPH_BYTES`.

    Args:
        startups: Records of one configuration but for the capture list.
        report: Where notes go.
        num_graphs: How many graphs a start captured, asked where its progress
            bars are not in the log.

    Returns:
        Costs whose step times are empty; parts that cannot be told are None.
    """
    points = []
    for start in startups:
        count: int | None = sum(start.num_graphs.values()) or None
        if count is None and num_graphs is not None:
            count = num_graphs(start)
        if count and start.graph_bytes is not None:
            points.append((count, start.graph_bytes, start.graph_seconds or 0.0))
    if not points:
        return CostData(report=report)
    counts = np.array([p[0] for p in points], dtype=float)
    sizes = np.array([p[1] for p in points], dtype=float)
    seconds = np.array([p[2] for p in points], dtype=float)
    per_second = float(seconds.sum() / counts.sum()) if seconds.any() else None
    per_graph = pool = None
    assumed = False
    if len(set(counts)) > 1:
        design = np.stack([counts, np.ones_like(counts)], axis=1)
        (slope, level), *_ = np.linalg.lstsq(design, sizes, rcond=None)
        if slope > 0 and level >= 0:
            per_graph, pool = float(slope), float(level)
        else:
            report.add_note(
                "the starts' graph memory does not grow with the number of graphs; "
                "the split into pool and graphs is assumed"
            )
    if per_graph is None:
        largest = int(sizes.argmax())
        total, captured = float(sizes[largest]), float(counts[largest])
        least_pool = min(float(ASSUMED_POOL_BYTES), total / 2)
        per_graph = min(float(ASSUMED_GRAPH_BYTES), (total - least_pool) / captured)
        pool = total - per_graph * captured
        assumed = True
        if len(set(counts)) == 1:
            report.add_note(
                f"one capture list was seen ({int(captured)} graphs, "
                f"{total / 2**30:.2f} GiB); how that divides into "
                f"{per_graph / 2**20:.0f} MiB a graph and a pool is assumed. A second "
                "start with another list would tell"
            )
    return CostData(
        report=report,
        graph_bytes=per_graph,
        pool_bytes=pool,
        graph_seconds=per_second,
        split_assumed=assumed,
    )


def steps_from_table(
    log: LogData, pairs: Mapping[int, Sequence[tuple[int, int]]], dispatch: Dispatch
) -> StepCounts:
    """Step shapes from --cudagraph-metrics rows, for a log without step lines.

    A row says tokens, padded tokens and mode. A shape fits if the server would
    have dispatched it just so. Rows that one shape fits are counted; rows that a
    decode step and a step with a prefill both fit are left out, as are rows that
    nothing fits, and the shares of both are noted.

    Args:
        log: A log with such tables.
        pairs: The (query_len, num_reqs) the schedule can produce, by tokens.
        dispatch: As in `step_costs`.

    Returns:
        The counts.

    Raises:
        DataError: No row can be told (``empty``), or most fit nothing because
            the tables are from another configuration (``inconsistent``).
    """
    steps = StepCounts(num_engines=1)
    unclear = unfitting = 0
    for (tokens, padded, mode), count in sorted(log.graphs.rows.items()):
        fitting = [
            (q, n)
            for q, n in pairs.get(tokens, ())
            if dispatch(n, tokens, q) == (padded, mode)
        ]
        other = dispatch(1, tokens, None) == (padded, mode)
        if len(fitting) + other == 1:
            if other:
                steps.mixed[tokens] = steps.mixed.get(tokens, 0) + count
            else:
                steps.uniform[fitting[0]] = steps.uniform.get(fitting[0], 0) + count
        elif fitting:
            unclear += count
        else:
            unfitting += count
    total = sum(log.graphs.rows.values())
    if unfitting > total / 2:
        refuse(
            f"{unfitting / total:.0%} of the --cudagraph-metrics rows cannot come from "
            "this server's graphs; the tables are from another configuration",
            "inconsistent",
            log.report.source,
        )
    if steps.num_steps == 0:
        refuse(
            "no --cudagraph-metrics row says which step it was; run the server with "
            "--enable-logging-iteration-details",
            "empty",
            log.report.source,
        )
    log.report.add_note(
        "step shapes were deduced from --cudagraph-metrics rows: "
        f"{steps.num_steps:,.0f} of {total:,} steps are certain, {unclear / total:.1%} "
        "may be a decode step or one with a prefill and "
        f"{unfitting / total:.1%} fit nothing; both are left out"
    )
    return steps


def step_costs(log: LogData, dispatch: Dispatch) -> CostData:
    """A straight line for FULL and constant penalties, from elapsed times.

    Decode-only steps give the line and both penalties; steps with a prefill give
    the PIECEWISE penalty too, never the eager one, since their time is their own.

    Args:
        log: A log with iteration lines.
        dispatch: Which graph served a step under the configuration that wrote
            the log.

    Returns:
        Costs; a part with too few steps behind it is None.
    """
    report = log.report
    rows: list[tuple[float, str, float, float]] = []
    for (kind, first, second), us in log.steps.elapsed_us.items():
        if kind == "uniform":
            count = log.steps.uniform[first, second]
            padded, mode = dispatch(second, first * second, first)
        elif kind == "ragged":
            count = log.steps.ragged[first, second]
            padded, mode = dispatch(first, second, None)
        else:
            count = log.steps.mixed[first]
            padded, mode = dispatch(1, first, None)
            if mode == "NONE":
                continue
        if us > 0:
            rows.append((padded, mode, us, count))
    seen = {
        mode: (
            len({t for t, m, _, _ in rows if m == mode}),
            sum(c for _, m, _, c in rows if m == mode),
        )
        for mode in ("FULL", "PIECEWISE", "NONE")
    }
    empty = CostData(report=report)
    if seen["FULL"][0] < _MIN_SIZES or seen["FULL"][1] < _MIN_COUNT * _MIN_SIZES:
        report.add_note(
            f"step times were not fitted: only {seen['FULL'][0]} sizes ran in FULL "
            f"graphs, {_MIN_SIZES} are needed"
        )
        return empty
    modes = ["FULL"] + [m for m in ("PIECEWISE", "NONE") if seen[m][1] >= _MIN_COUNT]
    rows = [row for row in rows if row[1] in modes]
    design = np.array(
        [[1.0, t, *(float(m == mode) for mode in modes[1:])] for t, m, _, _ in rows]
    )
    weight = np.sqrt([c for _, _, _, c in rows])
    target = np.array([us for _, _, us, _ in rows])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        report.add_note("step times were not fitted: the sizes seen do not tell enough")
        return empty
    solution, *_ = np.linalg.lstsq(
        design * weight[:, None], target * weight, rcond=None
    )
    base, slope = float(solution[0]), float(solution[1])
    if base <= 0 or slope < 0:
        report.add_note(
            f"step times were not used: the fit gives {base:,.0f} us + {slope:.2f} us "
            "per token, which no server has; elapsed times of this log say little"
        )
        return empty
    penalties = dict(zip(modes[1:], map(float, solution[2:]), strict=True))
    for mode, value in list(penalties.items()):
        if value < 0:
            report.add_note(
                f"{mode} steps came out {-value:,.0f} us faster than FULL; not used"
            )
            del penalties[mode]
    report.add_note(
        f"step times fitted from elapsed times: {base:,.0f} us + {slope:.2f} us per "
        "token; they hold host work, and under asynchronous scheduling they can be "
        "shorter than the step"
    )
    return replace(
        empty,
        base_us=base,
        per_token_us=slope,
        piecewise_penalty_us=penalties.get("PIECEWISE"),
        eager_penalty_us=penalties.get("NONE"),
    )
