# SPDX-License-Identifier: Apache-2.0
"""What specgrid hands back to vLLM, and steps and ranks it has nothing to say about."""

from __future__ import annotations

import importlib
import types
from pathlib import Path
from typing import Any

import pytest
from cases import calls

from specgrid import Budget, CapturePlan, Costs, Workload, plan_captures

ROWS = [[1, 8, 3], [9, 32, 0]]
KEYED = {
    "sizes": [64],
    "graphs": [[4, 2], [4, 8], [1, 32]],
    "dispatcher": "direct",
    "mode": "FULL_AND_PIECEWISE",
}


def manager_of(sim: Any, config: Any, **arguments: Any) -> Any:
    config._set_cudagraph_sizes()
    return sim.make_manager(config, **arguments)


def tables(manager: Any) -> tuple[Any, Any]:
    return dict(manager._capture_descs), manager._candidates


# ---- ranks -----------------------------------------------------------------------


@pytest.fixture
def ranks(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A process that believes to be one of two ranks; what it would compare."""
    import torch.distributed as dist
    from vllm.distributed import parallel_state

    from specgrid.vllm_plugin import _agreement

    found = types.SimpleNamespace(
        compared=[], group=types.SimpleNamespace(world_size=2, cpu_group="cpu group")
    )
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(parallel_state, "get_world_group", lambda: found.group)
    monkeypatch.setattr(
        _agreement, "compare", lambda *given: found.compared.append(given)
    )
    return found


def compiled(config: Any) -> Any:
    """A configuration as the V1 dispatcher wants it: attention outside the graphs."""
    from vllm.config.compilation import CompilationMode

    compilation = config.compilation_config
    compilation.mode = CompilationMode.VLLM_COMPILE
    compilation.splitting_ops = list(compilation._attention_ops)
    return config


def v1_runner(config: Any) -> Any:
    """What the V1 runner's capture reads, with vLLM's own dispatcher."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher

    compiled(config)._set_cudagraph_sizes()
    config.compilation_config.adjust_cudagraph_sizes_for_spec_decode(4)
    dispatcher = CudagraphDispatcher(config)
    dispatcher.initialize_cudagraph_keys(CUDAGraphMode.FULL_AND_PIECEWISE, 4)
    return types.SimpleNamespace(vllm_config=config, cudagraph_dispatcher=dispatcher)


def test_v1_runners_compare_their_graphs_before_capture(ranks: Any, sim: Any) -> None:
    from specgrid.vllm_plugin import _capture

    for max_num_seqs in (32, 32, 24):
        config = sim.stub_config(max_num_seqs=max_num_seqs, num_spec=3)
        _capture.V1_CAPTURE.before(v1_runner(config))  # type: ignore[misc]
    (one, group), (same, _), (other, _) = ranks.compared
    assert group == "cpu group"
    assert one == same
    assert {k for k in one if one[k] != other[k]} == {"capture sizes", "graph set"}
    assert one["schedule"] == "static K=3"


def test_v2_managers_compare_their_graphs_before_capture(ranks: Any, sim: Any) -> None:
    from specgrid.vllm_plugin import _capture

    for schedule in (ROWS, ROWS, [[1, 9, 3], [10, 32, 0]]):
        config = sim.stub_config(max_num_seqs=32, num_spec=3, schedule=schedule)
        _capture.CAPTURE.before(manager_of(sim, config))  # type: ignore[misc]
    (one, _), (same, _), (other, _) = ranks.compared
    assert one == same
    assert "schedule" in {k for k in one if one[k] != other[k]}


@pytest.mark.parametrize("why", ["one rank", "elastic", "no group"])
def test_where_ranks_cannot_differ_nothing_is_compared(
    ranks: Any, sim: Any, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Elastic expert parallelism: ranks join and capture at different times."""
    import torch.distributed as dist

    from specgrid.vllm_plugin import _capture

    config = sim.stub_config(max_num_seqs=8)
    if why == "one rank":
        ranks.group.world_size = 1
    elif why == "elastic":
        config.parallel_config.enable_elastic_ep = True
    else:
        monkeypatch.setattr(dist, "is_initialized", lambda: False)
    _capture.CAPTURE.before(manager_of(sim, config))  # type: ignore[misc]
    assert ranks.compared == []


def test_a_group_without_a_timed_barrier_compares_all_the_same(
    plugin: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed as dist

    from specgrid.vllm_plugin import _agreement
    from specgrid.vllm_plugin._seam import StopStartupError

    def gather(everyone: list[Any], mine: Any, group: Any) -> None:
        everyone[:] = [mine, others]

    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "get_backend", lambda group: "mpi")
    monkeypatch.setattr(dist, "all_gather_object", gather)
    others = {"policy": "vllm"}
    _agreement.compare({"policy": "vllm"}, None)
    assert log[-1].endswith("2 ranks agree on schedule, sizes and graphs")
    others = {"policy": "reachable"}
    with pytest.raises(StopStartupError, match="policy differs"):
        _agreement.compare({"policy": "vllm"}, None)


# ---- drafters --------------------------------------------------------------------


def test_drafters_of_another_kind_keep_their_graphs(plugin: Any, sim: Any) -> None:
    """Only vLLM's own draft decode is cut down to pairs; all else is not touched."""
    from specgrid.vllm_plugin import _capture

    module = importlib.import_module(
        "vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils"
    )
    config = sim.stub_config(max_num_seqs=32, num_spec=3, schedule=ROWS)
    manager = manager_of(sim, config, cls=module.SpeculatorCudaGraphManager)
    kept = {mode: list(descs) for mode, descs in manager._capture_descs.items()}
    _capture.CAPTURE.before(manager)  # type: ignore[misc]
    assert manager._capture_descs == kept  # no descriptor carries a K
    draft = module.SpeculatorBatchDescriptor
    mode = next(iter(kept))
    wide = {mode: [draft(mode, 8, 2, 4, num_speculative_tokens=3)]}
    manager._capture_descs = dict(wide)
    _capture.CAPTURE.before(manager)  # type: ignore[misc]
    assert manager._capture_descs == wide  # four tokens a request: a prefill
    narrow = [
        draft(mode, n, n, 1, num_speculative_tokens=k) for n in (16, 8) for k in (3, 2)
    ]
    manager._capture_descs = {mode: narrow}
    _capture.CAPTURE.before(manager)  # type: ignore[misc]
    (left,) = manager._capture_descs.values()
    assert [(d.num_tokens, d.num_speculative_tokens) for d in left] == [(8, 3)]


def test_a_parallel_drafter_under_vllms_policy_is_vllms(plugin: Any, sim: Any) -> None:
    cls = importlib.import_module(
        "vllm.v1.worker.gpu.spec_decode.dflash.cudagraph"
    ).DFlashCudaGraphManager
    config = sim.stub_config(
        max_num_seqs=32, num_spec=3, schedule=ROWS, settings={"policy": "vllm"}
    )
    arguments = {"query_len": 4, "mode": "FULL_DECODE_ONLY", "cls": cls}
    ours = tables(manager_of(sim, config, **arguments))
    assert calls(plugin, "graphs") > 0
    plugin.undo()
    assert ours == tables(manager_of(sim, config, **arguments))


# ---- graphs ----------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[4, 4, 8], [0, 4, 8]])
def test_irregular_size_lists_are_left_to_vllm(
    plugin: Any, sim: Any, sizes: list[int]
) -> None:
    found = []
    for active in (True, False):
        if not active:
            plugin.undo()
        config = sim.stub_config(max_num_seqs=8, sizes=sizes, max_size=8)
        before = calls(plugin, "graphs")
        found.append(tables(sim.make_manager(config)))
        assert calls(plugin, "graphs") == before
    assert found[0] == found[1]


def test_keyed_graphs_need_a_decode_routine_of_their_own(plugin: Any, sim: Any) -> None:
    """In mode FULL one graph serves every step; a keyed plan has none to offer."""
    config = sim.stub_config(max_num_seqs=32, num_spec=3, settings={"plan_data": KEYED})
    config._set_cudagraph_sizes()
    assert config.compilation_config.cudagraph_capture_sizes == [8, 32, 64]
    keyed = tables(sim.make_manager(config))
    assert len(keyed[0]) == 2
    before = calls(plugin, "graphs")
    left = tables(sim.make_manager(config, mode="FULL"))
    assert calls(plugin, "graphs") == before
    plugin.undo()
    assert left == tables(sim.make_manager(config, mode="FULL"))


def test_shadow_mode_names_the_first_candidate_that_differs(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specgrid.vllm_plugin import _graphs

    real = _graphs.objects

    def wrong(table: Any) -> Any:
        captured, candidates = real(table)
        return captured, {**candidates, (7, 0): []}

    monkeypatch.setattr(_graphs, "objects", wrong)
    config = sim.stub_config(max_num_seqs=8, settings={"shadow": True})
    manager = manager_of(sim, config)
    assert manager._candidates[7, 0]
    (line,) = [line for line in log if "shadow" in line]
    assert "candidates of CudaGraphManager at (tokens, LoRAs) (7, 0) differ" in line
    assert line.endswith("specgrid []")


def test_modes_without_full_decode_graphs_announce_nothing(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    config = sim.stub_config(max_num_seqs=30, num_spec=3, schedule=ROWS)
    manager_of(sim, config, mode="PIECEWISE")
    assert not [line for line in log if "FULL graphs" in line]


# ---- sizes and plans ---------------------------------------------------------------


def test_a_maximum_that_vllm_refuses_it_refuses_itself(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    said = []
    for active in (True, False):
        if not active:
            plugin.undo()
        config = sim.stub_config(max_num_seqs=8, settings={"rule": "keep-max"})
        config.compilation_config.max_cudagraph_capture_size = -5
        with pytest.raises(AssertionError) as refused:
            config._set_cudagraph_sizes()
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert not [line for line in log if "raised" in line]


def test_a_maximum_above_the_tokens_of_a_step_is_lowered_aloud(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    config = sim.stub_config(
        max_num_seqs=8,
        max_size=300,
        max_num_batched_tokens=100,
        settings={"rule": "keep-max"},
    )
    config._set_cudagraph_sizes()
    assert config.compilation_config.max_cudagraph_capture_size == 100
    assert [line for line in log if "300 becomes 100" in line]


def test_a_vllm_that_changes_given_lists_keeps_its_sizes(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seam fills the list before vLLM reads it; vLLM has to keep it then."""
    from vllm.config.vllm import VllmConfig

    plugin.undo()
    original = VllmConfig._set_cudagraph_sizes

    def drops_the_last(self: Any) -> None:
        given = self.compilation_config.cudagraph_capture_sizes
        original(self)
        if given is not None:
            del self.compilation_config.cudagraph_capture_sizes[-1]

    monkeypatch.setattr(VllmConfig, "_set_cudagraph_sizes", drops_the_last)
    plugin.register()
    assert [line for line in log if "a list given in advance is not kept" in line]
    assert VllmConfig._set_cudagraph_sizes is drops_the_last
    plugin.undo()


def saved(folder: Path, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "max_num_seqs": 32,
        "num_speculative_tokens": 3,
        "budget": Budget(graphs=4),
        "dispatcher": "union",
        **changes,
    }
    plan = plan_captures(
        Workload({(4, b): 1.0 for b in range(1, 33)}),
        Costs.linear(2000.0, 8.0, 900.0, 3000.0),
        **arguments,
    )
    plan.save(folder / "plan.json")
    return str(folder / "plan.json")


def test_a_keyed_plan_is_refused_by_the_v1_runner(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    config = sim.stub_config(max_num_seqs=32, num_spec=3, settings={"plan_data": KEYED})
    config.use_v2_model_runner = False
    config._set_cudagraph_sizes()
    assert [line for line in log if "its dispatcher needs the V2 model runner" in line]
    assert len(config.compilation_config.cudagraph_capture_sizes) > 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sizes": (), "graphs": ()}, "it captures nothing"),
        ({"rule": "vllm-0.26"}, "it is for the rule vllm-0.26"),
    ],
)
def test_a_plan_that_loads_and_cannot_be_used_is_refused(
    plugin: Any,
    sim: Any,
    model: str,
    log: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    reason: str,
) -> None:
    path = saved(tmp_path)
    whole = CapturePlan.load(path)
    fields = {
        name: getattr(whole, name)
        for name in (
            "max_num_seqs",
            "num_speculative_tokens",
            "schedule_digest",
            "rule",
            "sizes",
            "graphs",
            "dispatcher",
            "mode",
        )
    }
    changed = types.SimpleNamespace(**{**fields, **change})
    monkeypatch.setattr(CapturePlan, "load", lambda path: changed)
    config = sim.make_config(
        model,
        max_num_seqs=32,
        speculative_config=sim.ngram(3),
        additional_config={"specgrid": {"plan": path}},
    )
    assert [line for line in log if line.startswith("ERROR") and reason in line]
    assert config.additional_config["specgrid"]["plan"] is None


# ---- V1 dispatcher -----------------------------------------------------------------


def test_v1_tables_that_vllm_checks_are_vllms(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    """compile_sizes are compared with the table, and odd sizes asserted on."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher

    def said(compile_sizes: list[int], sizes: list[int]) -> str:
        config = sim.stub_config(
            max_num_seqs=8, num_spec=3, sizes=sizes, max_size=sizes[-1]
        )
        config.compilation_config.compile_sizes = compile_sizes
        dispatcher = CudagraphDispatcher(compiled(config))
        try:
            dispatcher.initialize_cudagraph_keys(CUDAGraphMode.FULL_AND_PIECEWISE, 4)
        except (AssertionError, ValueError) as error:
            return f"refused: {error}"
        return repr(dispatcher._bs_to_padded_graph_size)

    cases = [([], [4, 8]), ([4], [4, 8]), ([5], [4, 8]), ([], [4, 7])]
    ours = [said(*case) for case in cases]
    plugin.undo()
    assert ours == [said(*case) for case in cases]
    assert [text[:7] for text in ours[2:]] == ["refused"] * 2
    assert not [line for line in log if "raised" in line]  # vLLM's own are vLLM's


# ---- steps ---------------------------------------------------------------------------


def test_v1_steps_are_counted_without_dummy_runs(plugin: Any, sim: Any) -> None:
    from vllm.config.compilation import CUDAGraphMode

    from specgrid.vllm_plugin import _capture, _counters

    def runner(**settings: Any) -> Any:
        config = sim.stub_config(max_num_seqs=32, num_spec=3, settings=settings)
        return types.SimpleNamespace(vllm_config=config, uniform_decode_query_len=4)

    def step(runner: Any, tokens: int, reqs: int, longest: int, **more: Any) -> None:
        result = (CUDAGraphMode.FULL, None)
        _capture.V1_STEPS.after(result, runner, tokens, reqs, None, longest, **more)  # type: ignore[misc]

    counting = runner()
    step(counting, 40, 10, 4)
    step(counting, 41, 10, 5)
    step(counting, 40, 10, 4, force_uniform_decode=True)
    step(counting, 40, 10, 4, force_uniform_decode=False)
    assert list(counting._specgrid_counters.counts()) == [
        (_counters.STEP, (4, 10, 2), 1),
        (_counters.STEP, (0, 10, 2), 1),
    ]
    silent = runner(counters=False)
    step(silent, 40, 10, 4)
    assert silent._specgrid_counters is None


def test_a_step_without_a_manager_is_vllms_alone(plugin: Any) -> None:
    """vLLM's profiling runs have none."""
    from specgrid.vllm_plugin import _capture

    before = calls(plugin, "steps")
    module = importlib.import_module("vllm.v1.worker.gpu.dp_utils")
    desc, _ = module.dispatch_cg_and_sync_dp(None, 3, 12, 4, 1, 0, need_eager=True)
    assert desc.cg_mode.name == "NONE"
    assert calls(plugin, "steps") == before + 1
    assert _capture.STEPS.state == "active"


def test_several_api_processes_show_the_counters_too(plugin: Any) -> None:
    from prometheus_client import REGISTRY, CollectorRegistry

    from specgrid.vllm_plugin import _metrics

    kept = list(_metrics._collectors)
    collector = _metrics.StepCollector("tiny")
    _metrics._collectors[:] = [collector]
    try:
        fresh = CollectorRegistry()
        _metrics.REGISTRIES.after(fresh)  # type: ignore[misc]
        _metrics.REGISTRIES.after(REGISTRY)  # type: ignore[misc]
        assert collector in fresh._collector_to_names
        assert collector not in REGISTRY._collector_to_names
    finally:
        _metrics._collectors[:] = kept


# ---- scheduler -----------------------------------------------------------------------


def first_k(sim: Any, model: str, rows: Any, **settings: Any) -> tuple[int, Any]:
    config = sim.make_config(
        model,
        max_num_seqs=16,
        v2=False,
        speculative_config=sim.ngram(3, rows),
        additional_config={"specgrid": settings},
    )
    scheduler = sim.make_scheduler(config)
    sim.add_request(scheduler, "a", 8, 4)
    return scheduler.schedule().num_spec_tokens_to_schedule, scheduler._specgrid_steps


def test_a_scheduler_without_counters_follows_the_schedule(
    plugin: Any, sim: Any, model: str
) -> None:
    rows = [[1, 16, 1, 24, 2], [1, 16, 25, 999, 1]]
    k, steps = first_k(sim, model, None, schedule=rows, counters=False)
    assert (k, steps.counters) == (2, None)


def test_a_schedule_that_vllm_switched_off_stays_off(
    plugin: Any, sim: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specgrid.vllm_plugin import _schedule_of

    with monkeypatch.context() as patched:
        patched.setattr(_schedule_of, "batch_only", lambda lookup: None)
        k, steps = first_k(sim, model, None, schedule=[[1, 16, 1]])
    assert (k, steps.rows) == (3, None)


def test_without_the_configurations_seam_a_bad_schedule_changes_nothing(
    plugin: Any, sim: Any, model: str
) -> None:
    """A vLLM whose configuration we do not know: nobody has checked the schedule."""
    seam = next(seam for seam in plugin.SEAMS if seam.name == "config")
    seam.undo()
    k, steps = first_k(sim, model, ROWS, schedule=[[5, 1, 1]])
    assert (k, steps.rows) == (3, None)


# ---- rows in vLLM's field ------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        None,
        {"method": "ngram", "num_speculative_tokens": 3},
        {
            "num_speculative_tokens_per_batch_size": [[1, 2, 1, 9, 3]],
            "num-speculative-tokens-per-batch-size": [[1, 2, 1, 9, 3]],
        },
        {"num_speculative_tokens_per_batch_size": "1-2:3"},
        {"num_speculative_tokens_per_batch_size": [[1, 2, 1, 9]]},
        {"num_speculative_tokens_per_batch_size": [[1, 2, 3]]},
    ],
)
def test_rows_that_are_not_ours_stay_where_they_are(plugin: Any, given: Any) -> None:
    from specgrid.vllm_plugin import _config

    arguments = types.SimpleNamespace(speculative_config=given, additional_config={})
    _config.ROWS.before(arguments)  # type: ignore[misc]
    assert arguments.speculative_config is given
    assert arguments.additional_config == {}


@pytest.mark.parametrize(
    ("additional", "moved"),
    [
        (None, True),
        ({"other": 1}, True),
        ({"specgrid": None}, True),
        ({"specgrid": {"policy": "vllm"}}, True),
        ({"specgrid": {"schedule": [[1, 9, 2]]}}, False),
        ({"specgrid": "vllm"}, False),
        (("not", "a", "dict"), False),
    ],
)
def test_rows_move_only_to_a_place_that_is_free(
    plugin: Any, additional: Any, moved: bool
) -> None:
    from specgrid.vllm_plugin import _config

    rows = [[1, 2, 1, 9, 3]]
    given = {"method": "ngram", "num-speculative-tokens-per-batch-size": rows}
    arguments = types.SimpleNamespace(
        speculative_config=given, additional_config=additional
    )
    _config.ROWS.before(arguments)  # type: ignore[misc]
    if not moved:
        assert arguments.speculative_config is given
        assert arguments.additional_config is additional
        return
    assert arguments.speculative_config == {"method": "ngram"}
    found = arguments.additional_config
    assert found["specgrid"]["schedule"] == rows
    assert {k: v for k, v in found.items() if k != "specgrid"} == {
        k: v for k, v in (additional or {}).items() if k != "specgrid"
    }
