# SPDX-License-Identifier: Apache-2.0
"""What the user asked for: `--additional-config '{"specgrid": {...}}'`, environment.

The configuration object travels to every process of a vLLM server; environment
variables do not always (Ray copies only known prefixes). So the first process that
sees a configuration writes what the environment said into it, and all others read it
there. A setting that cannot be used is named in one warning and the default holds:
a typing mistake never stops a server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from specgrid._plugin_settings import AGGREGATES, CHOICES, KEYS, POLICIES, RULES

from . import _log

KEY: Final = "specgrid"

_ENVIRONMENT: Final = {"policy": "SPECGRID_POLICY", "rule": "SPECGRID_RULE"}


@dataclass(frozen=True)
class Settings:
    """Resolved settings of one vLLM configuration.

    Attributes:
        policy: "reachable" (only graphs the schedule can replay, one ladder a query
            length), "per-query-length" (vLLM's graphs, one ladder a query length) or
            "vllm" (vLLM's own tables, built faster).
        rule: "vllm-0.33", or "keep-max" to honour an explicit maximum.
        schedule: 2-D or ragged rows, or None for vLLM's own schedule.
        context_aggregate: How the contexts of a batch become one number.
        plan: Path of a saved plan, or None.
        plan_data: The plan's content once the front end has read it.
        shadow: Compute beside vLLM, compare, and use vLLM's answers.
        counters: Count steps for Prometheus and `specgrid doctor`.
    """

    policy: str = "reachable"
    rule: str = "vllm-0.33"
    schedule: tuple[tuple[int, ...], ...] | None = None
    context_aggregate: str = "mean"
    plan: str | None = None
    plan_data: Mapping[str, Any] | None = None
    shadow: bool = False
    counters: bool = True


def disabled() -> bool:
    """Whether SPECGRID_DISABLE switches everything off."""
    return truth(os.environ.get("SPECGRID_DISABLE"))


def shadow() -> bool:
    """Whether SPECGRID_SHADOW asks for comparison only."""
    return truth(os.environ.get("SPECGRID_SHADOW"))


def truth(text: str | None) -> bool:
    """Read an environment switch: unset, empty, 0, false, no and off are no."""
    return (text or "").strip().lower() not in ("", "0", "false", "no", "off")


def read(vllm_config: Any) -> Settings:
    """Settings of a vLLM configuration, the environment where it is silent.

    Args:
        vllm_config: A VllmConfig, or anything with its `additional_config`.

    Returns:
        The settings in force; unusable values are warned about once and replaced.
    """
    given = _section(vllm_config)
    values: dict[str, Any] = {}
    for key, variable in _ENVIRONMENT.items():
        if key not in given and os.environ.get(variable):
            values[key] = os.environ[variable]
    values |= given
    result = Settings(
        policy=_choice("policy", values, POLICIES, Settings.policy),
        rule=_choice("rule", values, RULES, Settings.rule),
        context_aggregate=_choice(
            "context_aggregate", values, AGGREGATES, Settings.context_aggregate
        ),
        schedule=_rows(values.get("schedule")),
        plan=_text("plan", values),
        plan_data=values.get("plan_data"),
        shadow=_switch("shadow", values, shadow()),
        counters=_switch("counters", values, Settings.counters),
    )
    for key in values:
        if key not in _KNOWN:
            _once(
                'additional_config["specgrid"] has no key "%.60s"; known keys: %s',
                key,
                ", ".join(sorted(_KNOWN - {"plan_data"})),
            )
    return replace(result, policy="vllm") if result.shadow else result


def record(vllm_config: Any, **values: Any) -> None:
    """Write values into the configuration, for the processes it will travel to.

    Args:
        vllm_config: A VllmConfig whose `additional_config` is a dict.
        **values: JSON values for keys of this plug-in.
    """
    config = getattr(vllm_config, "additional_config", None)
    if not isinstance(config, dict):
        return
    section = config.get(KEY)
    config[KEY] = {**(section if isinstance(section, dict) else {}), **values}


def record_environment(vllm_config: Any) -> None:
    """Fix what the environment says, so that all processes read the same."""
    given = _section(vllm_config)
    found = {
        key: os.environ[variable]
        for key, variable in _ENVIRONMENT.items()
        if key not in given and os.environ.get(variable) in CHOICES[key]
    }
    if shadow() and "shadow" not in given:
        found["shadow"] = True  # type: ignore[assignment]
    if found:
        record(vllm_config, **found)


_KNOWN: Final = frozenset({*KEYS, "plan_data"})


def _section(vllm_config: Any) -> dict[str, Any]:
    config = getattr(vllm_config, "additional_config", None)
    if not isinstance(config, Mapping) or KEY not in config:
        return {}
    section = config[KEY]
    if isinstance(section, Mapping):
        return dict(section)
    _once(
        'additional_config["specgrid"] must be an object such as '
        '{"policy": "reachable"}; %.100r is ignored',
        section,
    )
    return {}


def _choice(
    key: str, values: Mapping[str, Any], allowed: tuple[str, ...], default: str
) -> str:
    value = values.get(key, default)
    if value in allowed:
        return str(value)
    _once(
        '%s=%.100r is not known; write one of %s; "%s" is used',
        key,
        value,
        ", ".join(allowed),
        default,
    )
    return default


def _switch(key: str, values: Mapping[str, Any], default: bool) -> bool:
    value = values.get(key)
    if value is None or isinstance(value, bool):
        return default if value is None else value
    _once(
        "%s must be true or false; %.100r is ignored and %s is used",
        key,
        value,
        str(default).lower(),
    )
    return default


def _text(key: str, values: Mapping[str, Any]) -> str | None:
    value = values.get(key)
    if value is None or isinstance(value, str):
        return value
    _once("%s must be a path in quotes; %.100r is ignored", key, value)
    return None


def _rows(value: Any) -> tuple[tuple[int, ...], ...] | None:
    if value is None:
        return None
    if isinstance(value, list | tuple) and all(
        isinstance(row, list | tuple) for row in value
    ):
        return tuple(tuple(row) for row in value)
    _once(
        "schedule must be a list of [batch_lo, batch_hi, k] or "
        "[batch_lo, batch_hi, context_lo, context_hi, k] rows; %.100r is ignored",
        value,
    )
    return None


def _once(message: str, *args: object) -> None:
    _log.once(logging.WARNING, message, *args)
