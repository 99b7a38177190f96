"""One run of the result JSON as the tables of a record. What the JSON lists job by job becomes stretches again.

What it does not say follows from making the decisions again (:mod:`sim.record.again`): the tokens in the blocks of
each preemption and its kind, cached tokens of each admission, what was withheld, what blocked the queue. From the
first job that is not as it should be (nobody but ``verify`` minds), this is what the listed jobs show on their own: as
many cached tokens as the prompt lacks, recomputation wherever nothing is copied, nothing withheld and nothing blocked.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.engine.plan import Kind, Loss
from sim.policies.presets import Choice
from sim.record.json_again import Again, again
from sim.record.json_lives import Life, Lives
from sim.record.json_shape import Event, Run
from sim.record.tables import (
    ADMISSION_COLUMNS,
    COPY_COLUMNS,
    DECODE,
    JOB_COLUMNS,
    PREEMPTION_COLUMNS,
    PREFILL,
    SCHEDULE_COLUMNS,
    Record,
    Table,
    one_each,
)
from sim.request import NEVER, Ints, Status, Workload
from sim.scenario import Scenario

Row = tuple[int, ...]


def record_of(run: Run, workload: Workload, scenario: Scenario, choice: Choice) -> Record:
    """The tables of a run in which ``contradictions`` found nothing; ``choice`` is what its scenario comes to."""
    return read(run, workload, scenario, choice).record


class Read(NamedTuple):
    """``pool_known``: whether all jobs could be decided again, so that nothing in the record is a guess."""

    record: Record
    pool_known: bool


def read(run: Run, workload: Workload, scenario: Scenario, choice: Choice) -> Read:
    """The same, and how far it can be relied on."""
    index_of = {request.id: index for index, request in enumerate(run.requests)}
    told = again(run, workload, scenario, choice, index_of)
    has_cache = choice.kv is not None and choice.kv.prefix_cache
    reader = _Reader(run, index_of, told, Lives(run, workload, has_cache=has_cache))
    for event in run.events:
        reader.read(event)
    reader.lives.close_all()
    record = Record(
        workload=workload,
        requests=_requests(run, workload, reader.last_job, told),
        reasons={index: row.reason for index, row in enumerate(run.requests) if row.reason is not None},
        rows=one_each(_table(JOB_COLUMNS, reader.jobs)),
        schedule=_table(SCHEDULE_COLUMNS, reader.schedule()),
        admissions=_table(ADMISSION_COLUMNS, reader.admissions()),
        preemptions=_table(PREEMPTION_COLUMNS, reader.preemptions()),
        copies=_table(COPY_COLUMNS, reader.copies),
    )
    return Read(record, pool_known=told.jobs >= len(run.events))


def _table(columns: Sequence[str], rows: Sequence[Row]) -> Table:
    cells = np.array(rows, dtype=np.int64).reshape(-1, len(columns))
    return {name: cells[:, place].copy() for place, name in enumerate(columns)}


def _requests(run: Run, workload: Workload, last_job: Sequence[int], told: Again) -> Table:
    """How each request came and went, by the jobs begun before.

    Unless that is known from making the decisions again: who finishes goes with its last job; before any other instant,
    as many jobs had begun as have a start before it. A decision with copies begins several jobs at once: they all count
    from the start of the first.
    """
    starts_ns = np.array([run.events[told.first_job(event.job)].start_ms for event in run.events], dtype=np.int64)
    ended_ns = np.array([NEVER if row.ended_ms is None else row.ended_ms for row in run.requests], dtype=np.int64)
    status = np.array([Status[row.status.upper()] for row in run.requests], dtype=np.int64)
    sent = np.array([row.reason != "not arrived" for row in run.requests], dtype=bool)

    def begun_before(ns: Ints) -> Ints:
        return np.searchsorted(np.sort(starts_ns), ns, side="left")

    if told.ends is not None:
        jobs = [(end.arrived_job, end.ended_job) for end in told.ends]
        arrived_job, ended_job = np.array(jobs, dtype=np.int64).reshape(-1, 2).T
        columns = {"arrived_job": arrived_job.copy(), "ended_job": ended_job.copy()}
        return {"status": status, "ended_ns": ended_ns, **columns}
    arrived_job = np.where(sent, begun_before(workload.arrival_ns), NEVER)
    ended_job = np.where(ended_ns == NEVER, NEVER, begun_before(ended_ns))
    ended_job = np.where(status == Status.FINISHED, np.array(last_job, dtype=np.int64) + 1, ended_job)
    return {
        "status": status,
        "ended_ns": ended_ns,
        "arrived_job": arrived_job,
        "ended_job": np.where(status == Status.REJECTED, arrived_job, ended_job),
    }


class _Reader:
    """Reads the jobs one after the other and keeps who runs and who is swapped out."""

    def __init__(self, run: Run, index_of: dict[str, int], told: Again, lives: Lives) -> None:
        self.jobs: list[Row] = []
        self.copies: list[Row] = []
        self.last_job = [NEVER] * len(run.requests)
        self.lives = lives
        self._index_of = index_of
        self._told = told
        self._ended_ns = {index: row.ended_ms for index, row in enumerate(run.requests) if row.ended_ms is not None}
        self._admissions: list[tuple[int, Life, int]] = []
        self._preemptions: list[tuple[int, Life, int, Loss]] = []
        self._first_jobs: list[int] = []
        self._running: set[int] = set()
        self._swapped: dict[int, Life] = {}

    def read(self, event: Event) -> None:
        """One job: who lost its blocks, who joined, what was scheduled."""
        index_of, job = self._index_of, event.job
        out = {index_of[copy.id] for copy in event.swapped if copy.direction == "out"}
        self.copies += [(job, index_of[c.id], c.blocks, int(c.direction == "out")) for c in event.swapped]
        for request in map(index_of.__getitem__, event.preempted):
            self._preempt(job, request, Loss.SWAP if request in out else Loss.RECOMPUTE)
        for request in [r for r in self._swapped if self._ended_ns.get(r, event.start_ms + 1) <= event.start_ms]:
            del self._swapped[request]
        running = [index_of[id_] for id_ in event.running]
        for request in running:
            if request not in self._running:
                self._admit(job, request)
        self._running = set(running)
        prefill = [item.tokens for item in event.scheduled if item.phase == "prefill"]
        decode = [item.tokens for item in event.scheduled if item.phase == "decode"]
        for place, item in enumerate(event.scheduled):
            request = index_of[item.id]
            self.last_job[request] = job
            if item.phase == "prefill":
                self.lives.prefill(request, job, item.tokens, place)
            else:
                self.lives.decode(request, len(self._first_jobs), item.tokens)
        if decode:
            self._first_jobs.append(job)
        withheld, blocked = self._told.pool(job)
        self.jobs.append((event.start_ms, event.end_ms, Kind[event.kind.upper()], sum(prefill), sum(decode),
                          len(event.waiting), len(event.running), len(self._swapped),
                          NEVER if event.free_blocks is None else event.free_blocks, withheld, blocked))  # fmt: skip

    def schedule(self) -> list[Row]:
        """The rows by request, then in time."""
        keyed = []
        for request in range(len(self.last_job)):
            for job, tokens, place, emits in self.lives.chunks[request]:
                keyed.append(((request, job), (request, int(PREFILL), job, 1, tokens, place, int(emits), NEVER)))
            for first, jobs, tokens in self.lives.stretches[request]:
                row = (request, int(DECODE), first, jobs, tokens, NEVER, 1, NEVER)
                keyed.append(((request, self._first_jobs[first]), row))
        return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]

    def admissions(self) -> list[Row]:
        rows: list[Row] = []
        for job, life, back in self._admissions:
            known = self._told.admissions.get((job, life.request))
            rows.append((job, life.request, 0 if back else life.cached if known is None else known, back))
        return rows

    def preemptions(self) -> list[Row]:
        rows: list[Row] = []
        for job, life, scheduled, loss in self._preemptions:
            tokens, kind = self._told.preemptions.get((job, life.request), (life.cached + scheduled, loss))
            rows.append((job, life.request, tokens, kind))
        return rows

    def _preempt(self, job: int, request: int, loss: Loss) -> None:
        life = self.lives.of(request)
        self._preemptions.append((job, life, life.scheduled, loss))
        self._running.discard(request)
        if loss is Loss.SWAP:
            self._swapped[request] = life
            self.lives.pause(request)
        else:
            self.lives.close(request)

    def _admit(self, job: int, request: int) -> None:
        back = self._swapped.pop(request, None)
        life = self.lives.begin(request, self._told.admissions.get((job, request))) if back is None else back
        self._admissions.append((job, life, int(back is not None)))
