"""Arrivals whose gaps are independent and of one law; and those that leave nothing to chance."""

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import gamma, sqrt

import numpy as np

from sim.clock import NS_PER_S, instant_ns
from sim.request import Ints
from sim.workload.law import Floats, Within, parts
from sim.workload.process import MAX_INSTANT_NS, Process, summed, too_slow


@dataclass(frozen=True)
class Given(Process):
    """Times as they are given, as many as there are requests, rounded half up to whole ns."""

    times_ms: tuple[Decimal, ...]

    def problem(self) -> tuple[Within, str] | None:
        for place, (before, time) in enumerate(pairwise(self.times_ms), 1):
            if time < before:
                return ("times_ms", place), f"too small; times ascend, at least the one before, {before:f}"
        return None

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        return np.fromiter(map(instant_ns, self.times_ms), dtype=np.int64, count=count)


@dataclass(frozen=True)
class Deterministic(Process):
    """The k-th request, counted from 0, arrives after k / rate, rounded half up to whole ns, whatever the rate."""

    rate_per_s: Decimal

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.rate_per_s)

    @property
    def gap_cv(self) -> float:
        return 0.0

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        times = even(Fraction(self.rate_per_s), 0, count)
        if times is None:
            raise too_slow(self, count)
        return times


def even(rate_per_s: Fraction, first: int, count: int) -> Ints | None:
    """``count`` times, the k-th at k / rate for k from ``first`` on, each rounded half up; None beyond the clock."""
    up, down = rate_per_s.as_integer_ratio()
    if (first + count - 1) * down * NS_PER_S > MAX_INSTANT_NS * up:
        return None
    whole, rest = divmod(down * NS_PER_S, up)  # of a gap, in ns and in parts of which ``up`` make a ns
    if 2 * (first + count) * up < 2**62:
        places = np.arange(first, first + count, dtype=np.int64)
        return places * whole + (2 * rest * places + up) // (2 * up)
    times = (place * whole + (2 * rest * place + up) // (2 * up) for place in range(first, first + count))
    return np.fromiter(times, dtype=np.int64, count=count)


class Renewal(Process):
    """Independent gaps of one law, one of them before the first request."""

    @abstractmethod
    def gaps(self, count: int, random: "np.random.Generator") -> Floats:
        """Gaps whose mean is 1."""

    @property
    @abstractmethod
    def mean_rate_per_s(self) -> Fraction: ...

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        gaps = self.gaps(count, random)
        gaps *= float(NS_PER_S / self.mean_rate_per_s)
        times = summed(gaps)
        if times is None:
            raise too_slow(self, count)
        return times


@dataclass(frozen=True)
class Poisson(Renewal):
    """Gaps of law Exp(rate)."""

    rate_per_s: Decimal | Fraction

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.rate_per_s)

    @property
    def gap_cv(self) -> float:
        return 1.0

    def gaps(self, count: int, random: "np.random.Generator") -> Floats:
        return random.standard_exponential(count)


@dataclass(frozen=True)
class Gamma(Renewal):
    """Gaps of law Gamma(k, scale 1 / (rate k)): mean 1 / rate, CV 1 / sqrt(k).

    ``burstiness`` is this shape k, as vLLM's client calls it: below 1 burstier than Poisson, 1 Poisson's law, infinite
    constant gaps. ``cv`` says the same as k = 1 / cv^2.
    """

    rate_per_s: Decimal
    cv: Decimal | None = None
    burstiness: Decimal | None = None

    def problem(self) -> tuple[Within, str] | None:
        if self.cv is None and self.burstiness is None:
            return "cv", "missing, and burstiness too; exactly one of them"
        if self.cv is not None and self.burstiness is not None:
            return "burstiness", "together with cv; exactly one of them, burstiness = 1 / cv^2"
        return None

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.rate_per_s)

    @property
    def shape(self) -> float:
        return float(self.burstiness) if self.burstiness is not None else float(self.cv or 1) ** -2

    @property
    def gap_cv(self) -> float:
        return float(self.cv) if self.cv is not None else self.shape**-0.5

    def gaps(self, count: int, random: "np.random.Generator") -> Floats:
        return random.standard_gamma(self.shape, count) / self.shape

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        if self.shape < float("inf"):
            return super().arrival_ns(count, random)
        times = even(Fraction(self.rate_per_s), 1, count)
        if times is None:
            raise too_slow(self, count)
        return times


@dataclass(frozen=True)
class Weibull(Renewal):
    """Gaps of a Weibull law with this shape and mean 1 / rate; below 1 burstier than Poisson, 1 Poisson's law."""

    rate_per_s: Decimal
    shape: Decimal

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.rate_per_s)

    @property
    def gap_cv(self) -> float:
        each = 1 / float(self.shape)
        return sqrt(max(gamma(1 + 2 * each) / gamma(1 + each) ** 2 - 1, 0))

    def gaps(self, count: int, random: "np.random.Generator") -> Floats:
        return random.weibull(float(self.shape), count) / gamma(1 + 1 / float(self.shape))


@dataclass(frozen=True)
class Hyperexponential(Renewal):
    """Each gap is exponential, of a branch drawn anew for it.

    Either ``rate_per_s`` and ``cv`` above 1 give two branches of balanced means (p1 / r1 = p2 / r2), or
    ``probabilities`` and ``rates_per_s`` name the branches.
    """

    rate_per_s: Decimal | None = None
    cv: Decimal | None = None
    probabilities: tuple[Decimal, ...] | None = None
    rates_per_s: tuple[Decimal, ...] | None = None

    def problem(self) -> tuple[Within, str] | None:
        by_cv = (self.rate_per_s, self.cv)
        branches = (self.probabilities, self.rates_per_s)
        if (None in by_cv) == (None in branches) or by_cv.count(None) == 1 or branches.count(None) == 1:
            return (), "does not say which gaps; either rate_per_s and cv, or probabilities and rates_per_s"
        if self.cv is not None and self.cv <= 1:
            return "cv", "too small; above 1 (process gamma takes less)"
        if self.probabilities is not None and self.rates_per_s is not None:
            if len(self.probabilities) != len(self.rates_per_s):
                count = len(self.rates_per_s)
                return "rates_per_s", f"{count} rates for {len(self.probabilities)} probabilities; as many"
            if abs(sum(self.probabilities, Decimal(-1))) > Decimal("1e-9"):
                return "probabilities", f"their sum is {float(sum(self.probabilities)):.9g}; must be 1"
            if not all(self.rates_per_s):
                return ("rates_per_s", self.rates_per_s.index(Decimal(0))), "too small; above 0"
        return None

    @cached_property
    def _branches(self) -> tuple[Floats, Floats]:
        """Their probabilities, and their mean gaps in s."""
        if self.probabilities is not None and self.rates_per_s is not None:
            chances = np.array([float(p) for p in self.probabilities])
            return chances / chances.sum(), np.array([1 / float(rate) for rate in self.rates_per_s])
        square = float(self.cv or 1) ** 2
        upper = (1 + sqrt((square - 1) / (square + 1))) / 2
        chances = np.array([upper, 1 / (square + 1) / (2 * upper)])  # p1 p2 = 1 / (2 (cv^2 + 1)), without cancellation
        return chances, 1 / (2 * chances * float(self.rate_per_s or 1))

    @property
    def mean_rate_per_s(self) -> Fraction:
        if self.rate_per_s is not None:
            return Fraction(self.rate_per_s)
        chances, means = self._branches
        return 1 / Fraction(float(chances @ means))

    @property
    def gap_cv(self) -> float:
        chances, means = self._branches
        return sqrt(2 * (chances @ means**2) / (chances @ means) ** 2 - 1)

    def gaps(self, count: int, random: "np.random.Generator") -> Floats:
        chances, means = self._branches
        bounds, relative = np.cumsum(chances)[:-1], means / (chances @ means)
        gaps = np.empty(count)
        for some in parts(count):
            drawn = random.random((some.stop - some.start, 2))
            branch = np.searchsorted(bounds, drawn[:, 0], side="right")
            gaps[some] = -np.log1p(-drawn[:, 1]) * relative[branch]
        return gaps
