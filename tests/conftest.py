# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the whole suite: both back ends by name, golden tables, profiles."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from specgrid import _backend

# A shell starts background jobs with Ctrl-C ignored, and programs inherit that: here
# the tests of Ctrl-C need it whichever way they were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile(
    "ci",
    deadline=None,
    max_examples=150,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("ci")


@pytest.fixture(params=["native", "reference"])
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Runs a test once on the native core and once on the reference."""
    with _backend.use(request.param) as module:
        yield module


def golden(name: str) -> list[dict[str, Any]]:
    """The cases of one golden table, in order."""
    with (GOLDEN / f"{name}.jsonl").open() as lines:
        return [json.loads(line) for line in lines]
