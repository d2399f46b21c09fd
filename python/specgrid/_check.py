# SPDX-License-Identifier: Apache-2.0
"""Checks of single settings, with one wording for all of them."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np

from specgrid._errors import ConfigError

MAX_COUNT = 2**31 - 1


def count(
    name: str, value: object, low: int = 1, high: int = MAX_COUNT, remedy: str = ""
) -> int:
    """`value` as an int between low and high, or a ConfigError that names it.

    Integers only: 3 and 3.0 pass; 3.7, True and "3" do not.
    """
    number = whole(value)
    if number is None:
        raise ConfigError(f"{name} must be a whole number, not {value!r:.80}")
    if not low <= number <= high:
        hint = f"; {remedy}" if remedy else ""
        raise ConfigError(
            f"{name} must be between {low} and {high}, not {shown(number)}{hint}"
        )
    return number


def whole(value: object) -> int | None:
    """The integer a value stands for, or None when it is none."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    if isinstance(value, float | np.floating):
        return int(value) if value.is_integer() else None
    if isinstance(value, SupportsIndex):
        try:
            return operator.index(value)
        except TypeError:  # an array of more than one element
            return None
    return None


def shown(number: int) -> str:
    """A number for a message; a huge one by its length."""
    if number.bit_length() > 256:
        return f"a number of {number.bit_length()} bits"
    return str(number)
