"""Distributions of very many values that are given by few: by how often each occurs, and as lines of durations."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sim.clock import FS_PER_NS
from sim.request import Ints

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True)
class Distribution:
    """Of ``n`` values in ns: mean and linear percentiles (NumPy's default) as exact fractions. All None when n = 0."""

    n: int
    mean: Fraction | None
    percentiles: Mapping[int, Fraction | None]
    max: int | None


@dataclass(frozen=True)
class Lines:
    """Durations of jobs in a row: (first_fs + growth_fs * j) half up to ns for j < ``jobs``, ``count`` times each."""

    first_fs: Ints
    growth_fs: Ints
    jobs: Ints
    count: Ints

    def values_ns(self, place: Ints) -> Ints:
        """The duration at this place of each line."""
        return (self.first_fs + self.growth_fs * place + FS_PER_NS // 2) // FS_PER_NS

    def places_upto(self, ns: int) -> Ints:
        """How many of each line are at most so long."""
        room_fs = (min(ns, MOST_NS) + 1) * FS_PER_NS - 1 - FS_PER_NS // 2 - self.first_fs
        steps = room_fs // np.maximum(self.growth_fs, 1) + 1
        places: Ints = np.where(room_fs < 0, 0, np.where(self.growth_fs > 0, np.minimum(steps, self.jobs), self.jobs))
        return places

    def of(self, rows: Ints) -> "Lines":
        return Lines(self.first_fs[rows], self.growth_fs[rows], self.jobs[rows], self.count[rows])


MOST_NS = 2**62 // FS_PER_NS - 1
"""Longer than any duration on a line."""


@dataclass(frozen=True)
class Gaps:
    """Values in ns, each so often; lines of more; and the sum of all."""

    ns: Ints
    count: Ints
    lines: Lines
    total_ns: int


def of_gaps(gaps: Gaps) -> Distribution:
    """Their distribution, as if every gap stood there on its own."""
    some = gaps.count > 0
    values, upto = _sorted(gaps.ns[some], gaps.count[some])
    lines = gaps.lines
    n = (int(upto[-1]) if len(upto) else 0) + int((lines.jobs * lines.count).sum())
    if not n:
        return Distribution(0, None, dict.fromkeys(PERCENTS), None)
    ranked = _Ranked(values, upto, lines)
    percentiles = {percent: _percentile(ranked, n, percent) for percent in PERCENTS}
    return Distribution(n, Fraction(gaps.total_ns, n), percentiles, ranked.at(n - 1)[0])


def distribution(values: Ints, counts: Ints | None = None) -> Distribution:
    """Of ``values``, each occurring ``counts`` times (once if None)."""
    if counts is None:
        counts = np.ones_like(values)
    some = counts > 0
    values, upto = _sorted(values[some], counts[some])
    none = np.empty(0, dtype=np.int64)
    n = int(upto[-1]) if len(upto) else 0
    if not n:
        return Distribution(0, None, dict.fromkeys(PERCENTS), None)
    ranked = _Ranked(values, upto, Lines(none, none, none, none))
    percentiles = {percent: _percentile(ranked, n, percent) for percent in PERCENTS}
    mean = Fraction(_exact_dot(values, np.diff(upto, prepend=0)), n)
    return Distribution(n, mean, percentiles, int(values[-1]))


def _sorted(values: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The values in order, and how many there are up to each."""
    order = np.argsort(values, kind="stable")
    return values[order], np.cumsum(counts[order])


def _percentile(ranked: "_Ranked", n: int, percent: int) -> Fraction:
    rank, hundredths = divmod((n - 1) * percent, 100)
    below, above = ranked.at(rank)
    return Fraction(below * (100 - hundredths) + above * hundredths, 100)


def _exact_dot(values: Ints, counts: Ints) -> int:
    if int(values[-1]) * int(counts.sum()) < 2**63:
        return int(values @ counts)
    return sum(value * count for value, count in zip(values.tolist(), counts.tolist(), strict=True))


class _Ranked:
    """Values by rank, found by halving the range of values; lines that lie on one side are looked at no more."""

    def __init__(self, values: Ints, upto: Ints, lines: Lines) -> None:
        self._values = values
        self._upto = upto
        self._lines = lines
        self._low_ns = lines.values_ns(np.zeros_like(lines.jobs))
        self._high_ns = lines.values_ns(lines.jobs - 1)

    def at(self, rank: int) -> tuple[int, int]:
        """The value of this rank (from 0), and the one after it; the same once more for the last."""
        low = min([*self._values[:1].tolist(), *([int(self._low_ns.min())] if len(self._low_ns) else [])])
        high = max([*self._values[-1:].tolist(), *([int(self._high_ns.max())] if len(self._high_ns) else [])])
        lines, low_ns, high_ns, before = self._lines, self._low_ns, self._high_ns, 0
        while low < high:
            middle = (low + high) // 2
            upto = before + self._singles_upto(middle) + int((lines.places_upto(middle) * lines.count).sum())
            if upto > rank:
                high = middle
                left = np.flatnonzero(low_ns <= middle)
            else:
                low = middle + 1
                left = np.flatnonzero(high_ns > middle)
                gone = np.flatnonzero(high_ns <= middle)
                before += int((lines.jobs[gone] * lines.count[gone]).sum())
            if len(left) < len(low_ns):
                lines, low_ns, high_ns = lines.of(left), low_ns[left], high_ns[left]
        return low, self._next(low, rank)

    def _next(self, value: int, rank: int) -> int:
        """The value of the rank behind ``rank``, whose value this is."""
        places = self._lines.places_upto(value)
        if self._singles_upto(value) + int((places * self._lines.count).sum()) > rank + 1:
            return value
        more = np.flatnonzero(places < self._lines.jobs)
        larger = self._lines.of(more).values_ns(places[more]).tolist()
        larger += self._values[np.searchsorted(self._values, value, side="right") :][:1].tolist()
        return min(larger, default=value)

    def _singles_upto(self, value: int) -> int:
        place = int(np.searchsorted(self._values, value, side="right"))
        return int(self._upto[place - 1]) if place else 0
