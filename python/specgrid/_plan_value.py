# SPDX-License-Identifier: Apache-2.0
"""What a list of captures is worth, step by step, through the dispatcher.

This is the check on the solver as well as the answer to "what does my current
list do": the solver's value never reaches a user without passing through here.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specgrid._plan_inputs import Inputs, Int64

FULL, PIECEWISE, NONE = 0, 1, 2


@dataclass(frozen=True)
class Captures:
    """What is captured: one shared list, or keyed graphs and PIECEWISE sizes."""

    sizes: tuple[int, ...]
    graphs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Served:
    """How every step of a workload runs: graph mode and padded tokens."""

    decode_mode: Int64
    decode_padded: Int64
    mixed_mode: Int64
    mixed_padded: Int64


@dataclass(frozen=True)
class CaptureValue:
    """What a set of captures does for a workload.

    Attributes:
        mean_step_us: Mean step time, microseconds, the floor included.
        full_share: Share of steps on a FULL graph.
        piecewise_share: Share of steps on a PIECEWISE graph.
        eager_share: Share of steps without a graph.
        padding: Padded tokens beyond the steps' own, as a share of the tokens of
            the steps that replay a graph.
        num_graphs: Graphs captured, counted as `Budget` counts them.
        graph_bytes: Bytes they take by the cost model, the pool included.
        graph_seconds: Seconds to capture them by the cost model.
    """

    mean_step_us: float
    full_share: float
    piecewise_share: float
    eager_share: float
    padding: float
    num_graphs: int
    graph_bytes: float
    graph_seconds: float
