# SPDX-License-Identifier: Apache-2.0
"""Single values out of flags, JSON and YAML, checked, with a remedy in each error.

What a setting means is in ``vllm_config.py``; how flags are written is in
``vllm_command.py``. Here is only what makes a text a number, a list or a mode.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from typing import Any

from specgrid._errors import ConfigError
from specgrid._read import ReadError, parse_json
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_command import human_int, short

MAX_INT = 2**31 - 1
#: vLLM accepts longer lists, but a person did not write one.
MAX_CAPTURE_SIZES = 65_536
CUDAGRAPH_MODES = (
    "NONE",
    "PIECEWISE",
    "FULL",
    "FULL_DECODE_ONLY",
    "FULL_AND_PIECEWISE",
)
# vllm/config/compilation.py: CompilationMode; only the last splits into pieces.
_COMPILATION_MODES = (
    "NONE",
    "STOCK_TORCH_COMPILE",
    "DYNAMO_TRACE_ONCE",
    "VLLM_COMPILE",
)


def integer(
    value: Any, where: str, low: int, *, high: int = MAX_INT, human: bool = False
) -> int:
    """A whole number from a flag, JSON or YAML, or a ConfigError that says why not."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    number: int | None = None
    if isinstance(value, bool):
        pass
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str):
        try:
            number = human_int(value) if human else int(value)
        except ValueError:
            number = None
    if number is None:
        remedy = "write a whole number"
        if isinstance(value, str) and not human:
            with contextlib.suppress(ValueError):
                remedy = f"vLLM takes no suffix here: write {human_int(value)}"
        raise ConfigError(f"{where} is {short(value)}; {remedy}")
    if not low <= number <= high:
        raise ConfigError(
            f"{where} is {short(str(value))}; write a whole number from {low} to {high}"
        )
    return number


def load_json(text: str, where: str, *, human: bool = False) -> Any:
    """JSON from a flag, or a ConfigError that names the usual quoting mistakes."""
    if human:
        # vLLM expands 8k and 8K in this JSON, outside quoted strings.
        parts = re.split(r'("(?:[^"\\]|\\.)*+(?:"|\\?$))', text)
        parts[::2] = [
            re.sub(
                r"\b\d+(?:\.\d+)?[kKmMgGtT]\b",
                lambda m: _expanded(m[0]),
                part,
            )
            for part in parts[::2]
        ]
        text = "".join(parts)
    try:
        return parse_json(text)
    except ReadError as error:
        if error.rule == "too_deep":
            raise ConfigError(f"{where} is nested too deeply for a setting") from None
        if error.rule == "conflict":
            raise ConfigError(f"{where}: {error}; vLLM would take the last") from None
        problem, at = str(error), error.at
        near = text[:24] if at is None else text[max(0, at - 12) : at + 12]
    remedy = "put the whole JSON in single quotes, with double quotes inside"
    if any(c in text for c in "“”„‘’"):
        remedy = "replace the typographic quotation marks by plain ones"
    elif re.match(r"\s*[{\[]\s*'", text):
        remedy = "JSON wants double quotes inside, single quotes around the whole"
    raise ConfigError(
        f"{where} is not valid JSON ({problem}, near {short(near)!r}); {remedy}"
    )


def _expanded(text: str) -> str:
    try:
        return str(human_int(text))
    except ValueError:
        return text


def size_list(value: Any, where: str) -> tuple[int, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ConfigError(f"{where} is {short(value)}; write a list of token counts")
    if len(value) > MAX_CAPTURE_SIZES:
        raise ConfigError(
            f"{where} has {len(value)} sizes; at most {MAX_CAPTURE_SIZES} are read"
        )
    for item in value:
        if isinstance(item, str) and re.search(r"[,\[\]]", item):
            raise ConfigError(
                f"{where} is {short(item)}; separate the sizes by blanks, as in "
                "--cudagraph-capture-sizes 1 2 4 8"
            )
    return tuple(integer([item], where, -MAX_INT) for item in value)


def graph_mode_name(value: Any, origin: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2:
        return CUDAGRAPH_MODES[value]
    mode = str(value).upper()
    if mode not in CUDAGRAPH_MODES:
        raise ConfigError(
            f"{origin}: cudagraph_mode is {short(value)}; choose one of "
            + ", ".join(CUDAGRAPH_MODES)
        )
    return mode


def compilation_mode(value: Any, origin: str, level: int) -> str:
    if value is None:
        return "VLLM_COMPILE" if level > 0 else "NONE"
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 3:
        return _COMPILATION_MODES[value]
    mode = str(value).upper()
    if mode not in _COMPILATION_MODES:
        raise ConfigError(
            f"{origin}: mode is {short(value)}; choose 0 to 3 or one of "
            + ", ".join(_COMPILATION_MODES)
        )
    return mode


# vllm/config/speculative.py: SpeculativeMethod. The names of single models' MTP heads
# all become "mtp".
_METHODS = (
    "ngram", "ngram_gpu", "draft_model", "suffix", "custom_class", "eagle", "eagle3",
    "extract_hidden_states", "mtp", "dflash", "dspark",
)  # fmt: skip
_MTP_HEADS = frozenset(
    f"{name}_mtp"
    for name in (
        "deepseek", "dots3_note", "mimo", "mimo_v2", "glm4_moe", "glm4_moe_lite",
        "glm_ocr", "ernie", "nemotron_h", "exaone_moe", "exaone4_5", "qwen3_next",
        "qwen4_exp", "qwen3_5", "longcat_flash", "bailing_hybrid_v3", "minimax_m3",
        "bailing_hybrid", "kimi_k3", "pangu_ultra_moe", "step3p5", "step5", "hy_v3",
        "hy_v4", "gemma4", "inkling", "glm5_next",
    )
)  # fmt: skip


def speculative_method(value: Any, where: str) -> str:
    """A drafting method of vLLM 0.33.0; every model's MTP head is "mtp"."""
    if isinstance(value, str):
        if value in _MTP_HEADS:
            return "mtp"
        if value in _METHODS:
            return value
    close = difflib.get_close_matches(str(value)[:60], _METHODS, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ConfigError(
        f"{where} is {short(value)}, which vLLM {VLLM_VERSION} does not have; {hint}"
        f"choose one of {', '.join(_METHODS)}"
    )


def guess_method(draft: str) -> str:
    name = draft.lower()
    for method in ("eagle3", "eagle", "dflash", "dspark"):
        if method in name:
            return method
    return "mtp" if "mtp" in name else "draft_model"


def both_set(name: str, flag: str, other: str) -> ConfigError:
    return ConfigError(
        f"{flag} and {other} both set {name}; vLLM refuses to start: keep one of them"
    )
