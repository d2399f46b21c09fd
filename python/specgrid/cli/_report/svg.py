# SPDX-License-Identifier: Apache-2.0
"""A matplotlib figure as an SVG element that belongs to the page.

Colours become the page's variables, so that light and dark need one drawing; text takes
the page's typeface; ids are dropped or made unique; nothing refers outside the file.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from specgrid.cli._charts import style
from specgrid.cli._report.html import Element

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = {value: f"var(--{name})" for name, value in style.LIGHT.items()}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_FONT = re.compile(r"font: (?:(\d+) )?([\d.]+)px [^;]+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
_KEPT_IDS = ("clipPath", "path", "pattern", "g")


def inline(figure: Figure, prefix: str) -> Element:
    """The figure as an ``svg`` element without size, to be sized by the style sheet.

    Args:
        figure: what to draw.
        prefix: makes the ids unique in the page.
    """
    buffer = io.BytesIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=metadata)
    root = ElementTree.fromstring(buffer.getvalue())
    for node in list(root):
        if _local(node.tag) == "metadata":
            root.remove(node)
    used = _references(root)
    for node in root.iter():
        _adopt(node, prefix, used)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # The first patch is the figure's own background; the page has one.
    for group in root.iter("g"):
        if group.get("class") == "patch_1":
            for child in list(group):
                group.remove(child)
            break
    return root


def _references(root: Element) -> set[str]:
    found = set()
    for node in root.iter():
        for value in node.attrib.values():
            for match in _REFERENCE.finditer(value):
                found.add(match[1] or match[2])
    return found


def _adopt(node: Element, prefix: str, used: set[str]) -> None:
    node.tag = _local(node.tag)
    for name in list(node.attrib):
        value = node.attrib.pop(name)
        name = _local(name)
        if name == "id":
            if value in used:
                node.set("id", prefix + value)
            elif value in ("crisp", "patch_1"):
                node.set("class", value)
            continue
        value = _REFERENCE.sub(
            lambda m: f"url(#{prefix}{m[1]})" if m[1] else f"#{prefix}{m[2]}", value
        )
        if name == "style":
            value = _COLOR.sub(lambda m: _NAMES.get(m[0], m[0]), value)
            value = _FONT.sub(_font, value)
        node.set(name, value)
    node.text = node.text if node.tag in ("text", "tspan") else None
    node.tail = None


def _font(match: re.Match[str]) -> str:
    weight = f"font-weight: {match[1]}; " if match[1] else ""
    return f"{weight}font-size: {match[2]}px"


def _local(name: str) -> str:
    return name.rpartition("}")[2]
