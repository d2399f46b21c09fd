# SPDX-License-Identifier: Apache-2.0
"""The same input gives the same bytes: in every run, with any hash seed, any number
of threads, and on both back ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from specgrid import Budget, Costs, Workload, plan_captures

SERVER = [
    "--max-num-seqs",
    "12",
    "--spec-tokens",
    "3",
    "--max-num-batched-tokens",
    "64",
]
SCHEDULE = ["--schedule", "[[1, 4, 3], [5, 8, 2], [9, 12, 0]]"]

# Every result that leaves the package, as bytes.
CODE = f"""
import sys
from pathlib import Path
from specgrid import *
from specgrid.cli import run
server = {[*SERVER, *SCHEDULE]!r}
for words in (["explain"], ["explain", "--json"], ["lint"], ["lint", "--json"],
              ["plan", "--graphs", "20", "--json", "--save", "plan.json"],
              ["plan", "--memory", "900MiB", "--frontier", "--no-stability"],
              ["plan", "--graphs", "12", "--dispatcher", "direct", "--json"]):
    print(words, run([*words, *server]))
print(Path("plan.json").read_text())
lookup = Schedule([(1, 4, 1, 9, 3), (1, 4, 10, 99, 1), (5, 9, 1, 9, 2),
                   (5, 9, 10, 99, 0)]).lookup(64, 3)
print(lookup.digest, lookup.tiers(), lookup.dense().tobytes())
print(capture_sizes(64, 3, [(1, 8, 3), (9, 64, 1)]))
graphs = GraphSet([1, 2, 4, 8, 16, 24], max_num_seqs=16, num_speculative_tokens=3,
                  schedule=[(1, 8, 3), (9, 16, 1)], lora_cases=(0, 1, 4))
print(graphs.all_graphs)
"""


def output_of(backend: str, hash_seed: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "SPECGRID_BACKEND": backend,
            "PYTHONHASHSEED": hash_seed,
        },
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.slow
def test_output_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    outputs = {
        output_of(backend, hash_seed, tmp_path)
        for backend, hash_seed in [
            ("native", "0"),
            ("native", "4294967295"),
            ("reference", "random"),
        ]
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 10_000


def test_plans_do_not_depend_on_the_number_of_threads() -> None:
    choose = np.random.default_rng(3)
    load = Workload(
        {(q, n): float(choose.integers(1, 99)) for q in (1, 4) for n in range(1, 65)}
    )
    costs = Costs.linear(100, 1, 30, 900)
    for dispatcher in ("union", "per-query-length", "direct"):
        plans = [
            plan_captures(
                load,
                costs,
                max_num_seqs=64,
                num_speculative_tokens=3,
                schedule=[(1, 40, 3), (41, 64, 0)],
                budget=Budget(graphs=60, full_coverage=False),
                dispatcher=dispatcher,
                num_threads=threads,
            )
            for threads in (1, 2, 3, 8)
        ]
        first = plans[0]
        for other in plans[1:]:
            assert other == first
            assert list(other.frontier) == list(first.frontier)
