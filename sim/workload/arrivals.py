"""When requests arrive. A process is a frozen class, whose fields are its keys in a scenario, and a row in a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sim.clock import NS_PER_MS, NS_PER_S, instant_ns
from sim.errors import ScenarioError
from sim.fields import MAX_INSTANT_MS
from sim.request import Ints
from sim.show import show

MAX_INSTANT_NS = MAX_INSTANT_MS * NS_PER_MS


class Process(Protocol):
    """A law of arrivals."""

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        """``count`` times in ns (int64), ascending. ``ScenarioError``: the last is beyond what the clock allows."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Independent gaps of law Exp(rate), one of them before the first request."""

    rate_per_s: Decimal

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        up, down = self.rate_per_s.as_integer_ratio()
        # Each gap is rounded (half up) to whole ns and the whole ns are added, so that the ten-millionth time is as
        # exact as the first; a sum of floats is off by a hundred ns when it has come to ten years.
        gaps = random.standard_exponential(count)
        gaps *= NS_PER_S * down / up
        gaps += 0.5
        np.floor(gaps, out=gaps)
        if gaps.sum() > 2 * MAX_INSTANT_NS:  # nor would it fit in 64 bits
            raise _too_slow(self.rate_per_s, count)
        times = gaps.astype(np.int64).cumsum()
        if times[-1] > MAX_INSTANT_NS:
            raise _too_slow(self.rate_per_s, count)
        return times


@dataclass(frozen=True)
class Deterministic:
    """The k-th request, counted from 0, arrives after k / rate, rounded half up to whole ns, whatever the rate."""

    rate_per_s: Decimal

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        up, down = self.rate_per_s.as_integer_ratio()
        if (count - 1) * down * NS_PER_S > MAX_INSTANT_NS * up:
            raise _too_slow(self.rate_per_s, count)
        whole, rest = divmod(down * NS_PER_S, up)  # of a gap, in ns and in parts of which ``up`` make a ns
        if 2 * count * up < 2**62:
            places = np.arange(count, dtype=np.int64)
            return places * whole + (2 * rest * places + up) // (2 * up)
        times = (place * whole + (2 * rest * place + up) // (2 * up) for place in range(count))
        return np.fromiter(times, dtype=np.int64, count=count)


@dataclass(frozen=True)
class Given:
    """Times as they are given, as many as there are requests, rounded half up to whole ns."""

    times_ms: tuple[Decimal, ...]

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        return np.fromiter(map(instant_ns, self.times_ms), dtype=np.int64, count=count)


PROCESSES: Mapping[str, type[Process]] = MappingProxyType(
    {"poisson": Poisson, "deterministic": Deterministic, "given": Given}
)


def _too_slow(rate_per_s: Decimal, count: int) -> ScenarioError:
    return ScenarioError(
        f"workload.arrivals.rate_per_s = {show(rate_per_s)}: too small for {count} requests; "
        f"the last may arrive at {MAX_INSTANT_MS} ms at most"
    )
