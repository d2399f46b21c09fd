# SPDX-License-Identifier: Apache-2.0
"""Capture sizes: the token counts vLLM's configuration would capture.

The rules live in the back ends; here are the checks of settings, and the notes
that say what was dropped, truncated or ignored and who loses a graph by it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import MAX_COUNT, count, whole
from specgrid._errors import ConfigError, ScheduleError
from specgrid._lookup import Tier
from specgrid._rows import RowsLike
from specgrid._schedule import Schedule

Rule: TypeAlias = Literal["vllm-0.33", "vllm-0.28", "vllm-50488", "keep-max"]

# Numbers shared with `enum class CaptureRule` in csrc/core/capture.hpp.
RULES: dict[str, int] = {
    "vllm-0.28": 0,
    "vllm-50488": 1,
    "vllm-0.33": 2,
    "keep-max": 3,
}
_PERFORMANCE_MODES = ("balanced", "interactivity", "throughput")

# Bits shared with `enum Origin` in csrc/core/capture.hpp.
ORIGINS = (
    (1, "token grid"),
    (2, "decode size"),
    (4, "max_num_batched_tokens"),
    (8, "explicit list"),
    (16, "explicit maximum"),
)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing a user should know about the sizes.

    Attributes:
        kind: A stable word: schedule-invalid, schedule-ignored, dropped,
            duplicate, truncated, ignored or uncovered.
        message: One sentence: what, why, and what to do where that is known.
        sizes: The token counts concerned.
        batches: Decode batches that lose their graph by it, as
            (query_len, first batch, last batch) in requests.
    """

    kind: str
    message: str
    sizes: tuple[int, ...] = ()
    batches: tuple[tuple[int, int, int], ...] = ()


class CaptureSizes(Sequence[int]):
    """The sizes a rule captures, in tokens, ascending.

    A sequence of its sizes, made by `capture_sizes`.

    Attributes:
        max_size: The largest size, tokens; 0 when there is none.
        tiers: The uniform decode batches the server can form.
        rule: The rule that made the list.
        max_num_seqs: Most requests in a step.
        notes: What was dropped, truncated or ignored, and why.
    """

    __slots__ = (
        "_array",
        "_list",
        "_masks",
        "max_num_seqs",
        "max_size",
        "notes",
        "rule",
        "tiers",
    )

    def __init__(
        self,
        sizes: npt.NDArray[np.int64],
        masks: npt.NDArray[np.uint8],
        tiers: tuple[Tier, ...],
        rule: str,
        max_num_seqs: int,
    ) -> None:
        self._array = sizes
        self._masks = masks
        self._list: list[int] | None = None
        self.max_size = int(sizes[-1]) if len(sizes) else 0
        self.tiers = tiers
        self.rule = rule
        self.max_num_seqs = max_num_seqs
        self.notes: tuple[Note, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """Token counts, ascending and distinct; a list of your own."""
        return self._as_list().copy()

    def _as_list(self) -> list[int]:
        if self._list is None:
            self._list = self._array.tolist()
        return self._list

    @property
    def origins(self) -> tuple[tuple[str, ...], ...]:
        """Where each size comes from.

        "token grid", "decode size", "max_num_batched_tokens", "explicit list"
        or "explicit maximum"; several where they agree.
        """
        names = {
            mask: tuple(name for bit, name in ORIGINS if mask & bit)
            for mask in set(self._masks.tolist())
        }
        return tuple(names[mask] for mask in self._masks.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaptureSizes):
            return NotImplemented
        return (
            self.sizes == other.sizes
            and self.origins == other.origins
            and self.tiers == other.tiers
            and self.notes == other.notes
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<CaptureSizes {self.sizes!r:.60} of rule {self.rule}>"

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._as_list()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._as_list())

    @property
    def sufficient_max(self) -> int:
        """Smallest maximum, in tokens, that reaches every decode batch.

        The widest tier: the largest query_len x max_batch.
        """
        return max(tier.query_len * tier.max_batch for tier in self.tiers)

    def padded(self, num_tokens: int) -> int | None:
        """The size a step of num_tokens pads to; None above the maximum.

        The V1 runner's padding table. A compile size that padding changes is
        refused by vLLM (`CudagraphDispatcher`, 0.33.0).
        """
        at = bisect.bisect_left(self._as_list(), num_tokens)
        return self._as_list()[at] if at < len(self) else None

    def covered_batch(self, tier: Tier) -> int:
        """Widest batch of a tier that a FULL graph of its length can serve.

        A size becomes a graph of the next multiple of the query length, unless
        that passes the maximum, or max_num_seqs requests
        (`CudaGraphManager._init_candidates`, 0.33.0).
        """
        q = tier.query_len
        reach = min(self.max_size // q, self.max_num_seqs) * q
        below = int(np.searchsorted(self._array, reach, side="right"))
        widest = -(-int(self._array[below - 1]) // q) if below else 0
        return min(widest, tier.max_batch)


def capture_sizes(
    max_num_seqs: int,
    num_speculative_tokens: int = 0,
    schedule: Schedule | RowsLike | None = None,
    *,
    max_num_batched_tokens: int = 8192,
    platform_ceiling: int = 512,
    cudagraph_capture_sizes: Iterable[int] | None = None,
    max_cudagraph_capture_size: int | None = None,
    performance_mode: str = "balanced",
    rule: Rule = "vllm-0.33",
    sequence_parallel_size: int = 1,
) -> CaptureSizes:
    """The capture sizes of a vLLM configuration, exactly as a release has them.

    Args:
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: Draft tokens per request; 0 without speculation.
        schedule: A dynamic schedule, or its raw rows. Raw rows that are invalid
            fall back to the static width, as vLLM does, with a note.
        max_num_batched_tokens: Most tokens in a step.
        platform_ceiling: Default ceiling in tokens: 512, or 1024 on data-centre
            Blackwell (vLLM #49390).
        cudagraph_capture_sizes: An explicit list of sizes, tokens.
        max_cudagraph_capture_size: An explicit maximum, tokens.
        performance_mode: vLLM's setting; "interactivity" captures every size up
            to 32.
        rule: "vllm-0.33" (vLLM 0.29 to 0.33: #54418, #57355), "vllm-0.28"
            (0.28: token grid only), "vllm-50488" (the nightly builds of
            #50488), or "keep-max" (0.33, but an explicit maximum is kept and
            decode sizes are added under it: #37865 and #55004 together).
        sequence_parallel_size: Keep only its multiples, under the rules before
            0.33; ignored since, with a note.

    Returns:
        The sizes with their origins and notes.

    Raises:
        ConfigError: Where vLLM refuses to start, or a setting makes no sense;
            says which flag to change to what.

    Example:
        >>> sizes = capture_sizes(6, 6, max_cudagraph_capture_size=42)
        >>> sizes.sizes
        [1, 2, 4, 8, 16, 24, 32, 40]
        >>> sizes.notes[-1].batches
        ((7, 6, 6),)
    """
    n = count("max_num_seqs", max_num_seqs)
    k = count("num_speculative_tokens", num_speculative_tokens, 0, MAX_COUNT - 1)
    max_tokens = count("max_num_batched_tokens", max_num_batched_tokens)
    ceiling = count("platform_ceiling", platform_ceiling)
    multiple = count("sequence_parallel_size", sequence_parallel_size)
    if rule not in tuple(RULES):  # a tuple, since anything may be asked for
        raise ConfigError(f"rule {rule!r:.40} is not known; use one of {list(RULES)}")
    if performance_mode not in _PERFORMANCE_MODES:
        raise ConfigError(
            f"performance_mode {performance_mode!r:.40} is not known; use one of "
            f"{list(_PERFORMANCE_MODES)}"
        )
    notes: list[Note] = []
    tiers = _decode_tiers(n, k, schedule, notes)
    wanted = _explicit_sizes(cudagraph_capture_sizes)
    asked_max = None
    if max_cudagraph_capture_size is not None:
        asked_max = count("max_cudagraph_capture_size", max_cudagraph_capture_size, 0)
    if multiple > 1 and rule in ("vllm-0.33", "keep-max"):
        notes.append(
            Note(
                "ignored",
                f"sequence_parallel_size {multiple} has no effect on the sizes since "
                "vLLM 0.33",
            )
        )
        multiple = 1
    fault, value, sizes, origins = _backend.active().capture_sizes(
        np.array([n, 1 + k, max_tokens, ceiling, multiple], dtype=np.int64),
        np.array([(t.query_len, t.max_batch) for t in tiers], dtype=np.int64).ravel(),
        RULES[rule],
        performance_mode == "interactivity",
        wanted,
        asked_max,
    )
    if fault:
        raise _refusal(fault, value, asked_max, wanted, max_tokens)
    result = CaptureSizes(sizes, origins, tuple(tiers), rule, n)
    notes += _dropped(wanted, result, max_tokens)
    notes += _truncated(asked_max, result, max_tokens)
    notes += _uncovered(result)
    result.notes = tuple(notes)
    return result


def align_sizes(sizes: Iterable[int], max_size: int, query_len: int) -> list[int]:
    """The V1 runner's rounding of capture sizes for speculative decoding.

    Every size goes up to a multiple of the query length, those above the
    maximum are dropped, duplicates joined
    (`adjust_cudagraph_sizes_for_spec_decode`, vLLM 0.33.0).

    Args:
        sizes: Token counts, at least 1 each, in any order.
        max_size: The maximum, tokens.
        query_len: Tokens per request, 1 + num_speculative_tokens. With 1 the
            sizes stay as they are.

    Returns:
        Ascending multiples of query_len.

    Raises:
        ConfigError: If nothing is left (vLLM refuses to start).

    Example:
        >>> align_sizes([1, 2, 4, 8, 16, 24], 24, 3)
        [3, 6, 9, 18, 24]
    """
    array = _explicit_sizes(sizes)
    q = count("query_len", query_len)
    largest = count("max_size", max_size, 0)
    assert array is not None
    if array.size and array.min() < 1:
        raise ConfigError(f"capture sizes must be at least 1, not {array.min()}")
    if q == 1 or not array.size:
        return sorted(set(array.tolist()))
    aligned: list[int] = _backend.active().align_sizes(array, largest, q).tolist()
    if not aligned:
        raise ConfigError(
            f"no capture size is left after rounding up to multiples of {q} below "
            f"max_cudagraph_capture_size {largest}; set it to at least {q}"
        )
    return aligned


def _decode_tiers(
    n: int, k: int, schedule: Schedule | RowsLike | None, notes: list[Note]
) -> list[Tier]:
    static = [Tier(1 + k, k, 1, n)]
    if schedule is None:
        return static
    if not isinstance(schedule, Schedule):
        try:
            schedule = Schedule(schedule)
        except ScheduleError as error:
            notes.append(
                Note(
                    "schedule-invalid",
                    "the schedule is invalid, so sizes are made for the static width "
                    f"{1 + k}, and vLLM fails later: {error}",
                )
            )
            return static
    if k == 0:
        notes.append(
            Note(
                "schedule-ignored",
                "a schedule has no effect without num_speculative_tokens; set it to "
                f"{max(schedule.max_k, 1)}",
            )
        )
        return static
    return schedule.lookup(n, k).tiers()


def _explicit_sizes(sizes: Iterable[int] | None) -> npt.NDArray[np.int64] | None:
    if sizes is None:
        return None
    if isinstance(sizes, np.ndarray) and sizes.ndim == 1 and sizes.dtype.kind in "iu":
        if sizes.dtype.kind == "u" and sizes.size and sizes.max() > MAX_COUNT:
            raise ConfigError(f"capture sizes must be below 2**31, not {sizes.max()}")
        return np.ascontiguousarray(sizes, dtype=np.int64)
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise ConfigError(
            f"cudagraph_capture_sizes must be a list of token counts, not {sizes!r:.60}"
        )
    numbers = []
    for index, size in enumerate(sizes):
        number = whole(size)
        if number is None:
            raise ConfigError(
                f"cudagraph_capture_sizes[{index}] must be a whole number of tokens, "
                f"not {size!r:.60}"
            )
        numbers.append(
            count(f"cudagraph_capture_sizes[{index}]", number, -MAX_COUNT, MAX_COUNT)
        )
    return np.array(numbers, dtype=np.int64)


def _refusal(
    fault: int,
    value: int,
    asked_max: int | None,
    wanted: npt.NDArray[np.int64] | None,
    max_tokens: int,
) -> ConfigError:
    """What vLLM would not start with. Numbers as in `enum class CaptureFault`."""
    if fault == 1:
        return ConfigError(
            f"max_cudagraph_capture_size must be at least 1, not {asked_max}; leave it "
            "out, or switch graphs off with cudagraph_mode NONE"
        )
    if fault == 2:
        return ConfigError(
            "cudagraph_capture_sizes must hold at least one size; leave it out, or "
            "switch graphs off with cudagraph_mode NONE"
        )
    if fault == 3:
        return ConfigError(
            f"cudagraph_capture_sizes must hold sizes of at least 1 token, not {value}"
        )
    if fault == 4:
        assert wanted is not None
        largest = int(wanted.max())
        because = (
            f" (its {largest} is above max_num_batched_tokens {max_tokens})"
            if largest > max_tokens
            else ""
        )
        return ConfigError(
            f"max_cudagraph_capture_size {asked_max} must equal the largest size that "
            f"cudagraph_capture_sizes leaves, {value}{because}; leave the maximum out"
        )
    return ConfigError(
        f"capturing up to {value} tokens is beyond any GPU; the limit here is 2**26"
    )


def _dropped(
    wanted: npt.NDArray[np.int64] | None, result: CaptureSizes, max_tokens: int
) -> Iterator[Note]:
    if wanted is None:
        return
    distinct = sorted(set(wanted.tolist()))
    too_large = tuple(s for s in distinct if s > max_tokens)
    kept = set(result)
    other = tuple(s for s in distinct if s <= max_tokens and s not in kept)
    if too_large:
        yield Note(
            "dropped",
            f"{_sizes_text(too_large)} dropped: above max_num_batched_tokens "
            f"{max_tokens}",
            too_large,
        )
    if other:
        yield Note(
            "dropped",
            f"{_sizes_text(other)} dropped: not a multiple of sequence_parallel_size",
            other,
        )
    if len(distinct) < len(wanted):
        repeated = len(wanted) - len(distinct)
        yield Note("duplicate", f"{repeated} repeated entries of the list were joined")


def _truncated(
    asked_max: int | None, result: CaptureSizes, max_tokens: int
) -> Iterator[Note]:
    if asked_max is None or result.max_size == asked_max:
        return
    why = (
        f"max_num_batched_tokens is {max_tokens}"
        if max_tokens < asked_max and result.max_size >= min(max_tokens, asked_max)
        else "it is on no step of the size grid (vLLM #37865)"
    )
    lost = []
    for tier in result.tiers:
        q = tier.query_len
        reach = min(asked_max // q, tier.max_batch)
        covered = result.covered_batch(tier)
        if reach > covered:
            lost.append((q, covered + 1, reach))
    yield Note(
        "truncated",
        f"max_cudagraph_capture_size {asked_max} becomes {result.max_size}: {why}",
        (asked_max,),
        tuple(lost),
    )


def _uncovered(result: CaptureSizes) -> Iterator[Note]:
    """One note per tier whose widest batches have no FULL graph of their own."""
    for tier in result.tiers:
        covered = result.covered_batch(tier)
        if covered >= tier.max_batch:
            continue
        q = tier.query_len
        first = max(covered + 1, 1)
        eager_from = result.max_size // q + 1
        single = first == tier.max_batch
        if eager_from <= first:
            fate = "runs without any graph" if single else "run without any graph"
        else:
            fate = "has no FULL graph" if single else "have no FULL graph"
            if eager_from <= tier.max_batch:
                fate += f", and from batch {eager_from} on none at all"
        span = (
            f"batch {first} ({first * q} tokens)"
            if single
            else f"batches {first} to {tier.max_batch} "
            f"({first * q} to {tier.max_batch * q} tokens)"
        )
        yield Note(
            "uncovered",
            f"query length {q}: {span} {fate}",
            (tier.max_batch * q,),
            ((q, first, tier.max_batch),),
        )


def _sizes_text(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sizes[:8]))
    more = f" and {len(sizes) - 8} more" if len(sizes) > 8 else ""
    return f"size {shown}" if len(sizes) == 1 else f"sizes {shown}{more}"


__all__ = ["CaptureSizes", "Note", "Rule", "align_sizes", "capture_sizes"]
