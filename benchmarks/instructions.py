# SPDX-License-Identifier: Apache-2.0
"""Instructions of ten calls users make, counted by callgrind: figures that do not
depend on how busy the machine is.

    python benchmarks/instructions.py measure          count and print
    python benchmarks/instructions.py check            compare with the stored ones
    python benchmarks/instructions.py store            count and store them
    python benchmarks/instructions.py run              the calls alone (for valgrind)

All calls run in one process under valgrind. Each is made once to warm up and then
once more between two markers (a system call nobody else makes), at which callgrind
writes down its counters. Counts are comparable only for the same compiler, Python,
NumPy, valgrind and vector instructions; `check` says so when they differ, shows
both, and does not fail.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "benchmarks" / "instructions.json"
TOLERANCE = 0.03

mark = os.getppid  # the marker: callgrind dumps whenever libc's is entered


def calls() -> dict[str, Callable[[], Any]]:
    """The calls, by name; what they need is prepared here."""
    import specgrid
    from specgrid.io import read_log

    rows = [
        (b, b + 3, c, c + 255 if c < 769 else 2**31 - 1, (b + c) % 6)
        for b in range(1, 1025, 4)
        for c in (1, 257, 513, 769)
    ]
    schedule = specgrid.Schedule(rows)
    lookup = schedule.lookup(2**20, 5)
    small = schedule.lookup(65536, 5)
    five = [(1, 32, 5), (33, 64, 4), (65, 128, 3), (129, 192, 2), (193, 256, 1)]
    server = {"max_num_seqs": 256, "num_speculative_tokens": 5, "schedule": five}
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16)]
    graphs = specgrid.GraphSet(sizes, **server)
    steps = [(n, n * (1 + small[n, 1]), 1 + small[n, 1]) for n in range(1, 257)]
    steps = (steps * 40)[:10_000]
    load = specgrid.Workload(
        {(q, n): 1.0 / n for q in range(1, 7) for n in range(1, 257)}
    )
    costs = specgrid.Costs.linear(6000, 7, 2500, 9000)
    points = [
        (b, 0, k, 7000.0 + 630.0 * k + 3.0 * b * (k + 1))
        for k in range(6)
        for b in (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256)
    ]
    log = Path(tempfile.mkdtemp()) / "server.log"
    fixture = ROOT / "tests" / "data" / "vllm-0.33.0" / "server.log"
    log.write_bytes(fixture.read_bytes() * 5)

    def dispatch() -> None:
        call = graphs.dispatch
        for num_reqs, num_tokens, query_len in steps:
            call(num_reqs, num_tokens, query_len)

    return {
        "build": lambda: specgrid.Schedule(rows).lookup(4096, 5),
        "dense": lambda: schedule.lookup(65536, 5).dense(),
        "tiers": lambda: (lookup.tiers(), small.tiers()),
        "capture sizes": lambda: specgrid.capture_sizes(256, 5, five),
        "graph build": lambda: specgrid.GraphSet(sizes, **server),
        "dispatch x 10,000": dispatch,
        "plan": lambda: specgrid.plan_captures(
            load,
            costs,
            budget=specgrid.Budget(graphs=64, full_coverage=False),
            max_size=512,
            num_threads=1,
            **server,
        ),
        "tune": lambda: specgrid.tune_schedule(
            points,
            [0.8, 0.64, 0.51, 0.41, 0.33],
            max_num_seqs=256,
            num_speculative_tokens=5,
            max_entries=4,
        ),
        "log parse": lambda: read_log(log),
    }


def run() -> None:
    mark()
    import specgrid

    for name in specgrid.__all__:  # each loads its module, one of them the core
        getattr(specgrid, name)
    mark()
    for call in calls().values():
        call()
        mark()
        call()
        mark()


def names() -> list[str]:
    return ["import", "build", "dense", "tiers", "capture sizes", "graph build",
            "dispatch x 10,000", "plan", "tune", "log parse"]  # fmt: skip


def conditions() -> dict[str, Any]:
    """What counts depend on beside the source."""
    compiler = subprocess.run(
        [os.environ.get("CXX", "c++"), "--version"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    valgrind = subprocess.run(
        ["valgrind", "--version"], capture_output=True, text=True, check=True
    )
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {
        "compiler": compiler.stdout.splitlines()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "valgrind": valgrind.stdout.strip(),
        "machine": platform.machine(),
        "avx2": " avx2 " in flags,
    }


def measure() -> dict[str, int]:
    """Instructions of each call, in millions of nothing: plain counts."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        # Sources compiled beforehand, by the first run, wherever we may write.
        "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "instructions-cache"),
        "PYTHONDONTWRITEBYTECODE": "",
        "OPENBLAS_NUM_THREADS": "1",
    }
    script = [sys.executable, str(Path(__file__).resolve()), "run"]
    subprocess.run(script, check=True, env=environment)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
             "--dump-before=getppid", *script],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        dumps = sorted(
            Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:])
        )
        counts = [
            int(re.search(r"^(?:totals|summary): (\d+)", d.read_text(), re.M)[1])  # type: ignore[index]
            for d in dumps
        ]
    # Dump 1 is before the first marker, 2 the first call, 3 what lies between.
    found = dict(zip(names(), counts[1::2], strict=False))
    if len(found) != len(names()):
        raise SystemExit(f"callgrind wrote {len(counts)} dumps, not two a call")
    return found


def main(what: str) -> int:
    if what == "run":
        run()
        return 0
    here = {"conditions": conditions(), "instructions": measure()}
    if what == "store":
        STORED.write_text(json.dumps(here, indent=1) + "\n")
    if what != "check":
        print(json.dumps(here, indent=1))
        return 0
    stored = json.loads(STORED.read_text())
    same = stored["conditions"] == here["conditions"]
    worse = 0
    print(f"{'call':<20}{'stored':>15}{'now':>15}{'change':>9}")
    for name, before in stored["instructions"].items():
        now = here["instructions"][name]
        change = now / before - 1
        over = change > TOLERANCE
        worse += over
        remark = "  MORE THAN 3 %" if over else ""
        print(f"{name:<20}{before:>15,}{now:>15,}{change:>+9.1%}{remark}")
    if not same:
        print("NOT COMPARABLE: stored under other conditions, so nothing is judged:")
        for name, value in here["conditions"].items():
            was = stored["conditions"].get(name)
            print(f"  {name}: {value}" + (f" (stored: {was})" if was != value else ""))
        return 0
    if worse:
        print("If that is meant, store the new counts and say why in the commit.")
    return 1 if worse else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("measure", "check", "store", "run"):
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))
