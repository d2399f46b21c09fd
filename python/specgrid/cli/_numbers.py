# SPDX-License-Identifier: Apache-2.0
"""Numbers on the command line: ``0.02``, ``2GiB``, and lists such as ``1,4,16``.

Whole numbers are click's own. Every other number comes through here, since what
``float`` takes (nan, inf, 1e999) no option has a meaning for.
"""

from __future__ import annotations

import math
import re
from typing import Any

import click

_SIZE_UNITS = {
    "": 1, "b": 1,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip


class Number(click.FloatRange):
    """A finite number within a range; the only type for one that may have a point."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        # Before the range, in which every comparison with nan is false.
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r:.40} is no finite number.", param, ctx)
        return float(super().convert(value, param, ctx))


class Size(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory such as 2GiB."""

    name = "SIZE"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(
            r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value, re.ASCII | re.IGNORECASE
        )
        unit = None if match is None else _SIZE_UNITS.get(match[2].lower())
        if match is None or unit is None:
            self.fail(f"{value!r} is no size; write 2GiB or 512MiB", param, ctx)
        if not match[2] and 0 < float(match[1]) < 1 << 20:
            self.fail(
                f"{value!r} has no unit; write {match[1]}GiB, {match[1]}MiB, or "
                f"{match[1]}B for bytes",
                param,
                ctx,
            )
        size = float(match[1]) * unit
        if math.isinf(size):
            self.fail(f"{value!r:.40} is too large for a size", param, ctx)
        return size


class NumberList(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers with commas between them, each at least ``low``."""

    name = "NUMBERS"

    def __init__(self, low: int) -> None:
        self._low = low

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        numbers = []
        for word in str(value).split(","):
            word = word.strip()
            if not word.isascii() or not word.isdigit() or len(word) > 10:
                self.fail(
                    f"{word!r} is no whole number; write them as in 1,4,16", param, ctx
                )
            if not self._low <= int(word) < 2**31:
                self.fail(f"{word} must be at least {self._low}", param, ctx)
            numbers.append(int(word))
        return tuple(sorted(set(numbers)))
