# SPDX-License-Identifier: Apache-2.0
"""From a workload, costs and limits to the numbers the planner's core works on.

Everything a person can get wrong is found here. Weights and microseconds become
whole numbers (`_SHARE_BITS`, `_TIME_BITS`), so that the core adds them exactly
and equal plans stay equal whatever the order of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from specgrid._budget import Budget, Drafter
from specgrid._check import count
from specgrid._costs import Costs
from specgrid._errors import ConfigError, kind_of
from specgrid._lookup import Lookup
from specgrid._schedule import Schedule
from specgrid._workload import Workload

Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DISPATCHERS = ("union", "per-query-length", "direct")
MODES = ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY")

#: Without max_size, mixed steps alone do not ask for sizes above this; the
#: largest ceiling vLLM itself uses.
MIXED_CEILING = 1024

# A step's share of the workload is a multiple of 2^-32, a step time at least
# one part in 2^29 of the longest; totals stay below 2^62.
_SHARE_BITS = 32
_TIME_BITS = 29

_MAX_QUERY_LENS = 64
#: About the bytes a decode shape takes while a plan is prepared; and the most that
#: shapes, and tables by size, may take.
_SHAPE_BYTES = 400
MAX_SHAPE_BYTES = 256 << 20
MAX_TABLE_BYTES = 1 << 30


@dataclass(frozen=True)
class Limits:
    """The server a plan is for: what vLLM needs to know to dispatch."""

    max_num_seqs: int
    num_speculative_tokens: int
    schedule: Schedule | None
    lookup: Lookup | None
    max_num_batched_tokens: int
    mode: str
    lora_cases: tuple[int, ...]
    drafter: Drafter | None

    @cached_property
    def tiers(self) -> list[tuple[int, int, int]]:
        """(query_len, min_batch, max_batch) of every query length."""
        if self.lookup is None:
            return [(1 + self.num_speculative_tokens, 1, self.max_num_seqs)]
        return [(t.query_len, t.min_batch, t.max_batch) for t in self.lookup.tiers()]

    @property
    def max_decode_tokens(self) -> int:
        """Most tokens vLLM captures a FULL graph for."""
        return self.max_num_seqs * (1 + self.num_speculative_tokens)

    def diagonal(self) -> list[tuple[int, int]]:
        """Every (query_len, num_reqs) the schedule can produce, by num_reqs."""
        if self.lookup is None:
            q = 1 + self.num_speculative_tokens
            return [(q, n) for n in range(1, self.max_num_seqs + 1)]
        table = self.lookup.dense()
        return [
            (k + 1, n)
            for n, row in enumerate(table[1:].tolist(), start=1)
            for k in sorted(set(row))
        ]

    def graphs_for_key(self, query_len: int) -> int:
        """Graphs captured for a (query_len, num_reqs) of the direct dispatcher.

        The drafter's later positions get one for every key that drafts them.
        """
        full, _, small = self.graphs_each
        return full + (1 if small and query_len > 2 else 0)

    @cached_property
    def graphs_each(self) -> tuple[int, int, int]:
        """Graphs for a FULL size, for an entry, for an entry <= max_num_seqs."""
        cases = len(self.lora_cases)
        full, small = cases, 0
        entry = cases if self.mode == "FULL_AND_PIECEWISE" else 0
        if self.drafter is not None:
            ks = set() if self.lookup is None else {t.k for t in self.lookup.tiers()}
            small = self.drafter.graphs_per_small_size(self.num_speculative_tokens, ks)
            full += 1
            if entry and self.drafter.repeats_piecewise:
                entry += 1
        return full, entry, small


def make_limits(
    max_num_seqs: object,
    num_speculative_tokens: object = 0,
    schedule: object = None,
    max_num_batched_tokens: object = 8192,
    mode: str = "FULL_AND_PIECEWISE",
    lora_cases: Iterable[int] = (0,),
    drafter: Drafter | None = None,
) -> Limits:
    """The server's limits, checked.

    Raises:
        ConfigError: One of them is out of range.
        ScheduleError: The schedule's rows break a rule.
    """
    seqs = count("max_num_seqs", max_num_seqs)
    drafts = count("num_speculative_tokens", num_speculative_tokens, low=0)
    tokens = count("max_num_batched_tokens", max_num_batched_tokens)
    if mode not in MODES:
        raise ConfigError(
            f"mode is {mode!r}; a plan chooses FULL graphs, so it needs one of "
            f"{', '.join(MODES)}"
        )
    cases = tuple(sorted({count("a LoRA case", c, low=0) for c in lora_cases}))
    if not cases:
        raise ConfigError("lora_cases is empty; (0,) means no LoRA")
    parsed: Schedule | None = None
    if schedule is not None:
        parsed = (
            schedule if isinstance(schedule, Schedule) else Schedule(schedule)  # type: ignore[arg-type]
        )
    lookup = None if parsed is None else parsed.lookup(seqs, drafts)
    if drafter is not None and drafts == 0:
        raise ConfigError(
            "a drafter is given, but num_speculative_tokens is 0; set it, or leave "
            "the drafter out"
        )
    columns = 1 if lookup is None else lookup.num_columns
    needed = _SHAPE_BYTES * seqs * columns
    if needed > MAX_SHAPE_BYTES:
        raise ConfigError(
            f"max_num_seqs = {seqs} x {columns} context columns are "
            f"{seqs * columns:,} decode shapes, about {needed / 2**30:,.1f} GiB; lower "
            "max_num_seqs to what the server runs, at most "
            f"{MAX_SHAPE_BYTES // _SHAPE_BYTES // columns:,}"
        )
    limits = Limits(seqs, drafts, parsed, lookup, tokens, mode, cases, drafter)
    if len(limits.tiers) > _MAX_QUERY_LENS:
        raise ConfigError(
            f"the schedule reaches {len(limits.tiers)} query lengths; a plan can tell "
            f"{_MAX_QUERY_LENS} apart, so use fewer distinct k"
        )
    return limits


def diagonal(
    max_num_seqs: int, num_speculative_tokens: int, schedule: object
) -> list[tuple[int, int]]:
    """Every (query_len, num_reqs) a schedule can produce, by num_reqs."""
    return make_limits(max_num_seqs, num_speculative_tokens, schedule).diagonal()


@dataclass(frozen=True)
class Steps:
    """All step shapes with a positive weight, and what they cost without graphs.

    Arrays of equal length by kind. `share` sums to 1 over both kinds.
    """

    decode_q: Int64
    decode_n: Int64
    decode_share: npt.NDArray[np.float64]
    decode_eager: npt.NDArray[np.float64]
    mixed_t: Int64
    mixed_share: npt.NDArray[np.float64]
    mixed_eager: npt.NDArray[np.float64]
    notes: tuple[str, ...] = ()


def make_steps(workload: Workload, costs: Costs, limits: Limits) -> Steps:
    """The workload with its floor, checked against the server's limits.

    Raises:
        ConfigError: A step has more requests or tokens than the server allows,
            or a cost is missing.
    """
    query_lens = {q for q, _, _ in limits.tiers}
    decode: dict[tuple[int, int], float] = {}
    mixed: dict[int, float] = {}
    notes = []
    strange: dict[int, float] = {}
    # Dividing first keeps the tiniest totals exact.
    total, keep = workload.total, 1 - workload.floor
    most = limits.max_num_batched_tokens
    for (q, n), weight in workload.decode.items():
        if weight == 0:
            continue
        if n > limits.max_num_seqs:
            raise ConfigError(
                f"the workload has steps of {n} requests (query_len {q}), but "
                f"max_num_seqs is {limits.max_num_seqs}; raise it to at least {n} or "
                "leave those steps out"
            )
        if q * n > most:
            raise ConfigError(
                f"the workload has steps of {n} requests x {q} tokens = {q * n}, but "
                f"max_num_batched_tokens is {most}; raise it or leave those steps out"
            )
        if q in query_lens:
            decode[q, n] = decode.get((q, n), 0.0) + weight / total * keep
        else:
            strange[q] = strange.get(q, 0.0) + weight / total * keep
            mixed[q * n] = mixed.get(q * n, 0.0) + weight / total * keep
    for t, weight in workload.mixed.items():
        if weight == 0:
            continue
        if t > most:
            raise ConfigError(
                f"the workload has mixed steps of {t} tokens, but "
                f"max_num_batched_tokens is {most}; raise it or leave those steps out"
            )
        mixed[t] = mixed.get(t, 0.0) + weight / total * keep
    if strange:
        shown = ", ".join(
            f"{q} ({100 * share:.1f} % of steps)"
            for q, share in sorted(strange.items())
        )
        notes.append(
            f"query lengths the schedule never produces: {shown}; counted as mixed "
            "steps, which only PIECEWISE graphs serve"
        )
    if workload.floor:
        reachable = [(q, n) for q, n in limits.diagonal() if q * n <= most]
        for key in reachable:
            decode[key] = decode.get(key, 0.0) + workload.floor / len(reachable)
    keys = sorted(decode)
    tokens = sorted(mixed)
    return Steps(
        decode_q=np.array([q for q, _ in keys], dtype=np.int64),
        decode_n=np.array([n for _, n in keys], dtype=np.int64),
        decode_share=np.array([decode[key] for key in keys], dtype=np.float64),
        decode_eager=costs.table("eager", [q * n for q, n in keys]),
        mixed_t=np.array(tokens, dtype=np.int64),
        mixed_share=np.array([mixed[t] for t in tokens], dtype=np.float64),
        mixed_eager=costs.table("eager", tokens),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class Scale:
    """Whole numbers for shares and microseconds."""

    time_exponent: int

    @classmethod
    def of(cls, *times: npt.NDArray[np.float64]) -> Scale:
        """The scale at which the longest of the times just fits."""
        longest = max((float(t.max()) for t in times if len(t)), default=0.0)
        return cls(_TIME_BITS - math.frexp(longest)[1] if longest > 0 else 0)

    def times(self, us: npt.NDArray[np.float64]) -> Int64:
        return np.rint(np.ldexp(us, self.time_exponent)).astype(np.int64)

    def resolves(self, *times: npt.NDArray[np.float64]) -> bool:
        """Whether every time is at least ten thousand units long, or zero."""
        return all(
            bool(np.all((t == 0) | (t >= math.ldexp(10_000, -self.time_exponent))))
            for t in times
        )

    @staticmethod
    def shares(shares: npt.NDArray[np.float64]) -> Int64:
        return np.rint(np.ldexp(shares, _SHARE_BITS)).astype(np.int64)

    def mean_us(self, total: int) -> float:
        """Microseconds a step from a total over all shares."""
        return math.ldexp(float(total), -_SHARE_BITS - self.time_exponent)


def required_steps(limits: Limits, budget: Budget) -> list[tuple[int, int]]:
    """The (query_len, num_reqs) that full coverage promises a FULL graph."""
    most = limits.max_num_batched_tokens
    if budget.full_coverage == "every-batch":
        return [(q, n) for q, n in limits.diagonal() if q * n <= most]
    if not budget.full_coverage:
        return []
    return [
        (q, min(widest, most // q))
        for q, narrowest, widest in limits.tiers
        if narrowest * q <= most
    ]


@dataclass(frozen=True)
class Inputs:
    """A planning task: what solvers, evaluation and what-if questions share."""

    workload: Workload
    costs: Costs
    budget: Budget
    dispatcher: str
    limits: Limits
    steps: Steps
    required: list[tuple[int, int]]
    forced_sizes: tuple[int, ...]
    forced_graphs: tuple[tuple[int, int], ...]
    min_size: int
    max_size: int
    scale: Scale
    full_us: npt.NDArray[np.float64]  # by size, 0 outside min_size..max_size
    piecewise_us: npt.NDArray[np.float64]
    graph_bytes: npt.NDArray[np.float64]
    pool_bytes: npt.NDArray[np.float64]
    graph_seconds: npt.NDArray[np.float64]
    notes: list[str] = field(default_factory=list)

    @property
    def piecewise(self) -> bool:
        """Whether PIECEWISE graphs exist."""
        return self.limits.mode == "FULL_AND_PIECEWISE"


def _measured_range(*costs: Any) -> tuple[int, float]:
    """Smallest and largest size that every one of the costs has a value for."""
    low, high = 1, math.inf
    for cost in costs:
        inner = cost
        while hasattr(inner, "cost"):
            inner = inner.cost
        if hasattr(inner, "tokens"):
            low, high = max(low, inner.tokens[0]), min(high, inner.tokens[-1])
    return low, high


def _forced(
    forced: Iterable[Any],
    dispatcher: str,
    limits: Limits,
    max_size: int | None,
    noun: str,
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Forced sizes and forced (query_len, num_reqs), checked."""
    sizes: set[int] = set()
    graphs: set[tuple[int, int]] = set()
    most = limits.max_num_batched_tokens if max_size is None else max_size
    name = "max_num_batched_tokens" if max_size is None else "max_size"
    for item in forced:
        if isinstance(item, Sequence) and not isinstance(item, str | bytes):
            if dispatcher != "direct" or len(item) != 2:
                raise ConfigError(
                    f"{noun} size {item!r}; sizes are token counts, and only the "
                    "direct dispatcher takes (query_len, num_reqs) pairs"
                )
            q = count(f"query_len of a {noun} graph", item[0])
            n = count(f"num_reqs of a {noun} graph", item[1], high=limits.max_num_seqs)
            if q not in {tier[0] for tier in limits.tiers}:
                raise ConfigError(
                    f"{noun} graph ({q}, {n}): the schedule never produces query_len "
                    f"{q}; it produces {', '.join(str(t[0]) for t in limits.tiers)}"
                )
            graphs.add((q, n))
            tokens = q * n
        else:
            tokens = count(f"a {noun} size", item)
            sizes.add(tokens)
        if tokens > most:
            raise ConfigError(
                f"{noun} size {item!r} has {tokens} tokens, above {name}={most}; "
                f"use sizes up to {most} or raise {name}"
            )
    if sizes and dispatcher == "direct" and limits.mode != "FULL_AND_PIECEWISE":
        raise ConfigError(
            f"{noun} sizes of the direct dispatcher are PIECEWISE sizes, which mode "
            f"{limits.mode} does not capture; give (query_len, num_reqs) pairs"
        )
    return tuple(sorted(sizes)), tuple(sorted(graphs))


def make_inputs(
    workload: Workload,
    costs: Costs,
    budget: Budget,
    dispatcher: str,
    limits: Limits,
    forced_sizes: Iterable[Any] = (),
    max_size: int | None = None,
    noun: str = "forced",
) -> Inputs:
    """Puts a planning task together and checks it.

    Args:
        workload: How often each step shape runs.
        costs: Step times and prices.
        budget: Limits and promises.
        dispatcher: One of `DISPATCHERS`.
        limits: The server.
        forced_sizes: Sizes, and with "direct" pairs, that must be there.
        max_size: Largest size considered; None for the largest of use.
        noun: What forced_sizes are to the caller, for messages.

    Raises:
        ConfigError: Something does not fit together; the message says what would.
    """
    if dispatcher not in DISPATCHERS:
        raise ConfigError(
            f"dispatcher is {dispatcher!r}; it is one of {', '.join(DISPATCHERS)}"
        )
    if not isinstance(workload, Workload):
        raise ConfigError(
            f"workload is {kind_of(workload)}; make it with "
            "Workload({(query_len, num_reqs): weight})"
        )
    if not isinstance(costs, Costs):
        raise ConfigError(
            f"costs is {kind_of(costs)}; make it with Costs(full, piecewise, "
            "eager) or Costs.linear(...)"
        )
    most = limits.max_num_batched_tokens
    if max_size is not None:
        max_size = count(
            "max_size",
            max_size,
            high=most,
            remedy="vLLM captures no step it cannot run",
        )
    sizes, graphs = _forced(forced_sizes, dispatcher, limits, max_size, noun)
    steps = make_steps(workload, costs, limits)
    notes = list(steps.notes)
    required = required_steps(limits, budget)

    decode_tokens = [*(steps.decode_q * steps.decode_n).tolist()]
    needed = [q * n for q, n in [*required, *graphs]] + list(sizes)
    low, measured = _measured_range(costs.full, costs.piecewise)
    if max_size is None:
        largest_mixed = int(steps.mixed_t.max(initial=0))
        wanted = max([*decode_tokens, *needed, min(largest_mixed, MIXED_CEILING), 1])
        max_size = min(wanted, most)
        if measured < max_size:
            if max(needed, default=0) > measured:
                raise ConfigError(
                    f"the cost tables end at {int(measured)} tokens, but the plan "
                    f"must hold a graph of {max(needed)}; measure up to there, or "
                    "lower max_num_seqs, or pass full_coverage=False"
                )
            notes.append(
                f"sizes above {int(measured)} tokens are not considered: the cost "
                "tables end there"
            )
            max_size = int(measured)
        above = float(steps.mixed_share[steps.mixed_t > max_size].sum())
        if above > 0:
            notes.append(
                f"{100 * above:.1f} % of steps are mixed steps of more than "
                f"{max_size} tokens and stay eager; pass max_size to consider more"
            )
    if max_size < low:
        raise ConfigError(
            f"the cost tables begin at {low} tokens, above the largest size of use, "
            f"{max_size}; measure smaller sizes"
        )
    if low > 1:
        notes.append(
            f"sizes below {low} tokens are not considered: the cost tables begin there"
        )
    # Two times, three prices and the candidates; per query length four sums.
    by_size = 8 * (6 + 4 * (1 + len(limits.tiers)))
    if by_size * max_size > MAX_TABLE_BYTES:
        raise ConfigError(
            f"sizes up to {max_size:,} tokens take tables of "
            f"{by_size * max_size / 2**30:,.1f} GiB; pass max_size, at most "
            f"{MAX_TABLE_BYTES // by_size:,}"
        )
    full = np.zeros(max_size + 1)
    piecewise = np.zeros(max_size + 1)
    full[low:] = costs.table("full", range(low, max_size + 1))
    if limits.mode == "FULL_AND_PIECEWISE":
        piecewise[low:] = costs.table("piecewise", range(low, max_size + 1))
    all_times = (full, piecewise, steps.decode_eager, steps.mixed_eager)
    scale = Scale.of(*all_times)
    if not scale.resolves(*all_times):
        shortest = min(float(t[t > 0].min(initial=math.inf)) for t in all_times)
        longest = max(float(t.max(initial=0)) for t in all_times)
        raise ConfigError(
            f"step times range from {shortest:g} to {longest:g} us, too far apart to "
            "weigh against each other. To forbid eager steps use full_coverage rather "
            "than a huge eager time"
        )
    notes += _order_notes(steps, full, piecewise)
    prices = []
    for name in ("graph_bytes", "pool_bytes", "graph_seconds"):
        table = np.zeros(max_size + 1)
        table[low:] = costs.table(name, range(low, max_size + 1))
        prices.append(table)
    if workload.assumed:
        notes.append(f"workload {workload.source}")
    if costs.assumed:
        notes.append(f"costs {costs.source}")
    return Inputs(
        workload=workload,
        costs=costs,
        budget=budget,
        dispatcher=dispatcher,
        limits=limits,
        steps=steps,
        required=required,
        forced_sizes=sizes,
        forced_graphs=graphs,
        min_size=low,
        max_size=max_size,
        scale=scale,
        full_us=full,
        piecewise_us=piecewise,
        graph_bytes=prices[0],
        pool_bytes=prices[1],
        graph_seconds=prices[2],
        notes=notes,
    )


_ARTICLE = {"PIECEWISE": "a PIECEWISE", "eager": "an eager"}


def _order_notes(steps: Steps, full: Floats, piecewise: Floats) -> list[str]:
    """Says where costs contradict what graphs are for: FULL < PIECEWISE < eager.

    One size may be out of line by noise; where most are, something is mixed up.
    """
    decode = steps.decode_q * steps.decode_n
    mixed = steps.mixed_t
    named = {"FULL": full, "PIECEWISE": piecewise}
    notes = []
    for quick, slow, tokens, slow_us in (
        ("FULL", "eager", decode, steps.decode_eager),
        ("PIECEWISE", "eager", mixed, steps.mixed_eager),
        ("FULL", "PIECEWISE", decode, None),
    ):
        inside = (tokens < len(full)) & (tokens > 0)
        at = tokens[inside]
        us = named[quick][at]
        other = named[slow][at] if slow_us is None else slow_us[inside]
        known = (us > 0) & (other > 0)
        wrong = known & (us > other)
        if 2 * int(wrong.sum()) > int(known.sum()):
            first = int(np.flatnonzero(wrong)[0])
            notes.append(
                f"the costs contradict themselves: a {quick} step is slower than "
                f"{_ARTICLE[slow]} one at {int(wrong.sum())} of {int(known.sum())} "
                f"sizes (at {int(at[first])} tokens {us[first]:g} us against "
                f"{other[first]:g} us), so the plan does without {quick} graphs where "
                "it may; are the columns or units mixed up?"
            )
    return notes


def candidate_sizes(inputs: Inputs) -> Int64:
    """The entries worth considering: no list over all sizes is better.

    Between two neighbouring multiples of the query lengths, or step sizes, all
    entries make the same FULL graphs.
    """
    marks = {*inputs.forced_sizes, inputs.limits.max_num_seqs}
    for q, _, _ in inputs.limits.tiers:
        most = min(inputs.max_size, q * inputs.limits.max_num_seqs)
        marks.update(range(q, most + 1, q))
    marks.update((inputs.steps.decode_q * inputs.steps.decode_n).tolist())
    marks.update(inputs.steps.mixed_t.tolist())
    return worthwhile_sizes(inputs, marks)


def worthwhile_sizes(inputs: Inputs, marks: set[int]) -> Int64:
    """The marks, and what may be of use between them.

    Entries between two marks differ in their PIECEWISE graph alone, so one is of
    use only if it is quicker than every smaller one, which costs no more bytes
    or seconds. Where prices fall with the size, all are kept.
    """
    low, high = inputs.min_size, inputs.max_size
    kept = sorted(m for m in marks if low <= m <= high)
    sizes = set(kept)
    prices = (inputs.graph_bytes, inputs.pool_bytes, inputs.graph_seconds)
    rising = all(bool(np.all(np.diff(p[low:]) >= 0)) for p in prices)
    if inputs.piecewise or not rising:
        for before, mark in pairwise([low - 1, *kept, high + 1]):
            best = math.inf
            for size in range(before + 1, mark):
                time = float(inputs.piecewise_us[size])
                if time < best or not rising:
                    sizes.add(size)
                    best = min(best, time)
    return np.array(sorted(sizes), dtype=np.int64)
