# SPDX-License-Identifier: Apache-2.0
"""Schedules, lookups and capture sizes: what a user calls, beside its rivals.

    python -m pytest benchmarks/bench_schedule.py

Every case asserts its answer. Groups put rivals side by side; README.md in this
folder says which ratios may be quoted and how they were taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.rivals import numpy_dense, slice_fill, vllm_lookup
from specgrid import Schedule, Tier, capture_sizes
from specgrid.compat import build_dynamic_sd_schedule_lookup

EIGHT = [[1 + 8 * i, 8 * (i + 1), 8 - i] for i in range(7)] + [[60, 2**31 - 1, 1]]
SIZES = [64, 256, 1024, 4096, 16384, 262144, 1048576, 16777216]
VLLM = vllm_lookup()


def _rounds(size: int) -> dict[str, int]:
    return {"rounds": max(5, min(300, 4_000_000 // size)), "warmup_rounds": 2}


# ---- the vLLM-compatible call: validate, build, list ---------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("who", ["specgrid", "vllm", "python-slices"])
def test_compatible_list(benchmark: Any, size: int, who: str) -> None:
    benchmark.group = f"validated list of {size}"
    call = {
        "specgrid": build_dynamic_sd_schedule_lookup,
        "vllm": VLLM,
        "python-slices": slice_fill,  # validates nothing
    }[who]
    if call is None:
        pytest.skip("vLLM is not installed here")
    result = benchmark.pedantic(call, (EIGHT, size, 8), **_rounds(size))
    assert result == slice_fill(EIGHT, size, 8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("who", ["specgrid", "python-slices", "numpy-tolist"])
def test_list_from_a_ready_schedule(benchmark: Any, size: int, who: str) -> None:
    benchmark.group = f"list of {size}"
    lookup = Schedule(EIGHT).lookup(size, 8)
    call = {
        "specgrid": lookup.tolist,
        "python-slices": lambda: slice_fill(EIGHT, size, 8),
        "numpy-tolist": lambda: numpy_dense(EIGHT, size, 8)[:, 0].tolist(),
    }[who]
    result = benchmark.pedantic(call, **_rounds(size))
    assert result == slice_fill(EIGHT, size, 8)


# ---- dense tables --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16_777_217, 1), (65_537, 256)])
@pytest.mark.parametrize("who", ["specgrid", "np.full", "numpy"])
def test_dense(benchmark: Any, shape: tuple[int, int], who: str) -> None:
    rows, columns = shape
    benchmark.group = f"dense uint8 {rows} x {columns}"
    grid = [
        (lo, hi, 1 + 64 * c, 64 * (c + 1), (k + c) % 9)
        for lo, hi, k in EIGHT
        for c in range(columns)
    ]
    lookup = Schedule(grid).lookup(rows - 1, 8)
    k = lookup._impl.canonical()[2].reshape(-1, columns).astype(np.uint8)
    counts = np.diff([0, *[row[0] for row in EIGHT], rows])
    line = np.vstack([np.zeros((1, columns), np.uint8), k])
    call = {
        "specgrid": lambda: lookup._impl.dense(1),
        "np.full": lambda: np.full(shape, 3, np.uint8),
        "numpy": lambda: np.repeat(line, counts, axis=0),
    }[who]
    result = benchmark.pedantic(call, rounds=30, warmup_rounds=3)
    if who != "np.full":
        assert np.array_equal(result, lookup.dense())


# ---- summaries -----------------------------------------------------------------------


def test_tiers_at_two_billion_requests(benchmark: Any) -> None:
    rows = [
        (1 + 100 * b, 100 * (b + 1), 1 + 512 * c, 512 * (c + 1), (b * c) % 17)
        for b in range(16)
        for c in range(8)
    ]
    lookup = Schedule(rows).lookup(2**31 - 1, 16)
    tiers = benchmark(lookup.tiers)
    assert tiers[0] == Tier(1, 0, 1, 2**31 - 1)


def test_million_row_schedule(benchmark: Any) -> None:
    edge = np.arange(1, 1001)
    b, c = (x.ravel() for x in np.meshgrid(edge, edge, indexing="ij"))
    rows = np.stack([b * 4 - 3, b * 4, c * 64 - 63, c * 64, (b + c) % 17], axis=1)
    shuffled = np.random.default_rng(7).permutation(rows)

    def build() -> Any:
        return Schedule(shuffled).lookup(4000, 16)

    lookup = benchmark.pedantic(build, rounds=10, warmup_rounds=1)
    assert lookup[4000, 64000] == 2000 % 17


# ---- capture sizes -------------------------------------------------------------------


@pytest.mark.parametrize("ceiling", [512, 65536])
def test_capture_sizes_of_17_tiers(benchmark: Any, ceiling: int) -> None:
    n = 65536 // 17
    rows = [(1 + i * n, (i + 1) * n, 16 - i) for i in range(17)]
    schedule = Schedule(rows)

    def sizes() -> Any:
        return capture_sizes(
            65536,
            16,
            schedule,
            platform_ceiling=ceiling,
            max_num_batched_tokens=65536,
        )

    result = benchmark(sizes)
    assert result.max_size == ceiling
    assert len(result.tiers) == 17
