"""What goes wrong, and when: windows in which the device stands still or is slow, blocks withheld, memory lost."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from simpy import Environment, Event

from sim.clock import MAX_NS
from sim.costs.base import CostModel, Work


class Window(NamedTuple):
    """From ``start_ns`` until just before ``end_ns``; ``factor`` on the duration of every job that starts within."""

    start_ns: int
    end_ns: int
    factor: Fraction = Fraction(1)


class Troubles(NamedTuple):
    """The faults of a device, each list by start."""

    stalls: Sequence[Window] = ()
    slow: Sequence[Window] = ()

    def end_ns(self, start_ns: int, cost: CostModel, work: Work) -> int:
        """When a job that starts now ends: slow windows that hold its start stretch it, stalls stand in its way.

        The stretched duration is rounded half up to whole ns, the factors of all slow windows together.
        """
        duration_ns = cost.job_ns(work)
        if duration_ns < 0 or not (self.stalls or self.slow):
            return start_ns + duration_ns
        factor = Fraction(1)
        for window in self.slow:
            if window.start_ns <= start_ns < window.end_ns:
                factor *= window.factor
        left_ns = (2 * duration_ns * factor.numerator + factor.denominator) // (2 * factor.denominator)
        at_ns = start_ns
        for stall in self.stalls:
            if stall.end_ns <= at_ns:
                continue
            if stall.start_ns >= at_ns + left_ns:
                break
            left_ns -= max(stall.start_ns - at_ns, 0)
            at_ns = stall.end_ns
        return at_ns + left_ns

    def quiet_until_ns(self, now_ns: int) -> int:
        """When the next of all windows begins; now, if one of them is open; the last instant, if none is to come."""
        coming = [window.start_ns for windows in self for window in windows if window.end_ns > now_ns]
        return max(min(coming, default=MAX_NS - 1), now_ns)


NONE = Troubles()


class Server(Protocol):
    """What a fault does to a replica."""

    def crash(self) -> None: ...

    def withhold(self, blocks: int) -> None: ...


def crashing(env: Environment, server: Server, at_ns: int) -> Generator[Event, object, None]:
    """The device loses its memory once."""
    yield env.timeout(at_ns)
    server.crash()


def withholding(env: Environment, server: Server, steps: Sequence[tuple[int, int]]) -> Generator[Event, object, None]:
    """``(at_ns, blocks)``: from each of these times on, so many blocks in all are kept out of use."""
    for at_ns, blocks in steps:
        yield env.timeout(at_ns - int(env.now))
        server.withhold(blocks)


@dataclass(frozen=True)
class Faults:
    """All that will go wrong in a run."""

    troubles: Troubles
    crashes_ns: tuple[int, ...]
    withheld: tuple[tuple[int, int], ...]

    @property
    def last_ns(self) -> int:
        """After this, nothing changes any more."""
        return max([0, *self.crashes_ns, *(at_ns for at_ns, _ in self.withheld)])

    def processes(self, env: Environment, server: Server) -> Iterator[Generator[Event, object, None]]:
        """The processes to be started."""
        for at_ns in self.crashes_ns:
            yield crashing(env, server, at_ns)
        if self.withheld:
            yield withholding(env, server, self.withheld)
