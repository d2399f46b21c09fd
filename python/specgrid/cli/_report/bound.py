# SPDX-License-Identifier: Apache-2.0
"""Numbers bound to their place in the document, so that a test can check each one.

``<span data-from="headline.before.missed" data-as="integer">86</span>`` is how every
number in a table or a headline looks; the page's numbers are the JSON's.
"""

from __future__ import annotations

from typing import Any

from specgrid.cli._report.html import Child, Element, el


def integer(value: float) -> str:
    """
    >>> integer(65536)
    '65,536'
    """
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """
    >>> percent(0.0163)
    '1.6 %'
    """
    return f"{100 * value:,.1f} %"


def percent2(value: float) -> str:
    """
    >>> percent2(0.00163)
    '0.16 %'
    """
    return f"{100 * value:,.2f} %"


def millis(value: float) -> str:
    """Microseconds as milliseconds.

    >>> millis(10362.4)
    '10.362 ms'
    """
    return f"{value / 1000:,.3f} ms"


def millis_short(value: float) -> str:
    """
    >>> millis_short(10362.4)
    '10.36 ms'
    """
    return f"{value / 1000:,.2f} ms"


def millis_less(value: float) -> str:
    """A negative shift as the amount it takes away.

    >>> millis_less(-5211.1)
    '5.211 ms'
    """
    return millis(-value)


def gib(value: float) -> str:
    """
    >>> gib(3 * 2**29)
    '1.50 GiB'
    """
    return f"{value / 2**30:,.2f} GiB"


def seconds(value: float) -> str:
    """
    >>> seconds(12.34)
    '12.3 s'
    """
    return f"{value:,.1f} s"


def times(value: float) -> str:
    """
    >>> times(1.2345)
    '1.23'
    """
    return f"{value:,.2f}"


FORMATS = {
    f.__name__: f
    for f in (
        integer,
        percent,
        percent2,
        millis,
        millis_short,
        millis_less,
        gib,
        seconds,
        times,
    )
}


class Bound:
    """A document whose numbers are taken by path.

    >>> from xml.etree.ElementTree import tostring
    >>> page = Bound({"a": [{"b": 2000}]})
    >>> tostring(page.number("a.0.b"), "unicode", method="html")
    '<span data-from="a.0.b" data-as="integer">2,000</span>'
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def at(self, path: str) -> Any:
        """The value at a path of keys and indices joined by dots."""
        value: Any = self.document
        for step in path.split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
        return value

    def number(self, path: str, as_: str = "integer") -> Element:
        """A number in its place; a dash where there is none."""
        value = self.at(path)
        text = "–" if value is None else FORMATS[as_](value)
        return el("span", text, data_from=path, data_as=as_)

    def cell(self, path: str, as_: str = "integer", class_: str = "n") -> Element:
        """A table cell with a number."""
        return el("td", self.number(path, as_), class_=class_)


def table(
    columns: list[tuple[str, str]], rows: list[list[Child]], caption: str
) -> Element:
    """A table that scrolls inside itself where it is too wide.

    Args:
        columns: (heading, class) of each; class ``n`` for numbers.
        rows: cells, each a ``td`` or ``th`` element.
        caption: what it shows; read aloud and printed.
    """
    head = el(
        "tr", [el("th", name, scope="col", class_=c or None) for name, c in columns]
    )
    return el(
        "div",
        el(
            "table",
            el("caption", caption),
            el("thead", head),
            el("tbody", [el("tr", row) for row in rows]),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def ranges(spans: list[Any], limit: int = 6) -> str:
    """Inclusive ranges in words.

    >>> ranges([[1, 3], [7, 7]])
    '1–3, 7'
    """
    shown = [integer(a) if a == b else f"{a:,}–{b:,}" for a, b in spans[:limit]]
    if len(spans) > limit:
        shown.append(f"… ({len(spans)} ranges)")
    return ", ".join(shown)
