# SPDX-License-Identifier: Apache-2.0
"""Laws that hold whatever the implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid import Schedule, align_sizes, capture_sizes
from tests.test_differential import sorted_ranges

pytestmark = pytest.mark.usefixtures("backend")


@st.composite
def sound_schedules(draw: st.DrawFn) -> Schedule:
    batches = draw(sorted_ranges(gaps=False))
    contexts = draw(sorted_ranges(gaps=False))
    k = st.integers(0, 8)
    return Schedule([(*b, *c, draw(k)) for b in batches for c in contexts])


@given(sound_schedules(), st.integers(1, 60), st.integers(1, 8))
def test_tiers_are_what_the_dense_table_holds(
    schedule: Schedule, max_num_seqs: int, k: int
) -> None:
    lookup = schedule.lookup(max_num_seqs, k)
    dense = lookup.dense()
    for tier in lookup.tiers():
        batches = np.flatnonzero((dense == tier.k).any(axis=1))
        batches = batches[batches > 0]
        assert (batches[0], batches[-1]) == (tier.min_batch, tier.max_batch)
        assert tier.query_len == tier.k + 1
    assert {t.k for t in lookup.tiers()} == set(dense[1:].ravel().tolist())


@given(sound_schedules(), st.integers(1, 60), st.integers(1, 8), st.data())
def test_dense_gather_and_single_answers_agree(
    schedule: Schedule, max_num_seqs: int, k: int, data: Any
) -> None:
    lookup = schedule.lookup(max_num_seqs, k)
    batch = data.draw(st.integers(0, max_num_seqs))
    context = data.draw(st.integers(0, 60))
    expected = lookup.dense()[batch, lookup.bucket_of(context)]
    assert lookup[batch, context] == expected == lookup.gather(batch, context)


@given(sound_schedules())
def test_ragged_reads_a_sound_schedule_as_it_is(schedule: Schedule) -> None:
    assert Schedule(schedule.rows, ragged=True) == schedule


@given(
    st.integers(1, 300),
    st.integers(0, 12),
    st.none() | sound_schedules(),
    st.sampled_from([64, 512, 8192]),
    st.none() | st.integers(1, 900),
)
def test_sizes_are_ascending_bounded_and_reach_what_they_say(
    n: int, k: int, schedule: Schedule | None, tokens: int, maximum: int | None
) -> None:
    for rule in ("vllm-0.28", "vllm-0.33", "keep-max"):
        result = capture_sizes(
            n,
            k,
            schedule,
            max_num_batched_tokens=tokens,
            max_cudagraph_capture_size=maximum,
            rule=rule,
        )
        assert result.sizes == sorted(set(result.sizes))
        assert result.sizes[0] >= 1
        assert result.sizes[-1] == result.max_size <= tokens
        assert len(result.origins) == len(result.sizes)
        for tier in result.tiers:
            assert 0 <= result.covered_batch(tier) <= tier.max_batch


@given(st.integers(1, 300), st.integers(1, 12), st.integers(1, 900))
def test_keep_max_keeps_every_size_and_covers_every_decode_batch_it_can(
    n: int, k: int, maximum: int
) -> None:
    """vLLM #37865 and #55004 together never lose what 0.33 has."""
    options: dict[str, Any] = {"max_cudagraph_capture_size": maximum}
    old = capture_sizes(n, k, **options)
    new = capture_sizes(n, k, **options, rule="keep-max")
    assert set(old) <= set(new)
    assert new.max_size == maximum
    for tier in new.tiers:
        within = min(tier.max_batch, maximum // tier.query_len)
        assert new.covered_batch(tier) == within


@given(st.lists(st.integers(1, 600), min_size=1), st.integers(2, 17))
def test_rounding_gives_multiples_and_repeating_it_changes_nothing(
    sizes: list[int], query_len: int
) -> None:
    maximum = max(sizes) + query_len
    aligned = align_sizes(sizes, maximum, query_len)
    assert all(size % query_len == 0 for size in aligned)
    assert align_sizes(aligned, maximum, query_len) == aligned
