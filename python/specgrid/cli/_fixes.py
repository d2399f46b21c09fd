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


def covering_text(analysis: Analysis) -> str:
    """What to write so that every decode batch has a graph, for lint and explain.

    Cheapest first: a few graphs more, else fewer requests, else many graphs.
    """
    config = analysis.config
    proposal = covering_flags(analysis)
    reach = _reach(analysis)
    lower = f"lower --max-num-seqs to {reach}, or " if reach else ""
    plan = "specgrid plan, for graphs within a memory budget"
    if proposal is None:
        return lower + plan
    text = proposal.flags
    given = [
        config.setting(name).detail
        for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
        if config.is_given(name)
    ]
    replaced = [detail for detail in given if detail != text.split()[0]]
    if replaced:
        text += f" (in place of {' and '.join(replaced)})"
    if proposal.missed:
        left = (
            "1 batch remains"
            if proposal.missed == 1
            else (f"{proposal.missed} batches remain")
        )
        text += f"; {left} without a FULL graph"
    if analysis.sufficient_max > 2 * config.platform_ceiling:
        num_sizes = len(proposal.analysis.sizes or ())
        return (
            f"{lower}{plan}; or, if {num_sizes} sizes this large fit (6400 "
            f"tokens ran out of memory on an H200, vLLM #54418), {text}"
        )
    return text


def _reach(analysis: Analysis) -> int:
    """Requests all of whose decode batches are covered; 0 where a schedule decides."""
    if len(analysis.tiers) != 1 or analysis.sizes is None:
        return 0
    return analysis.sizes.covered_batch(analysis.tiers[0])


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
