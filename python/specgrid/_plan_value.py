# SPDX-License-Identifier: Apache-2.0
"""What a list of captures is worth, step by step, through the dispatcher.

This is the check on the solver as well as the answer to "what does my current
list do": the solver's value never reaches a user without passing through here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specgrid._graphs import GraphSet
from specgrid._plan_inputs import Inputs, Int64

# As GraphSet numbers modes.
NONE, PIECEWISE, FULL = 0, 1, 2


@dataclass(frozen=True)
class Captures:
    """What is captured: one shared list, or keyed graphs and PIECEWISE sizes."""

    sizes: tuple[int, ...]
    graphs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Served:
    """How every step of a workload runs: graph mode and padded tokens."""

    decode_mode: Int64
    decode_padded: Int64
    mixed_mode: Int64
    mixed_padded: Int64


@dataclass(frozen=True)
class CaptureValue:
    """What a set of captures does for a workload.

    Attributes:
        mean_step_us: Mean step time, microseconds, the floor included.
        full_share: Share of steps on a FULL graph.
        piecewise_share: Share of steps on a PIECEWISE graph.
        eager_share: Share of steps without a graph.
        padding: Padded tokens beyond the steps' own, as a share of the tokens of
            the steps that replay a graph.
        num_graphs: Graphs captured, counted as `Budget` counts them.
        graph_bytes: Bytes they take by the cost model, the pool included.
        graph_seconds: Seconds to capture them by the cost model.
    """

    mean_step_us: float
    full_share: float
    piecewise_share: float
    eager_share: float
    padding: float
    num_graphs: int
    graph_bytes: float
    graph_seconds: float


def serve(inputs: Inputs, captures: Captures) -> Served:
    """Sends every step through the dispatcher.

    A shared list goes through `GraphSet`. Keyed graphs serve the next larger
    number of requests at their own query length and nothing else.
    """
    steps, limits = inputs.steps, inputs.limits
    if captures.graphs is None:
        if not captures.sizes:
            return _eager(inputs)
        graphs = GraphSet(
            captures.sizes,
            max_num_seqs=limits.max_num_seqs,
            num_speculative_tokens=limits.num_speculative_tokens,
            schedule=limits.schedule,
            mode=limits.mode,
            lora_cases=limits.lora_cases,
            policy="vllm-0.33" if inputs.dispatcher == "union" else inputs.dispatcher,
        )
        # Index -1, no graph, finds the entry put at the end.
        modes, sizes = (np.append(column, NONE) for column in graphs.columns()[:2])
        case = limits.lora_cases[0]

        def look(reqs: Int64, tokens: Int64, lens: Int64) -> tuple[Int64, Int64]:
            at = graphs.dispatch_many(reqs, tokens, lens, case)
            return modes[at], np.where(at < 0, tokens, sizes[at])

        decode = look(steps.decode_n, steps.decode_q * steps.decode_n, steps.decode_q)
        # A step that is not uniform sees PIECEWISE graphs, which ask for tokens
        # only; one request is enough to name it.
        mixed = look(
            np.ones_like(steps.mixed_t), steps.mixed_t, np.zeros_like(steps.mixed_t)
        )
        return Served(*decode, *mixed)
    served = _eager(inputs)
    for q in {q for q, _ in captures.graphs}:
        ladder = np.array(sorted(n for p, n in captures.graphs if p == q))
        mine = steps.decode_q == q
        at = np.searchsorted(ladder, steps.decode_n[mine])
        hit = at < len(ladder)
        padded = served.decode_padded[mine]
        padded[hit] = ladder[at[hit]] * q
        served.decode_padded[mine] = padded
        served.decode_mode[mine] = np.where(hit, FULL, NONE)
    if captures.sizes and inputs.piecewise:
        ladder = np.array(captures.sizes)
        at = np.searchsorted(ladder, steps.mixed_t)
        hit = at < len(ladder)
        served.mixed_padded[hit] = ladder[at[hit]]
        served.mixed_mode[hit] = PIECEWISE
    return served


def _eager(inputs: Inputs) -> Served:
    steps = inputs.steps
    return Served(
        np.full(len(steps.decode_q), NONE, np.int64),
        steps.decode_q * steps.decode_n,
        np.full(len(steps.mixed_t), NONE, np.int64),
        steps.mixed_t.copy(),
    )


def total_time(inputs: Inputs, served: Served) -> int:
    """The value in the solver's own whole numbers; equal or the plan is wrong."""
    steps, scale = inputs.steps, inputs.scale
    return sum(
        int(np.dot(scale.shares(share), scale.times(us)))
        for share, us in (
            (steps.decode_share, step_us(inputs, served)[0]),
            (steps.mixed_share, step_us(inputs, served)[1]),
        )
    )


def step_us(
    inputs: Inputs, served: Served
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Time of every decode and every mixed step, microseconds."""
    steps = inputs.steps
    out = []
    for mode, padded, eager in (
        (served.decode_mode, served.decode_padded, steps.decode_eager),
        (served.mixed_mode, served.mixed_padded, steps.mixed_eager),
    ):
        at = np.minimum(padded, inputs.max_size)
        out.append(
            np.select(
                [mode == FULL, mode == PIECEWISE],
                [inputs.full_us[at], inputs.piecewise_us[at]],
                eager,
            )
        )
    return out[0], out[1]


def captured(inputs: Inputs, captures: Captures) -> list[tuple[int, int]]:
    """Every captured size and how often, target and drafter, LoRA cases included.

    Returns:
        (num_tokens, number of graphs), in no particular order.
    """
    limits = inputs.limits
    full, entry, small = limits.graphs_each
    out: list[tuple[int, int]] = []
    if captures.graphs is None:
        made: set[tuple[int, int]] = set()
        top = max(captures.sizes, default=0)
        for size in captures.sizes:
            for q, _, _ in limits.tiers:
                reqs = -(-size // q)
                rounded = reqs * q
                if reqs <= limits.max_num_seqs and rounded <= top:
                    made.add((q, rounded))
            out.append((size, entry))
            if size <= limits.max_num_seqs:
                out.append((size, small))
        out += [(rounded, full) for _, rounded in made]
    else:
        out += [(q * n, limits.graphs_for_key(q)) for q, n in captures.graphs]
        out += [(size, entry) for size in captures.sizes]
    return [(size, number) for size, number in out if number]


def value(inputs: Inputs, captures: Captures) -> CaptureValue:
    """What the captures do for the workload."""
    steps = inputs.steps
    served = serve(inputs, captures)
    decode_us, mixed_us = step_us(inputs, served)
    shares = [0.0, 0.0, 0.0]
    tokens = padded = 0.0
    for mode, size, own, share in (
        (
            served.decode_mode,
            served.decode_padded,
            steps.decode_q * steps.decode_n,
            steps.decode_share,
        ),
        (served.mixed_mode, served.mixed_padded, steps.mixed_t, steps.mixed_share),
    ):
        for which in (FULL, PIECEWISE, NONE):
            shares[which] += float(share[mode == which].sum())
        replayed = mode != NONE
        tokens += float(np.dot(share[replayed], own[replayed]))
        padded += float(np.dot(share[replayed], size[replayed]))
    used_bytes, used_seconds, number = price(inputs, captures)
    return CaptureValue(
        mean_step_us=float(
            np.dot(steps.decode_share, decode_us) + np.dot(steps.mixed_share, mixed_us)
        ),
        full_share=shares[FULL],
        piecewise_share=shares[PIECEWISE],
        eager_share=shares[NONE],
        padding=(padded - tokens) / tokens if tokens else 0.0,
        num_graphs=number,
        graph_bytes=used_bytes,
        graph_seconds=used_seconds,
    )


def price(inputs: Inputs, captures: Captures) -> tuple[float, float, int]:
    """Bytes (the pool included), seconds and number of the captures' graphs."""
    made = captured(inputs, captures)
    if not made:
        return 0.0, 0.0, 0
    sizes = np.array([size for size, _ in made])
    numbers = np.array([number for _, number in made])
    return (
        float(inputs.graph_bytes[sizes] @ numbers)
        + float(inputs.pool_bytes[sizes.max()]),
        float(inputs.graph_seconds[sizes] @ numbers),
        int(numbers.sum()),
    )
