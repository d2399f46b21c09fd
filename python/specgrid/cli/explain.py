# SPDX-License-Identifier: Apache-2.0
"""``specgrid explain``: what vLLM captures for a server, and what it leaves out.

The JSON document (docs/explain.md) is made first; the text is a rendering of it, so
the two cannot disagree.
"""

from __future__ import annotations

from typing import Any

import click

from specgrid._capture import Rule
from specgrid._errors import ConfigError
from specgrid._version import __version__
from specgrid.cli._analysis import (
    RULES,
    Analysis,
    analyse,
    join_ranges,
    schedule_text,
    steps_text,
    stretches,
)
from specgrid.cli._charts import files
from specgrid.cli._coverage_map import draw_map
from specgrid.cli._fixes import covering_text
from specgrid.cli._input import serve_command
from specgrid.cli._output import Printer, print_json, ranges_text
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_command import short
from specgrid.io.vllm_config import ServeConfig

SCHEMA_VERSION = 1
MAX_ROWS_SHOWN = 40

_EXAMPLES = """\
\b
Examples:
  specgrid explain -- vllm serve meta-llama/Llama-3.1-8B-Instruct \\
      --max-num-seqs 256 --spec-method eagle3 --spec-model yuhuili/EAGLE3-... \\
      --spec-tokens 5
  specgrid explain --config serve.yaml --gpu b200
  specgrid explain --max-cudagraph-capture-size 544 -- vllm serve ...   try a change

Flags before `--` are laid over the pasted command. Nothing is downloaded or started,
and variables of the calling shell are not looked at.
"""


@serve_command("explain", epilog=_EXAMPLES)
@click.option(
    "--rule",
    type=click.Choice(RULES),
    default=RULES[0],
    show_default=True,
    help="Whose capture sizes: a vLLM version's, #50488 as merged, or 0.33 with "
    "explicit maxima kept (#37865 and #55004).",
)
@files.plot_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(config: ServeConfig, rule: Rule, plot: str | None, as_json: bool) -> int:
    """Explain what vLLM will capture for a server.

    Shows the settings that decide CUDA graphs and where each came from, the
    schedule as tiers, the capture sizes with their reasons, what was dropped or
    truncated, and the decode batches that lose their graph by it.

    Exit status 1 when the schedule is one vLLM will fail on.
    """
    files.check(plot)
    analysis = analyse(config, rule)
    document = to_document(analysis)
    _plot(plot, analysis)
    if as_json:
        print_json(document)
    else:
        render(document, Printer())
    return 1 if analysis.schedule_status == "invalid" else 0


def _plot(path: str | None, analysis: Analysis) -> None:
    """The coverage map, as ``specgrid report`` has it, into a file."""
    from specgrid.cli._charts import coverage as chart
    from specgrid.cli._report.coverage import map_of

    if path is None:
        return
    if analysis.coverage is None:
        raise ConfigError(
            "--plot draws which graph each decode batch gets, and that is not known "
            "here: there are no graphs, or too many batches; leave --plot out"
        )
    map_ = map_of(analysis.coverage)
    missed = len(analysis.coverage.missed)
    files.save(
        path,
        lambda: chart.draw(map_, files.WIDTH),
        f"{missed:,} of {map_['widest']:,} decode batches lack a FULL graph",
        chart.LEGEND,
    )


def to_document(analysis: Analysis) -> dict[str, Any]:
    """The whole explanation as JSON values."""
    config = analysis.config
    return {
        "schema": "specgrid.explain",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "rule": analysis.rule,
        "settings": [
            {
                "name": s.name,
                "value": schedule_text(s.value) if s.name == "schedule" else s.value,
                "source": s.source,
                "detail": s.detail,
            }
            for s in config.settings
        ],
        "notes": _notes(analysis),
        "flags": {
            "ignored": list(config.ignored_flags),
            "unknown": list(config.unknown_flags),
        },
        "schedule": {
            "status": analysis.schedule_status,
            "reason": analysis.schedule_reason or None,
            "rows": None if analysis.schedule is None else analysis.schedule.to_rows(),
        },
        "tiers": _tiers(analysis),
        "capture": _capture(analysis),
        "coverage": _coverage(analysis),
    }


def _notes(analysis: Analysis) -> list[str]:
    config = analysis.config
    notes = list(config.notes)
    if config.flags_note:
        notes.append(config.flags_note)
    if analysis.schedule_status == "in force":
        notes.append(
            "The schedule counts every request of a step, prefills included: 4 decodes "
            "beside 1 prompt chunk are batch 5 (#49548). The draft length chosen at "
            "one step is verified at the next."
        )
    policy = config.plugin.get("policy")
    if policy is not None:
        notes.append(
            f"The settings ask the specgrid plug-in for policy {short(policy)}; with "
            "it, that row of the coverage table applies."
        )
    for tier in analysis.tiers[:MAX_ROWS_SHOWN]:
        widest = analysis.schedulable(tier)
        if widest < tier.max_batch:
            notes.append(
                f"max_num_batched_tokens {config.max_num_batched_tokens} lets at most "
                f"{widest} requests decode in one step at query length "
                f"{tier.query_len}, fewer than the {tier.max_batch} the settings allow."
            )
    return notes


def _tiers(analysis: Analysis) -> list[dict[str, Any]]:
    sizes = analysis.sizes
    known = analysis.coverage is not None
    missed: dict[int, list[tuple[int, int]]] = {}
    for s in stretches(analysis.coverage) if analysis.coverage is not None else []:
        if s.mode != "FULL":
            missed.setdefault(s.query_len, []).append((s.batch_lo, s.batch_hi))
    return [
        {
            "query_len": t.query_len,
            "drafts": t.k,
            "min_batch": t.min_batch,
            "max_batch": t.max_batch,
            "tokens": t.query_len * t.max_batch,
            "reach": 0 if sizes is None else sizes.covered_batch(t),
            "missed": join_ranges(missed.get(t.query_len, [])) if known else None,
        }
        for t in analysis.tiers
    ]


def _capture(analysis: Analysis) -> dict[str, Any]:
    sizes = analysis.sizes
    document: dict[str, Any] = {
        "enabled": sizes is not None,
        "mode": analysis.config.cudagraph_mode,
        "count": 0,
        "max_size": 0,
        "sufficient_max": analysis.sufficient_max,
        "sizes": [],
        "runner_sizes": [],
        "notes": [],
        "advice": None,
    }
    if sizes is None:
        return document
    document["count"] = len(sizes)
    document["max_size"] = sizes.max_size
    for size, origins in zip(sizes.sizes, sizes.origins, strict=True):
        entry: dict[str, Any] = {"tokens": size, "origins": list(origins)}
        if "decode size" in origins:
            entry["query_lens"] = analysis.decode_origins(size)
        document["sizes"].append(entry)
    document["runner_sizes"] = analysis.runner_sizes
    document["notes"] = [
        {
            "kind": note.kind,
            "message": note.message,
            "sizes": list(note.sizes),
            "batches": [
                {"query_len": q, "first": first, "last": last}
                for q, first, last in note.batches
            ],
        }
        for note in sizes.notes
    ]
    if any(note.kind == "uncovered" for note in sizes.notes):
        document["advice"] = covering_text(analysis)
    return document


def _coverage(analysis: Analysis) -> dict[str, Any] | None:
    coverage = analysis.coverage
    if coverage is None:
        return None
    return {
        "stretches": [
            {
                "query_len": s.query_len,
                "batch_lo": s.batch_lo,
                "batch_hi": s.batch_hi,
                "mode": s.mode,
                "hidden": s.hidden,
            }
            for s in stretches(coverage)
        ],
        "policies": [
            {
                "policy": policy,
                "full_graphs": c.graph_set.count("FULL"),
                "piecewise_graphs": c.graph_set.count("PIECEWISE"),
                "unused_graphs": len(c.unreachable),
                "batches": c.counts,
                "mean_padding": round(c.mean_padding(), 6),
            }
            for policy, c in analysis.policies.items()
        ],
    }


# -- text --------------------------------------------------------------------------


def render(document: dict[str, Any], out: Printer) -> None:
    """Prints the explanation."""
    out.line(f"vLLM {document['vllm']}, capture rule {document['rule']}", "bold")
    out.heading("Settings")
    out.table(
        ["setting", "value", "source", "from"],
        [
            (s["name"], _value(s["value"]), s["source"], s["detail"])
            for s in document["settings"]
        ],
    )
    _render_schedule(document, out)
    _render_capture(document, out)
    if document["coverage"] is not None:
        _render_coverage(document, out)
    if document["notes"]:
        out.heading("Notes")
        for note in document["notes"]:
            out.paragraph(note)


def _render_coverage(document: dict[str, Any], out: Printer) -> None:
    out.heading("Coverage: which graph a decode batch gets in vLLM 0.33.0")
    coverage = document["coverage"]
    widest = max(t["max_batch"] for t in document["tiers"])
    draw_map(coverage["stretches"], widest, out)
    rows = []
    policies = coverage["policies"]
    names = ", ".join(p["policy"] for p in policies)
    if len(policies) > 1 and all(
        p | {"policy": ""} == policies[0] | {"policy": ""} for p in policies
    ):
        policies = [policies[0] | {"policy": f"all alike: {names}"}]
    for p in policies:
        batches = p["batches"]
        rows.append(
            (
                p["policy"],
                p["full_graphs"],
                p["unused_graphs"],
                p["piecewise_graphs"],
                batches["FULL"],
                batches["PIECEWISE"],
                batches["NONE"],
                f"{100 * p['mean_padding']:.1f} %",
            )
        )
    columns = [
        "dispatch policy",
        "FULL graphs",
        "never used",
        "PIECEWISE graphs",
        "batches FULL",
        "PIECEWISE",
        "eager",
        "padding",
    ]
    out.line()
    out.table(columns, rows, right=columns[1:])
    by_name = {p["policy"]: p for p in coverage["policies"]}
    if "reachable" not in by_name:
        return
    before, after = by_name["vllm-0.33"], by_name["reachable"]
    fulls = [p["batches"]["FULL"] for p in (before, after)]
    graphs = [p["full_graphs"] for p in (before, after)]
    if fulls[0] != fulls[1] or graphs[0] != graphs[1]:
        out.paragraph(
            "Before and after (vLLM alone; specgrid plug-in, policy reachable): "
            f"batches on a FULL graph {fulls[0]} -> {fulls[1]}, FULL graphs captured "
            f"{graphs[0]} -> {graphs[1]}.",
            bullet="",
        )


def _value(value: object) -> object:
    if isinstance(value, list) and all(isinstance(x, int) for x in value):
        return steps_text(sorted(set(value)), limit=6) or "(empty)"
    return value


def _render_schedule(document: dict[str, Any], out: Printer) -> None:
    schedule = document["schedule"]
    status = schedule["status"]
    title = {
        "none": "Decode batches (no schedule: one draft length)",
        "in force": "Decode batches (schedule in force)",
        "dropped": "Decode batches (schedule dropped: one draft length)",
        "ignored": "Decode batches (schedule ignored)",
        "invalid": "Decode batches (schedule invalid: one draft length for sizes)",
    }[status]
    out.heading(title)
    if schedule["reason"]:
        text = schedule["reason"]
        if status == "invalid":
            text = f"vLLM will fail on this schedule: {text}"
        out.paragraph(text, style="bad" if status == "invalid" else "warn")
    tiers = document["tiers"]
    enabled = document["capture"]["enabled"]
    rows = [
        (
            t["query_len"],
            t["drafts"],
            f"{t['min_batch']}-{t['max_batch']}",
            t["tokens"],
            f"{t['reach']} of {t['max_batch']}" if enabled else "-",
            _missed(t["missed"]) if enabled else "all",
        )
        for t in tiers[:MAX_ROWS_SHOWN]
    ]
    columns = ["query length", "drafts", "batches", "widest tokens", "graphs reach"]
    out.table([*columns, "batches without a FULL graph"], rows, right=columns)
    if len(tiers) > MAX_ROWS_SHOWN:
        out.line(f"... {len(tiers) - MAX_ROWS_SHOWN} more (--json has all)")


def _missed(ranges: list[tuple[int, int]] | None) -> str:
    if ranges is None:
        return "not worked out (too many)"
    if not ranges:
        return "none"
    total = sum(hi - lo + 1 for lo, hi in ranges)
    return f"{total}: {ranges_text(ranges, limit=6)}"


def _render_capture(document: dict[str, Any], out: Printer) -> None:
    capture = document["capture"]
    if not capture["enabled"]:
        out.heading("Capture sizes: none (CUDA graphs are off)")
        return
    out.heading(
        f"Capture sizes: {capture['count']}, largest {capture['max_size']} tokens"
    )
    out.paragraph(steps_text([s["tokens"] for s in capture["sizes"]]), bullet="")
    if capture["runner_sizes"] != [s["tokens"] for s in capture["sizes"]]:
        rounded = steps_text(capture["runner_sizes"])
        out.paragraph(f"The V1 model runner rounds them to: {rounded}")
    out.table(
        ["where from", "sizes", "tokens"],
        [
            (name, len(found), steps_text(found, limit=8))
            for name, found in _by_origin(capture["sizes"]).items()
        ],
        right=["sizes"],
    )
    short_by = capture["sufficient_max"] - capture["max_size"]
    verdict = (
        "the configuration reaches it"
        if short_by <= 0
        else f"the configuration stops at {capture['max_size']}"
    )
    out.paragraph(
        "Smallest sufficient maximum (widest decode batch): "
        f"{capture['sufficient_max']} tokens; {verdict}.",
        bullet="",
        style="good" if short_by <= 0 else "bad",
    )
    if capture["notes"]:
        out.heading("Dropped, truncated, uncovered")
        for note in capture["notes"]:
            bad = note["batches"] or note["kind"] == "schedule-invalid"
            out.paragraph(note["message"] + _lost(note), style="bad" if bad else "")
    if capture["advice"]:
        out.paragraph(capture["advice"], bullet="To cover them: ", style="good")


def _lost(note: dict[str, Any]) -> str:
    if note["kind"] != "truncated" or not note["batches"]:
        return ""
    lost = ", ".join(
        (f"batch {b['first']}" if b["first"] == b["last"] else
         f"batches {b['first']}-{b['last']}") + f" at query length {b['query_len']}"
        for b in note["batches"]
    )  # fmt: skip
    return f"; decode loses its graph at {lost}"


def _by_origin(sizes: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for size in sizes:
        for origin in size["origins"]:
            names = (
                [f"decode size, query length {q}" for q in size["query_lens"]]
                if origin == "decode size"
                else [origin]
            )
            for name in names:
                found.setdefault(name, []).append(size["tokens"])
    return found
