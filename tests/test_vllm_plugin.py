# SPDX-License-Identifier: Apache-2.0
"""Parts of the plug-in that need no vLLM: seams, late imports, settings, counters."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specgrid.vllm_plugin import _agreement, _counters, _imports, _log, _settings
from specgrid.vllm_plugin._seam import LEAVE, Seam


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with a function and a class, and a second that imported from it."""
    home = types.ModuleType("made_up_home")
    exec(
        "def double(x, times=2): return x * times\n"
        "class Box:\n"
        "    def __init__(self, x): self.x = x\n"
        "    def get(self): return self.x\n"
        "class Sub(Box): pass\n",
        home.__dict__,
    )
    other = types.ModuleType("made_up_user")
    other.double = home.double  # type: ignore[attr-defined]
    other.mine = lambda x: x  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up_home", home)
    monkeypatch.setitem(sys.modules, "made_up_user", other)
    return home


def make_seam(qualname: str = "double", **changes: Any) -> Seam:
    arguments: dict[str, Any] = {"answer": lambda original, x, times=2: -x * times}
    parameters = ("x", "times") if qualname == "double" else ()
    return Seam(
        "made up",
        "made_up_home",
        qualname,
        parameters,
        "test",
        **(changes or arguments),
    )


def test_an_answer_is_used_wherever_the_function_was_imported_to(
    target: Any,
) -> None:
    seam = make_seam()
    seam.install()
    user = sys.modules["made_up_user"]
    assert (target.double(3), user.double(3)) == (-6, -6)
    assert target.double.__name__ == "double"
    seam.undo()
    assert (target.double(3), user.double(3)) == (6, 6)
    assert target.double is user.double


def test_undo_reaches_modules_imported_since(
    target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took the wrapper for the function."""
    original = target.double
    seam = make_seam()
    seam.install()
    later = types.ModuleType("made_up_latecomer")
    later.double = target.double  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up_latecomer", later)
    seam.undo()
    assert later.double is original  # type: ignore[attr-defined]


def test_leave_hands_the_call_to_the_original(target: Any) -> None:
    seam = make_seam(answer=lambda original, x, times=2: LEAVE)
    seam.install()
    assert target.double(3, times=5) == 15
    assert seam.calls == 0


def test_methods_are_replaced_for_subclasses_too(target: Any) -> None:
    seen: list[int] = []
    seam = make_seam("Box.get", before=lambda self: seen.append(self.x))
    seam.install()
    assert target.Sub(4).get() == 4
    assert seen == [4]
    seam.undo()
    assert "get" not in vars(target.Sub)


def test_an_exception_steps_aside_for_good(
    target: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    seam = make_seam(answer=broken)
    seam.install()
    with caplog.at_level(logging.WARNING, "vllm.specgrid"):
        assert [target.double(2), target.double(3)] == [4, 6]
    assert len([r for r in caplog.records if "on purpose" in r.getMessage()]) == 1
    assert seam.state == "left to vLLM"


def test_an_original_that_raises_runs_once_and_the_seam_stays(target: Any) -> None:
    runs: list[str] = []

    def original(x: int, times: int = 2) -> int:
        runs.append("ran")
        raise KeyError("the original's own")

    target.double = original
    seam = make_seam(before=lambda x, times=2: None, after=lambda r, x, times=2: None)
    seam.install()
    with pytest.raises(KeyError, match="own"):
        target.double(1)
    assert runs == ["ran"]
    assert seam.state == "active"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"qualname": "gone"}, "no function gone"),
        ({"qualname": "Box.gone"}, "no function Box.gone"),
        ({"qualname": "Gone.get"}, "has no Gone"),
        ({"parameters": ("y", "times")}, "takes (x, times), expected (y, times)"),
        ({"parameters": ("x", "times", "z")}, "expected (x, times, z)"),
        ({"check": lambda original: "2 differs"}, "self-check: 2 differs"),
        ({"check": lambda original: 1 / 0}, "ZeroDivisionError"),
    ],
)
def test_what_does_not_fit_is_left_with_the_reason(
    target: Any, changes: dict[str, Any], reason: str
) -> None:
    arguments: dict[str, Any] = {
        "name": "made up",
        "module": "made_up_home",
        "qualname": "double",
        "parameters": ("x", "times"),
        "purpose": "test",
        "answer": lambda original, x, times=2: 0,
        **changes,
    }
    seam = Seam(**arguments)
    seam.install()
    assert seam.state == "left to vLLM"
    assert reason in seam.reason
    assert target.double(3) == 6


def test_a_further_parameter_with_a_default_is_accepted(target: Any) -> None:
    seam = Seam(
        "made up",
        "made_up_home",
        "double",
        ("x",),
        "test",
        answer=lambda original, x, times=2: 0,
    )
    seam.install()
    assert seam.state == "active"


def test_a_second_copy_of_the_plugin_does_not_wrap_again(target: Any) -> None:
    make_seam().install()
    second = make_seam()
    second.install()
    assert "already replaced" in second.reason


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable module that is not imported yet."""
    name = "made_up_later"
    (tmp_path / f"{name}.py").write_text("value = 1\ndef double(x): return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = dict(_imports._callbacks)
    yield name
    sys.modules.pop(name, None)
    _imports._callbacks.clear()
    _imports._callbacks.update(kept)


def test_a_callback_runs_once_right_after_the_import(package: str) -> None:
    seen: list[int] = []
    _imports.when_imported(package, lambda: seen.append(sys.modules[package].value))
    module = importlib.import_module(package)
    assert seen == [1]
    importlib.reload(module)
    assert seen == [1]
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"


def test_a_module_that_does_not_exist_stays_missing() -> None:
    _imports.when_imported("made_up_nowhere", lambda: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("made_up_nowhere")
    finally:
        _imports.forget()


def config(**section: Any) -> Any:
    return types.SimpleNamespace(additional_config={"specgrid": section})


def test_defaults_hold_without_settings() -> None:
    for empty in ({}, None, types.SimpleNamespace()):
        found = _settings.read(types.SimpleNamespace(additional_config=empty))
        assert found == _settings.Settings()


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"policy": "best"}, "policy"),
        ({"rule": 3}, "rule"),
        ({"context_aggregate": "min"}, "context_aggregate"),
        ({"schedule": "1-4:3"}, "schedule"),
        ({"schedule": [1, 2, 3]}, "schedule"),
        ({"plan": 5}, "plan"),
        ({"polcy": "vllm"}, "polcy"),
        ({"policy": ["vllm"]}, "policy"),
    ],
)
def test_an_unusable_setting_is_named_once_and_the_default_holds(
    section: dict[str, Any], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    _log._said.clear()
    with caplog.at_level(logging.WARNING, "vllm.specgrid"):
        for _ in range(2):
            assert _settings.read(config(**section)) == _settings.Settings()
    assert [word in r.getMessage() for r in caplog.records] == [True]


def test_environment_fills_what_the_configuration_leaves_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECGRID_POLICY", "vllm")
    assert _settings.read(config()).policy == "vllm"
    assert _settings.read(config(policy="reachable")).policy == "reachable"
    monkeypatch.setenv("SPECGRID_SHADOW", "1")
    assert _settings.read(config(policy="reachable")).policy == "vllm"
    assert _settings.read(config(policy="reachable")).shadow


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (None, False),
        ("", False),
        ("0", False),
        ("false", False),
        ("1", True),
        ("yes", True),
    ],
)
def test_switches_read_like_switches(text: str | None, meaning: bool) -> None:
    assert _settings.truth(text) is meaning


def test_recording_keeps_what_others_put_there() -> None:
    target = types.SimpleNamespace(
        additional_config={"other": 1, "specgrid": {"policy": "vllm"}}
    )
    _settings.record(target, plan=None)
    assert target.additional_config == {
        "other": 1,
        "specgrid": {"policy": "vllm", "plan": None},
    }


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("SPECGRID_SERVER", "test-server")
    return tmp_path


def test_counts_are_read_by_another_process(run_dir: Path) -> None:
    counters = _counters.open_counters("worker")
    for _ in range(3):
        counters.add(_counters.STEP, 4, 17, 2)
    counters.add(_counters.TRANSITION, 3, 0, 0)
    code = (
        "from specgrid.vllm_plugin import _counters as c\n"
        "r, = c.read_server('test-server')\n"
        "print(r.header['role'], r.header['pid'], [tuple(x) for x in r.counts])\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout == (
        f"worker {os.getpid()} [(1, (4, 17, 2), 3), (3, (3, 0, 0), 1)]\n"
    )


def test_counts_that_find_no_slot_are_counted_as_overflow(run_dir: Path) -> None:
    counters = _counters.open_counters("worker")
    for i in range(_counters.SLOTS + 50):
        counters.add(_counters.STEP, 1, i, 0)
    found = list(counters.counts())
    assert len(found) == _counters.SLOTS
    assert found[-1] == (_counters.OVERFLOW, (0, 0, 0), 51)
    assert sum(c.total for c in found) == _counters.SLOTS + 50


def test_counting_goes_on_in_memory_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECGRID_RUN_DIR", "/proc/no/such/place")
    counters = _counters.open_counters("worker")
    counters.add(_counters.STEP, 1, 2, 0)
    assert counters.path is None
    assert "Error" in counters.problem
    assert list(counters.counts()) == [(_counters.STEP, (1, 2, 0), 1)]
    _counters.publish({"process": "x"})  # silent
    assert _counters.servers() == []


def test_dead_servers_are_forgotten_and_live_ones_kept(run_dir: Path) -> None:
    dead = run_dir / "18a0b1c2d3e4f5-999999999"
    dead.mkdir()
    (dead / "worker-999999999-0.counters").write_bytes(b"")
    _counters.open_counters("worker")
    here = {"process": "here", "pid": os.getpid(), "active": [], "reasons": {}}
    _counters.publish(here)
    _counters.remove_dead()
    assert _counters.servers() == ["test-server"]
    assert _counters.published("test-server") == [here]


def test_equal_digests_agree_and_different_ones_are_named() -> None:
    a = {
        "schedule": _agreement.digest([1, 2]),
        "graph set": _agreement.digest({"x": 1}),
    }
    assert _agreement.differences([a, dict(a)]) == []
    b = {**a, "schedule": _agreement.digest([1, 3])}
    (text,) = _agreement.differences([a, a, b])
    assert text.startswith("schedule differs (rank 0, 1: ")
    assert "rank 2: " in text


def test_importing_the_plugin_imports_no_vllm_and_no_command_line() -> None:
    code = (
        "import sys, specgrid.vllm_plugin\n"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " ('vllm', 'torch', 'click', 'rich', 'yaml', 'prometheus_client')])\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "[]"
