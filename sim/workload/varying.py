"""Poisson arrivals whose rate changes with the time, by thinning (Lewis and Shedler 1979).

Candidates come from a Poisson process whose rate is constant in each of some pieces of the time and nowhere below the
rate that is asked for; one at t is kept with probability rate(t) / (rate of its piece). The candidates of all pieces
follow at once from the times of a process of rate 1, so that however high a peak, few are thrown away.
"""

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sim.clock import NS_PER_MS, NS_PER_S, instant_ns
from sim.errors import ScenarioError
from sim.request import Ints
from sim.workload.law import AT_ONCE, Floats, Within
from sim.workload.process import MAX_INSTANT_NS, Process, too_slow

PIECES = 64
"""Into how many pieces a curve is cut."""

MAX_WINDOWS = 10**6
"""Most windows of the rate of a trace."""

Points = tuple[tuple[Decimal, Decimal], ...]


class Pieces(NamedTuple):
    """Between two edges, from 0 on, the rate is at most this. If ``periodic``, all begins again at the last edge."""

    edges_ns: Ints
    rates_per_s: Floats
    periodic: bool


class Varying(Process):
    """A Poisson process of varying rate."""

    @abstractmethod
    def pieces(self) -> Pieces:
        """The time cut into pieces, and a bound of the rate in each."""

    @abstractmethod
    def rate_at(self, ns: Ints) -> Floats:
        """The rate per second at these times; of a periodic law, at times of its first period."""

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        gaps, marks = random.spawn(2)
        candidates = _Candidates(self.pieces())
        times = np.empty(count, dtype=np.int64)
        filled, reached = 0, 0.0
        while filled < count:
            units = gaps.standard_exponential(AT_ONCE).cumsum() + reached
            reached = float(units[-1])
            if units[0] > candidates.last_unit:
                raise too_slow(self, count)
            at_ns, phase_ns, bound = candidates.place(units[units <= candidates.last_unit])
            kept = at_ns[marks.random(AT_ONCE)[: len(at_ns)] * bound < self.rate_at(phase_ns)][: count - filled]
            times[filled : filled + len(kept)] = kept
            filled += len(kept)
        return times


class _Candidates:
    """A Poisson process of piecewise constant rate, from one of rate 1."""

    def __init__(self, pieces: Pieces) -> None:
        self._edges_ns = pieces.edges_ns
        self._per_s = pieces.rates_per_s
        self._mass = np.concatenate([[0.0], (pieces.rates_per_s / NS_PER_S * np.diff(pieces.edges_ns)).cumsum()])
        self._period_ns = int(pieces.edges_ns[-1]) if pieces.periodic else 0
        whole = float(self._mass[-1])
        self.last_unit = whole * (MAX_INSTANT_NS // self._period_ns) if self._period_ns else whole
        """Where the process of rate 1 leaves the clock."""

    def place(self, units: Floats) -> tuple[Ints, Ints, Floats]:
        """The times of these points of the process of rate 1, the times within the period, the rates there."""
        before = np.zeros(len(units), dtype=np.int64)
        if self._period_ns:
            periods, units = np.divmod(units, self._mass[-1])
            before = periods.astype(np.int64) * self._period_ns
        piece = np.clip(np.searchsorted(self._mass, units, side="left") - 1, 0, len(self._per_s) - 1)
        rate = self._per_s[piece]
        offset = np.floor((units - self._mass[piece]) / (rate / NS_PER_S) + 0.5).astype(np.int64)
        within = np.minimum(self._edges_ns[piece] + offset, self._edges_ns[piece + 1])
        return before + within, within, rate


def _for_ever(edges_ns: Ints) -> Ints:
    """With one more edge, the end of the clock."""
    return np.append(edges_ns, np.int64(MAX_INSTANT_NS + 1))


@dataclass(frozen=True)
class Sinusoid(Varying):
    """rate(t) = rate_per_s (1 + amplitude sin(2 pi (t / period + phase))): mean rate_per_s over a period."""

    rate_per_s: Decimal
    amplitude: Decimal
    period_ms: Decimal
    phase: Decimal = Decimal(0)

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.rate_per_s)

    def pieces(self) -> Pieces:
        period_ns = instant_ns(self.period_ms)
        edges = np.unique(np.array([period_ns * place // PIECES for place in range(PIECES + 1)], dtype=np.int64))
        middle, half = (edges[:-1] + edges[1:]) / 2, np.diff(edges) / 2
        highest = np.minimum(self._sine(middle) + 2 * np.pi * half / period_ns, 1)  # a sine's slope is at most 1
        return Pieces(edges, float(self.rate_per_s) * (1 + float(self.amplitude) * highest), periodic=True)

    def _sine(self, ns: Floats) -> Floats:
        return np.sin(2 * np.pi * (ns / instant_ns(self.period_ms) + float(self.phase)))

    def rate_at(self, ns: Ints) -> Floats:
        swing: Floats = float(self.amplitude) * self._sine(ns.astype(np.float64))
        return float(self.rate_per_s) * (1 + swing)


@dataclass(frozen=True)
class PiecewiseLinear(Varying):
    """Straight lines between ``points`` of (ms, rate per second), the first at 0.

    After the last point its rate holds for ever; with ``period_ms`` it holds up to there, and all begins again.
    """

    points: Points
    period_ms: Decimal | None = None

    def problem(self) -> tuple[Within, str] | None:
        return _points_problem(self.points, self.period_ms)

    def pieces(self) -> Pieces:
        edges, rates, periodic = _edges(self.points, self.period_ms)
        return Pieces(edges, np.maximum(rates, np.append(rates[1:], rates[-1])), periodic)

    def rate_at(self, ns: Ints) -> Floats:
        times, rates = (np.array([float(point[axis]) for point in self.points]) for axis in (0, 1))
        found: Floats = np.interp(ns, times * NS_PER_MS, rates)
        return found

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        if self.period_ms is None:
            return None
        points = [*self.points, (self.period_ms, self.points[-1][1])]
        doubled = sum(
            (Fraction(end - at) * Fraction(rate + last) for (at, rate), (end, last) in pairwise(points)), Fraction(0)
        )
        return doubled / 2 / Fraction(self.period_ms)


@dataclass(frozen=True)
class Steps(Varying):
    """From each of ``points`` on, (ms, rate per second), this rate; the first point is at 0.

    The last rate holds for ever; with ``period_ms`` up to there, and all begins again.
    """

    points: Points
    period_ms: Decimal | None = None

    def problem(self) -> tuple[Within, str] | None:
        return _points_problem(self.points, self.period_ms)

    def pieces(self) -> Pieces:
        return Pieces(*_edges(self.points, self.period_ms))

    def rate_at(self, ns: Ints) -> Floats:
        edges, rates, _ = _edges(self.points, self.period_ms)
        return _step_at(edges, rates, ns)

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        if self.period_ms is None:
            return None
        ends = [*(at for at, _ in self.points[1:]), self.period_ms]
        area = sum(
            (Fraction(end - at) * Fraction(rate) for (at, rate), end in zip(self.points, ends, strict=True)),
            Fraction(0),
        )
        return area / Fraction(self.period_ms)


def _step_at(edges_ns: Ints, rates_per_s: Floats, ns: Ints) -> Floats:
    places = np.searchsorted(edges_ns, ns, side="right") - 1
    found: Floats = rates_per_s[np.minimum(places, len(rates_per_s) - 1)]
    return found


def _points_problem(points: Points, period_ms: Decimal | None) -> tuple[Within, str] | None:
    times = [instant_ns(at) for at, _ in points]
    if times[0] != 0:
        return ("points", 0), "the first point is at 0 ms"
    for place in range(1, len(times)):
        if times[place] <= times[place - 1]:
            return ("points", place), f"too early; after the point before, {points[place - 1][0]:f} ms"
    if period_ms is not None and instant_ns(period_ms) <= times[-1]:
        return "period_ms", f"too small; after the last point, {points[-1][0]:f} ms"
    if period_ms is None and points[-1][1] == 0:
        return ("points", len(points) - 1), "the last rate holds for ever; above 0, or give period_ms"
    if not any(rate for _, rate in points):
        return "points", "every rate is 0; at least one above 0"
    return None


def _edges(points: Points, period_ms: Decimal | None) -> tuple[Ints, Floats, bool]:
    edges = np.array([instant_ns(at) for at, _ in points], dtype=np.int64)
    rates = np.array([float(rate) for _, rate in points])
    if period_ms is None:
        return _for_ever(edges), rates, False
    return np.append(edges, np.int64(instant_ns(period_ms))), rates, True


@dataclass(frozen=True)
class Ramp(Varying):
    """The rate goes from one to another within ``over_ms``, in time and not by request, and then stays there.

    ``growth`` "linear": by so much a second; "exponential": by such a factor a second.
    """

    from_per_s: Decimal
    to_per_s: Decimal
    over_ms: Decimal
    growth: str = "linear"

    def problem(self) -> tuple[Within, str] | None:
        if self.growth == "exponential" and self.from_per_s == 0:
            return "from_per_s", "too small; above 0 where growth is exponential"
        return None

    def pieces(self) -> Pieces:
        over_ns = instant_ns(self.over_ms)
        edges = np.unique(np.array([over_ns * place // PIECES for place in range(PIECES + 1)], dtype=np.int64))
        rates = self.rate_at(edges)
        return Pieces(_for_ever(edges), np.append(np.maximum(rates[:-1], rates[1:]), rates[-1]), periodic=False)

    def rate_at(self, ns: Ints) -> Floats:
        gone = np.minimum(ns / instant_ns(self.over_ms), 1.0)
        start, end = float(self.from_per_s), float(self.to_per_s)
        if self.growth == "exponential":
            return np.asarray(start * (end / start) ** gone)
        return start + (end - start) * gone


@dataclass(frozen=True)
class TraceRate(Process):
    """The rate of a recorded trace, constant in each window of ``window_ms``, again and again.

    Only a description: who knows where the scenario lies reads the trace and makes a :class:`Recorded` of it.
    """

    path: str
    window_ms: Decimal
    format: str = "auto"

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        raise TypeError("a rate whose trace has not been read")

    def recorded(self, arrival_ns: Ints) -> "Recorded":
        """The law, from the arrivals of the trace, which ascend from 0."""
        window_ns = instant_ns(self.window_ms)
        windows = int(arrival_ns[-1]) // window_ns + 1
        if windows > MAX_WINDOWS:
            raise ScenarioError(
                f"workload.arrivals.window_ms = {self.window_ms:f}: too small; {windows} windows, at most {MAX_WINDOWS}"
            )
        return Recorded(np.bincount(arrival_ns // window_ns, minlength=windows), window_ns)


@dataclass(frozen=True)
class Recorded(Varying):
    """So many arrivals are expected in each window of ``window_ns``, and from the last window on all begins again."""

    counts: Ints
    window_ns: int

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(int(self.counts.sum()) * NS_PER_S, len(self.counts) * self.window_ns)

    def pieces(self) -> Pieces:
        edges = np.arange(len(self.counts) + 1, dtype=np.int64) * self.window_ns
        return Pieces(edges, self.counts.astype(np.float64) * (NS_PER_S / self.window_ns), periodic=True)

    def rate_at(self, ns: Ints) -> Floats:
        edges, rates, _ = self.pieces()
        return _step_at(edges, rates, ns)
