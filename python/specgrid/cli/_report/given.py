# SPDX-License-Identifier: Apache-2.0
"""Plans and tuned schedules a report is given: read from files, checked, cut to shape.

``specgrid plan --json`` and ``specgrid tune --json`` write them. A file is data from
outside: whatever in it is not of the shape listed here is refused by name.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from specgrid._errors import ConfigError
from specgrid._plan import CapturePlan
from specgrid._read import File
from specgrid.cli._report.assumed import SOURCES
from specgrid.io._source import parse_json, read_text

MAX_BYTES = 64 << 20

# Shapes: a dict has these keys, a list any number of its one item, and so on.
NUMBER, COUNT, TEXT, FLAG = "a number", "a whole number", "a text", "true or false"
AMOUNT, SHARE = "a number from 0 to 1e15", "a number from 0 to 1"
#: What rounding may leave below 0 or above 1.
_ROUNDING = 1e-9


class Maybe:
    """A shape, or null, or left out."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


class Exactly:
    """A list of so many."""

    def __init__(self, number: int, shape: Any) -> None:
        self.number = number
        self.shape = shape


class Some:
    """A list of at least one."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


VALUE = {
    "mean_step_us": AMOUNT,
    "full_share": SHARE,
    "piecewise_share": SHARE,
    "eager_share": SHARE,
    "padding": AMOUNT,
    "num_graphs": COUNT,
    "graph_bytes": AMOUNT,
    "graph_seconds": AMOUNT,
    "kv_tokens": Maybe(COUNT),
}
PLAN = {
    "server": {
        "max_num_seqs": COUNT,
        "num_speculative_tokens": COUNT,
        "max_num_batched_tokens": COUNT,
        "schedule": Maybe([[COUNT]]),
        "sizes": Maybe([COUNT]),
    },
    "data": {
        "sources": [{"name": TEXT, "assumed": FLAG, "from": TEXT}],
        "num_steps": NUMBER,
        "load": Maybe([Exactly(3, NUMBER)]),
    },
    "before": VALUE,
    "default": Maybe(VALUE),
    "after": VALUE,
    "plan": {
        "dispatcher": TEXT,
        "sizes": [COUNT],
        "graphs": [Exactly(2, COUNT)],
        "chosen": TEXT,
        "optimal": FLAG,
        "gap": AMOUNT,
        "lower_bound_us": Maybe(AMOUNT),
        "eager_us": AMOUNT,
        "args": [TEXT],
    },
    "worth": [{"size": Maybe(COUNT), "graph": Maybe(Exactly(2, COUNT)), "us": NUMBER}],
    "stability": Maybe(
        {
            "eager_penalty_us": Maybe(NUMBER),
            "assumed": FLAG,
            "shift_down_us": Maybe(NUMBER),
            "shift_up_us": Maybe(NUMBER),
        }
    ),
    "frontier": Maybe(
        [{"num_graphs": COUNT, "mean_step_us": AMOUNT, "sizes": [COUNT]}]
    ),
    "notes": [TEXT],
}
LOSS = {"weighted": AMOUNT, "worst": AMOUNT}
TUNE = {
    "max_num_seqs": COUNT,
    "num_speculative_tokens": COUNT,
    "num_points": COUNT,
    "schedule": [[COUNT]],
    "is_2d": FLAG,
    "entries": [[COUNT]],
    "loss": LOSS,
    "gains": [
        {
            "k": COUNT,
            "factor": Maybe(AMOUNT),
            "low": Maybe(NUMBER),
            "high": Maybe(NUMBER),
            "share_measured": Maybe(SHARE),
        }
    ],
    "frontier": [{"entries": COUNT, "rows": COUNT, "loss": LOSS}],
    "settings": {"flag": TEXT, "value": {}, "args": Maybe([TEXT])},
    "grid": Maybe(
        {
            "batches": Some(Exactly(2, COUNT)),
            "contexts": Some(Exactly(2, COUNT)),
            "drafts": [[COUNT]],
            "loss": [[Maybe(AMOUNT)]],
            "measured": [[FLAG]],
            "within_noise": [[FLAG]],
        }
    ),
    "throughput": Maybe(
        [
            {
                "context": COUNT,
                "lines": Some({"k": COUNT, "points": Some(Exactly(2, AMOUNT))}),
            }
        ]
    ),
    "notes": [TEXT],
}


def read_plan(path: str) -> dict[str, Any]:
    """A plan: what ``specgrid plan`` printed as JSON, or what it saved.

    Raises:
        ConfigError: It is neither; says what is wrong where.
    """
    file = File(path)
    found = _read(file)
    if found.get("format") == "specgrid-plan":
        return _saved(CapturePlan.load(file), path)
    _check_schema(found, "specgrid.plan", path, "specgrid plan --json --frontier")
    kept: dict[str, Any] = _fit(found, PLAN, path, "")
    _check_sizes(kept, path)
    return kept | {"file": Path(path).name}


def read_tuned(path: str) -> dict[str, Any]:
    """A tuned schedule: what ``specgrid tune`` printed as JSON.

    Raises:
        ConfigError: It is not; says what is wrong where.
    """
    found = _read(File(path))
    _check_schema(found, "specgrid.tune", path, "specgrid tune --json")
    kept: dict[str, Any] = _fit(found, TUNE, path, "")
    grid = kept["grid"]
    if grid is not None:
        shape = (len(grid["contexts"]), len(grid["batches"]))
        for key in ("drafts", "loss", "measured", "within_noise"):
            rows = grid[key]
            if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
                raise ConfigError(f"{path}: grid.{key} is not {shape[0]} x {shape[1]}")
    for i, column in enumerate(kept["throughput"] or []):
        for j, line in enumerate(column["lines"]):
            for batch, _ in line["points"]:
                if batch < 1 or batch != int(batch):
                    raise ConfigError(
                        f"{path}: throughput[{i}].lines[{j}] has a point at batch "
                        f"{batch!r}, which is no number of requests"
                    )
    return kept | {"file": Path(path).name}


def _read(file: File) -> dict[str, Any]:
    path = str(file)
    found = parse_json(read_text(file, MAX_BYTES), path)
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no JSON object")
    return found


def _check_schema(found: dict[str, Any], schema: str, path: str, how: str) -> None:
    if found.get("schema") != schema or found.get("version") != 1:
        raise ConfigError(
            f'{path} is not "schema": "{schema}", "version": 1; write it with '
            f"`{how} ... > FILE`"
        )


def _fit(value: Any, shape: Any, path: str, where: str) -> Any:
    """The value without what the shape does not name."""

    def refuse(wanted: str) -> ConfigError:
        return ConfigError(f"{path}: {where or 'the file'} is not {wanted}")

    if isinstance(shape, Maybe):
        return None if value is None else _fit(value, shape.shape, path, where)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise refuse("an object")
        if not shape:
            return value
        return {
            key: _fit(value.get(key), part, path, f"{where}.{key}".lstrip("."))
            for key, part in shape.items()
        }
    if isinstance(shape, Exactly):
        if not isinstance(value, list) or len(value) != shape.number:
            raise refuse(f"a list of {shape.number}")
        shape = [shape.shape]
    if isinstance(shape, Some):
        if not value:
            raise refuse("a list of at least one")
        shape = [shape.shape]
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise refuse("a list")
        return [_fit(v, shape[0], path, f"{where}[{i}]") for i, v in enumerate(value)]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = {
        NUMBER: number and math.isfinite(value),
        AMOUNT: number and -_ROUNDING <= value <= 1e15,
        SHARE: number and -_ROUNDING <= value <= 1 + _ROUNDING,
        COUNT: number and isinstance(value, int) and 0 <= value < 2**53,
        TEXT: isinstance(value, str),
        FLAG: isinstance(value, bool),
    }
    if not fits[shape]:
        raise refuse(shape)
    return value


def _check_sizes(plan: dict[str, Any], path: str) -> None:
    """What shapes alone do not say."""
    given = plan["plan"]
    if min([*given["sizes"], *(n for graph in given["graphs"] for n in graph), 1]) < 1:
        raise ConfigError(f"{path}: plan.sizes or plan.graphs holds a number below 1")
    if min((n for step in plan["data"]["load"] or [] for n in step), default=0) < 0:
        raise ConfigError(f"{path}: data.load holds a number below 0")
    for i, entry in enumerate(plan["worth"]):
        if entry["size"] is None and entry["graph"] is None:
            raise ConfigError(f"{path}: worth[{i}] names neither size nor graph")


def _guesses(plan: CapturePlan) -> list[dict[str, Any]]:
    """What a saved plan's notes say was assumed; what was measured they do not say."""
    noted = [n for n in plan.notes if n.startswith("assumed, not measured: ")]
    return [
        {"name": name, "assumed": True, "from": ""}
        for name in SOURCES
        if any(f" {name} (" in note for note in noted)
    ]


def _saved(plan: CapturePlan, path: str) -> dict[str, Any]:
    """A saved plan: no server to compare with, no frontier, no what-if."""
    value = {name: getattr(plan.value, name, None) for name in VALUE}
    return {
        "server": {
            "max_num_seqs": plan.max_num_seqs,
            "num_speculative_tokens": plan.num_speculative_tokens,
            "max_num_batched_tokens": plan.max_num_batched_tokens,
            "schedule": None if plan.schedule is None else plan.schedule.to_rows(),
            "sizes": None,
        },
        "data": {"sources": _guesses(plan), "num_steps": 0, "load": None},
        "before": None,
        "default": None,
        "after": value,
        "plan": {
            "dispatcher": plan.dispatcher,
            "sizes": plan.sizes,
            "graphs": [list(g) for g in plan.graphs],
            "chosen": "as saved",
            "optimal": plan.optimal,
            "gap": plan.gap,
            "lower_bound_us": plan.lower_bound_us,
            "eager_us": plan.eager_us,
            "args": plan.vllm_args(path),
        },
        "worth": [],
        "stability": None,
        "frontier": None,
        "notes": list(plan.notes),
        "file": Path(path).name,
    }
