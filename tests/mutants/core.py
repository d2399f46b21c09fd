# SPDX-License-Identifier: Apache-2.0
"""Faults put into the core on purpose, one at a time: the tests must see each.

    python tests/mutants/core.py            all of them
    python tests/mutants/core.py 3 17       some, by number

Works on a copy in build/mutants and leaves the sources alone. A fault is caught
when it no longer compiles, or its topic's C++ tests or, after them, the replay of
the topic's saved fuzz inputs fail; a verdict names the first that did. Needs cmake,
ninja and doctest, as the C++ tests do. Exit status 1 when a fault survives.
"""

from __future__ import annotations

import os
import re
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
    Fault("plan_ladder", "lines_[at_ + 1].above < x", "lines_[at_ + 1].above <= x",
          "where two lines cross the larger entry is taken"),
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


def topic_of(fault: Fault) -> str:
    """What the C++ tests and the fuzz target of a file are called."""
    word = fault.file.partition("_")[0]
    return "graphs" if word == "dispatch" else word


def run(command: list[str], seconds: float) -> tuple[int, str]:
    """Exit status and output; status 124 when it did not end in time."""
    try:
        done = subprocess.run(
            command,
            cwd=WORK,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stdout


def prepare() -> None:
    """Makes the copy that of the sources, writing only what differs.

    So what an earlier run built is used again, and a fault it left is taken out.
    """
    wanted = [ROOT / "CMakeLists.txt", ROOT / "CMakePresets.json"]
    wanted += [path for path in (ROOT / "csrc").rglob("*") if path.is_file()]
    source = WORK / "source"
    copies = {source / path.relative_to(ROOT): path for path in wanted}
    for copy in source.rglob("*"):
        if copy.is_file() and copy not in copies:
            copy.unlink()
    for copy, path in copies.items():
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    status, said = run(
        ["cmake", "-S", "source", "-B", "out", "-G", "Ninja", "-DSPECGRID_TESTS=ON",
         "-DSPECGRID_FUZZ=ON", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -fsanitize=undefined "
         "-fno-sanitize-recover=all"],
        300,
    )  # fmt: skip
    assert status == 0, said


def failing(topic: str) -> str:
    """The first check of a topic that fails, or nothing."""
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    tests, replay = "specgrid_tests", f"fuzz_{topic}"
    status, _ = run(
        ["cmake", "--build", "out", "-j", jobs, "--target", tests, replay], 900
    )
    if status != 0:
        return "the build"
    status, said = run(
        [f"out/{tests}", f"--source-file=*test_{topic}.cpp", "--abort-after=1"], 300
    )
    if status != 0:
        # The last header before the first error: messages have headers too.
        before = said.partition(" ERROR: ")[0]
        names = re.findall(r"^TEST CASE: +(.*(?:\n  .*)*)", before, re.MULTILINE)
        return f"C++ test: {' '.join(names[-1].split())}" if names else "C++ tests"
    corpus = ROOT / "tests" / "fuzz-corpus" / f"{topic}.txt"
    status, _ = run([f"out/{replay}", str(corpus)], 120)
    return "the replay of saved inputs alone" if status != 0 else ""


def put_in(fault: Fault) -> tuple[Path, str]:
    """Writes a fault into the copy; its file and the sound text."""
    path = WORK / "source" / "csrc" / "core" / f"{fault.file}.cpp"
    if fault.before not in path.read_text():
        path = path.with_suffix(".hpp")
    text = path.read_text()
    assert text.count(fault.before) == 1, f"{path}: {fault.before}"
    path.write_text(text.replace(fault.before, fault.after))
    return path, text


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:]] or list(range(1, len(FAULTS) + 1))
    WORK.mkdir(parents=True, exist_ok=True)
    prepare()
    for topic in sorted({topic_of(FAULTS[number - 1]) for number in numbers}):
        begin = time.monotonic()
        by = failing(topic)
        assert not by, f"{topic}: fails without a fault, by {by}"
        seconds = time.monotonic() - begin
        print(f"{topic}: passes without a fault ({seconds:.0f} s)", flush=True)
    survivors = []
    for done, number in enumerate(numbers, 1):
        fault = FAULTS[number - 1]
        begin = time.monotonic()
        path, text = put_in(fault)
        by = failing(topic_of(fault))
        path.write_text(text)
        if not by:
            survivors.append(number)
        verdict = f"caught by {by}" if by else "SURVIVED"
        print(
            f"[{done}/{len(numbers)}, {time.monotonic() - begin:.0f} s] "
            f"{number:2} {fault.file}: {fault.what}: {verdict}",
            flush=True,
        )
    print(f"{len(numbers) - len(survivors)} of {len(numbers)} faults caught")
    if survivors:
        print("survived:", *survivors)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
