"""One cycle: what a policy sees (:class:`View`), and what it fills (:class:`Cycle`)."""

from collections.abc import Callable, Collection, Iterable, Reversible
from typing import NamedTuple, Protocol

from sim.costs.base import Work
from sim.engine.kv import Memory
from sim.engine.plan import Admission, Blocked, Chunk, Copy, Job, Kind, Loss, Preemption, Untold
from sim.engine.queue import Queue
from sim.engine.swap import Swap
from sim.errors import InvariantError
from sim.request import NEVER, Request


class State:
    """Who waits, in queue order, and who runs, in order of admission (by index; some still prefill)."""

    def __init__(self, waiting: Queue) -> None:
        self.waiting = waiting
        self.running: dict[int, Request] = {}
        self.prefilling: dict[int, Request] = {}
        self.slots_taken = 0
        self.single = True
        """Whether nobody ever ran with more than one sequence."""

    def join(self, request: Request) -> None:
        """``request`` is now the last of those who run."""
        self.running[request.index] = request
        self.slots_taken += request.samples
        self.single = self.single and request.samples == 1
        if request.prefilling:
            self.prefilling[request.index] = request

    def leave(self, request: Request) -> None:
        """``request`` runs no longer."""
        del self.running[request.index]
        self.slots_taken -= request.samples
        self.prefilling.pop(request.index, None)


class Running(Collection[Request], Reversible[Request], Protocol):
    """The requests that run, in order of admission."""


class View(NamedTuple):
    """What a policy may know. It reads no other clock and changes nothing here; it acts through the cycle."""

    now_ns: int
    last_kind: Kind | None
    waiting: Queue
    running: Running


Victim = Callable[[Running, Memory], Request]
"""Whom of the running requests to preempt."""


class Limits(NamedTuple):
    """What the running requests and a job may come to; None: no limit."""

    max_running: int | None = None
    token_budget: int | None = None


class Rules(NamedTuple):
    """What a cycle goes by beside its policy. ``reads_context``: the device's cost depends on it, so it is counted."""

    limits: Limits
    victim: Victim
    reads_context: bool = True


UNBOUNDED = 2**62
"""More tokens, and more requests, than any job or server will see."""


class Cycle:
    """The job under construction. Each verb asks whether there is room, acts if so, and answers whether it did."""

    def __init__(self, turn: int, state: State, memory: Memory, swap: Swap, rules: Rules) -> None:
        self.budget = UNBOUNDED if rules.limits.token_budget is None else rules.limits.token_budget
        """Tokens that the job may still take."""
        self.untold = Untold([], [])
        """Once closed: what this decision changed, and those before it, that no job tells of."""
        self._turn = turn
        self._state = state
        self._memory = memory
        self._swap = swap
        self._slots = UNBOUNDED if rules.limits.max_running is None else rules.limits.max_running
        self._victim = rules.victim
        self._reads_context = rules.reads_context
        self._closed = False
        self._lacks_blocks = False
        self._blocked = Blocked.NOTHING
        self._scheduled: list[Request] = []
        self._chunk_tokens: dict[int, int] = {}
        self._admitted: list[Admission] = []
        self._preempted: list[Preemption] = []
        self._copies: list[Copy] = []

    # What a policy asks

    @property
    def empty(self) -> bool:
        return not self._scheduled

    @property
    def only_preempted(self) -> bool:
        """Whether all that happened is that somebody was preempted: what they left may let others in."""
        return bool(self._preempted) and not self._admitted and not self._scheduled and not self._copies

    @property
    def preempted(self) -> bool:
        """Whether anybody was preempted in this cycle."""
        return bool(self._preempted)

    def next_waiting(self) -> Request | None:
        """The head of the queue, if anybody may be admitted: nobody before all who were swapped out are back."""
        if self._closed:
            return None
        if self._swap:
            self._blocked = Blocked.SWAPPED if self._state.waiting else Blocked.NOTHING
            return None
        return self._state.waiting.head

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
        if request.ended or request.index in self._state.running or request in self._swap:
            raise InvariantError(f"a policy admits {request!r}, which does not wait")
        if self._closed or not self._has_slots(request):
            return False
        cached = self._memory.cached(request)
        if not self._memory.can_admit(request, cached + tokens, others_run=bool(self._state.running)):
            self._blocked = Blocked.HOLES if self._memory.lacks_hole(request) else Blocked.BLOCKS
            return False
        self._memory.admit(request, cached + tokens, cached)
        self._state.waiting.remove(request)
        request.admitted(cached)
        self._state.join(request)
        self._admitted.append(Admission(request, cached))
        return True

    def prefill(self, request: Request, tokens: int) -> bool:
        """Schedule the next ``tokens`` prompt tokens of a running or waiting request; nobody makes room for it."""
        self._expect(request, tokens, self.rest(request))
        if tokens > self.budget:
            self._blocked = Blocked.BUDGET
            return False
        if request.index in self._state.running:
            if not self._memory.can_grow(request, request.computed + tokens):
                self._lacks_blocks = True
                return False
        elif not self.admit(request, tokens):
            return False
        self._memory.grow(request, request.computed + tokens)
        self._schedule(request, tokens)
        return True

    def extend(self, request: Request, tokens: int) -> bool:
        """Schedule the next ``tokens`` tokens of a running request; victims make room, at last the request itself."""
        self._expect(request, tokens, request.rest)
        while not self._memory.can_grow(request, request.computed + tokens):
            if self.preempt() is request:
                return False
        self._memory.grow(request, request.computed + tokens)
        self._schedule(request, tokens)
        return True

    def extend_all(self, requests: Iterable[Request], most: int = UNBOUNDED, *, cut: bool = True) -> None:
        """Schedule the next tokens of each of these running requests, at most ``most`` of a prefill, while they last.

        What is left of the budget bounds a prefill (but one that has not begun only if it may be ``cut``); a decode is
        all or nothing. Victims make room.
        """
        budget, turn, scheduled = self.budget, self._turn, self._scheduled
        for request in requests:
            if request.prefill_end <= request.computed < request.roomy_until and budget > 0 and not self._preempted:
                request.turn = turn  # a decode of one sequence whose blocks have room: nothing else to ask
                scheduled.append(request)
                budget -= 1
                continue
            self.budget = budget
            if request.index in self._state.running:
                self._extend_within_budget(request, most, cut)
            budget = self.budget
        self.budget = budget

    def decode_all(self) -> bool:
        """Schedule the next tokens of every running request whose prefill is complete; victims make room."""
        self.extend_all([r for r in self._state.running.values() if r.computed >= r.prefill_end])
        if not self._preempted:
            self.extend_all([request for request in self.restore() if not request.prefilling])
        return bool(self._scheduled)

    def restore(self) -> list[Request]:
        """Those who were swapped out come back, oldest first, with memory for all that is known of them."""
        back: list[Request] = []
        while (request := self._swap.oldest) is not None and not self._closed and self._has_slots(request):
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
        if self._lacks_blocks and self._state.prefilling and not self._scheduled:
            self.preempt()

    def preempt(self) -> Request:
        """Take its blocks from the victim, even if it is in this job already; answers who it was."""
        victim = self._victim(self._state.running.values(), self._memory)
        if victim.turn == self._turn:
            victim.turn = NEVER
            self._scheduled.remove(victim)
            self.budget += self._chunk_tokens.pop(victim.index, victim.samples)
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
        return victim

    # What the scheduler asks once the policy is done

    def close(self, number: int, untold: Untold) -> list[Job]:
        """The jobs of this cycle, in order: copies out, copies in, the work itself; none when there is nothing to do.

        The first job, which gets ``number``, also tells of ``untold``: changes by decisions that submitted no job.
        """
        admitted, lost = [*untold.admitted, *self._admitted], [*untold.lost, *self._preempted]
        jobs = self._copying(number) if self._copies else []
        if self._scheduled:
            jobs.append(self._working(number + len(jobs)))
        if self._blocked is Blocked.NOTHING and self.budget <= 0 and self._state.waiting:
            self._blocked = Blocked.BUDGET
        for job in jobs:
            job.waiting, job.running, job.swapped = len(self._state.waiting), len(self._state.running), len(self._swap)
            job.free_blocks, job.withheld_blocks = self._memory.free, self._memory.withheld
            job.blocked = self._blocked
        if jobs:
            jobs[0].admitted, jobs[0].preempted = admitted, lost
        else:
            self.untold = Untold(admitted, lost)
        return jobs

    def _copying(self, number: int) -> list[Job]:
        jobs: list[Job] = []
        for out in (True, False):
            copies = [copy for copy in self._copies if copy.out is out]
            if copies:
                work = Work(0, 0, 0, blocks=sum(copy.blocks for copy in copies))
                jobs.append(Job(number + len(jobs), work, copies=copies))
        return jobs

    def _working(self, number: int) -> Job:
        scheduled, tokens = self._scheduled, self._chunk_tokens
        chunks = (
            [Chunk(r, tokens[r.index], place) for place, r in enumerate(scheduled) if r.index in tokens]
            if tokens
            else ()
        )
        decodes = [r for r in scheduled if r.index not in tokens] if tokens else scheduled
        context = sum(r.samples * (r.prompt_tokens + r.emitted) for r in decodes) if self._reads_context else 0
        sequences = len(decodes) if self._state.single else sum(r.samples for r in decodes)
        return Job(number, Work(sum(tokens.values()), sequences, context), scheduled, chunks)

    def _extend_within_budget(self, request: Request, most: int, cut: bool) -> None:  # noqa: FBT001  # its caller's
        tokens = min(request.rest, most) if request.prefilling else request.samples
        if tokens > self.budget and request.prefilling and (cut or request.computed > request.admitted_with):
            tokens = self.budget
        if 0 < tokens <= self.budget:
            self.extend(request, tokens)

    def _expect(self, request: Request, tokens: int, rest: int) -> None:
        if request.turn == self._turn or not 1 <= tokens <= rest:
            twice = ", which is in this job already" if request.turn == self._turn else ""
            raise InvariantError(
                f"a policy schedules {tokens} tokens, {rest} are left to compute, of {request!r}{twice}"
            )

    def _has_slots(self, request: Request) -> bool:
        if self._state.slots_taken + request.samples <= self._slots:
            return True
        self._blocked = Blocked.SLOTS
        return False

    def _schedule(self, request: Request, tokens: int) -> None:
        request.turn = self._turn
        self._scheduled.append(request)
        self.budget -= tokens
        if request.prefilling:
            self._chunk_tokens[request.index] = tokens
