# SPDX-License-Identifier: Apache-2.0
"""The real V1 scheduler chooses K by batch, and by batch and context."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from cases import calls

from specgrid import Schedule

ONE_D = [[1, 2, 4], [3, 8, 2], [9, 64, 0]]
TWO_D = [
    [1, 4, 1, 24, 4],
    [1, 4, 25, 4096, 1],
    [5, 64, 1, 24, 2],
    [5, 64, 25, 4096, 0],
]


def make(sim: Any, model: str, *, asynchronous: bool = False, **settings: Any) -> Any:
    schedule = settings.pop("vllm_rows", None)
    config = sim.make_config(
        model,
        max_num_seqs=16,
        v2=asynchronous,
        speculative_config=sim.ngram(4, schedule),
        additional_config={"specgrid": settings} if settings else {},
        async_scheduling=asynchronous,
    )
    return sim.make_scheduler(config, asynchronous=asynchronous)


def drive(
    sim: Any, scheduler: Any, prompts: list[int], outputs: list[int]
) -> list[tuple[list[tuple[int, int]], int]]:
    """Per step: (computed, prompt) of every scheduled request, and the K asked for."""
    for i, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        sim.add_request(scheduler, f"r{i}", prompt, output)
    steps = []
    while True:
        # Requests before their tokens are counted: read inside the step.
        before = {r: q.num_computed_tokens for r, q in scheduler.requests.items()}
        output = scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        if not names:
            return steps
        requests = [
            (before[name], scheduler.requests[name].num_prompt_tokens) for name in names
        ]
        steps.append((requests, output.num_spec_tokens_to_schedule))
        sim.finish_step(scheduler, output)


def aggregate(requests: list[tuple[int, int]], how: str) -> int:
    """The context of a batch as the rule of vLLM #48944 words it."""
    pool = [c for c, p in requests if c >= p] or [c for c, _ in requests]
    if how == "mean":
        return sum(pool) // len(pool)
    return max(pool) if how == "max" else sorted(pool)[len(pool) // 2]


def test_k_follows_the_batch_as_without_the_plugin(
    plugin: Any, sim: Any, model: str
) -> None:
    runs = []
    for undone in (False, True):
        if undone:
            plugin.undo()
        scheduler = make(sim, model, vllm_rows=ONE_D)
        runs.append(drive(sim, scheduler, [8] * 12, list(range(2, 14))))
    assert runs[0] == runs[1]
    assert {len(requests): k for requests, k in runs[0]} == {
        n: k for n in range(1, 13) for lo, hi, k in ONE_D if lo <= n <= hi
    }


@pytest.mark.parametrize("how", ["mean", "median", "max"])
def test_k_follows_batch_and_context(
    plugin: Any, sim: Any, model: str, how: str
) -> None:
    scheduler = make(sim, model, schedule=TWO_D, context_aggregate=how)
    prompts, outputs = [4, 40, 9, 6, 30, 12, 5], [60, 3, 52, 60, 2, 44, 39]
    steps = drive(sim, scheduler, prompts, outputs)
    steps += drive(sim, scheduler, [4, 9], [6, 7])
    lookup = Schedule(TWO_D).lookup(16, 4)
    expected = [lookup[len(reqs), aggregate(reqs, how)] for reqs, _ in steps]
    assert [k for _, k in steps] == expected
    assert set(expected) == {0, 1, 2, 4}  # every cell was visited


def test_fresh_prefills_do_not_drag_the_context_down(
    plugin: Any, sim: Any, model: str
) -> None:
    """vLLM #48944: only requests past their prompt count where there is one."""
    scheduler = make(sim, model, schedule=TWO_D)
    sim.add_request(scheduler, "long", 60, 20)
    for _ in range(3):
        sim.finish_step(scheduler, scheduler.schedule())
    sim.add_request(scheduler, "fresh", 8, 20)
    output = scheduler.schedule()
    assert len(output.num_scheduled_tokens) == 2
    assert output.num_spec_tokens_to_schedule == 1  # the long column; mean is below 25


def test_only_prefills_count_all_requests(plugin: Any, sim: Any, model: str) -> None:
    scheduler = make(sim, model, schedule=TWO_D)
    sim.add_request(scheduler, "a", 60, 4)
    assert scheduler.schedule().num_spec_tokens_to_schedule == 4  # context 0


def test_equal_columns_are_the_batch_schedule(
    plugin: Any, sim: Any, model: str
) -> None:
    rows = [[lo, hi, c, d, k] for lo, hi, k in ONE_D for c, d in ((1, 20), (21, 99))]
    two_d = make(sim, model, schedule=rows)
    one_d = make(sim, model, vllm_rows=ONE_D)
    assert two_d.dynamic_sd_lookup == one_d.dynamic_sd_lookup
    arguments = [8] * 12, list(range(2, 14))
    assert drive(sim, two_d, *arguments) == drive(sim, one_d, *arguments)


def test_async_scheduling_places_as_many_drafts(
    plugin: Any, sim: Any, model: str
) -> None:
    """Its placeholders are laid after the step is chosen and must follow K."""
    scheduler = make(sim, model, asynchronous=True, schedule=TWO_D)
    sim.add_request(scheduler, "a", 40, 8)
    output = scheduler.schedule()
    assert output.num_spec_tokens_to_schedule == 4
    assert scheduler.requests["a"].spec_token_ids == [-1] * 4
    sim.finish_step(scheduler, output)
    output = scheduler.schedule()
    assert output.num_spec_tokens_to_schedule == 1
    assert scheduler.requests["a"].spec_token_ids == [-1]


def test_rows_in_vllms_own_field_are_accepted(
    plugin: Any, sim: Any, model: str
) -> None:
    scheduler = make(sim, model, vllm_rows=TWO_D)
    config = scheduler.vllm_config
    assert config.additional_config["specgrid"]["schedule"] == TWO_D
    steps = drive(sim, scheduler, [4, 40], [30, 9])
    assert {k for _, k in steps} == {1, 4}


def test_ragged_rows_over_a_static_k(plugin: Any, sim: Any, model: str) -> None:
    """3-item and 5-item rows mixed; vLLM is told of the largest K per batch."""
    ragged = [[1, 4, 0, 24, 4], [1, 4, 25, 9999, 1], [5, 64, 2]]
    scheduler = make(sim, model, schedule=ragged)
    assert scheduler.dynamic_sd_lookup == [0, 4, 4, 4, 4] + [2] * 12
    steps = drive(sim, scheduler, [4] * 6, [40, 2, 2, 2, 2, 2])
    assert {(len(reqs), k) for reqs, k in steps} == {(6, 2), (1, 4), (1, 1)}


@pytest.mark.parametrize(
    "bad",
    [
        [[1, 4, 1, 24, 4]],
        [[2, 9, 3]],
        [[1, 4, -1]],
        [[1, 4, 1.5]],
        "rows",
        [],
    ],
)
def test_a_bad_schedule_is_named_and_vllm_runs_its_own(
    plugin: Any, sim: Any, model: str, log: list[str], bad: Any
) -> None:
    scheduler = make(sim, model, schedule=bad, vllm_rows=ONE_D)
    steps = drive(sim, scheduler, [8] * 3, [3, 4, 5])
    gaps_only = bad == [[1, 4, 1, 24, 4]]  # one row is a whole (tiny) schedule
    assert any(k for _, k in steps)
    if not gaps_only:
        assert [k for _, k in steps] == [
            {1: 4, 2: 4, 3: 2}[len(reqs)] for reqs, _ in steps
        ]
        assert any(
            line.startswith(("WARNING", "ERROR")) and "schedule" in line for line in log
        )


def test_a_schedule_without_speculative_decoding_is_named(
    plugin: Any, sim: Any, model: str, log: list[str]
) -> None:
    sim.make_config(model, additional_config={"specgrid": {"schedule": TWO_D}})
    assert any("speculative decoding is off" in line for line in log)


def test_counters_hold_every_step(plugin: Any, sim: Any, model: str) -> None:
    from specgrid.vllm_plugin import _counters

    scheduler = make(sim, model, schedule=TWO_D)
    steps = drive(sim, scheduler, [4, 40, 9, 6, 30], [30, 9, 22, 40, 4])
    counted = list(scheduler._specgrid_steps.counters.counts())
    expected: dict[tuple[int, int], int] = {}
    for requests, k in steps:
        key = (len(requests), k)
        expected[key] = expected.get(key, 0) + 1
    found: dict[tuple[int, int], int] = {}
    for kind, (num_reqs, _, k), count in counted:
        if kind == _counters.DRAFT:
            found[num_reqs, k] = found.get((num_reqs, k), 0) + count
    assert found == expected
    changes = sum(a != b for (_, a), (_, b) in itertools.pairwise(steps))
    assert changes == sum(c.total for c in counted if c.kind == _counters.TRANSITION)


def test_data_parallel_switches_the_schedule_off_as_vllm_does(
    plugin: Any, sim: Any, model: str
) -> None:
    """vLLM #45963: ranks that choose differently would deadlock."""
    config = sim.make_config(
        model,
        max_num_seqs=16,
        v2=False,
        speculative_config=sim.ngram(4),
        additional_config={"specgrid": {"schedule": TWO_D}},
        data_parallel_size=2,
        data_parallel_size_local=2,
    )
    assert config.speculative_config.num_speculative_tokens_per_batch_size is None


def test_an_exception_in_the_step_leaves_vllms_k(
    plugin: Any, sim: Any, model: str, log: list[str]
) -> None:
    scheduler = make(sim, model, schedule=TWO_D)
    sim.add_request(scheduler, "a", 40, 8)
    scheduler._specgrid_steps = object()
    assert scheduler.schedule().num_spec_tokens_to_schedule == 4
    assert any("scheduler raised" in line for line in log)
    assert calls(plugin, "scheduler") > 0
