# SPDX-License-Identifier: Apache-2.0
"""Full disks, closed pipes, folders for files, odd names: one clear line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = ["--max-num-seqs", "64", "--spec-tokens", "3"]
EXPLAIN = [sys.executable, "-m", "specgrid.cli", "explain", *SERVER]
PLAN = ["plan", "--graphs", "20", *SERVER]


def run(command: list[str], **streams: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stderr=subprocess.PIPE, text=True, timeout=120, check=False, **streams
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_output_to_a_full_disk(form: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run([*EXPLAIN, *form], stdout=full)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_a_reader_that_leaves_ends_the_command_in_silence() -> None:
    read, write = os.pipe()
    os.close(read)
    done = run([*EXPLAIN, "--json"], stdout=write)
    os.close(write)
    assert done.returncode == -13  # SIGPIPE, as cat and grep end
    assert done.stderr == ""


def test_output_with_nobody_to_write_to() -> None:
    done = run(["/bin/sh", "-c", '"$@" >&-', "sh", *EXPLAIN])
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_terminals_that_lack_a_sign_get_its_number(
    encoding: str, tmp_path: Path
) -> None:
    target = tmp_path / os.fsdecode(b"gr\xc3\xb6\xc3\x9fe \xff.json")
    command = [sys.executable, "-m", "specgrid.cli", *PLAN, "--save"]
    done = subprocess.run(
        [*command, str(target)],
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.stderr == b""
    assert done.returncode == 0
    assert json.loads(target.read_bytes())["format"] == "specgrid-plan"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("missing/plan.json", "No such file or directory"),
        (".", "Is a directory"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_a_plan_that_cannot_be_saved(
    specgrid: Callable[..., Any], tmp_path: Path, where: str, says: str
) -> None:
    result = specgrid(*PLAN, "--save", str(tmp_path / where))
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert says in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["with spaces.json", "größe-計画-🙂.json"])
def test_odd_names_are_written_and_read(
    specgrid: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    path = str(tmp_path / "link" / name)
    saved = specgrid(*PLAN, "--save", path)
    assert (saved.status, saved.err) == (0, "")
    checked = specgrid("plan", "--check", path, *SERVER)
    assert checked.err == ""
    assert checked.status == 0
