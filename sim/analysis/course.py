"""The run decided again (:mod:`sim.record.again`), decision after decision, beside what the record says of each."""

from collections.abc import Iterable, Sequence

from sim.analysis.checks_tables import time
from sim.analysis.claims import Claims
from sim.analysis.exact import whole_ns
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.told import Row, Told, planned_end_ns, planned_work
from sim.engine.plan import Blocked, Kind, Loss
from sim.record.again.orders import KEYS
from sim.record.again.rules import RULES, VICTIMS, victim_rule
from sim.record.again.server import OffTheRecordError, Planned
from sim.record.again.walk import Decision, Ended, Walk
from sim.record.json_shape import Run
from sim.record.tables import DECODE
from sim.request import NEVER, Status
from sim.show import escape, show

STARTS = "jobs start at the earliest moment"
VICTIM = "victims are those of the rule"
ROOM = "nobody is admitted without room"
KEPT_OUT = "nobody who has room is kept out"
TURN = "nobody is overtaken in admission"
COPIES = "who is swapped goes out and comes back in turn"
DECISION = "every decision is that of the policy"
LOSSES = "what is preempted is copied if there is room, else lost"
CACHED = "cached tokens are those that the cache held"
COUNTED = "who waits and runs is counted"
LISTED = "who waits and runs is listed"
FREE = "free blocks are those that nobody holds"
BLOCKED = "what kept the head of the queue out is told"
END = "the record goes to the end"

ALWAYS = (STARTS, ROOM, KEPT_OUT, TURN, COPIES, DECISION, LOSSES, CACHED, COUNTED, FREE, BLOCKED, END)


def beyond(claims: Claims) -> str | None:
    """What of a run somebody brought, so that nobody here can say what it should decide; None: nothing."""
    axes = claims.axes
    if axes.composition not in RULES:
        return f"composition {show(axes.composition)}"
    return f"order {show(axes.order)}" if axes.order not in KEYS else None


class Course:
    """What each check of the decisions found. It ends with the first decision that is another than the policy's.

    ``found`` has an entry for each check that can be made: a victim that is drawn by lot can't be checked. ``ends``
    says how each request must have ended; None where that is not known.
    """

    def __init__(self, facts: Facts, run: Run | None) -> None:
        self.ends: list[Ended] | None = None
        self.found: dict[str, list[Difference]] = {check: [] for check in ALWAYS}
        claims = facts.claims
        if victim_rule(claims.axes, claims.kv) in VICTIMS:
            self.found[VICTIM] = []
        if run is not None:
            self.found[LISTED] = []
        self._facts = facts
        self._ids = [escape(facts.workload.id(index)) for index in range(facts.requests)]
        self._told = Told(facts, run)
        self._jobs = {name: column.tolist() for name, column in facts.record.jobs.items()}
        self._walk = Walk(claims.scenario, claims.choice, facts.workload, self._jobs["end_ns"], self._told.victims)
        self._follow()

    def _follow(self) -> None:
        jobs, upto = self._facts.jobs, 0
        try:
            for decision in self._walk:
                upto = decision.number + len(decision.jobs)
                if decision.number < jobs and not self._compare(decision):
                    return
        except OffTheRecordError:
            if upto < jobs:
                self._note(DECISION, f"job {upto}, preempted", "who runs, one after the other", "others")
            return
        for job in range(upto, jobs):
            self._note(END, f"job {job}", "none", "in the record")
        if self._walk.cut is not None:
            self._cut_off(self._walk.cut)
        self.ends = self._walk.ends
        if self._facts.claims.scenario.run.horizon_ms is None and self._walk.cut is None:
            for index, end in enumerate(self.ends):
                if end.status is Status.UNFINISHED:
                    where = f"request {self._ids[index]}"
                    self._note(END, where, "served until it has ended", f"{self._walk.requests[index].emitted} tokens")

    def _cut_off(self, decision: Decision) -> None:
        """The jobs that are missing would have ended after the horizon; without one there are none."""
        jobs, horizon_ms = self._facts.jobs, self._facts.claims.scenario.run.horizon_ms
        begun = jobs - decision.number
        start_ns = self._jobs["end_ns"][-1] if begun else decision.at_ns
        end_ns = planned_end_ns(self._facts, decision.jobs[begun], self._walk.requests, start_ns)
        if horizon_ms is None or end_ns <= whole_ns(horizon_ms):
            self._note(END, f"job {jobs}", f"in the record: it ends at {time(end_ns)}", "missing")

    def _note(self, check: str, where: str, due: Value, found: Value) -> None:
        self.found[check].append(Difference(where, due, found))

    def _compare(self, decision: Decision) -> bool:
        """Enters what is not as it should be; whether the run can be followed further."""
        first, at_ns = decision.number, self._jobs["start_ns"][decision.number]
        if at_ns != decision.at_ns:
            self._note(STARTS, f"job {first}, start", time(decision.at_ns), time(at_ns))
            return False
        if not (self._same_losses(decision) and self._same_admissions(decision)):
            return False
        last = min(first + len(decision.jobs), self._facts.jobs)
        if not all(self._same_job(job, decision.jobs[job - first]) for job in range(first, last)):
            return False
        for job in range(first, last):
            self._figures(job, decision)
        return True

    def _same_losses(self, decision: Decision) -> bool:
        """Who is preempted, and what becomes of it."""
        first, due = decision.number, decision.jobs[0].preempted
        found = self._told.preempted.get(first, [])
        if [row[0] for row in due] != [row[0] for row in found]:
            check = VICTIM if VICTIM in self.found else DECISION
            self._note(check, f"job {first}, preempted", self._names(due), self._names(found))
            return False
        for row, other in zip(due, found, strict=True):
            if tuple(row) != other:
                where = f"job {first}, request {self._ids[row[0]]} preempted"
                self._note(LOSSES, where, _loss(row), _loss(other))
        return True

    def _same_admissions(self, decision: Decision) -> bool:
        """Who joins, in order. Of those who should not have, and of those who should, the first is told."""
        first, due = decision.number, decision.jobs[0].admitted
        found = self._told.admitted.get(first, [])
        for row, other in zip(due, found, strict=False):
            if row[0] == other[0] and row[2] == other[2] and row[1] != other[1]:
                where = f"job {first}, request {self._ids[row[0]]} admitted, cached"
                self._note(CACHED, where, row[1], other[1])
        mine, theirs = [(row[0], row[2]) for row in due], [(row[0], row[2]) for row in found]
        if mine == theirs:
            return True
        shown = (f"job {first}, admitted", self._names(due), self._names(found))
        if any(back for _, back in {*mine} ^ {*theirs}):
            self._note(COPIES, *shown)
        elif theirs == mine[: len(theirs)]:
            self._note(KEPT_OUT, *shown)
        elif mine == theirs[: len(mine)]:
            self._note(ROOM, *shown)
        else:
            self._note(TURN, *shown)
        return False

    def _same_job(self, job: int, due: Planned) -> bool:
        kind = self._jobs["kind"][job]
        copies = self._told.copied.get(job, [])
        if [tuple(copy) for copy in due.copies] != copies:
            self._note(COPIES, f"job {job}, swapped", self._copies(due.copies), self._copies(copies))
            return False
        if kind != due.kind:
            self._note(DECISION, f"job {job}, kind", due.kind.name.lower(), Kind(kind).name.lower())
            return False
        listed = self._told.scheduled(job)
        if listed is not None and listed != due.scheduled:
            self._note(DECISION, f"job {job}, scheduled", self._work(due.scheduled), self._work(listed))
            return False
        if listed is None and planned_work(due) != self._told.work(job):
            (chunks, decodes), (other_chunks, others) = planned_work(due), self._told.work(job)
            rows = [(index, tokens, 0) for _, index, tokens in chunks] + [(i, 1, DECODE) for i in sorted(decodes)]
            other = [(index, tokens, 0) for _, index, tokens in other_chunks] + [(i, 1, DECODE) for i in sorted(others)]
            self._note(DECISION, f"job {job}, scheduled", self._work(rows), self._work(other))
            return False
        return True

    def _figures(self, job: int, decision: Decision) -> None:
        """How it stood after the decision."""
        free = NEVER if decision.free is None else decision.free
        for name, check, due in (
            ("waiting", COUNTED, len(decision.waiting)),
            ("running", COUNTED, len(decision.running)),
            ("swapped", COUNTED, decision.swapped),
            ("free_blocks", FREE, free),
            ("withheld_blocks", FREE, decision.withheld),
        ):
            found = self._jobs[name][job]
            if found != due:
                shown = [None if value == NEVER else value for value in (due, found)]
                self._note(check, f"job {job}, {name.replace('_', ' ')}", *shown)
        blocked = self._jobs["blocked"][job]
        if blocked != decision.blocked:
            self._note(BLOCKED, f"job {job}, blocked", decision.blocked.name.lower(), Blocked(blocked).name.lower())
        if self._told.run is not None:
            event = self._told.run.events[job]
            for name, requests, listed in (
                ("waiting", decision.waiting, event.waiting),
                ("running", decision.running, event.running),
            ):
                ids, others = [self._ids[req.index] for req in requests], [escape(id_) for id_ in listed]
                if ids != others:
                    self._note(LISTED, f"job {job}, {name}", _some(ids), _some(others))

    # In words

    def _names(self, rows: Iterable[Row]) -> str:
        return _some([self._ids[row[0]] for row in rows])

    def _copies(self, rows: Iterable[Row]) -> str:
        return _some([f"{self._ids[i]} {blocks} {'out' if out else 'in'}" for i, blocks, out in rows])

    def _work(self, rows: Iterable[Row]) -> str:
        return _some([self._ids[i] if phase == DECODE else f"{self._ids[i]} {tokens}" for i, tokens, phase in rows])


def _loss(row: Row) -> str:
    return f"{row[1]} tokens, {Loss(row[2]).name.lower()}"


def _some(words: Sequence[str], most: int = 20) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return (", ".join(words[:most]) or "none") + more
