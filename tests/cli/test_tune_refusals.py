# SPDX-License-Identifier: Apache-2.0
"""What `specgrid tune` refuses, it refuses in the words of its own flags."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from specgrid import Budget, plan_captures, tune_schedule, tune_with_captures

from .conftest import Result

Run = Callable[..., Result]
SERVER = ("--max-num-seqs", "64", "--spec-tokens", "3")
#: Parameters that are vLLM's names too; a server is described by them.
VLLMS = {"max_num_seqs", "num_speculative_tokens", "max_num_batched_tokens"}
#: The library's names no user of the command line has seen.
PARAMETERS = {
    name
    for function in (tune_schedule, tune_with_captures, plan_captures, Budget)
    for name in inspect.signature(function).parameters
    if "_" in name
} - VLLMS


@pytest.fixture
def steps(tmp_path: Path) -> str:
    path = tmp_path / "steps.csv"
    lines = ["batch,context,k,step_us"] + [
        f"{b},{c},{k},{7000 + 500 * k + 260 * b * (k + 1) + 0.05 * b * c}"
        for b in (1, 16, 32, 64)
        for c in (512, 8192)
        for k in (0, 1, 3)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("words", "server", "advice"),
    [
        (("--graphs", "1"), SERVER, "Raise --graphs to that\n"),
        (("--min-k", "9"), SERVER, "excluded by --min-k 9; measure"),
        (("--forbid-k", "0,1,3"), SERVER, "excluded by --forbid-k 0,1,3; measure"),
        (("--forbid-k", "0", "--min-k", "4"), SERVER, "--min-k 4 and --forbid-k 0;"),
        (("--tolerance", "0", "--max-entries", "1"), SERVER,
         " entries, more than --max-entries 1; raise one of them\n"),
        (("--acceptance", "0.7"), SERVER, "or leave it out with --forbid-k 3\n"),
        (("--context-columns", "4096"),
         ("--max-num-seqs", "200000", "--max-num-batched-tokens", "200000"),
         "cells; give a smaller --context-columns\n"),
        (("--graphs", "9"), (*SERVER, "--max-num-batched-tokens", "64"),
         "max_num_batched_tokens is 64; raise it"),
        (("--log", "zero.csv"), SERVER, ""),
        (("--log", "prefill.csv"), SERVER, ""),
        (("--latency", "empty.csv"), SERVER, ""),
        (("--latency", "negative.csv"), SERVER, ""),
        (("--acceptance", "0.3,0.7"), SERVER, "acceptance must not rise"),
        (("--acceptance", "2"), SERVER, "between 0 and 1"),
        (("--acceptance", "nan"), SERVER, ""),
    ],
)  # fmt: skip
def test_no_refusal_names_a_parameter_of_the_library(
    specgrid: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    steps: str,
    words: tuple[str, ...],
    server: tuple[str, ...],
    advice: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("zero.csv", "query_len,num_reqs,weight\n4,8,0\n"),
        ("prefill.csv", "query_len,num_reqs,weight\n9,64,1\n"),
        ("empty.csv", "batch,context,k,step_us\n"),
        ("negative.csv", "batch,context,k,step_us\n1,0,1,-5\n"),
    ):
        Path(name).write_text(text)
    given = [*words]
    if "--latency" not in words:
        given += ["--latency", steps]
    if "--acceptance" not in words:
        given += ["--acceptance", "0.7,0.45,0.3"]
    result = specgrid("tune", *given, *server)
    assert (result.status, result.out) == (2, ""), result
    assert result.err.count("\n") == 1
    assert advice in result.err
    assert not re.search(r"=(True|False)|\bNone\b", result.err)
    assert not PARAMETERS & set(re.findall(r"\w+", result.err))


def test_the_words_of_tune_are_those_the_library_says() -> None:
    """A pattern that matches nothing the library says would be a lost translation."""
    import specgrid
    from specgrid.cli import tune

    root = Path(specgrid.__file__).parent
    said = ""
    for name in ("_tune", "_tune_problem", "_tune_input", "_acceptance",
                 "_plan_solve"):  # fmt: skip
        source = (root / f"{name}.py").read_text()
        said += re.sub(r'"\s*\n\s*f?"', "", source) + "\n"
    for pattern, _ in tune._FLAGS:
        literal = pattern.replace("([0-9]+)", "{k}")
        assert literal in said, pattern


def test_the_names_watched_for_are_there() -> None:
    assert {"min_k", "max_entries", "full_coverage", "forbidden_k"} <= PARAMETERS
