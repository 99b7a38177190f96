"""The scheduler process: look, let the policy decide, submit its jobs, wait for their ends, book the tokens; again."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simpy import Environment, Event

from sim.costs.base import Work
from sim.engine.cohort import Cohort
from sim.engine.cycle import UNBOUNDED, Cycle, View
from sim.engine.device import Device
from sim.engine.late import late, schedule_late
from sim.engine.memory import Memory
from sim.engine.monitor import Monitor, tellers
from sim.engine.plan import Job, Kind, Loss, Preemption, Untold
from sim.engine.queue import Queue
from sim.engine.span import ALONE, MOST_JOBS, Decision, arrival_cuts, repeats
from sim.engine.state import Rules, State
from sim.engine.swap import Swap
from sim.policies.base import Policy
from sim.request import Request, Status


@dataclass(frozen=True)
class Parts:
    """What a scheduler is made of. ``never_fits`` says why a request can be served by no state of it, or None."""

    policy: Policy
    rules: Rules
    waiting: Queue
    memory: Memory
    swap: Swap
    never_fits: Callable[[Request], str | None]


class Switches(NamedTuple):
    """What may be turned off, since it shows in nothing but speed: ``spans`` and ``cohort``.

    ``check``: count all blocks at every decision. ``most_jobs``: no span goes on after so many jobs, where a limit is.
    """

    spans: bool = True
    cohort: bool = True
    check: bool = False
    most_jobs: int = UNBOUNDED


class Scheduler:
    """Serves requests on one device. The composition root starts :meth:`serve` as a process."""

    def __init__(
        self,
        env: Environment,
        device: Device,
        parts: Parts,
        monitors: Sequence[Monitor],
        switches: Switches,
    ) -> None:
        self._arrival_tellers = tellers(monitors, "on_arrival")
        self._job_tellers = tellers(monitors, "on_job")
        self._end_tellers = tellers(monitors, "on_end")
        self.state = State(
            parts.waiting, Cohort(parts.memory, tellers(monitors, "on_stretch"), open_to_all=switches.cohort)
        )
        self.jobs_begun = 0
        self.decisions = 0
        self.spans = 0
        self.idle_since_ns = 0
        self._env = env
        self._device = device
        self._policy = parts.policy
        self._rules = parts.rules
        self._reads_context = parts.rules.reads_context
        self._memory = parts.memory
        self._swap = parts.swap
        self._never_fits = parts.never_fits
        self._checks = switches.check
        self._most_jobs = switches.most_jobs
        self._budget = UNBOUNDED if parts.rules.limits.token_budget is None else parts.rules.limits.token_budget
        self._stable_for = getattr(parts.policy, "stable_for", 1) if switches.spans else 1
        self.policy_calls = 0
        self._last_kind: Kind | None = None
        self._cancelled: list[Request] = []
        self._crashed = False
        self._untold = Untold([], [])
        self._ends: dict[int, Event] = {}
        self._idle: Event | None = None
        self._job: Job | None = None
        """The one that runs, or ran last."""
        self._span: Job | None = None
        """The one that runs, while how many jobs it stands for may still change."""
        self._decision = ALONE
        """The decision that led to the span."""
        self._kept_out: Request | None = None
        """The head of the queue, if that decision did not let it in."""

    def submit(self, request: Request) -> Event:
        """A request arrives. The event returned fires when it has ended; its value is how (a ``Status``)."""
        request.arrived = True
        span, waiting = self._span, self.state.waiting
        begun, ends_ns = (1, 0) if span is None else self._begun(span)
        jobs_begun = self.jobs_begun + begun - 1
        for tell in self._arrival_tellers:
            tell(request, jobs_begun)
        end = self._ends[request.index] = Event(self._env)
        reason = self._never_fits(request)
        if reason is not None:
            self._end(request, Status.REJECTED, reason, int(self._env.now), jobs_begun)
            return end
        waiting.add(request)
        if span is None:
            self.wake()
        elif arrival_cuts(self._decision, same_head=waiting.head is self._kept_out):
            self._cut(span, begun, ends_ns)
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
        self.wake()
        self._memory.withhold(blocks)

    def wake(self) -> None:
        """Something changed that a decision should see: at the end of this instant, or of the job that runs."""
        if self._idle is not None:
            schedule_late(self._idle)
            self._idle = None
        elif self._span is not None:
            self._cut(self._span, *self._begun(self._span))

    def serve(self) -> Generator[Event, object, None]:
        """The scheduler's process: for ever, since the composition root says when all is done."""
        yield from self._device.hold()
        yield late(self._env)
        while True:
            jobs = self._decide()
            for job in jobs:
                self._job = job
                yield self._device.submit(job)
                self._book(job)
            if not jobs:
                yield self._sleep()
            elif self._env.peek() <= jobs[-1].end_ns:  # nobody who still acts at this instant is left out
                yield late(self._env)

    def stop(self) -> None:
        """The time is up: of a stretch of jobs that runs, those count that have ended."""
        job, now_ns = self._job, int(self._env.now)
        if job is not None and job.line is not None and job.end_ns > now_ns:
            ended, ends_ns = job.line.within(now_ns - job.start_ns, job.count)
            if self._span is not None:
                self.jobs_begun += ended
                self._span = None
            if ended:
                job.count, job.end_ns = ended, job.start_ns + ends_ns
                self._book(job)
        cohort = self.state.cohort
        cohort.dissolve()
        for request in self.state.running.values():
            cohort.close_stretch(request)
        self._check()

    def whereabouts(self, request: Request) -> str:
        """Where a request that has not ended is."""
        if request.index in self.state.running:
            return "running"
        if request in self._swap:
            return "swapped"
        return "waiting" if request.arrived else "not arrived"

    def _sleep(self) -> Event:
        self.idle_since_ns = int(self._env.now)
        self._idle = Event(self._env)
        return self._idle

    def _decide(self) -> Sequence[Job]:
        self.decisions += 1
        if self._cancelled:
            self._end_cancelled()
        if self._crashed:
            self._lose_memory()
        jobs = self._next_step() or self._plan()
        if self._checks:
            self._check()
        return jobs

    def _plan(self) -> Sequence[Job]:
        """Let the policy fill a cycle; another one while all that it did was to preempt somebody."""
        state = self.state
        if state.waiting.moves:
            state.waiting.settle(int(self._env.now))
        while state.waiting or state.running or self._swap.out:
            self.policy_calls += 1
            cycle = Cycle(self.policy_calls, state, self._memory, self._swap, self._rules)
            self._policy.plan(View(int(self._env.now), self._last_kind, state.waiting, state.running.values()), cycle)
            jobs = cycle.close(self.jobs_begun, self._untold)
            if jobs:
                last = jobs[-1]
                self.jobs_begun += len(jobs)
                if not last.copies:
                    self._last_kind = last.kind
                if last.whole and len(jobs) == 1:
                    self._stretch(last, cycle.decision(last))
            if jobs or not cycle.only_preempted:
                return jobs
        return ()

    # Spans

    def _next_step(self) -> Sequence[Job]:
        """The job that decodes the cohort, and those behind it; none where something else may have to be done.

        A steady policy can do nothing else while nobody waits, everybody who runs decodes, and the budget and the
        blocks reach for that.
        """
        state, cohort = self.state, self.state.cohort
        decoding = len(cohort.members)
        if state.waiting or not 0 < decoding == len(state.running) <= self._budget or self._stable_for == 1:
            return ()
        if (
            self._swap.out
            or self._untold.admitted
            or self._untold.lost
            or not (most := self._most_alike(self.jobs_begun, 0))
        ):
            return ()
        work = Work(0, decoding, cohort.context_tokens if self._reads_context else 0)
        job = Job(self.jobs_begun, work, decoding, cohort.changes)
        job.running, job.most = decoding, most
        job.free_blocks, job.withheld_blocks = self._memory.after_step()
        self.jobs_begun += 1
        self._last_kind = job.kind
        self._span, self._decision, self._kept_out = job, ALONE, None
        return (job,)

    def _stretch(self, job: Job, decision: Decision) -> None:
        """Run as many jobs like this one as will come anyway."""
        job.most = self._most_alike(job.number, job.stepped) if self._stable_for > 1 and repeats(decision) else 1
        if job.most > 1:
            self._span, self._decision, self._kept_out = job, decision, self.state.waiting.head

    def _most_alike(self, number: int, stepped: int) -> int:
        """Jobs until somebody finishes, the blocks end, or the policy may think again; some have theirs already."""
        cohort = self.state.cohort
        ended = cohort.clock.jobs
        most = min(self._stable_for, cohort.next_finish - ended, MOST_JOBS - ended % MOST_JOBS)
        if number + most > self._most_jobs:
            most = max(self._most_jobs - number, 1)
        return stepped + self._memory.covers(most - stepped) if most > stepped else stepped

    def _begun(self, job: Job) -> tuple[int, int]:
        """How many jobs of a stretch have begun by now, and when (from its start) the last of these ends.

        One that would begin now waits for who arrives now.
        """
        if job.line is None:
            return 1, job.end_ns - job.start_ns
        return job.line.begun(int(self._env.now) - job.start_ns, job.count)

    def _cut(self, job: Job, begun: int, ends_ns: int) -> None:
        """End the stretch with the job that runs now."""
        if begun < job.count:
            self._device.shorten(job, begun, job.start_ns + ends_ns)
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """How many jobs it stands for is final."""
        self._span = None
        behind = job.count - 1
        if behind:
            self.spans += 1
            self.jobs_begun += behind
        if behind or not job.stepped:
            self._memory.step(job.count - job.stepped)

    # Bookkeeping

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
        if self._span is not None:
            self._settle(job)
        for tell in self._job_tellers:
            tell(job)
        ended = self.state.cohort.advance(job.count) if job.work.decode_requests else []
        if job.scheduled:
            ended += self._book_each(job)
            if job.in_order and len(ended) > 1:
                ended.sort(key=lambda request: request.place)
        for request in ended:
            self._end(request, Status.FINISHED, None, job.end_ns, self.jobs_begun)

    def _book_each(self, job: Job) -> list[Request]:
        """Those outside the cohort; who is complete joins it. Those whose last token this was."""
        cohort, prefilling, ended = self.state.cohort, self.state.prefilling, []
        for request in job.scheduled:
            tokens = request.chunk
            completes = request.compute(tokens or request.samples)
            if not tokens:
                cohort.decoded(request)
            elif completes:
                del prefilling[request.index]
            else:
                continue
            if request.emitted == request.output_tokens:
                ended.append(request)
            else:
                cohort.join(request)
        return ended

    def _end_cancelled(self) -> None:
        cancelled, self._cancelled = self._cancelled, []
        for request in sorted(cancelled, key=lambda request: request.index):
            if not request.ended:
                self._end(request, Status.CANCELLED, self.whereabouts(request), int(self._env.now), self.jobs_begun)

    def _end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        state, index = self.state, request.index
        if index in state.running:
            state.leave(request)
            self._memory.release(request)
        elif request in self._swap:
            self._swap.bring_in(request)
        elif request.arrived and status is Status.CANCELLED:
            state.waiting.remove(request)
        request.ended = True
        for tell in self._end_tellers:
            tell(request, status, reason, now_ns, jobs_begun)
        end = self._ends.pop(index, None)
        if end is not None:
            end.succeed(status)

    def _check(self) -> None:
        self._memory.check(self.state.running.values())
