# SPDX-License-Identifier: Apache-2.0
"""``specgrid doctor``: is the plug-in active here, for which seams, and why not.

Looks at this Python installation as vLLM would: the entry point, the switches, every
seam against the installed vLLM with its self-check. Then at the servers of this user
that run on this machine. Starts no server and changes nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from typing import Any

import click

from specgrid import _backend
from specgrid._version import __version__
from specgrid.cli._output import Printer, Style, print_json

SCHEMA_VERSION = 1
GROUP = "vllm.general_plugins"
TESTED = "0.33"


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--no-import",
    is_flag=True,
    help="Do not import vLLM (about 5 s): leave the seams unchecked.",
)
def command(as_json: bool, no_import: bool) -> int:
    """Say whether the plug-in is active here, for which seams, and why not.

    Exit status 1 when vLLM would run without specgrid, or with a seam of it missing.
    """
    document = examine(import_vllm=not no_import)
    if as_json:
        print_json(document)
    else:
        render(document, Printer())
    return 1 if document["problems"] else 0


def examine(*, import_vllm: bool = True) -> dict[str, Any]:
    """Everything doctor knows, as JSON values.

    Args:
        import_vllm: Whether to import vLLM and check every seam.
    """
    problems: list[str] = []
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "specgrid": _package(problems),
        "entry_point": _entry_point(problems),
        "vllm": _vllm(problems),
        "seams": [],
        "servers": _servers(),
        "problems": problems,
    }
    if import_vllm and document["vllm"]["installed"]:
        document["seams"] = _seams(document["vllm"], problems)
    return document


def render(document: dict[str, Any], out: Printer) -> None:
    """The document as text."""
    package, entry, vllm = (document[k] for k in ("specgrid", "entry_point", "vllm"))
    out.line(f"specgrid {package['version']}, {package['backend']} back end")
    out.line(f"Python   {package['python']} at {package['executable']}")
    out.line(f"vLLM     {vllm['version'] or 'not installed'}")
    out.line(f"plug-in  {entry['summary']}")
    if document["seams"]:
        out.heading("Seams")
        out.table(
            ["seam", "state", "what it does", "vLLM function", "why not"],
            [
                [s["seam"], s["state"], s["purpose"], s["target"], s["reason"] or None]
                for s in document["seams"]
            ],
        )
    for server in document["servers"]:
        _render_server(server, out)
    if not document["servers"]:
        out.heading("Servers")
        out.line("none of this user runs here with the plug-in")
    out.heading("Result")
    for problem in document["problems"]:
        out.paragraph(problem, style="bad")
    if not document["problems"]:
        state = "active" if document["seams"] else "in place"
        out.line(f"The plug-in is {state}.", "good")


def _render_server(server: dict[str, Any], out: Printer) -> None:
    out.heading(f"Server {server['server']}")
    out.table(
        ["process", "pid", "active", "left to vLLM"],
        [
            [
                p["process"],
                p["pid"],
                ", ".join(p["active"]) or None,
                "; ".join(f"{k}: {v}" for k, v in p["reasons"].items()) or None,
            ]
            for p in server["processes"]
        ],
        right=["pid"],
    )
    steps = server["steps"]
    total = sum(steps["by_mode"].values())
    if total:
        shares = ", ".join(
            f"{count} {mode} ({count / total:.1%})"
            for mode, count in steps["by_mode"].items()
        )
        style: Style = "warn" if steps["by_mode"].get("NONE") else ""
        out.line(f"{total} dispatched steps: {shares}", style)
    if steps["scheduled"]:
        out.line(
            f"{steps['scheduled']} scheduled steps, K changed {steps['transitions']} "
            "times"
        )
    if steps["busiest"]:
        out.table(
            ["query length", "requests", "mode", "steps"],
            [
                [s["query_len"] or "mixed", s["num_reqs"], s["mode"], s["steps"]]
                for s in steps["busiest"]
            ],
            right=["query length", "requests", "steps"],
        )


def _package(problems: list[str]) -> dict[str, Any]:
    backend = _backend.name()  # settles it, and with it the reason below
    if _backend.fallback_reason:
        problems.append(
            f"the native core does not load ({_backend.fallback_reason}); the plug-in "
            "runs on the slow reference: reinstall specgrid"
        )
    return {
        "version": __version__,
        "backend": backend,
        "fallback_reason": _backend.fallback_reason,
        "python": sys.version.split()[0],
        "executable": sys.executable,
    }


def _entry_point(problems: list[str]) -> dict[str, Any]:
    """Whether vLLM's plug-in loader finds us and may load us."""
    found = [
        point
        for point in importlib.metadata.entry_points(group=GROUP)
        if point.name == "specgrid"
    ]
    allowed = os.environ.get("VLLM_PLUGINS")
    disabled = _disabled()
    if not found:
        summary = "no entry point is installed"
        problems.append(
            f"vLLM cannot find specgrid: no entry point in the group {GROUP}; install "
            "the package into the Python that runs vLLM (a source folder on the path "
            "is not enough)"
        )
    elif allowed is not None and "specgrid" not in allowed.split(","):
        summary = f"found, but VLLM_PLUGINS={allowed!r} does not name it"
        problems.append("add specgrid to VLLM_PLUGINS, or unset that variable")
    elif disabled:
        summary = "found, but switched off by SPECGRID_DISABLE"
        problems.append("unset SPECGRID_DISABLE to use the plug-in")
    else:
        summary = f"found: {found[0].value}"
    if len({point.value for point in found}) > 1:
        problems.append("several distributions provide the entry point specgrid")
    return {
        "found": bool(found),
        "value": found[0].value if found else None,
        "vllm_plugins": allowed,
        "disabled": disabled,
        "summary": summary,
    }


def _disabled() -> bool:
    from specgrid.vllm_plugin import _settings

    return _settings.disabled()


def _vllm(problems: list[str]) -> dict[str, Any]:
    installed = importlib.util.find_spec("vllm") is not None
    version = None
    if installed:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version("vllm")
        version = version or "of unknown version"
    else:
        problems.append(f"vLLM is not installed in {sys.executable}")
    return {
        "installed": installed,
        "version": version,
        "tested": bool(version and version.startswith(TESTED + ".")),
    }


def _seams(vllm: dict[str, Any], problems: list[str]) -> list[dict[str, Any]]:
    """Every seam installed in this process, its module imported and checked."""
    # vLLM logs to standard output, where only the answer belongs.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    with contextlib.redirect_stdout(sys.stderr):
        try:
            importlib.import_module("vllm.config")
        except Exception as error:
            problems.append(f"vLLM does not import: {type(error).__name__}: {error}")
            return []
        from specgrid.vllm_plugin import _register

        if _disabled():
            return [seam.describe() for seam in _register.SEAMS]
        _register.register(publish=False)
        _register.check_all()
    seams: list[dict[str, Any]] = _register.status()["seams"]
    problems += [
        f"seam {seam['seam']} is {seam['state']}: {seam['reason']}"
        for seam in seams
        if seam["state"] != "active"
    ]
    if not vllm["tested"] and not problems:
        vllm["note"] = f"not {TESTED}, but every check passed"
    return seams


def _servers() -> list[dict[str, Any]]:
    """Servers of this user with a live process on this machine."""
    from specgrid.vllm_plugin import _counters

    servers = []
    for name in _counters.servers():
        processes = [
            p
            for p in _counters.published(name)
            if _counters.alive(p["pid"]) and p["pid"] != os.getpid()
        ]
        if processes:
            servers.append(
                {
                    "server": name,
                    "processes": processes,
                    "steps": _steps(_counters.read_server(name)),
                }
            )
    return servers


def _steps(readings: list[Any]) -> dict[str, Any]:
    """Counters of one server, summed."""
    from specgrid.vllm_plugin import _counters

    by_mode: dict[str, int] = {}
    shapes: dict[tuple[int, int, int], int] = {}
    scheduled = transitions = 0
    for reading in readings:
        for kind, key, count in reading.counts:
            if kind == _counters.STEP:
                mode = _counters.mode_name(key[2])
                by_mode[mode] = by_mode.get(mode, 0) + count
                shapes[key] = shapes.get(key, 0) + count
            elif kind == _counters.DRAFT:
                scheduled += count
            elif kind == _counters.TRANSITION:
                transitions += count
    busiest = sorted(shapes.items(), key=lambda item: -item[1])[:8]
    return {
        "by_mode": dict(sorted(by_mode.items())),
        "scheduled": scheduled,
        "transitions": transitions,
        "busiest": [
            {
                "query_len": query_len,
                "num_reqs": num_reqs,
                "mode": _counters.mode_name(mode),
                "steps": count,
            }
            for (query_len, num_reqs, mode), count in busiest
        ],
    }
