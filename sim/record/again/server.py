"""The server, once more: who waits, runs and is swapped out, and the job that a decision puts together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sim.engine.plan import Blocked, Kind, Loss
from sim.policies.presets import Axes, KvAxes
from sim.record.again.orders import Line
from sim.record.again.pool import Boundless

NO_BOUND = 2**62


class OffTheRecordError(Exception):
    """The record tells of a victim that can't have been one, or of too few: from here on nothing can be said."""


@dataclass(slots=True)
class Req:
    """A request, and how far it is. ``output`` and ``declared`` are what the model's length leaves of them."""

    index: int
    arrival_ns: int
    priority: int
    prompt: int
    output: int
    declared: int
    samples: int
    computed: int = 0
    emitted: int = 0
    target: int = 0
    """Tokens that were known when it was admitted: up to them it prefills."""
    cached: int = 0
    """Tokens that were there when it was admitted."""
    held: int = 0
    host: int = 0
    overdue: bool = False
    """It was admitted for having waited so long."""

    @property
    def known(self) -> int:
        return self.prompt + self.samples * self.emitted

    @property
    def prefills(self) -> bool:
        return self.computed < self.target


@dataclass(slots=True)
class Planned:
    """A job that a decision leads to. Requests are indices; ``scheduled`` is ``(request, tokens, phase)``."""

    kind: Kind
    scheduled: list[tuple[int, int, int]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    admitted: list[tuple[int, int, int]] = field(default_factory=list)
    preempted: list[tuple[int, int, int]] = field(default_factory=list)


Victim = Callable[[Sequence[Req]], Req]


@dataclass
class Server:
    """Its state between decisions, and after the last one what it stood at."""

    axes: Axes
    memory: Boundless
    victim: Victim
    line: Line
    host_blocks: int
    running: dict[int, Req] = field(default_factory=dict)
    swapped: dict[int, Req] = field(default_factory=dict)
    blocked: Blocked = Blocked.NOTHING
    last_kind: Kind | None = None
    slots: int = 0

    @classmethod
    def of(cls, axes: Axes, kv: KvAxes | None, memory: Boundless, victim: Victim, line: Line) -> "Server":
        host = kv.swap_blocks if kv is not None and kv.preemption == "swap" else 0
        return cls(axes, memory, victim, line, host)

    @property
    def waiting(self) -> list[Req]:
        """In the order of the queue."""
        return self.line.in_order()

    def join(self, req: Req) -> None:
        self.running[req.index] = req
        self.slots += req.samples

    def leave(self, req: Req) -> None:
        """Out of ``running``, its blocks are free."""
        del self.running[req.index]
        self.slots -= req.samples
        self.memory.release(req)

    def end(self, req: Req) -> str:
        """It has ended: where it was."""
        if req.index in self.running:
            self.leave(req)
            return "running"
        if self.swapped.pop(req.index, None) is not None:
            self.host_blocks += req.host
            return "swapped"
        if req in self.line.waiting:
            self.line.drop(req)
            return "waiting"
        return "not arrived"

    def crash(self) -> list[tuple[int, int, int]]:
        """All who run lose what was computed, the last admitted first."""
        lost = []
        for req in reversed(list(self.running.values())):
            self.leave(req)
            lost.append((req.index, req.computed, int(Loss.CRASH)))
            req.computed = 0
            self.line.put_back(req)
        self.memory.forget()
        return lost

    def book(self, job: Planned, requests: Sequence[Req]) -> list[Req]:
        """The job has ended: its tokens are computed. Answers who has emitted all, in the order of the job."""
        done = []
        for index, tokens, _ in job.scheduled:
            req = requests[index]
            req.computed += tokens
            if req.computed >= req.target:
                req.emitted += 1
                if req.emitted == req.output:
                    done.append(req)
        return done


def urgency(req: Req) -> tuple[int, int, int]:
    return req.priority, req.arrival_ns, req.index


def age(req: Req) -> tuple[int, int]:
    return req.arrival_ns, req.index
