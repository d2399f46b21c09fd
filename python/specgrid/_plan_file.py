# SPDX-License-Identifier: Apache-2.0
"""Plan files: JSON, versioned, written all or nothing, read with suspicion.

The format is documented in docs/planner.md. Nothing here knows how to plan.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

from specgrid._atomic import write_whole
from specgrid._errors import ConfigError
from specgrid._read import File, ReadError, parse_json, read_text

FORMAT = "specgrid-plan"
VERSION = 1

_WRITE = "write one with CapturePlan.save or `specgrid plan --save`"
#: Plan files larger than this are refused before they are read.
MAX_BYTES = 16 << 20
#: Most sizes or graphs a plan may list.
MAX_ENTRIES = 1 << 20


def write_plan(path: str | Path, plan: dict[str, Any]) -> None:
    """Writes a plan so that no reader ever sees half of it.

    A link stays a link, and what is no file (a pipe, /dev/stdout) is written to.
    """
    if not str(path):
        raise ConfigError("the name of the plan is empty; name the file to write")
    text = json.dumps(plan, indent=1, allow_nan=False) + "\n"
    write_whole(path, text.encode())


def read_plan(path: str | Path | File) -> dict[str, Any]:
    """The JSON object of a plan file, its envelope checked.

    Raises:
        ConfigError: The file is missing, too large, not JSON, not a plan, or of
            another version.
    """
    if not str(path):
        raise ConfigError("the name of the plan is empty; name the file to read")
    try:
        text = read_text(path, MAX_BYTES)
    except ReadError as error:
        raise ConfigError(f"the plan {path} {error}; {_WRITE}") from None
    try:
        plan = parse_json(text, finite=True)
    except ReadError as error:
        raise ConfigError(
            f"{path} is not a plan: it is not JSON ({error}); {_WRITE}"
        ) from None
    if not isinstance(plan, dict) or plan.get("format") != FORMAT:
        raise ConfigError(
            f'{path} is not a plan: it lacks "format": "{FORMAT}"; {_WRITE}'
        )
    version = plan.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ConfigError(
            f"{path} is a plan of version {version!r:.40}; this specgrid reads version "
            f"{VERSION}. Make the plan again, or update specgrid"
        )
    return plan


class Fields:
    """Typed access to a plan's fields, with the file's name in every message."""

    def __init__(self, plan: dict[str, Any], path: str) -> None:
        self._plan = plan
        self._path = path

    def fault(self, name: str, what: str) -> ConfigError:
        return ConfigError(f'{self._path}: "{name}" {what}; make the plan again')

    def raw(self, name: str) -> Any:
        if name not in self._plan:
            raise self.fault(name, "is missing")
        return self._plan[name]

    def integer(self, name: str, low: int = 0) -> int:
        value = self.raw(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not low <= value < 2**31
        ):
            raise self.fault(name, f"is {value!r:.80}, not a whole number from {low}")
        return value

    def optional_number(self, name: str) -> float | None:
        return None if self.raw(name) is None else self.number(name)

    def number(self, name: str, high: float = math.inf) -> float:
        """A finite number from 0 to `high`: no time, share or amount is another."""
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(name, f"is {value!r:.80}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        # Sums of shares may miss 1 by a rounding.
        if not (0 <= number < math.inf and number <= high * (1 + 1e-9)):
            above = "" if high == math.inf else f" and at most {high:g}"
            raise self.fault(name, f"is {value!r:.80}; it is at least 0{above}")
        return number

    def text(self, name: str, choices: tuple[str, ...] = ()) -> str:
        value = self.raw(name)
        if not isinstance(value, str) or (choices and value not in choices):
            hint = f", not one of {', '.join(choices)}" if choices else ", not a text"
            raise self.fault(name, f"is {value!r:.80}{hint}")
        return value

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self.fault(name, f"is {value!r:.80}, not true or false")
        return value

    def integers(self, name: str, low: int = 1, high: int = 2**31 - 1) -> list[int]:
        """A strictly ascending list of whole numbers."""
        values = self.listed(name)
        for value in values:
            if (
                isinstance(value, bool)
                or not isinstance(value, int)
                or not low <= value <= high
            ):
                raise self.fault(
                    name, f"holds {value!r:.80}, not a whole number in {low}..{high}"
                )
        if any(b <= a for a, b in pairwise(values)):
            raise self.fault(name, "is not strictly ascending")
        return values

    def listed(self, name: str) -> list[Any]:
        value = self.raw(name)
        if not isinstance(value, list) or len(value) > MAX_ENTRIES:
            raise self.fault(name, "is not a list of reasonable length")
        return value
