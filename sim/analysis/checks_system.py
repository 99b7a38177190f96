"""The run as a whole: Little's law as an identity, the device's time, and where the record stops."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER, dot, total
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.stays import Stays
from sim.analysis.tail import cut_off
from sim.analysis.timetable import Timetable
from sim.request import NEVER, Ints, Status


def littles_law(facts: Facts, stays: Stays) -> Iterator[Difference]:
    """The number of requests over time, from the jobs' counts, sums up to the times claimed of the requests; exactly.

    From the first start to the last. The counts hold at the starts; between them, arrivals and ends change them: by
    how much is worked out from the jobs between which the record says they lie.
    """
    if not facts.jobs:
        return
    spans = _spans(facts, stays)
    for name in ("waiting", "running", "swapped"):
        over_time = _area(facts, facts.pieces.table[name])
        over_requests = 0
        for span in spans:
            if span.crowd == name:
                over_requests += _within(facts, span.from_ns, span.to_ns)
                over_time += span.before_counted(facts) - span.after_it_went(facts)
        if over_time != over_requests:
            yield Difference(f"time {name}, all requests", time(over_requests), time(over_time))


class Spans(NamedTuple):
    """Times in a crowd. ``first`` is the first job that counts them; who goes is counted up to the job ``goes``."""

    crowd: str
    from_ns: Ints
    to_ns: Ints
    first: Ints
    goes: Ints
    arrives: bool = False

    def before_counted(self, facts: Facts) -> int:
        """From an arrival to the first job that counts it."""
        if not self.arrives:
            return 0
        first_ns = facts.start_ns(np.clip(self.first, 0, facts.jobs - 1))  # of one that none counts, all of it
        return total(np.maximum(first_ns - self.from_ns, 0)[self.first > 0])

    def after_it_went(self, facts: Facts) -> int:
        """From the end of a request to the first job that does not count it any more."""
        counted = (self.goes > 0) & (self.goes < facts.jobs) & (self.arrives | (self.first < self.goes))
        return total(facts.start_ns(self.goes[counted]) - self.to_ns[counted])


def _spans(facts: Facts, stays: Stays) -> list[Spans]:
    """All times of all requests: from arrival to admission or end, each stay, and what lies between two stays."""
    requests = facts.record.requests
    ended_ns = np.where(facts.claims.columns["ended_ns"] == NEVER, FOREVER, facts.claims.columns["ended_ns"])
    sent = np.flatnonzero((requests["arrived_job"] != NEVER) & (requests["status"] != Status.REJECTED))
    starts_ns = np.append(facts.starts_ns, FOREVER)

    def start_ns(job: Ints) -> Ints:
        return starts_ns[facts.pieces.of(job)]

    ever = facts.admitted_job[sent] < FOREVER
    joined_ns = np.where(ever, start_ns(facts.admitted_job[sent]), ended_ns[sent])
    stopped_ns = np.where(stays.preempted, start_ns(stays.behind), ended_ns[stays.owner])
    spans = [
        Spans("waiting", facts.workload.arrival_ns[sent], joined_ns, requests["arrived_job"][sent],
              np.where(ever, NEVER, stays.gone[sent]), arrives=True),
        Spans("running", start_ns(stays.first), stopped_ns, stays.first,
              np.where(stays.preempted, NEVER, stays.behind)),
    ]  # fmt: skip
    lost = np.flatnonzero(stays.preempted)
    again = np.zeros(len(stays.owner), dtype=bool)
    again[:-1] = stays.owner[1:] == stays.owner[:-1]
    next_first = np.append(stays.first, NEVER)[lost + 1]
    to_ns = np.where(again[lost], start_ns(next_first), ended_ns[stays.owner[lost]])
    goes = np.where(again[lost], NEVER, stays.gone[stays.owner[lost]])
    for crowd, of in (("swapped", stays.swapped[lost]), ("waiting", ~stays.swapped[lost])):
        first = stays.behind[lost][of]
        spans.append(Spans(crowd, start_ns(first), to_ns[of], first, goes[of]))
    return spans


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
    found = facts.gaps(finished).total_ns
    if due != found:
        yield Difference("gaps between tokens, all finished requests", time(due), time(found))


def busy_time(facts: Facts) -> Iterator[Difference]:
    """The device can't be busy for longer than from the first arrival to the end of the last job."""
    if facts.jobs:
        busy_ns = total(facts.ends_ns - facts.starts_ns)
        most_ns = int(facts.ends_ns[-1] - facts.first_arrival_ns)
        if busy_ns > most_ns:
            yield Difference("busy time", f"at most {time(most_ns)}", time(busy_ns))


def to_the_end(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """The record stops when all is done, or at the horizon: no job ends after it, and the next one would."""
    horizon_ns = timetable.horizon_ns
    for piece in np.flatnonzero(facts.ends_ns > horizon_ns).tolist():
        where = f"job {facts.pieces.first[piece] + facts.pieces.jobs[piece] - 1}, end"
        yield Difference(where, f"at most {time(horizon_ns)}, the horizon", time(facts.ends_ns[piece]))
    end_ns = cut_off(facts, timetable).end_ns
    if end_ns is not None and end_ns <= horizon_ns:
        yield Difference(f"job {facts.jobs}", f"in the record: it ends at {time(end_ns)}", "missing")
    left = np.flatnonzero((timetable.gone_ns == FOREVER) & (horizon_ns == FOREVER))
    for index in left.tolist():
        yield Difference(facts.claims.request(index), "served until it has ended", f"{facts.emitted[index]} tokens")
