# SPDX-License-Identifier: Apache-2.0
"""Readers of the files people already have; one module a format.

A reader opens, checks and returns plain data (`specgrid.io._types` lists the
kinds). It never plans, tunes or prints, and it never repairs: a damaged record
is counted and reported, and input that could only be used by guessing is
refused with a `DataError` that names the reason.
"""

from __future__ import annotations

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
    "ReadReport",
    "ServeResult",
    "SizeTimes",
    "StartupRecord",
    "StepCounts",
]
