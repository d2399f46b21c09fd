# SPDX-License-Identifier: Apache-2.0
"""Public cases of capture sizes (each with its source), and the notes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specgrid import CaptureSizes, ConfigError, Tier, align_sizes, capture_sizes
from specgrid.compat import (
    lmdeploy_batch_sizes,
    sglang_batch_sizes,
    tensorrt_llm_batch_sizes,
)

pytestmark = pytest.mark.usefixtures("backend")


def lost(result: CaptureSizes) -> list[tuple[int, int, int]]:
    """Decode batches without a FULL graph: (query length, first, last)."""
    return [span for n in result.notes if n.kind == "uncovered" for span in n.batches]


# ---- default sizes -------------------------------------------------------------------


def test_widest_batches_beyond_the_ceiling_have_no_graph() -> None:
    """vLLM #50488, #54418."""
    result = capture_sizes(32, 16)
    assert (result.max_size, len(result)) == (512, 55)
    assert 544 not in result
    assert lost(result) == [(17, 31, 32)]
    assert result.notes[-1].message == (
        "query length 17: batches 31 to 32 (527 to 544 tokens) run without any graph"
    )
    assert "batch 31 (527 tokens) runs" in capture_sizes(31, 16).notes[-1].message
    assert 544 in capture_sizes(32, 16, cudagraph_capture_sizes=[*result, 544])


def test_off_stride_widest_batch_is_captured_exactly() -> None:
    """vLLM #54418 tests."""
    result = capture_sizes(24, 16)
    assert 408 in result
    assert {400, 416} <= set(capture_sizes(24, 16, rule="vllm-0.28"))
    assert 408 not in capture_sizes(24, 16, rule="vllm-0.28")
    assert result.max_size == 512
    assert lost(result) == []


@pytest.mark.parametrize(
    ("n", "k", "nightly_max", "span"),
    [(128, 16, 2176, (17, 31, 128)), (256, 24, 6400, (25, 21, 256))],
)
def test_the_nightly_rule_ran_out_of_memory_where_the_ceiling_leaves_batches_eager(
    n: int, k: int, nightly_max: int, span: tuple[int, int, int]
) -> None:
    """vLLM #54352, #54418."""
    assert capture_sizes(n, k, rule="vllm-50488").max_size == nightly_max
    result = capture_sizes(n, k)
    assert result.max_size == 512
    assert lost(result) == [span]


@pytest.mark.parametrize(("n", "k"), [(64, 7), (256, 1)])
def test_widest_batch_at_the_ceiling_is_covered(n: int, k: int) -> None:
    """vLLM #54418 tests."""
    result = capture_sizes(n, k)
    assert result.max_size == 512
    assert lost(result) == []


@pytest.mark.parametrize("n", [100, 101])
def test_widest_batch_without_drafting_is_captured_exactly(n: int) -> None:
    """vLLM #57355."""
    result = capture_sizes(n)
    assert n in result
    assert result.max_size == 2 * n // 8 * 8
    assert lost(result) == []
    assert lost(capture_sizes(n, rule="vllm-0.28")) == [(1, 97, n)]


def test_max_num_batched_tokens_bounds_the_maximum() -> None:
    """vLLM #54418 tests."""
    result = capture_sizes(32, 16, max_num_batched_tokens=512)
    assert result.max_size == 512
    assert 544 not in result


@pytest.mark.parametrize("n", [8, 32, 256, 300, 512, 600, 1024, 2048])
def test_ceiling_without_drafting(n: int) -> None:
    """vLLM #54418 tests."""
    ceiling = min(2 * n, 512)
    assert capture_sizes(n).max_size in range(ceiling - 15, ceiling + 1)


def test_platform_ceiling() -> None:
    """vLLM #49390 and its tests."""
    assert capture_sizes(512, max_num_batched_tokens=2048).max_size == 512
    blackwell = capture_sizes(512, max_num_batched_tokens=2048, platform_ceiling=1024)
    assert blackwell.max_size == 1024


def test_twice_the_width_is_captured_where_half_can_occur() -> None:
    """vLLM #32324: 320 where 160 is the most that can occur."""
    result = capture_sizes(40, 3)
    assert result.max_size == 320
    assert result.sufficient_max == 160


def test_a_single_request_with_drafts() -> None:
    """vLLM #30330; list derived."""
    result = capture_sizes(1, 3)
    assert result.sizes == [1, 2, 4, 8]
    assert align_sizes(result, result.max_size, 4) == [4, 8]


@pytest.mark.parametrize(
    ("n", "without", "span"), [(12, [1, 2, 4, 8], (1, 9, 12)), (20, None, (1, 17, 20))]
)
def test_a_ceiling_at_the_batch_needs_one_extra_size(
    n: int, without: list[int] | None, span: tuple[int, int, int]
) -> None:
    """vllm-ascend #16049, #16623: about 7.5 times slower without it."""
    old = capture_sizes(n, platform_ceiling=n, rule="vllm-0.28")
    assert without is None or old.sizes == without
    assert lost(old) == [span]
    new = capture_sizes(n, platform_ceiling=n)
    assert new.sizes == [*old.sizes, n]
    assert lost(new) == []


def test_six_requests_without_drafting() -> None:
    """vLLM #46329 comment: 33.7 against 65.3 tok/s each."""
    assert capture_sizes(6).sizes == [1, 2, 4, 6, 8]
    explicit = capture_sizes(6, cudagraph_capture_sizes=[1, 2, 4])
    assert lost(explicit) == [(1, 5, 6)]


def test_one_request_too_many_is_named() -> None:
    """vllm-ascend #14440: 3 to 4 times slower above 256 sequences, silently."""
    result = capture_sizes(264, 1)
    assert lost(result) == [(2, 257, 264)]
    assert result.sufficient_max == 528


# ---- explicit list or maximum --------------------------------------------------------


def test_explicit_maximum_loses_the_widest_batch_and_keep_max_keeps_it() -> None:
    """vLLM #54933, #55004: 25.3 against 133.3 tok/s."""
    result = capture_sizes(6, 6, max_cudagraph_capture_size=42)
    assert result.sizes == [1, 2, 4, 8, 16, 24, 32, 40]
    assert lost(result) == [(7, 6, 6)]
    truncated = next(n for n in result.notes if n.kind == "truncated")
    assert truncated.message.startswith("max_cudagraph_capture_size 42 becomes 40")
    assert truncated.batches == ((7, 6, 6),)
    kept = capture_sizes(6, 6, max_cudagraph_capture_size=42, rule="keep-max")
    assert kept.sizes == [1, 2, 4, 7, 8, 14, 16, 24, 28, 32, 40, 42]
    assert kept.notes == ()


@pytest.mark.parametrize(("asked", "today"), [(257, 256), (300, 288), (561, 560)])
def test_explicit_maximum_off_the_grid(asked: int, today: int) -> None:
    """vLLM #37865."""
    options: dict[str, Any] = {
        "max_num_batched_tokens": 2048,
        "max_cudagraph_capture_size": asked,
    }
    assert capture_sizes(256, **options).max_size == today
    kept = capture_sizes(256, **options, rule="keep-max")
    assert kept.max_size == asked


@pytest.mark.parametrize("tokens", [257, 700])
def test_max_num_batched_tokens_is_captured_below_the_maximum(tokens: int) -> None:
    """vLLM #40734 and its tests."""
    result = capture_sizes(
        256, max_cudagraph_capture_size=2048, max_num_batched_tokens=tokens
    )
    assert result.sizes[-1] == tokens
    assert "max_num_batched_tokens" in result.origins[-1]


@pytest.mark.parametrize(
    ("sizes", "maximum", "phrase"),
    [
        ([1, 2, 4], 8, "must equal the largest size"),
        ([], None, "at least one size"),
        (None, 0, "at least 1, not 0"),
        ([0, 4], None, "at least 1 token, not 0"),
        ([4, -8], None, "at least 1 token, not -8"),
        ([1, 2, 4, 9000], 9000, r"9000 is above max_num_batched_tokens 8192"),
    ],
)
def test_what_vllm_would_not_start_with(sizes: Any, maximum: Any, phrase: str) -> None:
    """vLLM tests; an agreeing pair that max_num_batched_tokens breaks: 0.33.0."""
    with pytest.raises(ConfigError, match=phrase):
        capture_sizes(
            8, cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=maximum
        )


def test_explicit_list_is_kept_as_it_is() -> None:
    """vLLM tests."""
    assert capture_sizes(256, cudagraph_capture_sizes=[1, 256]).max_size == 256


def test_sizes_above_max_num_batched_tokens_are_dropped_and_named() -> None:
    """vLLM tests."""
    result = capture_sizes(
        4, cudagraph_capture_sizes=[1, 2, 4, 15, 4], max_num_batched_tokens=8
    )
    assert result.sizes == [1, 2, 4]
    assert result.max_size == 4
    kinds = {note.kind: note for note in result.notes}
    assert kinds["dropped"].sizes == (15,)
    assert "1 repeated" in kinds["duplicate"].message


def test_a_request_count_given_as_maximum_covers_one_request() -> None:
    """DeepSeek recipe for DGX Spark, tonyd2wild, pull request 5."""
    result = capture_sizes(6, 3, max_cudagraph_capture_size=6)
    assert result.max_size == 4
    assert lost(result) == [(4, 2, 6)]
    assert result.sufficient_max == 24


@pytest.mark.parametrize("compile_size", [3, 5])
def test_compile_sizes_that_padding_changes(compile_size: int) -> None:
    """vLLM tests: refused, as the size would never run."""
    result = capture_sizes(8, cudagraph_capture_sizes=[1, 2, 4, 8])
    assert result.padded(compile_size) != compile_size
    assert result.padded(8) == 8
    assert result.padded(9) is None


def test_sequence_parallelism_before_033() -> None:
    """vLLM tests; removed in 0.33.0."""
    options: dict[str, Any] = {
        "cudagraph_capture_sizes": [1, 2, 4, 15],
        "sequence_parallel_size": 2,
    }
    old = capture_sizes(4, **options, rule="vllm-0.28")
    assert old.sizes == [2, 4]
    assert next(n for n in old.notes if n.kind == "dropped").sizes == (1, 15)
    new = capture_sizes(4, **options)
    assert new.sizes == [1, 2, 4, 15]
    assert new.notes[0].kind == "ignored"


# ---- dynamic tiers -------------------------------------------------------------------


def test_every_tier_is_covered_to_its_own_width() -> None:
    """vLLM #50488, #54418 tests."""
    result = capture_sizes(128, 16, [(1, 16, 16), (17, 128, 2)])
    assert {272, 384} <= set(result)
    assert lost(result) == []


def test_sizes_of_the_widest_length_alone_stop_the_narrow_tier_short() -> None:
    """vLLM #50488 review."""
    narrow = Tier(3, 2, 17, 256)
    static = capture_sizes(256, 16, rule="vllm-50488")
    assert static.covered_batch(narrow) == 227
    schedule = [(1, 16, 16), (17, 256, 2)]
    dynamic = capture_sizes(256, 16, schedule, rule="vllm-50488")
    assert dynamic.covered_batch(narrow) == 256


def test_clamped_schedule_has_one_length() -> None:
    """vLLM #50488 tests."""
    result = capture_sizes(16, 3, [(1, 16, 5)])
    assert [tier.query_len for tier in result.tiers] == [4]
    assert 64 in result
    assert 6 not in result


def test_gap_and_tail_widen_their_tiers() -> None:
    """vLLM #50488 tests."""
    result = capture_sizes(17, 4, [(1, 2, 4), (5, 5, 1)])
    assert {20, 34} <= set(result)


def test_only_scheduled_lengths_are_tiers() -> None:
    """vLLM #45953 tests."""
    result = capture_sizes(128, 7, [(1, 31, 4), (32, 128, 3)])
    assert [tier.query_len for tier in result.tiers] == [4, 5]


def test_user_guide_schedule_needs_2048_not_6144() -> None:
    """vLLM user guide; derived."""
    result = capture_sizes(512, 11, [(1, 32, 7), (33, 128, 5), (129, 512, 3)])
    tops = {t.query_len: t.query_len * t.max_batch for t in result.tiers}
    assert tops == {4: 2048, 6: 768, 8: 256}
    assert result.sufficient_max == 2048
    assert (6, 84, 128) in lost(result)


def test_tier_tops() -> None:
    """vllm-ascend #12368."""
    result = capture_sizes(128, 3, [(1, 32, 3), (33, 64, 2), (65, 128, 1)])
    assert {t.query_len * t.max_batch for t in result.tiers} == {128, 192, 256}


def test_an_invalid_schedule_falls_back_to_the_static_width_with_a_note() -> None:
    """vLLM #50488; the error belongs to validation."""
    result = capture_sizes(16, 3, [(2, 16, 3)])
    assert 64 in result
    assert result.notes[0].kind == "schedule-invalid"
    assert "must start at 1" in result.notes[0].message
    assert result.sizes == capture_sizes(16, 3).sizes


def test_a_schedule_without_drafting_has_no_effect() -> None:
    result = capture_sizes(16, 0, [(1, 16, 3)])
    assert result.sizes == capture_sizes(16).sizes
    assert result.notes[0].kind == "schedule-ignored"


# ---- other engines -------------------------------------------------------------------


def test_tensorrt_llm_sizes() -> None:
    """TensorRT-LLM configuration and #10860."""
    assert tensorrt_llm_batch_sizes(300)[-4:] == [128, 192, 256, 300]
    merged = tensorrt_llm_batch_sizes(400, extra=[100, 200, 300])
    assert {100, 200, 300} <= set(merged)
    assert 500 not in tensorrt_llm_batch_sizes(400, extra=[500])
    assert tensorrt_llm_batch_sizes(40, padding=False) == [*range(1, 33), 40]


def test_sglang_sizes() -> None:
    """SGLang #21005."""
    assert sglang_batch_sizes(9, speculative=True) == list(range(1, 10))
    assert sglang_batch_sizes(300, speculative=True)[-3:] == [272, 288, 300]
    assert sglang_batch_sizes(24) == [1, 2, 4, 8, 12, 16, 24]


def test_lmdeploy_sizes() -> None:
    """LMDeploy source."""
    expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert lmdeploy_batch_sizes(300) == expected
    assert lmdeploy_batch_sizes(1000)[-4:] == [256, 512, 768, 1000]


# ---- settings that make no sense -----------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "phrase"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be between 1"),
        ({"max_num_seqs": 10**30}, "max_num_seqs must be between 1"),
        ({"max_num_seqs": "8"}, "max_num_seqs must be a whole number"),
        ({"max_num_seqs": True}, "max_num_seqs must be a whole number"),
        ({"max_num_seqs": float("nan")}, "max_num_seqs must be a whole number"),
        ({"num_speculative_tokens": -1}, "num_speculative_tokens must be between 0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens must be between"),
        ({"platform_ceiling": 0}, "platform_ceiling must be between"),
        ({"sequence_parallel_size": 0}, "sequence_parallel_size must be between"),
        ({"rule": "vllm-9"}, "use one of"),
        ({"rule": ["vllm-0.33"]}, "use one of"),
        ({"performance_mode": "fast"}, "use one of"),
        ({"cudagraph_capture_sizes": 4}, "must be a list of token counts"),
        ({"cudagraph_capture_sizes": "4"}, "must be a list of token counts"),
        ({"cudagraph_capture_sizes": [1.5]}, r"\[0\] must be a whole number"),
        ({"cudagraph_capture_sizes": [1, [2]]}, r"\[1\] must be a whole number"),
        ({"cudagraph_capture_sizes": [10**30]}, r"\[0\] must be between"),
        ({"max_cudagraph_capture_size": -1}, "max_cudagraph_capture_size must be"),
        (
            {
                "max_cudagraph_capture_size": 2**30,
                "max_num_batched_tokens": 2**30,
            },
            "beyond any GPU",
        ),
    ],
)
def test_settings_out_of_range_are_refused(
    settings: dict[str, Any], phrase: str
) -> None:
    with pytest.raises(ConfigError, match=phrase):
        capture_sizes(**{"max_num_seqs": 8, **settings})


def test_sizes_behave_as_a_sequence() -> None:
    result = capture_sizes(6)
    assert list(result) == result[:] == result.sizes
    assert result[-1] == 8
    assert (len(result), 6 in result, result.index(4)) == (5, True, 2)
    result.sizes.append(99)
    assert 99 not in result


def test_origins_say_where_a_size_comes_from() -> None:
    result = capture_sizes(6, 6, max_cudagraph_capture_size=42, rule="keep-max")
    origin = dict(zip(result, result.origins, strict=True))
    assert origin[8] == ("token grid",)
    assert origin[14] == ("decode size",)
    assert origin[42] == ("decode size", "explicit maximum")


def test_array_lists_are_accepted() -> None:
    sizes = np.array([8, 1, 2], dtype=np.uint16)[::-1]
    assert capture_sizes(8, cudagraph_capture_sizes=sizes).sizes == [1, 2, 8]


@pytest.mark.parametrize(
    ("sizes", "maximum", "query_len", "phrase"),
    [
        ([1, 2], 3, 4, "set it to at least 4"),
        ([0], 8, 2, "at least 1"),
        ([8], 8, 0, "query_len must be between"),
        ([8], -1, 2, "max_size must be between"),
    ],
)
def test_rounding_that_leaves_nothing_is_refused(
    sizes: list[int], maximum: int, query_len: int, phrase: str
) -> None:
    with pytest.raises(ConfigError, match=phrase):
        align_sizes(sizes, maximum, query_len)


def test_rounding() -> None:
    """vLLM #28015, #28207."""
    assert align_sizes([1, 2, 4, 8, 16, 24], 24, 3) == [3, 6, 9, 18, 24]
    assert align_sizes([4, 8], 8, 1) == [4, 8]
    assert align_sizes([8], 5, 5) == [5]


def test_numbers_beyond_any_setting_are_refused_by_their_length() -> None:
    with pytest.raises(ConfigError, match="not a number of 1001 bits"):
        capture_sizes(1 << 1000, 3)
    with pytest.raises(ConfigError, match="max_num_seqs must be a whole number"):
        capture_sizes(np.array([1, 2]), 3)  # type: ignore[arg-type]
    too_large = np.array([2**40], dtype=np.uint64)
    with pytest.raises(ConfigError, match=r"capture sizes must be below 2\*\*31"):
        capture_sizes(8, 3, cudagraph_capture_sizes=too_large)


def test_capture_sizes_show_themselves_and_equal_no_list() -> None:
    sizes = capture_sizes(8, 0, cudagraph_capture_sizes=[1, 8])
    assert repr(sizes).startswith("<CaptureSizes [1, 8] of rule ")
    assert sizes != [1, 8]
    assert sizes == capture_sizes(8, 0, cudagraph_capture_sizes=[1, 8])


def test_widest_batches_beyond_every_gpu_are_refused_by_the_nightly_rule() -> None:
    """vLLM #50488 follows the widest batch; the limit here is 2**26 tokens."""
    with pytest.raises(ConfigError, match="up to 67108865 tokens is beyond any GPU"):
        capture_sizes(
            2**26,
            3,
            rule="vllm-50488",
            max_num_batched_tokens=2**31 - 1,
            platform_ceiling=2**25,
        )
