"""One run of the result JSON as the tables of a record. What the JSON lists job by job becomes stretches again."""

from collections.abc import Sequence

import numpy as np

from sim.engine.plan import Kind
from sim.record.json_shape import Event, Run
from sim.record.tables import (
    ADMISSION_COLUMNS,
    DECODE,
    JOB_COLUMNS,
    PREEMPTION_COLUMNS,
    PREFILL,
    SCHEDULE_COLUMNS,
    Record,
    Table,
)
from sim.request import NEVER, Ints, Status, Workload

Row = tuple[int, ...]


def record_of(run: Run, workload: Workload) -> Record:
    """The tables of a run in which ``contradictions`` found nothing."""
    index_of = {request.id: index for index, request in enumerate(run.requests)}
    reader = _Reader(run, index_of)
    for event in run.events:
        reader.read(event)
    return Record(
        workload=workload,
        requests=_requests(run, workload, reader.last_job),
        reasons={index: row.reason for index, row in enumerate(run.requests) if row.reason is not None},
        jobs=_table(JOB_COLUMNS, reader.jobs),
        schedule=_table(SCHEDULE_COLUMNS, reader.schedule()),
        admissions=_table(ADMISSION_COLUMNS, reader.admissions),
        preemptions=_table(PREEMPTION_COLUMNS, reader.preemptions),
    )


def _table(columns: Sequence[str], rows: Sequence[Row]) -> Table:
    cells = np.array(rows, dtype=np.int64).reshape(-1, len(columns))
    return {name: cells[:, place].copy() for place, name in enumerate(columns)}


def _requests(run: Run, workload: Workload, last_job: Sequence[int]) -> Table:
    """How each request came and went.

    Who finishes goes with its last job; before any other instant, as many jobs had begun as have a start before it.
    """
    starts_ns = np.array([event.start_ms for event in run.events], dtype=np.int64)
    ended_ns = np.array([NEVER if row.ended_ms is None else row.ended_ms for row in run.requests], dtype=np.int64)
    status = np.array([Status[row.status.upper()] for row in run.requests], dtype=np.int64)
    sent = np.array([row.reason != "not arrived" for row in run.requests])

    def begun_before(ns: Ints) -> Ints:
        return np.searchsorted(np.sort(starts_ns), ns, side="left")

    ended_job = np.where(status == Status.FINISHED, np.array(last_job) + 1, begun_before(ended_ns))
    return {
        "status": status,
        "ended_ns": ended_ns,
        "arrived_job": np.where(sent, begun_before(workload.arrival_ns), NEVER),
        "ended_job": np.where(ended_ns == NEVER, NEVER, ended_job),
    }


class _Reader:
    """Reads the jobs one after the other and keeps, per request, how far it is."""

    def __init__(self, run: Run, index_of: dict[str, int]) -> None:
        self.jobs: list[Row] = []
        self.admissions: list[Row] = []
        self.preemptions: list[Row] = []
        self.last_job = [NEVER] * len(run.requests)
        self._rows = run.requests
        self._index_of = index_of
        self._chunks: list[tuple[Row, int]] = []
        self._stretches: list[list[list[int]]] = [[] for _ in run.requests]
        self._first_jobs: list[int] = []
        self._computed = [0] * len(run.requests)
        self._emitted = [0] * len(run.requests)
        self._prefill_end = [row.prompt_tokens for row in run.requests]
        self._admitted = [0] * len(run.requests)
        self._running: set[int] = set()

    def read(self, event: Event) -> None:
        """One job: who lost its blocks, who joined, what was scheduled."""
        index_of = self._index_of
        for request in map(index_of.__getitem__, event.preempted):
            self._preempt(event.job, request)
        running = [index_of[id_] for id_ in event.running]
        for request in running:
            if request not in self._running:
                self._admit(event.job, request)
        self._running = set(running)
        prefill = [item.tokens for item in event.scheduled if item.phase == "prefill"]
        decodes = len(event.scheduled) - len(prefill)
        for place, item in enumerate(event.scheduled):
            self.last_job[index_of[item.id]] = event.job
            if item.phase == "prefill":
                self._chunk(event.job, index_of[item.id], item.tokens, place)
            else:
                self._decode(index_of[item.id])
        if decodes:
            self._first_jobs.append(event.job)
        self.jobs.append((event.start_ms, event.end_ms, Kind[event.kind.upper()], sum(prefill), decodes,
                          len(event.waiting), len(event.running)))  # fmt: skip

    def schedule(self) -> list[Row]:
        """The rows by request, then in time."""
        keyed = [((row[0], job), row) for row, job in self._chunks]
        for request, stretches in enumerate(self._stretches):
            for first, jobs in stretches:
                row = (request, int(DECODE), first, jobs, jobs, NEVER, 1)
                keyed.append(((request, self._first_jobs[first]), row))
        return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]

    def _preempt(self, job: int, request: int) -> None:
        self.preemptions.append((job, request, self._computed[request]))
        self._computed[request] = 0
        self._running.discard(request)

    def _admit(self, job: int, request: int) -> None:
        row, before = self._rows[request], self._admitted[request]
        cached = (row.cached_tokens, row.cached_on_resume_tokens)[before] if before < 2 else 0
        self._admitted[request] += 1
        self._computed[request] = cached
        self._prefill_end[request] = row.prompt_tokens + self._emitted[request]
        self.admissions.append((job, request, cached))

    def _chunk(self, job: int, request: int, tokens: int, place: int) -> None:
        self._computed[request] += tokens
        emits = self._computed[request] == self._prefill_end[request]
        self._emitted[request] += emits
        self._chunks.append(((request, int(PREFILL), job, 1, tokens, place, int(emits)), job))

    def _decode(self, request: int) -> None:
        number, stretches = len(self._first_jobs), self._stretches[request]
        self._computed[request] += 1
        self._emitted[request] += 1
        if stretches and sum(stretches[-1]) == number:
            stretches[-1][1] += 1
        else:
            stretches.append([number, 1])
