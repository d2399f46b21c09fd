# SPDX-License-Identifier: Apache-2.0
"""``specgrid convert``: schedules between the forms of vLLM and other engines."""

from __future__ import annotations

import json
from typing import Any

import click

from specgrid._errors import CONTEXT_INFINITY, ConfigError
from specgrid._read import File, ReadError, parse_json
from specgrid._schedule import Schedule
from specgrid.cli._input import read_standard_input
from specgrid.cli._output import print_json
from specgrid.io._source import read_text
from specgrid.io._types import DataError
from specgrid.io.vllm_command import short
from specgrid.io.vllm_config import load

_FORMS = ("vllm", "tensorrt-llm", "sglang")
_SCHEDULE_KEYS = ("num_speculative_tokens_per_batch_size", "speculative_token_schedule")
_MAX_BYTES = 64 * 2**20

_EXAMPLES = """\
\b
Examples:
  specgrid convert --from tensorrt-llm --keys upper --to vllm '{"4": 4, "32": 1}'
  specgrid convert --from vllm --to tensorrt-llm '[[1,16,3],[32,128,2],[256,2048,0]]'
  specgrid convert --from sglang --to vllm '{"1": [1,3,5,7], "8": [0,1,3], "32": [0]}'
"""


@click.command("convert", epilog=_EXAMPLES)
@click.argument("schedule", metavar="JSON|FILE|-")
@click.option(
    "--from", "source", type=click.Choice(_FORMS), required=True, help="Form given."
)
@click.option(
    "--to", "target", type=click.Choice(_FORMS), required=True, help="Form wanted."
)
@click.option(
    "--keys",
    type=click.Choice(["upper", "lower"]),
    help="TensorRT-LLM given: whether a key is the last batch of its range (today) or "
    "the first (before TensorRT-LLM #10860). Nothing in the mapping tells.",
)
@click.option(
    "--pick",
    type=click.Choice(["largest", "smallest"]),
    default="largest",
    show_default=True,
    help="SGLang given: which of a slot's steps becomes K.",
)
@click.option(
    "--max-num-seqs",
    metavar="N",
    type=click.IntRange(1, CONTEXT_INFINITY),
    help="Where the last range ends.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON with its notes.")
def command(
    schedule: str,
    source: str,
    target: str,
    keys: str | None,
    pick: Any,
    max_num_seqs: int | None,
    as_json: bool,
) -> int:
    """Convert a schedule between vLLM, TensorRT-LLM and SGLang forms."""
    given = _load(schedule, source)
    notes: list[str] = []
    parsed = _read(given, source, keys, pick)
    if limit := _context_limit(given):
        notes.append(
            f"the context limit {limit} is left out and changes nothing: longer "
            "contexts take the K of the last context range, and there is only one"
            if not parsed.is_2d
            else f"the last context range ends at {limit}, and longer contexts take "
            "its K too"
        )
    if max_num_seqs is not None:
        parsed = _cut(parsed, max_num_seqs)
    if source == "sglang":
        notes.append(
            f"SGLang moves between a slot's steps while it runs; the {pick} of each "
            "was taken."
        )
    result = _write(parsed, target, max_num_seqs, notes)
    if as_json:
        print_json(
            {
                "schema": "specgrid.convert",
                "version": 1,
                "from": source,
                "to": target,
                "result": result,
                "notes": notes,
            }
        )
        return 0
    click.echo(json.dumps(result))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    return 0


def _load(text: str, source: str) -> Any:
    """JSON from the argument itself, from a file, or from standard input."""
    name: str | None = None
    file: File | None = None
    if text == "-":
        text = read_standard_input()
    elif not text.strip():
        raise ConfigError("the schedule is empty; give JSON, a file, or - for input")
    elif not text.lstrip().startswith(("[", "{")):
        name, file = text, File(text)
        try:
            text = read_text(file, _MAX_BYTES)
        except DataError as error:
            raise ConfigError(f"{short(name)}: {error.message}") from None
    if not text.strip():
        where = "standard input" if name is None else short(name)
        raise ConfigError(f"{where} is empty; give a {source} schedule as JSON")
    try:
        return parse_json(text)
    except ReadError as error:
        if error.rule == "not_json" and file is not None and source == "vllm":
            return _from_settings(file, error)
        where = "the schedule" if name is None else name
        raise ConfigError(
            f"{where} is not valid JSON: {error}; give a {source} schedule as JSON"
        ) from None


def _from_settings(name: File, error: ReadError) -> Any:
    """The schedule of a settings file such as the other commands take."""
    try:
        settings = load([], name, [], None)
    except ValueError:
        raise ConfigError(
            f"{name} is neither JSON ({error}) nor a settings file of a "
            "server; give the rows, the speculative config or the settings file"
        ) from None
    if settings.schedule is None:
        raise ConfigError(
            f"{name} is a settings file without a schedule "
            "(num_speculative_tokens_per_batch_size); give one that has it"
        )
    return settings.schedule


def _read(given: Any, source: str, keys: str | None, pick: Any) -> Schedule:
    if source == "tensorrt-llm":
        if keys is None:
            raise ConfigError(
                "--keys upper or --keys lower is required: a TensorRT-LLM key is the "
                "last batch of its range since #10860, and was the first before"
            )
        return Schedule.from_tensorrt_llm(given, keys=keys)  # type: ignore[arg-type]
    if keys is not None:
        raise ConfigError("--keys is for --from tensorrt-llm only")
    if source == "sglang":
        return Schedule.from_sglang(given, pick=pick)
    if isinstance(given, dict):
        # A whole --speculative-config.
        for name in _SCHEDULE_KEYS:
            if name in given:
                return Schedule(given[name])
        raise ConfigError(
            "a JSON object was given without num_speculative_tokens_per_batch_size; "
            "give the rows, or the whole speculative config"
        )
    return Schedule(given)


def _context_limit(given: Any) -> int | None:
    """Where the last context range of the rows ends; None when it has no end."""
    if isinstance(given, dict):
        given = next((given[name] for name in _SCHEDULE_KEYS if name in given), None)
    if not isinstance(given, list):
        return None
    ends = [row[3] for row in given if isinstance(row, list) and len(row) == 5]
    return max(ends) if ends and max(ends) < CONTEXT_INFINITY else None


def _cut(schedule: Schedule, max_num_seqs: int) -> Schedule:
    """The same schedule without what lies above max_num_seqs."""
    rows = [
        (lo, min(hi, max_num_seqs), context_lo, context_hi, k)
        for lo, hi, context_lo, context_hi, k in schedule.rows
        if lo <= max_num_seqs
    ]
    return Schedule(rows)


def _write(
    schedule: Schedule, target: str, max_num_seqs: int | None, notes: list[str]
) -> Any:
    if target == "vllm":
        rows = schedule.to_rows()
        if any(row[1] >= CONTEXT_INFINITY for row in rows):
            notes.append(
                f"the last range ends at {CONTEXT_INFINITY}, which is no limit; give "
                "--max-num-seqs to end it at your server's"
            )
        return rows
    if target == "tensorrt-llm":
        mapping = schedule.to_tensorrt_llm(max_num_seqs)
        if CONTEXT_INFINITY in mapping:
            end = schedule.rows[-1][1]
            written = (
                "the last range has no end"
                if end >= CONTEXT_INFINITY
                else f"the last range ends at {end}, but wider batches take its K too "
                "(vLLM's rule), and TensorRT-LLM's would be 0 above the last key"
            )
            notes.append(
                f"{written}; give --max-num-seqs to end it at your server's limit"
            )
        notes.append("upper-bound keys (TensorRT-LLM #10860); 0 above the last key")
        return {str(key): k for key, k in mapping.items()}
    if schedule.is_2d:
        raise ConfigError(
            "SGLang slots know no context; convert a schedule of one context range"
        )
    return {str(lo): [k] for lo, _, _, _, k in schedule.rows}
