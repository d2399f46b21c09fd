# SPDX-License-Identifier: Apache-2.0
"""Small planning tasks for hypothesis: servers, loads, costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from specgrid import Costs, Workload

DISPATCHERS = ("union", "per-query-length", "direct")

# Graphs whose price depends on their size.
SIZED = Costs.linear(
    6000,
    60,
    2500,
    8000,
    graph_bytes=lambda size: (1 << 20) + 70_000 * size,
    pool_bytes=8 << 20,
    graph_seconds=lambda size: 0.1 + 0.01 * size,
)


@dataclass(frozen=True)
class Case:
    """A task: what plan_captures takes, apart from its budget."""

    server: dict[str, Any]
    workload: Workload
    costs: Costs
    max_size: int

    def arguments(self) -> dict[str, Any]:
        return {**self.server, "max_size": self.max_size}


@st.composite
def schedules(draw: st.DrawFn, max_num_seqs: int, k: int) -> list[list[int]] | None:
    """Rows over 1..max_num_seqs, or None for a static K."""
    if k == 0 or draw(st.booleans()):
        return None
    rows = []
    low = 1
    while low <= max_num_seqs:
        high = draw(st.integers(low, max_num_seqs))
        rows.append([low, high, draw(st.integers(0, k))])
        low = high + 1
    return rows


@st.composite
def cases(draw: st.DrawFn, max_num_seqs: int = 5, largest: int = 8) -> Case:
    """Whole-number weights and costs, so that sums are exact everywhere."""
    seqs = draw(st.integers(1, max_num_seqs))
    k = draw(st.integers(0, 3))
    rows = draw(schedules(seqs, k))
    lens = sorted({1 + r[2] for r in rows}) if rows else [1 + k]
    keys = [(q, n) for q in lens for n in range(1, seqs + 1)]
    decode = draw(
        st.dictionaries(st.sampled_from(keys), st.integers(0, 9), max_size=len(keys))
    )
    mixed = draw(
        st.dictionaries(st.integers(1, largest + 2), st.integers(0, 9), max_size=4)
    )
    decode[keys[0]] = decode.get(keys[0], 0) + 1
    top = max(largest + 2, seqs * (k + 1))
    noise = draw(st.sampled_from([0, 40]))
    wobble = st.integers(0, noise)
    steps = [100 + 10 * t + draw(wobble) for t in range(top + 1)]
    full = dict(enumerate(steps[1:], 1))
    piecewise = {t: us + 25 + draw(wobble) for t, us in full.items()}
    eager = {t: us + draw(st.integers(-20, 200)) + 60 for t, us in full.items()}
    return Case(
        server={
            "max_num_seqs": seqs,
            "num_speculative_tokens": k,
            "schedule": rows,
            "mode": draw(st.sampled_from(["FULL_AND_PIECEWISE", "FULL_DECODE_ONLY"])),
        },
        workload=Workload(decode, mixed, floor=draw(st.sampled_from([0, 0.25]))),
        costs=Costs(full, piecewise, eager),
        max_size=largest,
    )
