"""What a law of lengths is, and the laws of whole numbers."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import ceil, floor, log1p
from typing import Protocol

import numpy as np

from sim.fields import MAX_TOKENS
from sim.request import Ints
from sim.workload.law import Floats, Law, Within, parts

MAX_RANKS = 2**22
"""Most values of a Zipf law: its table of cumulated probabilities takes 32 MiB."""


class Distribution(Law):
    """A law of whole numbers of tokens, each at least 1."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The most tokens that can be drawn; the most that there are, if the law has no bound."""

    @abstractmethod
    def quantile(self, uniforms: Floats) -> Ints:
        """For each number in [0, 1) the least length of which so much probability is at or below (int64)."""

    @abstractmethod
    def cdf(self, tokens: Ints) -> Floats:
        """How probable it is that a length is at most this."""

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        """``count`` lengths in tokens (int64), each from one number of ``random``."""
        lengths = np.empty(count, dtype=np.int64)
        for some in parts(count):
            lengths[some] = self.quantile(random.random(some.stop - some.start))
        return lengths


@dataclass(frozen=True)
class Fixed(Distribution):
    """Always the same."""

    value: int

    @property
    def largest(self) -> int:
        return self.value

    def quantile(self, uniforms: Floats) -> Ints:
        return np.full(len(uniforms), self.value, dtype=np.int64)

    def cdf(self, tokens: Ints) -> Floats:
        return (tokens >= self.value).astype(np.float64)

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        return np.full(count, self.value, dtype=np.int64)


class Even(Distribution):
    """Each whole number from ``bounds[0]`` to ``bounds[1]``, both included, is as likely as any other."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int]: ...

    @property
    def largest(self) -> int:
        return self.bounds[1]

    def quantile(self, uniforms: Floats) -> Ints:
        least, most = self.bounds
        return np.minimum(least + (uniforms * (most - least + 1)).astype(np.int64), most)

    def cdf(self, tokens: Ints) -> Floats:
        least, most = self.bounds
        return np.clip((tokens - (least - 1)) / (most - least + 1), 0, 1)

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        return random.integers(*self.bounds, count, dtype=np.int64, endpoint=True)


@dataclass(frozen=True)
class Uniform(Even):
    """From ``min`` to ``max``, both included."""

    min: int
    max: int

    def problem(self) -> tuple[Within, str] | None:
        return ("max", f"too small; at least min, {self.min}") if self.max < self.min else None

    @property
    def bounds(self) -> tuple[int, int]:
        return self.min, self.max


@dataclass(frozen=True)
class UniformVllm(Even):
    """As vLLM's benchmark reads its range ratio r: from floor(length (1 - r)) to ceil(length (1 + r)), at least 1."""

    length: int
    range_ratio: Decimal

    def problem(self) -> tuple[Within, str] | None:
        if self.range_ratio == 1:
            return "range_ratio", "too large; below 1 for vLLM"
        if self.bounds[1] > MAX_TOKENS:
            return "length", f"too large; length (1 + range_ratio) is at most {MAX_TOKENS}"
        return None

    @property
    def bounds(self) -> tuple[int, int]:
        return max(floor(self.length * (1 - self.range_ratio)), 1), ceil(self.length * (1 + self.range_ratio))


@dataclass(frozen=True)
class UniformSglang(Even):
    """As SGLang's benchmark reads its range ratio r: from floor(length r), at least 1, to length."""

    length: int
    range_ratio: Decimal

    @property
    def bounds(self) -> tuple[int, int]:
        return max(floor(self.length * self.range_ratio), 1), self.length


@dataclass(frozen=True)
class Geometric(Distribution):
    """On 1, 2, ... with this mean, P(k) = (1 - p)^(k - 1) p with p = 1 / mean; given that it lies in [min, max]."""

    mean: Decimal
    min: int | None = None
    max: int | None = None

    def problem(self) -> tuple[Within, str] | None:
        if self.min is not None and self.max is not None and self.max < self.min:
            return "max", f"too small; at least min, {self.min}"
        if float(self.mean) == 1 and (self.min or 1) > 1:
            return "min", "too large; every length of mean 1 is 1"
        return None

    @property
    def largest(self) -> int:
        return self.max or MAX_TOKENS

    @property
    def _log_not(self) -> float:
        """Of the probability that it goes on; for a mean of 1, where that is 0, of the least float there is."""
        return log1p(-1 / float(self.mean)) if float(self.mean) > 1 else -745.0

    @property
    def _inside(self) -> float:
        """Of a law that begins at ``min``, as this one does by its lack of memory, the probability up to ``max``."""
        return float(-np.expm1((self.largest - (self.min or 1) + 1) * self._log_not))

    def quantile(self, uniforms: Floats) -> Ints:
        steps = np.log1p(-uniforms * self._inside) / self._log_not
        least = self.min or 1
        lengths: Ints = np.clip(np.ceil(steps) + (least - 1), least, self.largest).astype(np.int64)
        return lengths

    def cdf(self, tokens: Ints) -> Floats:
        steps = np.clip(tokens - ((self.min or 1) - 1), 0, None)
        shares: Floats = -np.expm1(steps * self._log_not) / self._inside
        return np.minimum(shares, 1.0)


class Weighted(Distribution):
    """Each of some lengths with a probability of its own."""

    @property
    @abstractmethod
    def _table(self) -> tuple[Ints, Floats]:
        """The lengths, ascending, and of each the weight of all up to it."""

    @property
    def largest(self) -> int:
        return int(self._table[0][-1])

    def quantile(self, uniforms: Floats) -> Ints:
        lengths, cumulated = self._table
        places = np.searchsorted(cumulated, uniforms * cumulated[-1], side="right")
        chosen: Ints = lengths[np.minimum(places, len(lengths) - 1)]
        return chosen

    def cdf(self, tokens: Ints) -> Floats:
        lengths, cumulated = self._table
        shares: Floats = np.concatenate([[0.0], cumulated / cumulated[-1]])
        found: Floats = shares[np.searchsorted(lengths, tokens, side="right")]
        return found


@dataclass(frozen=True)
class Choice(Weighted):
    """One of ``values``, with probabilities in proportion to ``weights``; without weights all alike."""

    values: tuple[int, ...]
    weights: tuple[Decimal, ...] | None = None

    def problem(self) -> tuple[Within, str] | None:
        if self.weights is None:
            return None
        if len(self.weights) != len(self.values):
            return "weights", f"{len(self.weights)} weights for {len(self.values)} values; as many"
        return None if any(self.weights) else ("weights", "all are 0; at least one above 0")

    @cached_property
    def _table(self) -> tuple[Ints, Floats]:
        values, places = np.unique(np.array(self.values, dtype=np.int64), return_inverse=True)
        weights = np.array([float(w) for w in self.weights or (1,) * len(self.values)])
        summed = np.bincount(places, weights)
        return values[summed > 0], summed[summed > 0].cumsum()


@dataclass(frozen=True)
class Zipf(Weighted):
    """From ``min`` to ``max``, the r-th of them with a probability in proportion to r^-theta, as in Vidur."""

    theta: Decimal
    min: int
    max: int

    def problem(self) -> tuple[Within, str] | None:
        if self.max < self.min:
            return "max", f"too small; at least min, {self.min}"
        if self.max - self.min >= MAX_RANKS:
            return "max", f"too large; at most {MAX_RANKS} lengths from min on, {self.min + MAX_RANKS - 1}"
        return None

    @property
    def largest(self) -> int:
        return self.max

    @cached_property
    def _table(self) -> tuple[Ints, Floats]:
        ranks = np.arange(self.max - self.min + 1, dtype=np.int64)
        weights = (ranks + 1.0) ** -float(self.theta)
        return ranks + self.min, weights.cumsum()


@dataclass(frozen=True)
class Sample(Weighted):
    """Lengths that were observed, each as likely as it was frequent."""

    observed: Ints

    @cached_property
    def _table(self) -> tuple[Ints, Floats]:
        values, counts = np.unique(self.observed, return_counts=True)
        return values, counts.cumsum().astype(np.float64)


@dataclass(frozen=True)
class Empirical(Distribution):
    """The prompts or the outputs (``column``) of a trace's rows, drawn with replacement.

    Only a description: who knows where the scenario lies reads the rows and makes a :class:`Sample` of them.
    """

    path: str
    column: str
    format: str = "auto"

    @property
    def largest(self) -> int:
        return MAX_TOKENS

    def quantile(self, uniforms: Floats) -> Ints:
        raise TypeError("lengths whose trace has not been read")

    def cdf(self, tokens: Ints) -> Floats:
        raise TypeError("lengths whose trace has not been read")


class Component(Protocol):
    """One of the laws of a mixture."""

    @property
    def weight(self) -> Decimal: ...

    @property
    def law(self) -> Distribution: ...


@dataclass(frozen=True)
class Mixture(Distribution):
    """Each length is of one of several laws, drawn anew for it with probabilities in proportion to their weights."""

    components: Sequence[Component]

    def problem(self) -> tuple[Within, str] | None:
        none = not any(component.weight for component in self.components)
        return ("components", "all weights are 0; at least one above 0") if none else None

    @cached_property
    def _laws(self) -> tuple[list[Distribution], Floats]:
        """The laws that have a weight, and their shares."""
        weighty = [component for component in self.components if component.weight]
        weights = np.array([float(component.weight) for component in weighty])
        return [component.law for component in weighty], weights / weights.sum()

    @property
    def largest(self) -> int:
        return max(law.largest for law in self._laws[0])

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        """The number that chooses the law is, within the share of this law, the one that draws from it."""
        laws, shares = self._laws
        ends = shares.cumsum()
        lengths = np.empty(count, dtype=np.int64)
        for some in parts(count):
            uniforms, drawn = random.random(some.stop - some.start), lengths[some]
            chosen = np.minimum(np.searchsorted(ends, uniforms, side="right"), len(laws) - 1)
            for place, law in enumerate(laws):
                mine = chosen == place
                within = (uniforms[mine] - (ends[place] - shares[place])) / shares[place]
                drawn[mine] = law.quantile(np.clip(within, 0, np.nextafter(1, 0)))
        return lengths

    def quantile(self, uniforms: Floats) -> Ints:
        """Between the quantiles of the laws, the least length with enough at or below it, by halving."""
        each = [law.quantile(uniforms) for law in self._laws[0]]
        low: Ints = np.minimum.reduce(each)
        high: Ints = np.maximum.reduce(each)
        while bool((low < high).any()):
            middle = (low + high) // 2
            enough = self.cdf(middle) >= uniforms
            low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
        return low

    def cdf(self, tokens: Ints) -> Floats:
        laws, shares = self._laws
        return sum((share * law.cdf(tokens) for law, share in zip(laws, shares, strict=True)), np.zeros(len(tokens)))
