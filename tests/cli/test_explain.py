# SPDX-License-Identifier: Apache-2.0
"""`specgrid explain`: its answers on public cases, its JSON, its manners."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specgrid.cli._analysis import analyse
from specgrid.cli._output import Printer
from specgrid.cli.explain import render, to_document
from specgrid.io.vllm_config import ServeConfig

from .conftest import Result

Run = Callable[..., Result]
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    p for p in (ROOT / "examples").iterdir() if p.suffix in (".yaml", ".sh")
)
EAGLE3_ROWS = "[[1,16,5],[17,32,4],[33,64,3],[65,128,1],[129,512,0]]"
BASE = ("--max-num-seqs", "256", "--num-speculative-tokens", "5")


def document(*words: str, rule: Any = "vllm-0.33") -> dict[str, Any]:
    return to_document(analyse(ServeConfig.from_command(list(words)), rule))


def test_there_are_at_least_six_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
@pytest.mark.parametrize("rule", ["vllm-0.33", "vllm-0.28", "vllm-50488", "keep-max"])
def test_every_example_explains(path: Path, rule: str, specgrid: Run) -> None:
    result = specgrid("explain", "--config", str(path), "--rule", rule, "--json")
    assert (result.status, result.err) == (0, "")
    found = json.loads(result.out)
    assert found["rule"] == rule
    assert found["capture"]["sizes"]
    text = specgrid("explain", "--config", str(path), "--rule", rule).out
    assert "Smallest sufficient maximum" in text


def test_documented_eagle3_schedule_as_tiers_and_sizes(specgrid: Run) -> None:
    result = specgrid("explain", *BASE, "--schedule", EAGLE3_ROWS, "--json")
    found = json.loads(result.out)
    tiers = [(t["query_len"], t["max_batch"], t["tokens"]) for t in found["tiers"]]
    assert tiers == [
        (1, 256, 256), (2, 128, 256), (4, 64, 256), (5, 32, 160), (6, 16, 96),
    ]  # fmt: skip
    capture = found["capture"]
    assert (capture["count"], capture["max_size"]) == (56, 512)
    assert capture["sufficient_max"] == 256
    origins = {s["tokens"]: s for s in capture["sizes"]}
    assert origins[20] == {
        "tokens": 20,
        "origins": ["decode size"],
        "query_lens": [5],
    }
    assert origins[48]["origins"] == ["token grid", "decode size"]
    assert origins[48]["query_lens"] == [1, 2, 6]
    assert found["schedule"]["status"] == "in force"


def test_a_maximum_lowered_from_42_names_the_batch_that_loses_its_graph() -> None:
    found = document("--max-num-seqs", "6", "--spec-tokens", "6", "--spec-method",
                     "mtp", "--max-cudagraph-capture-size", "42")  # fmt: skip
    assert [s["tokens"] for s in found["capture"]["sizes"]] == [
        1, 2, 4, 8, 16, 24, 32, 40,
    ]  # fmt: skip
    truncated = found["capture"]["notes"][0]
    assert truncated["kind"] == "truncated"
    assert truncated["batches"] == [{"query_len": 7, "first": 6, "last": 6}]
    assert found["capture"]["sufficient_max"] == 42  # vLLM #54933


def test_keep_max_rule_gives_what_55004_asks_for() -> None:
    found = document("--max-num-seqs", "6", "--spec-tokens", "6", "--spec-method",
                     "mtp", "--max-cudagraph-capture-size", "42",
                     rule="keep-max")  # fmt: skip
    assert [s["tokens"] for s in found["capture"]["sizes"]] == [
        1, 2, 4, 7, 8, 14, 16, 24, 28, 32, 40, 42,
    ]  # fmt: skip


def test_dflash_32_requests_needs_544() -> None:
    found = document("--max-num-seqs", "32", "--spec-tokens", "16", "--spec-method",
                     "dflash")  # fmt: skip
    assert found["capture"]["sufficient_max"] == 544  # vLLM #50488
    assert found["capture"]["notes"][-1]["batches"] == [
        {"query_len": 17, "first": 31, "last": 32}
    ]


def test_schedule_needs_less_than_requests_times_widest() -> None:
    rows = "[[1,32,7],[33,128,5],[129,512,3]]"
    found = document("--max-num-seqs", "512", "-sc.method", "eagle", "-sc.model=x",
                     "-sc.num_speculative_tokens", "11",
                     f"-sc.num_speculative_tokens_per_batch_size={rows}")  # fmt: skip
    assert [t["tokens"] for t in found["tiers"]] == [2048, 768, 256]
    assert found["capture"]["sufficient_max"] == 2048  # user guide, not 6144


def test_no_speculation_keeps_the_odd_number_of_requests() -> None:
    new = document("--max-num-seqs", "100")
    old = document("--max-num-seqs", "100", rule="vllm-0.28")
    assert {"tokens": 100, "origins": ["decode size"], "query_lens": [1]} in new[
        "capture"
    ]["sizes"]
    assert 100 not in [s["tokens"] for s in old["capture"]["sizes"]]  # vLLM #57355


def test_two_dimensional_schedules_are_explained_and_the_plug_in_named() -> None:
    rows = [[1, 8, 1, 100, 3], [1, 8, 101, 4096, 2], [9, 64, 1, 100, 1],
            [9, 64, 101, 4096, 0]]  # fmt: skip
    config = json.dumps(
        {
            "method": "eagle",
            "model": "x",
            "num_speculative_tokens": 3,
            "num_speculative_tokens_per_batch_size": rows,
        }
    )
    found = document("--max-num-seqs", "64", "-sc", config)
    assert found["schedule"]["rows"] == [[*r[:3], 2**31 - 1, r[4]] if r[3] == 4096
                                         else r for r in rows]  # fmt: skip
    assert [t["query_len"] for t in found["tiers"]] == [1, 2, 3, 4]
    assert "#48944" in found["notes"][0]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("[[2,16,3]]", "must start at 1"),
        ("[[1,16,3],[16,32,2]]", "non-overlapping and sorted"),
        ("[]", "must not be empty"),
        ("[[1,16]]", "3-item sequence"),
        ("[[1,16,-1]]", "must be >= 0"),
        ("7", "must be a non-empty list"),
        ("[[1,16,NaN]]", "whole number"),
        ('{"1": 3}', "must be a non-empty list"),
        ("[[[[[[[[[[1]]]]]]]]]]", "3-item sequence"),
    ],
)
def test_invalid_schedules_are_explained_and_exit_1(
    rows: str, says: str, specgrid: Run
) -> None:
    result = specgrid("explain", *BASE, "--schedule", rows)
    assert result.status == 1
    assert result.err == ""
    assert "vLLM will fail on this schedule" in result.out
    assert says in result.out
    found = json.loads(specgrid("explain", *BASE, "--schedule", rows, "--json").out)
    assert found["schedule"]["status"] == "invalid"
    assert says in found["schedule"]["reason"]
    assert len(found["tiers"]) == 1


def test_a_schedule_vllm_drops_is_told_with_the_reason() -> None:
    found = document("-dp", "2", "-sc.method=ngram", "-sc.num_speculative_tokens=3",
                     "-sc.num_speculative_tokens_per_batch_size=[[1,8,3]]")  # fmt: skip
    assert found["schedule"]["status"] == "dropped"
    assert "#45963" in found["schedule"]["reason"]
    assert len(found["tiers"]) == 1


def test_the_v1_runner_rounds_sizes_to_its_query_length() -> None:
    words = ("VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "M", "--spec-method",
             "mtp", "--spec-tokens", "2", "--cudagraph-capture-sizes", "1", "2", "4",
             "8", "16", "24")  # fmt: skip
    found = document(*words)
    assert found["capture"]["runner_sizes"] == [3, 6, 9, 18, 24]  # vLLM #52000


def test_graphs_switched_off_are_said_to_be(specgrid: Run) -> None:
    result = specgrid("explain", "--enforce-eager")
    assert result.status == 0
    assert "CUDA graphs are off" in result.out


@pytest.mark.parametrize(
    "words",
    [
        ("--cudagraph-capture-sizes", "1", "2", "4", "--max-cudagraph-capture-size=8"),
        ("--max-cudagraph-capture-size", "0"),
        ("-cc.cudagraph_capture_sizes=[]",),
        ("--max-num-seqs", "many"),
        ("--max-num-seqs", "64", "--max-num-batched-tokens", "32"),
        ("--speculative-config", "{method: eagle}"),
        ("--config", "/nowhere.yaml"),
        ("--rule", "vllm-9"),
        ("--gpu", "voodoo2"),
        ("--device-memory-gib", "-3"),
        ("--max-cudagraph-capture-size", "9999999", "--max-num-batched-tokens",
         "99999999"),
        ("--num-speculative-tokens", "x"),
        ("--schedule", "[[1,"),
        (),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_on_stderr_and_exit_2(
    words: tuple[str, ...], specgrid: Run
) -> None:
    result = specgrid("explain", *words)
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("specgrid")
    assert len(result.err) < 500


def test_json_schema_is_stable(specgrid: Run) -> None:
    result = specgrid("explain", *BASE, "--schedule", EAGLE3_ROWS, "--json",
                      "--", "vllm", "serve", "M", "--host", "x", "--frob")  # fmt: skip
    found = json.loads(result.out)
    assert (found["schema"], found["version"]) == ("specgrid.explain", 1)
    assert {
        "schema", "version", "specgrid", "vllm", "rule", "settings", "notes", "flags",
        "schedule", "tiers", "capture", "coverage",
    } <= set(found)  # fmt: skip
    assert found["flags"] == {"ignored": ["--host"], "unknown": ["--frob"]}
    assert set(found["settings"][0]) == {"name", "value", "source", "detail"}
    assert {s["source"] for s in found["settings"]} == {
        "given", "vLLM default", "assumed",
    }  # fmt: skip
    assert set(found["tiers"][0]) == {
        "query_len", "drafts", "min_batch", "max_batch", "tokens", "reach", "missed",
    }  # fmt: skip
    assert {
        "enabled", "mode", "count", "max_size", "sufficient_max", "sizes",
        "runner_sizes", "notes",
    } <= set(found["capture"])  # fmt: skip


def test_every_documented_key_exists_and_every_key_is_documented() -> None:
    found = document("--max-num-seqs", "6", "--spec-tokens", "6", "--spec-method",
                     "mtp", "--max-cudagraph-capture-size", "42")  # fmt: skip
    text = (ROOT / "docs" / "explain.md").read_text()
    table = text[text.index("## JSON") :]
    for key in found:
        assert f"`{key}" in table, key
    for part in ("capture", "coverage"):
        for key in found[part]:
            assert f".{key}`" in table, key
    for part in ("stretches", "policies"):
        for key in found["coverage"][part][0]:
            assert key in table, key


def test_piped_output_is_plain(specgrid: Run) -> None:
    out = specgrid("explain", *BASE, "--schedule", EAGLE3_ROWS).out
    assert "\x1b" not in out
    assert not set(out) & set("─│┃━┏╭")


def test_terminal_output_is_coloured_and_fits() -> None:
    stream = io.StringIO()
    found = document("--max-num-seqs", "6", "--spec-tokens", "6", "--spec-method",
                     "mtp", "--max-cudagraph-capture-size", "42")  # fmt: skip
    render(found, Printer(stream, terminal=True))
    assert "\x1b[" in stream.getvalue()
    assert "becomes 40" in stream.getvalue()


def test_coverage_of_the_documented_eagle3_schedule(specgrid: Run) -> None:
    path = str(ROOT / "examples" / "eagle3-schedule.yaml")
    found = json.loads(specgrid("explain", "--config", path, "--json").out)
    policies = {p["policy"]: p for p in found["coverage"]["policies"]}
    graphs = {name: p["full_graphs"] for name, p in policies.items()}
    batches = {name: p["batches"] for name, p in policies.items()}
    assert graphs == {"vllm-0.33": 242, "per-query-length": 242, "reachable": 71}
    assert batches == {
        "vllm-0.33": {"FULL": 170, "PIECEWISE": 86, "NONE": 0},
        "per-query-length": {"FULL": 256, "PIECEWISE": 0, "NONE": 0},
        "reachable": {"FULL": 256, "PIECEWISE": 0, "NONE": 0},
    }  # vLLM #56136
    stretches = found["coverage"]["stretches"]
    hidden = [s for s in stretches if s["hidden"]]
    assert sum(s["batch_hi"] - s["batch_lo"] + 1 for s in hidden) == 86
    assert {s["mode"] for s in hidden} == {"PIECEWISE"}
    assert sum(b - a + 1 for t in found["tiers"] for a, b in t["missed"]) == 86
    text = specgrid("explain", "--config", path).out
    assert "batches on a FULL graph 170 -> 256" in text
    assert "FULL graphs captured 242 -> 71" in text


def test_the_coverage_map_marks_every_fate_and_explains_it(specgrid: Run) -> None:
    words = ("--num-speculative-tokens", "3", "--max-num-seqs", "16", "--schedule",
             "[[1,4,3],[5,16,2]]", "--max-cudagraph-capture-size", "36")  # fmt: skip
    out = specgrid("explain", *words).out
    rows = {
        line.split()[0]: line[14:]
        for line in out[out.index("Coverage") :].splitlines()
        if line[:12].strip().isdigit()
    }
    assert rows == {"3": "    h###pp......", "4": "####"}
    for legend in ("# FULL graph", "p PIECEWISE", "h own FULL", ". no graph"):
        assert legend in out


def test_piecewise_servers_have_no_other_policies() -> None:
    found = document("--max-num-seqs", "8", "-cc.cudagraph_mode=PIECEWISE")
    assert [p["policy"] for p in found["coverage"]["policies"]] == ["vllm-0.33"]
    assert found["coverage"]["policies"][0]["batches"]["PIECEWISE"] == 8


def test_the_v1_runner_with_a_schedule_is_piecewise_at_each_query_length() -> None:
    rows = "[[1,8,3],[9,32,0]]"
    found = document("VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "M",
                     "--max-num-seqs", "32", "-sc.method=ngram",
                     "-sc.num_speculative_tokens=3",
                     f"-sc.num_speculative_tokens_per_batch_size={rows}")  # fmt: skip
    assert found["capture"]["mode"] == "PIECEWISE"
    assert [t["query_len"] for t in found["tiers"]] == [1, 4]
    fates = {(s["query_len"], s["mode"]) for s in found["coverage"]["stretches"]}
    assert fates == {(1, "PIECEWISE"), (4, "PIECEWISE")}


def test_coverage_is_left_out_where_it_would_take_too_long() -> None:
    found = document("--max-num-seqs", "2000000", "--max-num-batched-tokens", "4000000")
    assert found["coverage"] is None
    assert found["tiers"][0]["missed"] is None


def test_flags_before_the_dashes_try_a_change(specgrid: Run) -> None:
    pasted = ("--", "vllm", "serve", "M", "--max-num-seqs", "32", "--spec-method",
              "dflash", "--spec-tokens", "16")  # fmt: skip
    before = json.loads(specgrid("explain", "--json", *pasted).out)
    after = json.loads(
        specgrid("explain", "--json", "--max-cudagraph-capture-size=544", *pasted).out
    )
    assert before["tiers"][0]["reach"] == 30
    assert after["tiers"][0]["reach"] == 32


def test_a_command_on_standard_input(specgrid: Run) -> None:
    result = specgrid(
        "explain", "--config", "-", "--json",
        stdin="# mine\nvllm serve M \\\n  --max-num-seqs 7\n",
    )  # fmt: skip
    assert json.loads(result.out)["tiers"][0]["max_batch"] == 7


@pytest.mark.parametrize(
    "words",
    [
        ("--max-num-seqs", str(2**31 - 1), "--max-num-batched-tokens", str(2**31 - 1),
         "--num-speculative-tokens", "1000000"),
        ("--schedule",
         json.dumps([[1 + 2 * i, 2 + 2 * i, i % 50] for i in range(5_000)]),
         "--num-speculative-tokens", "64", "--max-num-seqs", "100000",
         "--max-num-batched-tokens", "1000000"),
        ("--cudagraph-capture-sizes", *map(str, range(1, 5_000))),
        ("--schedule", "[" + "9" * 5_000 + "]", "--num-speculative-tokens", "2"),
        tuple(f"--flag-number-{i}" for i in range(2_000)),
    ],
    ids=["int32", "rows", "sizes", "digits", "flags"],
)  # fmt: skip
def test_huge_input_is_answered_briefly(words: tuple[str, ...], specgrid: Run) -> None:
    result = specgrid("explain", *words)
    assert result.status in (0, 1, 2)
    assert len(result.out) + len(result.err) < 60_000


def test_a_closed_pipe_gives_no_traceback() -> None:
    command = [sys.executable, "-m", "specgrid.cli", "explain", "--max-num-seqs", "9"]
    script = 'exec 2>&1; "$@" | true; echo "${PIPESTATUS[0]}"'
    for _ in range(3):
        done = subprocess.run(
            ["bash", "-c", script, "bash", *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        # 141: ended by SIGPIPE, as Unix tools are; 0: was done before.
        assert done.stdout.split() in (["0"], ["141"])


def test_version_and_help_teach(specgrid: Run) -> None:
    assert specgrid("--version").out.startswith("specgrid, version ")
    text = specgrid("--help").out
    assert "explain" in text
    assert "-- vllm serve MODEL" in text
    help_text = specgrid("explain", "--help").out
    for word in ("--rule", "--config", "--gpu", "Examples", "calling shell"):
        assert word in help_text


def test_commands_without_a_module_are_not_listed(
    specgrid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specgrid import cli

    monkeypatch.setitem(cli.COMMANDS, "ghost", ("specgrid.cli.no_such", "Not there."))
    assert "ghost" not in specgrid("--help").out
    assert specgrid("ghost").status == 2


@pytest.mark.parametrize(("seqs", "k"), [(300, 1), (200, 3), (65, 7)])
def test_the_advice_to_cover_batches_is_lints_and_works_when_followed(
    specgrid: Run, seqs: int, k: int
) -> None:
    """vLLM #37865: a maximum off the grid is lowered, so no number is named."""
    words = ("--max-num-seqs", str(seqs), "--spec-tokens", str(k))
    words += ("--max-cudagraph-capture-size", "256")
    advice = json.loads(specgrid("explain", "--json", *words).out)["capture"]["advice"]
    assert f"fix: {advice}\n" in specgrid("lint", *words).out
    text = specgrid("explain", *words).out
    assert f"To cover them: {advice}\n" in text
    assert "would cover" not in text
    flags = advice.split(" (in place of")[0].split()
    followed = json.loads(specgrid("explain", "--json", *words[:4], *flags).out)
    assert followed["capture"]["advice"] is None
    assert all(tier["missed"] == [] for tier in followed["tiers"])
