# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: its exit status, whatever happens inside."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import specgrid as specgrid_package
from specgrid._backend import BackendError
from specgrid.cli import COMMANDS, cli, main, run

from .conftest import Result

Run = Callable[..., Result]
SERVER = ("--max-num-seqs", "8")


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "main", fail)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (MemoryError(), 2,
         "specgrid: there is not enough memory for this; ask for less at once\n"),
        (KeyboardInterrupt(), 130, "specgrid: interrupted\n"),
        (click.Abort(), 130, "specgrid: interrupted\n"),
        (click.ClickException("made up"), 2, "specgrid: made up\n"),
        (OSError(28, "No space left", "a.json"), 2,
         "specgrid: a.json: No space left; nothing was written there\n"),
        (BackendError("the core is of another version"), 2,
         "specgrid: the core is of another version\n"),
    ],
)  # fmt: skip
def test_what_can_happen_is_a_status_and_at_most_one_line(
    specgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    message: str,
) -> None:
    raising(monkeypatch, error)
    assert specgrid("explain") == (status, "", message)


@pytest.mark.parametrize("error", [ValueError("x"), ImportError("x"), TypeError("x")])
def test_our_own_mistakes_are_not_dressed_up_as_the_users(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    raising(monkeypatch, error)
    with pytest.raises(type(error), match="x"):
        run(["explain"])


def test_numbers_that_are_none_are_said_in_words(specgrid: Run) -> None:
    result = specgrid("plan", "--graphs", "x", *SERVER)
    assert "'x' is no whole number (see `specgrid plan --help`)" in result.err
    result = specgrid("plan", "--seconds", "x", *SERVER)
    assert "'x' is no number (see `specgrid plan --help`)" in result.err


def test_a_command_whose_module_is_missing_is_not_listed(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "lint", ("specgrid.cli.no_such", "gone"))
    listed = specgrid("--help").out
    assert "explain" in listed
    assert "gone" not in listed
    assert "No such command 'lint'" in specgrid("lint").err
    for name in list(COMMANDS):
        monkeypatch.setitem(COMMANDS, name, ("specgrid.cli.no_such", "gone"))
    assert "Commands" not in specgrid("--help").out


def test_no_arguments_show_the_help_and_main_exits_with_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "Usage: specgrid" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["specgrid", "--version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0


class Broken(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("stdin", "status", "message"),
    [
        (io.TextIOWrapper(io.BytesIO(b"vllm serve M --max-num-seqs 8")), 0, ""),
        (io.TextIOWrapper(Broken()), 2,
         "specgrid: standard input cannot be read: Input/output error; give the "
         "YAML, JSON or shell file vLLM is started with\n"),
        (None, 2, "specgrid: standard input is closed; pipe the text in, or name a "
                  "file\n"),
    ],
)  # fmt: skip
def test_a_server_on_standard_input(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: Any,
    status: int,
    message: str,
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(["explain", "--config", "-"]) == status
    assert capsys.readouterr().err == message


def test_a_server_comes_from_one_place(specgrid: Run) -> None:
    result = specgrid("explain", "--config", "-", "--", "vllm", "serve", "M", stdin="x")
    assert result.err == (
        "specgrid: --config - and a command after `--`: give one of them\n"
    )
    assert "no server given; paste its command after `--`" in specgrid("explain").err


def test_the_gpu_may_be_described_by_memory_and_ceiling(specgrid: Run) -> None:
    words = ("--device-memory-gib", "48", "--platform-ceiling", "1024")
    text = specgrid("explain", *words, "--", "vllm", "serve", "M").out
    assert "a GPU with 48 GiB" in text
    assert "--platform-ceiling" in text
    named = specgrid("explain", "--gpu", "b200", *words[:2], "--", "vllm", "serve", "M")
    assert "a GPU with 48 GiB" in named.out


@pytest.mark.parametrize("module", ["specgrid.cli._main", "specgrid.cli.explain"])
def test_ctrl_c_while_modules_load_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == module:
                raise KeyboardInterrupt

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    for arguments in (["explain", *SERVER], ["explain", "--help"], ["--help"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        said = capsys.readouterr()
        assert (caught.value.code, said.err) == (130, "specgrid: interrupted\n")


def test_the_way_in_imports_nothing_of_ours_or_of_others() -> None:
    code = (
        "import sys; before = set(sys.modules); import specgrid.cli; "
        "print(*sorted(set(sys.modules) - before))"
    )
    # Without site: an editable install's own finder imports what it needs.
    root = Path(specgrid_package.__file__).parents[1]
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = [{str(root)!r}]; "
         + code],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout.split()  # fmt: skip
    ours = {name for name in loaded if name.startswith("specgrid")}
    assert ours == {"specgrid", "specgrid._version", "specgrid.cli"}
    assert not {"click", "numpy", "typing", "pathlib", "contextlib"} & set(loaded)


def test_nobody_to_tell_of_ctrl_c_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("specgrid.cli._main.start", interrupt)
    monkeypatch.setattr(sys, "stderr", closed)
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 130


def interrupt(*_: Any) -> int:
    raise KeyboardInterrupt
