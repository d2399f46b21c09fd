# SPDX-License-Identifier: Apache-2.0
"""The tuner: what a user calls, beside good NumPy and good plain Python.

    python -m pytest benchmarks/bench_tune.py

Every case asserts its answer.
"""

from __future__ import annotations

import functools
import itertools
import math
import resource
from typing import Any

import numpy as np
import pytest

from specgrid import Schedule, compress_schedule, tune_schedule

SURVIVAL = (0.8 ** np.arange(1, 17)).tolist()


def step_us(batch: Any, context: Any, k: Any) -> Any:
    return (
        7000.0
        + 630.0 * k
        + 3.0 * batch * (k + 1)
        + 0.002 * batch * context * (1 + 0.05 * k)
    )


@functools.cache
def points(max_num_seqs: int, num_contexts: int, ks: int) -> list[Any]:
    batches = np.unique(np.geomspace(1, max_num_seqs, 13).astype(int)).tolist()
    contexts = np.unique(np.geomspace(1, 131072, num_contexts).astype(int)).tolist()
    return [
        (b, c, k, step_us(b, c, k))
        for k, c, b in itertools.product(range(ks), contexts, batches)
    ]


# ---- a schedule by batch: 256 requests, 6 K, 4 entries -----------------------


def plain_python(data: list[Any], n: int, ks: int, entries: int) -> list[int]:
    """Interpolate, then the textbook programme over (entries, batch, K)."""
    tokens = list(itertools.accumulate(SURVIVAL[: ks - 1], initial=1.0))
    cost = []
    for k in range(ks):
        line = sorted((b, us) for b, _, at, us in data if at == k)
        x, y = [b for b, _ in line], [us for _, us in line]
        us = np.interp(np.arange(1, n + 1), x, y).tolist()
        cost.append([t / tokens[k] / b for b, t in enumerate(us, 1)])
    best = [[cost[k][0] for k in range(ks)]]
    layers = []
    for e in range(entries):
        value = [[cost[k][0] for k in range(ks)]]
        came: list[list[int]] = [[-1] * ks]
        for b in range(1, n):
            row, source = [], []
            before = min(range(ks), key=best[b - 1].__getitem__) if e else 0
            for k in range(ks):
                stay = value[b - 1][k]
                if e and best[b - 1][before] < stay:
                    row.append(best[b - 1][before] + cost[k][b])
                    source.append(before)
                else:
                    row.append(stay + cost[k][b])
                    source.append(-1)
            value.append(row)
            came.append(source)
        best = value
        layers.append(came)
    k = min(range(ks), key=best[-1].__getitem__)
    table, e = [0] * n, entries - 1
    for b in range(n - 1, -1, -1):
        table[b] = k
        if layers[e][b][k] >= 0:
            k, e = layers[e][b][k], e - 1
    return table


@pytest.mark.parametrize("who", ["specgrid", "plain-python"])
def test_four_entries_by_batch(benchmark: Any, who: str) -> None:
    benchmark.group = "256 batches, 6 K, 4 entries"
    data = points(256, 1, 6)
    if who == "specgrid":

        def call() -> list[int]:
            tuned = tune_schedule(
                data,
                SURVIVAL[:5],
                max_num_seqs=256,
                num_speculative_tokens=5,
                max_entries=4,
            )
            return tuned.schedule.lookup(256, 5).tolist()[1:]
    else:

        def call() -> list[int]:
            return plain_python(data, 256, 6, 4)

    result = benchmark.pedantic(call, rounds=10, warmup_rounds=1)
    assert result == plain_python(data, 256, 6, 4)


# ---- the best K of every cell, large -----------------------------------------


def numpy_best(data: list[Any], n: int, contexts: list[int], ks: int) -> Any:
    """Two interpolations and a running minimum per K, all in NumPy."""
    tokens = np.append(1.0, 1.0 + np.cumsum(SURVIVAL[: ks - 1]))
    mesh_b = sorted({b for b, _, _, _ in data})
    mesh_c = sorted({c for _, c, _, _ in data})
    at = {(b, c, k): us for b, c, k, us in data}
    batches = np.arange(1, n + 1)
    least = np.full((n, len(contexts)), math.inf)
    best = np.zeros((n, len(contexts)), dtype=np.int32)
    for k in range(ks):
        lines = np.array(
            [np.interp(contexts, mesh_c, [at[b, c, k] for c in mesh_c]) for b in mesh_b]
        )
        hi = np.clip(np.searchsorted(mesh_b, batches), 1, len(mesh_b) - 1)
        low = np.array(mesh_b)[hi - 1]
        part = (batches - low) / (np.array(mesh_b)[hi] - low)
        us = lines[hi - 1] + (lines[hi] - lines[hi - 1]) * part[:, None]
        us /= tokens[k]
        better = us < least * (1 - 1e-12)
        least[better] = us[better]
        best[better] = k
    return best


@pytest.mark.parametrize("size", [(256, 64, 6), (4096, 1024, 17)], ids=str)
@pytest.mark.parametrize("who", ["specgrid", "specgrid-compressed", "numpy"])
def test_best_k_of_a_grid(benchmark: Any, size: tuple[int, int, int], who: str) -> None:
    """NumPy does the first part only: no compression, losses, gains or flags."""
    n, num_contexts, ks = size
    benchmark.group = f"{n} batches x {num_contexts} contexts x {ks} K"
    data = points(n, 9, ks)
    contexts = np.linspace(1, 131072, num_contexts).astype(int).tolist()
    expected = numpy_best(data, n, contexts, ks)
    if who == "numpy":
        result = benchmark.pedantic(
            lambda: numpy_best(data, n, contexts, ks), rounds=3, warmup_rounds=1
        )
        assert (result == expected).all()
        return
    tuned = benchmark.pedantic(
        lambda: tune_schedule(
            data,
            SURVIVAL[: ks - 1],
            max_num_seqs=n,
            num_speculative_tokens=ks - 1,
            contexts=contexts,
            max_entries=32 if who == "specgrid-compressed" else None,
        ),
        rounds=3,
        warmup_rounds=1,
    )
    assert (tuned.cells.best_k == expected).mean() > 0.9999
    if who == "specgrid-compressed":
        assert tuned.loss.weighted < 1e-3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    benchmark.extra_info["peak_gb_of_the_process"] = round(peak, 2)


# ---- a dense schedule of a million rows --------------------------------------


def test_a_million_rows_build_and_compress(benchmark: Any) -> None:
    benchmark.group = "1,000,000 dense rows"
    batch, context = np.meshgrid(np.arange(1000), np.arange(1000), indexing="ij")
    rows = np.empty((1_000_000, 5), dtype=np.int64)
    rows[:, 0] = rows[:, 1] = batch.ravel() + 1
    rows[:, 2] = context.ravel() * 64 + 1
    rows[:, 3] = context.ravel() * 64 + 64
    rows[:, 4] = np.clip(3 - batch // 300 + context // 500, 0, 4).ravel()
    small = benchmark.pedantic(
        lambda: compress_schedule(Schedule(rows)), rounds=3, warmup_rounds=1
    )
    assert len(small.rows) == 8
