# SPDX-License-Identifier: Apache-2.0
"""``specgrid lint``: named findings about a server, each with the flag to change.

What is looked for is in ``_lint``; here is choosing, printing and exit status.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

import click

from specgrid._version import __version__
from specgrid.cli._input import serve_command
from specgrid.cli._lint import CHECKS, Finding, Severity, Subject, examine, join_causes
from specgrid.cli._lint.texts import explanation
from specgrid.cli._output import Printer, Style, print_json
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_config import ServeConfig

SCHEMA_VERSION = 1
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
_STYLES: dict[str, Style] = {"error": "bad", "warning": "warn", "info": "dim"}

_EPILOG = """\
\b
Examples:
  specgrid lint -- vllm serve MODEL --max-num-seqs 6 --spec-tokens 6 ...
  specgrid lint --config serve.yaml --severity error
  specgrid lint --config serve.yaml --ignore unreachable-graphs,unknown-flag
  specgrid lint --explain hidden-graphs

Exit status 1 when a finding is reported, so a deployment pipeline can stop there.
Only what is pasted counts: variables of the calling shell are not looked at.
"""


@serve_command("lint", epilog=_EPILOG)
@click.option(
    "--explain",
    metavar="ID",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, name: _explain(ctx, name),
    help="Say what a finding means, why it matters and what to do; needs no server.",
)
@click.option("--select", multiple=True, metavar="ID,...", help="Only these findings.")
@click.option("--ignore", multiple=True, metavar="ID,...", help="Not these findings.")
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Report findings at or above this severity.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    config: ServeConfig,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severity: str,
    as_json: bool,
) -> int:
    """Find settings that lose CUDA graphs, and say which flag to change.

    Looks for decode batches without a graph, maxima that are truncated or given in
    requests, hidden and useless graphs, and schedules that do not do what they say.
    """
    chosen = _ids(select, "--select") or set(CHECKS)
    chosen -= _ids(ignore, "--ignore")
    found = lint(config, chosen)
    threshold = SEVERITIES.index(severity)
    reported = [f for f in found if SEVERITIES.index(f.severity) >= threshold]
    document = to_document(reported, len(found) - len(reported))
    if as_json:
        print_json(document)
    else:
        render(document, Printer())
    return 1 if reported else 0


def lint(config: ServeConfig, ids: Iterable[str] | None = None) -> list[Finding]:
    """All findings about a server, in a fixed order.

    Args:
        config: the server.
        ids: findings to look for; all when not given.
    """
    subject: Subject = examine(config)
    wanted = set(CHECKS) if ids is None else set(ids)
    found = [f for name in CHECKS if name in wanted for f in CHECKS[name](subject)]
    return join_causes(found)


def _explain(context: click.Context, name: str | None) -> None:
    if name is None or context.resilient_parsing:
        return
    if name not in CHECKS:
        close = difflib.get_close_matches(name, CHECKS, 4, 0.4)
        close += [known for known in CHECKS if name and name in known]
        near = ", ".join(dict.fromkeys(close))
        hint = f"near it: {near}" if near else f"known: {' '.join(CHECKS)}"
        raise click.UsageError(
            f"--explain {name[:60]!r} is no finding; {hint}", context
        )
    out = Printer()
    out.line(name, "bold")
    for paragraph in explanation(name).split("\n"):
        out.paragraph(paragraph, bullet="")
    context.exit(0)


def _ids(given: tuple[str, ...], option: str) -> set[str]:
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in CHECKS:
            close = difflib.get_close_matches(name, CHECKS, 1)
            hint = (
                f"did you mean {close[0]}?" if close else f"known: {' '.join(CHECKS)}"
            )
            raise click.UsageError(
                f"{option} {name[:60]!r} is no finding; {hint}",
                click.get_current_context(),
            )
    return set(names)


def to_document(findings: list[Finding], below: int) -> dict[str, Any]:
    """The findings as JSON values."""
    rows = []
    for finding in findings:
        row = dataclasses.asdict(finding)
        row["batches"] = [
            {"query_len": q, "first": first, "last": last}
            for q, first, last in finding.batches
        ]
        row["reference"] = list(finding.reference)
        row["docs"] = f"docs/lint.md#{finding.id}"
        rows.append(row)
    return {
        "schema": "specgrid.lint",
        "version": SCHEMA_VERSION,
        "specgrid": __version__,
        "vllm": VLLM_VERSION,
        "findings": rows,
        "counts": {
            name: sum(f.severity == name for f in findings)
            for name in reversed(SEVERITIES)
        },
        "below_severity": below,
    }


def render(document: dict[str, Any], out: Printer) -> None:
    """Prints the findings, a paragraph each."""
    for row in document["findings"]:
        out.spans(
            [
                (row["severity"], _STYLES[row["severity"]]),
                (f" {row['id']}", "bold"),
            ]
        )
        out.paragraph(row["message"], bullet="  ")
        references = ", ".join(row["reference"])
        if row["cost"]:
            known = f"{row['cost']} ({references})"
            out.paragraph(known, bullet="  known cost: ")
        elif references:
            out.paragraph(references, bullet="  reported in: ")
        out.paragraph(row["fix"], bullet="  fix: ", style="good")
        out.line()
    counts = document["counts"]
    summary = ", ".join(_counted(n, name) for name, n in counts.items() if n) or "none"
    hidden = document["below_severity"]
    more = f"; {hidden} below the chosen severity" if hidden else ""
    out.line(f"Findings: {summary}{more}.")


def _counted(number: int, severity: str) -> str:
    """
    >>> _counted(1, "error"), _counted(2, "warning"), _counted(2, "info")
    ('1 error', '2 warnings', '2 info')
    """
    many = number > 1 and severity != "info"
    return f"{number} {severity}{'s' if many else ''}"
