# SPDX-License-Identifier: Apache-2.0
"""The native graph table by itself: keywords, and arrays it must refuse."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from specgrid import Graph, GraphSet, _core
from specgrid._graphs import _refuse


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def table(**changes: Any) -> Any:
    settings: dict[str, Any] = {
        "sizes": ints(1, 2, 4),
        "query_lens": ints(1),
        "lora_cases": ints(0),
        "diagonal": ints(1, 1, 4),
        "limits": ints(4, 4, 1, 0, 1, 0),
        "decode_mode": 2,
        "mixed_mode": 1,
        "varlen_decode": False,
        "policy": 0,
        "clamp_loras": True,
    }
    return _core.GraphTable(**{**settings, **changes})


def test_keywords_are_those_of_the_stub() -> None:
    graphs = table()
    assert graphs.num_graphs == 6
    assert [len(column) for column in graphs.columns()] == [6] * 7
    bad, found = graphs.dispatch_many(
        num_reqs=ints(1, 3),
        num_tokens=ints(1, 3),
        query_len=ints(1),
        num_active_loras=ints(0),
        max_query_len=0,
        num_ubatches=1,
    )
    assert bad == -1
    assert found.tolist() == [5, 3]
    served = graphs.explain_many(
        num_reqs=ints(3), query_len=ints(1), num_active_loras=0
    )
    assert [int(a[0]) for a in served] == [3, 3, -1]
    assert graphs.used(diagonal=ints(1, 1, 2)).tolist() == [
        *[True] * 3,
        False,
        True,
        True,
    ]
    assert len(graphs.candidates()) == 5
    dispatch = graphs.bind_dispatch(graph_type=Graph, refuse=_refuse)
    assert dispatch(3, 3, 1).num_tokens == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ints(4, 2)},
        {"sizes": ints(2, 2)},
        {"sizes": ints(0, 2)},
        {"sizes": ints(2**31)},
        {"query_lens": ints(2, 1)},
        {"query_lens": ints(0)},
        {"lora_cases": ints(-1)},
        {"diagonal": ints(1, 1)},
        {"diagonal": ints(1, 0, 4)},
        {"limits": ints(4, 4, 1, 0, 1)},
        {"limits": ints(0, 4, 1, 0, 1, 0)},
        {"limits": ints(4, 4, 1, 0, 0, 0)},
        {"limits": ints(4, 4, 1, 0, 2**20, 0)},
        {"decode_mode": 3},
        {"mixed_mode": -1},
        {"policy": 7},
    ],
)
def test_what_would_be_unsafe_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        table(**changes)


def test_arrays_of_another_kind_are_type_errors() -> None:
    for bad in (None, [1, 2], np.array([1.0]), "12"):
        with pytest.raises(TypeError):
            table(sizes=bad)


def test_steps_that_do_not_fit_together_are_refused() -> None:
    graphs = table()
    with pytest.raises(ValueError, match="differ in length"):
        graphs.dispatch_many(ints(1, 2), ints(1, 2, 3), ints(1), ints(0), 0, 1)
    for reqs, lens, loras in ((-1, 1, 0), (1, 0, 0), (1, 2**40, 0), (1, 1, -1)):
        with pytest.raises(ValueError, match="out of range"):
            graphs.explain_many(ints(reqs), ints(lens), loras)
    with pytest.raises(TypeError):
        graphs.bind_dispatch(graph_type=3, refuse=_refuse)


def test_no_lora_case_is_no_graph() -> None:
    graphs = table(lora_cases=ints())
    assert graphs.num_graphs == 0
    assert graphs.dispatch_many(ints(1), ints(1), ints(1), ints(0), 0, 1)[1][0] == -1


def test_bound_dispatch_outlives_its_graph_set_and_leaks_nothing() -> None:
    dispatch = GraphSet([1, 2, 4], max_num_seqs=4).dispatch
    gc.collect()
    assert dispatch(3, 3, 1).num_tokens == 4

    def churn() -> None:
        for _ in range(50):
            graphs = GraphSet([1, 2, 4], max_num_seqs=4)
            graphs.dispatch(3, 3, 1)
            graphs.dispatch(3, 9, 1)

    churn()
    gc.collect()
    before = sum(type(o) is Graph for o in gc.get_objects())
    churn()
    gc.collect()
    assert sum(type(o) is Graph for o in gc.get_objects()) == before


def test_many_threads_get_the_same_graph_objects() -> None:
    graphs = GraphSet(range(1, 65), max_num_seqs=64)
    found: list[list[Graph]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def work(mine: list[Graph]) -> None:
        start.wait()
        mine.extend(graphs.dispatch(b, b, 1) for b in range(1, 65))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine in found[1:]:
        assert all(a is b for a, b in zip(mine, found[0], strict=True))
