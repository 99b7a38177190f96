"""The scheduler process: look, let the policy decide, submit its jobs, wait for their ends, book the tokens; again."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simpy import Environment, Event

from sim.costs.base import Work
from sim.engine.cohort import Cohort
from sim.engine.cycle import UNBOUNDED, Cycle, Rules, State, View
from sim.engine.device import Device
from sim.engine.kv import Memory
from sim.engine.late import late, schedule_late
from sim.engine.monitor import Monitor, teller
from sim.engine.plan import Blocked, Job, Kind, Loss, Preemption, Untold
from sim.engine.queue import Queue
from sim.engine.span import ALONE, MOST_JOBS, Decision, arrival_cuts, repeats
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


class Span(NamedTuple):
    """A stretch of jobs that runs as one, the decision that led to it, and the head of the queue that was kept out."""

    job: Job
    decision: Decision
    head: Request | None


class Scheduler:
    """Serves requests on one device. The composition root starts :meth:`serve` as a process."""

    def __init__(
        self,
        env: Environment,
        device: Device,
        parts: Parts,
        monitors: Sequence[Monitor],
        *,
        spans: bool = True,
        cohort: bool = True,
        check: bool = False,
    ) -> None:
        self._tell_arrival = teller(monitors, "on_arrival")
        self._tell_job = teller(monitors, "on_job")
        self._tell_end = teller(monitors, "on_end")
        self.state = State(parts.waiting, Cohort(parts.memory, teller(monitors, "on_stretch"), open_to_all=cohort))
        self.jobs_begun = 0
        self.decisions = 0
        self.spans = 0
        self.idle_since_ns = 0
        self._env = env
        self._device = device
        self._policy = parts.policy
        self._rules = parts.rules
        self._memory = parts.memory
        self._swap = parts.swap
        self._never_fits = parts.never_fits
        self._checks = check
        self._budget = UNBOUNDED if parts.rules.limits.token_budget is None else parts.rules.limits.token_budget
        self._stable_for = getattr(parts.policy, "stable_for", 1) if spans else 1
        self.policy_calls = 0
        self._last_kind: Kind | None = None
        self._cancelled: list[Request] = []
        self._crashed = False
        self._untold = Untold([], [])
        self._ends: dict[int, Event] = {}
        self._idle: Event | None = None
        self._job: Job | None = None
        """The one that runs."""
        self._span: Span | None = None
        """Set while how many jobs that one stands for may still change."""

    def submit(self, request: Request) -> Event:
        """A request arrives. The event returned fires when it has ended, however it ends."""
        request.arrived = True
        span, waiting = self._span, self.state.waiting
        begun, ends_ns = (1, 0) if span is None else self._begun(span.job)
        self._tell_arrival(request, self.jobs_begun + begun - 1)
        end = self._ends[request.index] = Event(self._env)
        reason = self._never_fits(request)
        if reason is not None:
            self._end(request, Status.REJECTED, reason)
            return end
        waiting.add(request)
        if span is None:
            self.wake()
        elif arrival_cuts(span.decision, same_head=waiting.head is span.head):
            self._cut(span.job, begun, ends_ns)
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
            self._cut(self._span.job, *self._begun(self._span.job))

    def serve(self) -> Generator[Event, object, None]:
        """The scheduler's process: for ever, since the composition root says when all is done."""
        yield from self._device.hold()
        yield late(self._env)
        while True:
            jobs = self._decide()
            for job in jobs:
                self._job = job
                yield self._device.submit(job)
                self._job = None
                self._book(job)
            if not jobs:
                yield self._sleep()
            elif self._env.peek() <= self._env.now:  # nobody who still acts at this instant is left out
                yield late(self._env)

    def stop(self) -> None:
        """The time is up: of a stretch of jobs that runs, those count that have ended."""
        job = self._job
        if job is not None and job.line is not None:
            ended, ends_ns = job.line.within(int(self._env.now) - job.start_ns, job.count)
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
        jobs = [self._next_step()] if self._only_decodes() else self._plan()
        if jobs:
            self.jobs_begun += len(jobs)
            self._last_kind = self._last_kind if jobs[-1].copies else jobs[-1].kind
        if self._checks:
            self._check()
        return jobs

    def _plan(self) -> Sequence[Job]:
        """Let the policy fill a cycle; another one while all that it did was to preempt somebody."""
        state = self.state
        while True:
            self.policy_calls += 1
            cycle = Cycle(self.policy_calls, state, self._memory, self._swap, self._rules)
            self._policy.plan(View(int(self._env.now), self._last_kind, state.waiting, state.running.values()), cycle)
            jobs = cycle.close(self.jobs_begun, self._untold)
            if len(jobs) == 1 and jobs[0].whole:
                self._stretch(jobs[0], cycle.decision(jobs[0]))
            if not cycle.only_preempted:
                return jobs

    # Spans

    def _only_decodes(self) -> bool:
        """Whether a steady policy can do nothing but decode everybody, and the budget and the blocks reach for that."""
        state = self.state
        return (
            not state.waiting
            and 0 < len(state.running) == len(state.cohort.members) <= self._budget
            and self._stable_for > 1
            and not (self._swap.out or self._untold.admitted or self._untold.lost)
            and not self._memory.short
        )

    def _next_step(self) -> Job:
        """The job that decodes the cohort while nobody waits, and those behind it."""
        cohort, memory = self.state.cohort, self._memory
        decoding = len(cohort.members)
        work = Work(0, decoding, cohort.context_tokens if self._rules.reads_context else 0)
        job = Job.of_cohort(self.jobs_begun, work, decoding, cohort.changes)
        memory.step(1)
        job.waiting, job.running, job.swapped, job.blocked = 0, decoding, 0, Blocked.NOTHING
        job.free_blocks, job.withheld_blocks = memory.free, memory.withheld
        self._stretch(job, ALONE)
        return job

    def _stretch(self, job: Job, decision: Decision) -> None:
        """Run as many jobs like this one as will come anyway."""
        again = self._stable_for > 1 and (decision is ALONE or repeats(decision))
        job.count = self._device.run_alike(job, self._most_alike() if again else 1)
        if job.count > 1:
            self.spans += 1
            self._span = Span(job, decision, self.state.waiting.head)

    def _most_alike(self) -> int:
        """Jobs until somebody finishes, the blocks end, or the policy may think again."""
        cohort = self.state.cohort
        most = min(self._stable_for, cohort.next_finish - cohort.clock.jobs, MOST_JOBS - cohort.clock.jobs % MOST_JOBS)
        return 1 + self._memory.covers(most - 1) if most > 1 else 1

    def _begun(self, job: Job) -> tuple[int, int]:
        """How many jobs of a stretch have begun by now, and when (from its start) the last of these ends.

        One that would begin now waits for who arrives now.
        """
        if job.line is None:
            return 1, job.end_ns - job.start_ns
        before_ns = int(self._env.now) - job.start_ns - 1
        ended, ends_ns = (0, 0) if before_ns < 0 else job.line.within(before_ns, job.count - 1)
        return ended + 1, ends_ns + job.line.job_ns(ended)

    def _cut(self, job: Job, begun: int, ends_ns: int) -> None:
        """End the stretch with the job that runs now."""
        if begun < job.count:
            self._device.shorten(job, begun, job.start_ns + ends_ns)
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """How many jobs it stands for is final."""
        self._span = None
        self.jobs_begun += job.count - 1
        if job.count > 1:
            self._memory.step(job.count - 1)

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
        self._tell_job(job)
        cohort = self.state.cohort
        ended = cohort.advance(job.count) if job.work.decode_requests else []
        if job.scheduled:
            ended += self._book_each(job)
            if job.in_order and len(ended) > 1:
                ended.sort(key=lambda request: request.place)
        for request in ended:
            self._end(request, Status.FINISHED, None)

    def _book_each(self, job: Job) -> list[Request]:
        """Those outside the cohort; who is complete joins it. Those whose last token this was."""
        cohort, prefilling, ended = self.state.cohort, self.state.prefilling, []
        prefilled = {chunk.request.index: chunk.tokens for chunk in job.chunks}
        for request in job.scheduled:
            tokens = prefilled.get(request.index, 0)
            computed = request.computed = request.computed + (tokens or request.samples)
            if not tokens:
                cohort.decoded(request)
            elif computed < request.prefill_end:
                continue
            else:
                del prefilling[request.index]
            request.emitted += 1
            if request.emitted == request.output_tokens:
                ended.append(request)
            else:
                cohort.join(request)
        return ended

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
        begun = 1 if self._span is None else self._begun(self._span.job)[0]
        self._tell_end(request, status, reason, int(self._env.now), self.jobs_begun + begun - 1)
        end = self._ends.pop(request.index, None)
        if end is not None:
            end.succeed()

    def _check(self) -> None:
        self._memory.check(self.state.running.values())
