# SPDX-License-Identifier: Apache-2.0
"""Budgets, promises, what-if questions, files, and every way to go wrong."""

from __future__ import annotations

import json
import math
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from specgrid import (
    Budget,
    CapturePlan,
    ConfigError,
    Costs,
    Drafter,
    DraftGraphs,
    GraphSet,
    ScheduleError,
    Workload,
    evaluate_captures,
    plan_captures,
)
from tests.plan_cases import SIZED

SERVER: dict[str, Any] = {
    "schedule": [[1, 4, 3], [5, 6, 1], [7, 8, 0]],
    "max_num_seqs": 8,
    "num_speculative_tokens": 3,
}
LOAD = Workload({(4, 2): 5, (4, 4): 3, (2, 6): 2, (1, 8): 1}, {11: 1})
COSTS = Costs.linear(
    6000, 60, 2500, 8000, graph_bytes=1 << 20, pool_bytes=8 << 20, graph_seconds=0.1
)


def plan(budget: Budget | None = None, **more: Any) -> CapturePlan:
    arguments = {"workload": LOAD, "costs": COSTS, **SERVER, **more}
    return plan_captures(budget=budget, **arguments)


# ---- what counts against a budget ------------------------------------------------


def test_lora_cases_multiply_the_target_graphs(backend: Any) -> None:
    one = plan(Budget(graphs=12))
    three = plan(Budget(graphs=36), lora_cases=(0, 1, 4))
    assert three.sizes == one.sizes
    assert three.value.num_graphs == 3 * one.value.num_graphs
    graphs = GraphSet(three.sizes, **SERVER, lora_cases=(0, 1, 4))
    assert three.value.num_graphs == graphs.num_graphs


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", ["autoregressive", "multi-module-mtp", "dflash"])
@pytest.mark.parametrize("mode", ["FULL_AND_PIECEWISE", "FULL_DECODE_ONLY"])
@pytest.mark.parametrize("rows", [None, [[1, 3, 3], [4, 6, 2], [7, 8, 0]]])
def test_drafter_graphs_are_counted_as_vllm_captures_them(
    backend: Any, rows: Any, mode: str, kind: Any, fused: bool
) -> None:
    """LoRA cases multiply the target's graphs and not the drafter's."""
    server: dict[str, Any] = {**SERVER, "schedule": rows}
    load = Workload({(4, 2): 3, (4, 3): 1})
    more: dict[str, Any] = {
        "mode": mode,
        "lora_cases": (0, 1, 2),
        "drafter": Drafter(kind, fused),
    }
    value = evaluate_captures([3, 8, 16], load, COSTS, **server, **more)
    target = GraphSet([3, 8, 16], **server, mode=mode, lora_cases=(0, 1, 2))
    drafts = DraftGraphs([3, 8, 16], **server, mode=mode, kind=kind, fused_decode=fused)
    assert value.num_graphs == target.num_graphs + drafts.num_graphs
    found = plan_captures(load, COSTS, **server, **more, budget=Budget(graphs=200))
    assert found.value == evaluate_captures(found.sizes, load, COSTS, **server, **more)


def test_a_static_k_of_one_drafts_no_later_positions(backend: Any) -> None:
    server = {"max_num_seqs": 4, "num_speculative_tokens": 1}
    load = Workload({(2, 4): 1})
    with_drafter = evaluate_captures([8], load, COSTS, **server, drafter=Drafter())
    assert with_drafter.num_graphs == 4


def test_equal_prices_make_bytes_and_seconds_a_number_of_graphs(backend: Any) -> None:
    by_count = plan(Budget(graphs=12))
    for budget in (
        Budget(bytes=(8 + 12) << 20),
        Budget(seconds=1.25),
        Budget(graphs=50, bytes=((8 + 13) << 20) - 1, seconds=9),
    ):
        found = plan(budget)
        assert found.sizes == by_count.sizes
        assert found.optimal
    assert by_count.value.graph_bytes == (8 + by_count.value.num_graphs) << 20


def test_a_pool_by_largest_size_limits_the_largest_size(backend: Any) -> None:
    """Under full coverage 16 must be captured; without it, a smaller pool wins."""
    costs = Costs.linear(
        6000, 60, 2500, 8000, graph_bytes=1.0, pool_bytes=lambda t: 100.0 * t
    )
    found = plan(Budget(bytes=1300, full_coverage=False), costs=costs)
    assert found.sizes
    assert found.sizes[-1] <= 12
    assert found.value.graph_bytes <= 1300
    with pytest.raises(ConfigError, match="too small"):
        plan(Budget(bytes=1300), costs=costs)


def test_running_out_of_labels_states_a_gap(backend: Any) -> None:
    load = Workload({(1, n): 1 + n % 3 for n in range(1, 25)}, floor=0)
    costs = Costs.linear(
        100, 10, 30, 900, graph_bytes=lambda t: 50 + (37 * t) % 41, graph_seconds=1
    )
    arguments: dict[str, Any] = {"max_num_seqs": 24}
    budget = Budget(bytes=700)
    best = plan_captures(load, costs, **arguments, budget=budget)
    assert best.optimal
    assert best.gap == 0
    rough = plan_captures(load, costs, **arguments, budget=budget, max_labels=1)
    assert rough.value.graph_bytes <= 700
    assert rough.mean_step_us >= best.mean_step_us
    if not rough.optimal:
        assert 0 < rough.gap < 1
        bound = rough.mean_step_us * (1 - rough.gap)
        assert bound <= best.mean_step_us * (1 + 1e-9)


def test_keyed_graphs_without_a_budget_stop_somewhere_and_say_so(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = plan(None, dispatcher="direct")
    assert whole.optimal
    monkeypatch.setattr("specgrid._plan_solve.MAX_FRONTIER", 4)
    found = plan(None, dispatcher="direct")
    assert found.value.num_graphs <= 4
    assert not found.optimal
    bound = found.mean_step_us * (1 - found.gap)
    assert bound <= whole.mean_step_us * (1 + 1e-9)
    assert bound == pytest.approx(whole.lower_bound_us, rel=1e-6)


# ---- promises -----------------------------------------------------------------


def test_forced_sizes_are_there(backend: Any) -> None:
    for dispatcher in ("union", "per-query-length"):
        found = plan(Budget(graphs=40), forced_sizes=[3, 13], dispatcher=dispatcher)
        assert {3, 13} <= set(found.sizes)


def test_forced_graphs_of_the_direct_dispatcher_are_there(backend: Any) -> None:
    found = plan(
        Budget(graphs=9), dispatcher="direct", forced_sizes=[(4, 1), [2, 3], 10]
    )
    assert {(4, 1), (2, 3)} <= set(found.graphs)
    assert 10 in found.sizes


def test_the_floor_keeps_shapes_the_data_lack(backend: Any) -> None:
    load = {(4, 1): 1.0}
    budget = Budget(graphs=30, full_coverage=False)
    trusting = plan(budget, workload=Workload(load, floor=0))
    assert trusting.sizes == [4]
    careful = plan(budget, workload=Workload(load, floor=0.01))
    assert careful.sizes[-1] >= 16


def test_no_graphs_at_all_is_a_plan_without_coverage(backend: Any) -> None:
    found = plan(Budget(graphs=0, full_coverage=False))
    assert found.sizes == []
    assert found.mean_step_us == pytest.approx(found.eager_us)
    assert found.value.eager_share == pytest.approx(1)
    assert found.vllm_args() == ["--compilation-config", '{"cudagraph_mode": "NONE"}']


def test_without_a_budget_the_plan_is_as_good_as_any(backend: Any) -> None:
    found = plan(None)
    assert found.lower_bound_us is not None
    assert found.mean_step_us == pytest.approx(found.lower_bound_us)
    assert plan(Budget(graphs=500)).sizes == found.sizes


def test_a_schedule_by_context_counts_every_k_it_can_reach(backend: Any) -> None:
    server = {
        "schedule": [(1, 8, 1, 100, 1), (1, 8, 101, 4096, 3)],
        "max_num_seqs": 8,
        "num_speculative_tokens": 3,
    }
    found = plan_captures(
        Workload({(2, 8): 1, (4, 8): 1}),
        COSTS,
        **server,
        budget=Budget(graphs=30, full_coverage="every-batch"),
    )
    assert GraphSet(found.sizes, **server).coverage().missed == []


def test_query_lengths_of_another_schedule_count_as_mixed(backend: Any) -> None:
    load = Workload({(3, 2): 10, (4, 2): 90})
    found = plan(Budget(graphs=12), workload=load)
    assert "query lengths the schedule never produces: 3" in found.notes[0]
    # And the odd step of the floor.
    assert found.value.piecewise_share == pytest.approx(0.1 * 0.99, abs=0.01)


def test_mixed_steps_above_the_ceiling_stay_eager_and_are_named() -> None:
    load = Workload({(4, 2): 90}, {2048: 10})
    found = plan(Budget(graphs=12), workload=load)
    assert max(found.sizes) <= 1024
    assert any("mixed steps of more than 1024 tokens" in n for n in found.notes)


def test_full_decode_only_has_no_piecewise_graphs(backend: Any) -> None:
    found = plan(Budget(graphs=12), mode="FULL_DECODE_ONLY")
    assert found.value.piecewise_share == 0
    assert found.vllm_args()[-1] == '{"cudagraph_mode": "FULL_DECODE_ONLY"}'


def test_sizes_outside_a_measured_table_are_not_planned(backend: Any) -> None:
    full = {t: 6000 + 60 * t for t in range(2, 33)}
    costs = Costs.from_penalties(full, 2500, 8000)
    load = Workload({(4, 1): 1, (4, 4): 1}, floor=0)
    found = plan(Budget(graphs=12), costs=costs, workload=load)
    assert min(found.sizes) >= 2
    assert any("below 2 tokens" in note for note in found.notes)
    assert found.lower_bound_us is not None


def test_notes_say_what_was_assumed() -> None:
    found = plan_captures(
        Workload.default(8, 3, SERVER["schedule"]),
        Costs.default(),
        **SERVER,
        budget=Budget(graphs=20),
    )
    assert found.assumed
    assert sum("assumed" in note for note in found.notes) == 2
    assert not plan(Budget(graphs=20)).assumed


# ---- what-if questions -----------------------------------------------------------


def test_worth_of_each_size_is_what_dispatch_loses_without_it(backend: Any) -> None:
    found = plan(Budget(graphs=12))
    for size, worth in found.worth().items():
        rest = [s for s in found.sizes if s != size]
        without = evaluate_captures(rest, LOAD, COSTS, **SERVER)
        assert worth == pytest.approx(without.mean_step_us - found.mean_step_us)
        assert worth > 0


def test_an_eager_time_that_no_step_pays_may_move_freely(backend: Any) -> None:
    found = plan(Budget(graphs=12))
    assert found.value.eager_share == 0
    assert found.eager_shift_range()[1] == math.inf


def test_the_eager_range_ends_where_another_plan_takes_over(backend: Any) -> None:
    """One graph for a rare long step or a common short one, by hand.

    Size 2 serves 90 % at 100 us and leaves 10 % eager; size 8 serves all, 90 % of
    it padded at 160. Eager at 400 + shift: 130 + 0.1 shift against 160.
    """
    costs = Costs({1: 90, 2: 100, 8: 160}, {1: 900, 8: 960}, 400)
    found = plan_captures(
        Workload({(1, 2): 90, (1, 8): 10}, floor=0),
        costs,
        max_num_seqs=8,
        budget=Budget(graphs=1, full_coverage=False),
        mode="FULL_DECODE_ONLY",
    )
    assert found.sizes == [2]
    assert found.mean_step_us == pytest.approx(130)
    assert found.eager_shift_range()[1] == pytest.approx(300)


def test_a_loaded_plan_has_no_what_if_questions(tmp_path: Path) -> None:
    plan(Budget(graphs=12)).save(tmp_path / "plan.json")
    loaded = CapturePlan.load(tmp_path / "plan.json")
    for ask in (loaded.worth, loaded.eager_shift_range):
        with pytest.raises(ConfigError, match="make the plan again"):
            ask()
    with pytest.raises(ConfigError, match="smallest has none"):
        loaded.at(5)


# ---- files and flags ----------------------------------------------------------------


def test_flags_by_dispatcher(backend: Any) -> None:
    assert plan(Budget(graphs=7)).vllm_args()[0] == "--cudagraph-capture-sizes"
    one_each = plan(Budget(graphs=7), dispatcher="per-query-length").vllm_args()
    assert json.loads(one_each[-1]) == {"specgrid": {"policy": "per-query-length"}}
    direct = plan(Budget(graphs=7), dispatcher="direct").vllm_args("my plan.json")
    assert direct[0] == "--additional-config"
    assert json.loads(direct[1]) == {"specgrid": {"plan": "my plan.json"}}


def test_a_plan_file_says_what_it_is_for(tmp_path: Path) -> None:
    found = plan(Budget(graphs=12))
    path = tmp_path / "plan.json"
    path.write_text("something else")
    found.save(path)
    data = json.loads(path.read_text())
    assert data["format"] == "specgrid-plan"
    assert data["version"] == 1
    assert data["rule"] == "vllm-0.33"
    assert data["schedule"] == SERVER["schedule"]
    assert data["schedule_digest"] == found.schedule_digest
    assert data["sizes"] == found.sizes
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    assert CapturePlan.load(path).schedule == found.schedule


def test_a_failed_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    found = plan(Budget(graphs=12))
    found.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("specgrid._atomic.os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        plan(Budget(graphs=7)).save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def _broken(change: dict[str, Any]) -> Any:
    def write(path: Path) -> None:
        plan(Budget(graphs=12)).save(path)
        data = json.loads(path.read_text())
        data.update(change)
        path.write_text(json.dumps({k: v for k, v in data.items() if v != "DROP"}))

    return write


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda path: None, "cannot be opened"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_text("{"), "not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "UTF-16"),
        (lambda path: path.write_text("[" * 100_000), "not JSON"),
        (lambda path: path.write_text("[1]"), 'lacks "format"'),
        (lambda path: path.write_text('{"format": "other"}'), 'lacks "format"'),
        (lambda path: path.write_bytes(b" " * (17 << 20)), "larger than 16 MiB"),
        (_broken({"version": 2}), "version 2; this specgrid reads version 1"),
        (_broken({"version": True}), "version True"),
        (_broken({"sizes": "DROP"}), '"sizes" is missing'),
        (_broken({"sizes": [16, 8]}), "strictly ascending"),
        (_broken({"sizes": [8, 1.5]}), "whole number"),
        (_broken({"sizes": [9000]}), "1..8192"),
        (_broken({"sizes": {"a": 1}}), "list of reasonable length"),
        (_broken({"graphs": [[4, 4]]}), "not empty under dispatcher"),
        (_broken({"graphs": [[4, 400]]}), "not \\[query_len, num_reqs\\]"),
        (_broken({"dispatcher": "guess"}), "not one of union"),
        (_broken({"max_num_seqs": 0}), "whole number from 1"),
        (_broken({"schedule": [[2, 4, 3]]}), "must start at 1"),
        (_broken({"schedule_digest": "abc"}), "does not belong"),
        (_broken({"value": 3}), "not an object"),
        (_broken({"optimal": 1}), "not true or false"),
        (_broken({"eager_us": "fast"}), "not a number"),
        (_broken({"mode": 7}), "not one of"),
    ],
)
def test_a_bad_plan_file_is_refused(tmp_path: Path, write: Any, says: str) -> None:
    path = tmp_path / "plan.json"
    write(path)
    with pytest.raises(ConfigError, match=says) as error:
        CapturePlan.load(path)
    assert "plan.json" in str(error.value)


def test_a_plan_file_with_a_number_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    _broken({})(path)
    path.write_text(path.read_text().replace('"gap": 0.0', '"gap": NaN'))
    with pytest.raises(ConfigError, match="NaN is no JSON number"):
        CapturePlan.load(path)


def test_inputs_can_be_pickled() -> None:
    for thing in (LOAD, COSTS, Budget(graphs=3), Drafter()):
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_plans_can_be_pickled_and_asked_again(backend: Any) -> None:
    for dispatcher in ("union", "direct"):
        found = plan(Budget(graphs=12), dispatcher=dispatcher)
        again = pickle.loads(pickle.dumps(found))
        assert again == found
        assert list(again.frontier) == list(found.frontier)
        assert again.worth() == found.worth()


# ---- mistakes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Workload({}), "workload is empty"),
        (lambda: Workload({(1, 1): 0.0}, {4: 0}), "workload is empty"),
        (lambda: Workload({(1, 1): -1}), "query_len 1, num_reqs 1 is -1"),
        (lambda: Workload({(1, 1): float("nan")}), "nan; a weight is a finite"),
        (lambda: Workload({(1, 1): float("inf")}), "inf; a weight is a finite"),
        (lambda: Workload({(1, 1): "many"}), "'many'"),
        (lambda: Workload({(1, 1): 1}, {5: float("nan")}), "mixed steps of 5 tokens"),
        (lambda: Workload({(1, 1): 1e308, (1, 2): 1e308}), "scale them down"),
        (lambda: Workload({4: 1}), "keyed by the pair"),
        (lambda: Workload({(0, 1): 1}), "query_len in workload key"),
        (lambda: Workload({(1, 2.5): 1}), "must be a whole number"),
        (lambda: Workload({(1, 1): 1}, {0: 1}), "num_tokens in mixed key"),
        (lambda: Workload({(1, 1): 1}, floor=1), "floor is 1"),
        (lambda: Workload({(1, 1): 1}, floor=-0.1), "floor is -0.1"),
        (lambda: Costs({}, 1, 1), "full table is empty"),
        (lambda: Costs({4: float("nan")}, 1, 1), "hole: nan at 4 tokens"),
        (lambda: Costs({4: None}, 1, 1), "each entry is"),
        (lambda: Costs(1, {4: -2}, 1), "piecewise table has a hole: -2"),
        (lambda: Costs(1, 1, [(4, 1), (4, 2)]), "gives 4 tokens twice"),
        (lambda: Costs({0: 1}, 1, 1), "holds the size 0"),
        (lambda: Costs({1.5: 1}, 1, 1), "holds the size 1.5"),
        (lambda: Costs(-1, 1, 1), "full is -1"),
        (lambda: Costs.linear(math.nan, 1, 1, 1), "base_us is nan"),
        (lambda: Budget(graphs=-1), "-1 graphs"),
        (lambda: Budget(graphs=2.5), "2.5 graphs"),  # type: ignore[arg-type]
        (lambda: Budget(graphs=True), "True graphs"),
        (lambda: Budget(bytes=math.nan), "nan bytes"),
        (lambda: Budget(seconds=-3), "-3 seconds"),
        (lambda: Budget(full_coverage="most"), "'most'"),  # type: ignore[arg-type]
        (lambda: Drafter("all"), "'all'"),  # type: ignore[arg-type]
    ],
)
def test_bad_parts_are_refused(make: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"budget": Budget(graphs=0)}, "0 graphs is too small: .* at least 7 graphs"),
        ({"budget": Budget(graphs=4)}, "at least 7 graphs.*full_coverage=False"),
        ({"budget": Budget(bytes=9 << 20)}, "9437184 bytes.*at least 15728640 bytes"),
        ({"budget": Budget(seconds=0.3)}, "at least 0.7 seconds"),
        (
            {"budget": Budget(graphs=6), "forced_sizes": [3, 9]},
            "2 forced.* at least 1[0-9] graphs",
        ),
        ({"max_size": 12}, "no plan holds a FULL graph for the widest batch"),
        ({"max_size": 0}, "max_size must be between 1 and 8192"),
        ({"max_size": 9000}, "max_size must be between 1 and 8192"),
        ({"forced_sizes": [9000]}, "above max_num_batched_tokens=8192"),
        ({"forced_sizes": [20], "max_size": 16}, "above max_size=16"),
        ({"forced_sizes": [2.5]}, "forced size must be a whole number"),
        ({"forced_sizes": [(4, 2)]}, "only the direct dispatcher takes"),
        (
            {"forced_sizes": [(3, 2)], "dispatcher": "direct"},
            "never produces query_len 3; it produces 1, 2, 4",
        ),
        (
            {"forced_sizes": [(4, 9)], "dispatcher": "direct"},
            "num_reqs of a forced graph must be between 1 and 8",
        ),
        (
            {
                "forced_sizes": [8],
                "dispatcher": "direct",
                "mode": "FULL_DECODE_ONLY",
            },
            "which mode FULL_DECODE_ONLY does not capture",
        ),
        ({"dispatcher": "greedy"}, "one of union, per-query-length, direct"),
        ({"mode": "PIECEWISE"}, "FULL_AND_PIECEWISE, FULL_DECODE_ONLY"),
        ({"lora_cases": ()}, "lora_cases is empty"),
        ({"lora_cases": (-1,)}, "LoRA case"),
        ({"max_num_seqs": 0}, "max_num_seqs must be between"),
        ({"max_num_seqs": 5}, "steps of 6 requests.*raise it to at least 6"),
        (
            {"max_num_batched_tokens": 15},
            "4 requests x 4 tokens = 16.*max_num_batched_tokens is 15",
        ),
        (
            {"workload": Workload({(1, 8): 1}, {9000: 1})},
            "mixed steps of 9000 tokens",
        ),
        (
            {"num_speculative_tokens": 0, "schedule": None, "drafter": Drafter()},
            "num_speculative_tokens is 0",
        ),
        (
            {"costs": Costs(100, 120, 1e12)},
            "range from 100 to 1e[+]12 us.*full_coverage",
        ),
        ({"num_threads": 0}, "num_threads must be between 1"),
        ({"max_labels": 0}, "max_labels must be between 1"),
        ({"workload": {(1, 1): 1}}, "workload is a dict"),
        ({"costs": 7}, "costs is an int"),
        (
            {"costs": Costs(lambda t: math.nan, 1, 1)},
            "full cost of 1 tokens is nan",
        ),
        (
            {"costs": Costs({1: 5, 8: 9}, 20, 40)},
            "tables end at 8 tokens.*must hold a graph of 16",
        ),
        (
            {"costs": Costs(5, 6, {1: 9, 8: 20})},
            "eager table has no value for 16 tokens: it covers 1 to 8",
        ),
        (
            {"costs": Costs({40: 5, 64: 9}, 20, 40)},
            "tables begin at 40 tokens",
        ),
    ],
)
def test_tasks_that_cannot_be_are_refused(
    backend: Any, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        plan(**{"budget": Budget(graphs=30), **change})


def test_a_table_beyond_memory_is_refused_before_it_is_made() -> None:
    server: dict[str, Any] = {"max_num_seqs": 60_000, "max_num_batched_tokens": 60_000}
    load = Workload({(1, 60_000): 1}, floor=0)
    with pytest.raises(ConfigError, match=r"would take 22[.].* GiB; lower the budget"):
        plan_captures(
            load, COSTS, **server, dispatcher="direct", budget=Budget(graphs=10**5)
        )


def test_tiny_weights_plan_like_large_ones(backend: Any) -> None:
    """Denormal totals have no finite inverse."""
    tiny = Workload({key: weight * 5e-324 for key, weight in LOAD.decode.items()})
    plain = Workload(dict(LOAD.decode))
    budget = Budget(graphs=12)
    assert plan(budget, workload=tiny).sizes == plan(budget, workload=plain).sizes


def test_a_bad_schedule_is_a_schedule_error() -> None:
    with pytest.raises(ScheduleError, match="must start at 1"):
        plan(Budget(graphs=30), schedule=[[2, 8, 3]])


def test_keyed_graphs_need_the_direct_dispatcher() -> None:
    with pytest.raises(ConfigError, match="only 'direct'"):
        evaluate_captures([8], LOAD, COSTS, **SERVER, graphs=[(4, 2)])


def test_the_error_names_a_budget_that_fits(backend: Any) -> None:
    for dispatcher in ("union", "per-query-length", "direct"):
        with pytest.raises(ConfigError, match="at least") as error:
            plan(Budget(graphs=0), dispatcher=dispatcher)
        needed = int(str(error.value).split("at least ")[1].split(" graphs")[0])
        assert plan(Budget(graphs=needed), dispatcher=dispatcher).sizes is not None
        with pytest.raises(ConfigError, match="at least"):
            plan(Budget(graphs=needed - 1), dispatcher=dispatcher)


def test_a_plan_file_needs_a_name() -> None:
    with pytest.raises(
        ConfigError, match="name of the plan is empty; name the file to"
    ):
        plan(Budget(graphs=9)).save("")
    with pytest.raises(
        ConfigError, match="the name of the plan is empty; name the fil"
    ):
        CapturePlan.load("")


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length", "direct"])
@pytest.mark.parametrize("costs", [COSTS, SIZED])
@pytest.mark.parametrize(
    ("name", "least", "unit"),
    [("bytes", 1 << 20, 1 << 16), ("bytes", 9 << 20, 1 << 16), ("seconds", 0.1, 2e-3)],
)
def test_the_bytes_or_seconds_named_fit_and_hardly_less_does(
    backend: Any, dispatcher: str, costs: Costs, name: str, least: float, unit: float
) -> None:
    """However far below the least the budget given was."""

    def within(limit: float) -> CapturePlan:
        return plan(Budget(**{name: limit}), costs=costs, dispatcher=dispatcher)

    with pytest.raises(ConfigError, match="at least") as error:
        within(least)
    needed = float(str(error.value).split("at least ")[1].split(f" {name}")[0])
    assert within(needed).value.num_graphs > 0
    with pytest.raises(ConfigError, match="at least"):
        within(needed - unit)


def test_every_limit_of_a_budget_too_small_is_named(backend: Any) -> None:
    with pytest.raises(ConfigError) as error:
        plan(Budget(graphs=2, bytes=9 << 20, seconds=0.1), costs=SIZED)
    assert str(error.value) == (
        "the budget of 2 graphs, 9437184 bytes, 0.1 seconds is too small: a FULL graph "
        "for the widest batch of every query length needs at least 7 graphs, 21328640 "
        "bytes, 1.5 seconds (each taken alone). Raise the budget to that, or pass "
        "full_coverage=False to leave wide batches without a graph"
    )
    with pytest.raises(ConfigError, match="a FULL graph for every batch of the sch"):
        plan(Budget(graphs=1, full_coverage="every-batch"))
    with pytest.raises(
        ConfigError, match=r"1 forced needs .*Raise the budget to that$"
    ):
        plan(Budget(graphs=0, full_coverage=False), forced_sizes=[8])


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length", "direct"])
@pytest.mark.parametrize("costs", [COSTS, SIZED])
def test_memory_below_the_pool_leaves_the_plan_without_graphs(
    backend: Any, dispatcher: str, costs: Costs
) -> None:
    budget = Budget(bytes=1 << 20, full_coverage=False)
    found = plan(budget, costs=costs, dispatcher=dispatcher)
    assert (found.sizes, found.graphs, found.value.graph_bytes) == ([], [], 0)
    assert found.optimal


@pytest.mark.parametrize("costs", [COSTS, SIZED])
@pytest.mark.parametrize("dispatcher", ["union", "direct"])
def test_sizes_below_what_coverage_needs_hold_no_plan(
    backend: Any, costs: Costs, dispatcher: str
) -> None:
    with pytest.raises(ConfigError, match=r"no plan holds a FULL graph .* 1 to 12 tok"):
        plan(Budget(bytes=90 << 20), costs=costs, max_size=12, dispatcher=dispatcher)


@pytest.mark.parametrize("dispatcher", ["union", "direct"])
def test_a_frontier_cut_short_still_holds_the_best_it_can(
    backend: Any, dispatcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = Budget(full_coverage=False)
    whole = plan(free, dispatcher=dispatcher)
    monkeypatch.setattr("specgrid._plan_solve.MAX_FRONTIER", 3)
    found = plan(free, dispatcher=dispatcher)
    cut = plan(Budget(graphs=3, full_coverage=False), dispatcher=dispatcher)
    if dispatcher == "union":
        # The best of all needs no frontier; it is its last point.
        assert found.mean_step_us == whole.mean_step_us
        assert [p.num_graphs for p in found.frontier][:-1] == [
            p.num_graphs for p in cut.frontier
        ]
    else:
        assert found.mean_step_us == cut.mean_step_us
        assert not found.optimal
        least = found.mean_step_us * (1 - found.gap)
        assert least <= whole.mean_step_us * (1 + 1e-9)
    hasty = plan(free, dispatcher=dispatcher, time_limit_s=1e-9)
    assert hasty.mean_step_us * (1 - hasty.gap) <= whole.mean_step_us * (1 + 1e-9)


# ---- threads and signals ------------------------------------------------------------


def test_plans_may_be_made_by_many_threads_at_once() -> None:
    alone = plan(Budget(graphs=12)).sizes
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(plan(Budget(graphs=12)).sizes))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


@pytest.mark.slow
def test_ctrl_c_ends_a_long_solve() -> None:
    """A plan over 6,000 sizes takes many seconds; an interrupt must not."""
    code = """
import sys
from specgrid import *
load = Workload({(1, n): 1.0 for n in range(1, 6001)}, floor=0)
print("started", flush=True)
try:
    plan_captures(load, Costs.linear(100, 1, 30, 900), max_num_seqs=6000,
                  budget=Budget(graphs=2000))
except KeyboardInterrupt:
    sys.exit(7)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "started\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 7
    finally:
        process.kill()
        process.stdout.close()


# ---- what is assumed ---------------------------------------------------------------


def test_the_assumed_load_is_log_uniform_with_five_percent_mixed() -> None:
    load = Workload.default(8)
    decode, mixed = load.decode, load.mixed
    assert math.fsum(decode.values()) == pytest.approx(0.95)
    assert math.fsum(mixed.values()) == pytest.approx(0.05)
    for n in range(1, 9):
        assert decode[1, n] == pytest.approx(decode[1, 1] / n)
    assert sorted(mixed) == list(range(1, 513))
    assert sorted(Workload.default(8, max_num_batched_tokens=21).mixed) == [
        *range(1, 22)
    ]


@pytest.mark.parametrize(
    ("kind", "tokens", "graphs"),
    [
        ("autoregressive", 1, 0),
        ("autoregressive", 2, 2),
        ("multi-module-mtp", 3, 0),
        ("dflash", 3, 0),
    ],
)
def test_later_draft_positions_have_graphs_in_autoregressive_drafters(
    kind: Any, tokens: int, graphs: int
) -> None:
    """vLLM 0.33.0: the loop over positions is captured for each K above 1."""
    assert Drafter(kind).graphs_per_small_size(tokens, {0, 1, 2, 3}) == graphs
