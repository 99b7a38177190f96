"""The monitor that writes the raw record: every job, what it scheduled, and every request's comings and goings."""

from array import array
from bisect import bisect_right
from collections.abc import Collection

import numpy as np

from sim.engine.monitor import Monitor
from sim.engine.plan import Job
from sim.engine.span import MOST_JOBS
from sim.record.packed import ROWS_AT_ONCE, Packed, Rows
from sim.record.stretches import Stretches
from sim.record.tables import (
    ADMISSION_COLUMNS,
    COPY_COLUMNS,
    DECODE,
    PREEMPTION_COLUMNS,
    PREFILL,
    REQUEST_COLUMNS,
    ROW_COLUMNS,
    SCHEDULE_COLUMNS,
    Record,
)
from sim.request import NEVER, Request, Status, Workload

CELLS_AT_ONCE = ROWS_AT_ONCE * len(ROW_COLUMNS)


class Log(Monitor):
    """Keeps the record of a run. A job is written when it has ended: one cut off by the horizon leaves no trace."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._jobs = Rows(ROW_COLUMNS)
        self._schedule = Rows(SCHEDULE_COLUMNS)
        self._admissions = Rows(ADMISSION_COLUMNS)
        self._preemptions = Rows(PREEMPTION_COLUMNS)
        self._copies = Rows(COPY_COLUMNS)
        self._reasons: dict[int, str] = {}
        self._requests = {name: array("q", [NEVER]) * len(workload) for name in REQUEST_COLUMNS}
        self._arrived_job, self._status = self._requests["arrived_job"], self._requests["status"]
        self._ended_ns, self._ended_job = self._requests["ended_ns"], self._requests["ended_job"]
        self._open: Job | None = None
        self._decoding_jobs = 0
        self._arrivals: list[int] = []
        """Of those who came since the open row began, and some more, how many jobs had begun before."""

    @property
    def rows(self) -> int:
        """Rows written so far, of all tables that grow."""
        tables = (self._jobs, self._schedule, self._admissions, self._preemptions, self._copies)
        return sum(map(len, tables)) + (self._open is not None)

    def on_arrival(self, request: Request, jobs_begun: int) -> None:
        self._arrived_job[request.index] = jobs_begun
        self._arrivals.append(jobs_begun)

    def on_job(self, job: Job) -> None:
        row = self._open
        if row is not None:
            if job.crowd == row.crowd and self._goes_on(row, job):
                row.count += job.count
                row.end_ns = job.end_ns
                self._decoding_jobs += job.count
                return
            self._write(row)
        self._open = job
        if job.admitted or job.preempted or job.copies or job.chunks:
            self._write_changes(job)
        if job.work.decode_requests:
            self._decoding_jobs += job.count

    def on_stretch(self, request: Request, first: int, jobs: int, grows: int) -> None:
        tokens = jobs * request.samples
        self._schedule.append((request.index, DECODE, first, jobs, tokens, NEVER, 1, grows))

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        index = request.index
        self._status[index] = status
        self._ended_job[index] = jobs_begun
        if status is Status.REJECTED:  # it has no times, and never waited
            self._arrivals.pop()
        else:
            self._ended_ns[index] = now_ns
        if reason is not None:
            self._reasons[index] = reason

    def end_unfinished(self, running: Collection[int], swapped: Collection[int]) -> None:
        """The horizon: whoever has not ended is unfinished, where it is. Both hold indices."""
        for index, status in enumerate(self._status):
            if status == NEVER:
                self._status[index] = Status.UNFINISHED
                arrived = "waiting" if self._arrived_job[index] != NEVER else "not arrived"
                self._reasons[index] = "running" if index in running else "swapped" if index in swapped else arrived

    def record(self, block_tokens: int = 0) -> Record:
        """The tables as they stand. Call it once, when the run is over."""
        if self._open is not None:
            self._write(self._open)
        rows = self._jobs.table()
        return Record(
            workload=self._workload,
            requests={name: np.frombuffer(column, dtype=np.int64) for name, column in self._requests.items()},
            reasons=self._reasons,
            rows=rows,
            schedule=_in_order(self._schedule.table(), Stretches(rows)),
            admissions=self._admissions.table(),
            preemptions=self._preemptions.table(),
            copies=self._copies.table(),
            block_tokens=block_tokens,
        )

    def _goes_on(self, row: Job, job: Job) -> bool:
        """Whether ``job`` is one more of the same kind as those of ``row``, so that all that differs can be derived."""
        return (
            job.whole
            and row.whole
            and not (job.admitted or job.preempted)
            and job.line is not None
            and row.line is not None
            and job.line == row.line.moved(row.count)
            and job.start_ns == row.end_ns
            and job.blocked is row.blocked
            and job.waiting == row.waiting + self._arrived(row.number, job.number)
            and job.running == row.running
            and job.swapped == row.swapped
            and job.withheld_blocks == row.withheld_blocks
            and self._decoding_jobs % MOST_JOBS > 0
        )

    def _write(self, job: Job) -> None:
        first_fs, growth_fs = (0, 0) if job.line is None else (job.line.first_fs, job.line.growth_fs)
        free_blocks, work = job.free_blocks, job.work
        newest = self._jobs.newest
        newest.extend((job.count, job.start_ns, job.end_ns, first_fs, growth_fs, job.kind, work.prefill_tokens,
                       work.decode_requests, job.waiting, job.running, job.swapped,
                       NEVER if free_blocks is None else free_blocks, job.withheld_blocks, job.blocked))  # fmt: skip
        if len(newest) >= CELLS_AT_ONCE:
            del self._arrivals[: self._arrived(NEVER, job.number)]
            for table in (self._jobs, self._schedule, self._admissions, self._preemptions, self._copies):
                table.tidy()

    def _arrived(self, after: int, upto: int) -> int:
        """How many came, and were not turned away, after so many jobs had begun."""
        return bisect_right(self._arrivals, upto) - bisect_right(self._arrivals, after)

    def _write_changes(self, job: Job) -> None:
        for joined in job.admitted:
            self._admissions.append((job.number, joined.request.index, joined.cached_tokens, joined.back))
        for gone in job.preempted:
            self._preemptions.append((job.number, gone.request.index, gone.tokens, gone.loss))
        for request, blocks, out in job.copies:
            self._copies.append((job.number, request.index, blocks, out))
        for chunk in job.chunks:
            request, tokens = chunk.request, chunk.tokens
            emits = request.computed + tokens == request.prefill_end
            self._schedule.append((request.index, PREFILL, job.number, 1, tokens, chunk.place, emits, NEVER))


def _in_order(schedule: Packed, stretches: Stretches) -> Packed:
    """The rows by request, then in time."""
    first = schedule["job"]
    decodes = np.flatnonzero(schedule["phase"] == DECODE)
    first[decodes] = stretches.job_of_decoding(first[decodes])
    return schedule.in_order(np.lexsort((first, schedule["request"])))
