# SPDX-License-Identifier: Apache-2.0
"""``specgrid tune``: a draft-length schedule from measured latency and acceptance.

The JSON document (docs/tuning.md) is made first; the text is a rendering of it, so
the two cannot disagree. The method is in ``specgrid._tune``.
"""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import click
import numpy as np

from specgrid._budget import Budget
from specgrid._costs import Costs
from specgrid._errors import ConfigError
from specgrid._tune import TunedSchedule, tune_schedule
from specgrid._tune_captures import JointPlan, tune_with_captures
from specgrid._tune_cases import next_points
from specgrid._version import __version__
from specgrid.cli._charts import files
from specgrid.cli._input import serve_command
from specgrid.cli._numbers import Number, NumberList
from specgrid.cli._output import Printer, print_json, ranges_text, runs
from specgrid.cli._plan_data import drafter_of
from specgrid.cli._tune_data import TuneData, gather
from specgrid.cli._tune_grid import grid_of, throughput_of
from specgrid.cli._tune_settings import lint_of, settings_of
from specgrid.cli._words import in_flags
from specgrid.io.costs import read_costs
from specgrid.io.vllm_config import ServeConfig

SCHEMA_VERSION = 1
MAX_ROWS_SHOWN = 40
MAX_AREAS_SHOWN = 8

#: What the library's messages call things, and what this command does.
_FLAGS = (
    (", or pass full_coverage=False to leave wide batches without a graph", ""),
    ("Raise the budget to that", "Raise --graphs to that"),
    ("or leave k = ([0-9]+) out", r"or leave it out with --forbid-k \1"),
    ("tolerance = ", "--tolerance "),
    ("max_entries = ", "--max-entries "),
    ("raise max_entries", "raise --max-entries"),
    ("monotone=True", "--monotone"),
    ("min_k = ", "--min-k "),
    ("forbidden_k = ", "--forbid-k "),
    ("; give fewer contexts", "; give a smaller --context-columns"),
    (
        "weights are all 0; give emitted tokens per cell, or None",
        "the workload of --log has no emitted tokens; give another, or none",
    ),
)

_EXAMPLES = """\
\b
Examples:
  specgrid tune --latency result_k0.json --latency result_k3.json \\
      --acceptance responses.jsonl --max-entries 4 -- vllm serve ...
  specgrid tune --latency sweep/ --acceptance sweep/ --tolerance 0.02 -- vllm serve ...
  specgrid tune --latency steps.csv --acceptance 0.76,0.54,0.39 --log server.log \\
      --graphs 60 --config serve.yaml

`specgrid cases` lists what to measure. docs/tuning.md says what is measured, what is
assumed, and what each number means.
"""


@serve_command("tune", epilog=_EXAMPLES)
@click.option(
    "--latency",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Step times: vllm bench forward or serve results, a sweep folder, or CSV "
    "(batch,context,k,step_us). Repeat for several files.",
)
@click.option(
    "--acceptance",
    required=True,
    metavar="FILE|VALUES",
    help="Per-request metrics, /metrics text, bench results, a sweep folder, CSV, or "
    "survival values such as 0.76,0.54,0.39.",
)
@click.option(
    "--acceptance-before",
    metavar="FILE",
    help="An earlier /metrics scrape; the window between is used.",
)
@click.option(
    "--log",
    "workload",
    multiple=True,
    metavar="FILE",
    help="Server logs or a workload table, to weigh batches by their work. Without: "
    "every batch emits the same number of tokens.",
)
@click.option(
    "--max-entries", metavar="N", type=click.IntRange(1, 256), help="At most N entries."
)
@click.option(
    "--tolerance",
    metavar="SHARE",
    type=Number(0, 1, max_open=True),
    help="Fewest entries that lose at most this share of time in any cell, as 0.02.",
)
@click.option("--monotone", is_flag=True, help="K never rises with the batch.")
@click.option(
    "--max-ms-per-token",
    metavar="MS",
    type=Number(0, min_open=True),
    help="Limit of time per output token of a request.",
)
@click.option(
    "--min-k", metavar="K", type=click.IntRange(0), default=0, help="Smallest K."
)
@click.option("--forbid-k", metavar="K,...", type=NumberList(0), help="K not to use.")
@click.option(
    "--context-columns",
    metavar="N",
    type=click.IntRange(1, 4096),
    help="Context columns to evaluate; the measured ones and up to 24 when not given.",
)
@click.option(
    "--ignore-context",
    is_flag=True,
    help="Take all points as of one context: a schedule by batch alone.",
)
@click.option(
    "--graphs",
    metavar="N",
    type=click.IntRange(1),
    help="Choose captures too, with at most N graphs, and the best pair of both.",
)
@click.option(
    "--costs",
    "costs_file",
    metavar="FILE",
    help="Step costs by mode for --graphs, as in `specgrid plan`.",
)
@files.plot_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@in_flags(_FLAGS)
def command(
    config: ServeConfig,
    latency: tuple[str, ...],
    acceptance: str,
    acceptance_before: str | None,
    workload: tuple[str, ...],
    max_entries: int | None,
    tolerance: float | None,
    monotone: bool,
    max_ms_per_token: float | None,
    min_k: int,
    forbid_k: tuple[int, ...] | None,
    context_columns: int | None,
    ignore_context: bool,
    graphs: int | None,
    costs_file: str | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Choose K for every batch and context, in few schedule entries.

    Prints the schedule, what it gains over static K and over no speculation, where
    the choice is within noise, what was not measured, and the settings to paste.
    """
    files.check(plot)
    if costs_file is not None and graphs is None:
        raise ConfigError("--costs prices captures; give --graphs N with it")
    data = gather(
        latency,
        acceptance,
        acceptance_before,
        workload,
        ignore_context=ignore_context,
        num_columns=context_columns,
        max_num_seqs=config.max_num_seqs,
    )
    longest = config.num_speculative_tokens or max(k for _, _, k, _ in data.points)
    if longest == 0:
        raise ConfigError(
            "only K = 0 was measured; measure steps with drafts too (`specgrid cases`)"
        )
    tuned = tune_schedule(
        data,
        data.acceptance,
        max_num_seqs=config.max_num_seqs,
        num_speculative_tokens=longest,
        max_entries=max_entries,
        # Without a wish: few entries, and no cell worse than noise could tell.
        tolerance=0.02 if tolerance is None and max_entries is None else tolerance,
        monotone=monotone,
        weights=data.weights,
        contexts=data.contexts,
        max_us_per_token=None if max_ms_per_token is None else 1000 * max_ms_per_token,
        min_k=min_k,
        forbidden_k=forbid_k or (),
    )
    notes = list(tuned.notes)
    joint = None
    if graphs is not None:
        costs = _costs(costs_file, notes)
        joint = tune_with_captures(
            tuned,
            costs,
            budget=Budget(graphs=graphs),
            mixed=data.mixed,
            max_num_batched_tokens=config.max_num_batched_tokens,
            lora_cases=config.lora_cases,
            drafter=drafter_of(config),
        )
    document = _document(config, data, tuned, joint, notes)
    document["limit"] = _limit(tuned, max_ms_per_token)
    if joint is not None:
        document["captures"] = {"max_graphs": graphs, **_captures(joint)}
    if plot is not None:
        _plot(plot, document)
    if as_json:
        print_json(document)
    else:
        _render(document, Printer())
    limit = document["limit"]
    return 1 if limit and limit["num_missed"] == limit["num_cells"] else 0


def _plot(path: str, document: dict[str, Any]) -> None:
    """Draft tokens by batch and context, as ``specgrid report`` has it, into a file."""
    from specgrid.cli._charts import heat

    loss = document["loss"]
    files.save(
        path,
        lambda: heat.draw_drafts(document["grid"], files.WIDTH),
        f"Draft tokens: {len(document['entries'])} entries, "
        f"{100 * loss['weighted']:.2f} % of time lost",
    )


def _costs(path: str | None, notes: list[str]) -> Costs:
    """Costs by tokens; what was not measured is assumed and said."""
    assumed = Costs.default()
    if path is None:
        notes.append(f"Captures are priced by assumption ({assumed.source}).")
        return assumed
    read = read_costs(path)
    if not read.full_us:
        raise ConfigError(f"{path} has no FULL step times")
    base = Costs.from_penalties(
        _beyond(dict(read.full_us)),
        3000.0 if read.piecewise_penalty_us is None else read.piecewise_penalty_us,
        12000.0 if read.eager_penalty_us is None else read.eager_penalty_us,
    )
    if read.eager_us is None and read.eager_penalty_us is None:
        notes.append("The eager penalty is assumed to be 12 ms.")
    if read.piecewise_us is None and read.piecewise_penalty_us is None:
        notes.append("The PIECEWISE penalty is assumed to be 3 ms.")
    return Costs(
        base.full,
        _beyond(dict(read.piecewise_us)) if read.piecewise_us else base.piecewise,
        _beyond(dict(read.eager_us)) if read.eager_us else base.eager,
    )


def _beyond(table: dict[int, float]) -> Any:
    """A table that goes straight on where it ends, so that every size has a cost."""
    tokens = sorted(table)
    values = [table[t] for t in tokens]
    slope = (
        max(0.0, (values[-1] - values[0]) / (tokens[-1] - tokens[0]))
        if len(tokens) > 1
        else 0.0
    )

    def cost(num_tokens: int) -> float:
        inside = float(np.interp(num_tokens, tokens, values))
        return inside + slope * max(0, num_tokens - tokens[-1])

    return cost


# ---- the document ------------------------------------------------------------------


def _document(
    config: ServeConfig,
    data: TuneData,
    tuned: TunedSchedule,
    joint: JointPlan | None,
    notes: list[str],
) -> dict[str, Any]:
    cells = tuned.cells
    points = next_points(tuned)
    settings = settings_of(config, tuned, joint)
    return {
        "schema": "specgrid.tune",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "max_num_seqs": tuned.max_num_seqs,
        "num_speculative_tokens": tuned.num_speculative_tokens,
        "num_points": len(data.points),
        "scope": data.scope,
        "schedule": tuned.schedule.to_rows(),
        "is_2d": tuned.schedule.is_2d,
        "entries": [list(entry) for entry in tuned.entries],
        "loss": tuned.loss._asdict(),
        "gains": [
            {"k": k, **{name: _number(v) for name, v in gain._asdict().items()}}
            for k, gain in sorted(tuned.gains.items())
        ],
        "frontier": [
            {
                "entries": point.entries,
                "rows": point.rows,
                "loss": point.loss._asdict(),
                "schedule": point.schedule.to_rows(),
            }
            for point in tuned.frontier
        ],
        "acceptance": [
            {
                "context_lo": bucket.context_lo,
                "context_hi": bucket.context_hi,
                "method": bucket.acceptance.method,
                "num_drafts": bucket.acceptance.num_drafts,
                "survival": list(bucket.acceptance.survival),
                "intervals": [list(i) for i in bucket.acceptance.intervals],
            }
            for bucket in tuned.acceptance
        ],
        "within_noise": _areas(tuned, cells.within_noise),
        "not_measured": _areas(tuned, ~cells.measured),
        "partly_measured": _areas(tuned, cells.measured & ~cells.all_k_measured),
        "settings": settings,
        "lint": lint_of(settings),
        "limit": None,
        "captures": None,
        "grid": grid_of(tuned),
        "throughput": throughput_of(tuned, data.points),
        "measure_next": [{"batch": b, "context": c, "k": k} for b, c, k in points],
        "notes": [*config.notes, *notes],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _areas(tuned: TunedSchedule, mask: Any) -> list[dict[str, Any]]:
    """Batches of a mask by context column; equal neighbouring columns joined."""
    out: list[dict[str, Any]] = []
    for column, (lo, hi) in enumerate(tuned.cells.context_ranges):
        batches = (np.flatnonzero(mask[:, column]) + 1).tolist()
        found = [list(r) for r in runs(batches)]
        if out and out[-1]["batches"] == found and out[-1]["context_hi"] == lo - 1:
            out[-1]["context_hi"] = hi
        else:
            out.append({"context_lo": lo, "context_hi": hi, "batches": found})
    return [area for area in out if area["batches"]]


def _limit(
    tuned: TunedSchedule, max_ms_per_token: float | None
) -> dict[str, Any] | None:
    """How many measured cells no K brings under the limit, and the least there is."""
    if max_ms_per_token is None:
        return None
    cells = tuned.cells
    best = cells.best_us_per_token[cells.measured]
    return {
        "max_ms_per_token": max_ms_per_token,
        "num_cells": int(cells.measured.sum()),
        "num_missed": int((cells.measured & ~cells.limit_met).sum()),
        "least_ms_per_token": float(best.min()) / 1000,
    }


def _captures(joint: JointPlan) -> dict[str, Any]:
    plan = joint.plan
    return {
        "schedule": joint.best.schedule.to_rows(),
        "num_graphs": joint.best.num_graphs,
        "sizes": list(joint.best.sizes),
        "us_per_token": joint.best.us_per_token,
        "args": [] if plan is None else plan.vllm_args(),
        "change_below": joint.change_below,
        "family": joint.family,
        "num_schedules": joint.num_schedules,
        "frontier": [
            {
                "num_graphs": pair.num_graphs,
                "schedule": pair.schedule.to_rows(),
                "sizes": list(pair.sizes),
                "us_per_token": pair.us_per_token,
            }
            for pair in joint.frontier
        ],
    }


# ---- text --------------------------------------------------------------------------


def _render(document: dict[str, Any], out: Printer) -> None:
    loss = document["loss"]
    rows = document["schedule"]
    _render_limit(document["limit"], out)
    out.line(
        f"Schedule of {len(document['entries'])} entries"
        + (f" ({len(rows)} rows in strict form)" if document["is_2d"] else "")
        + f" from {document['num_points']} points",
        "bold",
    )
    out.table(
        ["batches", *(["contexts"] if document["is_2d"] else []), "K"],
        [_row(row) for row in rows[:MAX_ROWS_SHOWN]],
        right=["batches", "contexts", "K"],
    )
    if len(rows) > MAX_ROWS_SHOWN:
        out.line(f"... {len(rows) - MAX_ROWS_SHOWN} more (--json has all)")
    out.line(
        f"Time lost against the best K of every cell: {_percent(loss['weighted'])}, "
        f"{_percent(loss['worst'])} in the worst cell."
    )
    out.heading("Gain")
    out.table(
        ["against", "faster by", "interval", "cells compared"],
        [
            (
                "no speculation" if gain["k"] == 0 else f"static K = {gain['k']}",
                _signed(gain["factor"]),
                f"{_signed(gain['low'])} to {_signed(gain['high'])}",
                _percent(gain["share_measured"]),
            )
            for gain in document["gains"]
        ],
        right=["faster by", "interval", "cells compared"],
    )
    out.heading("Entries against loss")
    out.table(
        ["entries", "rows", "lost", "worst cell"],
        [
            (
                point["entries"],
                point["rows"],
                _percent(point["loss"]["weighted"]),
                _percent(point["loss"]["worst"]),
            )
            for point in document["frontier"]
        ],
        right=["entries", "rows", "lost", "worst cell"],
    )
    for key, title in (
        ("within_noise", "Within noise (the runner-up could be as good)"),
        ("not_measured", "Not measured (the nearest measured K is used)"),
        ("partly_measured", "Some K not measured (it could not be chosen)"),
    ):
        if document[key]:
            out.heading(title)
            areas = document[key]
            for area in areas[:MAX_AREAS_SHOWN]:
                out.line(_area(area, document["is_2d"] or len(areas) > 1))
            if len(areas) > MAX_AREAS_SHOWN:
                out.line(f"... {len(areas) - MAX_AREAS_SHOWN} more (--json has all)")
    if document["captures"] is not None:
        _render_captures(document["captures"], out)
    out.heading("Paste")
    settings = document["settings"]
    if document["captures"] is not None:
        out.line("The best pair: its schedule and its captures.")
    out.line(shlex.join(settings["args"]))
    if settings["flag"] == "--speculative-config":
        if not {"method", "model"} & set(settings["value"]):
            out.line("Add your method and drafter to it.")
    else:
        out.line("Needs the specgrid plug-in: a schedule by context has no vLLM flag.")
    if document["lint"]:
        out.heading("What `specgrid lint` says of the server with these settings")
        for row in document["lint"]:
            out.paragraph(f"{row['severity']} {row['id']}: {row['message']}")
            out.paragraph(row["fix"], bullet="  fix: ", style="good")
    if document["measure_next"]:
        out.heading("Measure next")
        out.line(_next_command(document["measure_next"]))
    if document["notes"]:
        out.heading("Notes")
        for note in document["notes"]:
            out.paragraph(note)


def _render_captures(captures: dict[str, Any], out: Printer) -> None:
    out.heading(f"With at most {captures['max_graphs']} graphs")
    schedule = json.dumps(captures["schedule"])
    out.line(f"best pair of schedule and captures, of {captures['family']}:")
    out.line(f"  schedule {schedule}")
    out.line(f"  {shlex.join(captures['args'])}")
    out.line(
        f"  {captures['num_graphs']} graphs, {captures['us_per_token']:.4g} us per "
        "emitted token"
    )
    below = captures["change_below"]
    if below is None:
        out.line("No smaller number of graphs asks for another schedule.")
    else:
        other = [p for p in captures["frontier"] if p["num_graphs"] < below][-1]
        out.line(
            f"With fewer than {below} graphs another schedule is better: "
            f"{json.dumps(other['schedule'])} with {other['num_graphs']}."
        )


def _render_limit(limit: dict[str, Any] | None, out: Printer) -> None:
    if limit is None or not limit["num_missed"]:
        return
    missed, cells = limit["num_missed"], limit["num_cells"]
    out.line(
        f"{'No cell meets' if missed == cells else f'{missed} of {cells} cells miss'} "
        f"the limit of {limit['max_ms_per_token']:g} ms a token with any K; the "
        f"least any cell takes is {limit['least_ms_per_token']:.3g} ms.",
        "bad" if missed == cells else "warn",
    )


def _row(row: list[int]) -> tuple[object, ...]:
    if len(row) == 3:
        return f"{row[0]}-{row[1]}", row[2]
    last = "" if row[3] == 2**31 - 1 else row[3]
    return f"{row[0]}-{row[1]}", f"{row[2]}-{last}", row[4]


def _area(area: dict[str, Any], with_context: bool) -> str:
    batches = "batches " + ranges_text([(a, b) for a, b in area["batches"]])
    if not with_context:
        return batches
    hi = area["context_hi"]
    last = "" if hi == 2**31 - 1 else hi
    return f"contexts {area['context_lo']}-{last}: {batches}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share < 0.995 else f"{100 * share:.0f} %"


def _signed(factor: float) -> str:
    return f"{100 * (factor - 1):+.1f} %"


def _next_command(points: list[dict[str, int]]) -> str:
    def listed(name: str) -> str:
        return ",".join(map(str, sorted({p[name] for p in points})))

    contexts = sorted({max(1, p["context"]) for p in points})
    return (
        f"specgrid cases --batches {listed('batch')} "
        f"--contexts {','.join(map(str, contexts))} --ks {listed('k')} "
        "-o next -- vllm serve ..."
    )
