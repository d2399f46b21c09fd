# SPDX-License-Identifier: Apache-2.0
"""Nothing given where something is wanted: said to be empty, by every reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from specgrid.cli import COMMANDS, cli

from .conftest import Result

Run = Callable[..., Result]
SERVER = ("--max-num-seqs", "8", "--spec-tokens", "1")


@pytest.mark.parametrize("text", ["", " \n\n"], ids=["empty", "blank"])
@pytest.mark.parametrize(
    "words",
    [
        ("report", "x.html", "--plan", "FILE", *SERVER),
        ("report", "x.html", "--tuned", "FILE", *SERVER),
        ("report", "x.html", "--compare", "FILE", *SERVER),
        ("plan", "--costs", "FILE", *SERVER),
        ("explain", "--config", "FILE"),
        ("convert", "--from", "vllm", "--to", "sglang", "FILE"),
        ("convert", "--from", "sglang", "--to", "vllm", "FILE"),
    ],
    ids=" ".join,
)
def test_an_empty_file_is_said_to_be_empty(
    specgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nothing.json").write_text(text)
    result = specgrid(*(w.replace("FILE", "nothing.json") for w in words))
    assert (result.status, result.out) == (2, "")
    assert result.err.count("\n") == 1
    assert "nothing.json" in result.err
    assert "is empty" in result.err
    assert not Path("x.html").exists()


def test_empty_input_is_said_to_be_empty(specgrid: Run) -> None:
    result = specgrid("convert", "--from", "sglang", "--to", "vllm", "-", stdin="\n")
    assert result.err == (
        "specgrid: standard input is empty; give a sglang schedule as JSON\n"
    )


def test_an_empty_config_is_no_missing_one(specgrid: Run) -> None:
    message = "specgrid: --config is empty; name a file, or - for standard input\n"
    assert specgrid("explain", "--config", "") == (2, "", message)
    assert specgrid("lint", "--config=", *SERVER) == (2, "", message)


def options() -> Iterator[tuple[str, str]]:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield name, parameter.opts[0]


def test_a_flag_without_its_value_is_the_commands_error(specgrid: Run) -> None:
    found = list(options())
    assert ("lint", "--explain") in found
    for name, flag in found:
        assert specgrid(name, flag) == (
            2,
            "",
            f"specgrid {name}: Option '{flag}' requires an argument. "
            f"(see `specgrid {name} --help`)\n",
        )
