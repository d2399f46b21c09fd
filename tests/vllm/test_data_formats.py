# SPDX-License-Identifier: Apache-2.0
"""The readers against what the installed vLLM writes today.

The checked-in fixtures were made by vLLM 0.33.0; this makes them again with the
vLLM at hand and asks the readers for the same answers. A format that changes
shows here first.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from specgrid.io import read_log, read_metrics, read_requests, read_serve, read_sweep

DATA = Path(__file__).parents[1] / "data"
CHECKED_IN = DATA / "vllm-0.33.0"

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixtures, written by the installed vLLM."""
    pytest.importorskip("vllm")
    spec = importlib.util.spec_from_file_location("generate", DATA / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("made")
    module.HERE = folder
    for write in ("logs", "metrics", "serve", "requests"):
        getattr(module, f"write_{write}")()
    return folder


def test_log_lines_have_not_changed(made: Path) -> None:
    for name in ("server.log", "server-color.log", "server-json.log"):
        now, then = read_log(made / name), read_log(CHECKED_IN / name)
        assert now.report.num_damaged == 0
        assert now.steps == then.steps
        assert now.graphs == then.graphs
        assert [s.graph_bytes for s in now.startups] == [
            s.graph_bytes for s in then.startups
        ]
        assert now.sizes == then.sizes


def test_speculation_lines_and_counters_have_not_changed(made: Path) -> None:
    now, then = read_log(made / "server.log"), read_log(CHECKED_IN / "server.log")
    assert now.acceptance is not None
    assert then.acceptance is not None
    assert now.acceptance.accepted == then.acceptance.accepted
    for name in ("metrics-1.txt", "metrics-2.txt"):
        assert (
            read_metrics(made / name).accepted_per_pos
            == read_metrics(CHECKED_IN / name).accepted_per_pos
        )


def test_requests_and_serve_results_have_not_changed(made: Path) -> None:
    now, _ = read_requests(made / "requests.jsonl")
    then, _ = read_requests(CHECKED_IN / "requests.jsonl")
    assert (now.drafted, now.accepted) == (then.drafted, then.accepted)
    assert len(read_serve(made / "serve.jsonl")[0]) == 3
    assert len(read_sweep(made / "sweep")[0]) == 12
