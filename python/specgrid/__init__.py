# SPDX-License-Identifier: Apache-2.0
"""CUDA-graph capture planning and dynamic speculative-decoding schedules.

The public names are those in `__all__`; every module that starts with an
underscore is private. Importing this needs NumPy and nothing else.
"""

from __future__ import annotations

from specgrid._capture import CaptureSizes, Note, align_sizes, capture_sizes
from specgrid._coverage import Coverage, CoverageRun, TierCoverage
from specgrid._drafts import DraftGraph, DraftGraphs
from specgrid._errors import ConfigError, ScheduleError
from specgrid._graphs import CandidateTable, Graph, GraphSet, Served
from specgrid._lookup import Lookup, Tier
from specgrid._schedule import Schedule
from specgrid._version import __version__

__all__ = [
    "CandidateTable",
    "CaptureSizes",
    "ConfigError",
    "Coverage",
    "CoverageRun",
    "DraftGraph",
    "DraftGraphs",
    "Graph",
    "GraphSet",
    "Lookup",
    "Note",
    "Schedule",
    "ScheduleError",
    "Served",
    "Tier",
    "TierCoverage",
    "__version__",
    "align_sizes",
    "capture_sizes",
]
