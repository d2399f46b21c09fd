# SPDX-License-Identifier: Apache-2.0
"""Seams: the padding table and the keys of the V1 runner's dispatcher.

The V1 runner has one query length and one graph a size, all of them reachable, so
nothing is left out here: the tables are vLLM's, written in one pass.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ._seam import LEAVE, Seam


def padding_table(sizes: list[int], max_size: int) -> list[int]:
    """Captured size for each token count 0..max_size.

    Args:
        sizes: Capture sizes, ascending.
        max_size: Largest token count.

    Returns:
        The smallest size that holds each token count, itself where captured. Above
        the last size vLLM writes max_size + 1, and 0 stays 0.
    """
    ends = np.asarray([0, *sizes, max_size + 1])
    counts = np.arange(max_size + 1)
    table: list[int] = ends[np.searchsorted(ends, counts)].tolist()
    return table


def _pad(original: Callable[..., None], dispatcher: Any) -> Any:
    config = dispatcher.compilation_config
    sizes, max_size = config.cudagraph_capture_sizes, config.max_cudagraph_capture_size
    if not _regular(sizes, max_size) or config.compile_sizes:
        return LEAVE  # vLLM checks compile_sizes against the table, in its words
    dispatcher._bs_to_padded_graph_size = padding_table(sizes, max_size)
    return None


def _regular(sizes: Any, max_size: Any) -> bool:
    return (
        isinstance(sizes, list)
        and bool(sizes)
        and type(max_size) is int
        and sizes[0] > 0
        and sizes[-1] <= max_size
        and all(a < b for a, b in pairwise(sizes))
    )


def _keys(
    original: Callable[..., None],
    dispatcher: Any,
    cudagraph_mode: Any,
    uniform_decode_query_len: int = 1,
) -> Any:
    from vllm.config.compilation import CUDAGraphMode
    from vllm.forward_context import BatchDescriptor

    config = dispatcher.compilation_config
    sizes, max_size = config.cudagraph_capture_sizes, config.max_cudagraph_capture_size
    query_len = dispatcher.uniform_decode_query_len
    full, none = CUDAGraphMode.FULL, CUDAGraphMode.NONE
    mixed_mode = cudagraph_mode.mixed_mode()
    decode = cudagraph_mode.decode_mode() == full and cudagraph_mode.separate_routine()
    if (
        cudagraph_mode == none
        or not _regular(sizes, max_size)
        or config.compile_sizes  # vLLM checks them, in its words
        or any(dispatcher.cudagraph_keys.values())
    ):
        return LEAVE
    max_num_seqs = dispatcher.vllm_config.scheduler_config.max_num_seqs
    widest = uniform_decode_query_len * max_num_seqs
    decode_sizes = [s for s in sizes if uniform_decode_query_len <= s <= widest]
    if decode and any(size % query_len for size in decode_sizes):
        return LEAVE  # vLLM asserts on these
    cases = [(n > 0, n) for n in dispatcher._get_lora_cases()]

    dispatcher.cudagraph_mode = cudagraph_mode
    dispatcher._compute_bs_to_padded_graph_size()
    dispatcher.captured_lora_counts = [n for _, n in cases if n]
    if mixed_mode != none:
        exact = mixed_mode != CUDAGraphMode.PIECEWISE
        dispatcher.cudagraph_keys[mixed_mode].update(
            BatchDescriptor(
                size, min(size, max_num_seqs) if exact else None, False, has_lora, n
            )
            for size in sizes
            for has_lora, n in cases
        )
    if decode:
        dispatcher.cudagraph_keys[full].update(
            BatchDescriptor(
                size, min(size // query_len, max_num_seqs), True, has_lora, n
            )
            for size in decode_sizes
            for has_lora, n in cases
        )
    dispatcher.keys_initialized = True
    return None


def _stub_dispatcher(
    sizes: list[int], max_size: int, max_num_seqs: int, query_len: int
) -> Any:
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher

    dispatcher = object.__new__(CudagraphDispatcher)
    dispatcher.compilation_config = types.SimpleNamespace(
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=max_size,
        compile_sizes=[],
        cudagraph_specialize_lora=True,
    )
    dispatcher.vllm_config = types.SimpleNamespace(
        lora_config=None,
        scheduler_config=types.SimpleNamespace(max_num_seqs=max_num_seqs),
    )
    dispatcher.uniform_decode_query_len = query_len
    dispatcher.cudagraph_keys = {
        CUDAGraphMode.PIECEWISE: set(),
        CUDAGraphMode.FULL: set(),
    }
    dispatcher.keys_initialized = False
    dispatcher.specialize_lora_count = False
    dispatcher.cudagraph_mode = CUDAGraphMode.NONE
    return dispatcher


_BATTERY: tuple[tuple[list[int], int, int, int], ...] = (
    ([1, 2, 4, 8, 16, 24, 32], 32, 32, 1),
    ([17, 34, 68, 510], 512, 32, 17),
    ([4, 8, 100], 100, 6, 4),
)


def _check_padding(original: Callable[..., None]) -> str | None:
    for case in _BATTERY:
        dispatcher = _stub_dispatcher(*case)
        original(dispatcher)
        ours = padding_table(case[0], case[1])
        if dispatcher._bs_to_padded_graph_size != ours:
            return f"padding table of sizes {case[0]} differs"
    return None


def _check_keys(original: Callable[..., None]) -> str | None:
    from vllm.config.compilation import CUDAGraphMode

    for case in _BATTERY:
        for mode in (
            CUDAGraphMode.FULL_AND_PIECEWISE,
            CUDAGraphMode.FULL_DECODE_ONLY,
            CUDAGraphMode.FULL,
            CUDAGraphMode.PIECEWISE,
        ):
            theirs, ours = _stub_dispatcher(*case), _stub_dispatcher(*case)
            original(theirs, mode, case[3])
            left = _keys(original, ours, mode, case[3]) is LEAVE
            if left or vars(ours) | _SAME != vars(theirs) | _SAME:
                return f"keys of sizes {case[0]} in mode {mode.name} differ"
    return None


_SAME: dict[str, Any] = {"vllm_config": None, "compilation_config": None}
"""Stand-ins compare by value, but their configurations hold functions."""


PADDING = Seam(
    "v1-padding",
    "vllm.v1.cudagraph_dispatcher",
    "CudagraphDispatcher._compute_bs_to_padded_graph_size",
    (),
    "V1 runner: token count to captured size, in one pass",
    answer=_pad,
    check=_check_padding,
)

KEYS = Seam(
    "v1-keys",
    "vllm.v1.cudagraph_dispatcher",
    "CudagraphDispatcher.initialize_cudagraph_keys",
    ("cudagraph_mode", "uniform_decode_query_len"),
    "V1 runner: graph keys, in one pass",
    answer=_keys,
    check=_check_keys,
)
