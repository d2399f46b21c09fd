# SPDX-License-Identifier: Apache-2.0
"""Writes the example logs beside this file.

    python examples/make_log.py

They have the exact lines vLLM 0.33.0 prints (the tests compare the form with
vLLM's own logging), but the load is drawn at random and every time follows a
formula: nothing in them was measured. Two loads in turn, a quiet one and a busy
one, on a server with 256 requests and the documented schedule 5/4/3/1/0.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

HERE = Path(__file__).parent
SCHEDULE = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 256, 0)]
PREFIX = "(EngineCore pid=71) INFO 12-01 05:{:02d}:{:02d} [{}] "
NUM_STEPS = 6000


def draft_tokens(batch: int) -> int:
    return next(k for lo, hi, k in SCHEDULE if lo <= batch <= hi)


def main() -> None:
    from specgrid import GraphSet, capture_sizes

    rng = random.Random(1)
    sizes = capture_sizes(256, 5, SCHEDULE)
    graphs = GraphSet(
        sizes, max_num_seqs=256, num_speculative_tokens=5, schedule=SCHEDULE
    )
    lines = [
        PREFIX.format(0, 0, "core.py:139")
        + "Initializing a V1 LLM engine (v0.33.0) with config: "
        f"compilation_config={{'cudagraph_capture_sizes': {list(sizes)}}}",
        PREFIX.format(0, 1, "gpu_worker.py:772")
        + "Available KV cache memory: 41.25 GiB",
        PREFIX.format(0, 1, "kv_cache_utils.py:1147")
        + "GPU KV cache size: 345,600 tokens, Maximum concurrency for 8,192 tokens "
        "per request: 42.19x",
        PREFIX.format(1, 13, "model_runner.py:1163")
        + "Graph capturing finished in 68 secs, took 14.90 GiB",
    ]
    batch = 20
    for index in range(NUM_STEPS):
        centre = 24 if index % 3000 < 2000 else 150
        batch = min(256, max(1, batch + round((centre - batch) / 40 + rng.gauss(0, 3))))
        # The draft length was chosen one step earlier, for a batch near this one.
        earlier = min(256, max(1, batch + rng.choice([0, 0, 0, 0, 0, 0, 0, 0, -1, 1])))
        query_len = 1 + draft_tokens(earlier)
        prefill = rng.random() < 0.04
        context = rng.choice([64, 128, 256, 512]) if prefill else 0
        tokens = batch * query_len + context
        graph = graphs.dispatch(batch, tokens, None if prefill else query_len)
        penalty = {"FULL": 0.0, "PIECEWISE": 2.4, "NONE": 9.5}[graph.mode]
        padded = graph.num_tokens if graph.mode != "NONE" else tokens
        ms = (6.8 + 0.018 * padded + penalty) * rng.uniform(0.99, 1.02)
        lines.append(
            PREFIX.format(2 + index // 600, index // 10 % 60, "loggers.py:199")
            + f"Engine 000: Iteration({index}): {int(prefill)} context requests, "
            f"{context} context tokens, {batch} generation requests, "
            f"{batch * query_len} generation tokens, iteration elapsed time: {ms:.2f} "
            f"ms, GPU KV cache usage: {batch / 3.2:.1f}%"
        )
    with (
        (HERE / "eagle3-256.log.gz").open("wb") as raw,
        gzip.GzipFile("eagle3-256.log", "wb", fileobj=raw, mtime=0) as file,
    ):
        file.write(("\n".join(lines) + "\n").encode())
    rows = ["query_len,num_reqs,num_tokens,weight"]
    weights = [round(1000 * 0.9**n) for n in range(1, 33)]
    rows += [f"4,{n},,{w}" for n, w in enumerate(weights, 1) if w]
    rows += [f",,{tokens},20" for tokens in (40, 150, 530)]
    (HERE / "workload.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
