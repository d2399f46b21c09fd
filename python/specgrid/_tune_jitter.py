# SPDX-License-Identifier: Apache-2.0
"""Undoes ``vllm bench forward --kv-len-jitter``: one context per asked context.

The benchmark draws every request's context around the one asked for (within half
of it by default), so batches asked at one context are measured at slightly
different ones and share no mesh. Points are moved to their group's median context
along the line of their own batch, and that is said.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

Point = tuple[int, int, int, float]

# Half up and half down is a factor of three.
_WIDEST_GROUP = 3.2
# Points are never moved by more than this share of their time.
_LARGEST_MOVE = 0.25


def align_contexts(points: Sequence[Point], notes: list[str]) -> list[Point]:
    """Points at few common contexts, where that is what the data look like.

    Contexts are grouped where every (batch, k) has at most one point per group,
    with as many groups as one (batch, k) has points. Anything else is left alone.
    """
    lines: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        lines.setdefault((point[0], point[2]), []).append(point)
    contexts = sorted({context for _, context, _, _ in points})
    num_groups = max((len({p[1] for p in line}) for line in lines.values()), default=0)
    if len(contexts) <= num_groups or contexts[0] == 0:
        return list(points)
    groups = _groups(contexts, num_groups)
    place = {context: i for i, group in enumerate(groups) for context in group}
    for line in lines.values():
        used = [place[context] for context in {p[1] for p in line}]
        if len(used) != len(set(used)):
            return list(points)
    if any(group[-1] > _WIDEST_GROUP * group[0] for group in groups):
        return list(points)
    centres = [
        int(statistics.median_low([c for _, c, _, _ in points if place[c] == i]))
        for i in range(num_groups)
    ]
    notes += [
        f"contexts {group[0]}-{group[-1]} are taken as {centre}: each batch was "
        "measured at another one; run vllm bench forward with --kv-len-jitter 0 to "
        "avoid it"
        for group, centre in zip(groups, centres, strict=True)
        if len(group) > 1
    ]
    return [
        (batch, centres[place[context]], k, _moved(lines[batch, k], context, us, to))
        for batch, context, k, us in points
        for to in [centres[place[context]]]
    ]


def _groups(contexts: list[int], num_groups: int) -> list[list[int]]:
    """Sorted contexts cut at their widest gaps, on a log scale."""
    gaps = sorted(
        range(1, len(contexts)),
        key=lambda i: math.log(contexts[i] / contexts[i - 1]),
        reverse=True,
    )
    cuts = [0, *sorted(gaps[: num_groups - 1]), len(contexts)]
    return [contexts[a:b] for a, b in itertools.pairwise(cuts)]


def _moved(line: Sequence[Point], context: int, us: float, to: int) -> float:
    """The time at another context, along the batch's own line where it has one."""
    others = [p for p in line if p[1] != context]
    if not others:
        return us
    other = min(others, key=lambda p: abs(p[1] - context))
    slope = (other[3] - us) / (other[1] - context)
    change = slope * (to - context)
    return us + max(-_LARGEST_MOVE * us, min(_LARGEST_MOVE * us, change))
