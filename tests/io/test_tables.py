# SPDX-License-Identifier: Apache-2.0
"""Hand-made workloads, costs and latencies, and the fits from a log."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid import io
from specgrid.io import (
    DataError,
    ReadReport,
    StartupRecord,
    read_costs,
    read_latency,
    read_log,
    read_workload,
)
from specgrid.io.calibrate import (
    ASSUMED_GRAPH_BYTES,
    graph_costs,
    step_costs,
    steps_from_table,
)

DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"


def refused(rule: str, call: Any, *args: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*args)
    assert caught.value.rule == rule, str(caught.value)
    return str(caught.value)


def write(tmp_path: Path, text: object, name: str = "x") -> Path:
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


# Workloads.


def test_a_workload_as_csv_and_as_json(tmp_path: Path) -> None:
    table = "query_len,num_reqs,num_tokens,weight\n4,2,,180\n4,2,,20\n,,604,7.5\n"
    steps, log = read_workload(write(tmp_path, table))
    assert log is None
    assert steps.uniform == {(4, 2): 200}
    assert steps.mixed == {604: 7.5}
    same = {"uniform": [[4, 2, 200]], "mixed": [[604, 7.5]]}
    assert read_workload(write(tmp_path, same))[0] == steps
    semicolons = table.replace(",", ";")
    assert read_workload(write(tmp_path, "# made up\n" + semicolons))[0] == steps


def test_a_log_is_read_as_a_workload() -> None:
    steps, log = read_workload(DATA / "server.log")
    assert steps.num_steps == 120
    assert log is not None
    assert log.startups


def test_a_log_without_steps_names_what_it_has_and_the_flag(tmp_path: Path) -> None:
    text = refused("empty", read_workload, DATA / "spec-varied.log")
    assert "--enable-logging-iteration-details" in text
    path = write(
        tmp_path,
        "Graph capturing finished in 12 secs, took 1.43 GiB\nIteration(3): 0 con\n",
    )
    text = refused("empty", read_workload, path)
    assert "start-up lines" in text
    assert "line 2" in text


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ("4,2,,-1", "negative"),
        ("4,2,,nan", "not_finite"),
        ("4,2,,inf", "not_finite"),
        ("0,2,,1", "inconsistent"),
        ("4,2.5,,1", "not_number"),
        ("4,2,,", "not_number"),
        (",,,5", "not_number"),
        ("4,2,,0", "empty"),
        ("4,2,1", "damaged"),
        ("4,99999999999,,1", "inconsistent"),
    ],
)
def test_impossible_weights_are_refused(tmp_path: Path, rows: str, rule: str) -> None:
    head = "query_len,num_reqs,num_tokens,weight\n"
    refused(rule, read_workload, write(tmp_path, head + rows + "\n"))


# Costs.


def test_costs_as_table_as_line_and_from_bench_forward(tmp_path: Path) -> None:
    table = "num_tokens,full_ms,eager_ms\n8,7.1,19.0\n64,8.2,\n"
    costs = read_costs(write(tmp_path, table))
    assert costs.full_us == pytest.approx({8: 7100, 64: 8200})
    assert costs.eager_us == pytest.approx({8: 19000})
    assert costs.piecewise_us is None
    line = {"base_ms": 7, "per_token_ms": 0.02, "eager_ms": 12, "graph_bytes": 5e7}
    costs = read_costs(write(tmp_path, line))
    assert (costs.base_us, costs.per_token_us) == (7000, 20)
    assert costs.eager_penalty_us == 12000
    assert costs.piecewise_penalty_us is None
    assert costs.graph_bytes == 5e7
    mixed = {"full_us": {"8": 7100, "64": 8200}, "piecewise_us": 3000}
    costs = read_costs(write(tmp_path, mixed))
    assert costs.full_us == {8: 7100, 64: 8200}
    assert costs.piecewise_penalty_us == 3000
    only_graphs = read_costs(write(tmp_path, {"graph_seconds": 0.2}))
    assert only_graphs.full_us == {}
    assert only_graphs.graph_seconds == 0.2
    forward = read_costs(DATA / "forward-k3.json")
    assert sorted(forward.full_us) == [4, 32, 128]
    assert any("smallest context" in n for n in forward.report.notes)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("num_tokens,full\n8,7.1\n", "unit"),
        ("num_tokens,full_us\n8,7.1\n", "unit"),
        ("num_tokens,full_us,full_ms\n8,7100,7.1\n", "unit"),
        ("num_tokens,full_us,eager_us\n8,7100,19.0\n", "unit"),
        ("num_tokens,full_us\n8,7100\n8,7200\n", "conflict"),
        ("num_tokens,full_us\n8,nan\n", "not_finite"),
        ("num_tokens,full_us\n8,-7100\n", "negative"),
        ("num_tokens,full_us\n8\n", "damaged"),
        ("tokens,full_us\n8,7100\n", "missing"),
        ("8,7100\n", "wrong_format"),
        ({"base_us": 7000}, "missing"),
        ({"base_us": 7000, "per_token_ms": 1}, "unit"),
        ({"full_us": {"8": 7100}, "base_us": 7000}, "conflict"),
        ({"full_us": {"eight": 7100}}, "not_number"),
        ({"full_us": {}}, "empty"),
        ({"speed": 1}, "wrong_format"),
        ({}, "empty"),
        ({"graph_bytes": "many"}, "not_number"),
        ("", "empty"),
    ],
)
def test_what_is_no_cost_is_refused(tmp_path: Path, text: object, rule: str) -> None:
    refused(rule, read_costs, write(tmp_path, text))


# Latencies.


def test_latency_points_as_csv_and_json(tmp_path: Path) -> None:
    table = "batch,context,k,step_ms\n1,0,0,6.87\n64,0,3,13.16\n"
    points = list(read_latency(write(tmp_path, table)))
    assert [p[:3] for p in points] == [(1, 0, 0), (64, 0, 3)]
    assert points[1].step_us == pytest.approx(13160)
    rows = [[1, 0, 0, 6870.0], [64, 0, 3, 13160.0]]
    assert [p[:3] for p in read_latency(write(tmp_path, rows))] == [
        (1, 0, 0),
        (64, 0, 3),
    ]
    named = [{"batch": 1, "k": 0, "step_us": 6870.0}]
    assert list(read_latency(write(tmp_path, named))) == [(1, 0, 0, 6870.0)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("batch,step_us\n1,6870\n", "k_unknown"),
        ("batch,k,step\n1,0,6870\n", "unit"),
        ("batch,k,step_us\n1,0,6.87\n", "unit"),
        ("batch,k,step_us\n1,0,6.87\n2,0,6900\n", "unit"),
        ("batch,k,step_us\n1,0,6870\n1,0,9870\n", "conflict"),
        ("batch,k,step_us\n1,0,-5\n", "empty"),
        ([], "empty"),
        ("batch,k,step_us\n", "empty"),
    ],
)
def test_what_is_no_latency_is_refused(tmp_path: Path, text: object, rule: str) -> None:
    refused(rule, read_latency, write(tmp_path, text))


def test_rows_that_are_no_point_are_counted(tmp_path: Path) -> None:
    text = "batch,k,step_us\n1,0,6870\n0,0,7000\n2,x,7000\n4,0\n8,0,nan\n"
    data = read_latency(write(tmp_path, text))
    assert len(data) == 1
    assert sorted(d.line for d in data.report.damaged) == [3, 4, 5, 6]


TABLES = [
    "query_len,num_reqs,num_tokens,weight\n4,2,,180\n,,604,7.5\n",
    "num_tokens,full_ms,eager_ms\n8,7.1,19.0\n64,8.2,\n",
    "batch,context,k,step_ms\n1,0,0,6.87\n64,0,3,13.16\n",
    '{"uniform": [[4, 2, 200]], "mixed": [[604, 7.5]]}',
    '{"full_us": {"8": 7100, "64": 8200}, "piecewise_us": 3000}',
    "[[1, 0, 0, 6870.0], [64, 0, 3, 13160.0]]",
]


@given(
    st.sampled_from(TABLES), st.integers(0, 60), st.integers(0, 9), st.text(max_size=5)
)
def test_mutilated_tables_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: int, cut: int, put: str
) -> None:
    path = tmp_path_factory.mktemp("t") / "x"
    path.write_bytes((text[:at] + put + text[at + cut :]).encode("utf-8", "replace"))
    for reader in (read_workload, read_costs, read_latency):
        with suppress(DataError):
            reader(path)


# Fits from a log.


def start(graphs: int, gib: float, seconds: float) -> StartupRecord:
    return StartupRecord(
        graph_seconds=seconds,
        graph_bytes=round(gib * 2**30),
        num_graphs={"CUDA graphs (FULL)": graphs},
    )


def test_two_starts_give_pool_and_graph_bytes() -> None:
    report = ReadReport("x", "log")
    costs = graph_costs([start(10, 1.1, 2), start(40, 1.4, 8)], report)
    assert costs.graph_bytes == pytest.approx(0.01 * 2**30, rel=1e-6)
    assert costs.pool_bytes == pytest.approx(2**30, rel=1e-6)
    assert costs.graph_seconds == pytest.approx(0.2)
    assert report.notes == []


def test_one_start_gives_the_total_and_says_what_is_assumed() -> None:
    report = ReadReport("x", "log")
    costs = graph_costs([start(10, 1.0, 2)], report)
    assert costs.graph_bytes == ASSUMED_GRAPH_BYTES
    assert costs.graph_bytes is not None
    assert costs.pool_bytes == pytest.approx(2**30 - 10 * costs.graph_bytes)
    assert any("assumed" in n for n in report.notes)
    assert graph_costs([StartupRecord()], report).graph_bytes is None


def test_step_costs_are_recovered_from_elapsed_times(tmp_path: Path) -> None:
    lines = []
    index = 0
    for n in (1, 2, 4, 8, 16, 32):
        for _ in range(20):
            tokens = 4 * n
            extra = 12.0 if n == 32 else 3.0 if n == 16 else 0.0
            ms = 7 + 0.02 * tokens + extra
            lines.append(
                f"Engine 000: Iteration({index}): 0 context requests, 0 context "
                f"tokens, {n} generation requests, {tokens} generation tokens, "
                f"iteration elapsed time: {ms:.2f} ms, GPU KV cache usage: 1.0%"
            )
            index += 1
    log = read_log(write(tmp_path, "\n".join(lines) + "\n"))

    def dispatch(num_reqs: int, tokens: int, query_len: int | None) -> tuple[int, str]:
        mode = "NONE" if tokens > 64 else "PIECEWISE" if tokens > 32 else "FULL"
        return tokens, mode

    costs = step_costs(log, dispatch)
    assert costs.base_us == pytest.approx(7000, rel=0.02)
    assert costs.per_token_us == pytest.approx(20, abs=4)
    assert costs.piecewise_penalty_us == pytest.approx(3000, rel=0.1)
    assert costs.eager_penalty_us == pytest.approx(12000, rel=0.1)
    none = step_costs(log, lambda *_: (1, "NONE"))
    assert none.base_us is None
    assert any("not fitted" in n for n in log.report.notes)


def test_errors_survive_pickling() -> None:
    error = DataError("is empty", rule="empty", source="x.csv", line=3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rule, again.line) == ("x.csv:3: is empty", "empty", 3)


def test_every_public_reader_is_found_and_nothing_else() -> None:
    assert sorted(io.__all__) == io.__all__
    assert set(io._HOME) == set(io.__all__)
    assert all(getattr(io, name) is not None for name in io.__all__)
    assert set(io.__all__) <= set(dir(io))
    with pytest.raises(AttributeError, match="read_minds"):
        _ = io.read_minds


def test_step_shapes_are_deduced_from_tables_only_where_one_fits(
    tmp_path: Path,
) -> None:
    head = "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
    rows = (
        (16, 16, "FULL", 400),  # four requests of four tokens
        (12, 16, "PIECEWISE", 30),  # would be FULL if it were a decode step
        (40, 48, "PIECEWISE", 20),  # ten requests of four, or a prefill
        (900, 900, "NONE", 9),
        (17, 24, "FULL", 1),  # nothing makes a FULL step of 17 tokens
    )
    text = "".join(f"| {t} | {p} | {p - t} | {m} | {c} |\n" for t, p, m, c in rows)
    log = read_log(write(tmp_path, head + text))

    def dispatch(num_reqs: int, tokens: int, query_len: int | None) -> tuple[int, str]:
        padded = next((s for s in (16, 24, 48) if s >= tokens), tokens)
        full = query_len == 4 and padded == 16
        mode = "FULL" if full else "PIECEWISE" if padded <= 48 else "NONE"
        return padded, mode

    pairs = {4 * n: [(4, n)] for n in range(1, 17)}
    steps = steps_from_table(log, pairs, dispatch)
    assert steps.uniform == {(4, 4): 400}
    assert steps.mixed == {12: 30, 900: 9}
    (note,) = log.report.notes
    assert "439 of 460 steps are certain" in note
    assert "4.3%" in note
    refused("inconsistent", steps_from_table, log, pairs, lambda *_: (1, "FULL"))


def fitted(tmp_path: Path, steps: Any, dispatch: Any = None) -> tuple[Any, list[str]]:
    """The fit over (num_reqs, tokens, ms, context requests) steps, five of each."""
    lines = []
    for n, tokens, ms, prefill in steps:
        for _ in range(5):
            lines.append(
                f"Engine 000: Iteration({len(lines)}): {prefill} context requests, "
                f"{prefill * 100} context tokens, {n} generation requests, {tokens} "
                f"generation tokens, iteration elapsed time: {ms:.2f} ms, GPU KV cache "
                "usage: 1.0%"
            )
    log = read_log(write(tmp_path, "\n".join(lines) + "\n"))
    return step_costs(log, dispatch or (lambda n, t, q: (t, "FULL"))), log.report.notes


@pytest.mark.parametrize(
    ("steps", "note"),
    [
        # One size twice over tells no line.
        (
            [(1, 4, 7, 0), (2, 8, 6, 0), (4, 16, 5, 0)],
            "step times were not used: the fit gives",
        ),
        (
            [(1, 4, 1, 0), (2, 8, 8, 0), (4, 16, 30, 0)],
            "step times were not used: the fit gives",
        ),
        (
            [(1, 4, 0, 0), (2, 8, 0, 0), (4, 16, 0, 0)],
            "step times were not fitted: only 0 sizes ran in FULL graphs, 3 are needed",
        ),
    ],
)
def test_times_no_server_has_are_not_used(
    tmp_path: Path, steps: Any, note: str
) -> None:
    costs, notes = fitted(tmp_path, steps)
    assert costs.base_us is None
    assert notes[-1].startswith(note)


def test_a_mode_faster_than_full_gives_no_penalty(tmp_path: Path) -> None:
    line = [(n, 4 * n, 7 + 0.08 * n, 0) for n in (1, 2, 4, 8)]
    odd = [(3, 13, 2.0, 0), (5, 21, 20.0, 0), (1, 4, 3.82, 1), (1, 4, 9.0, 9)]

    def dispatch(n: int, tokens: int, q: int | None) -> tuple[int, str]:
        if q is not None:
            return tokens, "FULL"
        return tokens, {13: "PIECEWISE", 104: "PIECEWISE"}.get(tokens, "NONE")

    costs, notes = fitted(tmp_path, [*line, *odd], dispatch)
    assert costs.base_us == pytest.approx(7000, rel=0.02)
    assert costs.piecewise_penalty_us is None
    assert costs.eager_penalty_us == pytest.approx(20_000 - 7420, rel=0.02)
    assert any("us faster than FULL; not used" in n for n in notes)


def test_sizes_that_all_ran_in_one_padded_size_tell_no_line(tmp_path: Path) -> None:
    # Three padded sizes, but the mode's own steps are of one.
    steps = [(n, 4 * n, 7 + 0.08 * n, 0) for n in (1, 2, 4)]
    costs, notes = fitted(tmp_path, steps, lambda n, t, q: (16, "FULL"))
    assert costs.base_us is None
    assert "only 1 sizes ran in FULL graphs" in notes[-1]


def test_starts_whose_memory_does_not_grow_share_it_by_assumption() -> None:
    report = ReadReport("x", "log")
    costs = graph_costs([start(10, 2.0, 0), start(40, 1.0, 0)], report)
    assert costs.split_assumed
    assert costs.graph_seconds is None
    assert report.notes == [
        "the starts' graph memory does not grow with the number of graphs; the split "
        "into pool and graphs is assumed"
    ]


def test_a_start_without_bars_counts_the_graphs_it_is_told() -> None:
    record = StartupRecord(graph_seconds=3.0, graph_bytes=1 << 30)
    report = ReadReport("x", "log")
    assert graph_costs([record], report).graph_bytes is None
    costs = graph_costs([record], report, lambda start: 30)
    assert costs.graph_seconds == pytest.approx(0.1)
    assert graph_costs([record], report, lambda start: None).graph_bytes is None


def test_tables_of_which_no_row_is_certain_are_refused(tmp_path: Path) -> None:
    head = "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
    log = read_log(write(tmp_path, head + "| 8 | 8 | 0 | FULL | 4 |\n"))
    pairs = {8: [(4, 2), (2, 4)]}
    text = refused("empty", steps_from_table, log, pairs, lambda n, t, q: (8, "FULL"))
    assert "no --cudagraph-metrics row says which step it was" in text
