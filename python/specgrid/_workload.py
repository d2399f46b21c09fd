# SPDX-License-Identifier: Apache-2.0
"""The load a capture plan is made for: how often each step shape runs.

Not a reader of files (`specgrid.io`), and not a forecast: weights are whatever
was counted, in any unit, since only their ratios matter to a plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from specgrid._check import count
from specgrid._errors import ConfigError


def _weight(value: object, what: str) -> float:
    """A finite weight of at least zero, or a ConfigError that names it."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ConfigError(
            f"the weight of {what} is {value!r}; a weight is a finite number of at "
            "least 0 (steps counted, or seconds spent)"
        )
    return number


@dataclass(frozen=True)
class Workload:
    """How often each step shape runs.

    Args:
        decode: Weight of each uniform decode step, by (query_len, num_reqs):
            every request brings query_len = 1 + K tokens. Pairs off the
            schedule's diagonal are welcome: K is chosen one step before it is
            verified, so the batch may have changed in between.
        mixed: Weight of every other step, by num_tokens (a prefill among the
            requests, or query lengths that differ). Only PIECEWISE graphs can
            serve these.
        floor: Share of the total weight spread evenly over every (query_len,
            num_reqs) the schedule can produce, so that a shape the data happen
            to lack is not planned away. At least 0, below 1.
        source: Where the numbers come from, for people.
        assumed: True where nobody measured them; everything that shows a plan
            made from such a workload says so.

    Raises:
        ConfigError: A key is not a pair of positive whole numbers, a weight is
            negative or not finite, there is no positive weight at all, or floor
            is out of range.

    Example:
        >>> load = Workload({(4, 1): 140, (4, 2): 180}, mixed={9: 20})
        >>> load.total
        340.0
    """

    decode: Mapping[tuple[int, int], float]
    mixed: Mapping[int, float] = field(default_factory=dict)
    floor: float = 0.01
    source: str = "given"
    assumed: bool = False

    def __post_init__(self) -> None:
        decode: dict[tuple[int, int], float] = {}
        for key, weight in dict(self.decode).items():
            pair: object = key
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ConfigError(
                    f"workload key {key!r}; decode steps are keyed by the pair "
                    "(query_len, num_reqs), for example {(4, 16): 1200}"
                )
            q = count(f"query_len in workload key {key!r:.80}", key[0])
            n = count(f"num_reqs in workload key {key!r:.80}", key[1])
            value = _weight(weight, f"query_len {q}, num_reqs {n}")
            decode[q, n] = decode.get((q, n), 0.0) + value
        mixed: dict[int, float] = {}
        for tokens, weight in dict(self.mixed).items():
            t = count(f"num_tokens in mixed key {tokens!r:.80}", tokens)
            value = _weight(weight, f"mixed steps of {t} tokens")
            mixed[t] = mixed.get(t, 0.0) + value
        try:
            total = math.fsum([*decode.values(), *mixed.values()])
        except OverflowError:
            raise ConfigError(
                "the weights add up to more than a float holds; scale them down, only "
                "their ratios matter"
            ) from None
        if not total > 0:
            raise ConfigError(
                "the workload is empty: no step has a positive weight. Give at "
                "least one, for example Workload({(1, 8): 1.0}), or use "
                "Workload.default() for one that is assumed"
            )
        floor: object = self.floor
        if not (isinstance(floor, int | float) and 0 <= floor < 1):
            raise ConfigError(
                f"floor is {self.floor!r}; it is a share of the weight, at least 0 "
                "and below 1 (0.01 is usual, 0 trusts the data alone)"
            )
        object.__setattr__(self, "decode", MappingProxyType(decode))
        object.__setattr__(self, "mixed", MappingProxyType(mixed))

    @property
    def total(self) -> float:
        """Sum of all weights, without the floor."""
        return math.fsum([*self.decode.values(), *self.mixed.values()])

    def __reduce__(self) -> tuple[object, ...]:
        return (
            Workload,
            (
                dict(self.decode),
                dict(self.mixed),
                self.floor,
                self.source,
                self.assumed,
            ),
        )

    @classmethod
    def default(
        cls,
        max_num_seqs: int,
        num_speculative_tokens: int = 0,
        schedule: object = None,
        max_num_batched_tokens: int = 8192,
    ) -> Workload:
        """The assumed workload, for planning without any data.

        Every batch size of the schedule, weighted 1 / num_reqs (each doubling of
        the batch is equally likely), makes up 95 % of the steps; mixed steps
        weighted likewise over 1 to 512 tokens, where a step may have so many, make up
        the rest. It is a guess
        about nobody in particular, marked ``assumed``.

        Args:
            max_num_seqs: Most requests in a step.
            num_speculative_tokens: vLLM's static number of draft tokens.
            schedule: A `Schedule`, its rows, or None.
            max_num_batched_tokens: Most tokens in a step.

        Returns:
            The workload, with ``assumed`` set.

        Example:
            >>> Workload.default(4).decode[1, 1] > Workload.default(4).decode[1, 4]
            True
        """
        from specgrid._plan_inputs import diagonal

        decode: dict[tuple[int, int], float] = {}
        for q, n in diagonal(max_num_seqs, num_speculative_tokens, schedule):
            decode[q, n] = 1.0 / n
        scale = 0.95 / math.fsum(decode.values())
        decode = {key: weight * scale for key, weight in decode.items()}
        tokens = range(1, min(512, max_num_batched_tokens) + 1)
        mixed_total = math.fsum(1.0 / t for t in tokens)
        mixed = {t: 0.05 / t / mixed_total for t in tokens}
        return cls(
            decode,
            mixed,
            floor=0.0,
            source="assumed: log-uniform batch sizes, 5 % mixed steps",
            assumed=True,
        )
