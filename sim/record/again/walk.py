"""Decision after decision over a whole run: everything but how long jobs take, which the record says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from sim.clock import instant_ns
from sim.costs.own import cost_of
from sim.engine.plan import Blocked
from sim.policies.presets import Choice
from sim.record.again.fits import reason_against
from sim.record.again.hashed import Contents, Hashed
from sim.record.again.orders import KEYS, line_of
from sim.record.again.pool import Boundless, Counted, Regions
from sim.record.again.rules import VICTIMS, decide, victim_rule
from sim.record.again.senders import Senders, cancel_times
from sim.record.again.server import OffTheRecordError, Planned, Req, Server
from sim.record.again.turn import Turn
from sim.request import NEVER, Status, Workload
from sim.scenario import Scenario

FOREVER = 2**62
REQUESTS_AT_ONCE = 2**14
ARRIVES, CANCELLED, CRASH, POOL, LEAVES = range(5)


class Decision(NamedTuple):
    """What follows from a decision at ``at_ns``: its ``jobs``, the first of them number ``number``.

    The figures and lists are those after it.
    """

    number: int
    at_ns: int
    jobs: list[Planned]
    waiting: list[Req]
    running: list[Req]
    swapped: int
    free: int | None
    withheld: int
    blocked: Blocked


@dataclass
class Ended:
    """How a request ended, or that it did not: as the record's table of requests has it."""

    status: Status = Status.UNFINISHED
    reason: str | None = None
    ended_ns: int = NEVER
    arrived_job: int = NEVER
    ended_job: int = NEVER


class Walk:
    """All decisions of a run. Iterate over it once; then ``ends`` and ``left_ns`` say how it ended.

    ``ends_ns`` are the ends of the recorded jobs; ``victims`` the preempted requests by the job that tells of them,
    for a rule that nobody can repeat. It raises :class:`OffTheRecordError` when these are impossible.
    """

    def __init__(self, scenario: Scenario, choice: Choice, workload: Workload, ends_ns: Sequence[int],
                 victims: Sequence[Sequence[int]] = ()) -> None:  # fmt: skip
        axes, kv = choice
        self.ends = [Ended() for _ in range(len(workload))]
        self.requests = requests_of(workload, axes.max_model_tokens)
        self.cut: Decision | None = None
        """The decision whose last job the horizon cut off, once the walk is over."""
        self._choice = choice
        self._workload = workload
        self._ends_ns = ends_ns
        self._victims = victims
        self._lost: list[tuple[int, int, int]] = []
        """Who was preempted in the turn under way."""
        rule = VICTIMS.get(victim_rule(axes, kv))
        memory = _memory(choice, workload)
        if axes.order not in KEYS:
            raise OffTheRecordError(f"nobody here knows the rule of order {axes.order}")
        line = line_of(axes, scenario.run.seed, workload, cost_of(scenario.device), memory.cached)
        self._server = Server.of(axes, kv, memory, rule or self._recorded, line)
        horizon_ms = scenario.run.horizon_ms
        self._horizon_ns = FOREVER if horizon_ms is None else instant_ns(horizon_ms)
        self._to_come = _instants(scenario, workload)
        self._senders = None if workload.sending is None else Senders(workload)
        self._cancelled: list[int] = []
        self._crashed = False
        self._crashes = any(fault.kind == "crash" for fault in scenario.faults)
        self._carried: list[tuple[int, int, int]] = []
        self._joined: list[tuple[int, int, int]] = []
        """Who was preempted, and who joined, with decisions that led to no job."""
        self._number = 0
        self._left = len(workload)

    def __iter__(self) -> Iterator[Decision]:
        free_ns: int | None = None
        while self._left:
            now_ns = self._next_ns(free_ns)
            if now_ns > self._horizon_ns or now_ns == FOREVER:
                break
            decision = self._decide(now_ns)
            if decision is None:
                free_ns = None
                continue
            yield decision
            behind = decision.number + len(decision.jobs)
            if behind > len(self._ends_ns):
                self.cut = decision
                self._happen(self._horizon_ns)
                break
            for place, job in enumerate(decision.jobs):
                free_ns = self._ends_ns[decision.number + place]
                done = self._server.book(job, self.requests)
                if self._senders is not None:
                    for index in [index for index, *_ in job.scheduled if self.requests[index].emitted]:
                        self._senders.emitted(index, free_ns)
                for req in done:
                    self._end(req.index, Status.FINISHED, None, free_ns)
        self._stop()

    def _next_ns(self, free_ns: int | None) -> int:
        """The next decision: when the device is free, or else when something happens; up to then all has happened."""
        if free_ns is None:
            free_ns = self._to_come[0][0] if self._to_come else FOREVER
        if free_ns <= self._horizon_ns:
            self._happen(free_ns)
        return free_ns

    def _happen(self, upto_ns: int) -> None:
        while self._to_come and self._to_come[0][0] <= upto_ns:
            at_ns, kind, value = heappop(self._to_come)
            if kind == POOL:
                self._server.memory.withhold(value)
            elif kind == CRASH:
                self._crashed = True
            elif kind == CANCELLED:
                self._cancelled.append(value)
            elif kind == LEAVES:
                if self._senders is not None and self._senders.leaves(value, at_ns):
                    self._cancelled.append(value)
            else:
                self._arrive(value, at_ns)

    def _arrive(self, index: int, at_ns: int) -> None:
        self.ends[index].arrived_job = self._number
        self.requests[index].arrival_ns = at_ns
        if self._senders is not None and (ns := self._senders.patience_ends(index, at_ns)) is not None:
            heappush(self._to_come, (ns, LEAVES, index))
        reason = reason_against(self.requests[index], self._choice, crashes=self._crashes)
        if reason is None:
            self._server.line.add(self.requests[index])
        else:
            self._end(index, Status.REJECTED, reason, NEVER)
            self._set_off(index, at_ns)

    def _decide(self, now_ns: int) -> Decision | None:
        server = self._server
        for index in sorted(self._cancelled):
            if self.ends[index].status is Status.UNFINISHED:
                where = server.end(self.requests[index])
                self._end(index, Status.CANCELLED, where, now_ns)
        self._cancelled.clear()
        if self._crashed:
            self._crashed = False
            self._carried += server.crash()
        server.line.begin(now_ns)
        jobs, blocked = self._plan()
        if not jobs:
            return None
        jobs[0].admitted, self._joined = self._joined, []
        jobs[0].preempted, self._carried = self._carried, []
        number, self._number = self._number, self._number + len(jobs)
        if jobs[-1].scheduled:
            server.last_kind = jobs[-1].kind
        memory = server.memory
        return Decision(number, now_ns, jobs, server.waiting, list(server.running.values()), len(server.swapped),
                        memory.free, memory.withheld, blocked)  # fmt: skip

    def _plan(self) -> tuple[list[Planned], Blocked]:
        """The jobs; decided anew while all that comes of it is that somebody is preempted."""
        for _ in range(3 * len(self.requests) + 3):
            turn = Turn(self._server)
            self._lost = turn.preempted
            decide(turn)
            jobs = turn.jobs()
            self._carried += turn.preempted
            self._joined += turn.admitted
            if jobs or turn.admitted or not turn.preempted:
                return jobs, turn.blocked
        raise OffTheRecordError(f"job {self._number}: decided for ever")

    def _end(self, index: int, status: Status, reason: str | None, at_ns: int) -> None:
        if status is Status.FINISHED:
            self._server.end(self.requests[index])
        end = self.ends[index]
        end.status, end.reason, end.ended_ns, end.ended_job = status, reason, at_ns, self._number
        self._left -= 1
        if at_ns != NEVER:
            self._set_off(index, at_ns)

    def _set_off(self, index: int, at_ns: int) -> None:
        """Whoever its client sends next is to come."""
        if self._senders is not None:
            cancelled = self.ends[index].status is Status.CANCELLED
            for ns, following in self._senders.ended(index, at_ns, cancelled=cancelled):
                heappush(self._to_come, (ns, ARRIVES, following))

    def _stop(self) -> None:
        """Whoever has not ended is where it is."""
        server = self._server
        for index, end in enumerate(self.ends):
            if end.status is Status.UNFINISHED:
                here = "running" if index in server.running else "swapped" if index in server.swapped else "waiting"
                end.reason = "not arrived" if end.arrived_job == NEVER else here

    def _recorded(self, running: Sequence[Req]) -> Req:
        """The next victim that the record tells of."""
        told = self._victims[self._number] if self._number < len(self._victims) else ()
        place = len(self._carried) + len(self._lost)
        if place >= len(told) or told[place] not in self._server.running:
            raise OffTheRecordError(f"job {self._number}")
        return self._server.running[told[place]]


def requests_of(workload: Workload, longest: int) -> list[Req]:
    """As they are before anything happens; ``longest`` is the model's length, 0 without one."""
    return list(each_request(workload, longest))


def each_request(workload: Workload, longest: int) -> Iterator[Req]:
    """The same one after the other."""
    columns = (workload.arrival_ns, workload.priority, workload.prompt_tokens, workload.output_tokens,
               workload.max_tokens, workload.samples)  # fmt: skip
    for first in range(0, len(workload), REQUESTS_AT_ONCE):
        some = (column[first : first + REQUESTS_AT_ONCE].tolist() for column in columns)
        for index, (arrival_ns, priority, prompt, *outputs, samples) in enumerate(zip(*some, strict=True), first):
            output, declared = (min(most, longest - prompt) for most in outputs) if longest else outputs
            yield Req(index, arrival_ns, priority, prompt, output, declared, samples)


def _memory(choice: Choice, workload: Workload) -> Boundless:
    kv = choice.kv
    if kv is None:
        return Boundless()
    if kv.allocation == "contiguous":
        return Regions(kv)
    return Hashed(kv, Contents(kv.block_tokens, workload)) if kv.prefix_cache else Counted(kv)


def _instants(scenario: Scenario, workload: Workload) -> list[tuple[int, int, int]]:
    """``(ns, what, which)``: all that happens to the server from outside, as a heap."""
    instants = []
    cancels, sending = cancel_times(workload), workload.sending
    waits = [False] * len(workload) if sending is None else (sending.after != NEVER).tolist()
    for index, (arrival_ns, cancel_ns) in enumerate(zip(workload.arrival_ns.tolist(), cancels, strict=True)):
        if waits[index]:
            if NEVER not in (cancel_ns, arrival_ns):
                instants.append((cancel_ns, CANCELLED, index))
            continue
        if cancel_ns == NEVER or cancel_ns >= arrival_ns:
            instants.append((arrival_ns, ARRIVES, index))
        if cancel_ns != NEVER:
            instants.append((cancel_ns, CANCELLED, index))
    changes: dict[int, int] = {}
    for fault in scenario.faults:
        at_ns = instant_ns(fault.at_ms)
        if fault.kind == "crash":
            instants.append((at_ns, CRASH, 0))
        elif fault.kind == "pool" and fault.until_ms is not None:
            until_ns = instant_ns(fault.until_ms)
            changes[at_ns] = changes.get(at_ns, 0) + (fault.blocks or 0)
            changes[until_ns] = changes.get(until_ns, 0) - (fault.blocks or 0)
    level = 0
    for at_ns in sorted(changes):
        level += changes[at_ns]
        instants.append((at_ns, POOL, level))
    heapify(instants)
    return instants
