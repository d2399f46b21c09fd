# SPDX-License-Identifier: Apache-2.0
"""Help: the same by both its flags, and readable at 80 columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specgrid.cli import COMMANDS

from .conftest import Result

Run = Callable[..., Result]
ALL = [(), *((name,) for name in COMMANDS)]


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "group")
def test_h_is_help_everywhere(specgrid: Run, path: tuple[str, ...]) -> None:
    long = specgrid(*path, "--help")
    assert long.status == 0
    assert long.out.startswith(f"Usage: {' '.join(('specgrid', *path))} ")
    assert "-h, --help" in long.out
    assert specgrid(*path, "-h") == long
    if path and path[0] not in ("convert", "doctor"):
        assert specgrid(*path, "--max-num-seqs", "8", "-h") == long


def test_letters_inside_a_flag_of_vllms_are_no_flags_of_ours(specgrid: Run) -> None:
    server = ("--max-num-seqs", "8", "-cc.cudagraph_mode=PIECEWISE")
    result = specgrid("explain", *server)
    assert result.status == 0
    assert "PIECEWISE" in result.out
    assert not result.out.startswith("Usage")
    # The o of -cc.cudagraph_mode is no -o of cases either.
    assert specgrid("cases", *server, "--spec-tokens", "1").status == 0


def test_a_letter_of_ours_may_have_its_value_at_hand(
    specgrid: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cases")
    server = ("--max-num-seqs", "8", "--spec-tokens", "1")
    assert specgrid("cases", f"-o{folder}", *server).status == 0
    assert list(folder.iterdir())


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "group")
def test_help_is_laid_out_line_by_line(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = specgrid(*path, "--help").out.splitlines()
    for number, line in enumerate(lines):
        assert line == line.rstrip()
        assert "\b" not in line
        if "\\" in line:  # only where a command goes on in the next line
            assert line.endswith(" \\")
            assert lines[number + 1].startswith("      ")
        if "Examples:" in line:
            assert line == "  Examples:"
            assert lines[number + 1].startswith(f"    specgrid {path[0]} ")
        # A command of the examples is a line of its own.
        assert line.count("specgrid ") <= 1, line
    text = " ".join(" ".join(lines).split())
    assert ("Examples:" in text) == (path not in ((), ("doctor",)))


def test_the_groups_help_has_every_exit_status(specgrid: Run) -> None:
    text = " ".join(specgrid("--help").out.split())
    assert "0 all is well, 1 a problem was found, 2 bad input, 130 ended by" in text
