# SPDX-License-Identifier: Apache-2.0
"""``specgrid report``: one HTML file about a server, to look at and to hand on.

The JSON document (docs/report.md) is made first and the page is a rendering of it, so
the two cannot disagree.
"""

from __future__ import annotations

from pathlib import Path

import click

from specgrid._errors import ConfigError
from specgrid.cli._analysis import Analysis, analyse
from specgrid.cli._charts import style
from specgrid.cli._files import check_target, write_whole
from specgrid.cli._input import serve_command
from specgrid.cli._output import print_json
from specgrid.cli._report.document import to_document
from specgrid.cli._report.given import read_plan, read_tuned
from specgrid.io.vllm_config import ServeConfig, load

_EPILOG = """\
\b
Examples:
  specgrid report eagle3.html --config serve.yaml
  specgrid report eagle3.html -- vllm serve MODEL --max-num-seqs 256 ...

The page is one file that loads nothing: mail it, attach it, open it anywhere.
The JSON document is described in docs/report.md.
"""


@serve_command(
    "report", leading=click.argument("out", metavar="OUT.html"), epilog=_EPILOG
)
@click.option("--title", metavar="TEXT", help="What to call the server on the page.")
@click.option(
    "--compare",
    metavar="FILE",
    help="Another settings file or command: what changes from it to this server.",
)
@click.option(
    "--plan",
    metavar="FILE",
    help="A plan to show: the output of `specgrid plan --json --frontier`, or a saved "
    "plan.",
)
@click.option(
    "--tuned",
    metavar="FILE",
    help="A tuned schedule to show: the output of `specgrid tune --json`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print its numbers as JSON.")
def command(
    config: ServeConfig,
    out: str,
    title: str | None,
    compare: str | None,
    plan: str | None,
    tuned: str | None,
    as_json: bool,
) -> int:
    """Draw what vLLM captures for a server as one HTML page.

    Shows which decode batches lose their CUDA graph and what to paste, the coverage
    map, captured graphs used and unused, padding, and the schedule.

    Exit status 1 when the schedule is one vLLM will fail on.
    """
    if Path(out).suffix.lower() not in (".html", ".htm"):
        raise ConfigError(
            f"{out!r:.80} is no page to write; name it first and with .html, as in "
            "specgrid report OUT.html --config serve.yaml"
        )
    check_target(out, "the page")
    style.require()
    from specgrid.cli._report.page import render

    analysis = analyse(config)
    document = to_document(
        analysis,
        title,
        _before(compare),
        None if plan is None else read_plan(plan),
        None if tuned is None else read_tuned(tuned),
    )
    write_whole(out, render(document).encode())
    if as_json:
        print_json(document)
    else:
        click.echo(f"{out}: {document['headline']['sentence']}")
    return 1 if analysis.schedule_status == "invalid" else 0


def _before(path: str | None) -> tuple[str, Analysis] | None:
    """The configuration to compare with, on the same GPU."""
    if path is None:
        return None
    device = click.get_current_context().meta["specgrid.device"]
    return Path(path).name, analyse(load([], path, [], device))
