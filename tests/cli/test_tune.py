# SPDX-License-Identifier: Apache-2.0
"""`specgrid tune`: from files to a schedule to paste, and what it refuses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specgrid import Schedule
from specgrid._tune_jitter import align_contexts

from .conftest import Result

Run = Callable[..., Result]
DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"
SERVER = (
    *("--", "vllm", "serve", "m", "--max-num-seqs", "64"),
    *("--speculative-config", '{"method": "eagle3", "model": "d", "draft_tp": 1, '
      '"num_speculative_tokens": 3}'),
)  # fmt: skip


def step_us(batch: int, context: int, k: int) -> float:
    # Long contexts make drafts nearly free, so K rises with context.
    return 7000 + 500 * k + 260 * batch * (k + 1) + 0.05 * batch * context


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., str]:
    def write(
        contexts: Any = (2048,), batches: Any = (1, 16, 32, 64), **names: str
    ) -> str:
        path = tmp_path / names.get("name", "steps.csv")
        scale = float(names.get("scale", "1"))
        lines = ["batch,context,k,step_us"] + [
            f"{b},{c},{k},{scale * step_us(b, c, k)}"
            for b in batches
            for c in contexts
            for k in (0, 1, 3)
        ]
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write


def tune(specgrid: Run, *words: str) -> dict[str, Any]:
    result = specgrid("tune", "--json", *words, *SERVER)
    assert (result.status, result.err) == (0, ""), result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_a_schedule_by_batch_keeps_the_users_own_settings(
    specgrid: Run, steps: Any
) -> None:
    found = tune(specgrid, "--latency", steps(), "--acceptance", "0.7,0.45,0.3")
    assert found["schema"] == "specgrid.tune"
    assert not found["is_2d"]
    assert Schedule(found["schedule"]).batch_ranges[-1][1] == 64
    assert found["loss"]["worst"] <= 0.02
    settings = found["settings"]
    assert settings["flag"] == "--speculative-config"
    assert settings["value"] == {
        "method": "eagle3",
        "model": "d",
        "draft_tp": 1,
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": found["schedule"],
    }
    assert [gain["k"] for gain in found["gains"]] == [0, 1, 3]
    assert all(g["low"] < g["factor"] < g["high"] for g in found["gains"])
    assert found["not_measured"] == []
    text = specgrid(
        "tune", "--latency", steps(), "--acceptance", "0.7,0.45,0.3", *SERVER
    ).out
    for words in ("no speculation", "Entries against loss", "Paste", "eagle3"):
        assert words in text


def test_a_schedule_by_context_goes_to_the_plug_in(specgrid: Run, steps: Any) -> None:
    found = tune(
        specgrid,
        *("--latency", steps(contexts=(512, 8192, 32768))),
        *("--acceptance", "0.7,0.45,0.3", "--max-entries", "5"),
    )
    assert found["is_2d"]
    assert len(found["entries"]) <= 5
    assert found["settings"]["flag"] == "--additional-config"
    rows = found["settings"]["value"]["specgrid"]["schedule"]
    strict = Schedule(rows).lookup(64, 3)
    ragged = Schedule(found["entries"], ragged=True).lookup(64, 3)
    assert strict.digest == ragged.digest
    assert strict[48, 40_000] >= strict[48, 100]
    flat = tune(
        specgrid,
        *("--latency", steps(contexts=(512, 8192, 32768)), "--context-columns", "3"),
        *("--acceptance", "0.7,0.45,0.3", "--max-entries", "1"),
    )
    assert len(flat["schedule"]) == 1


def test_what_was_not_measured_is_said_with_the_command_for_it(
    specgrid: Run, steps: Any
) -> None:
    words = (
        *("--latency", steps(batches=(1, 16, 32))),
        *("--acceptance", "0.7,0.45,0.3", "--max-entries", "3"),
    )
    found = tune(specgrid, *words)
    (area,) = found["not_measured"]
    assert area["batches"] == [[33, 64]]
    assert {"batch": 64, "context": 2048, "k": 0} in found["measure_next"]
    text = specgrid("tune", *words, *SERVER).out
    assert "batches 33-64" in text
    assert "specgrid cases --batches 4,64 --contexts 2048 --ks 0,1,3" in text


def test_a_workload_weighs_the_batches(
    specgrid: Run, steps: Any, tmp_path: Path
) -> None:
    load = tmp_path / "load.csv"
    load.write_text("query_len,num_reqs,count\n4,2,5000\n4,500,1\n9,3,1\n")
    found = tune(
        specgrid,
        *("--latency", steps(), "--acceptance", "0.7,0.45,0.3"),
        *("--log", str(load), "--max-entries", "1"),
    )
    # All work is at batch 2, so its best K alone decides.
    assert found["schedule"] == [[1, 64, 3]]
    assert found["loss"] == {"weighted": 0.0, "worst": 0.0}
    assert any("more than max_num_seqs = 64" in note for note in found["notes"])
    assert any("draft more than the 3 tokens" in note for note in found["notes"])


def test_captures_are_chosen_with_the_schedule(specgrid: Run, steps: Any) -> None:
    words = ("--latency", steps(), "--acceptance", "0.7,0.45,0.3", "--graphs", "40")
    found = tune(specgrid, *words, "--max-entries", "4")["captures"]
    assert found["num_graphs"] <= found["max_graphs"] == 40
    assert found["args"][0] == "--cudagraph-capture-sizes"
    assert [int(x) for x in found["args"][1:]] == found["sizes"]
    assert found["frontier"][-1]["us_per_token"] == found["us_per_token"]
    text = specgrid("tune", *words, *SERVER).out
    assert "With at most 40 graphs" in text
    assert "priced by assumption" in text


def test_real_files_of_vllm(specgrid: Run) -> None:
    forward = [f"--latency={DATA}/forward-k{k}.json" for k in (0, 1, 3)]
    found = tune(specgrid, *forward, "--acceptance", str(DATA / "requests.jsonl"))
    # The files were made with --kv-len-jitter: one context per batch asked for.
    assert any("--kv-len-jitter 0" in note for note in found["notes"])
    assert found["acceptance"][0]["method"] == "product-limit"
    assert found["scope"] == "target_and_drafter"
    sweep = str(DATA / "sweep")
    found = tune(specgrid, "--latency", sweep, "--acceptance", sweep)
    assert found["scope"] == "end_to_end"
    assert any("failed and are missing" in note for note in found["notes"])


def test_jittered_contexts_are_aligned_only_where_they_form_groups() -> None:
    notes: list[str] = []
    jittered = [
        (1, 1435, 0, 7000.0), (8, 1018, 0, 8000.0), (32, 1088, 0, 10_000.0),
        (1, 9600, 0, 7100.0), (8, 7672, 0, 8600.0), (32, 8953, 0, 13_000.0),
    ]  # fmt: skip
    aligned = align_contexts(jittered, notes)
    assert {c for _, c, _, _ in aligned} == {1088, 8953}
    assert len(notes) == 2
    # Moved along the batch's own line.
    moved = 8000.0 + (8600.0 - 8000.0) / (7672 - 1018) * (1088 - 1018)
    assert aligned[1][3] == pytest.approx(moved)
    assert aligned[2] == jittered[2]
    regular = [(b, c, 0, 1.0) for b in (1, 8) for c in (100, 1000)]
    assert align_contexts(regular, notes) == regular
    wedge = [(1, 1000, 0, 1.0), (1, 32_000, 0, 1.0), (64, 1000, 0, 1.0),
             (64, 4000, 0, 1.0)]  # fmt: skip
    assert align_contexts(wedge, notes) == wedge
    far = [(1, 1000, 0, 1.0), (8, 9000, 0, 1.0)]
    assert align_contexts(far, notes) == far
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("acceptance", "words"),
    [
        ("0.7,1.3", "position 2 must be between 0 and 1"),
        ("0.7,nan", "between 0 and 1"),
        ("0.3,0.5,0.6", "must not rise"),
        ("0.7", "acceptance has 1 values, so k = 3"),
        ("no-such-file.json", "no-such-file.json"),
    ],
)
def test_bad_acceptance_is_one_line(
    specgrid: Run, steps: Any, acceptance: str, words: str
) -> None:
    result = specgrid("tune", "--latency", steps(), "--acceptance", acceptance, *SERVER)
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert words in result.err


def test_bad_latency_is_one_line(specgrid: Run, steps: Any, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text((DATA / "forward-k3.json").read_text()[:2000])
    contradiction = tmp_path / "twice.csv"
    contradiction.write_text("batch,context,k,step_us\n1,0,0,7000\n1,0,0,9900\n")
    mixed = [DATA / "serve.json", steps()]
    for files in ([cut], [contradiction], mixed):
        words = [f"--latency={file}" for file in files]
        result = specgrid("tune", *words, "--acceptance", "0.7,0.45,0.3", *SERVER)
        assert result.status == 2, files
        assert result.err.count("\n") == 1


def test_milliseconds_in_a_microsecond_column_are_flagged(
    specgrid: Run, steps: Any
) -> None:
    found = tune(
        specgrid, "--latency", steps(scale="0.001"), "--acceptance", "0.7,0.45,0.3"
    )
    assert any("are the times milliseconds?" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--max-entries", "0"], "--max-entries"),
        (["--tolerance", "2"], "--tolerance"),
        (["--forbid-k", "x"], "'x' is no whole number"),
        (["--costs", "f.json"], "give --graphs N"),
        (["--min-k", "9"], "excluded by --min-k 9"),
        (["--tolerance", "0", "--max-entries", "1"], "needs"),
    ],
)
def test_bad_options_are_one_line(
    specgrid: Run, steps: Any, extra: list[str], words: str
) -> None:
    result = specgrid(
        *("tune", "--latency", steps(), "--acceptance", "0.7,0.45,0.3"),
        *(*extra, *SERVER),
    )
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert words in result.err


RATES = ("--acceptance", "0.7,0.45,0.3")


def test_a_schedule_by_context_is_shown_by_context(specgrid: Run, steps: Any) -> None:
    words = ("--latency", steps(contexts=(512, 8192, 32768), batches=(1, 16, 32)))
    result = specgrid("tune", *words, *RATES, "--max-entries", "5", *SERVER)
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "rows in strict form) from 27 points" in lines[0]
    assert lines[1].split() == ["batches", "contexts", "K"]
    assert lines[lines.index("Not measured (the nearest measured K is used)") + 1] == (
        "contexts 1-: batches 33-64"
    )
    assert any(line.startswith("--additional-config '{") for line in lines)
    needs = "Needs the specgrid plug-in: a schedule by context has no vLLM flag."
    assert needs in lines


def test_a_server_without_a_drafter_is_told_to_add_one(
    specgrid: Run, steps: Any
) -> None:
    bare = ("--", "vllm", "serve", "m", "--max-num-seqs", "64")
    result = specgrid("tune", "--latency", steps(), *RATES, *bare)
    assert result.status == 0
    assert "Add your method and drafter to it." in result.out


COSTS = {"full_us": {"4": 7000, "256": 8000}}


@pytest.mark.parametrize(
    ("costs", "notes"),
    [
        (
            COSTS,
            [
                "The eager penalty is assumed to be 12 ms.",
                "The PIECEWISE penalty is assumed to be 3 ms.",
            ],
        ),
        (
            {"full_us": {"4": 7000}, "eager_us": 9000},
            ["The PIECEWISE penalty is assumed to be 3 ms."],
        ),
        (COSTS | {"eager_us": 9000, "piecewise_us": 2000}, []),
        (COSTS | {"eager_us": {"4": 19000}, "piecewise_us": {"4": 9000}}, []),
    ],
)
def test_costs_of_captures_are_measured_or_assumed_aloud(
    specgrid: Run,
    steps: Any,
    tmp_path: Path,
    costs: dict[str, Any],
    notes: list[str],
) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(costs))
    words = ("--latency", steps(), *RATES, "--graphs", "30", "--costs", str(file))
    found = tune(specgrid, *words, "--max-entries", "2")
    assert [n for n in found["notes"] if "penalty is assumed" in n] == notes
    assert not any("priced by assumption" in n for n in found["notes"])
    assert 0 < found["captures"]["num_graphs"] <= 30


def test_costs_without_full_steps_are_refused(
    specgrid: Run, steps: Any, tmp_path: Path
) -> None:
    file = tmp_path / "costs.json"
    file.write_text('{"graph_bytes": 1000}')
    words = ("--latency", steps(), *RATES, "--graphs", "30", "--costs", str(file))
    result = specgrid("tune", *words, *SERVER)
    assert (result.status, result.out) == (2, "")
    assert result.err.endswith(f"{file} has no FULL step times\n")


@pytest.mark.parametrize(
    ("words", "contexts", "message"),
    [
        (
            ("--context-columns", "1"),
            (512, 8192),
            "2 contexts were measured; --context-columns must be at least 2, or take "
            "--ignore-context",
        ),
        (
            ("--forbid-k", "1,3", "--min-k", "1"),
            (512,),
            "every measured k (0, 1, 3) is excluded by --min-k 1 and "
            "--forbid-k 1,3; measure others or allow them",
        ),
    ],
)
def test_what_cannot_be_tuned_is_one_line(
    specgrid: Run, steps: Any, words: Any, contexts: Any, message: str
) -> None:
    result = specgrid(
        "tune", "--latency", steps(contexts=contexts), *RATES, *words, *SERVER
    )
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


def test_steps_without_drafts_alone_are_refused(specgrid: Run, tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("batch,k,step_us\n1,0,7000\n64,0,9000\n")
    bare = ("--", "vllm", "serve", "m", "--max-num-seqs", "64")
    result = specgrid("tune", "--latency", str(file), *RATES, *bare)
    assert result.status == 2
    assert "only K = 0 was measured; measure steps with drafts too" in result.err


def test_contexts_are_ignored_thinned_and_filled(specgrid: Run, steps: Any) -> None:
    alike = ("--latency", steps(contexts=(512, 600)), *RATES, "--max-entries", "2")
    assert not tune(specgrid, *alike, "--ignore-context")["is_2d"]
    words = ("--latency", steps(contexts=(512, 8192)), *RATES, "--max-entries", "2")
    grid = tune(specgrid, *words, "--context-columns", "2")["grid"]
    assert len(grid["contexts"]) == 2
    near = ("--latency", steps(contexts=(10, 11)), *RATES, "--max-entries", "1")
    assert len(tune(specgrid, *near)["grid"]["contexts"]) == 2
    many = steps(contexts=range(100, 400, 2), batches=(1, 64))
    found = tune(specgrid, "--latency", many, *RATES, "--max-entries", "1")
    assert len(found["grid"]["contexts"]) == 128
    note = "150 contexts were measured; 128 of them are evaluated"
    assert any(n.startswith(note) for n in found["notes"])


def test_damaged_points_and_a_workload_by_context_are_noted(
    specgrid: Run, steps: Any, tmp_path: Path
) -> None:
    path = Path(steps(contexts=(512, 8192)))
    path.write_text(path.read_text() + "many,1,1,1\n")
    load = tmp_path / "load.csv"
    load.write_text("query_len,num_reqs,count\n4,2,5\n1,2,5\n2,64,5\n")
    words = ("--latency", str(path), *RATES, "--log", str(load), "--max-entries", "2")
    notes = tune(specgrid, *words)["notes"]
    assert any(n.startswith("1 records of") for n in notes)
    unknown = "The workload does not say at which context steps ran"
    assert any(n.startswith(unknown) for n in notes)


def test_a_workload_of_other_servers_is_refused(
    specgrid: Run, steps: Any, tmp_path: Path
) -> None:
    load = tmp_path / "load.csv"
    load.write_text("query_len,num_reqs,count\n4,500,1\n")
    words = ("--latency", steps(), *RATES, "--log", str(load))
    result = specgrid("tune", *words, *SERVER)
    assert result.status == 2
    assert "no uniform decode step of the workload fits this server" in result.err


def test_a_real_log_weighs_with_counted_acceptance(specgrid: Run, steps: Any) -> None:
    words = ("--latency", steps(), "--log", str(DATA / "server.log"))
    before = ("--acceptance-before", str(DATA / "metrics-1.txt"))
    found = tune(specgrid, *words, "--acceptance", str(DATA / "metrics-2.txt"), *before)
    assert found["acceptance"][0]["num_drafts"] > 0
    assert found["loss"]["weighted"] <= found["loss"]["worst"]
    assert any("left out" in note for note in found["notes"]) is False


def test_acceptance_is_counted_by_context_where_requests_say_it(
    specgrid: Run, steps: Any
) -> None:
    """Contexts no request reached take the nearest range, in every part of it."""
    words = ("--latency", steps(contexts=(512, 8192, 32768)))
    found = tune(
        specgrid, *words, "--acceptance", str(DATA / "requests.jsonl"),
        "--max-entries", "4",
    )  # fmt: skip
    assert len(found["acceptance"]) > 1
    assert found["acceptance"][-1]["context_hi"] < 32768
    assert [line["context"] for line in found["throughput"]] == [512, 8192, 32768]
    words = (*words, "--acceptance", str(DATA / "requests.jsonl"))
    assert "Gain" in specgrid("tune", *words, *SERVER).out


def test_long_schedules_and_many_areas_are_cut_in_text_alone(
    specgrid: Run, capsys: pytest.CaptureFixture[str], steps: Any
) -> None:
    from specgrid.cli import tune as module
    from specgrid.cli._output import Printer

    document = tune(specgrid, "--latency", steps(), *RATES, "--graphs", "40")
    document["schedule"] = [[i, i, 1] for i in range(1, 51)]
    document["within_noise"] = [
        {"context_lo": c, "context_hi": c, "batches": [[1, 2]]} for c in range(10)
    ]
    document["partly_measured"] = [
        {"context_lo": 0, "context_hi": 2**31 - 1, "batches": [[3, 4]]}
    ]
    document["captures"]["change_below"] = 12
    document["measure_next"] = []
    module._render(document, Printer())
    text = capsys.readouterr().out
    assert "... 10 more (--json has all)" in text
    assert "... 2 more (--json has all)" in text
    assert "contexts 7-7: batches 1-2\n" in text
    assert "Some K not measured (it could not be chosen)\nbatches 3-4\n" in text
    before = [p for p in document["captures"]["frontier"] if p["num_graphs"] < 12][-1]
    assert (
        "With fewer than 12 graphs another schedule is better: "
        f"{before['schedule']} with {before['num_graphs']}." in text
    )
    assert "Measure next" not in text
    document["captures"]["change_below"] = None
    module._render(document, Printer())
    assert "No smaller number of graphs asks for another" in capsys.readouterr().out


# -- what is pasted --------------------------------------------------------------------


def flat(specgrid: Run, tmp_path: Path, *words: str) -> tuple[dict[str, Any], str]:
    """The document and the text of a tuning from plain steps of batches 1 to 64."""
    path = tmp_path / "flat.csv"
    rows = [
        f"{b},2048,{k},{7000 + 500 * k + 260 * b * (k + 1)}"
        for b in (1, 16, 32, 64)
        for k in (0, 1, 2, 3)
    ]
    path.write_text("\n".join(["batch,context,k,step_us", *rows]) + "\n")
    given = ("tune", "--latency", str(path), *RATES)
    text = specgrid(*given, *words).out
    return json.loads(specgrid(*given, "--json", *words).out), text


PLAIN = ("--max-num-seqs", "64", "--spec-tokens", "3")


def test_the_pair_of_schedule_and_captures_is_what_is_pasted(
    specgrid: Run, tmp_path: Path
) -> None:
    found, text = flat(specgrid, tmp_path, "--graphs", "20", *PLAIN)
    pair, settings = found["captures"], found["settings"]
    assert pair["schedule"] != found["schedule"]
    rows = settings["value"]["num_speculative_tokens_per_batch_size"]
    assert rows == pair["schedule"]
    assert settings["args"] == [
        "--speculative-config",
        json.dumps(settings["value"]),
        "--cudagraph-capture-sizes",
        *map(str, pair["sizes"]),
    ]
    pasted = text.partition("\nPaste\n")[2]
    assert shlex.join(settings["args"]) in pasted
    below = pair["change_below"]
    other = [p for p in pair["frontier"] if p["num_graphs"] < below][-1]
    assert other["schedule"] != pair["schedule"]
    assert (
        f"With fewer than {below} graphs another schedule is better: "
        f"{json.dumps(other['schedule'])} with {other['num_graphs']}." in text
    )


def test_a_drafter_nobody_named_is_not_pasted(specgrid: Run, tmp_path: Path) -> None:
    found, text = flat(specgrid, tmp_path, *PLAIN)
    assert "method" not in found["settings"]["value"]
    assert "Add your method and drafter to it." in text
    named, text = flat(specgrid, tmp_path, *PLAIN, "--spec-method", "ngram")
    assert named["settings"]["value"]["method"] == "ngram"
    assert "Add your method" not in text
    # vLLM reads the method from the drafter; a guess could contradict it.
    drafter, text = flat(specgrid, tmp_path, *PLAIN, "--spec-model", "d")
    assert drafter["settings"]["value"]["model"] == "d"
    assert "method" not in drafter["settings"]["value"]
    assert "Add your method" not in text


def test_one_k_for_all_batches_needs_no_schedule(specgrid: Run, tmp_path: Path) -> None:
    found, _ = flat(specgrid, tmp_path, *PLAIN, "--max-entries", "1")
    assert found["schedule"] == [[1, 64, 1]]
    assert found["settings"]["value"] == {"num_speculative_tokens": 1}
    assert found["lint"] == []
    words = (*PLAIN, "--max-entries", "1", "--forbid-k", "1,2,3")
    never, text = flat(specgrid, tmp_path, *words)
    assert [row["id"] for row in never["lint"]] == ["schedule-constant"]
    assert "fix: drop --speculative-config" in text


def test_lint_speaks_of_the_server_with_the_tuned_settings(
    specgrid: Run, tmp_path: Path
) -> None:
    """vLLM #45963."""
    words = ("--", "vllm", "serve", "m", "-dp", "4", "--max-num-seqs", "64")
    found, text = flat(specgrid, tmp_path, *words)
    assert [row["id"] for row in found["lint"]] == ["schedule-with-data-parallel"]
    assert "vLLM drops the schedule with data_parallel_size 4" in text
    alone, _ = flat(specgrid, tmp_path, "--", *words[1:4], *PLAIN[:2])
    ids = [row["id"] for row in alone["lint"]]
    assert ids == ["hidden-graphs", "unreachable-graphs"]
    maximum = ("--max-cudagraph-capture-size", "256")
    both, _ = flat(specgrid, tmp_path, "--graphs", "20", *PLAIN, *maximum)
    assert [row["id"] for row in both["lint"]] == ["list-and-maximum-disagree"]


def test_lint_reads_all_that_was_given(specgrid: Run, tmp_path: Path) -> None:
    """vLLM's own --config file inside the command counts as well."""
    file = tmp_path / "serve.yaml"
    file.write_text("max-num-seqs: 64\ndata-parallel-size: 2\nspec-method: ngram\n")
    words = ("--", "vllm", "serve", "m", "--config", str(file), "--spec-tokens", "3")
    found, _ = flat(specgrid, tmp_path, *words)
    assert found["settings"]["value"]["method"] == "ngram"
    assert [row["id"] for row in found["lint"]] == ["schedule-with-data-parallel"]
    # The schedule tried before is not the one that is pasted.
    tried = ("--schedule", "[[1,64,2]]", *PLAIN, "--max-entries", "1")
    assert flat(specgrid, tmp_path, *tried)[0]["lint"] == []


def test_settings_vllm_would_refuse_beside_what_was_given_are_told(
    specgrid: Run, tmp_path: Path
) -> None:
    sizes = ("-cc.cudagraph_capture_sizes=[8,64,256]",)
    words = ("--graphs", "20", "--", "vllm", "serve", "m", *PLAIN, *sizes)
    (row,) = flat(specgrid, tmp_path, *words)[0]["lint"]
    assert row["id"] == "refused"
    assert "both set cudagraph_capture_sizes; vLLM refuses to start" in row["message"]


def test_a_tuned_method_that_v1_alone_has_is_told_of(
    specgrid: Run, tmp_path: Path
) -> None:
    found, _ = flat(specgrid, tmp_path, *PLAIN, "--spec-method", "suffix")
    assert "schedule-on-v1" in [row["id"] for row in found["lint"]]


# -- what cannot be met or meant -------------------------------------------------------


def test_a_limit_no_cell_meets_is_said_first_and_fails(
    specgrid: Run, steps: Any
) -> None:
    words = ("tune", "--latency", steps(), *RATES, "--max-ms-per-token")
    result = specgrid(*words, "1", *SERVER)
    assert (result.status, result.err) == (1, "")
    first = result.out.splitlines()[0]
    assert first.startswith("No cell meets the limit of 1 ms a token with any K")
    document = json.loads(specgrid(*words, "1", "--json", *SERVER).out)
    least = document["limit"]["least_ms_per_token"]
    assert 1 < least < 7
    some = specgrid(*words, str(1.01 * least), *SERVER)
    assert some.status == 0
    assert " of 64 cells miss the limit" in some.out.splitlines()[0]
    ample = specgrid(*words, "1000", *SERVER)
    assert ample.status == 0
    assert ample.out.startswith("Schedule of")


def test_values_of_acceptance_have_no_scrape_before(specgrid: Run, steps: Any) -> None:
    before = ("--acceptance-before", str(DATA / "metrics-1.txt"))
    result = specgrid("tune", "--latency", steps(), *RATES, *before, *SERVER)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert "0.7,0.45,0.3 is values" in result.err
