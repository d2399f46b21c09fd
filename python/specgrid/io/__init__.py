# SPDX-License-Identifier: Apache-2.0
"""Readers of what vLLM users already have: command lines, logs, results, metrics.

A reader opens, checks and returns plain data (`specgrid.io._types` lists the
kinds). It never plans, tunes or prints, and it never repairs: a damaged record
is counted and reported, and input that could only be used by guessing is
refused with a `DataError` that names the reason.

Four front doors look at a file's content and call the right reader:
`read_workload`, `read_costs`, `read_latency` and `read_acceptance`. Names are
imported on first use, so that a command which reads no data loads no reader.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specgrid.io._accept import drafts_by_k
    from specgrid.io._types import (
        AcceptanceCounts,
        ContextAcceptance,
        CostData,
        Damage,
        DataError,
        GraphTable,
        LatencyData,
        LatencyPoint,
        LogData,
        ReadReport,
        ServeResult,
        SizeTimes,
        StartupRecord,
        StepCounts,
    )
    from specgrid.io.acceptance import read_acceptance
    from specgrid.io.calibrate import graph_costs, step_costs, steps_from_table
    from specgrid.io.costs import read_costs
    from specgrid.io.forward import read_forward
    from specgrid.io.latency import read_latency
    from specgrid.io.log import read_log
    from specgrid.io.metrics import MetricsData, read_metrics
    from specgrid.io.requests import read_requests
    from specgrid.io.serve import (
        read_serve,
        read_sweep,
        serve_acceptance,
        serve_latency,
    )
    from specgrid.io.workload import read_workload

_MODULES = {
    "_accept": ("drafts_by_k",),
    "_types": (
        "AcceptanceCounts",
        "ContextAcceptance",
        "CostData",
        "Damage",
        "DataError",
        "GraphTable",
        "LatencyData",
        "LatencyPoint",
        "LogData",
        "ReadReport",
        "ServeResult",
        "SizeTimes",
        "StartupRecord",
        "StepCounts",
    ),
    "acceptance": ("read_acceptance",),
    "calibrate": ("graph_costs", "step_costs", "steps_from_table"),
    "costs": ("read_costs",),
    "forward": ("read_forward",),
    "latency": ("read_latency",),
    "log": ("read_log",),
    "metrics": ("MetricsData", "read_metrics"),
    "requests": ("read_requests",),
    "serve": ("read_serve", "read_sweep", "serve_acceptance", "serve_latency"),
    "workload": ("read_workload",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AcceptanceCounts",
    "ContextAcceptance",
    "CostData",
    "Damage",
    "DataError",
    "GraphTable",
    "LatencyData",
    "LatencyPoint",
    "LogData",
    "MetricsData",
    "ReadReport",
    "ServeResult",
    "SizeTimes",
    "StartupRecord",
    "StepCounts",
    "drafts_by_k",
    "graph_costs",
    "read_acceptance",
    "read_costs",
    "read_forward",
    "read_latency",
    "read_log",
    "read_metrics",
    "read_requests",
    "read_serve",
    "read_sweep",
    "read_workload",
    "serve_acceptance",
    "serve_latency",
    "step_costs",
    "steps_from_table",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
