# SPDX-License-Identifier: Apache-2.0
"""Forks writers, kills each at a random moment, and looks at what they left.

    python kill_writers.py plan FILE ROUNDS SEED

A process of its own: it imports specgrid once, so a round costs a fork. Half the
rounds run the whole command; the other half write by turns as fast as they can,
so that most kills hit the write itself. Prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from specgrid._atomic import write_whole
from specgrid.cli import run

SERVER = ["--max-num-seqs", "64", "--spec-tokens", "3"]


def command(what: str, target: Path, turn: int) -> None:
    """Runs the command that writes the file, by turns with another content."""
    if what == "plan":
        words = ["plan", "--no-stability", "--graphs", str(20 + turn % 2 * 10)]
        words += ["--save", str(target), *SERVER]
    else:
        words = ["report", str(target), "--max-num-seqs", str(64 + turn % 2)]
    status = run(words)
    if status not in (0, 1):
        os._exit(3)


def contents(what: str, target: Path) -> list[bytes]:
    """The two contents the command writes by turns."""
    found = []
    for turn in (0, 1):
        command(what, target, turn)
        found.append(target.read_bytes())
    return found


def kill_one(work: Callable[[], None], moment: float) -> bool:
    """Forks, kills after some seconds; whether it was still at work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("the writer failed by itself")
    return os.WIFSIGNALED(status)


def main(what: str, target: Path, rounds: int, seed: int) -> None:
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    whole = contents(what, target)
    begin = time.perf_counter()
    command(what, target, 0)
    duration = time.perf_counter() - begin
    begin = time.perf_counter()
    for turn in range(8):
        write_whole(target, whole[turn % 2])
    write = (time.perf_counter() - begin) / 8
    choose = random.Random(seed)
    seen = {"rounds": rounds, "killed": 0, "torn": 0, "new": 0, "left": 0}
    state = target.read_bytes()
    for turn in range(rounds):

        def whole_command(turn: int = turn) -> None:
            command(what, target, turn // 2)

        def writes_only(turn: int = turn) -> None:
            while True:
                turn += 1
                write_whole(target, whole[turn % 2])

        if turn % 2:
            killed = kill_one(whole_command, choose.uniform(0, 2 * duration))
        else:
            killed = kill_one(writes_only, choose.uniform(0, 6 * write + 0.005))
        after = target.read_bytes()
        seen["killed"] += killed
        seen["torn"] += after not in whole
        seen["new"] += after != state
        state = after
    seen["left"] = len(list(target.parent.iterdir())) - 1
    json.dump(seen, sys.__stdout__)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
