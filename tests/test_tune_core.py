# SPDX-License-Identifier: Apache-2.0
"""The tuner's core functions: brute force, and native against reference."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from specgrid import _backend

NOTHING = np.empty(0)
INF = math.inf


def runs_of(labels: tuple[int, ...]) -> int:
    return 1 + sum(a != b for a, b in itertools.pairwise(labels))


def rises(labels: tuple[int, ...]) -> bool:
    return any(a < b for a, b in itertools.pairwise(labels))


def line_cost(rng: random.Random, rows: int, labels: int) -> np.ndarray:
    """Random costs, some of them inadmissible."""
    return np.array(
        [
            [INF if rng.random() < 0.1 else rng.random() for _ in range(labels)]
            for _ in range(rows)
        ]
    )


@pytest.mark.parametrize("monotone", [False, True])
def test_runs_equal_brute_force_for_every_number_of_entries(
    backend: Any, monotone: bool
) -> None:
    rng = random.Random(6)
    for _ in range(120):
        rows, labels = rng.randint(2, 6), rng.randint(1, 3)
        cost = line_cost(rng, rows, labels)
        totals, runs = backend.compress_line(cost, 4, monotone)
        for e in range(1, 5):
            expected = min(
                (
                    sum(cost[n, i] for n, i in enumerate(choice))
                    for choice in itertools.product(range(labels), repeat=rows)
                    if runs_of(choice) <= e and not (monotone and rises(choice))
                ),
                default=INF,
            )
            assert totals[e - 1] == pytest.approx(expected)
            chosen = [r[1:] for r in runs.tolist() if r[0] == e]
            if expected == INF:
                assert not chosen
                continue
            assert len(chosen) <= e
            table = [k for begin, end, k in chosen for _ in range(begin, end)]
            assert sum(cost[n, k] for n, k in enumerate(table)) == pytest.approx(
                expected
            )
            assert not (monotone and rises(tuple(table)))


def band_brute_force(cost: np.ndarray, entries: int, monotone: bool) -> float:
    """Least cost over every band structure of bands x line x labels."""
    bands, line, labels = cost.shape
    best = INF
    for cuts in itertools.product([0, 1], repeat=bands - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), bands]
        options = []
        for a, b in itertools.pairwise(edges):
            joined = cost[a:b].sum(axis=0)
            by_runs = [INF] * (entries + 1)
            for choice in itertools.product(range(labels), repeat=line):
                runs = runs_of(choice)
                if runs <= entries and not (monotone and rises(choice)):
                    total = sum(joined[n, k] for n, k in enumerate(choice))
                    by_runs[runs] = min(by_runs[runs], total)
            options.append(by_runs)
        for split in itertools.product(range(1, entries + 1), repeat=len(options)):
            if sum(split) <= entries:
                total = sum(o[e] for o, e in zip(options, split, strict=True))
                best = min(best, total)
    return best


@pytest.mark.parametrize("monotone", [False, True])
def test_bands_equal_brute_force_over_both_orders(backend: Any, monotone: bool) -> None:
    rng = random.Random(7)
    for _ in range(8):
        rows, labels, columns = rng.randint(2, 4), rng.randint(2, 3), rng.randint(2, 3)
        cost = np.array(
            [
                [[rng.random() for _ in range(columns)] for _ in range(labels)]
                for _ in range(rows)
            ]
        )
        totals, by_batch, rectangles = backend.compress_bands(cost, 5, monotone, 2)
        for e in range(1, 6):
            expected = band_brute_force(cost.transpose(2, 0, 1), e, monotone)
            if not monotone:
                other = band_brute_force(cost.transpose(0, 2, 1), e, False)
                assert by_batch[e - 1] == (other < expected * (1 - 1e-12))
                expected = min(expected, other)
            assert totals[e - 1] == pytest.approx(expected)
            covered = np.zeros((rows, columns))
            total = 0.0
            chosen = [r[1:] for r in rectangles.tolist() if r[0] == e]
            for r0, r1, c0, c1, label in chosen:
                covered[r0:r1, c0:c1] += 1
                total += cost[r0:r1, label, c0:c1].sum()
            assert (covered == 1).all()
            assert total == pytest.approx(expected)
            assert len(chosen) <= e


def joint_brute_force(
    share: np.ndarray, graph: np.ndarray, eager: np.ndarray, run_us: float, graphs: int
) -> float:
    """Every non-increasing K table with every set of (K, requests) graphs."""
    labels, batches = graph.shape
    keys = list(itertools.product(range(labels), range(1, batches + 1)))
    best = INF
    for choice in itertools.product(range(labels), repeat=batches):
        if rises(choice):
            continue
        for captured in itertools.combinations(keys, graphs):
            total = run_us * runs_of(choice)
            for n, k in enumerate(choice, 1):
                sizes = [m for label, m in captured if label == k and m >= n]
                us = graph[k, min(sizes) - 1] if sizes else eager[k, n - 1]
                total += share[n - 1] * us
            best = min(best, total)
    return best


def test_schedule_and_captures_together_equal_brute_force(backend: Any) -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        batches, labels = int(rng.integers(3, 5)), int(rng.integers(2, 4))
        share = rng.random(batches) + 0.05
        sizes = np.arange(1, batches + 1)
        base = rng.uniform(2, 8)
        per_label = [
            (base + rng.uniform(0.05, 1.5) * sizes * (k + 1)) / (1 + k * 0.6)
            for k in range(labels)
        ]
        graph = np.array(per_label)
        eager = graph + 6.0
        totals, segments = backend.tune_joint(share, graph, eager, 0.01, 3)
        least = INF
        for graphs in range(4):
            least = min(least, joint_brute_force(share, graph, eager, 0.01, graphs))
            assert totals[graphs] == pytest.approx(least)
            chosen = [s[1:] for s in segments.tolist() if s[0] == graphs]
            assert sum(not is_eager for *_, is_eager in chosen) <= graphs
            assert [s[0] for s in chosen] == [0, *(s[1] for s in chosen[:-1])]


def test_choosing_k_before_captures_can_be_worse(backend: Any) -> None:
    # One graph: K = 1 is best at batch 1, K = 0 at batch 2, yet one graph of
    # K = 0 for both beats leaving either of them eager.
    share = np.ones(2)
    graph = np.array([[10.0, 10.0], [9.0, 11.0]])
    eager = np.full((2, 2), 20.0)
    totals, segments = backend.tune_joint(share, graph, eager, 0.0, 2)
    assert totals.tolist() == [40.0, 20.0, 19.0]
    assert [s for s in segments.tolist() if s[0] == 1] == [[1, 0, 2, 0, 0]]


def random_grid(rng: np.random.Generator, case: int) -> tuple[Any, ...]:
    labels, rows = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    columns = np.sort(rng.choice(50, int(rng.integers(1, 5)), replace=False))
    points = []
    for _ in range(labels):
        size = int(rng.integers(1, 12))
        pairs = {
            (int(rng.integers(1, 11)), int(rng.choice([0, 5, 10, 20, 49])))
            for _ in range(size)
        }
        batches, contexts = (
            np.array(axis, np.int64) for axis in zip(*pairs, strict=True)
        )
        us = rng.integers(1, 30, len(pairs)).astype(float)
        points.append((batches, contexts, us))
    tokens = 1 + rng.random((labels, len(columns)))
    padded = extra = weights = NOTHING
    if case % 2:
        padded = np.arange(1, rows + 1) + rng.integers(0, 2, (labels, rows)) / 2
        extra = rng.integers(0, 5, (labels, rows)).astype(float)
    if case % 3:
        weights = rng.integers(0, 4, (rows, len(columns))).astype(float)
    limit = float(rng.choice([INF, 9.0]))
    tolerance = float(rng.choice([INF, 0.3]))
    return (
        *(points, tokens, rows, columns.astype(np.int64), padded, extra, weights),
        *(limit, tolerance, int(rng.choice([0, 3, 100])), int(rng.choice([2, 100]))),
    )


def test_native_and_reference_agree_on_random_grids() -> None:
    rng = np.random.default_rng(0)
    with _backend.use("native") as native, _backend.use("reference") as reference:
        pass
    for case in range(150):
        args = random_grid(rng, case)
        ours, theirs = native.tune_grid(*args, 2), reference.tune_grid(*args, 1)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        cost = ours[6]
        if not cost.size:
            continue
        line = np.ascontiguousarray(cost[:, :, 0])
        surface = (*args[0][0], np.arange(1.5, 6), args[3])
        for monotone in (False, True):
            results = [
                (
                    *module.compress_line(line, 5, monotone),
                    *module.compress_bands(cost, 5, monotone, 2),
                    module.tune_surface(*surface, 1),
                )
                for module in (native, reference)
            ]
            for a, b in zip(*results, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-13)


def test_the_number_of_threads_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    batches, contexts = (a.ravel() for a in np.meshgrid([1, 64, 600], [0, 4000, 9000]))
    points = [
        (batches.astype(np.int64), contexts.astype(np.int64), rng.uniform(1, 9, 9))
        for _ in range(5)
    ]
    columns = np.arange(0, 9000, 25, dtype=np.int64)
    tokens = np.repeat(1 + np.arange(5.0)[:, None], len(columns), axis=1)
    with _backend.use("native") as native:
        grids = [
            native.tune_grid(
                *(points, tokens, 600, columns, NOTHING, NOTHING, NOTHING),
                *(INF, INF, 64, 16, threads),
            )
            for threads in (1, 2, 7)
        ]
        choices = [
            native.compress_bands(grids[0][6], 16, False, threads)
            for threads in (1, 2, 7)
        ]
    for results in (grids, choices):
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)
