# SPDX-License-Identifier: Apache-2.0
"""vLLM's own functions and classes give their own answers with the plug-in in parity.

Every golden table came from vLLM 0.33.0. Here the same unbound functions run again,
with specgrid's seams under them, and must give every row back.
"""

from __future__ import annotations

from typing import Any

import pytest
from cases import active, calls, config_of, rows


def test_every_seam_fits_the_installed_vllm(plugin: Any, sim: Any) -> None:
    plugin.check_all()
    states = {s["seam"]: (s["state"], s["reason"]) for s in plugin.status()["seams"]}
    assert states == dict.fromkeys(states, ("active", ""))


def test_self_checks_take_under_100_ms_in_all(plugin: Any) -> None:
    # A generous multiple of the measured 10 ms: a hang is meant, not a slow day.
    plugin.check_all()
    assert sum(s["check_us"] for s in plugin.status()["seams"]) < 100_000


def test_lookup_gives_every_golden_schedule_back(plugin: Any) -> None:
    active(plugin, "lookup")
    from vllm.v1.spec_decode.dynamic import utils

    before = calls(plugin, "lookup")
    table = rows("schedule_1d")
    answered = 0
    for row in table:
        arguments = (
            row["schedule"],
            row["max_num_seqs"],
            row["num_speculative_tokens"],
        )
        if "dense_rle" in row:
            expected = [v for v, n in row["dense_rle"] for _ in range(n)]
            assert utils.build_dynamic_sd_schedule_lookup(*arguments) == expected
            answered += 1
        else:
            with pytest.raises(ValueError) as caught:
                utils.build_dynamic_sd_schedule_lookup(*arguments)
            assert "specgrid" not in str(caught.getrepr(style="native"))[-400:]
    assert calls(plugin, "lookup") - before == answered > 0


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("capture_sizes_ceil512", 9),
        ("capture_sizes_ceil1024", 10),
        ("capture_sizes_explicit", 9),
    ],
)
def test_sizes_give_every_golden_row_back(
    plugin: Any, sim: Any, name: str, major: int
) -> None:
    active(plugin, "sizes")
    with sim.capability(major):
        for row in rows(name):
            config = config_of(sim, row)
            if "error" in row:
                with pytest.raises((ValueError, AssertionError)) as caught:
                    config._set_cudagraph_sizes()
                assert type(caught.value).__name__ == row["error"]
                continue
            config._set_cudagraph_sizes()
            assert config.compilation_config.cudagraph_capture_sizes == row["sizes"]
            assert config.compilation_config.max_cudagraph_capture_size == row["max"]
    active(plugin, "sizes")


@pytest.mark.parametrize(
    ("name", "major"), [("graphs_v2_ceil512", 9), ("graphs_v2_ceil1024", 10)]
)
def test_manager_gives_every_golden_graph_back(
    plugin: Any, sim: Any, name: str, major: int
) -> None:
    active(plugin, "graphs")
    before = calls(plugin, "graphs")
    table = rows(name)
    refused = 0
    with sim.capability(major):
        for row in table:
            config = config_of(sim, row)
            config._set_cudagraph_sizes()
            if "error" in row:
                with pytest.raises(ValueError):
                    sim.make_manager(config, mode=row["cudagraph_mode"])
                refused += 1
                continue
            manager = sim.make_manager(
                config, mode=row["cudagraph_mode"], lora_cases=row["lora_cases"]
            )
            for reqs, tokens, query_len, loras, expected in row["dispatch"]:
                d = manager.dispatch(
                    reqs, tokens, query_len, loras, max_query_len=query_len
                )
                found = [
                    d.cg_mode.name,
                    d.num_tokens,
                    d.num_reqs,
                    d.uniform_token_count,
                    d.num_active_loras,
                ]
                assert found == expected
            captured = {
                mode.name: [
                    [
                        d.num_tokens,
                        d.num_reqs,
                        d.uniform_token_count,
                        d.num_active_loras,
                    ]
                    for d in descs
                ]
                for mode, descs in manager._capture_descs.items()
            }
            assert captured == row["descriptors"]
    handled = [row for row in table if row.get("sizes")]
    assert calls(plugin, "graphs") - before == len(handled) - refused


def test_manager_tables_equal_vllms_object_for_object(plugin: Any, sim: Any) -> None:
    """Candidates too, which the golden tables hold only through dispatch."""
    original = next(s for s in plugin.SEAMS if s.name == "graphs").original
    for row in rows("graphs_v2_ceil512")[::3]:
        if "error" in row:
            continue
        config = config_of(sim, row)
        config._set_cudagraph_sizes()
        manager = sim.make_manager(
            config, mode=row["cudagraph_mode"], lora_cases=row["lora_cases"]
        )
        ours = manager._capture_descs, manager._candidates
        manager._capture_descs, manager._candidates = {}, {}
        original(manager)
        assert ours == (manager._capture_descs, manager._candidates)


@pytest.mark.parametrize("policy", ["vllm", "reachable"])
def test_v1_dispatcher_gives_every_golden_row_back(
    plugin: Any, sim: Any, policy: str
) -> None:
    """The V1 runner has one table, whatever the policy."""
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher

    active(plugin, "v1-padding", "v1-keys")
    seen = 0
    for row in rows("sizes_v1_ceil512"):
        config = config_of(sim, row, {"policy": policy})
        config._set_cudagraph_sizes()
        compilation = config.compilation_config
        assert compilation.cudagraph_capture_sizes == row["sizes"]
        query_len = 1 + row["num_speculative_tokens"]
        mode = CUDAGraphMode[row["cudagraph_mode"]]
        if mode.decode_mode() == CUDAGraphMode.FULL and query_len > 1:
            compilation.adjust_cudagraph_sizes_for_spec_decode(query_len)
        assert compilation.cudagraph_capture_sizes == row["adjusted_sizes"]
        assert compilation.max_cudagraph_capture_size == row["adjusted_max"]
        tables = []
        for undone in (False, True):
            if undone:
                plugin.undo()
            dispatcher = object.__new__(CudagraphDispatcher)
            vars(dispatcher).update(
                vllm_config=config,
                compilation_config=compilation,
                uniform_decode_query_len=query_len,
                cudagraph_keys={
                    CUDAGraphMode.PIECEWISE: set(),
                    CUDAGraphMode.FULL: set(),
                },
                keys_initialized=False,
                specialize_lora_count=False,
                cudagraph_mode=CUDAGraphMode.NONE,
            )
            dispatcher.initialize_cudagraph_keys(mode, query_len)
            tables.append(
                (dispatcher.cudagraph_keys, dispatcher._bs_to_padded_graph_size)
            )
            if undone:
                plugin.register()
        assert tables[0] == tables[1]
        seen += 1
    assert seen > 10
