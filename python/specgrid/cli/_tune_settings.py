# SPDX-License-Identifier: Apache-2.0
"""The vLLM settings a tuned schedule comes to, and what lint says of them.

Nothing is chosen and nothing is printed here.
"""

from __future__ import annotations

import json
from typing import Any

import click

from specgrid._errors import ConfigError
from specgrid._schedule import Schedule
from specgrid._tune import TunedSchedule
from specgrid._tune_captures import JointPlan
from specgrid.cli._speculation import raw_settings, speculative_config
from specgrid.cli.lint import SEVERITIES, lint
from specgrid.io.vllm_command import Given
from specgrid.io.vllm_config import ServeConfig, resolve

_ORIGIN = "the tuned settings"


def settings_of(
    config: ServeConfig, tuned: TunedSchedule, joint: JointPlan | None
) -> dict[str, Any]:
    """The flag of the schedule with its value, and all words to paste.

    With captures the schedule is the pair's, and its sizes are pasted beside it.
    """
    schedule = tuned.schedule if joint is None else joint.best.schedule
    most = tuned.num_speculative_tokens
    tiers = schedule.lookup(tuned.max_num_seqs, most).tiers()
    constant = len({tier.k for tier in tiers}) == 1 and tiers[0].k > 0
    flag = "--speculative-config"
    if schedule.is_2d and not constant:
        flag = "--additional-config"
        value: dict[str, Any] = {"specgrid": {"schedule": schedule.to_rows()}}
    else:
        chosen = _constant(tiers[0].k) if constant else _by_batch(schedule, most)
        value = speculative_config(config, raw_settings(), chosen)
    args = [flag, json.dumps(value)]
    if joint is not None and joint.plan is not None:
        args += joint.plan.vllm_args()
    return {"flag": flag, "value": value, "args": args}


def _constant(k: int) -> dict[str, Any]:
    """One draft length for every batch: vLLM does more without a schedule."""
    return {"num_speculative_tokens": k}


def _by_batch(schedule: Schedule, most: int) -> dict[str, Any]:
    return {
        "num_speculative_tokens": most,
        "num_speculative_tokens_per_batch_size": schedule.to_rows(),
    }


def lint_of(settings: dict[str, Any]) -> list[dict[str, str]]:
    """What ``specgrid lint`` says of the user's server with the settings laid over."""
    raw = raw_settings()
    name = settings["flag"][2:].replace("-", "_")
    replaced = ["schedule"]
    if name == "speculative_config":
        replaced += ["spec_method", "spec_model", "spec_tokens"]
        replaced += ["num_speculative_tokens"]
    for setting in replaced:
        raw.values.pop(setting, None)
    raw.values[name] = Given(settings["value"], _ORIGIN)
    words = settings["args"][2:]
    if words[:1] == ["--cudagraph-capture-sizes"]:
        raw.values["cudagraph_capture_sizes"] = Given(
            [int(word) for word in words[1:]], _ORIGIN
        )
    device = click.get_current_context().meta.get("specgrid.device")
    try:
        found = lint(resolve(raw, device))
    except ConfigError as error:
        return [
            {
                "id": "refused",
                "severity": "error",
                "message": str(error),
                "fix": "change the setting named",
            }
        ]
    least = SEVERITIES.index("warning")
    return [
        {
            "id": finding.id,
            "severity": finding.severity,
            "message": finding.message,
            "fix": finding.fix,
        }
        for finding in found
        if SEVERITIES.index(finding.severity) >= least
    ]


__all__ = ["lint_of", "settings_of"]
