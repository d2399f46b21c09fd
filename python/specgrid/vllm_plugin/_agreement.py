# SPDX-License-Identifier: Apache-2.0
"""All ranks capture the same graphs, or start-up stops and says who differs.

A collective operation inside a graph waits for every rank; ranks that captured or
dispatch different graphs wait for each other forever. Before the target model's graphs
are captured, every rank sends the digests of what it is about to use over vLLM's CPU
group. A rank that does not answer at all (no specgrid there, or switched off) is named
after a timeout.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import _log
from ._seam import StopStartupError

_TIMEOUT_S: Final = 600.0
_LONGEST_S: Final = 7 * 86400

Parts = Mapping[str, str]


def digest(value: object) -> str:
    """Short hex digest of JSON values, equal on every machine."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(parts: Sequence[Parts]) -> list[str]:
    """What differs between ranks, in words.

    Args:
        parts: Digests by name, one mapping a rank.

    Returns:
        One sentence for each differing part; empty when all agree.
    """
    found = []
    for name in sorted({key for part in parts for key in part}):
        ranks: dict[str, list[int]] = {}
        for rank, part in enumerate(parts):
            ranks.setdefault(part.get(name, "missing"), []).append(rank)
        if len(ranks) > 1:
            groups = "; ".join(
                f"rank {', '.join(map(str, members))}: {value}"
                for value, members in ranks.items()
            )
            found.append(f"{name} differs ({groups})")
    return found


def compare(parts: Parts, group: Any) -> None:
    """Exchange digests over a torch CPU group and stop on a difference.

    Args:
        parts: This rank's digests by name.
        group: A gloo process group with all ranks.

    Raises:
        StopStartupError: If a rank differs or does not answer.
    """
    import torch.distributed as dist

    size = dist.get_world_size(group)
    if dist.get_backend(group) == "gloo":
        _wait_for_all(group)
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, dict(parts), group)
    found = differences(everyone)
    if found:
        raise StopStartupError(
            "specgrid: ranks disagree and would wait for each other: "
            + "; ".join(found)
            + ". Give every rank the same specgrid version, settings and plan."
        )
    _log.info("%d ranks agree on schedule, sizes and graphs", size)


def timeout_s() -> float:
    """Seconds that ranks wait for each other: SPECGRID_AGREE_TIMEOUT, else 600."""
    given = os.environ.get("SPECGRID_AGREE_TIMEOUT") or str(_TIMEOUT_S)
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if 0 < seconds <= _LONGEST_S:
        return seconds
    _log.once(
        logging.WARNING,
        "SPECGRID_AGREE_TIMEOUT=%.100r is no number of seconds above 0 and up to %d; "
        "%d is used",
        given,
        _LONGEST_S,
        _TIMEOUT_S,
    )
    return _TIMEOUT_S


def _wait_for_all(group: Any) -> None:
    """Name the ranks that do not come, instead of waiting for them."""
    import torch.distributed as dist

    try:
        dist.monitored_barrier(
            group, datetime.timedelta(seconds=timeout_s()), wait_all_ranks=True
        )
    except RuntimeError as error:
        raise StopStartupError(
            "specgrid: not every rank announced its graphs; install and enable "
            "specgrid on all nodes or set SPECGRID_DISABLE=1 on all of them: "
            f"{error}"
        ) from error
