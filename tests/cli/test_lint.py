# SPDX-License-Identifier: Apache-2.0
"""`specgrid lint`: every finding fires where it should and is silent where not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from specgrid.cli import cli
from specgrid.cli._analysis import analyse
from specgrid.cli._lint import CHECKS, Finding
from specgrid.cli.lint import lint
from specgrid.io._vllm_flags import VLLM_FLAGS
from specgrid.io.vllm_config import ServeConfig

from .conftest import Result

Run = Callable[..., Result]
ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "lint.md").read_text()
V1 = ("VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "M")


def spec(k: int, rows: str = "", method: str = "eagle") -> list[str]:
    config = {"method": method, "model": "x", "num_speculative_tokens": k}
    if rows:
        config["num_speculative_tokens_per_batch_size"] = json.loads(rows)
    return ["--speculative-config", json.dumps(config)]


def findings(*words: str) -> dict[str, Finding]:
    found = lint(ServeConfig.from_command(list(words)))
    assert len({f.id for f in found}) == len(found)
    return {f.id: f for f in found}


def missed_after(*words: str) -> int:
    coverage = analyse(ServeConfig.from_command(list(words))).coverage
    assert coverage is not None
    return len(coverage.missed)


def fix_words(finding: Finding) -> list[str]:
    """The flags of a fix, up to where prose begins."""
    return re.split(r" \(|;|, ", finding.fix)[0].split()


# -- silence -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--max-num-seqs", "100"),
        ("--max-num-seqs", "256"),
        ("--max-num-seqs", "64", *spec(7)),
        ("--max-num-seqs", "24", *spec(16)),
        ("--enforce-eager", "--max-num-seqs", "4096"),
        ("--max-num-seqs", "6", *spec(6), "--cudagraph-capture-sizes", "7", "14", "21",
         "28", "35", "42"),
        ("-cc.cudagraph_mode=PIECEWISE", "--max-num-seqs", "64", *spec(3)),
    ],
)  # fmt: skip
def test_sound_servers_have_no_finding(words: tuple[str, ...]) -> None:
    assert findings(*words) == {}


def test_the_documented_eagle_schedule_misses_no_batch() -> None:
    found = findings("--max-num-seqs", "256",
                     *spec(3, "[[1,64,3],[65,128,1],[129,512,0]]"))  # fmt: skip
    assert set(found) == {"unreachable-graphs"}  # 69 of 134 graphs, no batch lost


# -- one test a finding ------------------------------------------------------------


def test_list_and_maximum_that_agree_as_typed() -> None:
    words = ("--max-num-seqs", "8", "--max-num-batched-tokens", "64",
             "--cudagraph-capture-sizes", "1", "2", "4", "8", "96",
             "--max-cudagraph-capture-size", "96")  # fmt: skip
    found = findings(*words)
    finding = found.pop("list-and-maximum-disagree")
    assert found == {}
    assert "agree as typed (96)" in finding.message
    assert finding.severity == "error"
    assert "--max-num-batched-tokens 96" in finding.fix
    assert findings(*words, "--max-num-batched-tokens", "96") == {}


def test_list_and_maximum_that_never_agreed() -> None:
    found = findings("--max-num-seqs", "4", "--cudagraph-capture-sizes", "1", "2", "4",
                     "--max-cudagraph-capture-size", "8")  # fmt: skip
    assert set(found) == {"list-and-maximum-disagree"}


@pytest.mark.parametrize(
    "words",
    [
        ("-cc.cudagraph_capture_sizes=[]",),
        ("--max-cudagraph-capture-size", "0"),
        ("--cudagraph-capture-sizes", "0", "1"),
        (*V1, "--max-num-seqs", "8", *spec(6), "--cudagraph-capture-sizes", "1", "4"),
    ],
)
def test_sizes_vllm_refuses(words: tuple[str, ...]) -> None:
    found = findings(*words)
    assert set(found) == {"refused-sizes"}
    assert "refuses to start" in found["refused-sizes"].message
    assert found["refused-sizes"].fix


def test_an_empty_schedule() -> None:
    found = findings("--max-num-seqs", "32", *spec(3, "[]"))
    assert set(found) == {"schedule-empty"}
    assert "[[1, 32, 3]]" in found["schedule-empty"].fix


def test_an_invalid_schedule() -> None:
    found = findings("--max-num-seqs", "32", *spec(3, "[[1,16,3],[16,32,2]]"))
    assert set(found) == {"schedule-invalid"}
    assert "non-overlapping" in found["schedule-invalid"].message
    assert found["schedule-invalid"].severity == "error"


def test_a_context_schedule_given_to_vllm_itself() -> None:
    rows = "[[1,32,1,512,3],[1,32,513,4096,2]]"
    found = findings("--max-num-seqs", "32", *spec(3, rows))
    assert found["context-schedule-unsupported"].reference == ("vLLM #48944",)
    plugin = json.dumps({"specgrid": {"schedule": json.loads(rows)}})
    found = findings("--max-num-seqs", "32", *spec(3), "--additional-config", plugin)
    assert "context-schedule-unsupported" not in found


def test_json_that_dotted_flags_replace() -> None:
    found = findings("--max-num-seqs", "32", *spec(5),
                     "--speculative-config.num_speculative_tokens", "3",
                     "--speculative-config.method=ngram")  # fmt: skip
    assert set(found) == {"json-replaced"}
    assert found["json-replaced"].fix == "Write everything in one form"


def test_a_maximum_in_requests() -> None:
    words = ("--max-num-seqs", "6", *spec(3), "--max-cudagraph-capture-size")
    found = findings(*words, "6")
    assert found["maximum-in-requests"].severity == "error"
    assert "24 in all" in found["maximum-in-requests"].message
    assert fix_words(found["maximum-in-requests"]) == [words[-1], "24"]
    assert findings(*words, "24") == {}
    assert "maximum-in-requests" not in findings("--max-num-seqs", "6", words[-1], "6")
    listed = findings("--max-num-seqs", "8", *spec(3), "--cudagraph-capture-sizes",
                      "1", "2", "4", "8")  # fmt: skip
    assert "maximum-in-requests" in listed


def test_a_truncated_maximum_names_the_batch_and_a_fix_that_works() -> None:
    words = ("--max-num-seqs", "6", *spec(6), "--max-cudagraph-capture-size", "42")
    found = findings(*words)
    finding = found["maximum-truncated"]
    assert finding.severity == "error"
    assert finding.batches == ((7, 6, 6),)
    assert "133.3" in finding.cost
    assert "vLLM #54933" in finding.reference
    assert missed_after(*words) == 1
    assert missed_after(*words[:-2], *fix_words(finding)) == 0


@pytest.mark.parametrize(("asked", "kept"), [(257, 256), (300, 288)])
def test_a_truncated_maximum_without_decode_loss_is_a_warning(
    asked: int, kept: int
) -> None:
    found = findings("--max-num-seqs", "64", "--max-cudagraph-capture-size", str(asked))
    assert set(found) == {"maximum-truncated"}  # vLLM #37865
    assert found["maximum-truncated"].severity == "warning"
    assert f"becomes {kept}" in found["maximum-truncated"].message


def test_decode_batches_without_a_graph_and_a_fix_that_works() -> None:
    words = ("--max-num-seqs", "32", *spec(16))
    finding = findings(*words)["decode-without-graph"]
    assert finding.severity == "error"
    assert finding.batches == ((17, 31, 32),)
    assert fix_words(finding) == ["--max-cudagraph-capture-size", "544"]
    assert missed_after(*words, *fix_words(finding)) == 0  # vLLM #50488


def test_batches_nobody_asked_for_are_a_warning() -> None:
    finding = findings("--port", "80")["decode-without-graph"]
    assert finding.severity == "warning"
    assert finding.batches == ((1, 513, 1024),)


def test_a_covering_list_is_offered_where_no_maximum_is_enough() -> None:
    words = ("--max-num-seqs", "100", "--max-cudagraph-capture-size", "96",
             "--max-num-batched-tokens", "100")  # fmt: skip
    finding = findings(*words)["decode-without-graph"]
    kept = [w for w in words if w not in ("--max-cudagraph-capture-size", "96")]
    assert missed_after(*kept, *fix_words(finding)) == 0


def test_graphs_too_large_for_memory_come_with_a_way_out() -> None:
    finding = findings("--max-num-seqs", "256", *spec(24))["decode-without-graph"]
    assert "#54418" in finding.fix
    assert "lower --max-num-seqs to 20" in finding.fix
    assert "decode-without-graph" not in findings("--max-num-seqs", "20", *spec(24))


def test_a_last_size_that_is_no_multiple_of_the_widest_tier() -> None:
    words = ("--max-num-seqs", "6", *spec(6), "--cudagraph-capture-sizes", "1", "2",
             "4", "8", "16", "24", "40")  # fmt: skip
    finding = findings(*words)["last-size-off-widest-tier"]
    assert finding.severity == "warning"
    assert finding.batches == ((7, 5, 5),)
    assert missed_after("--max-num-seqs", "6", *spec(6), *fix_words(finding)) == 0


def test_a_token_budget_below_the_decode_batches() -> None:
    sizes = [str(3 * n) for n in range(1, 33)]
    words = ("--max-num-seqs", "32", *spec(2), "--cudagraph-capture-sizes", *sizes,
             "--max-num-batched-tokens")  # fmt: skip
    finding = findings(*words, "32")["token-budget-below-decode"]
    assert finding.batches == ((3, 11, 32),)
    assert finding.fix == "--max-num-batched-tokens 96"
    assert findings(*words, "96") == {}


EAGLE3 = "[[1,16,5],[17,32,4],[33,64,3],[65,128,1],[129,512,0]]"


def test_hidden_graphs_of_the_documented_eagle3_schedule() -> None:
    words = ("--max-num-seqs", "256", *spec(5, EAGLE3, "eagle3"))
    found = findings(*words)
    finding = found["hidden-graphs"]
    assert finding.severity == "warning"
    assert sum(hi - lo + 1 for _, lo, hi in finding.batches) == 86  # vLLM #56136
    assert set(found) == {"hidden-graphs", "unreachable-graphs"}
    eager = findings(*words, "-cc.cudagraph_mode=FULL_DECODE_ONLY")["hidden-graphs"]
    assert eager.severity == "error"


def test_hidden_and_unreachable_graphs_are_gone_with_the_plug_ins_policy() -> None:
    words = ("--max-num-seqs", "256", *spec(5, EAGLE3, "eagle3"))
    finding = findings(*words)["hidden-graphs"]
    flag, text = finding.fix.split(" (")[0].split(" ", 1)
    assert findings(*words, flag, text.strip("'")) == {}


def test_the_share_of_unreachable_graphs() -> None:
    words = ("--max-num-seqs", "256", *spec(5, EAGLE3, "eagle3"))
    finding = findings(*words)["unreachable-graphs"]
    assert finding.message.startswith("171 of 242 FULL graphs (71 %)")
    assert finding.severity == "warning"
    few = findings("--max-num-seqs", "128", *spec(3, "[[1,100,3],[101,128,2]]"))
    assert few["unreachable-graphs"].severity == "info"


def test_a_schedule_with_data_parallelism() -> None:
    found = findings("--max-num-seqs", "64", *spec(3, "[[1,8,3],[9,64,1]]"), "-dp", "4")
    assert set(found) == {"schedule-with-data-parallel"}
    assert found["schedule-with-data-parallel"].reference == ("vLLM #45963",)


def test_a_schedule_on_the_v1_runner() -> None:
    rows = "[[1,8,3],[9,32,0]]"
    found = findings(*V1, "--max-num-seqs", "32", *spec(3, rows, "ngram"))
    finding = found["schedule-on-v1"]
    assert "PIECEWISE" in finding.message
    assert finding.fix == "VLLM_USE_V2_MODEL_RUNNER=1"
    assert finding.reference == ("vllm-ascend #16637",)
    dropped = findings("--max-num-seqs", "32", *spec(3, rows, "suffix"))
    assert "dropped" in dropped["schedule-on-v1"].message


def test_a_schedule_without_drafts_has_no_effect(specgrid: Run) -> None:
    words = ("--max-num-seqs", "8", "--schedule", "[[1,4,3]]")
    result = specgrid("lint", *words)
    assert result.status == 1
    assert "warning schedule-without-drafts" in result.out
    # As `specgrid explain` has it.
    assert "set it to 3" in specgrid("explain", *words).out
    assert "fix: --spec-tokens 3" in result.out
    none = specgrid("lint", "--max-num-seqs", "8", "--schedule", "[[1,4,0]]")
    assert "  fix: drop the schedule\n" in none.out
    drafting = specgrid("lint", *words, "--spec-tokens", "3")
    assert "schedule-without-drafts" not in drafting.out
    plugin = '{"specgrid": {"schedule": [[1, 4, 3]]}}'
    assert set(findings("--max-num-seqs", "8", "--additional-config", plugin)) == {
        "schedule-without-drafts"
    }


@pytest.mark.parametrize(("k", "word"), [(2, "drafts 2 tokens"), (0, "never drafts")])
def test_a_constant_schedule(k: int, word: str) -> None:
    found = findings("--max-num-seqs", "32", *spec(2, f"[[1,8,{k}],[9,512,{k}]]"))
    finding = found["schedule-constant"]
    assert word in finding.message
    assert "vLLM #52087" in finding.reference


def test_a_schedule_constant_only_within_the_servers_requests() -> None:
    found = findings("--max-num-seqs", "8", *spec(3, "[[1,8,3],[9,64,1]]"))
    assert set(found) == {"schedule-constant", "batches-beyond-max-num-seqs"}


def test_drafts_above_the_maximum() -> None:
    found = findings("--max-num-seqs", "64", *spec(3, "[[1,16,5],[17,64,1]]"))
    finding = found["drafts-above-maximum"]
    assert "batches 1-16" in finding.message
    assert "num_speculative_tokens 5" in finding.fix


def test_batch_ranges_beyond_max_num_seqs() -> None:
    rows = "[[1,16,3],[17,32,2],[64,128,1],[129,512,0]]"
    finding = findings("--max-num-seqs", "32", *spec(3, rows))[
        "batches-beyond-max-num-seqs"
    ]
    assert "64-128, 129-512" in finding.message
    # A last range that only ends above max_num_seqs is how everybody writes it.
    fine = findings("--max-num-seqs", "64", *spec(3, "[[1,16,3],[17,2048,1]]"))
    assert "batches-beyond-max-num-seqs" not in fine


def test_sizes_that_are_not_multiples_under_v1() -> None:
    sizes = ("--cudagraph-capture-sizes", "1", "2", "4", "8", "16", "24")
    words = ("--max-num-seqs", "8", *spec(2), *sizes)
    finding = findings(*V1, *words)["sizes-not-multiples"]
    assert "3, 6, 9, 18, 24 are captured" in finding.message  # vLLM #52000
    assert "sizes-not-multiples" not in findings(*words)
    fixed = findings(*V1, "--max-num-seqs", "8", *spec(2), *fix_words(finding))
    assert "sizes-not-multiples" not in fixed


@pytest.mark.parametrize(("prefix", "severity"), [(V1, "error"), ((), "warning")])
def test_compile_sizes_that_padding_changes(
    prefix: tuple[str, ...], severity: str
) -> None:
    words = (*prefix, "--max-num-seqs", "8", "--cudagraph-capture-sizes", "1", "2",
             "4", "8")  # fmt: skip
    finding = findings(*words, "-cc.compile_sizes=[1,3,5]")["compile-sizes-padded"]
    assert "3, 5" in finding.message
    assert finding.severity == severity
    assert finding.fix == "-cc.compile_sizes=[1]"
    assert findings(*words, "-cc.compile_sizes=[1,8]") == {}
    rounded = findings(*prefix, "--max-num-seqs", "8", *spec(2),
                       "-cc.compile_sizes=[1]")  # fmt: skip
    assert ("compile-sizes-padded" in rounded) == bool(prefix)  # vLLM #49548


def test_flags_vllm_does_not_have() -> None:
    found = findings("--max-num-seqs", "8", "--max-num-sequences", "9", "--host", "x")
    assert set(found) == {"unknown-flag"}
    assert "did you mean --max-num-seqs?" in found["unknown-flag"].message


def test_settings_the_plug_in_cannot_use() -> None:
    found = findings("--max-num-seqs", "8", "--additional-config",
                     '{"specgrid": {"policy": "reachabel"}}')  # fmt: skip
    assert set(found) == {"plugin-setting"}
    assert "reachabel is not known" in found["plugin-setting"].message


# -- fixes a person can use --------------------------------------------------------


def test_a_fix_is_never_hundreds_of_sizes() -> None:
    finding = findings("--max-num-seqs", "1000", *spec(6))["decode-without-graph"]
    assert finding.fix.startswith("lower --max-num-seqs to 72, or specgrid plan")
    assert len(finding.fix) < 400


def test_one_cause_has_one_fix() -> None:
    words = (*V1, "--max-num-seqs", "40", *spec(5), "--max-cudagraph-capture-size")
    found = findings(*words, "100")
    assert list(found) == ["decode-without-graph"]
    assert "100 becomes 96" in found["decode-without-graph"].message
    assert fix_words(found["decode-without-graph"]) == [words[-1], "240"]
    assert findings(*words, "240") == {}


def test_a_fix_is_a_value_that_is_read() -> None:
    most = str(2**31 - 1)
    found = findings("--max-num-seqs", most, "--max-num-batched-tokens", most,
                     *spec(2**31 - 2))  # fmt: skip
    fix = fix_words(found["token-budget-below-decode"])
    assert "token-budget-below-decode" not in findings(
        "--max-num-batched-tokens", most, *spec(2**31 - 2), *fix
    )


def test_useless_graphs_alone_stop_no_pipeline() -> None:
    words = ("--max-num-seqs", "256", *spec(3, "[[1,64,3],[65,128,1],[129,512,0]]"))
    assert findings(*words)["unreachable-graphs"].severity == "info"


def test_every_command_and_flag_in_the_pages_exists() -> None:
    texts = [DOCS, (ROOT / "docs" / "explain.md").read_text()]
    texts += [p.read_text() for p in (ROOT / "python/specgrid/cli/_lint").glob("*.py")]
    own = {"--flag"}  # a placeholder in explain.md
    for name in cli.list_commands(None):  # type: ignore[arg-type]
        found = cli.get_command(None, name)  # type: ignore[arg-type]
        assert found is not None
        own.update(flag for param in found.params for flag in param.opts)
    for text in texts:
        for name in re.findall(r"[`\"(] *specgrid ([a-z]+)\b", text):
            if name != "plug":
                assert name in cli.list_commands(None)  # type: ignore[arg-type]
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text):
            assert flag in own or flag in VLLM_FLAGS, flag


# -- the command -------------------------------------------------------------------

BAD = ("--max-num-seqs", "6", *spec(6), "--max-cudagraph-capture-size", "42")


def test_every_finding_has_a_page_section_and_a_test() -> None:
    sections = re.split(r"(?m)^## ", DOCS)[1:]
    named = {s.splitlines()[0]: s for s in sections if not s.startswith("JSON")}
    assert list(named) == list(CHECKS)
    for text in named.values():
        for part in ("**What.**", "**Why.**", "**Fix.**"):
            assert text.count(part) == 1
    tests = Path(__file__).read_text()
    assert [name for name in CHECKS if f'"{name}"' not in tests] == []


def test_exit_status_follows_the_severity(specgrid: Run) -> None:
    info = ("--max-num-seqs", "128", *spec(3, "[[1,100,3],[101,128,2]]"),
            "--ignore", "hidden-graphs")  # fmt: skip
    assert specgrid("lint", *BAD).status == 1
    assert specgrid("lint", "--max-num-seqs", "64").status == 0
    assert specgrid("lint", *info).status == 0
    assert "1 below the chosen severity" in specgrid("lint", *info).out
    assert specgrid("lint", *info, "--severity", "info").status == 1
    assert specgrid("lint", *info, "--severity", "error").status == 0


def test_select_and_ignore(specgrid: Run) -> None:
    def ids(*words: str) -> list[str]:
        out = specgrid("lint", *BAD, "--json", "--severity", "info", *words).out
        return [f["id"] for f in json.loads(out)["findings"]]

    every = ["maximum-truncated", "decode-without-graph", "last-size-off-widest-tier"]
    assert ids() == [every[0], every[2]]  # one cause, one finding
    assert ids("--select", every[1]) == [every[1]]
    assert ids("--select", "maximum-truncated") == every[:1]
    assert ids("--ignore", ",".join(every[:2])) == every[2:]
    assert ids("--ignore", every[0], "--ignore", every[1]) == every[2:]
    assert ids("--select", every[0], "--ignore", every[0]) == []


def test_an_unknown_id_is_one_line_with_a_hint(specgrid: Run) -> None:
    result = specgrid("lint", *BAD, "--ignore", "maximum-truncate")
    assert result.status == 2
    assert "did you mean maximum-truncated?" in result.err
    assert result.err.count("\n") == 1


def test_json_schema_is_stable(specgrid: Run) -> None:
    found = json.loads(specgrid("lint", *BAD, "--json").out)
    assert (found["schema"], found["version"]) == ("specgrid.lint", 1)
    assert set(found) == {
        "schema", "version", "specgrid", "vllm", "findings", "counts",
        "below_severity",
    }  # fmt: skip
    assert found["counts"] == {"error": 1, "warning": 0, "info": 0}
    assert set(found["findings"][0]) == {
        "id", "severity", "message", "fix", "batches", "cost", "reference", "docs",
    }  # fmt: skip
    assert found["findings"][0]["batches"] == [{"query_len": 7, "first": 6, "last": 6}]
    assert found["findings"][0]["docs"] == "docs/lint.md#maximum-truncated"


def test_text_is_plain_when_piped_and_ends_with_a_sum(specgrid: Run) -> None:
    out = specgrid("lint", *BAD).out
    assert "\x1b" not in out
    assert out.splitlines()[0] == "error maximum-truncated"
    assert "known cost: 25.3 instead of 133.3 tok/s" in out
    assert "fix: --max-cudagraph-capture-size 48" in out
    assert out.splitlines()[-1].startswith("Findings: 1 error;")


def test_bad_input_is_exit_2(specgrid: Run) -> None:
    result = specgrid("lint", "--max-num-seqs", "many")
    assert (result.status, result.out) == (2, "")


@pytest.mark.parametrize(
    ("example", "ids"),
    [
        ("eagle3-schedule.yaml", ["hidden-graphs", "unreachable-graphs"]),
        ("eagle-schedule.sh", []),
        ("dflash-32-requests.sh", ["decode-without-graph"]),
        ("dgx-spark-maximum-42.yaml", ["maximum-truncated"]),
        ("dgx-spark-maximum-in-requests.sh",
         ["maximum-in-requests"]),
        ("no-speculation-100-requests.sh", []),
        ("context-schedule.yaml", ["decode-without-graph"]),
        ("decode-only-264-requests.yaml", ["decode-without-graph"]),
        ("prefill-decode-list.yaml", ["token-budget-below-decode"]),
    ],
)  # fmt: skip
def test_what_lint_says_of_the_examples(
    example: str, ids: list[str], specgrid: Run
) -> None:
    path = str(ROOT / "examples" / example)
    found = json.loads(specgrid("lint", "--json", "--config", path).out)
    assert [f["id"] for f in found["findings"]] == ids


def test_huge_servers_are_linted_without_the_coverage_table(specgrid: Run) -> None:
    result = specgrid("lint", "--max-num-seqs", str(2**31 - 1),
                      "--max-num-batched-tokens", str(2**31 - 1), *spec(3))  # fmt: skip
    assert result.status == 1
    assert "decode-without-graph" in result.out
    assert len(result.out) < 2_000


@pytest.mark.parametrize("name", CHECKS)
def test_every_finding_can_be_explained_without_a_server(
    specgrid: Run, name: str
) -> None:
    result = specgrid("lint", "--explain", name)
    assert (result.status, result.err) == (0, "")
    first, *rest = result.out.splitlines()
    assert first == name
    assert [line.split()[0] for line in rest if line][:1] == ["What."]
    for part in ("Why. ", "Fix. "):
        assert any(line.startswith(part) for line in rest), part
    assert "**" not in result.out


def test_explanations_are_those_of_the_documentation() -> None:
    shipped = ROOT / "python" / "specgrid" / "cli" / "_lint" / "findings.md"
    assert DOCS.endswith(shipped.read_text())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hiden-graphs", "near it: hidden-graphs"),
        ("graphs", "hidden-graphs"),
        ("zzz", "known: list-and-maximum-disagree"),
        ("", "is no finding"),
    ],
)
def test_unknown_findings_are_one_line_with_those_near(
    specgrid: Run, name: str, says: str
) -> None:
    result = specgrid("lint", "--explain", name)
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert says in result.err
