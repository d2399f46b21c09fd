# SPDX-License-Identifier: Apache-2.0
"""Seams: before graphs are captured, and after a step was given one.

Before capture, a drafter's (graph, K) pairs are cut down to those a step can have, and
all ranks compare what they are about to capture. After dispatch the step is counted.
"""

from __future__ import annotations

from typing import Any

from specgrid import Lookup
from specgrid._version import __version__

from . import _agreement, _counters, _graphs, _schedule_of, _settings
from ._seam import Seam

_COUNTERS = "_specgrid_counters"


def reachable_pairs(
    requests: list[int], runs: list[tuple[int, int, int]]
) -> list[tuple[int, list[int]]]:
    """Which K a draft graph of each request count can be asked for.

    The drafter's graph for b requests is the smallest that holds them, and K is the
    one the schedule chose for b; K of 0 and 1 have no draft decode step.

    Args:
        requests: Request counts of the captured graphs.
        runs: (k, first batch, last batch) of the schedule.

    Returns:
        (request count, its Ks, largest first), largest request count first.
    """
    ordered = sorted(set(requests))
    pairs = []
    for below, count in zip([0, *ordered], ordered, strict=False):
        ks = {k for k, lo, hi in runs if k > 1 and lo <= count and hi > below}
        pairs.append((count, sorted(ks, reverse=True)))
    return pairs[::-1]


def _specialize(manager: Any, lookup: Lookup) -> None:
    """Replace vLLM's product of draft graphs and Ks by the pairs that can occur."""
    from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils import (
        SpeculatorBatchDescriptor,
    )

    runs = _graphs.diagonal_of(lookup)
    result = {}
    for mode, descs in manager._capture_descs.items():
        if not descs or not all(
            isinstance(d, SpeculatorBatchDescriptor) for d in descs
        ):
            return
        plain: dict[int, Any] = {}
        for desc in descs:
            plain.setdefault(desc.num_tokens, desc)
        if any(d.num_tokens != d.num_reqs for d in plain.values()):
            return  # not one token a request: not the draft decode this is about
        fields = {n: vars(desc) for n, desc in plain.items()}
        result[mode] = [
            SpeculatorBatchDescriptor(**{**fields[n], "num_speculative_tokens": k})
            for n, ks in reachable_pairs(list(plain), runs)
            for k in ks
        ]
    manager._capture_descs = result


def _before_capture(manager: Any, *_: Any, **__: Any) -> None:
    config = manager.vllm_config
    settings = _settings.read(config)
    lookup = _schedule_of.lookup_of(config, settings)
    if lookup is not None and not settings.shadow:
        two_d = settings.schedule is not None
        if (settings.policy == "reachable" or two_d) and not _graphs.is_target(manager):
            _specialize(manager, lookup)
    if _graphs.is_target(manager):
        _agree(
            config,
            settings,
            lookup,
            {
                mode.name: [
                    [
                        d.num_tokens,
                        d.num_reqs,
                        d.uniform_token_count,
                        d.max_query_len,
                        d.num_active_loras,
                        d.num_ubatches,
                    ]
                    for d in descs
                ]
                for mode, descs in manager._capture_descs.items()
            },
        )


def _before_v1_capture(runner: Any, *_: Any, **__: Any) -> None:
    config = runner.vllm_config
    settings = _settings.read(config)
    graphs = {
        mode.name: sorted([d.num_tokens, d.uniform, d.num_active_loras] for d in descs)
        for mode, descs in runner.cudagraph_dispatcher.get_capture_descs()
    }
    _agree(config, settings, _schedule_of.lookup_of(config, settings), graphs)


def parts_of(
    vllm_config: Any,
    settings: _settings.Settings,
    lookup: Lookup | None,
    graphs: dict[str, Any],
) -> dict[str, str]:
    """What has to be equal on every rank, as digests by name.

    Args:
        vllm_config: The configuration.
        settings: Its settings.
        lookup: Its schedule's table, None when K is static.
        graphs: Captured graphs by mode, JSON values.
    """
    num_spec = vllm_config.num_speculative_tokens
    return {
        "specgrid version": __version__,
        "policy": settings.policy,
        "schedule": f"static K={num_spec}" if lookup is None else lookup.digest[:16],
        "capture sizes": _agreement.digest(
            vllm_config.compilation_config.cudagraph_capture_sizes
        ),
        "graph set": _agreement.digest(graphs),
    }


def _agree(
    vllm_config: Any,
    settings: _settings.Settings,
    lookup: Lookup | None,
    graphs: dict[str, Any],
) -> None:
    import torch.distributed as dist

    parallel = vllm_config.parallel_config
    if not dist.is_available() or not dist.is_initialized():
        return
    if getattr(parallel, "enable_elastic_ep", False):
        return  # ranks join and capture at different times
    from vllm.distributed.parallel_state import get_world_group

    group = get_world_group()
    if group.world_size > 1:
        _agreement.compare(
            parts_of(vllm_config, settings, lookup, graphs), group.cpu_group
        )


def _count_v2(
    result: Any,
    cudagraph_manager: Any,
    num_reqs: int,
    num_tokens: int,
    uniform_token_count: int | None,
    *_: Any,
    **__: Any,
) -> None:
    if cudagraph_manager is None:
        return
    try:
        counters = getattr(cudagraph_manager, _COUNTERS)
    except AttributeError:
        counters = _open(cudagraph_manager, _graphs.is_target(cudagraph_manager))
    if counters is None:
        return
    if not cudagraph_manager._graphs_captured and cudagraph_manager._capture_descs:
        return  # warm-up and profiling before the graphs exist
    counters.add(
        _counters.STEP, uniform_token_count or 0, num_reqs, result[0].cg_mode.value
    )


def _count_v1(
    result: Any,
    runner: Any,
    num_tokens: int,
    num_reqs: int,
    num_scheduled_tokens_np: Any,
    max_num_scheduled_tokens: int,
    *_: Any,
    force_uniform_decode: bool | None = None,
    **__: Any,
) -> None:
    if force_uniform_decode is not None:
        return  # a dummy run
    try:
        counters = getattr(runner, _COUNTERS)
    except AttributeError:
        counters = _open(runner, True)
    if counters is None:
        return
    uniform = (
        max_num_scheduled_tokens * num_reqs == num_tokens
        and max_num_scheduled_tokens <= runner.uniform_decode_query_len
    )
    counters.add(
        _counters.STEP,
        int(max_num_scheduled_tokens) if uniform else 0,
        num_reqs,
        result[0].value,
    )


def _open(owner: Any, wanted: bool) -> _counters.Counters | None:
    counters = None
    if wanted and _settings.read(owner.vllm_config).counters and _is_first_rank():
        counters = _counters.open_counters("worker")
    setattr(owner, _COUNTERS, counters)
    return counters


def _is_first_rank() -> bool:
    """All ranks of a model run the same steps: one of them counts."""
    import torch.distributed as dist

    return not dist.is_initialized() or dist.get_rank() == 0


def _check_modes(original: Any) -> str | None:
    from vllm.config.compilation import CUDAGraphMode

    found = tuple(CUDAGraphMode(i).name for i in range(3))
    return None if found == _counters.MODES else f"graph modes are {found}"


CAPTURE = Seam(
    "capture",
    _graphs.MODULE,
    "CudaGraphManager.capture",
    ("create_forward_fn", "progress_bar_desc"),
    "drafter graphs only for K that can occur; all ranks agree first",
    before=_before_capture,
)

V1_CAPTURE = Seam(
    "v1-capture",
    "vllm.v1.worker.gpu_model_runner",
    "GPUModelRunner.capture_model",
    (),
    "V1 runner: all ranks agree before capture",
    before=_before_v1_capture,
)

STEPS = Seam(
    "steps",
    "vllm.v1.worker.gpu.dp_utils",
    "dispatch_cg_and_sync_dp",
    ("cudagraph_manager", "num_reqs", "num_tokens", "uniform_token_count"),
    "steps counted by query length, requests and graph mode",
    after=_count_v2,
    check=_check_modes,
)

V1_STEPS = Seam(
    "v1-steps",
    "vllm.v1.worker.gpu_model_runner",
    "GPUModelRunner._determine_batch_execution_and_padding",
    ("num_tokens", "num_reqs", "num_scheduled_tokens_np", "max_num_scheduled_tokens"),
    "V1 runner: the same",
    after=_count_v1,
    check=_check_modes,
)
