# SPDX-License-Identifier: Apache-2.0
"""Times a base and a change side by side, interleaved, so that a busy machine
troubles both alike.

    python benchmarks/compare.py BASE [CHANGE] [--rounds N]

BASE and CHANGE are git revisions; without CHANGE the working tree as it is. Each
is built into an environment of its own (build/compare/...), then the calls of
benchmarks/instructions.py run in turns, base first in even rounds and change first
in odd ones. Shown per call: the medians, and the median of the paired ratios with
the range in which the middle half of them lies.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "compare"

# Runs in each environment: nanoseconds of every call, best of three.
TIMER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import instructions
found = {}
for name, call in instructions.calls().items():
    call()
    best = None
    for _ in range(3):
        begin = time.perf_counter_ns()
        call()
        spent = time.perf_counter_ns() - begin
        best = spent if best is None else min(best, spent)
    found[name] = best
print(json.dumps(found))
"""


def checkout(revision: str | None) -> tuple[str, Path]:
    """The sources of a revision; the working tree for None."""
    if revision is None:
        return "working tree", ROOT
    commit = subprocess.run(
        ["git", "rev-parse", "--short", f"{revision}^{{commit}}"], cwd=ROOT,
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    source = WORK / f"source-{commit}"
    if not source.exists():
        source.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "x"], cwd=source, input=archive.stdout, check=True)
    return commit, source


def build(name: str, source: Path) -> Path:
    """An environment with that specgrid installed; its Python."""
    place = WORK / f"venv-{name.replace(' ', '-')}"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
    print(f"building {name}", file=sys.stderr)
    subprocess.run([python, "-m", "pip", "install", "-q", str(source)], check=True)
    return python


def timings(python: Path) -> dict[str, int]:
    done = subprocess.run(
        [python, "-c", TIMER, str(ROOT / "benchmarks")],
        check=True, capture_output=True, text=True, cwd=WORK,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("change", nargs="?")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    sides = [checkout(options.base), checkout(options.change)]
    pythons = [build(name, source) for name, source in sides]
    rounds: list[tuple[dict[str, int], dict[str, int]]] = []
    for number in range(options.rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        both = {side: timings(pythons[side]) for side in order}
        rounds.append((both[0], both[1]))
    print(f"{sides[0][0]} against {sides[1][0]}, {options.rounds} rounds")
    print(f"{'call':<20}{'base us':>11}{'change us':>11}{'ratio':>8}  middle half")
    for name in rounds[0][0]:
        base = [a[name] / 1000 for a, _ in rounds]
        change = [b[name] / 1000 for _, b in rounds]
        ratios = sorted(b / a for a, b in zip(base, change, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios) - 1) // 4]
        print(
            f"{name:<20}{statistics.median(base):>11,.1f}"
            f"{statistics.median(change):>11,.1f}{statistics.median(ratios):>8.3f}"
            f"  {low:.3f} to {high:.3f}"
        )


if __name__ == "__main__":
    main()
