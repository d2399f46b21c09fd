# SPDX-License-Identifier: Apache-2.0
"""Every function of the core gives back every reference and every byte it takes.

A quick round of calls in the suite; SPECGRID_CALLS=1000000 for the long one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specgrid import _core
from specgrid._graphs import Graph

CALLS = int(os.environ.get("SPECGRID_CALLS", "5000"))


def ints(*values: Any) -> Any:
    return np.array(values, np.int64)


ROWS = ints([1, 8, 1, 99, 3], [1, 8, 100, 2**31 - 1, 1])
LOOKUP = _core.Lookup(ints([1, 8]), ints([1, 2**31 - 1]), ints(3), 8, 3)
EMPTY = np.empty(0, np.int64)
GRAPHS = _core.GraphTable(
    ints(1, 2, 4, 8, 16), ints(1, 4), ints(0, 1), ints(1, 1, 8, 4, 1, 4),
    ints(8, 16, 4, 0, 1, 0), 2, 1, False, 0, True,
)  # fmt: skip
DISPATCH = GRAPHS.bind_dispatch(Graph, lambda *fields: fields)
SHARED = {
    "query_lens": ints(1), "max_num_seqs": 4, "max_decode_tokens": 4, "max_size": 4,
    "one_ladder": True, "piecewise": True, "decode": ints([0, 4, 1, 100, 0]),
    "mixed": ints([3, 1, 100]), "full_time": ints(0, 1, 2, 3, 4),
    "piecewise_time": ints(0, 2, 3, 4, 5), "sizes": ints(1, 2, 4), "forced": EMPTY,
    "graphs_each": ints(1, 1, 0), "graph_bytes": ints(0, 1, 1, 2, 2),
    "graph_seconds": EMPTY, "pool_bytes": EMPTY, "graph_limits": EMPTY,
}  # fmt: skip
PROBLEM = _core.SharedProblem(**SHARED)
LADDERS = {
    "lengths": ints(2), "steps": ints([1, 5, 9, 0, 1, 1], [1, 6, 9, 0, 1, 1]),
    "limits": ints([0, 0, 1]),
}  # fmt: skip
LADDER = _core.LadderProblem(**LADDERS)
LIMITS = ints(3, 9, -1)
LIST_ROWS = [[1, 8, 3], [9, 16, 1]]
NOTHING = np.empty(0)
POINTS = [(ints(1, 4), ints(0, 0), np.array([10.0, 20.0 + k])) for k in range(2)]
TOKENS = np.array([[1.0], [1.7]])
COSTS = np.array([[1.0, 2.0], [3.0, 1.0]])


def refused(call: Callable[[], Any]) -> Any:
    try:
        call()
    except (TypeError, ValueError):
        return
    raise AssertionError("that should have been refused")


CASES: dict[str, Callable[[], Any]] = {
    "check_rows": lambda: _core.check_rows(ROWS, 1),
    "build_grid": lambda: _core.build_grid(ROWS, 1),
    "build_grid, a fault": lambda: _core.build_grid(ROWS, 0),
    "build_grid, ragged": lambda: _core.build_grid(ROWS, 2),
    "rows_from_list": lambda: _core.rows_from_list(LIST_ROWS),
    "rows_from_list, unusual": lambda: _core.rows_from_list([[1, 2, "x"]]),
    "Lookup": lambda: _core.Lookup(
        ints([1, 8]), ints([1, 2**31 - 1]), ints(3), 8, 3
    ),
    "Lookup.at": lambda: LOOKUP.at(4, 10),
    "Lookup.column_of": lambda: LOOKUP.column_of(10),
    "Lookup.dense": lambda: LOOKUP.dense(1),
    "Lookup.column_list": lambda: LOOKUP.column_list(),
    "Lookup.tiers": lambda: LOOKUP.tiers(),
    "Lookup.canonical": lambda: LOOKUP.canonical(),
    "Lookup.gather": lambda: LOOKUP.gather(ints(1, 2), EMPTY),
    "Lookup.max_num_seqs": lambda: LOOKUP.max_num_seqs,
    "Lookup.num_columns": lambda: LOOKUP.num_columns,
    "Lookup.num_speculative_tokens": lambda: LOOKUP.num_speculative_tokens,
    "capture_sizes": lambda: _core.capture_sizes(
        ints(6, 4, 512, 512, 1), EMPTY, 2, False, None, None
    ),
    "align_sizes": lambda: _core.align_sizes(ints(4, 8), 16, 3),
    "GraphTable": lambda: _core.GraphTable(
        ints(1, 2), ints(1), ints(0), ints(1, 1, 2), ints(2, 2, 1, 0, 1, 0),
        2, 1, False, 0, True,
    ),
    "GraphTable.num_graphs": lambda: GRAPHS.num_graphs,
    "GraphTable.columns": lambda: GRAPHS.columns(),
    "GraphTable.dispatch_many": lambda: GRAPHS.dispatch_many(
        ints(1, 2), ints(4, 8), ints(4), ints(0), 0, 1
    ),
    "GraphTable.explain_many": lambda: GRAPHS.explain_many(ints(1, 2), ints(4), 0),
    "GraphTable.used": lambda: GRAPHS.used(ints(1, 1, 8)),
    "GraphTable.candidates": lambda: GRAPHS.candidates(),
    "GraphTable.bind_dispatch": lambda: GRAPHS.bind_dispatch(Graph, print),
    "dispatch": lambda: DISPATCH(2, 8, 4),
    "dispatch, keywords": lambda: DISPATCH(
        num_reqs=2, num_tokens=8, query_len=4, num_active_loras=1, max_query_len=4
    ),
    "dispatch, nothing": lambda: DISPATCH(2, 4096),
    "dispatch, refused": lambda: DISPATCH(99, 4),
    "dispatch, wrong types": lambda: refused(lambda: DISPATCH("x", 4)),
    "SharedProblem": lambda: _core.SharedProblem(**SHARED),
    "SharedProblem.frontier": lambda: PROBLEM.frontier(4, 1, -1.0),
    "SharedProblem.unlimited": lambda: PROBLEM.unlimited(1, -1.0),
    "SharedProblem.labels": lambda: PROBLEM.labels(LIMITS, 8, -1.0),
    "SharedProblem.rough": lambda: PROBLEM.rough(LIMITS, -1.0),
    "SharedProblem.least": lambda: PROBLEM.least(),
    "LadderProblem": lambda: _core.LadderProblem(**LADDERS),
    "LadderProblem.frontier": lambda: LADDER.frontier(4, False, 1, -1.0),
    "LadderProblem.labels": lambda: LADDER.labels(LIMITS, 8, -1.0),
    "LadderProblem.rough": lambda: LADDER.rough(LIMITS, -1.0),
    "LadderProblem.least": lambda: LADDER.least(),
    "tune_surface": lambda: _core.tune_surface(
        *POINTS[0], np.array([1.0, 2.5]), ints(0), 1
    ),
    "tune_grid": lambda: _core.tune_grid(
        POINTS, TOKENS, 4, ints(0), NOTHING, NOTHING, NOTHING, 1e9, 0.5, 4, 4, 1
    ),
    "tune_report": lambda: _core.tune_report(
        POINTS, TOKENS[None], 4, ints(0), NOTHING, NOTHING, NOTHING,
        np.zeros((4, 1), np.int32), 1,
    ),
    "compress_line": lambda: _core.compress_line(COSTS, 2, False),
    "compress_bands": lambda: _core.compress_bands(COSTS[None], 2, False, 1),
    "tune_joint": lambda: _core.tune_joint(np.ones(2), COSTS, COSTS, 0.0, 1),
    "another kind of array": lambda: refused(
        lambda: _core.check_rows(ROWS.astype(float), 1)
    ),
}  # fmt: skip


def test_every_name_of_the_core_has_a_case() -> None:
    names = set()
    for name in dir(_core):
        if name.startswith("_"):
            continue
        names.add(name)
        item = getattr(_core, name)
        if isinstance(item, type):
            names |= {f"{name}.{part}" for part in dir(item) if part[0] != "_"}
    assert {case.split(",")[0] for case in CASES} >= names


def watched() -> list[int]:
    items: list[Any] = [None, True, False, *range(17)]
    items += [ROWS, LOOKUP, GRAPHS, PROBLEM, LADDER, EMPTY, LIMITS, LIST_ROWS]
    items += [NOTHING, TOKENS, COSTS, *SHARED.values(), *LADDERS.values()]
    return [sys.getrefcount(item) for item in items]


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if not statm.exists() or "SPECGRID_SANITIZED" in os.environ:
        return 0  # sanitizers keep what is freed for a while
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", CASES)
def test_references_and_memory_are_given_back(name: str) -> None:
    call = CASES[name]
    calls = CALLS // 20 if "wrong" in name or "another" in name else CALLS
    for _ in range(300):  # caches fill, the allocator takes its arenas
        call()
    gc.collect()
    blocks, counts = sys.getallocatedblocks(), watched()
    resident = resident_bytes()
    for _ in range(calls):
        call()
    gc.collect()
    grown = sys.getallocatedblocks() - blocks
    after = watched()
    assert grown < 200
    moved = [abs(a - b) for a, b in zip(after, counts, strict=True)]
    assert max(moved) < 60, moved
    # A leak of one number a call would show.
    assert resident_bytes() - resident < max(8 * calls, 4 << 20)
