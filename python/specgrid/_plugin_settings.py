# SPDX-License-Identifier: Apache-2.0
"""Settings of the vLLM plug-in: their names and values, and what is wrong with given
ones.

``--additional-config '{"specgrid": {...}}'`` is read by the plug-in inside vLLM and by
the command line before a server starts; both use these names. A setting that cannot be
used never stops a server: it is named and the default holds.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from specgrid._errors import FIELD, ScheduleError
from specgrid._schedule import Schedule

POLICIES: Final = ("reachable", "per-query-length", "vllm")
RULES: Final = ("vllm-0.33", "keep-max")
AGGREGATES: Final = ("mean", "median", "max")

CHOICES: Final = {
    "policy": POLICIES,
    "rule": RULES,
    "context_aggregate": AGGREGATES,
}
#: The first value of a choice is its default.
SWITCHES: Final = ("shadow", "counters")
KEYS: Final = (*CHOICES, "schedule", "plan", *SWITCHES)
# Written by the plug-in itself for the server's other processes.
_INTERNAL: Final = ("plan_data",)


def usable_settings(section: Any) -> tuple[dict[str, Any], list[str]]:
    """The settings that can be used, and a sentence about each that cannot.

    Args:
        section: the value under "specgrid" in vLLM's additional_config.

    >>> usable_settings({"policy": "reachable"})
    ({'policy': 'reachable'}, [])
    >>> usable_settings({"polcy": "reachable"})
    ({}, ['specgrid has no key polcy (did you mean policy?); it is ignored'])
    """
    if not isinstance(section, Mapping):
        return {}, [
            f"specgrid is {_short(section)}, not an object such as "
            '{"policy": "reachable"}; it is ignored'
        ]
    usable: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in section.items():
        problem = _problem(str(key), value)
        if problem:
            problems.append(problem)
        else:
            usable[str(key)] = value
    return usable, problems


def _problem(key: str, value: Any) -> str:
    if key in CHOICES:
        allowed = CHOICES[key]
        if value not in allowed:
            return (
                f"specgrid.{key} {_short(value)} is not known; write one of "
                f"{', '.join(allowed)} ({allowed[0]} is used)"
            )
    elif key == "schedule":
        if value is not None and not (
            isinstance(value, list) and all(isinstance(row, list) for row in value)
        ):
            return (
                f"specgrid.schedule {_short(value)} is no list of [batch_lo, batch_hi, "
                "k] or [batch_lo, batch_hi, context_lo, context_hi, k] rows; it is "
                "ignored"
            )
        return _schedule_problem(value)
    elif key == "plan":
        if value is not None and not isinstance(value, str):
            return f"specgrid.plan {_short(value)} is no path; it is ignored"
    elif key in SWITCHES:
        if value is not None and not isinstance(value, bool):
            return f"specgrid.{key} {_short(value)} is not true or false; it is ignored"
    elif key not in (*KEYS, *_INTERNAL):
        close = difflib.get_close_matches(key[:60], KEYS, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return f"specgrid has no key {_short(key)}{hint}; it is ignored"
    return ""


def _schedule_problem(rows: Any) -> str:
    if rows is None:
        return ""
    try:
        Schedule(rows, ragged=True)
    except ScheduleError as error:
        text = str(error).replace(FIELD, "schedule")
        return f"specgrid.schedule is ignored: {text}"
    return ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = ["AGGREGATES", "CHOICES", "KEYS", "POLICIES", "RULES", "usable_settings"]
