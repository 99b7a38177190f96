"""Arrivals at the same instant, and what is done to the times of any process."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from sim.clock import NS_PER_S, instant_ns
from sim.request import Ints
from sim.workload.law import Within
from sim.workload.process import MAX_INSTANT_NS, Process, too_slow
from sim.workload.renewal import Poisson


@dataclass(frozen=True)
class Batch(Process):
    """``size`` requests at a time: every ``period_ms`` from 0 on, or as a Poisson process of rate_per_s / size."""

    size: int
    period_ms: Decimal | None = None
    rate_per_s: Decimal | None = None

    def problem(self) -> tuple[Within, str] | None:
        if (self.period_ms is None) == (self.rate_per_s is None):
            problem = "missing, and rate_per_s too" if self.period_ms is None else "together with rate_per_s"
            return "period_ms", f"{problem}; exactly one of them"
        return None

    @property
    def mean_rate_per_s(self) -> Fraction:
        if self.period_ms is not None:
            return Fraction(self.size * NS_PER_S, instant_ns(self.period_ms))
        return Fraction(self.rate_per_s or 0)

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        batches = -(-count // self.size)
        if self.period_ms is None:
            at_ns = Poisson(self.mean_rate_per_s / self.size).arrival_ns(batches, random)
        else:
            if (batches - 1) * instant_ns(self.period_ms) > MAX_INSTANT_NS:
                raise too_slow(self, count)
            at_ns = np.arange(batches, dtype=np.int64) * instant_ns(self.period_ms)
        return np.repeat(at_ns, self.size)[:count]


@dataclass(frozen=True)
class Ticked(Process):
    """Those of another process, each at the last tick before it: what comes within a tick comes together."""

    process: Process
    tick_ms: Decimal

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        return self.process.mean_rate_per_s

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        tick_ns = instant_ns(self.tick_ms)
        return self.process.arrival_ns(count, random) // tick_ns * tick_ns


@dataclass(frozen=True)
class ExactRate(Process):
    """Those of another process, all times multiplied by what puts the last of N at N / rate, as vLLM's client does.

    The rate is then exact, and the law no longer the one asked for: gaps depend on one another and vary less. Of
    Poisson arrivals it leaves uniform order statistics.
    """

    process: Process

    @property
    def mean_rate_per_s(self) -> Fraction | None:
        return self.process.mean_rate_per_s

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        times = self.process.arrival_ns(count, random)
        last, rate = int(times[-1]), self.process.mean_rate_per_s
        if rate is None:
            raise TypeError("a process without a mean rate")
        due = round(count * NS_PER_S / rate)
        if due > MAX_INSTANT_NS:
            raise too_slow(self.process, count)
        if last == 0:
            return times
        # times + times (due - last) / last: what floats round off is a part of the correction only
        times += np.floor(times * ((due - last) / last) + 0.5).astype(np.int64)
        times[-1] = due
        return np.minimum(np.maximum.accumulate(times), due)
