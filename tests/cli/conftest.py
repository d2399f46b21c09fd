# SPDX-License-Identifier: Apache-2.0
"""Runs the command line in this process and returns what it printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple

import pytest

from specgrid.cli import run


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def specgrid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    def call(*arguments: str, stdin: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        status = run(arguments)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return call
