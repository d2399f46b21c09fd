# SPDX-License-Identifier: Apache-2.0
"""Dispatched steps on real managers, counted by query length, requests and mode."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from specgrid import DraftGraphs

ROWS = [[1, 16, 3], [17, 64, 0]]


@pytest.fixture
def manager(plugin: Any, sim: Any) -> Any:
    config = sim.stub_config(max_num_seqs=64, num_spec=3, schedule=ROWS)
    config._set_cudagraph_sizes()
    return sim.make_manager(config)


def dispatch(manager: Any, num_reqs: int, tokens: int, query_len: Any) -> Any:
    module = importlib.import_module("vllm.v1.worker.gpu.dp_utils")
    return module.dispatch_cg_and_sync_dp(
        manager, num_reqs, tokens, query_len, 1, 0, max_query_len=query_len
    )[0]


def test_steps_are_counted_with_the_graph_they_got(manager: Any) -> None:
    from specgrid.vllm_plugin import _counters

    for _ in range(3):
        assert dispatch(manager, 10, 40, 4).cg_mode.name == "FULL"
    assert dispatch(manager, 10, 45, None).cg_mode.name == "PIECEWISE"
    assert dispatch(manager, 10, 4000, None).cg_mode.name == "NONE"
    assert list(manager._specgrid_counters.counts()) == [
        (_counters.STEP, (4, 10, 2), 3),
        (_counters.STEP, (0, 10, 1), 1),
        (_counters.STEP, (0, 10, 0), 1),
    ]


def test_warm_up_before_capture_is_not_counted(manager: Any) -> None:
    manager._graphs_captured = False
    dispatch(manager, 10, 40, 4)
    assert list(manager._specgrid_counters.counts()) == []


def test_counters_can_be_switched_off(plugin: Any, sim: Any) -> None:
    config = sim.stub_config(max_num_seqs=8, settings={"counters": False})
    config._set_cudagraph_sizes()
    manager = sim.make_manager(config)
    dispatch(manager, 4, 4, 1)
    assert manager._specgrid_counters is None


def test_drafters_steps_are_not_counted_again(plugin: Any, sim: Any) -> None:
    module = importlib.import_module(
        "vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils"
    )
    config = sim.stub_config(max_num_seqs=64, num_spec=3, schedule=ROWS)
    config._set_cudagraph_sizes()
    manager = sim.make_manager(config, cls=module.SpeculatorCudaGraphManager)
    dispatch(manager, 10, 40, 4)
    assert manager._specgrid_counters is None


def test_drafters_capture_what_draft_graphs_counts(plugin: Any, sim: Any) -> None:
    """The planner's count of a drafter's graphs is what vLLM's managers hold."""
    from specgrid import Schedule
    from specgrid.vllm_plugin import _capture, _graphs

    module = importlib.import_module(
        "vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils"
    )
    rows = [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]
    config = sim.stub_config(max_num_seqs=256, num_spec=5, schedule=rows)
    config._set_cudagraph_sizes()
    decode = sim.make_manager(
        config,
        query_len=1,
        mode="FULL_DECODE_ONLY",
        cls=module.SpeculatorCudaGraphManager,
    )
    (descs,) = decode._capture_descs.values()
    runs = _graphs.diagonal_of(Schedule(rows).lookup(256, 5))
    pairs = _capture.reachable_pairs([d.num_reqs for d in descs], runs)
    planned = DraftGraphs(
        config.compilation_config.cudagraph_capture_sizes,
        max_num_seqs=256,
        num_speculative_tokens=5,
        schedule=rows,
        policy="reachable",
    )
    assert {(n, k) for n, ks in pairs for k in ks} == {
        (graph.num_reqs, graph.k) for graph in planned.decode
    }
