# SPDX-License-Identifier: Apache-2.0
"""The plug-in in vLLM: its real graph manager, registration, and the price of a step.

    SPECGRID_RUN_DIR=$(mktemp -d) python -m pytest benchmarks/bench_vllm.py

Needs the environment of `.ci/vllm-env`. vLLM's own classes run on a simulated CUDA
device (tests/vllm/support/vllm_sim.py); every time is for vLLM's constructor with all
its objects, and every case asserts that the tables are the same. The rival beside
vLLM's own loop is that loop with its list answering `in` from a set.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM and torch warn on import
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vllm" / "support"))

EAGLE3 = [[1, 16, 5], [17, 32, 4], [33, 64, 3], [65, 128, 1], [129, 512, 0]]
FOUR = [[1, 512, 16], [513, 1024, 8], [1025, 4096, 2], [4097, 8192, 0]]
NINE_LORAS = [0, 1, 2, 4, 8, 16, 32, 64, 65]

CASES: dict[str, dict[str, Any]] = {
    "256 requests, no drafts": {"max_num_seqs": 256},
    "256 requests, K=16": {"max_num_seqs": 256, "num_spec": 16},
    "256 requests, Eagle3 schedule": {
        "max_num_seqs": 256,
        "num_spec": 5,
        "schedule": EAGLE3,
    },
    "581 sizes x 4 lengths x 1 LoRA case": {
        "max_num_seqs": 8192,
        "num_spec": 16,
        "schedule": FOUR,
        "sizes": [round(i * 8192 / 581) for i in range(1, 582)],
    },
}
CASES["581 sizes x 4 lengths x 9 LoRA cases"] = CASES[
    "581 sizes x 4 lengths x 1 LoRA case"
] | {"lora_cases": NINE_LORAS}
WHO = ["vLLM", "vLLM with a set", "specgrid, parity", "specgrid, reachable"]


class SetList(list):  # type: ignore[type-arg]
    """A list whose `in` is a set's: the fifteen-line cure of vLLM's loop."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[Any] = set()

    def append(self, item: Any) -> None:
        super().append(item)
        self._seen.add(item)

    def __contains__(self, item: object) -> bool:
        return item in self._seen


@pytest.fixture(scope="module")
def sim() -> Any:
    import vllm_sim

    vllm_sim.install()
    vllm_sim.single_rank()
    return vllm_sim


def build(sim: Any, who: str, case: dict[str, Any]) -> Any:
    """A function that builds one manager, and the one that undoes the set-up."""
    from vllm.v1.worker.gpu import cudagraph_utils

    from specgrid import vllm_plugin

    case = dict(case)
    loras = case.pop("lora_cases", None)
    policy = "reachable" if who == "specgrid, reachable" else "vllm"
    config = sim.stub_config(**case, settings={"policy": policy})
    config._set_cudagraph_sizes()
    vllm_plugin.undo()
    original = cudagraph_utils.defaultdict
    if who == "vLLM with a set":
        cudagraph_utils.defaultdict = lambda _: original(SetList)
    elif who != "vLLM":
        vllm_plugin.register()

    def undo() -> None:
        cudagraph_utils.defaultdict = original
        vllm_plugin.undo()

    return (lambda: sim.make_manager(config, lora_cases=loras)), undo


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("name", CASES)
def test_manager(benchmark: Any, sim: Any, name: str, who: str) -> None:
    benchmark.group = f"graph manager, {name}"
    make, undo = build(sim, who, CASES[name])
    slow = who == "vLLM" and name.endswith("9 LoRA cases")
    try:
        if slow:
            manager = benchmark.pedantic(make, rounds=1)
        else:
            manager = benchmark.pedantic(make, rounds=15, warmup_rounds=2)
    finally:
        undo()
    if who == "vLLM":
        _vllm_tables[name] = _summary(manager)
    elif who != "specgrid, reachable":
        assert _summary(manager) == _vllm_tables[name]


_vllm_tables: dict[str, Any] = {}


def _summary(manager: Any) -> Any:
    """Every captured graph and every candidate, as plain values."""
    captured = {m.name: hash(tuple(d)) for m, d in manager._capture_descs.items()}
    candidates = hash(
        tuple((key, tuple(tried)) for key, tried in sorted(manager._candidates.items()))
    )
    return captured, len(manager._candidates), candidates


def test_step_counters(benchmark: Any, sim: Any) -> None:
    """One dispatched step counted: the whole wrapper against the plain call."""
    from vllm.v1.worker.gpu.dp_utils import dispatch_cg_and_sync_dp  # noqa: F401

    from specgrid import vllm_plugin
    from specgrid.vllm_plugin import _capture

    benchmark.group = "one step"
    vllm_plugin.register()
    import vllm.v1.worker.gpu.dp_utils as dp

    config = sim.stub_config(max_num_seqs=256, num_spec=5, schedule=EAGLE3)
    config._set_cudagraph_sizes()
    manager = sim.make_manager(config)
    wrapped, plain = dp.dispatch_cg_and_sync_dp, _capture.STEPS.original

    def timed(function: Any) -> float:
        rounds = []
        for _ in range(15):
            start = time.perf_counter()
            for _ in range(2000):
                function(manager, 40, 160, 4, 1, 0, max_query_len=4)
            rounds.append((time.perf_counter() - start) / 2000)
        return min(rounds)

    timed(wrapped)
    without, with_it = timed(plain), timed(wrapped)
    benchmark.extra_info["added_us"] = round((with_it - without) * 1e6, 3)
    benchmark.pedantic(
        lambda: wrapped(manager, 40, 160, 4, 1, 0, max_query_len=4),
        rounds=50,
        iterations=2000,
    )
    print(f"\none counted step costs {(with_it - without) * 1e6:.2f} us more")


def test_registration(benchmark: Any) -> None:
    """Import of vLLM's configuration, and what registration adds to it."""
    benchmark.group = "start-up"
    code = (
        "from time import perf_counter as now; a = now();"
        "import vllm.config, vllm.engine.arg_utils; b = now();"
        "from specgrid.vllm_plugin import register; register();"
        "c = now(); print(b - a, c - b)"
    )
    runs = []
    for _ in range(5):
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        runs.append([float(x) for x in child.stdout.split()[-2:]])
    imported = statistics.median(r[0] for r in runs)
    added = statistics.median(r[1] for r in runs)
    benchmark.extra_info.update(import_ms=imported * 1e3, register_ms=added * 1e3)
    benchmark.pedantic(lambda: None, rounds=1)
    print(f"\nimport {imported * 1e3:.0f} ms, registration {added * 1e3:.0f} ms more")
