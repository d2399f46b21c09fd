# SPDX-License-Identifier: Apache-2.0
"""Every sentence a reader refuses a file with, and what it counts instead.

A table a reader: what stands in the file, the rule, and the whole message.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specgrid.io import (
    DataError,
    ReadReport,
    _source,
    read_acceptance,
    read_costs,
    read_forward,
    read_latency,
    read_log,
    read_serve,
    read_sweep,
    read_workload,
    serve_acceptance,
    serve_latency,
)
from specgrid.io._accept import from_totals

DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"
SERVE: dict[str, Any] = json.loads((DATA / "serve.json").read_text())
FORWARD: list[dict[str, Any]] = json.loads((DATA / "forward-k3.json").read_text())
FIRST = FORWARD[0]["case"]


def write(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "x"
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, call: Callable[..., object]) -> tuple[str, str]:
    """The rule and the message, with the file called ``x``."""
    with pytest.raises(DataError) as caught:
        call(path)
    return caught.value.rule, str(caught.value).replace(str(path), "x")


STEPS = "query_len,num_reqs,num_tokens,weight\n"
NO_WORKLOAD = (
    'x: is no workload; expected {"uniform": [[query_len, num_reqs, weight]], '
    '"mixed": [[num_tokens, weight]]}'
)


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        ({"uniform": [[4, 2, 1]], "speed": 1}, "wrong_format", NO_WORKLOAD),
        ([[1, 2]], "wrong_format", NO_WORKLOAD),
        ({"uniform": 5}, "wrong_format", "x: uniform is not a list"),
        ({"uniform": [[4, 2]]}, "wrong_format", "x: uniform[0] has not 3 numbers"),
        ({"mixed": [7]}, "wrong_format", "x: mixed[0] has not 2 numbers"),
        ({"mixed": [[7, True]]}, "not_number", "x: weight is True, not a number"),
        (
            {"uniform": [[4, 10**400, 1]]},
            "not_finite",
            "x: num_reqs is beyond every real number",
        ),
        (
            '{"uniform": [[4,2,1]',
            "not_json",
            "x: is JSON cut short; was the run that wrote it stopped?",
        ),
        ("num_reqs,steps\n4,1\n", "not_number", "x:2: query_len is '', not a number"),
        (STEPS + "4,1e400,,1\n", "not_finite", "x:2: num_reqs is inf"),
        (
            "query_len,num_reqs\n4,1\n",
            "missing",
            "x: needs the columns query_len, num_reqs, weight (and num_tokens for "
            "steps with a prefill); it has query_len, num_reqs",
        ),
        (
            "4,2,3\n",
            "wrong_format",
            "x: starts with numbers; its first line must name the columns: 4,2,3",
        ),
        (
            STEPS + "4,2,9,1\n",
            "inconsistent",
            "x:2: num_tokens is 9, but query_len 4 x num_reqs 2 is 8; leave "
            "num_tokens empty there, or num_reqs where a prefill is in the step",
        ),
        (
            STEPS + '"4\n",2,,1\n',
            "wrong_format",
            "x: has quoted line breaks, which no such table needs",
        ),
        (
            "query_len,num_reqs,num_reqs,weight\n1,1,1,1\n",
            "wrong_format",
            "x: names a column twice: query_len,num_reqs,num_reqs,weight",
        ),
        (STEPS, "empty", "x: holds no step with a weight above 0"),
        (
            STEPS + "4,2," + "9" * 140_000 + ",1\n",
            "wrong_format",
            "x: is not CSV: field larger than field limit (131072)",
        ),
        (
            "# only a comment\n",
            "empty",
            "x: no iteration lines; it holds nothing of use. Run the server with "
            "--enable-logging-iteration-details for a minute of typical load (the "
            "other lines do not say how many requests a step had)",
        ),
        (
            b"\x28\xb5\x2f\xfd..",
            "wrong_format",
            "x: is zstd-compressed; only gzip is read directly. Unpack it first "
            "(`zstd -dc FILE`), or pipe it in",
        ),
        (
            b"BZh91",
            "wrong_format",
            "x: is bzip2-compressed; only gzip is read directly. Unpack it first "
            "(`bzip2 -dc FILE`), or pipe it in",
        ),
        (
            b"\xfd7zXZ\0",
            "wrong_format",
            "x: is xz-compressed; only gzip is read directly. Unpack it first "
            "(`xz -dc FILE`), or pipe it in",
        ),
        (
            b"\xff\xfen\0u\0",
            "wrong_format",
            "x: is UTF-16 text; save it as UTF-8 (PowerShell: -Encoding utf8)",
        ),
        (
            b"num_reqs,weight\xe9\n1,1\n",
            "wrong_format",
            "x: is not UTF-8 text (invalid continuation byte)",
        ),
    ],
)
def test_what_is_no_workload_is_refused_in_one_sentence(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_workload) == (rule, message)


def test_a_gzip_file_that_breaks_off_cannot_be_read_whole(tmp_path: Path) -> None:
    rule, message = refusal(write(tmp_path, b"\x1f\x8b\x08broken"), read_costs)
    assert rule == "unreadable"
    assert message.startswith("x: cannot be read: ")


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        ([1], "wrong_format", "x: costs is list, not a JSON object"),
        (
            {"full_us": 3},
            "wrong_format",
            "x: full_us is no table of [num_tokens, us]",
        ),
        (
            {"full_us": [[8]]},
            "wrong_format",
            "x: full_us is no table of [num_tokens, us]",
        ),
        (
            {"full_us": {"8": 7100}, "eager_us": "slow"},
            "wrong_format",
            "x: eager_us is no table of [num_tokens, us]",
        ),
        (
            {"full_us": [[8, 7100], [8, 7200]]},
            "conflict",
            "x: full_us gives 8 tokens twice, differently",
        ),
        (
            {"full_us": {"8": 7100}, "eager_us": {"8": 9}},
            "unit",
            "x: eager at 8 tokens is 9 us against 7100 us FULL; milliseconds and "
            "microseconds mixed?",
        ),
        ({"full_us": {"8": 7100}, "eager_us": []}, "empty", "x: eager_us is empty"),
        (
            {"full_us": {"8": 7100}, "eager_us": True},
            "not_number",
            "x: eager_us is True, not a number",
        ),
        (
            {"base_us": 7, "per_token_us": 0.01},
            "unit",
            "x: the longest FULL step is 12.12 us; no step is that short. "
            "Milliseconds? Name the columns _ms",
        ),
        (
            {"speed": 1, "color": 2},
            "wrong_format",
            "x: has unknown keys color, speed; known are full_us, base_us, "
            "per_token_us, piecewise_us, eager_us, graph_bytes, pool_bytes, "
            "graph_seconds",
        ),
        (
            "num_tokens,full_us,eager_us\n8,,9000\n",
            "empty",
            "x: gives no full cost",
        ),
        (
            "tokens;full_us\n1;2\n",
            "missing",
            "x: needs a column num_tokens; it has tokens, full_us",
        ),
        (
            "num_tokens,piecewise_us\n8,7100\n",
            "missing",
            "x: has no column full_us; it has num_tokens, piecewise_us",
        ),
        (
            "num_tokens,full_us\n8,7100 us\n",
            "not_number",
            "x:2: full_us is '7100 us', not a number",
        ),
    ],
)
def test_what_is_no_cost_is_refused_in_one_sentence(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_costs) == (rule, message)


def test_tables_of_pairs_may_repeat_themselves_and_leave_modes_out(
    tmp_path: Path,
) -> None:
    pairs = {
        "full_us": [[8, 7100], [8, 7100]],
        "eager_us": [[8, 9000]],
        "piecewise_us": None,
    }
    costs = read_costs(write(tmp_path, pairs))
    assert (costs.full_us, costs.eager_us) == ({8: 7100}, {8: 9000})
    assert costs.piecewise_us is None
    table = "num_tokens,full_us,piecewise_us\n8,7100,\n9,,\n"
    costs = read_costs(write(tmp_path, table))
    assert costs.full_us == {8: 7100}
    assert costs.piecewise_us is None
    assert costs.report.num_read == 2


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        ({"batch": 1}, "wrong_format", "x: is no list of latency points"),
        (
            [[1, 0, 0]],
            "empty",
            "x: none of 1 entries is a measured step; the first (1): no [batch, "
            "context, k, step_us]",
        ),
        (
            [5, "six"],
            "empty",
            "x: none of 2 entries is a measured step; the first (1): no [batch, "
            "context, k, step_us]",
        ),
        (
            [{"batch": 1, "k": 1, "step_us": "x"}],
            "empty",
            "x: none of 1 entries is a measured step; the first (1): x:1: step is "
            "'x', not a number",
        ),
        (
            [{"k": 1, "step_us": 7000}],
            "missing",
            "x: has no column batch (requests in the step)",
        ),
        (
            "k,step_us\n1,7000\n",
            "missing",
            "x: has no column batch (requests in the step)",
        ),
        (
            [{"batch": 1, "k": 1, "step": 7000}],
            "unit",
            "x: column 'step' has no unit; name it step_us or step_ms",
        ),
        (
            "batch,k,step_us\n1,0,9e9\n",
            "unit",
            "x: the shortest step is 9e+09 us, over a minute; nanoseconds read as "
            "microseconds?",
        ),
    ],
)
def test_what_is_no_latency_is_refused_in_one_sentence(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_latency) == (rule, message)


def test_which_latency_files_go_together(tmp_path: Path) -> None:
    for paths, rule, message in (
        ([], "empty", "no latency file was given"),
        ("", "unreadable", "a file name is empty; name the file to read"),
        (
            [DATA / "sweep", DATA / "sweep"],
            "mixed_scope",
            f"{DATA / 'sweep'}: give one sweep folder",
        ),
    ):
        with pytest.raises(DataError) as caught:
            read_latency(paths)
        assert (caught.value.rule, str(caught.value)) == (rule, message)


def test_a_step_of_no_time_is_counted_and_seconds_are_converted(
    tmp_path: Path,
) -> None:
    data = read_latency(write(tmp_path, "batch,k,step_s\n1,0,0\n1,0,0.007\n"))
    assert [p.step_us for p in data] == [pytest.approx(7000)]
    (damage,) = data.report.damaged
    assert (damage.line, damage.reason[-9:]) == (2, "step is 0")


COUNTS = "position,drafted,accepted\n"


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        (COUNTS, "zero_drafts", "x: no draft was made"),
        (COUNTS + "1,0,0\n", "zero_drafts", "x: no draft was made"),
        (
            COUNTS + "2,5,4\n",
            "inconsistent",
            "x:2: position 2 where 1 was expected; list positions 1, 2, 3 ... once "
            "each",
        ),
        (
            COUNTS + "1,5,6\n",
            "acceptance_above_one",
            "x:2: acceptance above 1 at position 1: 6 of 5",
        ),
        (
            "position,drafted,accepted,at_risk\n1,100,70,60\n",
            "acceptance_above_one",
            "x:2: acceptance above 1 at position 1: 70 of 60",
        ),
        (
            COUNTS + "1,9,6\n2,10,5\n",
            "inconsistent",
            "x:3: position 2 has more drafts or passes than the one before",
        ),
        (
            COUNTS + "1,9,6\n2,9,7\n",
            "inconsistent",
            "x:3: position 2 has more drafts or passes than the one before",
        ),
        (
            "position,rate\n1,.7\n",
            "missing",
            "x: needs the columns position, drafted, accepted; rates alone do not "
            "say how certain they are. It has position, rate",
        ),
        (COUNTS + "1,9\n", "damaged", "x:2: 2 fields instead of 3"),
        (COUNTS + "1,x,3\n", "not_number", "x:2: drafted is 'x', not a number"),
        (
            "hello\n",
            "missing",
            "x: holds no SpecDecoding line; was speculation on?",
        ),
    ],
)
def test_what_is_no_acceptance_is_refused_in_one_sentence(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_acceptance) == (rule, message)


@pytest.mark.parametrize(
    ("text", "at_risk", "constant_k"),
    [
        (
            "position,drafted,accepted,at_risk\n1,100,70,100\n2,90,40,60\n",
            (100, 60),
            None,
        ),
        (COUNTS + "1,100,70\n2,90,40\n", None, None),
        (COUNTS + "1,100,70\n2,100,40\n", (100, 70), 2),
    ],
)
def test_who_was_at_risk_is_known_from_the_table_or_from_one_k(
    tmp_path: Path,
    text: str,
    at_risk: tuple[int, ...] | None,
    constant_k: int | None,
) -> None:
    counts, by_context = read_acceptance(write(tmp_path, text))
    assert (counts.at_risk, counts.constant_k) == (at_risk, constant_k)
    assert by_context == []


def forward(**changes: object) -> list[object]:
    return [{**FORWARD[0], **changes}, *FORWARD[1:]]


def ranks(**rank: object) -> list[object]:
    return forward(ranks=[{"timing_scope": "target_and_drafter", **rank}])


WHERE = f"x case {FIRST!r}"


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        (
            forward(requests=[{"query_len": 0, "kv_len": 3}]),
            "inconsistent",
            f"x: {WHERE}: query_len is 0, below 1",
        ),
        (forward(median_us=0), "inconsistent", f"x: {WHERE}: median_us is 0"),
        (
            ranks(num_tokens=3),
            "inconsistent",
            f"x: {WHERE}: requests have 4 tokens, the rank says 3",
        ),
        (
            ranks(latency_us={"median": 1.0}),
            "unit",
            f"x: {WHERE}: median_us is {FORWARD[0]['median_us']:g} but the samples' "
            "median is 1; microseconds and another unit mixed?",
        ),
        (
            [{"requests": [], "median_us": 1, "case": "c"}],
            "empty",
            "x: none of 1 entries is a measured step; the first (1): x: x case 'c': "
            "no requests",
        ),
    ],
)
def test_forward_files_that_contradict_themselves_are_refused(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_forward) == (rule, message)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([FORWARD[0], 5], "x: a case is int, not a JSON object"),
        (forward(requests=[]), f"x: {WHERE}: no requests"),
        (forward(requests=[5]), f"x: {WHERE}: a request is int, not a JSON object"),
        (forward(ranks=[5]), f"x: {WHERE}: a rank is int, not a JSON object"),
    ],
)
def test_forward_cases_that_are_none_are_counted(
    tmp_path: Path, content: list[object], reason: str
) -> None:
    path = write(tmp_path, content)
    data = read_forward(path)
    assert len(data) == len(content) - 1
    (damage,) = data.report.damaged
    assert damage.reason.replace(str(path), "x") == reason


def test_what_a_rank_says_about_its_samples_is_told(tmp_path: Path) -> None:
    median = FORWARD[0]["median_us"]
    for rank, notes in (
        ({"finite": False}, [f"{WHERE}: the model's output was not finite"]),
        (
            {"latency_us": {"median": median, "sample_spread_pct": 9}},
            ["1 of 6 cases have samples more than 5 % apart"],
        ),
        ({"latency_us": {"median": median, "sample_spread_pct": "x"}}, []),
        ({"latency_us": {"median": 0}}, []),
    ):
        data = read_forward(write(tmp_path, ranks(**rank)))
        assert data.report.notes == notes
        assert len(data) == 6


@pytest.mark.parametrize(
    ("content", "rule", "message"),
    [
        (
            {"a": 1},
            "empty",
            "x: nothing usable: not a result of vllm bench serve",
        ),
        ([], "empty", "x: nothing usable: no run in it"),
        (
            SERVE | {"spec_decode_per_position_acceptance_rates": []},
            "empty",
            "x: nothing usable: x: x: no per-position acceptance",
        ),
        (
            SERVE | {"max_concurrency": 0},
            "empty",
            "x: nothing usable: x: x: max_concurrency is 0, below 1",
        ),
        (
            SERVE | {"spec_decode_per_position_acceptance_rates": [1.2, 0.5]},
            "acceptance_above_one",
            "x: x: acceptance at position 1 is 1.2, above 1",
        ),
        (
            SERVE | {"spec_decode_per_position_acceptance_rates": [76, 0.5]},
            "acceptance_above_one",
            "x: x: acceptance at position 1 is 76, above 1; per cent read as a share?",
        ),
        (
            [
                SERVE | {"speculative_config": {"method": "a"}},
                SERVE | {"speculative_config": {"method": "b"}},
            ],
            "mixed_drafters",
            "x: runs of 2 drafters: a, b; give those of one drafter",
        ),
        (" \n", "empty", "x: is empty"),
        (
            "[1]\n[2]\n",
            "not_json",
            "x: is not JSON: Extra data: line 2 column 1 (char 4)",
        ),
        (
            "{x\n{y\n",
            "not_json",
            "x: is not JSON: Expecting property name enclosed in double quotes: line "
            "1 column 2 (char 1)",
        ),
        (
            "[" * 100_000,
            "too_deep",
            "x: is nested too deeply; no file of this kind is",
        ),
    ],
)
def test_what_is_no_benchmark_of_a_server_is_refused(
    tmp_path: Path, content: object, rule: str, message: str
) -> None:
    assert refusal(write(tmp_path, content), read_serve) == (rule, message)


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        (
            {"num_speculative_tokens": 5},
            ["K is set to 5 but 3 were drafted; 3 is used"],
        ),
        (
            {"speculative-config.num-speculative-tokens": "5"},
            ["K is set to 5 but 3 were drafted; 3 is used"],
        ),
        ({"speculative_config": '{"num_speculative_tokens": 3}'}, []),
        ({"speculative_config": "eagle3"}, []),
        # A schedule is no single K to compare with.
        (
            {
                "speculative_config": {
                    "num_speculative_tokens": 9,
                    "num_speculative_tokens_per_batch_size": [[1, 2, 3]],
                }
            },
            [],
        ),
        ({"failed": 3}, ["3 of 323 requests failed"]),
    ],
)
def test_settings_of_a_sweep_are_compared_with_what_was_drafted(
    tmp_path: Path, settings: dict[str, object], notes: list[str]
) -> None:
    (run,), report = read_serve(write(tmp_path, SERVE | settings))
    assert run.k == 3
    assert report.notes == [f"x: {note}" for note in notes]


def test_runs_without_drafts_say_why_they_give_no_acceptance(tmp_path: Path) -> None:
    plain = {k: v for k, v in SERVE.items() if not k.startswith("spec_decode")}
    results = read_serve(write(tmp_path, plain))
    assert [(p.k, p.batch) for p in serve_latency(*results)] == [(0, 32)]
    with pytest.raises(DataError, match=r"x: no run drafted anything$"):
        serve_acceptance(*results)
    declared = read_serve(write(tmp_path, plain | {"num_speculative_tokens": 3}))
    with pytest.raises(DataError, match=r"K is set to 3 but no draft was recorded$"):
        serve_acceptance(*declared)
    with pytest.raises(DataError, match="1 of 1 runs give no step time: they lack a"):
        serve_latency(*declared)


def test_a_request_longer_than_its_parts_is_a_mixed_unit_only_where_known(
    tmp_path: Path,
) -> None:
    """The check needs all three times; without one the run is taken."""
    assert math.isfinite(SERVE["mean_e2el_ms"])
    for changed in ({"mean_e2el_ms": None}, {"mean_ttft_ms": math.nan}):
        _, report = read_serve(write(tmp_path, SERVE | changed))
        assert report.num_read == 1


# -- what is behind a name -------------------------------------------------------------


def test_text_that_breaks_off_in_the_middle_is_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "costs.json.gz"
    table = {"full_us": {str(n): 7000 + n for n in range(1, 4000)}}
    path.write_bytes(gzip.compress(json.dumps(table).encode())[:-2000])
    rule, message = refusal(path, read_costs)
    assert (rule, message[:18]) == ("unreadable", "x: cannot be read:")


def test_text_beyond_any_real_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b" " * 2000)
    with pytest.raises(DataError, match="is larger than 1999 bytes, which no file"):
        _source.read_text(path, 1999)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_the_system_does_not_give_is_refused() -> None:
    with pytest.raises(DataError, match=r"^/proc/self/mem: cannot be read: Input/out"):
        read_log("/proc/self/mem")


def test_lines_longer_than_a_chunk_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_source, "CHUNK_BYTES", 8)
    report = ReadReport("x", "log")
    path = write(tmp_path, "ab\n" + "c" * 30 + "\nd\n" + "e" * 12)
    lines = list(_source.iter_lines(path, report, max_line=10))
    assert lines == [(1, b"ab"), (3, b"d")]
    assert [d.line for d in report.damaged] == [2, 4]
    monkeypatch.setattr(_source, "CHUNK_BYTES", 100)
    report = ReadReport("x", "log")
    lines = list(_source.iter_lines(path, report, max_line=10))
    assert lines[:2] == [(1, b"ab"), (3, b"d")]
    assert [d.line for d in report.damaged] == [2, 4]


def test_standard_input_is_a_log_unless_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (DATA / "server.log").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    seen: list[tuple[int, int | None]] = []
    log = read_log("-", lambda done, total: seen.append((done, total)))
    assert log.steps.num_steps == 120
    assert seen[-1] == (len(text), None)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="is closed; pipe the text in, or name a file"):
        read_log("-")


def test_a_log_without_steps_names_all_it_holds(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "| 8 | 8 | 0 | FULL | 4 |\n"
        "Batchsize forward time stats (batchsize, count, median_time(ms)): "
        "[(4, 4, 7)]\n"
        "SpecDecoding metrics: Mean acceptance length: 1.90, Accepted throughput: 1.00 "
        "tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: 900 tokens, Drafted: "
        "1000 tokens, Per-position acceptance rate: 0.900, Avg Draft acceptance rate: "
        "90.0%\n",
    )
    rule, message = refusal(path, read_workload)
    assert rule == "empty"
    held = "--cudagraph-metrics tables, batch-size times, SpecDecoding lines."
    assert f"it holds only {held}" in message


def test_a_decode_step_may_repeat_its_tokens(tmp_path: Path) -> None:
    steps, _ = read_workload(write(tmp_path, STEPS + "4,2,8,1\n"))
    assert steps.uniform == {(4, 2): 1}


def test_a_sweep_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specgrid.io.serve.MAX_SWEEP_FILES", 1)
    for name in ("run=0.json", "run=1.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(DataError, match="holds over 1 files; name one experiment"):
        read_sweep(tmp_path)


def test_runs_in_lines_may_leave_lines_empty_and_k_unknown(tmp_path: Path) -> None:
    varied = dict(SERVE)
    varied["spec_decode_draft_tokens"] = int(SERVE["spec_decode_draft_tokens"] * 0.8)
    text = f"{json.dumps(SERVE)}\n\n{json.dumps(varied)}\n"
    results, report = read_serve(write(tmp_path, text))
    assert len(results) == 2
    counts = serve_acceptance(results, report)
    assert counts.constant_k == 3
    assert report.notes[-1] == "1 runs give no acceptance: K varied or unknown"


@pytest.mark.parametrize(
    ("drafted", "accepted", "per_position", "k_shares", "message"),
    [
        (
            2000,
            1600,
            [700.0, 900.0],
            None,
            "x: position 2 was accepted more often (900) than position 1 (700)",
        ),
        (
            1500,
            1500,
            [900.0, 600.0],
            {1: 1.0, 2: 1.0},
            "x: position 2 was accepted 600 times but, by the steps given, proposed "
            "500 times",
        ),
    ],
)
def test_totals_that_contradict_each_other_are_refused(
    drafted: float,
    accepted: float,
    per_position: list[float],
    k_shares: dict[int, float] | None,
    message: str,
) -> None:
    report = ReadReport("x", "y")
    with pytest.raises(DataError) as caught:
        from_totals(1000, drafted, accepted, per_position, "x", report, k_shares)
    assert str(caught.value) == message


def test_steps_without_drafts_are_no_drafts(tmp_path: Path) -> None:
    record = {"per_step_drafted": [0, 2], "per_step_accepted": [0, 1]}
    path = write(tmp_path, json.dumps({"speculative_decoding": record}) + "\n")
    counts, _ = read_acceptance(path)
    assert (counts.num_drafts, counts.drafted, counts.accepted) == (1, (1, 1), (1, 0))


def test_a_report_is_data_too() -> None:
    report = ReadReport("x", "log", num_read=2)
    report.add_damage(7, "cut short", "text\x00")
    assert report.to_dict() == {
        "source": "x",
        "format": "log",
        "num_read": 2,
        "num_skipped": 0,
        "num_damaged": 1,
        "damaged": [{"line": 7, "reason": "cut short", "text": "text"}],
        "notes": [],
    }
