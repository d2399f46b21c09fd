# SPDX-License-Identifier: Apache-2.0
"""Rivals of graph sets: vLLM's real manager, good plain Python, good NumPy."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from itertools import groupby, product, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SUPPORT = Path(__file__).parent.parent / "tests" / "vllm" / "support"

Desc = tuple[str, int, int | None, int | None, int]


def schedule_of(num_lens: int, max_num_seqs: int) -> list[list[int]] | None:
    """A schedule of `num_lens` query lengths out of 1..17, widest first."""
    if num_lens == 1:
        return None
    ks = [round(16 * (1 - i / (num_lens - 1))) for i in range(num_lens)]
    width = max_num_seqs // num_lens
    return [[1 + i * width, (i + 1) * width, k] for i, k in enumerate(ks[:-1])] + [
        [1 + (num_lens - 1) * width, max_num_seqs, ks[-1]]
    ]


def spread(count: int, largest: int) -> list[int]:
    """`count` sizes spread evenly up to the largest."""
    return sorted({max(1, round((i + 1) * largest / count)) for i in range(count)})


class PythonManager:
    """What a reviewer would write: a set for duplicates, one pass for ranges."""

    def __init__(
        self,
        sizes: Iterable[int],
        query_lens: list[int],
        max_num_seqs: int,
        lora_cases: list[int],
    ) -> None:
        sizes = sorted(sizes)
        limit = min(sizes[-1], max_num_seqs * max(query_lens))
        seen: set[Desc] = set()
        full: list[Desc] = []
        piecewise: list[Desc] = []
        for size, lora in product(sizes, lora_cases):
            for q in query_lens:
                reqs = -(-size // q)
                desc = ("FULL", reqs * q, reqs, q, lora)
                if reqs * q <= limit and reqs <= max_num_seqs and desc not in seen:
                    seen.add(desc)
                    full.append(desc)
            piecewise.append(("PIECEWISE", size, None, None, lora))
        full.sort(key=lambda desc: desc[1], reverse=True)
        piecewise.sort(key=lambda desc: desc[1], reverse=True)
        self.descs = {"FULL": full, "PIECEWISE": piecewise}
        # One shared list per run of token counts.
        self.candidates: dict[tuple[int, int], list[Desc]] = {}
        for lora in lora_cases:
            groups = [
                [
                    (tokens, list(group))
                    for tokens, group in groupby(
                        (d for d in reversed(descs) if d[4] == lora), lambda d: d[1]
                    )
                ]
                for descs in (full, piecewise)
            ]
            start = 0
            at = [0, 0]
            for last in sorted({tokens for group in groups for tokens, _ in group}):
                found: list[Desc] = []
                for i, group in enumerate(groups):
                    while at[i] < len(group) and group[at[i]][0] < last:
                        at[i] += 1
                    if at[i] < len(group):
                        found = found + group[at[i]][1]
                self.candidates.update(
                    zip(
                        zip(range(start, last + 1), repeat(lora), strict=False),
                        repeat(found),
                        strict=False,
                    )
                )
                start = last + 1

    def dispatch(
        self, num_reqs: int, num_tokens: int, query_len: int | None, loras: int
    ) -> Desc:
        for desc in self.candidates.get((num_tokens, loras), ()):
            if (desc[3] is None or desc[3] == query_len) and (
                desc[2] is None or desc[2] >= num_reqs
            ):
                return desc
        return ("NONE", num_tokens, num_reqs, None, loras)


class NumpyDispatch:
    """Many dispatches by two searches and a table of (level, query length)."""

    def __init__(self, graphs: list[Any], query_lens: tuple[int, ...]) -> None:
        full = [(i, g) for i, g in enumerate(graphs) if g.mode == "FULL"]
        piecewise = [(i, g) for i, g in enumerate(graphs) if g.mode == "PIECEWISE"]
        self.levels = np.unique([g.num_tokens for _, g in full])
        self.table = np.full((len(self.levels) + 1, max(query_lens) + 1), -1)
        for i, g in full:
            self.table[np.searchsorted(self.levels, g.num_tokens), g.query_len] = i
        self.sizes = np.array([g.num_tokens for _, g in reversed(piecewise)])
        self.piecewise = np.array([i for i, _ in reversed(piecewise)] + [-1])

    def __call__(
        self, num_tokens: npt.NDArray[np.int64], query_len: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        full = self.table[np.searchsorted(self.levels, num_tokens), query_len]
        piecewise = self.piecewise[np.searchsorted(self.sizes, num_tokens)]
        return np.where(full >= 0, full, piecewise)


def vllm_manager() -> Callable[..., Any] | None:
    """Builds vLLM's real V2 manager on a simulated device; None without vLLM.

    The specgrid plug-in is not registered here, so the manager is vLLM's own.
    """
    if importlib.util.find_spec("vllm") is None or not SUPPORT.exists():
        return None
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    if str(SUPPORT) not in sys.path:
        sys.path.insert(0, str(SUPPORT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vLLM's imports warn, which is not ours
        import vllm_sim

        vllm_sim.install()
        vllm_sim.single_rank()

    def build(
        sizes: list[int], max_num_seqs: int, schedule: Any, lora_cases: list[int]
    ) -> Any:
        config = vllm_sim.stub_config(
            max_num_seqs=max_num_seqs,
            num_spec=16,
            schedule=schedule,
            sizes=sizes,
            max_size=sizes[-1],
        )
        return lambda: vllm_sim.make_manager(config, lora_cases=lora_cases)

    return build
