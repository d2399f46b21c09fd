# SPDX-License-Identifier: Apache-2.0
"""The raw extension: every keyword of the stub, and input that is no input.

stubtest sees the names but not the signatures of pybind11 functions, so each
function is called here by its keywords. Wrong types must be Python exceptions,
never a crash.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import specgrid
from specgrid import _core

ROWS = np.array([[1, 16, 1, 2**31 - 1, 3]])
GRID = {
    "batches": np.array([[1, 16]]),
    "contexts": np.array([[1, 2**31 - 1]]),
    "k": np.array([3]),
}
LIMITS = {"max_num_seqs": 8, "num_speculative_tokens": 3}


def test_functions_take_the_keywords_of_the_stub() -> None:
    assert _core.check_rows(rows=ROWS, form=0)[0] == 0
    assert _core.build_grid(rows=ROWS, form=1)[0] is None
    assert _core.rows_from_list(rows=[[1, 2, 3]]) is not None
    lookup = _core.Lookup(**GRID, **LIMITS)
    assert lookup.at(batch=8, context=0) == 3
    assert lookup.column_of(context=9) == 0
    assert lookup.dense(item_bytes=2).shape == (9, 1)
    contexts = np.empty(0, np.int64)
    assert lookup.gather(batches=np.array([1]), contexts=contexts).tolist() == [3]
    assert (lookup.max_num_seqs, lookup.num_speculative_tokens) == (8, 3)
    found = _core.capture_sizes(
        limits=np.array([6, 1, 8192, 512, 1]),
        tiers=np.empty(0, np.int64),
        rule=2,
        interactivity=False,
        explicit_sizes=None,
        explicit_max=None,
    )
    assert found[2].tolist() == [1, 2, 4, 6, 8]
    sizes = _core.align_sizes(sizes=np.array([4]), max_size=8, query_len=3)
    assert sizes.tolist() == [6]


def test_the_stub_and_the_twin_have_every_name_of_the_core() -> None:
    from specgrid import _reference

    stub = Path(specgrid.__file__).with_name("_core.pyi")
    stubbed = {
        node.name
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    native = {name for name in dir(_core) if not name.startswith("_")}
    assert native == stubbed
    assert native <= set(dir(_reference))


def test_the_core_is_built_from_this_version() -> None:
    assert _core.__version__ == specgrid.__version__


@pytest.mark.parametrize("rows", [None, 3, "x", [[1, 2]], ROWS.astype(float)])
def test_arrays_of_another_kind_are_type_errors(rows: Any) -> None:
    with pytest.raises(TypeError):
        _core.build_grid(rows=rows, form=0)


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        _core.Lookup(**{**GRID, "k": np.array([1, 2])}, **LIMITS)
    with pytest.raises(ValueError, match="do not fit"):
        _core.Lookup(**{**GRID, "batches": np.empty((0, 2), np.int64)}, **LIMITS)
    with pytest.raises(ValueError, match="must be positive"):
        _core.Lookup(**GRID, max_num_seqs=0, num_speculative_tokens=1)
    lookup = _core.Lookup(**GRID, **LIMITS)
    with pytest.raises(ValueError, match="item_bytes"):
        lookup.dense(item_bytes=3)
    with pytest.raises(ValueError, match="differ in length"):
        lookup.gather(np.array([1, 2]), np.array([1]))
    with pytest.raises(ValueError, match="five numbers of at least 1"):
        _core.capture_sizes(np.array([1]), np.array([1]), 2, False, None, None)


def test_zero_counts_are_refused_before_anything_divides_by_them() -> None:
    limits, none = np.array([6, 1, 8192, 512, 1]), np.empty(0, np.int64)
    for place in range(5):
        zero = limits.copy()
        zero[place] = 0
        with pytest.raises(ValueError, match="at least 1"):
            _core.capture_sizes(zero, none, 2, False, None, None)
    with pytest.raises(ValueError, match="at least 1"):
        _core.capture_sizes(limits, np.array([0, 4]), 2, False, None, None)
    with pytest.raises(ValueError, match="at least 1"):
        _core.align_sizes(np.array([4]), 8, 0)


@pytest.mark.parametrize(
    "rows",
    [None, [], (), "abc", [[1, 2]], [[1, 2, 3], [1, 2, 3, 4, 5]], [[1, 2, True]],
     [[1, 2, 2**63]], [[1, 2, 3.0]], [{1: 2}], [[1, 2, 3], None]],
)  # fmt: skip
def test_the_fast_reader_leaves_unusual_rows_to_python(rows: Any) -> None:
    from specgrid import _reference

    assert _core.rows_from_list(rows) is None
    assert _reference.rows_from_list(rows) is None
