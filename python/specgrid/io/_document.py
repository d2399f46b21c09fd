# SPDX-License-Identifier: Apache-2.0
"""A text of unknown kind: is it YAML, JSON or shell, and what does it hold?

Reading and telling apart only; flags are read in ``vllm_command.py``, container
manifests in ``_manifest.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from specgrid._errors import ConfigError, json_fault

#: Longer inputs are refused: no real command line or settings file comes near.
MAX_TEXT_BYTES = 1 << 20
#: YAML aliases can make a short text stand for billions of values.
MAX_VALUES = 200_000

# The first line that says something decides. `key: value`, `- item` and `---` are
# no shell command anybody starts a server with.
_YAML_START = re.compile(
    r"(?:[ \t]*(?:#.*)?\r?\n)*(?:---|%YAML|- |-\r?\n|[\w.'\"/-]+[ \t]*:(?:[ \t\r\n]|$))"
)


def read_text(path: Path) -> str:
    """Reads a text file, refusing in one line what cannot be a settings file."""
    try:
        with path.open("rb") as stream:
            return read_stream(stream, str(path))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read {path}: {reason}; check the path") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"cannot read {path}: {error}; check the path") from None


def read_stream(stream: IO[bytes], name: str) -> str:
    """The text of an open file, which may be endless."""
    data = stream.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise ConfigError(
            f"{name} has more than {MAX_TEXT_BYTES} bytes, which no settings file has; "
            "give the file vLLM is started with"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{name} is not UTF-8 text; give a YAML, JSON or shell file"
        ) from None


def kind_of(text: str, suffix: str = "") -> str:
    """One of "yaml", "json", "shell": by the file's name, else by the content."""
    by_name = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}.get(suffix.lower())
    if by_name is not None:
        return by_name
    if text.lstrip()[:1] in ("{", "["):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            # systemd units begin with a bracket too, as does YAML's flow style.
            return "shell" if re.search(r"(?m)^\[\w+\]\s*$", text) else "json"
        return "json"
    return "yaml" if _YAML_START.match(text) else "shell"


def load(text: str, kind: str, name: str) -> Any:
    """The value a YAML or JSON text stands for; several YAML documents as a tuple.

    Raises:
        ConfigError: it is malformed, or expands beyond any settings file.
    """
    try:
        value = json.loads(text) if kind == "json" else _load_yaml(text, name)
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply for settings") from None
    except ConfigError:
        raise
    except ValueError as error:
        problem = json_fault(error)
        raise ConfigError(f"{name} is not valid {kind.upper()}: {problem}") from None
    for count, _ in enumerate(every_value(value)):
        if count > MAX_VALUES:
            raise ConfigError(
                f"{name} expands to more than {MAX_VALUES} values; write the "
                "settings out without YAML aliases"
            )
    return value


def _load_yaml(text: str, name: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = tuple(yaml.load_all(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "malformed"
        raise ConfigError(
            f"{name} is not valid YAML{line}: {problem}; write one `flag: value` a line"
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
