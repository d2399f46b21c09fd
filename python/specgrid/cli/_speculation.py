# SPDX-License-Identifier: Apache-2.0
"""The user's own speculative config, to print it back with what was chosen."""

from __future__ import annotations

from typing import Any

import click

from specgrid.io._values import load_json
from specgrid.io.vllm_command import (
    RawSettings,
    parse_command,
    parse_text,
    read_config_file,
)
from specgrid.io.vllm_config import ServeConfig

_SCHEDULE_KEYS = ("num_speculative_tokens_per_batch_size", "speculative_token_schedule")


def raw_settings() -> RawSettings:
    """What the user wrote, for settings that do not decide graphs."""
    context = click.get_current_context()
    words = context.params.get("words") or ()
    file = context.meta.get("specgrid.file")
    text = context.meta.get("specgrid.text")
    raw = RawSettings()
    if text is not None:
        raw = parse_text(text, "standard input")
    elif file is not None:
        raw = read_config_file(file)
    for part in (context.meta["specgrid.pasted"], list(words)):
        if part:
            raw.update(parse_command(part))
    return raw


def speculative_config(
    config: ServeConfig, raw: RawSettings, chosen: dict[str, Any]
) -> dict[str, Any]:
    """The user's method, drafter and other settings, with ours laid over them."""
    given = raw.values.get("speculative_config")
    value = {} if given is None else given.value
    if isinstance(value, str):
        value = load_json(value, "--speculative-config")
    settings = {
        str(name).replace("-", "_"): item for name, item in dict(value or {}).items()
    }
    for name in _SCHEDULE_KEYS:
        settings.pop(name, None)
    if "spec_method" in raw.values and config.speculative_method:
        # A method that was only assumed is vLLM's to read from the drafter.
        settings.setdefault("method", config.speculative_method)
    drafter = raw.values.get("spec_model")
    if drafter is not None:
        settings.setdefault("model", drafter.value)
    return {**settings, **chosen}
