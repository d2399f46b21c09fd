# SPDX-License-Identifier: Apache-2.0
"""The ``specgrid`` command: a group whose commands load only when they are used.

Each command lives in a module of its own that defines ``command``. What they share is
in ``_input`` (how a server is described) and ``_output`` (how results are printed).
Only what is given counts: variables of the calling shell are not looked at.

Exit status: 0 all is well, 1 a problem was found, 2 the input was bad (one line on
standard error, no traceback), 130 ended by Ctrl-C.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from specgrid._version import __version__
from specgrid.cli import _streams

#: Command -> (module that defines ``command``, one line for ``specgrid --help``).
COMMANDS = {
    "explain": (
        "specgrid.cli.explain",
        "What vLLM will capture for a server, and which batches have no graph.",
    ),
    "lint": (
        "specgrid.cli.lint",
        "Named findings with the exact flag to change; exit 1 when there are any.",
    ),
    "plan": (
        "specgrid.cli.plan",
        "The best graphs for a measured workload and a memory budget.",
    ),
    "cases": (
        "specgrid.cli.cases",
        "The benchmark cases to measure before tuning a schedule.",
    ),
    "tune": (
        "specgrid.cli.tune",
        "A draft-length schedule from measured latency and acceptance.",
    ),
    "convert": (
        "specgrid.cli.convert",
        "Schedules from and to other engines' formats.",
    ),
    "report": (
        "specgrid.cli.report",
        "One HTML page about a server: what it loses, and what to paste.",
    ),
    "doctor": (
        "specgrid.cli.doctor",
        "Whether this machine, vLLM and the plug-in fit together.",
    ),
}

_EPILOG = """\
Every command takes a server the way you already have it:

\b
  specgrid explain -- vllm serve MODEL --max-num-seqs 256 ...   a pasted command
  specgrid explain --config FILE     vLLM's settings, a script, a container manifest
  specgrid explain --max-num-seqs 256 --spec-tokens 5 ...       flags alone

Only what is given counts: variables of the calling shell are not looked at.

Exit status: 0 all is well, 1 a problem was found, 2 bad input, 130 ended by Ctrl-C.
"""


@contextmanager
def _aborting() -> Iterator[None]:
    """Ctrl-C as click's own Abort: click would begin a line of its own for it."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.Abort from None


class LazyGroup(click.Group):
    """Lists commands from a table and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if _exists(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS or not _exists(cmd_name):
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _aborting():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _aborting():
            return super().invoke(ctx)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _exists(name: str) -> bool:
    return importlib.util.find_spec(COMMANDS[name][0]) is not None


@click.group(
    cls=LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="specgrid")
def cli() -> None:
    """Plan vLLM's CUDA graphs and draft-length schedules before the server starts."""


def start(arguments: Sequence[str]) -> int:
    """The command line of a process of its own: its streams and signals, then run."""
    if hasattr(signal, "SIGPIPE"):
        # When the reader (head, less) leaves, end in silence as Unix tools do.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _streams.prepare()
    return run(arguments)


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit status; errors are one line each."""
    if sys.stdout is None:
        return _fail("standard output is closed; send the result somewhere")
    try:
        result = cli.main(list(arguments), prog_name="specgrid", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else _path(arguments)
        message = error.format_message()
        for words in ("integer range", "integer"):
            message = message.replace(f"is not a valid {words}.", "is no whole number")
        for words in ("float range", "float"):
            message = message.replace(f"is not a valid {words}.", "is no number")
        return _fail(f"{message} (see `{path} --help`)", path)
    except click.ClickException as error:
        return _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        # As the shell reports a command that Ctrl-C ended.
        return _fail("interrupted", status=130)
    except OSError as error:
        return _fail(_system_error(error))
    except ImportError as error:
        from specgrid._backend import BackendError

        if not isinstance(error, BackendError):
            raise
        return _fail(str(error))
    except MemoryError:
        return _fail("there is not enough memory for this; ask for less at once")
    except ValueError as error:
        from specgrid._errors import ConfigError, ScheduleError
        from specgrid.io import DataError

        if isinstance(error, (ConfigError, ScheduleError, DataError)):
            return _fail(str(error))
        raise
    return result if isinstance(result, int) else 0


def _path(arguments: Sequence[str]) -> str:
    """The command a line names, where click's error does not say."""
    return " ".join(["specgrid", *(a for a in arguments[:1] if a in COMMANDS)])


def _system_error(error: OSError) -> str:
    """One line for what the system refused: a full disk, a folder, a closed pipe."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}; nothing was written there"
    _streams.silence(sys.stdout)
    return f"the output could not be written: {reason}"


def _fail(message: str, prefix: str = "specgrid", status: int = 2) -> int:
    _streams.complain(f"{prefix}: {' '.join(message.split())}")
    return status
