"""How long prompts and outputs are. A distribution is a frozen class (its fields are its keys) and a row in a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sim.request import Ints


class Distribution(Protocol):
    """A law of whole numbers of tokens, each at least 1."""

    @property
    def largest(self) -> int:
        """The most tokens that can be drawn."""
        ...

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        """``count`` lengths in tokens (int64)."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    value: int

    @property
    def largest(self) -> int:
        return self.value

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        return np.full(count, self.value, dtype=np.int64)


@dataclass(frozen=True)
class Uniform:
    """Each whole number from ``min`` to ``max``, both included, is as likely as any other."""

    min: int
    max: int

    @property
    def largest(self) -> int:
        return self.max

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        return random.integers(self.min, self.max, count, dtype=np.int64, endpoint=True)


DISTRIBUTIONS: Mapping[str, type[Distribution]] = MappingProxyType({"fixed": Fixed, "uniform": Uniform})
