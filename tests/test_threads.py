# SPDX-License-Identifier: Apache-2.0
"""Many threads on the same objects give the serial answers (no shared state).

On a free-threaded Python they run at once, and must find the GIL off.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from specgrid import (
    Budget,
    Costs,
    GraphSet,
    Schedule,
    Workload,
    capture_sizes,
    plan_captures,
)

THREADS = 8
ROWS = [
    (b, b + 6, c, c + 99, (b + c) % 7) for b in range(1, 64, 7) for c in (1, 101, 201)
]
SIZES = capture_sizes(64, 6, ROWS)
BATCHES = np.arange(65)


def graph_set() -> GraphSet:
    return GraphSet(SIZES, schedule=ROWS, num_speculative_tokens=6, max_num_seqs=64)


def plan() -> tuple[object, ...]:
    found = plan_captures(
        Workload({(1, n): 1.0 + (n * 7919) % 101 for n in range(1, 49)}, floor=0),
        Costs.linear(100, 1, 30, 900),
        max_num_seqs=48,
        max_num_batched_tokens=48,
        budget=Budget(graphs=9, full_coverage=False),
        num_threads=2,
    )
    return (found.mean_step_us, *found.sizes)


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What every thread returns; all begin together."""
    gate = threading.Barrier(THREADS)

    def started(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(started, range(THREADS)))


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL"
)
def test_a_free_threaded_python_stays_so() -> None:
    code = (
        "import sys; from specgrid import _core; import specgrid; "
        "specgrid.capture_sizes(8); print(sys._is_gil_enabled())"
    )
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.stdout.strip(), found.stderr) == ("False", "")


def test_answers_do_not_depend_on_threads() -> None:
    shared = Schedule(ROWS).lookup(64, 6)
    shared_graphs = graph_set()

    def work(_: int) -> tuple[object, ...]:
        graphs = graph_set()
        return (
            Schedule(ROWS).lookup(64, 6).digest,
            shared.dense().tobytes(),
            shared.gather(BATCHES, BATCHES).tobytes(),
            tuple(capture_sizes(64, 6, ROWS)),
            *(shared_graphs.dispatch(n, 7 * n, 7) for n in range(1, 65)),
            *(graphs.dispatch(n, n + 1) for n in range(1, 65)),
            *plan(),
        )

    serial = work(0)
    for _ in range(5):
        assert all(answer == serial for answer in at_once(work))


def test_threads_that_use_a_lazy_object_first_get_the_same_one() -> None:
    expected = plan()
    for _ in range(20):
        lookup = Schedule(ROWS).lookup(64, 6)
        graphs = graph_set()
        answers = at_once(
            lambda _, lookup=lookup, graphs=graphs: (
                lookup.dense().tobytes(),
                lookup.digest,
                tuple(graphs.dispatch(n, n) for n in range(1, 65)),
            )
        )
        assert all(answer == answers[0] for answer in answers)
        # Graphs are made when first asked for, and once.
        assert all(
            mine is first
            for answer in answers
            for mine, first in zip(answer[2], answers[0][2], strict=True)
        )
    assert plan() == expected


def test_rows_that_another_thread_changes_are_read_whole_or_refused() -> None:
    """Which rows are read is the race's; that they are rows, is not."""
    rows: list[list[int]] = []
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            rows[:] = [[b, b, b % 7] for b in range(1, 65)]
            for row in rows:
                row[2] += 1
            del rows[1:]

    rows[:] = [[1, 1, 1]]
    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(300):
            dense = Schedule(rows).lookup(64, 8).dense()
            assert 0 <= dense.min() <= dense.max() <= 7
    finally:
        done.set()
        changer.join()
