# SPDX-License-Identifier: Apache-2.0
"""What a schedule may be tuned from, in every form, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specgrid import ConfigError, GraphSet, tune_schedule
from specgrid._acceptance import Acceptance
from specgrid.io import read_acceptance, read_latency

DATA = Path(__file__).parent / "data" / "vllm-0.33.0"
RATES = [0.7, 0.45, 0.3]


def step_us(batch: int, context: int, k: int) -> float:
    return 7000 + 260 * batch * (k + 1) + 0.05 * batch * context


def points(*contexts: int) -> list[tuple[int, int, int, float]]:
    return [
        (b, c, k, step_us(b, c, k))
        for b in (1, 4, 8)
        for c in contexts or (100,)
        for k in (0, 1, 3)
    ]


def tune(latency: Any = None, acceptance: Any = None, **more: Any) -> Any:
    return tune_schedule(
        points() if latency is None else latency,
        RATES if acceptance is None else acceptance,
        max_num_seqs=8,
        num_speculative_tokens=3,
        **more,
    )


def test_acceptance_of_a_reader_whole_or_by_context_is_taken() -> None:
    counts, _ = read_acceptance(DATA / "requests.jsonl")
    alone = tune(acceptance=counts)
    assert [b.context_lo for b in alone.acceptance] == [0]
    assert alone.acceptance[0].acceptance.survival == (
        Acceptance.from_counts(counts).survival
    )
    parts = [
        SimpleNamespace(context_lo=1000, context_hi=2**31 - 1, counts=counts),
        SimpleNamespace(
            context_lo=0, context_hi=999, acceptance=Acceptance.given(RATES)
        ),
    ]
    found = tune(points(100, 5000), parts)
    assert [(b.context_lo, b.context_hi) for b in found.acceptance] == [
        (0, 999),
        (1000, 2**31 - 1),
    ]
    assert found.acceptance[0].acceptance.survival == tuple(RATES)


def test_a_range_without_drafts_takes_the_whole_s_acceptance() -> None:
    counts, _ = read_acceptance(DATA / "requests.jsonl")
    none = SimpleNamespace(
        drafted=(0, 0, 0), accepted=(0, 0, 0), at_risk=None, num_drafts=0,
        constant_k=3, approximate=False, source="x", report=counts.report,
    )  # fmt: skip
    part = SimpleNamespace(context_lo=0, context_hi=999, counts=none)
    found = tune(acceptance=(counts, [part]))
    assert found.acceptance[0].acceptance.survival == (
        Acceptance.from_counts(counts).survival
    )
    assert any(n.startswith("contexts 0-999 have too few drafts") for n in found.notes)


def test_captures_may_be_sizes_or_a_graph_set() -> None:
    graphs = GraphSet([1, 2, 4, 8, 16], max_num_seqs=8, num_speculative_tokens=3)
    by_sizes = tune(captures=[1, 2, 4, 8, 16], max_entries=3)
    by_graphs = tune(captures=graphs, max_entries=3)
    assert by_graphs.cells.k.shape == by_sizes.cells.k.shape == (8, 1)
    # Beyond the last graph a batch runs eager, which costs more than a FULL graph.
    for found in (by_sizes, by_graphs):
        us = found.cells.us_per_token[:, 0]
        assert us[7] * 8 > us[0]
    assert by_graphs.cells.us_per_token[7, 0] > 0


def test_a_cell_is_asked_for_by_batch_and_context() -> None:
    flat = tune(max_entries=2).cells
    assert len(flat) == len(list(flat)) == 8
    assert flat[3].batch == flat[3, 10**6].batch == 3
    wide = tune(points(100, 5000), max_entries=2).cells
    assert [c.context for c in wide][:2] == [100, 5000]
    assert wide[2, 0].context == 100
    assert wide[2, 2**31 - 1].context == 5000
    for where, message in (
        (9, "batch 9 is outside 1..8"),
        ((0, 5), "batch 0 is outside 1..8"),
        (3, r"cells of a 2-D schedule need \[batch, context\]"),
        ((3, -1), "context -1 is outside 0..2147483647"),
        ((3, 2**31), "context 2147483648 is outside 0..2147483647"),
    ):
        with pytest.raises(IndexError, match=message):
            wide[where]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({9: 1.0}, "weights: batch 9 must be between 1 and max_num_seqs = 8"),
        ({"x": 1.0}, "weights: batch 'x' must be between 1 and max_num_seqs = 8"),
        (
            {(1, 7): 1.0, (2, 100): 1.0},
            "contexts",
        ),
        ({1: "much"}, "weights must be numbers, not 'much' for 1"),
        ({1: None}, "weights must be numbers, not None for 1"),
        (
            [["a"]],
            "weights must be numbers: a mapping, or one per batch and context",
        ),
        (
            [1.0, 2.0],
            "weights must have one value per batch and context column, 8 x 1, not 2 x "
            "1",
        ),
        (
            [0.0] * 7 + [math.nan],
            "weights: batch 8, context 100 has nan; weights are emitted tokens, 0 or "
            "more",
        ),
        ([0.0] * 8, "weights are all 0; give emitted tokens per cell, or None"),
    ],
)
def test_weights_that_weigh_nothing_are_refused(weights: Any, message: str) -> None:
    if message == "contexts":
        # By context, the weights' own contexts are the columns.
        assert tune(weights=weights).cells.contexts == (7, 100)
        return
    with pytest.raises(ConfigError) as caught:
        tune(weights=weights)
    assert str(caught.value) == message


def test_weights_by_context_need_a_column_of_theirs() -> None:
    with pytest.raises(ConfigError) as caught:
        tune(points(100, 5000), weights={1: 2.0})
    assert str(caught.value) == (
        "weights: 1 names no context column; the columns are [100, 5000]"
    )
    table = np.ones((8, 2))
    assert tune(points(100, 5000), weights=table, max_entries=1).cells is not None


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ([-1], "a context must be a whole number of tokens of at least 0, not -1"),
        (["x"], "a context must be a whole number of tokens of at least 0, not 'x'"),
        ([], "contexts must not be empty; leave it out for the measured"),
        (
            [0, 1, 2],
            "contexts 0 and 1 are too close to make two ranges; drop one of them",
        ),
    ],
)
def test_contexts_that_are_no_columns_are_refused(contexts: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tune(contexts=contexts)
    assert str(caught.value) == message


@pytest.mark.parametrize("given", ["0.7", {1: 0.7}, 0.7])
def test_what_is_no_acceptance_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^acceptance must be survival values such"):
        tune(acceptance=given)


def test_scattered_samples_and_a_missing_drafter_are_said() -> None:
    data = read_latency(DATA / "forward-k3.json")
    noisy = SimpleNamespace(
        scope="target_only", spread=(0.2, 0.3, math.nan), report=data.report
    )
    points_of = points()
    noisy = type("Data", (list,), dict(noisy.__dict__))(points_of)
    found = tune(noisy, max_entries=2)
    assert any("half of the points vary by more than 30.0%" in n for n in found.notes)
    assert any("the times leave the drafter out" in n for n in found.notes)


def test_a_table_of_too_many_cells_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"2097152 batches x 1,?0*\d* contexts are"):
        tune_schedule(
            points(), RATES, max_num_seqs=1 << 21, num_speculative_tokens=3,
            contexts=range(10, 1010),
        )  # fmt: skip
