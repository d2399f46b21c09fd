# SPDX-License-Identifier: Apache-2.0
"""Acceptance estimators: published numbers, censoring, refusals."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from specgrid import Acceptance, ConfigError
from specgrid._acceptance import _wilson

TRUTH = (0.76, 0.54, 0.39, 0.28, 0.21)


def simulated(seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps of a server whose K is 5, 3, 1 or 0 with shares .2 .3 .3 .2."""
    rng = np.random.default_rng(seed)
    rates = np.array(TRUTH) / np.array((1.0, *TRUTH[:-1]))
    drafted = rng.choice([5, 3, 1, 0], steps, p=[0.2, 0.3, 0.3, 0.2])
    passes = rng.random((steps, 5)) < rates
    passes &= np.arange(5) < drafted[:, None]
    return drafted, np.cumprod(passes, axis=1).sum(axis=1)


def per_position(
    drafted: np.ndarray, accepted: np.ndarray
) -> tuple[list[int], list[int]]:
    return (
        [int((drafted >= j).sum()) for j in range(1, 6)],
        [int((accepted >= j).sum()) for j in range(1, 6)],
    )


@pytest.mark.parametrize(
    ("rate", "k", "operations", "speed"),
    [
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_independent_drafts_reproduce_the_leviathan_table(
    rate: float, k: int, operations: float, speed: float
) -> None:
    tokens = Acceptance.independent(rate, k).tokens_per_step(k)
    assert tokens == pytest.approx(speed, abs=0.006)
    assert (k + 1) / tokens == pytest.approx(operations, abs=0.006)
    assert tokens == pytest.approx((1 - rate ** (k + 1)) / (1 - rate))


def test_both_estimators_recover_survival_although_k_varies() -> None:
    drafted, accepted = simulated(5, 200_000)
    estimates = [
        Acceptance.from_steps(drafted, accepted),
        Acceptance.from_positions(*per_position(drafted, accepted)),
    ]
    for estimate in estimates:
        assert estimate.survival == pytest.approx(TRUTH, abs=0.01)
        assert estimate.tokens_per_step(5) == pytest.approx(3.18, abs=0.03)
        low, high = estimate.tokens_interval(5)
        assert low < estimate.tokens_per_step(5) < high
        assert high - low < 0.05
    # What the log prints instead: far too low at deep positions.
    drafts = (drafted > 0).sum()
    printed = [n / drafts for n in per_position(drafted, accepted)[1]]
    assert printed == pytest.approx((0.760, 0.337, 0.243, 0.069, 0.052), abs=0.01)


def test_intervals_contain_the_truth_as_often_as_they_say() -> None:
    inside = [0, 0, 0]
    for seed in range(200):
        drafted, accepted = simulated(seed, 1000)
        steps = Acceptance.from_steps(drafted, accepted)
        positions = Acceptance.from_positions(*per_position(drafted, accepted))
        for i, interval in enumerate(
            (
                steps.tokens_interval(5),
                positions.tokens_interval(5),
                steps.intervals[4],
            )
        ):
            truth = TRUTH[4] if i == 2 else 1 + sum(TRUTH)
            inside[i] += interval.low <= truth <= interval.high
    # 95 % of 200 is 190; 180 would be three standard deviations off.
    assert min(inside) > 180


def test_at_risk_counts_give_the_product_limit_estimate() -> None:
    drafted, accepted = simulated(1, 2000)
    at_risk = [int(((drafted >= j) & (accepted >= j - 1)).sum()) for j in range(1, 6)]
    counts = per_position(drafted, accepted)
    assert Acceptance.from_positions(*counts, at_risk).survival == pytest.approx(
        Acceptance.from_steps(drafted, accepted).survival
    )


def test_k_that_depends_on_the_request_is_pointed_out() -> None:
    rng = random.Random(1)
    drafted, accepted = [], []
    for _ in range(20_000):
        easy = rng.random() < 0.5
        k = 5 if easy == (rng.random() < 0.8) else 1
        passed = 0
        while passed < k and rng.random() < (0.9 if easy else 0.5):
            passed += 1
        drafted.append(k)
        accepted.append(passed)
    (note,) = Acceptance.from_steps(drafted, accepted).notes
    assert "k seems to depend on the request" in note
    assert not Acceptance.from_steps(*simulated(2, 20_000)).notes


def test_counters_are_used_only_while_k_was_constant() -> None:
    made = Acceptance.from_counters(4816, 14448, [3612, 2527, 1782])
    assert made.survival == pytest.approx((0.75, 0.5247, 0.37), abs=1e-3)
    with pytest.raises(ConfigError, match="k varied in this window"):
        Acceptance.from_counters(4816, 12000, [3612, 2527, 1782])
    with pytest.raises(ConfigError, match="k varied"):
        Acceptance.from_counters(100, 300, [80, 60, 40, 20, 10])
    # Constant K below the server's maximum: deeper positions are all zero.
    made = Acceptance.from_counters(100, 200, [80, 60, 0, 0])
    assert made.survival == (0.8, 0.6)
    assert "k is taken as constant 2" in made.notes[0]


def test_positions_nobody_drafted_stay_unknown() -> None:
    made = Acceptance.from_positions([500, 200, 0], [400, 100, 0])
    assert made.survival == (0.8, 0.5)
    assert "survival is unknown from there on" in made.notes[0]
    with pytest.raises(ConfigError, match="k = 3 cannot be judged"):
        made.tokens_per_step(3)


def test_a_rising_estimate_is_lowered_and_said() -> None:
    made = Acceptance.from_positions([1000, 10], [300, 4])
    assert made.survival == (0.3, 0.3)
    assert "estimated above position 1" in made.notes[0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.7, 1.2], "position 2 must be between 0 and 1, not 1.2"),
        ([76.0], "write 0.76 for 76 %"),
        ([-0.1], "must be between 0 and 1"),
        ([math.nan], "must be between 0 and 1"),
        (["high"], "must be between 0 and 1"),
        ([0.5, 0.6], "must not rise"),
    ],
)
def test_impossible_survival_is_refused_by_position(
    values: list[float], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Acceptance.given(values)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ConfigError, match="zero drafts"):
        Acceptance.from_counters(0, 0, [])
    with pytest.raises(ConfigError, match="zero drafts"):
        Acceptance.from_steps([0, 0], [0, 0])
    with pytest.raises(ConfigError, match="step 1: 3 accepted of 2"):
        Acceptance.from_steps([2, 2], [1, 3])
    with pytest.raises(ConfigError, match="describe the same steps"):
        Acceptance.from_steps([2, 2], [1])
    with pytest.raises(ConfigError, match="position 1: 11 accepted of 10"):
        Acceptance.from_positions([10], [11])
    with pytest.raises(ConfigError, match="must not rise with the position"):
        Acceptance.from_positions([10, 20], [5, 4])


def test_an_acceptance_shows_its_values_and_where_they_are_from() -> None:
    assert repr(Acceptance.given([0.75, 0.5])) == "<Acceptance [0.750, 0.500] (given)>"


def test_the_interval_of_a_share_is_wilsons() -> None:
    """30 of 40: 0.598 to 0.858 (Wilson 1927; any table of the interval)."""
    found = _wilson(0.75, 0.75 * 0.25 / 40, 40)
    assert found.low == pytest.approx(0.5981, abs=1e-4)
    assert found.high == pytest.approx(0.8581, abs=1e-4)
