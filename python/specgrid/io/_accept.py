# SPDX-License-Identifier: Apache-2.0
"""From totals and per-position counts to `AcceptanceCounts`, or a refusal.

Totals (bench serve, /metrics) say how many drafts accepted each position but not
how many proposed it. That is known only if every draft had the same length, so
these sources are used when K was constant and refused when it varied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from specgrid.io._source import refuse
from specgrid.io._types import AcceptanceCounts, ReadReport

#: Drafts cut short (end of a request, grammar) lower the mean K a little; up to
#: this share the window still counts as constant, and is marked approximate.
K_SLACK = 0.01


def from_totals(
    num_drafts: float,
    draft_tokens: float,
    accepted_tokens: float,
    accepted_per_pos: Sequence[float],
    source: str,
    report: ReadReport,
    drafts_by_k: Mapping[int, float] | None = None,
) -> AcceptanceCounts:
    """Counts per position from one window's totals.

    Args:
        num_drafts: Drafts in the window.
        draft_tokens: Tokens they proposed.
        accepted_tokens: Tokens accepted.
        accepted_per_pos: Drafts that accepted position 1, 2, ...
        source: The reader's name, for the result.
        report: For notes; its source names the file in refusals.
        drafts_by_k: How often each K was drafted, in any unit, where K varied
            and another source knows (`drafts_by_k` of a log's steps).

    Raises:
        DataError: ``zero_drafts``, ``acceptance_above_one``, ``inconsistent``,
            or ``k_varied``.
    """
    where = report.source
    if num_drafts <= 0 or draft_tokens <= 0:
        refuse(
            "no draft was made in this window, so nothing is known about acceptance; "
            "was speculation on, and was there load?",
            "zero_drafts",
            where,
        )
    top = max(accepted_per_pos, default=0.0)
    if accepted_tokens > draft_tokens or top > num_drafts * (1 + 1e-9):
        refuse(
            f"acceptance above 1: {accepted_tokens:,.0f} of {draft_tokens:,.0f} draft "
            f"tokens, {top:,.0f} of {num_drafts:,.0f} drafts at one position",
            "acceptance_above_one",
            where,
        )
    # Counters of one scrape are not read at the same instant.
    slack = max(64.0, 0.002 * accepted_tokens)
    if abs(sum(accepted_per_pos) - accepted_tokens) > slack:
        refuse(
            f"positions add up to {sum(accepted_per_pos):,.0f} accepted tokens, the "
            f"total says {accepted_tokens:,.0f}",
            "inconsistent",
            where,
        )
    for index, (shallow, deep) in enumerate(pairwise(accepted_per_pos), 1):
        if deep > shallow + slack:
            refuse(
                f"position {index + 1} was accepted more often ({deep:,.0f}) than "
                f"position {index} ({shallow:,.0f})",
                "inconsistent",
                where,
            )
    accepted = [round(x) for x in accepted_per_pos]
    if any(deep > shallow for shallow, deep in pairwise(accepted)):
        # Within the slack above; a draft passes a position only after the last.
        accepted = list(accumulate(accepted, min))
        report.add_note(
            "a few counts of deeper positions were read later than those before "
            "them and were lowered to match"
        )
    mean_k = draft_tokens / num_drafts
    k = round(mean_k)
    constant = (
        1 <= k <= len(accepted)
        and abs(mean_k - k) <= K_SLACK * k
        and (k == len(accepted) or (accepted[k - 1] > 0 and not any(accepted[k:])))
    )
    if constant:
        drafted = [round(num_drafts)] * k
        return AcceptanceCounts(
            drafted=tuple(drafted),
            accepted=tuple(accepted[:k]),
            at_risk=(drafted[0], *accepted[: k - 1]),
            num_drafts=round(num_drafts),
            constant_k=k,
            approximate=mean_k != k,
            source=source,
            report=report,
        )
    if drafts_by_k is None:
        refuse(
            f"K varied in this window (on average {mean_k:.3g} of up to "
            f"{len(accepted)} positions), so accepted / drafts is biased low at deep "
            "positions. Record --per-request-spec-decode-metrics detailed, or a "
            "window with one K",
            "k_varied",
            where,
        )
    return _reconstructed(num_drafts, mean_k, accepted, drafts_by_k, source, report)


def _reconstructed(
    num_drafts: float,
    mean_k: float,
    accepted: list[int],
    drafts_by_k: Mapping[int, float],
    source: str,
    report: ReadReport,
) -> AcceptanceCounts:
    """Drafts per position from a histogram of K recorded elsewhere."""
    shares = {k: w for k, w in drafts_by_k.items() if k > 0 and w > 0}
    total = sum(shares.values())
    implied = sum(k * w for k, w in shares.items()) / total if total else 0.0
    if abs(implied - mean_k) > K_SLACK * mean_k:
        refuse(
            f"the steps given average K = {implied:.3g}, the counters {mean_k:.3g}; "
            "they are not from the same window",
            "inconsistent",
            report.source,
        )
    deepest = min(max(shares), len(accepted))
    drafted = [
        round(num_drafts * sum(w for k, w in shares.items() if k >= j) / total)
        for j in range(1, deepest + 1)
    ]
    for j, (a, d) in enumerate(zip(accepted, drafted, strict=False), 1):
        if a > d:
            refuse(
                f"position {j} was accepted {a:,} times but, by the steps given, "
                f"proposed {d:,} times",
                "inconsistent",
                report.source,
            )
    report.add_note(
        "drafts per position were rebuilt from the log's step shapes; K varied"
    )
    return AcceptanceCounts(
        drafted=tuple(drafted),
        accepted=tuple(accepted[:deepest]),
        at_risk=None,
        num_drafts=round(num_drafts),
        constant_k=None,
        approximate=True,
        source=source,
        report=report,
    )


def drafts_by_k(uniform: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Drafts by K from step counts by (query_len, num_reqs).

    Example:
        >>> drafts_by_k({(4, 2): 10, (2, 5): 3, (1, 9): 7})
        {3: 20.0, 1: 15.0}
    """
    out: dict[int, float] = {}
    for (query_len, num_reqs), steps in uniform.items():
        if query_len > 1:
            k = query_len - 1
            out[k] = out.get(k, 0.0) + float(steps * num_reqs)
    return out
