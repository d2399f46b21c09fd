# SPDX-License-Identifier: Apache-2.0
"""Which capture flags would cover every decode batch, tried before they are advised.

A proposal is a changed ServeConfig put through the same analysis as the original; the
one that leaves the fewest batches without a FULL graph is offered, and what it leaves
is said.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from specgrid import ConfigError, capture_sizes
from specgrid.cli._analysis import MAX_CAPTURE_TOKENS, Analysis, analyse
from specgrid.io.vllm_config import ServeConfig

#: A longer list is nothing to paste into a command.
MAX_SIZES_SHOWN = 64


class Proposal(NamedTuple):
    """Flags to write, how many decode batches they leave without a FULL graph, and
    the server with them."""

    flags: str
    missed: int
    analysis: Analysis


def covering_flags(analysis: Analysis) -> Proposal | None:
    """The capture flags that serve most decode batches; None if none is better."""
    config = analysis.config
    needed = analysis.sufficient_max
    if analysis.coverage is None or not 0 < needed <= MAX_CAPTURE_TOKENS:
        return None
    best: Proposal | None = None
    for flags, changed in _candidates(config, needed):
        try:
            tried = analyse(changed)
        except ConfigError:
            continue
        if tried.coverage is None:
            continue
        proposal = Proposal(flags, len(tried.coverage.missed), tried)
        if best is None or proposal.missed < best.missed:
            best = proposal
        if best.missed == 0:
            break
    if best is None or best.missed >= len(analysis.coverage.missed):
        return None
    return best


def _candidates(config: ServeConfig, needed: int) -> list[tuple[str, ServeConfig]]:
    """Shortest flags first: two maxima, then the list that holds all decode sizes."""
    step = 8 if needed < 256 else 16
    maxima = dict.fromkeys((needed, -(-needed // step) * step))
    found = [
        (
            f"--max-cudagraph-capture-size {size}",
            _with(config, sizes=None, largest=size),
        )
        for size in maxima
        if size <= config.max_num_batched_tokens
    ]
    arguments = config.capture_arguments()
    arguments.update(cudagraph_capture_sizes=None, max_cudagraph_capture_size=needed)
    sizes = tuple(capture_sizes(**arguments, rule="keep-max").sizes)
    if len(sizes) > MAX_SIZES_SHOWN:
        return found
    listed = "--cudagraph-capture-sizes " + " ".join(map(str, sizes))
    found.append((listed, _with(config, sizes=sizes, largest=None)))
    return found


def _with(
    config: ServeConfig, sizes: tuple[int, ...] | None, largest: int | None
) -> ServeConfig:
    return dataclasses.replace(
        config, cudagraph_capture_sizes=sizes, max_cudagraph_capture_size=largest
    )
