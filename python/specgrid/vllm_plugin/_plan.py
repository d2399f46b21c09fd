# SPDX-License-Identifier: Apache-2.0
"""Saved plans: read once in the front end, checked, and sent along (placeholder)."""

from __future__ import annotations

from typing import Any

from . import _settings


def load(vllm_config: Any) -> None:
    return


def of(vllm_config: Any, settings: _settings.Settings) -> Any:
    return None
