# SPDX-License-Identifier: Apache-2.0
"""Output that is closed, full, narrow or not UTF-8; names that steer terminals."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specgrid._plan_file import write_plan
from specgrid.cli._analysis import analyse
from specgrid.cli._layout import stacked_lines, table_lines
from specgrid.cli._output import Printer
from specgrid.cli.explain import render, to_document
from specgrid.io.vllm_config import ServeConfig

from .conftest import Result

Run = Callable[..., Result]
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "eagle3-schedule.yaml")


def shell(redirection: str, *words: str, **environment: str) -> Result:
    """Runs the command in a process of its own, its streams as a shell sets them."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-m",
         "specgrid.cli", *words],
        capture_output=True,
        check=False,
        env=os.environ | environment,
    )  # fmt: skip
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        ("explain", "--config", EXAMPLE),
        ("lint", "--json", "--config", EXAMPLE),
        ("--help",),
        ("--version",),
    ],
)
def test_a_full_disk_is_one_line_and_exit_2(words: tuple[str, ...]) -> None:
    result = shell("> /dev/full", *words)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "No space left" in result.err


@pytest.mark.parametrize(
    ("redirection", "says"),
    [
        (">&-", "standard output is closed"),
        ("<&-", "standard input is closed"),
        ("2>&-", ""),
        ("2>/dev/full", ""),
    ],
)
def test_closed_streams_are_exit_2(redirection: str, says: str) -> None:
    words = ("explain", "--config", "nosuch" if "2>" in redirection else "-")
    result = shell(redirection, *words)
    assert result.status == 2
    assert says in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_any_encoding_can_be_written(encoding: str) -> None:
    words = ("explain", "--", "vllm", "serve", "mod\u00e8le\u2603", "--max-num-seqs=3")
    done = subprocess.run(
        [sys.executable, "-m", "specgrid.cli", *words],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert "\\u2603" in done.stdout.decode(encoding)


class Terminal(io.TextIOWrapper):
    """A terminal that is not UTF-8."""

    def isatty(self) -> bool:
        return True


def explained(stream: io.TextIOBase, width: int) -> None:
    analysis = analyse(ServeConfig.from_file(EXAMPLE))
    out = Printer(stream, terminal=True)  # type: ignore[arg-type]
    assert out._console is not None
    out._console.width = width
    render(to_document(analysis), out)
    stream.flush()


def test_a_terminal_without_block_characters_gets_an_ascii_map() -> None:
    buffer = io.BytesIO()
    stream = Terminal(buffer, encoding="ascii")
    explained(stream, 100)
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", buffer.getvalue())
    assert b"#hhh#" in plain
    assert b"\\u2588" not in plain


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_no_number_and_no_name_is_cut_at_any_width(width: int) -> None:
    stream = io.StringIO()
    explained(stream, width)
    words = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").split()
    for word in ("max_num_batched_tokens", "num_speculative_tokens_per_batch_size",
                 "FULL_AND_PIECEWISE", "meta-llama/Llama-3.1-8B-Instruct",
                 "per-query-length", "vllm-0.33", "reachable", "129-256", "242", "171",
                 "170", "8192"):  # fmt: skip
        assert word in words, word


def test_narrow_tables_wrap_between_words_and_then_become_paragraphs() -> None:
    columns, row = ["policy", "FULL graphs", "of"], ["per-query-length", "242", "x y"]
    wide = table_lines(columns, [row], ["FULL graphs"])
    assert wide == (
        ["policy            FULL graphs  of"],
        ["per-query-length          242  x y"],
    )
    assert table_lines(columns, [row], ["FULL graphs"], width=28) == (
        ["policy              FULL  of", "                  graphs"],
        ["per-query-length     242  x", "                          y"],
    )
    assert table_lines(columns, [row], width=20) is None
    assert stacked_lines(columns, row, 20) == [
        "per-query-length", "  FULL graphs: 242", "  of: x y",
    ]  # fmt: skip


def test_control_characters_are_shown_not_sent(specgrid: Run) -> None:
    name = "a\x1b[31mb\nc\u202ed"
    for words in (
        ("explain", "--", "vllm", "serve", name, "--max-num-seqs", "3"),
        ("lint", "--", "vllm", "serve", "M", "--max-num-seqs", "3", "--" + name),
        ("explain", "--config", name),
        ("explain", "--gpu", name),
        (name,),
    ):
        result = specgrid(*words)
        assert "\x1b" not in result.out + result.err
        assert "\u202e" not in result.out + result.err
        assert len(result.err.splitlines()) <= 1


def test_no_arguments_print_the_help_as_written(specgrid: Run) -> None:
    result = specgrid()
    assert result.status == 2
    assert "\n  explain" in result.err


def test_colour_can_be_forced(specgrid: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("explain", "--config", EXAMPLE)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" not in specgrid(*words).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in specgrid(*words).out


def test_a_plan_written_to_a_pipe_or_a_link_leaves_it_one(tmp_path: Path) -> None:
    plan = {"format": "specgrid-plan"}
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_plan(pipe, plan)
    assert json.loads(os.read(reader, 1000)) == plan
    os.close(reader)
    assert pipe.is_fifo()
    link.symlink_to(file)
    write_plan(link, plan)
    assert link.is_symlink()
    assert json.loads(file.read_text()) == plan
