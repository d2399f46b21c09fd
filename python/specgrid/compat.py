# SPDX-License-Identifier: Apache-2.0
"""The names, keywords and answers of other engines, for code written for them.

`build_dynamic_sd_schedule_lookup` is vLLM's function in every respect. The
`*_batch_sizes` functions give the graph sizes other engines would capture, in
requests, to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import count
from specgrid._errors import CONTEXT_INFINITY, form_error, kind_of, schedule_error
from specgrid._rows import BATCH_ONLY, raise_row_fault

# Bounds beyond 2**62 mean the same as 2**62: no server has as many requests.
_FAR = 2**62
# A list of this many bytes is no schedule anybody serves with.
_MAX_LIST_BYTES = 1 << 30
_MAX_BATCH = 1 << 20


def build_dynamic_sd_schedule_lookup(
    num_speculative_tokens_per_batch_size: object,
    vllm_max_batch_size: int,
    vllm_num_speculative_tokens: int,
) -> list[int]:
    """vLLM's dense schedule: name, keywords, result and error phrases.

    Equals `vllm.v1.spec_decode.dynamic.utils.build_dynamic_sd_schedule_lookup`
    of vLLM 0.33.0, which passes every part of an entry through `int()`; use
    `Schedule` for strict reading.

    Args:
        num_speculative_tokens_per_batch_size: List of (first batch, last batch,
            draft tokens).
        vllm_max_batch_size: max_num_seqs; requests.
        vllm_num_speculative_tokens: Largest number of draft tokens.

    Returns:
        Draft tokens by batch; index 0 is unused and 0.

    Raises:
        ValueError: Where vLLM raises one, with vLLM's phrases in the text; or the
            list would take over a gibibyte.

    Example:
        >>> build_dynamic_sd_schedule_lookup([[1, 2, 3], [4, 9, 1]], 5, 3)
        [0, 3, 3, 3, 1, 1]
    """
    if vllm_max_batch_size <= 0:
        raise ValueError(f"vllm_max_batch_size must be > 0, not {vllm_max_batch_size}")
    if vllm_num_speculative_tokens <= 0:
        raise ValueError(
            "vllm_num_speculative_tokens must be > 0, not "
            f"{vllm_num_speculative_tokens}"
        )
    asked = 8 * (vllm_max_batch_size + 1)
    if asked > _MAX_LIST_BYTES:
        raise ValueError(
            f"vllm_max_batch_size {vllm_max_batch_size} asks for a list of "
            f"{asked / 2**30:,.1f} GiB; use Schedule(...).lookup(...), which takes none"
        )
    schedule = num_speculative_tokens_per_batch_size
    core = _backend.active()
    plain = core.rows_from_list(schedule) if type(schedule) is list else None
    if plain is None or not plain[1]:
        rows = _through_int(schedule)
    else:
        rows = plain[0].reshape(-1, 5)
    fault, batches, contexts, k = core.build_grid(rows, BATCH_ONLY)
    if fault is not None:
        raise schedule_error(fault, rows, BATCH_ONLY)
    table: list[int] = core.Lookup(
        batches, contexts, k, vllm_max_batch_size, vllm_num_speculative_tokens
    ).column_list()
    return table


def _through_int(schedule: object) -> npt.NDArray[np.int64]:
    """Rows as vLLM reads them: lists only, three parts each, through int()."""
    if schedule is None:
        raise form_error("none", None, "")
    if not isinstance(schedule, list):
        raise form_error("not_list", None, kind_of(schedule))
    if not schedule:
        raise form_error("empty", None, "")
    rows: list[tuple[int, ...]] = []
    for index, entry in enumerate(schedule):
        try:
            if not isinstance(entry, list | tuple) or len(entry) != 3:
                raise form_error("arity", index, f"{entry!r:.80}")
            low, high, k = (max(min(int(part), _FAR), -_FAR) for part in entry)
        except (ValueError, TypeError, OverflowError):
            raise_row_fault(rows, BATCH_ONLY)  # vLLM judges row by row
            raise
        rows.append((low, high, 1, CONTEXT_INFINITY, k))
    return np.array(rows, dtype=np.int64)


def tensorrt_llm_batch_sizes(
    max_batch_size: int, *, padding: bool = True, extra: Iterable[int] = ()
) -> list[int]:
    """TensorRT-LLM's default CUDA-graph batch sizes, in requests.

    Args:
        max_batch_size: `cuda_graph_config.max_batch_size`.
        padding: `enable_padding`; without it small sizes are listed one by one.
        extra: Keys of `draft_len_schedule`; those up to the maximum are merged.

    Returns:
        Ascending sizes that end at the maximum.

    Example:
        >>> tensorrt_llm_batch_sizes(300)[-4:]
        [128, 192, 256, 300]
    """
    top = count("max_batch_size", max_batch_size, high=_MAX_BATCH)
    if padding:
        sizes = {1, 2, 4, *range(8, 129, 8), *range(192, top + 1, 64)}
    else:
        sizes = {*range(1, 32), 32, 64, 128, *_powers_of_two(top)}
    sizes |= {count("extra", size) for size in extra}
    return sorted({size for size in sizes if size < top} | {top})


def sglang_batch_sizes(max_bs: int, *, speculative: bool = False) -> list[int]:
    """SGLang's default CUDA-graph batch sizes, in requests.

    Args:
        max_bs: `--cuda-graph-max-bs`; always included (SGLang #21005).
        speculative: Whether a speculative algorithm is set.

    Example:
        >>> sglang_batch_sizes(9, speculative=True)
        [1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    top = count("max_bs", max_bs, high=_MAX_BATCH)
    if speculative:
        steps = [(1, 8, 1), (10, 32, 2), (40, 64, 4), (72, 256, 8), (272, top, 16)]
    else:
        steps = [(1, 2, 1), (4, 12, 4), (16, 256, 8), (272, 511, 16), (512, top, 32)]
    sizes = {n for lo, hi, step in steps for n in range(lo, min(hi, top) + 1, step)}
    return sorted(sizes | {top})


def lmdeploy_batch_sizes(max_batches: int) -> list[int]:
    """LMDeploy's CUDA-graph batch sizes, in requests.

    Example:
        >>> lmdeploy_batch_sizes(1000)[-4:]
        [256, 512, 768, 1000]
    """
    top = count("max_batches", max_batches, high=_MAX_BATCH)
    sizes = {*_powers_of_two(min(top, 256)), *range(256, top + 1, 256)}
    return sorted({size for size in sizes if size < top} | {top})


def _powers_of_two(top: int) -> Iterable[int]:
    return (1 << i for i in range(top.bit_length()))


__all__ = [
    "build_dynamic_sd_schedule_lookup",
    "lmdeploy_batch_sizes",
    "sglang_batch_sizes",
    "tensorrt_llm_batch_sizes",
]
