# SPDX-License-Identifier: Apache-2.0
"""`specgrid cases`: files for `vllm bench forward --shapes`, and the commands."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Result

Run = Callable[..., Result]
SERVER = (
    *("--", "vllm", "serve", "org/model", "--max-num-seqs", "256", "-tp", "2"),
    *("--max-model-len", "16k", "--spec-method", "eagle3", "--spec-model", "org/draft"),
    *("--spec-tokens", "5"),
)


def cases(specgrid: Run, *words: str, server: Any = SERVER) -> dict[str, Any]:
    result = specgrid("cases", "--json", *words, *server)
    assert (result.status, result.err) == (0, ""), result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_one_run_per_k_with_its_file_and_command(specgrid: Run, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    found = cases(specgrid, "-o", str(folder))
    assert [run["k"] for run in found["runs"]] == [0, 1, 2, 3, 4, 5]
    assert found["num_points"] <= 60
    for run in found["runs"]:
        assert json.loads(Path(run["shapes_file"]).read_text()) == run["shapes"]
        words = shlex.split(run["command"])
        assert words[:2] == ["torchrun", "--nproc-per-node=2"]
        value = dict(itertools.pairwise(words))
        assert value["--shapes"] == run["shapes_file"]
        assert value["--model"] == "org/model"
        assert value["--max-model-len"] == "16k"
        assert value["--kv-len-jitter"] == "0"
        if run["k"] == 0:
            assert "--speculative-config" not in words
        else:
            assert json.loads(value["--speculative-config"]) == {
                "method": "eagle3",
                "model": "org/draft",
                "num_speculative_tokens": run["k"],
            }
        for case in run["shapes"]["cases"]:
            (request,) = case["requests"]
            assert request["num_draft_tokens"] == run["k"]
            assert request["kv_len"] + 6 <= 16_000


def test_schedule_edges_are_among_the_batches(specgrid: Run) -> None:
    found = cases(
        specgrid,
        *("--contexts", "2048", "--points", "96"),
        *("--schedule", "[[1,16,5],[17,256,1]]"),
    )
    assert {1, 16, 17, 256} <= set(found["batches"])


def test_exactly_the_points_asked_for(specgrid: Run) -> None:
    found = cases(specgrid, "--batches", "24,90", "--contexts", "4096", "--ks", "1,3")
    assert found["num_points"] == 4
    assert found["batches"] == [24, 90]
    assert not found["written"]


def test_large_points_ask_for_the_kv_size(specgrid: Run) -> None:
    found = cases(specgrid)
    assert any("--kv-tokens" in note for note in found["notes"])
    found = cases(specgrid, "--kv-tokens", "100000")
    assert not any("--kv-tokens" in note for note in found["notes"])
    for run in found["runs"]:
        for case in run["shapes"]["cases"]:
            (request,) = case["requests"]
            assert request["count"] * request["kv_len"] <= 100_000


def test_text_shows_the_commands_and_what_comes_next(specgrid: Run) -> None:
    result = specgrid("cases", *SERVER)
    assert result.status == 0
    assert result.out.count("bench forward") == 6
    assert "specgrid tune --latency cases/result_k0.json" in result.out
    assert "Nothing was written; add -o DIR" in result.out


def test_an_unknown_model_length_is_assumed_aloud(specgrid: Run) -> None:
    found = cases(specgrid, server=("--", "vllm", "serve", "m", "--spec-tokens", "2"))
    assert any("8192 is assumed" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--points", "3"], "3 points are too few for 6 values of k"),
        (["--batches", "4"], "--batches needs --contexts"),
        (["--ks", "1,x"], "'x' is no whole number"),
        (["--contexts", "0"], "must be at least 1"),
        (["-o", "/dev/null/x"], "cannot write the case files"),
    ],
)
def test_bad_input_is_one_line(specgrid: Run, words: list[str], reason: str) -> None:
    result = specgrid("cases", *words, *SERVER)
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert reason in result.err


def test_written_cases_say_what_to_add_and_where_they_end(
    specgrid: Run, tmp_path: Path
) -> None:
    words = ("--batches", "64", "--contexts", "64,4096", "--kv-tokens", "100000")
    folder = ("-o", str(tmp_path / "cases"))
    result = specgrid("cases", *words, *folder, *SERVER)
    assert result.status == 0
    lines = result.out.splitlines()
    assert (
        "Add the flags that change speed (dtype, quantization, KV cache type) to each."
        in lines
    )
    assert any(
        "contexts or points do not fit 100000 KV tokens and were left out" in line
        for line in lines
    )


def test_a_server_without_graphs_or_with_a_bad_schedule_still_has_cases(
    specgrid: Run,
) -> None:
    plain = ("--", "vllm", "serve", "m", "--max-num-seqs", "8", "--spec-tokens", "2")
    eager = cases(specgrid, server=(*plain, "--enforce-eager"))
    assert eager["num_points"] > 0
    refused = cases(specgrid, server=(*plain, "--max-cudagraph-capture-size", "0"))
    assert refused["batches"][-1] == 8
    bad = cases(specgrid, "--schedule", "[[2, 8, 1]]", server=plain)
    assert bad["batches"][0] == 1


def test_what_was_given_and_is_in_no_command_is_named(specgrid: Run) -> None:
    fast = ("--quantization", "fp8", "--kv-cache-dtype", "fp8", "--trust-remote-code")
    more = ("--max-num-batched-tokens", "4096")
    server = ("--", "VLLM_USE_V2_MODEL_RUNNER=1", *SERVER[1:], *fast, *more)
    notes = cases(specgrid, server=server)["notes"]
    assert (
        "Given and not in the commands: VLLM_USE_V2_MODEL_RUNNER, "
        "--max-num-batched-tokens, --quantization, --kv-cache-dtype, "
        "--trust-remote-code; add those that change speed to each." in notes
    )
    assert not any("not in the commands" in n for n in cases(specgrid)["notes"])


def test_a_drafter_nobody_named_is_asked_for(specgrid: Run) -> None:
    plain = ("--", "vllm", "serve", "m", "--max-num-seqs", "8", "--spec-tokens", "2")
    found = cases(specgrid, server=plain)
    words = shlex.split(found["runs"][-1]["command"])
    value = json.loads(words[words.index("--speculative-config") + 1])
    assert value == {"num_speculative_tokens": 2}
    note = "No method or drafter was given: add yours to --speculative-config."
    assert note in found["notes"]
    assert note not in cases(specgrid)["notes"]
