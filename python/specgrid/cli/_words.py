# SPDX-License-Identifier: Apache-2.0
"""What the library says of its parameters, in the words of the command line.

The library's errors name parameters; a command has flags for them. Each command has
a table of patterns and what they become, and this is how it is applied.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from specgrid._errors import ConfigError

#: (regular expression, replacement), tried in order.
Words = Sequence[tuple[str, str]]


@contextmanager
def in_flags(words: Words) -> Iterator[None]:
    """Errors of the library in a command's words; also a decorator."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(as_flags(str(error), words)) from error


def as_flags(message: str, words: Words) -> str:
    """A message of the library in a command's terms: flags, and MiB for bytes.

    >>> as_flags("min_k = 3 needs 2097152 bytes", [("min_k = ", "--min-k ")])
    '--min-k 3 needs 2 MiB'
    """

    def mebibytes(match: re.Match[str]) -> str:
        # Up, so that the amount named is enough.
        tenths = math.ceil(float(match[1].replace(",", "")) / (1 << 20) * 10 - 1e-5)
        return f"{tenths / 10:,.1f} MiB".replace(".0 MiB", " MiB")

    message = re.sub(r"(\d[\d,]*(?:\.\d+)?(?:e\+?\d+)?) bytes", mebibytes, message)
    for pattern, flags in words:
        message = re.sub(pattern, flags, message)
    return message
