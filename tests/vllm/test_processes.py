# SPDX-License-Identifier: Apache-2.0
"""Fresh processes: vLLM finds the plug-in by itself, or starts without it.

Each test starts vLLM up to its scheduler under one circumstance, in a process that has
imported vLLM and nothing of specgrid (support/start.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parent / "support"

BROKEN = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "specgrid._core":
            raise ImportError("undefined symbol: made for a test")
sys.meta_path.insert(0, Broken())
"""

FAILING = """
import specgrid.vllm_plugin._register as r
def register():
    raise OSError("made for a test")
r.register = register
"""


NOWHERE = """
import os, tempfile
for name in ("HOME", "SPECGRID_RUN_DIR"):
    os.environ.pop(name)
def none():
    raise FileNotFoundError(2, "No usable temporary directory found")
tempfile.gettempdir = none
mkdir = os.mkdir
def read_only(path, *args, **kwargs):
    if "specgrid-" in os.fspath(path):
        raise OSError(30, "Read-only file system")
    return mkdir(path, *args, **kwargs)
os.mkdir = read_only
os.chdir("/proc")
"""

STRANGERS = """
import os, pathlib
run = pathlib.Path(os.environ["SPECGRID_RUN_DIR"]) / "strangers"
for name in ("nodash", "app-20240101.log", "process-999999999.json"):
    (run / "logs").mkdir(parents=True, exist_ok=True)
    (run / "logs" / name).write_text("not specgrid's")
os.environ["SPECGRID_RUN_DIR"] = str(run)
"""


@dataclass(frozen=True)
class Circumstance:
    """Environment variables and code run before plug-ins are loaded."""

    env: dict[str, str] = field(default_factory=dict)
    before: str = ""
    active: bool = True
    says: str = ""


CIRCUMSTANCES = {
    "as installed": Circumstance(says="native) with vLLM 0.33"),
    "named in VLLM_PLUGINS": Circumstance({"VLLM_PLUGINS": "specgrid"}),
    "VLLM_PLUGINS names others": Circumstance(
        {"VLLM_PLUGINS": "lora_filesystem_resolver"}, active=False
    ),
    "switched off": Circumstance({"SPECGRID_DISABLE": "1"}, active=False),
    "extension does not load": Circumstance(
        before=BROKEN, says="undefined symbol: made for a test"
    ),
    "extension required and broken": Circumstance(
        {"SPECGRID_BACKEND": "native"},
        before=BROKEN,
        active=False,
        says="not active, vLLM runs unchanged: BackendError",
    ),
    "unknown back end": Circumstance(
        {"SPECGRID_BACKEND": "rust"}, active=False, says="SPECGRID_BACKEND='rust'"
    ),
    "registration fails": Circumstance(
        before=FAILING, active=False, says="not active, vLLM runs unchanged: OSError"
    ),
    "no writable directory": Circumstance(
        {"SPECGRID_RUN_DIR": "/proc/no/such/place"}, says="with vLLM 0.33"
    ),
    "counters' folder is a file": Circumstance(
        {"SPECGRID_RUN_DIR": "/etc/passwd"}, says="counted in memory alone"
    ),
    "nowhere to write, no home": Circumstance(
        before=NOWHERE, says="counted in memory alone"
    ),
    "a folder of someone else's files": Circumstance(
        before=STRANGERS, says="with vLLM 0.33"
    ),
    "rubbish in every variable": Circumstance(
        {
            "SPECGRID_POLICY": "\udcff",
            "SPECGRID_RULE": "näh",
            "SPECGRID_AGREE_TIMEOUT": "soon",
            "SPECGRID_SERVER": "\udcff / \n",
            "SPECGRID_RUN_DIR": "\udcff\udc80",
        },
        before="import os, tempfile; os.chdir(tempfile.mkdtemp())",
        says=r"policy='\udcff' is not known; write one of reachable",
    ),
    "every variable empty": Circumstance(
        dict.fromkeys(
            (
                "SPECGRID_DISABLE",
                "SPECGRID_SHADOW",
                "SPECGRID_POLICY",
                "SPECGRID_RULE",
                "SPECGRID_AGREE_TIMEOUT",
                "SPECGRID_SERVER",
                "SPECGRID_BACKEND",
            ),
            "",
        ),
        says="with vLLM 0.33",
    ),
    "two registrations": Circumstance(
        before="import specgrid.vllm_plugin as p; p.register(); p.register()",
        says="with vLLM 0.33",
    ),
    "shadow": Circumstance({"SPECGRID_SHADOW": "1"}, says="with vLLM 0.33"),
    "warnings are errors": Circumstance(
        before="import warnings; warnings.filterwarnings('error', module='specgrid')",
        says="with vLLM 0.33",
    ),
}


def run(
    model: str, folder: Path, what: dict[str, Circumstance], **env: str
) -> dict[str, tuple[dict[str, Any], str]]:
    """What start.py found under each circumstance, and its log."""
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("SPECGRID", "VLLM"))
    }
    clean |= {
        "SPECGRID_RUN_DIR": str(folder / "run"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(SUPPORT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    jobs = folder / "circumstances.json"
    jobs.write_text(json.dumps({name: asdict(c) for name, c in what.items()}))
    child = subprocess.run(
        [sys.executable, str(SUPPORT / "start.py"), model, str(jobs), str(folder)],
        env=clean | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-4000:]
    found = {}
    for name in what:
        log = (folder / f"{name}.log").read_text()
        result = folder / f"{name}.json"
        assert result.exists(), log[-4000:]
        found[name] = json.loads(result.read_text()), log
    return found


@pytest.fixture(scope="module")
def started(model: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every circumstance, started."""
    return run(model, tmp_path_factory.mktemp("start"), CIRCUMSTANCES)


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_vllm_starts_and_answers_as_ever(started: Any, name: str) -> None:
    result, _ = started[name]
    assert result["lookup"] == [0, *[4] * 4, *[0] * 28]
    assert result["k"] == 4
    assert result["sizes"] == started["switched off"][0]["sizes"]


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_the_plugin_is_active_exactly_when_it_should(started: Any, name: str) -> None:
    result, _ = started[name]
    assert result["replaced"] == [CIRCUMSTANCES[name].active] * 3


@pytest.mark.parametrize("name", [n for n, c in CIRCUMSTANCES.items() if c.says])
def test_the_log_says_what_happened(started: Any, name: str) -> None:
    _, log = started[name]
    assert CIRCUMSTANCES[name].says in log


def test_files_of_others_in_the_counters_folder_stay(
    started: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (logs,) = tmp_path_factory.getbasetemp().glob("start0/run/strangers/logs")
    assert {path.read_text() for path in logs.iterdir()} == {"not specgrid's"}
    assert len(list(logs.iterdir())) == 3


def test_an_optimised_python_loses_no_check(model: str, tmp_path: Path) -> None:
    """-OO drops assert statements and docstrings."""
    what = {"optimised": Circumstance(says="with vLLM 0.33")}
    result, log = run(model, tmp_path, what, PYTHONOPTIMIZE="2")["optimised"]
    assert result["optimized"]
    assert result["replaced"] == [True] * 3
    assert "with vLLM 0.33" in log


def test_one_line_says_what_is_active(started: Any) -> None:
    _, log = started["as installed"]
    lines = [line for line in log.splitlines() if "specgrid:" in line]
    assert len(lines) == 1
    assert "active: config, rows, lookup, sizes" in lines[0]


def test_doctor_agrees(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPECGRID")}
    child = subprocess.run(
        [sys.executable, "-m", "specgrid.cli", "doctor", "--json"],
        env={**env, "SPECGRID_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    document = json.loads(child.stdout)
    assert document["problems"] == []
    assert document["entry_point"]["value"] == "specgrid.vllm_plugin:register"
    assert {s["state"] for s in document["seams"]} == {"active"}


def test_registration_imports_nothing_heavy(tmp_path: Path) -> None:
    """Its time is in benchmarks/bench_vllm.py."""
    code = (
        "import sys, vllm.config\n"
        "before = set(sys.modules)\n"
        "from specgrid.vllm_plugin import register\n"
        "register()\n"
        "new = {m for m in set(sys.modules) - before if m.startswith('vllm.')}\n"
        "heavy = {m for m in set(sys.modules) - before"
        " if m.split('.')[0] in ('click', 'rich', 'yaml')}\n"
        "print(sorted(new), sorted(heavy))\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SPECGRID_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    new, heavy = child.stdout.splitlines()[-1].rsplit(" [", 1)
    assert heavy == "]"
    assert "worker" not in new
    assert "sched" not in new
