# SPDX-License-Identifier: Apache-2.0
"""How every command is told about a server: one decorator, one ServeConfig.

``@serve_command("explain")`` makes a click command whose function receives
``config``, a resolved ``ServeConfig``, beside the options the command adds itself.
Flags click does not know are vLLM's and are read by ``specgrid.io.vllm_command``.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Callable
from typing import Any

import click

from specgrid._errors import ConfigError
from specgrid._read import File
from specgrid.cli._numbers import Number
from specgrid.io._document import read_stream
from specgrid.io.vllm_command import unknown_flags
from specgrid.io.vllm_config import DEVICES, Device, ServeConfig, load_raw, resolve

_SERVER_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="vLLM's YAML or JSON, a script or a container manifest with the command; "
        "- for standard input.",
    ),
    click.option(
        "--num-speculative-tokens",
        "num_speculative_tokens",
        metavar="K",
        help="Draft tokens, over whatever the rest says; vLLM's own flag is "
        "--spec-tokens.",
    ),
    click.option(
        "--schedule",
        "schedule",
        metavar="JSON",
        help="Schedule rows [first, last, k] or [first, last, context_first, "
        "context_last, k].",
    ),
    click.option(
        "--gpu",
        metavar="NAME",
        type=click.Choice(sorted(DEVICES), case_sensitive=False),
        help=f"GPU to take vLLM's defaults for: {', '.join(sorted(DEVICES))}.",
    ),
    click.option(
        "--device-memory-gib",
        metavar="GIB",
        type=Number(1, 4096),
        help="GPU memory to take vLLM's defaults for (80 when not given).",
    ),
    click.option(
        "--platform-ceiling",
        metavar="TOKENS",
        type=click.IntRange(1, 65536),
        help="Default capture ceiling: 512, or 1024 on B200 and B300.",
    ),
]


class ServeCommand(click.Command):
    """A command that keeps vLLM's flags, before and after ``--``, for our reader."""

    def make_parser(self, ctx: click.Context) -> Any:
        parser: Any = super().make_parser(ctx)
        letters = parser._match_short_opt

        def match(word: str, state: Any) -> None:
            # vLLM's -cc.cudagraph_mode=FULL is one word, with no -c, -o or -h in it.
            if word[:2] in parser._short_opt:
                letters(word, state)
            else:
                state.largs.append(word)

        parser._match_short_opt = match
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        pasted: list[str] = []
        if "--" in args:
            cut = args.index("--")
            args, pasted = args[:cut], args[cut + 1 :]
        ctx.meta["specgrid.pasted"] = pasted
        return super().parse_args(ctx, args)


def serve_command(
    name: str,
    leading: Callable[[Any], Any] | None = None,
    **attributes: Any,
) -> Callable[[Callable[..., int]], click.Command]:
    """A decorator: ``f(config, **own_options)`` becomes the command ``name``.

    Args:
        name: the command.
        leading: a ``click.argument`` that comes before all flags.
        **attributes: for click.
    """

    def decorate(function: Callable[..., int]) -> click.Command:
        @click.pass_context
        def callback(ctx: click.Context, /, **options: Any) -> int:
            config = _read_server(ctx, options)
            return function(config=config, **options)

        wrapped: Any = callback
        wrapped.__doc__ = function.__doc__
        wrapped.__click_params__ = getattr(function, "__click_params__", [])
        for option in reversed(_SERVER_OPTIONS):
            wrapped = option(wrapped)
        wrapped = click.argument(
            "words",
            nargs=-1,
            type=click.UNPROCESSED,
            metavar="[FLAGS]... [-- vllm serve ...]",
        )(wrapped)
        if leading is not None:
            wrapped = leading(wrapped)
        return click.command(
            name,
            cls=ServeCommand,
            context_settings={
                "ignore_unknown_options": True,
                "help_option_names": ["-h", "--help"],
                "max_content_width": 100,
            },
            **attributes,
        )(wrapped)

    return decorate


def _read_server(ctx: click.Context, options: dict[str, Any]) -> ServeConfig:
    pasted = ctx.meta["specgrid.pasted"]
    flags = list(options.pop("words"))
    config_file = options.pop("config_file")
    spec_tokens = options.pop("num_speculative_tokens")
    schedule = options.pop("schedule")
    device = _device(
        options.pop("gpu"),
        options.pop("device_memory_gib"),
        options.pop("platform_ceiling"),
    )
    config_text = None
    ctx.meta["specgrid.device"] = device
    if config_file == "-":
        if pasted:
            raise ConfigError("--config - and a command after `--`: give one of them")
        config_file, config_text = None, read_standard_input()
    elif config_file == "":
        raise ConfigError("--config is empty; name a file, or - for standard input")
    elif config_file is not None:
        config_file = File(config_file)
    if config_text is None and not (
        pasted or flags or config_file or spec_tokens or schedule
    ):
        raise click.UsageError(
            "no server given; paste its command after `--`, as in "
            f"`{ctx.command_path} -- vllm serve MODEL --max-num-seqs 256`",
            ctx,
        )
    _refuse_unknown(ctx, flags)
    # Some commands look again at what was written; a pipe gives it once.
    raw = ctx.meta["specgrid.raw"] = load_raw(
        pasted,
        config_file,
        flags,
        config_text=config_text,
        num_speculative_tokens=spec_tokens,
        schedule=schedule,
    )
    return resolve(raw, device)


def read_standard_input() -> str:
    """All of standard input as text, refused in one line when it cannot be one."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed; pipe the text in, or name a file")
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        return sys.stdin.read()
    return read_stream(stream, "standard input")


def _refuse_unknown(ctx: click.Context, flags: list[str]) -> None:
    """A flag typed here that nobody has is a mistake; in a pasted command, a note."""
    for flag in unknown_flags(flags):
        own = [name for param in ctx.command.params for name in param.opts]
        name = flag.partition(" (did you mean")[0]
        close = difflib.get_close_matches(name, own, 1, 0.7)
        hint = f"{name} (did you mean {close[0]}?)" if close else flag
        raise click.UsageError(f"neither specgrid nor vLLM has the flag {hint}", ctx)


def _device(
    gpu: str | None, memory_gib: float | None, ceiling: int | None
) -> Device | None:
    device = None if gpu is None else DEVICES[gpu.lower()]
    if memory_gib is not None:
        device = dataclasses.replace(
            device or Device(),
            memory_gib=memory_gib,
            name=f"a GPU with {memory_gib:g} GiB",
            assumed=False,
        )
    if ceiling is not None:
        device = dataclasses.replace(
            device or Device(),
            platform_ceiling=ceiling,
            ceiling_assumed=False,
            ceiling_detail="--platform-ceiling",
        )
    return device


__all__ = ["ServeCommand", "serve_command"]
