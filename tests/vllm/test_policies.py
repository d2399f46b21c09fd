# SPDX-License-Identifier: Apache-2.0
"""What the default policy makes of real managers: fewer graphs, more of them used."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from cases import calls, config_of, rows

from specgrid import Schedule

EAGLE3 = [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]
"""The schedule of vLLM's documentation for Eagle3."""

TWO_D = [
    [1, 32, 1, 2000, 1],
    [1, 32, 2001, 9000, 5],
    [33, 300, 1, 2000, 0],
    [33, 300, 2001, 9000, 3],
]


def full(manager: Any) -> list[Any]:
    return next((d for m, d in manager._capture_descs.items() if m.name == "FULL"), [])


def decode(manager: Any, batch: int, query_len: int, loras: int = 0) -> Any:
    return manager.dispatch(
        batch, batch * query_len, query_len, loras, max_query_len=query_len
    )


def drafter(name: str) -> Any:
    module = {
        "SpeculatorCudaGraphManager": "target_dependent_ar.cudagraph_utils",
        "DFlashCudaGraphManager": "dflash.cudagraph",
    }[name]
    return getattr(
        importlib.import_module(f"vllm.v1.worker.gpu.spec_decode.{module}"), name
    )


def test_eagle3_needs_71_graphs_and_runs_every_batch_on_one(
    plugin: Any, sim: Any, model: str
) -> None:
    """vLLM #56136: 242 graphs and 86 batches without one."""
    config = sim.make_config(
        model, max_num_seqs=256, speculative_config=sim.ngram(5, EAGLE3)
    )
    manager = sim.make_manager(config)
    assert len(full(manager)) <= 71
    lookup = Schedule(EAGLE3).lookup(256, 5)
    served = [decode(manager, b, 1 + lookup[b]).cg_mode.name for b in range(1, 257)]
    assert served == ["FULL"] * 256


def test_eagle3_without_the_policy_is_what_vllm_does(
    plugin: Any, sim: Any, model: str
) -> None:
    config = sim.make_config(
        model,
        max_num_seqs=256,
        speculative_config=sim.ngram(5, EAGLE3),
        additional_config={"specgrid": {"policy": "vllm"}},
    )
    manager = sim.make_manager(config)
    lookup = Schedule(EAGLE3).lookup(256, 5)
    missed = [
        b
        for b in range(1, 257)
        if decode(manager, b, 1 + lookup[b]).cg_mode.name != "FULL"
    ]
    assert (len(full(manager)), len(missed)) == (242, 86)


def test_one_line_says_what_changed(
    plugin: Any, sim: Any, log: list[str], model: str
) -> None:
    from specgrid.vllm_plugin import _graphs

    _graphs._announced.clear()
    config = sim.make_config(
        model, max_num_seqs=256, speculative_config=sim.ngram(5, EAGLE3)
    )
    for _ in range(2):  # vLLM builds every manager twice
        sim.make_manager(config)
    lines = [line for line in log if "FULL graphs" in line]
    assert lines == [
        "INFO specgrid: 71 FULL graphs instead of 242; 256 of 256 decode batches "
        "run on one, instead of 170"
    ]


def test_reachable_never_serves_less_with_never_more_graphs(
    plugin: Any, sim: Any
) -> None:
    for row in rows("graphs_v2_ceil512")[::2]:
        if "error" in row or row["cudagraph_mode"] in ("NONE", "PIECEWISE"):
            continue
        managers = []
        for policy in ("vllm", "reachable"):
            config = config_of(sim, row, {"policy": policy})
            config._set_cudagraph_sizes()
            managers.append(
                sim.make_manager(
                    config, mode=row["cudagraph_mode"], lora_cases=row["lora_cases"]
                )
            )
        vllm, ours = managers
        assert len(full(ours)) <= len(full(vllm))
        assert [d for m, d in vllm._capture_descs.items() if m.name == "PIECEWISE"] == [
            d for m, d in ours._capture_descs.items() if m.name == "PIECEWISE"
        ]
        lookup = None
        if row["schedule"]:
            lookup = Schedule(row["schedule"]).lookup(
                row["max_num_seqs"], row["num_speculative_tokens"]
            )
        loras = row["lora_cases"][0]
        for batch in range(1, row["max_num_seqs"] + 1):
            k = row["num_speculative_tokens"] if lookup is None else lookup[batch]
            before = decode(vllm, batch, 1 + k, loras)
            after = decode(ours, batch, 1 + k, loras)
            if before.cg_mode.name == "FULL":
                assert after.cg_mode.name == "FULL"
                assert after.num_tokens <= before.num_tokens


def test_lora_cases_each_have_their_graphs(plugin: Any, sim: Any) -> None:
    config = sim.stub_config(max_num_seqs=64, num_spec=5, schedule=EAGLE3)
    config._set_cudagraph_sizes()
    one = sim.make_manager(config)
    many = sim.make_manager(config, lora_cases=[0, 1, 2, 4, 5])
    assert len(full(many)) == 5 * len(full(one))
    for active, case in ((0, 0), (1, 1), (3, 4), (9, 5)):
        assert decode(many, 40, 4, active).num_active_loras == case


def test_2d_schedule_has_a_graph_for_every_batch_and_context(
    plugin: Any, sim: Any, model: str
) -> None:
    """vLLM #48944: planning one column alone leaves the others without graphs."""
    config = sim.make_config(
        model,
        max_num_seqs=128,
        speculative_config=sim.ngram(5),
        additional_config={"specgrid": {"schedule": TWO_D}},
    )
    manager = sim.make_manager(config)
    lookup = Schedule(TWO_D).lookup(128, 5)
    for batch in range(1, 129):
        for context in (100, 5000):
            query_len = 1 + lookup[batch, context]
            assert decode(manager, batch, query_len).cg_mode.name == "FULL"
    # Nothing is captured that no cell asks for.
    assert {d.uniform_token_count for d in full(manager)} == {1, 2, 4, 6}


def test_draft_prefill_finds_a_graph_wherever_the_target_did(
    plugin: Any, sim: Any
) -> None:
    """It runs at the target's padded width with the unpadded request count."""
    config = sim.stub_config(max_num_seqs=256, num_spec=5, schedule=EAGLE3)
    config._set_cudagraph_sizes()
    target = sim.make_manager(config)
    prefill = sim.make_manager(config, cls=drafter("SpeculatorCudaGraphManager"))
    lookup = Schedule(EAGLE3).lookup(256, 5)
    for batch in range(1, 257):
        query_len = 1 + lookup[batch]
        padded = decode(target, batch, query_len).num_tokens
        assert prefill.dispatch(batch, padded, query_len, 0).cg_mode.name == "FULL"


def test_draft_decode_keeps_only_batches_that_draft_two_tokens(
    plugin: Any, sim: Any
) -> None:
    config = sim.stub_config(max_num_seqs=256, num_spec=5, schedule=EAGLE3)
    config._set_cudagraph_sizes()
    manager = sim.make_manager(
        config,
        query_len=1,
        mode="FULL_DECODE_ONLY",
        cls=drafter("SpeculatorCudaGraphManager"),
    )
    assert max(d.num_reqs for d in full(manager)) == 64
    assert all(decode(manager, b, 1).cg_mode.name == "FULL" for b in range(1, 65))


def test_draft_graphs_are_captured_for_pairs_that_can_occur(
    plugin: Any, sim: Any
) -> None:
    """vLLM captures every graph for every K, here 5 x 3 and more."""
    from specgrid.vllm_plugin import _capture, _graphs

    runs = _graphs.diagonal_of(Schedule(EAGLE3).lookup(256, 5))
    assert _capture.reachable_pairs([1, 8, 16, 24, 64], runs) == [
        (64, [4, 3]),
        (24, [4]),
        (16, [5]),
        (8, [5]),
        (1, [5]),
    ]


@pytest.mark.parametrize("policy", ["reachable", "vllm"])
def test_draft_capture_through_vllms_own_method(
    plugin: Any, sim: Any, policy: str
) -> None:
    """The pairs reach vLLM's capture loop as its own descriptors."""
    from vllm.v1.worker.gpu import cudagraph_utils

    config = sim.stub_config(
        max_num_seqs=256, num_spec=5, schedule=EAGLE3, settings={"policy": policy}
    )
    config._set_cudagraph_sizes()
    cls = drafter("SpeculatorCudaGraphManager")
    manager = sim.make_manager(config, query_len=1, mode="FULL_DECODE_ONLY", cls=cls)
    batches = {d.num_reqs for d in full(manager)}
    seam = next(s for s in plugin.SEAMS if s.name == "capture")
    caught: list[Any] = []
    wrapper = cudagraph_utils.CudaGraphManager.capture

    def no_device(self: Any, *args: Any, **kwargs: Any) -> None:
        seam.before(self, *args, **kwargs)
        caught.append(self._capture_descs)

    cudagraph_utils.CudaGraphManager.capture = no_device
    try:
        manager.capture(None, None, None, None, None, None, specialize_spec_tokens=True)
    finally:
        cudagraph_utils.CudaGraphManager.capture = wrapper
    pairs = {
        (d.num_reqs, d.num_speculative_tokens)
        for descs in caught[0].values()
        for d in descs
    }
    if policy == "vllm":
        assert pairs == {(n, k) for n in batches for k in (5, 4, 3)}
        return
    lookup = Schedule(EAGLE3).lookup(256, 5)
    needed = set()
    for batch in range(1, 257):
        if lookup[batch] > 1:
            needed.add((decode(manager, batch, 1).num_reqs, lookup[batch]))
    assert pairs == needed


def test_parallel_drafter_has_one_ladder_at_its_own_width(
    plugin: Any, sim: Any
) -> None:
    """DFlash drafts all tokens in one step of fixed width, whatever K is."""
    config = sim.stub_config(max_num_seqs=64, num_spec=5, schedule=EAGLE3)
    config._set_cudagraph_sizes()
    manager = sim.make_manager(
        config,
        query_len=6,
        mode="FULL_DECODE_ONLY",
        cls=drafter("DFlashCudaGraphManager"),
    )
    assert {d.uniform_token_count for d in full(manager)} == {6}
    assert all(decode(manager, b, 6).cg_mode.name == "FULL" for b in range(1, 65))


def test_what_vllm_refuses_it_still_refuses_itself(plugin: Any, sim: Any) -> None:
    config = sim.stub_config(max_num_seqs=32, num_spec=4, schedule=[[2, 8, 4]])
    config._set_cudagraph_sizes()
    with pytest.raises(ValueError, match="must start at 1"):
        sim.make_manager(config)


def test_micro_batches_are_left_to_vllm(plugin: Any, sim: Any) -> None:
    import torch
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    config = sim.stub_config(max_num_seqs=32)
    config.parallel_config.num_ubatches = 2
    config.parallel_config.use_ubatching = True
    config.parallel_config.dbo_decode_token_threshold = 8
    config.parallel_config.dbo_prefill_token_threshold = 8
    config._set_cudagraph_sizes()
    before = calls(plugin, "graphs")
    manager = CudaGraphManager(
        config,
        torch.device("cpu"),
        CUDAGraphMode.FULL_AND_PIECEWISE,
        1,
        ubatch_runner=object(),
    )
    assert calls(plugin, "graphs") == before
    assert any(d.num_ubatches == 2 for d in full(manager))


def test_varlen_decode_graphs_are_vllms(plugin: Any, sim: Any) -> None:
    import torch
    from vllm.config.compilation import CUDAGraphMode
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    config = sim.stub_config(max_num_seqs=32, num_spec=4)
    config._set_cudagraph_sizes()
    tables = []
    for undone in (False, True):
        if undone:
            plugin.undo()
        manager = CudaGraphManager(
            config,
            torch.device("cpu"),
            CUDAGraphMode.FULL_AND_PIECEWISE,
            5,
            varlen_decode=True,
        )
        tables.append((manager._capture_descs, manager._candidates))
    assert tables[0] == tables[1]
