# SPDX-License-Identifier: Apache-2.0
"""Which graph serves a batch at each K, so that the tuner charges its padding.

From a list of capture sizes each query length is given its own ladder, so that
the K of one batch does not depend on the K of another. vLLM 0.33's single
ladder can serve worse where tiers shadow each other; a `GraphSet` says exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid._check import count


class Served(NamedTuple):
    """Arrays of labels x max_num_seqs, or empty when steps are not padded.

    Attributes:
        padded_batch: Requests of the graph that serves the batch.
        extra_us: What its mode adds to a FULL step, microseconds.
    """

    padded_batch: npt.NDArray[np.float64]
    extra_us: npt.NDArray[np.float64]


def served_by(
    captures: Any,
    ks: Sequence[int],
    max_num_seqs: int,
    piecewise_us: float,
    eager_us: float,
) -> Served:
    """How each batch is served at each K by capture sizes or a `GraphSet`."""
    if captures is None:
        return Served(np.empty(0), np.empty(0))
    batches = np.arange(1, max_num_seqs + 1, dtype=np.int64)
    padded = np.tile(batches.astype(np.float64), (len(ks), 1))
    extra = np.full(padded.shape, eager_us)
    for label, k in enumerate(ks):
        query_len = k + 1
        if hasattr(captures, "dispatch_many"):
            _by_graphs(
                captures, batches, query_len, padded[label], extra[label], piecewise_us
            )
        else:
            sizes = _sizes(captures)
            _by_sizes(sizes, query_len, padded[label], extra[label], piecewise_us)
    return Served(padded, extra)


def _sizes(captures: Iterable[Any]) -> list[int]:
    return sorted({count("a capture size", size) for size in captures})


def _by_sizes(
    sizes: list[int],
    query_len: int,
    padded: npt.NDArray[np.float64],
    extra: npt.NDArray[np.float64],
    piecewise_us: float,
) -> None:
    max_num_seqs = len(padded)
    rounded = {-(-size // query_len) for size in sizes}
    full = sorted(
        n for n in rounded if n * query_len <= sizes[-1] and n <= max_num_seqs
    )
    for batch in range(1, max_num_seqs + 1):
        num_tokens = batch * query_len
        at = bisect_left(full, batch)
        if at < len(full):
            padded[batch - 1], extra[batch - 1] = full[at], 0.0
        elif num_tokens <= sizes[-1]:
            size = sizes[bisect_left(sizes, num_tokens)]
            padded[batch - 1] = size / query_len
            extra[batch - 1] = piecewise_us


def _by_graphs(
    graphs: Any,
    batches: npt.NDArray[np.int64],
    query_len: int,
    padded: npt.NDArray[np.float64],
    extra: npt.NDArray[np.float64],
    piecewise_us: float,
) -> None:
    chosen = graphs.dispatch_many(batches, batches * query_len, query_len)
    for row, index in enumerate(np.asarray(chosen).tolist()):
        if index < 0:
            continue
        graph = graphs.all_graphs[index]
        padded[row] = graph.num_tokens / query_len
        extra[row] = 0.0 if graph.mode == "FULL" else piecewise_us
