"""Stationary results for a single server: means and laws of waits, busy periods, priorities, and a closed loop.

Rates and times are in units that the caller chooses, the same for both. A *load* is rate times mean service, and
below 1 everywhere: at 1 and above nothing is stationary, and ``ValueError`` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, lgamma, log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Moments(NamedTuple):
    """E[S] and E[S²] of a service time."""

    mean: float
    second: float

    @property
    def variance(self) -> float:
        return self.second - self.mean**2


class Stream(NamedTuple):
    """Poisson arrivals of one class, and their service."""

    rate: float
    service: Moments

    @property
    def load(self) -> float:
        return self.rate * self.service.mean

    @property
    def residual(self) -> float:
        """The mean residual service that an arrival meets because of this class: λ E[S²] / 2."""
        return self.rate * self.service.second / 2


def checked(load: float) -> float:
    """The load, if there is a stationary state."""
    if not 0 < load < 1:
        raise ValueError(f"load {load}: no stationary state; above 0 and below 1")
    return load


def mean_wait(rate: float, service: Moments) -> float:
    """M/G/1, in any order that does not look at lengths and interrupts nobody: λ E[S²] / (2 (1 - ρ)).

    Source: Pollaczek (1930), Khinchine (1932).
    """
    stream = Stream(rate, service)
    return stream.residual / (1 - checked(stream.load))


def conserved(rate: float, service: Moments) -> float:
    """M/G/1, in any order that interrupts nobody: the sum of ρ(i) W(i) over classes, ρ λ E[S²] / (2 (1 - ρ)).

    Equally λ E[S W]: the work that is expected to wait. Source: Kleinrock (1965), "A conservation law for a wide class
    of queueing disciplines".
    """
    return rate * service.mean * mean_wait(rate, service)


def priority_waits(streams: Sequence[Stream]) -> list[float]:
    """M/G/1 with classes, the most urgent first, nobody interrupted: the mean wait of each class.

    W(k) = W0 / ((1 - σ(k - 1)) (1 - σ(k))), W0 the sum of all residuals, σ(k) the load of the k most urgent classes.
    Source: Cobham (1954), "Priority assignment in waiting line problems". Shortest job first is the case in which each
    length is a class.
    """
    checked(sum(stream.load for stream in streams))
    residual = sum(stream.residual for stream in streams)
    waits, above = [], 0.0
    for stream in streams:
        upto = above + stream.load
        waits.append(residual / ((1 - above) * (1 - upto)))
        above = upto
    return waits


def busy_period(rate: float, service: Moments) -> Moments:
    """M/G/1: E[B] = E[S] / (1 - ρ) and E[B²] = E[S²] / (1 - ρ)³. Source: Kleinrock (1975), I, 5.8."""
    idle = 1 - checked(rate * service.mean)
    return Moments(service.mean / idle, service.second / idle**3)


@dataclass(frozen=True)
class MD1:
    """M/D/1: Poisson arrivals, one constant service, which is the unit of time here; first come, first served."""

    load: float

    def __post_init__(self) -> None:
        checked(self.load)

    @property
    def mean_wait(self) -> float:
        """ρ / (2 (1 - ρ))."""
        return mean_wait(self.load, Moments(1, 1))

    def wait_at_most(self, time: float) -> float:
        """P(W <= t) = Σ_{j <= ⌊t⌋} Q(⌊t⌋ - j) (ρ y)^j e^(-ρ y) / j!, y = ⌊t⌋ + 1 - t, Q(m) = P(at most m in queue).

        Source: Franx (2001), "A simple solution for the M/D/c waiting time distribution". All terms are positive; the
        classical alternating sum (Erlang 1909) loses all its digits beyond t = 10.
        """
        if time < 0:
            return 0.0
        whole = int(time)
        terms = _poisson(self.load * (whole + 1 - time), whole + 1)
        return float(self._queue_at_most(whole + 1)[::-1] @ terms)

    def wait_quantile(self, probability: float) -> float:
        """The smallest t for which P(W <= t) is at least this; 0 up to 1 - ρ."""
        from scipy.optimize import brentq

        if not 0 < probability < 1:
            raise ValueError(f"probability {probability}: above 0 and below 1")
        if probability <= 1 - self.load:
            return 0.0
        high = 1.0
        while self.wait_at_most(high) < probability:
            high *= 2
        return float(brentq(lambda t: self.wait_at_most(t) - probability, 0, high, xtol=1e-12))

    def served_in_busy_period(self, count: int) -> float:
        """P(so many customers are served in a busy period) = e^(-ρ n) (ρ n)^(n - 1) / n!. Source: Borel (1942)."""
        return exp(-self.load * count + (count - 1) * log(self.load * count) - lgamma(count + 1))

    @property
    def busy_mean(self) -> float:
        """1 / (1 - ρ)."""
        return busy_period(self.load, Moments(1, 1)).mean

    @property
    def busy_variance(self) -> float:
        """ρ / (1 - ρ)³."""
        return busy_period(self.load, Moments(1, 1)).variance

    def _queue_at_most(self, count: int) -> npt.NDArray[np.float64]:
        """P(at most m wait, not counting who is served) for m = 0 … count - 1."""
        return np.cumsum(self._in_system(count + 1))[1:]

    @cached_property
    def _known(self) -> list[float]:
        return [1 - self.load]

    def _in_system(self, count: int) -> npt.NDArray[np.float64]:
        """P(n in the system) for n < count, of positive terms only. Source: Ramaswami (1988)."""
        known = self._known
        at_least = np.concatenate([[1], 1 - np.cumsum(_poisson(self.load, count + 1))])  # P(k or more during a service)
        for n in range(len(known), count):
            more = known[0] * at_least[n] + sum(known[j] * at_least[n + 1 - j] for j in range(1, n))
            known.append(float(more / exp(-self.load)))  # as many go from n - 1 or fewer to n or more as back
        return np.array(known[:count])


def _poisson(mean: float, count: int) -> npt.NDArray[np.float64]:
    """P(N = k) for k < count, N of law Poisson(mean), mean above 0."""
    return np.array([exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count)])


Transform = Callable[[float], float]
"""The Laplace-Stieltjes transform of a gap between arrivals, E[e^(-s A)], as a function of s."""


def gamma_gaps(rate: float, shape: float) -> Transform:
    """Gamma gaps of mean 1/rate and coefficient of variation 1/sqrt(shape); shape 1 is Poisson, infinity constant."""
    if shape == float("inf"):
        return lambda s: exp(-s / rate)
    return lambda s: (shape * rate / (shape * rate + s)) ** shape


def renewal_wait(rate: float, mean_service: float, gaps: Transform) -> float:
    """G/M/1, first come, first served: the mean wait σ / (1 - σ) E[S], σ the root below 1 of σ = A*((1 - σ) / E[S]).

    ``gaps`` are of mean 1/rate. Source: Kendall (1953); Kleinrock, "Queueing Systems" I, 6.4.
    """
    from scipy.optimize import brentq

    checked(rate * mean_service)
    # Written for 1 - σ, so that a σ close to 1 keeps its digits; the root at σ = 1 is left out.
    left_over = brentq(lambda u: (1 - gaps(u / mean_service)) / u - 1, 1e-9, 1 - 1e-15, xtol=1e-15)
    return float((1 - left_over) / left_over * mean_service)


def kingman_bound(rate: float, gap_variance: float, service: Moments) -> float:
    """G/G/1, first come, first served: the mean wait is at most λ (Var A + Var S) / (2 (1 - ρ)).

    Source: Kingman (1962), "Some inequalities for the queue GI/G/1".
    """
    return rate * (gap_variance + service.variance) / (2 * (1 - checked(rate * service.mean)))


def heavy_traffic_wait(load: float, gap_cv2: float, service_cv2: float) -> float:
    """G/G/1 as the load goes to 1: ρ / (1 - ρ) (c_A² + c_S²) / 2, in mean services. Source: Kingman (1961)."""
    return checked(load) / (1 - load) * (gap_cv2 + service_cv2) / 2


class Loop(NamedTuple):
    """A closed loop in its stationary state: mean response time, and requests per unit of time."""

    response: float
    throughput: float


def closed_loop(users: int, mean_think: float, mean_service: float) -> Loop:
    """N users who think (any law) and then are served (exponential, first come first served; or shared, any law).

    R(n) = E[S] (1 + Q(n - 1)), X(n) = n / (R(n) + Z), Q(n) = X(n) R(n). Source: Reiser and Lavenberg (1980),
    "Mean-value analysis of closed multichain queuing networks".
    """
    queue, loop = 0.0, Loop(mean_service, 0.0)
    for n in range(1, users + 1):
        response = mean_service * (1 + queue)
        loop = Loop(response, n / (response + mean_think))
        queue = loop.throughput * response
    return loop
