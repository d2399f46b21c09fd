# SPDX-License-Identifier: Apache-2.0
"""Run real vLLM engines on CPU, one after the other, and write what they did.

    python engine_runs.py RUNS.json RESULTS.json

RUNS.json holds the model folder and a list of runs: name, prompt_lengths,
output_lengths, and where wanted settings (of the plug-in), schedule (vLLM's field),
disable and engine_args. All runs share one import of vLLM. Prompts are token ids and
sampling is greedy, so runs can be compared token for token.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def run(model: str, job: dict[str, Any]) -> dict[str, Any]:
    import vllm.plugins
    from vllm import LLM, SamplingParams

    from specgrid import vllm_plugin
    from specgrid.vllm_plugin import _counters

    os.environ[_counters._SERVER] = f"run-{job['name']}-{os.getpid()}"
    vllm.plugins.plugins_loaded = True  # this process decides, run by run
    if job.get("disable"):
        vllm_plugin.undo()
    else:
        vllm_plugin.register()
    speculative = {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 3,
    }
    if job.get("schedule") is not None:
        speculative["num_speculative_tokens_per_batch_size"] = job["schedule"]
    llm = LLM(
        model=model,
        max_model_len=512,
        max_num_seqs=16,
        max_num_batched_tokens=512,
        dtype="bfloat16",
        enforce_eager=True,
        disable_log_stats=False,
        enable_prefix_caching=False,
        seed=0,
        speculative_config=speculative,
        additional_config={"specgrid": job["settings"]} if "settings" in job else {},
        **job.get("engine_args", {}),
    )
    lengths = job["prompt_lengths"]
    prompts = [
        {"prompt_token_ids": [1, *([10, 11, 12, 13] * 128)[: n - 2], 20 + i]}
        for i, n in enumerate(lengths)
    ]
    parameters = [
        SamplingParams(temperature=0.0, max_tokens=n, ignore_eos=True)
        for n in job["output_lengths"]
    ]
    outputs = llm.generate(prompts, parameters, use_tqdm=False)
    metrics = [
        {"name": m.name, "labels": m.labels, "value": getattr(m, "value", None)}
        for m in llm.get_metrics()
        if "specgrid" in m.name or "spec_decode" in m.name
    ]
    counts = [
        [reading.header["role"], count.kind, list(count.key), count.total]
        for reading in _counters.read_server(_counters.server())
        for count in reading.counts
    ]
    status = vllm_plugin.status()
    result = {
        "name": job["name"],
        "tokens": [list(o.outputs[0].token_ids) for o in outputs],
        "metrics": metrics,
        "counts": counts,
        "seams": {s["seam"]: s["state"] for s in status["seams"]},
        "processes": _counters.published(_counters.server()),
    }
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    _triton_once()
    return result


def _triton_once() -> None:
    """Keep vLLM from rebinding Triton kernels again.

    Its scan of all modules fails once llvmlite (loaded by the first engine) is among
    them; the first scan already did the work for this process.
    """
    from vllm.platforms import current_platform

    type(current_platform).register_triton_kernel_overrides = classmethod(
        lambda cls: None
    )


def main() -> None:
    runs, results = Path(sys.argv[1]), Path(sys.argv[2])
    jobs = json.loads(runs.read_text())
    done = [run(jobs["model"], job) for job in jobs["runs"]]
    results.write_text(json.dumps(done))


if __name__ == "__main__":
    main()
