# SPDX-License-Identifier: Apache-2.0
"""Readers of the files people already have; one module a format.

A reader opens, checks and returns plain data (`specgrid.io._types` lists the
kinds). It never plans, tunes or prints, and it never repairs: a damaged record
is counted and reported, and input that could only be used by guessing is
refused with a `DataError` that names the reason.

Four front doors look at a file's content and call the right reader:
`read_workload`, `read_costs`, `read_latency` and `read_acceptance`.
"""

from __future__ import annotations

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
]
