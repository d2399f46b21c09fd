# SPDX-License-Identifier: Apache-2.0
"""A tuned schedule as tables to draw: K and loss by batch and context, and throughput.

Cells are joined to ranges for the eye; a range shows the worst loss of its cells, so
none is averaged away.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from specgrid._tune import TunedSchedule
from specgrid._tune_input import bucket_for

#: Batch ranges drawn at most; beyond, ranges break only where K does.
MAX_RANGES = 48
#: Contexts with throughput lines at most.
MAX_CONTEXTS = 6


def grid_of(tuned: TunedSchedule) -> dict[str, Any]:
    """K, loss and flags by batch range and context range.

    Ranges break where K, or whether it was measured, changes, and at powers of two.

    Returns:
        batches and contexts (inclusive ranges); drafts, loss (worst of the range, None
        where nothing was measured), measured (every cell was) and within_noise (any
        cell is), each a row a context.
    """
    cells = tuned.cells
    decisive = np.concatenate([cells.k, cells.measured], axis=1)
    changes = np.flatnonzero(np.any(decisive[1:] != decisive[:-1], axis=1)) + 1
    size = len(cells.k)
    powers = {(1 << i) for i in range(1, size.bit_length()) if (1 << i) < size}
    breaks = set(changes.tolist())
    if len(breaks | powers) < MAX_RANGES:
        breaks |= powers
    starts = sorted({0, *breaks})
    ends = [*starts[1:], size]
    columns = range(len(cells.contexts))
    spans = list(zip(starts, ends, strict=True))
    return {
        "batches": [[a + 1, b] for a, b in spans],
        "contexts": [list(c) for c in cells.context_ranges],
        "drafts": [[int(cells.k[a, c]) for a, _ in spans] for c in columns],
        "loss": [[_worst(cells.loss[a:b, c]) for a, b in spans] for c in columns],
        "measured": [
            [bool(cells.measured[a:b, c].all()) for a, b in spans] for c in columns
        ],
        "within_noise": [
            [bool(cells.within_noise[a:b, c].any()) for a, b in spans] for c in columns
        ],
    }


def _worst(loss: Any) -> float | None:
    known = loss[~np.isnan(loss)]
    return float(known.max()) if known.size else None


def throughput_of(
    tuned: TunedSchedule, points: Iterable[tuple[int, int, int, float]]
) -> list[dict[str, Any]]:
    """Output tokens per second at the measured points, a line a K.

    Args:
        tuned: for the acceptance it was tuned with.
        points: (batch, context, k, step_us) as measured; repeats are averaged.

    Returns:
        context and lines (k, points of (batch, tokens per second)) of each measured
        context, the evenly spread ones where there are many.
    """
    by_context: dict[int, dict[int, dict[int, list[float]]]] = {}
    for batch, context, k, step_us in points:
        if k <= tuned.num_speculative_tokens and step_us > 0:
            lines = by_context.setdefault(context, {})
            lines.setdefault(k, {}).setdefault(batch, []).append(step_us)
    contexts = sorted(by_context)
    if len(contexts) > MAX_CONTEXTS:
        last = len(contexts) - 1
        picked = {round(i * last / (MAX_CONTEXTS - 1)) for i in range(MAX_CONTEXTS)}
        contexts = [contexts[i] for i in sorted(picked)]
    return [
        {
            "context": context,
            "lines": [
                {"k": k, "points": _line(tuned, context, k, found)}
                for k, found in sorted(by_context[context].items())
            ],
        }
        for context in contexts
    ]


def _line(
    tuned: TunedSchedule, context: int, k: int, found: dict[int, list[float]]
) -> list[list[float]]:
    bucket, _ = bucket_for(tuned.acceptance, context)
    tokens = bucket.acceptance.tokens_per_step(k)
    line: list[list[float]] = []
    for batch, times in sorted(found.items()):
        step_us = math.fsum(times) / len(times)
        line.append([batch, round(1e6 * batch * tokens / step_us, 1)])
    return line
