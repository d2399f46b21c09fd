# SPDX-License-Identifier: Apache-2.0
"""ServeConfig: the settings of a vLLM server that decide its CUDA graphs.

Raw settings (``vllm_command.py``) become numbers here: vLLM 0.33.0's defaults are
filled in, and every setting remembers where it came from: given by the user, vLLM's
default, or assumed because only the machine would know. What vLLM refuses to start
with is refused here, with the flag to change. Capture sizes are computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from specgrid._errors import ConfigError
from specgrid._read import File
from specgrid.io._device import DEVICES, Device
from specgrid.io._resolve import Resolver
from specgrid.io._settings import Setting, Source
from specgrid.io._values import load_json
from specgrid.io._vllm_flags import VLLM_VERSION
from specgrid.io.vllm_command import (
    Given,
    RawSettings,
    parse_command,
    parse_text,
    read_config_file,
)


@dataclass(frozen=True)
class ServeConfig:
    """Everything that decides capture sizes, schedules and graphs, resolved.

    Sizes are tokens, ``max_num_seqs`` and ``max_num_active_seqs`` are requests.

    Attributes:
        schedule: the schedule rows as given, unchecked; None without one.
        schedule_dropped: why vLLM ignores the schedule; empty when it does not.
        cudagraph_mode: the mode in force after vLLM's own overrides.
        lora_cases: the numbers of active LoRAs graphs are captured for.
        adaptive_verification: FULL decode graphs serve any mix of query lengths.
        plugin: the usable part of ``--additional-config``'s ``specgrid`` section.
        plugin_problems: what the plug-in would warn about there and not use.
        settings: every resolved setting with its source, in reading order.
        notes: what the user should know about how the input was read.
        ignored_flags: flags without effect here.
        unknown_flags: flags vLLM 0.33.0 does not have, with a hint where one fits.
        replaced: JSON values vLLM drops for dotted flags of the same setting.
    """

    model: str | None
    max_num_seqs: int
    max_num_active_seqs: int | None
    max_num_batched_tokens: int
    num_speculative_tokens: int
    speculative_method: str | None
    schedule: Any
    schedule_dropped: str
    cudagraph_mode: str
    cudagraph_capture_sizes: tuple[int, ...] | None
    max_cudagraph_capture_size: int | None
    compile_sizes: tuple[int | str, ...]
    performance_mode: str
    model_runner: Literal["V1", "V2"]
    adaptive_verification: bool
    data_parallel_size: int
    tensor_parallel_size: int
    sequence_parallel_size: int
    lora_cases: tuple[int, ...]
    platform_ceiling: int
    plugin: Mapping[str, Any] = field(default_factory=dict)
    plugin_problems: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    ignored_flags: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    @property
    def effective_schedule(self) -> Any:
        """The schedule rows vLLM acts on: None when there are none or it drops them."""
        return None if self.schedule_dropped else self.schedule

    @property
    def graphs_enabled(self) -> bool:
        """False when vLLM captures no CUDA graph at all."""
        return self.cudagraph_mode != "NONE"

    @property
    def flags_note(self) -> str:
        """One sentence on the flags that were not used; empty when all were."""
        parts = []
        if self.ignored_flags:
            parts.append("no effect on graphs: " + " ".join(self.ignored_flags))
        if self.unknown_flags:
            parts.append(f"not in vLLM {VLLM_VERSION}: " + " ".join(self.unknown_flags))
        return "Flags ignored here (" + "; ".join(parts) + ")." if parts else ""

    def setting(self, name: str) -> Setting:
        """The resolved setting called ``name``."""
        return next(s for s in self.settings if s.name == name)

    def is_given(self, name: str) -> bool:
        """Whether the user set ``name``."""
        return any(s.name == name and s.source == "given" for s in self.settings)

    def capture_arguments(self) -> dict[str, Any]:
        """Keyword arguments for ``specgrid.capture_sizes`` (all but the rule)."""
        sizes = self.cudagraph_capture_sizes
        return {
            "max_num_seqs": self.max_num_seqs,
            "num_speculative_tokens": self.num_speculative_tokens,
            "schedule": self.effective_schedule,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "platform_ceiling": self.platform_ceiling,
            "cudagraph_capture_sizes": None if sizes is None else list(sizes),
            "max_cudagraph_capture_size": self.max_cudagraph_capture_size,
            "performance_mode": self.performance_mode,
            "sequence_parallel_size": self.sequence_parallel_size,
        }

    @classmethod
    def from_command(
        cls, command: str | Sequence[str], device: Device | None = None
    ) -> ServeConfig:
        """Reads a ``vllm serve ...`` command, as text or as a list of words.

        Raises:
            ConfigError: with what to write instead.

        >>> config = ServeConfig.from_command("vllm serve M --max-num-seqs 32")
        >>> config.max_num_seqs, config.max_num_batched_tokens
        (32, 8192)
        >>> config.setting("max_num_batched_tokens").source
        'vLLM default'
        """
        return resolve(_with_config_file(parse_command(command)), device)

    @classmethod
    def from_file(cls, path: str | Path, device: Device | None = None) -> ServeConfig:
        """Reads vLLM's YAML, the same as JSON, or a shell file with a command."""
        return resolve(_with_config_file(read_config_file(path)), device)


def _with_config_file(raw: RawSettings) -> RawSettings:
    """vLLM's own ``--config FILE``: the command line wins over the file."""
    given = raw.values.pop("config", None)
    if given is None:
        return raw
    base = read_config_file(str(given.value))
    if "config" in base.values:
        raise ConfigError(f"{base.values['config'].origin}: a file cannot name another")
    base.update(raw)
    return base


def load(
    command: str | Sequence[str] = (),
    config_file: str | Path | File | None = None,
    overrides: str | Sequence[str] = (),
    device: Device | None = None,
    *,
    config_text: str | None = None,
    num_speculative_tokens: str | None = None,
    schedule: str | None = None,
) -> ServeConfig:
    """Resolves a server from a file, a command and flags; later ones win.

    Args:
        command: a ``vllm serve`` command.
        config_file: a settings file, under the command.
        overrides: flags laid over both.
        device: the GPU to assume.
        config_text: what came from standard input, in place of a file.
        num_speculative_tokens: K, over whatever the rest says.
        schedule: schedule rows as JSON, over whatever the rest says.
    """
    raw = load_raw(
        command,
        config_file,
        overrides,
        config_text=config_text,
        num_speculative_tokens=num_speculative_tokens,
        schedule=schedule,
    )
    return resolve(raw, device)


def load_raw(
    command: str | Sequence[str] = (),
    config_file: str | Path | File | None = None,
    overrides: str | Sequence[str] = (),
    *,
    config_text: str | None = None,
    num_speculative_tokens: str | None = None,
    schedule: str | None = None,
) -> RawSettings:
    """What `load` resolves, as written; the same arguments without the GPU."""
    raw = RawSettings()
    if config_text is not None:
        raw = parse_text(config_text, "standard input")
    elif config_file is not None:
        raw = read_config_file(config_file)
    for words in (command, overrides):
        if words:
            raw.update(_with_config_file(parse_command(words)))
    raw = _with_config_file(raw)
    if num_speculative_tokens is not None:
        raw.values["num_speculative_tokens"] = Given(
            num_speculative_tokens, "--num-speculative-tokens"
        )
    if schedule is not None:
        raw.values["schedule"] = Given(load_json(schedule, "--schedule"), "--schedule")
    return raw


def resolve(raw: RawSettings, device: Device | None = None) -> ServeConfig:
    """Fills in vLLM 0.33.0's defaults and checks what vLLM would check.

    Args:
        raw: settings as written.
        device: the GPU to assume for defaults that depend on it.

    Raises:
        ConfigError: a value is malformed, or vLLM would refuse to start.
    """
    return ServeConfig(**Resolver(raw, device or Device()).fields())


__all__ = [
    "DEVICES",
    "Device",
    "ServeConfig",
    "Setting",
    "Source",
    "load",
    "load_raw",
    "resolve",
]
