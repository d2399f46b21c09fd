# SPDX-License-Identifier: Apache-2.0
"""Sub-interpreters, in fresh processes.

From Python 3.12 on the extension loads in every one, with its own GIL or without.
What an interpreter can do there beyond that is up to NumPy: it refuses interpreters
with their own GIL, and loads in one interpreter of a process only.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "support" / "interpreters.py"

needs_own_gil = pytest.mark.skipif(
    sys.version_info < (3, 12),
    reason="interpreters of Python 3.11 share one GIL",
)

LOAD = """
import specgrid
from specgrid import _core
assert _core.rows_from_list([]) is None
assert _core.__version__ == specgrid.__version__
"""
ADD_UP = "from specgrid import _core; print(_core.rows_from_list([(1, 2, 3)])[0].sum())"
SUM = str(1 + 2 + 1 + 2**31 - 1 + 3)

# A plan stopped after half a second has asked for signals, GIL in hand, often.
WORK = """
import warnings
warnings.simplefilter("ignore", UserWarning)  # NumPy's, about sub-interpreters
import specgrid
from specgrid import _backend
rows = [(b, b + 6, c, c + 99, (b + c) % 7)
        for b in range(1, 64, 7) for c in (1, 101, 201)]
sizes = specgrid.capture_sizes(64, 6, rows)
graphs = specgrid.GraphSet(
    sizes, schedule=rows, num_speculative_tokens=6, max_num_seqs=64)
load = {(1, n): 1.0 + (n * 7919) % 101 for n in range(1, 1501)}
plan = specgrid.plan_captures(
    specgrid.Workload(load, floor=0),
    specgrid.Costs.linear(100, 1, 30, 900),
    max_num_seqs=1500,
    max_num_batched_tokens=1500,
    budget=specgrid.Budget(graphs=300, full_coverage=False),
    time_limit_s=0.5,
    num_threads=2,
)
assert plan.value.num_graphs <= 300
print(
    _backend.name(),
    specgrid.Schedule(rows).lookup(4096, 6).digest,
    list(sizes),
    graphs.dispatch(9, 17),
)
"""
CAPTURE = """
import specgrid
from specgrid import _backend
print(_backend.name(), list(specgrid.capture_sizes(64, 6, [(1, 8, 2), (9, 64, 1)])))
"""


def run(kind: str, code: str, *around: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, kind, code, *around],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def expect(found: subprocess.CompletedProcess[str], *lines: str) -> None:
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split("\n") == [*lines, ""]


def here(code: str) -> str:
    """What the code prints in an interpreter that is the only one."""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return found.stdout.rstrip("\n")


@needs_own_gil
@pytest.mark.parametrize("kind", ["isolated", "legacy"])
def test_the_extension_loads_beside_the_main_interpreters(kind: str) -> None:
    expect(run(kind, LOAD, ADD_UP, ADD_UP), SUM, SUM)


@needs_own_gil
def test_interpreters_with_their_own_gil_come_and_go_in_threads() -> None:
    expect(run("many", LOAD, ADD_UP, ADD_UP), SUM, SUM)


@needs_own_gil
def test_what_needs_numpy_is_refused_where_numpy_is() -> None:
    for code in (
        "import specgrid; specgrid.Schedule([(1, 2, 3)])",
        "from specgrid import _core; _core.rows_from_list([(1, 2, 3)])",
        "from specgrid import _core; _core.align_sizes([1], 8, 1)",
    ):
        found = run("isolated", code, ADD_UP, ADD_UP)
        assert found.stdout.split() == [SUM, SUM]
        assert found.returncode == 1
        assert "does not support loading in subinterpreters" in found.stderr


@needs_own_gil
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without a GIL NumPy loads in no sub-interpreter",
)
def test_an_interpreter_that_shares_the_gil_does_all_the_work() -> None:
    expected = here(WORK)
    assert expected.startswith("native ")
    expect(run("legacy", WORK), expected)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 has a tag to say it with")
@pytest.mark.parametrize("kind", ["isolated", "legacy"])
def test_python_3_11_refuses_the_extension_and_says_why(kind: str) -> None:
    found = run(kind, LOAD, ADD_UP, ADD_UP)
    assert found.stdout.split() == [SUM, SUM]
    assert found.returncode == 1
    assert "loads in sub-interpreters from Python 3.12 on" in found.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 loads the extension")
def test_python_3_11_works_on_the_reference_with_one_warning() -> None:
    found = run("legacy", CAPTURE)
    name, answer = found.stdout.split(" ", 1)
    assert (found.returncode, name) == (0, "reference")
    assert f"native {answer}" == here(CAPTURE) + "\n"
    assert found.stderr.count("slow pure-Python reference") == 1
    assert "from Python 3.12 on" in found.stderr
