"""The scheduler process: look, let the policy decide, submit one job, wait for its end, book its tokens; again."""

from collections.abc import Generator, Sequence
from typing import Protocol

from simpy import Environment, Event

from sim.engine.device import Device
from sim.engine.late import late, schedule_late
from sim.engine.plan import Cycle, Job, Kind, State, View
from sim.policies.base import Policy
from sim.request import Request, Status


class Monitor(Protocol):
    """Somebody who is told what happens, when it happens. Monitors are called; they never poll."""

    def on_arrival(self, request: Request, jobs_begun: int) -> None: ...

    def on_job(self, job: Job) -> None:
        """``job`` has ended. Its tokens are not booked yet: ``computed`` and ``emitted`` are as it found them."""

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None: ...


class Scheduler:
    """Serves requests on one device. The composition root starts :meth:`run` as a process."""

    def __init__(self, env: Environment, device: Device, policy: Policy, max_running: int | None,
                 monitors: Sequence[Monitor]) -> None:  # fmt: skip
        self.state = State()
        self.jobs_begun = 0
        self.decisions = 0
        self._env = env
        self._device = device
        self._policy = policy
        self._max_running = max_running
        self._monitors = monitors
        self._last_kind: Kind | None = None
        self._cancelled: list[Request] = []
        self._ends: dict[int, Event] = {}
        self._idle: Event | None = None

    def submit(self, request: Request) -> Event:
        """A request arrives. The event returned fires when it has ended, however it ends."""
        request.arrived = True
        for monitor in self._monitors:
            monitor.on_arrival(request, self.jobs_begun)
        self.state.waiting.add(request)
        self._wake()
        end = self._ends[request.index] = Event(self._env)
        return end

    def cancel(self, request: Request) -> None:
        """Whoever sent ``request`` no longer wants it: the next decision ends it. Nothing happens once it has ended."""
        if not request.ended and not request.cancelled:
            request.cancelled = True
            self._cancelled.append(request)
            self._wake()

    def run(self) -> Generator[Event, object, None]:
        """The scheduler's process: for ever, since the composition root says when all is done."""
        yield from self._device.hold()
        turn = late(self._env)
        while True:
            yield turn
            job = self._decide()
            if job is None:
                turn = self._sleep()
            else:
                yield self._device.submit(job)
                self._book(job)
                turn = late(self._env)

    def _sleep(self) -> Event:
        self._idle = Event(self._env)
        return self._idle

    def _wake(self) -> None:
        if self._idle is not None:
            schedule_late(self._idle)
            self._idle = None

    def _decide(self) -> Job | None:
        self.decisions += 1
        self._end_cancelled()
        state = self.state
        view = View(int(self._env.now), self._last_kind, state.waiting, state.running.values())
        cycle = Cycle(state, self._max_running)
        self._policy.plan(view, cycle)
        job = cycle.close(self.jobs_begun)
        if job is not None:
            self.jobs_begun += 1
            self._last_kind = job.kind
        return job

    def _book(self, job: Job) -> None:
        """The job has ended: its tokens are computed, and whoever is complete emits one."""
        for monitor in self._monitors:
            monitor.on_job(job)
        for chunk in job.chunks:
            request = chunk.request
            request.computed += chunk.tokens
            if not request.prefilling:
                del self.state.prefilling[request.index]
                self._emit(request)
        for request in job.decodes:
            request.computed += 1
            self._emit(request)

    def _emit(self, request: Request) -> None:
        request.emitted += 1
        if request.emitted == request.output_tokens:
            self._end(request, Status.FINISHED, None)

    def _end_cancelled(self) -> None:
        cancelled, self._cancelled = self._cancelled, []
        for request in sorted(cancelled, key=lambda request: request.index):
            if not request.ended:
                self._end(request, Status.CANCELLED, self.whereabouts(request))

    def _end(self, request: Request, status: Status, reason: str | None) -> None:
        if request.index in self.state.running:
            self.state.leave(request)
        elif request.arrived:
            self.state.waiting.remove(request)
        request.ended = True
        for monitor in self._monitors:
            monitor.on_end(request, status, reason, int(self._env.now), self.jobs_begun)
        if request.index in self._ends:
            self._ends.pop(request.index).succeed()

    def whereabouts(self, request: Request) -> str:
        """Where a request that has not ended is."""
        if request.index in self.state.running:
            return "running"
        return "waiting" if request.arrived else "not arrived"
