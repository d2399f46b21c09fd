# SPDX-License-Identifier: Apache-2.0
"""Seam: the token counts vLLM's configuration captures.

vLLM resolves a configuration once in the front end and again in the engine core, where
its own first answer looks like a list the user wrote. So the seam only ever fills an
empty list: it writes the sizes it computed as if they had been given, and lets vLLM's
method finish along its explicit branch. A second pass finds them and changes nothing.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable
from typing import Any, cast

from specgrid import ConfigError, capture_sizes
from specgrid._capture import Rule

from . import _log, _plan, _schedule_of, _settings
from ._seam import Seam


def _fill(vllm_config: Any) -> None:
    compilation = vllm_config.compilation_config
    if (
        vllm_config.model_config is None
        or vllm_config.model_config.enforce_eager
        or not compilation.cudagraph_mode
    ):
        return
    settings = _settings.read(vllm_config)
    plan = _plan.of(vllm_config, settings)
    if plan is not None:
        reason = _plan.misfit(plan, vllm_config)
        if reason is None:
            _use(compilation, plan.sizes)
            return
        _plan.drop(vllm_config, settings, reason)
    if compilation.cudagraph_capture_sizes is not None:
        return
    explicit_max = compilation.max_cudagraph_capture_size
    if explicit_max is not None and settings.rule == "vllm-0.33":
        return  # vLLM truncates an explicit maximum and says so itself
    sizes = _compute(vllm_config, settings, cast(Rule, settings.rule))
    if sizes is None:
        return
    if settings.shadow:
        _pending_shadow[id(compilation)] = sizes
        return
    if explicit_max is not None and sizes[-1] != explicit_max:
        _log.once(
            logging.INFO,
            "max_cudagraph_capture_size %d becomes %d",
            explicit_max,
            sizes[-1],
        )
    _use(compilation, sizes)


def _use(compilation: Any, sizes: list[int]) -> None:
    compilation.cudagraph_capture_sizes = list(sizes)
    compilation.max_cudagraph_capture_size = sizes[-1]


def _compute(
    vllm_config: Any, settings: _settings.Settings, rule: Rule
) -> list[int] | None:
    """Sizes under a rule, or None where vLLM would refuse (and will say why)."""
    from vllm.platforms import current_platform

    compilation = vllm_config.compilation_config
    scheduler = vllm_config.scheduler_config
    try:
        result = capture_sizes(
            scheduler.max_num_seqs,
            vllm_config.num_speculative_tokens,
            _schedule(vllm_config, settings),
            max_num_batched_tokens=scheduler.max_num_batched_tokens,
            platform_ceiling=(
                1024 if current_platform.is_device_capability_family(100) else 512
            ),
            max_cudagraph_capture_size=compilation.max_cudagraph_capture_size,
            performance_mode=vllm_config.performance_mode,
            rule=rule,
        )
    except ConfigError:
        return None
    return result.sizes or None


def _schedule(vllm_config: Any, settings: _settings.Settings) -> Any:
    """Our schedule where one is set, else vLLM's rows as they are."""
    from specgrid import Schedule

    rows = getattr(vllm_config.speculative_config, _schedule_of.FIELD, None)
    if rows is not None and settings.schedule is not None and not settings.shadow:
        return Schedule(settings.schedule, ragged=True)
    return rows


_pending_shadow: dict[int, list[int]] = {}


def _compare(result: None, vllm_config: Any) -> None:
    compilation = vllm_config.compilation_config
    ours = _pending_shadow.pop(id(compilation), None)
    if ours is not None and ours != compilation.cudagraph_capture_sizes:
        _log.warning(
            "shadow: capture sizes differ: vLLM %s, specgrid %s",
            compilation.cudagraph_capture_sizes,
            ours,
        )


def _stub(
    max_num_seqs: int,
    num_spec: int,
    rows: Any,
    tokens: int,
    performance_mode: str,
) -> Any:
    """The fields vLLM's method reads, and nothing else."""
    from vllm.config.compilation import CUDAGraphMode

    speculative = None
    if num_spec:
        speculative = types.SimpleNamespace(
            num_speculative_tokens_per_batch_size=rows,
            uses_dynamic_speculative_decoding=lambda: rows is not None,
        )
    return types.SimpleNamespace(
        model_config=types.SimpleNamespace(enforce_eager=False),
        compilation_config=types.SimpleNamespace(
            cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
            cudagraph_capture_sizes=None,
            max_cudagraph_capture_size=None,
            post_init_cudagraph_sizes=lambda: None,
        ),
        scheduler_config=types.SimpleNamespace(
            max_num_seqs=max_num_seqs, max_num_batched_tokens=tokens
        ),
        speculative_config=speculative,
        num_speculative_tokens=num_spec,
        uniform_decode_query_len=1 + num_spec,
        performance_mode=performance_mode,
        additional_config={},
    )


_BATTERY: tuple[tuple[int, int, Any, int, str], ...] = (
    (256, 0, None, 8192, "balanced"),
    (100, 0, None, 8192, "balanced"),
    (40, 0, None, 8192, "interactivity"),
    (32, 16, None, 8192, "balanced"),
    (512, 3, None, 8192, "balanced"),
    (300, 3, None, 500, "balanced"),
    (1, 3, None, 8192, "balanced"),
    (256, 3, [[1, 64, 3], [65, 128, 1], [129, 512, 0]], 8192, "balanced"),
    (
        256,
        5,
        [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]],
        8192,
        "balanced",
    ),
    (32, 4, [[2, 8, 4]], 8192, "balanced"),  # refused by vLLM: one static tier
)


def _check(original: Callable[..., None]) -> str | None:
    for case in _BATTERY:
        theirs = _stub(*case)
        original(theirs)
        ours = _stub(*case)
        sizes = _compute(ours, _settings.Settings(), "vllm-0.33")
        expected = theirs.compilation_config.cudagraph_capture_sizes
        if sizes != expected:
            return f"max_num_seqs={case[0]}, K={case[1]}, schedule {case[2]} differs"
        _use(ours.compilation_config, sizes or [])
        original(ours)
        if (
            ours.compilation_config.cudagraph_capture_sizes != expected
            or ours.compilation_config.max_cudagraph_capture_size
            != theirs.compilation_config.max_cudagraph_capture_size
        ):
            return "a list given in advance is not kept"
    return None


SEAM = Seam(
    "sizes",
    "vllm.config.vllm",
    "VllmConfig._set_cudagraph_sizes",
    (),
    "capture sizes, an explicit maximum kept on request, saved plans",
    before=_fill,
    after=_compare,
    check=_check,
)
