# SPDX-License-Identifier: Apache-2.0
"""How often drafts pass: survival per draft position, with its uncertainty.

Survival s_j is the probability that the first j drafts of a step all pass. A
step with k drafts then yields 1 + s_1 + ... + s_k tokens on average. The ratio
vLLM prints (accepted per position / number of drafts) is survival only while k
is constant: with a schedule in force it is far too low at deep positions, and a
tuner fed with it would choose k too small. It is never used here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, SupportsFloat

import numpy as np
import numpy.typing as npt

from specgrid._errors import ConfigError

_Z95 = 1.959963984540054  # 95 % of a normal distribution
_TOO_FEW_DRAFTS = 100


class _Counts(Protocol):
    """What `specgrid.io` readers return (`specgrid.io.AcceptanceCounts`)."""

    @property
    def drafted(self) -> Sequence[int]: ...
    @property
    def accepted(self) -> Sequence[int]: ...
    @property
    def at_risk(self) -> Sequence[int] | None: ...
    @property
    def approximate(self) -> bool: ...


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


class Acceptance:
    """Survival of drafts by position, how it was estimated and how surely.

    Made by one of the class methods; a plain sequence of survival values does
    wherever an `Acceptance` does, and then counts as exact.

    Attributes:
        survival: s_1, s_2, ...: probability that the first j drafts all pass.
        intervals: 95 % interval of each.
        method: "given", "independent", "product-limit" or "per-position".
        num_drafts: Drafts behind the estimate, None where values were given.
        notes: What a person should know before trusting it.
    """

    __slots__ = ("_variances", "intervals", "method", "notes", "num_drafts", "survival")

    def __init__(
        self,
        survival: tuple[float, ...],
        intervals: tuple[Interval, ...],
        variances: tuple[float, ...],
        method: str,
        num_drafts: int | None,
        notes: tuple[str, ...] = (),
    ) -> None:
        _check_survival(survival)
        self.survival = survival
        self.intervals = intervals
        self._variances = variances  # of tokens_per_step(k), k = 0, 1, ...
        self.method = method
        self.num_drafts = num_drafts
        self.notes = notes

    def __len__(self) -> int:
        return len(self.survival)

    def __repr__(self) -> str:
        values = ", ".join(f"{s:.3f}" for s in self.survival)
        return f"<Acceptance [{values}] ({self.method})>"

    def tokens_per_step(self, k: int) -> float:
        """Mean tokens a request gains in a step with k drafts, bonus included.

        Raises:
            ConfigError: If survival is not known up to position k.

        Example:
            >>> Acceptance.given([0.8, 0.5]).tokens_per_step(2)
            2.3
        """
        self._known(k)
        return 1.0 + math.fsum(self.survival[:k])

    def tokens_interval(self, k: int) -> Interval:
        """95 % interval of `tokens_per_step(k)`."""
        self._known(k)
        mean = self.tokens_per_step(k)
        half = _Z95 * math.sqrt(self._variances[k])
        return Interval(max(1.0, mean - half), min(1.0 + k, mean + half))

    def _known(self, k: int) -> None:
        if k > len(self.survival):
            raise ConfigError(
                f"acceptance has {len(self.survival)} values, so k = {k} cannot be "
                f"judged; give survival up to position {k}, or leave k = {k} out"
            )

    # ---- ways to make one ----------------------------------------------------

    @classmethod
    def given(cls, survival: Iterable[SupportsFloat]) -> Acceptance:
        """Known survival values, taken as exact.

        Args:
            survival: s_1 >= s_2 >= ..., each between 0 and 1.

        Raises:
            ConfigError: If a value is no probability, or they rise.

        Example:
            >>> Acceptance.given([0.76, 0.54, 0.39]).survival
            (0.76, 0.54, 0.39)
        """
        values = _check_survival(survival)
        exact = tuple(Interval(v, v) for v in values)
        return cls(tuple(values), exact, (0.0,) * (len(values) + 1), "given", None)

    @classmethod
    def independent(cls, rate: float, positions: int) -> Acceptance:
        """Every draft passes with the same probability, independently.

        `tokens_per_step(k)` is then (1 - rate^(k+1)) / (1 - rate), Leviathan et
        al. 2023. Real drafters are not like that; measure where you can.

        Example:
            >>> round(Acceptance.independent(0.8, 5).tokens_per_step(5), 2)
            3.69
        """
        made = cls.given(rate**j for j in range(1, positions + 1))
        made.method = "independent"
        return made

    @classmethod
    def from_steps(
        cls,
        drafted: Sequence[int] | npt.NDArray[np.integer],
        accepted: Sequence[int] | npt.NDArray[np.integer],
    ) -> Acceptance:
        """Product-limit (Kaplan-Meier) estimate from single steps.

        Unbiased although k varies: a step with few drafts says nothing about
        later positions, and is not held against them.

        Args:
            drafted: Drafts of each step of each request (`per_step_drafted` of
                `--per-request-spec-decode-metrics detailed`).
            accepted: How many of them passed, from the first on.

        Raises:
            ConfigError: If a step accepted more than it drafted, or nothing was
                drafted.

        Example:
            >>> Acceptance.from_steps([2, 2, 1, 0], [2, 0, 1, 0]).survival
            (0.6666666666666666, 0.6666666666666666)
        """
        if len(drafted) != len(accepted):
            raise ConfigError(
                f"{len(drafted)} drafted and {len(accepted)} accepted counts do not "
                "describe the same steps"
            )
        pairs = np.array([drafted, accepted])
        if pairs.dtype.kind not in "iu" and pairs.size:
            raise ConfigError("drafted and accepted must be whole numbers of tokens")
        wrong = np.flatnonzero((pairs[1] < 0) | (pairs[1] > pairs[0]))
        if len(wrong):
            step = int(wrong[0])
            raise ConfigError(
                f"step {step}: {pairs[1, step]} accepted of {pairs[0, step]} drafted "
                "is impossible"
            )
        by_k: dict[int, list[int]] = {}  # k -> steps by number accepted
        kinds, steps = np.unique(pairs, axis=1, return_counts=True)
        for (k, passed), n in zip(kinds.T.tolist(), steps.tolist(), strict=True):
            by_k.setdefault(int(k), [0] * (int(k) + 1))[int(passed)] = n
        deepest = max(by_k, default=0)
        at_risk, passed_all = [], []
        for j in range(1, deepest + 1):
            at_risk.append(sum(sum(n[j - 1 :]) for k, n in by_k.items() if k >= j))
            passed_all.append(sum(sum(n[j:]) for k, n in by_k.items() if k >= j))
        num_drafts = sum(sum(n) for k, n in by_k.items() if k > 0)
        notes = _dependence_notes(by_k)
        return cls._product_limit(at_risk, passed_all, num_drafts, notes)

    @classmethod
    def from_positions(
        cls,
        drafted: Sequence[int],
        accepted: Sequence[int],
        at_risk: Sequence[int] | None = None,
    ) -> Acceptance:
        """Estimate from counts per draft position.

        Args:
            drafted: Drafts that proposed position j (index j - 1).
            accepted: Drafts whose first j tokens all passed.
            at_risk: Drafts that proposed position j and passed all before it;
                with these the product-limit estimator is used, which needs fewer
                drafts, else accepted / drafted.

        Raises:
            ConfigError: If counts are impossible, or nothing was drafted.

        Example:
            >>> Acceptance.from_positions([100, 40], [75, 20]).survival
            (0.75, 0.5)
        """
        for name, counts in (("accepted", accepted), ("at_risk", at_risk)):
            if counts is not None and len(counts) != len(drafted):
                raise ConfigError(
                    f"{name} has {len(counts)} positions and drafted {len(drafted)}"
                )
        for j, (n, passed) in enumerate(zip(drafted, accepted, strict=True)):
            reached = n if at_risk is None else at_risk[j]
            if not 0 <= passed <= reached <= n:
                raise ConfigError(
                    f"position {j + 1}: {passed} accepted of {n} drafted "
                    f"({reached} that passed all before) is impossible"
                )
            if j and (n > drafted[j - 1] or passed > accepted[j - 1]):
                raise ConfigError(
                    f"position {j + 1} has more drafts or more accepted than position "
                    f"{j}; counts must not rise with the position"
                )
        num_drafts = int(drafted[0]) if len(drafted) else 0
        if at_risk is not None:
            return cls._product_limit(list(at_risk), list(accepted), num_drafts, [])
        return cls._per_position(list(drafted), list(accepted))

    @classmethod
    def from_counters(
        cls,
        num_drafts: int,
        num_draft_tokens: int,
        accepted_per_position: Sequence[int],
        k: int | None = None,
    ) -> Acceptance:
        """Estimate from vLLM's counters, where k was constant.

        vLLM exports drafts, draft tokens and accepted tokens per position, but
        not how many drafts had each position; while k is constant that is the
        number of drafts for every position, and only then can this be used.

        Args:
            num_drafts: `vllm:spec_decode_num_drafts` of the window.
            num_draft_tokens: `vllm:spec_decode_num_draft_tokens`.
            accepted_per_position:
                `vllm:spec_decode_num_accepted_tokens_per_pos`, from position 0.
            k: The constant k, if known.

        Raises:
            ConfigError: If k varied, or nothing was drafted.

        Example:
            >>> Acceptance.from_counters(100, 300, [76, 54, 39]).survival
            (0.76, 0.54, 0.39)
            >>> Acceptance.from_counters(100, 250, [76, 54, 39])
            Traceback (most recent call last):
            ...
            specgrid._errors.ConfigError: k varied in this window (250 draft tokens
            in 100 drafts, 2.50 each), so ...
        """
        if num_drafts <= 0:
            raise ConfigError(
                "zero drafts in this window; take it while speculation is on"
            )
        mean = num_draft_tokens / num_drafts
        constant = int(mean) if k is None else k
        deeper = sum(accepted_per_position[constant:])
        if num_draft_tokens != constant * num_drafts or deeper:
            raise ConfigError(
                f"k varied in this window ({num_draft_tokens} draft tokens in "
                f"{num_drafts} drafts, {mean:.2f} each), so accepted per position / "
                "drafts is not survival; take a window of constant k, or "
                "--per-request-spec-decode-metrics detailed"
            )
        accepted = [*accepted_per_position[:constant]]
        accepted += [0] * (constant - len(accepted))
        made = cls.from_positions([num_drafts] * constant, accepted)
        if k is None and constant < len(accepted_per_position):
            made.notes += (
                f"k is taken as constant {constant}: {num_drafts} drafts have exactly "
                f"{num_draft_tokens} tokens and none passed position {constant}",
            )
        return made

    @classmethod
    def from_counts(cls, counts: _Counts) -> Acceptance:
        """Estimate from what a reader returns (`specgrid.io.AcceptanceCounts`)."""
        made = cls.from_positions(counts.drafted, counts.accepted, counts.at_risk)
        if counts.approximate:
            made.notes += ("counts were rebuilt from rounded rates",)
        return made

    # ---- the two estimators --------------------------------------------------

    @classmethod
    def _product_limit(
        cls,
        at_risk: list[int],
        passed: list[int],
        num_drafts: int,
        notes: list[str],
    ) -> Acceptance:
        """s_j as a product of conditional rates; variance by Greenwood."""
        at_risk, passed = _known_positions(at_risk, passed, num_drafts, notes)
        survival: list[float] = []
        hazard: list[float] = []  # running sum of Greenwood's terms
        product, total = 1.0, 0.0
        for n, x in zip(at_risk, passed, strict=True):
            product *= x / n
            total += (n - x) / (n * x) if x else 0.0
            survival.append(product)
            hazard.append(total)

        def covariance(i: int, j: int) -> float:
            return survival[i] * survival[j] * hazard[min(i, j)]

        return cls._made(survival, covariance, "product-limit", num_drafts, notes)

    @classmethod
    def _per_position(cls, drafted: list[int], accepted: list[int]) -> Acceptance:
        """s_j as accepted / drafted of each position."""
        notes: list[str] = []
        num_drafts = drafted[0] if drafted else 0
        drafted, accepted = _known_positions(drafted, accepted, num_drafts, notes)
        raw = [x / n for n, x in zip(drafted, accepted, strict=True)]
        survival: list[float] = []
        for j, value in enumerate(raw):
            if survival and value > survival[-1]:
                notes.append(
                    f"position {j + 1} was estimated above position {j} "
                    f"({value:.3f} against {survival[-1]:.3f}) and is taken as equal"
                )
                value = survival[-1]
            survival.append(value)

        def covariance(i: int, j: int) -> float:
            i, j = min(i, j), max(i, j)
            # Both positions are counted on the drafts that had the deeper one.
            return survival[j] * (1 - survival[i]) / drafted[i]

        return cls._made(survival, covariance, "per-position", num_drafts, notes)

    @classmethod
    def _made(
        cls,
        survival: list[float],
        covariance: object,
        method: str,
        num_drafts: int,
        notes: list[str],
    ) -> Acceptance:
        assert callable(covariance)
        variances = [0.0]
        intervals = []
        for j, value in enumerate(survival):
            own = covariance(j, j)
            cross = math.fsum(covariance(i, j) for i in range(j))
            variances.append(variances[-1] + own + 2 * cross)
            intervals.append(_wilson(value, own, num_drafts))
        if num_drafts < _TOO_FEW_DRAFTS:
            notes.append(f"only {num_drafts} drafts: the intervals are wide")
        return cls(
            tuple(survival),
            tuple(intervals),
            tuple(variances),
            method,
            num_drafts,
            tuple(notes),
        )


def _check_survival(survival: Iterable[SupportsFloat]) -> list[float]:
    """Survival values as floats, each a probability and none above the one before."""
    values: list[float] = []
    for position, value in enumerate(survival, 1):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number <= 1.0:
            hint = "; write 0.76 for 76 %" if 1.0 < number <= 100.0 else ""
            raise ConfigError(
                f"acceptance at position {position} must be between 0 and 1, "
                f"not {value!r}{hint}"
            )
        if values and number > values[-1]:
            raise ConfigError(
                f"acceptance must not rise: position {position} has {number:g} "
                f"after {values[-1]:g}; give the probability that the first "
                f"{position} drafts all pass, not that draft {position} passes"
            )
        values.append(number)
    return values


def _known_positions(
    exposed: list[int], passed: list[int], num_drafts: int, notes: list[str]
) -> tuple[list[int], list[int]]:
    """Drops positions nobody reached, whose survival the data do not tell."""
    if num_drafts <= 0:
        raise ConfigError(
            "zero drafts: acceptance cannot be estimated; take data while "
            "speculation is on"
        )
    known = next((j for j, n in enumerate(exposed) if n == 0), len(exposed))
    if known < len(exposed):
        notes.append(
            f"no draft reached position {known + 1}: survival is unknown from there on"
        )
    return exposed[:known], passed[:known]


def _wilson(value: float, variance: float, num_drafts: int) -> Interval:
    """Wilson's interval at the sample size that would give this variance."""
    size = value * (1 - value) / variance if variance > 0 else float(num_drafts)
    z2 = _Z95 * _Z95 / size
    centre = (value + z2 / 2) / (1 + z2)
    half = _Z95 * math.sqrt(value * (1 - value) / size + z2 / (4 * size)) / (1 + z2)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def _dependence_notes(by_k: dict[int, list[int]]) -> list[str]:
    """Warns when the first draft passes more often at one k than at another.

    Then k depends on how well the request drafts, and pooling steps of
    different k says nothing true about either.
    """
    rates = []
    for k, counts in sorted(by_k.items()):
        total = sum(counts)
        if k > 0 and total >= _TOO_FEW_DRAFTS:
            rates.append((k, (total - counts[0]) / total, total))
    if len(rates) < 2:
        return []
    low = min(rates, key=lambda r: r[1])
    high = max(rates, key=lambda r: r[1])
    pooled = (low[1] * low[2] + high[1] * high[2]) / (low[2] + high[2])
    spread = math.sqrt(pooled * (1 - pooled) * (1 / low[2] + 1 / high[2]))
    if high[1] - low[1] < 0.02 or high[1] - low[1] < 4 * spread:
        return []
    return [
        f"the first draft passes {high[1]:.0%} of the time at k = {high[0]} but "
        f"{low[1]:.0%} at k = {low[0]}: k seems to depend on the request or its "
        "context, and one pooled survival is then biased; estimate per group"
    ]
