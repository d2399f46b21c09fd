# SPDX-License-Identifier: Apache-2.0
"""Capture plans: the best graphs for a budget.

`plan_captures` solves, `evaluate_captures` judges any list, and a `CapturePlan`
is the answer with everything a person or the plug-in needs from it. How it is
solved is in docs/planner.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from specgrid._budget import Budget, Drafter
from specgrid._costs import Costs, shifted
from specgrid._errors import ConfigError
from specgrid._plan_file import FORMAT, VERSION, Fields, read_plan, write_plan
from specgrid._plan_inputs import (
    DISPATCHERS,
    MODES,
    Floats,
    Inputs,
    Int64,
    make_inputs,
    make_limits,
)
from specgrid._plan_solve import MAX_LABELS, Entry, Solution, Solved, solve
from specgrid._plan_value import (
    Captures,
    CaptureValue,
    price,
    serve,
    total_time,
    value,
)
from specgrid._read import File
from specgrid._rows import RowsLike
from specgrid._schedule import Schedule
from specgrid._version import __version__
from specgrid._workload import Workload

Dispatcher = Literal["union", "per-query-length", "direct"]


class FrontierPoint(NamedTuple):
    """The best plan within one budget.

    Attributes:
        num_graphs: Graphs it captures; the best for every budget from here to
            the next point.
        mean_step_us: Mean step time, microseconds.
        graph_bytes: Bytes by the cost model, the pool included.
        graph_seconds: Seconds of capturing by the cost model.
        sizes: Capture sizes in tokens, ascending.
        graphs: (query_len, num_reqs) of FULL graphs; empty unless direct.
    """

    num_graphs: int
    mean_step_us: float
    graph_bytes: float
    graph_seconds: float
    sizes: tuple[int, ...]
    graphs: tuple[tuple[int, int], ...]


class _Frontier(Sequence[FrontierPoint]):
    """The solver's points, priced and named when somebody asks for them."""

    def __init__(self, inputs: Inputs, points: Sequence[Solution]) -> None:
        self._inputs, self._points = inputs, points

    def __len__(self) -> int:
        return len(self._points)

    @overload
    def __getitem__(self, index: int) -> FrontierPoint: ...
    @overload
    def __getitem__(self, index: slice) -> list[FrontierPoint]: ...
    def __getitem__(self, index: int | slice) -> FrontierPoint | list[FrontierPoint]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return _frontier_point(self._inputs, self._points[index])

    def __reduce__(self) -> tuple[Any, ...]:
        return (tuple, (list(self),))


@dataclass(frozen=True)
class CapturePlan:
    """The captures that make the mean step shortest within a budget.

    Attributes:
        sizes: Capture sizes in tokens, ascending: the list for vLLM. With the
            direct dispatcher the PIECEWISE sizes alone.
        graphs: (query_len, num_reqs) of the FULL graphs, direct dispatcher only;
            else empty.
        dispatcher: "union", "per-query-length" or "direct".
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: vLLM's static number of draft tokens.
        schedule: The schedule it was made for, or None.
        schedule_digest: `Lookup.digest` of that schedule, or None.
        max_num_batched_tokens: Most tokens in a step.
        mode: vLLM's cudagraph_mode.
        lora_cases: Active-LoRA counts captured.
        rule: How vLLM turns the sizes into graphs; "vllm-0.33".
        value: What the captures do for the workload.
        frontier: The best plan for every budget, by rising num_graphs. Under
            limits on bytes or seconds that differ by size, the corners of the
            trade-off. Empty for a loaded plan.
        optimal: Whether no plan within the budget is better.
        gap: How much better one could at most be, as a share of mean_step_us; 0
            when optimal.
        lower_bound_us: Mean step if every step had a graph of its own size, or what
            is quicker by the costs: a larger graph, or none. No plan is below.
        eager_us: Mean step without any graph.
        assumed: Whether the workload or the costs are assumed, not measured.
        notes: What was left out or assumed, each a sentence.
    """

    sizes: list[int]
    graphs: list[tuple[int, int]]
    dispatcher: str
    max_num_seqs: int
    num_speculative_tokens: int
    schedule: Schedule | None
    schedule_digest: str | None
    max_num_batched_tokens: int
    mode: str
    lora_cases: tuple[int, ...]
    rule: str
    value: CaptureValue
    frontier: Sequence[FrontierPoint] = field(repr=False, compare=False)
    optimal: bool
    gap: float
    lower_bound_us: float | None
    eager_us: float
    assumed: bool
    notes: tuple[str, ...]
    _inputs: Inputs | None = field(default=None, repr=False, compare=False)

    @property
    def mean_step_us(self) -> float:
        """Mean step time over the workload and its floor, microseconds."""
        return self.value.mean_step_us

    def at(self, num_graphs: int) -> FrontierPoint:
        """The best plan with at most that many graphs.

        Args:
            num_graphs: The budget in question.

        Returns:
            The point of the frontier.

        Raises:
            ConfigError: No plan is that small.
        """
        fitting = [p for p in self.frontier if p.num_graphs <= num_graphs]
        if not fitting:
            least = f"{self.frontier[0].num_graphs} graphs" if self.frontier else "none"
            raise ConfigError(
                f"no plan on the frontier has at most {num_graphs} graphs; the "
                f"smallest has {least}"
            )
        return min(fitting, key=lambda point: point.mean_step_us)

    def vllm_args(self, path: str | Path = "plan.json") -> list[str]:
        """The flags that give vLLM this plan, ready to append to ``vllm serve``.

        Args:
            path: Where the plan is (or will be) saved; only a direct plan names
                it, since plain vLLM has no flag for keyed graphs.

        Returns:
            Arguments, one an element; ``shlex.join`` makes a line of them. Leave
            ``--max-cudagraph-capture-size`` out beside them: vLLM refuses to
            start when it differs from the last size.

        Example:
            >>> plan = plan_captures(
            ...     Workload({(1, 1): 1, (1, 4): 1}), Costs.linear(100, 1, 30, 90),
            ...     max_num_seqs=4, budget=Budget(graphs=4))
            >>> plan.vllm_args()
            ['--cudagraph-capture-sizes', '1', '4']
        """
        settings: dict[str, Any] = {}
        args: list[str] = []
        if self.dispatcher == "direct":
            # The plug-in sets the sizes itself; a list beside it would conflict.
            settings = {"plan": str(path)}
        elif self.sizes:
            args = ["--cudagraph-capture-sizes", *map(str, self.sizes)]
            if self.dispatcher == "per-query-length":
                settings = {"policy": "per-query-length"}
        mode = self.mode if self.sizes or self.graphs else "NONE"
        if mode != "FULL_AND_PIECEWISE":
            args += ["--compilation-config", json.dumps({"cudagraph_mode": mode})]
        if settings:
            args += ["--additional-config", json.dumps({"specgrid": settings})]
        return args

    def worth(self) -> dict[int | tuple[int, int], float]:
        """What each capture saves: how much longer the mean step is without it.

        The other captures stay as they are and the dispatcher decides anew, so
        neighbouring entries take over. Entries that full coverage or a forced
        size demand are included; theirs is the price of the promise.

        Returns:
            Microseconds by size, or by (query_len, num_reqs), in plan order.

        Raises:
            ConfigError: The plan was loaded, and no workload is with it.
        """
        inputs = self._known("worth")
        out: dict[int | tuple[int, int], float] = {}
        base = self.mean_step_us
        keyed = self.dispatcher == "direct"
        for size in self.sizes:
            rest = tuple(s for s in self.sizes if s != size)
            left = Captures(rest, tuple(self.graphs) if keyed else None)
            out[size] = value(inputs, left).mean_step_us - base
        for graph in self.graphs:
            kept = tuple(g for g in self.graphs if g != graph)
            left = Captures(tuple(self.sizes), kept)
            out[graph] = value(inputs, left).mean_step_us - base
        return out

    def eager_shift_range(self, num_threads: int | None = None) -> tuple[float, float]:
        """How far the eager step time may move before another plan is better.

        Useful where nobody measured it: a wide range says that it does not
        matter. Every plan's mean is a straight line in the shift, so the ends
        are exact, found by a few solves each.

        Args:
            num_threads: As in `plan_captures`.

        Returns:
            (lowest, highest) shift of every eager step in microseconds for which
            this plan stays the best; minus or plus infinity where no shift
            tried, down to an eager step as fast as a FULL one and up to a
            thousand times slower, changes it.

        Raises:
            ConfigError: The plan was loaded, and no workload is with it.
        """
        inputs = self._known("eager_shift_range")
        eager = [*inputs.steps.decode_eager, *inputs.steps.mixed_eager]
        tokens = [
            *(inputs.steps.decode_q * inputs.steps.decode_n).tolist(),
            *inputs.steps.mixed_t.tolist(),
        ]
        margins = [
            us - inputs.full_us[min(t, inputs.max_size)]
            for us, t in zip(eager, tokens, strict=True)
        ]
        # Not quite to the end: an eager step must not take less than nothing.
        lowest = -min(max(float(min(margins)), 0.0), float(min(eager))) * (1 - 1e-9)
        highest = 1000.0 * float(max(eager))
        return (
            -self._shift_end(inputs, -1, -lowest, num_threads),
            self._shift_end(inputs, 1, highest, num_threads),
        )

    def _shift_end(
        self, inputs: Inputs, sign: int, farthest: float, num_threads: int | None
    ) -> float:
        """Distance to the first shift in one direction at which a plan is better."""
        keyed = self.dispatcher == "direct"
        mine = Captures(tuple(self.sizes), tuple(self.graphs) if keyed else None)
        distance, end = farthest, math.inf
        for _ in range(64):
            if distance <= 0:
                return end if end < math.inf else math.inf
            shift = sign * distance
            moved = _rebuilt(inputs, shifted(inputs.costs, shift))
            found = _captures(moved, solve(moved, num_threads=num_threads).chosen)
            here, there = value(moved, mine), value(moved, found)
            better = here.mean_step_us - there.mean_step_us
            if better <= 1e-9 * here.mean_step_us:
                return end
            # The two lines meet where the other plan's lead is used up.
            rate = sign * (here.eager_share - there.eager_share)
            if rate <= 0:
                return end
            end = distance - better / rate
            distance = end
        return end

    def _known(self, what: str) -> Inputs:
        if self._inputs is None:
            raise ConfigError(
                f"{what}() needs the workload and the costs, which a saved plan does "
                "not hold; make the plan again with plan_captures"
            )
        return self._inputs

    def save(self, path: str | Path) -> None:
        """Writes the plan as JSON, all or nothing.

        The format is in docs/planner.md; the plug-in reads it.

        Args:
            path: File to write; an existing one is replaced in one step.
        """
        write_plan(path, _to_json(self))

    @classmethod
    def load(cls, path: str | Path | File) -> CapturePlan:
        """Reads a plan that `save` wrote.

        Args:
            path: File to read.

        Returns:
            The plan, without its frontier and what-if questions.

        Raises:
            ConfigError: The file is missing, too large, not a plan, or from a
                version this one does not know; the message says which.
        """
        return _from_json(read_plan(path), str(path))


def plan_captures(
    workload: Workload,
    costs: Costs,
    *,
    schedule: Schedule | RowsLike | None = None,
    max_num_seqs: int,
    num_speculative_tokens: int = 0,
    budget: Budget | None = None,
    dispatcher: Dispatcher | str = "union",
    max_num_batched_tokens: int = 8192,
    lora_cases: Iterable[int] = (0,),
    forced_sizes: Iterable[int | Sequence[int]] = (),
    drafter: Drafter | None = None,
    mode: str = "FULL_AND_PIECEWISE",
    max_size: int | None = None,
    num_threads: int | None = None,
    max_labels: int = MAX_LABELS,
    time_limit_s: float | None = None,
) -> CapturePlan:
    """The captures that make the mean step shortest within a budget, exactly.

    Args:
        workload: How often each step shape runs.
        costs: Step times and the price of a graph.
        schedule: The draft schedule, or its rows; None for a static K.
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: vLLM's static number of draft tokens.
        budget: Limits; `Budget()` (none, with full coverage) when not given.
        dispatcher: "union": vLLM 0.33.0 as shipped, one ladder for all query
            lengths. "per-query-length": a ladder each (#56136, and specgrid's
            policy of that name). "direct": graphs keyed by query length and
            requests; a decode step above its ladder is eager.
        max_num_batched_tokens: Most tokens in a step.
        lora_cases: Active-LoRA counts captured; each multiplies the graphs.
        forced_sizes: Sizes in tokens the plan must contain; with "direct" also
            (query_len, num_reqs) pairs.
        drafter: Which graphs the drafter captures too; None for none.
        mode: "FULL_AND_PIECEWISE", or "FULL_DECODE_ONLY" for no PIECEWISE graphs.
        max_size: Largest size considered, tokens. Without it: the largest decode
            step, or the largest mixed step up to 1024.
        num_threads: Threads; None for the machine's, at most eight. The plan
            does not depend on it.
        max_labels: How much is remembered per size when bytes or seconds differ
            from graph to graph; a plan that ran out of it states its gap.
        time_limit_s: Seconds of solving after which the best plan found so far
            is the answer, with its proven gap; None to go on until the best is
            known. One pass over the sizes is always made.

    Returns:
        The plan. Among equally good ones: fewest graphs, fewest sizes, the
        smaller largest size, the smaller next-largest, and so on.

    Raises:
        ConfigError: The task is contradictory or nothing fits the budget; the
            message says what would.
        ScheduleError: The schedule's rows break a rule.

    Example:
        >>> plan = plan_captures(
        ...     Workload({(1, 1): 1, (1, 4): 1}), Costs.linear(100, 1, 30, 90),
        ...     max_num_seqs=4, budget=Budget(graphs=4))
        >>> plan.sizes, plan.optimal
        ([1, 4], True)
    """
    limits = make_limits(
        max_num_seqs,
        num_speculative_tokens,
        schedule,
        max_num_batched_tokens,
        mode,
        lora_cases,
        drafter,
    )
    inputs = make_inputs(
        workload,
        costs,
        Budget() if budget is None else budget,
        dispatcher,
        limits,
        forced_sizes,
        max_size,
    )
    solved = solve(
        inputs,
        num_threads=num_threads,
        max_labels=max_labels,
        time_limit_s=_seconds(time_limit_s),
    )
    chosen = _captures(inputs, solved.chosen)
    _check(inputs, solved.chosen, chosen)
    worth = value(inputs, chosen)
    gap = (solved.chosen.time - solved.bound) / max(solved.chosen.time, 1)
    return CapturePlan(
        sizes=list(chosen.sizes),
        graphs=list(chosen.graphs or ()),
        dispatcher=dispatcher,
        max_num_seqs=limits.max_num_seqs,
        num_speculative_tokens=limits.num_speculative_tokens,
        schedule=limits.schedule,
        schedule_digest=None if limits.lookup is None else limits.lookup.digest,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        mode=limits.mode,
        lora_cases=limits.lora_cases,
        rule="vllm-0.33",
        value=worth,
        frontier=_Frontier(inputs, solved.points),
        optimal=solved.bound >= solved.chosen.time,
        gap=max(gap, 0.0),
        lower_bound_us=_lower_bound(inputs),
        eager_us=value(
            inputs, Captures((), () if dispatcher == "direct" else None)
        ).mean_step_us,
        assumed=(workload.assumed or costs.assumed or costs.eager_penalty_assumed),
        notes=(*inputs.notes, *_time_note(solved, time_limit_s, gap)),
        _inputs=inputs,
    )


def _seconds(limit: object) -> float | None:
    """A time limit as given, checked."""
    if limit is None:
        return None
    if (
        isinstance(limit, bool)
        or not isinstance(limit, int | float)
        or not 0 < limit < math.inf
    ):
        raise ConfigError(
            f"time_limit_s is {limit!r:.80}; it is a number of seconds above 0, or "
            "None for no limit"
        )
    return float(limit)


def _time_note(solved: Solved, limit: float | None, gap: float) -> tuple[str, ...]:
    if not solved.out_of_time or gap <= 0:
        return ()
    return (
        f"solving stopped after {limit:g} seconds: no plan within the budget is more "
        f"than {gap:.2%} faster",
    )


def evaluate_captures(
    sizes: Iterable[int],
    workload: Workload,
    costs: Costs,
    *,
    graphs: Iterable[Sequence[int]] | None = None,
    schedule: Schedule | RowsLike | None = None,
    max_num_seqs: int,
    num_speculative_tokens: int = 0,
    dispatcher: Dispatcher | str = "union",
    max_num_batched_tokens: int = 8192,
    lora_cases: Iterable[int] = (0,),
    drafter: Drafter | None = None,
    mode: str = "FULL_AND_PIECEWISE",
) -> CaptureValue:
    """What a given list of captures does for a workload.

    Args:
        sizes: Capture sizes in tokens; with "direct" the PIECEWISE sizes.
        workload: How often each step shape runs.
        costs: Step times and the price of a graph.
        graphs: (query_len, num_reqs) of the FULL graphs, with "direct".
        schedule: As in `plan_captures`.
        max_num_seqs: As in `plan_captures`.
        num_speculative_tokens: As in `plan_captures`.
        dispatcher: As in `plan_captures`.
        max_num_batched_tokens: As in `plan_captures`.
        lora_cases: As in `plan_captures`.
        drafter: As in `plan_captures`.
        mode: As in `plan_captures`.

    Returns:
        The value.

    Raises:
        ConfigError: As `plan_captures`, or a size above max_num_batched_tokens,
            which vLLM would drop.

    Example:
        >>> value = evaluate_captures(
        ...     [4], Workload({(1, 1): 1, (1, 4): 1}, floor=0),
        ...     Costs.linear(100, 1, 30, 90), max_num_seqs=4)
        >>> value.mean_step_us, value.full_share, value.num_graphs
        (104.0, 1.0, 2)
    """
    limits = make_limits(
        max_num_seqs,
        num_speculative_tokens,
        schedule,
        max_num_batched_tokens,
        mode,
        lora_cases,
        drafter,
    )
    keyed = [tuple(graph) for graph in graphs or ()]
    if keyed and dispatcher != "direct":
        raise ConfigError(
            f"graphs are given, but the dispatcher is {dispatcher!r}; only 'direct' "
            "keys graphs by (query_len, num_reqs)"
        )
    inputs = make_inputs(
        workload,
        costs,
        Budget(full_coverage=False),
        dispatcher,
        limits,
        [*sizes, *keyed],
        noun="capture",
    )
    return value(
        inputs,
        Captures(
            inputs.forced_sizes,
            inputs.forced_graphs if dispatcher == "direct" else None,
        ),
    )


def _captures(inputs: Inputs, solution: Solution) -> Captures:
    """The solver's entries as lists."""
    return Captures(*_split(inputs, solution.entries))


def _split(
    inputs: Inputs, entries: Sequence[Entry]
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...] | None]:
    sizes = tuple(e.size for e in entries if e.graph is None)
    if inputs.dispatcher != "direct":
        return sizes, None
    return sizes, tuple(e.graph for e in entries if e.graph is not None)


def _check(inputs: Inputs, solution: Solution, captures: Captures) -> None:
    """Refuses a plan that the dispatcher does not confirm, time and count."""
    confirmed = (
        total_time(inputs, serve(inputs, captures)),
        price(inputs, captures)[2],
    )
    if confirmed != (solution.time, solution.graphs):
        raise RuntimeError(
            "the planner's (time, graphs) of its plan are not what dispatch makes of "
            f"it: {(solution.time, solution.graphs)} against {confirmed} for "
            f"{captures}; this is a defect in specgrid, please report it"
        )


def _frontier_point(inputs: Inputs, solution: Solution) -> FrontierPoint:
    captures = _captures(inputs, solution)
    priced = price(inputs, captures)
    return FrontierPoint(
        num_graphs=solution.graphs,
        mean_step_us=inputs.scale.mean_us(solution.time),
        graph_bytes=priced[0],
        graph_seconds=priced[1],
        sizes=captures.sizes,
        graphs=captures.graphs or (),
    )


def _lower_bound(inputs: Inputs) -> float | None:
    """Mean step if every step had the graph that suits it best; None if unknown.

    The best graph is that of the step's own size, unless a larger one, or none at
    all, is quicker by the costs given.
    """
    steps, costs = inputs.steps, inputs.costs
    decode_tokens = (steps.decode_q * steps.decode_n).tolist()
    mixed_tokens = steps.mixed_t.tolist()
    try:
        decode = costs.table("full", decode_tokens)
        mixed = steps.mixed_eager
        if inputs.piecewise:
            mixed = costs.table("piecewise", mixed_tokens)
    except ConfigError:
        return None
    full, piecewise = _cheapest_above(inputs)
    decode = np.minimum(decode, steps.decode_eager)
    mixed = np.minimum(mixed, steps.mixed_eager)
    decode = np.minimum(
        decode, np.minimum(full, piecewise)[_within(full, decode_tokens)]
    )
    mixed = np.minimum(mixed, piecewise[_within(full, mixed_tokens)])
    return float(decode @ steps.decode_share + mixed @ steps.mixed_share)


def _cheapest_above(inputs: Inputs) -> tuple[Floats, Floats]:
    """Least FULL and PIECEWISE time of a graph of at least so many tokens."""
    out = []
    end = inputs.max_size if inputs.piecewise else 0
    for largest, us in (
        (min(inputs.limits.max_decode_tokens, inputs.max_size), inputs.full_us),
        (end, inputs.piecewise_us),
    ):
        padded = np.full(len(us) + 1, math.inf)  # the last: no graph is that large
        sizes = slice(inputs.min_size, largest + 1)
        padded[sizes] = us[sizes]
        out.append(np.minimum.accumulate(padded[::-1])[::-1])
    return out[0], out[1]


def _within(table: Floats, tokens: list[int]) -> Int64:
    return np.minimum(np.array(tokens, dtype=np.int64), len(table) - 1)


def _rebuilt(inputs: Inputs, costs: Costs) -> Inputs:
    """The same task with other costs."""
    return make_inputs(
        inputs.workload,
        costs,
        inputs.budget,
        inputs.dispatcher,
        inputs.limits,
        [*inputs.forced_sizes, *inputs.forced_graphs],
        inputs.max_size,
    )


def _to_json(plan: CapturePlan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "specgrid": __version__,
        "max_num_seqs": plan.max_num_seqs,
        "num_speculative_tokens": plan.num_speculative_tokens,
        "max_num_batched_tokens": plan.max_num_batched_tokens,
        "schedule": None if plan.schedule is None else plan.schedule.to_rows(),
        "schedule_digest": plan.schedule_digest,
        "rule": plan.rule,
        "dispatcher": plan.dispatcher,
        "mode": plan.mode,
        "lora_cases": list(plan.lora_cases),
        "sizes": plan.sizes,
        "graphs": [list(graph) for graph in plan.graphs],
        "value": {f.name: getattr(plan.value, f.name) for f in fields(plan.value)},
        "optimal": plan.optimal,
        "gap": plan.gap,
        "lower_bound_us": plan.lower_bound_us,
        "eager_us": plan.eager_us,
        "assumed": plan.assumed,
        "notes": list(plan.notes),
    }


def _from_json(data: Mapping[str, Any], path: str) -> CapturePlan:
    file = Fields(dict(data), path)
    tokens = file.integer("max_num_batched_tokens", 1)
    seqs = file.integer("max_num_seqs", 1)
    drafts = file.integer("num_speculative_tokens")
    schedule = None
    if file.raw("schedule") is not None:
        try:
            schedule = Schedule(file.listed("schedule"))
            digest = schedule.lookup(seqs, drafts).digest
        except ValueError as error:
            raise file.fault("schedule", f"is not valid: {error}") from None
        if file.text("schedule_digest") != digest:
            raise file.fault("schedule_digest", "does not belong to the schedule")
    graphs: list[tuple[int, int]] = []
    for pair in file.listed("graphs"):
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or any(isinstance(x, bool) or not isinstance(x, int) for x in pair)
            or not 1 <= pair[0] <= 1 + drafts
            or not 1 <= pair[1] <= seqs
            or pair[0] * pair[1] > tokens
        ):
            raise file.fault("graphs", f"holds {pair!r:.80}, not [query_len, num_reqs]")
        graphs.append((pair[0], pair[1]))
    dispatcher = file.text("dispatcher", DISPATCHERS)
    if graphs and dispatcher != "direct":
        raise file.fault("graphs", f"is not empty under dispatcher {dispatcher!r}")
    shape = Fields(_object(file, "value"), path)
    shares = ("full_share", "piecewise_share", "eager_share")
    if abs(sum(shape.number(share, 1.0) for share in shares) - 1) > 1e-6:
        raise file.fault("value", f"has {', '.join(shares)} that do not add up to 1")
    return CapturePlan(
        sizes=file.integers("sizes", high=tokens),
        graphs=graphs,
        dispatcher=dispatcher,
        max_num_seqs=seqs,
        num_speculative_tokens=drafts,
        schedule=schedule,
        schedule_digest=None if schedule is None else digest,
        max_num_batched_tokens=tokens,
        mode=file.text("mode", MODES),
        lora_cases=tuple(file.integers("lora_cases", low=0)),
        rule=file.text("rule", ("vllm-0.33",)),
        value=CaptureValue(
            mean_step_us=shape.number("mean_step_us"),
            full_share=shape.number("full_share", 1.0),
            piecewise_share=shape.number("piecewise_share", 1.0),
            eager_share=shape.number("eager_share", 1.0),
            padding=shape.number("padding"),
            num_graphs=shape.integer("num_graphs"),
            graph_bytes=shape.number("graph_bytes"),
            graph_seconds=shape.number("graph_seconds"),
        ),
        frontier=(),
        optimal=file.flag("optimal"),
        gap=file.number("gap", 1.0),
        lower_bound_us=file.optional_number("lower_bound_us"),
        eager_us=file.number("eager_us"),
        assumed=file.flag("assumed"),
        notes=tuple(str(note) for note in file.listed("notes")),
    )


def _object(file: Fields, name: str) -> dict[str, Any]:
    value = file.raw(name)
    if not isinstance(value, dict):
        raise file.fault(name, f"is {value!r:.80}, not an object")
    return value
