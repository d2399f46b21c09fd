# SPDX-License-Identifier: Apache-2.0
"""Real engines on CPU: same tokens with and without, K by the table, all processes.

A tiny random Llama, ngram drafting, a dynamic schedule. One child process runs the
engines one after the other; another runs one with API, engine-core and worker processes
of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specgrid import Schedule

SUPPORT = Path(__file__).parent / "support"
PROMPTS = [20, 24, 28, 32, 36, 40, 44, 48, 52, 56]
OUTPUTS = [8, 12, 16, 20, 24, 28, 32, 36, 40, 44]
ONE_D = [[1, 2, 4], [3, 8, 2], [9, 64, 0]]
EQUAL = [[lo, hi, c, d, k] for lo, hi, k in ONE_D for c, d in ((1, 64), (65, 999))]
UNEQUAL = [
    [1, 4, 1, 64, 4],
    [1, 4, 65, 999, 1],
    [5, 16, 1, 64, 2],
    [5, 16, 65, 999, 0],
]
RUNS: list[dict[str, Any]] = [
    {"name": "off", "disable": True, "schedule": ONE_D},
    {"name": "parity", "schedule": ONE_D, "settings": {"policy": "vllm"}},
    {"name": "default", "schedule": ONE_D},
    {"name": "equal columns", "settings": {"schedule": EQUAL}},
    {"name": "unequal columns", "settings": {"schedule": UNEQUAL}},
]
STEP, DRAFT, TRANSITION = 1, 2, 3


def run(
    folder: Path, model: str, runs: list[dict[str, Any]], **env: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Results by name, and the log."""
    jobs = [{"prompt_lengths": PROMPTS, "output_lengths": OUTPUTS, **r} for r in runs]
    (folder / "runs.json").write_text(json.dumps({"model": model, "runs": jobs}))
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("SPECGRID", "VLLM"))
    }
    child = subprocess.run(
        [
            sys.executable,
            str(SUPPORT / "engine_runs.py"),
            str(folder / "runs.json"),
            str(folder / "results.json"),
        ],
        env={**clean, "SPECGRID_RUN_DIR": str(folder / "counters"), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-6000:]
    results = json.loads((folder / "results.json").read_text())
    return {result["name"]: result for result in results}, child.stdout


@pytest.fixture(scope="module")
def engines(model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("engines")
    return run(folder, model, RUNS, VLLM_ENABLE_V1_MULTIPROCESSING="0")[0]


@pytest.fixture(scope="module")
def three_processes(model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    job = {
        "name": "mp",
        "settings": {"schedule": UNEQUAL},
        "engine_args": {"distributed_executor_backend": "mp"},
    }
    results, log = run(tmp_path_factory.mktemp("three"), model, [job])
    return results["mp"], log


def k_by_step(result: dict[str, Any]) -> dict[tuple[int, int, int], int]:
    """(requests, context column, k) -> scheduled steps, from the counters."""
    return {
        tuple(key): count  # type: ignore[misc]
        for role, kind, key, count in result["counts"]
        if role == "scheduler" and kind == DRAFT
    }


@pytest.mark.timeout(900)
def test_the_first_run_is_without_the_plugin(engines: Any) -> None:
    assert set(engines["off"]["seams"].values()) == {"off"}
    assert engines["off"]["counts"] == []
    assert "left to vLLM" not in engines["default"]["seams"].values()


@pytest.mark.parametrize("name", [r["name"] for r in RUNS[1:]])
def test_tokens_are_those_without_the_plugin(engines: Any, name: str) -> None:
    assert [len(t) for t in engines["off"]["tokens"]] == OUTPUTS
    assert engines[name]["tokens"] == engines["off"]["tokens"]


@pytest.mark.parametrize("name", ["parity", "default", "equal columns"])
def test_as_much_is_drafted_and_accepted(engines: Any, name: str) -> None:
    def drafted(result: dict[str, Any]) -> list[Any]:
        return [m for m in result["metrics"] if "spec_decode" in m["name"]]

    assert drafted(engines[name]) == drafted(engines["off"])


@pytest.mark.parametrize("name", ["parity", "default", "equal columns"])
def test_k_of_each_step_follows_the_batch(engines: Any, name: str) -> None:
    lookup = Schedule(ONE_D).lookup(16, 4)
    steps = k_by_step(engines[name])
    assert steps
    assert all(k == lookup[batch] for batch, _, k in steps)


def test_k_of_each_step_follows_batch_and_context(engines: Any) -> None:
    lookup = Schedule(UNEQUAL).lookup(16, 4)
    steps = k_by_step(engines["unequal columns"])
    first_context = [low for low, _ in lookup.context_ranges]
    assert all(k == lookup[batch, first_context[c]] for batch, c, k in steps)
    assert {(batch > 4, c) for batch, c, _ in steps} >= {
        (True, 0),
        (True, 1),
        (False, 1),
    }
    changes = [
        c
        for role, kind, _, c in engines["unequal columns"]["counts"]
        if kind == TRANSITION
    ]
    assert sum(changes) >= 2


def test_dispatched_steps_are_counted_in_the_worker(engines: Any) -> None:
    steps = {
        tuple(key): count
        for role, kind, key, count in engines["unequal columns"]["counts"]
        if role == "worker" and kind == STEP
    }
    scheduled = sum(k_by_step(engines["unequal columns"]).values())
    assert sum(steps.values()) == scheduled
    assert all(mode == 0 for _, _, mode in steps)  # this CPU engine has no graphs
    assert {query_len for query_len, _, _ in steps} >= {1, 2, 3}


def test_counters_are_in_vllms_metrics(engines: Any) -> None:
    metrics = engines["unequal columns"]["metrics"]
    found = {
        (
            int(m["labels"]["num_reqs"]),
            int(m["labels"]["context_column"]),
            int(m["labels"]["k"]),
        ): m["value"]
        for m in metrics
        if m["name"] == "vllm:specgrid_scheduled_steps"
    }
    assert found == k_by_step(engines["unequal columns"])
    assert any(m["name"] == "vllm:specgrid_steps" for m in metrics)
    assert any(m["name"] == "vllm:specgrid_k_transitions" for m in metrics)
    assert {m["labels"]["model_name"] for m in metrics if "specgrid" in m["name"]} == {
        m["labels"]["model_name"] for m in metrics if "spec_decode" in m["name"]
    }


@pytest.mark.timeout(900)
def test_api_engine_core_and_worker_each_report_the_plugin(
    three_processes: Any,
) -> None:
    result, log = three_processes
    lines = [line for line in log.splitlines() if "with vLLM 0.33" in line]
    names = {line.split("(")[1].split(" pid=")[0] for line in lines}
    assert {"EngineCore", "VllmWorker-0"} < names
    assert len(names) == len(lines) == 3
    published = {p["process"]: p for p in result["processes"]}
    assert {"EngineCore", "VllmWorker-0"} < set(published)
    assert not any(p["left to vLLM"] for p in published.values())
    assert "scheduler" in published["EngineCore"]["active"]
    assert "v1-steps" in published["VllmWorker-0"]["active"]


def test_settings_reach_every_process(three_processes: Any, engines: Any) -> None:
    result, _ = three_processes
    assert result["tokens"] == engines["off"]["tokens"]
    lookup = Schedule(UNEQUAL).lookup(16, 4)
    first_context = [low for low, _ in lookup.context_ranges]
    steps = k_by_step(result)
    assert steps
    assert all(k == lookup[batch, first_context[c]] for batch, c, k in steps)


def test_api_process_shows_the_other_processes_counters(three_processes: Any) -> None:
    result, _ = three_processes
    found = {
        (
            int(m["labels"]["num_reqs"]),
            int(m["labels"]["context_column"]),
            int(m["labels"]["k"]),
        ): m["value"]
        for m in result["metrics"]
        if m["name"] == "vllm:specgrid_scheduled_steps"
    }
    assert found == k_by_step(result)
