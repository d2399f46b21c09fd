# SPDX-License-Identifier: Apache-2.0
"""What a plan is made from: workload and costs, each with where it came from.

Everything measured is taken from the files given, everything else is assumed and
says so. `PlanData.sources` lists both, and every output of the command shows it.
Nothing is solved and nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from specgrid import GraphSet
from specgrid._budget import Drafter
from specgrid._costs import Costs
from specgrid._errors import ConfigError
from specgrid._plan import evaluate_captures
from specgrid._workload import Workload
from specgrid.cli._analysis import Analysis
from specgrid.io._source import Progress
from specgrid.io._types import (
    CostData,
    LogData,
    ReadReport,
    StartupRecord,
    StepCounts,
)
from specgrid.io.calibrate import (
    Dispatch,
    graph_costs,
    step_costs,
    steps_from_table,
)
from specgrid.io.costs import read_costs
from specgrid.io.vllm_config import ServeConfig
from specgrid.io.workload import no_steps, read_workload

MIB = 1 << 20
#: Microseconds by tokens.
Cost: TypeAlias = Callable[[int], float]
#: The assumptions of `Costs.default`, by part, so that a measured part replaces
#: one of them and leaves the others visible.
ASSUMED_BASE_US = 7000.0
ASSUMED_PER_TOKEN_US = 20.0
ASSUMED_PIECEWISE_US = 3000.0
ASSUMED_EAGER_US = 12000.0
ASSUMED_GRAPH_BYTES = 24.0 * MIB
ASSUMED_POOL_BYTES = 256.0 * MIB
ASSUMED_GRAPH_SECONDS = 0.1
#: Of query lengths the server never runs, so many are named.
MAX_LENS_SHOWN = 8

#: Drafters that repeat the target's capture list (vLLM 0.33.0, V2 runner).
_AUTOREGRESSIVE = ("eagle", "eagle3", "mtp", "draft_model")
#: Methods without a drafter model, hence without graphs of their own.
NO_DRAFTER = ("ngram", "ngram_gpu", "suffix")


class Source(NamedTuple):
    """Where one input of the plan came from.

    Attributes:
        name: "workload", "FULL step", "PIECEWISE step", "eager step", "graph
            memory" or "capture time".
        assumed: Whether nobody measured it.
        text: The file it was read from, or the assumption in words.
    """

    name: str
    assumed: bool
    text: str


@dataclass
class PlanData:
    """Workload and costs of one plan.

    Attributes:
        workload: How often each step shape runs.
        costs: Step times and the price of a graph.
        sources: Where each part came from.
        eager_penalty_us: Eager above FULL where it is one number, else None.
        reports: What became of each file read.
        notes: What a person must know about the data.
        num_steps: Steps counted; 0 for an assumed workload.
        startup: The log's last server start, or None.
        observed: Shares by mode the log's --cudagraph-metrics tables state.
    """

    workload: Workload
    costs: Costs
    sources: list[Source]
    eager_penalty_us: float | None
    reports: list[ReadReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_steps: float = 0.0
    startup: StartupRecord | None = None
    observed: dict[str, float] | None = None

    def assumed(self, *names: str) -> bool:
        """Whether any of the named parts is assumed."""
        return any(s.assumed for s in self.sources if s.name in names)


def dispatcher_in_force(config: ServeConfig) -> str:
    """The dispatcher the server has today: vLLM's, unless the plug-in changes it."""
    policy = config.plugin.get("policy")
    return (
        "per-query-length" if policy in ("per-query-length", "reachable") else "union"
    )


def check_plannable(config: ServeConfig) -> None:
    """Refuses servers whose dispatch the planner does not model.

    Raises:
        ConfigError: With what to change.
    """
    if config.adaptive_verification:
        raise ConfigError(
            "adaptive verification captures graphs for any mix of query lengths; no "
            "plan is made for it. Switch it off to plan"
        )
    if config.model_runner == "V1" and config.num_speculative_tokens > 0:
        raise ConfigError(
            "the V1 model runner rounds every size to its one query length; plans are "
            "made for the V2 runner (VLLM_USE_V2_MODEL_RUNNER=1)"
        )
    if config.cudagraph_mode not in ("FULL_AND_PIECEWISE", "FULL_DECODE_ONLY"):
        raise ConfigError(
            f"cudagraph_mode is {config.cudagraph_mode}; a plan chooses FULL decode "
            "graphs. Plan with --compilation-config "
            '\'{"cudagraph_mode": "FULL_AND_PIECEWISE"}\' or FULL_DECODE_ONLY'
        )


def drafter_of(config: ServeConfig) -> Drafter | None:
    """The drafter's graphs to count, or None."""
    method = config.speculative_method or ""
    if config.num_speculative_tokens and method in _AUTOREGRESSIVE:
        return Drafter()
    return None


def gather(
    analysis: Analysis,
    logs: Sequence[str],
    costs_file: str | None,
    floor: float,
    progress: Progress | None = None,
) -> PlanData:
    """Reads the files given and assumes the rest.

    Args:
        analysis: The server as it is configured.
        logs: Server logs in order, or one workload table; empty for none.
        costs_file: Costs, or None.
        floor: Share of the weight spread over every batch of the schedule.
        progress: Called with (bytes done, bytes of this file or None).

    Raises:
        DataError: A file is not what it should be.
        ConfigError: Nothing in it fits this server.
    """
    config = analysis.config
    sources: list[Source] = []
    notes: list[str] = []
    reports: list[ReadReport] = []
    steps: StepCounts | None = None
    log: LogData | None = None
    if logs:
        steps, log = read_workload(list(logs), progress, need_steps=False)
        if log is not None and steps.num_steps <= 0:
            steps = _steps_from_tables(analysis, log)
        workload = _workload(analysis, steps, ", ".join(logs), floor, notes)
        sources.append(
            Source(
                "workload", False, f"{steps.num_steps:,.0f} steps of {', '.join(logs)}"
            )
        )
    else:
        workload = Workload.default(
            config.max_num_seqs,
            config.num_speculative_tokens,
            analysis.schedule,
            config.max_num_batched_tokens,
        )
        sources.append(
            Source("workload", True, workload.source.removeprefix("assumed: "))
        )
    from_log = from_graphs = None
    if log is not None:
        reports.append(log.report)
        today = graph_set(analysis, analysis.runner_sizes, dispatcher_in_force(config))
        from_graphs = graph_costs(
            log.startups, log.report, lambda start: _num_graphs(analysis, start)
        )
        _check_same_server(analysis, log, notes)
        if costs_file is None and log.steps.elapsed_us:
            from_log = step_costs(log, _dispatch(today))
    given = None
    if costs_file is not None:
        given = read_costs(costs_file)
        reports.append(given.report)
    parts = [
        (given, costs_file or ""),
        (from_log, "elapsed times of the log"),
        (from_graphs, "start-up lines of the log"),
    ]
    most = max(
        [
            config.max_num_batched_tokens,
            *workload.mixed,
            *(q * n for q, n in workload.decode),
        ]
    )
    costs, penalty = _costs([(d, t) for d, t in parts if d is not None], most, sources)
    rows = log.graphs.rows if log is not None else None
    return PlanData(
        workload=workload,
        costs=costs,
        sources=sources,
        eager_penalty_us=penalty,
        reports=reports,
        notes=notes,
        num_steps=steps.num_steps if steps is not None else 0.0,
        startup=log.startups[-1] if log is not None and log.startups else None,
        observed=(
            {m: log.graphs.share(m) for m in ("FULL", "PIECEWISE", "NONE")}
            if log is not None and rows
            else None
        ),
    )


def _workload(
    analysis: Analysis, steps: StepCounts, source: str, floor: float, notes: list[str]
) -> Workload:
    """Counted steps as a workload of this server; what does not fit is noted."""
    config = analysis.config
    most_drafts = 1 + config.num_speculative_tokens
    decode: dict[tuple[int, int], float] = {}
    mixed: dict[int, float] = {}
    other_lens: dict[int, float] = {}
    dropped = 0.0
    lens = {t.query_len for t in analysis.tiers}
    for (q, n), weight in steps.uniform.items():
        fits = n <= config.max_num_seqs and q * n <= config.max_num_batched_tokens
        if not fits:
            dropped += weight
        elif q > most_drafts:
            # A resumed request computes its prompt again as a "generation" step.
            mixed[q * n] = mixed.get(q * n, 0.0) + weight
        else:
            decode[q, n] = decode.get((q, n), 0.0) + weight
        if q not in lens and fits:
            other_lens[q] = other_lens.get(q, 0.0) + weight
    for tokens, weight in steps.mixed_by_tokens().items():
        if tokens > config.max_num_batched_tokens:
            dropped += weight
        else:
            mixed[tokens] = mixed.get(tokens, 0.0) + weight
    total = steps.num_steps
    if dropped:
        notes.append(
            f"{dropped:,.0f} of {total:,.0f} steps do not fit max_num_seqs "
            f"{config.max_num_seqs} or max_num_batched_tokens "
            f"{config.max_num_batched_tokens} and were left out; is the workload from "
            "another configuration?"
        )
    stray = sum(other_lens.values())
    if stray > 0.05 * total:
        # A few resumed prompts have lengths of their own; the common ones say more.
        common = sorted(other_lens, key=lambda q: -other_lens[q])[:MAX_LENS_SHOWN]
        listed = ", ".join(map(str, sorted(common)))
        if len(common) < len(other_lens):
            listed += f" and {len(other_lens) - len(common)} more"
        notes.append(
            f"{stray / total:.0%} of the steps have query length {listed}, which this "
            f"server never drafts ({', '.join(map(str, sorted(lens)))}); the workload "
            "is from another schedule, and no FULL graph can serve them"
        )
    if not decode and not mixed:
        raise ConfigError(
            f"no step of {source} fits this server (max_num_seqs "
            f"{config.max_num_seqs}, max_num_batched_tokens "
            f"{config.max_num_batched_tokens}); use a workload recorded with it"
        )
    if 0 < total < 1000:
        notes.append(
            f"only {total:,.0f} steps were counted; below a thousand the plan follows "
            "the sample as much as the load"
        )
    return Workload(decode, mixed, floor=floor, source=source)


def _steps_from_tables(analysis: Analysis, log: LogData) -> StepCounts:
    """The fallback for a log with metrics tables and no iteration lines."""
    if not log.graphs.rows:
        no_steps(log)
    config = analysis.config
    today = graph_set(analysis, analysis.runner_sizes, dispatcher_in_force(config))
    pairs: dict[int, list[tuple[int, int]]] = {}
    for q, lo, hi in today.diagonal_runs:
        for n in range(lo, hi + 1):
            pairs.setdefault(q * n, []).append((q, n))
    return steps_from_table(log, pairs, _dispatch(today))


def graph_set(analysis: Analysis, sizes: Sequence[int], dispatcher: str) -> GraphSet:
    """The graphs a list of sizes makes on this server."""
    config = analysis.config
    return GraphSet(
        sizes,
        max_num_seqs=config.max_num_seqs,
        num_speculative_tokens=config.num_speculative_tokens,
        schedule=analysis.schedule,
        mode=config.cudagraph_mode,
        lora_cases=config.lora_cases,
        policy="vllm-0.33" if dispatcher == "union" else "per-query-length",
    )


def _num_graphs(analysis: Analysis, start: StartupRecord) -> int | None:
    """Graphs a start captured, its drafter's included, by its capture list.

    For a log without progress bars; the load and the costs do not matter to it.
    """
    config = analysis.config
    sizes = start.capture_sizes or analysis.runner_sizes
    if max(sizes) > config.max_num_batched_tokens:
        return None
    return evaluate_captures(
        sizes,
        Workload({(1 + config.num_speculative_tokens, 1): 1.0}, floor=0.0),
        Costs.default(),
        schedule=analysis.schedule,
        max_num_seqs=config.max_num_seqs,
        num_speculative_tokens=config.num_speculative_tokens,
        max_num_batched_tokens=config.max_num_batched_tokens,
        lora_cases=config.lora_cases,
        drafter=drafter_of(config),
        mode=config.cudagraph_mode,
    ).num_graphs


def _check_same_server(analysis: Analysis, log: LogData, notes: list[str]) -> None:
    """Notes a log whose server captured another list than the one given."""
    logged = log.startups[-1].capture_sizes if log.startups else None
    logged = logged or log.graphs.capture_sizes
    given = sorted(analysis.runner_sizes)
    if logged and sorted(logged) != given:
        notes.append(
            f"the log's server captured {len(logged)} sizes up to {max(logged)}, the "
            f"server given {len(given)} up to {given[-1] if given else 0}; 'today' is "
            "the server given"
        )


def _dispatch(graphs: GraphSet) -> Dispatch:
    """The mode of a step under the server's graphs, for the fit of its times."""

    def mode_of(
        num_reqs: int, num_tokens: int, query_len: int | None
    ) -> tuple[int, str]:
        if num_reqs > graphs.max_num_seqs:
            return num_tokens, "NONE"
        graph = graphs.dispatch(num_reqs, num_tokens, query_len)
        return (graph.num_tokens if graph.mode != "NONE" else num_tokens), graph.mode

    return mode_of


def _costs(
    parts: Sequence[tuple[CostData, str]], most_tokens: int, sources: list[Source]
) -> tuple[Costs, float | None]:
    """One `Costs` from what was measured, part by part, and the assumptions."""
    full = _full(parts, most_tokens, sources)
    piecewise, _ = _lesser(
        "PIECEWISE step",
        "piecewise",
        ASSUMED_PIECEWISE_US,
        parts,
        full,
        most_tokens,
        sources,
    )
    eager, penalty = _lesser(
        "eager step", "eager", ASSUMED_EAGER_US, parts, full, most_tokens, sources
    )
    graph_bytes = pool_bytes = None
    for data, text in parts:
        if data.graph_bytes is not None:
            graph_bytes, pool_bytes = data.graph_bytes, data.pool_bytes or 0.0
            text += _memory_text(graph_bytes, pool_bytes)
            if data.split_assumed:
                text += ", their split assumed"
            sources.append(Source("graph memory", data.split_assumed, text))
            break
    if graph_bytes is None:
        graph_bytes, pool_bytes = ASSUMED_GRAPH_BYTES, ASSUMED_POOL_BYTES
        sources.append(
            Source(
                "graph memory",
                True,
                _memory_text(graph_bytes, pool_bytes).removeprefix(": "),
            )
        )
    for data, text in parts:
        if data.graph_seconds is not None:
            graph_seconds = data.graph_seconds
            sources.append(
                Source("capture time", False, f"{text}: {graph_seconds:.3g} s a graph")
            )
            break
    else:
        graph_seconds = ASSUMED_GRAPH_SECONDS
        sources.append(Source("capture time", True, "0.1 s a graph"))
    assumed = [s.name for s in sources if s.assumed]
    costs = Costs(
        full,
        piecewise,
        eager,
        graph_bytes=graph_bytes,
        pool_bytes=pool_bytes or 0.0,
        graph_seconds=graph_seconds,
        source="; ".join(
            f"{s.name}: {s.text}" for s in sources if s.name != "workload"
        ),
        assumed="FULL step" in assumed,
        eager_penalty_assumed="eager step" in assumed,
    )
    return costs, penalty


def _full(
    parts: Sequence[tuple[CostData, str]], most_tokens: int, sources: list[Source]
) -> Cost:
    for data, text in parts:
        if data.full_us:
            cost, note = _extended(data.full_us, most_tokens)
            sources.append(Source("FULL step", False, text + note))
            return cost
        if data.base_us is not None and data.per_token_us is not None:
            shown = f"{data.base_us / 1000:.3g} ms + {data.per_token_us:.3g} us/token"
            sources.append(Source("FULL step", False, f"{text}: {shown}"))
            return _Line(data.base_us, data.per_token_us)
    sources.append(Source("FULL step", True, "7 ms + 20 us/token"))
    return _Line(ASSUMED_BASE_US, ASSUMED_PER_TOKEN_US)


@dataclass(frozen=True)
class _Line:
    base: float
    per_token: float

    def __call__(self, num_tokens: int) -> float:
        return self.base + self.per_token * num_tokens


@dataclass(frozen=True)
class _Plus:
    """A cost and a constant; never a table, which would refuse sizes it lacks."""

    cost: Cost
    extra: float

    def __call__(self, num_tokens: int) -> float:
        return self.cost(num_tokens) + self.extra


@dataclass(frozen=True)
class _Interpolated:
    """Straight lines between measured sizes; flat below and the last slope above.

    Not named as `Costs` names a table, which has no value beyond its sizes.
    """

    measured_tokens: tuple[int, ...]
    measured_us: tuple[float, ...]
    slope: float

    def __call__(self, num_tokens: int) -> float:
        beyond = max(num_tokens - self.measured_tokens[-1], 0)
        inside = float(np.interp(num_tokens, self.measured_tokens, self.measured_us))
        return inside + self.slope * beyond


def _extended(table: Mapping[int, float], most: int) -> tuple[_Interpolated, str]:
    """A measured table that answers for every size, and what was assumed for it."""
    tokens = tuple(sorted(table))
    us = tuple(table[t] for t in tokens)
    slope = (
        max((us[-1] - us[0]) / (tokens[-1] - tokens[0]), 0.0)
        if len(tokens) > 1
        else 0.0
    )
    text = f" ({len(tokens)} sizes, {tokens[0]}-{tokens[-1]} tokens"
    if tokens[0] > 1 or tokens[-1] < most:
        text += "; assumed flat below, straight on above"
    return _Interpolated(tokens, us, slope), text + ")"


def _lesser(
    name: str,
    kind: str,
    assumed_us: float,
    parts: Sequence[tuple[CostData, str]],
    full: Cost,
    most: int,
    sources: list[Source],
) -> tuple[Cost, float | None]:
    """The PIECEWISE or eager cost: a table, a penalty on FULL, or an assumption."""
    for data, text in parts:
        table = data.piecewise_us if kind == "piecewise" else data.eager_us
        if table:
            cost, note = _extended(table, most)
            sources.append(Source(name, False, text + note))
            return cost, None
        penalty = (
            data.piecewise_penalty_us if kind == "piecewise" else data.eager_penalty_us
        )
        if penalty is not None:
            sources.append(
                Source(name, False, f"{text}: FULL + {penalty / 1000:.3g} ms")
            )
            return _Plus(full, penalty), penalty
    sources.append(Source(name, True, f"FULL + {assumed_us / 1000:.3g} ms"))
    return _Plus(full, assumed_us), assumed_us


def _memory_text(graph_bytes: float, pool_bytes: float) -> str:
    return (
        f": {graph_bytes / MIB:.3g} MiB a graph over a {pool_bytes / MIB:,.0f} MiB pool"
    )


__all__ = [
    "PlanData",
    "Source",
    "check_plannable",
    "dispatcher_in_force",
    "drafter_of",
    "gather",
    "graph_set",
]
