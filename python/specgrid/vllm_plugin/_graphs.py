# SPDX-License-Identifier: Apache-2.0
"""Seam: which graphs a V2 manager captures, and its dispatch table.

vLLM's manager looks a step up in `_candidates`: for a token count and LoRA case, the
graphs to try in order. specgrid computes both that table and the capture order, and
hands them over as vLLM's own descriptor objects, so that vLLM's dispatch, assertions,
memory profiling and logs work on them unchanged. Lists are shared between token counts
with the same candidates; vLLM only reads them.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid import Lookup, _backend

from . import _log, _plan, _schedule_of, _settings
from ._seam import LEAVE, Seam

MODULE = "vllm.v1.worker.gpu.cudagraph_utils"

_POLICIES = {"vllm": 0, "per-query-length": 1, "reachable": 2}
_NONE, _PIECEWISE, _FULL = 0, 1, 2

Int64 = npt.NDArray[np.int64]


class Shape(NamedTuple):
    """What a manager's tables depend on, apart from the policy."""

    sizes: list[int]
    max_size: int
    max_num_seqs: int
    query_lens: list[int]
    decode_query_len: int
    diagonal: list[tuple[int, int, int]]
    lora_cases: list[int]
    decode_mode: int
    mixed_mode: int
    mixed_max_tokens: int
    varlen_decode: bool


def shape_of(
    manager: Any, settings: _settings.Settings, lookup: Lookup | None
) -> Shape | None:
    """Read a manager that has everything but its tables.

    Args:
        manager: A CudaGraphManager inside its constructor.
        settings: Settings of its configuration.
        lookup: Its schedule's table, None when K is static.

    Returns:
        The shape, or None for what is left to vLLM: no graphs, micro-batches (whose
        thresholds vLLM keeps), or a size list that is not plainly ascending.
    """
    config = manager.vllm_config
    compilation = manager.compilation_config
    mode = manager.cudagraph_mode
    if not (mode and compilation.cudagraph_capture_sizes):
        return None
    if manager.ubatch_runner is not None:
        return None
    sizes = sorted(compilation.cudagraph_capture_sizes)
    if sizes[0] < 1 or any(a == b for a, b in pairwise(sizes)):
        return None
    num_spec = config.num_speculative_tokens
    query_len = manager.decode_query_len
    max_num_seqs = manager.max_num_reqs
    extra = query_len - num_spec  # tokens a step samples for a request, beside drafts
    diagonal = [(query_len, 1, max_num_seqs)]
    query_lens = [query_len]
    if lookup is not None and extra > 0:
        if is_fixed_width(manager):
            # This drafter runs every step at one width, whatever K is.
            query_lens = sorted({k + extra for k in reachable_ks(lookup)})
            if settings.policy == "reachable":
                query_lens = [query_len]
        else:
            diagonal = [(k + extra, lo, hi) for k, lo, hi in diagonal_of(lookup)]
            query_lens = sorted({q for q, _, _ in diagonal})
    elif lookup is not None and query_len == 1:
        # Draft decode steps happen only where at least two tokens are drafted.
        diagonal = merge([(1, lo, hi) for k, lo, hi in diagonal_of(lookup) if k > 1])
        diagonal = diagonal or [(1, 1, max_num_seqs)]
    separate = mode.separate_routine()
    return Shape(
        sizes=sizes,
        max_size=compilation.max_cudagraph_capture_size,
        max_num_seqs=max_num_seqs,
        query_lens=query_lens,
        decode_query_len=query_len,
        diagonal=diagonal,
        lora_cases=list(manager.lora_capture_cases),
        decode_mode=mode_number(mode.decode_mode()) if separate else _NONE,
        mixed_mode=mode_number(mode.mixed_mode()),
        mixed_max_tokens=(
            max_num_seqs * query_len if config.cache_config.use_kda_recoverssm else 0
        ),
        varlen_decode=bool(manager.varlen_decode),
    )


def table_of(shape: Shape, policy: str) -> Any:
    """The core's graph table for a shape under a policy."""
    limits = [
        shape.max_num_seqs,
        shape.max_size,
        shape.decode_query_len,
        shape.mixed_max_tokens,
        1,
        0,
    ]
    return _backend.active().GraphTable(
        _int64(shape.sizes),
        _int64(shape.query_lens),
        _int64(shape.lora_cases),
        _int64(shape.diagonal).reshape(-1),
        _int64(limits),
        shape.decode_mode,
        shape.mixed_mode,
        shape.varlen_decode,
        _POLICIES[policy],
        True,
    )


def objects(
    table: Any,
) -> tuple[dict[Any, list[Any]], dict[tuple[int, int], list[Any]]]:
    """A table as vLLM's objects.

    Args:
        table: A GraphTable.

    Returns:
        `_capture_descs` and `_candidates` as vLLM's manager holds them.
    """
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor

    modes = [CUDAGraphMode.NONE, CUDAGraphMode.PIECEWISE, CUDAGraphMode.FULL]
    columns = [column.tolist() for column in table.columns()]
    descriptors = [
        BatchExecutionDescriptor(
            modes[mode],
            num_tokens,
            num_reqs or None,
            query_len or None,
            max_query_len or None,
            num_loras,
            num_ubatches,
        )
        for (
            mode,
            num_tokens,
            num_reqs,
            query_len,
            num_loras,
            max_query_len,
            num_ubatches,
        ) in zip(*columns, strict=True)
    ]
    split = columns[0].count(_PIECEWISE)
    captured = {
        modes[_FULL]: descriptors[split:],
        modes[_PIECEWISE]: descriptors[:split],
    }
    candidates: dict[tuple[int, int], list[Any]] = {}
    lora_cases, firsts, lasts, offsets, indices = (
        column.tolist() for column in table.candidates()
    )
    for row, (loras, first, last) in enumerate(
        zip(lora_cases, firsts, lasts, strict=True)
    ):
        tried = [descriptors[i] for i in indices[offsets[row] : offsets[row + 1]]]
        keys = zip(range(first, last + 1), repeat(loras))
        candidates.update(dict.fromkeys(keys, tried))
    return {mode: descs for mode, descs in captured.items() if descs}, candidates


def reachable_ks(lookup: Lookup) -> list[int]:
    """Every K some batch and context of this server can get."""
    return [tier.k for tier in lookup.tiers()]


def diagonal_of(lookup: Lookup) -> list[tuple[int, int, int]]:
    """(k, first batch, last batch) of every batch some context column gives k."""
    starts, _, k = lookup._impl.canonical()
    first = starts.tolist()
    rows = k.reshape(len(first), -1).tolist()
    runs: dict[int, list[tuple[int, int]]] = {}
    for lo, end, row in zip(
        first, [*first[1:], lookup.max_num_seqs + 1], rows, strict=True
    ):
        for value in set(row):
            spans = runs.setdefault(value, [])
            if spans and spans[-1][1] == lo - 1:
                spans[-1] = (spans[-1][0], end - 1)
            else:
                spans.append((lo, end - 1))
    return [(value, lo, hi) for value in sorted(runs) for lo, hi in runs[value]]


def merge(runs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Runs of one query length with touching neighbours joined."""
    merged: list[tuple[int, int, int]] = []
    for q, lo, hi in sorted(runs, key=lambda run: run[1]):
        if merged and lo <= merged[-1][2] + 1:
            merged[-1] = (q, merged[-1][1], max(hi, merged[-1][2]))
        else:
            merged.append((q, lo, hi))
    return merged


def mode_number(mode: Any) -> int:
    """vLLM's CUDAGraphMode as the core's number."""
    return {"PIECEWISE": _PIECEWISE, "FULL": _FULL}.get(
        getattr(mode, "name", ""), _NONE
    )


def is_fixed_width(manager: Any) -> bool:
    """Whether a drafter's steps are one width for every K (parallel drafting)."""
    return type(manager).__name__ == "DFlashCudaGraphManager"


def is_target(manager: Any) -> bool:
    """Whether a manager serves the target model, not a drafter."""
    return type(manager).__name__ in ("ModelCudaGraphManager", "CudaGraphManager")


def _answer(original: Callable[..., None], manager: Any) -> Any:
    config = manager.vllm_config
    settings = _settings.read(config)
    lookup = _schedule_of.lookup_of(config, settings)
    if lookup is None and _schedule_of.is_dynamic(config):
        return LEAVE  # vLLM refuses this schedule, in its words
    shape = shape_of(manager, settings, lookup)
    if shape is None:
        return LEAVE
    plan = _plan.of(config, settings)
    policy = settings.policy
    if plan is not None and is_target(manager):
        policy = plan.policy or "plan"
    if plan is not None and policy == "plan":
        if not shape.decode_mode or shape.varlen_decode:
            return LEAVE
        captured, candidates = _plan.objects(plan, shape.lora_cases, shape.max_num_seqs)
    else:
        captured, candidates = objects(table_of(shape, policy))
    if settings.shadow:
        _pending_shadow[id(manager)] = captured, candidates
        return LEAVE
    if is_target(manager) and policy != "plan":
        _announce(shape, policy)
    # Last, so that vLLM finds its tables empty when anything above fails.
    manager._capture_descs.update(captured)
    manager._candidates.update(candidates)
    return None


_pending_shadow: dict[int, tuple[Any, Any]] = {}


def _compare(result: None, manager: Any) -> None:
    """Shadow mode: name the first difference, keep vLLM's tables."""
    if id(manager) not in _pending_shadow:
        return
    captured, candidates = _pending_shadow.pop(id(manager))
    if {m: d for m, d in manager._capture_descs.items() if d} != captured:
        _log.warning("shadow: captured graphs of %s differ", type(manager).__name__)
    elif manager._candidates != candidates:
        key = next(
            k
            for k in [*manager._candidates, *candidates]
            if manager._candidates.get(k) != candidates.get(k)
        )
        _log.warning(
            "shadow: candidates of %s at (tokens, LoRAs) %s differ: vLLM %s, "
            "specgrid %s",
            type(manager).__name__,
            key,
            manager._candidates.get(key),
            candidates.get(key),
        )


def _announce(shape: Shape, policy: str) -> None:
    """One line about the target's graphs, against what vLLM would capture."""
    if policy == "vllm" or not shape.decode_mode or shape.varlen_decode:
        return
    key = (shape.max_num_seqs, tuple(shape.sizes), tuple(shape.diagonal), policy)
    if key in _announced:
        return
    _announced.add(key)
    ours, theirs = table_of(shape, policy), table_of(shape, "vllm")
    graphs, vllm_graphs = _count_full(ours), _count_full(theirs)
    served, vllm_served = _count_served(ours, shape), _count_served(theirs, shape)
    if (graphs, served) != (vllm_graphs, vllm_served):
        _log.info(
            "%d FULL graphs instead of %d; %d of %d decode batches run on one, "
            "instead of %d",
            graphs,
            vllm_graphs,
            served,
            sum(hi - lo + 1 for _, lo, hi in shape.diagonal),
            vllm_served,
        )


_announced: set[tuple[Any, ...]] = set()


def _count_full(table: Any) -> int:
    return int((table.columns()[0] == _FULL).sum())


def _count_served(table: Any, shape: Shape) -> int:
    """Decode batches of the diagonal whose graph is FULL, without LoRA."""
    modes = table.columns()[0]
    served = 0
    for q, lo, hi in shape.diagonal:
        reqs = np.arange(lo, hi + 1)
        _, graphs = table.dispatch_many(
            reqs, reqs * q, _int64([q]), _int64([min(shape.lora_cases)]), q, 1
        )
        served += int((modes[graphs[graphs >= 0]] == _FULL).sum())
    return served


def _int64(values: Any) -> Int64:
    return np.asarray(values, dtype=np.int64)


def _stub_manager(
    sizes: list[int],
    max_num_seqs: int,
    num_spec: int,
    rows: Any,
    query_len: int,
    mode: str,
    lora_cases: list[int],
) -> Any:
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    speculative = None
    if num_spec:
        speculative = types.SimpleNamespace(
            num_speculative_tokens_per_batch_size=rows,
            uses_dynamic_speculative_decoding=lambda: rows is not None,
        )
    manager = object.__new__(CudaGraphManager)
    manager.vllm_config = types.SimpleNamespace(
        speculative_config=speculative,
        num_speculative_tokens=num_spec,
        scheduler_config=types.SimpleNamespace(max_num_seqs=max_num_seqs),
        cache_config=types.SimpleNamespace(use_kda_recoverssm=False),
        additional_config={},
    )
    manager.compilation_config = types.SimpleNamespace(
        cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=sizes[-1]
    )
    manager.cudagraph_mode = CUDAGraphMode[mode]
    manager.max_num_reqs = max_num_seqs
    manager.decode_query_len = query_len
    manager.varlen_decode = False
    manager.ubatch_runner = None
    manager.lora_capture_cases = lora_cases
    manager._candidates = {}
    manager._capture_descs = {}
    return manager


_GRID = [1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48]
_ROWS = [[1, 4, 3], [5, 8, 1], [9, 16, 0]]
_BATTERY: tuple[tuple[Any, ...], ...] = (
    (_GRID, 16, 0, None, 1, "FULL_AND_PIECEWISE", [0]),
    (_GRID, 16, 3, None, 4, "FULL_AND_PIECEWISE", [0]),
    (_GRID, 16, 3, _ROWS, 4, "FULL_AND_PIECEWISE", [0, 1, 3]),
    (_GRID, 10, 3, _ROWS, 4, "FULL_DECODE_ONLY", [0]),
    (_GRID, 16, 3, _ROWS, 1, "FULL_DECODE_ONLY", [0]),
    (_GRID, 16, 3, None, 4, "FULL", [0]),
    (_GRID, 16, 3, _ROWS, 4, "PIECEWISE", [2]),
)


def _check(original: Callable[..., None]) -> str | None:
    settings = _settings.Settings(policy="vllm")
    for case in _BATTERY:
        manager = _stub_manager(*case)
        original(manager)
        lookup = _schedule_of.lookup_of(manager.vllm_config, settings)
        shape = shape_of(manager, settings, lookup)
        ours = objects(table_of(shape, "vllm")) if shape else ({}, {})
        if (manager._capture_descs, manager._candidates) != ours:
            return f"graphs or candidates of {case} differ"
    return None


SEAM = Seam(
    "graphs",
    MODULE,
    "CudaGraphManager._init_candidates",
    (),
    "graphs the schedule can replay, one ladder a query length, built natively",
    answer=_answer,
    after=_compare,
    check=_check,
)
