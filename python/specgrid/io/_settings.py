# SPDX-License-Identifier: Apache-2.0
"""Settings with their sources, and the reading of raw ones. No rule of vLLM is here."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from specgrid._errors import ConfigError
from specgrid.io._device import Device
from specgrid.io._values import integer, load_json
from specgrid.io.vllm_command import Given, RawSettings, short

Source = Literal["given", "vLLM default", "assumed"]

_EXAMPLES = {
    "speculative_config": '{"method": "ngram", "num_speculative_tokens": 5}',
    "compilation_config": '{"cudagraph_mode": "FULL_DECODE_ONLY"}',
    "additional_config": '{"specgrid": {"policy": "reachable"}}',
}


class Setting(NamedTuple):
    """One resolved setting.

    Attributes:
        name: vLLM's name, with underscores.
        value: the value in force.
        source: "given", "vLLM default" or "assumed".
        detail: where it was given, or what the default or assumption rests on.
    """

    name: str
    value: Any
    source: Source
    detail: str


class SettingsReader:
    """Reads raw settings one by one and remembers each with its source."""

    def __init__(self, raw: RawSettings, device: Device) -> None:
        self._raw = raw
        self._device = device
        self._settings: list[Setting] = []
        self._notes = list(raw.replaced)
        if raw.abbreviated:
            read = ", ".join(f"{a} as {f}" for a, f in raw.abbreviated.items())
            self._notes.append(
                f"Abbreviations read as vLLM reads them: {read}. specgrid's own flags "
                "go before `--`."
            )
        self._shortcut: dict[str, str] = {}  # --spec-* flags by the key they set

    def _given(self, name: str) -> Given | None:
        given = self._raw.values.get(name)
        return None if given is None or given.value is None else given

    def _add(self, name: str, value: Any, source: Source, detail: str) -> Any:
        self._settings.append(Setting(name, value, source, detail))
        return value

    def _number(self, name: str, low: int, *, human: bool = False) -> int | None:
        """The given number, recorded; None when the user did not give one."""
        given = self._given(name)
        if given is None:
            return None
        value = integer(given.value, given.origin, low, human=human)
        return int(self._add(name, value, "given", given.origin))

    def _switch(self, name: str) -> bool:
        given = self._given(name)
        return given is not None and bool(given.value)

    def _text(self, name: str, default: str) -> str:
        given = self._given(name)
        return default if given is None else str(given.value)

    def _object(self, name: str) -> tuple[dict[str, Any], str]:
        """A JSON setting as a dict, and where it was given."""
        given = self._given(name)
        if given is None:
            return {}, ""
        value = given.value
        if isinstance(value, str):
            value = load_json(value, given.origin, human=name == "compilation_config")
        if value is None:
            return {}, ""
        if not isinstance(value, dict):
            raise ConfigError(
                f"{given.origin} is {short(value)}; it must be a JSON object, as in "
                f"'{_EXAMPLES[name]}'"
            )
        return {str(k).replace("-", "_"): v for k, v in value.items()}, given.origin
