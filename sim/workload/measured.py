"""What a column of arrivals is like: its rate, how its gaps vary, and how counts in windows do."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sim.clock import NS_PER_S
from sim.request import Ints

WINDOWS_S = (1, 10, 60)


class Measured(NamedTuple):
    """Figures of arrival times. What is not defined is None."""

    n: int
    span_ns: int
    """From the first to the last."""
    rate_per_s: float | None
    """n - 1 gaps over the span."""
    gap_cv: float | None
    """Standard deviation over mean of the n - 1 gaps (both with divisor n - 1); None below two gaps."""
    dispersion: Mapping[int, float | None]
    """By window in s: variance over mean of the counts (Fano factor; divisor: the windows) in the whole windows that
    follow one another from the first arrival on; each has its start and not its end. None below two of them."""


def measure(arrival_ns: Ints) -> Measured:
    """The figures of a column of arrivals in ns, in any order. Raises nothing: an empty column has none."""
    times = np.sort(arrival_ns)
    n = len(times)
    span_ns = int(times[-1] - times[0]) if n else 0
    dispersion = {seconds: _dispersion(times, span_ns, seconds * NS_PER_S) for seconds in WINDOWS_S}
    if span_ns == 0:
        return Measured(n, span_ns, None, None, dispersion)
    gaps = np.diff(times)
    cv = float(gaps.std() / gaps.mean()) if len(gaps) > 1 else None
    return Measured(n, span_ns, (n - 1) * NS_PER_S / span_ns, cv, dispersion)


def _dispersion(times: Ints, span_ns: int, window_ns: int) -> float | None:
    windows = span_ns // window_ns
    if windows < 2:
        return None
    places = (times - times[0]) // window_ns
    # only windows in which somebody arrives are counted out: there may be far more of the others than of arrivals
    ends = np.flatnonzero(np.diff(places, append=windows + 1))
    counts = np.diff(ends, prepend=-1)[places[ends] < windows].astype(np.float64)
    mean = float(counts.sum()) / windows
    return float((counts**2).sum()) / windows / mean - mean
