# SPDX-License-Identifier: Apache-2.0
"""A saved plan is captured exactly, or refused with the reason."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from specgrid import Budget, CapturePlan, Costs, Schedule, Workload, plan_captures

ROWS = [[1, 8, 3], [9, 32, 1], [33, 64, 0]]
COSTS = Costs.linear(2000.0, 8.0, 900.0, 3000.0)


def make_plan(dispatcher: str, **changes: Any) -> CapturePlan:
    lookup = Schedule(ROWS).lookup(64, 3)
    weights = {(1 + lookup[b], b): 1.0 + b % 7 for b in range(1, 65)}
    arguments: dict[str, Any] = {
        "schedule": Schedule(ROWS),
        "max_num_seqs": 64,
        "num_speculative_tokens": 3,
        "budget": Budget(graphs=40),
        "dispatcher": dispatcher,
        **changes,
    }
    mixed = {100: 5.0, 300: 1.0}
    return plan_captures(Workload(weights, mixed=mixed), COSTS, **arguments)


def start(sim: Any, model: str, plan: CapturePlan, folder: Path, **changes: Any) -> Any:
    path = folder / "plan.json"
    plan.save(path)
    arguments: dict[str, Any] = {
        "max_num_seqs": 64,
        "speculative_config": sim.ngram(3, ROWS),
        "additional_config": {"specgrid": {"plan": str(path)}},
        **changes,
    }
    return sim.make_config(model, **arguments)


def test_keyed_graphs_are_captured_exactly(
    plugin: Any, sim: Any, model: str, tmp_path: Path
) -> None:
    plan = make_plan("direct")
    config = start(sim, model, plan, tmp_path)
    manager = sim.make_manager(config)
    captured = {m.name: d for m, d in manager._capture_descs.items()}
    assert {(d.uniform_token_count, d.num_reqs) for d in captured["FULL"]} == set(
        plan.graphs
    )
    assert sorted(d.num_tokens for d in captured["PIECEWISE"]) == sorted(plan.sizes)
    lookup = Schedule(ROWS).lookup(64, 3)
    for batch in range(1, 65):
        q = 1 + lookup[batch]
        served = manager.dispatch(batch, batch * q, q, 0)
        wanted = min((n for p, n in plan.graphs if p == q and n >= batch), default=None)
        assert served.num_reqs == wanted
        assert served.cg_mode.name == "FULL"


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length"])
def test_size_plans_are_captured_exactly(
    plugin: Any, sim: Any, model: str, tmp_path: Path, dispatcher: str
) -> None:
    plan = make_plan(dispatcher)
    config = start(sim, model, plan, tmp_path)
    assert config.compilation_config.cudagraph_capture_sizes == plan.sizes
    manager = sim.make_manager(config)
    captured = sum(len(d) for d in manager._capture_descs.values())
    assert captured == plan.value.num_graphs


def test_a_plan_survives_a_second_resolution_without_its_file(
    plugin: Any, sim: Any, model: str, tmp_path: Path
) -> None:
    """Other machines need not have the file."""
    plan = make_plan("direct")
    config = start(sim, model, plan, tmp_path)
    (tmp_path / "plan.json").unlink()
    again = pickle.loads(pickle.dumps(config))
    again.__post_init__()
    assert (
        again.compilation_config.cudagraph_capture_sizes
        == config.compilation_config.cudagraph_capture_sizes
    )
    assert sim.make_manager(again)._candidates == sim.make_manager(config)._candidates


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_num_seqs": 63}, "max_num_seqs=64, this server has 63"),
        ({"spec": (4, ROWS)}, "num_speculative_tokens=3, this server has 4"),
        ({"spec": (3, [[1, 8, 3], [9, 64, 1]])}, "this server has schedule"),
        ({"spec": (3, None)}, "this server has a static K"),
        ({"cudagraph_capture_sizes": [1, 2, 4]}, "is given too and differs"),
        ({"max_cudagraph_capture_size": 7}, "max_cudagraph_capture_size=7"),
        ({"max_num_batched_tokens": 64, "max_model_len": 48}, "max_num_batched_tokens"),
        ({"v2": False}, "it is for cudagraph_mode FULL_AND_PIECEWISE"),
        (
            {"compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"}},
            "vLLM runs FULL_DECODE_ONLY",
        ),
    ],
)
def test_a_plan_for_another_server_is_refused_and_the_server_starts(
    plugin: Any,
    sim: Any,
    model: str,
    tmp_path: Path,
    log: list[str],
    changes: dict[str, Any],
    reason: str,
) -> None:
    if "spec" in changes:
        changes = {"speculative_config": sim.ngram(*changes["spec"])}
    plan = make_plan("direct")
    config = start(sim, model, plan, tmp_path, **changes)
    errors = [line for line in log if line.startswith("ERROR")]
    assert len(errors) == 1
    assert reason in errors[0]
    section = config.additional_config["specgrid"]
    assert section["plan"] is None
    assert not section.get("plan_data")
    assert config.compilation_config.cudagraph_capture_sizes


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "other"}', None])
def test_a_broken_plan_file_is_named_and_the_server_starts(
    plugin: Any, sim: Any, model: str, tmp_path: Path, log: list[str], content: Any
) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    config = sim.make_config(model, additional_config={"specgrid": {"plan": str(path)}})
    assert config.compilation_config.cudagraph_capture_sizes
    assert [line for line in log if line.startswith("ERROR") and "plan.json" in line]


def test_a_plan_of_another_rule_is_refused(
    plugin: Any, sim: Any, model: str, tmp_path: Path, log: list[str]
) -> None:
    plan = make_plan("union")
    path = tmp_path / "plan.json"
    plan.save(path)
    data = json.loads(path.read_text())
    data["rule"] = "vllm-0.26"
    path.write_text(json.dumps(data))
    sim.make_config(
        model,
        max_num_seqs=64,
        speculative_config=sim.ngram(3, ROWS),
        additional_config={"specgrid": {"plan": str(path)}},
    )
    assert any(line.startswith("ERROR") and "rule" in line for line in log)
