# SPDX-License-Identifier: Apache-2.0
"""`specgrid doctor` where vLLM is missing, switched off, or running."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from specgrid.cli import doctor, run
from specgrid.cli._output import Printer


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("SPECGRID_") or name == "VLLM_PLUGINS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "vllm" else find(n, *a)
    )


def test_without_vllm_it_says_so_and_exits_1(
    no_vllm: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert any("vLLM is not installed" in problem for problem in document["problems"])
    assert document["seams"] == []


def test_the_entry_point_of_this_installation_is_found(no_vllm: None) -> None:
    entry = doctor.examine()["entry_point"]
    assert entry["value"] == "specgrid.vllm_plugin:register"


@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("VLLM_PLUGINS", "other", "add specgrid to VLLM_PLUGINS"),
        ("VLLM_PLUGINS", "", "add specgrid to VLLM_PLUGINS"),
        ("SPECGRID_DISABLE", "1", "unset SPECGRID_DISABLE"),
    ],
)
def test_a_switch_that_keeps_it_out_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, advice: str
) -> None:
    monkeypatch.setenv(variable, value)
    document = doctor.examine(import_vllm=False)
    assert any(advice in problem for problem in document["problems"])


def test_vllm_plugins_that_names_it_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "other,specgrid")
    document = doctor.examine(import_vllm=False)
    assert not any("VLLM_PLUGINS" in problem for problem in document["problems"])


SERVER = """
import os, sys
from specgrid.vllm_plugin import _counters as c
c.publish({"process": "EngineCore", "pid": os.getpid(), "active": ["scheduler"],
           "waiting": [], "left to vLLM": ["sizes"], "reasons": {"sizes": "made up"}})
counters = c.open_counters("worker")
for _ in range(30): counters.add(c.STEP, 4, 17, 2)
for _ in range(10): counters.add(c.STEP, 0, 18, 0)
for _ in range(40): counters.add(c.DRAFT, 17, 0, 3)
counters.add(c.TRANSITION, 3, 1, 0)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_running_server_shows_its_processes_and_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    child: Any = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, "SPECGRID_SERVER": "here"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout.readline() == "ready\n"
        document = doctor.examine(import_vllm=False)
        (server,) = document["servers"]
        assert server["server"] == "here"
        assert [p["process"] for p in server["processes"]] == ["EngineCore"]
        assert server["steps"]["by_mode"] == {"FULL": 30, "NONE": 10}
        assert (server["steps"]["scheduled"], server["steps"]["transitions"]) == (40, 1)
        doctor.render(document, Printer(terminal=False))
        text = capsys.readouterr().out
        assert "40 dispatched steps: 30 FULL (75.0%), 10 NONE (25.0%)" in text
        assert "sizes: made up" in text
        child.stdin.close()
    assert doctor.examine(import_vllm=False)["servers"] == []


# An installed vLLM, stood in for: what it answers is tests/vllm's matter.


@pytest.fixture
def a_vllm(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    package, config = types.ModuleType("vllm"), types.ModuleType("vllm.config")
    package.__spec__ = importlib.machinery.ModuleSpec("vllm", None, is_package=True)
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.config", config)

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    return package


def seam(name: str, state: str, reason: str) -> dict[str, str]:
    return {
        "seam": name,
        "state": state,
        "purpose": "made up",
        "target": f"vllm.{name}",
        "reason": reason,
    }


@pytest.fixture
def two_seams(a_vllm: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    from specgrid.vllm_plugin import _register

    seams = [seam("sizes", "active", ""), seam("lookup", "waiting", "no such class")]
    calls: list[Any] = []
    monkeypatch.setattr(_register, "register", lambda **k: calls.append(k))
    monkeypatch.setattr(_register, "check_all", lambda: calls.append("check"))
    monkeypatch.setattr(_register, "status", lambda: {"seams": seams})
    return calls


def test_a_seam_that_is_not_active_is_a_problem_with_its_reason(
    two_seams: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor"]) == 1
    assert two_seams == [{"publish": False}, "check"]
    text = capsys.readouterr().out
    assert "vLLM     of unknown version" in text
    assert "- seam lookup is waiting: no such class" in text
    assert "vllm.sizes" in text
    assert "none of this user runs here with the plug-in" in text


def test_all_seams_active_is_status_0_and_another_release_is_noted(
    two_seams: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from specgrid.vllm_plugin import _register

    active = {"seams": [seam("sizes", "active", "")]}
    monkeypatch.setattr(_register, "status", lambda: active)
    assert run(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["vllm"]["note"] == "not 0.33, but every check passed"
    assert run(["doctor"]) == 0
    assert "The plug-in is active." in capsys.readouterr().out
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.33.0")
    document = doctor.examine()
    assert (document["vllm"]["version"], document["vllm"]["tested"]) == ("0.33.0", True)
    assert "note" not in document["vllm"]


def test_a_vllm_that_does_not_import_is_one_problem(
    a_vllm: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in sys.modules makes the import fail.
    monkeypatch.setitem(sys.modules, "vllm.config", None)
    document = doctor.examine()
    assert document["seams"] == []
    assert [p for p in document["problems"] if "does not import" in p] == [
        "vLLM does not import: ModuleNotFoundError: import of vllm.config halted; None "
        "in sys.modules"
    ]


def test_a_switched_off_plug_in_lists_its_seams_without_touching_vllm(
    two_seams: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECGRID_DISABLE", "1")
    document = doctor.examine()
    assert {s["seam"] for s in document["seams"]} >= {"sizes", "lookup"}
    assert two_seams == []


def test_the_slow_reference_and_a_missing_entry_point_are_problems(
    no_vllm: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor._backend, "fallback_reason", "no such file")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    assert run(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "the native core does not load (no such file)" in text
    assert "no entry point in the group vllm.general_plugins" in text


def test_two_distributions_with_the_entry_point_are_a_problem(
    no_vllm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        importlib.metadata.EntryPoint("specgrid", value, doctor.GROUP)
        for value in ("specgrid.vllm_plugin:register", "other:register")
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    problems = doctor.examine()["problems"]
    assert "several distributions provide the entry point specgrid" in problems


def test_a_plug_in_in_place_is_told_without_importing_vllm(
    a_vllm: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["doctor", "--no-import"]) == 0
    assert "The plug-in is in place." in capsys.readouterr().out


def test_a_server_that_has_done_nothing_yet_shows_its_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    idle = {"by_mode": {}, "scheduled": 0, "transitions": 0, "busiest": []}
    process = {"process": "APIServer", "pid": 7, "active": [], "reasons": {}}
    server = {"server": "idle", "processes": [process], "steps": idle}
    doctor._render_server(server, Printer(terminal=False))
    text = capsys.readouterr().out
    assert text.splitlines()[1:] == [
        "Server idle",
        "process    pid  active  left to vLLM",
        "APIServer    7  -       -",
    ]
