# SPDX-License-Identifier: Apache-2.0
"""Putting measured points together: units, duplicates, contradictions.

Every reader of latencies ends here, so that no two of them judge differently.
Nothing is averaged that does not agree, and no unit is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from specgrid.io._source import refuse
from specgrid.io._types import LatencyData, LatencyPoint, ReadReport

#: Two measurements of one case that differ by more than this contradict.
AGREE_WITHIN = 0.05
#: No model's decode step takes less than this, or more.
MIN_STEP_US = 50.0
MAX_STEP_US = 60e6
#: Neighbouring cases further apart than this are in different units.
UNIT_RATIO = 200.0


class Measured(NamedTuple):
    """A point with where it came from."""

    point: LatencyPoint
    spread: float
    where: str


def collect(
    measured: Sequence[Measured], scope: str, report: ReadReport
) -> LatencyData:
    """Checks the points against each other and merges repeated ones.

    Raises:
        DataError: No points (``empty``); times no step can take, or neighbours
            a factor of `UNIT_RATIO` apart (``unit``); the same case measured
            twice with times that disagree (``conflict``).
    """
    if not measured and report.damaged:
        first = report.damaged[0]
        refuse(
            f"none of {report.num_damaged:,} entries is a measured step; the first "
            f"({first.line}): {first.reason}",
            "empty",
            report.source,
        )
    if not measured:
        refuse(
            "no uniform decode step was found; each case needs the same query "
            "length 1 + K for all requests, for example verify=16*4@4096:3",
            "empty",
            report.source,
        )
    _check_units(measured, report)
    by_case: dict[tuple[int, int, int], list[Measured]] = {}
    for item in measured:
        point = item.point
        by_case.setdefault((point.k, point.context, point.batch), []).append(item)
    points: list[LatencyPoint] = []
    spreads: list[float] = []
    repeated = 0
    for (k, context, batch), items in sorted(by_case.items()):
        low = min(items, key=lambda m: m.point.step_us)
        high = max(items, key=lambda m: m.point.step_us)
        if high.point.step_us > low.point.step_us * (1 + AGREE_WITHIN):
            refuse(
                f"batch {batch}, context {context}, K {k} takes "
                f"{low.point.step_us:,.0f} us in {low.where} and "
                f"{high.point.step_us:,.0f} us in {high.where}; these are different "
                "configurations or one is wrong. Keep one of them",
                "conflict",
                report.source,
            )
        repeated += len(items) > 1
        us = [m.point.step_us for m in items]
        points.append(LatencyPoint(batch, context, k, sum(us) / len(us)))
        spreads.append(max((m.spread for m in items), default=math.nan))
    if repeated:
        report.add_note(
            f"{repeated:,} cases were measured more than once; they agree within "
            f"{AGREE_WITHIN:.0%} and their mean is used"
        )
    noisy = sum(1 for s in spreads if s > 0.05)
    if noisy:
        report.add_note(
            f"{noisy:,} of {len(spreads):,} cases have samples more than 5 % apart"
        )
    return LatencyData(tuple(points), scope, tuple(spreads), report)


def _check_units(measured: Sequence[Measured], report: ReadReport) -> None:
    largest = max(measured, key=lambda m: m.point.step_us)
    smallest = min(measured, key=lambda m: m.point.step_us)
    if largest.point.step_us < MIN_STEP_US:
        refuse(
            f"the longest step is {largest.point.step_us:g} us; no decode step is "
            "that short. Milliseconds read as microseconds? Name the column step_ms "
            "if so",
            "unit",
            report.source,
        )
    if smallest.point.step_us > MAX_STEP_US:
        refuse(
            f"the shortest step is {smallest.point.step_us:g} us, over a minute; "
            "nanoseconds read as microseconds?",
            "unit",
            report.source,
        )
    lines: dict[int, list[Measured]] = {}
    for item in measured:
        lines.setdefault(item.point.k, []).append(item)
    for items in lines.values():
        items.sort(key=lambda m: m.point.step_us)
        for low, high in pairwise(items):
            if high.point.step_us > UNIT_RATIO * low.point.step_us:
                refuse(
                    f"no case between {low.point.step_us:g} us ({low.where}) and "
                    f"{high.point.step_us:g} us ({high.where}) at K "
                    f"{low.point.k}; milliseconds and microseconds mixed?",
                    "unit",
                    report.source,
                )
