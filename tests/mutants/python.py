# SPDX-License-Identifier: Apache-2.0
"""Faults put into the Python by a tool (cosmic-ray), one at a time, by chance: the
tests of the changed module must see each.

    python tests/mutants/python.py                     every module, 25 faults each
    python tests/mutants/python.py --sample 5 _budget _costs
    python tests/mutants/python.py --seed 2            other faults

Works on a copy in build/mutants-python, with an environment of its own, and leaves
the sources alone. Prints what survived, as a diff: a missing test, or a change that
changes nothing. Needs cosmic-ray beside the tools of `.[dev]`. Exit status 1 when a
fault survives that tests/mutants/equivalent.txt does not explain.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec, WorkResult

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.txt"
SECONDS = 240  # a test that hangs sees the fault too

# The tests that look at a module; its own examples run beside them.
TESTS = {
    "_rows": "test_schedule test_compat",
    "_schedule": "test_schedule test_compat",
    "_lookup": "test_lookup test_schedule",
    "_compress": "test_tune",
    "_capture": "test_capture",
    "_graphs": "test_graphs",
    "_coverage": "test_coverage",
    "_drafts": "test_drafts",
    "_budget": "test_plan",
    "_workload": "test_plan",
    "_costs": "test_plan",
    "_acceptance": "test_acceptance io/test_acceptance",
    "_atomic": "test_atomic",
    "_check": "test_plan test_graphs",
    "_reference/schedule": "test_schedule test_differential",
    "_reference/lookup": "test_lookup test_differential",
    "_reference/capture": "test_capture test_differential",
    "_reference/graphs": "test_graphs_raw test_graphs",
    "_reference/tune": "test_tune_core test_tune",
    "io/log": "io/test_log",
    "io/bench": "io/test_bench",
    "io/vllm_command": "cli/test_vllm_command_line cli/test_explain",
}


def prepared(work: Path) -> Path:
    """A copy of the sources with a Python that imports it; that Python."""
    shutil.rmtree(work, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "python", "tests", "examples", "docs", "pyproject.toml"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, listed):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, work / name)
    found = subprocess.run(
        [sys.executable, "-c", "import specgrid._core as c; print(c.__file__)"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    shutil.copy(found, work / "python" / "specgrid")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", work / "venv"], check=True
    )
    # The copy hides what is installed: a path, not the finders of an editable
    # install, which the .pth files of a site folder would start.
    site = Path(sysconfig.get_path("purelib"))
    paths = [str(work / "python"), str(site)]
    for pth in site.glob("*.pth"):
        lines = pth.read_text().split("\n")
        paths += [p for p in lines if p.startswith("/") and Path(p).is_dir()]
    short = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = work / "venv" / "lib" / short / "site-packages" / "paths.pth"
    own.write_text("\n".join(paths))
    python = work / "venv" / "bin" / "python"
    origin = subprocess.run(
        [python, "-c", "import specgrid; print(specgrid.__file__)"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert str(work) in origin, f"would change nothing: specgrid is from {origin}"
    return python


def types_only(source: str) -> Iterator[tuple[int, int, int, int]]:
    """Where annotations stand: nothing reads them when the program runs."""
    for node in ast.walk(ast.parse(source)):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if part is not None:
                yield (
                    part.lineno,
                    part.col_offset,
                    part.end_lineno,
                    part.end_col_offset,
                )


def mutations(path: Path) -> list[MutationSpec]:
    places = list(types_only(path.read_text()))

    def typed(spec: MutationSpec) -> bool:
        return any(
            (a, b) <= spec.start_pos and spec.end_pos <= (c, d) for a, b, c, d in places
        )

    found = [m for item in _all_work_items([path], {}) for m in item.mutations]
    return [m for m in found if not typed(m)]


def explained(result: WorkResult) -> bool:
    """Whether the changed line stands in the list of changes without effect."""
    lines = (result.diff or "").split("\n")
    added = [x[1:].strip() for x in lines if x.startswith("+") and x[1:3] != "++"]
    known = EQUIVALENT.read_text().split("\n") if EQUIVALENT.exists() else []
    return bool(added) and all(x in known for x in added if x)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--sample", type=int, default=25, help="faults a module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default="build/mutants-python", help="a folder")
    options = parser.parse_args()
    unknown = set(options.modules) - set(TESTS)
    if unknown:
        parser.error(f"{', '.join(unknown)}: modules are {', '.join(TESTS)}")
    work = ROOT / options.work
    python = prepared(work)
    os.chdir(work)
    killed = survived = accepted = 0
    for module in options.modules or TESTS:
        path = Path("python/specgrid") / f"{module}.py"
        tests = [f"tests/{name}.py" for name in TESTS[module].split()]
        command = (
            f"{python} -m pytest -x -q -p no:cacheprovider -p no:xdist "
            f"-m 'not slow' {path} {' '.join(tests)}"
        )
        begin = time.monotonic()
        subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
        usual = time.monotonic() - begin
        choices = mutations(path)
        random.Random(options.seed).shuffle(choices)
        # One of a kind at a place: `+` can become eleven other operators.
        kinds = {(m.operator_name.split("_")[0], m.start_pos): m for m in choices}
        chosen = list(kinds.values())[: options.sample]
        here = 0
        for number, spec in enumerate(chosen, 1):
            result = mutate_and_test([spec], command, SECONDS)
            if result.is_killed:
                killed += 1
                here += 1
            elif explained(result):
                accepted += 1
            else:
                survived += 1
                print(f"SURVIVED {module} {spec.operator_name}\n{result.diff}")
            if sys.stderr.isatty():
                print(f"\r{module} {number}/{len(chosen)}", end="", file=sys.stderr)
        print(
            f"{module}: {here} of {len(chosen)} seen ({len(kinds)} places, "
            f"{usual:.0f} s a run)",
            flush=True,
        )
    print(f"{killed} seen, {accepted} without effect, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
