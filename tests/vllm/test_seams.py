# SPDX-License-Identifier: Apache-2.0
"""Whatever differs in vLLM or breaks in specgrid, vLLM runs and the log says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from cases import calls


def seam(plugin: Any, name: str) -> Any:
    return next(s for s in plugin.SEAMS if s.name == name)


def owner_of(s: Any) -> tuple[Any, str]:
    owner: Any = sys.modules[s.module]
    *path, attribute = s.qualname.split(".")
    for part in path:
        owner = getattr(owner, part)
    return owner, attribute


ALL = (
    "config",
    "rows",
    "lookup",
    "sizes",
    "graphs",
    "capture",
    "steps",
    "v1-padding",
    "v1-keys",
    "scheduler",
    "metrics",
    "metrics-multiprocess",
)


@pytest.fixture
def all_loaded(plugin: Any) -> Any:
    plugin.check_all()
    return plugin


def test_two_registrations_change_nothing(all_loaded: Any) -> None:
    before = [owner_of(s)[0].__dict__[owner_of(s)[1]] for s in all_loaded.SEAMS]
    all_loaded.register()
    from specgrid import vllm_plugin

    vllm_plugin.register()
    after = [owner_of(s)[0].__dict__[owner_of(s)[1]] for s in all_loaded.SEAMS]
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_undo_gives_every_binding_back(all_loaded: Any) -> None:
    from vllm.v1.core.sched import scheduler
    from vllm.v1.spec_decode.dynamic import utils
    from vllm.v1.worker.gpu import cudagraph_utils

    name = "build_dynamic_sd_schedule_lookup"
    originals = {s.name: s.original for s in all_loaded.SEAMS}
    assert getattr(scheduler, name) is getattr(utils, name)
    all_loaded.undo()
    for s in all_loaded.SEAMS:
        owner, attribute = owner_of(s)
        assert owner.__dict__[attribute] is originals[s.name]
    for module in (scheduler, utils, cudagraph_utils):
        assert getattr(module, name) is originals["lookup"]


def test_the_lookup_is_replaced_wherever_it_was_imported_to(all_loaded: Any) -> None:
    """Replacing it at its home alone would miss the scheduler and both managers."""
    wrapper = seam(all_loaded, "lookup")._wrapper
    held = {
        name: module.__dict__["build_dynamic_sd_schedule_lookup"]
        for name, module in list(sys.modules.items())
        if name.startswith("vllm.")
        and "build_dynamic_sd_schedule_lookup" in getattr(module, "__dict__", {})
    }
    assert all(function is wrapper for function in held.values())
    assert {
        "vllm.v1.core.sched.scheduler",
        "vllm.v1.worker.gpu.cudagraph_utils",
        "vllm.v1.spec_decode.dynamic.utils",
    } <= set(held)


@pytest.mark.parametrize("name", ALL)
def test_a_renamed_function_leaves_its_seam_to_vllm(
    all_loaded: Any, log: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    all_loaded.undo()
    s = seam(all_loaded, name)
    owner, attribute = owner_of(s)
    original = owner.__dict__[attribute]
    monkeypatch.delattr(owner, attribute)
    all_loaded.register()
    assert s.state == "left to vLLM"
    assert any(
        f"{name} is left to vLLM" in line and "no function" in line for line in log
    )
    # vLLM's own callers of the missing function fail their self-check.
    callers = {"lookup": "sizes", "v1-padding": "v1-keys"}
    others = [t for t in all_loaded.SEAMS if t.name not in (name, callers.get(name))]
    assert all(t.state in ("active", "waiting") for t in others)
    all_loaded.undo()
    setattr(owner, attribute, original)
    monkeypatch.undo()


@pytest.mark.parametrize("name", ALL)
def test_a_changed_signature_leaves_its_seam_to_vllm(
    all_loaded: Any, log: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    all_loaded.undo()
    s = seam(all_loaded, name)
    if not s.parameters:
        s.parameters, kept = ("something_new",), s.parameters
    else:
        kept = s.parameters
        s.parameters = ("something_new", *kept)
    try:
        all_loaded.register()
        assert s.state == "left to vLLM"
        assert any(
            f"{name} is left to vLLM" in line and "expected" in line for line in log
        )
    finally:
        s.parameters = kept


@pytest.mark.parametrize(
    "name", ["lookup", "sizes", "graphs", "v1-padding", "v1-keys", "steps"]
)
def test_a_changed_answer_leaves_its_seam_to_vllm(
    all_loaded: Any, log: list[str], name: str
) -> None:
    """The self-check compares answers, so a new rule under an old name is found."""
    all_loaded.undo()
    s = seam(all_loaded, name)
    owner, attribute = owner_of(s)
    original = owner.__dict__[attribute]
    if name == "steps":
        from vllm.config import compilation

        modes = compilation.CUDAGraphMode
        compilation.CUDAGraphMode = lambda i: modes(2 - i)
        all_loaded.register()
        compilation.CUDAGraphMode = modes
        assert s.state == "left to vLLM"
        return

    def changed(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if name == "lookup":
            return [*result[:-1], result[-1] + 1]
        self = args[0]
        if name == "sizes":
            self.compilation_config.cudagraph_capture_sizes.append(100_000)
        elif name == "graphs":
            self._candidates.pop((1, self.lora_capture_cases[0]))
        elif name == "v1-padding":
            self._bs_to_padded_graph_size[-1] += 1
        else:
            self.keys_initialized = False
        return result

    changed.__signature__ = __import__("inspect").signature(original)  # type: ignore[attr-defined]
    setattr(owner, attribute, changed)
    try:
        all_loaded.register()
        assert s.state == "left to vLLM"
        assert any(f"{name} is left to vLLM: self-check" in line for line in log)
        assert owner.__dict__[attribute] is changed
    finally:
        all_loaded.undo()
        setattr(owner, attribute, original)


def use_everything(sim: Any, model: str) -> dict[str, Any]:
    """Go once through every seam that planning and scheduling have."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher
    from vllm.v1.metrics.prometheus import get_prometheus_registry
    from vllm.v1.worker.gpu.dp_utils import dispatch_cg_and_sync_dp

    rows = [[1, 4, 4], [5, 32, 0]]
    config = sim.make_config(
        model, max_num_seqs=32, v2=False, speculative_config=sim.ngram(4, rows)
    )
    manager = sim.make_manager(config)
    scheduler = sim.make_scheduler(config)
    sim.add_request(scheduler, "a", 8, 4)
    output = scheduler.schedule()
    step, _ = dispatch_cg_and_sync_dp(manager, 3, 15, 5, 1, 0, max_query_len=5)
    plain = sim.make_config(model, v2=False)
    dispatcher = CudagraphDispatcher(plain)
    dispatcher.initialize_cudagraph_keys(CUDAGraphMode.FULL_AND_PIECEWISE, 1)
    get_prometheus_registry()
    return {
        "sizes": config.compilation_config.cudagraph_capture_sizes,
        "candidates": manager._candidates,
        "k": output.num_spec_tokens_to_schedule,
        "step": step,
        "keys": dispatcher.cudagraph_keys,
        "padding": dispatcher._bs_to_padded_graph_size,
    }


@pytest.mark.parametrize(
    "name",
    [
        "config",
        "rows",
        "lookup",
        "sizes",
        "graphs",
        "steps",
        "v1-padding",
        "v1-keys",
        "scheduler",
        "metrics-multiprocess",
    ],
)
def test_an_exception_in_any_wrapper_falls_through_to_vllm(
    all_loaded: Any, sim: Any, model: str, log: list[str], name: str
) -> None:
    all_loaded.undo()
    expected = use_everything(sim, model)
    s = seam(all_loaded, name)
    kept = s.answer, s.before, s.after

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise KeyError("broken on purpose")

    s.answer, s.before, s.after = (broken if f is not None else None for f in kept)
    try:
        all_loaded.register()
        assert s.state in ("active", "waiting") or s.answer is not None
        found = use_everything(sim, model)
    finally:
        s.answer, s.before, s.after = kept
    if name != "graphs":
        # The default policy is allowed to differ from vLLM, in the manager alone.
        found["candidates"] = expected["candidates"]
        found["step"] = expected["step"]
    assert found == expected
    reported = [line for line in log if f"{name} raised KeyError" in line]
    assert len(reported) == 1
    assert s.state == "left to vLLM"


def test_vllms_own_exceptions_pass_and_nothing_runs_twice(all_loaded: Any) -> None:
    s = seam(all_loaded, "config")
    runs: list[int] = []

    def original() -> None:
        runs.append(1)
        raise ValueError("vLLM's own")

    wrapper = s._wrap(original)
    s_before = s.before
    s.before = None
    with pytest.raises(ValueError, match="vLLM's own"):
        wrapper_of(s, original)()
    s.before = s_before
    assert runs == [1]
    assert wrapper.__wrapped__ is original
    assert s.state == "active"


def wrapper_of(s: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    return s._wrap(original)  # type: ignore[no-any-return]


def test_modules_loaded_later_get_their_seam_then(plugin: Any) -> None:
    """A worker loads the graph manager long after plug-ins were registered."""
    import importlib

    from specgrid.vllm_plugin import _imports

    module = "vllm.v1.worker.gpu.cudagraph_utils"
    s = seam(plugin, "graphs")
    plugin.undo()
    kept = sys.modules.pop(module)
    try:
        plugin.register()
        assert s.state == "waiting"
        fresh = importlib.import_module(module)
        assert s.state == "active"
        assert hasattr(fresh.CudaGraphManager._init_candidates, "__wrapped__")
    finally:
        plugin.undo()
        sys.modules[module] = kept
        sys.modules["vllm.v1.worker.gpu"].cudagraph_utils = kept
    assert module not in _imports._callbacks


def test_calls_are_counted_for_doctor(all_loaded: Any, sim: Any, model: str) -> None:
    before = calls(all_loaded, "graphs")
    use_everything(sim, model)
    assert calls(all_loaded, "graphs") == before + 1
