"""One cycle: what a policy sees (:class:`View`), and what it fills (:class:`Cycle`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from sim.costs.base import Work
from sim.engine.memory import Memory
from sim.engine.plan import Admission, Blocked, Chunk, Copy, Job, Kind, Loss, Preemption, Untold
from sim.engine.queue import Queue
from sim.engine.span import Decision
from sim.engine.state import Rules, Running, State
from sim.engine.swap import Swap
from sim.engine.way import fewest
from sim.errors import InvariantError
from sim.request import NEVER, Request


@dataclass(slots=True)
class View:
    """What a policy may know. It reads no other clock and changes nothing here; it acts through the cycle."""

    now_ns: int
    last_kind: Kind | None
    waiting: Queue
    running: Running


UNBOUNDED = 2**62
"""More tokens, and more requests, than any job or server will see."""


class Cycle:
    """The job under construction. Each verb asks whether there is room, acts if so, and answers whether it did."""

    _closed = False
    _lacks_blocks = False
    _was_short = False
    """Whether somebody had to go for want of blocks."""
    _blocked = Blocked.NOTHING
    _stepped = False
    """Whether the cohort is in this job."""
    _in_order = False
    """Whether this job goes by the order of admission; if not, the cohort comes before all others."""

    def __init__(self, turn: int, state: State, memory: Memory, swap: Swap, rules: Rules) -> None:
        budget = rules.limits.token_budget
        self.budget = UNBOUNDED if budget is None else budget
        """Tokens that the job may still take."""
        self._turn = turn
        self._state = state
        self._memory = memory
        self._swap = swap
        self._rules = rules
        self._scheduled: list[Request] = []
        self._prefill_tokens = 0
        self._decoding = 0
        """How many of those that are scheduled one by one decode."""
        self._admitted: list[Admission] = []
        self._preempted: list[Preemption] = []
        self._copies: list[Copy] = []
        self._made_way: list[Request] = []

    # What a policy asks

    @property
    def empty(self) -> bool:
        return not self._scheduled and not self._stepped

    @property
    def only_preempted(self) -> bool:
        """Whether all that happened is that somebody was preempted: what they left may let others in."""
        return bool(self._preempted) and not self._admitted and not self._copies and self.empty

    @property
    def preempted(self) -> bool:
        """Whether anybody was preempted in this cycle for want of blocks."""
        return self._was_short

    def next_waiting(self) -> Request | None:
        """The head of the queue, if anybody may be admitted: nobody before all who were swapped out are back.

        In a preemptive order, nobody who is not more urgent than they are. Who made way in this cycle stays out for it.
        """
        head = self._state.waiting.head
        if self._closed or head is None or head in self._made_way:
            return None
        if self._swap.out and not self._rules.is_before(head, self._swap.first(self._rules.rank)):
            self._blocked = Blocked.SWAPPED
            return None
        return head

    def next_prefill(self) -> Request | None:
        """Whose prompt tokens come next: the first of ``running`` that still prefills, else the head of the queue."""
        for request in self._state.prefilling.values():
            if request.turn != self._turn:
                return request
        return self.next_waiting()

    def rest(self, request: Request) -> int:
        """Known tokens that ``request`` would have to compute, cached ones left out."""
        return request.rest if request.index in self._state.running else request.known - self._memory.cached(request)

    # What a policy does

    def close_admission(self) -> None:
        """Nobody else joins ``running`` in this cycle."""
        self._closed = True

    def admit(self, request: Request, tokens: int) -> bool:
        """Let a waiting request join ``running``, with memory for its next ``tokens`` tokens, without work yet."""
        if request.ended or request.index in self._state.running or request.index in self._swap.out:
            raise InvariantError(f"a policy admits {request!r}, which does not wait")
        cached = self._memory.cached(request)
        if tokens.__class__ is not int or not 1 <= tokens <= request.known - cached:
            self._refuse(request, tokens, request.known - cached)
        return self._admit(request, cached, tokens, scheduled=False)

    def prefill(self, request: Request, tokens: int) -> bool:
        """Schedule the next ``tokens`` prompt tokens of a running or waiting request; nobody makes room for it."""
        if request.index not in self._state.running:
            return self._prefill_waiting(request, tokens)
        self._expect(request, tokens)
        if tokens > self.budget:
            self._blocked = Blocked.BUDGET
            return False
        upto = request.computed + tokens
        if not self._memory.can_grow(request, upto):
            self._lacks_blocks = True
            return False
        self._memory.grow(request, upto)
        self._schedule(request, tokens)
        return True

    def _prefill_waiting(self, request: Request, tokens: int) -> bool:
        cached = self._memory.cached(request)
        if tokens.__class__ is not int or not 1 <= tokens <= request.known - cached:
            self._refuse(request, tokens, request.known - cached)
        if tokens > self.budget:
            self._blocked = Blocked.BUDGET
            return False
        if request.ended or request.index in self._swap.out:
            raise InvariantError(f"a policy admits {request!r}, which does not wait")
        if not self._admit(request, cached, tokens, scheduled=True):
            return False
        self._schedule(request, tokens)
        return True

    def extend(self, request: Request, tokens: int) -> bool:
        """Schedule the next ``tokens`` tokens of a running request; victims make room, at last the request itself."""
        self._expect(request, tokens)
        if tokens > self.budget:
            left = f"{self.budget} are left of the budget"
            raise InvariantError(f"a policy schedules {tokens} tokens of {request!r}, {left}")
        if request.index in self._state.cohort.members:
            self._state.cohort.dissolve()  # its members are asked one by one
        upto, memory = request.computed + tokens, self._memory
        while not memory.can_grow(request, upto):
            if self.preempt() is request:
                return False
        memory.grow(request, upto)
        self._schedule(request, tokens)
        return True

    def extend_running(self, most: int = UNBOUNDED, *, cut: bool = True, decodes_first: bool = False) -> None:
        """:meth:`extend_all` for all who run, in order of admission; or first those who decode, then the prefills."""
        if not self._state.running:
            return
        left = self._step(most, decodes_first=decodes_first)
        if decodes_first:
            left.sort(key=lambda request: request.prefilling)
        if left:
            self.extend_all(left, most, cut=cut)

    def extend_all(self, requests: Iterable[Request], most: int = UNBOUNDED, *, cut: bool = True) -> None:
        """Schedule the next tokens of each of these running requests, at most ``most`` of a prefill, while they last.

        What is left of the budget bounds a prefill (but one that has not begun only if it may be ``cut``); a decode is
        all or nothing. Victims make room.
        """
        for request in requests:
            if request.index in self._state.running:
                self._extend_within_budget(request, most, cut)

    def decode_all(self) -> bool:
        """Schedule the next tokens of every running request whose prefill is complete; victims make room."""
        self.extend_all([request for request in self._step(UNBOUNDED, decodes_first=True) if not request.prefilling])
        if not self.preempted:
            self.extend_all([request for request in self.restore() if not request.prefilling])
        return not self.empty

    def restore(self) -> list[Request]:
        """Those who were swapped out come back, oldest first, with memory for all that is known of them.

        In a preemptive order the most urgent first, and nobody before a head of the queue that is more urgent.
        """
        back: list[Request] = []
        while self._swap.out and not self._closed:
            request, head = self._swap.first(self._rules.rank), self._state.waiting.head
            if (head is not None and self._rules.is_before(head, request)) or not self._has_slots(request):
                break
            if not self._memory.can_admit(request, request.known, others_run=bool(self._state.running)):
                break
            self._memory.admit(request, request.known, request.computed)
            self._copies.append(Copy(request, self._swap.bring_in(request), out=False))
            self._state.join(request)
            self._admitted.append(Admission(request, 0, back=True))
            back.append(request)
        return back

    def make_room_for_prefill(self) -> None:
        """Nothing decodes and a half-prefilled request has no blocks for its next chunk: somebody has to go."""
        if self._lacks_blocks and self._state.prefilling and self.empty:
            self.preempt()

    def preempt(self) -> Request:
        """Take its blocks from the victim, even if it is in this job already; answers who it was."""
        victim = self._rules.victim(self._rules.may_be_victims(self._state.running.values()), self._memory)
        self._was_short = True
        self._evict(victim)
        return victim

    def _evict(self, victim: Request) -> None:
        """It runs no longer: its blocks go to the host if they may, or are lost."""
        if victim.turn == self._turn:
            victim.turn = NEVER
            self._scheduled.remove(victim)
            self.budget += victim.chunk or victim.samples
            self._prefill_tokens -= victim.chunk
            self._decoding -= not victim.chunk
        elif self._is_stepped(victim):
            self.budget += 1
        self._state.leave(victim)
        blocks = self._memory.held(victim)
        self._memory.release(victim)
        if self._swap.can_take(blocks):
            self._swap.take_out(victim, blocks)
            self._copies.append(Copy(victim, blocks, out=True))
            self._preempted.append(Preemption(victim, victim.computed, Loss.SWAP))
        else:
            self._preempted.append(Preemption(victim, victim.forget(), Loss.RECOMPUTE))
            self._state.waiting.put_back(victim)

    # What the scheduler asks once the policy is done

    def close(self, number: int, untold: Untold) -> list[Job]:
        """The jobs of this cycle, in order: copies out, copies in, the work itself; none when there is nothing to do.

        The first job, which gets ``number``, also tells of ``untold``: changes by decisions that submitted no job.
        Without a job, ``untold`` gets those of this one as well.
        """
        if self._decoding and not self._stepped:
            self._state.cohort.dissolve()  # its members sit this decoding job out
        jobs = self._copying(number) if self._copies else []
        if self._stepped or self._scheduled:
            jobs.append(self._working(number + len(jobs)))
        if self.budget <= 0 and self._blocked is Blocked.NOTHING and self._state.waiting:
            self._blocked = Blocked.BUDGET
        for job in jobs:
            self._describe(job)
        if jobs:
            if untold.admitted or untold.lost:
                self._tell_as_well(untold)
            jobs[0].admitted, jobs[0].preempted = self._admitted, self._preempted
        else:
            untold.admitted.extend(self._admitted)
            untold.lost.extend(self._preempted)
        return jobs

    def _tell_as_well(self, untold: Untold) -> None:
        """What came before this cycle, and no job has told of."""
        self._admitted[:0], self._preempted[:0] = untold.admitted, untold.lost
        untold.admitted.clear()
        untold.lost.clear()

    def _describe(self, job: Job) -> None:
        """Note on it how things stand when it begins."""
        state, memory = self._state, self._memory
        job.waiting, job.running, job.swapped = len(state.waiting), len(state.running), len(self._swap.out)
        job.free_blocks, job.withheld_blocks = memory.free, memory.withheld
        job.blocked = self._blocked

    def decision(self, job: Job) -> Decision:
        """What this cycle came to, once it was closed with this one job."""
        head = self._state.waiting.head
        may_shift = self._rules.shifting and head is not None and not self._closed
        return Decision(
            whole=job.whole and job.decoding == len(self._state.running) and not self._swap.out
            and not (job.admitted or job.preempted or may_shift),
            waits=head is not None,
            blocked=self._blocked,
            closed=self._closed,
            refusal_lasts=head is None or self._memory.stays_out(head),
        )  # fmt: skip

    def _copying(self, number: int) -> list[Job]:
        jobs: list[Job] = []
        for out in (True, False):
            copies = [copy for copy in self._copies if copy.out is out]
            if copies:
                jobs.append(Job.of_copies(number + len(jobs), copies))
        return jobs

    def _working(self, number: int) -> Job:
        cohort, scheduled = self._state.cohort, self._scheduled
        decoding = len(cohort.members) if self._stepped else 0
        sequences, context = decoding, cohort.context_tokens if decoding else 0
        if self._decoding:
            for request in scheduled:
                if not request.chunk:
                    sequences += request.samples
                    context += request.samples * (request.prompt_tokens + request.emitted)
        work = Work(self._prefill_tokens, sequences, context if self._rules.reads_context else 0)
        job = Job(number, work, decoding, cohort.changes)
        if decoding:
            job.stepped = 1
        if scheduled:
            job.scheduled, job.in_order = scheduled, self._in_order
        if self._prefill_tokens:
            job.chunks, job.kind = self._chunks(decoding), Kind.MIXED if sequences else Kind.PREFILL
        return job

    def _chunks(self, decoding: int) -> list[Chunk]:
        """Those who prefill: behind so many of the cohort, or, where the order of admission counts, between them."""
        cohort, chunks = self._state.cohort, []
        for place, request in enumerate(self._scheduled, decoding):
            if request.chunk:
                if self._in_order and request.place < cohort.latest:
                    place -= sum(member.place > request.place for member in cohort.members.values())  # noqa: PLW2901
                chunks.append(Chunk(request, request.chunk, place))
        return chunks

    def _admit(self, request: Request, cached: int, tokens: int, *, scheduled: bool) -> bool:
        if self._closed:
            return False
        if not self._has_room(request, cached + tokens) and not self._make_way(request, cached + tokens):
            return False
        state, memory = self._state, self._memory
        memory.admit(request, cached + tokens, None if scheduled else cached)
        state.waiting.take(request)
        request.admitted(cached)
        state.join(request)
        self._admitted.append(Admission(request, cached))
        return True

    def _has_room(self, request: Request, upto: int) -> bool:
        """Whether a waiting request gets a slot and the memory for so many tokens."""
        if not self._has_slots(request):
            return False
        memory = self._memory
        if memory.can_admit(request, upto, others_run=bool(self._state.running)):
            return True
        self._blocked = Blocked.HOLES if memory.lacks_hole(request) else Blocked.BLOCKS
        return False

    # Preemptive orders

    def _make_way(self, request: Request, upto: int) -> bool:
        """Whether the request has room now that some who run, and are less urgent, have left: as few as will do.

        Nobody leaves who joined in this very cycle, or was admitted as overdue.
        """
        joined = [admission.request for admission in self._admitted]
        running = self._state.running.values()
        less = [
            other
            for other in running
            if not (other.overdue or other in joined) and self._rules.is_before(request, other)
        ]
        less.sort(key=self._rules.rank, reverse=True)
        leaving = fewest(less, lambda leaving: self._fits_without(request, upto, leaving))
        if leaving is None:
            return False
        for other in leaving:
            self._evict(other)
        self._made_way += leaving
        self._blocked = Blocked.NOTHING
        return True

    def _fits_without(self, request: Request, upto: int, leaving: list[Request]) -> bool:
        state, slots = self._state, self._rules.limits.max_running
        if slots is not None and state.slots_taken - sum(r.samples for r in leaving) + request.samples > slots:
            return False
        return self._memory.fits_without(request, upto, leaving, others_run=len(leaving) < len(state.running))

    # The cohort

    def _step(self, most: int, *, decodes_first: bool) -> list[Request]:
        """Schedule the cohort, all at once, if that is the same as one by one. Who is still to be asked, in order."""
        state, cohort, memory = self._state, self._state.cohort, self._memory
        if not self._can_step(most, decodes_first):
            return list(state.running.values())
        while memory.short and cohort.members:
            memory.exhaust()
            self.preempt()
        decoding = len(cohort.members)
        if decoding:
            memory.step(1)
            self._stepped, self._in_order = True, not decodes_first
            self.budget -= decoding
        return list(state.prefilling.values())

    def _can_step(self, most: int, decodes_first: bool) -> bool:  # noqa: FBT001  # its caller's
        """Everybody who decodes is in it, budget and blocks reach for it, and its turn is before all others'.

        Or nobody's turn matters. Where blocks don't reach, it is still the same if the last admitted goes.
        """
        state, prefilling = self._state, self._state.prefilling
        decoding = len(state.cohort.members)
        return (
            0 < decoding <= self.budget
            and decoding + len(prefilling) == len(state.running)
            and not (self._stepped or self._scheduled)
            and (self._rules.last_goes or not self._memory.short)
            and (decodes_first or not prefilling or self._is_behind(state.cohort.latest) or self._reaches_for_all(most))
        )

    def _is_behind(self, place: int) -> bool:
        """Whether all who prefill, of whom there are some, were admitted after that place."""
        return next(iter(self._state.prefilling.values())).place > place

    def _reaches_for_all(self, most: int) -> bool:
        """Whether there are tokens and blocks for everybody who runs, so that their order makes no difference."""
        memory, tokens, blocks = self._memory, self.budget - len(self._state.cohort.members), 0
        for request in self._state.prefilling.values():
            wish = min(request.rest, most)
            tokens -= wish
            blocks += memory.needs(request, request.computed + wish)
            if tokens < 0 or memory.looks_at_followers(request):
                return False
        return memory.covers_beside(blocks)

    def _is_stepped(self, request: Request) -> bool:
        return self._stepped and request.index in self._state.cohort.members

    def _extend_within_budget(self, request: Request, most: int, cut: bool) -> None:  # noqa: FBT001  # its caller's
        tokens = min(request.rest, most) if request.prefilling else request.samples
        if tokens > self.budget and request.prefilling and (cut or request.computed > request.admitted_with):
            tokens = self.budget
        if 0 < tokens <= self.budget:
            self.extend(request, tokens)

    def _expect(self, request: Request, tokens: int) -> None:
        rest = request.rest
        right = tokens.__class__ is int and 1 <= tokens <= rest
        if request.turn == self._turn or not right or self._is_stepped(request):
            self._refuse(request, tokens, rest)

    def _refuse(self, request: Request, tokens: int, rest: int) -> NoReturn:
        again = request.turn == self._turn or self._is_stepped(request)
        twice = ", which is in this job already" if again else ""
        raise InvariantError(f"a policy schedules {tokens} tokens, {rest} are left to compute, of {request!r}{twice}")

    def _has_slots(self, request: Request) -> bool:
        slots = self._rules.limits.max_running
        if slots is None or request.samples <= slots - self._state.slots_taken:
            return True
        self._blocked = Blocked.SLOTS
        return False

    def _schedule(self, request: Request, tokens: int) -> None:
        request.turn = self._turn
        self._scheduled.append(request)
        self.budget -= tokens
        if request.prefilling:
            request.chunk = tokens
            self._prefill_tokens += tokens
        else:
            request.chunk = 0
            self._decoding += 1
