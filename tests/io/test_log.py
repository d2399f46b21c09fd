# SPDX-License-Identifier: Apache-2.0
"""Server logs: what vLLM 0.33.0's own logging prints, and what breaks it."""

from __future__ import annotations

import gzip
import math
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgrid.io import DataError, LogData, read_log

DATA = Path(__file__).parents[1] / "data" / "vllm-0.33.0"
PREFIX = "(APIServer pid=71) INFO 12-01 05:51:07 [loggers.py:199] "


def iteration(
    index: int = 0,
    ctx: tuple[int, int] = (0, 0),
    gen: tuple[int, int] = (23, 92),
    ms: str = "14.02",
    dummy: str = "",
    engine: int = 0,
    tail: str = "GPU KV cache usage: 41.3%",
) -> str:
    return (
        f"Engine {engine:03d}: Iteration({index}): {ctx[0]} context requests, "
        f"{ctx[1]} context tokens, {gen[0]} generation requests, {gen[1]} generation "
        f"tokens, iteration elapsed time: {ms} ms{dummy}, {tail}"
    )


def read(tmp_path: Path, *lines: str, prefix: str = PREFIX) -> LogData:
    path = tmp_path / "server.log"
    path.write_bytes("".join(f"{prefix}{line}\n" for line in lines).encode())
    return read_log(path)


@pytest.mark.parametrize(
    "line",
    [
        "Initializing a V1 LLM engine (v0.33.0) with config: "
        "'cudagraph_capture_sizes': [" + "1" * 5000,
        "- Capture sizes: [" + "1" * 5000 + "x",
        "Batchsize forward time stats" + " median_time(ms)): [" * 40_000,
        "Batchsize forward time stats (median_time(ms)): [" + "]" * 900_000 + "x",
        "SpecDecoding metrics: Mean acceptance length: " * 20_000,
        "Capturing " * 50_000 + "CUDA graphs |",
        "| 1 | 2 |" * 100_000,
        "|" + " " * 1_000_000 + "Unpadded Tokens",
        "\x1b[" + "1;" * 400_000 + " KV cache",
        "Engine 1: Iteration(" * 40_000,
    ],
)
def test_no_line_takes_long(line: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    read(tmp_path, line)
    assert time.monotonic() - begin < 30  # the first ones took years


def test_every_line_of_a_real_log_is_read() -> None:
    log = read_log(DATA / "server.log")
    assert log.report.num_damaged == 0
    assert log.steps.num_steps == 120
    assert {q for q, _ in log.steps.uniform} == {4}
    assert log.steps.ragged  # steps whose tokens do not divide by the requests
    assert sum(log.graphs.rows.values()) == 120
    assert log.graphs.num_intervals == 2
    assert log.graphs.mode == "FULL_AND_PIECEWISE"
    assert log.graphs.capture_sizes == (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
    (start,) = log.startups
    assert start.version == "0.33.0"
    assert start.kv_tokens == 345_600
    assert start.max_model_len == 8192
    assert start.graph_seconds == 12
    assert start.graph_bytes == round(1.43 * 2**30)
    assert start.pool_bytes_estimated == round(1.1 * 2**30)
    assert start.kv_bytes_per_token == pytest.approx(41.25 * 2**30 / 345_600)
    assert start.capture_sizes == log.graphs.capture_sizes


def test_colours_and_json_logs_read_the_same() -> None:
    plain = read_log(DATA / "server.log")
    colour = read_log(DATA / "server-color.log")
    assert colour.steps == plain.steps
    assert colour.graphs == plain.graphs
    json_log = read_log(DATA / "server-json.log")
    assert json_log.steps.uniform == {(4, 23): 1}
    assert json_log.graphs.rows == {
        (12, 12, "FULL"): 412,
        (10, 12, "PIECEWISE"): 96,
        (1337, 1337, "NONE"): 31,
    }
    assert json_log.report.num_damaged == 0


def test_step_kinds_are_told_apart(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        iteration(0, gen=(23, 92)),
        iteration(1, gen=(23, 91)),
        iteration(2, ctx=(1, 512), gen=(23, 92)),
        iteration(3, ctx=(0, 0), gen=(0, 0), dummy=" (dummy)"),
        iteration(4, ctx=(1, 512), gen=(0, 0)),
    )
    assert log.steps.uniform == {(4, 23): 1}
    assert log.steps.ragged == {(23, 91): 1}
    assert log.steps.mixed == {604: 1, 512: 1}
    assert log.steps.mixed_by_tokens() == {604: 1, 512: 1, 91: 1}
    assert log.steps.num_dummy == 1
    assert log.report.num_damaged == 0


def test_other_devices_and_encoder_inputs_are_read(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        iteration(0, tail="XPU KV cache usage: 0.0%"),
        iteration(
            1,
            tail="GPU KV cache usage: 1.0%, encoder inputs: 2, encoder output "
            "embeddings: 1152",
        ),
    )
    assert log.steps.uniform == {(4, 23): 2}


def test_elapsed_median_is_within_a_per_cent(tmp_path: Path) -> None:
    times = ["9.00", "10.00", "11.00", "500.00", "10.10"]
    log = read(tmp_path, *(iteration(i, ms=t) for i, t in enumerate(times)))
    assert log.steps.elapsed_us["uniform", 4, 23] == pytest.approx(10_100, rel=0.01)


@pytest.mark.parametrize("cut", range(1, 90, 7))
def test_a_line_cut_short_is_damaged_never_counted(tmp_path: Path, cut: int) -> None:
    log = read(tmp_path, iteration(0)[:-cut])
    assert log.steps.num_steps == 0
    assert log.report.num_damaged == 1
    assert log.report.damaged[0].line == 1
    assert "cut short" in log.report.damaged[0].reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (iteration(gen=(23, 22)), "fewer tokens than requests"),
        (iteration(ctx=(3, 2)), "fewer tokens than requests"),
        (iteration(gen=(0, 4)), "tokens without requests"),
        (iteration(gen=(0, 0)), "without tokens"),
        (iteration(gen=(1, 10**12)), "beyond 2**31"),
        (iteration(gen=(1, 10**40)), "cut short or broken"),
        (iteration(ms="nan"), "cut short or broken"),
        (iteration(ms="-1.00"), "cut short or broken"),
    ],
)
def test_impossible_steps_are_damaged(tmp_path: Path, line: str, reason: str) -> None:
    log = read(tmp_path, line)
    assert log.steps.num_steps == 0
    assert reason in log.report.damaged[0].reason


def test_damage_keeps_the_first_lines_and_counts_the_rest(tmp_path: Path) -> None:
    lines = ["nothing", *(iteration(i)[:40] for i in range(9))]
    report = read(tmp_path, *lines).report
    assert report.num_damaged == 9
    assert [d.line for d in report.damaged] == [2, 3, 4, 5, 6]
    assert "... and 4 more" in report.lines()[-1]


def test_interleaved_engines_are_followed_one_by_one(tmp_path: Path) -> None:
    lines = [iteration(i, engine=e) for i in range(5) for e in (0, 1)]
    log = read(tmp_path, *lines)
    assert log.steps.num_engines == 2
    assert log.steps.num_steps == 10
    assert log.report.notes == []


def test_missing_repeated_and_mixed_up_steps_are_noted(tmp_path: Path) -> None:
    log = read(tmp_path, *(iteration(i) for i in (0, 1, 1, 5)))
    assert log.steps.num_steps == 3
    assert any("appear twice" in n for n in log.report.notes)
    assert any(n.startswith("3 steps are missing") for n in log.report.notes)
    back = read(tmp_path, *(iteration(i) for i in (0, 900) * 15))
    assert any("go back" in n for n in back.report.notes)


def test_ranks_in_step_are_noted(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        iteration(0, engine=0),
        iteration(0, gen=(0, 0), dummy=" (dummy)", engine=1),
    )
    assert any("widest rank" in n for n in log.report.notes)


def test_batch_size_totals_supersede_each_other_and_ranks_are_not_added() -> None:
    sizes = read_log(DATA / "server.log").sizes
    assert sizes is not None
    assert sizes.counts == {4: 90, 16: 44, 64: 3}
    assert sizes.median_us[16] == 7630


def test_batch_size_line_cut_inside_an_item_is_damaged(tmp_path: Path) -> None:
    text = "Batchsize forward time stats (batchsize, count, median_time(ms)): "
    whole = "[(4, 41, 7.31), (16, 20, 7.62)]"
    for cut in range(1, len(whole)):
        log = read(tmp_path, text + whole[:cut])
        assert log.sizes is None
        assert log.report.num_damaged == 1


def test_table_rows_must_add_up(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |",
        "|-----------------|---------------|--------------|--------------|-------|",
        "| 10              | 12            | 2            | FULL         | 96    |",
        "| 10              | 12            | 3            | FULL         | 96    |",
        "| 10              | 12            | 2            | WHAT         | 96    |",
        "| 10              | 12            | 2            | FULL         | 9",
    )
    assert log.graphs.rows == {(10, 12, "FULL"): 96}
    assert [d.line for d in log.report.damaged] == [4, 5, 6]


def test_restarts_make_separate_records_and_ranks_do_not(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    lines = []
    for pid, kv, gib in ((10, "41.25", "1.43"), (90, "40.00", "2.50")):
        for rank in (0, 1):
            worker = f"(Worker_TP{rank} pid={pid + rank}) INFO 12-01 05:51:07 [w.py:1] "
            lines.append(f"{worker}Available KV cache memory: {kv} GiB")
            lines.append(
                f"{worker}Graph capturing finished in 1{rank} secs, took {gib} GiB"
            )
    path.write_text("\n".join(lines) + "\n")
    first, second = read_log(path).startups
    assert first.graph_bytes == round(1.43 * 2**30)
    assert second.graph_bytes == round(2.5 * 2**30)
    assert second.kv_bytes == 40 << 30
    assert first.graph_seconds == 11  # the slower rank


def test_a_restart_loop_keeps_the_last_starts(tmp_path: Path) -> None:
    lines = (
        f"Graph capturing finished in {i} secs, took 1.00 GiB" for i in range(1200)
    )
    log = read(tmp_path, *lines)
    assert [s.graph_seconds for s in log.startups] == list(range(200, 1200))
    assert any("only the last 1,000" in n for n in log.report.notes)


def test_progress_bars_count_the_captured_graphs(tmp_path: Path) -> None:
    bar = "Capturing CUDA graphs (FULL): {:3d}%|{}| {}/35 [00:01<00:02, 9.1it/s]"
    log = read(
        tmp_path,
        "Available KV cache memory: 41.25 GiB",
        "\r".join(bar.format(100 * i // 35, "█" * i, i) for i in range(36)),
        "Graph capturing finished in 12 secs, took 1.43 GiB",
    )
    assert log.startups[0].num_graphs == {"CUDA graphs (FULL)": 35}


def test_speculation_lines_count_only_where_k_was_constant() -> None:
    constant = read_log(DATA / "server.log").acceptance
    assert constant is not None
    assert constant.constant_k == 3
    assert constant.approximate
    rates = [a / d for a, d in zip(constant.accepted, constant.drafted, strict=True)]
    assert rates == pytest.approx([0.76, 0.54, 0.39], abs=0.08)
    varied = read_log(DATA / "spec-varied.log")
    assert varied.acceptance is None
    assert any("varying K" in n for n in varied.report.notes)


def test_gzip_is_read_and_a_broken_one_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = (DATA / "server.log").read_bytes()
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(whole))
    assert read_log(path).steps == read_log(DATA / "server.log").steps
    path.write_bytes(gzip.compress(whole)[:-700])
    broken = read_log(path)
    assert 0 < broken.steps.num_steps < 120
    assert broken.report.num_damaged >= 1
    assert any("readable part" in n for n in broken.report.notes)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x28\xb5\x2f\xfd....", "zstd -dc"),
        (b"BZh91AY", "bzip2 -dc"),
        ("x".encode("utf-16"), "UTF-16"),
    ],
)
def test_other_encodings_are_refused_with_the_way_out(
    tmp_path: Path, head: bytes, words: str
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(head)
    with pytest.raises(DataError, match=words) as caught:
        read_log(path)
    assert caught.value.rule == "wrong_format"


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(DataError) as caught:
            read_log(path)
        assert caught.value.rule == "unreadable"


def test_several_files_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(iteration(0) + "\n")
    (tmp_path / "b.log").write_text(iteration(1) + "\n")
    log = read_log([tmp_path / "a.log", tmp_path / "b.log"])
    assert log.steps.uniform == {(4, 23): 2}
    assert log.report.notes == []


def test_progress_reaches_the_size(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    read_log(DATA / "server.log", lambda done, total: seen.append((done, total)))
    size = (DATA / "server.log").stat().st_size
    assert seen[-1] == (size, size)


def test_memory_does_not_grow_with_the_log_or_with_one_endless_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "big.log"
    block = "".join(f"{PREFIX}{iteration(i)}\n" for i in range(500)).encode()
    peaks = []
    for copies in (4, 24):
        path.write_bytes(block * copies + b"x" * (copies << 20))
        tracemalloc.start()
        log = read_log(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert log.steps.num_steps == 500 * copies
        assert log.report.num_damaged == 1
    assert peaks[1] < 1.3 * peaks[0]
    assert peaks[1] < 16 << 20


LINES = (DATA / "server.log").read_bytes().splitlines(keepends=True)
JSON_LINES = (DATA / "server-json.log").read_bytes().splitlines(keepends=True)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LINES + JSON_LINES),
            st.integers(0, 400),
            st.integers(0, 12),
            st.binary(max_size=8),
        ),
        max_size=12,
    )
)
def test_mutilated_logs_never_fail_and_never_invent_a_step(
    tmp_path_factory: pytest.TempPathFactory,
    edits: list[tuple[bytes, int, int, bytes]],
) -> None:
    path = tmp_path_factory.mktemp("log") / "server.log"
    # Each line has some bytes cut out and others put in.
    parts = [line[:at] + put + line[at + cut :] for line, at, cut, put in edits]
    path.write_bytes(b"".join(parts))
    log = read_log(path)
    for (q, n), count in log.steps.uniform.items():
        assert q >= 1
        assert n >= 1
        assert count >= 1
    assert all(math.isfinite(us) for us in log.steps.elapsed_us.values())
    total = sum(log.graphs.rows.values())
    assert sum(log.graphs.share(m) for m in ("FULL", "PIECEWISE", "NONE")) == (
        pytest.approx(1.0 if total else 0.0)
    )


@given(st.binary(max_size=2000))
def test_any_bytes_at_all_are_read_without_failing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "server.log"
    path.write_bytes(data)
    with suppress(DataError):
        read_log(path)


def test_a_log_of_a_real_engine_is_read_whole() -> None:
    log = read_log(DATA / "engine.log")
    assert log.report.num_damaged == 0
    assert log.steps.num_steps == 32
    assert sum(log.graphs.rows.values()) == 32
    # The table's unpadded tokens and the iteration lines tell the same steps.
    tokens: dict[int, float] = {}
    for (q, n), count in log.steps.uniform.items():
        tokens[q * n] = tokens.get(q * n, 0) + count
    for t, count in log.steps.mixed_by_tokens().items():
        tokens[t] = tokens.get(t, 0) + count
    rows = {t: n for (t, _, _), n in log.graphs.rows.items()}
    assert tokens == rows
    assert log.graphs.mode == "NONE"
    assert log.startups[0].kv_tokens == 2_097_152
    assert log.acceptance is None  # K followed the batch


# Lines of a known kind that say something impossible, or say it twice.


SPEC = (
    "SpecDecoding metrics: Mean acceptance length: 2.69, Accepted throughput: 1.00 "
    "tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: {accepted} tokens, "
    "Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft "
    "acceptance rate: 56.3%"
)


def spec(accepted: int, drafted: int, rates: str) -> str:
    return SPEC.format(accepted=accepted, drafted=drafted, rates=rates)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (spec(9, 3, "0.5, 0.4, 0.3"), "more tokens accepted than drafted"),
        (spec(12, 30, "0.5,0.4"), "per-position rates broken"),
        (spec(12, 30, "1.5, 0.4"), "a per-position acceptance above 1"),
        (spec(12, 30, "0.3, 0.4"), "acceptance that rises with the position"),
        (spec(12, 30, "0.5, 0.4")[:-12], "SpecDecoding line cut short or broken"),
        ("- Capture sizes: [1, 2, x]", "capture sizes cut short"),
        ("Graph capturing finished in x", "start-up line cut short or broken"),
        (
            "KV cache size: ,, tokens, Maximum concurrency for , tokens per request: "
            "1.0x",
            "start-up line cut short or broken",
        ),
        ("Initializing a V1 LLM engine (v", "engine configuration line broken"),
        ("{" + '"message": 5, "x": "Iteration("}', "message is no text"),
        ("{" + '"message": "Iteration(', "JSON log record cut short or broken"),
    ],
)
def test_impossible_lines_of_a_known_kind_are_damaged(
    tmp_path: Path, line: str, reason: str
) -> None:
    log = read(tmp_path, line, prefix="" if line[0] == "{" else PREFIX)
    assert log.report.num_damaged == 1
    assert reason in log.report.damaged[0].reason
    assert log.acceptance is None


@pytest.mark.parametrize(
    "line",
    [
        spec(0, 0, ""),
        spec(0, 9, "0.0, 0.0, 0.0"),
        spec(0, 9, "nan, nan"),
        "- Mode: full",
        "a CUDA graph is nice",
        "a | b",
        "Capturing | nothing",
    ],
)
def test_lines_that_say_nothing_are_passed_over(tmp_path: Path, line: str) -> None:
    log = read(tmp_path, line)
    assert log.report.num_damaged == 0
    assert log.acceptance is None


def test_speculation_lines_of_two_constant_k_are_added_up(tmp_path: Path) -> None:
    log = read(tmp_path, spec(900, 1000, "0.9"), spec(1400, 2000, "0.8, 0.6"))
    assert log.acceptance is not None
    assert log.acceptance.drafted == (2000, 1000)
    assert log.acceptance.accepted == (1700, 600)
    assert log.acceptance.at_risk == (2000, 800)
    assert log.acceptance.constant_k is None


def test_tables_of_two_configurations_are_noted(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "- Mode: FULL",
        "- Capture sizes: [1, 2]",
        "- Mode: PIECEWISE",
        "- Capture sizes: [1, 4]",
    )
    assert (log.graphs.mode, log.graphs.capture_sizes) == ("PIECEWISE", (1, 4))
    assert log.report.notes == [
        "tables of two configurations: mode FULL, then PIECEWISE; the later one is "
        "shown, the counts are added up",
        "tables of two capture lists; the later list is shown, the counts are added up",
    ]


def test_memory_freed_during_capture_gives_no_figure(tmp_path: Path) -> None:
    log = read(tmp_path, "Graph capturing finished in 9 secs, took -0.50 GiB")
    (start,) = log.startups
    assert (start.graph_seconds, start.graph_bytes) == (9, None)
    (note,) = log.report.notes
    assert note.startswith("line 1: graph capture took -0.50 GiB; memory was freed")


def test_what_a_start_says_of_itself_is_kept(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        "Capturing CUDA graphs (FULL): 100%|##| 7/7 [00:01<00:00]",
        "Initializing a V1 LLM engine (v0.33.0) with config: nothing more",
        "CUDA graph pool memory: 1.25 GiB (actual), 1.50 GiB (estimated)",
        "Capturing CUDA graphs (FULL): 50%|##| 3/7 [00:01<00:00]",
    )
    (start,) = log.startups
    assert (start.version, start.capture_sizes) == ("0.33.0", None)
    assert start.pool_bytes_estimated == 3 << 29
    # One bar stood before any start, the other never filled.
    assert start.num_graphs == {}
    assert log.report.num_damaged == 0


def test_only_totals_of_one_process_are_used(tmp_path: Path) -> None:
    text = "Batchsize forward time stats (batchsize, count, median_time(ms)): "
    path = tmp_path / "server.log"
    path.write_text(
        f"(W0 pid=1) INFO {text}[(4, 41, 7.31)]\n(W1 pid=2) INFO {text}[(8, 90, 9)]\n"
    )
    log = read_log(path)
    assert log.sizes is not None
    assert log.sizes.counts == {8: 90}
    assert any("2 processes print batch-size totals" in n for n in log.report.notes)


def test_steps_of_no_time_have_no_median(tmp_path: Path) -> None:
    log = read(tmp_path, iteration(ms="0.00"))
    assert log.steps.uniform == {(4, 23): 1}
    assert log.steps.elapsed_us == {}


def test_bounds_hold_against_endless_variety(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specgrid.io.log.MAX_SHAPES", 2)
    monkeypatch.setattr("specgrid.io.log._MAX_PROCESSES", 2)
    rows = [f"| {t} | {t} | 0 | FULL | 1 |" for t in (8, 16, 24, 8)]
    steps = [iteration(i, gen=(n, n), engine=n) for i, n in enumerate((1, 2, 3, 1))]
    log = read(tmp_path, *rows, *steps)
    assert log.graphs.rows == {(8, 8, "FULL"): 2, (16, 16, "FULL"): 1}
    assert log.steps.uniform == {(1, 1): 2, (1, 2): 1}
    assert log.steps.num_engines == 2
    assert [d.reason for d in log.report.damaged] == [
        "more distinct rows than any server",
        "more distinct step shapes than any server",
    ]


def test_no_log_at_all_is_refused() -> None:
    with pytest.raises(DataError, match=r"^no log was given$"):
        read_log([])
