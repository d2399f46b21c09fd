# SPDX-License-Identifier: Apache-2.0
"""The best others do: vLLM's own code where it is installed, good NumPy, good Python.

Each rival takes validated rows and gives the same answer as specgrid; the
benchmarks assert that before they time anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


def slice_fill(rows: list[list[int]], max_num_seqs: int, k_max: int) -> list[int]:
    """The fifteen lines a reviewer would write: sorted rows, one slice a range."""
    table = [0] * (max_num_seqs + 1)
    rows = sorted(rows)
    ends = [row[0] for row in rows[1:]] + [max_num_seqs + 1]
    for (start, _, k), end in zip(rows, ends, strict=True):
        if start > max_num_seqs:
            break
        end = min(end, max_num_seqs + 1)
        table[start:end] = [min(k, k_max)] * (end - start)
    return table


def numpy_dense(
    rows: list[list[int]], max_num_seqs: int, k_max: int, dtype: Any = np.uint8
) -> npt.NDArray[Any]:
    """One np.repeat over sorted starts; one column."""
    array = np.array(sorted(rows))
    starts = array[:, 0]
    keep = starts <= max_num_seqs
    counts = np.diff(np.append(starts[keep], max_num_seqs + 1))
    values = np.minimum(array[keep, 2], k_max).astype(dtype)
    return np.repeat(np.append(dtype(0), values), np.append(1, counts))[:, None]


def vllm_lookup() -> Callable[[list[list[int]], int, int], list[int]] | None:
    """vLLM's function, or None where vLLM is not installed."""
    try:
        from vllm.v1.spec_decode.dynamic.utils import (
            build_dynamic_sd_schedule_lookup,
        )
    except ImportError:
        return None
    return build_dynamic_sd_schedule_lookup
