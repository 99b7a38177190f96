"""Who waits and who runs at a server, and the rules that bound them."""

from collections.abc import Callable, Collection, Reversible
from typing import NamedTuple, Protocol

from sim.engine.cohort import Cohort
from sim.engine.memory import Memory
from sim.engine.queue import Key, Queue, age
from sim.request import Request


class State:
    """Who waits, in queue order, and who runs, in order of admission (by index; some still prefill)."""

    def __init__(self, waiting: Queue, cohort: Cohort) -> None:
        self.waiting = waiting
        self.running: dict[int, Request] = {}
        self.prefilling: dict[int, Request] = {}
        self.cohort = cohort
        """Of those who run, the ones that decode together."""
        self.slots_taken = 0
        self._joined = 0

    def join(self, request: Request) -> None:
        """``request`` is now the last of those who run."""
        self._joined += 1
        request.place = self._joined
        self.running[request.index] = request
        self.slots_taken += request.samples
        if request.prefilling:
            self.prefilling[request.index] = request

    def leave(self, request: Request) -> None:
        """``request`` runs no longer."""
        index, cohort = request.index, self.cohort
        if index in cohort.members:
            cohort.leave(request)
        cohort.close_stretch(request)
        del self.running[index]
        self.slots_taken -= request.samples
        if index in self.prefilling:
            del self.prefilling[index]


class Running(Collection[Request], Reversible[Request], Protocol):
    """The requests that run, in order of admission."""


Victim = Callable[[Running, Memory], Request]
"""Whom of the running requests to preempt."""


Urgency = Callable[[Request], Key]
"""What requests are compared by, the smallest being the most urgent."""


class Limits(NamedTuple):
    """What the running requests and a job may come to; None: no limit."""

    max_running: int | None = None
    token_budget: int | None = None


class Rules(NamedTuple):
    """What a cycle goes by beside its policy.

    ``reads_context``: the device's cost depends on it, so it is counted. ``last_goes``: the victim is always the last
    admitted, so that whom to preempt does not depend on how far the others have come. ``urgency``: a key by which the
    head of the queue takes the place of those who run and are less urgent; None: it never does. ``shifting``: who comes
    before whom may change although nobody comes or goes.
    """

    limits: Limits
    victim: Victim
    reads_context: bool = True
    last_goes: bool = False
    urgency: Urgency | None = None
    shifting: bool = False

    def is_before(self, request: Request, other: Request) -> bool:
        """Whether the one may take the place of the other: more urgent, in a preemptive order."""
        return self.urgency is not None and self.urgency(request) < self.urgency(other)

    def rank(self, request: Request) -> Key:
        """The most urgent first, of equals the oldest."""
        return age(request) if self.urgency is None else (*self.urgency(request), *age(request))

    def may_be_victims(self, running: Running) -> Running:
        """All who run; in a preemptive order the least urgent, or they would take the place of whoever is left.

        Unless it is the last who goes: then the others go on before it can come back.
        """
        if self.urgency is None or self.last_goes:
            return running
        least = max(map(self.urgency, running))
        return {request.index: request for request in running if self.urgency(request) == least}.values()
