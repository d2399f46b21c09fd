# SPDX-License-Identifier: Apache-2.0
"""CUDA-graph capture planning and dynamic speculative-decoding schedules.

The public names are those in `__all__`; every module that starts with an
underscore is private. Importing this needs NumPy and nothing else.
"""

from __future__ import annotations

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
from specgrid._version import __version__
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
