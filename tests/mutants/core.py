# SPDX-License-Identifier: Apache-2.0
"""Faults put into the core on purpose, one at a time: the tests must see each.

    python tests/mutants/core.py            all of them
    python tests/mutants/core.py 3 17       some, by number

Works on a copy in build/mutants and leaves the sources alone. A fault is caught
when it no longer compiles, or the C++ tests or the replay of saved fuzz inputs
fail. Needs cmake, ninja and doctest, as the C++ tests do. Exit status 1 when a
fault survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"


class Fault(NamedTuple):
    file: str
    before: str
    after: str
    what: str


FAULTS = [
    Fault("schedule", "row.batch.lo <= grid.batches.back().hi",
          "row.batch.lo < grid.batches.back().hi", "batches may share their edge"),
    Fault("schedule", "if (row.k < 0) return", "if (row.k < -1) return",
          "K may be -1"),
    Fault("schedule", "contexts[i].lo != contexts[i - 1].hi + 1",
          "contexts[i].lo < contexts[i - 1].hi", "contexts may leave a gap"),
    Fault("schedule", "if (grid.k[cell] >= 0) return duplicate_fault(rows);", "",
          "a cell may be given twice"),
    Fault("schedule", "if (entered == left) continue;", "if (entered < left) continue;",
          "a gap between ragged batches is not skipped"),
    Fault("schedule", "sum % count == 0 && squares == count * mean * mean",
          "sum % count == 0", "rows that disagree may pass as agreeing"),
    Fault("lookup", "if (c == 0 || differs[c])", "if (differs[c])",
          "the canonical form loses its first column"),
    Fault("lookup", "tier.max_batch = std::max(tier.max_batch, hi);",
          "tier.max_batch = std::max(tier.max_batch, lo);",
          "a tier ends where its last run begins"),
    Fault("lookup", "std::min<std::int64_t>(k, num_speculative_tokens)", "k",
          "K is not clamped"),
    Fault("capture", "map.mark_stride(256, max, 16, kFromGrid);",
          "map.mark_stride(272, max, 16, kFromGrid);", "the grid lacks 256"),
    Fault("capture", "return capped_product(widest, 2, config.platform_ceiling);",
          "return widest;", "the inferred maximum is not doubled"),
    Fault("capture", "if (size <= max_size - short_by)",
          "if (size < max_size - short_by)", "aligned sizes stop one early"),
    Fault("graphs", "if (last > most_reqs) break;",
          "if (last > most_reqs + 1) break;", "graphs of more requests than can be"),
    Fault("graphs", "if (gap <= 0) continue;", "if (gap < 0) continue;",
          "the same graph is captured twice"),
    Fault("graphs", "std::lower_bound(ladder.begin(), ladder.end() - 1, widest)",
          "std::lower_bound(ladder.begin(), ladder.end() - 1, 0)",
          "the graph of the widest step is dropped"),
    Fault("dispatch", "level_below_[static_cast<std::size_t>(shape)] < tokens",
          "level_below_[static_cast<std::size_t>(shape)] <= tokens",
          "the shared ladder looks one size too far"),
    Fault("dispatch", "if (!clamp_loras_ || at == 0) return -1;",
          "if (at == 0) return -1;", "V1 clamps LoRA counts too"),
    Fault("dispatch", "step.max_query_len != 0 && step.max_query_len <= longest",
          "step.max_query_len <= longest",
          "steps of unknown length run on length-bounded graphs"),
    Fault("plan_pairs", "if (size == 0 || size > top || (a != 0 && rounded(tier, a)"
          " == size))", "if (size == 0 || size > top)",
          "a rounded size is paid for twice"),
    Fault("plan_pairs", "const std::int64_t split = std::max(lo, b);",
          "const std::int64_t split = lo;", "steps are served and eager at once"),
    Fault("plan_ladder", "if (last.start <= start) return;",
          "if (last.start < start) return;", "ties go to the larger entry"),
    Fault("plan_ladder", "line.above > last.above", "line.above >= last.above",
          "a line that is never lowest stays in the envelope"),
    Fault("plan_merge", "if (time < next[g])", "if (time <= next[g])",
          "ties take more entries"),
    Fault("plan_labels", "if (next.bound > most) continue;",
          "if (next.bound >= 0.9 * most) continue;", "good labels are ruled out"),
    Fault("plan_labels", "std::max(std::max(least_dropped, search.bound), 0.0)",
          "static_cast<double>(result.best.time)",
          "a capped search claims to have proven its plan"),
    Fault("plan_bound", "priced(prices, point.used) - priced(prices, limits)",
          "priced(prices, point.used)", "the bound forgets what the limits pay"),
    Fault("plan_frontier", "if (may_ask && stop && stop()) stopped.store(true);", "",
          "a solver with groups cannot be stopped"),
    Fault("plan_shared", "if (forced_between(", "if (false && forced_between(",
          "a forced size may be jumped over"),
]  # fmt: skip


def run(command: list[str], seconds: float) -> int:
    try:
        return subprocess.run(
            command, cwd=WORK, capture_output=True, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


def prepare() -> None:
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    # Fresh times: a fault of an earlier run must not stay built.
    shutil.copytree(ROOT / "csrc", source / "csrc", copy_function=shutil.copy)
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy2(ROOT / name, source / name)
    status = run(
        ["cmake", "-S", "source", "-B", "out", "-G", "Ninja", "-DSPECGRID_TESTS=ON",
         "-DSPECGRID_FUZZ=ON", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_FLAGS=-O1 -fsanitize=undefined -fno-sanitize-recover=all"],
        300,
    )  # fmt: skip
    assert status == 0, "cmake failed"


def failing() -> str:
    """The first check that fails, or nothing."""
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    if run(["cmake", "--build", "out", "-j", jobs], 900) != 0:
        return "the build"
    for corpus in sorted((ROOT / "tests" / "fuzz-corpus").glob("*.txt")):
        if run([f"out/fuzz_{corpus.stem}", str(corpus)], 120) != 0:
            return f"fuzz replay: {corpus.stem}"
    return "C++ tests" if run(["out/specgrid_tests"], 300) != 0 else ""


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:]] or range(1, len(FAULTS) + 1)
    prepare()
    begin = time.monotonic()
    assert not failing(), "the core fails without a fault"
    print(f"without a fault: all pass ({time.monotonic() - begin:.0f} s)", flush=True)
    survivors = 0
    for number in numbers:
        fault = FAULTS[number - 1]
        path = WORK / "source" / "csrc" / "core" / f"{fault.file}.cpp"
        if fault.before not in path.read_text():
            path = path.with_suffix(".hpp")
        text = path.read_text()
        assert text.count(fault.before) == 1, f"{number}: {fault.before}"
        path.write_text(text.replace(fault.before, fault.after))
        by = failing()
        path.write_text(text)
        survivors += not by
        verdict = f"caught by {by}" if by else "SURVIVED"
        print(f"{number:2} {fault.file}: {fault.what}: {verdict}", flush=True)
    print(f"{len(numbers) - survivors} of {len(numbers)} faults caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
