# SPDX-License-Identifier: Apache-2.0
"""Capture sizes in vLLM's configuration: idempotent, kept maxima, saved plans."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from specgrid import capture_sizes

EAGLE3 = [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]


def sizes(config: Any) -> tuple[list[int], int]:
    compilation = config.compilation_config
    return compilation.cudagraph_capture_sizes, compilation.max_cudagraph_capture_size


@pytest.mark.parametrize("settings", [{}, {"policy": "vllm"}, {"rule": "keep-max"}])
def test_the_engine_core_resolves_again_and_nothing_changes(
    plugin: Any, sim: Any, model: str, settings: dict[str, str]
) -> None:
    """It repeats __post_init__ after the handshake, on a pickled configuration."""
    config = sim.make_config(
        model,
        max_num_seqs=256,
        speculative_config=sim.ngram(5, EAGLE3),
        additional_config={"specgrid": settings},
    )
    first = copy.deepcopy(sizes(config))
    again = pickle.loads(pickle.dumps(config))
    again.__post_init__()
    assert sizes(again) == first
    assert again.additional_config == config.additional_config


def test_a_second_resolution_keeps_a_2d_schedule(
    plugin: Any, sim: Any, model: str
) -> None:
    rows = [
        [1, 8, 1, 99, 1],
        [1, 8, 100, 999, 4],
        [9, 32, 1, 99, 0],
        [9, 32, 100, 999, 2],
    ]
    config = sim.make_config(
        model,
        speculative_config=sim.ngram(4),
        additional_config={"specgrid": {"schedule": rows}},
    )
    first = copy.deepcopy(sizes(config))
    shadow = list(config.speculative_config.num_speculative_tokens_per_batch_size)
    again = pickle.loads(pickle.dumps(config))
    again.__post_init__()
    assert sizes(again) == first
    assert again.speculative_config.num_speculative_tokens_per_batch_size == shadow


def test_2d_sizes_span_every_column(plugin: Any, sim: Any) -> None:
    rows = [
        [1, 8, 1, 99, 1],
        [1, 8, 100, 999, 4],
        [9, 30, 1, 99, 0],
        [9, 30, 100, 999, 2],
    ]
    config = sim.stub_config(
        max_num_seqs=30, num_spec=4, schedule=[[1, 30, 4]], settings={"schedule": rows}
    )
    config._set_cudagraph_sizes()
    found, top = sizes(config)
    assert found == capture_sizes(30, 4, rows).sizes
    assert {5 * 8, 3 * 30, 2 * 8, 30} <= set(found)
    assert top == found[-1]


@pytest.mark.parametrize(
    ("max_num_seqs", "num_spec", "maximum"),
    [(6, 6, 42), (257, 0, 257), (300, 0, 300), (33, 16, 561)],
)
def test_keep_max_honours_the_maximum(
    plugin: Any,
    sim: Any,
    log: list[str],
    max_num_seqs: int,
    num_spec: int,
    maximum: int,
) -> None:
    """vLLM #54933, #37865: 42 became 40 and six-way decoding ran without a graph."""
    for rule, expected in (("vllm-0.33", False), ("keep-max", True)):
        config = sim.stub_config(
            max_num_seqs=max_num_seqs,
            num_spec=num_spec,
            max_size=maximum,
            settings={"rule": rule},
        )
        config._set_cudagraph_sizes()
        found, top = sizes(config)
        assert (top == maximum and found[-1] == maximum) is expected
        manager = sim.make_manager(config)
        query_len = 1 + num_spec
        if max_num_seqs * query_len <= maximum and expected:
            served = manager.dispatch(
                max_num_seqs, max_num_seqs * query_len, query_len, 0
            )
            assert served.cg_mode.name == "FULL"


def test_an_explicit_list_is_left_alone(plugin: Any, sim: Any) -> None:
    for rule in ("vllm-0.33", "keep-max"):
        config = sim.stub_config(
            max_num_seqs=64, num_spec=3, sizes=[4, 8, 100], settings={"rule": rule}
        )
        config._set_cudagraph_sizes()
        assert sizes(config) == ([4, 8, 100], 100)


def test_no_graphs_means_no_sizes(plugin: Any, sim: Any, model: str) -> None:
    config = sim.make_config(model, enforce_eager=True)
    assert sizes(config) == ([], 0)


def test_a_misspelt_setting_is_named_and_the_default_holds(
    plugin: Any, sim: Any, log: list[str]
) -> None:
    config = sim.stub_config(
        max_num_seqs=8, settings={"policy": "fastest", "rules": "keep-max"}
    )
    config._set_cudagraph_sizes()
    assert sizes(config)[0] == capture_sizes(8).sizes
    assert any("policy='fastest'" in line for line in log)
    assert any('no key "rules"' in line for line in log)


def test_environment_reaches_the_configuration(
    plugin: Any, sim: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers on other machines see the configuration, not this environment."""
    monkeypatch.setenv("SPECGRID_POLICY", "vllm")
    config = sim.make_config(model)
    assert config.additional_config["specgrid"] == {"policy": "vllm"}
    monkeypatch.delenv("SPECGRID_POLICY")
    from specgrid.vllm_plugin import _settings

    assert _settings.read(pickle.loads(pickle.dumps(config))).policy == "vllm"


def test_shadow_mode_keeps_vllms_answers_and_names_a_difference(
    plugin: Any, sim: Any, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specgrid.vllm_plugin import _graphs, _sizes

    config = sim.stub_config(
        max_num_seqs=64, num_spec=5, schedule=EAGLE3, settings={"shadow": True}
    )
    config._set_cudagraph_sizes()
    manager = sim.make_manager(config)
    assert not [line for line in log if "shadow" in line]
    monkeypatch.setattr(_sizes, "_compute", lambda *a: [1, 2, 3])
    monkeypatch.setattr(_graphs, "objects", lambda table: ({}, {}))
    again = sim.stub_config(
        max_num_seqs=64, num_spec=5, schedule=EAGLE3, settings={"shadow": True}
    )
    again._set_cudagraph_sizes()
    assert sizes(again) == sizes(config)
    other = sim.make_manager(again)
    assert other._candidates == manager._candidates
    assert [line.split(":")[2].split()[0] for line in log if "shadow" in line] == [
        "capture",
        "captured",
    ]
