"""Who comes before whom: nobody is scheduled before it arrives, overtaken in admission, or passed by in prefill."""

from collections.abc import Iterator

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.ends import Ends
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.stays import Stays
from sim.analysis.timetable import Timetable
from sim.request import Ints


def after_arrival(facts: Facts, ends: Ends) -> Iterator[Difference]:
    """No request is admitted, scheduled or emits before it has arrived, or at all if it never does."""
    arrival_ns = facts.workload.arrival_ns
    for index in np.flatnonzero(~ends.sent & (facts.scheduled > 0)).tolist():
        yield Difference(f"{facts.claims.request(index)}, scheduled tokens", 0, int(facts.scheduled[index]))
    admitted = np.flatnonzero(facts.admitted_job < FOREVER)
    joined_ns = np.full(facts.requests, FOREVER, dtype=np.int64)
    joined_ns[admitted] = facts.start_ns(facts.admitted_job[admitted])
    instants = {
        "admission": joined_ns,
        "first scheduled": facts.first_scheduled_ns,
        "first token": facts.first_token_ns,
    }
    for name, ns in instants.items():
        for index in np.flatnonzero((ns >= 0) & (ns < arrival_ns)).tolist():
            where = f"{facts.claims.request(index)}, {name}"
            yield Difference(where, f"at least {time(arrival_ns[index])}", time(ns[index]))


def in_place(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """A request is scheduled only while it runs: from its admission on, and not once it is gone."""
    rows = np.flatnonzero(facts.first_job < facts.admitted_job[facts.owner])
    for row in rows.tolist():
        admitted = facts.admitted_job[facts.owner[row]]
        due = f"job {admitted} or later" if admitted < FOREVER else "never, for it is not admitted"
        yield Difference(facts.claims.request(facts.owner[row]) + ", scheduled", due, f"job {facts.first_job[row]}")
    goes = timetable.goes[facts.owner]
    for row in np.flatnonzero(facts.last_job >= goes).tolist():
        where = facts.claims.request(facts.owner[row]) + ", scheduled"
        yield Difference(where, f"before job {goes[row]}, when it is gone", f"job {facts.last_job[row]}")


def in_stay(facts: Facts, stays: Stays) -> Iterator[Difference]:
    """A request is scheduled only while it runs: nothing before its first admission, between two stays, or after."""
    owner = stays.owner
    if not len(owner):
        since = np.zeros(facts.requests, dtype=np.int64)
    else:
        upto = facts.before(owner, stays.behind)[0]
        from_, last = facts.before(owner, stays.first)[0], np.append(owner[1:] != owner[:-1], True)
        begins = np.append(True, owner[1:] != owner[:-1])
        outside = from_ - np.where(begins, 0, np.append(0, upto[:-1]))
        for stay in np.flatnonzero(outside > 0).tolist():
            where = f"{facts.claims.request(owner[stay])}, scheduled"
            yield Difference(where, f"job {stays.first[stay]} or later", f"{outside[stay]} tokens before")
        since = np.zeros(facts.requests, dtype=np.int64)
        since[owner[last]] = upto[last]
    for index in np.flatnonzero(facts.scheduled > since).tolist():
        where = f"{facts.claims.request(index)}, scheduled"
        yield Difference(where, f"{since[index]} tokens, while it runs", int(facts.scheduled[index]))


def admitted_once(facts: Facts) -> Iterator[Difference]:
    """Once, and again after each preemption."""
    record = facts.record
    times = np.bincount(record.admissions["request"], minlength=facts.requests)
    lost = np.bincount(record.preemptions["request"], minlength=facts.requests)
    for index in np.flatnonzero(times > 1 + lost).tolist():
        yield Difference(f"{facts.claims.request(index)}, admissions", 1 + int(lost[index]), int(times[index]))


def no_overtaking(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """First come, first admitted: whoever joins, all who came before have joined before or are gone."""
    rank = _ranks(facts.workload.arrival_ns)
    order = np.argsort(rank)
    admitted = facts.admission_place[order]
    goes = timetable.goes[order]
    sent = timetable.sent[order]
    joined = admitted < FOREVER
    # the one with the least rank that is still to be admitted must be the next: so places rise with ranks …
    among = np.flatnonzero(joined)
    late = np.flatnonzero(np.diff(admitted[among]) < 0)
    for at in late.tolist():
        before, after = order[among[at]], order[among[at + 1]]
        yield _overtaken(facts, int(before), int(after))
    # … and who is never admitted is gone before any of those behind it is
    job = np.where(joined, facts.admitted_job[order], FOREVER)
    next_job = np.minimum.accumulate(job[::-1])[::-1]
    here = np.where(job == next_job, np.arange(len(job)), len(job))
    first_behind = np.minimum.accumulate(here[::-1])[::-1]
    for at in np.flatnonzero(sent & ~joined & (next_job < goes)).tolist():
        yield _overtaken(facts, int(order[at]), int(order[first_behind[at]]))


def _overtaken(facts: Facts, first: int, by: int) -> Difference:
    where = f"job {facts.admitted_job[by]}, {facts.claims.request(by)} admitted"
    return Difference(where, f"{facts.claims.request(first)} before it", "it is still waiting")


def prefill_in_order(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Prompts are computed one after the other, in the order of admission."""
    place = facts.admission_place
    order = np.argsort(place, kind="stable")
    closed = np.minimum(facts.completed_job, timetable.goes)[order]
    open_before = np.concatenate([[-1], np.maximum.accumulate(closed)[:-1]]) if len(closed) else closed
    latest = np.empty(facts.requests, dtype=np.int64)
    latest[order] = open_before
    rows = np.flatnonzero(facts.is_chunk)
    for row in rows[facts.first_job[rows] < latest[facts.owner[rows]]].tolist():
        where = f"job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}"
        yield Difference(where, "after the prompts of those admitted before it", "before")


def _ranks(arrival_ns: Ints) -> Ints:
    """Each request's place by (arrival, place in the file)."""
    rank = np.empty(len(arrival_ns), dtype=np.int64)
    rank[np.argsort(arrival_ns, kind="stable")] = np.arange(len(arrival_ns))
    return rank
