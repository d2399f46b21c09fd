# SPDX-License-Identifier: Apache-2.0
"""What a step costs in each graph mode, and what a captured graph costs.

Not a model of any GPU: the numbers are measured, or stated by whoever assumes
them. A table is interpolated inside what was measured and never beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from specgrid._errors import ConfigError

#: A cost by tokens: a function, a table, or one number for every size.
CostLike = (
    Callable[[int], float] | Mapping[int, float] | Iterable[tuple[int, float]] | float
)

_MIB = 1 << 20


Floats = npt.NDArray[np.float64]


def _many(cost: Callable[[int], float], sizes: Sequence[int]) -> Floats:
    """A cost at many sizes; the forms made here know a quick way."""
    if isinstance(cost, _Constant | _Linear | _Sum | _Table):
        return cost.many(sizes)
    return np.array([float(cost(int(size))) for size in sizes], dtype=np.float64)


@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, num_tokens: int) -> float:
        return self.value

    def many(self, sizes: Sequence[int]) -> Floats:
        return np.full(len(sizes), self.value)


@dataclass(frozen=True)
class _Linear:
    base: float
    per_token: float

    def __call__(self, num_tokens: int) -> float:
        return self.base + self.per_token * num_tokens

    def many(self, sizes: Sequence[int]) -> Floats:
        return self.base + self.per_token * np.asarray(sizes, dtype=np.float64)


@dataclass(frozen=True)
class _Sum:
    """One cost plus a constant; the form of every launch-bound penalty."""

    cost: Callable[[int], float]
    extra: float

    def __call__(self, num_tokens: int) -> float:
        return self.cost(num_tokens) + self.extra

    def many(self, sizes: Sequence[int]) -> Floats:
        return _many(self.cost, sizes) + self.extra


@dataclass(frozen=True)
class _Table:
    """Measured sizes with straight lines between them."""

    name: str
    tokens: tuple[int, ...]
    values: tuple[float, ...]

    def __call__(self, num_tokens: int) -> float:
        if not self.tokens[0] <= num_tokens <= self.tokens[-1]:
            raise ConfigError(
                f"the {self.name} table has no value for {num_tokens} tokens: it "
                f"covers {self.tokens[0]} to {self.tokens[-1]}. Measure sizes up to "
                "there, or limit the plan (max_size, max_num_seqs); nothing is "
                "extrapolated"
            )
        return float(np.interp(num_tokens, self.tokens, self.values))

    def many(self, sizes: Sequence[int]) -> Floats:
        for size in (min(sizes, default=0), max(sizes, default=0)):
            if len(sizes):
                self(size)  # refuses what was not measured
        return np.interp(sizes, self.tokens, self.values)


def as_cost(value: CostLike, name: str) -> Callable[[int], float]:
    """A function of the token count from any of the accepted forms.

    Args:
        value: A function, a table (mapping or pairs), or one number.
        name: What it is, for messages.

    Returns:
        A function from num_tokens to the cost.

    Raises:
        ConfigError: The table is empty, repeats a size, or holds a value that
            is missing, negative or not finite.
    """
    if callable(value):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value) or value < 0:
            raise ConfigError(f"{name} is {value!r}; it must be finite and at least 0")
        return _Constant(float(value))
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    rows: dict[int, float] = {}
    for pair in pairs:
        try:
            tokens, cost = pair
            size, number = int(tokens), float(cost)
        except (TypeError, ValueError):
            raise ConfigError(
                f"the {name} table holds {pair!r}; each entry is (num_tokens, value)"
            ) from None
        if size < 1 or size != tokens:
            raise ConfigError(
                f"the {name} table holds the size {tokens!r}; sizes are whole "
                "numbers of tokens, at least 1"
            )
        if not math.isfinite(number) or number < 0:
            raise ConfigError(
                f"the {name} table has a hole: {cost!r} at {size} tokens. Leave the "
                "size out to interpolate over it, or measure it"
            )
        if rows.setdefault(size, number) != number:
            raise ConfigError(
                f"the {name} table gives {size} tokens twice, {rows[size]!r} and "
                f"{number!r}; keep one (the median of the samples, say)"
            )
    if not rows:
        raise ConfigError(f"the {name} table is empty; give at least one size")
    sizes = sorted(rows)
    return _Table(name, tuple(sizes), tuple(rows[s] for s in sizes))


class _Prices(TypedDict, total=False):
    """What every way to make `Costs` takes beside the step times."""

    graph_bytes: CostLike
    pool_bytes: CostLike
    graph_seconds: CostLike
    source: str
    assumed: bool
    eager_penalty_assumed: bool


@dataclass(frozen=True, init=False)
class Costs:
    """Step time by tokens in each graph mode, and the price of a graph.

    Each step time is a function of the token count, a table ``{num_tokens: us}``
    (straight lines between measured sizes, an error beyond them), or one number.

    Args:
        full: Microseconds of a step that replays a FULL graph of that many
            (padded) tokens.
        piecewise: The same for a PIECEWISE graph.
        eager: Microseconds of a step without any graph, by its own tokens.
        graph_bytes: Bytes each captured graph adds: a number, or by tokens.
        pool_bytes: Bytes of the pool the graphs share, paid once: a number, or
            by the tokens of the largest entry. vLLM captures largest first and
            the rest reuse the pool.
        graph_seconds: Seconds to capture a graph: a number, or by tokens.
        source: Where the numbers come from, for people.
        assumed: True where nobody measured them.
        eager_penalty_assumed: True where only the eager time was not measured.

    Raises:
        ConfigError: A table has a hole, or a value is negative or not finite.

    Example:
        >>> costs = Costs.linear(7000, 20, 3000, 12000)
        >>> costs.full(256), costs.piecewise(256), costs.eager(256)
        (12120, 15120, 24120)
        >>> Costs({1: 100, 9: 180}, 300, 900).full(5)
        140.0
    """

    full: Callable[[int], float]
    piecewise: Callable[[int], float]
    eager: Callable[[int], float]
    graph_bytes: Callable[[int], float]
    pool_bytes: Callable[[int], float]
    graph_seconds: Callable[[int], float]
    source: str
    assumed: bool
    eager_penalty_assumed: bool

    def __init__(
        self,
        full: CostLike,
        piecewise: CostLike,
        eager: CostLike,
        *,
        graph_bytes: CostLike = 0.0,
        pool_bytes: CostLike = 0.0,
        graph_seconds: CostLike = 0.0,
        source: str = "given",
        assumed: bool = False,
        eager_penalty_assumed: bool = False,
    ) -> None:
        given = {
            "full": full,
            "piecewise": piecewise,
            "eager": eager,
            "graph_bytes": graph_bytes,
            "pool_bytes": pool_bytes,
            "graph_seconds": graph_seconds,
        }
        for name, value in given.items():
            object.__setattr__(self, name, as_cost(value, name))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "assumed", assumed)
        object.__setattr__(
            self, "eager_penalty_assumed", assumed or eager_penalty_assumed
        )

    @classmethod
    def linear(
        cls,
        base_us: float,
        per_token_us: float,
        piecewise_us: float,
        eager_us: float,
        **prices: Unpack[_Prices],
    ) -> Costs:
        """A straight line, and a constant penalty for each lesser mode.

        The penalty of a missing graph is launch-bound, so it is close to a
        constant per step rather than a factor.

        Args:
            base_us: FULL step time at zero tokens, microseconds.
            per_token_us: Microseconds each padded token adds.
            piecewise_us: What PIECEWISE takes beyond FULL.
            eager_us: What eager takes beyond FULL.
            **prices: ``graph_bytes``, ``pool_bytes``, ``graph_seconds``,
                ``source``, ``assumed`` and ``eager_penalty_assumed``, as in `Costs`.

        Returns:
            The costs.
        """
        for name, value in (
            ("base_us", base_us),
            ("per_token_us", per_token_us),
            ("piecewise_us", piecewise_us),
            ("eager_us", eager_us),
        ):
            if not math.isfinite(value):
                raise ConfigError(f"{name} is {value!r}; it must be a finite number")
        return cls.from_penalties(
            _Linear(base_us, per_token_us),
            piecewise_us,
            eager_us,
            **prices,
        )

    @classmethod
    def from_penalties(
        cls,
        full: CostLike,
        piecewise_us: float,
        eager_us: float,
        **prices: Unpack[_Prices],
    ) -> Costs:
        """FULL step times as given; PIECEWISE and eager a constant above them.

        Args:
            full: As in `Costs`.
            piecewise_us: What PIECEWISE takes beyond FULL, microseconds.
            eager_us: What eager takes beyond FULL, microseconds.
            **prices: ``graph_bytes``, ``pool_bytes``, ``graph_seconds``,
                ``source``, ``assumed`` and ``eager_penalty_assumed``, as in `Costs`.

        Returns:
            The costs.
        """
        cost = as_cost(full, "full")
        return cls(
            cost,
            _Sum(cost, piecewise_us),
            _Sum(cost, eager_us),
            **prices,
        )

    @classmethod
    def default(cls) -> Costs:
        """The assumed costs, for planning without any data.

        A step of 7 ms plus 20 us a token, 3 ms more in PIECEWISE, 12 ms more
        eager; 24 MiB and 0.1 s a graph over a 256 MiB pool. They sit inside the
        bands vLLM's threads report (#22897, #11349, #20098, #50780) and
        describe no machine in particular; ``assumed`` is set.

        Returns:
            The costs.
        """
        return cls.linear(
            7000,
            20,
            3000,
            12000,
            graph_bytes=24 * _MIB,
            pool_bytes=256 * _MIB,
            graph_seconds=0.1,
            source="assumed: 7 ms + 20 us/token, PIECEWISE + 3 ms, eager + 12 ms",
            assumed=True,
        )

    def table(self, name: str, sizes: Iterable[int]) -> npt.NDArray[np.float64]:
        """The named cost at each of the sizes, checked.

        Args:
            name: ``"full"``, ``"piecewise"``, ``"eager"``, ``"graph_bytes"``,
                ``"pool_bytes"`` or ``"graph_seconds"``.
            sizes: Token counts.

        Returns:
            float64 array of the same length.

        Raises:
            ConfigError: A value is missing, negative or not finite.
        """
        listed = list(sizes)
        out = _many(getattr(self, name), listed)
        bad = np.flatnonzero(~(np.isfinite(out) & (out >= 0)))
        if len(bad):
            raise ConfigError(
                f"the {name} cost of {listed[bad[0]]} tokens is "
                f"{float(out[bad[0]])!r}; every size the plan may use needs a finite "
                "value of at least 0"
            )
        return out


def shifted(costs: Costs, eager_us: float) -> Costs:
    """The same costs with every eager step that much longer."""
    return Costs(
        costs.full,
        costs.piecewise,
        _Sum(costs.eager, eager_us),
        graph_bytes=costs.graph_bytes,
        pool_bytes=costs.pool_bytes,
        graph_seconds=costs.graph_seconds,
        source=costs.source,
        assumed=costs.assumed,
        eager_penalty_assumed=costs.eager_penalty_assumed,
    )
