"""The record read job by job: who was scheduled, who waited and who ran, as they stood when each job began."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sim.record.tables import DECODE, PREFILL, Record, Table
from sim.request import NEVER, Flags, Status


class Scheduled(NamedTuple):
    """Tokens of one request (by index) in a job; ``phase`` is a code of :mod:`sim.record.tables`."""

    request: int
    tokens: int
    phase: int


class Event(NamedTuple):
    """One job of the record. Requests are indices; ``waiting`` is in queue order, ``running`` in order of admission."""

    job: int
    start_ns: int
    end_ns: int
    kind: int
    scheduled: list[Scheduled]
    preempted: list[int]
    waiting: list[int]
    running: list[int]


def events(record: Record) -> Iterator[Event]:
    """Every job in order. Needs memory for one job at a time, beside the record."""
    chunks = _by(record.schedule, "job", record.schedule["phase"] == PREFILL, ("request", "tokens", "place"))
    decoders = _Decoders(record.schedule)
    admitted = _by(record.admissions, "job", slice(None), ("request",))
    preempted = _by(record.preemptions, "job", slice(None), ("request",))
    crowd = _Crowd(record)
    jobs = record.jobs
    for job, decode_requests in enumerate(jobs["decode_requests"].tolist()):
        crowd.move(job)
        gone = [request for (request,) in preempted.get(job, ())]
        crowd.preempt(gone)
        crowd.admit(request for (request,) in admitted.get(job, ()))
        active = decoders.step() if decode_requests else ()
        decodes = (Scheduled(request, 1, DECODE) for request in crowd.running if request in active)
        yield Event(
            job=job,
            start_ns=int(jobs["start_ns"][job]),
            end_ns=int(jobs["end_ns"][job]),
            kind=int(jobs["kind"][job]),
            scheduled=_merge(chunks.get(job, ()), decodes),
            preempted=gone,
            waiting=list(crowd.waiting),
            running=list(crowd.running),
        )


class _Crowd:
    """Who waits and who runs, job after job."""

    def __init__(self, record: Record) -> None:
        self.waiting: deque[int] = deque()
        self.running: dict[int, None] = {}
        self._arrivals: dict[int, list[int]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)
        arrived, ended = record.requests["arrived_job"].tolist(), record.requests["ended_job"].tolist()
        rejected = (record.requests["status"] == Status.REJECTED).tolist()
        for request in record.workload.in_order_of_arrival().tolist():
            if arrived[request] != NEVER and not rejected[request]:
                self._arrivals[arrived[request]].append(request)
                self._ends[ended[request]].append(request)

    def move(self, job: int) -> None:
        """Up to the decision for ``job``: who has arrived comes in, who has ended is gone."""
        self.waiting.extend(self._arrivals.get(job, ()))
        for request in self._ends.get(job, ()):
            if request in self.running:
                del self.running[request]
            else:
                self.waiting.remove(request)

    def preempt(self, requests: list[int]) -> None:
        for request in requests:
            del self.running[request]
            self.waiting.appendleft(request)

    def admit(self, requests: Iterator[int]) -> None:
        for request in requests:
            self.waiting.remove(request)
            self.running[request] = None


class _Decoders:
    """The requests that decode in the k-th decoding job."""

    def __init__(self, schedule: Table) -> None:
        decodes = schedule["phase"] == DECODE
        self._begin: dict[int, list[int]] = defaultdict(list)
        self._stop: dict[int, list[int]] = defaultdict(list)
        self._active: dict[int, None] = {}
        self._number = 0
        columns = (schedule[name][decodes].tolist() for name in ("request", "job", "jobs"))
        for request, first, jobs in zip(*columns, strict=True):
            self._begin[first].append(request)
            self._stop[first + jobs].append(request)

    def step(self) -> dict[int, None]:
        for request in self._stop.get(self._number, ()):
            del self._active[request]
        self._active.update(dict.fromkeys(self._begin.get(self._number, ())))
        self._number += 1
        return self._active


def _merge(chunks: Sequence[tuple[int, ...]], decodes: Iterator[Scheduled]) -> list[Scheduled]:
    """Chunks at their places in the scheduling order, decodes at the others."""
    merged: list[Scheduled] = []
    for request, tokens, place in sorted(chunks, key=lambda chunk: chunk[2]):
        while len(merged) < place:
            merged.append(next(decodes))
        merged.append(Scheduled(request, tokens, PREFILL))
    merged.extend(decodes)
    return merged


def _by(table: Table, key: str, rows: Flags | slice, columns: tuple[str, ...]) -> dict[int, list[tuple[int, ...]]]:
    """The rows of a table grouped by one column, in their order."""
    groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    cells = (table[name][rows].tolist() for name in (key, *columns))
    for number, *row in zip(*cells, strict=True):
        groups[number].append(tuple(row))
    return groups
