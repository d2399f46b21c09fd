# SPDX-License-Identifier: Apache-2.0
"""Writes the fixtures in vllm-0.33.0/ by running vLLM 0.33.0's own code.

    python tests/data/generate.py     # in an environment with vllm==0.33.0

The logging classes, formatters, counters, message texts and file writers are
vLLM's; the counts put into them are made up. Nothing here ran on a GPU, so no
time in these files is a measurement.
"""

from __future__ import annotations

import io
import json
import logging
import random
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import prometheus_client
from vllm import logger as vllm_logger
from vllm.benchmarks.forward.shapes import jitter_kv_lens, parse_case
from vllm.benchmarks.sweep import serve as sweep_serve
from vllm.benchmarks.sweep.param_sweep import ParameterSweepItem
from vllm.compilation.cuda_graph import CUDAGraphLogging, CUDAGraphStat
from vllm.config import CompilationConfig, CUDAGraphMode
from vllm.logging_utils import ColoredFormatter, NewLineFormatter
from vllm.v1.core import kv_cache_utils
from vllm.v1.metrics.loggers import LoggingStatLogger
from vllm.v1.metrics.stats import (
    RequestSpecDecodeMetrics,
    SchedulerIterationDetails,
    SchedulerStats,
)
from vllm.v1.spec_decode.metrics import (
    SpecDecodingLogging,
    SpecDecodingProm,
    SpecDecodingStats,
)

logging.setLogRecordFactory(
    vllm_logger._VllmLogRecordFactory(logging.getLogRecordFactory())
)

HERE = Path(__file__).parent / "vllm-0.33.0"
SURVIVAL = (0.76, 0.54, 0.39, 0.28, 0.21)
CAPTURE_SIZES = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]


class Capture:
    """Sends vLLM's loggers to text through one of vLLM's formatters."""

    def __init__(self, formatter_class: type[logging.Formatter]) -> None:
        self.text = io.StringIO()
        self.handler = logging.StreamHandler(self.text)
        self.handler.setFormatter(
            formatter_class(vllm_logger._FORMAT, vllm_logger._DATE_FORMAT)
        )
        self.root = logging.getLogger("vllm")

    def __enter__(self) -> Capture:
        self.root.setLevel(logging.INFO)
        self.old = self.root.handlers
        self.root.handlers = [self.handler]
        return self

    def __exit__(self, *_: object) -> None:
        self.root.handlers = self.old


def as_process(name: str) -> None:
    vllm_logger.set_vllm_process_name(name)


def stat_logger() -> LoggingStatLogger:
    config = SimpleNamespace(
        device_config=SimpleNamespace(device_type="cuda"),
        model_config=SimpleNamespace(is_diffusion=False),
        kv_transfer_config=None,
        ec_transfer_config=None,
        observability_config=SimpleNamespace(
            cudagraph_metrics=True, enable_mfu_metrics=False
        ),
        compilation_config=SimpleNamespace(
            cudagraph_mode=CUDAGraphMode.FULL_AND_PIECEWISE,
            cudagraph_capture_sizes=CAPTURE_SIZES,
        ),
    )
    return LoggingStatLogger(config, 0)


def draft(rng: random.Random, k: int) -> int:
    """How many of k drafts pass."""
    u = rng.random()
    return sum(u < s for s in SURVIVAL[:k])


def startup_lines() -> None:
    """The same calls vLLM makes; the numbers are made up."""
    worker = logging.getLogger("vllm.v1.worker.gpu_worker")
    runner = logging.getLogger("vllm.v1.worker.gpu.model_runner")
    core = logging.getLogger("vllm.v1.engine.core")
    settings = {
        "cudagraph_mode": CUDAGraphMode.FULL_AND_PIECEWISE,
        "cudagraph_capture_sizes": CAPTURE_SIZES,
    }
    as_process("EngineCore")
    core.info(
        "Initializing a V1 LLM engine (v%s) with config: %s",
        "0.33.0",
        f"model='m', compilation_config={CompilationConfig(**settings)}",
    )
    worker.info("Available KV cache memory: %s GiB", "41.25")
    as_process("EngineCore")
    with mock.patch.object(
        kv_cache_utils, "get_kv_cache_capacity", return_value=(345_600, 42.19)
    ):
        kv_cache_utils.update_kv_cache_capacity(
            SimpleNamespace(
                cache_config=SimpleNamespace(),
                model_config=SimpleNamespace(max_model_len=8192),
                device_config=SimpleNamespace(device_type="cuda"),
                attention_config=SimpleNamespace(hisparse_config=None),
            ),
            None,
        )
    runner.info("Graph capturing finished in %.0f secs, took %.2f GiB", 11.6, 1.43)
    worker.info(
        "CUDA graph pool memory: %s GiB (actual), %s GiB (estimated), "
        "difference: %s GiB (%.1f%%).",
        1.43,
        1.1,
        0.33,
        23.1,
    )


def server_log(seed: int = 1) -> None:
    """Iteration lines, tables and speculation lines of one engine, K = 3."""
    rng = random.Random(seed)
    stats = stat_logger()
    startup_lines()
    for _ in range(2):
        as_process("APIServer")
        for _ in range(60):
            prefill = rng.random() < 0.1
            num_reqs = rng.choice([1, 2, 3, 4, 4, 4, 8, 8, 12])
            tokens = 4 * num_reqs if rng.random() > 0.05 else 4 * num_reqs - 1
            details = SchedulerIterationDetails(
                iteration_index=stats_index(),
                num_ctx_requests=int(prefill),
                num_ctx_tokens=512 * prefill,
                num_generation_requests=num_reqs,
                num_generation_tokens=tokens,
                elapsed_ms=7 + 0.02 * tokens + 20 * prefill,
            )
            spec = SpecDecodingStats.new(3)
            for _ in range(num_reqs):
                spec.observe_draft(3, draft(rng, 3))
            total = tokens + 512 * prefill
            padded = next((s for s in CAPTURE_SIZES if s >= total), total)
            mode = "NONE" if total > 64 else "FULL" if total == padded else "PIECEWISE"
            stats.record(
                SchedulerStats(
                    kv_cache_usage=0.413,
                    iteration_details=details,
                    spec_decoding_stats=spec,
                    cudagraph_stats=CUDAGraphStat(total, padded, padded - total, mode),
                ),
                None,
            )
        stats.last_log_time -= 10
        stats.last_generation_throughput = 1.0
        stats.log()


_INDEX = iter(range(10**9))


def stats_index() -> int:
    return next(_INDEX)


def batchsize_lines() -> None:
    log = logging.getLogger("vllm.forward_context")
    as_process("Worker_TP0")
    for stats in (
        [(4, 41, 7.31), (16, 20, 7.62)],
        [(4, 90, 7.32), (16, 44, 7.63), (64, 3, 8.9)],
    ):
        log.info(
            "Batchsize forward time stats (batchsize, count, median_time(ms)): %s",
            stats,
        )


def varied_spec_lines() -> None:
    rng = random.Random(4)
    as_process("APIServer")
    spec = SpecDecodingLogging()
    for k in (5, 3, 1):
        stats = SpecDecodingStats.new(5)
        for _ in range(400):
            stats.observe_draft(k, draft(rng, k))
        spec.observe(stats)
    spec.log()


def write_logs() -> None:
    for name, formatter in (
        ("server.log", NewLineFormatter),
        ("server-color.log", ColoredFormatter),
    ):
        global _INDEX
        _INDEX = iter(range(10**9))
        with Capture(formatter) as capture:
            server_log()
            batchsize_lines()
        (HERE / name).write_bytes(capture.text.getvalue().encode())
    with Capture(NewLineFormatter) as capture:
        varied_spec_lines()
    (HERE / "spec-varied.log").write_bytes(capture.text.getvalue().encode())
    json_log()


def json_log() -> None:
    """vLLM's JSON log format: python-json-logger's field names, same messages."""
    table = CUDAGraphLogging(CUDAGraphMode.FULL_AND_PIECEWISE, CAPTURE_SIZES)
    for tokens, padded, mode, count in (
        (12, 12, "FULL", 412),
        (10, 12, "PIECEWISE", 96),
        (1337, 1337, "NONE", 31),
    ):
        for _ in range(count):
            table.observe(CUDAGraphStat(tokens, padded, padded - tokens, mode))
    messages = (
        "Engine 000: Iteration(7): 0 context requests, 0 context tokens, 23 "
        "generation requests, 92 generation tokens, iteration elapsed time: 14.02 "
        "ms, GPU KV cache usage: 41.3%",
        table.generate_metric_table(),
    )
    record = {
        "asctime": "2026-09-30 10:15:00,123",
        "levelname": "INFO",
        "name": "vllm.v1.metrics.loggers",
        "processName": "MainProcess",
        "process": 71,
    }
    lines = [json.dumps(record | {"message": message}) for message in messages]
    (HERE / "server-json.log").write_text("\n".join(lines) + "\n")


def write_metrics() -> None:
    """Two scrapes; K is 3 throughout."""
    registry = prometheus_client.CollectorRegistry()

    class Counter(prometheus_client.Counter):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, registry=registry, **kwargs)

    rng = random.Random(7)
    with mock.patch.object(SpecDecodingProm, "_counter_cls", Counter):
        prom = SpecDecodingProm(
            SimpleNamespace(num_speculative_tokens=3),
            ["model_name", "engine"],
            {0: ["m", "0"], 1: ["m", "1"]},
        )
    running = prometheus_client.Gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        ["model_name", "engine"],
        registry=registry,
    )
    for scrape in (1, 2):
        for engine in (0, 1):
            stats = SpecDecodingStats.new(3)
            for _ in range(2000):
                stats.observe_draft(3, draft(rng, 3))
            prom.observe(stats, engine)
            running.labels("m", str(engine)).set(20 + scrape + engine)
        text = prometheus_client.generate_latest(registry).decode()
        (HERE / f"metrics-{scrape}.txt").write_text(text)


def write_forward() -> None:
    """`vllm bench forward --output-json` files, one per K."""
    rng = random.Random(3)
    for k in (0, 1, 3):
        results = []
        for batch in (1, 8, 32):
            for kv in (1024, 8192):
                body = f"{batch}*{k + 1}@{kv}" + (f":{k}" if k else "")
                case = jitter_kv_lens(
                    parse_case(f"b{batch}_c{kv}_k{k}={body}"), 0.5, 32768, 0
                )
                us = 6000 + 25 * batch * (k + 1) + 0.01 * batch * kv + 400 * k
                samples = [round(us * (1 + rng.gauss(0, 0.003)), 2) for _ in range(10)]
                samples.sort()
                median = (samples[4] + samples[5]) / 2
                rank = {
                    "num_tokens": case.num_tokens,
                    "kv_blocks": batch * 70,
                    "routing": "real",
                    "num_local_tokens": case.num_tokens,
                    "num_tokens_after_padding": case.num_tokens,
                    "timing_scope": "target_and_drafter",
                    "finite": True,
                    "latency_us": {
                        "timer": "graph_events",
                        "median": median,
                        "sample_spread_pct": 100 * (samples[-1] - samples[0]) / median,
                        "mean": sum(samples) / 10,
                        "std": 20.0,
                        "min": samples[0],
                        "p90": samples[8],
                        "count": 10,
                        "samples_us": samples,
                    },
                }
                results.append(
                    {
                        "case": case.name,
                        "requests": [asdict(r) for r in case.requests],
                        "median_us": median,
                        "ranks": [rank],
                    }
                )
        (HERE / f"forward-k{k}.json").write_text(json.dumps(results))


def serve_result(concurrency: int, k: int, seed: int) -> dict[str, object]:
    """The fields `vllm bench serve --save-result` writes, made-up values."""
    rng = random.Random(seed)
    result: dict[str, object] = {
        "date": "20260930-101500",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 320,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": concurrency,
        "duration": 61.2,
        "completed": 320,
        "failed": 0,
        "total_input_tokens": 163840,
        "total_output_tokens": 81920,
        "request_throughput": 5.23,
        "request_goodput": None,
        "output_throughput": 1338.6,
        "total_token_throughput": 4015.8,
        "max_output_tokens_per_s": 1500.0,
        "max_concurrent_requests": concurrency + 2,
        "rtfx": 0.0,
    }
    if k:
        stats = SpecDecodingStats.new(k)
        for _ in range(3000):
            stats.observe_draft(k, draft(rng, k))
        n = stats.num_drafts
        result |= {
            "spec_decode_acceptance_rate": (
                100 * stats.num_accepted_tokens / stats.num_draft_tokens
            ),
            "spec_decode_acceptance_length": 1 + stats.num_accepted_tokens / n,
            "spec_decode_num_drafts": n,
            "spec_decode_draft_tokens": stats.num_draft_tokens,
            "spec_decode_accepted_tokens": stats.num_accepted_tokens,
            "spec_decode_per_position_acceptance_rates": [
                c / n for c in stats.num_accepted_tokens_per_pos
            ],
        }
    length = float(result.get("spec_decode_acceptance_length", 1.0))  # type: ignore[arg-type]
    tpot = (7 + 0.04 * concurrency * (k + 1)) / length
    for name, value in (("ttft", 80.0), ("tpot", tpot), ("itl", 9.0), ("e2el", 2400.0)):
        result |= {
            f"mean_{name}_ms": value * 1.02,
            f"median_{name}_ms": value,
            f"std_{name}_ms": value * 0.1,
            f"p99_{name}_ms": value * 1.4,
        }
    return result


def write_serve() -> None:
    (HERE / "serve.json").write_text(json.dumps(serve_result(32, 3, 1)))
    rows = [json.dumps(serve_result(c, 3, c)) for c in (8, 16, 32)]
    (HERE / "serve.jsonl").write_text("\n".join(rows))
    root = HERE / "sweep"
    for k in (0, 1, 3):
        for concurrency in (8, 32):
            spec = (
                {"method": "eagle3", "model": "d", "num_speculative_tokens": k}
                if k
                else None
            )
            serve = ParameterSweepItem(
                {"_benchmark_name": f"k{k}", "speculative_config": spec}
                if spec
                else {"_benchmark_name": "k0"}
            )
            bench = ParameterSweepItem({"max_concurrency": concurrency})
            base = sweep_serve._get_comb_base_path(root, serve, bench)
            base.mkdir(parents=True, exist_ok=True)
            runs = []
            for run in (0, 1):
                data = sweep_serve._update_run_data(
                    serve_result(concurrency, k, 10 * concurrency + run),
                    serve,
                    bench,
                    run,
                )
                path = sweep_serve._get_comb_run_path(base, run)
                path.write_text(json.dumps(data, indent=4))
                runs.append(data)
            sweep_serve._get_comb_run_path(base, None).write_text(
                json.dumps(runs, indent=4)
            )
    (root / "SERVE-k5-failure.json").write_text(
        json.dumps({"error_type": "RuntimeError", "error": "out of memory"})
    )


def write_requests() -> None:
    """Responses with `--per-request-spec-decode-metrics detailed`, one a line."""
    rng = random.Random(11)
    lines = []
    for index in range(40):
        metrics = RequestSpecDecodeMetrics.new(5)
        for _ in range(30):
            k = rng.choice((5, 5, 3, 1))
            metrics.observe(k, draft(rng, k), detailed=True)
        lines.append(
            json.dumps(
                {
                    "id": f"cmpl-{index}",
                    "object": "text_completion",
                    "model": "m",
                    "choices": [{"index": 0, "text": "..."}],
                    "usage": {
                        "prompt_tokens": 200 + 100 * index,
                        "completion_tokens": 80,
                        "total_tokens": 280 + 100 * index,
                    },
                    "metrics": {"speculative_decoding": metrics.to_dict()},
                }
            )
        )
    (HERE / "requests.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    write_logs()
    write_metrics()
    write_forward()
    write_serve()
    write_requests()
    sys.stderr.write(f"wrote {HERE}\n")
