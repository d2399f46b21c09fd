# SPDX-License-Identifier: Apache-2.0
"""Tuning schedules: published tables, synthetic truth, constraints, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from specgrid import (
    Acceptance,
    ConfigError,
    Schedule,
    TunedSchedule,
    compress_schedule,
    tune_schedule,
)

# vLLM #32374, Llama-3.1-8B: inter-token latency in ms by batch and K.
ITL_MS = {
    1: {0: 6.87, 1: 7.97, 3: 9.41, 4: 9.91, 5: 10.8, 7: 12.29},
    4: {0: 6.87, 1: 7.97, 3: 9.41, 4: 9.91, 5: 10.8, 7: 12.29},
    16: {0: 7.3, 1: 8.39, 3: 9.95, 4: 10.8, 5: 11.59, 7: 13.11},
    32: {0: 7.64, 1: 8.97, 3: 10.78, 4: 11.79, 5: 12.81, 7: 14.86},
    64: {0: 8.53, 1: 10.44, 3: 13.16, 4: 15.7, 5: 17.54, 7: 120.57},
}
ITL = [(b, 0, k, 1000 * ms) for b, row in ITL_MS.items() for k, ms in row.items()]
EAGLE = [0.68, 0.39, 0.20, 0.10, 0.06, 0.03, 0.02]
EAGLE3 = [0.76, 0.54, 0.39, 0.28, 0.21, 0.15, 0.12]

# SGLang #22246: tokens/s by draft steps, at these batches.
SGLANG_BATCHES = [1, 2, 4, 8, 16, 32, 64]
QWEN = {
    1: [162, 289, 528, 823, 1268, 2143, 3353],
    2: [188, 332, 568, 903, 1451, 2297, 3693],
    3: [195, 332, 572, 896, 1531, 2352, 3555],
    4: [199, 333, 572, 911, 1537, 2348, 3400],
    5: [199, 331, 569, 905, 1464, 2316, 3222],
    6: [188, 311, 549, 883, 1413, 2239, 3054],
}
GLM = {
    1: [130, 236, 469, 795, 1265, 2090],
    2: [167, 286, 581, 972, 1540, 2497],
    3: [195, 350, 648, 1075, 1766, 2761],
    4: [204, 371, 709, 1113, 1704, 2707],
    5: [210, 377, 724, 1124, 1757, 2780],
}


def tune(
    points: Any, acceptance: Any, n: int = 64, k: int = 7, **kwargs: Any
) -> TunedSchedule:
    return tune_schedule(
        points, acceptance, max_num_seqs=n, num_speculative_tokens=k, **kwargs
    )


# ---- published tables --------------------------------------------------------


@pytest.mark.parametrize(
    ("survival", "best", "gains"),
    [
        (EAGLE, [3, 3, 3, 3, 3], [1.66, 1.66, 1.67, 1.61, 1.47]),
        (EAGLE3, [4, 4, 4, 4, 3], [2.06, 2.06, 2.01, 1.93, 1.74]),
    ],
)
def test_vllm_32374_best_k_and_gain_over_no_speculation(
    backend: Any, survival: list[float], best: list[int], gains: list[float]
) -> None:
    tuned = tune(ITL, survival)
    assert [tuned.cells[b].best_k for b in ITL_MS] == best
    assert [tuned.cells[b].k for b in ITL_MS] == best
    for batch, gain in zip(ITL_MS, gains, strict=True):
        alone = tune(ITL, survival, weights={batch: 1.0})
        assert alone.gains[0].factor == pytest.approx(gain, abs=0.01)
        none_us = 1000 * ITL_MS[batch][0]
        assert none_us / tuned.cells[batch].us_per_token == pytest.approx(
            gain, abs=0.01
        )


def test_vllm_32374_interpolated_k2_overtakes_k3_at_batch_64(backend: Any) -> None:
    # With K = 2 halfway between 1 and 3, EAGLE at batch 64 prefers it, so the
    # thread's break between 64 and 65 does not follow from its visible rows.
    halfway = [(b, 0, 2, 500 * (row[1] + row[3])) for b, row in ITL_MS.items()]
    tuned = tune(ITL + halfway, EAGLE)
    assert tuned.cells[64].best_k == 2
    a = Acceptance.given(EAGLE)
    assert a.tokens_per_step(2) / 11.8 == pytest.approx(0.1754, abs=1e-4)
    assert a.tokens_per_step(3) / 13.16 == pytest.approx(0.1725, abs=1e-4)


def from_throughput(table: dict[int, list[int]]) -> tuple[Any, Acceptance]:
    """Step times that give back the published tokens/s, whatever acceptance."""
    acceptance = Acceptance.given([0.7, 0.5, 0.4, 0.3, 0.2, 0.1])
    points = [
        (b, 0, k, b * acceptance.tokens_per_step(k) / rate * 1e6)
        for k, rates in table.items()
        for b, rate in zip(SGLANG_BATCHES, rates, strict=False)
    ]
    return points, acceptance


@pytest.mark.parametrize(
    ("table", "tolerance", "expected", "worst", "mean"),
    [
        (QWEN, 0.01, [(1, 4), (64, 2)], 0.998, None),
        (QWEN, 0.02, [(1, 4), (64, 2)], 0.998, None),
        (QWEN, 0.03, [(1, 4), (64, 2)], 0.998, None),
        (QWEN, 0.05, [(1, 3)], None, 0.9885),
        (GLM, 0.01, [(1, 5)], 0.995, None),
    ],
)
def test_sglang_22246_compresses_to_few_entries(
    backend: Any,
    table: dict[int, list[int]],
    tolerance: float,
    expected: list[tuple[int, int]],
    worst: float | None,
    mean: float | None,
) -> None:
    points, acceptance = from_throughput(table)
    batches = SGLANG_BATCHES[: len(table[1])]
    tuned = tune(
        points,
        acceptance,
        n=batches[-1],
        k=6,
        tolerance=tolerance,
        weights=dict.fromkeys(batches, 1.0),
    )
    used = [tuned.cells[b].k for b in batches]
    changes = [
        (b, k)
        for i, (b, k) in enumerate(zip(batches, used, strict=True))
        if i == 0 or k != used[i - 1]
    ]
    assert changes == expected
    assert len(tuned.schedule.rows) == len(expected)
    best = [max(column) for column in zip(*table.values(), strict=True)]
    ratios = [table[k][i] / best[i] for i, k in enumerate(used)]
    if worst is not None:
        assert min(ratios) == pytest.approx(worst, abs=5e-4)
        assert tuned.loss.worst == pytest.approx(1 / min(ratios) - 1)
    if mean is not None:
        assert sum(ratios) / len(ratios) == pytest.approx(mean, abs=5e-5)


# ---- synthetic truth ---------------------------------------------------------


def true_us(batch: Any, context: Any, k: Any) -> Any:
    """A dense model on one GPU: weights, KV reads, compute, drafter, overhead."""
    tokens = batch * (k + 1)
    compute = np.maximum(6500.0, 3000.0 + 21.0 * tokens)
    return 800.0 + compute + 0.0021 * batch * context + 520.0 * k


TRUE_SURVIVAL = np.array([0.76, 0.54, 0.39, 0.28, 0.21])
TRUE_TOKENS = np.append(1.0, 1.0 + np.cumsum(TRUE_SURVIVAL))


def measured_survival(rng: np.random.Generator) -> Acceptance:
    rates = TRUE_SURVIVAL / np.append(1.0, TRUE_SURVIVAL[:-1])
    passes = np.cumprod(rng.random((3000, 5)) < rates, axis=1).sum(axis=1)
    return Acceptance.from_steps(np.full(3000, 5), passes)


def true_loss(tuned: TunedSchedule, contexts: list[int]) -> float:
    """Share of time lost against the true optimum, all cells of equal work."""
    n = tuned.max_num_seqs
    batch = np.arange(1, n + 1)[:, None]
    context = np.array(contexts)[None, :]
    ks = np.arange(6)
    cost = (
        true_us(batch[..., None], context[..., None], ks)
        / TRUE_TOKENS
        / batch[..., None]
    )
    lookup = tuned.schedule.lookup(n, 5)
    batches = np.repeat(np.arange(1, n + 1), len(contexts))
    chosen = lookup.gather(batches, np.tile(contexts, n)).reshape(n, len(contexts))
    spent = np.take_along_axis(cost, chosen[..., None].astype(np.int64), axis=2)
    return float(spent.sum() / cost.min(axis=2).sum() - 1)


def noisy(points: list[tuple[int, int, int]], rng: np.random.Generator) -> Any:
    return [
        (b, c, k, float(true_us(b, c, k)) * math.exp(rng.normal(0, 0.02)))
        for b, c, k in points
    ]


def test_sixty_noisy_points_lose_under_two_per_cent_by_batch() -> None:
    points = list(
        itertools.product([1, 4, 16, 32, 48, 64, 96, 128, 192, 256], [2048], range(6))
    )
    assert len(points) == 60
    for seed in range(100):
        rng = np.random.default_rng(seed)
        acceptance = measured_survival(rng)
        tuned = tune(noisy(points, rng), acceptance, n=256, k=5, max_entries=6)
        assert true_loss(tuned, [2048]) < 0.02, seed


def test_sixty_noisy_points_lose_under_two_per_cent_by_batch_and_context() -> None:
    points = list(
        itertools.product([1, 24, 64, 128, 256], [512, 8192, 32768], [0, 1, 3, 5])
    )
    assert len(points) == 60
    # The optimum may use only the measured K, the best that could be found.
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        acceptance = measured_survival(rng)
        tuned = tune(
            noisy(points, rng),
            acceptance,
            n=256,
            k=5,
            max_entries=8,
            contexts=[512, 2048, 8192, 16384, 32768],
        )
        assert true_loss(tuned, [512, 2048, 8192, 16384, 32768]) < 0.02, seed


# ---- what is returned --------------------------------------------------------


def full_mesh(rng: Any, batches: int, contexts: list[int], ks: list[int]) -> Any:
    return [
        (b, c, k, rng.uniform(5000, 6000) * (1 + 0.3 * k))
        for b in range(1, batches + 1)
        for c in contexts
        for k in ks
    ]


def test_without_limits_every_cell_gets_its_best_k(backend: Any) -> None:
    rng = np.random.default_rng(4)
    ks = [0, 1, 3]
    points = full_mesh(rng, 6, [100, 900, 4000], ks)
    tokens = {0: 1.0, 1: 1.7, 3: 2.4}
    tuned = tune(points, [0.7, 0.4, 0.3], n=6, k=3)
    lookup = tuned.schedule.lookup(6, 3)
    for b, c in itertools.product(range(1, 7), [100, 900, 4000]):
        times = {k: us / tokens[k] for bb, cc, k, us in points if (bb, cc) == (b, c)}
        assert lookup[b, c] == min(times, key=times.__getitem__)
        assert tuned.cells[b, c].k == tuned.cells[b, c].best_k == lookup[b, c]
    assert tuned.loss == (0.0, 0.0)
    assert tuned.schedule.context_ranges == ((1, 500), (501, 2450), (2451, 2**31 - 1))


def test_ties_go_to_the_smaller_k(backend: Any) -> None:
    points = [(b, 0, k, 1000.0 * (1 + k)) for b in (1, 8) for k in (0, 1)]
    assert tune(points, [1.0], n=8, k=1).schedule.to_rows() == [[1, 8, 0]]


def test_schedules_and_entries_say_the_same_in_strict_and_band_form(
    backend: Any,
) -> None:
    rng = np.random.default_rng(9)
    for entries in range(1, 9):
        points = full_mesh(rng, 5, [100, 2000, 9000], [0, 1, 3])
        tuned = tune(points, [0.7, 0.4, 0.3], n=5, k=3, max_entries=entries)
        assert len(tuned.entries) <= entries
        assert Schedule(tuned.schedule.to_rows()) == tuned.schedule
        ragged = Schedule(tuned.entries, ragged=True).lookup(5, 3)
        strict = tuned.schedule.lookup(5, 3)
        for b, c in itertools.product(range(1, 6), [0, 1, 1050, 1051, 5500, 10**6]):
            assert ragged[b, c] == strict[b, c]


def test_frontier_loses_less_with_every_entry_and_ends_at_the_optimum(
    backend: Any,
) -> None:
    tuned = tune(ITL, EAGLE3)
    assert [p.entries for p in tuned.frontier] == [1, 2]
    first, last = tuned.frontier
    assert first.schedule.to_rows() == [[1, 64, 4]]
    assert first.loss.weighted == pytest.approx(0.0065, abs=1e-4)
    assert first.loss.worst == pytest.approx(15.7 / 2.97 / (13.16 / 2.69) - 1, abs=1e-3)
    assert last.loss == (0.0, 0.0)
    assert last.schedule == tuned.schedule


def test_loss_and_gains_are_those_of_the_returned_table(backend: Any) -> None:
    rng = np.random.default_rng(11)
    points = full_mesh(rng, 7, [0], [0, 1, 2])
    weights = rng.random(7)
    tuned = tune(points, [0.7, 0.4], n=7, k=2, max_entries=2, weights=weights)
    tokens = [1.0, 1.7, 2.1]
    cost = np.array(
        [[us / tokens[k] / b for k in range(3)] for b in range(1, 8) for us in [0]]
    )
    for b, _, k, us in points:
        cost[b - 1, k] = weights[b - 1] * us / tokens[k] / b
    used = tuned.schedule.lookup(7, 2).tolist()[1:]
    spent = sum(cost[n, k] for n, k in enumerate(used))
    assert tuned.loss.weighted == pytest.approx(spent / cost.min(axis=1).sum() - 1)
    assert tuned.loss.worst == pytest.approx(
        max(cost[n, k] / cost[n].min() for n, k in enumerate(used)) - 1
    )
    for k in range(3):
        gain = tuned.gains[k]
        assert gain.factor == pytest.approx(cost[:, k].sum() / spent)
        assert (gain.low, gain.high) == pytest.approx(
            (0.98 * gain.factor, 1.02 * gain.factor)
        )
        assert gain.share_measured == 1.0


def test_max_entries_in_one_dimension_equals_brute_force(backend: Any) -> None:
    rng = np.random.default_rng(12)
    for _ in range(10):
        points = full_mesh(rng, 5, [0], [0, 1, 2])
        tokens = [1.0, 1.5, 1.8]
        cost = np.zeros((5, 3))
        for b, _, k, us in points:
            cost[b - 1, k] = us / tokens[k] / b
        for entries in (1, 2, 3):
            tuned = tune(points, [0.5, 0.3], n=5, k=2, max_entries=entries)
            best = min(
                sum(cost[n, k] for n, k in enumerate(choice))
                for choice in itertools.product(range(3), repeat=5)
                if 1 + sum(a != b for a, b in itertools.pairwise(choice)) <= entries
            )
            assert tuned.loss.weighted == pytest.approx(
                best / cost.min(axis=1).sum() - 1, abs=1e-9
            )


def test_tolerance_takes_the_fewest_entries_by_brute_force(backend: Any) -> None:
    rng = np.random.default_rng(13)
    for _ in range(15):
        points = full_mesh(rng, 6, [0], [0, 1, 2])
        tokens = [1.0, 1.3, 1.6]
        us = np.zeros((6, 3))
        for b, _, k, step in points:
            us[b - 1, k] = step / tokens[k]
        tuned = tune(points, [0.3, 0.3], n=6, k=2, tolerance=0.04)
        ok = us <= 1.04 * us.min(axis=1, keepdims=True)
        fewest = min(
            1 + sum(a != b for a, b in itertools.pairwise(choice))
            for choice in itertools.product(range(3), repeat=6)
            if all(ok[n, k] for n, k in enumerate(choice))
        )
        assert len(tuned.schedule.rows) == fewest
        assert tuned.loss.worst <= 0.04 + 1e-12


# ---- constraints -------------------------------------------------------------


def crossing(n: int = 64) -> list[tuple[int, int, int, float]]:
    """K = 3 best when narrow, 1 in the middle, 0 when wide."""
    return [
        (b, 0, k, 7000.0 + 500 * k + 260.0 * b * (k + 1))
        for b in (1, n // 4, n // 2, n)
        for k in (0, 1, 3)
    ]


def test_forbidden_k_and_the_floor_are_never_used(backend: Any) -> None:
    survival = [0.7, 0.45, 0.3]
    assert {r[2] for r in tune(crossing(), survival, k=3).schedule.to_rows()} >= {0, 3}
    tuned = tune(crossing(), survival, k=3, forbidden_k=[3])
    assert max(r[2] for r in tuned.schedule.to_rows()) == 1
    tuned = tune(crossing(), survival, k=3, min_k=1)
    assert min(r[2] for r in tuned.schedule.to_rows()) == 1
    with pytest.raises(ConfigError, match="is excluded by min_k = 4"):
        tune(crossing(), survival, k=3, min_k=4)


def test_a_limit_per_token_rules_out_k_that_one_entry_would_use(backend: Any) -> None:
    survival = [0.7, 0.45, 0.3]
    free = tune(crossing(), survival, k=3, max_entries=1)
    slowest = max(cell.us_per_token for cell in free.cells)
    limit = slowest * 0.97
    tuned = tune(crossing(), survival, k=3, max_us_per_token=limit, max_entries=2)
    assert all(cell.us_per_token <= limit for cell in tuned.cells if cell.limit_met)
    tuned = tune(crossing(), survival, k=3, max_us_per_token=1.0)
    assert "64 of 64 cells miss the limit with every k" in tuned.notes


def test_monotone_schedules_never_raise_k_with_the_batch(backend: Any) -> None:
    rng = np.random.default_rng(14)
    for contexts in ([0], [100, 900]):
        points = full_mesh(rng, 6, contexts, [0, 1, 3])
        for extra in ({}, {"max_entries": 4}):
            tuned = tune(points, [0.7, 0.4, 0.3], n=6, k=3, monotone=True, **extra)
            table = tuned.cells.k
            assert (table[1:] <= table[:-1]).all()


def test_capture_cliffs_and_padding_are_charged(backend: Any) -> None:
    # One K = 3 graph of 16 tokens: batch 3 pays for 4 requests, 5 runs eager.
    points = [(b, 0, k, 1000.0 * b * (k + 1)) for b in (1, 8) for k in (0, 3)]
    tuned = tune(points, [0.9] * 3, n=8, k=3, captures=[16], eager_us=9000.0)
    a = 3.7
    assert tuned.cells[1].us_per_token == pytest.approx(min(8000.0, 16000 / a))
    static = tune(points, [0.9] * 3, n=8, k=3, captures=[16], eager_us=9000.0, min_k=3)
    assert static.cells[3].us_per_token == pytest.approx(16000 / a)
    assert static.cells[5].us_per_token == pytest.approx((20000 + 9000) / a)
    # K = 0 at batch 8: 16 tokens round to 16 requests, more than fit; PIECEWISE.
    both = tune(
        points,
        [0.9] * 3,
        n=8,
        k=3,
        captures=[4, 16],
        eager_us=9e4,
        piecewise_us=500.0,
        forbidden_k=[3],
    )
    assert both.cells[3].us_per_token == pytest.approx(4000)
    assert math.isnan(both.cells[8].us_per_token)  # 16 requests were not measured


# ---- what was not measured ---------------------------------------------------


def test_cells_outside_the_mesh_are_flagged_and_take_the_nearest_k(
    backend: Any,
) -> None:
    points = [p for p in crossing() if p[0] <= 32]
    tuned = tune(points, [0.7, 0.45, 0.3], k=3)
    assert not tuned.cells[33].measured
    assert math.isnan(tuned.cells[33].us_per_token)
    assert tuned.cells[33].k == tuned.cells[32].k
    assert tuned.schedule.batch_ranges[-1][1] == 64
    assert any(
        "32 of 64 cells were not measured (batches 33-64)" in n for n in tuned.notes
    )


def test_k_is_not_used_where_it_was_not_measured(backend: Any) -> None:
    points = [p for p in crossing() if p[2] != 0 or p[0] <= 32]
    tuned = tune(points, [0.7, 0.45, 0.3], k=3)
    assert tuned.cells[64].k != 0
    assert not tuned.cells[64].all_k_measured
    assert any("some of k = 0, 1, 3 was not measured" in note for note in tuned.notes)
    with pytest.raises(ConfigError, match="at least 2 entries are needed"):
        tune(
            [(1, 0, 0, 1000.0), (4, 0, 0, 1100.0), (5, 0, 1, 900.0), (8, 0, 1, 900.0)],
            [0.5],
            n=8,
            k=1,
            max_entries=1,
        )


def test_choices_within_noise_are_flagged(backend: Any) -> None:
    tuned = tune(ITL, EAGLE3)
    flagged = [cell.batch for cell in tuned.cells if cell.within_noise]
    assert 35 in flagged  # where 4 and 3 cross
    assert 64 not in flagged  # 8 % apart
    wide = tune(ITL, EAGLE3, noise=0.10)
    assert sum(c.within_noise for c in wide.cells) > len(flagged)


def test_uncertain_acceptance_widens_the_gain_and_flags_cells(backend: Any) -> None:
    few = Acceptance.from_positions([120, 120, 120], [90, 60, 45])
    tuned = tune(crossing(), few, k=3)
    exact = tune(crossing(), few.survival, k=3)
    assert tuned.schedule == exact.schedule
    width = tuned.gains[0].high - tuned.gains[0].low
    assert width > exact.gains[0].high - exact.gains[0].low
    assert sum(c.within_noise for c in tuned.cells) > sum(
        c.within_noise for c in exact.cells
    )


class Bucket:
    """A context range of acceptance, as readers return them."""

    def __init__(self, lo: int, hi: int, survival: list[float]) -> None:
        self.context_lo, self.context_hi = lo, hi
        self.acceptance = Acceptance.given(survival)


def test_acceptance_may_differ_by_context(backend: Any) -> None:
    points = [
        (b, c, k, 7000.0 + 1500 * k)
        for b in (1, 4)
        for c in (100, 9000)
        for k in (0, 3)
    ]
    buckets = [Bucket(0, 999, [0.9, 0.8, 0.7]), Bucket(1000, 20000, [0.2, 0.1, 0.0])]
    tuned = tune(points, buckets, n=4, k=3)
    assert (tuned.cells[1, 100].k, tuned.cells[1, 9000].k) == (3, 0)
    tuned = tune(points, buckets[:1], n=4, k=3)
    assert tuned.cells[1, 9000].k == 3
    assert any(
        "acceptance was not measured at contexts [9000]" in n for n in tuned.notes
    )


class Counts:
    """Draft counts of a reader (`specgrid.io.AcceptanceCounts`)."""

    def __init__(self, drafts: int, accepted: list[int]) -> None:
        self.drafted, self.accepted = [drafts] * len(accepted), accepted
        self.at_risk, self.approximate = None, False


class Part:
    """Counts of a context range (`specgrid.io.ContextAcceptance`)."""

    def __init__(self, lo: int, hi: int, counts: Counts) -> None:
        self.context_lo, self.context_hi, self.counts = lo, hi, counts


def test_what_the_acceptance_reader_returns_is_taken_whole(backend: Any) -> None:
    points = [
        (b, c, k, 7000.0 + 1500 * k)
        for b in (1, 4)
        for c in (100, 9000, 40_000)
        for k in (0, 3)
    ]
    parts = [
        Part(0, 999, Counts(5000, [4500, 4000, 3500])),
        Part(1000, 19_999, Counts(5000, [1000, 500, 0])),
        Part(20_000, 2**31 - 1, Counts(50, [10, 5, 0])),
    ]
    overall = Counts(10_050, [8510, 7505, 6500])
    tuned = tune(points, (overall, parts), n=4, k=3)
    assert [tuned.cells[1, c].k for c in (100, 9000, 40_000)] == [3, 0, 3]
    assert any("contexts 20000- have too few drafts" in note for note in tuned.notes)
    assert len(tune(points, (overall, []), n=4, k=3).acceptance) == 1


# ---- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ((1, 0, 3), r"point 2 must be \(batch, context, k, step_us\)"),
        ((0, 0, 3, 9000.0), "batch must be a whole number of at least 1"),
        ((2.5, 0, 3, 9000.0), "batch must be a whole number"),
        ((2, -1, 3, 9000.0), "context must be a whole number of at least 0"),
        ((2, 0, None, 9000.0), "k must be a whole number"),
        ((2, 0, True, 9000.0), "k must be a whole number"),
        ((2, 0, 1, math.nan), "must be a time above 0 in microseconds, not nan"),
        ((2, 0, 1, math.inf), "must be a time above 0"),
        ((2, 0, 1, 0.0), "must be a time above 0"),
        ((2, 0, 1, "fast"), "must be a time above 0"),
    ],
)
def test_a_wrong_point_is_refused_by_its_place(point: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tune([(1, 0, 0, 7000.0), (4, 0, 0, 7100.0), point], [0.5] * 3, k=3)


def test_contradictory_repeats_are_refused_and_agreeing_ones_noted() -> None:
    points = crossing()
    with pytest.raises(ConfigError, match="points 0 and 12 contradict: batch 1"):
        tune([*points, (1, 0, 0, 14000.0)], [0.5] * 3, k=3)
    tuned = tune([*points, (1, 0, 0, points[0][3] * 1.03)], [0.5] * 3, k=3)
    assert any("1 points were measured more than once" in note for note in tuned.notes)


def test_mixed_units_are_refused_and_milliseconds_flagged() -> None:
    points = [(b, c, k, us / 1000 if k == 1 else us) for b, c, k, us in crossing()]
    with pytest.raises(ConfigError, match="seem to be in different units"):
        tune(points, [0.5] * 3, k=3)
    points = [(b, c, k, us / 1000) for b, c, k, us in crossing()]
    tuned = tune(points, [0.5] * 3, k=3)
    assert any("are the times milliseconds?" in note for note in tuned.notes)
    points = [
        (b, c, k, us / 1000 if (b, k) == (16, 1) else us) for b, c, k, us in crossing()
    ]
    tuned = tune(points, [0.5] * 3, k=3)
    assert any(
        "batch 16, context 0, k 1" in n and "another unit" in n for n in tuned.notes
    )


def test_missing_and_surplus_k_are_named() -> None:
    tuned = tune(ITL, EAGLE3, k=5)
    assert any(n.startswith("k = 2 was not measured") for n in tuned.notes)
    assert any("5 points of k = 7 are above" in n for n in tuned.notes)
    tuned = tune([p for p in ITL if p[2] != 0], EAGLE3)
    assert any("gain over no speculation is unknown" in n for n in tuned.notes)
    assert 0 not in tuned.gains
    with pytest.raises(ConfigError, match="acceptance has 2 values, so k = 3"):
        tune(ITL, [0.5, 0.4])


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"weights": {(99, 0): 1.0}}, "batch 99 must be between 1 and max_num_seqs"),
        ({"weights": {1: -1.0}}, "weights: batch 1, context 0 has -1.0"),
        ({"weights": {1: math.nan}}, "has nan"),
        ({"weights": {1: "much"}}, "weights must be numbers"),
        ({"weights": [1.0, 2.0]}, "64 x 1, not 2 x 1"),
        ({"weights": {1: 0.0}}, "weights are all 0"),
        ({"max_entries": 0}, "max_entries must be between 1 and 256"),
        ({"tolerance": 5}, "tolerance must be a share"),
        ({"tolerance": math.nan}, "tolerance must be a share"),
        ({"noise": -0.1}, "noise must be a share"),
        ({"max_us_per_token": 0.0}, "max_us_per_token must be"),
        ({"eager_us": -1.0}, "eager_us must be"),
        ({"contexts": [-5]}, "a context must be a whole number"),
        ({"contexts": []}, "contexts must not be empty"),
        ({"contexts": [100_000]}, "no cell of the grid lies inside"),
        ({"captures": [0]}, "a capture size must be between 1"),
        ({"tolerance": 0.0, "max_entries": 1}, "needs 3 entries, more than max_ent"),
    ],
)
def test_wrong_settings_are_refused(kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tune(crossing(), [0.7, 0.45, 0.3], k=3, **kwargs)


@pytest.mark.parametrize("acceptance", ["0.7", {"a": 1}, 0.7, None])
def test_acceptance_of_another_kind_is_refused(acceptance: Any) -> None:
    with pytest.raises(ConfigError, match="acceptance must be survival values"):
        tune(crossing(), acceptance, k=3)


def test_no_points_are_refused() -> None:
    with pytest.raises(ConfigError, match="no latency points"):
        tune([], [0.5], k=1)
    with pytest.raises(ConfigError, match="no latency points"):
        tune([(1, 0, 3, 100.0)], [0.5], k=1)


# ---- settings to paste -------------------------------------------------------


def test_settings_to_paste(backend: Any) -> None:
    tuned = tune(ITL, EAGLE3)
    assert tuned.speculative_config() == {
        "num_speculative_tokens": 7,
        "num_speculative_tokens_per_batch_size": [[1, 34, 4], [35, 64, 3]],
    }
    points = [
        (b, c, k, 7000.0 + c * b * 0.01 + 1500 * k * (c < 500))
        for b in (1, 8)
        for c in (100, 9000)
        for k in (0, 1)
    ]
    flat = tune(points, [0.1], n=8, k=1)
    assert flat.schedule.is_2d
    assert flat.plugin_config() == {"specgrid": {"schedule": flat.schedule.to_rows()}}
    with pytest.raises(ConfigError, match="depends on context"):
        flat.speculative_config()


# ---- lossless compression ----------------------------------------------------


def test_compression_keeps_every_k_and_no_row_could_go(backend: Any) -> None:
    rng = np.random.default_rng(21)
    for _ in range(20):
        batches = np.cumsum(rng.integers(1, 4, 6))
        contexts = np.cumsum(rng.integers(1, 400, 4))
        table = rng.integers(0, 2, (5, 3))
        rows = [
            (int(lo), int(hi) - 1, int(c_lo), int(c_hi) - 1, int(table[i, j]))
            for i, (lo, hi) in enumerate(itertools.pairwise(batches - batches[0] + 1))
            for j, (c_lo, c_hi) in enumerate(
                itertools.pairwise(contexts - contexts[0] + 1)
            )
        ]
        schedule = Schedule(rows)
        small = compress_schedule(schedule)
        before, after = schedule.lookup(40, 1), small.lookup(40, 1)
        assert after.digest == before.digest
        for b in range(1, 41):
            for c in (0, *contexts.tolist()):
                assert before[b, c] == after[b, c]
        tables = [
            [k for *_, k in small.rows if True][i :: len(small.context_ranges)]
            for i in range(len(small.context_ranges))
        ]
        assert all(a != b for a, b in itertools.pairwise(tables))


def test_gaps_between_batch_ranges_stay_carried_forward() -> None:
    schedule = Schedule([(1, 16, 3), (32, 128, 3), (256, 2048, 0)])
    assert compress_schedule(schedule).to_rows() == [[1, 128, 3], [256, 2048, 0]]


def test_a_million_row_dense_schedule_compresses() -> None:
    batch, context = np.meshgrid(np.arange(1000), np.arange(1000), indexing="ij")
    rows = np.empty((1_000_000, 5), dtype=np.int64)
    rows[:, 0] = rows[:, 1] = batch.ravel() + 1
    rows[:, 2] = context.ravel() * 64 + 1
    rows[:, 3] = context.ravel() * 64 + 64
    rows[:, 4] = np.clip(3 - batch // 300 + context // 500, 0, 4).ravel()
    small = compress_schedule(Schedule(rows))
    assert len(small.rows) == 4 * 2
    assert small.lookup(1000, 4)[301, 32001] == 3
