# SPDX-License-Identifier: Apache-2.0
"""Turns pytest-benchmark's JSON into the tables of README.md in this folder.

    python -m pytest benchmarks/bench_X.py -o python_files='bench_*.py' \
        --benchmark-json=/tmp/x.json
    python benchmarks/table.py /tmp/x.json

One table a group: the median of each contestant, and how many times specgrid's
median it is. Below 1.0 specgrid lost, and the table says so like any other.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path


def shown(seconds: float) -> str:
    """A time with a unit a person reads."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main(paths: list[str]) -> None:
    for path in paths:
        report = json.loads(Path(path).read_text())
        cases = sorted(report["benchmarks"], key=lambda b: b["group"] or b["name"])
        print("| case | contestant | median | of specgrid's |\n|---|---|---:|---:|")
        for group, members in groupby(cases, key=lambda b: b["group"] or b["name"]):
            rows = [(b["name"].partition("[")[2][:-1], b["stats"]) for b in members]
            ours = [s["median"] for name, s in rows if "specgrid" in name]
            for name, stats in rows:
                ratio = f"{stats['median'] / ours[0]:.2f}" if ours else ""
                median = shown(stats["median"])
                print(f"| {group} | {name or 'specgrid'} | {median} | {ratio} |")
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
