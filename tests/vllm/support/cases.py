# SPDX-License-Identifier: Apache-2.0
"""Golden rows as vLLM configurations, and looking at the plug-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden"
PARITY = {"policy": "vllm"}


def rows(*names: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for name in names
        for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    ]


def config_of(sim: Any, row: dict[str, Any], settings: Any = PARITY) -> Any:
    return sim.stub_config(
        max_num_seqs=row["max_num_seqs"],
        num_spec=row["num_speculative_tokens"],
        schedule=row["schedule"],
        max_num_batched_tokens=row["max_num_batched_tokens"],
        sizes=row["cudagraph_capture_sizes"],
        max_size=row["max_cudagraph_capture_size"],
        performance_mode=row["performance_mode"],
        settings=settings,
    )


def active(plugin: Any, *names: str) -> None:
    seams = {seam.name: seam for seam in plugin.SEAMS}
    for name in names:
        assert (seams[name].state, seams[name].reason) == ("active", "")


def calls(plugin: Any, name: str) -> int:
    return next(seam.calls for seam in plugin.SEAMS if seam.name == name)
