# SPDX-License-Identifier: Apache-2.0
"""``specgrid plan``: logs and costs of another server, or of half a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Result

Run = Callable[..., Result]
SERVER = ("--max-num-seqs", "16", "--max-num-batched-tokens", "256")
STEP = (
    "Engine 000: Iteration({i}): 0 context requests, 0 context tokens, {n} generation "
    "requests, {t} generation tokens, iteration elapsed time: {ms:.2f} ms, GPU KV "
    "cache usage: 1.0%\n"
)


def log(tmp_path: Path, *shapes: tuple[int, int], head: str = "") -> str:
    path = tmp_path / "server.log"
    text = "".join(
        STEP.format(i=i, n=n, t=t, ms=7 + 0.02 * t)
        for i, (n, t) in enumerate(s for s in shapes for _ in range(10))
    )
    path.write_text(head + text)
    return str(path)


def plan(specgrid: Run, *words: str) -> dict[str, Any]:
    result = specgrid("plan", "--json", "--no-stability", "--graphs", "8", *words)
    assert (result.status, result.err) == (0, "")
    found: dict[str, Any] = json.loads(result.out)
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--speculative-config", '{"method": "eagle3", "num_speculative_tokens": '
             '2, "enable_adaptive_verification": true}'),
            "adaptive verification captures graphs for any mix of query lengths",
        ),
        (
            ("--spec-method", "suffix"),
            "the V1 model runner rounds every size to its one query length",
        ),
        (("--enforce-eager",), "cudagraph_mode is NONE; a plan chooses FULL decode"),
        (("-cc.cudagraph_mode=FULL",), "cudagraph_mode is FULL; a plan chooses FULL"),
    ],
)  # fmt: skip
def test_servers_that_are_not_planned_for(
    specgrid: Run, words: tuple[str, ...], message: str
) -> None:
    result = specgrid("plan", *words, *SERVER)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_steps_of_another_server_are_left_out_and_named(
    specgrid: Run, tmp_path: Path
) -> None:
    file = log(tmp_path, (4, 16), (64, 64), (5, 15))
    drafts = ("--spec-method", "ngram", "--spec-tokens", "3")
    notes = plan(specgrid, "--log", file, *SERVER, *drafts)["notes"]
    assert any(n.startswith("10 of 30 steps do not fit max_num_seqs 16") for n in notes)
    assert any("33% of the steps have query length 3, which this" in n for n in notes)
    assert any(n.startswith("only 30 steps were counted") for n in notes)
    result = specgrid("plan", "--log", log(tmp_path, (64, 64)), *SERVER)
    assert result.status == 2
    assert "no step of " in result.err
    assert "fits this server (max_num_seqs 16, max_num_batched_tok" in result.err


def test_a_log_of_another_capture_list_is_named(specgrid: Run, tmp_path: Path) -> None:
    head = (
        "Initializing a V1 LLM engine (v0.33.0) with config: "
        "'cudagraph_capture_sizes': [1, 2, 4]\n"
        "Graph capturing finished in 12 secs, took 1.43 GiB\n"
    )
    file = log(tmp_path, (1, 1), (2, 2), (4, 4), (16, 16), head=head)
    found = plan(specgrid, "--log", file, *SERVER)
    note = "the log's server captured 3 sizes up to 4, the server given "
    assert any(n.startswith(note) for n in found["notes"])
    sources = {s["name"]: s for s in found["data"]["sources"]}
    assert not sources["capture time"]["assumed"]
    large = head.replace("[1, 2, 4]", "[1, 2, 4, 512]")
    file = log(tmp_path, (1, 1), (2, 2), (4, 4), head=large)
    found = plan(specgrid, "--log", file, *SERVER)
    sources = {s["name"]: s for s in found["data"]["sources"]}
    # 512 tokens are no step of this server: its graphs cannot be counted.
    assert sources["capture time"]["assumed"]


def test_a_log_of_tables_alone_is_used_or_says_what_it_lacks(
    specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
        "| 4 | 4 | 0 | FULL | 2000 |\n"
    )
    found = plan(specgrid, "--log", str(path), *SERVER)
    assert any(
        "steps are certain" in n for f in found["data"]["files"] for n in f["notes"]
    )
    path.write_text("nothing\n")
    result = specgrid("plan", "--log", str(path), *SERVER)
    assert result.status == 2
    assert "no iteration lines; it holds nothing of use" in result.err


@pytest.mark.parametrize(
    ("table", "source"),
    [
        ({"4": 7000}, "(1 sizes, 4-4 tokens; assumed flat below, straight on above)"),
        ({"1": 7000, "256": 8000}, "(2 sizes, 1-256 tokens)"),
    ],
)
def test_measured_tables_say_where_they_end(
    specgrid: Run, tmp_path: Path, table: dict[str, int], source: str
) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"full_us": table, "eager_us": 9000}))
    found = plan(specgrid, "--costs", str(path), *SERVER)
    texts = {s["name"]: s["from"] for s in found["data"]["sources"]}
    assert texts["FULL step"].endswith(source)
