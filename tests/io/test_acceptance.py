# SPDX-License-Identifier: Apache-2.0
"""/metrics text, per-request metrics, and the acceptance front door."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid.io import (
    AcceptanceCounts,
    DataError,
    drafts_by_k,
    read_acceptance,
    read_log,
    read_metrics,
    read_requests,
)

DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"
METRICS = (DATA / "metrics-1.txt").read_text()
TRUTH = (0.76, 0.54, 0.39, 0.28, 0.21)


def refused(rule: str, call: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*args, **options)
    assert caught.value.rule == rule, str(caught.value)
    return str(caught.value)


def rates(counts: AcceptanceCounts) -> list[float]:
    return [a / d for a, d in zip(counts.accepted, counts.drafted, strict=True)]


def product_limit(counts: AcceptanceCounts) -> list[float]:
    assert counts.at_risk is not None
    out, survival = [], 1.0
    for accepted, at_risk in zip(counts.accepted, counts.at_risk, strict=True):
        survival *= accepted / at_risk
        out.append(survival)
    return out


def metrics(tmp_path: Path, text: str, name: str = "m.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


# /metrics.


def test_one_scrape_adds_the_engines_up() -> None:
    data = read_metrics(DATA / "metrics-1.txt")
    assert data.engines == ("0", "1")
    assert data.model == "m"
    assert data.num_drafts == 4000
    assert data.running == 21 + 22
    assert data.acceptance is not None
    assert data.acceptance.constant_k == 3
    assert rates(data.acceptance) == pytest.approx(TRUTH[:3], abs=0.03)


def test_two_scrapes_give_the_window_between() -> None:
    one = read_metrics(DATA / "metrics-1.txt")
    both = read_metrics(DATA / "metrics-2.txt")
    window = read_metrics(DATA / "metrics-2.txt", DATA / "metrics-1.txt")
    assert window.num_drafts == both.num_drafts - one.num_drafts
    assert window.accepted_per_pos == tuple(
        b - a for a, b in zip(one.accepted_per_pos, both.accepted_per_pos, strict=True)
    )


def test_wrong_order_or_a_restart_between_is_refused(tmp_path: Path) -> None:
    refused(
        "counter_reset", read_metrics, DATA / "metrics-1.txt", DATA / "metrics-2.txt"
    )
    # Restarted and busier than before: only the start time tells.
    late = (DATA / "metrics-2.txt").read_text()
    late = re.sub(r"(_created\{.*\}) \S+", r"\1 1.9e+09", late)
    refused(
        "counter_reset",
        read_metrics,
        metrics(tmp_path, late),
        DATA / "metrics-1.txt",
    )


def test_a_varying_k_is_refused_unless_the_steps_are_known(tmp_path: Path) -> None:
    # 2,000 drafts with K = 3 and 2,000 with K = 1 on each engine.
    text = """
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 4000.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 8000.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 4900.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 3040.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 1080.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 780.0
""".replace(',position="', ',model_name="m",position="')
    path = metrics(tmp_path, text)
    data = read_metrics(path)
    assert data.acceptance is None
    assert "K varied" in (data.acceptance_refused or "")
    refused("k_varied", read_acceptance, path)
    steps = {(4, 10): 200.0, (2, 100): 20.0, (1, 256): 5.0}
    known = read_metrics(path, drafts_by_k=drafts_by_k(steps)).acceptance
    assert known is not None
    assert known.approximate
    assert rates(known) == pytest.approx(TRUTH[:3])
    refused("inconsistent", read_metrics, path, drafts_by_k={5: 1.0})


@pytest.mark.parametrize(
    ("pattern", "put", "rule"),
    [
        (r'(drafts_total\{engine="0".*\}) \S+', r"\1 NaN", "not_finite"),
        (r'(drafts_total\{engine="0".*\}) \S+', r"\1 -4", "negative"),
        (r'(drafts_total\{engine="0".*\}) \S+', r"\1 many", "not_number"),
        (r'(accepted_tokens_total\{engine="0".*\}) \S+', r"\1 99999", "acceptance"),
        (r'(accepted_tokens_total\{engine="0".*\}) \S+', r"\1 900", "inconsistent"),
        (r'(position="2"\}) \S+', r"\1 1900", "inconsistent"),
        (r'(engine="1"),model_name="m"', r'\1,model_name="n"', "mixed_models"),
        (r"vllm:spec_decode_num_drafts_total\{.*\n", "", "damaged"),
        (r'.*_pos_total.*position="1".*\n', "", "damaged"),
        (r"vllm:spec_decode", "vllm:other", "missing"),
        (r"vllm:spec_decode_num_drafts", "vllm:diffusion_num_denoising", "damaged"),
    ],
)
def test_broken_scrapes_are_refused_by_name(
    tmp_path: Path, pattern: str, put: str, rule: str
) -> None:
    text = re.sub(pattern, put, METRICS)
    with pytest.raises(DataError) as caught:
        read_metrics(metrics(tmp_path, text))
    assert caught.value.rule.startswith(rule), str(caught.value)


def test_counts_read_a_moment_later_are_lowered_and_noted(tmp_path: Path) -> None:
    text = re.sub(r'(position="2"\}) \S+', r"\1 1120.0", METRICS)
    text = re.sub(r'(position="1"\}) \S+', r"\1 1100.0", text)
    text = re.sub(r"(accepted_tokens_total\{.*\}) \S+", r"\1 3730.0", text)
    counts = read_metrics(metrics(tmp_path, text)).acceptance
    assert counts is not None
    assert counts.accepted[2] == counts.accepted[1] == 2200
    assert any("lowered" in n for n in counts.report.notes)


def test_diffusion_counters_are_not_taken_for_drafts(tmp_path: Path) -> None:
    text = 'vllm:diffusion_num_denoising_steps_total{engine="0",model_name="m"} 4\n'
    assert "denoising" in refused("wrong_format", read_metrics, metrics(tmp_path, text))


def test_a_scrape_cut_inside_its_last_number_is_refused(tmp_path: Path) -> None:
    lines = [x for x in METRICS.splitlines() if "_created" not in x and "_num_" in x]
    text = "\n".join(x for x in lines if not x.startswith("#") and "running" not in x)
    assert read_metrics(metrics(tmp_path, text + "\n")).num_drafts == 4000
    for cut in range(3):
        refused("damaged", read_metrics, metrics(tmp_path, text[: len(text) - cut]))


def test_a_sample_given_twice_differently_is_refused(tmp_path: Path) -> None:
    line = next(x for x in METRICS.splitlines() if x.startswith("vllm:spec"))
    refused("conflict", read_metrics, metrics(tmp_path, METRICS + line[:-4] + "1.0\n"))


def test_zero_drafts_are_refused_with_the_reason(tmp_path: Path) -> None:
    text = re.sub(r"(_total\{.*\}) \S+", r"\1 0.0", METRICS)
    assert "no draft" in refused(
        "zero_drafts", read_acceptance, metrics(tmp_path, text)
    )


@given(st.integers(0, len(METRICS)), st.integers(0, 80), st.text(max_size=6))
def test_mutilated_scrapes_are_read_right_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, put: str
) -> None:
    path = tmp_path_factory.mktemp("m") / "m.txt"
    path.write_text(METRICS[:at] + put + METRICS[at + cut :], errors="replace")
    with suppress(DataError):
        data = read_metrics(path)
        if data.acceptance is not None:
            assert all(0 <= r <= 1 for r in rates(data.acceptance))


# Per-request metrics.


def test_exact_survival_from_requests_whatever_k() -> None:
    counts, by_context = read_requests(DATA / "requests.jsonl")
    assert by_context == []
    assert counts.num_drafts == 1200
    assert counts.constant_k is None
    assert not counts.approximate
    assert counts.drafted[0] == 1200
    assert counts.drafted[4] < 700
    assert product_limit(counts) == pytest.approx(TRUTH, abs=0.05)


def test_survival_by_context_adds_up_to_the_whole() -> None:
    ranges = [(0, 1999), (2000, 2**31 - 1)]
    counts, parts = read_requests(DATA / "requests.jsonl", context_ranges=ranges)
    assert [(p.context_lo, p.context_hi) for p in parts] == ranges
    total = [
        sum(p.counts.drafted[j] for p in parts) for j in range(len(counts.drafted))
    ]
    assert tuple(total) == counts.drafted


def block(**changes: object) -> dict[str, object]:
    return {
        "num_spec_steps": 4,
        "num_draft_tokens": 10,
        "num_accepted_draft_tokens": 6,
        "num_spec_tokens": 3,
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.6,
        "acceptance_histogram": [1, 1, 1, 1],
        "per_step_drafted": [3, 3, 3, 1],
        "per_step_accepted": [3, 2, 0, 1],
    } | changes


def requests(tmp_path: Path, *records: object) -> Path:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_whole_responses_metrics_objects_and_blocks_are_taken(tmp_path: Path) -> None:
    for record in (
        {"metrics": {"speculative_decoding": block()}},
        {"speculative_decoding": block()},
        block(),
    ):
        counts, _ = read_requests(requests(tmp_path, record))
        assert counts.drafted == (4, 3, 3)
        assert counts.accepted == (3, 2, 1)
        assert counts.at_risk == (4, 2, 2)


def test_streams_and_indented_arrays_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    record = {"metrics": {"speculative_decoding": block()}}
    path.write_text(f"data: {{}}\n\ndata: {json.dumps(record)}\n\ndata: [DONE]\n")
    assert read_requests(path)[0].num_drafts == 4
    path.write_text(json.dumps([record, record], indent=2))
    assert read_requests(path)[0].num_drafts == 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"per_step_accepted": [4, 2, 0, 1]}, "acceptance above 1"),
        ({"per_step_accepted": [3, 2, 0]}, "4 drafted steps but 3"),
        ({"per_step_accepted": None}, "only one of"),
        ({"num_draft_tokens": 11}, "add up to 10"),
        ({"num_accepted_draft_tokens": 7}, "add up to 6"),
        ({"num_spec_tokens": 2}, "more than num_spec_tokens"),
        ({"per_step_drafted": [3, 3, 3, -1]}, "no whole number"),
        ({"per_step_drafted": [3, 3, 3, 1.5]}, "no whole number"),
    ],
)
def test_contradictory_records_are_damaged_by_name(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    path = requests(tmp_path, block(), block(**changes))
    counts, _ = read_requests(path)
    assert counts.num_drafts == 4
    assert words in counts.report.damaged[0].reason
    assert words in refused(
        "empty", read_requests, requests(tmp_path, block(**changes))
    )


def test_a_summary_counts_only_where_k_was_constant(tmp_path: Path) -> None:
    plain = {"per_step_drafted": None, "per_step_accepted": None}
    constant = block(num_draft_tokens=12, **plain)
    counts, _ = read_requests(requests(tmp_path, constant, block(**plain)))
    assert counts.drafted == (4, 4, 4)
    assert counts.accepted == (3, 2, 1)
    assert "K varied" in counts.report.damaged[0].reason


def test_k_chosen_by_request_is_noted(tmp_path: Path) -> None:
    one = {"per_step_drafted": [3], "per_step_accepted": [1], "num_spec_tokens": 3}
    two = {"per_step_drafted": [1], "per_step_accepted": [1], "num_spec_tokens": 3}
    records = [{"speculative_decoding": r} for r in (one, two)]
    counts, _ = read_requests(requests(tmp_path, *records))
    assert any("differs between requests" in n for n in counts.report.notes)


def test_two_models_are_refused(tmp_path: Path) -> None:
    records = [
        {"model": m, "metrics": {"speculative_decoding": block()}} for m in ("a", "b")
    ]
    assert "a, b" in refused(
        "mixed_models", read_requests, requests(tmp_path, *records)
    )


def test_requests_without_metrics_say_which_flag(tmp_path: Path) -> None:
    assert "--per-request-spec-decode-metrics" in refused(
        "empty", read_requests, requests(tmp_path, {"id": 1, "usage": {}})
    )


REQUESTS = (DATA / "requests.jsonl").read_bytes()[:4000]


@given(st.integers(0, 4000), st.integers(0, 200), st.binary(max_size=4))
def test_mutilated_requests_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, put: bytes
) -> None:
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    path.write_bytes(REQUESTS[:at] + put + REQUESTS[at + cut :])
    with suppress(DataError):
        counts, _ = read_requests(path, context_ranges=[(0, 10**6)])
        assert all(0 <= r <= 1 for r in rates(counts))


# The front door and tables.


def test_the_front_door_knows_every_source(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("position,drafted,accepted\n1,100,76\n2,60,32\n")
    for path, source in (
        (DATA / "metrics-1.txt", "/metrics"),
        (DATA / "requests.jsonl", "per-request"),
        (DATA / "serve.json", "bench serve"),
        (DATA / "serve.jsonl", "bench serve"),
        (DATA / "sweep", "bench serve"),
        (DATA / "server.log", "log"),
        (table, "table"),
    ):
        counts, _ = read_acceptance(path)
        assert counts.source == source
    assert "varying K" in refused("k_varied", read_acceptance, DATA / "spec-varied.log")
    refused("wrong_format", read_acceptance, table, DATA / "metrics-1.txt")


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ("1,100,101\n", "acceptance_above_one"),
        ("1,0,0\n", "zero_drafts"),
        ("2,100,50\n", "inconsistent"),
        ("1,100,50\n2,120,40\n", "inconsistent"),
        ("1,100,50\n2,90,60\n", "inconsistent"),
        ("1,nan,50\n", "not_finite"),
        ("1,100\n", "damaged"),
        ("1,100,0.5\n", "not_number"),
    ],
)
def test_impossible_tables_are_refused(tmp_path: Path, rows: str, rule: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("position,drafted,accepted\n" + rows)
    refused(rule, read_acceptance, path)


def test_rates_without_counts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("position,rate\n1,0.76\n")
    assert "how certain" in refused("missing", read_acceptance, path)


def test_a_real_engine_whose_k_varied_is_told_apart_by_its_log() -> None:
    path = DATA / "engine-metrics.txt"
    refused("k_varied", read_acceptance, path)
    steps = read_log(DATA / "engine.log").steps
    counts = read_metrics(path, drafts_by_k=drafts_by_k(steps.uniform)).acceptance
    assert counts is not None
    # 46 drafts of two tokens and one of four, all accepted.
    assert counts.drafted == (47, 47, 1, 1)
    assert counts.accepted == (47, 47, 1, 1)


@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        (
            'vllm:spec_decode_num_drafts_total{engine="0" 4\n',
            "damaged",
            "x:1: sample cut short or broken; totals without it would be wrong",
        ),
        (
            "vllm:spec_decode_num_drafts_total{engine=0} 4\n",
            "damaged",
            "x:1: sample cut short or broken; totals without it would be wrong",
        ),
        (
            "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            '{engine="0",position="x"} 4\n',
            "not_number",
            "x:1: position 'x' is no number",
        ),
        (
            'vllm:spec_decode_num_surprises_total{engine="0"} 4\n',
            "missing",
            "x: holds no vllm:spec_decode_num_* counters; is speculation on?",
        ),
    ],
)
def test_what_is_no_scrape_is_refused_in_one_sentence(
    tmp_path: Path, text: str, rule: str, message: str
) -> None:
    path = metrics(tmp_path, text)
    assert refused(rule, read_metrics, path).replace(str(path), "x") == message


def test_two_scrapes_must_be_of_the_same_servers(tmp_path: Path) -> None:
    other = metrics(tmp_path, METRICS.replace('model_name="m"', 'model_name="n"'))
    assert refused("mixed_models", read_metrics, other, DATA / "metrics-1.txt") == (
        f"{DATA / 'metrics-1.txt'} to {other}: two models: m and n"
    )
    fewer = "".join(
        line for line in METRICS.splitlines(True) if 'engine="1"' not in line
    )
    path = metrics(tmp_path, fewer)
    assert "engine '1' is only in the earlier scrape" in refused(
        "inconsistent", read_metrics, path, DATA / "metrics-1.txt"
    )


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            {"per_step_drafted": [5000], "per_step_accepted": [1]},
            "a step count that is no whole number from 0 to 4096",
        ),
        (
            {"num_spec_tokens": 3, "num_draft_tokens": 3},
            "neither per-step arrays nor a whole summary",
        ),
        (
            {
                "num_spec_tokens": 3,
                "num_draft_tokens": 3,
                "acceptance_histogram": [1, 0],
            },
            "histogram does not fit num_spec_tokens",
        ),
    ],
)
def test_records_without_usable_counts_say_what_is_wrong(
    tmp_path: Path, record: dict[str, object], reason: str
) -> None:
    path = requests(tmp_path, {"speculative_decoding": record})
    message = refused("empty", read_requests, path)
    assert message == f"{path}: no usable record; record 1: {reason}"


def test_requests_that_drafted_nothing_are_no_acceptance(tmp_path: Path) -> None:
    idle = {"num_spec_tokens": 3, "num_draft_tokens": 0, "acceptance_histogram": [0]}
    path = requests(tmp_path, {"speculative_decoding": idle})
    assert "no drafts in it" in refused("zero_drafts", read_requests, path)


def test_what_is_no_record_is_counted_in_lines_and_in_arrays(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text(f"[5, {json.dumps(block())}]\n\n{json.dumps(block())}\n")
    counts, _ = read_requests(path)
    assert counts.num_drafts == 8
    assert [d.reason for d in counts.report.damaged] == ["not a JSON object"]
    path.write_text(json.dumps([5, block()], indent=2))
    counts, _ = read_requests(path)
    assert counts.num_drafts == 4
    assert [d.line for d in counts.report.damaged] == [1]
    path.write_text(json.dumps(block(), indent=2))
    assert read_requests(path)[0].num_drafts == 4


def test_steps_without_a_prompt_length_count_in_no_context_range(
    tmp_path: Path,
) -> None:
    known = {"usage": {"prompt_tokens": 100}, "speculative_decoding": block()}
    path = requests(tmp_path, {"speculative_decoding": block()}, known)
    counts, by_context = read_requests(path, context_ranges=[(1, 103), (900, 999)])
    assert counts.num_drafts == 8
    # 100, then 104 after four tokens: only the first step is in range.
    assert [part.counts.num_drafts for part in by_context] == [1]
