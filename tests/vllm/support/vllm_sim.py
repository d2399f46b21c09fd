# SPDX-License-Identifier: Apache-2.0
"""Real vLLM planning code on a machine without a GPU.

vLLM's configuration, graph managers, dispatcher and scheduler run unchanged; only the
answers of a CUDA device are simulated. Four things are replaced, nothing else:

1. `vllm._C_stable_libtorch` is an empty module (the real one needs libcuda).
2. `vllm.platforms.current_platform` is a switch between the platform vLLM found and a
   subclass of its own CUDA platform with constant device answers. It points at the
   found platform while modules are imported, so that no kernel is loaded.
3. `get_pp_group` of the graph manager answers "first and last rank".
4. A manager is told that its graphs are captured: before that it never dispatches.

`install()` must run before any other part of vLLM is imported. This is test
scaffolding, not a product: it says nothing about capture or replay.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

_IMPORTED_UNDER_FOUND_PLATFORM = (
    "vllm.config",
    "vllm.engine.arg_utils",
    "vllm.v1.cudagraph_dispatcher",
    "vllm.v1.worker.gpu.cudagraph_utils",
    "vllm.v1.core.sched.scheduler",
    "vllm.model_executor.model_loader.weight_utils",
)

_switch: Any = None


class _PlatformSwitch:
    """Forwards every attribute to the platform it points at."""

    def __init__(self, found: Any) -> None:
        vars(self).update(_found=found, _now=found, _simulated=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_now"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_now"], name, value)


def install(
    capability: tuple[int, int] = (9, 0), *, imports: tuple[str, ...] | None = None
) -> None:
    """Simulate one CUDA device; `(10, 0)` is the one with the 1024-token ceiling.

    Args:
        capability: Compute capability the device reports.
        imports: Modules to import while the found platform still answers.
    """
    global _switch
    if _switch is None:
        early = [m for m in sys.modules if m.startswith(("vllm.config", "vllm.v1"))]
        if early:
            raise RuntimeError(f"{early[0]} was imported before the simulation")
        import vllm.platforms as platforms

        name = "vllm._C_stable_libtorch"
        sys.modules.setdefault(name, types.ModuleType(name))
        _switch = _PlatformSwitch(platforms.current_platform)
        platforms._current_platform = _switch
        for module in imports or _IMPORTED_UNDER_FOUND_PLATFORM:
            importlib.import_module(module)
    set_capability(capability)
    vars(_switch)["_now"] = vars(_switch)["_simulated"]


def set_capability(capability: tuple[int, int]) -> None:
    """Change the simulated device."""
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class SimulatedCuda(NonNvmlCudaPlatform):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*capability)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return f"simulated-sm{capability[0]}{capability[1]}"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return 80 << 30

        @classmethod
        def device_count(cls) -> int:
            return 1

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return 132

        @classmethod
        def is_integrated_gpu(cls, device_id: int = 0) -> bool:
            return False

        @classmethod
        def is_pin_memory_available(cls) -> bool:
            return False

        def get_global_graph_pool(self) -> Any:
            return ("simulated pool", 0)

    simulating = vars(_switch)["_now"] is not vars(_switch)["_found"]
    vars(_switch)["_simulated"] = SimulatedCuda()
    if simulating:
        vars(_switch)["_now"] = vars(_switch)["_simulated"]


@contextlib.contextmanager
def capability(major: int, minor: int = 0) -> Iterator[None]:
    """Another simulated device for a block."""
    set_capability((major, minor))
    try:
        yield
    finally:
        set_capability((9, 0))


def ngram(num_spec: int, schedule: Any = None) -> dict[str, Any]:
    """A speculative_config that needs no draft model."""
    config: dict[str, Any] = {
        "method": "ngram",
        "num_speculative_tokens": num_spec,
        "prompt_lookup_max": 3,
    }
    if schedule is not None:
        config["num_speculative_tokens_per_batch_size"] = schedule
    return config


def make_config(
    model: str, *, max_num_seqs: int = 32, v2: bool = True, **engine_args: Any
) -> Any:
    """A real VllmConfig, through EngineArgs and every step of __post_init__."""
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if v2 else "0"
    from vllm.engine.arg_utils import EngineArgs

    arguments: dict[str, Any] = {
        "model": model,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": 8192,
        "max_model_len": 1024,
        "disable_log_stats": True,
        **engine_args,
    }
    return EngineArgs(**arguments).create_engine_config()


def stub_config(
    *,
    max_num_seqs: int,
    num_spec: int = 0,
    schedule: Any = None,
    max_num_batched_tokens: int = 8192,
    sizes: list[int] | None = None,
    max_size: int | None = None,
    mode: str = "FULL_AND_PIECEWISE",
    performance_mode: str = "balanced",
    settings: dict[str, Any] | None = None,
    max_loras: int | None = None,
) -> Any:
    """The fields planning reads, carrying vLLM's real unbound methods.

    Tens of microseconds instead of milliseconds, and no model: for running hundreds of
    configurations. `_set_cudagraph_sizes()` and the graph managers work on it.
    """
    from vllm.config.compilation import CompilationConfig, CUDAGraphMode
    from vllm.config.vllm import VllmConfig

    compilation = CompilationConfig()
    compilation.cudagraph_mode = CUDAGraphMode[mode]
    compilation.cudagraph_capture_sizes = sizes
    compilation.max_cudagraph_capture_size = max_size
    speculative = None
    if num_spec:
        speculative = types.SimpleNamespace(
            num_speculative_tokens=num_spec,
            num_speculative_tokens_per_batch_size=schedule,
        )
        speculative.uses_dynamic_speculative_decoding = lambda: (
            speculative.num_speculative_tokens_per_batch_size is not None
        )
    lora = None
    if max_loras is not None:
        lora = types.SimpleNamespace(max_loras=max_loras, specialize_active_lora=True)
        compilation.cudagraph_specialize_lora = True
    stub = types.SimpleNamespace(
        model_config=types.SimpleNamespace(enforce_eager=False),
        compilation_config=compilation,
        scheduler_config=types.SimpleNamespace(
            max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens
        ),
        speculative_config=speculative,
        performance_mode=performance_mode,
        lora_config=lora,
        parallel_config=types.SimpleNamespace(
            tensor_parallel_size=1, data_parallel_size=1
        ),
        cache_config=types.SimpleNamespace(use_kda_recoverssm=False),
        num_speculative_tokens=num_spec,
        uniform_decode_query_len=1 + num_spec,
        additional_config={} if settings is None else {"specgrid": settings},
        instance_id="",
        use_v2_model_runner=True,
    )
    stub._set_cudagraph_sizes = types.MethodType(VllmConfig._set_cudagraph_sizes, stub)
    return stub


def single_rank() -> None:
    """Let managers be built without a process group."""
    import vllm.v1.worker.gpu.cudagraph_utils as module

    module.get_pp_group = lambda: types.SimpleNamespace(
        is_first_rank=True, is_last_rank=True
    )


def make_manager(
    config: Any,
    *,
    query_len: int | None = None,
    mode: str = "FULL_AND_PIECEWISE",
    lora_cases: list[int] | None = None,
    cls: type | None = None,
) -> Any:
    """A real graph manager whose dispatch() answers."""
    import torch
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    manager = (cls or CudaGraphManager)(
        config,
        torch.device("cpu"),
        CUDAGraphMode[mode],
        config.uniform_decode_query_len if query_len is None else query_len,
        lora_capture_cases=lora_cases,
    )
    manager._graphs_captured = True
    return manager


def make_scheduler(config: Any, *, asynchronous: bool = False) -> Any:
    """A real V1 scheduler over a hand-made KV cache of one layer."""
    import torch
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
    )
    from vllm.v1.structured_output import StructuredOutputManager

    block_size, num_blocks = 16, 20_000
    config.cache_config.num_gpu_blocks = num_blocks
    attention = FullAttentionSpec(
        block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    return (AsyncScheduler if asynchronous else Scheduler)(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(
            num_blocks=num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], attention)],
        ),
        structured_output_manager=StructuredOutputManager(config),
        block_size=block_size,
        log_stats=False,
    )


def add_request(scheduler: Any, name: str, prompt_len: int, max_tokens: int) -> None:
    """Queue one request of `prompt_len` prompt tokens."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    params.update_from_generation_config({}, 2)
    tokens = [3 + (i + len(name)) % 50 for i in range(prompt_len)]
    scheduler.add_request(Request(name, tokens, params, None))


def finish_step(scheduler: Any, output: Any) -> None:
    """Stand in for the model: every scheduled request samples one token."""
    from vllm.v1.outputs import ModelRunnerOutput

    names = list(output.num_scheduled_tokens)
    sampled = []
    for name in names:
        request = scheduler.requests[name]
        done = request.num_computed_tokens >= request.num_tokens
        sampled.append([7] if done else [])
    scheduler.update_from_output(
        output,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=sampled,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        ),
    )
