# SPDX-License-Identifier: Apache-2.0
"""Every row of the golden tables: vLLM 0.33.0's own answers (golden/README.md)."""

from __future__ import annotations

from typing import Any

import pytest

from specgrid import ConfigError, Schedule, ScheduleError, align_sizes, capture_sizes
from tests.conftest import golden

_CAPTURE_KEYS = (
    "max_num_seqs",
    "num_speculative_tokens",
    "schedule",
    "max_num_batched_tokens",
    "platform_ceiling",
    "cudagraph_capture_sizes",
    "max_cudagraph_capture_size",
    "performance_mode",
)


def _expand(pairs: list[list[Any]]) -> list[Any]:
    return [value for value, times in pairs for _ in range(times)]


def _sizes(case: dict[str, Any]) -> Any:
    return capture_sizes(**{key: case[key] for key in _CAPTURE_KEYS})


@pytest.mark.usefixtures("backend")
def test_1d_schedules_expand_as_vllm_expands_them() -> None:
    for case in golden("schedule_1d"):
        limits = case["max_num_seqs"], case["num_speculative_tokens"]
        if "error" in case:
            with pytest.raises(ScheduleError) as caught:
                Schedule(case["schedule"])
            assert caught.value.rule == case["error"], case
            continue
        table = Schedule(case["schedule"]).lookup(*limits).tolist()
        assert table == _expand(case["dense_rle"]), case


@pytest.mark.usefixtures("backend")
def test_2d_schedules_expand_as_the_proposal_expands_them() -> None:
    for case in golden("schedule_2d"):
        if "error" in case:
            with pytest.raises(ScheduleError) as caught:
                Schedule(case["schedule"])
            assert caught.value.rule == case["error"], case
            continue
        lookup = Schedule(case["schedule"]).lookup(
            case["max_num_seqs"], case["num_speculative_tokens"]
        )
        assert lookup.dense().tolist() == _expand(case["dense_rle"]), case
        assert [list(r) for r in lookup.context_ranges] == case["ctx_boundaries"]
        for context, bucket in case["bucket_of"]:
            assert lookup.bucket_of(context) == bucket


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("table", ["ceil512", "ceil1024", "explicit"])
def test_capture_sizes_equal_vllm(table: str) -> None:
    for case in golden(f"capture_sizes_{table}"):
        if "error" in case:
            with pytest.raises(ConfigError):
                _sizes(case)
            continue
        result = _sizes(case)
        assert result.sizes == case["sizes"], case
        assert result.max_size == case["max"], case


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("table", ["ceil512", "ceil1024"])
def test_v1_rounding_equals_vllm(table: str) -> None:
    rounded = 0
    for case in golden(f"sizes_v1_{table}"):
        result = _sizes(case)
        assert result.sizes == case["sizes"], case
        query_len = 1 + case["num_speculative_tokens"]
        if case.get("error"):
            with pytest.raises(ConfigError, match="at least"):
                align_sizes(result.sizes, result.max_size, query_len)
            continue
        if case["adjusted_sizes"] == case["sizes"] and query_len > 1:
            continue  # rounding applies with FULL decode graphs only
        aligned = align_sizes(result.sizes, result.max_size, query_len)
        assert aligned == case["adjusted_sizes"], case
        assert aligned[-1] == case["adjusted_max"], case
        rounded += 1
    assert rounded > 20
