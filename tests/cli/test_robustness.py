# SPDX-License-Identifier: Apache-2.0
"""Whatever is typed, the command line answers: 0, 1 or 2, one line for an error."""

from __future__ import annotations

import contextlib
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from specgrid.cli import run

# Edge values first: what overflows, what is nothing, what is not a number.
NUMBERS = st.sampled_from(
    ["0", "1", "2", "6", "42", "64", "256", "513", "8k", "-1", "2147483647",
     "2147483648", "1e3", "nan", "", "1.5", "9" * 30, "0x10", "true", "null"]
)  # fmt: skip
NUMBER_FLAGS = st.sampled_from(
    ["--max-num-seqs", "--max_num_batched_tokens", "--max-cudagraph-capture-size",
     "--spec-tokens", "--max-model-len", "-tp", "-dp", "--max-loras", "-O",
     "--max-num-active-seqs", "-cc.max_cudagraph_capture_size",
     "-sc.num_speculative_tokens", "--num-speculative-tokens", "--frobnicate"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=8,
)
ROW = st.lists(st.integers(-1, 70) | LEAVES, min_size=2, max_size=5)
KEYS = st.sampled_from(
    ["method", "model", "num_speculative_tokens", "specgrid", "cudagraph_mode", "mode",
     "num_speculative_tokens_per_batch_size", "cudagraph_capture_sizes",
     "compile_sizes", "max_cudagraph_capture_size", "pass_config", "policy"]
)  # fmt: skip
OBJECT = st.dictionaries(KEYS, st.lists(ROW, max_size=3) | VALUES, max_size=4)
OBJECT_FLAGS = st.sampled_from(
    ["--speculative-config", "-cc", "--additional-config", "--schedule"]
)
SWITCHES = st.sampled_from(
    ["--enforce-eager", "--enable-lora", "--no-enable-chunked-prefill", "M", "--", "-",
     "--cudagraph-capture-sizes", "--spec-method=ngram", "=", "-sc.", "--.x=1", "\\",
     "--specialize-active-lora", "-cc.cudagraph_mode=FULL_DECODE_ONLY", "--rule",
     "VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "#", ">", "‐‐x", "\x00", "\n"]
)  # fmt: skip
WORDS = st.lists(
    st.tuples(NUMBER_FLAGS, NUMBERS)
    | st.tuples(OBJECT_FLAGS, OBJECT.map(json.dumps) | VALUES.map(json.dumps))
    | st.tuples(SWITCHES)
    | st.tuples(NUMBERS),
    max_size=6,
).map(lambda groups: [word for group in groups for word in group])


@settings(max_examples=120)
@given(st.sampled_from(["explain", "lint"]), st.booleans(), st.booleans(), WORDS)
def test_any_words_are_answered(
    command: str, pasted: bool, as_json: bool, words: list[str]
) -> None:
    arguments = [command, *["--json"] * as_json]
    arguments += ["--", "vllm", "serve", *words] if pasted else words
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(arguments)
    assert status in (0, 1, 2)
    if status == 2:
        assert out.getvalue() == ""
        assert err.getvalue().count("\n") == 1
        assert len(err.getvalue()) < 1_000
    else:
        assert err.getvalue() == ""
        if "--json" in arguments:
            json.loads(out.getvalue())
        assert len(out.getvalue()) < 2_000_000
