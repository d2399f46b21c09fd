# SPDX-License-Identifier: Apache-2.0
"""The specification: every function of the native core in plain Python.

Same names, same arguments, same answers, no cleverness. It is tested on the
golden tables by itself and compared with the core on generated input. It is
used in earnest only when asked for (`SPECGRID_BACKEND=reference`) or, with a
warning, where the extension is missing.
"""

from __future__ import annotations

from specgrid._reference.capture import align_sizes, capture_sizes
from specgrid._reference.graphs import GraphTable
from specgrid._reference.lookup import Lookup
from specgrid._reference.plan import LadderProblem, SharedProblem
from specgrid._reference.schedule import build_grid, check_rows, rows_from_list
from specgrid._reference.tune import (
    compress_bands,
    compress_line,
    tune_grid,
    tune_joint,
    tune_report,
    tune_surface,
)

__all__ = [
    "GraphTable",
    "LadderProblem",
    "Lookup",
    "SharedProblem",
    "align_sizes",
    "build_grid",
    "capture_sizes",
    "check_rows",
    "compress_bands",
    "compress_line",
    "rows_from_list",
    "tune_grid",
    "tune_joint",
    "tune_report",
    "tune_surface",
]
