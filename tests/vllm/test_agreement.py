# SPDX-License-Identifier: Apache-2.0
"""Ranks that would capture different graphs stop start-up instead of hanging."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parent / "support"
PARTS = {"schedule": "aa", "capture sizes": "bb", "graph set": "cc"}


def run_ranks(folder: Path, parts: list[dict[str, str] | None]) -> list[str]:
    """Two real gloo processes, and what each printed."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    path = folder / "parts.json"
    path.write_text(json.dumps(parts))
    children = [
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "rank.py"), str(rank), port, str(path)],
            env={**os.environ, "SPECGRID_AGREE_TIMEOUT": "3"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(len(parts))
    ]
    return [child.communicate(timeout=120)[0].strip() for child in children]


def test_equal_ranks_agree(tmp_path: Path) -> None:
    assert run_ranks(tmp_path, [PARTS, PARTS]) == ["agreed", "agreed"]


def test_a_difference_names_the_part_and_the_ranks(tmp_path: Path) -> None:
    said = run_ranks(tmp_path, [PARTS, {**PARTS, "graph set": "dd"}])
    for text in said:
        assert "graph set differs (rank 0: cc; rank 1: dd)" in text
        assert "schedule" not in text.split("disagree")[1].split("differs")[0]


def test_a_silent_rank_is_named(tmp_path: Path) -> None:
    """specgrid is missing or switched off on one node."""
    said = run_ranks(tmp_path, [PARTS, None])
    assert "not every rank announced" in said[0]
    assert "1" in said[0].split("all of them:")[1]


def test_a_part_missing_on_one_rank_differs() -> None:
    from specgrid.vllm_plugin import _agreement

    assert _agreement.differences([{"a": "1"}, {"a": "1", "b": "2"}, {"a": "1"}]) == [
        "b differs (rank 0, 2: missing; rank 1: 2)"
    ]


def test_managers_of_equal_configurations_have_equal_parts(
    plugin: Any, sim: Any
) -> None:
    """And every kind of difference changes exactly its part."""
    from specgrid.vllm_plugin import _capture, _schedule_of, _settings

    rows = [[1, 8, 3], [9, 32, 0]]

    def parts(**changes: Any) -> dict[str, str]:
        arguments = {"max_num_seqs": 32, "num_spec": 3, "schedule": rows, **changes}
        config = sim.stub_config(**arguments)
        config._set_cudagraph_sizes()
        manager = sim.make_manager(config)
        settings = _settings.read(config)
        lookup = _schedule_of.lookup_of(config, settings)
        graphs = {
            mode.name: [[d.num_tokens, d.uniform_token_count] for d in descs]
            for mode, descs in manager._capture_descs.items()
        }
        return _capture.parts_of(config, settings, lookup, graphs)

    base = parts()
    assert parts() == base
    changed = {
        "policy": parts(settings={"policy": "vllm"}),
        "schedule": parts(schedule=[[1, 9, 3], [10, 32, 0]]),
        "capture sizes": parts(sizes=[4, 8, 32]),
    }
    for name, other in changed.items():
        follows = {"graph set", "capture sizes"}
        assert {k for k in base if base[k] != other[k]} <= {name, *follows}
        assert base[name] != other[name]


def test_capture_stops_when_ranks_disagree(
    plugin: Any, sim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one exception that reaches vLLM."""
    from specgrid.vllm_plugin import _agreement, _capture
    from specgrid.vllm_plugin._seam import StopStartupError

    def differ(*args: Any) -> None:
        raise StopStartupError("specgrid: ranks disagree")

    monkeypatch.setattr(_capture, "_agree", differ)
    config = sim.stub_config(max_num_seqs=8)
    config._set_cudagraph_sizes()
    manager = sim.make_manager(config)
    with pytest.raises(RuntimeError, match="ranks disagree"):
        manager.capture(None)
    assert _agreement is not None
