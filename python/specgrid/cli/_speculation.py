# SPDX-License-Identifier: Apache-2.0
"""The user's own speculative config, to print it back with what was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from specgrid.io._values import load_json
from specgrid.io.vllm_command import RawSettings
from specgrid.io.vllm_config import ServeConfig

_SCHEDULE_KEYS = ("num_speculative_tokens_per_batch_size", "speculative_token_schedule")


def raw_settings() -> RawSettings:
    """What the user wrote, for settings that do not decide graphs; a copy."""
    raw: RawSettings = click.get_current_context().meta["specgrid.raw"]
    return replace(raw, values=dict(raw.values))


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
