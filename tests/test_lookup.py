# SPDX-License-Identifier: Apache-2.0
"""The contract of Lookup: single answers, tables, summaries."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specgrid import ConfigError, Schedule, Tier

pytestmark = pytest.mark.usefixtures("backend")

TWO_COLUMNS = [
    (1, 8, 1, 100, 3),
    (1, 8, 101, 200, 2),
    (9, 16, 1, 100, 1),
    (9, 16, 101, 200, 0),
]


def test_batch_zero_drafts_nothing() -> None:
    lookup = Schedule([(1, 8, 2)]).lookup(8, 2)
    assert lookup[0] == 0
    assert Schedule(TWO_COLUMNS).lookup(16, 3)[0, 10**6] == 0


def test_numpy_scalars_and_whole_floats_index() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(16, 3)
    assert lookup[np.int64(8), np.float32(150.0)] == 2
    assert isinstance(lookup[8, 150], int)


@pytest.mark.parametrize("key", ["8", 1.5, None, slice(1, 2), (1,), (1, 2, 3)])
def test_keys_that_are_no_batch_are_refused(key: Any) -> None:
    lookup = Schedule([(1, 8, 2)]).lookup(8, 2)
    with pytest.raises(TypeError):
        lookup[key]


def test_several_columns_need_a_context() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(16, 3)
    with pytest.raises(TypeError, match=r"lookup\[batch, context\]"):
        lookup[4]
    with pytest.raises(TypeError, match="give contexts"):
        lookup.gather([1])


def test_dense_is_the_smallest_type_and_read_only() -> None:
    for k, dtype in [(255, "u1"), (256, "u2"), (65535, "u2"), (65536, "u4")]:
        dense = Schedule([(1, 4, k)]).lookup(4, k).dense()
        assert dense.dtype == dtype
        assert dense[:, 0].tolist() == [0, k, k, k, k]
        with pytest.raises(ValueError, match="read-only"):
            dense[0, 0] = 1


def test_dense_without_dtype_is_one_table_seen_twice() -> None:
    lookup = Schedule([(1, 4, 3)]).lookup(4, 3)
    assert np.shares_memory(lookup.dense(), lookup.dense())
    copy = lookup.dense(np.int64)
    copy[0, 0] = 9
    assert lookup.dense()[0, 0] == 0


def test_dense_with_a_type_too_small_is_refused() -> None:
    lookup = Schedule([(1, 4, 300)]).lookup(4, 300)
    for dtype in (np.uint8, np.int8, bool, "U4"):
        with pytest.raises(ConfigError, match="cannot hold k up to 300"):
            lookup.dense(dtype)
    assert lookup.dense(np.float32)[1, 0] == 300.0


def test_tables_too_large_are_refused_before_allocating() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(2**31 - 1, 3)
    with pytest.raises(ConfigError, match="4294967296 bytes"):
        lookup.dense(max_dense_bytes=2**31)
    with pytest.raises(ConfigError, match="bytes, over max_dense_bytes"):
        lookup.tolist()


def test_limits_in_the_billions_answer_without_a_table() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(2**31 - 1, 3)
    assert lookup.tiers() == [
        Tier(1, 0, 9, 2**31 - 1),
        Tier(2, 1, 9, 2**31 - 1),
        Tier(3, 2, 1, 8),
        Tier(4, 3, 1, 8),
    ]
    assert lookup[2**31 - 1, 2**31 - 1] == 0
    assert len(lookup) == 2**31


def test_tolist_has_a_list_per_batch_with_several_columns() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(9, 3)
    assert lookup.tolist()[-2:] == [[3, 2], [1, 0]]


def test_gather_equals_single_answers() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(16, 3)
    batches, contexts = np.meshgrid(np.arange(17), [0, 1, 100, 101, 10**9])
    expected = [
        [lookup[int(b), int(c)] for b, c in zip(line_b, line_c, strict=True)]
        for line_b, line_c in zip(batches, contexts, strict=True)
    ]
    found = lookup.gather(batches, contexts)
    assert found.dtype == np.int32
    assert found.tolist() == expected
    assert lookup.gather(4, [1, 101]).tolist() == [3, 2]
    assert lookup.gather([], []).tolist() == []


@pytest.mark.parametrize(
    ("batches", "contexts", "error", "phrase"),
    [
        ([1, 17], [0, 0], IndexError, r"element 1: batch must be in 0\.\.16"),
        ([1, -1], [0, 0], IndexError, r"element 1: batch"),
        ([1, 2], [0, -5], IndexError, "element 1: context"),
        ([1.5], [0], TypeError, "whole numbers"),
        (["a"], [0], TypeError, "whole numbers"),
        (np.array([2**63], np.uint64), [0], IndexError, "below"),
        ([np.nan], [0], TypeError, "whole numbers"),
        ([1, 2, 3], [0, 0], ValueError, "broadcast"),
    ],
)
def test_gather_names_what_is_wrong(
    batches: Any, contexts: Any, error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error, match=phrase):
        Schedule(TWO_COLUMNS).lookup(16, 3).gather(batches, contexts)


def test_digest_is_of_the_table_not_of_the_rows() -> None:
    one = Schedule([(1, 16, 3)]).lookup(32, 3)
    split = Schedule([(1, 4, 3), (5, 8, 7)]).lookup(32, 3)
    columns = Schedule([(1, 8, 1, 9, 3), (1, 8, 10, 20, 3)]).lookup(32, 3)
    assert one.digest == split.digest == columns.digest
    assert one == split
    assert hash(one) == hash(columns)
    assert one.digest != Schedule([(1, 16, 3)]).lookup(31, 3).digest
    assert one.digest != Schedule([(1, 16, 2)]).lookup(32, 3).digest
    # Pinned: the digest is written into plan files and must never change.
    assert one.digest == (
        "033285762c61251beb785098a73e17fa652c5d1f6da6a82770ba2a7b4411c1c7"
    )


def test_is_constant_looks_after_clamping() -> None:
    """vLLM #52087: a schedule that is constant after clamping is none."""
    assert Schedule([(1, 4, 3), (5, 8, 9)]).lookup(8, 3).is_constant
    assert not Schedule([(1, 4, 3), (5, 8, 2)]).lookup(8, 3).is_constant
    assert Schedule([(1, 4, 3), (5, 8, 2)]).lookup(4, 3).is_constant


@pytest.mark.parametrize(
    "limits", [(0, 3), (8, 0), (2**31, 3), (8, 2**31 - 1), (8.5, 1)]
)
def test_limits_out_of_range_are_refused(limits: tuple[Any, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max_num_seqs|num_speculative_tokens"):
        Schedule([(1, 8, 1)]).lookup(*limits)


def test_lookups_are_values() -> None:
    lookup = Schedule(TWO_COLUMNS).lookup(16, 3)
    copy = pickle.loads(pickle.dumps(lookup))
    assert copy == lookup
    assert copy.context_ranges == lookup.context_ranges
    assert lookup != 3
    assert repr(lookup) == "<Lookup of 16 requests x 2 context columns, k up to 3>"


def test_to_torch_shares_memory_on_the_cpu_and_copies_to_a_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the two torch calls it makes stood in for; tests/vllm has the real one."""

    class Tensor:
        def __init__(self, array: Any, device: str = "cpu") -> None:
            self.array, self.device = array, device

        def to(self, device: str) -> Tensor:
            return Tensor(self.array.copy(), device)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=Tensor))
    lookup = Schedule([(1, 4, 2), (5, 8, 1)]).lookup(8, 2)
    here: Any = lookup.to_torch()
    there: Any = lookup.to_torch("cuda:0")
    assert np.shares_memory(here.array, lookup.dense())
    assert (here.device, there.device) == ("cpu", "cuda:0")
    assert np.array_equal(there.array, lookup.dense())


def test_torch_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install"):
        Schedule([(1, 8, 1)]).lookup(8, 1).to_torch()


def test_tables_over_the_default_limit_are_refused_unbuilt() -> None:
    """12 GiB against 8: limits in the billions are answered, not allocated."""
    last = 2**31 - 1
    rows = [(1, last, 1, 9, 300), (1, last, 10, 99, 2), (1, last, 100, 199, 1)]
    lookup = Schedule(rows).lookup(last, 300)
    assert lookup[last, 50] == 2
    with pytest.raises(ConfigError, match="max_dense_bytes"):
        lookup.dense()
