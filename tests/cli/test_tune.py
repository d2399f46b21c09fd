# SPDX-License-Identifier: Apache-2.0
"""`specgrid tune`: from files to a schedule to paste, and what it refuses."""

from __future__ import annotations

import json
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
        (["--min-k", "9"], "excluded by min_k = 9"),
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
