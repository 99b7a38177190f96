"""The run as a whole: Little's law as an identity, the device's time, and where the record stops."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER, dot, total
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.tail import cut_off
from sim.analysis.timetable import Timetable
from sim.request import NEVER, Ints, Status


class Moves(NamedTuple):
    """Who came to a crowd (or left it) when, and which job is the first to count it (or not to)."""

    ns: Ints
    job: Ints

    def between(self, facts: Facts) -> int:
        """The time, over all of them, from the move to the start of that job; the jobs' counts do not show it."""
        here = (self.job > 0) & (self.job < facts.jobs)
        return total(facts.starts_ns[self.job[here]] - self.ns[here])


def littles_law(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """The number of requests over time, from the jobs' counts, sums up to the times claimed of the requests; exactly.

    From the first start to the last. The counts hold at the starts; between them, arrivals and ends change them.
    """
    if not facts.jobs:
        return
    arrival_ns, jobs = facts.workload.arrival_ns, facts.record.jobs
    sent, ever = timetable.sent, facts.admitted_job < FOREVER
    ended_ns = np.where(facts.claims.columns["ended_ns"] == NEVER, FOREVER, facts.claims.columns["ended_ns"])
    joined_ns = np.full(facts.requests, FOREVER, dtype=np.int64)
    joined_ns[ever] = facts.starts_ns[facts.admitted_job[ever]]
    came = Moves(arrival_ns[sent], timetable.arrives[sent]).between(facts)
    gone = {name: Moves(timetable.gone_ns[of], timetable.goes[of]).between(facts)
            for name, of in (("waiting", sent & ~ever), ("running", ever))}  # fmt: skip
    waited_ns = _within(facts, arrival_ns[sent], np.minimum(ended_ns, joined_ns)[sent])
    ran_ns = _within(facts, joined_ns[ever], ended_ns[ever])
    waiting_ns = _area(facts, jobs["waiting"]) + came - gone["waiting"]
    running_ns = _area(facts, jobs["running"]) - gone["running"]
    for name, over_requests, over_time in (
        ("waiting", waited_ns, waiting_ns),
        ("running", ran_ns, running_ns),
        ("in the system", waited_ns + ran_ns, waiting_ns + running_ns),
    ):
        if over_time != over_requests:
            yield Difference(f"time {name}, all requests", time(over_requests), time(over_time))


def _area(facts: Facts, counts: Ints) -> int:
    return dot(counts[:-1], np.diff(facts.starts_ns))


def _within(facts: Facts, from_ns: Ints, to_ns: Ints) -> int:
    """The sum of these spans, as far as they lie between the first and the last start."""
    spans = np.minimum(to_ns, facts.starts_ns[-1]) - np.maximum(from_ns, facts.starts_ns[0])
    return total(np.maximum(spans, 0))


def gaps_add_up(facts: Facts) -> Iterator[Difference]:
    """All gaps between the tokens of finished requests sum to last - first tokens, as claimed."""
    finished = facts.record.requests["status"] == Status.FINISHED
    due = total((facts.claims.columns["finish_ns"] - facts.claims.columns["first_token_ns"])[finished])
    found = dot(*facts.gaps(finished))
    if due != found:
        yield Difference("gaps between tokens, all finished requests", time(due), time(found))


def busy_time(facts: Facts) -> Iterator[Difference]:
    """The device can't be busy for longer than from the first arrival to the end of the last job."""
    if facts.jobs:
        busy_ns = total(facts.ends_ns - facts.starts_ns)
        most_ns = int(facts.ends_ns[-1] - facts.workload.arrival_ns.min())
        if busy_ns > most_ns:
            yield Difference("busy time", f"at most {time(most_ns)}", time(busy_ns))


def to_the_end(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """The record stops when all is done, or at the horizon: no job ends after it, and the next one would."""
    horizon_ns = timetable.horizon_ns
    for job in np.flatnonzero(facts.ends_ns > horizon_ns).tolist():
        yield Difference(f"job {job}, end", f"at most {time(horizon_ns)}, the horizon", time(facts.ends_ns[job]))
    end_ns = cut_off(facts, timetable).end_ns
    if end_ns is not None and end_ns <= horizon_ns:
        yield Difference(f"job {facts.jobs}", f"in the record: it ends at {time(end_ns)}", "missing")
    left = np.flatnonzero((timetable.gone_ns == FOREVER) & (horizon_ns == FOREVER))
    for index in left.tolist():
        yield Difference(facts.claims.request(index), "served until it has ended", f"{facts.emitted[index]} tokens")
