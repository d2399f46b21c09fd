# SPDX-License-Identifier: Apache-2.0
"""Forks long planning and tuning, presses Ctrl-C at random moments, measures the wait.

    python interrupt.py ROUNDS SEED [SECONDS]

A process of its own: it imports specgrid once, so a round costs a fork. Every phase
gets ROUNDS interrupts, each within the first SECONDS (2) of work. Prints as JSON what
was seen, by phase: statuses, and milliseconds from the signal to the end of the
process, all of them in order.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from specgrid import Budget, Costs, Workload, _core, plan_captures
from specgrid.cli import run

COSTS = Costs.linear(100, 1, 30, 900)
PRICED = Costs.linear(
    100, 1, 30, 900, graph_bytes=lambda size: (1 << 20) + 70_000 * size
)
LOAD = Workload(
    {
        (q, n): 1.0 + (n * 7919) % 101
        for q in (1, 2, 3, 4, 6)
        for n in range(1, 513)
    },
    floor=0,
)  # fmt: skip


def plan(costs: Costs, dispatcher: str, **budget: Any) -> None:
    plan_captures(
        LOAD,
        costs,
        max_num_seqs=512,
        num_speculative_tokens=5,
        max_num_batched_tokens=8192,
        budget=Budget(full_coverage=False, **budget),
        dispatcher=dispatcher,
    )


def command(target: Path) -> None:
    words = ["plan", "--graphs", "200", "--save", str(target), "--max-num-seqs", "512"]
    words += ["--max-num-batched-tokens", "8192", "--spec-tokens", "15"]
    os._exit(run(words))


def tuner() -> tuple[list[Any], dict[str, Any]]:
    """Measured points for sixteen K, and the grid they are asked for."""
    batches = np.repeat(np.arange(1, 257, dtype=np.int64), 16)
    contexts = np.tile(np.arange(16, dtype=np.int64) * 4096, 256)
    points = [
        (batches, contexts, 5000.0 + 3.0 * batches * (k + 1) + contexts / 64)
        for k in range(16)
    ]
    columns = np.arange(0, 60_000, 60, dtype=np.int64)
    return points, {"columns": columns, "max_num_seqs": 8192}


POINTS, SHAPE = tuner()
NONE = np.empty(0)


def grid(max_rows: int) -> None:
    columns = SHAPE["columns"]
    while True:
        _core.tune_grid(
            POINTS,
            np.repeat(np.linspace(1.0, 6.0, 16), len(columns)),
            SHAPE["max_num_seqs"],
            columns,
            NONE,
            NONE,
            NONE,
            1e30,
            1e30,
            max_rows,
            64,
            2,
        )


def table() -> None:
    columns = SHAPE["columns"]
    cells = (SHAPE["max_num_seqs"], len(columns))
    tokens = np.ones((3, 16, len(columns)))
    while True:
        _core.tune_report(
            POINTS, tokens, cells[0], columns, NONE, NONE, NONE,
            np.zeros(cells, np.int32), 2,
        )  # fmt: skip


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).random(shape)


def joint() -> None:
    times = noise(8, 600)
    _core.tune_joint(np.ones(600) / 600, times, times * 2, 0.1, 256)


PHASES: dict[str, Callable[[Path], None]] = {
    "specgrid plan": command,
    "union by graphs": lambda _: plan(COSTS, "union", graphs=200),
    "union by bytes": lambda _: plan(PRICED, "union", bytes=4 << 30),
    "a ladder each by graphs": lambda _: plan(COSTS, "per-query-length", graphs=200),
    "a ladder each by bytes": lambda _: plan(PRICED, "per-query-length", bytes=4 << 30),
    "direct by bytes": lambda _: plan(PRICED, "direct", bytes=4 << 30),
    "too few bytes, so the least": lambda _: plan(PRICED, "union", bytes=1),
    "tune: grid": lambda _: grid(0),
    "tune: grid in blocks": lambda _: grid(512),
    "tune: report": lambda _: table(),
    "tune: by batch": lambda _: _core.compress_line(noise(200_000, 16), 128, False),
    "tune: in bands": lambda _: _core.compress_bands(noise(512, 16, 64), 64, False, 2),
    "tune: with captures": lambda _: joint(),
}


def once(
    work: Callable[[Path], None], target: Path, moment: float
) -> tuple[int, float]:
    """Interrupts the work after some seconds: its status, and how long it took."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            work(target)
        except KeyboardInterrupt:
            os._exit(130)
        except BaseException:
            os._exit(3)
        os._exit(0)
    time.sleep(moment)
    begin = time.monotonic()
    os.kill(child, signal.SIGINT)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), 1000 * (time.monotonic() - begin)


def main(rounds: int, seed: int, seconds: float) -> None:
    out = sys.stdout
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stdout
    choose = random.Random(seed)
    seen: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "old plan.json"
        target.write_text("old")
        for name, work in PHASES.items():
            statuses: dict[int, int] = {}
            waits = []
            for _ in range(rounds):
                status, wait = once(work, target, choose.uniform(0.02, seconds))
                statuses[status] = statuses.get(status, 0) + 1
                if status == 130:
                    waits.append(round(wait, 1))
            seen[name] = {"statuses": statuses, "milliseconds": sorted(waits)}
        seen["files"] = {p.name: p.read_text()[:20] for p in Path(folder).iterdir()}
    json.dump(seen, out, indent=1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float((sys.argv[3:] or ["2"])[0]))
