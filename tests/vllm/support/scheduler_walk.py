# SPDX-License-Identifier: Apache-2.0
"""Requests come and go through vLLM's real scheduler; every decode step has its graph.

    python scheduler_walk.py MODEL SEED STEPS

Run in a process of its own, without the plug-in. Stands in for the model: accepts
a random number of drafts, and drafts as many as the scheduler asked for. Every
uniform decode step must get a FULL graph of the "reachable" set whenever vLLM
captures one of its query length with enough requests. Prints how many uniform steps
were seen, and how many of them had fewer, and more, requests than their schedule
ever has at that query length.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

os.environ["SPECGRID_DISABLE"] = "1"

import vllm_sim

vllm_sim.install()
vllm_sim.single_rank()

from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.utils.hashing import sha256  # noqa: E402
from vllm.v1.core.kv_cache_utils import (  # noqa: E402
    get_request_block_hasher,
    init_none_hash,
)
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput  # noqa: E402
from vllm.v1.request import Request, RequestStatus  # noqa: E402

from specgrid import GraphSet, capture_sizes  # noqa: E402

MAX_NUM_SEQS = 24
K = 4
SCHEDULES = [
    [[1, 2, 4], [3, 8, 2], [9, 64, 0]],
    [[1, 4, 0], [5, 12, 4], [13, 64, 1]],
    [[1, 6, 3], [7, 10, 1], [11, 64, 3]],
]


def uniform_query_len(scheduler: Any, output: Any) -> int | None:
    """Tokens per request where all decode the same number (vLLM's rule)."""
    counts = set(output.num_scheduled_tokens.values())
    if len(counts) != 1:
        return None
    for name, count in output.num_scheduled_tokens.items():
        request = scheduler.requests[name]
        # The scheduler has counted this step's tokens already.
        computed = request.num_computed_tokens - count
        drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
        one_token = count - drafts == 1 and computed > 0
        if computed < request.num_prompt_tokens and not one_token:
            return None
    return int(counts.pop())


def add_request(scheduler: Any, name: str, prompt_len: int, max_tokens: int) -> None:
    """All prompts share a prefix: one of 17 tokens may find 16 of them cached."""
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    params.update_from_generation_config({}, 2)
    tokens = [3 + i % 50 for i in range(prompt_len)]
    hasher = get_request_block_hasher(16, sha256)
    scheduler.add_request(Request(name, tokens, params, None, block_hasher=hasher))


def finish_step(scheduler: Any, output: Any, rnd: random.Random) -> None:
    names = list(output.num_scheduled_tokens)
    sampled = []
    for name in names:
        request = scheduler.requests[name]
        drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
        done = request.num_computed_tokens >= request.num_tokens
        sampled.append([7] * (1 + rnd.randint(0, drafts)) if done else [])
    scheduler.update_from_output(
        output,
        ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=sampled,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        ),
    )
    k = output.num_spec_tokens_to_schedule
    scheduler.update_draft_token_ids(DraftTokenIds(names, [[5] * k for _ in names]))


def walk(model: str, rnd: random.Random, steps: int, rows: Any) -> tuple[int, ...]:
    config = vllm_sim.make_config(
        model,
        max_num_seqs=MAX_NUM_SEQS,
        v2=False,
        speculative_config=vllm_sim.ngram(K, rows),
        async_scheduling=False,
    )
    scheduler = vllm_sim.make_scheduler(config)
    server: dict[str, Any] = {
        "max_num_seqs": MAX_NUM_SEQS,
        "num_speculative_tokens": K,
        "schedule": rows,
    }
    # A small ceiling, so that the widest batches of some tiers have no graph.
    sizes = capture_sizes(MAX_NUM_SEQS, K, rows, platform_ceiling=40)
    kept = GraphSet(sizes, policy="reachable", **server)
    everything = GraphSet(sizes, policy="per-query-length", **server)
    tiers = {tier.query_len: tier for tier in kept.tiers}
    uniform = shrunken = widened = added = 0
    for _ in range(steps):
        for _ in range(rnd.choice([0, 0, 0, 1, rnd.randint(1, 8)])):
            added += 1
            prompt = rnd.choice([1, 8, 17, 33, 40])
            add_request(scheduler, f"r{added}", prompt, rnd.randint(1, 40))
        output = scheduler.schedule()
        reqs = len(output.num_scheduled_tokens)
        if reqs == 0:
            continue
        query_len = uniform_query_len(scheduler, output)
        if query_len in kept.query_lens:
            assert query_len is not None
            served = kept.explain(reqs, query_len).graph
            captured = everything.explain(reqs, query_len).graph
            assert (served.mode == "FULL") == (captured.mode == "FULL"), (
                reqs,
                query_len,
                rows,
            )
            uniform += 1
            shrunken += reqs < tiers[query_len].min_batch
            widened += reqs > tiers[query_len].max_batch
        finish_step(scheduler, output, rnd)
        if rnd.random() < 0.2 and scheduler.requests:
            gone = rnd.sample(
                sorted(scheduler.requests), rnd.randint(1, len(scheduler.requests))
            )
            scheduler.finish_requests(gone, RequestStatus.FINISHED_ABORTED)
    return uniform, shrunken, widened


def main() -> None:
    init_none_hash(sha256)
    rnd = random.Random(int(sys.argv[2]))
    found = [walk(sys.argv[1], rnd, int(sys.argv[3]), rows) for rows in SCHEDULES]
    totals = [sum(column) for column in zip(*found, strict=True)]
    sys.stdout.write(" ".join(map(str, totals)) + "\n")


if __name__ == "__main__":
    main()
