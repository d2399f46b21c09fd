# SPDX-License-Identifier: Apache-2.0
"""From a pasted ``vllm serve`` command, or a settings file, to raw settings.

This module knows how vLLM's command line is *written* (aliases, underscores,
``--flag=value``, dotted JSON flags, abbreviations, YAML files). What a setting means,
its default and its limits are in ``vllm_config.py``. Nothing is executed and nothing
is looked up: a command is read as text.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from specgrid._errors import ConfigError
from specgrid.io._vllm_flags import VLLM_FLAGS, VLLM_VERSION

#: Longer inputs are refused: no real command line or settings file comes near.
MAX_TEXT_BYTES = 1 << 20
MAX_DOTTED_PARTS = 16

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

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_SEPARATORS = frozenset("\n;|&")
_DASHES = "–—−‐‑"


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
    """

    values: dict[str, Given] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    entry_point: str = "server"
    unused: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)

    def update(self, later: RawSettings) -> None:
        """Lays ``later`` over this: its values win, the rest is added."""
        self.values.update(later.values)
        self.environment.update(later.environment)
        if later.entry_point != "server":
            self.entry_point = later.entry_point
        self.unused += later.unused
        self.unknown += later.unknown
        self.replaced += later.replaced


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
        return int(float(number) * 10 ** (3 * power))
    return int(number) << (10 * power)


def read_text(path: Path) -> str:
    """Reads a text file, refusing what cannot be a settings file in one line."""
    try:
        size = path.stat().st_size
        if size > MAX_TEXT_BYTES:
            raise ConfigError(
                f"{path} has {size} bytes; a settings file has at most "
                f"{MAX_TEXT_BYTES}: give the file vLLM is started with"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read {path}: {reason}; check the path") from None
    except UnicodeDecodeError:
        raise ConfigError(
            f"{path} is not UTF-8 text; give a YAML, JSON or shell file"
        ) from None


def read_config_file(path: str | Path) -> RawSettings:
    """Reads vLLM's YAML, the same settings as JSON, or a shell file with a command.

    Args:
        path: ``.yaml``/``.yml``, ``.json``, or any other name: a text that holds one
            ``vllm serve`` command.

    Raises:
        ConfigError: the file cannot be read or is not what its name says.
    """
    path = Path(path)
    text = read_text(path)
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".json"):
        return parse_command(text, origin=path.name)
    document = _load_document(text, path, suffix)
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path} holds a {type(document).__name__} at its top; write one "
            "`flag: value` a line, as in `max-num-seqs: 256`"
        )
    raw = RawSettings()
    reader = _FlagReader(raw, path.name)
    for key, value in document.items():
        if not isinstance(key, str):
            raise ConfigError(f"{path}: key {short(key)} is not a flag name")
        reader.entry("--" + key.lstrip("-"), value)
    reader.finish()
    return raw


def _load_document(text: str, path: Path, suffix: str) -> Any:
    try:
        if suffix == ".json":
            return json.loads(text)
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            return yaml.load(text, Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f" at line {mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or "malformed"
            raise ConfigError(
                f"{path} is not valid YAML{line}: {problem}; write one "
                "`flag: value` a line"
            ) from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply for settings") from None
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"{path} is not valid {suffix[1:].upper()}: {_one_line(error)}"
        ) from None


def parse_command(command: str | Sequence[str], origin: str = "") -> RawSettings:
    """Reads a command line, as one text or as the words a shell made of it.

    Understood in front of ``vllm serve``: environment assignments, ``export``,
    wrappers such as ``nohup`` or ``docker run``; also the older
    ``python -m vllm.entrypoints.openai.api_server``. Without a command the words are
    taken as flags alone.

    Args:
        command: the text of a command or script, or a list of words.
        origin: file name to name in messages; empty for a command line.

    Raises:
        ConfigError: the text cannot be read, with what to write instead.
    """
    words = _split(command) if isinstance(command, str) else _rejoin(command)
    raw = RawSettings()
    command_words = _find_command(words, raw)
    reader = _FlagReader(raw, origin)
    reader.words(command_words)
    reader.finish()
    return raw


def _rejoin(words: Sequence[str]) -> list[str]:
    """A command that was quoted whole arrives as one word with blanks in it."""
    if len(words) == 1 and re.search(r"\s", words[0].strip()):
        return _split(words[0])
    return [word for word in words if word.strip() not in ("", "\\")]


def _split(text: str) -> list[str]:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise ConfigError(
            f"the command has more than {MAX_TEXT_BYTES} bytes; paste the one "
            "`vllm serve` command"
        )
    text = re.sub(r"(?m)^[ \t]*#.*$", "", text)
    text = re.sub(r"\\[ \t]*\r?\n", " ", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        raise ConfigError(
            "a quotation mark in the command is never closed; put each JSON value "
            "in one pair of single quotes"
        ) from None


def _find_command(words: Sequence[str], raw: RawSettings) -> list[str]:
    """The flags of the vLLM command among the words; all words when there is none."""
    segment: list[str] = []
    segments = [segment]
    comment = False
    for word in words:
        if word and _SEPARATORS.issuperset(word):
            comment = comment and "\n" not in word
            segment = []
            segments.append(segment)
        elif comment or word.startswith("#"):
            comment = True
        else:
            segment.append(word)
    segments = [part for part in segments if part]
    for part in segments:
        start = _command_start(part, raw)
        for word in part[: start if start is not None else None]:
            if _ASSIGNMENT.match(word):
                name, _, value = word.partition("=")
                raw.environment[name] = value
            elif word.startswith("--env="):
                name, _, value = word[6:].partition("=")
                raw.environment[name] = value
        if start is not None:
            return _expand(_before_redirection(part[start:]), raw.environment)
    plain = [w for part in segments for w in part if not _ASSIGNMENT.match(w)]
    return [word for word in plain if word != "export"]


def _command_start(words: Sequence[str], raw: RawSettings) -> int | None:
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if PurePosixPath(word).name == "vllm":
            if following in ("serve", "launch"):
                return i + 2
            if following == "bench" and i + 2 < len(words):
                if words[i + 2] in ("serve", "sweep"):
                    raise ConfigError(
                        f"`vllm bench {words[i + 2]}` is a client; paste the "
                        "command the server is started with (`vllm serve ...`)"
                    )
                raw.entry_point = "offline"
                return i + 3
            if following == "run-batch":
                raw.entry_point = "batch"
                return i + 2
        if word == "-m" and following.startswith("vllm.entrypoints"):
            return i + 2
        if "vllm-openai" in word or word.endswith("entrypoints/openai/api_server.py"):
            rest = _command_start(words[i + 1 :], raw)
            return i + 1 if rest is None else i + 1 + rest
    return None


def _before_redirection(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for word in words:
        if re.match(r"\d?>", word):
            break
        kept.append(word)
    return kept


def _expand(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Puts in the variables the same text assigned; others stay as written."""

    def value(match: re.Match[str]) -> str:
        return environment.get(match[1] or match[2], match[0])

    pattern = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
    return [pattern.sub(value, word) for word in words]


class _FlagReader:
    """Reads flags one by one into a RawSettings, by vLLM's own rules."""

    def __init__(self, raw: RawSettings, origin: str) -> None:
        self._raw = raw
        self._file = origin
        # vLLM gathers dotted flags under the name as typed and appends them last.
        self._dotted: dict[str, dict[str, Any]] = {}

    def words(self, words: Sequence[str]) -> None:
        i = 0
        while i < len(words):
            word = words[i]
            i += 1
            if word[0] in _DASHES:
                raise ConfigError(
                    f"{short(word)} starts with a typographic dash; type it "
                    "again with plain `-` characters"
                )
            if word == "--":
                continue
            if not _is_flag(word):
                self._positional(word)
                continue
            i = self._flag(words, i)

    def entry(self, flag: str, value: Any) -> None:
        """One line of a settings file, where the value is not text already."""
        if value is None:
            return
        flag = _dashes(flag)
        if "." in flag:
            self._add_dotted(flag, value)
            return
        name = self._resolve(flag)
        if name is None:
            return
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
        self._raw.values[setting] = Given(value, self._where(flag))

    def _positional(self, word: str) -> None:
        if "model" in self._raw.values:
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
        name = _SHORT.get(flag, flag)
        if name not in VLLM_FLAGS:
            # Like vLLM's parser, an unmistakable beginning is enough.
            full = [f for f in VLLM_FLAGS if f.startswith(name)]
            if name.startswith("--") and len(full) == 1:
                name = full[0]
            else:
                self._raw.unknown.append(_with_hint(name, full))
                return None
        if name in _SETTINGS:
            return name
        self._raw.unused.append(name)
        return None


def _with_hint(name: str, full: Sequence[str]) -> str:
    close = list(full) or difflib.get_close_matches(name, VLLM_FLAGS, 1, 0.8)
    short = name if len(name) <= 60 else name[:57] + "..."
    return f"{short} (did you mean {close[0]}?)" if close else short


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
        return json.loads(text)
    except (ValueError, RecursionError):
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
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = limit
    shortener.maxlevel = 3
    return shortener.repr(value)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


__all__ = [
    "MAX_TEXT_BYTES",
    "VLLM_VERSION",
    "Given",
    "RawSettings",
    "human_int",
    "parse_command",
    "read_config_file",
    "read_text",
    "short",
]
