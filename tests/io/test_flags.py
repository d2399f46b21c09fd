# SPDX-License-Identifier: Apache-2.0
"""How vLLM's flags may be written: unusual spellings, and words nobody means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specgrid._errors import ConfigError
from specgrid.io.vllm_config import ServeConfig, load


def serve(flags: str) -> ServeConfig:
    return ServeConfig.from_command("vllm serve M " + flags)


@pytest.mark.parametrize(
    ("command", "seqs"),
    [
        (["cd", "x", ";", "vllm", "serve", "M", "\\", "--max-num-seqs", "3", " "], 3),
        ("vllm serve M -- --max-num-seqs 3", 3),
        ("vllm launch M --max-num-seqs 3", 3),
        ("vllm serve M --max-num-seqs \\3 > server.log", 3),
        ("vllm serve M --max-num-seqs=3", 3),
        ("docker run --env=A=1 vllm/vllm-openai M --max-num-seqs 3", 3),
        ("python -m vllm.entrypoints.openai.api_server --model M --max-num-seqs 3", 3),
    ],
)
def test_spellings_of_one_command(command: Any, seqs: int) -> None:
    config = ServeConfig.from_command(command)
    assert (config.model, config.max_num_seqs) == ("M", seqs)


def test_dotted_flags_stand_in_files_and_grow_together() -> None:
    config = load(
        config_text="model: M\nspeculative-config.method: ngram\n"
        "speculative-config.num_speculative_tokens: 2\n"
    )
    assert (config.speculative_method, config.num_speculative_tokens) == ("ngram", 2)
    config = serve(
        "-tp 2 -cc.pass_config.enable_sp true -cc.pass_config.other 1 "
        "-cc.cudagraph_capture_sizes+ 1 -cc.cudagraph_capture_sizes+ 2,4"
    )
    assert config.sequence_parallel_size == 2
    assert config.cudagraph_capture_sizes == (1, 2, 4)


def test_dotted_flags_of_no_json_setting_are_unknown() -> None:
    config = serve("--foo.bar 3 --max-num-seqs.x 3")
    assert config.unknown_flags == ("--foo", "--max-num-seqs.x")
    assert config.max_num_seqs == 1024


def test_a_settings_file_lies_under_any_entry_point(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("max-num-batched-tokens: 2100\n")
    config = load(f"vllm bench latency --model M --config {path}")
    assert config.max_num_batched_tokens == 2100
    assert "LLM class" in config.setting("max_num_seqs").detail
    path.write_text("model: M\noptimization-level: 1\nenforce-eager: true\n")
    assert load(config_file=path).cudagraph_mode == "NONE"


def test_k_given_here_needs_no_drafter() -> None:
    config = load(["vllm", "serve", "M"], num_speculative_tokens="2")
    assert (config.num_speculative_tokens, config.speculative_method) == (2, None)


def test_a_whole_number_may_be_a_float_in_json() -> None:
    drafting = '{"method": "ngram", "num_speculative_tokens": 2.0}'
    assert serve(f"-sc '{drafting}'").num_speculative_tokens == 2


NINES = "9" * 400


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-O", "-O needs a value; write -O VALUE"),
        (
            "--speculative-config.method",
            "--speculative-config.method needs a value; write "
            "--speculative-config.method VALUE",
        ),
        (
            "--compilation-config.",
            "--compilation-config. is not a dotted flag; write it as in "
            "--speculative-config.num_speculative_tokens 5",
        ),
        ("--max-num-seqs '  '", "--max-num-seqs is '  '; write a whole number"),
        (
            "-cc '{\"compile_sizes\": [null]}'",
            "--compilation-config: compile_sizes is null; write a whole number",
        ),
        (
            f"--max-num-batched-tokens {NINES}k",
            f"--max-num-batched-tokens is {NINES[:57]}...; write a whole number",
        ),
        (
            "-sc '" + "[" * 100_000 + "'",
            "--speculative-config is nested too deeply for a setting",
        ),
        (
            '-sc \'{"num_speculative_tokens": ' + "9" * 5000 + "}'",
            "--speculative-config is not valid JSON (a number in it has thousands of "
            "digits, near '{\"num_speculative_tokens'); put the whole JSON in single "
            "quotes, with double quotes inside",
        ),
        (
            "--cudagraph-capture-sizes " + "1 " * 70_000,
            "--cudagraph-capture-sizes has 70000 sizes; at most 65536 are read",
        ),
        (
            "a" * (1 << 20),
            "the command has more than 1048576 bytes; paste the one `vllm serve` "
            "command",
        ),
    ],
    ids=range(10),
)
def test_words_vllm_stops_at_are_refused_in_one_sentence(
    flags: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        serve(flags + " 1" if flags.endswith(".") else flags)
    assert str(caught.value) == message


@pytest.mark.parametrize("client", ["serve", "sweep"])
def test_a_client_is_no_server(client: str) -> None:
    with pytest.raises(ConfigError, match=f"`vllm bench {client}` is a client; paste"):
        ServeConfig.from_command(f"vllm bench {client} --model M")


def test_another_module_of_vllm_is_no_server() -> None:
    with pytest.raises(ConfigError, match=r"no flag of vLLM in python -m vllm.other x"):
        ServeConfig.from_command("python -m vllm.other x")


def test_files_are_named_and_name_no_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the name of the settings file is empty"):
        ServeConfig.from_file("")
    path = tmp_path / "c.yaml"
    path.write_text("max-num-seqs: 5\nconfig: other.yaml\n")
    with pytest.raises(ConfigError, match=r"^c.yaml: config: a file cannot name ano"):
        serve(f"--config {path}")
    path.write_text("max-num-seqs: true\n")
    with pytest.raises(ConfigError, match=r"max-num-seqs is True; write a whole num"):
        ServeConfig.from_file(path)
