# SPDX-License-Identifier: Apache-2.0
"""Schedule and captures chosen together, under one budget of graphs.

More tiers of K need more graphs, so the best schedule on its own is not always
the best one for few graphs. For a shared list of sizes every schedule of a
stated family gets its own best captures and the best pair wins; for graphs keyed
by (query length, requests) the pair is found exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specgrid import _backend
from specgrid._budget import Budget, Drafter
from specgrid._costs import Costs
from specgrid._errors import ConfigError
from specgrid._plan import CapturePlan, plan_captures
from specgrid._schedule import Schedule
from specgrid._tune import TunedSchedule
from specgrid._workload import Workload

# Boundaries of a schedule are also tried where the step is a multiple of these.
_ROUND_TOKENS = (8, 16, 32, 64)
_MAX_FAMILY = 48


class Pair(NamedTuple):
    """A schedule with its captures, the best for every budget from here on.

    Attributes:
        num_graphs: Graphs captured.
        schedule: The schedule.
        sizes: Capture sizes, tokens; empty for keyed graphs.
        graphs: (query_len, num_reqs) of keyed graphs; empty for a shared list.
        us_per_token: Time per emitted token, all requests together, microseconds.
    """

    num_graphs: int
    schedule: Schedule
    sizes: tuple[int, ...]
    graphs: tuple[tuple[int, int], ...]
    us_per_token: float


@dataclass(frozen=True)
class JointPlan:
    """The best schedule and captures for every budget.

    Attributes:
        best: The pair for the budget asked for.
        plan: Its capture plan; None for keyed graphs.
        frontier: The best pair for each number of graphs.
        change_below: With fewer graphs than this another schedule is better than
            the one for ample graphs; None if that one stays the best.
        family: Which schedules were compared, in words.
        num_schedules: How many.
    """

    best: Pair
    plan: CapturePlan | None
    frontier: tuple[Pair, ...]
    change_below: int | None
    family: str
    num_schedules: int


def tune_with_captures(
    tuned: TunedSchedule,
    costs: Costs,
    *,
    budget: Budget | None = None,
    dispatcher: str = "union",
    mixed: Mapping[int, float] | None = None,
    max_num_batched_tokens: int = 8192,
    lora_cases: Sequence[int] = (0,),
    drafter: Drafter | None = None,
    threads: int | None = None,
) -> JointPlan:
    """Chooses schedule and captures together.

    A step costs what was measured for its (batch, context, K), plus what its
    graph adds over a FULL graph of exactly its own size by `costs`: padding, and
    the price of PIECEWISE or eager.

    Args:
        tuned: A tuned schedule; its frontier is the family compared, and its
            weights are the load.
        costs: Step time by tokens in each mode; only differences matter.
        budget: Limits, as in `plan_captures`; none when not given.
        dispatcher: As in `plan_captures`. "direct" (one dimension only) is exact
            over all schedules whose K does not rise with the batch.
        mixed: Steps with a prefill by tokens, per emitted token of the weights.
        max_num_batched_tokens: Most tokens in a step.
        lora_cases: Active-LoRA counts captured.
        drafter: Which graphs the drafter captures too.
        threads: As in `tune_schedule`.

    Raises:
        ConfigError: If nothing fits the budget.

    Example:
        >>> from specgrid import tune_schedule
        >>> points = [(b, 0, k, 7000 + 500 * k + 260 * b * (k + 1))
        ...           for b in (1, 16, 32, 64) for k in (0, 1, 3)]
        >>> tuned = tune_schedule(points, [0.7, 0.45, 0.3], max_num_seqs=64,
        ...                       num_speculative_tokens=3)
        >>> plan = tune_with_captures(tuned, Costs.linear(7000, 260, 3000, 12000),
        ...                           budget=Budget(graphs=12))
        >>> plan.best.num_graphs <= 12
        True
    """
    budget = Budget() if budget is None else budget
    if dispatcher == "direct":
        return _direct(tuned, costs, budget)
    family, described = _family(tuned)
    points: list[Pair] = []
    plans: dict[Schedule, CapturePlan] = {}
    reasons: list[str] = []
    for schedule in family:
        load = _load_of(tuned, schedule, mixed)
        try:
            plan = plan_captures(
                Workload(load.steps, load.mixed, floor=0.0),
                costs,
                schedule=schedule,
                max_num_seqs=tuned.max_num_seqs,
                num_speculative_tokens=tuned.num_speculative_tokens,
                budget=budget,
                dispatcher=dispatcher,
                max_num_batched_tokens=max_num_batched_tokens,
                lora_cases=lora_cases,
                drafter=drafter,
                num_threads=threads,
            )
        except ConfigError as error:
            reasons.append(str(error))
            continue
        plans[schedule] = plan
        base = load.measured_us - load.own_size_us(costs)
        points += [
            Pair(
                point.num_graphs,
                schedule,
                point.sizes,
                (),
                (base + load.total * point.mean_step_us) / load.tokens,
            )
            for point in plan.frontier
        ]
    if not points:
        raise ConfigError(reasons[0])
    frontier = _improving(points)
    if budget.graphs is not None:
        frontier = [p for p in frontier if p.num_graphs <= budget.graphs]
    best = frontier[-1]
    plan = plans[best.schedule]
    return JointPlan(
        best,
        plan,
        tuple(frontier),
        _change_below(frontier),
        described,
        len(family),
    )


class _Load(NamedTuple):
    """What a schedule makes of the tuned weights.

    Attributes:
        steps: Steps by (query_len, num_reqs).
        mixed: Mixed steps by tokens.
        tokens: Tokens emitted.
        measured_us: Time of all decode steps as measured, unpadded.
    """

    steps: dict[tuple[int, int], float]
    mixed: dict[int, float]
    tokens: float
    measured_us: float

    @property
    def total(self) -> float:
        return math.fsum([*self.steps.values(), *self.mixed.values()])

    def own_size_us(self, costs: Costs) -> float:
        """The decode steps by the cost model, each on a graph of its own size."""
        return math.fsum(
            weight * costs.full(query_len * num_reqs)
            for (query_len, num_reqs), weight in self.steps.items()
        )


def _load_of(
    tuned: TunedSchedule, schedule: Schedule, mixed: Mapping[int, float] | None
) -> _Load:
    problem = tuned.problem
    table = problem.labels_of(schedule)
    step_us = problem.step_us_of(table)
    gained = np.take_along_axis(problem.tokens_per_step, table, axis=0)
    known = ~np.isnan(step_us)
    steps = np.where(known, problem.work() / gained, 0.0)
    query_len = np.array(problem.ks)[table] + 1
    by_shape: dict[tuple[int, int], float] = {}
    for row, column in np.argwhere(steps > 0).tolist():
        key = (int(query_len[row, column]), row + 1)
        by_shape[key] = by_shape.get(key, 0.0) + float(steps[row, column])
    batches = np.arange(1, problem.max_num_seqs + 1)[:, None]
    return _Load(
        by_shape,
        dict(mixed or {}),
        float(np.where(known, problem.work() * batches, 0.0).sum()),
        float((steps * np.where(known, step_us, 0.0)).sum()),
    )


def _family(tuned: TunedSchedule) -> tuple[list[Schedule], str]:
    """The schedules compared: the frontier, and its boundaries moved a little."""
    schedules = [point.schedule for point in tuned.frontier]
    if tuned.schedule not in schedules and len(tuned.entries) <= _MAX_FAMILY:
        schedules.append(tuned.schedule)
    described = f"the {len(schedules)} schedules of the frontier"
    flat = [schedule for schedule in schedules if not schedule.is_2d]
    if len(flat) == len(schedules):
        for schedule in flat:
            schedules += _moved(schedule.to_rows())
        described += ", and each with one boundary at a round number of tokens"
    unique = list(dict.fromkeys(schedules))[:_MAX_FAMILY]
    return unique, described


def _moved(rows: list[list[int]]) -> list[Schedule]:
    """One boundary at a time, at the nearest batches of a round step below."""
    out = []
    for i in range(len(rows) - 1):
        (low, high, k), (_, last, next_k) = rows[i], rows[i + 1]
        for tokens in _ROUND_TOKENS:
            per_batch = tokens // math.gcd(tokens, k + 1)
            for end in (
                high // per_batch * per_batch,
                -(-high // per_batch) * per_batch,
            ):
                near = abs(end - high) <= max(2, high // 8)
                if end != high and low <= end < last and near:
                    changed = [row[:] for row in rows]
                    changed[i] = [low, end, k]
                    changed[i + 1] = [end + 1, last, next_k]
                    out.append(Schedule(changed))
    return out


def _improving(points: list[Pair]) -> list[Pair]:
    """Points that beat every point with as many graphs or fewer."""
    frontier: list[Pair] = []
    for point in sorted(points, key=lambda p: (p.num_graphs, p.us_per_token)):
        if not frontier or point.us_per_token < frontier[-1].us_per_token * (1 - 1e-9):
            if frontier and frontier[-1].num_graphs == point.num_graphs:
                frontier.pop()
            frontier.append(point)
    return frontier


def _change_below(frontier: Sequence[Pair]) -> int | None:
    """Graphs from which on the schedule no longer changes."""
    last = frontier[-1].schedule
    for before, point in zip(frontier[-2::-1], frontier[::-1], strict=False):
        if before.schedule != last:
            return point.num_graphs
    return None


def _direct(tuned: TunedSchedule, costs: Costs, budget: Budget) -> JointPlan:
    """Graphs keyed by (K, requests): exact, K non-increasing in the batch."""
    problem = tuned.problem
    if len(problem.columns) > 1:
        raise ConfigError(
            "keyed graphs and schedule are chosen together in one dimension only; "
            "tune with contexts=[one context]"
        )
    if budget.bytes is not None or budget.seconds is not None:
        raise ConfigError(
            "keyed graphs and schedule are chosen together under a number of graphs; "
            "give Budget(graphs=...)"
        )
    most = 2 * problem.max_num_seqs if budget.graphs is None else budget.graphs
    most = min(most, 2 * problem.max_num_seqs, 512)
    labels = len(problem.ks)
    step_us = np.stack([problem.step_us_of(label) for label in range(labels)])[:, :, 0]
    measured = np.asarray(~np.isnan(step_us).all(axis=0))
    reach = int(np.flatnonzero(measured)[-1]) + 1
    first = int(np.flatnonzero(measured)[0])
    if not measured[first:reach].all():
        raise ConfigError("a batch between measured ones was not measured")
    step_us = step_us[:, first:reach]
    penalty = np.array(
        [
            [
                costs.eager(n * (k + 1)) - costs.full(n * (k + 1))
                for n in range(first + 1, reach + 1)
            ]
            for k in problem.ks
        ]
    )
    gained = problem.tokens_per_step[:, 0][:, None]
    graph_us = np.where(np.isnan(step_us), math.inf, step_us / gained)
    eager_us = np.where(np.isnan(step_us), math.inf, (step_us + penalty) / gained)
    share = problem.work()[first:reach, 0]
    tokens = float((share * np.arange(first + 1, reach + 1)).sum())
    totals, segments = _backend.active().tune_joint(
        np.ascontiguousarray(np.maximum(share, 1e-12 * share.max())),
        np.ascontiguousarray(graph_us),
        np.ascontiguousarray(eager_us),
        0.0,
        most,
    )
    points = []
    for graphs, total in enumerate(totals.tolist()):
        if total == math.inf:
            continue
        rows = [s[1:] for s in segments.tolist() if s[0] == graphs]
        points.append(_keyed_pair(problem.ks, rows, first, total / tokens, tuned))
    if not points:
        raise ConfigError("no K was measured at every batch; measure one throughout")
    frontier = _improving(points)
    return JointPlan(
        frontier[-1],
        None,
        tuple(frontier),
        _change_below(frontier),
        "every schedule whose K does not rise with the batch",
        0,
    )


def _keyed_pair(
    ks: Sequence[int],
    segments: Sequence[Sequence[int]],
    first: int,
    us_per_token: float,
    tuned: TunedSchedule,
) -> Pair:
    rows: list[list[int]] = []
    graphs = []
    for begin, end, label, eager in segments:
        k = ks[label]
        if not eager:
            graphs.append((k + 1, first + end))
        if rows and rows[-1][2] == k:
            rows[-1][1] = first + end
        else:
            rows.append([first + begin + 1, first + end, k])
    rows[0][0] = 1
    rows[-1][1] = tuned.max_num_seqs
    return Pair(len(graphs), Schedule(rows), (), tuple(graphs), us_per_token)
