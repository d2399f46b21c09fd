# SPDX-License-Identifier: Apache-2.0
"""Graphs and dispatch against tables that real vLLM 0.33.0 produced."""

from __future__ import annotations

from typing import Any

import pytest

from specgrid import Graph, GraphSet, ScheduleError
from tests.conftest import golden

CASES = [
    pytest.param(case, id=f"{name}-{i}")
    for name in ("graphs_v2_ceil512", "graphs_v2_ceil1024")
    for i, case in enumerate(golden(name))
]


def build(case: dict[str, Any], **changes: Any) -> GraphSet:
    return GraphSet(
        case["sizes"],
        max_num_seqs=case["max_num_seqs"],
        num_speculative_tokens=case["num_speculative_tokens"],
        schedule=case["schedule"],
        max_size=case["max"] or None,
        mode=case["cudagraph_mode"],
        lora_cases=case["lora_cases"],
        **changes,
    )


@pytest.mark.parametrize("case", CASES)
def test_descriptors_and_dispatch_equal_vllm(
    case: dict[str, Any], backend: Any
) -> None:
    if "error" in case:
        with pytest.raises(ScheduleError) as error:
            build(case)
        assert error.value.rule == case["error"]
        return
    graphs = build(case)
    assert graphs.num_graphs == sum(map(len, case["descriptors"].values()))
    for mode in ("FULL", "PIECEWISE"):
        ours = [list(graph[1:5]) for graph in graphs.graphs(mode)]
        assert ours == case["descriptors"].get(mode, [])
    many = graphs.dispatch_many(
        *([sample[i] or 0 for sample in case["dispatch"]] for i in range(4))
    )
    for (reqs, tokens, query_len, loras, answer), index in zip(
        case["dispatch"], many.tolist(), strict=True
    ):
        graph = graphs.dispatch(reqs, tokens, query_len, loras)
        assert graph == Graph(*answer)
        if graph.mode == "NONE":
            assert index == -1
        else:
            assert graphs.all_graphs[index] == graph
