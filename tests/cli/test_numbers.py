# SPDX-License-Identifier: Apache-2.0
"""Numbers given to any command: finite, or refused in one line that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest

from specgrid.cli import COMMANDS, cli
from specgrid.cli._numbers import Number, Size

from .conftest import Result

Run = Callable[..., Result]


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command that is there."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            yield name, parameter


def floats() -> list[tuple[str, click.Parameter]]:
    return [
        (name, parameter)
        for name, parameter in parameters()
        if isinstance(parameter.type, (Number, Size))
    ]


def test_every_number_with_a_point_is_of_the_type_that_refuses_nan() -> None:
    for name, parameter in parameters():
        if isinstance(parameter.type, (click.FloatRange, type(click.FLOAT))):
            assert isinstance(parameter.type, Number), (name, parameter.opts)
    found = {parameter.opts[0] for _, parameter in floats()}
    assert {"--device-memory-gib", "--floor", "--memory", "--tolerance"} <= found


@pytest.mark.parametrize("value", ["nan", "NaN", "-nan", "inf", "-inf", "1e999"])
def test_no_command_takes_what_is_no_finite_number(specgrid: Run, value: str) -> None:
    for name, parameter in floats():
        flag = parameter.opts[0]
        result = specgrid(name, f"{flag}={value}", "--max-num-seqs", "8")
        assert (result.status, result.out) == (2, ""), (name, flag)
        assert result.err.count("\n") == 1
        assert result.err.startswith(
            f"specgrid {name}: Invalid value for '{flag}': '{value}' is "
        ), result.err
        assert "None" not in result.err


def test_a_size_beyond_all_numbers_is_refused(specgrid: Run) -> None:
    result = specgrid("plan", "--memory", "9" * 400 + "GiB", "--max-num-seqs", "8")
    assert result.status == 2
    assert "is too large for a size" in result.err
    assert len(result.err) < 200
