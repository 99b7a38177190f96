"""What a law of arrivals is, and how gaps become times."""

from abc import abstractmethod
from fractions import Fraction

import numpy as np

from sim.clock import NS_PER_MS
from sim.errors import ScenarioError
from sim.fields import MAX_INSTANT_MS
from sim.request import Ints
from sim.show import show
from sim.workload.law import Floats, Law

MAX_INSTANT_NS = MAX_INSTANT_MS * NS_PER_MS


class Process(Law):
    """A law of arrivals."""

    @abstractmethod
    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        """``count`` times in ns (int64), ascending. ``ScenarioError``: the last is beyond what the clock allows."""

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        """Requests per second in the long run; None where the law states none."""
        return None

    @property
    def gap_cv(self) -> float | None:
        """Standard deviation of the gaps over their mean; None where gaps depend on one another or on the time."""
        return None


def summed(gaps_ns: Floats) -> Ints | None:
    """The times at which gaps of floats end, the first gap beginning at 0; None when the clock does not reach as far.

    Each gap is rounded (half up) to whole ns and the whole ns are added, so that the ten-millionth time is as exact as
    the first; a sum of floats is off by a hundred ns when it has come to ten years. The floats are overwritten.
    """
    gaps_ns += 0.5
    np.floor(gaps_ns, out=gaps_ns)
    if not gaps_ns.sum() <= 2 * MAX_INSTANT_NS:  # nor would it fit in 64 bits
        return None
    times = gaps_ns.astype(np.int64)
    np.cumsum(times, out=times)
    return None if times[-1] > MAX_INSTANT_NS else times


def too_slow(process: Process, count: int) -> ScenarioError:
    """The error of a load that outlasts the clock."""
    rate = getattr(process, "rate_per_s", None)
    head, small = ("", "too slow") if rate is None else (f".rate_per_s = {show(rate)}", "too small")
    return ScenarioError(
        f"workload.arrivals{head}: {small} for {count} requests; the last may arrive at {MAX_INSTANT_MS} ms at most"
    )
