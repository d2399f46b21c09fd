# SPDX-License-Identifier: Apache-2.0
"""Reading a server log: ours beside the loop one would write in an afternoon.

    python -m pytest benchmarks/bench_readers.py

The rival is one regular expression over the lines and a counter. It finds the
same steps in an undamaged log; it notices no damage, no missing, repeated or
impossible step, no table, no start-up line, and takes no times.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specgrid.io import read_log

FIXTURE = (
    Path(__file__).parents[1] / "tests" / "data" / "vllm-0.33.0" / "server.log"
).read_bytes()
COPIES = 300
_LINE = re.compile(
    rb"Iteration\(\d+\): 0 context requests, 0 context tokens, (\d+) generation "
    rb"requests, (\d+) generation tokens"
)


def afternoon_loop(path: Path) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    with path.open("rb") as lines:
        for line in lines:
            if match := _LINE.search(line):
                requests, tokens = int(match[1]), int(match[2])
                if tokens % requests == 0:
                    found[tokens // requests, requests] += 1
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "server.log"
    path.write_bytes(FIXTURE * COPIES)
    return path


@pytest.mark.parametrize("who", ["specgrid", "afternoon loop"])
def test_server_log(benchmark: Any, log: Path, who: str) -> None:
    size = log.stat().st_size
    benchmark.group = f"server log of {size / 1e6:.0f} MB"
    benchmark.extra_info["bytes"] = size
    if who == "specgrid":
        result = benchmark.pedantic(read_log, (log,), rounds=3).steps.uniform
    else:
        result = benchmark.pedantic(afternoon_loop, (log,), rounds=3)
    assert result == afternoon_loop(log)
