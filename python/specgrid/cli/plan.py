# SPDX-License-Identifier: Apache-2.0
"""``specgrid plan``: the best graphs for a workload and a budget.

The JSON document (docs/plan.md) is made first; the text is a rendering of it, so
the two cannot disagree. What the plan is made from is in ``_plan_data``; how it is
solved is in ``specgrid._plan``.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import click

from specgrid._budget import Budget
from specgrid._errors import ConfigError
from specgrid._plan import CapturePlan, evaluate_captures, plan_captures
from specgrid._plan_file import MAX_BYTES
from specgrid._plan_value import CaptureValue
from specgrid._read import File
from specgrid._version import __version__
from specgrid.cli._analysis import Analysis, analyse, steps_text
from specgrid.cli._charts import files
from specgrid.cli._files import check_target
from specgrid.cli._input import serve_command
from specgrid.cli._numbers import Number, Size
from specgrid.cli._output import Printer, Style, print_json, ranges_text, runs
from specgrid.cli._plan_data import (
    NO_DRAFTER,
    PlanData,
    check_plannable,
    dispatcher_in_force,
    drafter_of,
    gather,
    graph_set,
)
from specgrid.cli._progress import reading, working
from specgrid.cli._words import as_flags, in_flags
from specgrid.io._source import parse_json, read_text
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_config import ServeConfig

SCHEMA_VERSION = 1
#: Begins the note of a saved plan that names what was assumed.
ASSUMED = "assumed, not measured"
#: Without a budget: the smallest plan whose mean step is this close to the best.
GOOD_ENOUGH = 0.01
MAX_FRONTIER_SHOWN = 24
#: Solves that finding how far the eager penalty may move takes, about.
SOLVES = 10
#: What a mean step time rests on.
_STEP_SOURCES = ("workload", "FULL step", "PIECEWISE step", "eager step")
_COVERAGE = {"widest": True, "all": "every-batch", "none": False}

#: What the planner's messages call things, and what this command does.
_FLAGS = (
    ("pass full_coverage=False", "give --coverage none"),
    ("To forbid eager steps use full_coverage", "To forbid eager steps use --coverage"),
    ("; pass max_size to consider more", ""),
    ("Raise max_size, force fewer sizes", "Force fewer sizes"),
    (
        "allow more, or lower max_size so that there are fewer to try",
        "allow more with --time-limit",
    ),
)

_EXAMPLES = """\
\b
Examples:
  specgrid plan --log server.log --graphs 60 -- vllm serve ...
  specgrid plan --log server.log.1.gz --log server.log --memory 2GiB -- vllm serve ...
  specgrid plan --log steps.csv --costs forward.json --frontier --config serve.yaml
  specgrid plan --check plan.json --log server.log -- vllm serve ...

Record a log with --enable-logging-iteration-details for a minute of typical load;
docs/data.md says which data help what. Without --log and --costs the plan rests on
assumptions and says so. Exit status 1: --check found the plan unfit for the server.
"""


@serve_command("plan", epilog=_EXAMPLES)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help="Server log, plain or gzip, - for standard input; repeat for rotated parts, "
    "oldest first. Or a workload as CSV or JSON.",
)
@click.option(
    "--costs",
    "costs_file",
    metavar="FILE",
    help="Step costs: vllm bench forward --output-json, or CSV or JSON by tokens.",
)
@click.option(
    "--graphs", metavar="N", type=click.IntRange(min=0), help="Most graphs to capture."
)
@click.option(
    "--memory", metavar="SIZE", type=Size(), help="Most graph memory, such as 2GiB."
)
@click.option("--seconds", metavar="S", type=Number(min=0), help="Most capture time.")
@click.option(
    "--dispatcher",
    type=click.Choice(["union", "per-query-length", "direct"]),
    help="Whose dispatch: vLLM 0.33's (union, default), one ladder per query length "
    "(the plug-in), or graphs keyed by query length and requests (the plug-in).",
)
@click.option(
    "--coverage",
    type=click.Choice(list(_COVERAGE)),
    default="widest",
    show_default=True,
    help="Batches that must have a FULL graph: the widest of each query length, all "
    "the schedule can produce, or none.",
)
@click.option(
    "--force",
    "forced",
    multiple=True,
    metavar="TOKENS",
    type=click.IntRange(min=1),
    help="A size the plan must contain; repeatable.",
)
@click.option(
    "--floor",
    metavar="SHARE",
    type=Number(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    help="Share of the weight spread over every batch of the schedule, so that a "
    "batch the log lacks is not planned away.",
)
@click.option("--frontier", is_flag=True, help="Also the best plan of every budget.")
@click.option(
    "--stability/--no-stability",
    default=True,
    help="How far the eager penalty may move before the plan changes (a few solves).",
)
@click.option(
    "--time-limit",
    metavar="S",
    type=Number(min=0, min_open=True),
    help="Seconds to search: then the best plan so far, with its proven gap, and "
    "without --stability and the worth of each size. Reading the data, and one pass "
    "over all sizes that any answer needs, are not cut short.",
)
@click.option("--save", metavar="FILE", help="Write the plan for the plug-in.")
@click.option(
    "--check",
    "check_file",
    metavar="FILE",
    help="Evaluate this plan, or list of sizes, against the best of the same size.",
)
@files.plot_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    config: ServeConfig,
    logs: tuple[str, ...],
    costs_file: str | None,
    graphs: int | None,
    memory: float | None,
    seconds: float | None,
    dispatcher: str | None,
    coverage: str,
    forced: tuple[int, ...],
    floor: float,
    frontier: bool,
    stability: bool,
    time_limit: float | None,
    save: str | None,
    check_file: str | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Plan the best CUDA graphs for a workload and a budget.

    Shows what the server's captures do for the workload today and what the plan
    would do, the flags to paste, what each size is worth, and what was assumed.
    """
    check_target(save, "--save")
    files.check(plot)
    check_plannable(config)
    analysis = analyse(config)
    checked = None if check_file is None else _read_check(check_file, config)
    with reading("reading") as progress:
        data = gather(analysis, logs, costs_file, floor, progress)
    task = _Task(
        analysis, data, dispatcher or _dispatcher_of(checked) or "union", time_limit
    )
    budget = Budget(
        graphs=graphs,
        bytes=memory,
        seconds=seconds,
        full_coverage=_COVERAGE[coverage],  # type: ignore[arg-type]
    )
    with in_flags(_FLAGS):
        before = task.before()
        after = None if checked is None else task.evaluate(*_lists_of(checked))
        same_size = after is not None and (graphs, memory, seconds) == (
            None,
            None,
            None,
        )
        if same_size and after is not None:
            budget = Budget(graphs=after.num_graphs, full_coverage=budget.full_coverage)
        with working("planning: --time-limit ends it with the best so far"):
            try:
                plan, chosen_how = task.plan(budget, forced, before)
            except ConfigError:
                if not same_size:
                    raise
                # The checked list is too small to cover every query length.
                budget = Budget(graphs=budget.graphs, full_coverage=False)
                plan, chosen_how = task.plan(budget, forced, before)
            worth, shift, left_out = task.about(plan, stability)
    if same_size:
        chosen_how = f"the best with at most {budget.graphs} graphs, as the one checked"
    plan = _labelled(plan, data)
    if save is not None:
        plan.save(save)
    document = to_document(
        task, plan, before, chosen_how, worth, shift, save, frontier or plot is not None
    )
    document["notes"] += left_out
    if plot is not None:
        _plot(plot, document)
        if not frontier:
            document["frontier"] = None
    problems: list[str] = []
    if checked is not None and after is not None and check_file is not None:
        problems = _problems(checked, after, task)
        document["check"] = _check_document(check_file, checked, after, plan, problems)
    if as_json:
        print_json(document)
    else:
        render(document, Printer())
    return 1 if problems else 0


def _labelled(plan: CapturePlan, data: PlanData) -> CapturePlan:
    """The plan with what nobody measured among its notes, so that its file has it."""
    guesses = [f"{s.name} ({s.text})" for s in data.sources if s.assumed]
    notes = [*plan.notes, *(n for n in data.notes if n not in plan.notes)]
    if guesses:
        notes.append(f"{ASSUMED}: {'; '.join(guesses)}")
    return replace(plan, assumed=plan.assumed or bool(guesses), notes=tuple(notes))


def _plot(path: str, document: dict[str, Any]) -> None:
    """The frontier, as ``specgrid report`` has it, into a file."""
    from specgrid.cli._charts import frontier as chart

    before, after = document["before"], document["after"]
    files.save(
        path,
        lambda: chart.draw(document, files.WIDTH),
        f"{before['mean_step_us'] / 1000:.2f} ms a step with {before['num_graphs']:,} "
        f"graphs today, {after['mean_step_us'] / 1000:.2f} ms with "
        f"{after['num_graphs']:,} planned",
    )


class _Task:
    """One server, one workload, one dispatcher: everything that is asked of them."""

    def __init__(
        self,
        analysis: Analysis,
        data: PlanData,
        dispatcher: str,
        time_limit: float | None = None,
    ) -> None:
        self.time_limit = time_limit
        self._begin = time.monotonic()
        self._solve_s = 0.0
        self.analysis = analysis
        self.config = analysis.config
        self.data = data
        self.dispatcher = dispatcher
        self.drafter = drafter_of(analysis.config)

    def _common(self) -> dict[str, Any]:
        return {
            "schedule": self.analysis.schedule,
            "max_num_seqs": self.config.max_num_seqs,
            "num_speculative_tokens": self.config.num_speculative_tokens,
            "max_num_batched_tokens": self.config.max_num_batched_tokens,
            "lora_cases": self.config.lora_cases,
            "drafter": self.drafter,
            "mode": self.config.cudagraph_mode,
        }

    def before(self, **other: Any) -> CaptureValue:
        """What the server's own captures do, through its own dispatcher."""
        return evaluate_captures(
            self.analysis.runner_sizes,
            self.data.workload,
            self.data.costs,
            dispatcher=dispatcher_in_force(self.config),
            **self._common() | other,
        )

    def default(self) -> CaptureValue | None:
        """What vLLM's own list would do; None where the server has it already."""
        config = self.config
        if (
            config.cudagraph_capture_sizes is None
            and config.max_cudagraph_capture_size is None
        ):
            return None
        plain = replace(
            config, cudagraph_capture_sizes=None, max_cudagraph_capture_size=None
        )
        return evaluate_captures(
            analyse(plain).runner_sizes,
            self.data.workload,
            self.data.costs,
            dispatcher=dispatcher_in_force(config),
            **self._common(),
        )

    def evaluate(self, sizes: list[int], graphs: list[tuple[int, int]]) -> CaptureValue:
        """What any captures do, through the plan's dispatcher."""
        return evaluate_captures(
            sizes,
            self.data.workload,
            self.data.costs,
            dispatcher=self.dispatcher,
            graphs=graphs if self.dispatcher == "direct" else None,
            **self._common(),
        )

    def plan(
        self, budget: Budget, forced: Iterable[int], before: CaptureValue
    ) -> tuple[CapturePlan, str]:
        """The plan, and how its size was chosen."""

        def solve(limits: Budget, share: float = 1.0) -> CapturePlan:
            begin = time.monotonic()
            try:
                return plan_captures(
                    self.data.workload,
                    self.data.costs,
                    budget=limits,
                    dispatcher=self.dispatcher,
                    forced_sizes=list(forced),
                    time_limit_s=self._left(share),
                    **self._common(),
                )
            finally:
                self._solve_s = time.monotonic() - begin

        given = (budget.graphs, budget.bytes, budget.seconds)
        if any(limit is not None for limit in given):
            return solve(budget), "the best within the budget"
        most = before.num_graphs or None
        try:
            best = solve(Budget(graphs=most, full_coverage=budget.full_coverage), 0.5)
        except ConfigError:
            # Coverage can need more graphs than the server has today.
            best = solve(budget)
        good = next(
            point
            for point in best.frontier
            if point.mean_step_us <= best.mean_step_us * (1 + GOOD_ENOUGH)
        )
        how = (
            f"no budget was given: the fewest graphs within {GOOD_ENOUGH:.0%} of the "
            f"best mean step (that of {best.value.num_graphs} graphs)"
        )
        if good.num_graphs >= best.value.num_graphs:
            return best, how
        if self._used_up():
            return best, (
                "no budget was given and the time limit was used up: the best found, "
                f"of {best.value.num_graphs} graphs; {good.num_graphs} come within "
                f"{GOOD_ENOUGH:.0%} of it"
            )
        limits = Budget(graphs=good.num_graphs, full_coverage=budget.full_coverage)
        return solve(limits), how

    def about(
        self, plan: CapturePlan, stability: bool
    ) -> tuple[
        dict[int | tuple[int, int], float], tuple[float, float] | None, list[str]
    ]:
        """Each entry's worth, the eager shifts that keep the plan, what was left out.

        Neither can be stopped on the way, so neither begins without the time for it.
        """
        if self._used_up():
            what = "the worth of each entry" + (" and the stability" * stability)
            return {}, None, [f"--time-limit was used up: {what} were left out"]
        worth = plan.worth()
        if not stability:
            return worth, None, []
        left = self._left()
        if left is not None and not (plan.optimal and SOLVES * self._solve_s <= left):
            return worth, None, ["--time-limit leaves no time for the stability"]
        return worth, plan.eager_shift_range(), []

    def _left(self, share: float = 1.0) -> float | None:
        """Seconds left of a share of the limit, more than none; None without one."""
        if self.time_limit is None:
            return None
        return max(share * self.time_limit - (time.monotonic() - self._begin), 1e-3)

    def _used_up(self) -> bool:
        left = self._left()
        return left is not None and left <= 1e-3


# -- --check -----------------------------------------------------------------------


def _read_check(path: str, config: ServeConfig) -> CapturePlan | list[int]:
    """A saved plan, or a list of sizes: JSON, or numbers between blanks or commas."""
    file = File(path)
    text = read_text(file, MAX_BYTES)
    if text.lstrip().startswith("{"):
        return CapturePlan.load(file)
    if text.lstrip().startswith("["):
        found = parse_json(text, path)
    else:
        words = text.replace(",", " ").split()
        found = [int(w) if w.isdecimal() and len(w) < 10 else w for w in words]
    if not isinstance(found, list) or not found:
        raise ConfigError(f"{path}: neither a plan nor a list of sizes")
    for size in found:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(f"{path}: {size!r:.40} is no capture size in tokens")
        if size > config.max_num_batched_tokens:
            raise ConfigError(
                f"{path}: size {size} is above max_num_batched_tokens "
                f"{config.max_num_batched_tokens}; vLLM would drop it"
            )
    return sorted(set(found))


def _dispatcher_of(checked: CapturePlan | list[int] | None) -> str | None:
    return checked.dispatcher if isinstance(checked, CapturePlan) else None


def _lists_of(
    checked: CapturePlan | list[int],
) -> tuple[list[int], list[tuple[int, int]]]:
    if isinstance(checked, CapturePlan):
        return checked.sizes, checked.graphs
    return checked, []


def _problems(
    checked: CapturePlan | list[int], after: CaptureValue, task: _Task
) -> list[str]:
    """Why a checked plan does not fit this server; empty when it does."""
    out = []
    if isinstance(checked, CapturePlan):
        config, schedule = task.config, task.analysis.schedule
        names = ("max_num_seqs", "num_speculative_tokens", "max_num_batched_tokens")
        out += [
            f"made for {name} {getattr(checked, name)}, the server has "
            f"{getattr(config, name)}"
            for name in names
            if getattr(checked, name) != getattr(config, name)
        ]
        if checked.schedule != schedule:
            out.append("made for another schedule")
        if checked.dispatcher != task.dispatcher:
            out.append(f"made for the {checked.dispatcher} dispatcher")
        if checked.mode != config.cudagraph_mode:
            out.append(f"made for cudagraph_mode {checked.mode}")
    if after.eager_share > 0:
        decode = _eager_decode(checked, task)
        if decode:
            out.append(f"decode batches without any graph: {decode}")
    return out


def _eager_decode(checked: CapturePlan | list[int], task: _Task) -> str:
    """Batches of the schedule that run eager under a checked list, as text."""
    sizes, graphs = _lists_of(checked)
    found: set[int] = set()
    if task.dispatcher == "direct":
        for tier in task.analysis.tiers:
            reach = max((n for q, n in graphs if q == tier.query_len), default=0)
            found |= set(range(max(reach + 1, tier.min_batch), tier.max_batch + 1))
    else:
        coverage = graph_set(task.analysis, sizes, task.dispatcher).coverage()
        for column in range(coverage.num_columns):
            for run in coverage.runs(column):
                if run.mode == "NONE":
                    found |= set(range(run.batch_lo, run.batch_hi + 1))
    return ranges_text(runs(sorted(found)))


def _check_document(
    path: str,
    checked: CapturePlan | list[int],
    after: CaptureValue,
    plan: CapturePlan,
    problems: list[str],
) -> dict[str, Any]:
    sizes, graphs = _lists_of(checked)
    return {
        "file": path,
        "sizes": sizes,
        "graphs": [list(g) for g in graphs],
        "value": asdict(after),
        "slower_than_best": _share(after.mean_step_us - plan.mean_step_us, plan),
        "problems": problems,
    }


def _share(difference_us: float, plan: CapturePlan) -> float:
    return difference_us / plan.mean_step_us if plan.mean_step_us else 0.0


# -- the document ------------------------------------------------------------------


def to_document(
    task: _Task,
    plan: CapturePlan,
    before: CaptureValue,
    chosen_how: str,
    worth: dict[int | tuple[int, int], float],
    shift: tuple[float, float] | None,
    save: str | None,
    frontier: bool,
) -> dict[str, Any]:
    """The whole answer as JSON values."""
    config, data = task.config, task.data
    per_token = data.startup.kv_bytes_per_token if data.startup is not None else None
    document: dict[str, Any] = {
        "schema": "specgrid.plan",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "server": {
            "max_num_seqs": config.max_num_seqs,
            "num_speculative_tokens": config.num_speculative_tokens,
            "max_num_batched_tokens": config.max_num_batched_tokens,
            "schedule": None
            if task.analysis.schedule is None
            else task.analysis.schedule.to_rows(),
            "mode": config.cudagraph_mode,
            "drafter_counted": task.drafter is not None,
            "sizes": task.analysis.runner_sizes,
        },
        "data": {
            "sources": [
                {"name": s.name, "assumed": s.assumed, "from": s.text}
                for s in data.sources
            ],
            "num_steps": data.num_steps,
            "load": [
                [query_len, num_reqs, weight]
                for (query_len, num_reqs), weight in sorted(
                    data.workload.decode.items()
                )
            ],
            "observed": data.observed,
            "kv_bytes_per_token": per_token,
            "files": [report.to_dict() for report in data.reports],
        },
        "before": _value_document(before, per_token),
        "default": None
        if (default := task.default()) is None
        else _value_document(default, per_token),
        "after": _value_document(plan.value, per_token),
        "plan": {
            "dispatcher": plan.dispatcher,
            "sizes": plan.sizes,
            "graphs": [list(g) for g in plan.graphs],
            "chosen": chosen_how,
            "optimal": plan.optimal,
            "gap": plan.gap,
            "lower_bound_us": plan.lower_bound_us,
            "eager_us": plan.eager_us,
            "args": plan.vllm_args(save or "plan.json"),
            "saved": save,
        },
        "worth": [
            {
                ("size" if isinstance(entry, int) else "graph"): (
                    entry if isinstance(entry, int) else list(entry)
                ),
                "us": us,
            }
            for entry, us in worth.items()
        ],
        "stability": None if shift is None else _stability(shift, data),
        "frontier": None,
        "check": None,
        "notes": _notes(task, plan, before),
    }
    if frontier:
        document["frontier"] = [
            {
                "num_graphs": p.num_graphs,
                "mean_step_us": p.mean_step_us,
                "graph_bytes": p.graph_bytes,
                "graph_seconds": p.graph_seconds,
                "sizes": list(p.sizes),
                "graphs": [list(g) for g in p.graphs],
            }
            for p in plan.frontier
        ]
    return document


def _value_document(value: CaptureValue, per_token: float | None) -> dict[str, Any]:
    return asdict(value) | {
        "kv_tokens": None if per_token is None else round(value.graph_bytes / per_token)
    }


def _stability(shift: tuple[float, float], data: PlanData) -> dict[str, Any]:
    low, high = shift
    penalty = data.eager_penalty_us
    return {
        "eager_penalty_us": penalty,
        "assumed": data.assumed("eager step"),
        "shift_down_us": None if math.isinf(low) else low,
        "shift_up_us": None if math.isinf(high) else high,
    }


def _notes(task: _Task, plan: CapturePlan, before: CaptureValue) -> list[str]:
    config, data = task.config, task.data
    notes = [*config.notes, *data.notes]
    if config.flags_note:
        notes.append(config.flags_note)
    # The plan repeats where the data came from; that is shown as a table.
    notes += [
        as_flags(note, _FLAGS)
        for note in plan.notes
        if note not in data.notes
        and not note.startswith(
            ("workload assumed", "costs assumed", "costs FULL", ASSUMED)
        )
    ]
    if task.drafter:
        own = before.num_graphs - task.before(drafter=None).num_graphs
        notes.append(
            f"graphs include the drafter's own: {own:,} of today's "
            f"{before.num_graphs:,}"
        )
    method = config.speculative_method
    if config.num_speculative_tokens and not task.drafter and method not in NO_DRAFTER:
        notes.append(
            f"the drafter's own graphs ({method or 'method unknown'}) are not counted"
        )
    if config.data_parallel_size > 1:
        notes.append(
            f"data_parallel_size is {config.data_parallel_size}: ranks that step "
            "together all use the graph of the widest, so the workload should hold "
            "the widest rank's batches"
        )
    if plan.dispatcher != "union":
        notes.append(
            f"the {plan.dispatcher} dispatcher needs the specgrid plug-in in the "
            "server; plain vLLM 0.33 has the union dispatcher"
        )
    if config.max_cudagraph_capture_size is not None:
        notes.append(
            "leave --max-cudagraph-capture-size out: vLLM refuses to start when it "
            "differs from the last size"
        )
    return notes


# -- text --------------------------------------------------------------------------


def render(document: dict[str, Any], out: Printer) -> None:
    """Prints the answer, the headline first."""
    assumed = [s["name"] for s in document["data"]["sources"] if s["assumed"]]
    if document["check"] is not None:
        _render_check(document, out, assumed)
    _render_headline(document, out, assumed)
    _render_plan(document, out)
    _render_worth(document, out, assumed)
    if document["stability"] is not None:
        _render_stability(document["stability"], out)
    if document["frontier"] is not None:
        _render_frontier(document, out)
    _render_data(document, out)
    if document["notes"]:
        out.heading("Notes")
        for note in document["notes"]:
            out.paragraph(note)


def _render_check(document: dict[str, Any], out: Printer, assumed: list[str]) -> None:
    check = document["check"]
    value = check["value"]
    out.line(f"Checked: {check['file']}", "bold")
    out.line(
        f"{value['full_share']:.1%} FULL, {value['piecewise_share']:.1%} PIECEWISE, "
        f"{value['eager_share']:.1%} eager; mean step {_ms(value['mean_step_us'])}"
        f"{_tag(assumed, *_STEP_SOURCES)}, "
        f"{check['slower_than_best']:+.2%} against the best plan of its size below"
    )
    for problem in check["problems"]:
        out.paragraph(problem, style="bad")
    out.line()


def _render_headline(
    document: dict[str, Any], out: Printer, assumed: list[str]
) -> None:
    before, after = document["before"], document["after"]
    load = _tag(assumed, "workload")
    times = _tag(assumed, *_STEP_SOURCES)
    out.line("Steps and what they cost, today and with the plan", "bold")
    if assumed:
        out.line(f"ASSUMED, not measured: {', '.join(assumed)}", "warn")
    rows = [
        (f"steps on a FULL graph{load}", *_pair(before, after, "full_share", "{:.1%}")),
        (
            f"steps on a PIECEWISE graph{load}",
            *_pair(before, after, "piecewise_share", "{:.1%}"),
        ),
        (
            f"steps without a graph{load}",
            *_pair(before, after, "eager_share", "{:.1%}"),
        ),
        (
            f"mean step{times}",
            _ms(before["mean_step_us"]),
            _ms(after["mean_step_us"]),
            _change(before["mean_step_us"], after["mean_step_us"]),
        ),
        (f"padding{load}", *_pair(before, after, "padding", "{:.1%}")),
        ("graphs", *_pair(before, after, "num_graphs", "{:,}")),
        (
            f"graph memory{_tag(assumed, 'graph memory')}",
            _mib(before["graph_bytes"]),
            _mib(after["graph_bytes"]),
            _change(before["graph_bytes"], after["graph_bytes"]),
        ),
        (
            f"capture time{_tag(assumed, 'capture time')}",
            f"{before['graph_seconds']:.1f} s",
            f"{after['graph_seconds']:.1f} s",
            _change(before["graph_seconds"], after["graph_seconds"]),
        ),
    ]
    if after["kv_tokens"] is not None:
        rows.append(
            (
                f"KV tokens given up{_tag(assumed, 'graph memory')}",
                *_pair(before, after, "kv_tokens", "{:,}"),
            )
        )
    out.table(["", "today", "plan", "change"], rows, right=["today", "plan", "change"])
    observed = document["data"]["observed"]
    if observed is not None:
        out.line(
            "The log's --cudagraph-metrics tables say: "
            f"{observed['FULL']:.1%} FULL, {observed['PIECEWISE']:.1%} PIECEWISE, "
            f"{observed['NONE']:.1%} eager."
        )


def _pair(
    before: dict[str, Any], after: dict[str, Any], key: str, form: str
) -> tuple[str, str, str]:
    change = (
        f"{100 * (after[key] - before[key]):+.1f} pt"
        if key.endswith("share") or key == "padding"
        else _change(before[key], after[key])
    )
    return form.format(before[key]), form.format(after[key]), change


def _render_plan(document: dict[str, Any], out: Printer) -> None:
    plan = document["plan"]
    proof = (
        "proven optimal"
        if plan["optimal"]
        else f"at most {plan['gap']:.2%} from optimal (the search was cut short)"
    )
    out.heading(f"Plan for the {plan['dispatcher']} dispatcher: {proof}")
    out.paragraph(plan["chosen"], bullet="")
    if plan["sizes"]:
        out.line("sizes (tokens): " + " ".join(map(str, plan["sizes"])))
    if plan["graphs"]:
        out.line(
            "FULL graphs (query length x requests): "
            + " ".join(f"{q}x{n}" for q, n in plan["graphs"])
        )
    if not plan["sizes"] and not plan["graphs"]:
        out.line("no graph at all")
    if plan["lower_bound_us"] is not None:
        out.line(
            f"mean step between {_ms(plan['lower_bound_us'])} (every step its own "
            f"graph) and {_ms(plan['eager_us'])} (no graphs)"
        )
    out.heading("Paste")
    out.line("  " + shlex.join(plan["args"]))
    if plan["saved"]:
        out.line(f"saved to {plan['saved']}")


def _render_worth(document: dict[str, Any], out: Printer, assumed: list[str]) -> None:
    worth = document["worth"]
    if not worth:
        return
    tag = _tag(assumed, *_STEP_SOURCES)
    out.heading(f"What each is worth: mean step without it{tag}")
    shown = sorted(worth, key=lambda w: -w["us"])[:40]
    base = document["after"]["mean_step_us"]
    out.table(
        [
            "entry" if any("graph" in w for w in worth) else "size",
            "step longer by",
            "share",
        ],
        [
            (
                w["size"] if "size" in w else "{}x{}".format(*w["graph"]),
                f"{w['us']:,.1f} us",
                f"{w['us'] / base:.2%}" if base else "-",
            )
            for w in shown
        ],
        right=["size", "entry", "step longer by", "share"],
    )
    if len(worth) > len(shown):
        out.line(f"... {len(worth) - len(shown)} more (--json has all)")


def _render_stability(stability: dict[str, Any], out: Printer) -> None:
    penalty, down, up = (
        stability[key] for key in ("eager_penalty_us", "shift_down_us", "shift_up_us")
    )
    name = "assumed eager penalty" if stability["assumed"] else "eager penalty"
    if down is None and up is None:
        text = f"No other {name} changes the plan."
    elif penalty is not None:
        low = "0" if down is None else _ms(max(penalty + down, 0.0))
        high = "anything" if up is None else _ms(penalty + up)
        text = (
            f"The plan stays the best for an {name} from {low} to {high} "
            f"(taken: {_ms(penalty)})."
        )
    else:
        low = "any amount down" if down is None else f"{_ms(-down)} down"
        high = "any amount up" if up is None else f"{_ms(up)} up"
        text = f"The plan stays the best while eager steps move {low} and {high}."
    style: Style = "warn" if stability["assumed"] and _narrow(penalty, down, up) else ""
    out.heading("If the eager penalty were another")
    out.paragraph(text, bullet="", style=style)


def _narrow(penalty: float | None, down: float | None, up: float | None) -> bool:
    """Whether halving or doubling the penalty would change the plan."""
    if penalty is None:
        return False
    return (down is not None and -down < penalty / 2) or (
        up is not None and up < penalty
    )


def _render_frontier(document: dict[str, Any], out: Printer) -> None:
    points = document["frontier"]
    out.heading("The best plan of every budget")
    step = max(1, math.ceil(len(points) / MAX_FRONTIER_SHOWN))
    shown = points[::step]
    if points and shown[-1] is not points[-1]:
        shown.append(points[-1])
    out.table(
        ["graphs", "mean step", "memory", "seconds", "captures"],
        [
            (
                p["num_graphs"],
                _ms(p["mean_step_us"]),
                _mib(p["graph_bytes"]),
                f"{p['graph_seconds']:.1f}",
                steps_text(p["sizes"], limit=8)
                or " ".join(f"{q}x{n}" for q, n in p["graphs"][:8])
                or "(none)",
            )
            for p in shown
        ],
        right=["graphs", "mean step", "memory", "seconds"],
    )
    if len(shown) < len(points):
        out.line(f"{len(points)} in all (--json has them)")


def _render_data(document: dict[str, Any], out: Printer) -> None:
    out.heading("Made from")
    out.table(
        ["what", "", "from"],
        [
            (s["name"], "ASSUMED" if s["assumed"] else "measured", s["from"])
            for s in document["data"]["sources"]
        ],
    )
    for report in document["data"]["files"]:
        out.line(
            f"{report['source']}: {report['num_read']:,} records used, "
            f"{report['num_skipped']:,} lines of other kinds, "
            f"{report['num_damaged']:,} damaged",
            "warn" if report["num_damaged"] else "",
        )
        for damage in report["damaged"]:
            text = f": {damage['text']}" if damage["text"] else ""
            out.paragraph(f"line {damage['line']}: {damage['reason']}{text}", "  ")
        for note in report["notes"]:
            out.paragraph(note)


def _tag(assumed: list[str], *names: str) -> str:
    return " (assumed)" if any(name in assumed for name in names) else ""


def _ms(us: float) -> str:
    return f"{us / 1000:.3f} ms"


def _mib(size: float) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


def _change(before: float, after: float) -> str:
    return f"{(after - before) / before:+.1%}" if before else "-"
