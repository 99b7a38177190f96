"""Arrivals that bring others: a Hawkes process (Hawkes 1971), by its clusters (Hawkes and Oakes 1974)."""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from sim.clock import NS_PER_MS, NS_PER_S
from sim.request import Ints
from sim.workload.law import Floats
from sim.workload.process import MAX_INSTANT_NS, Process, too_slow

FIRST = 2**12
"""Those who come by themselves, in the first round; each round has twice as many as the one before."""


@dataclass(frozen=True)
class Hawkes(Process):
    """Intensity base + sum over earlier arrivals s of (branching / decay) exp(-(t - s) / decay).

    Some come by themselves, at the rate ``base_per_s``; everyone brings a Poisson number of others, ``branching`` on
    average, each after an exponential time of mean ``decay_ms``. At time 0 nobody has come before: the rate begins at
    base and grows, within some decay / (1 - branching), to base / (1 - branching).
    """

    base_per_s: Decimal
    branching: Decimal
    decay_ms: Decimal

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(self.base_per_s) / (1 - Fraction(self.branching))

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        gap_ns = float(NS_PER_S / Fraction(self.base_per_s))
        found: list[Ints] = []
        later = np.empty(0, dtype=np.int64)
        start_ns, number = 0, FIRST
        while sum(map(len, found)) < count:
            if start_ns > MAX_INSTANT_NS:
                raise too_slow(self, count)
            gaps = np.minimum(random.standard_exponential(number) * gap_ns, float(MAX_INSTANT_NS))
            alone = start_ns + _summed_up_to_the_end(gaps)
            start_ns = int(alone[-1])
            arrivals = np.sort(np.concatenate([later, alone, *self._brought(alone, random)]))
            known = int(np.searchsorted(arrivals, min(start_ns, MAX_INSTANT_NS), side="right"))
            found.append(arrivals[:known])
            later = arrivals[known:]
            number *= 2
        return np.concatenate(found)[:count]

    def _brought(self, generation: Ints, random: "np.random.Generator") -> list[Ints]:
        """All descendants of these, generation by generation; those beyond the clock are left out."""
        decay_ns = float(self.decay_ms) * NS_PER_MS
        generations = []
        while len(generation):
            parents = np.repeat(generation, random.poisson(float(self.branching), len(generation)))
            after = np.minimum(random.standard_exponential(len(parents)) * decay_ns, float(MAX_INSTANT_NS))
            generation = parents + np.floor(after + 0.5).astype(np.int64)
            generation = generation[generation <= MAX_INSTANT_NS]
            generations.append(generation)
        return generations


def _summed_up_to_the_end(gaps_ns: Floats) -> Ints:
    """Where the gaps end, each rounded half up, to the first that ends beyond the clock."""
    whole = np.floor(gaps_ns + 0.5)
    needed = int(np.searchsorted(whole.cumsum(), MAX_INSTANT_NS, side="right")) + 1
    return whole[:needed].astype(np.int64).cumsum()
