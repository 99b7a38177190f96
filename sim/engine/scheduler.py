"""The scheduler process: look, let the policy decide, submit its jobs, wait for their ends, book the tokens; again."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from simpy import Environment, Event

from sim.engine.cycle import Cycle, Rules, State, View
from sim.engine.device import Device
from sim.engine.kv import Memory
from sim.engine.late import late, schedule_late
from sim.engine.plan import Job, Kind, Loss, Preemption, Untold
from sim.engine.queue import Queue
from sim.engine.swap import Swap
from sim.policies.base import Policy
from sim.request import Request, Status


class Monitor(Protocol):
    """Somebody who is told what happens, when it happens. Monitors are called; they never poll."""

    def on_arrival(self, request: Request, jobs_begun: int) -> None: ...

    def on_job(self, job: Job) -> None:
        """``job`` has ended. Its tokens are not booked yet: ``computed`` and ``emitted`` are as it found them."""

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None: ...


@dataclass(frozen=True)
class Parts:
    """What a scheduler is made of. ``never_fits`` says why a request can be served by no state of it, or None."""

    policy: Policy
    rules: Rules
    waiting: Queue
    memory: Memory
    swap: Swap
    never_fits: Callable[[Request], str | None]


class Scheduler:
    """Serves requests on one device. The composition root starts :meth:`serve` as a process."""

    def __init__(
        self, env: Environment, device: Device, parts: Parts, monitors: Sequence[Monitor], *, check: bool = False
    ) -> None:
        self.state = State(parts.waiting)
        self.jobs_begun = 0
        self.decisions = 0
        self.cycles = 0
        self._env = env
        self._device = device
        self._policy = parts.policy
        self._rules = parts.rules
        self._memory = parts.memory
        self._swap = parts.swap
        self._never_fits = parts.never_fits
        self._checks = check
        self._monitors = monitors
        self._last_kind: Kind | None = None
        self._cancelled: list[Request] = []
        self._crashed = False
        self._untold = Untold([], [])
        self._ends: dict[int, Event] = {}
        self._idle: Event | None = None

    def submit(self, request: Request) -> Event:
        """A request arrives. The event returned fires when it has ended, however it ends."""
        request.arrived = True
        for monitor in self._monitors:
            monitor.on_arrival(request, self.jobs_begun)
        end = self._ends[request.index] = Event(self._env)
        reason = self._never_fits(request)
        if reason is not None:
            self._end(request, Status.REJECTED, reason)
        else:
            self.state.waiting.add(request)
            self.wake()
        return end

    def cancel(self, request: Request) -> None:
        """Whoever sent ``request`` no longer wants it: the next decision ends it. Nothing happens once it has ended."""
        if not request.ended and not request.cancelled:
            request.cancelled = True
            self._cancelled.append(request)
            self.wake()

    def crash(self) -> None:
        """The device loses its memory: the next decision finds it so."""
        self._crashed = True
        self.wake()

    def withhold(self, blocks: int) -> None:
        """From now on so many blocks in all are kept out of use."""
        self._memory.withhold(blocks)
        self.wake()

    def wake(self) -> None:
        """Something changed that a decision should see; one that sleeps decides at the end of this instant."""
        if self._idle is not None:
            schedule_late(self._idle)
            self._idle = None

    def serve(self) -> Generator[Event, object, None]:
        """The scheduler's process: for ever, since the composition root says when all is done."""
        yield from self._device.hold()
        turn = late(self._env)
        while True:
            yield turn
            jobs = self._decide()
            for job in jobs:
                yield self._device.submit(job)
                self._book(job)
            turn = late(self._env) if jobs else self._sleep()

    def whereabouts(self, request: Request) -> str:
        """Where a request that has not ended is."""
        if request.index in self.state.running:
            return "running"
        if request in self._swap:
            return "swapped"
        return "waiting" if request.arrived else "not arrived"

    def _sleep(self) -> Event:
        self._check()
        self._idle = Event(self._env)
        return self._idle

    def _decide(self) -> list[Job]:
        self.decisions += 1
        self._end_cancelled()
        if self._crashed:
            self._lose_memory()
        jobs = self._plan()
        self.jobs_begun += len(jobs)
        if jobs:
            self._last_kind = self._last_kind if jobs[-1].copies else jobs[-1].kind
        if self._checks:
            self._check()
        return jobs

    def _plan(self) -> list[Job]:
        """Let the policy fill a cycle; another one while all that it did was to preempt somebody."""
        state = self.state
        while True:
            self.cycles += 1
            cycle = Cycle(self.cycles, state, self._memory, self._swap, self._rules)
            self._policy.plan(View(int(self._env.now), self._last_kind, state.waiting, state.running.values()), cycle)
            jobs = cycle.close(self.jobs_begun, self._untold)
            self._untold = cycle.untold
            if not cycle.only_preempted:
                return jobs

    def _lose_memory(self) -> None:
        """All who run have to be computed again; what they emitted stays emitted."""
        self._crashed = False
        for request in reversed(list(self.state.running.values())):
            self.state.leave(request)
            self._memory.release(request)
            self._untold.lost.append(Preemption(request, request.forget(), Loss.CRASH))
            self.state.waiting.put_back(request)
        self._memory.forget()

    def _book(self, job: Job) -> None:
        """The job has ended: its tokens are computed, and whoever is complete emits."""
        for monitor in self._monitors:
            monitor.on_job(job)
        for request, tokens, _ in job.chunks:
            request.computed += tokens - request.samples  # the loop below adds the rest, as for a decode
            if request.computed + request.samples >= request.prefill_end:
                del self.state.prefilling[request.index]
        ended = []
        for request in job.scheduled:
            request.computed += request.samples
            if request.computed >= request.prefill_end:
                request.emitted += 1
                if request.emitted == request.output_tokens:
                    ended.append(request)
        for request in ended:
            self._end(request, Status.FINISHED, None)

    def _end_cancelled(self) -> None:
        cancelled, self._cancelled = self._cancelled, []
        for request in sorted(cancelled, key=lambda request: request.index):
            if not request.ended:
                self._end(request, Status.CANCELLED, self.whereabouts(request))

    def _end(self, request: Request, status: Status, reason: str | None) -> None:
        if request.index in self.state.running:
            self.state.leave(request)
            self._memory.release(request)
        elif request in self._swap:
            self._swap.bring_in(request)
        elif request.arrived and status is Status.CANCELLED:
            self.state.waiting.remove(request)
        request.ended = True
        for monitor in self._monitors:
            monitor.on_end(request, status, reason, int(self._env.now), self.jobs_begun)
        if request.index in self._ends:
            self._ends.pop(request.index).succeed()

    def _check(self) -> None:
        self._memory.check(self.state.running.values())
