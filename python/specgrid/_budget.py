# SPDX-License-Identifier: Apache-2.0
"""What a capture plan may spend, and which drafter graphs it also pays for.

Not the solver and not the costs: limits only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from specgrid._errors import ConfigError


@dataclass(frozen=True)
class Budget:
    """Limits of a capture plan; a limit that is None does not bind.

    Args:
        graphs: Most graphs, FULL and PIECEWISE of the target for every LoRA
            case, and the drafter's where one is described.
        bytes: Most bytes: `Costs.pool_bytes` once and `Costs.graph_bytes` for
            each graph.
        seconds: Most seconds of capturing.
        full_coverage: True: the widest admissible batch of every query length
            has a FULL graph. ``"every-batch"``: every batch the schedule can
            produce has one. False: no such promise; an empty plan (everything
            eager) is allowed.

    Raises:
        ConfigError: A limit is negative, not a number, or coverage is none of
            the three.

    Example:
        >>> Budget(graphs=60).full_coverage
        True
    """

    graphs: int | None = None
    bytes: float | None = None
    seconds: float | None = None
    full_coverage: bool | Literal["every-batch"] = True

    def __post_init__(self) -> None:
        if self.graphs is not None and (
            isinstance(self.graphs, bool)
            or not hasattr(self.graphs, "__index__")
            or self.graphs < 0
        ):
            raise ConfigError(
                f"the budget is {self.graphs!r} graphs; it must be a whole number of "
                "at least 0, or None for no limit"
            )
        for name in ("bytes", "seconds"):
            value = getattr(self, name)
            if value is None:
                continue
            if (
                not isinstance(value, int | float)
                or not math.isfinite(value)
                or value < 0
            ):
                raise ConfigError(
                    f"the budget is {value!r} {name}; it must be a finite number of "
                    "at least 0, or None for no limit"
                )
        if self.full_coverage not in (True, False, "every-batch"):
            raise ConfigError(
                f"full_coverage is {self.full_coverage!r}; it is True (the widest "
                "batch of every query length), 'every-batch', or False"
            )


@dataclass(frozen=True)
class Drafter:
    """Which graphs vLLM's drafter captures beside the target's.

    They count against a budget like the target's own, but LoRA cases do not
    multiply them. `DraftGraphs` lists them one by one.

    Args:
        kind: "autoregressive" (EAGLE, MTP, draft models): the target's FULL and
            PIECEWISE graphs once more for the first draft position, and one
            graph per capture size of at most max_num_seqs for the later ones.
            "multi-module-mtp" and "dflash": the FULL graphs once more.
        fused_decode: Whether one graph holds the whole loop over the later
            positions. Under a schedule it is then captured for each K above 1.

    Raises:
        ConfigError: The kind is unknown.

    Source: vLLM 0.33.0, `v1/worker/gpu/spec_decode/`.

    Example:
        >>> Drafter().kind
        'autoregressive'
    """

    kind: Literal["autoregressive", "multi-module-mtp", "dflash"] = "autoregressive"
    fused_decode: bool = True

    def __post_init__(self) -> None:
        kinds = ("autoregressive", "multi-module-mtp", "dflash")
        if self.kind not in kinds:
            raise ConfigError(
                f"the drafter's kind is {self.kind!r}; it is one of {', '.join(kinds)}"
            )

    @property
    def repeats_piecewise(self) -> bool:
        """Whether it captures the target's PIECEWISE graphs again."""
        return self.kind == "autoregressive"

    def graphs_per_small_size(self, num_speculative_tokens: int, ks: set[int]) -> int:
        """Later-position graphs of one capture size of at most max_num_seqs.

        Args:
            num_speculative_tokens: vLLM's static number of draft tokens.
            ks: The K a schedule can reach; empty without a schedule.

        Returns:
            Number of graphs.
        """
        if self.kind != "autoregressive" or num_speculative_tokens <= 1:
            return 0
        if self.fused_decode and ks:
            return len(ks - {0, 1})
        return 1
