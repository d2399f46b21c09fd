# SPDX-License-Identifier: Apache-2.0
"""HTML as a tree: text stays text because the serialiser escapes it, not the author.

Pages are built from ``el`` and written once by the standard library; there is no
template and no string with tags in it anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias
from xml.etree import ElementTree

Element: TypeAlias = ElementTree.Element
Child: TypeAlias = "Element | str | Iterable[Child] | None"

# What neither HTML nor a terminal may be given; lone surrogates cannot be encoded.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)


def el(tag: str, *children: Child, **attributes: str | int | float | None) -> Element:
    """An element.

    Args:
        tag: its name.
        children: elements, texts, or lists of them; None is left out.
        attributes: a trailing underscore is dropped and others become dashes
            (``class_``, ``data_from``); None leaves the attribute out.

    >>> ElementTree.tostring(el("b", "1 < 2", class_="x"), "unicode", method="html")
    '<b class="x">1 &lt; 2</b>'
    """
    made = ElementTree.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name.rstrip("_").replace("_", "-"), clean(str(value)))
    _append(made, children)
    return made


def _append(parent: Element, children: Iterable[Child]) -> None:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            text = clean(child)
            if len(parent):
                parent[-1].tail = (parent[-1].tail or "") + text
            else:
                parent.text = (parent.text or "") + text
        elif isinstance(child, ElementTree.Element):
            parent.append(child)
        else:
            _append(parent, child)


def clean(text: str) -> str:
    """Text without control characters.

    >>> clean("a" + chr(0) + "b")
    'a�b'
    """
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def data(document: Any, id_: str) -> Element:
    """JSON for the page's script; nothing in it can end the element."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    made = el("script", type="application/json", id=id_)
    made.text = text
    return made


def write(root: Element) -> str:
    """The document as text."""
    body = ElementTree.tostring(root, encoding="unicode", method="html")
    return "<!doctype html>\n" + body + "\n"
