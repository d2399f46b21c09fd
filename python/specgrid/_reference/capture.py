# SPDX-License-Identifier: Apache-2.0
"""Capture sizes by rule, as sets. Mirrors csrc/core/capture.cpp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specgrid._reference.schedule import Int64

VLLM_028, VLLM_50488, VLLM_033, KEEP_MAX = 0, 1, 2, 3
GRID, DECODE, MAX_BATCHED_TOKENS, EXPLICIT_LIST, EXPLICIT_MAX = 1, 2, 4, 8, 16
MAX_NOT_POSITIVE, EMPTY_LIST, SIZE_NOT_POSITIVE, MAX_MISMATCH, TOO_LARGE = range(1, 6)
MAX_CAPTURE_TOKENS = 2**26

Result: TypeAlias = tuple[int, int, Int64, npt.NDArray[np.uint8]]


def _fail(fault: int, value: int) -> Result:
    return fault, value, np.empty(0, np.int64), np.empty(0, np.uint8)


def _result(marks: dict[int, int], multiple_of: int) -> Result:
    sizes = sorted(size for size in marks if size % multiple_of == 0)
    return (
        0,
        0,
        np.array(sizes, dtype=np.int64),
        np.array([marks[size] for size in sizes], dtype=np.uint8),
    )


def token_grid(largest: int, interactivity: bool) -> list[int]:
    """1, 2, 4, then every 8th below 256 and every 16th above."""
    small = range(1, min(largest, 32) + 1) if interactivity else (1, 2, 4)
    return [
        *(size for size in small if size <= largest),
        *range(8, min(largest, 255) + 1, 8),
        *range(256, largest + 1, 16),
    ]


def request_counts(max_reqs: int) -> list[int]:
    """The same steps over requests, and the widest batch itself."""
    return [*token_grid(max_reqs, interactivity=False), max_reqs]


def capture_sizes(
    limits: Int64,
    tiers: Int64,
    rule: int,
    interactivity: bool,
    explicit_sizes: Int64 | None,
    explicit_max: int | None,
) -> Result:
    """(fault, value, sizes, origins); see `specgrid.capture_sizes`."""
    max_num_seqs, query_len, max_tokens, ceiling, multiple_of = limits.tolist()
    inferred = explicit_max is None
    asked = (
        min(2 * max_num_seqs * query_len, ceiling)
        if explicit_max is None
        else explicit_max
    )
    largest = min(asked, max_tokens)
    if largest < 1:
        return _fail(MAX_NOT_POSITIVE, largest)
    if explicit_sizes is not None:
        return _from_list(
            explicit_sizes.tolist(), explicit_max, max_tokens, multiple_of
        )

    limit = largest
    if rule == VLLM_50488:
        widest = min(max_num_seqs, ceiling) * query_len
        widest = min(widest, MAX_CAPTURE_TOKENS + 1)
        limit = min(max(widest, largest), max_tokens)
    if max(largest, limit) > MAX_CAPTURE_TOKENS:
        return _fail(TOO_LARGE, max(largest, limit))

    marks: dict[int, int] = {}

    def mark(sizes: Iterable[int], origin: int) -> None:
        for size in sizes:
            marks[size] = marks.get(size, 0) | origin

    mark(token_grid(largest, interactivity), GRID)
    if max_tokens <= largest:
        mark([max_tokens], MAX_BATCHED_TOKENS)
    if rule == KEEP_MAX or (inferred and rule != VLLM_028):
        if query_len == 1:
            if rule != VLLM_50488 and max_num_seqs <= min(asked, limit):
                mark([max_num_seqs], DECODE)
        else:
            pairs = tiers.reshape(-1, 2).tolist() or [[query_len, max_num_seqs]]
            kept = rule == KEEP_MAX and not inferred
            for length, widest_batch in pairs:
                # A kept maximum is filled to the widest batch that fits under it.
                max_reqs = limit // length if kept else ceiling
                counts = request_counts(min(widest_batch, max_reqs))
                fitting = (n * length for n in counts if 0 < n * length <= limit)
                mark(fitting, DECODE)
    if rule == KEEP_MAX and not inferred:
        mark([largest], EXPLICIT_MAX)
    return _result(marks, multiple_of)


def _from_list(
    sizes: list[int], explicit_max: int | None, max_tokens: int, multiple_of: int
) -> Result:
    if not sizes:
        return _fail(EMPTY_LIST, 0)
    for size in sizes:
        if size < 1:
            return _fail(SIZE_NOT_POSITIVE, size)
    kept = [size for size in sizes if size <= max_tokens]
    if kept and max(kept) > MAX_CAPTURE_TOKENS:
        return _fail(TOO_LARGE, max(kept))
    result = _result(dict.fromkeys(kept, EXPLICIT_LIST), multiple_of)
    last = int(result[2][-1]) if len(result[2]) else 0
    if explicit_max is not None and explicit_max != last:
        return _fail(MAX_MISMATCH, last)
    return result


def align_sizes(sizes: Int64, max_size: int, query_len: int) -> Int64:
    """Sizes rounded up to multiples of query_len, up to max_size."""
    rounded = {-(-size // query_len) * query_len for size in sizes.tolist()}
    aligned = sorted(size for size in rounded if size <= max_size)
    if not aligned and query_len <= max_size:
        aligned = [query_len]
    return np.array(aligned, dtype=np.int64)
