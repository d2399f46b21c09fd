# SPDX-License-Identifier: Apache-2.0
"""Seams: settings into the configuration, and 2-D rows out of vLLM's field.

vLLM types its schedule field as triples, so 5-item rows would be refused before anyone
could use them. They are moved to our setting while the field is still the plain dict
the user wrote.
"""

from __future__ import annotations

from typing import Any

from . import _log, _plan, _schedule_of, _settings
from ._seam import Seam


def _resolve(vllm_config: Any) -> None:
    _log.flush()
    _settings.record_environment(vllm_config)
    _schedule_of.install(vllm_config)
    _plan.load(vllm_config)


def _move_rows(engine_args: Any, *_: Any, **__: Any) -> None:
    given = engine_args.speculative_config
    if not isinstance(given, dict):
        return
    keys = [k for k in given if k.replace("-", "_") == _schedule_of.FIELD]
    if len(keys) != 1:
        return
    rows = given[keys[0]]
    if not isinstance(rows, list | tuple) or not all(
        isinstance(row, list | tuple) and len(row) in (3, 5) for row in rows
    ):
        return
    if all(len(row) == 3 for row in rows):
        return
    additional = engine_args.additional_config
    if additional is None:
        additional = {}
    if not isinstance(additional, dict):
        return
    section = additional.get(_settings.KEY) or {}
    if not isinstance(section, dict) or section.get("schedule") is not None:
        return
    engine_args.speculative_config = {k: v for k, v in given.items() if k != keys[0]}
    engine_args.additional_config = {
        **additional,
        _settings.KEY: {**section, "schedule": [list(row) for row in rows]},
    }


RESOLVE = Seam(
    "config",
    "vllm.config.vllm",
    "VllmConfig.__post_init__",
    (),
    "settings, 2-D schedule and plan into the configuration",
    before=_resolve,
)

ROWS = Seam(
    "rows",
    "vllm.engine.arg_utils",
    "EngineArgs.create_speculative_config",
    ("target_model_config", "target_parallel_config"),
    "5-item rows accepted in num_speculative_tokens_per_batch_size",
    before=_move_rows,
)
