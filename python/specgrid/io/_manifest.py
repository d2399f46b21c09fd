# SPDX-License-Identifier: Apache-2.0
"""The vLLM command inside a container manifest: Kubernetes, compose, a bare list.

Any mapping with ``command``, ``args`` or ``entrypoint`` may start a server; which
orchestrator wrote it does not matter. Other keys of a manifest are not read.
"""

from __future__ import annotations

import re
from typing import Any

from specgrid._errors import ConfigError
from specgrid.io._document import every_value
from specgrid.io._shell import FoundCommand, find_command, split_text

_COMMAND_KEYS = ("entrypoint", "command", "args")
_MANIFEST_KEYS = frozenset(
    {*_COMMAND_KEYS, "apiVersion", "kind", "spec", "services", "containers", "image",
     "template"}
)  # fmt: skip
_IN_A_TEXT = re.compile(r"\bvllm\s+(?:serve|bench|run-batch)\b|-m\s+vllm\b")


def is_manifest(value: Any) -> bool:
    """Whether a document starts containers rather than naming vLLM's settings."""
    if isinstance(value, (list, tuple)):
        return True
    return isinstance(value, dict) and not _MANIFEST_KEYS.isdisjoint(value)


def command_in(value: Any, name: str) -> FoundCommand:
    """The one vLLM command a manifest starts.

    Args:
        value: the parsed document, or several.
        name: what to call it in messages.

    Raises:
        ConfigError: there is none, or there are different ones.
    """
    found: list[FoundCommand] = []
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        found += _server(value, value)
    for part in every_value(value):
        if isinstance(part, dict):
            words = [w for key in _COMMAND_KEYS for w in _words(part.get(key))]
            found += _server(words, part)
    if not found:
        raise ConfigError(
            f"no `vllm serve` in {name}; give the command the server is started "
            "with, or vLLM's own settings, one `flag: value` a line"
        )
    if any(server.words != found[0].words for server in found):
        raise ConfigError(
            f"{name} starts {len(found)} different vLLM servers, and one is explained "
            "at a time; paste the command of one after `--`"
        )
    return found[0]


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [word for command in split_text(value) for word in command]
    if isinstance(value, list):
        return [str(word) for word in value if isinstance(word, (str, int, float))]
    return []


def _server(words: list[str], container: Any) -> list[FoundCommand]:
    if not words:
        return []
    texts = [word for word in words if _IN_A_TEXT.search(word)]
    found = find_command(split_text(texts[0]) if texts else [words])
    image = container.get("image") if isinstance(container, dict) else None
    if not found.found:
        # The image's own entry point is `vllm serve`.
        if "vllm" not in str(image) or not _could_be_arguments(words):
            return []
        found = FoundCommand(words, {}, found=True)
    if isinstance(container, dict):
        found.environment = _environment(container) | found.environment
        found.words = [_expanded(word, found.environment) for word in found.words]
    return [found]


def _could_be_arguments(words: list[str]) -> bool:
    """Whether words continue ``vllm serve``: flags, or a model and flags."""
    return any(word.startswith("--") for word in words) and (
        words[0].startswith("-") or not words[0].startswith(("/", "python", "bash"))
    )


def _environment(container: dict[str, Any]) -> dict[str, str]:
    """Kubernetes' ``env: [{name, value}]`` and compose's ``environment``."""
    found: dict[str, str] = {}
    given = container.get("environment", container.get("env"))
    if isinstance(given, dict):
        found |= {str(k): str(v) for k, v in given.items()}
    for item in given if isinstance(given, list) else []:
        if isinstance(item, dict) and isinstance(item.get("value"), (str, int)):
            found[str(item.get("name"))] = str(item["value"])
        elif isinstance(item, str) and "=" in item:
            key, _, value = item.partition("=")
            found[key] = value
    return found


def _expanded(word: str, environment: dict[str, str]) -> str:
    """Kubernetes writes variables as ``$(NAME)``."""
    return re.sub(
        r"\$\((\w+)\)|\$\{(\w+)\}",
        lambda m: environment.get(m[1] or m[2], m[0]),
        word,
    )


__all__ = ["command_in", "is_manifest"]
