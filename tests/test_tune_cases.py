# SPDX-License-Identifier: Apache-2.0
"""What to measure: the form `vllm bench forward --shapes` reads, and the choice."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from specgrid import ConfigError, bench_cases, tune_schedule
from specgrid._tune_cases import next_points, plan_cases


def test_cases_are_verify_steps_of_exact_batches() -> None:
    cases = bench_cases([1, 16], [512, 4096], [0, 3])
    assert len(cases) == 8
    assert len({case["name"] for case in cases}) == 8
    for case in cases:
        (request,) = case["requests"]
        # vllm/benchmarks/forward/shapes.py: a verify step has query_len == 1 +
        # num_draft_tokens and a prefix, kv_len counts the query too.
        assert set(request) == {"query_len", "kv_len", "num_draft_tokens", "count"}
        assert request["query_len"] == 1 + request["num_draft_tokens"]
        context = request["kv_len"] - request["query_len"]
        assert context in (512, 4096)
        assert case["name"] == (
            f"b{request['count']}_c{context}_k{request['num_draft_tokens']}"
        )
    assert json.loads(json.dumps(cases)) == cases


@pytest.mark.vllm
def test_vllm_reads_the_cases(tmp_path: Path) -> None:
    shapes = pytest.importorskip("vllm.benchmarks.forward.shapes")
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": bench_cases([1, 7], [100], [0, 3])}))
    loaded = shapes.load_cases(str(path))
    assert [case.name for case in loaded] == [
        "b1_c100_k0", "b7_c100_k0", "b1_c100_k3", "b7_c100_k3",
    ]  # fmt: skip
    assert len(loaded[3].requests) == 7
    assert loaded[3].requests[0].is_decode
    assert loaded[3].requests[0].prefix_len == 100


@pytest.mark.parametrize(
    ("batches", "contexts", "ks"),
    [([0], [1], [0]), ([1], [0], [0]), ([1], [1], [-1]), ([1.5], [1], [0])],
)
def test_cases_of_no_batch_context_or_k_are_refused(
    batches: Any, contexts: Any, ks: Any
) -> None:
    with pytest.raises(ConfigError, match="must be"):
        bench_cases(batches, contexts, ks)


def plan(**kwargs: Any) -> Any:
    defaults = {"max_num_seqs": 256, "max_model_len": 32768, "ks": [0, 1, 3, 5]}
    return plan_cases(**{**defaults, **kwargs})


@pytest.mark.parametrize("max_points", [8, 20, 60, 400])
def test_the_budget_is_kept_and_the_ends_are_measured(max_points: int) -> None:
    found = plan(max_points=max_points)
    assert 0 < len(found.points) <= max_points
    assert found.batches[0] == 1
    assert found.batches[-1] == 256
    assert set(found.points) == set(
        itertools.product(found.batches, found.contexts, [0, 1, 3, 5])
    )
    # Room for the drafter's own steps behind the longest context.
    assert found.contexts[-1] + 2 * 6 <= 32768
    assert found.seconds > 0
    assert {k: len(cases) for k, cases in found.by_k().items()} == dict.fromkeys(
        [0, 1, 3, 5], len(found.points) // 4
    )


def test_both_sides_of_tier_edges_and_capture_limits_are_measured() -> None:
    found = plan(edges=[1, 17, 65], contexts=[2048], max_points=80)
    assert {16, 17, 64, 65} <= set(found.batches)
    found = plan(capture_sizes=[1, 512], contexts=[2048], max_points=80)
    assert {128, 129, 85, 86} <= set(found.batches)


def test_the_rest_is_spread_evenly_on_a_log_scale() -> None:
    found = plan(contexts=[2048], max_points=36)
    ratios = [b / a for a, b in itertools.pairwise(found.batches)]
    assert len(found.batches) == 9
    assert max(ratios) <= 2.1


def test_batches_stop_where_the_kv_cache_is_full() -> None:
    found = plan(contexts=[1000, 10_000, 30_000], kv_tokens=100_000, max_points=60)
    for batch, context, k in found.points:
        assert batch * (context + k + 1) <= 100_000
    assert max(b for b, c, _ in found.points if c == 1000) == 99
    assert {b for b, c, _ in found.points if c == 30_000} == {1, 2, 3}
    found = plan(contexts=[1000, 10_000], kv_tokens=5000)
    assert found.contexts == (1000,)
    assert found.skipped == 1
    with pytest.raises(ConfigError, match="hold no request"):
        plan(contexts=[10_000], kv_tokens=5000)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"max_points": 4}, "4 points are too few for 4 values of k; allow at least 8"),
        (
            {"max_points": 9, "contexts": [1, 2]},
            "too few for 4 values of k at 2 contex",
        ),
        ({"ks": []}, "ks must not be empty"),
        ({"max_model_len": 10}, "leaves no context beside 5 drafts"),
        ({"contexts": [40_000]}, "a context must be between 1 and 32756"),
    ],
)
def test_impossible_plans_say_what_would_do(kwargs: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(**kwargs)


def test_the_next_points_close_the_gaps_that_matter(backend: Any) -> None:
    points = [
        (b, 0, k, 7000.0 + 500 * k + 260.0 * b * (k + 1))
        for b in (1, 16, 64)
        for k in (0, 3)
    ]
    tuned = tune_schedule(
        points, [0.7, 0.45, 0.3], max_num_seqs=128, num_speculative_tokens=3
    )
    (_, last, _), *_ = tuned.schedule.to_rows()
    found = next_points(tuned)
    # First the batches nobody measured, then both K around the change.
    assert found[:2] == [(128, 0, 0), (128, 0, 3)]
    assert found[2:] == [(32, 0, 0), (32, 0, 3)]
    assert 16 < last < 64
    assert next_points(tuned, max_points=1) == [(128, 0, 0)]
    settled = tune_schedule(
        points, [0.7, 0.45, 0.3], max_num_seqs=64, num_speculative_tokens=3, min_k=3
    )
    assert next_points(settled) == []
