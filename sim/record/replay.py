"""The record read job by job: who was scheduled, who waited and who ran, as they stood when each job began."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sim.engine.plan import Loss
from sim.engine.queue import Queue
from sim.record.tables import DECODE, PREFILL, Record, Table
from sim.request import NEVER, Flags, Request, Status


class Scheduled(NamedTuple):
    """Tokens of one request (by index) in a job; ``phase`` is a code of :mod:`sim.record.tables`."""

    request: int
    tokens: int
    phase: int


class Copied(NamedTuple):
    """Blocks of one request (by index) in a swap job, out to the host or back."""

    request: int
    blocks: int
    out: int


class Event(NamedTuple):
    """One job of the record. Requests are indices; ``waiting`` is in queue order, ``running`` in order of admission."""

    job: int
    start_ns: int
    end_ns: int
    kind: int
    scheduled: list[Scheduled]
    copied: list[Copied]
    preempted: list[int]
    waiting: list[int]
    running: list[int]
    free_blocks: int


def events(record: Record, queue: Queue, lists: Iterator[list[int]] | None = None) -> Iterator[Event]:
    """Every job, in turn. Needs memory for one job at a time, beside the record.

    ``queue``: an empty one, of the order of the run. ``lists``: who waits at each job, where the queue can't be asked
    because its order goes by more than the record has.
    """
    chunks = _by(record.schedule, "job", record.schedule["phase"] == PREFILL, ("request", "tokens", "place"))
    copies = _by(record.copies, "job", slice(None), ("request", "blocks", "out"))
    decoders = _Decoders(record.schedule)
    crowd = _Crowd(record, queue)
    jobs = {name: column.tolist() for name, column in record.jobs.items()}
    samples = record.workload.samples.tolist()
    for job, decode_requests in enumerate(jobs["decode_requests"]):
        preempted = crowd.move(job, jobs["start_ns"][job])
        active = decoders.step() if decode_requests else ()
        decodes = (Scheduled(request, samples[request], DECODE) for request in crowd.running if request in active)
        scheduled = _merge(chunks.get(job, ()), decodes)
        yield Event(
            job=job,
            start_ns=jobs["start_ns"][job],
            end_ns=jobs["end_ns"][job],
            kind=jobs["kind"][job],
            scheduled=scheduled,
            copied=[Copied(*row) for row in copies.get(job, ())],
            preempted=preempted,
            waiting=crowd.waiting() if lists is None else next(lists),
            running=list(crowd.running),
            free_blocks=jobs["free_blocks"][job],
        )
        crowd.book(scheduled)


class _Crowd:
    """Who waits and who runs, job after job."""

    def __init__(self, record: Record, queue: Queue) -> None:
        self.running: dict[int, None] = {}
        self._queue = queue
        self._workload = record.workload
        self._requests: dict[int, Request] = {}
        """Those who came, as far as they are by then."""
        self._swapped: set[int] = set()
        self._admitted = _by(record.admissions, "job", slice(None), ("request", "back", "cached_tokens"))
        self._preempted = _by(record.preemptions, "job", slice(None), ("request", "loss"))
        self._arrivals: dict[int, list[int]] = defaultdict(list)
        self._ends: dict[int, list[int]] = defaultdict(list)
        arrived, ended = record.requests["arrived_job"].tolist(), record.requests["ended_job"].tolist()
        rejected = (record.requests["status"] == Status.REJECTED).tolist()
        for request in record.workload.in_order_of_arrival().tolist():
            if arrived[request] != NEVER and not rejected[request]:
                self._arrivals[arrived[request]].append(request)
                self._ends[ended[request]].append(request)

    def waiting(self) -> list[int]:
        return [request.index for request in self._queue]

    def move(self, job: int, now_ns: int) -> list[int]:
        """Up to what stands once ``job`` is scheduled; answers who was preempted for it."""
        for index in self._arrivals.get(job, ()):
            request = self._requests[index] = Request(self._workload.spec(index))
            self._queue.add(request)
        preempted = self._preempted.get(job, ())
        for index, loss in preempted:
            self._lose(index, loss)
        for index in self._ends.get(job, ()):
            self._take_out(index)
        if self._queue.moves:
            self._queue.settle(now_ns)
        for index, back, cached_tokens in self._admitted.get(job, ()):
            if back:
                self._swapped.remove(index)
            else:
                self._queue.take(self._requests[index])
                self._requests[index].admitted(cached_tokens)
            self.running[index] = None
        return [index for index, _ in preempted]

    def book(self, scheduled: Sequence[Scheduled]) -> None:
        """The job has ended."""
        for index, tokens, _ in scheduled:
            self._requests[index].compute(tokens)

    def _lose(self, index: int, loss: int) -> None:
        del self.running[index]
        if loss == Loss.SWAP:
            self._swapped.add(index)
        else:
            self._requests[index].forget()
            self._queue.put_back(self._requests[index])

    def _take_out(self, index: int) -> None:
        request = self._requests.pop(index)
        request.ended = True
        if index in self.running:
            del self.running[index]
        elif index in self._swapped:
            self._swapped.remove(index)
        else:
            self._queue.remove(request)


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
