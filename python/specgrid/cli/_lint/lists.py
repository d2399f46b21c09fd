# SPDX-License-Identifier: Apache-2.0
"""Checks of explicit lists: sizes the V1 runner rounds, compile_sizes."""

from __future__ import annotations

from collections.abc import Iterator

from specgrid.cli._fixes import MAX_SIZES_SHOWN
from specgrid.cli._lint.finding import Finding, Subject
from specgrid.cli._output import ranges_text


def sizes_not_multiples(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    sizes = config.cudagraph_capture_sizes
    q = 1 + config.num_speculative_tokens
    if analysis is None or analysis.sizes is None or sizes is None or q == 1:
        return
    if config.model_runner != "V1" or not subject.decodes_full:
        return
    off = [s for s in analysis.sizes.sizes if s % q]
    if off:
        yield Finding(
            "sizes-not-multiples",
            "warning",
            f"the V1 model runner rounds sizes up to multiples of {q} and drops what "
            f"then passes {analysis.sizes.max_size}: {ranges_text(_points(off))} do "
            f"not stay, and {ranges_text(_points(analysis.runner_sizes))} are captured",
            _listed(_multiples(off, analysis.sizes.sizes, q), q),
            cost="about every second decode batch ran attention eagerly at query "
            "length 3",
            reference=("vLLM #52000", "vLLM #28015", "vLLM #28207"),
        )


def _listed(sizes: list[int], q: int) -> str:
    if len(sizes) > MAX_SIZES_SHOWN:
        return f"write multiples of {q} only, up to {sizes[-1]}"
    return "--cudagraph-capture-sizes " + " ".join(map(str, sizes))


def _multiples(off: list[int], sizes: list[int], q: int) -> list[int]:
    return sorted({-(-s // q) * q for s in {*off, *sizes}})


def _points(sizes: list[int]) -> list[tuple[int, int]]:
    return [(s, s) for s in sizes]


def compile_sizes_padded(subject: Subject) -> Iterator[Finding]:
    config, analysis = subject.config, subject.analysis
    if analysis is None or analysis.sizes is None or not config.compile_sizes:
        return
    sizes = set(analysis.runner_sizes)
    largest = max(sizes, default=0)
    wanted = {s for s in config.compile_sizes if isinstance(s, int)}
    if "cudagraph_capture_sizes" in config.compile_sizes:
        wanted |= set(analysis.sizes.sizes)
    padded = sorted(s for s in wanted if s <= largest and s not in sizes)
    if not padded:
        return
    v1 = config.model_runner == "V1"
    what = "and the V1 model runner refuses to start" if v1 else "so they never run"
    keep = sorted(s for s in wanted if s in sizes or s > largest)
    because = (
        f" (sizes are rounded to multiples of {1 + config.num_speculative_tokens})"
        if analysis.runner_sizes != analysis.sizes.sizes
        else ""
    )
    yield Finding(
        "compile-sizes-padded",
        "error" if v1 else "warning",
        f"compile_sizes {ranges_text(_points(padded))} are not captured{because}: "
        f"steps of that size are padded to another one, {what}",
        f"-cc.compile_sizes={keep}",
        reference=("vLLM #49548", "vLLM #49549"),
    )
