# SPDX-License-Identifier: Apache-2.0
"""What the tuner is given, checked: measured points, acceptance, weights.

Wrong values are refused with their place named. What can be used but should be
known (a K nobody measured, repeats, times that look like milliseconds) becomes
a note. Nothing is averaged away.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat, cast

import numpy as np
import numpy.typing as npt

from specgrid._acceptance import Acceptance
from specgrid._check import whole
from specgrid._errors import CONTEXT_INFINITY, ConfigError

# Repeated measurements of one point further apart than this contradict.
REPEAT_SPREAD = 0.10
# No server's decode step is faster; such times are probably milliseconds.
_IMPLAUSIBLE_STEP_US = 200.0
# A K whose times differ by more than this from the next one's is in other units.
_UNIT_FACTOR = 100.0
# A point this much above or below both its neighbours is out of line.
_OUT_OF_LINE = 2.0
# Drafts a context range must have for an acceptance of its own.
_ENOUGH_DRAFTS = 1000

Points = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]
Key = tuple[int, int, int]  # k, context, batch


class Measured(NamedTuple):
    """Distinct points, by K."""

    by_k: dict[int, Points]
    contexts: tuple[int, ...]
    notes: list[str]


def read_points(latency: Iterable[Any], num_speculative_tokens: int) -> Measured:
    """Checks `(batch, context, k, step_us)` points and groups them by K."""
    times: dict[Key, list[tuple[int, float]]] = {}
    ignored: dict[int, int] = {}
    for index, point in enumerate(latency):
        batch, context, k, step_us = _one_point(index, point)
        if k > num_speculative_tokens:
            ignored[k] = ignored.get(k, 0) + 1
            continue
        times.setdefault((k, context, batch), []).append((index, step_us))
    notes = [
        f"{count} points of k = {k} are above num_speculative_tokens = "
        f"{num_speculative_tokens} and were left out"
        for k, count in sorted(ignored.items())
    ]
    if not times:
        raise ConfigError(
            "no latency points to tune from; give (batch, context, k, step_us) tuples, "
            "for example from `vllm bench forward --output-json`"
        )
    values = {key: _one_value(key, given) for key, given in times.items()}
    repeats = sum(len(given) > 1 for given in times.values())
    if repeats:
        notes.append(
            f"{repeats} points were measured more than once, within "
            f"{REPEAT_SPREAD:.0%}; the median is used"
        )
    by_k: dict[int, Points] = {}
    for wanted in sorted({k for k, _, _ in values}):
        keys = sorted(key for key in values if key[0] == wanted)
        by_k[wanted] = (
            np.array([batch for _, _, batch in keys], dtype=np.int64),
            np.array([context for _, context, _ in keys], dtype=np.int64),
            np.array([values[key] for key in keys], dtype=np.float64),
        )
    notes += _unit_notes(values)
    notes += _coverage_notes(by_k, num_speculative_tokens)
    contexts = tuple(sorted({context for _, context, _ in values}))
    return Measured(by_k, contexts, notes)


def _one_point(index: int, point: Any) -> tuple[int, int, int, float]:
    try:
        batch, context, k, step_us = point
    except (TypeError, ValueError):
        raise ConfigError(
            f"latency point {index} must be (batch, context, k, step_us), not "
            f"{point!r:.80}"
        ) from None
    numbers = []
    for name, value, low in (("batch", batch, 1), ("context", context, 0), ("k", k, 0)):
        number = whole(value)
        if number is None or not low <= number <= CONTEXT_INFINITY:
            raise ConfigError(
                f"latency point {index}: {name} must be a whole number of at least "
                f"{low}, not {value!r:.40}"
            )
        numbers.append(number)
    try:
        us = float(step_us)
    except (TypeError, ValueError):
        us = math.nan
    if isinstance(step_us, bool | str) or not (math.isfinite(us) and us > 0):
        raise ConfigError(
            f"latency point {index} (batch {batch}, context {context}, k {k}): step_us "
            f"must be a time above 0 in microseconds, not {step_us!r:.40}"
        )
    return numbers[0], numbers[1], numbers[2], us


def _one_value(key: Key, given: list[tuple[int, float]]) -> float:
    if len(given) == 1:
        return given[0][1]
    low = min(given, key=lambda g: g[1])
    high = max(given, key=lambda g: g[1])
    if high[1] > low[1] * (1 + REPEAT_SPREAD):
        k, context, batch = key
        raise ConfigError(
            f"latency points {low[0]} and {high[0]} contradict: batch {batch}, context "
            f"{context}, k {k} took {low[1]:g} us and {high[1]:g} us; remove the wrong "
            "one, or measure again"
        )
    return statistics.median(us for _, us in given)


def _unit_notes(values: Mapping[Key, float]) -> list[str]:
    """Refuses a K in other units than the rest; flags what looks like ms."""
    ks = sorted({k for k, _, _ in values})
    for k, other in itertools.pairwise(ks):
        ratios = [
            values[other, context, batch] / us
            for (at, context, batch), us in values.items()
            if at == k and (other, context, batch) in values
        ]
        if len(ratios) < 3:
            continue
        ratio = statistics.median(ratios)
        if not 1 / _UNIT_FACTOR < ratio < _UNIT_FACTOR:
            raise ConfigError(
                f"steps at k = {other} take {ratio:.4g} times those at k = {k} in the "
                "same cells: the times seem to be in different units; give all "
                "of them in microseconds"
            )
    notes = []
    largest = max(values.values())
    if largest < _IMPLAUSIBLE_STEP_US:
        notes.append(
            f"the slowest step takes {largest:g} us, which is implausibly fast: are "
            "the times milliseconds? They must be microseconds"
        )
    return notes + _outlier_notes(values)


def _outlier_notes(values: Mapping[Key, float]) -> list[str]:
    """Names each point out of line with the measured ones on both its sides.

    Times rise with the batch and with the context, so a point belongs between its
    neighbours along either. It is flagged and used as it is.
    """
    notes = []
    flagged: set[Key] = set()
    for what, along, across in (("batch", 2, 1), ("context", 1, 2)):
        lines: dict[tuple[int, int], list[Key]] = {}
        for key in values:
            lines.setdefault((key[0], key[across]), []).append(key)
        for _, line in sorted(lines.items()):
            line.sort(key=lambda key: key[along])
            for before, here, after in zip(line, line[1:], line[2:], strict=False):
                us = values[here]
                low, high = sorted((values[before], values[after]))
                if low / _OUT_OF_LINE <= us <= high * _OUT_OF_LINE or here in flagged:
                    continue
                # Beside a point that is out of line, its neighbours seem to be.
                if before in flagged or after in flagged:
                    continue
                flagged.add(here)
                k, context, batch = here
                unit = us < low / _UNIT_FACTOR or us > high * _UNIT_FACTOR
                notes.append(
                    f"batch {batch}, context {context}, k {k} took {us:,.0f} us, but "
                    f"{what} {before[along]} and {after[along]} took {low:,.0f} to "
                    f"{high:,.0f} us: "
                    + (
                        "is it in another unit?"
                        if unit
                        else "it is used as it is; measure it again or remove it"
                    )
                )
    return notes


def _coverage_notes(
    by_k: Mapping[int, Points], num_speculative_tokens: int
) -> list[str]:
    notes = []
    missing = [k for k in range(num_speculative_tokens + 1) if k not in by_k]
    if missing:
        verb = "was" if len(missing) == 1 else "were"
        notes.append(
            f"k = {', '.join(map(str, missing))} {verb} not measured and cannot be "
            "chosen"
            + (
                "; the gain over no speculation is unknown without k = 0"
                if missing[0] == 0
                else ""
            )
        )
    return notes


# ---- acceptance ----------------------------------------------------------------


class BucketAcceptance(NamedTuple):
    """Acceptance of one context range, bounds inclusive."""

    context_lo: int
    context_hi: int
    acceptance: Acceptance


def read_acceptance(given: Any, notes: list[str]) -> list[BucketAcceptance]:
    """Acceptance by context bucket; one bucket for everything if not split."""
    if isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "drafted"):
        return _by_context(*given, notes)
    if isinstance(given, Acceptance):
        return [BucketAcceptance(0, CONTEXT_INFINITY, given)]
    if hasattr(given, "drafted") and hasattr(given, "accepted"):
        made = Acceptance.from_counts(given)
        return [BucketAcceptance(0, CONTEXT_INFINITY, made)]
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            "acceptance must be survival values such as [0.76, 0.54, 0.39], an "
            f"Acceptance, or what a reader returns, not {given!r:.80}"
        )
    items = list(given)
    if items and all(hasattr(item, "context_lo") for item in items):
        buckets = [
            BucketAcceptance(
                item.context_lo,
                item.context_hi,
                item.acceptance
                if hasattr(item, "acceptance")
                else Acceptance.from_counts(item.counts),
            )
            for item in items
        ]
        return sorted(buckets, key=lambda b: b.context_lo)
    made = Acceptance.given(cast("list[SupportsFloat]", items))
    return [BucketAcceptance(0, CONTEXT_INFINITY, made)]


def _by_context(
    counts: Any, parts: Iterable[Any], notes: list[str]
) -> list[BucketAcceptance]:
    """What `specgrid.io.read_acceptance` returns: overall, and by context range.

    A range with too few drafts of its own takes the overall estimate.
    """
    overall = Acceptance.from_counts(counts)
    buckets = []
    for part in parts:
        try:
            own = Acceptance.from_counts(part.counts)
        except ConfigError:
            own = None
        if (
            own is None
            or len(own) < len(overall)
            or (own.num_drafts or 0) < _ENOUGH_DRAFTS
        ):
            hi = "" if part.context_hi >= CONTEXT_INFINITY else part.context_hi
            notes.append(
                f"contexts {part.context_lo}-{hi} have too few drafts for an "
                "acceptance of their own; the overall one is used there"
            )
            own = overall
        buckets.append(BucketAcceptance(part.context_lo, part.context_hi, own))
    buckets.sort(key=lambda b: b.context_lo)
    return buckets or [BucketAcceptance(0, CONTEXT_INFINITY, overall)]


def bucket_for(
    buckets: Sequence[BucketAcceptance], context: int
) -> tuple[BucketAcceptance, bool]:
    """The bucket of a context; False with it where none covers it (nearest)."""
    for bucket in buckets:
        if bucket.context_lo <= context <= bucket.context_hi:
            return bucket, True

    def distance(bucket: BucketAcceptance) -> int:
        return max(bucket.context_lo - context, context - bucket.context_hi)

    return min(buckets, key=distance), False


# ---- weights and context columns -------------------------------------------------


def read_columns(
    contexts: Iterable[Any] | None, weights: Any, measured: Sequence[int]
) -> tuple[int, ...]:
    """Contexts that stand for the columns: given, weighted, or measured ones."""
    if contexts is None and isinstance(weights, Mapping):
        contexts = {key[1] for key in weights if isinstance(key, tuple | list)} or None
    if contexts is None:
        return tuple(measured)
    columns = []
    for context in contexts:
        number = whole(context)
        if number is None or not 0 <= number < CONTEXT_INFINITY:
            raise ConfigError(
                f"a context must be a whole number of tokens of at least 0, not "
                f"{context!r:.40}"
            )
        columns.append(number)
    if not columns:
        raise ConfigError("contexts must not be empty; leave it out for the measured")
    return tuple(sorted(set(columns)))


def column_ranges(columns: Sequence[int]) -> list[tuple[int, int]]:
    """Inclusive context ranges around the columns, halfway to the neighbours."""
    his = [max(1, (a + b) // 2) for a, b in itertools.pairwise(columns)] + [
        CONTEXT_INFINITY
    ]
    los = [1] + [hi + 1 for hi in his[:-1]]
    for lo, hi in zip(los, his, strict=True):
        if lo > hi:
            raise ConfigError(
                f"contexts {columns[0]} and {columns[1]} are too close to make two "
                "ranges; drop one of them"
            )
    return list(zip(los, his, strict=True))


def read_weights(
    weights: Any, max_num_seqs: int, columns: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Emitted tokens per cell, max_num_seqs x columns; empty for equal weights."""
    shape = (max_num_seqs, len(columns))
    if weights is None:
        return np.empty(0)
    if isinstance(weights, Mapping):
        table = np.zeros(shape)
        position = {context: i for i, context in enumerate(columns)}
        for key, value in weights.items():
            batch, context = key if isinstance(key, tuple | list) else (key, None)
            row = whole(batch)
            if row is None or not 1 <= row <= max_num_seqs:
                raise ConfigError(
                    f"weights: batch {batch!r:.40} must be between 1 and max_num_seqs "
                    f"= {max_num_seqs}"
                )
            if context is None and len(columns) == 1:
                column: int | None = 0
            else:
                number = None if context is None else whole(context)
                column = None if number is None else position.get(number)
            if column is None:
                raise ConfigError(
                    f"weights: {key!r:.60} names no context column; the columns are "
                    f"{list(columns[:8])}{'...' if len(columns) > 8 else ''}"
                )
            try:
                table[row - 1, column] += float(value)
            except (TypeError, ValueError):
                raise ConfigError(
                    f"weights must be numbers, not {value!r:.40} for {key!r:.40}"
                ) from None
    else:
        try:
            table = np.array(weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(
                "weights must be numbers: a mapping, or one per batch and context"
            ) from None
        if table.ndim == 1 and len(columns) == 1:
            table = table[:, None]
        if table.shape != shape:
            raise ConfigError(
                f"weights must have one value per batch and context column, "
                f"{shape[0]} x {shape[1]}, not {' x '.join(map(str, table.shape))}"
            )
    bad = np.argwhere(~(np.isfinite(table) & (table >= 0)))
    if len(bad):
        row, column = bad[0]
        raise ConfigError(
            f"weights: batch {row + 1}, context {columns[column]} has "
            f"{table[row, column]}; weights are emitted tokens, 0 or more"
        )
    if not table.any():
        raise ConfigError("weights are all 0; give emitted tokens per cell, or None")
    return np.ascontiguousarray(table)
