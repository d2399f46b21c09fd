# SPDX-License-Identifier: Apache-2.0
"""A text of unknown kind: is it YAML, JSON or shell, and what does it hold?

Telling apart only: how files are read and parsed is in ``specgrid._read``, flags are
read in ``vllm_command.py``, container manifests in ``_manifest.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from specgrid import _read
from specgrid._errors import ConfigError
from specgrid._read import File, ReadError, parse_json, parse_yaml

#: Longer inputs are refused: no real command line or settings file comes near.
MAX_TEXT_BYTES = 1 << 20
_GIVE = "give the YAML, JSON or shell file vLLM is started with"

# `key: value`, `- item` and `---` are no shell command anybody starts a server with.
_YAML_LINE = re.compile(r"---|%YAML|- |-\r?$|[\w.'\"/-]+[ \t]*:(?:[ \t\r]|$)")


def read_text(path: str | Path | File) -> str:
    """Reads a text file, refusing in one line what cannot be a settings file."""
    try:
        return _read.read_text(path, MAX_TEXT_BYTES)
    except ReadError as error:
        raise ConfigError(f"{path} {error}; {_GIVE}") from None


def read_stream(stream: IO[bytes], name: str) -> str:
    """The text of an open file, which may be endless."""
    try:
        return _read.read_stream(stream, MAX_TEXT_BYTES)
    except ReadError as error:
        raise ConfigError(f"{name} {error}; {_GIVE}") from None


def kind_of(text: str, suffix: str = "") -> str:
    """One of "yaml", "json", "shell": by the file's name, else by the content."""
    by_name = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}.get(suffix.lower())
    if by_name is not None:
        return by_name
    if text.lstrip()[:1] in ("{", "["):
        try:
            parse_json(text)
        except ReadError as error:
            if error.rule != "not_json":
                return "json"
            # systemd units begin with a bracket too, as does YAML's flow style.
            return "shell" if re.search(r"(?m)^\[\w+\]\s*$", text) else "json"
        return "json"
    return "yaml" if _YAML_LINE.match(_first_line(text)) else "shell"


def _first_line(text: str) -> str:
    """The first line that is not empty and no comment: it decides."""
    for line in text.split("\n"):
        if line.strip() and not line.lstrip(" \t").startswith("#"):
            return line
    return ""


def load(text: str, kind: str, name: str) -> Any:
    """The value a YAML or JSON text stands for; several YAML documents as a tuple.

    Raises:
        ConfigError: it is malformed, or expands beyond any settings file.
    """
    try:
        if kind == "json":
            return parse_json(text)
        documents = parse_yaml(text)
    except ReadError as error:
        if error.rule == "too_deep":
            raise ConfigError(f"{name} is nested too deeply for settings") from None
        line = "" if error.line is None else f" at line {error.line}"
        if error.rule == "too_large":
            advice = "write the settings out without YAML aliases"
        elif error.rule == "conflict":
            advice = "vLLM would take the last one"
        else:
            advice = "write one `flag: value` a line"
        raise ConfigError(
            f"{name} is not valid {kind.upper()}{line}: {error}; {advice}"
        ) from None
    return documents[0] if len(documents) == 1 else documents


def every_value(value: Any) -> Iterator[Any]:
    """A value and all it holds, outermost first, without recursion."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, dict):
            waiting += reversed(list(current.values()))
        elif isinstance(current, (list, tuple)):
            waiting += reversed(current)


__all__ = [
    "MAX_TEXT_BYTES",
    "every_value",
    "kind_of",
    "load",
    "read_stream",
    "read_text",
]
