# SPDX-License-Identifier: Apache-2.0
"""Two configurations against each other: settings, and batches that gain or lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from specgrid._coverage import Coverage
from specgrid.cli._analysis import Analysis
from specgrid.cli._report.verdict import policy_in_force, summary

#: Best last, so that a larger rank is a better graph.
MODES = ("NONE", "PIECEWISE", "FULL")
#: Changed runs of batches listed.
MAX_CHANGES = 1000


def compare(before: Analysis, after: Analysis, name: str) -> dict[str, Any]:
    """The document's ``compare``.

    Args:
        before: what is compared with.
        after: the configuration of the page.
        name: what to call ``before``.
    """
    covers = [_coverage(before), _coverage(after)]
    known = [c for c in covers if c is not None]
    return {
        "name": name,
        "settings": _settings(before, after),
        "before": None if covers[0] is None else summary(covers[0]),
        "after": None if covers[1] is None else summary(covers[1]),
        "diff": diff(known[0], known[1]) if len(known) == 2 else None,
    }


def diff(before: Coverage, after: Coverage) -> dict[str, Any]:
    """Which batches get a better or a worse graph.

    Returns:
        batches (better, same, worse, only_before, only_after), changes (batch_lo,
        batch_hi, before, after), and both as strips of runs for the picture.
    """
    old, new = _ranks(before), _ranks(after)
    both = min(len(old), len(new))
    change = np.sign(new[:both] - old[:both])
    found = []
    for lo, hi in _runs(np.stack([old[:both], new[:both]])):
        if old[lo] != new[lo]:
            found.append(
                {
                    "batch_lo": lo + 1,
                    "batch_hi": hi + 1,
                    "before": MODES[old[lo]],
                    "after": MODES[new[lo]],
                }
            )
    return {
        "widest": max(len(old), len(new)),
        "batches": {
            "better": int((change > 0).sum()),
            "same": int((change == 0).sum()),
            "worse": int((change < 0).sum()),
            "only_before": len(old) - both,
            "only_after": len(new) - both,
        },
        "num_changes": len(found),
        "changes": found[:MAX_CHANGES],
        "strips": {"before": _strip(old), "after": _strip(new)},
    }


def _coverage(analysis: Analysis) -> Coverage | None:
    return analysis.policies.get(policy_in_force(analysis), analysis.coverage)


def _ranks(coverage: Coverage) -> npt.NDArray[np.int64]:
    """Rank of the worst mode of every batch, over its contexts."""
    ranks = np.full(coverage.graph_set.max_num_seqs, len(MODES), np.int64)
    for column in range(coverage.num_columns):
        for run in coverage.runs(column):
            part = ranks[run.batch_lo - 1 : run.batch_hi]
            np.minimum(part, MODES.index(run.mode), out=part)
    return ranks


def _runs(lines: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """First and last index of equal neighbouring columns."""
    changes = np.flatnonzero(np.any(lines[:, 1:] != lines[:, :-1], axis=0)) + 1
    starts = [0, *changes.tolist()]
    ends = [*(s - 1 for s in starts[1:]), lines.shape[1] - 1]
    return list(zip(starts, ends, strict=True))


def _strip(ranks: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    return [
        {"batch_lo": lo + 1, "batch_hi": hi + 1, "mode": MODES[ranks[lo]]}
        for lo, hi in _runs(ranks[None, :])
    ]


def _settings(before: Analysis, after: Analysis) -> list[dict[str, Any]]:
    from specgrid.cli.explain import to_document

    old, new = (
        {s["name"]: s["value"] for s in to_document(a)["settings"]}
        for a in (before, after)
    )
    return [
        {"name": name, "before": old.get(name), "after": new.get(name)}
        for name in dict.fromkeys((*new, *old))
        if old.get(name) != new.get(name)
    ]
