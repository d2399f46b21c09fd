# SPDX-License-Identifier: Apache-2.0
"""Which batches to measure, as `vllm bench forward --shapes` reads them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from specgrid._check import count
from specgrid._errors import ConfigError
from specgrid._tune import TunedSchedule

_SMALLEST_CONTEXT = 256
_MAX_CONTEXTS = 8
_MAX_POINTS = 100_000
# vLLM's defaults for --samples and --iters, and rough costs around them.
_REPLAYS_PER_CASE = 5 * 20
_CASE_SECONDS = 3.0
_START_SECONDS = 90.0


def bench_cases(
    batches: Iterable[int], contexts: Iterable[int], ks: Iterable[int]
) -> list[dict[str, Any]]:
    """Cases for every (batch, context, k), as `vllm bench forward` reads them.

    Write `{"cases": bench_cases(...)}` to a file and pass it with `--shapes`,
    together with `--kv-len-jitter 0` so that contexts are the ones asked for. A
    configured drafter always runs all of its steps, so measure each k in a run
    of its own with `num_speculative_tokens` set to it.

    Args:
        batches: Requests in the step.
        contexts: Tokens already computed per request, at least 1.
        ks: Draft tokens verified per request.

    Returns:
        One dict per case, by k, then context, then batch.

    Raises:
        ConfigError: If a value is no count.

    Source:
        vllm/benchmarks/forward/shapes.py (vLLM 0.33.0).

    Example:
        >>> bench_cases([16], [4096], [3])  # doctest: +NORMALIZE_WHITESPACE
        [{'name': 'b16_c4096_k3', 'requests': [{'query_len': 4, 'kv_len': 4100,
        'num_draft_tokens': 3, 'count': 16}]}]
    """
    batch_list = sorted({count("a batch", b) for b in batches})
    context_list = sorted({count("a context", c) for c in contexts})
    k_list = sorted({count("k", k, 0) for k in ks})
    return [
        _case(batch, context, k)
        for k in k_list
        for context in context_list
        for batch in batch_list
    ]


def _case(batch: int, context: int, k: int) -> dict[str, Any]:
    request = {
        "query_len": k + 1,
        "kv_len": context + k + 1,
        "num_draft_tokens": k,
        "count": batch,
    }
    return {"name": f"b{batch}_c{context}_k{k}", "requests": [request]}


class CasePlan(NamedTuple):
    """What to measure, and roughly how long it takes.

    Attributes:
        points: (batch, context, k), by k, then context, then batch.
        batches: Batches measured.
        contexts: Contexts measured.
        seconds: Rough duration: one server start per k, and per case five
            samples of twenty steps at `step_us` plus set-up.
        skipped: Contexts left out because not even one request would fit.
        dropped: Batches at a boundary that the budget of points left out.
    """

    points: tuple[tuple[int, int, int], ...]
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    seconds: float
    skipped: int
    dropped: tuple[int, ...] = ()

    def by_k(self) -> dict[int, list[dict[str, Any]]]:
        """`bench_cases` form, one list per k (one run each)."""
        out: dict[int, list[dict[str, Any]]] = {}
        for batch, context, k in self.points:
            out.setdefault(k, []).append(_case(batch, context, k))
        return out


def plan_cases(
    *,
    max_num_seqs: int,
    max_model_len: int,
    ks: Iterable[int],
    max_points: int = 60,
    edges: Iterable[int] = (),
    capture_sizes: Sequence[int] = (),
    contexts: Iterable[int] | None = None,
    kv_tokens: int | None = None,
    step_us: float = 20_000.0,
) -> CasePlan:
    """Chooses batches and contexts to measure within a budget of points.

    Batch 1 and the widest always; then, up to half of the rest, both sides of
    every edge (where a schedule changes K) and of the widest batch that captured
    sizes serve at each k; the rest halves the widest gap on a logarithmic scale.

    Args:
        max_num_seqs: Most requests in a step.
        max_model_len: Longest context, tokens.
        ks: Candidate draft lengths.
        max_points: Points to measure over all k.
        edges: First batches of schedule entries.
        capture_sizes: Captured sizes, tokens.
        contexts: Contexts to measure; chosen when not given.
        kv_tokens: Tokens the KV cache holds; batches stop where they fill it.
        step_us: Assumed time of one step, for the estimate.

    Raises:
        ConfigError: If the budget is too small, or a value is no count.

    Example:
        >>> plan = plan_cases(max_num_seqs=64, max_model_len=4096, ks=[0, 3],
        ...                   max_points=12, contexts=[1024])
        >>> plan.batches
        (1, 2, 3, 8, 23, 64)
    """
    max_num_seqs = count("max_num_seqs", max_num_seqs)
    k_list = sorted({count("k", k, 0) for k in ks})
    if not k_list:
        raise ConfigError("ks must not be empty; give the draft lengths to measure")
    # vLLM needs room for the drafter's own steps behind the verified ones.
    longest = max_model_len - 2 * (k_list[-1] + 1)
    if longest < 1:
        raise ConfigError(
            f"max_model_len = {max_model_len} leaves no context beside "
            f"{k_list[-1]} drafts"
        )
    if max_points > _MAX_POINTS:
        raise ConfigError(
            f"{max_points} points would take months to measure; allow at most "
            f"{_MAX_POINTS}"
        )
    per_k = max_points // len(k_list)
    needed = 2 if max_num_seqs > 1 else 1
    if per_k < needed:
        raise ConfigError(
            f"{max_points} points are too few for {len(k_list)} values of k; allow at "
            f"least {needed * len(k_list)}"
        )
    if contexts is None:
        num = max(1, min(_MAX_CONTEXTS, round(math.sqrt(per_k / 3))))
        shortest = min(_SMALLEST_CONTEXT, longest)
        context_list = _spread([], shortest if num > 1 else longest // 2, longest, num)
        if num == 1:
            context_list = context_list[:1]
    else:
        context_list = sorted({count("a context", c, 1, longest) for c in contexts})
    if not context_list or per_k // len(context_list) < needed:
        raise ConfigError(
            f"{max_points} points are too few for {len(k_list)} values of k at "
            f"{len(context_list)} contexts; allow at least "
            f"{needed * len(k_list) * len(context_list)}, or give fewer contexts"
        )
    wanted = [e for edge in edges for e in (edge - 1, edge)]
    if capture_sizes:
        widest = [max(capture_sizes) // (k + 1) for k in k_list]
        wanted += [b for batch in widest for b in (batch, batch + 1)]
    wanted = list(dict.fromkeys(wanted))
    by_context: dict[int, list[int]] = {}
    for context in context_list:
        widest_here = max_num_seqs
        if kv_tokens is not None:
            widest_here = min(widest_here, kv_tokens // (context + k_list[-1] + 1))
        if widest_here >= 1:
            by_context[context] = _spread(
                [b for b in wanted if 1 < b < widest_here],
                1,
                widest_here,
                per_k // len(context_list),
            )
    points = [(b, c, k) for k in k_list for c in by_context for b in by_context[c]]
    if not points:
        raise ConfigError(
            f"kv_tokens = {kv_tokens} hold no request at contexts {context_list}; give "
            "shorter contexts"
        )
    seconds = len(k_list) * _START_SECONDS + len(points) * (
        _CASE_SECONDS + _REPLAYS_PER_CASE * step_us / 1e6
    )
    return CasePlan(
        tuple(points),
        tuple(sorted({b for b, _, _ in points})),
        tuple(by_context),
        seconds,
        len(context_list) - len(by_context),
        tuple(
            b
            for b in sorted(wanted)
            if any(1 < b < on[-1] and b not in on for on in by_context.values())
        ),
    )


def _spread(wanted: list[int], low: int, high: int, num: int) -> list[int]:
    """`num` whole numbers from low to high: both ends, up to half of the rest from
    `wanted`, then the middle of the widest gap on a log scale, again and again."""
    chosen = {low, high}
    chosen.update(wanted[: max(0, (num - 1) // 2)])
    while len(chosen) < num:
        gaps = [
            (math.log(b / a), a, b)
            for a, b in itertools.pairwise(sorted(chosen))
            if b - a > 1
        ]
        if not gaps:
            break
        _, a, b = max(gaps, key=lambda gap: (gap[0], -gap[1]))
        chosen.add(min(b - 1, max(a + 1, round(math.sqrt(a * b)))))
    return sorted(chosen)


def next_points(
    tuned: TunedSchedule, max_points: int = 12
) -> list[tuple[int, int, int]]:
    """The (batch, context, k) points most worth measuring next.

    First the widest batch where nothing was measured, then both sides of each
    change of k: the middle of the measured batches around it, for the two k that
    meet there. Empty where neither is left.

    Args:
        tuned: What was tuned from the points so far.
        max_points: At most so many.

    Example:
        >>> from specgrid import tune_schedule
        >>> points = [(1, 0, 0, 6870), (1, 0, 3, 9410), (64, 0, 0, 8530),
        ...           (64, 0, 3, 20000)]
        >>> tuned = tune_schedule(points, [0.6, 0.3, 0.1], max_num_seqs=64,
        ...                       num_speculative_tokens=3)
        >>> next_points(tuned)
        [(8, 0, 0), (8, 0, 3)]
    """
    problem, cells = tuned.problem, tuned.cells
    wanted: dict[tuple[int, int, int], None] = {}
    for column, context in enumerate(problem.columns):
        if not cells.measured[-1, column]:
            at = _nearest_measured(problem, context)
            for k in problem.ks:
                wanted[problem.max_num_seqs, at, k] = None
    for column, context in enumerate(problem.columns):
        line = cells.k[:, column]
        at = _nearest_measured(problem, context)
        for row in (line[1:] != line[:-1]).nonzero()[0].tolist():
            pair = int(line[row]), int(line[row + 1])
            for k in sorted(pair):
                batches = sorted(
                    {
                        int(b)
                        for b, c in zip(*problem.points_of(k), strict=True)
                        if c == at
                    }
                )
                below = [b for b in batches if b <= row + 1]
                above = [b for b in batches if b > row + 1]
                if below and above and above[0] - below[-1] > 1:
                    middle = round(math.sqrt(below[-1] * above[0]))
                    middle = min(above[0] - 1, max(below[-1] + 1, middle))
                    wanted[middle, at, k] = None
    return list(wanted)[:max_points]


def _nearest_measured(problem: Any, context: int) -> int:
    contexts = {int(c) for k in problem.ks for c in problem.points_of(k)[1]}
    return min(contexts, key=lambda c: (abs(c - context), c))
