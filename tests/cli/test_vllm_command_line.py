# SPDX-License-Identifier: Apache-2.0
"""Reading real vLLM command lines and settings files: what is taken, what is refused.

Facts about vLLM's parser were checked against vLLM 0.33.0 itself; tests/vllm does so
again where vLLM is installed.
"""

from __future__ import annotations

import json

import pytest

from specgrid._errors import ConfigError
from specgrid.io.vllm_config import DEVICES, Device, ServeConfig, load

EAGLE3 = (
    '{"method": "eagle3", "model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", '
    '"num_speculative_tokens": 5, "num_speculative_tokens_per_batch_size": '
    "[[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]}"
)


def serve(text: str, **kwargs: object) -> ServeConfig:
    return ServeConfig.from_command(f"vllm serve M {text}", **kwargs)  # type: ignore[arg-type]


def test_a_whole_pasted_command_with_environment_and_continuations() -> None:
    config = ServeConfig.from_command(
        "export HF_HOME=/models\n"
        "# the docs' example\n"
        "CUDA_VISIBLE_DEVICES=0,1 VLLM_USE_V2_MODEL_RUNNER=1 \\\n"
        "  nohup vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 \\\n"
        "  --max_num_seqs=256 --trust-remote-code \\\n"
        f"  --speculative-config '{EAGLE3}' \\\n"
        "  --port 8000 > serve.log 2>&1 &\n"
    )
    assert config.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert config.max_num_seqs == 256
    assert config.tensor_parallel_size == 2
    assert config.num_speculative_tokens == 5
    assert config.schedule[0] == [1, 16, 5]
    assert config.model_runner == "V2"
    assert config.setting("model_runner").source == "given"
    assert config.ignored_flags == ("--trust-remote-code", "--port")
    assert config.unknown_flags == ()


def test_the_older_module_command_and_docker_are_understood() -> None:
    module = ServeConfig.from_command(
        "python3 -m vllm.entrypoints.openai.api_server --model M --max-num-seqs 9"
    )
    docker = ServeConfig.from_command(
        "docker run --gpus all -e VLLM_USE_V2_MODEL_RUNNER=0 -p 8000:8000 --ipc=host "
        "vllm/vllm-openai:v0.33.0 --model M --max-num-seqs 9"
    )
    for config in (module, docker):
        assert (config.model, config.max_num_seqs) == ("M", 9)
    assert docker.model_runner == "V1"


def test_words_from_the_shell_and_one_quoted_text_are_the_same() -> None:
    words = ["vllm", "serve", "M", "--max-num-seqs", "32", "--speculative-config"]
    from_words = ServeConfig.from_command([*words, EAGLE3])
    from_text = ServeConfig.from_command([" ".join(words) + f" '{EAGLE3}'"])
    assert from_words == from_text


@pytest.mark.parametrize(
    "flags",
    [
        f"--speculative-config '{EAGLE3}'",
        f"--speculative_config='{EAGLE3}'",
        f"-sc '{EAGLE3}'",
        "--speculative-config.method eagle3 --speculative-config.model x "
        "--speculative-config.num_speculative_tokens 5",
        "-sc.method=eagle3 -sc.model=x -sc.num_speculative_tokens=5",
        "--spec-method eagle3 --spec-model x --spec-tokens 5",
    ],
)
def test_every_spelling_of_the_drafting_setting(flags: str) -> None:
    config = serve(flags)
    assert (config.speculative_method, config.num_speculative_tokens) == ("eagle3", 5)


def test_dotted_flags_replace_json_as_in_vllm_and_a_note_says_so() -> None:
    config = serve(f"-sc '{EAGLE3}' -sc.method ngram -sc.num_speculative_tokens 2")
    assert config.num_speculative_tokens == 2
    assert config.schedule is None
    assert "drops" in config.notes[0]


@pytest.mark.parametrize(
    ("flags", "mode", "sizes", "largest"),
    [
        ("--cudagraph-capture-sizes 1 2 4 --port 80", None, (1, 2, 4), None),
        ("--cudagraph-capture-sizes 1 2 4", None, (1, 2, 4), None),
        ("-cc.cudagraph_capture_sizes [1,2]", None, (1, 2), None),
        ("-cc.cudagraph_capture_sizes+ 1,2,4 -cc.cudagraph_mode=FULL", "FULL",
         (1, 2, 4), None),
        ("--compilation-config '{\"cudagraph_mode\": \"full_decode_only\"}'",
         "FULL_DECODE_ONLY", None, None),
        ("-cc '{\"max_cudagraph_capture_size\": 1K}'", None, None, 1024),
        ("--max-cudagraph-capture-size 42", None, None, 42),
        ("--enforce-eager", "NONE", None, None),
        ("-O0", "NONE", None, None),
        ("-O 1", "PIECEWISE", None, None),
        ("-O=3", "FULL_AND_PIECEWISE", None, None),
        ("-cc.mode=NONE", "FULL_DECODE_ONLY", None, None),
    ],
)  # fmt: skip
def test_graph_settings(
    flags: str, mode: str | None, sizes: tuple[int, ...] | None, largest: int | None
) -> None:
    config = serve(flags)
    assert config.cudagraph_mode == (mode or "FULL_AND_PIECEWISE")
    assert config.cudagraph_capture_sizes == sizes
    assert config.max_cudagraph_capture_size == largest


@pytest.mark.parametrize(
    ("device", "entry", "seqs", "tokens"),
    [
        (Device(), "vllm serve M", 1024, 8192),
        (DEVICES["h200"], "vllm serve M", 1024, 8192),
        (DEVICES["b200"], "vllm serve M", 1024, 16384),
        (DEVICES["a100"], "vllm serve M", 256, 2048),
        (DEVICES["l40s"], "vllm serve M", 256, 2048),
        (DEVICES["gb10"], "vllm serve M", 256, 2048),
        (DEVICES["h100"], "vllm bench throughput --model M", 1024, 16384),
        (DEVICES["l40s"], "vllm bench latency --model M", 256, 8192),
        (DEVICES["h100"], "vllm run-batch --model M", 128, 2048),
    ],
)
def test_batch_defaults_depend_on_the_gpu_and_the_entry_point(
    device: Device, entry: str, seqs: int, tokens: int
) -> None:
    config = ServeConfig.from_command(entry, device)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seqs, tokens)
    assert config.setting("max_num_seqs").source == "vLLM default"


@pytest.mark.parametrize(
    ("flags", "seqs", "tokens"),
    [
        ("--performance-mode throughput", 2048, 16384),
        ("--max-model-len 1k --max-num-seqs 4", 4, 4000),
        ("--max-model-len 32K --no-enable-chunked-prefill", 1024, 32768),
        ("--max-num-batched-tokens 8k", 1024, 8000),
        ("--max-num-batched-tokens 512", 512, 512),
        ("-dp 2 -ep --all2all-backend deepep_low_latency", 256, 256),
    ],
)
def test_batch_defaults_follow_the_other_settings(
    flags: str, seqs: int, tokens: int
) -> None:
    config = serve(flags)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seqs, tokens)


def test_unknown_flags_are_listed_once_and_never_an_error() -> None:
    config = serve("--host 0.0.0.0 --frobnicate 3 4 --max-num-sequences 8 --host x")
    assert config.ignored_flags == ("--host",)
    assert config.unknown_flags == (
        "--frobnicate",
        "--max-num-sequences (did you mean --max-num-seqs?)",
    )
    assert config.flags_note.count("--host") == 1


def test_an_unmistakable_abbreviation_counts_as_in_vllm() -> None:
    assert serve("--max-num-se 7").max_num_seqs == 7
    assert serve("--max-num-s 7").unknown_flags == (
        "--max-num-s (did you mean --max-num-scheduled-tokens?)",
    )


def test_a_schedule_is_dropped_where_vllm_drops_it() -> None:
    flags = f"-sc '{EAGLE3}'"
    assert "45963" in serve(flags + " -dp 2").schedule_dropped
    assert serve(flags + " -dp 2").effective_schedule is None
    v1 = "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve M "
    eagle = ServeConfig.from_command(v1 + flags)
    assert (eagle.cudagraph_mode, eagle.schedule_dropped) == ("PIECEWISE", "")
    suffix = flags.replace("eagle3", "suffix")
    assert "suffix" in serve(suffix).schedule_dropped


def test_lora_cases_are_vllms() -> None:
    assert serve("").lora_cases == (0,)
    assert serve("--enable-lora --max-loras 4").lora_cases == (0, 5)
    flags = "--enable-lora --max-loras 4 --specialize-active-lora"
    assert serve(flags).lora_cases == (0, 1, 2, 4, 5)


def test_yaml_json_and_shell_files_say_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    settings = {
        "model": "M",
        "max-num-seqs": 6,
        "max_num_batched_tokens": "8k",
        "cudagraph-capture-sizes": [1, 2, 4],
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 6},
        "enforce-eager": False,
        "trust-remote-code": True,
    }
    (tmp_path / "serve.json").write_text(json.dumps(settings))
    (tmp_path / "serve.yaml").write_text(
        "model: M\nmax-num-seqs: 6\nmax_num_batched_tokens: 8k\n"
        "cudagraph-capture-sizes: [1, 2, 4]\nspeculative-config:\n"
        "  method: mtp\n  num_speculative_tokens: 6\nenforce-eager: false\n"
        "trust-remote-code: true\n"
    )
    (tmp_path / "serve.sh").write_text(
        "#!/bin/bash\nSEQS=6\nvllm serve M --max-num-seqs $SEQS "
        "--max-num-batched-tokens 8k --cudagraph-capture-sizes 1 2 4 \\\n"
        "  --no-enforce-eager --trust-remote-code \\\n"
        """  -sc '{"method": "mtp", "num_speculative_tokens": 6}'\n"""
    )
    from_yaml = ServeConfig.from_file(tmp_path / "serve.yaml")
    from_json = ServeConfig.from_file(tmp_path / "serve.json")
    from_shell = ServeConfig.from_file(tmp_path / "serve.sh")
    values = [
        [(s.name, s.value, s.source) for s in config.settings]
        for config in (from_yaml, from_json, from_shell)
    ]
    assert values[0] == values[1] == values[2]
    assert from_yaml.setting("max_num_seqs").detail == "serve.yaml: max-num-seqs"
    pasted = ServeConfig.from_command(
        f"vllm serve --config {tmp_path}/serve.yaml --max-num-seqs 12"
    )
    assert (pasted.model, pasted.max_num_seqs) == ("M", 12)


def test_flags_lie_over_the_command_and_the_command_over_the_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "serve.yaml"
    path.write_text("max-num-seqs: 1\nmax-num-batched-tokens: 4000\n")
    config = load(
        ["vllm", "serve", "M", "--max-num-seqs", "2"],
        path,
        ["--max-num-seqs", "3"],
        num_speculative_tokens="4",
        schedule="[[1, 8, 2]]",
    )
    assert config.max_num_seqs == 3
    assert config.max_num_batched_tokens == 4000
    assert config.num_speculative_tokens == 4
    assert config.schedule == [[1, 8, 2]]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--max-num-seqs", "needs a value"),
        ("--max-num-seqs --port 1", "needs a value"),
        ("--max-num-seqs abc", "whole number"),
        ("--max-num-seqs 1k", "write 1000"),
        ("--max-num-seqs 0", "from 1 to"),
        ("--max-num-seqs -4", "from 1 to"),
        ("--max-num-seqs 99999999999999999999", "from 1 to"),
        ("--max-num-seqs nan", "whole number"),
        ("--max-num-batched-tokens 1.5K", "whole number"),
        ("--max-num-seqs 64 --max-num-batched-tokens 32", "refuses to start"),
        ("--max-num-seqs 4 --max-num-active-seqs 5", "at most 4"),
        ("--speculative-config '{\"method\": '", "not valid JSON"),
        ("--speculative-config \"{'method': 'eagle'}\"", "double quotes inside"),
        ("--speculative-config {method:eagle}", "single quotes"),
        ("--speculative-config '[1]'", "JSON object"),
        ("--speculative-config '{“method”: 1}'", "typographic"),
        ("--speculative-config '" + "[" * 100_000 + "'", "nested too deeply"),
        ("--speculative-config '{\"method\": \"eagle\"}'", "num_speculative_tokens"),
        ('-sc \'{"method": "ngram", "num_speculative_tokens": 0}\'', "from 1 to"),
        ('-sc \'{"method": "ngram", "num_speculative_tokens": true}\'', "whole"),
        ('-sc \'{"method": "ngram", "num_speculative_tokens": NaN}\'', "whole"),
        ('-sc \'{"num_speculative_tokens": 2}\' --spec-tokens 3', "keep one"),
        ("--cudagraph-capture-sizes 1,2,4", "separate the sizes by blanks"),
        ("--cudagraph-capture-sizes", "needs a value"),
        ("--cudagraph-capture-sizes 1 x", "whole number"),
        ("--max-cudagraph-capture-size 4 -cc.max_cudagraph_capture_size 4", "both"),
        ("-cc.cudagraph_mode=fast", "FULL_AND_PIECEWISE"),
        ("-cc.compile_sizes=8", "list of token counts"),
        ("-O7", "from 0 to 3"),
        ("--performance-mode fast", "balanced"),
        ("-tp 0", "from 1 to"),
        ("stray", "unexpected stray"),
        ("–max-num-seqs 4", "typographic dash"),
        ("--config /nowhere/serve.yaml", "cannot be opened"),
        ("--enable-lora --spec-tokens 7 --spec-model x --max-num-seqs 2048 "
         "--max-num-batched-tokens 2048", "raise --max-num-batched-tokens"),
        ("--x." + "a." * 40 + "b 1", "not a dotted flag"),
        ("'--max-num-seqs 4", "never closed"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_a_remedy(flags: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        serve(flags)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", "max-num-seqs: [", "not valid YAML"),
        ("a.yaml", "- 1\n- 2\n", "one `flag: value` a line"),
        ("a.yaml", "max-num-seqs: many\n", "whole number"),
        ("a.yaml", "enforce-eager: 3\n", "true or false"),
        ("a.yaml", "3: 4\n", "not a flag name"),
        ("a.yaml", "[" * 5000, "nested too deeply"),
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '"x"', "flag: value"),
        ("a.sh", "vllm serve M --max-num-seqs 'x", "never closed"),
        ("a.yaml", "#" * (1 << 20) + "\n", "larger than 1 MiB"),
    ],
)
def test_bad_files_are_one_line_with_a_remedy(
    name: str,
    content: str,
    says: str,
    tmp_path,  # type: ignore[no-untyped-def]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        ServeConfig.from_file(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("3", "not an object"),
        ('{"policy": "foo"}', "policy foo is not known"),
        ('{"polcy": "reachable"}', "did you mean policy?"),
        ('{"schedule": "x"}', "schedule x is no list"),
        ('{"schedule": [[2, 8, 1]]}', "schedule is ignored: "),
        ('{"plan": 3}', "no path"),
        ('{"context_aggregate": ["mean"]}', "mean, median, max"),
    ],
)
def test_what_the_plug_in_would_not_use_is_told_and_not_used(
    section: str, says: str
) -> None:
    flags = f"--additional-config '{{\"specgrid\": {section}}}'"
    config = serve(f"--spec-method ngram --spec-tokens 2 {flags}")
    assert says in " ".join(config.plugin_problems)
    assert says in " ".join(config.notes)
    assert config.plugin == {}
    assert config.schedule is None


@pytest.mark.parametrize(
    ("method", "read"),
    [("ngram", "ngram"), ("qwen3_next_mtp", "mtp"), ("dspark", "dspark")],
)
def test_drafting_methods_of_vllm(method: str, read: str) -> None:
    config = serve(f"--spec-method {method} --spec-tokens 2")
    assert config.speculative_method == read


@pytest.mark.parametrize("method", ["foo", "medusa", "foo_mtp", "[ngram]", "eagl3"])
def test_a_method_vllm_does_not_have_is_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=r"does not have; .*choose one of"):
        serve(f"--spec-method {method} --spec-tokens 2")


def test_a_default_says_what_it_follows_from() -> None:
    config = serve("-dp 8 -ep --all2all-backend deepep_low_latency")
    detail = config.setting("max_num_batched_tokens").detail
    assert detail == "all2all backend deepep_low_latency"
    assert "lowered" in config.setting("max_num_seqs").detail
    config = serve("--max-model-len 100 --max-num-seqs 2")
    detail = config.setting("max_num_batched_tokens").detail
    assert detail == "max_num_seqs x max_model_len"
