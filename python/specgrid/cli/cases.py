# SPDX-License-Identifier: Apache-2.0
"""``specgrid cases``: what to measure before a schedule can be tuned.

Writes one file per draft length for ``vllm bench forward --shapes`` and prints the
commands to run. Nothing is started.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from specgrid._errors import ConfigError, ScheduleError
from specgrid._schedule import Schedule
from specgrid._tune_cases import CasePlan, plan_cases
from specgrid._version import __version__
from specgrid.cli._files import write_whole
from specgrid.cli._input import serve_command
from specgrid.cli._numbers import NumberList
from specgrid.cli._output import Printer, print_json
from specgrid.cli._speculation import raw_settings, speculative_config
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_command import RawSettings, human_int
from specgrid.io.vllm_config import ServeConfig

SCHEMA_VERSION = 1
_ASSUMED_MODEL_LEN = 8192
# Above this a KV cache may be too small; below, hardly any is.
_LARGE_KV_TOKENS = 200_000

#: Settings the printed commands carry, or that say what is measured.
_PASSED = (
    "model", "max_model_len", "max_num_seqs", "tensor_parallel_size",
    "speculative_config", "spec_method", "spec_model", "spec_tokens",
    "num_speculative_tokens", "schedule",
)  # fmt: skip

_EXAMPLES = """\
\b
Examples:
  specgrid cases -o cases -- vllm serve MODEL --max-num-seqs 256 \\
      --spec-method eagle3 --spec-model yuhuili/EAGLE3-... --spec-tokens 5
  specgrid cases --points 30 --contexts 2048 -o cases --config serve.yaml
  specgrid cases --batches 24,90 --contexts 4096 --ks 1,3 -o next -- vllm serve ...

Then run the commands it prints, and `specgrid tune --latency cases/result_k*.json ...`.
"""


@serve_command("cases", epilog=_EXAMPLES)
@click.option(
    "--points",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=60,
    show_default=True,
    help="Points to measure, over all draft lengths.",
)
@click.option(
    "--ks",
    type=NumberList(0),
    metavar="K,K,...",
    help="Draft lengths to measure; 0 to the server's K, thinned out when not given.",
)
@click.option(
    "--contexts",
    type=NumberList(1),
    metavar="TOKENS,...",
    help="Contexts to measure; up to 8, chosen when not given.",
)
@click.option(
    "--batches",
    type=NumberList(1),
    metavar="N,...",
    help="Exactly these batches, all of them, instead of choosing within --points.",
)
@click.option(
    "--kv-tokens",
    metavar="TOKENS",
    type=click.IntRange(1),
    help="KV cache size the server log states; points above it are left out.",
)
@click.option(
    "-o", "--output-dir", metavar="DIR", help="Write the case files here (one a K)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, cases included.")
def command(
    config: ServeConfig,
    points: int,
    ks: tuple[int, ...] | None,
    contexts: tuple[int, ...] | None,
    batches: tuple[int, ...] | None,
    kv_tokens: int | None,
    output_dir: str | None,
    as_json: bool,
) -> int:
    """List the exact batches to measure, for `vllm bench forward --shapes`.

    Batch 1 and max_num_seqs, both sides of schedule and capture boundaries, and
    log-spaced batches between, at each context and draft length. One run per draft
    length, since a drafter always runs all of its steps.
    """
    if output_dir == "":
        raise ConfigError("-o is empty; name the folder for the case files")
    raw = raw_settings()
    notes: list[str] = []
    model_len = _max_model_len(raw, notes)
    lengths = ks if ks is not None else _default_ks(config.num_speculative_tokens)
    sizes, edges = _boundaries(config)
    if batches is not None:
        plan = _exact(batches, contexts, lengths, kv_tokens)
    else:
        plan = plan_cases(
            max_num_seqs=config.max_num_seqs,
            max_model_len=model_len,
            ks=lengths,
            max_points=points,
            edges=edges,
            capture_sizes=sizes,
            contexts=contexts,
            kv_tokens=kv_tokens,
        )
    drafts = config.num_speculative_tokens
    if drafts and (above := [k for k in lengths if k > drafts]):
        notes.append(
            f"K = {', '.join(map(str, above))} is above the server's "
            f"num_speculative_tokens {drafts}: `specgrid tune` uses it only once that "
            "is raised."
        )
    if plan.dropped:
        notes.append(
            f"--points {points} leaves no room for batches "
            f"{', '.join(map(str, plan.dropped))}, where a schedule or capture "
            "boundary lies; raise --points to measure them."
        )
    if plan.skipped:
        notes.append(
            f"{plan.skipped} contexts or points do not fit {kv_tokens} KV tokens and "
            "were left out."
        )
    largest = max(b * (c + k + 1) for b, c, k in plan.points)
    if kv_tokens is None and largest > _LARGE_KV_TOKENS:
        notes.append(
            f"The largest point holds {largest:,} KV tokens. If that is more than the "
            'server\'s "GPU KV cache size", give it as --kv-tokens: batches then stop '
            "where it is full."
        )
    if 0 in lengths:
        notes.append(
            "K = 0 is measured without a drafter. vLLM 0.33.0 still runs the drafter's "
            "prefill at K = 0, so a step costs slightly more in service."
        )
    left_out = _left_out(raw)
    if left_out:
        notes.append(
            f"Given and not in the commands: {', '.join(left_out)}; add those that "
            "change speed to each."
        )
    if any(lengths) and not _names_a_drafter(config, raw):
        notes.append(
            "No method or drafter was given: add yours to --speculative-config."
        )
    folder = Path(output_dir or "cases")
    runs = [_run(config, raw, k, cases, folder) for k, cases in plan.by_k().items()]
    if output_dir is not None:
        _write(folder, runs)
    document = {
        "schema": "specgrid.cases",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "num_points": len(plan.points),
        "batches": list(plan.batches),
        "contexts": list(plan.contexts),
        "estimated_seconds": round(plan.seconds),
        "written": output_dir is not None,
        "notes": notes,
        "runs": runs,
    }
    if as_json:
        print_json(document)
    else:
        _render(document, Printer(), bool(left_out))
    return 0


def _default_ks(longest: int) -> tuple[int, ...]:
    """0 to the server's K; above 6 every other one, then wider."""
    step = 1 if longest <= 5 else 2 if longest <= 9 else 4
    return tuple(sorted({0, 1, *range(step, longest, step), longest}))


def _boundaries(config: ServeConfig) -> tuple[list[int], list[int]]:
    """Capture sizes and first batches of schedule entries, where there are any."""
    from specgrid._capture import capture_sizes

    sizes: list[int] = []
    if config.graphs_enabled:
        try:
            sizes = list(capture_sizes(**config.capture_arguments()))
        except ConfigError:
            sizes = []
    try:
        rows = Schedule(config.schedule, ragged=True).batch_ranges
    except ScheduleError:
        return sizes, []
    return sizes, [lo for lo, _ in rows]


def _exact(
    batches: tuple[int, ...],
    contexts: tuple[int, ...] | None,
    ks: tuple[int, ...],
    kv_tokens: int | None,
) -> CasePlan:
    if contexts is None:
        raise ConfigError("--batches needs --contexts too, as in --contexts 4096")
    every = [
        (b, c, k) for k in sorted(ks) for c in sorted(contexts) for b in sorted(batches)
    ]
    kept = [
        (b, c, k)
        for b, c, k in every
        if kv_tokens is None or b * (c + k + 1) <= kv_tokens
    ]
    return CasePlan(
        tuple(kept),
        tuple(sorted(batches)),
        tuple(sorted(contexts)),
        90.0 * len(ks) + 5.0 * len(kept),
        len(every) - len(kept),
    )


def _max_model_len(raw: RawSettings, notes: list[str]) -> int:
    given = raw.values.get("max_model_len")
    if given is None or given.value in (None, "auto", "-1", -1):
        notes.append(
            f"--max-model-len is not given; {_ASSUMED_MODEL_LEN} is assumed as the "
            "longest context to measure."
        )
        return _ASSUMED_MODEL_LEN
    return human_int(str(given.value))


def _left_out(raw: RawSettings) -> list[str]:
    """What was given and is in no command, as the user wrote it."""
    names = [given.origin for name, given in raw.values.items() if name not in _PASSED]
    return list(dict.fromkeys([*raw.environment, *names, *raw.unused]))


def _names_a_drafter(config: ServeConfig, raw: RawSettings) -> bool:
    return bool({"method", "model"} & set(speculative_config(config, raw, {})))


def _run(
    config: ServeConfig,
    raw: RawSettings,
    k: int,
    cases: list[dict[str, Any]],
    folder: Path,
) -> dict[str, Any]:
    """One run of ``vllm bench forward``: its cases, its files, its command."""
    shapes, result = folder / f"cases_k{k}.json", folder / f"result_k{k}.json"
    words = ["vllm", "bench", "forward"]
    if config.tensor_parallel_size > 1:
        words = [
            *("torchrun", f"--nproc-per-node={config.tensor_parallel_size}"),
            *("-m", "vllm.entrypoints.cli.main", "bench", "forward"),
        ]
    words += ["--model", config.model or "MODEL"]
    if config.tensor_parallel_size > 1:
        words += ["--tensor-parallel-size", str(config.tensor_parallel_size)]
    given = raw.values.get("max_model_len")
    if given is not None and given.value is not None:
        words += ["--max-model-len", str(given.value)]
    words += ["--max-num-seqs", str(config.max_num_seqs)]
    if k > 0:
        settings = speculative_config(config, raw, {"num_speculative_tokens": k})
        words += ["--speculative-config", json.dumps(settings)]
    words += ["--shapes", str(shapes), "--kv-len-jitter", "0"]
    words += ["--output-json", str(result)]
    return {
        "k": k,
        "num_cases": len(cases),
        "shapes_file": str(shapes),
        "result_file": str(result),
        "command": shlex.join(words),
        "shapes": {"cases": cases},
    }


def _write(folder: Path, runs: list[dict[str, Any]]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for run in runs:
            text = json.dumps(run["shapes"], indent=1) + "\n"
            write_whole(run["shapes_file"], text.encode())
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot write the case files: {error.strerror}; name a folder "
            "you may write to"
        ) from None


def _render(document: dict[str, Any], out: Printer, left_out: bool) -> None:
    minutes = document["estimated_seconds"] / 60
    out.line(
        f"{document['num_points']} points in {len(document['runs'])} runs, roughly "
        f"{minutes:.0f} minutes",
        "bold",
    )
    out.line(f"batches: {', '.join(map(str, document['batches']))}")
    out.line(f"contexts: {', '.join(map(str, document['contexts']))} tokens")
    out.heading("Run")
    for run in document["runs"]:
        out.line(run["command"])
    if document["written"]:
        if not left_out:
            out.line()
            out.line(
                "Add the flags that change speed (dtype, quantization, KV cache type) "
                "to each."
            )
    else:
        out.line()
        out.line("Nothing was written; add -o DIR for the case files.", "warn")
    out.heading("Then")
    results = " ".join(f"--latency {run['result_file']}" for run in document["runs"])
    out.line(f"specgrid tune {results} --acceptance FILE -- vllm serve ...")
    if document["notes"]:
        out.heading("Notes")
        for note in document["notes"]:
            out.paragraph(note)
