# SPDX-License-Identifier: Apache-2.0
"""``vllm bench serve --save-result`` and ``vllm bench sweep serve`` folders.

One JSON object a run, or JSON lines with ``--append-result``; a sweep adds the
overridden settings to each (vllm/benchmarks/serve.py, benchmarks/sweep/serve.py).
Acceptance in them is a difference of /metrics counters, so it covers everything
the server did meanwhile, and is used only where K was constant.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from specgrid import _read
from specgrid._read import File, ReadError, is_folder
from specgrid.io._accept import from_totals
from specgrid.io._points import Measured, collect
from specgrid.io._source import (
    AnyPath,
    as_files,
    integer,
    joined,
    mapping,
    number,
    parse_json,
    read_text,
    refuse,
)
from specgrid.io._types import (
    AcceptanceCounts,
    DataError,
    LatencyData,
    LatencyPoint,
    ReadReport,
    ServeResult,
)

MAX_SWEEP_FILES = 100_000
_K_NAMES = ("num_speculative_tokens", "num-speculative-tokens")
_CONFIG_NAMES = ("speculative_config", "speculative-config")


def read_serve(
    paths: AnyPath | Iterable[AnyPath],
) -> tuple[list[ServeResult], ReadReport]:
    """Reads result files: JSON, JSON lines, or a list of results.

    Args:
        paths: Files of one model with one drafter.

    Returns:
        The runs in order, and the report.

    Raises:
        DataError: ``mixed_models``, ``mixed_drafters``, ``not_json``,
            ``wrong_format``, ``empty``, or a field that contradicts another.
    """
    files = as_files(paths)
    report = ReadReport(joined(files), "vllm bench serve")
    results: list[ServeResult] = []
    for file in files:
        name = str(file)
        for line, data in _objects(file, report):
            if not is_serve(data):
                report.add_damage(line, "not a result of vllm bench serve")
                continue
            try:
                results.append(_one_run(mapping(data, "a run", name), name, report))
            except DataError as error:
                if error.rule in ("unit", "acceptance_above_one"):
                    raise
                report.add_damage(line, str(error))
                continue
            report.num_read += 1
    _one_of_each(results, report)
    return results, report


def read_sweep(folder: str | Path) -> tuple[list[ServeResult], ReadReport]:
    """Reads every ``run=N.json`` under a sweep's folder.

    Warm-ups, summaries and failures are passed over; failures are noted.

    Raises:
        DataError: As `read_serve`; ``empty`` where the folder holds no run.
    """
    root = Path(folder)
    if not is_folder(root):
        refuse("is not a folder", "unreadable", str(root))
    runs: list[Path] = []
    failures = 0
    others = 0
    for path in _json_files(root):
        if path.name.endswith("failure.json"):
            failures += 1
        elif path.name.startswith("run="):
            runs.append(path)
        else:
            others += 1
    if not runs:
        refuse(
            "holds no run=N.json; give the experiment folder that vllm bench sweep "
            "serve wrote",
            "empty",
            str(root),
        )
    results, report = read_serve(sorted(runs))
    report.source = str(root)
    report.format = "vllm bench sweep serve"
    report.num_skipped += others
    if failures:
        report.add_note(f"{failures} runs of the sweep failed and are missing")
    return results, report


def _json_files(root: Path) -> Iterator[Path]:
    """The JSON files under a folder; links to folders are not followed."""
    seen = 0
    for folder, folders, files in os.walk(root):
        seen += len(folders) + len(files)
        if seen > MAX_SWEEP_FILES:
            refuse(
                f"holds over {MAX_SWEEP_FILES:,} files; name one experiment",
                "too_large",
                str(root),
            )
        for name in files:
            path = Path(folder, name)
            if name.endswith(".json") and path.is_file():
                yield path


def is_serve(data: object) -> bool:
    """Whether parsed JSON has the form of one run."""
    return isinstance(data, dict) and {"model_id", "duration", "completed"} <= set(data)


def serve_latency(results: Sequence[ServeResult], report: ReadReport) -> LatencyData:
    """End-to-end step times from runs at a fixed concurrency.

    The batch is ``max_concurrency``, the context prompt plus half the output,
    the step the median time per output token times the tokens a step emits; the
    median over repeated runs. Runs at a finite request rate, without a
    concurrency, or with an unknown K are passed over.

    Raises:
        DataError: As `specgrid.io._points.collect`.
    """
    groups: dict[tuple[int, int, int], list[float]] = {}
    passed_over = 0
    for run in results:
        rate = run.settings.get("request_rate", "inf")
        if (
            run.max_concurrency is None
            or run.k is None
            or run.median_tpot_us is None
            or run.median_tpot_us <= 0
            or rate not in ("inf", math.inf)
        ):
            passed_over += 1
            continue
        context = round(run.mean_input_tokens + run.mean_output_tokens / 2)
        key = (run.max_concurrency, context, run.k)
        groups.setdefault(key, []).append(run.median_tpot_us * run.tokens_per_step)
    if passed_over:
        left_out = (
            f"{passed_over} of {len(results)} runs give no step time: they lack a "
            "concurrency or one K, or ran at a finite request rate"
        )
        if not groups:
            refuse(left_out, "empty", report.source)
        report.add_note(left_out)
    measured = [
        Measured(
            LatencyPoint(batch, context, k, median(us)),
            (max(us) - min(us)) / median(us) if len(us) > 1 else math.nan,
            f"concurrency {batch}, K {k}",
        )
        for (batch, context, k), us in groups.items()
    ]
    return collect(measured, "end_to_end", report)


def serve_acceptance(
    results: Sequence[ServeResult], report: ReadReport
) -> AcceptanceCounts:
    """The acceptance of all runs whose K was constant, added up.

    Raises:
        DataError: No run has any (the first run's reason is given).
    """
    usable = [r.acceptance for r in results if r.acceptance is not None]
    if not usable:
        reasons = [r.acceptance_refused for r in results if r.acceptance_refused]
        refuse(
            reasons[0] if reasons else "no run drafted anything",
            "k_varied" if reasons and "K varied" in reasons[0] else "zero_drafts",
            report.source,
        )
    left_out = sum(1 for r in results if r.acceptance is None and r.k != 0)
    if left_out:
        report.add_note(f"{left_out} runs give no acceptance: K varied or unknown")
    deepest = max(len(u.drafted) for u in usable)

    def add(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(
            sum(row[j] for row in rows if j < len(row)) for j in range(deepest)
        )

    ks = {u.constant_k for u in usable}
    return AcceptanceCounts(
        drafted=add([u.drafted for u in usable]),
        accepted=add([u.accepted for u in usable]),
        at_risk=add([u.at_risk or () for u in usable]),
        num_drafts=sum(u.num_drafts for u in usable),
        constant_k=ks.pop() if len(ks) == 1 else None,
        approximate=any(u.approximate for u in usable),
        source="bench serve",
        report=report,
    )


def _objects(file: File, report: ReadReport) -> Iterator[tuple[int, object]]:
    """The JSON objects in a file with their line, whatever way they are stored."""
    name = str(file)
    text = read_text(file)
    if not text.strip():
        refuse("is empty", "empty", name)
    lines = text.splitlines()
    try:
        whole = parse_json(text, name)
    except DataError as error:
        filled = [line for line in lines if line.strip()]
        if error.rule != "not_json" or len(filled) < 2 or not _one_a_line(filled):
            raise
        for index, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield index, parse_json(line, name, index)
            except DataError as bad:
                report.add_damage(index, "JSON cut short or broken", str(bad))
        return
    for index, item in enumerate(whole if isinstance(whole, list) else [whole], 1):
        yield index, item


def _one_a_line(filled: list[str]) -> bool:
    try:
        return isinstance(_read.parse_json(filled[0]), dict)
    except ReadError:
        return False


def _one_run(data: dict[str, object], name: str, report: ReadReport) -> ServeResult:
    where = Path(name).name
    completed = integer(data.get("completed"), f"{where}: completed", name)
    if completed == 0:
        refuse(f"{where}: no request completed", "empty", name)
    failed = integer(data.get("failed") or 0, f"{where}: failed", name)
    if failed:
        report.add_note(f"{where}: {failed} of {completed + failed} requests failed")
    concurrency = data.get("max_concurrency")
    inputs = number(
        data.get("total_input_tokens"), f"{where}: total_input_tokens", name
    )
    outputs = number(
        data.get("total_output_tokens", 0), f"{where}: output tokens", name
    )
    tpot_ms = data.get("median_tpot_ms")
    tpot_us = (
        None
        if tpot_ms is None
        else number(tpot_ms, f"{where}: median_tpot_ms", name) * 1000
    )
    _check_tpot(data, completed, outputs, where, name)
    declared = _declared_k(data, name)
    acceptance = refused = None
    k: int | None
    if "spec_decode_num_drafts" in data:
        length = number(
            data.get("spec_decode_acceptance_length"),
            f"{where}: spec_decode_acceptance_length",
            name,
            minimum=1.0,
        )
        try:
            acceptance = _acceptance(data, where, name, report)
            k = acceptance.constant_k
        except DataError as error:
            if error.rule not in ("k_varied", "zero_drafts"):
                raise
            refused, k = str(error), None
        if k is not None and declared not in (None, k):
            report.add_note(
                f"{where}: K is set to {declared} but {k} were drafted; {k} is used"
            )
    else:
        length, k = 1.0, 0
        if declared:
            refused = f"{where}: K is set to {declared} but no draft was recorded"
            k = None
    return ServeResult(
        path=name,
        model=str(data["model_id"]),
        drafter=_drafter(data, name),
        k=k,
        max_concurrency=(
            None
            if concurrency is None
            else integer(concurrency, f"{where}: max_concurrency", name, minimum=1)
        ),
        completed=completed,
        failed=failed,
        output_tokens_per_s=number(
            data.get("output_throughput", 0.0), f"{where}: output_throughput", name
        ),
        median_tpot_us=tpot_us,
        mean_input_tokens=inputs / completed,
        mean_output_tokens=outputs / completed,
        tokens_per_step=length,
        acceptance=acceptance,
        acceptance_refused=refused,
        settings={
            key: value
            for key, value in data.items()
            if isinstance(value, (str, int, float, bool, dict)) or value is None
        },
    )


def _acceptance(
    data: dict[str, object], where: str, name: str, report: ReadReport
) -> AcceptanceCounts:
    drafts = number(data["spec_decode_num_drafts"], f"{where}: drafts", name)
    rates = data.get("spec_decode_per_position_acceptance_rates")
    if not isinstance(rates, list) or not rates:
        refuse(f"{where}: no per-position acceptance", "missing", name)
    values = [
        number(r, f"{where}: acceptance at position {j}", name)
        for j, r in enumerate(rates, 1)
    ]
    for j, value in enumerate(values, 1):
        if value > 1:
            refuse(
                f"{where}: acceptance at position {j} is {value:g}, above 1"
                + ("; per cent read as a share?" if value > 1.5 else ""),
                "acceptance_above_one",
                name,
            )
    return from_totals(
        drafts,
        number(data.get("spec_decode_draft_tokens"), f"{where}: draft tokens", name),
        number(
            data.get("spec_decode_accepted_tokens"), f"{where}: accepted tokens", name
        ),
        [v * drafts for v in values],
        "bench serve",
        ReadReport(name, report.format),
    )


def _check_tpot(
    data: dict[str, object], completed: int, outputs: float, where: str, name: str
) -> None:
    """A whole request must take about first token plus tokens times TPOT."""
    fields = [data.get(f"mean_{m}_ms") for m in ("ttft", "tpot", "e2el")]
    if not all(isinstance(f, (int, float)) and math.isfinite(f) for f in fields):
        return
    ttft, tpot, e2el = (float(f) for f in fields if isinstance(f, (int, float)))
    expected = ttft + tpot * max(outputs / completed - 1, 0)
    if expected > 0 and e2el > 0 and not 1e-2 < e2el / expected < 1e2:
        refuse(
            f"{where}: a request takes {e2el:g} ms but first token and time per "
            f"token give {expected:g} ms; seconds, milliseconds and microseconds "
            "mixed?",
            "unit",
            name,
        )


def _speculative_config(data: Mapping[str, object], name: str) -> dict[str, object]:
    """The speculative config of a sweep's override, nested or dotted."""
    out: dict[str, object] = {}
    for key in _CONFIG_NAMES:
        value = data.get(key)
        if isinstance(value, str) and value.strip().startswith("{"):
            value = parse_json(value, name)
        if isinstance(value, dict):
            out.update(value)
        for full, item in data.items():
            if full.startswith(key + "."):
                out[full.removeprefix(key + ".").replace("-", "_")] = item
    for key in _K_NAMES:
        if key in data:
            out.setdefault("num_speculative_tokens", data[key])
    return out


def _declared_k(data: dict[str, object], name: str) -> int | None:
    config = _speculative_config(data, name)
    if config.get("num_speculative_tokens_per_batch_size") is not None:
        return None  # a schedule, not one K
    value = config.get("num_speculative_tokens")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value[:10])
    return None if value is None else integer(value, "num_speculative_tokens", name)


def _drafter(data: dict[str, object], name: str) -> str | None:
    config = _speculative_config(data, name)
    parts = [str(config[key]) for key in ("method", "model") if config.get(key)]
    return " ".join(parts) or None


def _one_of_each(results: list[ServeResult], report: ReadReport) -> None:
    if not results:
        first = report.damaged[0].reason if report.damaged else "no run in it"
        refuse(f"nothing usable: {first}", "empty", report.source)
    models = sorted({r.model for r in results})
    if len(models) > 1:
        refuse(
            f"runs of {len(models)} models: {', '.join(models[:4])}; give those of "
            "one model",
            "mixed_models",
            report.source,
        )
    drafters = sorted({r.drafter for r in results if r.drafter is not None})
    if len(drafters) > 1:
        refuse(
            f"runs of {len(drafters)} drafters: {', '.join(drafters[:4])}; give "
            "those of one drafter",
            "mixed_drafters",
            report.source,
        )
