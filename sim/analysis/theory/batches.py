"""Stationary results for servers that work in batches: what a step costs, and how many share it.

A *step* is a job in which everybody who runs gets one token. Times are in units that the caller chooses.
"""

from dataclasses import dataclass
from math import exp, pi
from typing import NamedTuple

import numpy as np

from sim.analysis.theory.queues import checked

ROOT_ACCURACY = 1e-14


class Steps(NamedTuple):
    """The unlimited batch of constant steps. ``busy``: the share of time in which a step runs; then means, in steps."""

    busy: float
    first_token: float
    latency: float


def constant_steps(arrivals_per_step: float, steps: int) -> Steps:
    """Poisson arrivals; everybody present is in each step, of a constant length D, and stays for ``steps`` of them.

    A step is followed by another unless nobody arrived during the last L of them. With p = e^(-λ D), a busy period has
    (1 - p^L) / ((1 - p) p^L) steps on average (runs of L empty steps, Feller I, XIII.7), an idle one lasts 1/λ, and
    who arrives during a step waits half of it: E[TTFT] = D (1 + busy / 2), E[latency] = D (L + busy / 2). Exact.
    """
    if not arrivals_per_step > 0:
        raise ValueError(f"{arrivals_per_step} arrivals per step; above 0")
    empty = exp(-arrivals_per_step)
    # How often a step is busy: E / (E + 1 / x), both sides multiplied by (1 - p) p^L.
    busy = (1 - empty**steps) / (1 - empty**steps + (1 - empty) * empty**steps / arrivals_per_step)
    return Steps(busy, 1 + busy / 2, steps + busy / 2)


class Bulk(NamedTuple):
    """``busy``: the share of time in which a step runs; the mean wait in steps."""

    busy: float
    wait: float


def bulk_service(arrivals_per_step: float, slots: int) -> Bulk:
    """M/D^(1,c)/1: steps of constant length, each takes those who wait, at most ``slots``; it begins with one at least.

    Who waits at the end of a step: the generating function is A(z) Σ_{q<c} π(q) (z^c - z^q) / (z^c - A(z)), with
    A(z) = e^(x (z - 1)); π(0) … π(c - 1) follow from the roots of the denominator in the unit disc. Source: Bailey
    (1954), "On queueing processes with bulk service".
    """
    x, c = arrivals_per_step, slots
    checked(x / c)
    pi_0, second = _left_waiting(x, c)
    # Π'(1) by de l'Hôpital, twice; numerator and denominator both have the derivative c - x at 1.
    waiting = (2 * x * (c - x) + second - c * (c - 1) + x * x) / (2 * (c - x))
    busy = 1 / (1 + pi_0 / x)
    # During a step, those whom it left behind (waiting - x on average) and, on average, half of those who arrive.
    return Bulk(busy, busy * (waiting - x + x / 2) / x)


def _left_waiting(x: float, c: int) -> tuple[float, float]:
    """π(0), and Σ π(q) (c (c - 1) - q (q - 1)) over q < c."""
    q, turns = np.arange(c), np.exp(2j * pi * np.arange(c) / c)
    roots = np.zeros(c, dtype=complex)  # of z^c = A(z): z = turn e^(x (z - 1) / c), a contraction by x / c
    while float(np.abs((following := turns * np.exp(x * (roots - 1) / c)) - roots).max()) > ROOT_ACCURACY:
        roots = following
    others = roots[1:, np.newaxis]  # the first one is 1
    system = np.vstack([others**c - others**q, c - q])
    left = np.linalg.solve(system, np.append(np.zeros(c - 1), c - x)).real
    return float(left[0]), float(left @ (c * (c - 1) - q * (q - 1)))


@dataclass(frozen=True)
class Sharing:
    """Steps of a + b n, n those in it; Poisson arrivals, each of whom takes some number of steps, of any law.

    ``fixed`` a, ``each`` b, ``rate`` λ, ``mean_steps`` Ō. In the limit of short steps this is processor sharing with a
    speed that depends on how many there are: insensitive to the law of the steps, and the number present has law
    NegBin(a / b + 1, r), r = λ b Ō. Source: Cohen (1979), "The multiple phase service network with generalized
    processor sharing"; Kelly, "Reversibility and Stochastic Networks" (1979), 3.3.
    """

    fixed: float
    each: float
    rate: float
    mean_steps: float

    def __post_init__(self) -> None:
        checked(self.load)

    @property
    def load(self) -> float:
        return self.rate * self.each * self.mean_steps

    @property
    def mean_present(self) -> float:
        return (self.fixed / self.each + 1) * self.load / (1 - self.load)

    def mean_stay(self, steps: float) -> float:
        """Of those who take so many steps, in the limit of short steps: k (a + b) / (1 - r)."""
        return steps * (self.fixed + self.each) / (1 - self.load)

    @property
    def busy(self) -> float:
        """The share of time in which somebody is present, 1 - (1 - r)^(a / b + 1)."""
        return 1 - float((1 - self.load) ** (self.fixed / self.each + 1))

    @property
    def boundary(self) -> float:
        """What it costs on average that who arrives during a step has to wait for its end: a / (2 (1 - r)), if busy.

        Half a mean step is (a + b n̄) / 2; but as long as some wait, the others are served faster, by b r / (2 (1 - r)).
        Without a, waiting for the end of a step costs nothing on average: the same work is done in the same time.
        """
        return self.busy * self.fixed / (2 * (1 - self.load))

    @property
    def mean_latency(self) -> float:
        return self.mean_stay(self.mean_steps) + self.boundary


def mean_field_tpot(fixed: float, each: float, load: float) -> float:
    """TPOT of an unlimited batch under a load of prompts and decodes: (c0 + c_d) / (1 - ρ), an approximation.

    In balance a step takes D = c0 + λ D (c_p P + c_d (O - 1)), the work that arrives during it, plus the own token.
    """
    return (fixed + each) / (1 - checked(load))
