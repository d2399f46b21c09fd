# SPDX-License-Identifier: Apache-2.0
"""Graph sets, the V1 dispatcher and draft graphs equal vLLM's own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("needs vLLM", allow_module_level=True)

SCRIPT = Path(__file__).parent / "support" / "graph_sets_against_vllm.py"


@pytest.mark.parametrize(
    ("kind", "count", "least"),
    [("v2", 120, 20_000), ("v1", 150, 20_000), ("drafts", 150, 2_000)],
)
def test_random_settings_give_vllms_graphs_and_answers(
    kind: str, count: int, least: int
) -> None:
    # A process of its own: here the managers must be vLLM's, without the plug-in.
    run = subprocess.run(
        [sys.executable, str(SCRIPT), kind, "1", str(count)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert int(run.stdout.split()[-1]) > least


def test_the_real_scheduler_never_outruns_the_reachable_graphs(model: str) -> None:
    """K is chosen one step before it is verified, and requests come and go between."""
    run = subprocess.run(
        [
            sys.executable,
            str(SCRIPT.with_name("scheduler_walk.py")),
            model,
            "1",
            "600",
        ],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    uniform, shrunken, widened = map(int, run.stdout.split()[-3:])
    assert uniform > 500
    assert shrunken > 50
    assert widened > 0
