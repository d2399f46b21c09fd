# SPDX-License-Identifier: Apache-2.0
"""CUDA-graph capture planning and dynamic speculative-decoding schedules.

The public names are those in `__all__`; every module that starts with an
underscore is private. Importing this needs NumPy and nothing else, and next to
no time: a name is loaded when it is first used, since a server loads specgrid in
every one of its processes and most of them need little of it.
"""

from __future__ import annotations

import importlib

from specgrid._version import __version__

TYPE_CHECKING = False  # typing's, without importing it
if TYPE_CHECKING:
    from typing import Any

    from specgrid._acceptance import Acceptance
    from specgrid._budget import Budget, Drafter
    from specgrid._capture import CaptureSizes, Note, align_sizes, capture_sizes
    from specgrid._compress import compress_schedule
    from specgrid._costs import Costs
    from specgrid._coverage import Coverage, CoverageRun, TierCoverage
    from specgrid._drafts import DraftGraph, DraftGraphs
    from specgrid._errors import ConfigError, ScheduleError
    from specgrid._graphs import CandidateTable, Graph, GraphSet, Served
    from specgrid._lookup import Lookup, Tier
    from specgrid._plan import (
        CapturePlan,
        FrontierPoint,
        evaluate_captures,
        plan_captures,
    )
    from specgrid._plan_value import CaptureValue
    from specgrid._schedule import Schedule
    from specgrid._tune import TunedSchedule, tune_schedule
    from specgrid._tune_captures import JointPlan, tune_with_captures
    from specgrid._tune_cases import bench_cases
    from specgrid._workload import Workload

__all__ = [
    "Acceptance",
    "Budget",
    "CandidateTable",
    "CapturePlan",
    "CaptureSizes",
    "CaptureValue",
    "ConfigError",
    "Costs",
    "Coverage",
    "CoverageRun",
    "DraftGraph",
    "DraftGraphs",
    "Drafter",
    "FrontierPoint",
    "Graph",
    "GraphSet",
    "JointPlan",
    "Lookup",
    "Note",
    "Schedule",
    "ScheduleError",
    "Served",
    "Tier",
    "TierCoverage",
    "TunedSchedule",
    "Workload",
    "__version__",
    "align_sizes",
    "bench_cases",
    "capture_sizes",
    "compress_schedule",
    "evaluate_captures",
    "plan_captures",
    "tune_schedule",
    "tune_with_captures",
]

# Public name -> the module that defines it.
_HOMES = {
    "Acceptance": "specgrid._acceptance",
    "Budget": "specgrid._budget",
    "CandidateTable": "specgrid._graphs",
    "CapturePlan": "specgrid._plan",
    "CaptureSizes": "specgrid._capture",
    "CaptureValue": "specgrid._plan_value",
    "ConfigError": "specgrid._errors",
    "Costs": "specgrid._costs",
    "Coverage": "specgrid._coverage",
    "CoverageRun": "specgrid._coverage",
    "DraftGraph": "specgrid._drafts",
    "DraftGraphs": "specgrid._drafts",
    "Drafter": "specgrid._budget",
    "FrontierPoint": "specgrid._plan",
    "Graph": "specgrid._graphs",
    "GraphSet": "specgrid._graphs",
    "JointPlan": "specgrid._tune_captures",
    "Lookup": "specgrid._lookup",
    "Note": "specgrid._capture",
    "Schedule": "specgrid._schedule",
    "ScheduleError": "specgrid._errors",
    "Served": "specgrid._graphs",
    "Tier": "specgrid._lookup",
    "TierCoverage": "specgrid._coverage",
    "TunedSchedule": "specgrid._tune",
    "Workload": "specgrid._workload",
    "align_sizes": "specgrid._capture",
    "bench_cases": "specgrid._tune_cases",
    "capture_sizes": "specgrid._capture",
    "compress_schedule": "specgrid._compress",
    "evaluate_captures": "specgrid._plan",
    "plan_captures": "specgrid._plan",
    "tune_schedule": "specgrid._tune",
    "tune_with_captures": "specgrid._tune_captures",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'specgrid' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
