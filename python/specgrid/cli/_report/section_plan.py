# SPDX-License-Identifier: Apache-2.0
"""plan."""

from __future__ import annotations

from specgrid.cli._report.bound import Bound
from specgrid.cli._report.html import Element


def build(page: Bound) -> list[Element]:
    """The sections."""
    return []
