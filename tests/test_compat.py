# SPDX-License-Identifier: Apache-2.0
"""The vLLM-compatible function: the golden table, int() reading, error phrases."""

from __future__ import annotations

from typing import Any

import pytest

from specgrid.compat import build_dynamic_sd_schedule_lookup
from tests.conftest import golden

pytestmark = pytest.mark.usefixtures("backend")


def test_golden_schedules() -> None:
    for case in golden("schedule_1d"):
        arguments = {
            "num_speculative_tokens_per_batch_size": case["schedule"],
            "vllm_max_batch_size": case["max_num_seqs"],
            "vllm_num_speculative_tokens": case["num_speculative_tokens"],
        }
        if "error" in case:
            with pytest.raises(ValueError):
                build_dynamic_sd_schedule_lookup(**arguments)
            continue
        table = build_dynamic_sd_schedule_lookup(**arguments)
        assert type(table) is list
        assert table == [v for v, times in case["dense_rle"] for _ in range(times)]


def test_parts_go_through_int_as_in_vllm() -> None:
    rows: Any = [["1", 4.9, True], [5, 10**30, 2]]
    assert build_dynamic_sd_schedule_lookup(rows, 6, 3) == [0, 1, 1, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="int"):
        build_dynamic_sd_schedule_lookup([["x", 4, 1]], 6, 3)


@pytest.mark.parametrize(
    ("rows", "phrase"),
    [
        (None, "is required"),
        (((1, 2, 3),), "must be a non-empty list"),
        ([], "must not be empty"),
        ([[0, 1, 1], [1]], "must be positive"),
        ([[1, 1, 1], [1]], "3-item sequence"),
        ([[1, 1, 1, 1, 1]], "3-item sequence"),
        ([7], "3-item sequence"),
    ],
)
def test_refusals_come_in_vllms_order(rows: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        build_dynamic_sd_schedule_lookup(rows, 6, 3)


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="vllm_max_batch_size must be > 0"):
        build_dynamic_sd_schedule_lookup([[1, 1, 1]], 0, 1)
    with pytest.raises(ValueError, match="vllm_num_speculative_tokens must be > 0"):
        build_dynamic_sd_schedule_lookup([[1, 1, 1]], 1, 0)
