# SPDX-License-Identifier: Apache-2.0
"""vllm bench forward, bench serve and sweep folders."""

from __future__ import annotations

import copy
import json
import math
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid.io import (
    DataError,
    read_forward,
    read_latency,
    read_serve,
    read_sweep,
    serve_acceptance,
    serve_latency,
)

DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"
FORWARD = json.loads((DATA / "forward-k3.json").read_text())
SERVE = json.loads((DATA / "serve.json").read_text())


def write(tmp_path: Path, data: object, name: str = "x.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return path


def refused(rule: str, call: Any, *args: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*args)
    assert caught.value.rule == rule, str(caught.value)
    return str(caught.value)


# vllm bench forward.


def test_forward_files_for_several_k_make_one_surface() -> None:
    data = read_forward([DATA / f"forward-k{k}.json" for k in (0, 1, 3)])
    assert len(data) == 18
    assert data.scope == "target_and_drafter"
    assert {(p.batch, p.k) for p in data} == {
        (b, k) for b in (1, 8, 32) for k in (0, 1, 3)
    }
    assert data.report.num_damaged == 0
    first = FORWARD[0]
    point = next(p for p in data if p.k == 3 and p.batch == len(first["requests"]))
    prefixes = [r["kv_len"] - r["query_len"] for r in first["requests"]]
    assert point.context == round(sum(prefixes) / len(prefixes))
    assert point.step_us == first["median_us"]


def test_prefills_and_mixed_batches_are_passed_over(tmp_path: Path) -> None:
    data = copy.deepcopy(FORWARD)
    data[0]["requests"][0] |= {"query_len": 512, "num_draft_tokens": 0}
    data[0]["ranks"] = []
    data[1]["requests"].append({"query_len": 1, "kv_len": 9, "num_draft_tokens": 0})
    data[1]["ranks"][0]["num_tokens"] += 1
    result = read_forward(write(tmp_path, data))
    assert result.report.num_skipped == 2
    assert len(result) == len(FORWARD) - 2


def test_a_case_repeated_within_noise_is_merged_and_noted(tmp_path: Path) -> None:
    again = copy.deepcopy(FORWARD)
    for case in again:
        case["median_us"] *= 1.01
    one, two = write(tmp_path, FORWARD, "a.json"), write(tmp_path, again, "b.json")
    result = read_forward([one, two])
    assert len(result) == len(FORWARD)
    assert any("more than once" in n for n in result.report.notes)


def test_contradictory_repetitions_are_refused_by_name(tmp_path: Path) -> None:
    again = copy.deepcopy(FORWARD)
    for case in again:
        case["median_us"] *= 1.5
    one, two = write(tmp_path, FORWARD, "a.json"), write(tmp_path, again, "b.json")
    message = refused("conflict", read_forward, [one, two])
    assert "a.json" in message
    assert "b.json" in message


def test_a_case_in_milliseconds_is_refused(tmp_path: Path) -> None:
    data = copy.deepcopy(FORWARD)
    data[2]["median_us"] /= 1000
    refused("unit", read_forward, write(tmp_path, data))
    for case in data:
        case["median_us"] = 14.02
        case["ranks"] = []
    assert "step_ms" in refused("unit", read_forward, write(tmp_path, data))


def test_with_and_without_drafter_is_refused(tmp_path: Path) -> None:
    data = copy.deepcopy(FORWARD)
    data[0]["ranks"][0]["timing_scope"] = "target_only"
    refused("mixed_scope", read_forward, write(tmp_path, data))


def test_undrafted_cases_without_a_drafter_fit_drafted_ones_with(
    tmp_path: Path,
) -> None:
    plain = json.loads((DATA / "forward-k0.json").read_text())
    for case in plain:
        case["ranks"][0]["timing_scope"] = "target_only"
    result = read_forward([write(tmp_path, plain), DATA / "forward-k3.json"])
    assert result.scope == "target_and_drafter"


@pytest.mark.parametrize("value", [math.nan, -1.0, "fast", None, True, math.inf])
def test_a_time_that_is_no_time_is_damaged(tmp_path: Path, value: object) -> None:
    data = copy.deepcopy(FORWARD)
    data[0]["median_us"] = value
    result = read_forward(write(tmp_path, data))
    assert result.report.num_damaged == 1
    assert "median_us" in result.report.damaged[0].reason


def test_truncated_json_is_refused_as_such(tmp_path: Path) -> None:
    text = (DATA / "forward-k3.json").read_text()
    path = tmp_path / "x.json"
    path.write_text(text[: len(text) // 2].rstrip(",: "))
    refused("not_json", read_forward, path)
    path.write_text(text[: text.rindex("}")])
    assert "cut short" in refused("not_json", read_forward, path)


def test_deep_large_and_foreign_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    refused("too_deep", read_forward, path)
    path.write_text("[" * 100_000 + "]" * 100_000)
    refused("too_deep", read_forward, path)
    path.write_text('{"a": 1}')
    refused("wrong_format", read_forward, path)
    path.write_text("   ")
    refused("empty", read_forward, path)


# vllm bench serve.


def test_serve_results_in_json_and_json_lines() -> None:
    results, report = read_serve(DATA / "serve.jsonl")
    assert [r.max_concurrency for r in results] == [8, 16, 32]
    assert report.num_damaged == 0
    assert all(r.k == 3 for r in results)
    first = results[0].acceptance
    assert first is not None
    assert first.num_drafts == 3000
    assert first.at_risk == (3000, *first.accepted[:-1])
    assert sum(first.accepted) == round(9000 * first_rate(results[0]))
    (single,), _ = read_serve(DATA / "serve.json")
    assert single.max_concurrency == 32
    assert single.median_tpot_us == SERVE["median_tpot_ms"] * 1000


def first_rate(result: Any) -> float:
    return float(result.settings["spec_decode_acceptance_rate"]) / 100


def test_a_last_line_cut_short_is_damaged_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "serve.jsonl"
    path.write_text((DATA / "serve.jsonl").read_text()[:-30])
    results, report = read_serve(path)
    assert len(results) == 2
    assert report.damaged[0].line == 3


def test_a_varying_k_gives_no_acceptance_and_says_why(tmp_path: Path) -> None:
    data = dict(SERVE)
    data["spec_decode_draft_tokens"] = int(data["spec_decode_draft_tokens"] * 0.8)
    (result,), _ = read_serve(write(tmp_path, data))
    assert result.acceptance is None
    assert result.k is None
    assert "K varied" in (result.acceptance_refused or "")
    refused("k_varied", serve_acceptance, *read_serve(write(tmp_path, data)))


def test_acceptance_above_one_is_refused(tmp_path: Path) -> None:
    data = dict(SERVE)
    data["spec_decode_per_position_acceptance_rates"] = [1.2, 0.5, 0.4]
    refused("acceptance_above_one", read_serve, write(tmp_path, data))
    data["spec_decode_per_position_acceptance_rates"] = [76.0, 54.0, 39.0]
    assert "per cent" in refused(
        "acceptance_above_one", read_serve, write(tmp_path, data)
    )


def test_zero_drafts_give_no_acceptance_and_say_why(tmp_path: Path) -> None:
    data = dict(SERVE)
    data |= {
        "spec_decode_num_drafts": 0,
        "spec_decode_draft_tokens": 0,
        "spec_decode_accepted_tokens": 0,
        "spec_decode_per_position_acceptance_rates": [0.0, 0.0, 0.0],
        "spec_decode_acceptance_length": 1.0,
    }
    (result,), _ = read_serve(write(tmp_path, data))
    assert "no draft" in (result.acceptance_refused or "")
    refused("zero_drafts", serve_acceptance, *read_serve(write(tmp_path, data)))


def test_two_models_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path, SERVE, "a.json")
    two = write(tmp_path, SERVE | {"model_id": "other"}, "b.json")
    assert "m, other" in refused("mixed_models", read_serve, [one, two])


def test_seconds_for_milliseconds_are_refused(tmp_path: Path) -> None:
    data = dict(SERVE)
    data["mean_tpot_ms"] = data["mean_tpot_ms"] * 1000
    refused("unit", read_serve, write(tmp_path, data))


def test_a_run_without_completed_requests_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(SERVE) + "\n" + json.dumps(SERVE | {"completed": 0}))
    results, report = read_serve(path)
    assert len(results) == 1
    assert "no request completed" in report.damaged[0].reason


# Sweeps.


def test_a_sweep_gives_latency_by_concurrency_and_k() -> None:
    results, report = read_sweep(DATA / "sweep")
    assert len(results) == 12
    assert any("failed" in n for n in report.notes)
    assert {r.drafter for r in results} == {None, "eagle3 d"}
    latency = serve_latency(results, report)
    assert latency.scope == "end_to_end"
    assert {(p.batch, p.k) for p in latency} == {
        (b, k) for b in (8, 32) for k in (0, 1, 3)
    }
    for p in latency:
        assert p.step_us == pytest.approx(7000 + 40 * p.batch * (p.k + 1), rel=1e-6)
        assert p.context == 512 + 128
    acceptance = serve_acceptance(results, report)
    assert acceptance.constant_k is None
    assert acceptance.drafted == (24000, 12000, 12000)
    rates = [
        a / d for a, d in zip(acceptance.accepted, acceptance.drafted, strict=True)
    ]
    assert rates == pytest.approx([0.76, 0.54, 0.39], abs=0.02)


def test_a_sweep_over_two_drafters_is_refused(tmp_path: Path) -> None:
    shutil.copytree(DATA / "sweep", tmp_path / "sweep")
    path = next((tmp_path / "sweep").glob("SERVE--k1*/run=0.json"))
    data = json.loads(path.read_text())
    data["speculative_config"]["model"] = "other"
    path.write_text(json.dumps(data))
    refused("mixed_drafters", read_sweep, tmp_path / "sweep")


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    assert "run=N.json" in refused("empty", read_sweep, tmp_path)
    refused("unreadable", read_sweep, tmp_path / "none")


def test_runs_at_a_finite_rate_give_no_step_time(tmp_path: Path) -> None:
    data = [SERVE, SERVE | {"request_rate": 4.0, "max_concurrency": 8}]
    results, report = read_serve(write(tmp_path, data))
    assert [p.batch for p in serve_latency(results, report)] == [32]
    assert any("finite request rate" in n for n in report.notes)


# The front door, and mutilation.


def test_read_latency_knows_each_kind_and_refuses_mixtures(tmp_path: Path) -> None:
    assert len(read_latency(DATA / "forward-k1.json")) == 6
    assert len(read_latency(DATA / "serve.jsonl")) == 3
    assert len(read_latency(DATA / "sweep")) == 6
    refused(
        "mixed_scope", read_latency, [DATA / "forward-k1.json", DATA / "serve.json"]
    )


def paths_in(data: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [prefix] if prefix else []
    items: Any = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = list(enumerate(data))[:3]
    for key, value in items:
        out += paths_in(value, (*prefix, key))
    return out


def put(data: Any, path: tuple[Any, ...], value: object) -> Any:
    data = copy.deepcopy(data)
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return data


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(st.sampled_from(paths_in(FORWARD[:2])), JUNK)
def test_forward_with_any_field_replaced_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[Any, ...], junk: object
) -> None:
    file = write(tmp_path_factory.mktemp("f"), put(FORWARD[:2], path, junk))
    with suppress(DataError):
        for point in read_forward(file):
            assert math.isfinite(point.step_us)
            assert point.step_us > 0


@given(st.sampled_from(paths_in(SERVE)), JUNK)
def test_serve_with_any_field_replaced_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[Any, ...], junk: object
) -> None:
    file = write(tmp_path_factory.mktemp("s"), put(SERVE, path, junk))
    with suppress(DataError):
        results, report = read_serve(file)
        for counts in (r.acceptance for r in results if r.acceptance):
            assert all(
                0 <= a <= d
                for a, d in zip(counts.accepted, counts.drafted, strict=True)
            )
        serve_latency(results, report)


@given(st.integers(0, 3600), st.integers(0, 3600))
def test_serve_lines_with_a_piece_missing_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, a: int, b: int
) -> None:
    text = (DATA / "serve.jsonl").read_text()
    path = tmp_path_factory.mktemp("s") / "serve.jsonl"
    path.write_text(text[: min(a, b)] + text[max(a, b) :])
    with suppress(DataError):
        read_serve(path)
