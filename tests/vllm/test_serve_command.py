# SPDX-License-Identifier: Apache-2.0
"""`ServeConfig` against vLLM itself: random command lines, vLLM's parser and config.

vLLM's own argument parser and `VllmConfig` (on a simulated CUDA device) read the same
words; requests, tokens, drafts, graph mode and capture sizes must agree, and so must
which command lines are refused.
"""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specgrid import ConfigError
from specgrid.cli._analysis import analyse
from specgrid.io._vllm_flags import VLLM_FLAGS
from specgrid.io.vllm_config import ServeConfig

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vLLM", allow_module_level=True)

Outcome = tuple[int, int, int, str, list[int], int] | None


@pytest.fixture(scope="module")
def parser(sim: Any) -> Iterator[Any]:
    """vLLM's parser of `vllm serve`, without the plug-in's changes."""
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from specgrid.vllm_plugin import _register

    _register.undo()
    top = FlexibleArgumentParser(prog="vllm")
    make_arg_parser(top.add_subparsers(dest="command").add_parser("serve"))
    yield top
    _register.register()


def random_words(rng: random.Random) -> list[str]:
    words: list[str] = []

    def maybe(share: float, *choices: list[str]) -> None:
        if rng.random() < share:
            words.extend(rng.choice(choices))

    def flag(name: str, *values: object) -> list[list[str]]:
        return [[name, str(value)] for value in values]

    maybe(0.7, *flag("--max-num-seqs", 1, 6, 12, 32, 40, 100, 256, 264, 512, 2000))
    maybe(0.5, *flag("--max_num_batched_tokens", 64, 512, 2048, "8k", "16K"))
    maybe(0.3, *flag("--max-model-len", 128, "1k"))
    maybe(0.2, *flag("--performance-mode", "throughput", "interactivity"))
    maybe(0.2, *flag("--max-cudagraph-capture-size", 0, 1, 6, 42, 257, 300, 544))
    if rng.random() < 0.2:
        sizes = rng.choices([1, 2, 4, 7, 8, 24, 42, 64, 256, 512], k=rng.randint(1, 6))
        words += ["--cudagraph-capture-sizes", *map(str, sizes)]
    modes = ("FULL", "none", "PIECEWISE", "full_decode_only")
    maybe(0.15, *[[f"-cc.cudagraph_mode={mode}"] for mode in modes])
    maybe(0.1, ["-cc", '{"max_cudagraph_capture_size": 96}'])
    maybe(0.1, ["-O0"], ["-O", "1"], ["-O=3"])
    maybe(0.1, ["--enforce-eager"], ["--no-enable-chunked-prefill"])
    maybe(0.1, ["-cc.mode=0"], ["-cc.mode=VLLM_COMPILE"])
    maybe(0.1, *flag("--max-num-active-seqs", 4, 100))
    if rng.random() < 0.7:
        words += random_drafting(rng)
    return words


def random_drafting(rng: random.Random) -> list[str]:
    k = rng.choice([1, 2, 3, 5, 6, 16])
    config: dict[str, Any] = {
        "method": "ngram",
        "num_speculative_tokens": k,
        "prompt_lookup_max": 3,
    }
    if rng.random() < 0.5:
        rows, first = [], rng.choice([1] * 9 + [2])
        while first < 600 and len(rows) < 5:
            last = first + rng.choice([1, 7, 15, 40, 100, 300])
            rows.append([first, last, rng.randint(0, k + 1)])
            first = last + rng.choice([1, 1, 1, 5])
        config["num_speculative_tokens_per_batch_size"] = rows
    form = rng.random()
    if form < 0.4:
        return ["--speculative-config", json.dumps(config)]
    if form < 0.6:
        return ["-sc=" + json.dumps(config)]
    if form < 0.9:
        words = []
        for key, value in config.items():
            text = value if isinstance(value, str) else json.dumps(value)
            words += [f"--speculative_config.{key}", text]
        return words
    return ["--spec-method", "ngram", "--spec-tokens", str(k)]


def of_vllm(parser: Any, words: list[str], model: str) -> Outcome:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    try:
        parsed = parser.parse_args(["serve", model, *words])
        parsed.model = model
        config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER
        )
    except (SystemExit, ValueError, AssertionError):
        return None
    compilation = config.compilation_config
    return (
        config.scheduler_config.max_num_seqs,
        config.scheduler_config.max_num_batched_tokens,
        config.num_speculative_tokens,
        compilation.cudagraph_mode.name,
        list(compilation.cudagraph_capture_sizes),
        compilation.max_cudagraph_capture_size,
    )


def of_specgrid(words: list[str], model: str, runner: str) -> Outcome:
    # vLLM reads the length from the model, which is not opened here.
    settings = json.loads((Path(model) / "config.json").read_text())
    length = str(settings["max_position_embeddings"])
    if "--max-model-len" not in words:
        words = [*words, "--max-model-len", length]
    variable = f"VLLM_USE_V2_MODEL_RUNNER={runner}"
    try:
        config = ServeConfig.from_command([variable, "vllm", "serve", model, *words])
        sizes = analyse(config).sizes
    except ConfigError:
        return None
    return (
        config.max_num_seqs,
        config.max_num_batched_tokens,
        config.num_speculative_tokens,
        config.cudagraph_mode,
        [] if sizes is None else sizes.sizes,
        0 if sizes is None else sizes.max_size,
    )


@pytest.mark.parametrize("runner", ["1", "0"], ids=["V2", "V1"])
def test_random_command_lines_resolve_as_in_vllm(
    runner: str, parser: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", runner)
    rng = random.Random(f"serve command {runner}")
    accepted = 0
    for _ in range(150):
        words = random_words(rng)
        theirs = of_vllm(parser, words, model)
        assert of_specgrid(words, model, runner) == theirs, words
        accepted += theirs is not None
    assert 75 < accepted < 150


def test_the_flag_table_is_vllms(parser: Any) -> None:
    (sub,) = (a for a in parser._actions if a.dest == "command")
    actions = sub.choices["serve"]._actions
    theirs = {
        name: {0: "0", None: "1"}.get(action.nargs, action.nargs)
        for action in actions
        for name in action.option_strings
    }
    # The older `--no-enable-x` is accepted by vLLM but hidden from this list.
    ours = {
        name: nargs
        for name, nargs in VLLM_FLAGS.items()
        if name in theirs or not name.startswith(("--no-enable-", "--no-disable-"))
    }
    assert ours == theirs
