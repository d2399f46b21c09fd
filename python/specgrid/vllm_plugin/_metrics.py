# SPDX-License-Identifier: Apache-2.0
"""Seams: the counters in vLLM's own Prometheus registry.

The counting processes write files (_counters.py); whenever the API process is asked
for its metrics, a collector in vLLM's registry reads them. Its name starts like every
metric of vLLM, so vLLM's own clean-up removes it with the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from . import _counters, _log
from ._seam import Seam

_PREFIX = "vllm:specgrid_"


class StepCollector:
    """Prometheus collector over the counter files of this server.

    Args:
        model_name: Value of the `model_name` label that vLLM gives its metrics.
    """

    _name = _PREFIX + "steps"

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name

    def describe(self) -> list[Any]:
        """Nothing in advance: families are known once there are steps."""
        return []

    def collect(self) -> Iterator[Any]:
        """Counter families with the sums over this server's processes.

        Never raises: that would take vLLM's own metrics down with it.
        """
        try:
            families = self._families()
        except Exception as error:
            _log.once(
                logging.WARNING,
                "step counters are missing in /metrics: %s: %s",
                type(error).__name__,
                error,
            )
        else:
            yield from families

    def _families(self) -> list[Any]:
        from prometheus_client.core import CounterMetricFamily

        totals: dict[tuple[int, tuple[int, int, int]], int] = {}
        for reading in _counters.read_server(_counters.server()):
            for kind, key, count in reading.counts:
                totals[kind, key] = totals.get((kind, key), 0) + count
        families = {
            _counters.STEP: CounterMetricFamily(
                _PREFIX + "steps",
                "Dispatched steps by uniform query length (0: mixed), requests and "
                "CUDA graph mode.",
                labels=["model_name", "query_len", "num_reqs", "mode"],
            ),
            _counters.DRAFT: CounterMetricFamily(
                _PREFIX + "scheduled_steps",
                "Scheduled steps by requests, context column of the schedule and the "
                "number of draft tokens chosen.",
                labels=["model_name", "num_reqs", "context_column", "k"],
            ),
            _counters.TRANSITION: CounterMetricFamily(
                _PREFIX + "k_transitions",
                "Consecutive scheduled steps with different numbers of draft tokens.",
                labels=["model_name", "previous", "next"],
            ),
        }
        for (kind, (a, b, c)), count in sorted(totals.items()):
            if kind == _counters.STEP:
                labels = [str(a), str(b), _counters.mode_name(c)]
            elif kind == _counters.DRAFT:
                labels = [str(a), str(b), str(c)]
            elif kind == _counters.TRANSITION:
                labels = [str(a), str(b)]
            else:
                continue
            families[kind].add_metric([self._model_name, *labels], count)
        return list(families.values())


def _register(result: None, logger: Any, vllm_config: Any, *_: Any, **__: Any) -> None:
    from prometheus_client import REGISTRY

    collector = StepCollector(str(vllm_config.model_config.served_model_name))
    _collectors[:] = [collector]
    REGISTRY.register(collector)


def _add_to_multiprocess(registry: Any) -> None:
    from prometheus_client import REGISTRY

    if registry is not REGISTRY:
        for collector in _collectors:
            registry.register(collector)


_collectors: list[StepCollector] = []

LOGGER = Seam(
    "metrics",
    "vllm.v1.metrics.loggers",
    "PrometheusStatLogger.__init__",
    ("vllm_config", "engine_indexes"),
    "step counters in vLLM's Prometheus registry",
    after=_register,
)

REGISTRIES = Seam(
    "metrics-multiprocess",
    "vllm.v1.metrics.prometheus",
    "get_prometheus_registry",
    (),
    "the same with several API processes",
    after=_add_to_multiprocess,
)
