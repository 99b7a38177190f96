"""Lengths from laws of real numbers, rounded half up to whole tokens.

``min`` and ``max`` restrict a law: a length has the law's probability given that the rounded value lies between them.
No probability piles up at the bounds, and ``mean`` and ``cv`` are those of the law before it is restricted and rounded.
Without ``min``, what rounds to 0 is 1. Only ``normal`` is clipped instead: there, what lies outside is moved to the
bound, as in the load generators that have it.
"""

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import log, log1p, sqrt

import numpy as np

from sim.fields import MAX_TOKENS
from sim.request import Ints
from sim.workload.distribution import Distribution
from sim.workload.law import Floats, Within

MAX_TABLE = 2**18
"""Most lengths whose probabilities are worked out beforehand."""

LEAST_INSIDE = 1e-9
"""A law that has less probability between its bounds is refused: its floats can no longer tell what lies there."""


@dataclass(frozen=True)
class Continuous(Distribution):
    """A law of real numbers above 0 with this mean and this coefficient of variation."""

    mean: Decimal
    cv: Decimal
    min: int | None = None
    max: int | None = None

    @abstractmethod
    def below(self, value: Floats | float) -> Floats:
        """The probability at or below ``value``."""

    @abstractmethod
    def above(self, value: Floats | float) -> Floats:
        """The probability above ``value``, exact where it is small."""

    @abstractmethod
    def with_below(self, probability: Floats) -> Floats:
        """The value with so much probability below it."""

    @abstractmethod
    def with_above(self, probability: Floats) -> Floats:
        """The value with so much probability above it."""

    def problem(self) -> tuple[Within, str] | None:
        if self.min is not None and self.max is not None and self.max < self.min:
            return "max", f"too small; at least min, {self.min}"
        if self.min is None and self.max is None:
            return None
        low, high = self._edges
        inside = float(
            self.below(high) - self.below(low) if self.below(low) < 0.5 else self.above(low) - self.above(high)
        )
        if inside < LEAST_INSIDE:
            key = "max" if self.max is not None and self.max < self.mean else "min"
            return key, f"only {inside:.1g} of the law lies between min and max; at least {LEAST_INSIDE}"
        return None

    @property
    def _edges(self) -> tuple[float, float]:
        """The values that round to an allowed length."""
        return (0.0 if self.min is None else self.min - 0.5), self.largest + 0.5

    @property
    def _from_above(self) -> bool:
        """Whether all lies far up in the law, where floats are finer seen from above."""
        return float(self.below(self._edges[0])) > 0.99

    @property
    def _inside(self) -> tuple[float, float]:
        """The probabilities below (or above) the edges."""
        beyond = self.above if self._from_above else self.below
        low, high = self._edges
        return float(beyond(low)), float(beyond(high))

    @property
    def largest(self) -> int:
        return self.max or MAX_TOKENS

    def quantile(self, uniforms: Floats) -> Ints:
        first, last = self._inside
        inverse = self.with_above if self._from_above else self.with_below
        values = inverse(first + uniforms * (last - first))
        values += 0.5
        return np.clip(np.floor(values, out=values), self.min or 1, self.largest).astype(np.int64)

    def cdf(self, tokens: Ints) -> Floats:
        first, last = self._inside
        beyond = self.above if self._from_above else self.below
        shares = np.clip((beyond(np.maximum(tokens + 0.5, 0)) - first) / (last - first), 0, 1)
        return np.where(tokens < (self.min or 1), 0.0, shares)


@dataclass(frozen=True)
class Lognormal(Continuous):
    """exp(N(mu, sigma^2)) with sigma^2 = ln(1 + cv^2) and mu = ln(mean) - sigma^2 / 2."""

    @property
    def _mu_sigma(self) -> tuple[float, float]:
        square = log1p(float(self.cv) ** 2)
        return log(self.mean) - square / 2, sqrt(square)

    def _score(self, value: Floats | float) -> Floats:
        mu, sigma = self._mu_sigma
        with np.errstate(divide="ignore"):
            return (np.log(value) - mu) / sigma

    def below(self, value: Floats | float) -> Floats:
        from scipy.special import ndtr

        return ndtr(self._score(value))  # type: ignore[no-any-return]

    def above(self, value: Floats | float) -> Floats:
        from scipy.special import ndtr

        return ndtr(-self._score(value))  # type: ignore[no-any-return]

    def with_below(self, probability: Floats) -> Floats:
        from scipy.special import ndtri

        mu, sigma = self._mu_sigma
        return np.exp(mu + sigma * ndtri(probability))  # type: ignore[no-any-return]

    def with_above(self, probability: Floats) -> Floats:
        from scipy.special import ndtri

        mu, sigma = self._mu_sigma
        return np.exp(mu - sigma * ndtri(probability))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Gamma(Continuous):
    """Gamma(k, scale mean / k) with k = 1 / cv^2; cv 1 is the exponential law."""

    @cached_property
    def _table(self) -> Floats:
        """The distribution function from the least length on, up to nearly all of the law but not too many lengths."""
        least = self.min or 1
        nearly = int(super().quantile(np.array([0.999]))[0])
        return self.cdf(np.arange(least, min(nearly, least + MAX_TABLE), dtype=np.int64))

    def quantile(self, uniforms: Floats) -> Ints:
        if self.cv == 1:
            return super().quantile(uniforms)
        # the inverse of the incomplete gamma function takes a microsecond, looking up a tenth of it
        lengths = np.searchsorted(self._table, uniforms, side="right") + (self.min or 1)
        beyond = uniforms >= (self._table[-1] if len(self._table) else 0)
        lengths[beyond] = super().quantile(uniforms[beyond])
        return lengths

    @property
    def _shape(self) -> float:
        return float(self.cv) ** -2

    @property
    def _scale(self) -> float:
        return float(self.mean) * float(self.cv) ** 2

    def below(self, value: Floats | float) -> Floats:
        from scipy.special import gammainc

        return gammainc(self._shape, value / self._scale)  # type: ignore[no-any-return]

    def above(self, value: Floats | float) -> Floats:
        from scipy.special import gammaincc

        return gammaincc(self._shape, value / self._scale)  # type: ignore[no-any-return]

    def with_below(self, probability: Floats) -> Floats:
        from scipy.special import gammaincinv

        if self.cv == 1:
            return -float(self.mean) * np.log1p(-probability)
        return gammaincinv(self._shape, probability) * self._scale  # type: ignore[no-any-return]

    def with_above(self, probability: Floats) -> Floats:
        from scipy.special import gammainccinv

        if self.cv == 1:
            return -float(self.mean) * np.log(probability)
        return gammainccinv(self._shape, probability) * self._scale  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Normal(Distribution):
    """N(mean, std^2), rounded; what lies outside [min, max] is moved to the bound (min is 1 when it is not given)."""

    mean: Decimal
    std: Decimal
    min: int | None = None
    max: int | None = None

    def problem(self) -> tuple[Within, str] | None:
        few = self.min is not None and self.max is not None and self.max < self.min
        return ("max", f"too small; at least min, {self.min}") if few else None

    @property
    def largest(self) -> int:
        return self.max or MAX_TOKENS

    def quantile(self, uniforms: Floats) -> Ints:
        from scipy.special import ndtri

        # a number of exactly 0 would be minus infinity, which times a std of 0 is no number
        scores = ndtri(np.maximum(uniforms, 2.0**-54))
        values = np.floor(float(self.mean) + float(self.std) * scores + 0.5)
        lengths: Ints = np.clip(values, self.min or 1, self.largest).astype(np.int64)
        return lengths

    def cdf(self, tokens: Ints) -> Floats:
        from scipy.special import ndtr

        distance = tokens + 0.5 - float(self.mean)
        shares = ndtr(distance / float(self.std)) if self.std else (distance > 0).astype(np.float64)
        return np.where(tokens < (self.min or 1), 0.0, np.where(tokens >= self.largest, 1.0, shares))
