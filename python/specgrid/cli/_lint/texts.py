# SPDX-License-Identifier: Apache-2.0
"""What each finding means, for people without the docs folder: ``lint --explain``.

The text is ``findings.md`` beside this file; docs/lint.md ends with the same words.
"""

from __future__ import annotations

import re
from importlib import resources


def explanation(name: str) -> str:
    """What a finding means, why it matters and what to do, as plain paragraphs."""
    text = resources.files(__package__).joinpath("findings.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\S+)\n\n(.*?)(?=^## |\Z)", text, re.S | re.M))
    plain = re.sub(r"\*\*(.+?)\*\*", r"\1", sections[name].strip())
    return re.sub(r"(?<!\n)\n(?![\n|]|\w+\. )", " ", plain)


__all__ = ["explanation"]
