# SPDX-License-Identifier: Apache-2.0
"""Sizes nobody serves with are refused at once, with the memory or number asked."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from specgrid import (
    Costs,
    GraphSet,
    Schedule,
    Workload,
    capture_sizes,
    evaluate_captures,
    plan_captures,
)
from specgrid._tune_cases import plan_cases
from specgrid.compat import build_dynamic_sd_schedule_lookup, sglang_batch_sizes

HUGE = 10**9
COSTS = Costs.linear(100, 1, 30, 900)
LOAD = Workload({(1, 3): 1.0})


def plan(**limits: int) -> object:
    return plan_captures(LOAD, COSTS, **{"max_num_seqs": 8, **limits})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: plan(max_num_seqs=HUGE), r"372\.5 GiB; lower max_num_seqs"),
        (
            lambda: plan(max_num_batched_tokens=HUGE, max_size=HUGE),
            r"tables of [\d.,]+ GiB; pass max_size, at most",
        ),
        (
            lambda: evaluate_captures([1], LOAD, COSTS, max_num_seqs=HUGE),
            "GiB; lower max_num_seqs",
        ),
        (
            lambda: Schedule([(1, 2**31 - 2, 300)]).lookup(2**31 - 2, 300).dense(
                max_dense_bytes=1 << 30
            ),
            "bytes",
        ),
        (
            lambda: capture_sizes(max_num_seqs=HUGE, max_num_batched_tokens=HUGE,
                                  max_cudagraph_capture_size=HUGE),
            "beyond any GPU",
        ),
        (
            lambda: GraphSet([1, 2], max_num_seqs=HUGE, decode_query_len=4).coverage(),
            "cells; ask explain",
        ),
        (
            lambda: plan_cases(max_num_seqs=HUGE, max_model_len=HUGE, ks=[0],
                               max_points=HUGE),
            "allow at most 100000",
        ),
        (
            lambda: build_dynamic_sd_schedule_lookup([(1, HUGE, 3)], HUGE, 3),
            r"list of 7\.5 GiB; use Schedule",
        ),
        (lambda: sglang_batch_sizes(HUGE), "between 1 and"),
    ],
)  # fmt: skip
def test_what_would_fill_the_memory_is_refused_before(
    ask: Callable[[], object], says: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=says):
            ask()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20


def test_a_billion_requests_in_few_ranges_take_no_table() -> None:
    lookup = Schedule([(1, 4, 3), (5, HUGE, 1)]).lookup(HUGE, 3)
    assert lookup[HUGE] == 1
    assert [tier.max_batch for tier in lookup.tiers()] == [HUGE, 4]
