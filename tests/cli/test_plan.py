# SPDX-License-Identifier: Apache-2.0
"""``specgrid plan``: the answer, its honesty about assumptions, and bad input."""

from __future__ import annotations

import gzip
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specgrid import GraphSet
from specgrid._plan import CapturePlan
from specgrid.cli._progress import reading, working
from specgrid.io import read_log

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "vllm-0.33.0"
EAGLE3 = str(ROOT / "examples" / "eagle3-schedule.yaml")
LOG = str(ROOT / "examples" / "eagle3-256.log.gz")
SMALL = (
    *("--", "vllm", "serve", "m", "--max-num-seqs", "16"),
    *("--max-num-batched-tokens", "2048"),
    *("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'),
)
Call = Callable[..., Any]


def plan(specgrid: Call, *arguments: str) -> dict[str, Any]:
    result = specgrid("plan", "--json", *arguments)
    assert result.status in (0, 1), result.err
    document: dict[str, Any] = json.loads(result.out)
    return document


def workload(tmp_path: Path, text: str = "4,4,,900\n4,9,,80\n,,530,20\n") -> str:
    path = tmp_path / "steps.csv"
    path.write_text("query_len,num_reqs,num_tokens,weight\n" + text)
    return str(path)


def costs(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "costs.json"
    given = {
        "base_us": 6000,
        "per_token_us": 60,
        "piecewise_us": 2500,
        "eager_us": 8000,
        "graph_bytes": 2**24,
        "pool_bytes": 2**28,
        "graph_seconds": 0.2,
    }
    path.write_text(json.dumps(given | changes))
    return str(path)


def test_without_data_everything_is_labelled_as_assumed(specgrid: Call) -> None:
    document = plan(specgrid, "--graphs", "10", *SMALL)
    assert {s["name"] for s in document["data"]["sources"] if s["assumed"]} == {
        "workload",
        "FULL step",
        "PIECEWISE step",
        "eager step",
        "graph memory",
        "capture time",
    }
    assert document["stability"]["assumed"]
    text = specgrid("plan", "--graphs", "10", *SMALL).out
    for row in text.splitlines():
        if row.startswith(("steps ", "mean step ", "padding", "graph memory")):
            assert "ssumed" in row.lower() or "between" in row, row
    assert "ASSUMED, not measured: workload" in text
    assert "assumed eager penalty" in text


def test_measured_parts_are_not_labelled(specgrid: Call, tmp_path: Path) -> None:
    arguments = ("--log", workload(tmp_path), "--costs", costs(tmp_path), *SMALL)
    document = plan(specgrid, *arguments)
    assert not any(s["assumed"] for s in document["data"]["sources"])
    assert "ssumed" not in specgrid("plan", *arguments).out


def test_the_headline_is_what_dispatch_makes_of_the_plan(
    specgrid: Call, tmp_path: Path
) -> None:
    document = plan(
        specgrid,
        *("--log", workload(tmp_path), "--costs", costs(tmp_path), "--floor", "0"),
        *("--graphs", "5", *SMALL),
    )
    graphs = GraphSet(
        document["plan"]["sizes"], max_num_seqs=16, num_speculative_tokens=3
    )
    shares = {"FULL": 0.0, "PIECEWISE": 0.0, "NONE": 0.0}
    mean = 0.0
    for n, tokens, q, share in (
        (4, 16, 4, 0.9),
        (9, 36, 4, 0.08),
        (1, 530, None, 0.02),
    ):
        graph = graphs.dispatch(n, tokens, q)
        shares[graph.mode] += share
        padded = tokens if graph.mode == "NONE" else graph.num_tokens
        mean += share * (
            6000
            + 60 * padded
            + {"FULL": 0, "PIECEWISE": 2500, "NONE": 8000}[graph.mode]
        )
    after = document["after"]
    assert after["mean_step_us"] == pytest.approx(mean, rel=1e-6)
    assert after["full_share"] == pytest.approx(shares["FULL"])
    assert after["piecewise_share"] == pytest.approx(shares["PIECEWISE"])
    assert after["eager_share"] == pytest.approx(shares["NONE"])
    assert after["num_graphs"] == graphs.num_graphs <= 5
    assert after["graph_bytes"] == 2**28 + graphs.num_graphs * 2**24


def test_the_paste_ready_flags_are_a_valid_server(
    specgrid: Call, tmp_path: Path
) -> None:
    document = plan(specgrid, "--log", workload(tmp_path), "--graphs", "6", *SMALL)
    flags = document["plan"]["args"]
    assert flags[0] == "--cudagraph-capture-sizes"
    explained = specgrid("explain", "--json", *SMALL, *flags)
    assert explained.status == 0
    sizes = [s["tokens"] for s in json.loads(explained.out)["capture"]["sizes"]]
    assert sizes == document["plan"]["sizes"]
    text = specgrid("plan", "--log", workload(tmp_path), "--graphs", "6", *SMALL).out
    assert f"  {shlex.join(flags)}\n" in text


def test_a_log_gives_workload_times_graph_costs_and_kv_tokens(specgrid: Call) -> None:
    document = plan(
        specgrid, "--log", LOG, "--graphs", "60", "--no-stability", "--config", EAGLE3
    )
    assumed = {s["name"] for s in document["data"]["sources"] if s["assumed"]}
    assert assumed == {"eager step", "graph memory"}
    assert document["data"]["num_steps"] == 6000
    assert document["before"]["full_share"] < 0.7
    assert document["after"]["full_share"] > 0.9
    assert document["before"]["num_graphs"] == 716
    assert document["after"]["num_graphs"] <= 60
    assert document["after"]["mean_step_us"] < document["before"]["mean_step_us"]
    per_token = 41.25 * 2**30 / 345_600
    assert document["after"]["kv_tokens"] == round(
        document["after"]["graph_bytes"] / per_token
    )
    (report,) = document["data"]["files"]
    assert report["num_damaged"] == 0
    # The log's formula, which the fit must find again (examples/make_log.py).
    text = next(
        s["from"] for s in document["data"]["sources"] if s["name"] == "FULL step"
    )
    assert "6.85 ms + 18 us/token" in text


def test_damage_in_the_log_is_shown_with_its_line(
    specgrid: Call, tmp_path: Path
) -> None:
    lines = gzip.decompress(Path(LOG).read_bytes()).splitlines()
    lines[100] = lines[100][:-20]
    path = tmp_path / "server.log"
    path.write_bytes(b"\n".join(lines))
    out = specgrid(
        "plan",
        *("--log", str(path), "--graphs", "60", "--no-stability", "--config", EAGLE3),
    ).out
    assert "1 damaged" in out
    assert "line 101: iteration line cut short or broken" in out
    assert "1 steps are missing" in out


def test_observed_shares_of_the_metrics_tables_are_shown(specgrid: Call) -> None:
    arguments = ("--log", str(DATA / "server.log"), "--graphs", "8", *SMALL)
    observed = plan(specgrid, *arguments)["data"]["observed"]
    assert sum(observed.values()) == pytest.approx(1)
    assert observed["FULL"] > 0.5
    assert "--cudagraph-metrics tables say" in specgrid("plan", *arguments).out


def test_metrics_tables_alone_make_a_workload_where_they_are_certain(
    specgrid: Call, tmp_path: Path
) -> None:
    lines = (DATA / "server.log").read_text().splitlines()
    path = tmp_path / "server.log"
    path.write_text("\n".join(x for x in lines if "Iteration(" not in x) + "\n")
    sizes = ["1", "2", "4", "8", "12", "16", "24", "32", "48", "64"]
    document = plan(
        specgrid,
        *("--log", str(path), "--graphs", "8", "--no-stability", *SMALL),
        *("--cudagraph-capture-sizes", *sizes),
    )
    notes = " ".join(document["data"]["files"][0]["notes"])
    assert "deduced from --cudagraph-metrics rows" in notes
    assert 100 <= document["data"]["num_steps"] <= 120


def test_without_a_budget_the_smallest_good_plan_is_chosen(
    specgrid: Call, tmp_path: Path
) -> None:
    arguments = ("--log", workload(tmp_path), "--costs", costs(tmp_path), *SMALL)
    document = plan(specgrid, *arguments)
    assert "no budget was given" in document["plan"]["chosen"]
    best = plan(specgrid, "--graphs", "200", *arguments)
    mean = document["after"]["mean_step_us"]
    assert mean <= best["after"]["mean_step_us"] * 1.01
    fewer = plan(
        specgrid, "--graphs", str(document["after"]["num_graphs"] - 1), *arguments
    )
    assert fewer["after"]["mean_step_us"] > best["after"]["mean_step_us"] * 1.01


def test_worth_is_the_mean_step_without_the_entry(
    specgrid: Call, tmp_path: Path
) -> None:
    files = ("--log", workload(tmp_path), "--costs", costs(tmp_path))
    document = plan(specgrid, *files, "--graphs", "7", *SMALL)
    sizes = document["plan"]["sizes"]
    assert [w["size"] for w in document["worth"]] == sizes
    for entry in document["worth"]:
        rest = tmp_path / "rest.txt"
        rest.write_text(" ".join(str(s) for s in sizes if s != entry["size"]))
        check = plan(specgrid, *files, "--check", str(rest), *SMALL)["check"]
        assert check["value"]["mean_step_us"] == pytest.approx(
            document["after"]["mean_step_us"] + entry["us"]
        )


def test_beyond_the_stated_eager_penalty_another_plan_is_better(
    specgrid: Call, tmp_path: Path
) -> None:
    load = workload(tmp_path, "4,4,,900\n4,9,,80\n,,70,120\n")
    arguments = ("--log", load, "--coverage", "none", "--graphs", "3", *SMALL)
    document = plan(specgrid, "--costs", costs(tmp_path), *arguments)
    stability = document["stability"]
    down, up = stability["shift_down_us"], stability["shift_up_us"]
    assert stability["eager_penalty_us"] == 8000
    for shift, same in ((down, True), (up, True), (down, False), (up, False)):
        if shift is None:
            continue
        moved = 8000 + shift * (0.98 if same else 1.02)
        if moved < 0:
            continue
        again = plan(specgrid, "--costs", costs(tmp_path, eager_us=moved), *arguments)
        assert (again["plan"]["sizes"] == document["plan"]["sizes"]) == same
    assert (down, up) != (None, None)


def test_frontier_falls_and_ends_at_the_plan(specgrid: Call, tmp_path: Path) -> None:
    arguments = ("--log", workload(tmp_path), "--graphs", "12", *SMALL)
    assert plan(specgrid, *arguments)["frontier"] is None
    document = plan(specgrid, "--frontier", *arguments)
    points = document["frontier"]
    means = [p["mean_step_us"] for p in points]
    assert means == sorted(means, reverse=True)
    assert points[-1]["sizes"] == document["plan"]["sizes"]
    assert (
        "The best plan of every budget"
        in specgrid("plan", "--frontier", *arguments).out
    )


@pytest.mark.parametrize("dispatcher", ["union", "per-query-length", "direct"])
def test_a_saved_plan_is_read_back_and_checked(
    specgrid: Call, tmp_path: Path, dispatcher: str
) -> None:
    saved = str(tmp_path / "plan.json")
    files = ("--log", workload(tmp_path), "--costs", costs(tmp_path))
    made = plan(
        specgrid, *files, "--graphs", "8", "--dispatcher", dispatcher,
        "--save", saved, *SMALL,
    )  # fmt: skip
    assert CapturePlan.load(saved).sizes == made["plan"]["sizes"]
    again = plan(specgrid, *files, "--check", saved, *SMALL)
    assert again["plan"]["dispatcher"] == dispatcher
    assert again["check"]["problems"] == []
    same = f"the best with at most {made['after']['num_graphs']} graphs, as the one "
    assert again["plan"]["chosen"] == same + "checked"
    assert again["check"]["value"]["mean_step_us"] == made["after"]["mean_step_us"]
    assert again["check"]["slower_than_best"] == pytest.approx(0, abs=1e-12)
    if dispatcher != "union":
        assert "plug-in" in " ".join(made["notes"])


def test_a_plan_for_another_server_fails_the_check(
    specgrid: Call, tmp_path: Path
) -> None:
    saved = str(tmp_path / "plan.json")
    plan(specgrid, "--graphs", "8", "--no-stability", "--save", saved, *SMALL)
    result = specgrid(
        "plan", "--check", saved, "--no-stability", "--max-num-seqs", "24", *SMALL
    )
    assert result.status == 1
    assert "made for max_num_seqs 16, the server has 24" in result.out


def test_a_list_that_leaves_batches_eager_fails_the_check(
    specgrid: Call, tmp_path: Path
) -> None:
    path = tmp_path / "sizes.json"
    path.write_text("[16, 8]")
    result = specgrid("plan", "--check", str(path), "--no-stability", *SMALL)
    assert result.status == 1
    assert "decode batches without any graph: 5-16" in result.out


def test_steps_of_another_server_are_named(specgrid: Call, tmp_path: Path) -> None:
    load = workload(tmp_path, "4,4,,900\n4,40,,100\n6,2,,50\n2,3,,400\n,,9000,1\n")
    notes = " ".join(plan(specgrid, "--log", load, "--graphs", "8", *SMALL)["notes"])
    assert "101 of 1,451 steps do not fit max_num_seqs 16" in notes
    assert "query length 2, 6, which this server never drafts (4)" in notes


@pytest.mark.parametrize("k", [0, 2, 5])
def test_a_workload_of_other_draft_lengths_is_named_whatever_the_server_drafts(
    specgrid: Call, k: int
) -> None:
    load = str(ROOT / "examples" / "workload.csv")
    spec = ("--spec-tokens", str(k)) if k else ()
    words = ("--log", load, "--max-num-seqs", "256", "--graphs", "60", *spec)
    notes = " ".join(plan(specgrid, *words, "--no-stability")["notes"])
    assert (
        f"99% of the steps have query length 4, which this server never drafts "
        f"({k + 1})" in notes
    )
    same = (*words[:6], "--spec-tokens", "3")
    assert "never drafts" not in str(plan(specgrid, *same, "--no-stability")["notes"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--graphs", "0"), "graphs"),
        (("--memory", "2 parsecs"), "2GiB"),
        (
            ("--memory", "1MiB"),
            "at least 304 MiB. Raise the budget to that, or give --",
        ),
        (("--log", "none.log"), "cannot be opened"),
        (("--costs", "none.json"), "cannot be opened"),
        (("--log", str(DATA / "spec-varied.log")), "--enable-logging-iteration"),
        (("--log", EAGLE3), "--enable-logging-iteration"),
        (("--costs", str(DATA / "serve.json")), "unknown keys"),
        (("--check", EAGLE3), "no capture size"),
        (("--check", str(DATA / "serve.json")), "plan"),
        (("--force", "9999"), "9999"),
        (("--floor", "1"), "floor"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    specgrid: Call, arguments: tuple[str, ...], words: str
) -> None:
    result = specgrid("plan", *arguments, *SMALL)
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert words in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--enforce-eager",), "cudagraph_mode is NONE"),
        (("--max-num-seqs", "0"), "--max-num-seqs is 0"),
        (
            ("--compilation-config", '{"cudagraph_mode": "PIECEWISE"}'),
            "cudagraph_mode is PIECEWISE",
        ),
    ],
)
def test_servers_nothing_can_be_planned_for_are_refused(
    specgrid: Call, flags: tuple[str, ...], words: str
) -> None:
    result = specgrid("plan", *SMALL, *flags)
    assert result.status == 2
    assert words in result.err


class Terminal(io.StringIO):
    """A stream that says somebody is watching."""

    def isatty(self) -> bool:
        return True


def test_a_watched_log_draws_a_progress_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    with reading("reading server.log") as progress:
        assert progress is not None
        read_log(DATA / "server.log", progress)
    assert "reading server.log" in shown.getvalue()
    size = (DATA / "server.log").stat().st_size
    assert f"{size / 1000:.1f}/{size / 1000:.1f}" in shown.getvalue()
    with working("planning"):
        pass


def test_an_unwatched_log_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with reading("reading") as progress, working("planning"):
        assert progress is None
    assert capsys.readouterr().err == ""


def test_piped_output_has_no_colour_and_no_progress(specgrid: Call) -> None:
    result = specgrid("plan", "--graphs", "8", "--no-stability", *SMALL)
    assert "\x1b" not in result.out
    assert result.err == ""


def test_the_assumed_load_fits_a_server_of_few_tokens(specgrid: Any) -> None:
    result = specgrid(
        "plan", "--graphs", "20", "--max-num-seqs", "12", "--spec-tokens", "3",
        "--max-num-batched-tokens", "64",
    )  # fmt: skip
    assert (result.status, result.err) == (0, "")
