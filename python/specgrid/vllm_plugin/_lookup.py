# SPDX-License-Identifier: Apache-2.0
"""Seam: the dense table from batch size to K.

vLLM expands the ranges in a Python loop, once in the scheduler, once per graph manager
and once per configuration. Rows that are not exactly what vLLM's validation passes
unchanged go to vLLM, so that its own error texts reach the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specgrid import Schedule, ScheduleError

from . import _schedule_of
from ._seam import LEAVE, Seam

_BATTERY: tuple[tuple[list[Any], int, int], ...] = (
    ([[1, 64, 3], [65, 128, 1], [129, 512, 0]], 256, 3),
    ([[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]], 256, 5),
    ([(1, 16, 3), (32, 128, 2), (256, 2048, 0)], 300, 2),  # gaps, clamp
    ([[1, 1, 7]], 9, 7),  # tail carried forward
    ([[5, 8, 1], [1, 2, 2]], 6, 2),  # unsorted
    ([[1, 4, 9], [5, 6, 0]], 1, 1),  # one request
)


def _answer(
    original: Callable[..., list[int]],
    num_speculative_tokens_per_batch_size: object,
    vllm_max_batch_size: int,
    vllm_num_speculative_tokens: int,
) -> Any:
    rows = num_speculative_tokens_per_batch_size
    if (
        not _schedule_of.is_plain(rows)
        or not rows
        or vllm_max_batch_size < 1
        or vllm_num_speculative_tokens < 1
    ):
        return LEAVE
    try:
        schedule = Schedule(rows)  # type: ignore[arg-type]
    except ScheduleError:
        return LEAVE
    return schedule.lookup(vllm_max_batch_size, vllm_num_speculative_tokens).tolist()


def _check(original: Callable[..., list[int]]) -> str | None:
    for rows, batch, k in _BATTERY:
        theirs = original(
            rows, vllm_max_batch_size=batch, vllm_num_speculative_tokens=k
        )
        ours = _answer(original, rows, batch, k)
        if ours is LEAVE or type(theirs) is not list or ours != theirs:
            return f"schedule {rows} at {batch} requests and K={k} differs"
    return None


SEAM = Seam(
    "lookup",
    "vllm.v1.spec_decode.dynamic.utils",
    "build_dynamic_sd_schedule_lookup",
    (
        "num_speculative_tokens_per_batch_size",
        "vllm_max_batch_size",
        "vllm_num_speculative_tokens",
    ),
    "table from batch size to K, built natively",
    answer=_answer,
    check=_check,
)
