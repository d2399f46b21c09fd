# SPDX-License-Identifier: Apache-2.0
"""What is opened and parsed: one place, one rule, one clear line for each refusal."""

from __future__ import annotations

import ast
import gzip
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from specgrid import CapturePlan, ConfigError, Schedule, ScheduleError
from specgrid._read import (
    MAX_DEPTH,
    MAX_VALUES,
    File,
    ReadError,
    parse_json,
    parse_yaml,
    plain_number,
    read_text,
)
from specgrid.io import (
    DataError,
    read_acceptance,
    read_costs,
    read_latency,
    read_log,
    read_metrics,
    read_requests,
    read_serve,
    read_workload,
)
from specgrid.io.vllm_config import ServeConfig

SOURCES = Path(__file__).parents[1] / "python" / "specgrid"
DATA = Path(__file__).parent / "data" / "vllm-0.33.0"
READERS: dict[str, Callable[[Any], object]] = {
    "plan": CapturePlan.load,
    "settings": ServeConfig.from_file,
    "log": read_log,
    "workload": read_workload,
    "costs": read_costs,
    "latency": read_latency,
    "acceptance": read_acceptance,
    "requests": read_requests,
    "serve": read_serve,
    "metrics": read_metrics,
}
REFUSED = (DataError, ConfigError)

# -- nothing else opens a file or parses a text --------------------------------------

#: What reads, runs or unpickles, by the last part of its name.
SUSPECT = {
    "open", "fdopen", "read_text", "read_bytes", "load", "loads", "load_all",
    "safe_load", "full_load", "unsafe_load", "fromfile", "loadtxt", "genfromtxt",
    "memmap", "eval", "exec", "compile", "literal_eval", "raw_decode",
}  # fmt: skip
#: Who may, and what for.
ALLOWED = {
    "_read.py": "the rule itself",
    "_atomic.py": "writes",
    "cli/_streams.py": "opens /dev/null to write",
    "cli/_report/page.py": "its own style sheet and script, from the package",
    "cli/_lint/texts.py": "its own text, from the package",
    "vllm_plugin/_counters.py": "makes the file it counts in",
}
#: Our own functions of these names, and calls on other things than files.
OURS = {
    "from specgrid._read": {"read_text"},
    "from specgrid.io._source": {"read_text"},
    "from specgrid.io._document": {"read_text"},
    "from specgrid.io.vllm_command": {"read_text"},
    "from specgrid.io.vllm_config": {"load"},
}
METHODS = {
    "re.compile", "CapturePlan.load", "_document.load", "_plan.load",
    "as_file(path).open", "_read.read_text",
}  # fmt: skip


def _calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(whole name, last part) of what is called, our own functions left out."""
    ours: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            wanted = OURS.get(f"from {node.module}", set())
            ours |= {a.asname or a.name for a in node.names if a.name in wanted}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            ours.add(node.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if name not in ours and name not in METHODS:
                yield name, last


TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}


def test_only_one_place_opens_files_and_parses_texts() -> None:
    found = []
    for path, tree in TREES.items():
        name = path.relative_to(SOURCES).as_posix()
        if name in ALLOWED:
            continue
        for call, last in _calls(tree):
            if last in SUSPECT:
                found.append(f"{name}: {call}")
    assert found == []


def test_the_walk_sees_what_it_looks_for() -> None:
    bad = "import json\nfrom pathlib import Path\ndef f(p):\n" + "".join(
        f"    {call}\n"
        for call in (
            "open(p)",
            "Path(p).read_text()",
            "json.loads(p)",
            "yaml.load(p, x)",
            "np.load(p)",
            "pickle.loads(p)",
        )
    )
    seen = [call for call, last in _calls(ast.parse(bad)) if last in SUSPECT]
    assert len(seen) == 6


def test_nothing_imports_what_could_run_a_file() -> None:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "runpy"}
            assert not banned & set(names), path


# -- JSON ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        ("[" * 100_000, "too_deep", "nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "too_deep", "nested too"),
        ('{"a":' * 200 + "1" + "}" * 200, "too_deep", "nested too deeply"),
        ('{"a": 1, "b": 2, "a": 3}', "conflict", "'a' is given twice"),
        ('[{"x": {"k": 1, "k": 1}}]', "conflict", "'k' is given twice"),
        ("9" * 5000, "not_json", "thousands of digits"),
        ("[" + "1," * MAX_VALUES + "1]", "too_large", "more than"),
        ("", "not_json", "Expecting value"),
        ("{'a': 1}", "not_json", "double quotes"),
        ("[1,]", "not_json", "Expecting value"),
        ("\ufeff[]", "not_json", "BOM"),
    ],
)
def test_json_that_is_refused(text: str, rule: str, says: str) -> None:
    with pytest.raises(ReadError, match=says) as caught:
        parse_json(text)
    assert caught.value.rule == rule


def test_json_up_to_the_limits_is_taken() -> None:
    deep = parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (deep,) = deep
    assert deep == []
    assert parse_json("[1e999]") == [float("inf")]
    assert parse_json("[NaN]") != [0]
    for text in ("NaN", "[Infinity]", "-Infinity"):
        with pytest.raises(ReadError, match="is no JSON number"):
            parse_json(text, finite=True)


# -- YAML ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[" * 500_000, "too_deep"),
        ("- " * 200_000 + "x", "too_deep"),
        ("a: &a [*a ]", "too_deep"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{b}: &{b} [{','.join([f'*{a} '] * 10)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)), "too_large"),
        ("a: &a {" + ",".join(f"k{i}: 1" for i in range(5000)) + "}\n"
         "b: {<<: [" + "*a ," * 5000 + "]}", "too_large"),
        ("x: " + "1:" * 20_000 + "1", "not_yaml"),
        ("x: " + "1:" * 20_000 + "1.5", "not_yaml"),
        ("x: 0x" + "f" * 900_000, "not_yaml"),
        ("a: 1\na: 2", "conflict"),
        ("a: {b: 1, c: 2, b: 3}", "conflict"),
        ("x: !!python/object/apply:os.system [exit]", "not_yaml"),
        ("x: !!python/name:os.system", "not_yaml"),
        ('x: !!int ""', "not_yaml"),
        ('x: !!float ""', "not_yaml"),
        ("x: !!bool maybe", "not_yaml"),
        ("x: !!timestamp never", "not_yaml"),
        ("x: 2001-99-01", "not_yaml"),
        ("x: !!binary x", "not_yaml"),
        ("? [a]\n: b", "not_yaml"),
        ("x: \x01", "not_yaml"),
        ("x: *nowhere", "not_yaml"),
    ],
)  # fmt: skip
def test_yaml_that_is_refused_at_once(text: str, rule: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ReadError) as caught:
        parse_yaml(text)
    assert caught.value.rule == rule
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begin < 30  # these took minutes, or memory, before


def test_yaml_merge_keys_and_aliases_still_work() -> None:
    text = "d: &d {a: 1, b: 2}\ne: {<<: *d , b: 3}\nf: [*d , *d ]\n"
    (document,) = parse_yaml(text)
    assert document["e"] == {"a": 1, "b": 3}
    assert document["f"] == [{"a": 1, "b": 2}] * 2
    nested = "x: {deep: &a {<<: &b {k: 1}, k: 2}}\ny: {<<: *a }\n"
    assert parse_yaml(nested)[0] == yaml.safe_load(nested)


# -- numbers in tables ---------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "+1.5", ".5", "5.", "1e3", "-2E-3"])
def test_plain_numbers(text: str) -> None:
    assert plain_number(text) == float(text)


@pytest.mark.parametrize(
    "text", ["", "1_000", "١٢", "1,5", "0x10", "1 2", "e3", ".", "1" * 500, "1\n"]
)
def test_what_python_reads_as_a_number_but_no_table_means(text: str) -> None:
    assert plain_number(text) is None


# -- files of every kind, through every reader ---------------------------------------


def _refusal(reader: Callable[[Any], object], path: Path | str) -> str:
    with pytest.raises(REFUSED) as caught:
        reader(path)
    message = str(caught.value)
    assert len(message) < 1000, message
    return message


def loop(folder: Path) -> Path:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    return folder / "a"


def folder_in(folder: Path) -> Path:
    (folder / "inner").mkdir()
    return folder / "inner"


NO_FILES: dict[str, Callable[[Path], Path | str]] = {
    "missing": lambda folder: folder / "missing",
    "a folder": folder_in,
    "a symlink loop": loop,
    "a name too long": lambda folder: folder / ("x" * 300),
    "a NUL in the name": lambda folder: f"{folder}/a\0b",
    "no name": lambda folder: "",
    "/dev/zero": lambda folder: "/dev/zero",
    "/dev/urandom": lambda folder: "/dev/urandom",
    "/dev/null": lambda folder: "/dev/null",
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused(reader: str, kind: str, tmp_path: Path) -> None:
    message = _refusal(READERS[reader], NO_FILES[kind](tmp_path))
    assert "\n" not in message


CONTENTS = {
    "empty": b"",
    "UTF-16": "{}\n".encode("utf-16"),
    "NUL bytes": b'{"a": 1}\0\0\0',
    "not UTF-8": b'{"a": "\xff\xfe\x80"}\n',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "zstd": b"\x28\xb5\x2f\xfd" + b"x" * 50,
    "gzip cut short": gzip.compress(os.urandom(5000))[:100],
    "one huge number": b"[" + b"9" * 100_000 + b"]",
    "a key twice": b'{"uniform": [[1, 2, 3]], "uniform": [[1, 2, 4]]}',
    "a wide table": ",".join(f"c{i}" for i in range(100_000)).encode() + b"\n1\n",
    "NaN alone": b"NaN",
    "brackets": b"{}[]{}[]",
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_no_content_makes_more_than_a_refusal(
    reader: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "größe and spaces\nover two lines"
    path.write_bytes(CONTENTS[kind])
    try:
        result = READERS[reader](path)
    except REFUSED:
        return
    # Logs hold anything; then nothing was found in it, or damage was counted.
    assert reader == "log"
    report = result.report  # type: ignore[attr-defined]
    assert report.num_read == 0
    assert report.num_skipped + report.num_damaged > 0 or kind == "empty"


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        ("log", "server.log"),
        ("workload", "server.log"),
        ("latency", "forward-k3.json"),
        ("latency", "serve.jsonl"),
        ("costs", "forward-k3.json"),
        ("acceptance", "requests.jsonl"),
        ("acceptance", "metrics-2.txt"),
        ("acceptance", "serve.json"),
        ("requests", "requests.jsonl"),
        ("metrics", "metrics-2.txt"),
        ("serve", "serve.jsonl"),
    ],
)
@pytest.mark.parametrize("form", ["mark", "crlf", "gzip", "pipe", "slow pipe"])
def test_a_file_says_the_same_in_every_form(
    reader: str, name: str, form: str, tmp_path: Path
) -> None:
    if form == "mark" and reader in ("log", "workload"):
        pytest.skip("a log's first line is nobody's")
    plain = (DATA / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(plain)
    wanted = _plain(READERS[reader](path))
    path.unlink()
    if form in ("pipe", "slow pipe"):
        os.mkfifo(path)
        writer = threading.Thread(target=_feed, args=(path, plain, form == "pipe"))
        writer.start()
        found = _plain(READERS[reader](path))
        writer.join()
    else:
        path.write_bytes(
            {
                "mark": b"\xef\xbb\xbf" + plain,
                "crlf": plain.replace(b"\n", b"\r\n"),
                "gzip": gzip.compress(plain),
            }[form]
        )
        found = _plain(READERS[reader](path))
    assert found == wanted


def _feed(path: Path, data: bytes, at_once: bool) -> None:
    with path.open("wb", buffering=0) as pipe:
        for at in range(0, len(data), len(data) if at_once else 700):
            pipe.write(data[at : at + (len(data) if at_once else 700)])


def _plain(result: Any) -> str:
    return repr(result)


def test_a_pipe_is_read_once_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=_feed, args=(path, b"abc\n" * 9, True))
    writer.start()
    file = File(path)
    assert file.head(3) == b"abc"
    with file.open().stream as stream:
        assert stream.read() == b"abc\n" * 9
    writer.join()
    with pytest.raises(ReadError, match="is a pipe and was read already"):
        file.open()


def test_a_small_pipe_is_taken_whole_as_often_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=_feed, args=(path, b"abc\n" * 9, True))
    writer.start()
    file = File(path)
    assert {file.whole(100), file.whole(36), file.open().stream.read()} == {
        b"abc\n" * 9
    }
    writer.join()
    with pytest.raises(ReadError, match="is larger than 35 bytes"):
        file.whole(35)


def test_text_is_limited_before_it_is_held(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json"
    bomb.write_bytes(gzip.compress(b" " * (200 << 20)))
    with pytest.raises(ReadError, match="is larger than 1 MiB"):
        read_text(bomb, 1 << 20)


# -- the command line: one line, exit 2, in seconds, in little memory ----------------

SERVER = ["--max-num-seqs", "64", "--spec-tokens", "3"]
COMMANDS = {
    "settings": ["explain", "--config"],
    "log": ["plan", *SERVER, "--log"],
    "costs": ["plan", *SERVER, "--costs"],
    "check": ["plan", *SERVER, "--check"],
    "latency": ["tune", *SERVER, "--acceptance", "0.7,0.5,0.3", "--latency"],
    "convert": ["convert", "--from", "vllm", "--to", "sglang"],
}


def _limited() -> None:
    if "SPECGRID_SANITIZED" in os.environ:
        return  # a sanitizer maps far more than it uses
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


@pytest.mark.parametrize("kind", COMMANDS)
def test_endless_input_is_one_line(kind: str) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "specgrid.cli", *COMMANDS[kind], "/dev/stdin"],
            stdin=zeros, capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=_limited,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "device" in done.stderr


@pytest.mark.parametrize("kind", ["settings", "log", "costs"])
def test_an_endless_pipe_is_one_line(kind: str) -> None:
    command = ["/bin/sh", "-c", 'cat /dev/zero | "$@"', "sh", sys.executable, "-m",
               "specgrid.cli", *COMMANDS[kind], "/dev/stdin"]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False,
        preexec_fn=_limited,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "larger" in done.stderr or "line of over" in done.stderr


@pytest.mark.parametrize(
    "name", ["with spaces.log", "größe-計画-🙂.log", "over\ntwo lines.log", "-dash.log"]
)
def test_odd_names_are_read_and_named_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes((DATA / "server.log").read_bytes())
    assert read_log(path).steps.num_steps == 120
    path.write_bytes(b"nothing\n")
    done = subprocess.run(
        [sys.executable, "-m", "specgrid.cli", *COMMANDS["log"], str(path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_settings_from_a_pipe_are_seen_by_all_that_look(tmp_path: Path) -> None:
    text = "model: M\nmax-num-seqs: 16\nspeculative-config: " + json.dumps(
        json.dumps({"method": "eagle3", "model": "D", "num_speculative_tokens": 3})
    )
    path = tmp_path / "pipe"
    os.mkfifo(path)
    out = []
    for source in ("-", str(path)):
        writer = None
        if source != "-":
            writer = threading.Thread(target=_feed, args=(path, text.encode(), True))
            writer.start()
        done = subprocess.run(
            [sys.executable, "-m", "specgrid.cli", "cases", "--json", "--points", "9",
             "--config", source],
            input=text if source == "-" else None,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if writer is not None:
            writer.join()
        assert done.returncode == 0, done.stderr
        out.append(done.stdout)
    assert out[0] == out[1]
    assert '\\"model\\": \\"D\\"' in out[0] or '"model": "D"' in out[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('[{"a": 1, "a": 2}]', "given twice"),
        ("[" + "1" * 5000 + "]", "thousands of digits"),
        (b"\xff[]", "UTF-8"),
        (b"[[1, 4, 2]]\0", "NUL"),
    ],
)
def test_schedules_as_json_follow_the_rule(text: str | bytes, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        Schedule.from_json(text)
