# SPDX-License-Identifier: Apache-2.0
"""The schedule of a vLLM configuration, as specgrid's own table.

Two places can hold one: our setting (2-D or ragged rows) and vLLM's field (batch
ranges). Ours comes first. vLLM's planning and its scheduler read only the field, so a
2-D schedule also leaves its batch-only shadow there: the largest K of any context for
each batch. That keeps every "is the schedule dynamic?" test of vLLM right, and is what
remains in force should the scheduler's seam step aside.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from specgrid import ConfigError, Lookup, Schedule, ScheduleError

from . import _log, _settings

FIELD = "num_speculative_tokens_per_batch_size"


def lookup_of(vllm_config: Any, settings: _settings.Settings) -> Lookup | None:
    """The table from (batch, context) to K that a configuration asks for.

    Args:
        vllm_config: A VllmConfig or a stand-in with the fields planning reads.
        settings: Its settings.

    Returns:
        The table, or None when K is static or vLLM would refuse the schedule.
    """
    speculative = vllm_config.speculative_config
    if speculative is None:
        return None
    rows = getattr(speculative, FIELD, None)
    if rows is None:
        # vLLM drops a schedule it cannot run (data parallel, some drafters).
        return None
    max_num_seqs = vllm_config.scheduler_config.max_num_seqs
    num_spec = vllm_config.num_speculative_tokens
    try:
        if settings.schedule is not None and not settings.shadow:
            schedule = Schedule(settings.schedule, ragged=True)
        elif is_plain(rows):
            schedule = Schedule(rows)
        else:
            return None
        return schedule.lookup(max_num_seqs, num_spec)
    except (ScheduleError, ConfigError):
        return None


def is_plain(rows: object) -> bool:
    """Whether rows are exactly what vLLM 0.33.0 reads without converting anything."""
    return isinstance(rows, list) and all(
        isinstance(row, list | tuple)
        and len(row) == 3
        and type(row[0]) is int
        and type(row[1]) is int
        and type(row[2]) is int
        for row in rows
    )


def batch_only(lookup: Lookup) -> list[tuple[int, int, int]]:
    """Rows for vLLM's field: the largest K of any context column, per batch.

    Args:
        lookup: Table from (batch, context) to K.

    Returns:
        (batch_lo, batch_hi, k) rows covering 1..max_num_seqs.
    """
    starts, _, k = lookup._impl.canonical()
    widest = k.reshape(len(starts), -1).max(axis=1)
    first = np.flatnonzero(np.diff(widest, prepend=-1))
    ends = np.append(starts[first[1:]] - 1, lookup.max_num_seqs)
    return list(
        zip(starts[first].tolist(), ends.tolist(), widest[first].tolist(), strict=True)
    )


def rows_of(lookup: Lookup) -> list[list[int]]:
    """K by context column, for each batch 0..max_num_seqs.

    What `lookup.dense().tolist()` gives, but batches with equal rows share one list:
    a grid for 8,192 requests and 1,000 context ranges is then kilobytes, not 67 MB.

    Args:
        lookup: Table from (batch, context) to K.
    """
    starts = lookup._impl.canonical()[0]
    contexts = np.array([low for low, _ in lookup.context_ranges])
    cells = lookup.gather(starts[:, np.newaxis], contexts[np.newaxis, :]).tolist()
    rows = [[0] * len(contexts)]
    ends = [*starts[1:].tolist(), lookup.max_num_seqs + 1]
    for start, end, row in zip(starts.tolist(), ends, cells, strict=True):
        rows += [row] * (end - start)
    return rows


def install(vllm_config: Any) -> None:
    """Make vLLM treat a configuration with our schedule as dynamic.

    Runs before vLLM resolves the configuration, in every process that resolves it.

    Args:
        vllm_config: The VllmConfig at the start of its __post_init__.
    """
    settings = _settings.read(vllm_config)
    if settings.schedule is None or settings.shadow:
        return
    speculative = vllm_config.speculative_config
    if speculative is None:
        _log.once(
            logging.WARNING,
            "a schedule is set but speculative decoding is off; "
            "add --speculative-config to use it",
        )
        return
    try:
        lookup = Schedule(settings.schedule, ragged=True).lookup(
            vllm_config.scheduler_config.max_num_seqs,
            vllm_config.num_speculative_tokens,
        )
        rows = batch_only(lookup)
    except Exception as error:
        known = isinstance(error, (ScheduleError, ConfigError))
        _log.once(
            logging.ERROR,
            "the schedule cannot be used and vLLM's own setting stays in force: %s",
            error if known else f"{type(error).__name__}: {error}",
        )
        _settings.record(vllm_config, schedule=None)
        return
    setattr(speculative, FIELD, rows)
    _log.once(
        logging.INFO,
        "K follows %d batch x %d context ranges (%s context of the batch)",
        len(lookup.schedule.batch_ranges),
        lookup.num_columns,
        settings.context_aggregate,
    )


def is_dynamic(vllm_config: Any) -> bool:
    """Whether vLLM takes a configuration's K for dynamic."""
    return getattr(vllm_config.speculative_config, FIELD, None) is not None
