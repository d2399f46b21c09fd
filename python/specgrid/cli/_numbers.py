# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers on the command line, such as ``1,4,16``."""

from __future__ import annotations

from typing import Any

import click


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
