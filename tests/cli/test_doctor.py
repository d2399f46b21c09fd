# SPDX-License-Identifier: Apache-2.0
"""`specgrid doctor` where vLLM is missing, switched off, or running."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
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
