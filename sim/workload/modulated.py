"""Poisson arrivals whose rate depends on a state that comes and goes by chance (Fischer and Meier-Hellstern 1993)."""

from abc import abstractmethod
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np

from sim.clock import NS_PER_MS, NS_PER_S
from sim.errors import ScenarioError
from sim.request import Ints
from sim.workload.law import AT_ONCE, Floats, Within
from sim.workload.process import MAX_INSTANT_NS, Process, too_slow

MAX_CHANGES = 10**8
"""Most changes of state that may be expected before the last request: some seconds of drawing them."""


class Modulated(Process):
    """A Poisson process whose rate is that of the state, from the stationary law of the states on."""

    @property
    @abstractmethod
    def rates(self) -> Floats:
        """Of each state, requests per second."""

    @property
    @abstractmethod
    def sojourns_ms(self) -> Floats:
        """Of each state, how long it lasts on average; each time exponential."""

    @property
    def jumps(self) -> Sequence[Sequence[Decimal]] | None:
        """From each state, how probable each next one is; None: the next in the list, after the last the first."""
        return None

    @property
    def stationary(self) -> Floats:
        """The part of the time that each state has."""
        visits = np.ones(len(self.rates))
        if self.jumps is not None:
            # visits = visits jumps, and their sum is 1
            equations = np.array([[float(p) for p in row] for row in self.jumps]).T - np.eye(len(visits))
            equations[-1] = 1
            visits = np.linalg.solve(equations, np.eye(len(visits))[-1])
        parts = visits * self.sojourns_ms
        return parts / parts.sum()  # type: ignore[no-any-return]

    @property
    def mean_rate_per_s(self) -> Fraction:
        return Fraction(float(self.stationary @ self.rates))

    def arrival_ns(self, count: int, random: "np.random.Generator") -> Ints:
        self._check_changes(count)
        gaps, states = random.spawn(2)
        sojourns = self._sojourns(states)
        times = np.empty(count, dtype=np.int64)
        filled, start_ns, reached = 0, 0, 0.0
        units = np.empty(0)  # of a process of rate 1, those that have no time yet; 0 is where the sojourns begin
        while filled < count:
            if start_ns > MAX_INSTANT_NS:
                raise too_slow(self, count)
            state, lasts_ns = next(sojourns)
            per_ns = self.rates[state] / NS_PER_S
            mass = np.concatenate([[0.0], (per_ns * lasts_ns).cumsum()])
            starts_ns = start_ns + lasts_ns.cumsum() - lasts_ns
            while filled < count:
                if not len(units):
                    units = gaps.standard_exponential(AT_ONCE).cumsum() + reached
                    reached = float(units[-1])
                inside = int(np.searchsorted(units, mass[-1], side="right"))
                some = units[: min(inside, count - filled)]
                place = np.maximum(np.searchsorted(mass, some, side="left") - 1, 0)
                offset = np.floor((some - mass[place]) / per_ns[place] + 0.5)
                times[filled : filled + len(some)] = starts_ns[place] + np.minimum(offset, lasts_ns[place])
                filled += len(some)
                units = units[inside:]
                if len(units):
                    break
            units, reached = units - mass[-1], reached - float(mass[-1])
            start_ns = int(starts_ns[-1] + lasts_ns[-1])
        if times[-1] > MAX_INSTANT_NS:
            raise too_slow(self, count)
        return times

    def _check_changes(self, count: int) -> None:
        changes_per_s = 1000 * float(self.stationary @ (1 / self.sojourns_ms))
        expected = count / float(self.mean_rate_per_s) * changes_per_s
        if expected > MAX_CHANGES:
            raise ScenarioError(
                f"workload.arrivals: {expected:.3g} changes of state are expected for {count} requests, at most "
                f"{MAX_CHANGES:.0e}; states that last longer, or a Poisson process of the mean rate"
            )

    def _sojourns(self, random: "np.random.Generator") -> Iterator[tuple[Ints, Ints]]:
        """States and how many ns each lasts, some at a time; the clock's end ends what is given out at once."""
        lengths, jumps = random.spawn(2)
        means_ns = self.sojourns_ms * NS_PER_MS
        state = min(bisect(list(self.stationary.cumsum()), jumps.random()), len(means_ns) - 1)
        while True:
            states, state = self._walk(state, jumps)
            lasts = np.floor(lengths.standard_exponential(AT_ONCE) * means_ns[states] + 0.5)
            needed = int(np.searchsorted(lasts.cumsum(), MAX_INSTANT_NS)) + 1
            lasts = np.minimum(lasts[:needed], MAX_INSTANT_NS + 1)
            yield states[:needed], lasts.astype(np.int64)

    def _walk(self, state: int, random: "np.random.Generator") -> tuple[Ints, int]:
        """The next states, beginning with this one, and the one after them."""
        if self.jumps is None:
            states = (state + np.arange(AT_ONCE + 1)) % len(self.rates)
            return states[:-1], int(states[-1])
        ends = [[float(end) for end in accumulate(row)] for row in self.jumps]
        walked = np.empty(AT_ONCE, dtype=np.int64)
        for step, number in enumerate(random.random(AT_ONCE).tolist()):
            walked[step] = state
            state = min(bisect(ends[state], number), len(ends) - 1)
        return walked, state


@dataclass(frozen=True)
class Mmpp(Modulated):
    """A Markov-modulated Poisson process: states with their rates, and how long they last on average.

    ``transitions`` are the probabilities of the next state, a row for each; without them the states take turns in the
    order of the list. It starts in a state drawn from the part of the time that each has in the long run.
    """

    rates_per_s: tuple[Decimal, ...]
    mean_sojourn_ms: tuple[Decimal, ...]
    transitions: tuple[tuple[Decimal, ...], ...] | None = None

    def problem(self) -> tuple[Within, str] | None:
        states = len(self.rates_per_s)
        if states < 2:
            return "rates_per_s", "one state; at least two (one alone is a Poisson process)"
        if len(self.mean_sojourn_ms) != states:
            return "mean_sojourn_ms", f"{len(self.mean_sojourn_ms)} times for {states} rates; as many"
        if not any(self.rates_per_s):
            return "rates_per_s", "every rate is 0; at least one above 0"
        return None if self.transitions is None else self._problem_of(self.transitions)

    def _problem_of(self, transitions: tuple[tuple[Decimal, ...], ...]) -> tuple[Within, str] | None:
        states = len(self.rates_per_s)
        if len(transitions) != states:
            return "transitions", f"{len(transitions)} rows for {states} states; as many"
        for place, row in enumerate(transitions):
            if len(row) != states:
                return ("transitions", place), f"{len(row)} probabilities for {states} states; as many"
            if row[place] != 0:
                return ("transitions", place, place), "must be 0: a state is left for another one"
            if abs(sum(row, Decimal(-1))) > Decimal("1e-9"):
                return ("transitions", place), f"the sum is {float(sum(row)):.9g}; must be 1"
        reached = np.linalg.matrix_power(np.array(transitions, dtype=np.float64) + np.eye(states) > 0, states)
        return None if reached.all() else ("transitions", "every state must lead to every other in the end")

    @property
    def rates(self) -> Floats:
        return np.array([float(rate) for rate in self.rates_per_s])

    @property
    def sojourns_ms(self) -> Floats:
        return np.array([float(ms) for ms in self.mean_sojourn_ms])

    @property
    def jumps(self) -> Sequence[Sequence[Decimal]] | None:
        return self.transitions


@dataclass(frozen=True)
class OnOff(Modulated):
    """Poisson arrivals at ``rate_per_s`` while it is on, none while it is off; both last exponential times."""

    rate_per_s: Decimal
    on_ms: Decimal
    off_ms: Decimal

    @property
    def rates(self) -> Floats:
        return np.array([float(self.rate_per_s), 0.0])

    @property
    def sojourns_ms(self) -> Floats:
        return np.array([float(self.on_ms), float(self.off_ms)])
