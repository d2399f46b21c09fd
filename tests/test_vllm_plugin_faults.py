# SPDX-License-Identifier: Apache-2.0
"""What can be wrong around the plug-in: variables, folders, files, other modules.

No vLLM is needed here. Whatever is wrong, vLLM's processes go on, nothing of the
user's is deleted, and the log says what is missing.
"""

from __future__ import annotations

import errno
import importlib
import importlib.machinery
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specgrid import Schedule, vllm_plugin
from specgrid._plugin_settings import usable_settings
from specgrid.vllm_plugin import (
    _agreement,
    _counters,
    _graphs,
    _imports,
    _log,
    _register,
    _schedule_of,
    _settings,
)
from specgrid.vllm_plugin._seam import Seam

SERVER = "18a0b1c2d3e4f5-999999999"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("SPECGRID_SERVER", SERVER)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the plug-in logs, nothing of it said before."""
    _log._said.clear()
    with caplog.at_level(logging.INFO, "vllm.specgrid"):
        yield caplog


def count_something(said: pytest.LogCaptureFixture) -> _counters.Counters:
    counters = _counters.open_counters("worker")
    counters.add(_counters.STEP, 4, 17, 2)
    assert list(counters.counts()) == [(_counters.STEP, (4, 17, 2), 1)]
    return counters


# ---- folders ---------------------------------------------------------------------


def test_only_folders_that_specgrid_alone_writes_are_deleted(run_dir: Path) -> None:
    """SPECGRID_RUN_DIR may be /var/log or a home directory."""
    kept = [
        "logs/app-20240101.log",  # looks like the number of a dead process
        "logs/process-99999999.json",
        "data/nodash",
        "data/worker-999999999-0.counters",
        f"{SERVER}1/process-999999999.json",
        f"{SERVER}1/notes.txt",
        f"{SERVER}2/worker-999999999-0.counters/inner",
        "18a0b1c2d3e4f5-x/process-999999999.json",
        "file-1",
    ]
    dead = [
        f"{SERVER}/process-999999999.json",
        f"{SERVER}/process-999999998.tmp",
        f"{SERVER}/scheduler-999999999-0.counters",
        f"{SERVER}/worker-99999999999999999999-3.counters",
    ]
    for name in kept + dead:
        (run_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (run_dir / name).write_text("x")
    _counters.remove_dead()
    assert [name for name in kept if not (run_dir / name).is_file()] == []
    assert not (run_dir / SERVER).exists()


def test_a_server_with_one_living_process_is_kept(run_dir: Path) -> None:
    folder = run_dir / SERVER
    folder.mkdir()
    (folder / "process-999999999.json").write_text("{}")
    (folder / f"worker-{os.getpid()}-0.counters").write_text("")
    _counters.remove_dead()
    assert len(list(folder.iterdir())) == 2


def test_the_chosen_folder_may_be_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path / "link"))
    monkeypatch.setenv("SPECGRID_SERVER", SERVER)
    assert count_something(said).problem == ""
    assert [r.counts for r in _counters.read_server(SERVER)] == [
        [(_counters.STEP, (4, 17, 2), 1)]
    ]


@pytest.mark.parametrize("name", ["\udcff\udc80", "größe", "a b\n", "x" * 300])
def test_any_folder_name_counts_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any, name: str
) -> None:
    monkeypatch.setenv("SPECGRID_RUN_DIR", str(tmp_path / name))
    monkeypatch.setenv("SPECGRID_SERVER", SERVER)
    counters = count_something(said)
    assert len(_counters.read_server(SERVER)) == (counters.path is not None)
    assert (counters.path is None) == (len(name) == 300)  # longer than a name may be
    assert ("counted in memory alone" in said.text) == (counters.path is None)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default folder, in a temporary directory of this test's own."""
    monkeypatch.delenv("SPECGRID_RUN_DIR", raising=False)
    monkeypatch.setenv("SPECGRID_SERVER", SERVER)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"specgrid-{os.getuid()}"


def test_the_default_folder_is_for_this_user_alone(shared: Path, said: Any) -> None:
    assert count_something(said).path is not None
    assert shared.stat().st_mode & 0o777 == 0o700


def test_the_default_folder_is_not_used_through_a_link(
    shared: Path, tmp_path: Path, said: Any
) -> None:
    """Anyone may have put it into the shared temporary directory."""
    (tmp_path / "trap").mkdir()
    shared.symlink_to("trap")
    assert "is a link or belongs" in count_something(said).problem
    assert "not in /metrics" in said.text
    _counters.publish({"process": "x"})
    assert list((tmp_path / "trap").iterdir()) == [tmp_path / "trap" / SERVER]
    assert list((tmp_path / "trap" / SERVER).iterdir()) == []


def test_a_folder_of_another_user_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    shared.mkdir()
    me = os.getuid()
    ids = iter([me, me])  # the folder's name is made first
    monkeypatch.setattr(os, "getuid", lambda: next(ids, me + 1))
    counters = _counters.Counters(_counters.root() / SERVER / "x.counters", {})
    monkeypatch.undo()
    assert counters.path is None
    assert "belongs to another user" in counters.problem


def test_without_a_temporary_directory_steps_are_counted_in_memory(
    shared: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "PermissionError" in count_something(said).problem
    _counters.publish({"process": "x"})  # silent


# ---- files -----------------------------------------------------------------------


def test_a_counter_file_has_all_its_blocks_from_the_start(
    run_dir: Path, said: Any
) -> None:
    """A hole would be filled while counting, and on a full disk that is SIGBUS."""
    path = count_something(said).path
    assert path is not None
    found = path.stat()
    assert found.st_blocks * 512 >= found.st_size == _counters._SIZE


def test_a_full_disk_leaves_counting_in_memory_and_no_file(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    def full(*args: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    counters = count_something(said)
    assert "No space left" in counters.problem
    assert list((run_dir / SERVER).iterdir()) == []
    assert "in memory alone" in said.text


GOOD = json.dumps({"role": "worker"}).encode().ljust(_counters.HEADER)
STRANGE = {
    "empty": b"",
    "short": GOOD,
    "no JSON": bytes(_counters._SIZE),
    "a list": b"[]".ljust(_counters._SIZE),
    "deep": (b"[" * 4000).ljust(_counters._SIZE),
    "no UTF-8": b"\xff\xfe".ljust(_counters._SIZE),
    "too long": GOOD + bytes(_counters._SIZE),
    "odd length": GOOD + bytes(_counters._SIZE - _counters.HEADER - 3),
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_counter_file_is_left_out(
    run_dir: Path, said: Any, name: str
) -> None:
    """A process may be about to write its file, or have just died over it."""
    count_something(said)
    (run_dir / SERVER / "worker-1-0.counters").write_bytes(STRANGE[name])
    (run_dir / SERVER / "worker-2-0.counters").mkdir()
    (run_dir / SERVER / "worker-3-0.counters").symlink_to("nowhere")
    (reading,) = _counters.read_server(SERVER)
    assert reading.header["pid"] == os.getpid()
    assert reading.counts == [(_counters.STEP, (4, 17, 2), 1)]


def test_what_no_process_published_is_left_out(run_dir: Path) -> None:
    good = {"process": "API", "pid": 7, "active": [], "reasons": {}}
    _counters.publish(good)
    texts = [
        "",
        "[]",
        "{}",
        "[" * 5000,
        "\0",
        *(json.dumps({**good, key: None}) for key in good),
    ]
    for i, text in enumerate(texts):
        (run_dir / SERVER / f"process-{i}.json").write_text(text)
    assert _counters.published(SERVER) == [good]


def test_an_empty_server_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGRID_SERVER", "")
    assert _counters.is_first()
    name = _counters.server()
    assert _counters._OUR_FOLDER.fullmatch(name)
    assert os.environ["SPECGRID_SERVER"] == name == _counters.server()
    assert not _counters.is_first()


@pytest.mark.parametrize("pid", [999_999_999, 10**30])
def test_numbers_that_are_no_process_are_dead(pid: int) -> None:
    assert not _counters.alive(pid)


def test_a_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert _counters.alive(1)


# ---- registering -----------------------------------------------------------------


@pytest.fixture
def unregistered() -> Iterator[None]:
    """This process without the plug-in, whatever ran before."""
    was_active = _register._active
    vllm_plugin.undo()
    yield
    if was_active:
        _register.register()


def test_a_failing_registration_leaves_nothing_behind(
    run_dir: Path, unregistered: None, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    """The log then says that vLLM runs unchanged, and it does."""

    def broken() -> str:
        raise LookupError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(_register, "_summary", broken)
        vllm_plugin.register()
    assert "not active, vLLM runs unchanged: LookupError: on purpose" in said.text
    status = vllm_plugin.status()
    assert (status["active"], status["reason"]) == (False, "LookupError: on purpose")
    assert {seam["state"] for seam in status["seams"]} == {"off"}
    assert _imports._callbacks == {}
    assert _imports._finder not in sys.meta_path


@pytest.mark.parametrize("text", ["1", "yes", "\udcff", "x" * 100_000, " 2 "])
def test_anything_but_a_no_switches_the_plugin_off(
    run_dir: Path,
    unregistered: None,
    monkeypatch: pytest.MonkeyPatch,
    said: Any,
    text: str,
) -> None:
    monkeypatch.setenv("SPECGRID_DISABLE", text)
    vllm_plugin.register()
    status = vllm_plugin.status()
    assert not status["active"]
    assert status["reason"] == "switched off by SPECGRID_DISABLE"
    assert {seam["state"] for seam in status["seams"]} == {"off"}
    assert list(run_dir.iterdir()) == []
    assert "switched off by SPECGRID_DISABLE" in said.text


FORK = """
import logging, os, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s", level="INFO")
from specgrid.vllm_plugin import _counters, register
register()
child = os.fork()
if not child:
    for _ in range(2):
        _counters.open_counters("worker").add(1, 1, 1, 2)
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(child, 0)
found = _counters.published(_counters.server())
assert status == 0
assert sorted(p["pid"] for p in found) == sorted([os.getpid(), child]), found
assert len(_counters.read_server(_counters.server())) == 2
"""


def test_a_process_forked_after_loading_says_so_once(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "SPECGRID_RUN_DIR": str(tmp_path), "SPECGRID_SERVER": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.count("with vLLM not imported") == 2


def test_what_is_said_before_vllm_has_a_log_waits_for_it() -> None:
    code = (
        "import logging, sys\n"
        "from specgrid.vllm_plugin import _log\n"
        "_log.info('first %d', 1)\n"
        "_log.flush()\n"
        "logging.basicConfig(stream=sys.stdout, format='%(message)s', level='INFO')\n"
        "_log.info('second')\n"
        "_log.flush()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert child.stdout == "specgrid: first 1\nspecgrid: second\n"
    assert child.stderr == ""


def test_the_log_carries_the_traceback_for_who_debugs(
    said: pytest.LogCaptureFixture,
) -> None:
    with said.at_level(logging.DEBUG, "vllm.specgrid"):
        _log.warning("broken", exc_info=ValueError("why"))
    assert "ValueError: why" in said.text


# ---- seams and imports -----------------------------------------------------------


def seam_on(module: Any, qualname: str, monkeypatch: pytest.MonkeyPatch) -> Seam:
    monkeypatch.setitem(sys.modules, "made_up_home", module)
    return Seam(
        "made up", "made_up_home", qualname, (), "test", before=lambda *args: None
    )


def test_a_class_that_became_something_else_is_left(
    monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    module = types.ModuleType("made_up_home")
    module.Thing = 5  # type: ignore[attr-defined]
    seam = seam_on(module, "Thing.method", monkeypatch)
    seam.install()
    assert (seam.state, seam.reason[:10]) == ("left to vLLM", "TypeError:")
    assert "made up is left to vLLM: TypeError" in said.text


def test_a_binding_that_cannot_be_replaced_gives_the_others_back(
    monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    class ReadOnly(types.ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("read only")

    home = types.ModuleType("made_up_home")
    exec("def double(): return 2", home.__dict__)
    other = ReadOnly("made_up_user")
    vars(other)["double"] = original = home.double
    seam = seam_on(home, "double", monkeypatch)
    monkeypatch.setitem(sys.modules, "made_up_user", other)
    seam.install()
    assert seam.state == "left to vLLM"
    assert "read only" in seam.reason
    assert home.double is other.double is original


def test_modules_that_raise_when_looked_at_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Raises:
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError("lazy import failed")

    home = types.ModuleType("made_up_home")
    exec("def double(): return 2", home.__dict__)
    monkeypatch.setitem(sys.modules, "made_up_raises", Raises())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "made_up_number", 5)  # type: ignore[arg-type]
    seam = seam_on(home, "double", monkeypatch)
    seam.install()
    assert (seam.state, seam.reason) == ("active", "")
    assert home.double() == 2
    seam.undo()


def test_undo_leaves_what_someone_else_has_put_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Box:
        def get(self) -> int:
            return 1

    home = types.ModuleType("made_up_home")
    home.Box = Box  # type: ignore[attr-defined]
    seam = seam_on(home, "Box.get", monkeypatch)
    seam.install()
    ours = Box.get

    def theirs(self: Box) -> int:
        return 10 + ours(self)

    Box.get = theirs  # type: ignore[method-assign]
    assert Box().get() == 11
    seam.undo()
    assert Box.get is theirs
    assert Box().get() == 11  # through our wrapper, which now only passes on


def test_steps_that_fail_at_once_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    home = types.ModuleType("made_up_home")
    exec("def double(): return 2", home.__dict__)
    seam = seam_on(home, "double", monkeypatch)
    seam.install()
    for thread in ("first", "second"):
        seam.step_aside(RuntimeError(thread))
    assert seam.reason == "RuntimeError: first"
    assert len(said.records) == 1
    assert home.double() == 2
    seam.undo()


class Slotted:
    """A loader that takes no further attributes."""

    __slots__ = ()

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        module.value = 1


class Finder:
    def __init__(self, name: str, spec: Any) -> None:
        self.name, self.spec = name, spec

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        if isinstance(self.spec, Exception):
            raise self.spec
        return self.spec


@pytest.fixture
def callbacks() -> Iterator[None]:
    kept = dict(_imports._callbacks)
    yield
    _imports._callbacks.clear()
    _imports._callbacks.update(kept)
    sys.modules.pop("made_up_late", None)


def test_a_loader_that_cannot_be_followed_loads_its_module_all_the_same(
    callbacks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.machinery.ModuleSpec("made_up_late", Slotted())  # type: ignore[arg-type]
    monkeypatch.setattr(
        sys, "meta_path", [Finder("made_up_late", spec), *sys.meta_path]
    )
    seen: list[int] = []
    _imports.when_imported("made_up_late", lambda: seen.append(1))
    assert importlib.import_module("made_up_late").value == 1
    assert seen == []


def test_a_finder_that_raises_speaks_for_itself(
    callbacks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = Finder("made_up_late", OSError("the disk is gone"))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    _imports.when_imported("made_up_late", lambda: None)
    with pytest.raises(OSError, match="the disk is gone"):
        importlib.import_module("made_up_late")


# ---- settings --------------------------------------------------------------------


def config(**section: Any) -> Any:
    return types.SimpleNamespace(additional_config={"specgrid": section})


@pytest.mark.parametrize("key", ["shadow", "counters"])
@pytest.mark.parametrize("value", ["false", "no", 0, 1, [], {}])
def test_a_switch_is_true_or_false_and_nothing_else(
    said: pytest.LogCaptureFixture, key: str, value: Any
) -> None:
    """The text "false" is not a yes."""
    assert _settings.read(config(**{key: value})) == _settings.Settings()
    (record,) = said.records
    assert f"{key} must be true or false" in record.getMessage()
    usable, (problem,) = usable_settings({key: value})  # before the server starts
    assert (usable, "is not true or false" in problem) == ({}, True)
    assert getattr(_settings.read(config(**{key: True})), key) is True
    assert getattr(_settings.read(config(**{key: False})), key) is False
    assert usable_settings({key: False}) == ({key: False}, [])


RUBBISH = ["\udcff", "näh", "vllm\r", "x" * 100_000, "%s %d", "{}"]


@pytest.mark.parametrize("text", RUBBISH)
def test_rubbish_in_the_environment_is_named_and_travels_nowhere(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture, text: str
) -> None:
    monkeypatch.setenv("SPECGRID_POLICY", text)
    monkeypatch.setenv("SPECGRID_RULE", text)
    target = types.SimpleNamespace(additional_config={})
    _settings.record_environment(target)
    assert target.additional_config == {}
    assert _settings.read(target) == _settings.Settings()
    assert [r.getMessage()[:7] for r in said.records] == ["specgri"] * 2
    assert "policy=" in said.text
    assert "rule=" in said.text


def test_the_environment_travels_in_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECGRID_POLICY", "vllm")
    monkeypatch.setenv("SPECGRID_SHADOW", "1")
    target = types.SimpleNamespace(additional_config={"specgrid": {"rule": "keep-max"}})
    _settings.record_environment(target)
    assert target.additional_config == {
        "specgrid": {"rule": "keep-max", "policy": "vllm", "shadow": True}
    }
    hashed = types.SimpleNamespace(additional_config=object())  # vLLM allows that
    _settings.record_environment(hashed)
    assert _settings.read(hashed).shadow


@pytest.mark.parametrize("section", ["policy", 5, [1], True])
def test_a_section_that_is_no_object_is_named(
    said: pytest.LogCaptureFixture, section: Any
) -> None:
    target = types.SimpleNamespace(additional_config={"specgrid": section})
    assert _settings.read(target) == _settings.Settings()
    assert "must be an object such as" in said.text
    _settings.record(target, plan=None)
    assert target.additional_config == {"specgrid": {"plan": None}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("", 600.0),
        *(
            (bad, 600.0)
            for bad in ("soon", "-1", "0", "nan", "inf", "1e300", "\udcff", "5 s")
        ),
    ],
)
def test_ranks_wait_a_sensible_time(
    monkeypatch: pytest.MonkeyPatch,
    said: pytest.LogCaptureFixture,
    text: str,
    seconds: float,
) -> None:
    """A rank that fails on the variable would be the one the others wait for."""
    monkeypatch.setenv("SPECGRID_AGREE_TIMEOUT", text)
    assert _agreement.timeout_s() == seconds
    wrong = bool(text) and seconds == 600.0
    assert ("is no number of seconds" in said.text) == wrong


# ---- tables ----------------------------------------------------------------------


def grids(count: int) -> Iterator[tuple[list[list[int]], int, int]]:
    """Random grids, gaps and equal neighbours among them: rows, max_num_seqs, K."""
    rnd = random.Random(20)
    for _ in range(count):
        batches = [1, *sorted(rnd.sample(range(2, 60), rnd.choice([1, 3, 5])))]
        contexts = [0, *sorted(rnd.sample(range(1, 900), rnd.choice([1, 2, 4])))]
        ks = rnd.choice([[0, 1], [0, 1, 2, 3, 5], [3]])
        yield (
            [
                [b, b_hi, c + 1, c_hi, rnd.choice(ks)]
                for b, b_hi in zip(batches[::2], batches[1::2], strict=True)
                for c, c_hi in itertools.pairwise(contexts)
            ],
            rnd.choice([1, 7, 40, 64, 200]),
            rnd.choice([1, 3, 5]),
        )


def test_shared_rows_are_the_dense_table() -> None:
    for rows, max_num_seqs, num_spec in grids(200):
        lookup = Schedule(rows).lookup(max_num_seqs, num_spec)
        found = _schedule_of.rows_of(lookup)
        assert found == lookup.dense().tolist()
        assert len({id(row) for row in found}) <= 1 + len(lookup.schedule.batch_ranges)


def test_graphs_are_planned_for_every_batch_that_some_context_gives_a_k() -> None:
    for rows, max_num_seqs, num_spec in grids(200):
        lookup = Schedule(rows).lookup(max_num_seqs, num_spec)
        dense = lookup.dense()
        runs = _graphs.diagonal_of(lookup)
        found = [(k, batch) for k, lo, hi in runs for batch in range(lo, hi + 1)]
        assert found == sorted(
            {(k, b) for b in range(1, max_num_seqs + 1) for k in dense[b].tolist()}
        )
        neighbours = itertools.pairwise(runs)  # no run that could be joined
        assert all(a[0] != b[0] or a[2] + 1 < b[1] for a, b in neighbours)


def test_vllm_is_told_of_the_largest_k_of_any_context() -> None:
    for rows, max_num_seqs, num_spec in grids(200):
        lookup = Schedule(rows).lookup(max_num_seqs, num_spec)
        shadow = _schedule_of.batch_only(lookup)
        told = [0] + [k for lo, hi, k in shadow for _ in range(lo, hi + 1)]
        assert told == np.asarray(lookup.dense()).max(axis=1).tolist()
        assert all(type(value) is int for row in shadow for value in row)
        pairs = itertools.pairwise(shadow)
        assert all(a[1] + 1 == b[0] and a[2] != b[2] for a, b in pairs)
