# SPDX-License-Identifier: Apache-2.0
"""A writer killed at any moment leaves the old file or the new one, never a part."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = os.environ.get("SPECGRID_KILL_ROUNDS", "200")
SCRIPT = Path(__file__).parent / "support" / "kill_writers.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", ["plan", "report"])
def test_a_killed_writer_leaves_a_whole_file(command: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(f"specgrid.cli.{command}") is None:
        pytest.skip(f"there is no specgrid {command} here")
    if command == "report":
        pytest.importorskip("matplotlib", reason="pictures need the extra `plot`")
    target = tmp_path / "größe and spaces.html"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), command, str(target), ROUNDS, "20"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["torn"] == 0
    # The test means something only if kills struck, and new files came through.
    assert seen["killed"] > int(ROUNDS) // 4, seen
    assert 0 < seen["new"] < int(ROUNDS), seen
