# SPDX-License-Identifier: Apache-2.0
"""Shell text to words, and the one ``vllm serve`` command among them.

A command is read as text and nothing is executed: quotes, comments, continuations,
separators, variables and arrays that the same text assigns. What the words after
``vllm serve`` mean is in ``vllm_command.py``. Everything takes time linear in the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from specgrid._errors import ConfigError

# A dollar sign the shell leaves alone (single quotes, backslash) while others expand.
_LITERAL_DOLLAR = "\ue000"
_CURLY_QUOTES = "“”„‟‘’‚‛«»"

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+)
      | (?P<separator>[\n;|&]+)
      | (?P<single>'[^']*')
      | (?P<double>"(?:[^"\\]|\\.)*+")
      | (?P<escape>\\.)
      | (?P<substitution>\$\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\))
      | (?P<plain>[^ \t\r\n;|&'"\\$]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=\(")
_WHOLE_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?[-=]([^${}]*))?\}|\((\w+)\)|(\w+))")
#: What is left of a variable, an arithmetic or a command after expansion.
UNSET = re.compile(r"\$(?:\{[^}]*\}?|\(\(?[^)]*\)*|\w+|[@*])")


@dataclass
class FoundCommand:
    """The words of one vLLM command.

    Attributes:
        words: what follows ``vllm serve``; all words where there is no command.
        environment: variables assigned in front of it.
        entry_point: "server", "offline" (the ``LLM`` class) or "batch".
        found: whether a vLLM command was seen at all.
    """

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    entry_point: str = "server"
    found: bool = False


def split_text(text: str) -> list[list[str]]:
    """The commands of a shell text, each a list of words.

    Raises:
        ConfigError: a quotation mark is never closed.
    """
    text = re.sub(r"\\[ \t]*\r?\n", " ", text)
    commands: list[list[str]] = [[]]
    parts: list[str] = []
    in_word = in_array = False
    position = 0

    def end_word() -> None:
        nonlocal in_word, in_array
        if in_word:
            word = "".join(parts)
            commands[-1].append(word)
            in_array = (in_array or _ARRAY.match(word) is not None) and not (
                parts[-1].endswith(")")
            )
            parts.clear()
            in_word = False

    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        kind, token = match.lastgroup, match[0]
        position = match.end()
        if kind == "blank":
            end_word()
        elif kind == "separator":
            end_word()
            if not in_array:
                commands.append([])
        elif kind == "plain" and token[0] == "#" and not in_word:
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        else:
            in_word = True
            parts.append(_unquoted(kind, token, text))
    end_word()
    return [command for command in commands if command]


def _unquoted(kind: str | None, token: str, text: str) -> str:
    if kind == "single":
        return token[1:-1].replace("$", _LITERAL_DOLLAR)
    if kind == "double":
        return re.sub(r'\\(["\\$`])', _escaped, token[1:-1])
    if kind == "escape":
        return _escaped(token[1])
    if token in ("'", '"'):
        raise ConfigError(
            "typographic quotation marks (“ ” ‘ ’) stand in the command; replace "
            "them by plain ones"
            if any(c in text for c in _CURLY_QUOTES)
            else "a quotation mark in the command is never closed; put each JSON "
            "value in one pair of single quotes"
        )
    return token


def _escaped(found: re.Match[str] | str) -> str:
    character = found if isinstance(found, str) else found[1]
    return _LITERAL_DOLLAR if character == "$" else character


def find_command(commands: Sequence[Sequence[str]]) -> FoundCommand:
    """The vLLM command among the commands of a text.

    Raises:
        ConfigError: two different servers are started, or a client is.
    """
    environment: dict[str, str] = {}
    arrays: dict[str, list[str]] = {}
    servers: list[FoundCommand] = []
    for command in commands:
        found = FoundCommand([], environment)
        start = _command_start(command, found)
        words = command if start is None else command[:start]
        _assign(words, environment, arrays)
        if start is not None:
            rest = _before_redirection(command[start:])
            found.words = _expand(rest, environment, arrays)
            found.environment = dict(environment)
            found.found = True
            servers.append(found)
    if not servers:
        plain = [
            word
            for command in commands
            for word in command
            if not _ASSIGNMENT.match(word) and word != "export"
        ]
        return FoundCommand(_expand(plain, environment, arrays), environment)
    if any(server.words != servers[0].words for server in servers):
        raise ConfigError(
            f"{len(servers)} different vLLM commands are given, and one server is "
            "explained at a time; keep one of them"
        )
    return servers[-1]


def _assign(
    words: Sequence[str], environment: dict[str, str], arrays: dict[str, list[str]]
) -> None:
    i = 0
    while i < len(words):
        word = words[i].removeprefix("--env=")
        i += 1
        array = _ARRAY.match(word)
        if array is not None:
            items = [word[array.end() :]]
            while not items[-1].endswith(")") and i < len(words):
                items.append(words[i])
                i += 1
            items[-1] = items[-1].removesuffix(")")
            kept = [item for item in items if item]
            before = arrays.get(array[1], []) if "+=" in array[0] else []
            arrays[array[1]] = before + _expand(kept, environment, arrays)
        elif _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            environment[name] = _expand([value], environment, arrays)[0]


def _expand(
    words: Iterable[str], environment: dict[str, str], arrays: dict[str, list[str]]
) -> list[str]:
    """Puts in what the same text assigned; anything else stays as written."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3] or match[4]
        default = match[0] if match[2] is None else match[2]
        return environment.get(name, default)

    expanded: list[str] = []
    for word in words:
        whole = _WHOLE_ARRAY.fullmatch(word)
        if whole is not None and whole[1] in arrays:
            expanded += arrays[whole[1]]
        elif "$" in word or _LITERAL_DOLLAR in word:
            text = _VARIABLE.sub(value, word)
            # An unquoted variable may hold several flags.
            several = word.startswith("$") and re.search(r"\s--?\w", " " + text)
            expanded += text.split() if several else [text]
        else:
            expanded.append(word)
    return [word.replace(_LITERAL_DOLLAR, "$") for word in expanded]


def _command_start(words: Sequence[str], found: FoundCommand) -> int | None:
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        if word == "-m" and following.startswith("vllm"):
            if following.startswith("vllm.entrypoints") and ".cli" not in following:
                return i + 2
        elif "vllm-openai" in word or word.endswith("openai/api_server.py"):
            rest = _command_start(words[i + 1 :], found)
            return i + 1 if rest is None else i + 1 + rest
        elif PurePosixPath(word).name not in ("vllm", "vllm.entrypoints.cli.main"):
            continue
        elif following in ("serve", "launch"):
            return i + 2
        elif following == "bench" and i + 2 < len(words):
            if words[i + 2] in ("serve", "sweep"):
                raise ConfigError(
                    f"`vllm bench {words[i + 2]}` is a client; paste the "
                    "command the server is started with (`vllm serve ...`)"
                )
            found.entry_point = "offline"
            return i + 3
        elif following == "run-batch":
            found.entry_point = "batch"
            return i + 2
    return None


def _before_redirection(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for word in words:
        if re.match(r"\d?>", word):
            break
        kept.append(word)
    return kept


def check_typography(word: str) -> None:
    """Refuses the dashes and quotation marks word processors put in."""
    if word[:1] and word[0] in "–—−‐‑":
        raise ConfigError(
            f"{word[:60]} starts with a typographic dash; type it again with plain "
            "`-` characters"
        )
    if re.search(rf"(?:^|[=\[{{,:]\s*)[{_CURLY_QUOTES}]", word[:1000]):
        raise ConfigError(
            f"{word[:60]} has typographic quotation marks (“ ” ‘ ’); replace them by "
            "plain ones"
        )


__all__ = ["UNSET", "FoundCommand", "check_typography", "find_command", "split_text"]
