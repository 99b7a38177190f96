"""Whether numbers may be of a law: tests whose bounds follow from how many numbers there are.

Each holds for a sound law but for one seed in a thousand; the seeds are fixed, so none of them fails by chance.
"""

from collections.abc import Callable
from math import sqrt
from time import process_time

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

KOLMOGOROV = 1.95
"""sqrt(n) times the largest distance between a sample's distribution and its own law is larger once in a thousand."""

ERRORS = 4.0
"""So many standard errors are allowed to a mean."""


def fits(drawn: Values, at_most: Callable[[Numbers], Numbers]) -> bool:
    """Kolmogorov-Smirnov, for whole numbers that were rounded half up: ``at_most(x)`` is P(X <= x) before rounding.

    P(rounded <= k) = P(X < k + 1/2), so the distributions are compared at k + 1/2 for every k that was drawn; for laws
    with atoms the bound is conservative.
    """
    values, counts = np.unique(drawn.astype(np.float64), return_counts=True)
    shares = counts.cumsum() / len(drawn)
    due = np.asarray(at_most(values + 0.5))
    before = np.concatenate([[0.0], shares[:-1]]) - np.asarray(at_most(values - 0.5))
    furthest = max(np.abs(shares - due).max(), np.abs(before).max())
    return bool(furthest * sqrt(len(drawn)) < KOLMOGOROV)


def has_mean(drawn: Numbers | Values, mean: float, std: float) -> bool:
    """Whether the mean is within four standard errors, std / sqrt(n), of what it should be."""
    return bool(abs(drawn.mean() - mean) < ERRORS * std / sqrt(len(drawn)))


def has_cv(drawn: Numbers | Values, cv: float, skewness: float, excess: float) -> bool:
    """Whether standard deviation over mean is within four standard errors of ``cv``.

    By the delta method, of a law with this skewness and excess kurtosis, the error of s / m is
    cv sqrt((excess + 2) / 4 - cv skewness + cv^2) / sqrt(n).
    """
    error = cv * sqrt((excess + 2) / 4 - cv * skewness + cv**2) / sqrt(len(drawn))
    return bool(abs(drawn.std() / drawn.mean() - cv) < ERRORS * error)


def is_unit_poisson(times: Numbers) -> bool:
    """Whether gaps, the one before the first included, are Exp(1) and independent of the one before."""
    gaps = np.diff(times, prepend=0)
    ordered = np.sort(gaps)
    due = -np.expm1(-ordered)
    places = np.arange(1, len(gaps) + 1) / len(gaps)
    furthest = np.maximum(np.abs(places - due), np.abs(places - 1 / len(gaps) - due)).max()
    lagged = np.corrcoef(gaps[1:], gaps[:-1])[0, 1]
    return bool(furthest * sqrt(len(gaps)) < KOLMOGOROV and abs(lagged) < ERRORS / sqrt(len(gaps)))


def dispersion(times_s: Numbers, window_s: float) -> tuple[float, int]:
    """Variance over mean of the counts in the whole windows from 0 on, and how many windows there are."""
    counts = np.bincount((times_s // window_s).astype(np.int64))[:-1]
    return float(counts.var() / counts.mean()), len(counts)


def has_dispersion(times_s: Numbers, window_s: float, ratio: float) -> bool:
    """Whether variance over mean is within four standard errors, ratio sqrt(2 / windows), of what it should be.

    That error is right for counts that are normal and independent, which they are when a window is much longer than
    what makes neighbours alike.
    """
    found, windows = dispersion(times_s, window_s)
    return abs(found - ratio) < ERRORS * ratio * sqrt(2 / windows)


def processor_seconds(work: Callable[[], object]) -> float:
    """What it takes of this process's time."""
    began = process_time()
    work()
    return process_time() - began
