# SPDX-License-Identifier: Apache-2.0
"""Schedules: rows, checked and arranged as batch ranges x context ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from specgrid import _backend, _rows
from specgrid._check import shown, whole
from specgrid._errors import (
    CONTEXT_INFINITY,
    ConfigError,
    ScheduleError,
    kind_of,
    schedule_error,
)
from specgrid._lookup import Lookup
from specgrid._read import ReadError, as_text, parse_json

# JSON texts longer than this are refused before they are parsed.
_MAX_JSON_BYTES = 256 * 2**20


class Schedule:
    """How many tokens to draft, by batch and, optionally, by context.

    A schedule is validated once and never changes. Strict rows (the default)
    follow vLLM's rules in vLLM's order: 3-item rows those of vLLM 0.33.0
    (`vllm/v1/spec_decode/dynamic/utils.py`), others those of vLLM #48944.

    Args:
        rows: `(batch_lo, batch_hi, k)` or `(batch_lo, batch_hi, context_lo,
            context_hi, k)` each; bounds are inclusive. Batches count requests,
            contexts count tokens already computed, k counts draft tokens. Any
            iterable of lists or tuples, or an integer array of 3 or 5 columns.
        ragged: Accept rows that are sound but not rectangular: 3- and 5-item
            rows mixed, contexts from 0, other context bounds per batch range.

    Raises:
        ScheduleError: If a row or the whole breaks a rule; `.rule` and `.row`
            say which.

    Example:
        >>> schedule = Schedule([(1, 16, 3), (32, 128, 2), (256, 2048, 0)])
        >>> schedule.lookup(max_num_seqs=256, num_speculative_tokens=3)[17]
        3
    """

    __slots__ = ("_batches", "_contexts", "_hash", "_k", "_rows_cache")

    def __init__(self, rows: _rows.RowsLike, *, ragged: bool = False) -> None:
        array, form = _rows.normalise(rows, ragged=ragged)
        fault, batches, contexts, k = _backend.active().build_grid(array, form)
        if fault is not None:
            raise schedule_error(fault, array, form)
        self._set(batches, contexts, k)

    def _set(
        self,
        batches: npt.NDArray[np.int64],
        contexts: npt.NDArray[np.int64],
        k: npt.NDArray[np.int64],
    ) -> None:
        self._batches = batches
        self._contexts = contexts
        self._k = k.reshape(len(batches), len(contexts))
        for array in (self._batches, self._contexts, self._k):
            array.flags.writeable = False
        self._rows_cache: tuple[tuple[int, int, int, int, int], ...] | None = None
        self._hash: int | None = None

    @property
    def rows(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """All cells as 5-tuples, sorted; the last context bound is 2**31 - 1."""
        if self._rows_cache is None:
            self._rows_cache = tuple(
                (lo, hi, context_lo, context_hi, k)
                for (lo, hi), line in zip(
                    self._batches.tolist(), self._k.tolist(), strict=True
                )
                for (context_lo, context_hi), k in zip(
                    self._contexts.tolist(), line, strict=True
                )
            )
        return self._rows_cache

    @property
    def batch_ranges(self) -> tuple[tuple[int, int], ...]:
        """Inclusive (batch_lo, batch_hi), sorted; gaps carry the range before."""
        return tuple((lo, hi) for lo, hi in self._batches.tolist())

    @property
    def context_ranges(self) -> tuple[tuple[int, int], ...]:
        """Inclusive (context_lo, context_hi) in tokens, contiguous from 1."""
        return tuple((lo, hi) for lo, hi in self._contexts.tolist())

    @property
    def is_2d(self) -> bool:
        """Whether k can depend on context (more than one context range)."""
        return len(self._contexts) > 1

    @property
    def max_k(self) -> int:
        """The largest k of any cell, before clamping to a server's maximum."""
        return int(self._k.max())

    def lookup(self, max_num_seqs: int, num_speculative_tokens: int) -> Lookup:
        """Lays the schedule over one server's limits.

        Args:
            max_num_seqs: Most requests in a step, 1 to 2**31 - 1.
            num_speculative_tokens: Largest k; larger ones are clamped to it.

        Returns:
            The factorised table from (batch, context) to k.

        Raises:
            ConfigError: If a limit is out of range.

        Example:
            >>> Schedule([(1, 8, 5)]).lookup(16, 3).tolist()[:4]
            [0, 3, 3, 3]
        """
        return Lookup(self, max_num_seqs, num_speculative_tokens)

    # ---- forms of other engines and files ------------------------------------

    @classmethod
    def from_json(cls, text: str | bytes, *, ragged: bool = False) -> Schedule:
        """Reads rows from JSON text, as in `--speculative-config`.

        Args:
            text: A JSON list of rows.
            ragged: As in the constructor.

        Raises:
            ScheduleError: If the text is no JSON, or the rows break a rule.

        Example:
            >>> Schedule.from_json("[[1, 16, 3], [17, 64, 1]]").batch_ranges
            ((1, 16), (17, 64))
        """
        if not isinstance(text, str | bytes | bytearray):
            raise ScheduleError(
                f"schedule JSON must be text, not {kind_of(text)}; give rows "
                "to Schedule() itself",
                "not_list",
            )
        if len(text) > _MAX_JSON_BYTES:
            raise ScheduleError(
                f"schedule JSON of {len(text)} bytes is over {_MAX_JSON_BYTES}; "
                "use an array",
                "too_large",
            )
        try:
            rows = parse_json(text if isinstance(text, str) else as_text(text))
        except ReadError as error:
            raise ScheduleError(
                f"schedule is not valid JSON: {error}; "
                "write [[1, 64, 3], [65, 256, 1]]",
                "not_list",
            ) from error
        if rows is not None and not isinstance(rows, list):
            raise ScheduleError(
                f"schedule JSON must be a non-empty list of rows, not {rows!r:.80}",
                "not_list",
            )
        return cls(rows, ragged=ragged)  # type: ignore[arg-type]

    def to_json(self) -> str:
        """The rows as JSON, 3-item when k does not depend on context.

        Example:
            >>> Schedule([(1, 16, 3)]).to_json()
            '[[1, 16, 3]]'
        """
        return json.dumps(self.to_rows())

    def to_rows(self) -> list[list[int]]:
        """Rows as vLLM takes them: 3-item when k does not depend on context."""
        if self.is_2d:
            return [list(row) for row in self.rows]
        return [[lo, hi, k] for lo, hi, _, _, k in self.rows]

    @classmethod
    def from_tensorrt_llm(
        cls,
        mapping: Mapping[int, int],
        keys: Literal["upper", "lower"],
        *,
        max_draft_len: int | None = None,
    ) -> Schedule:
        """Reads TensorRT-LLM's `draft_len_schedule`.

        Args:
            mapping: Batch bound to draft length.
            keys: "upper": a key is the last batch of its range, and wider
                batches draft nothing (TensorRT-LLM #10860, today's meaning).
                "lower": a key is the first batch of its range, key 1 is needed
                (TensorRT-LLM #8194). Nothing in the mapping tells them apart.
            max_draft_len: Draft length the smallest key must have; the largest
                value when not given.

        Raises:
            ConfigError: If TensorRT-LLM would refuse the mapping.

        Example:
            >>> Schedule.from_tensorrt_llm({4: 4, 8: 2, 32: 1}, "upper").rows[-1]
            (33, 2147483647, 1, 2147483647, 0)
        """
        if keys not in ("upper", "lower"):
            raise ConfigError(
                f"keys must be 'upper' or 'lower', not {keys!r}; 'upper' is the "
                "meaning since TensorRT-LLM #10860"
            )
        bounds = _tensorrt_items(mapping, max_draft_len)
        if keys == "lower":
            if bounds[0][0] != 1:
                raise ConfigError(
                    f"with lower-bound keys the first key must be 1, not {bounds[0][0]}"
                )
            ends = [key - 1 for key, _ in bounds[1:]] + [CONTEXT_INFINITY]
            return cls([(k, end, n) for (k, n), end in zip(bounds, ends, strict=True)])
        rows = []
        first = 1
        for key, length in bounds:
            rows.append((first, key, length))
            first = key + 1
        if bounds[-1][1] != 0 and first <= CONTEXT_INFINITY:
            rows.append((first, CONTEXT_INFINITY, 0))
        return cls(rows)

    def to_tensorrt_llm(self, max_num_seqs: int | None = None) -> dict[int, int]:
        """The schedule as TensorRT-LLM's `draft_len_schedule`, upper-bound keys.

        Args:
            max_num_seqs: Where the last range ends; 2**31 - 1 when not given.

        Returns:
            Last batch of each range to draft length; zero above the last key.

        Raises:
            ConfigError: If the form cannot say it: k depends on context, or
                the narrowest batches do not have the largest k.

        Example:
            >>> Schedule([(1, 16, 3), (32, 128, 2), (256, 2048, 0)]).to_tensorrt_llm()
            {31: 3, 255: 2}
        """
        if self.is_2d:
            raise ConfigError(
                "TensorRT-LLM schedules know no context; convert a schedule of one "
                "context range"
            )
        last = max_num_seqs if max_num_seqs is not None else CONTEXT_INFINITY
        starts = [lo for lo, _ in self.batch_ranges if lo <= last]
        ends = [lo - 1 for lo in starts[1:]] + [last]
        mapping: dict[int, int] = {}
        previous: int | None = None
        for end, k in zip(ends, self._k[:, 0].tolist(), strict=False):
            if k == previous:
                mapping.pop(next(reversed(mapping)))
            mapping[end] = k
            previous = k
        lengths = list(mapping.values())
        if lengths[0] != max(lengths):
            raise ConfigError(
                f"TensorRT-LLM needs the largest k ({max(lengths)}) at batch 1, where "
                f"this schedule has {lengths[0]}"
            )
        if lengths[-1] == 0:
            mapping.pop(next(reversed(mapping)))
        if not mapping:
            raise ConfigError("a schedule that never drafts has no TensorRT-LLM form")
        return mapping

    @classmethod
    def from_sglang(
        cls,
        slots: Mapping[int, int | Sequence[int]],
        *,
        pick: Literal["largest", "smallest"] = "largest",
    ) -> Schedule:
        """Reads SGLang's adaptive slots (`--speculative-adaptive`).

        SGLang moves inside a slot's steps while it runs; a schedule has one k a
        range, so one step of each slot is taken.

        Args:
            slots: First batch of each slot to its step or steps; key 1 needed.
            pick: Which step of a slot becomes k.

        Raises:
            ConfigError: If the slots cannot be read.

        Example:
            >>> Schedule.from_sglang({1: [1, 3], 8: [0, 1], 32: [0]}).to_rows()
            [[1, 7, 3], [8, 31, 1], [32, 2147483647, 0]]
        """
        if pick not in ("largest", "smallest"):
            raise ConfigError(f"pick must be 'largest' or 'smallest', not {pick!r}")
        choose = max if pick == "largest" else min
        steps: dict[int, int] = {}
        for key, value in _items(slots, "slots"):
            options = value if isinstance(value, list | tuple) else [value]
            numbers = [whole(option) for option in options]
            if not numbers or any(n is None or n < 0 for n in numbers):
                raise ConfigError(
                    f"slot {key}: steps must be whole numbers >= 0, not {value!r:.80}"
                )
            steps[key] = choose(n for n in numbers if n is not None)
        bounds = sorted(steps.items())
        if bounds[0][0] != 1:
            raise ConfigError(f"the first slot must start at 1, not {bounds[0][0]}")
        ends = [key - 1 for key, _ in bounds[1:]] + [CONTEXT_INFINITY]
        return cls([(k, end, n) for (k, n), end in zip(bounds, ends, strict=True)])

    # ---- as a value ----------------------------------------------------------

    def _key(self) -> tuple[bytes, bytes, bytes]:
        return (self._batches.tobytes(), self._contexts.tobytes(), self._k.tobytes())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def __repr__(self) -> str:
        rows = self.to_rows() if self._k.size <= 16 else None
        if rows is None:
            return (
                f"<Schedule of {len(self._batches)} batch ranges x "
                f"{len(self._contexts)} context ranges>"
            )
        return f"Schedule({[tuple(row) for row in rows]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._batches, self._contexts, self._k))


def _restore(
    batches: npt.NDArray[np.int64],
    contexts: npt.NDArray[np.int64],
    k: npt.NDArray[np.int64],
) -> Schedule:
    """Unpickles a schedule through its own validation."""
    rows = np.empty((k.size, 5), dtype=np.int64)
    rows[:, :2] = np.repeat(batches, len(contexts), axis=0)
    rows[:, 2:4] = np.tile(contexts, (len(batches), 1))
    rows[:, 4] = k.ravel()
    return Schedule(rows)


def _items(mapping: object, name: str) -> list[tuple[int, Any]]:
    """Sorted (whole key >= 1, value) pairs of a mapping; JSON keys are texts."""
    if not isinstance(mapping, Mapping) or not mapping:
        raise ConfigError(f"{name} must be a non-empty mapping, not {mapping!r:.80}")
    items: dict[int, Any] = {}
    for key, value in mapping.items():
        number = (
            int(key)
            if isinstance(key, str) and key.isascii() and key.isdigit()
            else whole(key)
        )
        if number is None or not 1 <= number <= CONTEXT_INFINITY:
            raise ConfigError(
                f"{name}: key {key!r:.40} must be a batch between 1 and 2147483647"
            )
        if number in items:
            raise ConfigError(f"{name}: key {number} is given twice")
        items[number] = value
    return sorted(items.items())


def _tensorrt_items(
    mapping: object, max_draft_len: int | None
) -> list[tuple[int, int]]:
    items: list[tuple[int, int]] = []
    for key, value in _items(mapping, "draft_len_schedule"):
        length = whole(value)
        if length is None or length < 0:
            raise ConfigError(
                f"draft_len_schedule: key {key} must map to a whole number >= 0, "
                f"not {value!r:.40}"
            )
        items.append((key, length))
    largest = max(length for _, length in items)
    expected = largest if max_draft_len is None else max_draft_len
    if largest > expected:
        raise ConfigError(
            f"draft_len_schedule: {shown(largest)} is above max_draft_len {expected}"
        )
    if items[0][1] != expected:
        raise ConfigError(
            f"draft_len_schedule: the smallest key {items[0][0]} must map to "
            f"max_draft_len {expected}, not {items[0][1]}"
        )
    return items
