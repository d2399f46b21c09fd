# SPDX-License-Identifier: Apache-2.0
"""`GraphSet` and `DraftGraphs` against vLLM's own managers, on random settings.

    python graph_sets_against_vllm.py v2|v1|drafts SEED COUNT

Run in a process of its own, without the plug-in: the managers are vLLM's. Prints
the number of answers compared; a difference is an AssertionError.
"""

from __future__ import annotations

import os
import random
import sys
import types
from typing import Any

os.environ["SPECGRID_DISABLE"] = "1"
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0" if sys.argv[1] == "v1" else "1"

import vllm_sim

vllm_sim.install()
vllm_sim.single_rank()

import torch  # noqa: E402
from vllm.config.compilation import CUDAGraphMode  # noqa: E402
from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher  # noqa: E402
from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager  # noqa: E402
from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils import (  # noqa: E402
    SpeculatorCudaGraphManager,
)

from specgrid import ConfigError, DraftGraphs, GraphSet  # noqa: E402

MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
BOTH = (CUDAGraphMode.FULL, CUDAGraphMode.PIECEWISE)


def schedule_of(rnd: random.Random, max_num_seqs: int, k: int) -> list[list[int]]:
    cuts = rnd.sample(range(2, max_num_seqs + 2), min(rnd.randint(0, 3), max_num_seqs))
    starts = [1, *sorted(cuts)]
    ends = [*(start - 1 for start in starts[1:]), 512]
    return [
        [lo, hi, rnd.randint(0, k + 1)] for lo, hi in zip(starts, ends, strict=True)
    ]


def fields(d: Any) -> tuple[Any, ...]:
    """A V2 descriptor as the fields of a Graph."""
    return (
        d.cg_mode.name,
        d.num_tokens,
        d.num_reqs,
        d.uniform_token_count,
        d.num_active_loras,
        d.max_query_len,
        d.num_ubatches,
    )


def v2(rnd: random.Random) -> int:
    """Capture order, the whole candidate table, and dispatch."""
    k = rnd.choice([0, 1, 2, 3, 5, 7])
    max_num_seqs = rnd.choice([1, 3, 8, 16, 33, 64, 128])
    schedule = None
    if k and rnd.random() < 0.6:
        schedule = schedule_of(rnd, max_num_seqs, k)
    sizes = sorted(rnd.sample(range(1, 300), rnd.randint(1, 40)))
    mode = rnd.choice(MODES)
    loras = rnd.choice([[0], [0, 1, 2, 4, 5], [9], [0, 9], [1, 2, 3]])
    varlen = rnd.random() < 0.25
    ubatches, threshold = rnd.choice([1, 1, 2, 3]), rnd.choice([4, 32])
    within = rnd.random() < 0.2
    query_len = rnd.choice([None, None, 1, k + 2])
    config = vllm_sim.stub_config(
        max_num_seqs=max_num_seqs,
        num_spec=k,
        schedule=schedule,
        sizes=list(sizes),
        max_size=sizes[-1],
        mode=mode,
    )
    config.cache_config.use_kda_recoverssm = within
    parallel = config.parallel_config
    parallel.use_ubatching, parallel.num_ubatches = ubatches > 1, ubatches
    parallel.dbo_decode_token_threshold = threshold
    manager = CudaGraphManager(
        config,
        torch.device("cpu"),
        CUDAGraphMode[mode],
        query_len or k + 1,
        lora_capture_cases=loras,
        varlen_decode=varlen,
        ubatch_runner=types.SimpleNamespace() if ubatches > 1 else None,
    )
    manager._graphs_captured = True
    graphs = GraphSet(
        sizes,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=k,
        schedule=schedule,
        mode=mode,
        lora_cases=loras,
        decode_query_len=query_len,
        varlen_decode=varlen,
        num_ubatches=ubatches,
        ubatch_min_tokens=threshold,
        mixed_within_decode=within,
    )
    for m in BOTH:
        theirs = [fields(d) for d in manager._capture_descs.get(m, [])]
        assert theirs == list(map(tuple, graphs.graphs(m.name)))
    table = {
        (tokens, lora): [tuple(graphs.all_graphs[i]) for i in found]
        for lora, first, last, found in graphs.candidate_table()
        for tokens in range(first, last + 1)
    }
    assert table == {
        key: [fields(d) for d in found] for key, found in manager._candidates.items()
    }
    for _ in range(200):
        reqs = rnd.randint(1, max_num_seqs)
        q = rnd.choice([None, *range(1, k + 3)])
        tokens = reqs * q if q and rnd.random() < 0.8 else rnd.randint(0, 320)
        step = (reqs, tokens, q, rnd.randint(0, 11))
        longest, split = rnd.choice([None, 1, q, k + 1, k + 2]), rnd.choice([1, 1, 2])
        theirs = fields(manager.dispatch(*step, longest, split))
        ours = graphs.dispatch(*step, max_query_len=longest, num_ubatches=split)
        assert theirs == tuple(ours), (step, longest, split, theirs, ours)
    return 200 + len(table)


class Lora:
    def __init__(self, max_loras: int, specialize: bool) -> None:
        self.max_loras, self.specialize_active_lora = max_loras, specialize


def v1(rnd: random.Random) -> int:
    """Rounded sizes, keys in capture order, and dispatch."""
    k = rnd.choice([0, 1, 2, 3, 5, 7])
    max_num_seqs = rnd.choice([1, 3, 8, 16, 33, 64, 128])
    sizes = sorted(rnd.sample(range(1, 300), rnd.randint(1, 40)))
    if rnd.random() < 0.1:
        sizes = [rnd.randint(1, 4)]
    mode = rnd.choice(MODES[1:])
    config = vllm_sim.stub_config(
        max_num_seqs=max_num_seqs,
        num_spec=k,
        sizes=list(sizes),
        max_size=sizes[-1],
        mode=mode,
    )
    compilation = config.compilation_config
    refused = False
    if CUDAGraphMode[mode].decode_mode() == CUDAGraphMode.FULL and k > 0:
        try:
            compilation.adjust_cudagraph_sizes_for_spec_decode(k + 1)
        except ValueError:
            refused = True
    if refused:
        try:
            GraphSet(
                sizes,
                max_num_seqs=max_num_seqs,
                num_speculative_tokens=k,
                mode=mode,
                runner="v1",
            )
        except ConfigError:
            return 1
        raise AssertionError(f"vLLM refuses {sizes} at {k} drafts")
    max_loras = rnd.choice([0, 0, 4, 8])
    if max_loras:
        config.lora_config = Lora(max_loras, rnd.random() < 0.5)
        compilation.cudagraph_specialize_lora = rnd.random() < 0.7
    compilation.mode = 3
    compilation.splitting_ops = list(compilation._attention_ops)
    dispatcher = CudagraphDispatcher(config)
    dispatcher.initialize_cudagraph_keys(CUDAGraphMode[mode], k + 1)
    graphs = GraphSet(
        sizes,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=k,
        mode=mode,
        lora_cases=dispatcher._get_lora_cases(),
        runner="v1",
    )

    assert graphs.padding_table().tolist() == dispatcher._bs_to_padded_graph_size

    def plain(m: Any, d: Any) -> tuple[Any, ...]:
        q = k + 1 if d.uniform else None
        return m.name, d.num_tokens, d.num_reqs, q, d.num_active_loras

    captured = dict(dispatcher.get_capture_descs())
    for m in BOTH:
        theirs = [plain(m, d) for d in captured.get(m, [])]
        assert theirs == [graph[:5] for graph in graphs.graphs(m.name)]
    for _ in range(200):
        uniform = rnd.random() < 0.6
        reqs = rnd.randint(1, max_num_seqs)
        tokens = reqs * (k + 1) if uniform else rnd.randint(reqs, 320)
        active = rnd.randint(0, max_loras + 1 if max_loras else 0)
        m, d = dispatcher.dispatch(
            tokens,
            uniform_decode=uniform,
            has_lora=active > 0,
            num_active_loras=active,
        )
        ours = graphs.dispatch(reqs, tokens, k + 1 if uniform else None, active)
        if m == CUDAGraphMode.NONE:
            assert ours.mode == "NONE"
        else:
            assert plain(m, d) == ours[:5]
    return 200


def drafts(rnd: random.Random) -> int:
    """The drafter's two managers, up to the point where capture would begin."""
    k = rnd.choice([2, 3, 5, 7])
    max_num_seqs = rnd.choice([1, 3, 8, 16, 33, 64])
    schedule = schedule_of(rnd, max_num_seqs, k) if rnd.random() < 0.7 else None
    sizes = sorted(rnd.sample(range(1, 200), rnd.randint(1, 30)))
    mode = rnd.choice(MODES[1:])
    fused = rnd.random() < 0.7
    config = vllm_sim.stub_config(
        max_num_seqs=max_num_seqs,
        num_spec=k,
        schedule=schedule,
        sizes=list(sizes),
        max_size=sizes[-1],
        mode=mode,
    )
    graphs = DraftGraphs(
        sizes,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=k,
        schedule=schedule,
        mode=mode,
        fused_decode=fused,
    )
    resolved = CUDAGraphMode[mode]
    device = torch.device("cpu")
    prefill = SpeculatorCudaGraphManager(config, device, resolved, k + 1)
    for m in BOTH:
        theirs = [fields(d) for d in prefill._capture_descs.get(m, [])]
        assert theirs == list(map(tuple, graphs.prefill.graphs(m.name)))
    full = resolved.decode_mode() == CUDAGraphMode.FULL
    decode = SpeculatorCudaGraphManager(
        config,
        device,
        CUDAGraphMode.FULL_DECODE_ONLY if full else CUDAGraphMode.NONE,
        decode_query_len=1,
    )
    captured: list[Any] = []
    CudaGraphManager.capture = lambda manager, *_: captured.extend(
        d for descs in manager._capture_descs.values() for d in descs
    )
    decode.capture(
        None,
        None,
        None,
        None,
        [],
        None,
        specialize_spec_tokens=fused and schedule is not None,
    )
    assert [
        (d.num_tokens, d.num_reqs, getattr(d, "num_speculative_tokens", None))
        for d in captured
    ] == [graph[:3] for graph in graphs.decode]
    decode.graphs = dict.fromkeys(captured)
    decode._graphs_captured = True
    ks = {k} if schedule is None else set(range(k + 1))
    for reqs in range(1, max_num_seqs + 1):
        for drafted in ks - {0, 1}:
            desc = decode.dispatch(reqs, reqs, 1, 0)
            desc = decode.specialize_spec_tokens(desc, drafted)
            found = graphs.dispatch_decode(reqs, drafted)
            if desc.cg_mode == CUDAGraphMode.NONE:
                assert found is None
            else:
                assert found is not None
                assert (found.num_tokens, found.num_reqs) == (
                    desc.num_tokens,
                    desc.num_reqs,
                )
    return len(captured) + max_num_seqs


def main() -> None:
    compare = {"v2": v2, "v1": v1, "drafts": drafts}[sys.argv[1]]
    rnd = random.Random(int(sys.argv[2]))
    total = sum(compare(rnd) for _ in range(int(sys.argv[3])))
    sys.stdout.write(f"{total}\n")


if __name__ == "__main__":
    main()
