# SPDX-License-Identifier: Apache-2.0
"""Where the server is in what people have, and what is refused as no server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specgrid._errors import ConfigError
from specgrid.io.vllm_command import parse_command, parse_text
from specgrid.io.vllm_config import ServeConfig, load

from .conftest import Result

Run = Callable[..., Result]

POD = """
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: sidecar
    image: nginx
    args: ["-g", "daemon off;"]
  - image: vllm/vllm-openai:v0.33.0
    env: [{name: SEQS, value: "64"}, {name: VLLM_USE_V2_MODEL_RUNNER, value: "0"}]
    args: ["--model", "Qwen/Qwen3-32B", "--max-num-seqs", "$(SEQS)",
           "--speculative-config", '{"method":"ngram","num_speculative_tokens":3}']
"""
POD_WITH_A_SHELL = """
apiVersion: apps/v1
kind: Deployment
spec: {template: {spec: {containers: [{image: own/image,
  command: ["/bin/sh", "-c"],
  args: ["VLLM_USE_V2_MODEL_RUNNER=0 exec vllm serve Qwen/Qwen3-32B
    --max-num-seqs 64 --spec-method ngram --spec-tokens 3"]}]}}}
---
apiVersion: v1
kind: Service
spec: {ports: [{port: 8000}]}
"""
COMPOSE = """
services:
  web: {image: nginx}
  llm:
    image: vllm/vllm-openai
    environment: ["VLLM_USE_V2_MODEL_RUNNER=0"]
    command: --model Qwen/Qwen3-32B --max-num-seqs 64
      --spec-method ngram --spec-tokens 3
"""
WORDS = ["vllm", "serve", "Qwen/Qwen3-32B", "--max-num-seqs", "64", "--spec-method",
         "ngram", "--spec-tokens", "3"]  # fmt: skip
SCRIPT = """#!/bin/bash
export VLLM_USE_V2_MODEL_RUNNER=0
MODEL="Qwen/Qwen3-32B"   # the model's name
ARGS=(
  --max-num-seqs ${SEQS:-64}   # requests
  --spec-method ngram
)
ARGS+=(--spec-tokens 3 --port "$(python -c 'print(1)' | head -1)")
python3 -m vllm.entrypoints.cli.main serve "$MODEL" "${ARGS[@]}" 2>&1 | tee log
"""
UNIT = """[Unit]
Description=vLLM

[Service]
ExecStart=/opt/bin/vllm serve Qwen/Qwen3-32B --max-num-seqs 64 \\
  --spec-method ngram --spec-tokens 3
"""


@pytest.mark.parametrize(
    ("text", "runner"),
    [
        (POD, "V1"),
        (POD_WITH_A_SHELL, "V1"),
        (COMPOSE, "V1"),
        (json.dumps(WORDS), "V2"),
        (json.dumps({"command": WORDS}), "V2"),
        ("- vllm\n- serve\n- Qwen/Qwen3-32B\n- --max-num-seqs=64\n"
         "- --spec-method=ngram\n- --spec-tokens=3\n", "V2"),
        ("# settings\nmodel: Qwen/Qwen3-32B\nmax-num-seqs: 64\nspec-method: ngram\n"
         "spec-tokens: 3\n", "V2"),
        ('{"model": "Qwen/Qwen3-32B", "max-num-seqs": 64, "spec-method": "ngram", '
         '"spec-tokens": 3}', "V2"),
        (SCRIPT, "V1"),
        (UNIT, "V2"),
    ],
)  # fmt: skip
def test_the_server_is_found_whatever_holds_it(text: str, runner: str) -> None:
    config = load(config_text=text)
    assert config.model == "Qwen/Qwen3-32B"
    assert config.max_num_seqs == 64
    assert (config.speculative_method, config.num_speculative_tokens) == ("ngram", 3)
    assert config.model_runner == runner


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no `vllm serve`"),
        ("hello\n", "no `vllm serve`"),
        ("ls -la /tmp\n", "no `vllm serve`"),
        ("# only\n# comments\n", "no `vllm serve`"),
        ('{"a": 1}', "no flag --a"),
        ("{}", "is empty"),
        ("---\n", "is empty"),
        ("name: x\nport: 80\nfoo: 1\nbar: 2\n", "no settings file"),
        ("kind: Pod\nspec: {containers: [{image: nginx, args: [--x]}]}", "no `vllm"),
        ('["hello"]', "no `vllm serve`"),
        ("vllm serve a\nvllm serve b\n", "2 different"),
        (json.dumps({"services": {n: {"image": "vllm", "args": ["--model", n]}
                                  for n in "ab"}}), "2 different"),
        ("vllm serve a -tp $TP", "variable $TP is not set"),
        ('vllm serve a --max-num-seqs "${N}"', "variable ${N} is not set"),
        ("vllm serve a -tp $((4*8))", "worked out by the shell"),
        ("vllm serve a -tp $(nvidia-smi -L | wc -l)", "worked out by the shell"),
        ("vllm serve a $EXTRA --max-num-seqs 3", "variable $EXTRA is not set"),
        ('vllm serve a/b "" --max-num-seqs 3', 'empty word ("")'),
        ("vllm serve a -sc “{}”", "typographic quotation"),
        ("vllm serve a -sc '{“method”: 1}'", "typographic quotation"),
        ("vllm serve a -sc ‘{\"method\": 1", "typographic quotation"),
        ("vllm serve a -sc '{\"method\": 1", "never closed"),
        ("max-num-seqs: 64.0", "64.0; write a whole number"),
        ("max-num-seqs: null", "null"),
        ("max-num-seqs: 64\nenforce-eager: null", "null"),
    ],
)  # fmt: skip
def test_what_is_no_server_is_refused_in_one_line(
    text: str, says: str, specgrid: Run
) -> None:
    result = specgrid("explain", "--config", "-", stdin=text)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert says in result.err


@pytest.mark.parametrize("word", ["", "hello", "Qwen/Qwen3-32B"])
def test_a_bare_word_is_no_server(word: str, specgrid: Run) -> None:
    assert specgrid("explain", word).status == 2
    assert specgrid("lint", "--", word).status == 2


def test_the_same_server_twice_is_one_server() -> None:
    text = "if true; then vllm serve a -tp 2; else vllm serve a -tp 2; fi"
    assert parse_command(text.replace("; f", "\nf").replace("; e", "\ne")).has_command


def test_dollars_in_single_quotes_and_in_unread_flags_are_left_alone() -> None:
    found = parse_command("vllm serve $MODEL --port $PORT --api-key 'a$b'")
    assert found.values["model"].value == "$MODEL"


@pytest.mark.parametrize("name", ["serve", "serve.conf", "serve.yaml"])
def test_settings_are_settings_under_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("model: M\nmax-num-seqs: 7\n")
    assert ServeConfig.from_file(tmp_path / name).max_num_seqs == 7


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_many_comments_in_front_take_no_time(end: str) -> None:
    text = f"# a comment{end}" * 5000 + f"vllm serve M --max-num-seqs 7{end}"
    assert parse_text(text, "script").values["max_num_seqs"].value == "7"
    settings = f"# a comment{end}{end}" * 5000 + f"max-num-seqs: 7{end}"
    assert parse_text(settings, "settings").values["max_num_seqs"].value == 7


def test_endless_files_are_refused(specgrid: Run) -> None:
    result = specgrid("explain", "--config", "/dev/zero")
    assert (result.status, "is a device" in result.err) == (2, True)


# -- flags typed here, and flags in a pasted command ---------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--jsn", "--max-num-seqs", "3"), "--jsn (did you mean --json?)"),
        (("--foo",), "flag --foo"),
        (("--max-num-sequences", "3"), "did you mean --max-num-seqs?"),
        (("--cuda-graph-sizes", "3"), "did you mean --cudagraph-capture-sizes?"),
        (("--foo", "--", "vllm", "serve", "M"), "flag --foo"),
    ],
)
def test_a_mistyped_flag_is_bad_input(
    words: tuple[str, ...], says: str, specgrid: Run
) -> None:
    result = specgrid("explain", *words)
    assert (result.status, result.out) == (2, "")
    assert says in result.err


def test_in_a_pasted_command_unknown_flags_are_a_note(specgrid: Run) -> None:
    words = ("vllm", "serve", "M", "--max-num-seqs", "3", "--cuda-graph-sizes", "4")
    for result in (specgrid("explain", "--", *words), specgrid("explain", *words)):
        assert result.status == 0
        assert "did you mean --cudagraph-capture-sizes?" in result.out


def test_an_abbreviation_is_said_to_be_one(specgrid: Run) -> None:
    words = ("vllm", "serve", "M", "--max-num-seqs", "3", "--gpu", "h100")
    result = specgrid("explain", "--", *words)
    assert "--gpu as --gpu-memory-utilization" in result.out
    assert "go before `--`" in result.out


# -- size ----------------------------------------------------------------------------

LONG = 300_000
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
    for before, name in ("ab", "bc", "cd", "de", "ef", "fg", "gh", "hi")
)


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve a --max-num-seqs " + "9" * LONG,
        "vllm serve " + "a" * LONG,
        "vllm serve a -sc '" + "{" * LONG + "'",
        "vllm serve a -cc '" + '"\\' * (LONG // 2) + "'",
        "vllm serve a -cc '" + "9" * LONG + "k'",
        "vllm serve a --max-num-batched-tokens " + "9" * 400 + "k",
        "vllm serve a " + "$(" * (LONG // 2),
        "vllm serve a " + "--foo bar " * (LONG // 10),
        "vllm serve a " + " ".join(f"--foo{i}" for i in range(LONG // 12)),
        "vllm serve a " + '"' * (LONG + 1),
        "A=(" * (LONG // 3),
        "\\\n" * (LONG // 2),
        "- " * (LONG // 2),
        BOMB + "max-num-seqs: *i\n",
    ],
    ids=range(14),
)
def test_long_input_takes_linear_time_and_short_messages(text: str) -> None:
    start = time.process_time()
    message = ""
    try:
        load(config_text=text)
    except ConfigError as error:
        message = str(error)
    assert len(message) < 400
    # Quadratic time would be minutes.
    assert time.process_time() - start < 8


def test_a_text_says_where_it_came_from() -> None:
    raw = parse_text("max-num-seqs: 3", "standard input")
    assert raw.values["max_num_seqs"].origin == "standard input: max-num-seqs"


def test_convert_reads_what_is_there_or_says_why_not(specgrid: Run) -> None:
    rows = "[[1, 8, 2]]"
    assert specgrid("convert", "-", "--to", "vllm", stdin=rows).err.count("\n") <= 1
    for text in ("\x00", "no\x1b[31msuch", "/tmp"):
        result = specgrid("convert", text, "--to", "vllm")
        assert (result.status, result.err.count("\n")) == (2, 1)
        assert "\x1b" not in result.err
