# SPDX-License-Identifier: Apache-2.0
"""`specgrid convert`: public schedules of other engines and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specgrid import Schedule

from .conftest import Result

Run = Callable[..., Result]
END = 2**31 - 1


@pytest.mark.parametrize(
    ("source", "target", "keys", "given", "expected"),
    [
        # TensorRT-LLM #10860.
        (
            "tensorrt-llm", "vllm", "upper", {"4": 4, "8": 2, "32": 1},
            [[1, 4, 4], [5, 8, 2], [9, 32, 1], [33, END, 0]],
        ),
        (
            "tensorrt-llm", "vllm", "lower", {"1": 4, "5": 2, "9": 1, "33": 0},
            [[1, 4, 4], [5, 8, 2], [9, 32, 1], [33, END, 0]],
        ),
        # vLLM's documented schedule with gaps, as upper bounds.
        (
            "vllm", "tensorrt-llm", None, [[1, 16, 3], [32, 128, 2], [256, 2048, 0]],
            {"31": 3, "255": 2},
        ),
        # SGLang's adaptive defaults (#21599, #24055).
        (
            "sglang", "vllm", None, {"1": [1, 3, 5, 7], "8": [0, 1, 3], "32": [0, 1],
                                     "64": [0]},
            [[1, 7, 7], [8, 31, 3], [32, 63, 1], [64, END, 0]],
        ),
        ("vllm", "sglang", None, [[1, 7, 3], [8, 64, 1]], {"1": [3], "8": [1]}),
        ("tensorrt-llm", "sglang", "upper", {"4": 4}, {"1": [4], "5": [0]}),
        (
            "vllm", "vllm", None,
            {"method": "mtp", "num_speculative_tokens_per_batch_size": [[1, 8, 2]]},
            [[1, 8, 2]],
        ),
    ],
)  # fmt: skip
def test_public_schedules(
    specgrid: Run, source: str, target: str, keys: str | None, given: object,
    expected: object,
) -> None:  # fmt: skip
    extra = [] if keys is None else ["--keys", keys]
    result = specgrid(
        "convert", "--from", source, "--to", target, *extra, json.dumps(given)
    )
    assert result.status == 0, result.err
    assert json.loads(result.out) == expected


def test_there_and_back_is_the_same_schedule(specgrid: Run) -> None:
    rows = [[1, 16, 5], [17, 32, 3], [33, 64, 1], [65, 128, 0]]
    there = specgrid(
        "convert", "--from", "vllm", "--to", "tensorrt-llm", json.dumps(rows)
    )
    back = specgrid(
        *("convert", "--from", "tensorrt-llm", "--keys", "upper", "--to", "vllm"),
        *("--max-num-seqs", "128", there.out),
    )
    assert json.loads(back.out) == rows


def test_files_and_standard_input(specgrid: Run, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text('{"4": 4}')
    words = ("convert", "--from", "tensorrt-llm", "--keys", "upper", "--to", "vllm")
    from_file = specgrid(*words, str(path)).out
    assert specgrid(*words, "-", stdin='{"4": 4}').out == from_file
    found = json.loads(specgrid(*words, "--json", str(path)).out)
    assert found["schema"] == "specgrid.convert"
    assert found["result"] == json.loads(from_file)


@pytest.mark.parametrize(
    ("words", "given", "reason"),
    [
        (["tensorrt-llm", "vllm"], '{"4": 4}', "--keys upper or --keys lower is requi"),
        (["vllm", "sglang", "--keys", "upper"], "[[1,2,3]]", "--keys is for"),
        (["vllm", "sglang"], "[[1,8,1,100,3],[1,8,101,200,1]]", "know no context"),
        (["vllm", "tensorrt-llm"], "[[1,8,1,9,3],[1,8,10,20,1]]", "know no context"),
        (["vllm", "tensorrt-llm"], "[[1,8,1],[9,16,3]]", "largest k (3) at batch 1"),
        (["vllm", "sglang"], "[[2,8,3]]", "must start at 1"),
        (["vllm", "sglang"], '{"method": "mtp"}', "without num_speculative_tokens_per"),
        (["vllm", "sglang"], "[[1,8,3]", "not valid JSON"),
        (["vllm", "sglang"], "missing.json", "missing.json: cannot be opened"),
        (
            ["tensorrt-llm", "vllm", "--keys", "upper"],
            '{"4": 4, "4": 2}',
            "given twice",
        ),
        (["tensorrt-llm", "vllm", "--keys", "upper"], '{"0": 4}', "between 1 and"),
    ],
)
def test_bad_input_is_one_line(
    specgrid: Run, words: list[str], given: str, reason: str
) -> None:
    source, target, *extra = words
    result = specgrid("convert", "--from", source, "--to", target, *extra, given)
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert reason in result.err


def notes_of(specgrid: Run, target: str, given: str, *words: str) -> list[str]:
    result = specgrid(
        "convert", "--from", "vllm", "--to", target, "--json", *words, given
    )
    assert (result.status, result.err) == (0, "")
    found: list[str] = json.loads(result.out)["notes"]
    return found


@pytest.mark.parametrize("target", ["vllm", "tensorrt-llm", "sglang"])
@pytest.mark.parametrize(
    "given",
    [
        "[[1,4,1,99,3]]",
        '{"speculative_token_schedule": [[1,4,1,99,3]]}',
    ],
)
def test_a_context_limit_that_is_left_out_is_said(
    specgrid: Run, target: str, given: str
) -> None:
    assert (
        "the context limit 99 is left out and changes nothing: longer contexts take "
        "the K of the last context range, and there is only one"
    ) in notes_of(specgrid, target, given)
    # The reason given is the lookup's rule.
    lookup = Schedule([(1, 4, 1, 99, 3)]).lookup(4, 3)
    assert lookup[2, 99] == lookup[2, 100_000] == 3
    for silent in ("[[1,4,3]]", f"[[1,4,1,{END},3]]"):
        assert "context" not in str(notes_of(specgrid, target, silent))


def test_a_last_context_range_with_an_end_is_said_to_go_on(specgrid: Run) -> None:
    notes = notes_of(specgrid, "vllm", "[[1,4,1,99,3],[1,4,100,200,1]]")
    assert notes == [
        "the last context range ends at 200, and longer contexts take its K too"
    ]


def test_a_key_beyond_the_last_range_says_why(specgrid: Run) -> None:
    """TensorRT-LLM #10860 drafts nothing above its last key, vLLM goes on."""
    given = "[[1,16,3],[17,64,1]]"
    first = notes_of(specgrid, "tensorrt-llm", given)[0]
    assert first.startswith("the last range ends at 64, but wider batches take its K")
    assert Schedule([(1, 16, 3), (17, 64, 1)]).lookup(99, 3)[99] == 1
    open_end = notes_of(specgrid, "tensorrt-llm", f"[[1,16,3],[17,{END},1]]")[0]
    assert open_end.startswith("the last range has no end")
    ended = notes_of(specgrid, "tensorrt-llm", given, "--max-num-seqs", "64")
    assert ended == ["upper-bound keys (TensorRT-LLM #10860); 0 above the last key"]
