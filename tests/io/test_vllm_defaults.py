# SPDX-License-Identifier: Apache-2.0
"""What vLLM 0.33.0 makes of settings that depend on each other, rule by rule.

tests/vllm compares the same with vLLM itself; here each rule has its sentence.
"""

from __future__ import annotations

import pytest

from specgrid._errors import ConfigError
from specgrid.io.vllm_config import ServeConfig

NGRAM = "--spec-method ngram --spec-tokens 2 "
MODES = "NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE"


def serve(flags: str, model: str = "M", before: str = "") -> ServeConfig:
    return ServeConfig.from_command(f"{before}vllm serve {model} {flags}")


@pytest.mark.parametrize(
    ("drafting", "method", "num_tokens", "source", "detail"),
    [
        ('{"model": "ngram", "num_speculative_tokens": 2}', "ngram", 2,
         "vLLM default", "from model"),
        ('{"model": "x-dflash", "num_speculative_tokens": 2}', "dflash", 2,
         "assumed", "vLLM reads it from the draft model's config"),
        ('{"model": "x-mtp", "num_speculative_tokens": 2}', "mtp", 2,
         "assumed", "vLLM reads it from the draft model's config"),
        ('{"model": "plain", "num_speculative_tokens": 2}', "draft_model", 2,
         "assumed", "vLLM reads it from the draft model's config"),
        ('{"method": "mtp"}', "mtp", 1, "given", "--speculative-config"),
        ('{"method": "suffix"}', "suffix", 24, "given", "--speculative-config"),
        ('{"method": "suffix", "suffix_decoding_max_tree_depth": 5}', "suffix", 5,
         "given", "--speculative-config"),
    ],
)  # fmt: skip
def test_how_a_drafter_and_k_are_found(
    drafting: str, method: str, num_tokens: int, source: str, detail: str
) -> None:
    config = serve(f"-sc '{drafting}'")
    assert config.num_speculative_tokens == num_tokens
    setting = config.setting("speculative_method")
    assert (setting.value, setting.source, setting.detail) == (method, source, detail)


def test_a_null_drafting_setting_is_no_drafting() -> None:
    config = serve("-sc null")
    assert (config.num_speculative_tokens, config.speculative_method) == (0, None)


@pytest.mark.parametrize(
    ("flags", "runner", "detail"),
    [
        ("-sc.parallel_drafting true", "V1", "V2 does not support parallel drafting"),
        ("-sc.use_heterogeneous_vocab true", "V1",
         "V2 does not support use_heterogeneous_vocab"),
        ("--enable-dbo", "V1", "V2 does not support dual batch overlap"),
        ("--ubatch-size 2", "V1", "V2 does not support dual batch overlap"),
        ("--ubatch-size 1", "V2", "since 0.29.0"),
        ("-pp 2 --distributed-executor-backend external_launcher", "V1",
         "V2 does not support pipeline parallelism with external_launcher"),
        ("-pp 2 --distributed-executor-backend ray", "V2", "since 0.29.0"),
    ],
)  # fmt: skip
def test_what_makes_vllm_choose_the_older_runner(
    flags: str, runner: str, detail: str
) -> None:
    setting = serve(NGRAM + flags).setting("model_runner")
    assert (setting.value, setting.detail) == (runner, detail)


def test_parallel_drafting_keeps_the_new_runner_where_the_method_is_made_for_it() -> (
    None
):
    drafting = '{"method": "dflash", "model": "d", "num_speculative_tokens": 2, '
    config = serve(f"-sc '{drafting}\"parallel_drafting\": true}}'")
    assert config.model_runner == "V2"


@pytest.mark.parametrize(
    ("flags", "mode", "detail"),
    [
        ("-cc.cudagraph_mode=2 -cc.mode=3", "FULL", "--compilation-config.*"),
        ("-O 1 -cc.cudagraph_mode=FULL", "FULL", "--compilation-config.*"),
        ("-cc.mode=stock_torch_compile", "FULL_DECODE_ONLY",
         "optimization level 2; FULL_AND_PIECEWISE needs compilation mode "
         "VLLM_COMPILE"),
        ("-cc.mode=0 -cc.cudagraph_mode=PIECEWISE", "NONE",
         "--compilation-config.*; PIECEWISE needs compilation mode VLLM_COMPILE"),
    ],
)  # fmt: skip
def test_graph_modes_by_number_and_by_what_they_need(
    flags: str, mode: str, detail: str
) -> None:
    setting = serve(flags).setting("cudagraph_mode")
    assert (setting.value, setting.detail) == (mode, detail)


def test_the_settings_inside_compilation_config_count() -> None:
    inside = (
        '{"compile_sizes": [8, "cudagraph_capture_sizes"], '
        '"cudagraph_capture_sizes": [1, 2], "max_cudagraph_capture_size": 7, '
        '"pass_config": {"enable_sp": true}}'
    )
    config = serve(f"-tp 2 -cc '{inside}'")
    assert config.compile_sizes == (8, "cudagraph_capture_sizes")
    assert config.cudagraph_capture_sizes == (1, 2)
    assert config.max_cudagraph_capture_size == 7
    assert config.sequence_parallel_size == 2
    assert serve("-tp 2").sequence_parallel_size == 1


def test_gpt_oss_has_its_own_largest_size_unless_sizes_are_given() -> None:
    config = serve("", "openai/gpt-oss-20b")
    assert config.max_cudagraph_capture_size == 1024
    assert config.setting("max_cudagraph_capture_size").source == "vLLM default"
    given = serve("--cudagraph-capture-sizes 1 2", "openai/gpt-oss-20b")
    assert given.max_cudagraph_capture_size is None


@pytest.mark.parametrize("length", ["auto", "-1"])
def test_an_unknown_model_length_lowers_nothing(length: str) -> None:
    config = serve(f"--max-model-len {length} --max-num-seqs 2")
    assert config.max_num_batched_tokens == 8192


def test_whole_prompts_need_a_step_as_long_as_the_model() -> None:
    flags = "--no-enable-chunked-prefill --max-model-len 200 --max-num-seqs 2 "
    assert serve(flags + "--max-num-batched-tokens 300").max_num_batched_tokens == 300
    with pytest.raises(ConfigError) as caught:
        serve(flags + "--max-num-batched-tokens 100")
    assert str(caught.value) == (
        "without chunked prefill max_num_batched_tokens (100) must be at least "
        "max_model_len (200); vLLM refuses to start: raise --max-num-batched-tokens or "
        "drop --no-enable-chunked-prefill"
    )


@pytest.mark.parametrize(
    ("flags", "cases"),
    [
        ("--specialize-active-lora --max-loras 3", (0, 1, 2, 4)),
        ("--specialize-active-lora -cc.cudagraph_specialize_lora=false", (0, 2)),
        ("", (0, 2)),
    ],
)
def test_lora_cases_of_defaults(flags: str, cases: tuple[int, ...]) -> None:
    assert serve("--enable-lora " + flags).lora_cases == cases


def test_schedules_come_from_every_place_they_may_stand_in() -> None:
    rows = [[1, 8, 2]]
    text = f'"num_speculative_tokens_per_batch_size": "{rows}"'
    drafting = '{"method": "ngram", "num_speculative_tokens": 2, '
    assert serve(f"-sc '{drafting}{text}}}'").schedule == rows
    plugin = f'--additional-config \'{{"specgrid": {{"schedule": {rows}}}}}\''
    config = serve(NGRAM + plugin)
    assert config.schedule == rows
    detail = config.setting("schedule").detail
    assert detail == "--additional-config: specgrid.schedule"
    with_context = serve(NGRAM + "-sc.speculative_token_schedule=[[1,8,1,99,2]]")
    assert with_context.schedule == [[1, 8, 1, 99, 2]]
    assert "The schedule has context ranges." in with_context.notes[0]


def test_adaptive_verification_and_performance_modes_are_settings_of_their_own() -> (
    None
):
    drafting = (
        '{"method": "eagle3", "num_speculative_tokens": 2, '
        '"enable_adaptive_verification": true}'
    )
    config = serve(f"-sc '{drafting}' --performance-mode interactivity")
    assert config.adaptive_verification
    assert config.setting("performance_mode").value == "interactivity"
    assert config.max_num_seqs == 1024
    assert serve("--performance-mode throughput").max_num_seqs == 2048


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("-cc.cudagraph_mode=true",
         f"--compilation-config.*: cudagraph_mode is True; choose one of {MODES}"),
        ("-cc '{\"cudagraph_mode\": 1.5}'",
         f"--compilation-config: cudagraph_mode is 1.5; choose one of {MODES}"),
        ("-cc.mode=9",
         "--compilation-config.*: mode is 9; choose 0 to 3 or one of NONE, "
         "STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE, VLLM_COMPILE"),
        ("-cc '{\"compile_sizes\": [0]}'",
         "--compilation-config: compile_sizes is 0; write a whole number from 1 to "
         "2147483647"),
        ("-cc '{\"compile_sizes\": 1e999}'",
         "--compilation-config: compile_sizes is inf; write a list of token counts"),
        ("-cc '{\"cudagraph_capture_sizes\": [1]}' --cudagraph-capture-sizes 4",
         "--cudagraph-capture-sizes and --compilation-config both set "
         "cudagraph_capture_sizes; vLLM refuses to start: keep one of them"),
        ("-cc '{\"cudagraph_capture_sizes\": {}}'",
         "--compilation-config: cudagraph_capture_sizes is {}; write a list of token "
         "counts"),
        ("--cudagraph-capture-sizes [1,2]",
         "--cudagraph-capture-sizes is [1,2]; separate the sizes by blanks, as in "
         "--cudagraph-capture-sizes 1 2 4 8"),
        ("-cc '{\"max_cudagraph_capture_size\": \"8k\"}'",
         "--compilation-config: max_cudagraph_capture_size is 8k; vLLM takes no "
         "suffix here: write 8000"),
        ("-cc '{\"x\": \"8k\", 9kk}'",
         "--compilation-config is not valid JSON (Expecting property name enclosed in "
         "double quotes at character 13, near '{\"x\": \"8k\", 9kk}'); put the whole "
         "JSON in single quotes, with double quotes inside"),
        ("-sc '{\"method\": \"ngram\", \"num_speculative_tokens\": 2, "
         "\"num_speculative_tokens_per_batch_size\": \"[[\"}'",
         "--speculative-config: num_speculative_tokens_per_batch_size is not valid "
         "JSON (Expecting value at character 3, near '[['); put the whole JSON in "
         "single quotes, with double quotes inside"),
    ],
)  # fmt: skip
def test_what_vllm_would_not_take_is_refused_in_one_sentence(
    flags: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        serve(flags)
    assert str(caught.value) == message


def test_the_runner_variable_is_a_number() -> None:
    assert serve("", before="VLLM_USE_V2_MODEL_RUNNER=0 ").model_runner == "V1"
    with pytest.raises(ConfigError, match=r"^VLLM_USE_V2_MODEL_RUNNER=yes is not a "):
        serve("", before="VLLM_USE_V2_MODEL_RUNNER=yes ")
