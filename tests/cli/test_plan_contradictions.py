# SPDX-License-Identifier: Apache-2.0
"""Input of plan, cases, tune and convert that contradicts itself, and odd targets."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specgrid import (
    Acceptance,
    Budget,
    CapturePlan,
    ConfigError,
    Costs,
    Schedule,
    ScheduleError,
    Workload,
    compress_schedule,
    plan_captures,
    tune_schedule,
)

from .conftest import Result

Run = Callable[..., Result]
ROOT = Path(__file__).parents[2]
EAGLE3 = str(ROOT / "examples" / "eagle3-schedule.yaml")
SERVER = ("--max-num-seqs", "16", "--spec-tokens", "3")
PLAN = ("plan", "--graphs", "10", *SERVER)


def refused(result: Result, *says: str) -> None:
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1, result.err
    for words in says:
        assert words in result.err, result.err


# -- where results go --------------------------------------------------------------


def test_a_pipe_gets_the_plan_and_stays_a_pipe(specgrid: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert specgrid(*PLAN, "--save", str(pipe)).status == 0
    reader.join(30)
    assert json.loads(got[0])["format"] == "specgrid-plan"
    assert pipe.is_fifo()


def test_a_link_is_followed(specgrid: Run, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert specgrid(*PLAN, "--save", str(link)).status == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["format"] == "specgrid-plan"


def test_a_report_follows_a_link_too(specgrid: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    link.symlink_to(real)
    assert specgrid("report", str(link), *SERVER).status == 0
    assert link.is_symlink()
    assert real.read_text() != "old"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "is empty"),
        (".", "Is a directory"),
        ("missing/p.json", "No such file or directory"),
        ("file/p.json", "Not a directory"),
    ],
)
def test_a_bad_target_is_refused_before_anything_is_solved(
    specgrid: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    says: str,
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)

    def solved(*_: object, **__: object) -> None:
        raise AssertionError("solved before the target was checked")

    monkeypatch.setattr("specgrid.cli.plan.plan_captures", solved)
    refused(specgrid(*PLAN, "--save", target), "--save", says)


# -- what a plan says of itself ----------------------------------------------------


def test_a_saved_plan_names_what_was_assumed(specgrid: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    log = str(ROOT / "examples" / "eagle3-256.log.gz")
    words = ("--log", log, "--memory", "4GiB", "--save", str(path))
    result = specgrid("plan", *words, "--json", "--config", EAGLE3)
    assert result.status == 0
    sources = json.loads(result.out)["data"]["sources"]
    guesses = [s["name"] for s in sources if s["assumed"]]
    assert guesses
    plan = CapturePlan.load(path)
    assert plan.assumed
    (note,) = (n for n in plan.notes if n.startswith("assumed, not measured: "))
    assert all(name in note for name in guesses)


def one_step(**changes: Any) -> CapturePlan:
    costs = {"full": 100, "piecewise": 130, "eager": 190} | changes
    return plan_captures(
        Workload({(1, 1): 1, (1, 4): 1}, floor=0),
        Costs(**costs),
        max_num_seqs=4,
        budget=Budget(graphs=4),
    )


def test_an_assumed_penalty_makes_the_plan_assumed() -> None:
    assert not one_step().assumed
    assert one_step(eager_penalty_assumed=True).assumed


def test_graphs_slower_than_eager_are_noted(specgrid: Run, tmp_path: Path) -> None:
    assert not any("contradict" in note for note in one_step().notes)
    (first, second) = (
        n for n in one_step(full=9000, piecewise=100, eager=50).notes if "contra" in n
    )
    assert "a FULL step is slower than an eager one at 2 of 2 sizes" in first
    assert "9000 us against 50 us" in first
    assert "than a PIECEWISE one" in second
    path = tmp_path / "costs.csv"
    path.write_text("num_tokens,full_us,piecewise_us,eager_us\n1,9000,100,50\n")
    result = specgrid(*PLAN, "--costs", str(path))
    assert result.status == 0
    assert "contradict themselves" in result.out


def test_no_plan_is_below_the_lower_bound_when_times_fall_with_the_size() -> None:
    sizes = {1: 9000, 16: 8000, 512: 7000}
    plan = plan_captures(
        Workload({(1, n): 1 for n in range(1, 17)}, floor=0),
        Costs(sizes, {1: 20000, 512: 20000}, 30000),
        max_num_seqs=16,
        max_size=512,
    )
    assert plan.lower_bound_us is not None
    # Every step is quickest on the graph of 16, the largest FULL graph there is.
    assert plan.lower_bound_us == plan.mean_step_us == 8000
    for graphs in range(2, 40, 5):
        assert plan.at(graphs).mean_step_us >= plan.lower_bound_us


# -- numbers that cannot be --------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("full_share", 7, "at least 0 and at most 1"),
        ("full_share", -0.5, "at least 0 and at most 1"),
        ("eager_share", 0.5, "do not add up to 1"),
        ("mean_step_us", -1, "at least 0"),
        ("graph_bytes", float("1e999"), "JSON"),
    ],
)
def test_a_checked_plan_with_impossible_values_is_refused(
    specgrid: Run, tmp_path: Path, name: str, value: float, says: str
) -> None:
    path = tmp_path / "p.json"
    one_step().save(path)
    plan = json.loads(path.read_text())
    plan["value"][name] = value
    path.write_text(json.dumps(plan))
    refused(specgrid("plan", "--check", str(path), *SERVER), says)


def test_tokens_that_contradict_the_requests_are_refused(
    specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / "steps.csv"
    head = "query_len,num_reqs,num_tokens,weight\n"
    path.write_text(head + "4,2,8,5\n4,2,,5\n")
    assert specgrid(*PLAN, "--log", str(path)).status == 0
    path.write_text(head + "4,2,9,5\n")
    refused(
        specgrid(*PLAN, "--log", str(path)),
        "steps.csv:2: num_tokens is 9, but query_len 4 x num_reqs 2 is 8",
    )


def test_a_schedule_to_compress_may_be_rows() -> None:
    assert compress_schedule([[1, 4, 3], [5, 8, 3]]).to_rows() == [[1, 8, 3]]
    assert compress_schedule(Schedule([[1, 4, 3]])).to_rows() == [[1, 4, 3]]
    with pytest.raises(ScheduleError, match="non-empty list"):
        compress_schedule(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("survival", [(1.5,), (0.5, 0.7), (float("nan"),)])
def test_no_acceptance_is_made_of_impossible_values(survival: Any) -> None:
    with pytest.raises(ConfigError, match="acceptance"):
        Acceptance(survival, (), (0.0, 0.0, 0.0), "given", None)


LINE = [(1, 1, 1, 6900.0), (8, 1, 1, 7140.0), (16, 1, 1, 8000.0), (32, 1, 1, 11620.0)]


@pytest.mark.parametrize("us", [999_999.0, 30_000.0, 2_000.0])
def test_one_point_out_of_line_is_named(us: float) -> None:
    def notes(points: list[tuple[int, int, int, float]]) -> list[str]:
        tuned = tune_schedule(points, [0.7], max_num_seqs=32, num_speculative_tokens=1)
        return [n for n in tuned.notes if "took" in n]

    assert notes(LINE) == []
    (note,) = notes([p if p[0] != 16 else (16, 1, 1, us) for p in LINE])
    assert note.startswith(f"batch 16, context 1, k 1 took {us:,.0f} us, but batch 8")


def test_a_point_out_of_line_by_context_is_named() -> None:
    points = [(8, c, 1, us) for c, us in ((1, 5e3), (512, 5e4), (1024, 6e3))]
    tuned = tune_schedule(points, [0.7], max_num_seqs=8, num_speculative_tokens=1)
    (note,) = (n for n in tuned.notes if "took" in n)
    assert note.startswith("batch 8, context 512, k 1 took 50,000 us, but context 1 ")


# -- empty names, deep and long JSON -----------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--log", ""),
        ("plan", "--costs", ""),
        ("plan", "--check", ""),
        ("tune", "--latency", "", "--acceptance", "0.7,0.5,0.4"),
        ("cases", "-o", ""),
        ("plan", "--plot", ""),
        ("report", ""),
    ],
)
def test_an_empty_name_is_said(specgrid: Run, words: tuple[str, ...]) -> None:
    result = specgrid(*words, *SERVER)
    refused(result)
    assert "empty" in result.err or "''" in result.err
    assert "directory" not in result.err


def test_an_empty_schedule_is_said(specgrid: Run) -> None:
    refused(specgrid("convert", "--from", "vllm", "--to", "sglang", ""), "is empty")


@pytest.mark.parametrize("text", ["[" * 200_000, "[" + "9" * 10_000 + "]"])
@pytest.mark.parametrize("use", ["costs", "check", "convert", "latency", "config"])
def test_no_word_of_the_interpreter_is_shown(
    specgrid: Run, tmp_path: Path, text: str, use: str
) -> None:
    path = str(tmp_path / "odd.json")
    Path(path).write_text(text if use != "check" else '{"format":' + text)
    command = {
        "costs": ("plan", "--costs", path, *SERVER),
        "check": ("plan", "--check", path, *SERVER),
        "convert": ("convert", "--from", "sglang", "--to", "vllm", path),
        "latency": ("tune", "--latency", path, "--acceptance", "0.5", *SERVER),
        "config": ("plan", "--config", path),
    }[use]
    result = specgrid(*command)
    refused(result)
    for word in ("recursion", "set_int_max", "sys."):
        assert word not in result.err


# -- cases and convert -------------------------------------------------------------


def test_draft_lengths_above_the_servers_are_noted(specgrid: Run) -> None:
    result = specgrid("cases", "--ks", "1,9", "--json", *SERVER)
    assert result.status == 0
    assert any(
        "K = 9 is above the server's num_speculative_tokens 3" in note
        for note in json.loads(result.out)["notes"]
    )
    result = specgrid("cases", "--ks", "1,3", "--json", *SERVER)
    assert not any("above the" in note for note in json.loads(result.out)["notes"])


def test_boundaries_without_room_are_named(specgrid: Run) -> None:
    words = ("cases", "--json", "--contexts", "512", *SERVER)
    schedule = ("--schedule", "[[1,3,3],[4,8,2],[9,16,1]]")
    few = json.loads(specgrid(*words, *schedule, "--points", "12").out)
    (note,) = (n for n in few["notes"] if "no room" in n)
    assert "raise --points" in note
    many = json.loads(specgrid(*words, *schedule, "--points", "200").out)
    assert not any("no room" in n for n in many["notes"])


def test_convert_takes_the_schedule_of_a_settings_file(specgrid: Run) -> None:
    result = specgrid("convert", "--from", "vllm", "--to", "vllm", EAGLE3)
    assert (result.status, json.loads(result.out)[0][0]) == (0, 1)


def test_convert_names_the_file_and_the_form(specgrid: Run, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("max-num-seqs: 8\n")
    words = ("convert", "--to", "vllm", "--from")
    refused(specgrid(*words, "vllm", str(path)), "s.yaml", "without a schedule")
    refused(specgrid(*words, "sglang", str(path)), "s.yaml", "sglang schedule as JSON")


def test_a_range_without_end_suggests_the_limit(specgrid: Run) -> None:
    words = ("convert", "--from", "tensorrt-llm", "--keys", "upper", "--to", "vllm")
    assert "--max-num-seqs" in specgrid(*words, '{"32": 1}').err
    assert specgrid(*words, "--max-num-seqs", "32", '{"32": 1}').err == ""


def test_two_models_in_one_scrape_are_named(specgrid: Run, tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(
        "".join(
            f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="{m}"}} {n}\n'
            for m, n in (("alpha", 10), ("beta", 20))
        )
    )
    steps = tmp_path / "steps.csv"
    steps.write_text("batch,context,k,step_us\n1,1,0,7000\n1,1,1,7500\n")
    words = ("--latency", str(steps), "--acceptance", str(path))
    refused(specgrid("tune", *words, *SERVER), "two models, alpha and beta")


# -- words and amounts -------------------------------------------------------------


def test_the_planners_errors_use_this_commands_words(specgrid: Run) -> None:
    refused(
        specgrid("plan", "--memory", "0.1GiB", *SERVER),
        "the budget of 102.4 MiB is too small",
        "MiB. Raise",
        "give --coverage none",
    )
    refused(specgrid("plan", "--memory", "2", *SERVER), "write 2GiB, 2MiB, or 2B")
    refused(specgrid("plan", "--graphs", "1e3", *SERVER), "'1e3' is no whole number")


@pytest.mark.parametrize(
    ("text", "says"),
    [("4,2,,5\n4,3,,9\n", "must name the columns"), ("[]", "expected {")],
)
def test_a_table_that_is_none_is_not_taken_for_a_log(
    specgrid: Run, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "steps"
    path.write_text(text)
    result = specgrid(*PLAN, "--log", str(path))
    refused(result, says)
    assert "--enable-logging" not in result.err


def test_the_drafters_share_of_the_graphs_is_said(specgrid: Run) -> None:
    result = specgrid("plan", "--json", "--graphs", "60", "--config", EAGLE3)
    found = json.loads(result.out)
    (note,) = (n for n in found["notes"] if "drafter's own" in n)
    assert f"of today's {found['before']['num_graphs']}" in note


def test_thousands_of_contexts_are_thinned_out_aloud(
    specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / "many.csv"
    rows = [f"{b},{1 + 7 * i},{k},{7000 + 300 * b * (k + 1) + i}"
            for i in range(400) for b in (1, 16) for k in (0, 3)]  # fmt: skip
    path.write_text("batch,context,k,step_us\n" + "\n".join(rows) + "\n")
    words = ("tune", "--json", "--latency", str(path), "--acceptance", "0.7,0.5,0.4")
    found = json.loads(specgrid(*words, *SERVER).out)
    assert len(found["grid"]["contexts"]) == 128
    assert any("400 contexts were measured; 128" in note for note in found["notes"])
