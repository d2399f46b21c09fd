# SPDX-License-Identifier: Apache-2.0
"""Public cases of schedules (each with its source), and the contract of Schedule."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from specgrid import ConfigError, Schedule, ScheduleError
from specgrid._errors import RULES
from specgrid.compat import build_dynamic_sd_schedule_lookup

pytestmark = pytest.mark.usefixtures("backend")

# The reference is a specification, too slow for millions of rows.
_NATIVE_ONLY = pytest.mark.parametrize("backend", ["native"], indirect=True)

DOCUMENTED = [[1, 16, 3], [32, 128, 2], [256, 2048, 0]]


def rule_of(rows: Any, **kwargs: Any) -> tuple[str, int | None]:
    with pytest.raises(ScheduleError) as caught:
        Schedule(rows, **kwargs)
    return caught.value.rule, caught.value.row


# ---- one dimension: vLLM #32374 and its tests ----------------------------------------


def test_gaps_and_tail_carry_the_range_before() -> None:
    """vLLM #32374 tests."""
    lookup = Schedule(DOCUMENTED).lookup(256, 3)
    assert [lookup[b] for b in (1, 16, 17, 31)] == [3, 3, 3, 3]
    assert [lookup[b] for b in (32, 128, 129, 255)] == [2, 2, 2, 2]
    assert lookup[256] == 0


def test_table_ends_at_max_num_seqs_and_never_wraps() -> None:
    """vLLM #32374 tests; bounds concern of vllm-ascend #10894."""
    lookup = Schedule(DOCUMENTED).lookup(16, 3)
    assert len(lookup) == 17
    assert lookup.tolist() == [0] + [3] * 16
    for batch in (17, -1, 10**30):
        with pytest.raises(IndexError, match=r"0\.\.16"):
            lookup[batch]


def test_k_is_clamped_to_num_speculative_tokens() -> None:
    """vLLM #32374 tests."""
    assert Schedule([[1, 256, 4]]).lookup(256, 3).tolist() == [0] + [3] * 256


@pytest.mark.parametrize(
    ("rows", "rule", "row", "phrase"),
    [
        ([[2, 16, 3]], "bs_start", 0, "must start at 1"),
        ([[1, 16, 3], [16, 32, 2]], "bs_overlap", 1, "non-overlapping and sorted"),
        ([[1, 16]], "arity", 0, "3-item sequence"),
        ([], "empty", None, "must not be empty"),
        (None, "none", None, "is required"),
        ([[1, 16, -1]], "k_negative", 0, "must be >= 0"),
        ([[0, 16, 1]], "bs_positive", 0, "must be positive"),
        ([[5, 4, 1]], "bs_order", 0, "start must be <= end"),
    ],
)
def test_what_vllm_rejects_is_rejected_with_its_phrase(
    rows: Any, rule: str, row: int | None, phrase: str
) -> None:
    """vLLM #32374 tests."""
    with pytest.raises(ScheduleError, match=phrase) as caught:
        Schedule(rows)
    assert (caught.value.rule, caught.value.row) == (rule, row)
    with pytest.raises(ValueError, match=phrase):
        build_dynamic_sd_schedule_lookup(
            rows, vllm_max_batch_size=8, vllm_num_speculative_tokens=3
        )


def test_rows_out_of_order_are_sorted() -> None:
    """Derived from vLLM 0.33.0."""
    schedule = Schedule([[64, 128, 2], [1, 63, 3]])
    assert schedule.batch_ranges == ((1, 63), (64, 128))


def test_a_fault_of_an_earlier_row_is_named_first() -> None:
    """vLLM 0.33.0 reads and judges row by row."""
    assert rule_of([[0, 4, 1], [1, 2]]) == ("bs_positive", 0)
    assert rule_of([[1, 4, 1], [1, 2]]) == ("arity", 1)
    assert rule_of([[1, 4, 1], [5, "x", 1], [0, 0, 0]]) == ("not_integer", 1)


# ---- two dimensions: vLLM #48944 and its tests ---------------------------------------


def test_2d_schedule_has_one_column_per_context_range() -> None:
    """vLLM #48944 tests."""
    rows = [
        (1, 32, 1, 512, 3),
        (1, 32, 513, 4096, 2),
        (33, 128, 1, 512, 2),
        (33, 128, 513, 4096, 1),
    ]
    dense = Schedule(rows).lookup(128, 3).dense()
    assert dense.shape == (129, 2)
    assert dense[[1, 32, 33, 128]].tolist() == [[3, 2], [3, 2], [2, 1], [2, 1]]


def test_2d_batch_gaps_carry_per_column() -> None:
    """vLLM #48944 tests."""
    rows = [
        (1, 8, 1, 100, 3),
        (1, 8, 101, 4096, 2),
        (32, 64, 1, 100, 1),
        (32, 64, 101, 4096, 0),
    ]
    dense = Schedule(rows).lookup(64, 3).dense()
    assert dense[[8, 15, 31, 32, 64]].tolist() == [[3, 2]] * 3 + [[1, 0]] * 2


def test_every_context_has_a_bucket() -> None:
    """vLLM #48944 tests."""
    lookup = Schedule([(1, 8, 1, 100, 3), (1, 8, 101, 4096, 2)]).lookup(8, 3)
    contexts = (0, 1, 100, 101, 10_000_000, 10**30)
    assert [lookup.bucket_of(c) for c in contexts] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(IndexError, match="context must be >= 0"):
        lookup.bucket_of(-1)


def test_a_single_context_range_is_one_bucket() -> None:
    """vLLM #48944 tests."""
    lookup = Schedule([(1, 16, 1, 4096, 3)]).lookup(16, 3)
    assert lookup.num_columns == 1
    assert lookup[4, 1_000_000] == lookup[4] == 3


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([(1, 4, 3), (5, 8, 1, 100, 2)], "mixed"),
        (
            [(1, 64, 1, 4096, 3), (65, 256, 1, 512, 2), (65, 256, 513, 4096, 1)],
            "rectangular",
        ),
        ([(1, 8, 1, 100, 3), (1, 8, 200, 4096, 2)], "ctx_contiguous"),
        ([(1, 8, 2, 100, 3), (1, 8, 101, 4096, 2)], "ctx_start"),
        ([(1, 8, 0, 100, 3), (1, 8, 101, 4096, 2)], "ctx_positive"),
        ([(1, 8, 1, 100, 3), (1, 8, 100, 4096, 2)], "ctx_contiguous"),
        ([(1, 4, 1, 9, 3), (1, 4, 1, 9, 3), (5, 8, 1, 9, 1)], "rectangular"),
        (
            [(1, 4, 1, 9, 3), (1, 4, 1, 9, 3), (5, 8, 1, 9, 1), (5, 8, 10, 20, 1)],
            "duplicate",
        ),
    ],
)
def test_what_the_proposal_rejects_is_rejected(rows: Any, rule: str) -> None:
    """vLLM #48944 tests."""
    assert rule_of(rows)[0] == rule


def test_2d_k_is_clamped() -> None:
    """Derived from vLLM #48944."""
    lookup = Schedule([(1, 16, 1, 100, 5), (1, 16, 101, 4096, 2)]).lookup(16, 3)
    assert lookup.dense()[1].tolist() == [3, 2]


def test_fresh_requests_use_the_first_bucket() -> None:
    """vLLM #48944 tests: four requests with nothing computed yet."""
    lookup = Schedule([(1, 8, 1, 100, 3), (1, 8, 101, 8192, 1)]).lookup(8, 3)
    assert lookup[4, 0] == 3


def test_tiers_span_every_column() -> None:
    """vLLM #48627: a planner that flattens one column under-captures."""
    rows = [
        (1, 8, 1, 100, 3),
        (1, 8, 101, 200, 1),
        (9, 16, 1, 100, 1),
        (9, 16, 101, 200, 0),
    ]
    tiers = Schedule(rows).lookup(12, 3).tiers()
    assert [tuple(t) for t in tiers] == [(1, 0, 9, 12), (2, 1, 1, 12), (4, 3, 1, 8)]


# ---- ragged --------------------------------------------------------------------------


def test_ragged_accepts_what_strict_refuses_for_form_alone() -> None:
    rows = [(1, 4, 3), (5, 16, 0, 512, 2), (5, 16, 513, 2048, 1), (17, 32, 1, 9, 0)]
    schedule = Schedule(rows, ragged=True)
    assert schedule.context_ranges == (
        (1, 9),
        (10, 512),
        (513, 2048),
        (2049, 2**31 - 1),
    )
    dense = schedule.lookup(32, 3).dense()
    assert dense[4].tolist() == [3, 3, 3, 3]
    assert dense[5].tolist() == [2, 2, 1, 1]
    assert dense[32].tolist() == [0, 0, 0, 0]


def test_ragged_batch_gaps_still_carry() -> None:
    lookup = Schedule([(1, 4, 3), (9, 12, 1)], ragged=True).lookup(16, 3)
    assert [lookup[b] for b in (4, 5, 8, 9, 16)] == [3, 3, 3, 1, 1]


def test_ragged_names_the_cell_nobody_covers() -> None:
    with pytest.raises(ScheduleError, match="batches 5-8, contexts 1-99") as caught:
        Schedule([(1, 4, 3), (5, 8, 100, 200, 1)], ragged=True)
    assert caught.value.rule == "uncovered"


def test_ragged_names_the_cell_covered_twice_with_different_k() -> None:
    rows = [(1, 8, 3), (5, 6, 10, 20, 1)]
    with pytest.raises(ScheduleError, match="batches 5-6, contexts 10-20") as caught:
        Schedule(rows, ragged=True)
    assert (caught.value.rule, caught.value.row) == ("conflict", 1)
    assert Schedule([(1, 8, 3), (5, 6, 10, 20, 3)], ragged=True).max_k == 3


def test_ragged_is_strict_where_strict_succeeds() -> None:
    rows = [
        (1, 8, 1, 100, 3),
        (1, 8, 101, 200, 1),
        (9, 16, 1, 100, 1),
        (9, 16, 101, 200, 0),
    ]
    assert Schedule(rows, ragged=True) == Schedule(rows)


def test_ragged_refuses_a_grid_that_would_not_fit_in_memory() -> None:
    n = 40_000
    rows = np.ones((n, 5), dtype=np.int64)
    rows[:, 0] = rows[:, 1] = np.arange(1, n + 1)
    rows[:, 3] = np.arange(1, n + 1)
    with pytest.raises(ScheduleError, match="cells") as caught:
        Schedule(rows, ragged=True)
    assert caught.value.rule == "too_large"


# ---- other engines -------------------------------------------------------------------


def test_tensorrt_llm_upper_keys() -> None:
    """TensorRT-LLM #10860."""
    lookup = Schedule.from_tensorrt_llm({4: 4, 8: 2, 32: 1}, "upper").lookup(64, 4)
    assert [lookup[b] for b in (1, 4, 5, 8, 9, 32, 33, 64)] == [4, 4, 2, 2, 1, 1, 0, 0]
    # On graph sizes 1..8, 16, 24, 32, 64 every size finds its own draft length.
    assert lookup.gather([7, 8, 16, 24, 32, 64]).tolist() == [2, 2, 1, 1, 1, 0]


def test_tensorrt_llm_lower_keys() -> None:
    """TensorRT-LLM #8194, before #10860 turned the keys round."""
    lookup = Schedule.from_tensorrt_llm({1: 4, 4: 2, 8: 0}, "lower").lookup(16, 4)
    assert [lookup[b] for b in (1, 3, 4, 7, 8, 16)] == [4, 4, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("mapping", "max_draft_len", "phrase"),
    [
        ({4: 3, 8: 2}, 4, "must map to max_draft_len"),
        ({4: 2, 8: 3}, None, "must map to max_draft_len"),
        ({4: 5}, 4, "above max_draft_len"),
        ({0: 4}, None, "between 1 and"),
        ({2**31: 4}, None, "between 1 and"),
        ({4: -1}, None, "whole number >= 0"),
        ({4: 1.5}, None, "whole number >= 0"),
        ({}, None, "non-empty mapping"),
        ([(4, 1)], None, "non-empty mapping"),
        ({"a": 1}, None, "key 'a'"),
        ({"4": 1, 4: 1}, None, "given twice"),
    ],
)
def test_tensorrt_llm_refusals(mapping: Any, max_draft_len: Any, phrase: str) -> None:
    """TensorRT-LLM's own configuration checks."""
    with pytest.raises(ConfigError, match=phrase):
        Schedule.from_tensorrt_llm(mapping, "upper", max_draft_len=max_draft_len)


def test_tensorrt_llm_keys_must_be_said() -> None:
    with pytest.raises(ConfigError, match="'upper' or 'lower'"):
        Schedule.from_tensorrt_llm({4: 1}, "both")  # type: ignore[arg-type]


def test_tensorrt_llm_lower_keys_start_at_one() -> None:
    with pytest.raises(ConfigError, match="the first key must be 1, not 4"):
        Schedule.from_tensorrt_llm({4: 4, 8: 2}, "lower")


def test_tensorrt_llm_zero_at_the_end_is_said_once() -> None:
    schedule = Schedule.from_tensorrt_llm({4: 4, 8: 0}, "upper")
    assert schedule.batch_ranges == ((1, 4), (5, 8))


def test_ranges_of_one_k_are_one_key_for_tensorrt_llm() -> None:
    schedule = Schedule([(1, 4, 1000), (5, 8, 1000), (9, 16, 0)])
    assert schedule.to_tensorrt_llm() == {8: 1000}


def test_the_first_row_of_another_form_is_named() -> None:
    assert rule_of([(1, 4, 3), (5, 8, 1, 100, 2), (9, 12, 1)]) == ("mixed", 1)
    assert rule_of([(1, 4, 3), (5, 8, 2), (9, 12, 1, 100, 2)]) == ("mixed", 2)


def test_vllm_to_tensorrt_llm() -> None:
    """Derived from vLLM #32374 and TensorRT-LLM #10860."""
    assert Schedule(DOCUMENTED).to_tensorrt_llm() == {31: 3, 255: 2}


def test_tensorrt_llm_round_trip_keeps_every_batch() -> None:
    schedule = Schedule([(1, 4, 4), (5, 8, 2), (9, 32, 1), (33, 99, 0)])
    back = Schedule.from_tensorrt_llm(schedule.to_tensorrt_llm(), "upper")
    assert back.lookup(128, 4) == schedule.lookup(128, 4)
    tail = Schedule([(1, 4, 4), (5, 8, 2)])
    assert tail.to_tensorrt_llm(max_num_seqs=64) == {4: 4, 64: 2}


@pytest.mark.parametrize(
    ("rows", "phrase"),
    [
        ([(1, 4, 1), (5, 8, 2)], "largest k"),
        ([(1, 4, 0)], "never drafts"),
        ([(1, 4, 1, 9, 1), (1, 4, 10, 20, 0)], "no context"),
    ],
)
def test_what_tensorrt_llm_cannot_say_is_refused(rows: Any, phrase: str) -> None:
    with pytest.raises(ConfigError, match=phrase):
        Schedule(rows).to_tensorrt_llm()


def test_sglang_slots() -> None:
    """SGLang's defaults for --speculative-adaptive."""
    slots = {1: [1, 3, 5, 7], 8: [0, 1, 3], 32: [0, 1], 64: [0]}
    lookup = Schedule.from_sglang(slots).lookup(128, 7)
    assert [lookup[b] for b in (1, 7, 8, 31, 32, 63, 64)] == [7, 7, 3, 3, 1, 1, 0]
    least = Schedule.from_sglang(slots, pick="smallest").lookup(128, 7)
    assert [least[b] for b in (1, 8, 64)] == [1, 0, 0]
    with pytest.raises(ConfigError, match="start at 1"):
        Schedule.from_sglang({2: [1]})
    with pytest.raises(ConfigError, match="whole numbers"):
        Schedule.from_sglang({1: ["a"]})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="pick"):
        Schedule.from_sglang({1: [1]}, pick="middle")  # type: ignore[arg-type]


# ---- bad input -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "rule", "row"),
    [
        ("[[1, 2, 3]]", "not_list", None),
        (b"abc", "not_list", None),
        ({1: 2}, "not_list", None),
        ({(1, 2, 3)}, "not_list", None),
        (7, "not_list", None),
        (float("nan"), "not_list", None),
        ([7], "arity", 0),
        (["abc"], "arity", 0),
        ([[1, 4, 2], [[5, 6, 1]]], "arity", 1),
        ([[]], "arity", 0),
        ([[1, 2, 3, 4]], "arity", 0),
        ([[1, 2, 3, 4, 5, 6]], "arity", 0),
        ([[1, 2, [3]]], "not_integer", 0),
        ([[1, "2", 3]], "not_integer", 0),
        ([[1, 2, 3.7]], "not_integer", 0),
        ([[1, True, 3]], "not_integer", 0),
        ([[1, 2, None]], "not_integer", 0),
        ([[1, 2, float("nan")]], "not_integer", 0),
        ([[1, 2, float("inf")]], "not_integer", 0),
        ([[1, 4, 2], [5, 2**63, 1]], "not_integer", 1),
        ([[1, 10**30, 1]], "not_integer", 0),
        ([[-(10**30), 4, 1]], "not_integer", 0),
        ([[1, -4, 1]], "bs_positive", 0),
        ([[1, 4, 0, 0, 1]], "ctx_positive", 0),
        ([[1, 4, 9, 5, 1]], "ctx_order", 0),
        ([[1, 4, 1, 9, 1], [1, 4, 2**31, 2**40, 1]], "ctx_order", 1),
        (np.zeros((0, 3), int), "empty", None),
        (np.ones(3, int), "arity", None),
        (np.ones((2, 4), int), "arity", None),
        (np.ones((1, 3), bool), "not_integer", 0),
        (np.array([[1.0, 2.0, np.nan]]), "not_integer", 0),
        (np.array([[1, 2, 2**63]], np.uint64), "not_integer", 0),
        (np.array([["1", "2", "3"]]), "not_integer", 0),
        (np.array([[1, 2, 3j]]), "not_integer", 0),
    ],
)
def test_bad_input_gets_its_rule_row_and_a_sentence(
    rows: Any, rule: str, row: int | None
) -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule(rows)
    assert (caught.value.rule, caught.value.row) == (rule, row)
    message = str(caught.value)
    assert len(message) < 500
    assert "\n" not in message
    if row is not None:
        assert f"row {row}" in message


def test_whole_floats_numpy_integers_and_generators_are_accepted() -> None:
    expected = Schedule([(1, 4, 2), (5, 8, 1)])
    assert Schedule([[1.0, 4, 2], [np.int8(5), 8, 1]]) == expected
    assert Schedule(tuple(row) for row in [[1, 4, 2], [5, 8, 1]]) == expected
    assert Schedule(row for row in np.array([[1, 4, 2], [5, 8, 1]])) == expected


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i4", "i8", "u1", "u8", "f4", "O"])
def test_arrays_of_any_whole_dtype_and_layout_are_accepted(dtype: str) -> None:
    rows = np.array([[1, 4, 2], [5, 8, 1]])
    array = rows.astype(dtype)
    array.flags.writeable = False
    expected = Schedule(rows)
    assert Schedule(array) == expected
    assert Schedule(np.asfortranarray(array)) == expected
    assert Schedule(np.repeat(array, 2, axis=0)[::2]) == expected


@_NATIVE_ONLY
def test_ten_million_rows_are_one_clear_answer() -> None:
    rows = np.ones((10_000_000, 3), dtype=np.int64)
    rows[:, 0] = rows[:, 1] = np.arange(1, 10_000_001)
    assert len(Schedule(rows).lookup(2**31 - 1, 1).tiers()) == 1
    rows[9_999_999, 2] = -1
    assert rule_of(rows) == ("k_negative", 9_999_999)


_NO_SCHEDULES: list[Any] = [
    *("", "[", "[" * 100_000, "nul", '"x"', "{}", "3", b"\xff"),
    *("[[1, 2, " + "9" * 5000 + "]]", None, [[1, 2, 3]]),
]


@pytest.mark.parametrize("text", _NO_SCHEDULES, ids=lambda text: f"{text!s:.12}")
def test_json_that_is_no_schedule_is_refused(text: Any) -> None:
    with pytest.raises(ScheduleError, match=r"JSON") as caught:
        Schedule.from_json(text)
    assert "sys." not in str(caught.value)


def test_sequences_that_lie_about_themselves_are_read_by_what_they_hold() -> None:
    class Lying(tuple):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 5

    assert Schedule([Lying((1, 4, 2))]) == Schedule([(1, 4, 2)])
    masked = np.ma.array([[1, 4, 2]], mask=[[0, 0, 1]])
    assert rule_of(masked) == ("not_list", None)


# ---- as a value ----------------------------------------------------------------------


def test_schedules_are_values() -> None:
    schedule = Schedule([(1, 4, 1, 9, 2), (1, 4, 10, 20, 1)])
    same = Schedule([(1, 4, 10, 99, 1), (1, 4, 1, 9, 2)])
    assert schedule == same
    assert hash(schedule) == hash(same)
    assert schedule != Schedule([(1, 4, 2)])
    assert schedule != "schedule"
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert eval(repr(schedule)) == schedule
    assert schedule.rows[-1] == (1, 4, 10, 2**31 - 1, 1)
    large = Schedule([(b, b, b) for b in range(1, 99)])
    assert repr(large) == "<Schedule of 98 batch ranges x 1 context ranges>"


def test_errors_survive_pickling() -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule([[2, 3, 1]])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.rule, copy.row, str(copy)) == ("bs_start", 0, str(caught.value))


def test_texts_over_256_mib_are_refused_before_they_are_parsed() -> None:
    class Long(str):
        __slots__ = ()

        def __len__(self) -> int:
            return 256 * 2**20 + 1

    with pytest.raises(ScheduleError, match="is over 268435456"):
        Schedule.from_json(Long("[[1, 4, 2]]"))


def test_too_many_ragged_cells_are_no_rows_fault() -> None:
    rows = [(n, n, n, n, 1) for n in range(1, 16_400)]
    assert rule_of(rows, ragged=True) == ("too_large", None)


def test_nothing_follows_the_last_context(backend: Any) -> None:
    """Straight to the back end: `Schedule` clips contexts before."""
    last = 2**31 - 1
    rows = np.array([[1, 4, 1, last, 1], [1, 4, last + 1, last + 9, 2]], np.int64)
    fault = backend.build_grid(rows, 1)[0]
    assert fault[0] == RULES.index("ctx_order")
