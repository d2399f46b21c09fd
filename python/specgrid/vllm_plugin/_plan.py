# SPDX-License-Identifier: Apache-2.0
"""Saved plans: read once in the front end, checked, and sent along.

The file need not exist on other machines: what the processes need of it travels in the
configuration. A plan made for another server is refused with the reason, in an error
line, and the server starts without it: its graphs would not fit the steps.
"""

from __future__ import annotations

import logging
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from specgrid import CapturePlan, ConfigError

from . import _log, _schedule_of, _settings

_POLICY_OF = {"union": "vllm", "per-query-length": "per-query-length"}


class Plan(NamedTuple):
    """What the seams need of a plan.

    Attributes:
        sizes: Capture sizes for vLLM's configuration: the plan's own and, with
            keyed graphs, their token counts.
        piecewise: Sizes of PIECEWISE graphs.
        policy: Policy of the dispatch table; None for keyed graphs.
        graphs: (query_len, num_reqs) of keyed FULL graphs, or None.
        mode: vLLM's cudagraph_mode the plan was made for.
    """

    sizes: list[int]
    piecewise: list[int]
    policy: str | None
    graphs: list[tuple[int, int]] | None
    mode: str


def load(vllm_config: Any) -> None:
    """Read the plan file a configuration names, check it, and store its content.

    Args:
        vllm_config: The VllmConfig at the start of its __post_init__, its schedule
            already in place.
    """
    settings = _settings.read(vllm_config)
    if settings.plan is None or settings.plan_data is not None or settings.shadow:
        return
    try:
        plan = _read(settings.plan)
        reason = _mismatch(plan, vllm_config, settings)
    except ConfigError as error:
        reason = str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason is not None:
        _log.once(logging.ERROR, "plan %s is not used: %s", settings.plan, reason)
        _settings.record(vllm_config, plan=None)
        return
    _settings.record(
        vllm_config,
        plan_data={
            "sizes": list(plan.sizes),
            "graphs": [list(graph) for graph in plan.graphs],
            "dispatcher": plan.dispatcher,
            "mode": plan.mode,
        },
    )


def _read(name: str) -> CapturePlan:
    path = Path(name)
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for its writer, and the server with it.
        raise ConfigError(f"{path} is not a file")
    return CapturePlan.load(path)


def of(vllm_config: Any, settings: _settings.Settings) -> Plan | None:
    """The plan in force, or None.

    Args:
        vllm_config: The configuration.
        settings: Its settings.
    """
    data = settings.plan_data
    if data is None or settings.shadow:
        return None
    try:
        piecewise = [int(size) for size in data["sizes"]]
        graphs = [(int(q), int(n)) for q, n in data["graphs"]]
        keyed = data["dispatcher"] == "direct"
        policy = None if keyed else _POLICY_OF[data["dispatcher"]]
        sizes = sorted({*piecewise, *(q * n for q, n in graphs)})
        if sizes[0] < 1:
            raise ValueError(f"a graph of {sizes[0]} tokens")
        mode = str(data["mode"])
    except (LookupError, TypeError, ValueError) as error:
        _log.once(
            logging.ERROR,
            "plan_data, which specgrid writes by itself, is not used; leave it out: "
            "%s: %s",
            type(error).__name__,
            error,
        )
        return None
    return Plan(sizes, piecewise, policy, graphs if keyed else None, mode)


def misfit(plan: Plan, vllm_config: Any) -> str | None:
    """Why a plan does not fit what vLLM has made of the configuration.

    Args:
        plan: A plan.
        vllm_config: The configuration, its graph mode and runner resolved.

    Returns:
        The reason, or None.
    """
    compilation = vllm_config.compilation_config
    mode = compilation.cudagraph_mode.name
    if mode != plan.mode:
        return f"it is for cudagraph_mode {plan.mode}, vLLM runs {mode}"
    if plan.policy != "vllm" and not vllm_config.use_v2_model_runner:
        return "its dispatcher needs the V2 model runner (VLLM_USE_V2_MODEL_RUNNER=1)"
    query_len = 1 + vllm_config.num_speculative_tokens
    if plan.sizes[-1] < query_len and not vllm_config.use_v2_model_runner:
        return (
            f"it captures at most {plan.sizes[-1]} tokens, and the V1 model runner "
            f"does not start without room for one request of {query_len}"
        )
    tokens = vllm_config.scheduler_config.max_num_batched_tokens
    if plan.sizes[-1] > tokens:
        return (
            f"it captures {plan.sizes[-1]} tokens, more than "
            f"max_num_batched_tokens={tokens}"
        )
    given = compilation.cudagraph_capture_sizes
    if given is not None and sorted(set(given)) != plan.sizes:
        return "cudagraph_capture_sizes is given too and differs; leave one out"
    top = compilation.max_cudagraph_capture_size
    if top is not None and top != plan.sizes[-1]:
        return (
            f"max_cudagraph_capture_size={top} is given too and the plan ends at "
            f"{plan.sizes[-1]}; leave it out"
        )
    return None


def drop(vllm_config: Any, settings: _settings.Settings, reason: str) -> None:
    """Refuse a plan after all."""
    _log.once(logging.ERROR, "plan %s is not used: %s", settings.plan, reason)
    _settings.record(vllm_config, plan=None, plan_data=None)


def objects(
    plan: Plan, lora_cases: list[int], max_num_reqs: int
) -> tuple[dict[Any, list[Any]], dict[tuple[int, int], list[Any]]]:
    """Keyed graphs as vLLM's `_capture_descs` and `_candidates`.

    A uniform step takes the smallest planned graph of its own query length, any other
    step the smallest PIECEWISE one.

    Args:
        plan: A plan with keyed graphs.
        lora_cases: Active-LoRA counts vLLM captures.
        max_num_reqs: Most requests in a step.
    """
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor

    full: list[Any] = []
    piecewise: list[Any] = []
    candidates: dict[tuple[int, int], list[Any]] = {}
    keyed = sorted(
        ((q * n, n, q) for q, n in plan.graphs or () if n <= max_num_reqs),
        reverse=True,
    )
    for loras in lora_cases:
        mine = [
            BatchExecutionDescriptor(
                CUDAGraphMode.FULL, tokens, n, q, num_active_loras=loras
            )
            for tokens, n, q in keyed
        ]
        mixed = [
            BatchExecutionDescriptor(
                CUDAGraphMode.PIECEWISE, size, None, num_active_loras=loras
            )
            for size in sorted(plan.piecewise, reverse=True)
        ]
        full += mine
        piecewise += mixed
        first = 0
        for last in plan.sizes:
            nearest: dict[int, Any] = {}
            for desc in mine:  # largest first: the last one kept is the nearest
                if desc.num_tokens >= last:
                    nearest[desc.uniform_token_count] = desc
            tried = sorted(nearest.values(), key=lambda d: d.num_tokens)
            tried += [d for d in mixed if d.num_tokens >= last][-1:]
            keys = zip(range(first, last + 1), repeat(loras))
            candidates.update(dict.fromkeys(keys, tried))
            first = last + 1
    full.sort(key=lambda d: d.num_tokens, reverse=True)
    piecewise.sort(key=lambda d: d.num_tokens, reverse=True)
    captured = {CUDAGraphMode.FULL: full, CUDAGraphMode.PIECEWISE: piecewise}
    return {mode: descs for mode, descs in captured.items() if descs}, candidates


def _mismatch(
    plan: CapturePlan, vllm_config: Any, settings: _settings.Settings
) -> str | None:
    """Why a plan was made for another server, or None."""
    seqs = vllm_config.scheduler_config.max_num_seqs
    if plan.max_num_seqs != seqs:
        return f"it is for max_num_seqs={plan.max_num_seqs}, this server has {seqs}"
    num_spec = vllm_config.num_speculative_tokens
    if plan.num_speculative_tokens != num_spec:
        return (
            f"it is for num_speculative_tokens={plan.num_speculative_tokens}, this "
            f"server has {num_spec}"
        )
    lookup = _schedule_of.lookup_of(vllm_config, settings)
    here = None if lookup is None else lookup.digest
    if plan.schedule_digest != here:
        return (
            f"it is for {_named(plan.schedule_digest)}, this server has {_named(here)}"
        )
    if plan.rule != "vllm-0.33":
        return f"it is for the rule {plan.rule}, this vLLM follows vllm-0.33"
    if not plan.sizes and not plan.graphs:
        return "it captures nothing; use --compilation-config cudagraph_mode NONE"
    return None


def _named(digest: str | None) -> str:
    return "a static K" if digest is None else f"schedule {digest[:12]}"
