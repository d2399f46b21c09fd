# SPDX-License-Identifier: Apache-2.0
"""Rubbish in settings, plans and files: vLLM starts as it would without specgrid."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROWS = [[1, 8, 3], [9, 32, 0]]


def sizes(config: Any) -> list[int]:
    found: list[int] = config.compilation_config.cudagraph_capture_sizes
    return found


def problems(log: list[str]) -> list[str]:
    return [line for line in log if line.startswith(("ERROR", "WARNING"))]


def all_seams_stay(plugin: Any) -> bool:
    return not [seam for seam in plugin.SEAMS if seam.state == "left to vLLM"]


@pytest.fixture(scope="module")
def plain(sim: Any, model: str) -> list[int]:
    """Capture sizes of a server whose plug-in has nothing to do."""
    return sizes(sim.make_config(model, speculative_config=sim.ngram(3, ROWS)))


SCHEDULES: dict[str, Any] = {
    "no rows": [],
    "an empty row": [[]],
    "short rows": [[1, 2]],
    "4 items": [[1, 2, 3, 4]],
    "6 items": [[1, 2, 3, 4, 5, 6]],
    "text": [["1", "8", "3"]],
    "none": [[1, 8, None]],
    "a list": [[1, 8, [3]]],
    "an object": [[1, 8, {}]],
    "rows as an object": {"1-8": 3},
    "beyond 64 bits": [[1, 2**70, 3]],
    "a negative batch": [[-5, 8, 3]],
    "fractions": [[1, 8, 0.5]],
    "no number": [[1, 8, float("nan")]],
    "infinite": [[1, float("inf"), 3]],
    "overlapping": [[1, 8, 3], [8, 9, 2]],
    "backwards": [[8, 1, 3]],
    "starts late": [[5, 8, 3]],
    "any text": "\udcff",
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_an_impossible_schedule_is_named_and_the_server_starts(
    plugin: Any, sim: Any, model: str, log: list[str], plain: list[int], name: str
) -> None:
    config = sim.make_config(
        model,
        speculative_config=sim.ngram(3, ROWS),
        additional_config={"specgrid": {"schedule": SCHEDULES[name]}},
    )
    assert sizes(config) == plain
    rows = config.speculative_config.num_speculative_tokens_per_batch_size
    assert [list(row) for row in rows] == ROWS
    assert len(problems(log)) == 1
    assert "schedule" in problems(log)[0]
    assert all_seams_stay(plugin)


def test_a_core_that_fails_on_a_schedule_is_named_and_the_server_starts(
    plugin: Any,
    sim: Any,
    model: str,
    log: list[str],
    plain: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from specgrid.vllm_plugin import _schedule_of

    def fail(lookup: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(_schedule_of, "batch_only", fail)
    config = sim.make_config(
        model,
        speculative_config=sim.ngram(3, ROWS),
        additional_config={"specgrid": {"schedule": [[1, 32, 1, 99, 2]]}},
    )
    assert sizes(config) == plain
    assert problems(log) == [
        "ERROR specgrid: the schedule cannot be used and vLLM's own setting stays in "
        "force: MemoryError: no room"
    ]
    assert all_seams_stay(plugin)


def test_vllms_words_for_a_wrong_schedule_of_its_own_reach_the_user(
    plugin: Any, sim: Any, model: str, log: list[str]
) -> None:
    """What vLLM refuses it refuses in its own words, with the plug-in or without."""
    said = []
    for active in (True, False):
        if not active:
            plugin.undo()
        with pytest.raises(ValueError) as refused:
            scheduler_of(sim, model, [[1, 8, 3], [5, 32, 0]])
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert problems(log) == []


def scheduler_of(sim: Any, model: str, rows: Any) -> Any:
    config = sim.make_config(model, v2=False, speculative_config=sim.ngram(3, rows))
    return sim.make_scheduler(config)


def make_file(folder: Path, kind: str) -> str:
    path = folder / "plan.json"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe without a writer":
        os.mkfifo(path)
    elif kind == "a device":
        return "/dev/zero"
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "binary":
        path.write_bytes(bytes(range(256)))
    elif kind == "deep":
        path.write_text("[" * 100_000)
    elif kind == "below a file":
        path.write_text("{}")
        return f"{path}/plan.json"
    elif kind == "a loop of links":
        path.symlink_to(path)
    elif kind == "a zero byte":
        return f"{path}\0"
    elif kind == "no UTF-8 name":
        return str(folder / "\udcff.json")
    elif kind == "a long name":
        return str(folder / ("x" * 5000))
    elif kind == "no name":
        return ""
    return str(path)


@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "a folder",
        "a pipe without a writer",
        "a device",
        "huge",
        "binary",
        "deep",
        "below a file",
        "a loop of links",
        "a zero byte",
        "no UTF-8 name",
        "a long name",
        "no name",
    ],
)
def test_whatever_the_plan_names_the_server_starts(
    plugin: Any,
    sim: Any,
    model: str,
    log: list[str],
    plain: list[int],
    tmp_path: Path,
    kind: str,
) -> None:
    config = sim.make_config(
        model,
        speculative_config=sim.ngram(3, ROWS),
        additional_config={"specgrid": {"plan": make_file(tmp_path, kind)}},
    )
    assert sizes(config) == plain
    assert len(problems(log)) == 1
    assert problems(log)[0].startswith("ERROR specgrid: plan ")
    assert "is not used: " in problems(log)[0]
    assert config.additional_config["specgrid"]["plan"] is None
    assert all_seams_stay(plugin)


GOOD = {"sizes": [8], "graphs": [], "dispatcher": "union", "mode": "FULL_AND_PIECEWISE"}


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        "plan",
        5,
        {**GOOD, "sizes": None},
        {**GOOD, "sizes": ["x"]},
        {**GOOD, "sizes": [0, 8]},
        {**GOOD, "sizes": []},
        {**GOOD, "graphs": [[1, 2, 3]]},
        {**GOOD, "dispatcher": "best"},
        {**GOOD, "dispatcher": []},
        {key: value for key, value in GOOD.items() if key != "mode"},
    ],
)
def test_plan_data_that_specgrid_did_not_write_is_named(
    plugin: Any, sim: Any, model: str, log: list[str], plain: list[int], data: Any
) -> None:
    config = sim.make_config(
        model,
        speculative_config=sim.ngram(3, ROWS),
        additional_config={"specgrid": {"plan_data": data}},
    )
    sim.make_manager(config)
    assert sizes(config) == plain
    assert len(problems(log)) == 1
    assert "plan_data, which specgrid writes by itself, is not used" in problems(log)[0]
    assert all_seams_stay(plugin)


def test_a_plan_too_small_for_the_v1_runner_is_refused(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    """vLLM's V1 runner rounds sizes to whole requests and stops where none is left."""
    plan = {**GOOD, "sizes": [1, 2], "mode": "FULL_DECODE_ONLY"}
    found = []
    for v2 in (True, False):
        config = sim.stub_config(
            max_num_seqs=8,
            num_spec=3,
            mode="FULL_DECODE_ONLY",
            settings={"plan_data": plan},
        )
        config.use_v2_model_runner = v2
        config._set_cudagraph_sizes()
        found.append(sizes(config))
    assert found[0] == [1, 2]
    assert found[1][-1] >= 4
    config.compilation_config.adjust_cudagraph_sizes_for_spec_decode(4)
    assert [line for line in log if "it captures at most 2 tokens" in line]


@pytest.mark.parametrize("broken", [LookupError("gone"), OSError(5, "Input/output")])
def test_metrics_of_vllm_survive_counters_that_cannot_be_read(
    plugin: Any, log: list[str], monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    from prometheus_client import CollectorRegistry, Counter, generate_latest

    from specgrid.vllm_plugin import _counters, _metrics

    def fail(name: str) -> Any:
        raise broken

    registry = CollectorRegistry()
    Counter("vllm:something", "vLLM's own", registry=registry).inc()
    registry.register(_metrics.StepCollector("tiny"))
    monkeypatch.setattr(_counters, "read_server", fail)
    for _ in range(2):
        text = generate_latest(registry).decode()
        assert "vllm:something_total 1.0" in text
        assert "specgrid" not in text
    assert len(problems(log)) == 1
    assert "step counters are missing in /metrics" in problems(log)[0]


def test_metrics_show_every_kind_of_count(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from specgrid.vllm_plugin import _counters, _metrics

    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("SPECGRID_SERVER", "made-up")
    for role in ("scheduler", "worker"):
        counters = _counters.open_counters(role)
        counters.add(_counters.STEP, 4, 10, 2)
        counters.add(_counters.STEP, 0, 10, 9)  # a mode of another release
        counters.add(_counters.DRAFT, 10, 1, 3)
        counters.add(_counters.TRANSITION, 3, 0, 0)
        counters.add(_counters.OVERFLOW, 0, 0, 0)
    registry = CollectorRegistry()
    registry.register(_metrics.StepCollector("tiny"))
    lines = [
        line
        for line in generate_latest(registry).decode().splitlines()
        if not line.startswith("#")
    ]
    assert lines == [
        'vllm:specgrid_steps_total{mode="9",model_name="tiny",num_reqs="10",'
        'query_len="0"} 2.0',
        'vllm:specgrid_steps_total{mode="FULL",model_name="tiny",num_reqs="10",'
        'query_len="4"} 2.0',
        'vllm:specgrid_scheduled_steps_total{context_column="1",k="3",'
        'model_name="tiny",num_reqs="10"} 2.0',
        'vllm:specgrid_k_transitions_total{model_name="tiny",next="0",previous="3"} '
        "2.0",
    ]


def test_announcing_graphs_fails_before_vllms_tables_are_touched(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's own function then finds them as empty as it expects."""
    from specgrid.vllm_plugin import _graphs

    def fail(*args: Any) -> None:
        raise ArithmeticError("on purpose")

    def tables() -> Any:
        config = sim.stub_config(max_num_seqs=32, num_spec=3, schedule=ROWS)
        config._set_cudagraph_sizes()
        manager = sim.make_manager(config)
        return manager._capture_descs, manager._candidates

    monkeypatch.setattr(_graphs, "_announce", fail)
    found = tables()
    assert [line for line in problems(log) if "graphs raised ArithmeticError" in line]
    plugin.undo()
    assert found == tables()


def test_in_shadow_mode_vllms_own_exception_is_vllms_alone(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.v1.worker.gpu.cudagraph_utils as module

    runs: list[int] = []

    def fail(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        raise AssertionError("vLLM's own")

    config = sim.stub_config(
        max_num_seqs=32, num_spec=3, schedule=ROWS, settings={"shadow": True}
    )
    config._set_cudagraph_sizes()
    monkeypatch.setattr(module, "build_dynamic_sd_schedule_lookup", fail)
    with pytest.raises(AssertionError, match="vLLM's own"):
        sim.make_manager(config)
    assert runs == [1]
    assert problems(log) == []
    assert all_seams_stay(plugin)


def test_a_failing_registration_gives_vllm_everything_back(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says that vLLM runs unchanged, and so it is."""
    from vllm.config.vllm import VllmConfig

    from specgrid import vllm_plugin

    plugin.undo()
    before = VllmConfig._set_cudagraph_sizes

    def fail() -> str:
        raise LookupError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(plugin, "_summary", fail)
        vllm_plugin.register()
    assert VllmConfig._set_cudagraph_sizes is before
    assert problems(log) == [
        "WARNING specgrid: not active, vLLM runs unchanged: LookupError: on purpose"
    ]
    status = vllm_plugin.status()
    assert (status["active"], status["reason"]) == (False, "LookupError: on purpose")
    assert {seam["state"] for seam in status["seams"]} == {"off"}
    vllm_plugin.register()
    assert VllmConfig._set_cudagraph_sizes is not before
    json.dumps(vllm_plugin.status())  # for `specgrid doctor --json`


def test_an_untested_vllm_is_used_where_it_passes_and_the_log_says_so(
    plugin: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm

    plugin.undo()
    monkeypatch.setattr(vllm, "__version__", "0.34.0")
    plugin.register()
    assert all_seams_stay(plugin)
    assert [line for line in log if "vLLM 0.34.0 is not among the tested" in line]


def test_a_process_name_of_another_form_is_not_needed(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm.logger

    from specgrid.vllm_plugin import _counters

    monkeypatch.setattr(vllm.logger, "_vllm_process_info", object(), raising=False)
    plugin._publish()
    names = [p["process"] for p in _counters.published(_counters.server())]
    assert "MainProcess" in names
