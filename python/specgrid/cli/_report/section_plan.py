# SPDX-License-Identifier: Apache-2.0
"""A given plan: before and after, frontier, what each size is worth."""

from __future__ import annotations

from specgrid.cli._charts import frontier as chart
from specgrid.cli._report.assumed import is_assumed, mark
from specgrid.cli._report.bound import Bound, table
from specgrid.cli._report.html import Child, Element, el
from specgrid.cli._report.pictures import picture
from specgrid.cli._report.section_compare import changed_batches

_ROWS = (
    ("mean_step_us", "millis", "mean step"),
    ("full_share", "percent", "steps on a FULL graph"),
    ("piecewise_share", "percent", "steps on a PIECEWISE graph"),
    ("eager_share", "percent", "eager steps"),
    ("padding", "percent", "padding"),
    ("num_graphs", "integer", "graphs captured, PIECEWISE and drafter included"),
    ("graph_bytes", "gib", "graph memory"),
    ("graph_seconds", "seconds", "time to capture"),
    ("kv_tokens", "integer", "KV cache tokens the graphs cost"),
)
MAX_WORTH = 200


def build(page: Bound) -> list[Element]:
    """The sections; none without a plan."""
    plan = page.at("plan")
    if plan is None:
        return []
    if plan["problems"]:
        return [
            el(
                "section",
                el("h2", "The plan is of another server"),
                el("p", f"{plan['file']} is not shown: "),
                el("ul", [el("li", p) for p in plan["problems"]], class_="plain"),
            )
        ]
    return [
        el(
            "section",
            el("h2", "What the plan does for the load"),
            _sources(page),
            _before_after(page),
            *changed_batches(page, "plan.diff", "plan-diff"),
            el("ul", [el("li", n) for n in plan["notes"]], class_="plain")
            if plan["notes"]
            else None,
        ),
        *([_frontier(page)] if plan["frontier"] else []),
        *([_worth(page)] if plan["worth"] else []),
    ]


def _sources(page: Bound) -> Element | None:
    assumed = [s["name"] for s in page.at("plan.data.sources") if s["assumed"]]
    if not page.at("plan.data.sources"):
        return None
    steps: Child = None
    if page.at("plan.data.num_steps"):
        steps = [page.number("plan.data.num_steps"), " recorded steps. "]
    return el(
        "p",
        steps,
        f"Assumed, not measured: {', '.join(assumed)}." if assumed else None,
    )


def _before_after(page: Bound) -> Element:
    names = [
        (key, words)
        for key, words in (("default", "vLLM default"), ("before", "today"))
        if page.at(f"plan.{key}") is not None
    ]
    columns = [("", ""), *((words, "n") for _, words in names), ("plan", "n")]
    rows: list[list[Child]] = []
    for key, as_, words in _ROWS:
        if page.at(f"plan.after.{key}") is None:
            continue
        rows.append(
            [
                el("th", words + mark(page, key), scope="row"),
                *(page.cell(f"plan.{name}.{key}", as_) for name, _ in names),
                page.cell(f"plan.after.{key}", as_, "n now"),
            ]
        )
    return table(columns, rows, "Before and after, weighted by the load")


def _frontier(page: Bound) -> Element:
    plan = page.at("plan")
    points = plan["frontier"]
    label = (
        f"The best mean step for every number of graphs: {points[0]['num_graphs']} "
        f"graphs give {points[0]['mean_step_us'] / 1000:.2f} milliseconds, "
        f"{points[-1]['num_graphs']} give {points[-1]['mean_step_us'] / 1000:.2f}."
    )
    proof: Child = "Each point is proven best within its budget."
    if not plan["plan"]["optimal"]:
        proof = [
            "The plan is not proven best; one could be better by at most ",
            page.number("plan.plan.gap", "percent"),
            ".",
        ]
    return el(
        "section",
        el("h2", "How many graphs are enough"),
        el(
            "p",
            "The line is the best plan of every budget. ",
            proof,
            " All steps eager would take ",
            page.number("plan.plan.eager_us", "millis"),
            "; no plan can be below ",
            page.number("plan.plan.lower_bound_us", "millis")
            if plan["plan"]["lower_bound_us"] is not None
            else "an unknown bound",
            ".",
            _times_assumed(page),
        ),
        picture("frontier", label, lambda width: chart.draw(plan, width)),
        _stability(page),
    )


def _times_assumed(page: Bound) -> str | None:
    if not is_assumed(page, "mean_step_us"):
        return None
    return " The times are assumed in part, not measured."


def _stability(page: Bound) -> Element | None:
    found = page.at("plan.stability")
    if found is None:
        return None
    down, up = found["shift_down_us"], found["shift_up_us"]
    parts: list[Child] = ["The plan stays the best while an eager step "]
    if down is None and up is None:
        parts.append("takes any time it may.")
    else:
        if down is not None:
            parts += [
                "gets faster by no more than ",
                page.number("plan.stability.shift_down_us", "millis_less"),
            ]
        if up is not None:
            parts += [
                " and " if down is not None else "",
                "slower by no more than ",
                page.number("plan.stability.shift_up_us", "millis"),
            ]
        parts.append(" than assumed." if found["assumed"] else " than measured.")
    return el("p", parts, class_="note")


def _worth(page: Bound) -> Element:
    worth = page.at("plan.worth")
    order = sorted(range(len(worth)), key=lambda i: -worth[i]["us"])[:MAX_WORTH]
    rows: list[list[Child]] = []
    for i in order:
        path = f"plan.worth.{i}"
        name: Child
        if worth[i]["size"] is not None:
            name = page.number(f"{path}.size")
        else:
            name = [
                page.number(f"{path}.graph.0"),
                " × ",
                page.number(f"{path}.graph.1"),
            ]
        rows.append([el("td", name, class_="n"), page.cell(f"{path}.us", "millis")])
    keyed = worth[order[0]]["size"] is None
    columns = [
        ("query length × requests" if keyed else "size, tokens", "n"),
        ("mean step longer without it", "n"),
    ]
    return el(
        "section",
        el("h2", "What each size is worth"),
        el(
            "p",
            "How much longer the mean step is when one size is left out and its "
            "neighbours take over.",
            _times_assumed(page),
        ),
        el(
            "details",
            el("summary", "Every size of the plan, most valuable first"),
            table(columns, rows, "Worth of each capture"),
        ),
    )
