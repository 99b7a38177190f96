"""Somebody's own laws of arrivals and of lengths: what they draw is looked at before anybody uses it."""

from fractions import Fraction
from typing import Any

import numpy as np

from sim.fields import MAX_INSTANT_MS, MAX_TOKENS
from sim.own_keys import OwnThing
from sim.request import Ints
from sim.workload.distribution import Distribution
from sim.workload.law import Floats
from sim.workload.process import MAX_INSTANT_NS, Process


def _column(row: OwnThing, method: str, answer: Any, count: int) -> Ints:
    """The answer as int64, one number for each of ``count`` requests."""
    try:
        column = np.asarray(answer)
    except (TypeError, ValueError):
        column = np.empty(0, dtype=object)
    function = getattr(row.make, method)
    if column.shape != (count,):
        row.guard.refuse(f"{method} answers an array of shape {column.shape}; {count} numbers", function)
    if column.dtype.kind not in "iu":
        row.guard.refuse(f"{method} answers numbers of type {column.dtype}; whole numbers (int64)", function)
    if column.dtype.kind == "u" and column.max() > np.iinfo(np.int64).max:
        row.guard.refuse(f"{method} answers {column.max()}; too large for int64", function)
    return np.array(column, dtype=np.int64)


class OwnProcess(Process):
    """Somebody's law of arrivals: it has ``arrival_ns(count, random)``, and may have ``mean_rate_per_s``."""

    def __init__(self, row: OwnThing, law: Any) -> None:
        self._row = row
        self._law = law

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        rate = self._row.guard.call(getattr, self._law, "mean_rate_per_s", None)
        return None if rate is None else self._row.guard.call(Fraction, rate)

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        guard, method = self._row.guard, getattr(self._row.make, "arrival_ns")  # noqa: B009  # somebody's class
        times = _column(self._row, "arrival_ns", guard.call(self._law.arrival_ns, count, random), count)
        if times[0] < 0:
            guard.refuse(f"arrival_ns answers {times[0]} ns as the first arrival; 0 or later", method)
        back = np.flatnonzero(np.diff(times) < 0)
        if len(back):
            place = int(back[0])
            went = f"{times[place + 1]} ns after {times[place]} ns"
            guard.refuse(f"arrival_ns goes back in time: number {place + 1} (from 0) is {went}; ascending", method)
        if times[-1] > MAX_INSTANT_NS:
            guard.refuse(f"arrival_ns ends at {times[-1]} ns; at most {MAX_INSTANT_MS} ms", method)
        return times


class OwnDistribution(Distribution):
    """Somebody's law of lengths: it has ``tokens(count, random)``, and may have ``largest`` and ``quantile``."""

    def __init__(self, row: OwnThing, law: Any) -> None:
        self._row = row
        self._law = law

    @property
    def largest(self) -> int:
        largest = self._row.guard.call(getattr, self._law, "largest", MAX_TOKENS)
        if type(largest) is not int or not 1 <= largest <= MAX_TOKENS:
            self._row.guard.refuse(f"largest = {largest!r}; an integer from 1 to {MAX_TOKENS}")
        return largest

    def tokens(self, count: int, random: "np.random.Generator") -> Ints:
        return self._checked("tokens", self._row.guard.call(self._law.tokens, count, random), count)

    def quantile(self, uniforms: Floats) -> Ints:
        if not callable(getattr(self._law, "quantile", None)):
            self._row.guard.refuse(f"the class {self._row.make.__name__} has no quantile, which a correlation needs")
        return self._checked("quantile", self._row.guard.call(self._law.quantile, uniforms), len(uniforms))

    def cdf(self, tokens: Ints) -> Floats:
        self._row.guard.refuse(f"the class {self._row.make.__name__} has no cdf")

    def _checked(self, name: str, answer: Any, count: int) -> Ints:
        lengths = _column(self._row, name, answer, count)
        method = getattr(self._row.make, name)
        wrong = np.flatnonzero((lengths < 1) | (lengths > self.largest))
        if len(wrong):
            at = f"{lengths[wrong[0]]} tokens for number {wrong[0]} (from 0)"
            self._row.guard.refuse(f"{name} answers {at}; 1 to {self.largest}", method)
        return lengths
