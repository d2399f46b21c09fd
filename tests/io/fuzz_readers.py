# SPDX-License-Identifier: Apache-2.0
"""Readers against damaged input: a declared refusal or an honest count, nothing else.

    python tests/io/fuzz_readers.py SECONDS [SEED] [--keep]

Inputs are mutations of small good ones and of those saved in tests/io/corpus, one
JSON text of latin-1 characters a line. An input whose outcome is new (another
message, another kind of success) is learned from in the same run; `--keep` saves it,
the shortest of each outcome. A fault is printed with its input.
test_fuzz_readers.py replays the corpus and mutates it a little, from a fixed seed.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specgrid import CapturePlan, ConfigError, Schedule, ScheduleError
from specgrid.cli._report.given import read_plan, read_tuned
from specgrid.io import (
    DataError,
    read_acceptance,
    read_costs,
    read_forward,
    read_latency,
    read_log,
    read_metrics,
    read_requests,
    read_serve,
    read_workload,
)
from specgrid.io.vllm_config import ServeConfig

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
DATA = HERE.parent / "data" / "vllm-0.33.0"
REFUSALS = (DataError, ConfigError, ScheduleError)
RULES = frozenset(re.findall(r'``"(\w+)"``', DataError.__doc__ or ""))
#: Where inputs are written: memory where there is some, for a file costs ms on a disk.
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
#: Inputs are kept short: a fault in a long one is found in a short one too.
MAX_BYTES = 6000
#: Saved inputs of one reader.
MAX_SAVED = 40


class Fault(AssertionError):  # noqa: N818 - not an error of the product
    """What no reader may do."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Fault(what)


# -- what must hold of an answer -----------------------------------------------------


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _json(data: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(data.decode("utf-8-sig"))
    return None


def _rows(data: bytes) -> int | None:
    """Rows of a table below its header; None where it is JSON."""
    text = data.decode("utf-8-sig")
    if text.lstrip().startswith(("{", "[")):
        return None
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    delimiter = max(",;\t", key=lines[0].count)
    return len(list(csv.reader(lines, delimiter=delimiter))) - 1


def whole_log(log: Any, data: bytes) -> None:
    report = log.report
    plain = [line for line in _lines(data) if not line.startswith(b"{")]
    seen = report.num_read + report.num_skipped + report.num_damaged
    check(seen >= len(_lines(data)), f"{seen} of {len(_lines(data))} lines counted")
    if len(plain) == len(_lines(data)):
        check(seen == len(plain), f"{seen} counted of {len(plain)} lines")
    counts = [*log.steps.uniform.values(), *log.steps.mixed.values()]
    check(all(n > 0 and math.isfinite(n) for n in counts), "a step count")
    check(all(us >= 0 for us in log.steps.elapsed_us.values()), "a time")


def whole_workload(found: Any, data: bytes) -> None:
    steps, log = found
    check(steps.num_steps > 0 and math.isfinite(steps.num_steps), "no steps")
    if log is not None:
        whole_log(log, data)


def whole_costs(costs: Any, data: bytes) -> None:
    times = [*costs.full_us.values(), *(costs.eager_us or {}).values()]
    check(all(math.isfinite(t) and t >= 0 for t in times), "a cost")
    rows = _rows(data)
    if rows is not None:
        check(costs.report.num_read == rows, f"{costs.report.num_read} of {rows} rows")


def whole_latency(found: Any, data: bytes) -> None:
    report = found.report
    check(all(math.isfinite(p.step_us) and p.step_us > 0 for p in found), "a time")
    check(all(p.batch > 0 and p.k >= 0 and p.context >= 0 for p in found), "a point")
    seen = report.num_read + report.num_skipped + report.num_damaged
    rows = _rows(data)
    whole = _json(data) if rows is None else None
    if rows is None and isinstance(whole, list):
        rows = len(whole)
    if rows is not None:
        check(seen == rows, f"{seen} of {rows} points counted")


def whole_counts(counts: Any, data: bytes | None = None) -> None:
    check(counts.num_drafts > 0, "no drafts")
    check(len(counts.drafted) == len(counts.accepted) > 0, "lengths differ")
    pairs = zip(counts.drafted, counts.accepted, strict=True)
    check(all(0 <= a <= d for d, a in pairs), "more accepted than drafted")


def whole_acceptance(found: Any, data: bytes) -> None:
    counts, ranges = found
    whole_counts(counts)
    for part in ranges:
        whole_counts(part.counts)


def whole_requests(found: Any, data: bytes) -> None:
    whole_acceptance(found, data)
    report = found[0].report
    filled = [
        text
        for line in _lines(data)
        if (text := line.strip().removeprefix(b"data:").strip())
        and text != b"[DONE]"
    ]  # fmt: skip
    if all(text.startswith(b"{") and len(text) > 1 for text in filled):
        seen = report.num_read + report.num_skipped + report.num_damaged
        check(seen == len(filled), f"{seen} of {len(filled)} records counted")


def whole_serve(found: Any, data: bytes) -> None:
    results, report = found
    check(len(results) == report.num_read > 0, "runs are not those counted")
    for run in results:
        check(math.isfinite(run.output_tokens_per_s), "a throughput")
        check(run.completed > 0, "no request")


def whole_metrics(found: Any, data: bytes) -> None:
    numbers = [found.num_drafts, found.draft_tokens, found.accepted_tokens]
    check(all(math.isfinite(n) and n >= 0 for n in numbers), "a counter")
    if found.acceptance is not None:
        whole_counts(found.acceptance)


def whole_settings(config: Any, data: bytes) -> None:
    check(1 <= config.max_num_seqs < 2**31, "max_num_seqs")
    check(config.num_speculative_tokens >= 0, "num_speculative_tokens")


def whole_plan(plan: Any, data: bytes) -> None:
    check(list(plan.sizes) == sorted(set(plan.sizes)), "sizes not ascending")
    check(math.isfinite(plan.mean_step_us), "mean_step_us")


def whole_schedule(schedule: Any, data: bytes) -> None:
    check(Schedule.from_json(schedule.to_json()) == schedule, "not its own JSON")


def whole_object(found: Any, data: bytes) -> None:
    json.dumps(found)


# -- the readers and good inputs for each --------------------------------------------


@dataclass
class Reader:
    """A reader, what must hold of its answers, and inputs it takes."""

    read: Callable[[Path], Any]
    holds: Callable[[Any, bytes], None]
    seeds: list[bytes] = field(default_factory=list)
    suffix: str = ""


def _data(name: str, lines: int | None = None, first: int = 0) -> bytes:
    text = (DATA / name).read_bytes()
    if lines is None:
        return text[:MAX_BYTES] if name.endswith((".txt", ".jsonl")) else text
    return b"\n".join(text.split(b"\n")[first : first + lines]) + b"\n"


def _few(name: str, most: int) -> bytes:
    return json.dumps(json.loads((DATA / name).read_bytes())[:most]).encode()


def _from_text(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    def call(path: Path) -> Any:
        return read(path.read_bytes().decode("utf-8", "surrogateescape"))

    return call


def _plan_file() -> bytes:
    from specgrid import Budget, Costs, Workload, plan_captures

    plan = plan_captures(
        Workload({(1, 3): 2.0, (4, 5): 1.0}, floor=0),
        Costs.linear(100, 1, 30, 900),
        schedule=[(1, 4, 3), (5, 8, 1)],
        max_num_seqs=8,
        num_speculative_tokens=3,
        budget=Budget(graphs=6, full_coverage=False),
        max_num_batched_tokens=64,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        plan.save(path)
        return path.read_bytes()


_METHOD = '{"method": "eagle3", "model": "d", "num_speculative_tokens": 3}'
_TUNED = {
    "schema": "specgrid.tune", "version": 1, "max_num_seqs": 8,
    "num_speculative_tokens": 3, "num_points": 4, "schedule": [[1, 4, 3], [5, 8, 1]],
    "is_2d": False, "entries": [[1, 8, 3]], "loss": {"weighted": 0.1, "worst": 0.2},
    "gains": [{"k": 1, "factor": 1.2}], "frontier": [
        {"entries": 1, "rows": 1, "loss": {"weighted": 0.1, "worst": 0.2}}],
    "settings": {"flag": "--speculative-config", "value": {"method": "eagle3"}},
    "grid": {"batches": [[1, 8]], "contexts": [[0, 9]], "drafts": [[3]],
             "loss": [[0.1]], "measured": [[True]], "within_noise": [[False]]},
    "notes": ["a note"],
}  # fmt: skip


def readers() -> dict[str, Reader]:
    plan = _plan_file()
    serve = [_data("serve.json"), _data("serve.jsonl", 3)]
    metrics = [_data("metrics-1.txt"), _data("metrics-2.txt")]
    logs = [
        _data("server.log", 12),
        _data("server.log", 14, 30),
        _data("server-color.log", 12, 20),
        _data("server-json.log"),
        _data("spec-varied.log"),
        _data("engine.log", 12, 40),
    ]
    forward = _few("forward-k3.json", 3)
    points = (
        b"batch,context,k,step_us\n1,0,0,6870\n8,0,0,7000\n1,0,3,7100\n8,0,3,7900\n"
    )
    costs = b"num_tokens,full_us,piecewise_us,eager_us\n1,7000,9000,21000\n8,7100,,\n"
    table = b"position,drafted,accepted,at_risk\n1,1000,700,1000\n2,1000,400,700\n"
    steps = b"query_len,num_reqs,num_tokens,weight\n4,3,,120\n1,64,64,5\n,,2048,2.5\n"
    line = f"vllm serve M --max-num-seqs 64 --speculative-config '{_METHOD}'"
    yaml = f"model: M\nmax-num-seqs: 64\nspeculative-config: '{_METHOD}'\n".encode()
    manifest = (
        b"spec:\n  containers:\n  - image: vllm/vllm-openai\n    args: [--model, M, "
        b"--max-num-seqs, '64']\n    env: [{name: A, value: '1'}]\n"
    )
    return {
        "log": Reader(read_log, whole_log, logs),
        "workload": Reader(
            read_workload,
            whole_workload,
            [*logs[:2], steps, b'{"uniform": [[4, 3, 120]], "mixed": [[2048, 2.5]]}'],
        ),
        "costs": Reader(
            read_costs,
            whole_costs,
            [
                costs,
                forward,
                b'{"full_ms": {"8": 7.1, "16": 7.3}, "eager_ms": [[8, 20]]}',
                b'{"base_us": 7000, "per_token_us": 20, "graph_bytes": 25000000}',
            ],
        ),
        "latency": Reader(
            read_latency,
            whole_latency,
            [
                points,
                points.replace(b",", b";"),
                forward,
                *serve,
                b'[[1, 0, 0, 6870], {"batch": 8, "k": 3, "step_ms": 7.5}]',
            ],
        ),
        "acceptance": Reader(
            read_acceptance,
            whole_acceptance,
            [table, *serve, *metrics, _data("spec-varied.log"), logs[0]],
        ),
        "requests": Reader(
            lambda path: read_requests(path, context_ranges=[(0, 99), (100, 2**31)]),
            whole_requests,
            [_data("requests.jsonl", 2), b"data: " + _data("requests.jsonl", 1)],
        ),
        "serve": Reader(read_serve, whole_serve, serve),
        "forward": Reader(read_forward, whole_latency, [forward]),
        "metrics": Reader(
            read_metrics, whole_metrics, [*metrics, _data("engine-metrics.txt")]
        ),
        "yaml": Reader(
            ServeConfig.from_file, whole_settings, [yaml, manifest], ".yaml"
        ),
        "json": Reader(
            ServeConfig.from_file,
            whole_settings,
            [b'{"model": "M", "max-num-seqs": 64, "speculative-config": {"method": '
             b'"ngram", "num_speculative_tokens": 3}}'],
            ".json",
        ),
        "script": Reader(
            ServeConfig.from_file,
            whole_settings,
            [b"#!/bin/bash\nexport A=1\n" + line.encode() + b"\n", yaml, manifest],
        ),
        "command": Reader(
            _from_text(ServeConfig.from_command), whole_settings, [line.encode()]
        ),
        "plan": Reader(CapturePlan.load, whole_plan, [plan]),
        "schedule": Reader(
            _from_text(Schedule.from_json),
            whole_schedule,
            [b"[[1, 16, 3], [17, 64, 1]]", b"[[1, 64, 1, 100, 3], [1, 64, 101, 200, 1]]"
            ],
        ),
        "report plan": Reader(lambda p: read_plan(str(p)), whole_object, [plan]),
        "report tune": Reader(
            lambda p: read_tuned(str(p)), whole_object, [json.dumps(_TUNED).encode()]
        ),
    }  # fmt: skip


# -- mutations -----------------------------------------------------------------------

TOKENS = [
    b"0", b"-1", b"1e308", b"1e999", b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf",
    b"2147483647", b"2147483648", b"9223372036854775808", b"9" * 40, b"9" * 5000,
    b"1_000", b"0x10", b"\xd9\xa1", b"true", b"null", b'""', b'"', b"'", b"\\", b"{}",
    b"[]", b"[[", b"]]", b"{", b"}", b"[", b"]", b",", b":", b";", b"|", b"\t", b"\r\n",
    b"\n", b"\n\n", b"\r", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x80", b"\x1b[31m",
    b"\xe2\x80\xa8", b"\xc2\x85", b"&a ", b"*a ", b"<<: ", b"!!int ", b"!!bool x",
    b"- ", b"---\n", b"#", b"$X", b"$(x)", b"`", b"--", b"=", b"../", b"~", b"%",
    b"[" * 300,
    b'{"a":' * 300, b"1:2:3", b"1:" * 100 + b"1.5", b"2001-99-01", b"? ", b"> ",
    b"Engine 000: ", b"Iteration(1): ", b" pid=", b"(", b") ", b"data: ", b"[DONE]",
]  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def mutate(data: bytes, other: bytes, choose: random.Random) -> bytes:
    """One to four small changes."""
    for _ in range(choose.choice((1, 1, 1, 2, 3, 4))):
        at = choose.randint(0, len(data))
        end = min(len(data), at + choose.choice((1, 1, 2, 8, 40, 200)))
        kind = choose.randrange(10)
        if kind == 0:
            data = data[:at] + data[end:]
        elif kind == 1:
            data = data[:at] + choose.choice(TOKENS) + data[at:]
        elif kind == 2:
            data = data[:at] + choose.choice(TOKENS) + data[end:]
        elif kind == 3:
            data = data[:end] + data[at:end] + data[end:]
        elif kind == 4:
            data = data[:at]
        elif kind == 5 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([choose.randrange(256)]) + data[at + 1 :]
        elif kind == 6:
            start = choose.randint(0, len(other))
            data = data[:at] + other[start : start + choose.randrange(300)] + data[end:]
        elif kind == 7:
            lines = data.split(b"\n")
            a, b = choose.randrange(len(lines)), choose.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
            data = b"\n".join(lines)
        else:
            numbers = list(_NUMBER.finditer(data))
            if numbers:
                spot = choose.choice(numbers)
                new = choose.choice((
                    str(choose.randrange(12)).encode(),
                    str(choose.randrange(3000)).encode(),
                    choose.choice(TOKENS[:20]),
                    b"%.3f" % choose.uniform(0, 9),
                    choose.choice(numbers)[0],
                ))  # fmt: skip
                data = data[: spot.start()] + new + data[spot.end() :]
    return data[:MAX_BYTES]


# -- runs ----------------------------------------------------------------------------


def outcome(reader: Reader, data: bytes, path: Path) -> str:
    """What became of an input, in a word or two.

    Raises:
        Fault: What no reader may do.
    """
    path.write_bytes(data)
    begin = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = reader.read(path)
    except REFUSALS as error:
        text = str(error)
        check("Traceback" not in text and len(text) < 2000, f"message: {text[:300]}")
        rule = getattr(error, "rule", "")
        if isinstance(error, DataError):
            check(rule in RULES, f"rule {rule!r} is not declared")
        text = text.replace(str(path), "").replace(path.name, "")
        text = re.sub(r"'[^']*'|\"[^\"]*\"|[-+\d.,e]+", "#", text)
        # Sentences end in advice, or begin with what is wrong; the rest is the input.
        part = text[:28] if rule else text[-45:]
        return f"{type(error).__name__} {rule}: {part}"
    except Exception as error:
        raise Fault(f"{type(error).__name__}: {error}"[:500]) from error
    check(time.monotonic() - begin < 20, "took over 20 seconds")
    reader.holds(answer, data)
    report = getattr(answer, "report", None)
    if report is None or not report.damaged:
        return f"whole {type(answer).__name__}"
    reasons = {re.sub(r"[-+\d.,e]+", "#", d.reason)[-28:] for d in report.damaged}
    return f"damaged {type(answer).__name__} {sorted(reasons)}"


def saved(name: str) -> list[bytes]:
    """The corpus of a reader."""
    path = CORPUS / f"{name.replace(' ', '-')}.txt"
    if not path.exists():
        return []
    lines = path.read_text("ascii").splitlines()
    return [json.loads(line).encode("latin-1") for line in lines]


def save(name: str, inputs: list[bytes]) -> None:
    lines = sorted({json.dumps(data.decode("latin-1")) for data in inputs}, key=len)
    path = CORPUS / f"{name.replace(' ', '-')}.txt"
    path.write_text("".join(f"{line}\n" for line in lines), "ascii")


@dataclass
class Run:
    """A number of inputs given to one reader."""

    name: str
    reader: Reader
    path: Path
    best: dict[str, bytes] = field(default_factory=dict)
    faults: list[tuple[str, bytes]] = field(default_factory=list)
    num_inputs: int = 0

    def give(self, data: bytes) -> None:
        self.num_inputs += 1
        try:
            how = outcome(self.reader, data, self.path)
        except Fault as fault:
            self.faults.append((str(fault), data))
            return
        if how not in self.best or len(data) < len(self.best[how]):
            self.best[how] = data


def begin(name: str, reader: Reader, folder: Path) -> Run:
    """Replays seeds and corpus."""
    run = Run(name, reader, folder / f"input{reader.suffix}")
    for data in [*reader.seeds, *saved(name)]:
        run.give(data)
    return run


def mutations(run: Run, choose: random.Random) -> Iterator[bytes]:
    while True:
        pool = [*run.best.values(), *run.reader.seeds]
        yield mutate(choose.choice(pool), choose.choice(pool), choose)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(seconds: float, seed: int, keep: bool) -> int:
    faults = total = 0
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        known = readers()
        for name, reader in known.items():
            run = begin(name, reader, Path(folder))
            replayed = run.num_inputs
            choose = random.Random(f"{seed} {name}")
            end = time.monotonic() + seconds / len(known)
            for data in mutations(run, choose):
                if time.monotonic() >= end or len(run.faults) > 5:
                    break
                run.give(data)
            new = run.num_inputs - replayed
            say(f"{name}: {replayed} replayed, {new} mutated, {len(run.best)} "
                  f"outcomes, {len(run.faults)} faults")  # fmt: skip
            for what, data in run.faults:
                say(f"  {what}\n    {json.dumps(data.decode('latin-1'))[:2000]}")
            faults += len(run.faults)
            total += run.num_inputs
            if keep:
                short = sorted(run.best.values(), key=len)
                short = [data for data in short if len(data) <= 1500]
                # The shortest, and of the others every so many.
                half = MAX_SAVED // 2
                step = max(1, (len(short) - half) // half)
                save(name, short[:half] + short[half::step][:half])
    say(f"{total} inputs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--keep"]
    limit = float(words[0])
    start = int(words[1]) if len(words) > 1 else time.time_ns()
    sys.exit(main(limit, start, "--keep" in sys.argv))
