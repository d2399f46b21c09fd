# SPDX-License-Identifier: Apache-2.0
"""``specgrid plan``: what each option and each server adds to text and document."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specgrid import plan_captures
from specgrid.cli import plan as module
from specgrid.cli._output import Printer

from .conftest import Result

Run = Callable[..., Result]
SERVER = ("--max-num-seqs", "16", "--max-num-batched-tokens", "256")
DRAFTS = (*SERVER, "--spec-method", "ngram", "--spec-tokens", "3")


def document(specgrid: Run, *words: str, status: int = 0) -> dict[str, Any]:
    result = specgrid("plan", "--json", "--no-stability", *words)
    assert (result.status, result.err) == (status, "")
    found: dict[str, Any] = json.loads(result.out)
    return found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "neither a plan nor a list of sizes"),
        ("[]", "neither a plan nor a list of sizes"),
        ("1 2 x", "'x' is no capture size in tokens"),
        ("[1, true]", "True is no capture size in tokens"),
        ("0", "0 is no capture size in tokens"),
        (
            "1, 512",
            "size 512 is above max_num_batched_tokens 256; vLLM would drop it",
        ),
    ],
)
def test_a_list_to_check_must_be_one(
    specgrid: Run, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text(content)
    result = specgrid("plan", "--check", str(path), *SERVER)
    assert (result.status, result.out) == (2, "")
    assert result.err == f"specgrid: {path}: {message}\n"


def test_a_list_too_small_to_cover_is_compared_with_plans_as_small(
    specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("8 1, 1")
    found = document(specgrid, "--check", str(path), *DRAFTS, status=1)
    assert found["check"]["file"] == str(path)
    (problem,) = found["check"]["problems"]
    assert problem.startswith("decode batches without any graph: ")
    assert found["after"]["num_graphs"] <= found["check"]["value"]["num_graphs"]


def test_a_plan_of_another_server_is_unfit_for_every_reason(
    specgrid: Run, tmp_path: Path
) -> None:
    saved = str(tmp_path / "plan.json")
    words = ("--graphs", "9", "--dispatcher", "direct", "--coverage", "none")
    document(specgrid, *words, "--save", saved, *DRAFTS)
    other = ("--max-num-seqs", "8", "--max-num-batched-tokens", "512")
    more = ("--spec-method", "ngram", "--spec-tokens", "2", "-cc.mode=0")
    found = document(
        specgrid, "--check", saved, "--dispatcher", "union", *other, *more, status=1
    )
    problems = found["check"]["problems"]
    assert problems[:3] == [
        "made for max_num_seqs 16, the server has 8",
        "made for num_speculative_tokens 3, the server has 2",
        "made for max_num_batched_tokens 256, the server has 512",
    ]
    assert "made for the direct dispatcher" in problems
    assert "made for cudagraph_mode FULL_AND_PIECEWISE" in problems
    drafted = (*DRAFTS, "--schedule", "[[1,8,3],[9,16,0]]")
    found = document(specgrid, "--check", saved, *drafted, status=1)
    assert "made for another schedule" in found["check"]["problems"]


def test_keyed_graphs_that_end_early_name_the_batches_beyond(
    specgrid: Run, tmp_path: Path
) -> None:
    saved = str(tmp_path / "plan.json")
    words = ("--graphs", "3", "--dispatcher", "direct", "--coverage", "none")
    made = document(specgrid, *words, "--save", saved, *SERVER)
    reach = max((n for _, n in made["plan"]["graphs"]), default=0)
    text = Path(saved).read_text()
    data = json.loads(text)
    assert data["dispatcher"] == "direct"
    found = document(specgrid, "--check", saved, *SERVER, status=int(reach < 16))
    if reach < 16:
        (problem,) = found["check"]["problems"]
        assert problem.endswith(f"{reach + 1}-16")
    else:
        assert found["check"]["problems"] == []


def test_a_time_limit_and_a_frontier_are_words_of_the_plan(
    specgrid: Run, tmp_path: Path
) -> None:
    result = specgrid("plan", "--time-limit", "60", "--frontier", *DRAFTS)
    assert result.status == 0
    assert "no budget was given: the fewest graphs within" in result.out
    assert "The best plan of every budget" in result.out
    assert "leaves no time" not in result.out
    free = specgrid("plan", "--graphs", "0", "--coverage", "none", *SERVER)
    assert "no graph at all" in free.out


def clock(monkeypatch: pytest.MonkeyPatch, *steps_s: float) -> None:
    """Seconds between looks of `specgrid plan` at its clock; then it stands still."""
    times = itertools.accumulate(
        itertools.chain((100.0, *steps_s), itertools.repeat(0))
    )
    watch = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("specgrid.cli.plan.time", watch)


def test_nothing_begins_once_the_time_limit_is_used_up(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--stability", "--time-limit", "60", *DRAFTS)
    note = "--time-limit was used up: the worth of each entry"
    # Looks: the begin, a solve's begin, what it has left, its end.
    clock(monkeypatch, 0, 0, 70)
    found = document(specgrid, "--graphs", "5", *words)
    assert (found["worth"], found["stability"]) == ([], None)
    assert f"{note} and the stability were left out" in found["notes"]
    clock(monkeypatch, 0, 0, 70)
    found = document(specgrid, "--graphs", "5", *words, "--no-stability")
    assert f"{note} were left out" in found["notes"]
    clock(monkeypatch, 0, 0, 70)
    found = document(specgrid, *words)
    assert "the time limit was used up: the best found" in found["plan"]["chosen"]
    assert found["worth"] == []


def test_the_stability_is_asked_only_where_its_solves_fit_the_time_limit(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--stability", "--graphs", "5", "--time-limit", "60", *DRAFTS)
    note = "--time-limit leaves no time for the stability"
    clock(monkeypatch, 0, 0, 10)
    found = document(specgrid, *words)
    assert found["stability"] is None
    assert found["worth"]
    assert note in found["notes"]
    clock(monkeypatch, 0, 0, 1)
    found = document(specgrid, *words)
    assert found["stability"] is not None
    assert note not in found["notes"]


def test_a_solve_gets_what_earlier_work_left_of_the_time_limit(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def solve(*given: Any, **how: Any) -> Any:
        limits.append(how["time_limit_s"])
        return plan_captures(*given, **how)

    monkeypatch.setattr("specgrid.cli.plan.plan_captures", solve)
    clock(monkeypatch, 20, 0, 5, 0, 1, 1, 0)
    document(specgrid, "--time-limit", "60", *DRAFTS)
    assert limits == [10, 33]  # of half of it, then of all of it


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("--spec-method", "eagle3", "--spec-model", "d", "--spec-tokens", "2"),
         "graphs include the drafter's own"),
        (("--spec-method", "extract_hidden_states", "--spec-tokens", "2"),
         "the drafter's own graphs (extract_hidden_states) are not counted"),
        (("--data-parallel-size", "2"),
         "data_parallel_size is 2: ranks that step together all use the graph of the "
         "widest"),
        (("--dispatcher", "direct"),
         "the direct dispatcher needs the specgrid plug-in"),
        (("--max-cudagraph-capture-size", "64"),
         "leave --max-cudagraph-capture-size out"),
    ],
)  # fmt: skip
def test_what_a_server_adds_to_the_notes(
    specgrid: Run, words: tuple[str, ...], note: str
) -> None:
    found = document(specgrid, "--graphs", "20", "--coverage", "none", *words, *SERVER)
    assert any(note in text for text in found["notes"])


def test_unread_flags_of_a_pasted_command_are_a_note(specgrid: Run) -> None:
    words = ("--", "vllm", "serve", "m", *SERVER, "--host", "x")
    found = document(specgrid, "--graphs", "9", *words)
    assert any("--host" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("penalty", "down", "up", "assumed", "text"),
    [
        (None, None, None, False, "No other eager penalty changes the plan."),
        (9000.0, -2000.0, None, False,
         "The plan stays the best for an eager penalty from 7.000 ms to anything "
         "(taken: 9.000 ms)."),
        (9000.0, None, 1000.0, True,
         "The plan stays the best for an assumed eager penalty from 0 to 10.000 ms "
         "(taken: 9.000 ms)."),
        (None, -500.0, None, True,
         "The plan stays the best while eager steps move 0.500 ms down and any amount "
         "up."),
        (None, None, 700.0, False,
         "The plan stays the best while eager steps move any amount down and 0.700 ms "
         "up."),
    ],
)  # fmt: skip
def test_how_far_the_eager_penalty_may_move_is_a_sentence(
    capsys: pytest.CaptureFixture[str],
    penalty: float | None,
    down: float | None,
    up: float | None,
    assumed: bool,
    text: str,
) -> None:
    stability = {
        "eager_penalty_us": penalty,
        "shift_down_us": down,
        "shift_up_us": up,
        "assumed": assumed,
    }
    module._render_stability(stability, Printer(terminal=False))
    assert capsys.readouterr().out.splitlines()[-1] == text


@pytest.mark.parametrize(
    ("penalty", "down", "up", "narrow"),
    [
        (None, -1.0, 1.0, False),
        (100.0, -40.0, None, True),
        (100.0, -60.0, None, False),
        (100.0, None, 90.0, True),
        (100.0, -60.0, 110.0, False),
    ],
)
def test_a_penalty_that_half_or_double_would_change_is_narrow(
    penalty: float | None, down: float | None, up: float | None, narrow: bool
) -> None:
    assert module._narrow(penalty, down, up) is narrow


def test_long_tables_are_cut_in_text_alone(
    specgrid: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(specgrid, "--graphs", "12", "--frontier", *DRAFTS)
    found["worth"] = [{"size": n, "us": float(n)} for n in range(1, 51)]
    found["frontier"] = [{**found["frontier"][0], "num_graphs": n} for n in range(101)]
    module._render_worth(found, Printer(terminal=False), [])
    module._render_frontier(found, Printer(terminal=False))
    lines = capsys.readouterr().out.splitlines()
    assert "... 10 more (--json has all)" in lines
    assert "101 in all (--json has them)" in lines
    assert [line.split()[0] for line in lines if line[:4] == " 100"] in ([], ["100"])
    found["worth"] = []
    module._render_worth(found, Printer(terminal=False), [])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["2XB", "GiB", "-1GiB", "1e3MiB", "100"])
def test_what_is_no_amount_of_memory_is_refused(specgrid: Run, value: str) -> None:
    result = specgrid("plan", "--memory", value, *SERVER)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert "is no size; write 2GiB or 512MiB" in result.err or (
        "has no unit; write 100GiB, 100MiB, or 100B for bytes" in result.err
    )


def test_without_a_budget_a_server_that_cannot_cover_gets_what_it_needs(
    specgrid: Run,
) -> None:
    """The server's own two graphs are too few for every query length."""
    words = (*DRAFTS, "--cudagraph-capture-sizes", "1")
    found = document(specgrid, *words)
    assert found["after"]["num_graphs"] > found["before"]["num_graphs"]
    assert found["after"]["eager_share"] <= found["before"]["eager_share"]
