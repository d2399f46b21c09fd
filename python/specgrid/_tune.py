# SPDX-License-Identifier: Apache-2.0
"""From measured steps and acceptance to the K table, in few entries.

Each cell (batch, context) gets the K of least time per emitted token; the table
is then compressed exactly, and everything a person must know before trusting it
(loss, gain with its interval, cells within noise, cells nobody measured) comes
with it. docs/tuning.md has the method in a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specgrid import _backend
from specgrid._check import count
from specgrid._errors import ConfigError
from specgrid._schedule import Schedule
from specgrid._tune_cells import Cells
from specgrid._tune_grid import (
    LIMIT_NOT_MET,
    NO_K_MEASURED,
    SOME_K_NOT_MEASURED,
    Grid,
    Option,
    Rectangle,
)
from specgrid._tune_input import BucketAcceptance
from specgrid._tune_problem import Problem

# The frontier shows so many entries, where they still gain something.
_FRONTIER_ENTRIES = 24
_MAX_ENTRIES = 256


class Loss(NamedTuple):
    """Time lost against the best K of every cell, as a share of its time.

    Attributes:
        weighted: Over all measured cells, weighted with their work.
        worst: In the worst measured cell that has work.
    """

    weighted: float
    worst: float


class Gain(NamedTuple):
    """How many times faster the tuned schedule emits tokens than another choice.

    Attributes:
        factor: Above 1 where the tuned schedule is faster.
        low: Lower end of the interval: acceptance at its 95 % bounds, and the
            measurement noise.
        high: Upper end.
        share_measured: Share of the measured cells in which both are measured.
    """

    factor: float
    low: float
    high: float
    share_measured: float


class SchedulePoint(NamedTuple):
    """The best schedule of at most so many entries.

    Attributes:
        entries: Entries of the compressed form (`TunedSchedule.entries`).
        rows: Rows of the strict form (`Schedule.rows`), which refines entries to
            one rectangular grid; equal to `entries` in one dimension.
        loss: Against the per-cell optimum.
        schedule: The schedule.
    """

    entries: int
    rows: int
    loss: Loss
    schedule: Schedule


@dataclass(frozen=True, eq=False)
class TunedSchedule:
    """A tuned schedule and what to know about it.

    Attributes:
        schedule: The schedule, valid in strict form, for batches
            1..max_num_seqs.
        entries: The same table in its fewest entries: `(batch_lo, batch_hi, k)`
            in one dimension, `(batch_lo, batch_hi, context_lo, context_hi, k)` in
            band form in two, which `Schedule(entries, ragged=True)` accepts.
        loss: Against the per-cell optimum.
        cells: Every cell's choice, time and flags.
        gains: Against each static K, by K; against no speculation under 0.
        acceptance: Acceptance used, by context range.
        notes: What was ignored, assumed or not measured.
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: Largest k.
        problem: The input as the tuner saw it, for what is built on top.
    """

    schedule: Schedule
    entries: tuple[tuple[int, ...], ...]
    loss: Loss
    cells: Cells
    gains: Mapping[int, Gain]
    acceptance: tuple[BucketAcceptance, ...]
    notes: tuple[str, ...]
    max_num_seqs: int
    num_speculative_tokens: int
    problem: Problem = field(repr=False)
    _best_cost: float = field(repr=False)
    _limit: float = field(repr=False)
    _monotone: bool = field(repr=False)

    @cached_property
    def frontier(self) -> tuple[SchedulePoint, ...]:
        """The best schedule for each number of entries up to 24 that gains any.

        Worked out when first asked for.
        """
        points = []
        grid = self.problem.grid(self._limit, math.inf, _FRONTIER_ENTRIES)
        for option in grid.options(_FRONTIER_ENTRIES, self._monotone):
            schedule = self.problem.schedule_of(option.rectangles)
            rows = len(schedule.batch_ranges) * len(schedule.context_ranges)
            loss = Loss(
                _lost(option.total / self._best_cost), _lost(option.worst_ratio)
            )
            points.append(SchedulePoint(len(option.rectangles), rows, loss, schedule))
        return tuple(points)

    def speculative_config(self) -> dict[str, Any]:
        """Settings for vLLM's `--speculative-config`; add your method and model.

        A schedule that depends on context has no place there; see
        `plugin_config`.

        Raises:
            ConfigError: If the schedule depends on context.
        """
        if self.schedule.is_2d:
            raise ConfigError(
                "this schedule depends on context, which --speculative-config cannot "
                "say; use plugin_config(), or tune with contexts=[one context]"
            )
        return {
            "num_speculative_tokens": self.num_speculative_tokens,
            "num_speculative_tokens_per_batch_size": self.schedule.to_rows(),
        }

    def plugin_config(self) -> dict[str, Any]:
        """Settings for vLLM's `--additional-config`, read by specgrid's plug-in."""
        return {"specgrid": {"schedule": self.schedule.to_rows()}}


def tune_schedule(
    latency: Iterable[Any],
    acceptance: Any,
    *,
    max_num_seqs: int,
    num_speculative_tokens: int,
    max_entries: int | None = None,
    tolerance: float | None = None,
    monotone: bool = False,
    weights: Any = None,
    contexts: Iterable[int] | None = None,
    max_us_per_token: float | None = None,
    min_k: int = 0,
    forbidden_k: Iterable[int] = (),
    captures: Any = None,
    piecewise_us: float = 0.0,
    eager_us: float = 0.0,
    noise: float = 0.02,
    threads: int | None = None,
) -> TunedSchedule:
    """Chooses K for every (batch, context) and writes it in few entries.

    A cell's cost is weight x step_us / (batch x A_k), where A_k is the mean
    number of tokens a request gains in a step with k drafts: time spent on the
    cell's share of the work. Costs add up, so the best K of each cell is the
    best table. Ties go to the smaller k.

    Args:
        latency: `(batch, context, k, step_us)` points: requests, tokens computed
            per request, draft tokens, and the time of one step in microseconds
            (context 0 throughout for a 1-D schedule), or what a reader returns.
            Interpolated linearly inside the measured mesh of each K; a K is not
            considered in cells outside its mesh.
        acceptance: Survival values s_1 >= s_2 >= ..., an `Acceptance`, or what a
            reader returns.
        max_num_seqs: Most requests in a step.
        num_speculative_tokens: Largest k.
        max_entries: At most so many entries (rectangles in two dimensions).
        tolerance: Fewest entries that lose at most this share of time in any
            measured cell that has work (0.02 is 2 %). With `max_entries`, an
            error if that needs more.
        monotone: k never rises with the batch.
        weights: Emitted tokens per cell: a mapping from (batch, context) (or
            batch, in one dimension), or an array of max_num_seqs x columns;
            equal when not given.
        contexts: Contexts that stand for the columns; those in `weights`, else
            the measured ones, when not given. A column's range ends halfway to
            its neighbours.
        max_us_per_token: Limit of time per output token of a request; a K above
            it is not used unless even the best is.
        min_k: Smallest k to use.
        forbidden_k: K not to use.
        captures: Capture sizes in tokens, or a `GraphSet`: steps are then charged
            the time of the graph that serves them, padding included.
        piecewise_us: What a PIECEWISE step adds to a FULL one, with `captures`.
        eager_us: What an eager step adds, with `captures`.
        noise: Relative noise of a measured step; choices closer than this are
            flagged.
        threads: At most so many threads; all cores when not given. The result
            does not depend on it.

    Returns:
        The schedule with its loss, gains, frontier, cells and notes.

    Raises:
        ConfigError: If a value is wrong, or nothing satisfies the constraints.

    Source:
        Objective: docs/tuning.md. Measured example: vLLM #32374.

    Example:
        >>> points = [(1, 0, 0, 6870), (1, 0, 3, 9410), (64, 0, 0, 8530),
        ...           (64, 0, 3, 20000)]
        >>> tuned = tune_schedule(points, [0.6, 0.3, 0.1], max_num_seqs=64,
        ...                       num_speculative_tokens=3, max_entries=2)
        >>> tuned.schedule.to_rows()
        [[1, 38, 3], [39, 64, 0]]
    """
    max_num_seqs = count("max_num_seqs", max_num_seqs)
    num_speculative_tokens = count("num_speculative_tokens", num_speculative_tokens)
    if max_entries is not None:
        max_entries = count("max_entries", max_entries, 1, _MAX_ENTRIES)
    for name, value in (("tolerance", tolerance), ("noise", noise)):
        if value is not None and not 0 <= value < 1:
            raise ConfigError(
                f"{name} must be a share between 0 and 1, not {value!r}; 0.02 is 2 %"
            )
    for name, us in (("piecewise_us", piecewise_us), ("eager_us", eager_us)):
        if not (math.isfinite(us) and us >= 0):
            raise ConfigError(f"{name} must be microseconds of at least 0, not {us!r}")
    if max_us_per_token is not None and not max_us_per_token > 0:
        raise ConfigError(
            f"max_us_per_token must be microseconds above 0, not {max_us_per_token!r}"
        )
    problem = Problem.read(
        latency,
        acceptance,
        max_num_seqs=max_num_seqs,
        num_speculative_tokens=num_speculative_tokens,
        weights=weights,
        contexts=contexts,
        min_k=min_k,
        forbidden_k=forbidden_k,
        captures=captures,
        piecewise_us=float(piecewise_us),
        eager_us=float(eager_us),
        noise=float(noise),
        threads=threads,
    )
    limit = math.inf if max_us_per_token is None else float(max_us_per_token)
    grid, rectangles = _choose(problem, limit, max_entries, tolerance, monotone)
    if rectangles is None:
        table = grid.best_labels
        entries = problem.entries_of(table)
        schedule = problem.schedule_of_table(table)
    else:
        table = problem.table_of(rectangles)
        entries = tuple(problem.entry(r) for r in rectangles)
        schedule = problem.schedule_of(rectangles)
    return _result(problem, grid, table, entries, schedule, limit, monotone)


def _choose(
    problem: Problem,
    limit: float,
    max_entries: int | None,
    tolerance: float | None,
    monotone: bool,
) -> tuple[Grid, tuple[Rectangle, ...] | None]:
    """The grid, and rectangles that satisfy what was asked.

    None in their place stands for the best K of every cell.
    """
    if tolerance is not None:
        grid, options = _within(problem, limit, tolerance, monotone)
        if not options:
            if monotone or max_entries is not None:
                raise ConfigError(
                    f"no schedule of up to {_MAX_ENTRIES} entries keeps every cell "
                    f"within tolerance = {tolerance:g}"
                    f"{' with monotone=True' if monotone else ''}; raise it"
                )
            problem.notes.append(
                f"more than {_MAX_ENTRIES} entries are needed for tolerance = "
                f"{tolerance:g}; this is the per-cell optimum instead"
            )
            return grid, None
        fewest = options[0].rectangles
        if max_entries is not None and len(fewest) > max_entries:
            raise ConfigError(
                f"tolerance = {tolerance:g} needs {len(fewest)} entries, more than "
                f"max_entries = {max_entries}; raise one of them"
            )
        return grid, fewest
    if max_entries is not None:
        # A few more than allowed, to say how many would do.
        tried = max(max_entries, _FRONTIER_ENTRIES)
        grid = problem.grid(limit, math.inf, tried)
        options = grid.options(tried, monotone)
        fitting = [o for o in options if len(o.rectangles) <= max_entries]
        if not fitting:
            needed = (
                f"at least {len(options[0].rectangles)} entries are needed"
                if options
                else "more are needed"
            )
            raise ConfigError(
                f"no schedule of max_entries = {max_entries} uses measured K only; "
                f"{needed}; measure every K at every batch, or raise max_entries"
            )
        return grid, fitting[-1].rectangles
    if monotone:
        grid = problem.grid(limit, math.inf, _FRONTIER_ENTRIES)
        return grid, grid.monotone_columns()
    return problem.grid(limit, math.inf, 0), None


def _within(
    problem: Problem, limit: float, tolerance: float, monotone: bool
) -> tuple[Grid, list[Option]]:
    """Options that keep every cell within a tolerance, the fewest entries first."""
    entries = _FRONTIER_ENTRIES
    while True:
        grid = problem.grid(limit, tolerance, entries)
        options = grid.options(entries, monotone)
        if options or entries >= _MAX_ENTRIES:
            return grid, options
        entries = min(2 * entries, _MAX_ENTRIES)


def _result(
    problem: Problem,
    grid: Grid,
    table: npt.NDArray[np.int32],
    entries: tuple[tuple[int, ...], ...],
    schedule: Schedule,
    limit: float,
    monotone: bool,
) -> TunedSchedule:
    module = _backend.active()
    (
        us_per_token,
        best_changes,
        cost,
        best_cost,
        worst_ratio,
        label_cost,
        table_cost,
        cells_measured,
    ) = module.tune_report(
        problem.points,
        problem.assumptions(),
        problem.max_num_seqs,
        np.array(problem.columns, dtype=np.int64),
        problem.served.padded_batch,
        problem.served.extra_us,
        problem.weights,
        table,
        problem.threads,
    )
    measured = (grid.flags & NO_K_MEASURED) == 0
    near = grid.second_us_per_token <= grid.best_us_per_token * (1 + problem.noise)
    ks = np.array(problem.ks, dtype=np.int32)
    cells = Cells(
        problem.columns,
        tuple(problem.ranges),
        ks[table],
        ks[grid.best_labels],
        us_per_token,
        grid.best_us_per_token,
        measured,
        (grid.flags & (NO_K_MEASURED | SOME_K_NOT_MEASURED)) == 0,
        measured & (near | best_changes.view(np.bool_)),
        (grid.flags & LIMIT_NOT_MET) == 0,
    )
    gains = {}
    for label, k in enumerate(problem.ks):
        if not (table_cost[:, label] > 0).all():
            continue
        factors = (label_cost[:, label] / table_cost[:, label]).tolist()
        gains[k] = Gain(
            factors[0],
            min(factors) * (1 - problem.noise),
            max(factors) * (1 + problem.noise),
            int(cells_measured[label]) / int(measured.sum()),
        )
    return TunedSchedule(
        schedule,
        entries,
        Loss(_lost(cost / best_cost), _lost(worst_ratio)),
        cells,
        gains,
        tuple(problem.buckets),
        (*problem.notes, *_cell_notes(cells, problem.ks)),
        problem.max_num_seqs,
        problem.num_speculative_tokens,
        problem,
        best_cost,
        limit,
        monotone,
    )


def _lost(ratio: float) -> float:
    """Share lost from a ratio to the optimum; rounding is no loss."""
    return ratio - 1 if ratio > 1 + 1e-12 else 0.0


def _cell_notes(cells: Cells, ks: tuple[int, ...]) -> list[str]:
    notes = []
    total = len(cells)
    missing = int((~cells.measured).sum())
    if missing:
        rows = np.flatnonzero(~cells.measured.all(axis=1)) + 1
        notes.append(
            f"{missing} of {total} cells were not measured (batches {rows[0]}-"
            f"{rows[-1]}); they get the nearest measured cell's k"
        )
    partly = int((cells.measured & ~cells.all_k_measured).sum())
    if partly:
        notes.append(
            f"in {partly} of {total} cells some of k = {', '.join(map(str, ks))} was "
            "not measured and could not be chosen"
        )
    unmet = int((~cells.limit_met).sum())
    if unmet:
        notes.append(f"{unmet} of {total} cells miss the limit with every k")
    return notes
