# SPDX-License-Identifier: Apache-2.0
"""The errors a user can meet, and every text of a schedule error.

The core and the reference name a rule and a row; the sentence is made here, so
that both back ends say the same. A sentence says what was given, what is wrong
and what would be accepted, and keeps the phrases people match on in vLLM.
"""

from __future__ import annotations

from typing import Any

CONTEXT_INFINITY = 2**31 - 1

# Numbers shared with `enum class Rule` in csrc/core/schedule.hpp.
RULES = (
    "",
    "bs_positive",
    "bs_order",
    "ctx_positive",
    "ctx_order",
    "k_negative",
    "bs_overlap",
    "bs_start",
    "rectangular",
    "ctx_start",
    "ctx_contiguous",
    "duplicate",
    "uncovered",
    "conflict",
    "too_large",
)

FIELD = "num_speculative_tokens_per_batch_size"

# (rule, row, other row, batch_lo, batch_hi, context_lo, context_hi)
Fault = tuple[int, int, int, int, int, int, int]


def json_fault(error: Exception) -> str:
    """What is wrong with a text that is no JSON, without the interpreter's own words.

    >>> json_fault(RecursionError("maximum recursion depth exceeded"))
    'it is nested too deeply'
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "set_int_max_str_digits" in str(error):
        return "a number in it has thousands of digits"
    return " ".join(str(error).split())[:160]


def kind_of(value: object) -> str:
    """What a value is, in a sentence.

    >>> kind_of({}), kind_of(5)
    ('a dict', 'an int')
    """
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


class ConfigError(ValueError):
    """A setting that vLLM, or specgrid, cannot work with.

    The message says what was given, what is wrong and what to write instead.
    """


class ScheduleError(ValueError):
    """A schedule that breaks a rule.

    Attributes:
        rule: Which rule, as a short stable word: none, not_list, empty, arity,
            not_integer, bs_positive, bs_order, ctx_positive, ctx_order,
            k_negative, mixed, bs_overlap, bs_start, rectangular, ctx_start,
            ctx_contiguous, duplicate, uncovered, conflict or too_large.
        row: Index of the offending row, or None when no single row is at fault.
    """

    def __init__(self, message: str, rule: str, row: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.row = row

    def __reduce__(self) -> tuple[type[ScheduleError], tuple[str, str, int | None]]:
        return (type(self), (str(self), self.rule, self.row))


def form_error(rule: str, row: int | None, detail: str) -> ScheduleError:
    """A fault of form: found before rows are numbers."""
    where = "" if row is None else f"row {row}: "
    text = {
        "none": f"{FIELD} is required; give a list of (batch_lo, batch_hi, k) rows",
        "not_list": f"{FIELD} must be a non-empty list of (batch_lo, batch_hi, k) "
        f"rows, not {detail}",
        "empty": f"{FIELD} must not be empty; [[1, 256, 3]] drafts 3 tokens at "
        "every batch up to 256",
        "arity": f"each {FIELD} entry must be a 3-item sequence (batch_lo, "
        "batch_hi, k) or a 5-item one (batch_lo, batch_hi, context_lo, "
        f"context_hi, k), not {detail}",
        "not_integer": f"{detail}; write a whole number",
        "mixed": "entries must all be 3-item or all 5-item, and "
        f"{detail}; ragged=True accepts both",
    }[rule]
    return ScheduleError(where + text, rule, row)


def _row_text(row: Any, form: int) -> str:
    low, high, context_lo, context_hi, k = (int(x) for x in row)
    if form == 0:
        return f"({low}, {high}, {k})"
    return f"({low}, {high}, {context_lo}, {context_hi}, {k})"


def schedule_error(fault: Fault, rows: Any, form: int) -> ScheduleError:
    """The exception for a fault found by a back end in `rows` (n x 5)."""
    number, row, other, batch_lo, batch_hi, context_lo, context_hi = fault
    rule = RULES[number]
    given = _row_text(rows[row], form) if row >= 0 else ""
    beside = _row_text(rows[other], form) if other >= 0 else ""
    low, high, ctx_lo, ctx_hi, k = (
        (int(x) for x in rows[row]) if row >= 0 else (0, 0, 0, 0, 0)
    )
    cell = f"batches {batch_lo}-{batch_hi}, contexts {context_lo}-{context_hi}"
    text = {
        "bs_positive": f"batch range ({low}, {high}) must be positive; "
        "batches are counted from 1",
        "bs_order": f"batch range start must be <= end, not {low} > {high}; "
        f"write ({high}, {low})",
        "ctx_positive": f"context range ({ctx_lo}, {ctx_hi}) must be positive; "
        "contexts are counted from 1, and a fresh request (context 0) belongs to "
        "the first range",
        "ctx_order": f"context range start must be <= end and <= {CONTEXT_INFINITY}, "
        f"not ({ctx_lo}, {ctx_hi})",
        "k_negative": f"k must be >= 0, not {k}; 0 switches drafting off",
        "bs_overlap": "batch ranges must be non-overlapping and sorted: "
        f"{given} meets row {other} {beside}; start after the end of the other",
        "bs_start": f"the first batch range must start at 1, not {low}, so that "
        "every batch has a k",
        "rectangular": f"a batch x context schedule must be rectangular: {batch_lo} "
        f"batch ranges x {context_lo} context ranges need {batch_lo * context_lo} "
        f"rows, not {len(rows)}; give every batch range the same context ranges, or "
        "use ragged=True",
        "ctx_start": f"the first context range must start at 1, not {ctx_lo}, so that "
        "every context has a k",
        "ctx_contiguous": "context ranges must be contiguous: "
        f"({ctx_lo}, {ctx_hi}) must start one after the end of row {other} "
        f"{beside}",
        "duplicate": f"{given} gives the same cell as row {other} {beside}; "
        "remove one of them",
        "uncovered": f"no row covers {cell}; add a row for these contexts or extend "
        "a neighbour",
        "conflict": f"{given} and row {other} {beside} give different k to {cell}; "
        "make their ranges disjoint or their k equal",
        "too_large": _too_large_text(fault),
    }[rule]
    where = f"row {row} {given}: " if row >= 0 and given not in text else ""
    if row >= 0 and not where:
        where = f"row {row}: "
    return ScheduleError(where + text, rule, row if row >= 0 else None)


def _too_large_text(fault: Fault) -> str:
    _, _, _, batch_lo, batch_hi, context_lo, context_hi = fault
    if context_lo:
        return (
            f"a ragged schedule of {batch_lo} x {context_lo} distinct ranges would "
            f"need more than {context_hi} cells; use fewer distinct bounds"
        )
    return (
        f"a ragged schedule may have at most {batch_hi} rows, not {batch_lo}; "
        "write it as a rectangular one"
    )
