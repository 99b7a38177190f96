"""What only the JSON has: every token's time, and by name who waited, ran and was scheduled at each job."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.timetable import Timetable
from sim.record.json_shape import Run
from sim.request import Ints
from sim.show import escape


def token_times(facts: Facts, run: Run) -> Iterator[Difference]:
    """Each request's tokens left at the ends of the jobs that emitted them, in order."""
    rows_of: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(facts.emits).tolist():
        rows_of[int(facts.owner[row])].append(row)
    for index, request in enumerate(run.requests):
        due = [ns for row in rows_of.get(index, ()) for ns in _ends(facts, row).tolist()]
        name = facts.claims.request(index)
        if len(due) != len(request.token_times_ms):
            yield Difference(f"{name}, tokenTimesMs", f"{len(due)} tokens", f"{len(request.token_times_ms)} tokens")
        for token, (expected, found) in enumerate(zip(due, request.token_times_ms, strict=False)):
            if expected != found:
                yield Difference(f"{name}, token {token + 1}", time(expected), time(found))


def _ends(facts: Facts, row: int) -> Ints:
    """When the tokens of an emitting row leave. In a record that was read from a JSON every job is a piece."""
    if facts.is_chunk[row]:
        return facts.ends_ns[facts.first_job[row : row + 1]]
    first = int(facts.record.schedule["job"][row])
    return facts.ends_ns[facts.pieces.decoding[first : first + int(facts.record.schedule["jobs"][row])]]


def lists(facts: Facts, timetable: Timetable, run: Run) -> Iterator[Difference]:
    """Who waits, in the order of the queue, and who runs, in the order of admission, replayed job by job."""
    ids = [request.id for request in run.requests]
    comes, goes, joins = _by_decision(facts, timetable)
    waiting: list[tuple[int, int]] = []
    running: dict[int, None] = {}
    for job, event in enumerate(run.events):
        for index in comes.get(job, ()):
            insort(waiting, (int(facts.workload.arrival_ns[index]), index))
        for index in goes.get(job, ()):
            running.pop(index, None)
            waiting = [place for place in waiting if place[1] != index]
        for index in joins.get(job, ()):
            running[index] = None
            waiting = [place for place in waiting if place[1] != index]
        yield from _compare(f"job {job}, waiting", [ids[index] for _, index in waiting], event.waiting)
        yield from _compare(f"job {job}, running", [ids[index] for index in running], event.running)


def _by_decision(facts: Facts, timetable: Timetable) -> tuple[dict[int, list[int]], ...]:
    comes: dict[int, list[int]] = defaultdict(list)
    goes: dict[int, list[int]] = defaultdict(list)
    joins: dict[int, list[int]] = defaultdict(list)
    for index in np.flatnonzero(timetable.sent & (timetable.arrives < FOREVER)).tolist():
        if timetable.arrives[index] < timetable.goes[index]:
            comes[int(timetable.arrives[index])].append(index)
            goes[int(timetable.goes[index])].append(index)
    admissions = facts.record.admissions
    for job, index in zip(admissions["job"].tolist(), admissions["request"].tolist(), strict=True):
        joins[job].append(index)
    return comes, goes, joins


def scheduling_order(run: Run) -> Iterator[Difference]:
    """What is scheduled stands in the order of those who run."""
    for job, event in enumerate(run.events):
        scheduled = {item.id for item in event.scheduled}
        due = [id_ for id_ in event.running if id_ in scheduled]
        yield from _compare(f"job {job}, scheduled", due, [item.id for item in event.scheduled])


def _compare(where: str, due: Sequence[str], found: Sequence[str]) -> Iterator[Difference]:
    if list(due) != list(found):
        at = next(i for i, (a, b) in enumerate(zip_longest(due, found)) if a != b)
        yield Difference(f"{where}[{at}]", _names(due[at : at + 3]), _names(found[at : at + 3]))


def _names(ids: Sequence[str]) -> str:
    return ", ".join(map(escape, ids)) or "nobody"
