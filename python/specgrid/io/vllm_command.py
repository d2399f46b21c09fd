# SPDX-License-Identifier: Apache-2.0
"""From a pasted ``vllm serve`` command, or a settings file, to raw settings.

This module knows how vLLM's flags are *written* (aliases, underscores,
``--flag=value``, dotted JSON flags, abbreviations, YAML files). Where the flags are
in a text is in ``_shell.py``, ``_document.py`` and ``_manifest.py``; what a setting
means, its default and its limits are in ``vllm_config.py``.
"""

from __future__ import annotations

import bisect
import difflib
import functools
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from specgrid._errors import ConfigError
from specgrid._read import File, ReadError, parse_json
from specgrid.io import _document
from specgrid.io._document import MAX_TEXT_BYTES, read_text
from specgrid.io._manifest import command_in, is_manifest
from specgrid.io._shell import (
    UNSET,
    FoundCommand,
    check_typography,
    find_command,
    split_text,
)
from specgrid.io._vllm_flags import FORMER_FLAGS, VLLM_FLAGS, VLLM_VERSION

MAX_DOTTED_PARTS = 16
#: Unknown flags worth a look for a similar name; a person misspells a few.
MAX_HINTS = 20
#: Of a beginning that fits more flags than this, none is suggested.
MAX_CANDIDATES = 8

# Flag -> (setting, value it stands for; None where the flag takes a value).
_SETTINGS: dict[str, tuple[str, bool | None]] = {
    "--model": ("model", None),
    "--config": ("config", None),
    "--max-num-seqs": ("max_num_seqs", None),
    "--max-num-active-seqs": ("max_num_active_seqs", None),
    "--max-num-batched-tokens": ("max_num_batched_tokens", None),
    "--max-model-len": ("max_model_len", None),
    "--cudagraph-capture-sizes": ("cudagraph_capture_sizes", None),
    "--max-cudagraph-capture-size": ("max_cudagraph_capture_size", None),
    "--speculative-config": ("speculative_config", None),
    "--spec-method": ("spec_method", None),
    "--spec-model": ("spec_model", None),
    "--spec-tokens": ("spec_tokens", None),
    "--compilation-config": ("compilation_config", None),
    "--additional-config": ("additional_config", None),
    "--optimization-level": ("optimization_level", None),
    "--performance-mode": ("performance_mode", None),
    "--tensor-parallel-size": ("tensor_parallel_size", None),
    "--pipeline-parallel-size": ("pipeline_parallel_size", None),
    "--data-parallel-size": ("data_parallel_size", None),
    "--distributed-executor-backend": ("distributed_executor_backend", None),
    "--all2all-backend": ("all2all_backend", None),
    "--max-loras": ("max_loras", None),
    "--ubatch-size": ("ubatch_size", None),
}
_SWITCHES = {
    "enforce_eager": ("--enforce-eager", "--no-enforce-eager"),
    "enable_lora": ("--enable-lora", "--disable-lora"),
    "specialize_active_lora": (
        "--specialize-active-lora",
        "--no-specialize-active-lora",
    ),
    "enable_chunked_prefill": (
        "--enable-chunked-prefill",
        "--disable-chunked-prefill",
    ),
    "enable_expert_parallel": (
        "--enable-expert-parallel",
        "--disable-expert-parallel",
    ),
    "enable_dbo": ("--enable-dbo", "--disable-dbo"),
}
for _name, (_on, _off) in _SWITCHES.items():
    _SETTINGS[_on] = (_name, True)
    _SETTINGS[_off] = (_name, False)
    _SETTINGS["--no-" + _on[2:]] = (_name, False)
    _SETTINGS["--no-" + _off[2:]] = (_name, True)
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-cc": "--compilation-config",
    "-sc": "--speculative-config",
}
_JSON_SETTINGS = ("speculative_config", "compilation_config", "additional_config")

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_SORTED_FLAGS = sorted(VLLM_FLAGS)


class Given(NamedTuple):
    """One setting as the user wrote it: the raw value and where it was written."""

    value: Any
    origin: str


@dataclass
class RawSettings:
    """What a command line or file says, before defaults and checks.

    Attributes:
        values: setting name -> ``Given``; the last mention wins, as in vLLM.
        environment: variables assigned in front of the command.
        entry_point: "server", "offline" (the ``LLM`` class) or "batch".
        unused: flags vLLM knows that do not touch capture sizes or schedules.
        unknown: flags vLLM 0.33.0 does not have, each with a hint where one fits.
        replaced: JSON values vLLM drops for dotted flags of the same setting, told.
        abbreviated: flags given by their beginning -> the flag vLLM takes them for.
        has_command: a vLLM command was seen, not flags alone.
    """

    values: dict[str, Given] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    entry_point: str = "server"
    unused: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    abbreviated: dict[str, str] = field(default_factory=dict)
    has_command: bool = False

    def update(self, later: RawSettings) -> None:
        """Lays ``later`` over this: its values win, the rest is added."""
        self.values.update(later.values)
        self.environment.update(later.environment)
        if later.entry_point != "server":
            self.entry_point = later.entry_point
        self.unused += later.unused
        self.unknown += later.unknown
        self.replaced += later.replaced
        self.abbreviated.update(later.abbreviated)
        self.has_command = self.has_command or later.has_command


def human_int(text: str) -> int:
    """Reads an integer the way vLLM does where it allows a suffix.

    Lower case is decimal and may be fractional, upper case is binary and may not:
    ``8k`` is 8000, ``25.6k`` is 25600, ``8K`` is 8192.

    Raises:
        ValueError: ``text`` is not such a number.

    >>> human_int("8k"), human_int("8K"), human_int("512")
    (8000, 8192, 512)
    """
    text = text.strip()
    match = _HUMAN.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    power = "kmgt".index(suffix.lower()) + 1
    if suffix.islower():
        value = float(number) * 10 ** (3 * power)
        if value == float("inf"):
            raise ValueError(f"{number[:20]}... is beyond every number")
        return int(value)
    return int(number) << (10 * power)


def read_config_file(path: str | Path | File) -> RawSettings:
    """Reads vLLM's YAML, the same settings as JSON, a manifest or a script.

    Args:
        path: ``.yaml``/``.yml``, ``.json``, or any other name, where the content
            tells what it is.

    Raises:
        ConfigError: the file cannot be read or holds no vLLM server.
    """
    if not str(path):
        raise ConfigError("the name of the settings file is empty; name the file")
    named = Path(path)
    return parse_text(read_text(path), named.name, named.suffix)


def parse_text(text: str, name: str, suffix: str = "") -> RawSettings:
    """Reads a text that may be settings (YAML, JSON), a manifest or a script.

    Args:
        text: all of it.
        name: what to call it in messages.
        suffix: the ending of the file's name, where there is one.

    Raises:
        ConfigError: the text holds no vLLM server.
    """
    kind = _document.kind_of(text, suffix)
    if kind == "shell":
        return parse_command(text, origin=name)
    document = _document.load(text, kind, name) if text.strip() else None
    if document is None or document in ({}, [], ()):
        raise ConfigError(f"{name} is empty; write one `flag: value` a line")
    if is_manifest(document):
        return _read_flags(command_in(document, name), name)
    if not isinstance(document, dict):
        raise ConfigError(
            f"{name} holds only {short(document)}; write one `flag: value` a line, as "
            "in `max-num-seqs: 256`"
        )
    raw = RawSettings()
    reader = _FlagReader(raw, name)
    for key, value in document.items():
        if not isinstance(key, str):
            raise ConfigError(f"{name}: key {short(key)} is not a flag name")
        reader.entry("--" + key.lstrip("-"), value)
    reader.finish()
    if 2 * len(raw.unknown) > len(document):
        raise ConfigError(
            f"{name} is no settings file of vLLM: it has no flag "
            f"{short(raw.unknown[0])}; give the file or command the server is "
            "started with"
        )
    return raw


def parse_command(command: str | Sequence[str], origin: str = "") -> RawSettings:
    """Reads a command line, as one text or as the words a shell made of it.

    Understood in front of ``vllm serve``: environment assignments, ``export``,
    wrappers such as ``nohup`` or ``docker run``; also the older
    ``python -m vllm.entrypoints.openai.api_server``. Without a command the words are
    taken as flags alone, and at least one must be a flag of vLLM.

    Args:
        command: the text of a command or script, or a list of words.
        origin: file name to name in messages; empty for a command line.

    Raises:
        ConfigError: the text cannot be read, with what to write instead.
    """
    commands = _split(command) if isinstance(command, str) else _rejoin(command)
    return _read_flags(find_command(commands), origin)


def _read_flags(found: FoundCommand, origin: str) -> RawSettings:
    if not found.found and not any(map(_is_vllms, found.words)):
        given = " ".join(found.words)
        where = origin or (short(given) if given.strip() else "an empty text")
        raise ConfigError(
            f"no `vllm serve` and no flag of vLLM in {where}; give the command the "
            "server is started with, as in `-- vllm serve MODEL --max-num-seqs 256`"
        )
    raw = RawSettings(environment=found.environment, entry_point=found.entry_point)
    raw.has_command = found.found
    reader = _FlagReader(raw, origin)
    reader.words(found.words)
    reader.finish()
    return raw


def unknown_flags(words: Sequence[str]) -> list[str]:
    """Flags alone that vLLM does not have, each with a hint where one fits.

    A whole command has none: it may be for another version, which a note tells.
    """
    found = find_command(_rejoin(words))
    if found.found:
        return []
    raw = RawSettings()
    reader = _FlagReader(raw, "")
    reader.words(found.words)
    reader.finish()
    return raw.unknown


def _is_vllms(word: str) -> bool:
    flag = _dashes(word.partition("=")[0]).partition(".")[0]
    return _is_flag(word) and (flag.startswith("-O") or _look_up(flag)[0] is not None)


def _rejoin(words: Sequence[str]) -> list[list[str]]:
    """A command that was quoted whole arrives as one word with blanks in it."""
    if len(words) == 1 and re.search(r"\s", words[0].strip()):
        return _split(words[0])
    commands: list[list[str]] = [[]]
    for word in words:
        if word and not word.strip(";|&\n"):
            commands.append([])
        elif word.strip() != "\\" and (not word or word.strip()):
            commands[-1].append(word)
    return [command for command in commands if command]


def _split(text: str) -> list[list[str]]:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise ConfigError(
            f"the command has more than {MAX_TEXT_BYTES} bytes; paste the one "
            "`vllm serve` command"
        )
    return split_text(text)


class _FlagReader:
    """Reads flags one by one into a RawSettings, by vLLM's own rules."""

    def __init__(self, raw: RawSettings, origin: str) -> None:
        self._raw = raw
        self._file = origin
        # vLLM gathers dotted flags under the name as typed and appends them last.
        self._dotted: dict[str, dict[str, Any]] = {}
        self._unknown: set[str] = set()

    def words(self, words: Sequence[str]) -> None:
        i = 0
        while i < len(words):
            word = words[i]
            i += 1
            check_typography(word)
            if not word:
                raise ConfigError(
                    'an empty word ("") stands among the flags, and vLLM stops at it; '
                    "drop it"
                )
            if word == "--":
                continue
            if not _is_flag(word):
                self._positional(word)
                continue
            i = self._flag(words, i)

    def entry(self, flag: str, value: Any) -> None:
        """One line of a settings file, where the value is not text already."""
        if isinstance(value, float):
            value = str(value)  # what vLLM passes on, and refuses for whole numbers
        flag = _dashes(flag)
        if "." in flag:
            self._add_dotted(flag, value)
            return
        name = self._resolve(flag)
        if name is None:
            return
        if value is None:
            raise ConfigError(
                f"{self._where(name)} is null, which vLLM reads as the text None; "
                "drop the line or give a value"
            )
        setting, constant = _SETTINGS[name]
        if constant is not None:
            if not isinstance(value, bool):
                raise ConfigError(
                    f"{self._where(name)} is {short(value)}; write true or false"
                )
            # vLLM passes `flag: false` on as the negative flag.
            self._set(setting, constant == value, name)
        else:
            self._set(setting, value, name)

    def finish(self) -> None:
        """Adds the dotted flags, which vLLM appends after everything else."""
        for flag, content in self._dotted.items():
            name = self._resolve(flag)
            if name is None:
                continue
            setting = _SETTINGS[name][0]
            if setting not in _JSON_SETTINGS:
                self._raw.unknown.append(f"{flag}.{next(iter(content), '')}")
                continue
            earlier = self._raw.values.get(setting)
            if earlier is not None:
                self._raw.replaced.append(
                    f"{flag}.* replaces all of {earlier.origin}, which vLLM drops: "
                    "it does not merge JSON with dotted flags. Write everything in "
                    "one form."
                )
            self._set(setting, content, f"{name}.*")

    def _where(self, flag: str) -> str:
        return f"{self._file}: {flag.lstrip('-')}" if self._file else flag

    def _set(self, setting: str, value: Any, flag: str) -> None:
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and setting != "model":
                check_typography(text)
                _check_set(text, f"{self._where(flag)} {short(text)}")
        self._raw.values[setting] = Given(value, self._where(flag))

    def _positional(self, word: str) -> None:
        if "model" in self._raw.values:
            _check_set(word, short(word))
            raise ConfigError(
                f"unexpected {short(word)}: the model is already "
                f"{short(self._raw.values['model'].value)}; paste the whole command "
                "after `--`, or check for a missing quotation mark around a JSON value"
            )
        self._raw.values["model"] = Given(word, self._file or "command line")

    def _flag(self, words: Sequence[str], i: int) -> int:
        word, has_value, inline = words[i - 1].partition("=")
        word = _dashes(word)
        if re.fullmatch(r"-O.*", word) and not word.startswith("--"):
            return self._optimization(word[2:] or inline, words, i)
        if "." in word:
            if not has_value:
                if i >= len(words):
                    raise _needs_value(word)
                inline = words[i]
                i += 1
            self._add_dotted(word, inline)
            return i
        name = self._resolve(word)
        nargs = VLLM_FLAGS.get(name or word)
        if nargs is None or nargs == "+" or nargs == "?":
            values = [inline] if has_value else []
            while not has_value and i < len(words) and not _is_flag(words[i]):
                values.append(words[i])
                i += 1
                if nargs == "?":
                    break
            if name is not None:
                if not values:
                    raise _needs_value(word)
                self._set(_SETTINGS[name][0], values, name)
            return i
        if nargs == "0":
            if name is not None:
                setting, constant = _SETTINGS[name]
                self._set(setting, constant, name)
            return i
        if has_value:
            value = inline
        elif i < len(words) and not _is_flag(words[i]):
            value = words[i]
            i += 1
        else:
            raise _needs_value(word)
        if name is not None:
            self._set(_SETTINGS[name][0], value, name)
        return i

    def _optimization(self, level: str, words: Sequence[str], i: int) -> int:
        """``-O3``, ``-O=3`` and ``-O 3`` are one flag."""
        if not level:
            if i >= len(words):
                raise _needs_value("-O")
            level = words[i]
            i += 1
        self._set("optimization_level", level.lstrip("="), "--optimization-level")
        return i

    def _add_dotted(self, flag: str, value: Any) -> None:
        key, *parts = flag.split(".")
        if len(parts) > MAX_DOTTED_PARTS or not all(parts):
            raise ConfigError(
                f"{short(flag)} is not a dotted flag; write it as in "
                "--speculative-config.num_speculative_tokens 5"
            )
        last = parts[-1]
        if isinstance(value, str):
            if last.endswith("+"):
                parts[-1] = last[:-1]
                value = value.split(",")
            else:
                value = _dotted_value(value)
        for part in reversed(parts):
            value = {part: value}
        _merge(self._dotted.setdefault(key, {}), value)

    def _resolve(self, flag: str) -> str | None:
        """The flag's full name when it is one read here; files all others away."""
        name, candidates = _look_up(flag)
        if name is None:
            if flag not in self._unknown:
                hint = len(self._unknown) < MAX_HINTS
                self._raw.unknown.append(_with_hint(flag, candidates, hint))
                self._unknown.add(flag)
            return None
        if name != _SHORT.get(flag, flag):
            self._raw.abbreviated[flag] = name
        if name in _SETTINGS:
            return name
        self._raw.unused.append(name)
        return None


@functools.lru_cache(4096)
def _look_up(flag: str) -> tuple[str | None, tuple[str, ...]]:
    """vLLM's flag, or None and the flags it could be the beginning of."""
    name = _SHORT.get(flag, flag)
    if name in VLLM_FLAGS:
        return name, ()
    # Like vLLM's parser, an unmistakable beginning is enough.
    first = bisect.bisect_left(_SORTED_FLAGS, name)
    last = bisect.bisect_left(_SORTED_FLAGS, name + "\U0010ffff")
    full = tuple(_SORTED_FLAGS[first:last])
    if name.startswith("--") and len(name) > 2 and len(full) == 1:
        return full[0], ()
    return None, full


def _with_hint(name: str, full: Sequence[str], hint: bool) -> str:
    shown = name if len(name) <= 60 else name[:57] + "..."
    close = list(full) if len(full) <= MAX_CANDIDATES else []
    if name in FORMER_FLAGS:
        close = [FORMER_FLAGS[name]]
    if hint and not close:
        close = difflib.get_close_matches(shown, VLLM_FLAGS, 1, 0.8)
    return f"{shown} (did you mean {close[0]}?)" if close else shown


def _check_set(text: str, where: str) -> None:
    """Refuses what only a running shell could put in."""
    match = UNSET.search(text)
    if match is None:
        return
    if match[0].startswith("$("):
        raise ConfigError(
            f"{where}: {short(match[0])} is worked out by the shell, and nothing is "
            "run here; write its value"
        )
    raise ConfigError(
        f"{where}: the shell variable {short(match[0])} is not set in this text; "
        "write its value, or set it in front of the command"
    )


def _is_flag(word: str) -> bool:
    return (
        len(word) > 1
        and word[0] == "-"
        and _NUMBER.fullmatch(word) is None
        and not re.search(r"\s", word.partition("=")[0])
    )


def _dashes(flag: str) -> str:
    """Underscores become dashes up to the first dot, as vLLM does."""
    head, dot, tail = flag.partition(".")
    return head.replace("_", "-") + dot + tail


def _dotted_value(text: str) -> Any:
    try:
        return parse_json(text)
    except ReadError:
        pass
    try:
        return human_int(text)
    except ValueError:
        return text


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        old = into.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _merge(old, value)
        elif isinstance(value, list) and isinstance(old, list):
            old += value
        else:
            into[key] = value


def _needs_value(flag: str) -> ConfigError:
    return ConfigError(f"{short(flag)} needs a value; write {short(flag)} VALUE")


def short(value: object, limit: int = 60) -> str:
    """A value as it can stand in a one-line message, whatever its size."""
    if isinstance(value, str):
        text = value if len(value) <= limit else value[: limit - 3] + "..."
        if not text.strip():
            return repr(text)
        return "".join(c if c.isprintable() else " " for c in text)
    if value is None:
        return "null"
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = limit
    shortener.maxlevel = 3
    text = shortener.repr(value)
    return text if len(text) <= 2 * limit else text[: 2 * limit - 3] + "..."


__all__ = [
    "MAX_TEXT_BYTES",
    "VLLM_VERSION",
    "Given",
    "RawSettings",
    "human_int",
    "parse_command",
    "parse_text",
    "read_config_file",
    "read_text",
    "short",
    "unknown_flags",
]
