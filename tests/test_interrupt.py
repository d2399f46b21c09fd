# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends long planning and tuning in every phase; SIGTERM kills; files stay whole.

How long it takes is measured, not asserted: on an idle machine well under 0.2 s
(`python tests/support/interrupt.py 6 1` prints every wait). Asserted is that nothing
hangs. SPECGRID_INTERRUPTS=N takes N interrupts a phase.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROUNDS = os.environ.get("SPECGRID_INTERRUPTS", "1")
SCRIPT = Path(__file__).parent / "support" / "interrupt.py"
HANG_S = 10.0
LONG = [
    "plan", "--graphs", "900", "--max-num-seqs", "2048", "--spec-tokens", "15",
    "--max-num-batched-tokens", "32768",
]  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_long_phase_answers_ctrl_c() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ROUNDS, "4", "0.6"],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen.pop("files") == {"old plan.json": "old"}
    for phase, told in seen.items():
        assert told["statuses"] == {"130": int(ROUNDS)}, phase
        assert max(told["milliseconds"]) < 1000 * HANG_S, phase


def _end_by(number: signal.Signals, target: Path) -> tuple[int, str, str]:
    """Starts a long plan, waits until it works, sends a signal."""
    child = subprocess.Popen(
        [sys.executable, "-m", "specgrid.cli", *LONG, "--save", str(target)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        time.sleep(3)
        assert child.poll() is None, "the plan was too short to be interrupted"
        child.send_signal(number)
        out, err = child.communicate(timeout=HANG_S)
    finally:
        child.kill()
    return child.returncode, out, err


def test_ctrl_c_is_one_line_and_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")
    status, out, err = _end_by(signal.SIGINT, target)
    assert (status, out, err) == (130, "", "specgrid: interrupted\n")
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert target.read_text() == "old"


def test_sigterm_ends_it_as_any_program_and_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")
    status, out, err = _end_by(signal.SIGTERM, target)
    assert (status, out, err) == (-signal.SIGTERM, "", "")
    assert target.read_text() == "old"
