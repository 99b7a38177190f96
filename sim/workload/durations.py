"""How long clients think or wait. A law is a frozen class (its fields are its keys, in ms) and a row in a table."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import log, log1p, sqrt
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sim.clock import NS_PER_MS, instant_ns
from sim.fields import MAX_INSTANT_MS
from sim.request import Ints
from sim.workload.law import Law

MAX_DURATION_NS = MAX_INSTANT_MS * NS_PER_MS
"""No draw is longer: what is, is cut to it (31 years)."""


class Duration(Law):
    """A law of durations, 0 or more."""

    @abstractmethod
    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        """``count`` durations in whole ns (int64), rounded half up."""


@dataclass(frozen=True)
class Fixed(Duration):
    """Always the same."""

    value: Decimal

    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        return np.full(count, instant_ns(self.value), dtype=np.int64)


@dataclass(frozen=True)
class Uniform(Duration):
    """Each whole ns from ``min`` to ``max``, both included, is as likely as any other."""

    min: Decimal
    max: Decimal

    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        return random.integers(instant_ns(self.min), instant_ns(self.max), count, dtype=np.int64, endpoint=True)


@dataclass(frozen=True)
class Exponential(Duration):
    """Memoryless, of mean ``mean``."""

    mean: Decimal

    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        return _whole(random.standard_exponential(count) * _ns(self.mean))


@dataclass(frozen=True)
class Lognormal(Duration):
    """The exponential of a normal variable, of mean ``mean`` and standard deviation ``cv * mean``.

    With s^2 = ln(1 + cv^2), the normal variable has variance s^2 and mean ln(mean) - s^2 / 2.
    """

    mean: Decimal
    cv: Decimal

    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        if not self.mean:
            return np.zeros(count, dtype=np.int64)
        variance = log1p(float(self.cv) ** 2)
        return _whole(np.exp(log(_ns(self.mean)) - variance / 2 + sqrt(variance) * random.standard_normal(count)))


@dataclass(frozen=True)
class Gamma(Duration):
    """Gamma of shape 1 / cv^2 and scale mean * cv^2: its standard deviation is ``cv * mean``."""

    mean: Decimal
    cv: Decimal

    def ns(self, count: int, random: "np.random.Generator") -> Ints:
        square = float(self.cv) ** 2
        return _whole(random.standard_gamma(1 / square, count) * (_ns(self.mean) * square))


DURATIONS: Mapping[str, type[Duration]] = MappingProxyType(
    {"fixed": Fixed, "uniform": Uniform, "exponential": Exponential, "lognormal": Lognormal, "gamma": Gamma}
)


def _ns(ms: Decimal) -> float:
    return float(ms * NS_PER_MS)


def _whole(ns: npt.NDArray[np.float64]) -> Ints:
    """Rounded half up to whole ns."""
    return np.floor(np.minimum(ns, MAX_DURATION_NS) + 0.5).astype(np.int64)
