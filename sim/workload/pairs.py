"""Prompts and outputs: each from its law, correlated, or as pairs of rows that were recorded."""

from decimal import Decimal
from math import sqrt

import numpy as np

from sim.request import Ints
from sim.workload.distribution import Distribution
from sim.workload.law import Floats, parts

LEAST = 2.0**-54
"""Half of the smallest step of a random number: a 0 would be minus infinity as a normal score."""


def correlated(
    laws: tuple[Distribution, Distribution],
    correlation: Decimal,
    count: int,
    randoms: "tuple[np.random.Generator, np.random.Generator]",
) -> tuple[Ints, Ints]:
    """Lengths that have their laws, joined by a Gaussian copula: their normal scores have this correlation.

    The first length's score z1 comes from its own stream, the second's is rho z1 + sqrt(1 - rho^2) e with e from the
    other stream; so the first are the same numbers whatever the correlation.
    """
    from scipy.special import ndtr, ndtri

    rho = float(correlation)
    rest = sqrt(1 - rho * rho)
    first, second = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for some in parts(count):
        one, other = (np.maximum(random.random(some.stop - some.start), LEAST) for random in randoms)
        scores: Floats = rho * ndtri(one) + rest * ndtri(other)
        first[some] = laws[0].quantile(one)
        second[some] = laws[1].quantile(np.minimum(ndtr(scores), np.nextafter(1, 0)))
    return first, second


def recorded(columns: tuple[Ints, Ints], count: int, random: "np.random.Generator") -> tuple[Ints, Ints]:
    """``count`` rows, drawn with replacement, each row as likely as any other."""
    rows = random.integers(len(columns[0]), size=count)
    return columns[0][rows], columns[1][rows]
