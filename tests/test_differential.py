# SPDX-License-Identifier: Apache-2.0
"""The native core equals the reference on generated input, exceptions included.

Input is biased to edges: zero, one, the maximum and one past it, touching
ranges, gaps, values beyond the clamp, and integers at the ends of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specgrid import Schedule, ScheduleError, _backend, align_sizes, capture_sizes
from specgrid._capture import RULES
from specgrid._errors import ConfigError

_EDGES = [-1, 0, 1, 2, 3, 7, 8, 2**31 - 2, 2**31 - 1, 2**31, 2**62, 2**63 - 1]
_edge = st.sampled_from(_EDGES) | st.integers(-2, 40)


@st.composite
def sorted_ranges(draw: st.DrawFn, gaps: bool) -> list[tuple[int, int]]:
    """Disjoint ranges from 1, now and then with a fault."""
    ranges = []
    low = 1
    for _ in range(draw(st.integers(1, 4))):
        high = low + draw(st.integers(0, 9))
        ranges.append((low, high))
        low = high + 1 + (draw(st.sampled_from([0, 0, 0, 1, 5, -1])) if gaps else 0)
    return ranges


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Rows that are sound, nearly sound, or plainly wrong."""
    kind = draw(st.sampled_from(["1d", "2d", "2d", "wild"]))
    if kind == "wild":
        row = st.tuples(_edge, _edge, _edge) | st.tuples(*[_edge] * 5)
        return draw(st.lists(row, min_size=1, max_size=5))
    k = st.integers(0, 6) | st.sampled_from([255, 256, 2**40])
    batches = draw(sorted_ranges(gaps=True))
    if kind == "1d":
        rows: list[tuple[int, ...]] = [(*b, draw(k)) for b in batches]
    else:
        contexts = draw(sorted_ranges(gaps=False))
        rows = [(*b, *c, draw(k)) for b in batches for c in contexts]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):  # damage
        at = draw(st.integers(0, len(rows) - 1))
        row = list(rows[at])
        row[draw(st.integers(0, len(row) - 1))] = draw(_edge)
        rows[at] = tuple(row)
    if draw(st.booleans()):
        rows.insert(draw(st.integers(0, len(rows))), draw(st.sampled_from(rows)))
    return list(draw(st.permutations(rows)))


def on_both(call: Callable[[], Any]) -> tuple[Any, Any]:
    """The outcome of a call on each back end; an exception is an outcome."""

    def outcome() -> Any:
        try:
            return call()
        except ScheduleError as error:
            return (error.rule, error.row, str(error))
        except (ConfigError, IndexError, TypeError) as error:
            return (type(error), str(error))

    results = []
    for name in (_backend.NATIVE, _backend.REFERENCE):
        with _backend.use(name):
            results.append(outcome())
    return results[0], results[1]


@given(schedules(), st.booleans(), st.booleans())
def test_schedules(rows: Any, ragged: bool, as_array: bool) -> None:
    given_rows: Any = rows
    if as_array and len({len(row) for row in rows}) == 1:
        given_rows = np.array(rows)
    native, reference = on_both(lambda: Schedule(given_rows, ragged=ragged).rows)
    assert native == reference


@given(
    schedules(),
    st.integers(1, 40),
    st.sampled_from([1, 3, 255, 256, 65536, 2**31 - 2]),
)
def test_lookups(rows: Any, max_num_seqs: int, k: int) -> None:
    def everything() -> Any:
        lookup = Schedule(rows, ragged=True).lookup(max_num_seqs, k)
        batches = np.arange(max_num_seqs + 1)[:, None]
        contexts = np.array([0, 1, 8, 9, 10, 2**31 - 1, 2**31, 2**62])
        return (
            lookup.tiers(),
            lookup.digest,
            lookup.is_constant,
            lookup.dense().dtype,
            lookup.dense().tolist(),
            lookup.tolist(),
            lookup.gather(batches, contexts).tolist(),
            [lookup.bucket_of(int(c)) for c in contexts],
            [lookup[max_num_seqs, int(c)] for c in contexts],
        )

    native, reference = on_both(everything)
    assert native == reference


_tokens = st.sampled_from([1, 2, 7, 8, 9, 31, 255, 256, 257, 272, 512, 700]) | (
    st.integers(1, 600)
)


@given(
    n=_tokens,
    k=st.integers(0, 17),
    schedule=st.none() | schedules(),
    tokens=_tokens | st.sampled_from([8192]),
    ceiling=st.sampled_from([1, 8, 512, 1024]),
    explicit=st.none() | st.lists(_tokens | st.integers(-1, 1), max_size=6),
    maximum=st.none() | _tokens | st.integers(0, 1),
    mode=st.sampled_from(["balanced", "interactivity"]),
    rule=st.sampled_from(sorted(RULES)),
    multiple=st.sampled_from([1, 2, 4]),
)
def test_capture_sizes(
    n: int,
    k: int,
    schedule: Any,
    tokens: int,
    ceiling: int,
    explicit: Any,
    maximum: Any,
    mode: str,
    rule: Any,
    multiple: int,
) -> None:
    native, reference = on_both(
        lambda: capture_sizes(
            n,
            k,
            schedule,
            max_num_batched_tokens=tokens,
            platform_ceiling=ceiling,
            cudagraph_capture_sizes=explicit,
            max_cudagraph_capture_size=maximum,
            performance_mode=mode,
            rule=rule,
            sequence_parallel_size=multiple,
        )
    )
    assert native == reference


@given(st.lists(_tokens, max_size=8), _tokens, st.integers(1, 20))
def test_align_sizes(sizes: list[int], maximum: int, query_len: int) -> None:
    native, reference = on_both(lambda: align_sizes(sizes, maximum, query_len))
    assert native == reference
