"""The monitor that writes the raw record: every job, what it scheduled, and every request's comings and goings."""

from array import array
from collections.abc import Collection, Sequence

import numpy as np

from sim.engine.plan import Job
from sim.record.tables import (
    ADMISSION_COLUMNS,
    DECODE,
    JOB_COLUMNS,
    PREEMPTION_COLUMNS,
    PREFILL,
    REQUEST_COLUMNS,
    SCHEDULE_COLUMNS,
    Record,
    Table,
    first_jobs,
)
from sim.request import NEVER, Request, Status, Workload


class Rows:
    """Rows of whole numbers, packed one behind the other in one growing array."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._cells = array("q")

    def append(self, *cells: int) -> None:
        self._cells.extend(cells)

    def table(self) -> Table:
        """The columns, each on its own."""
        cells = np.array(self._cells, dtype=np.int64).reshape(-1, len(self._columns))
        return {name: cells[:, i].copy() for i, name in enumerate(self._columns)}


class Log:
    """Keeps the record of a run. A job is written when it has ended: one cut off by the horizon leaves no trace."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._jobs = Rows(JOB_COLUMNS)
        self._schedule = Rows(SCHEDULE_COLUMNS)
        self._admissions = Rows(ADMISSION_COLUMNS)
        self._preemptions = Rows(PREEMPTION_COLUMNS)
        self._reasons: dict[int, str] = {}
        self._requests = {name: np.full(len(workload), NEVER, dtype=np.int64) for name in REQUEST_COLUMNS}
        self._decoding_jobs = 0
        self._stretches: dict[int, tuple[int, int]] = {}

    def on_arrival(self, request: Request, jobs_begun: int) -> None:
        self._requests["arrived_job"][request.index] = jobs_begun

    def on_job(self, job: Job) -> None:
        work = job.work
        self._jobs.append(job.start_ns, job.end_ns, job.kind, work.prefill_tokens, work.decode_requests,
                          job.waiting, job.running)  # fmt: skip
        for admission in job.admitted:
            self._admissions.append(job.number, admission.request.index, admission.cached_tokens)
        for request, tokens, place in job.chunks:
            emits = request.computed + tokens == request.prefill_end
            self._schedule.append(request.index, PREFILL, job.number, 1, tokens, place, emits)
        if job.decodes:
            self._log_decodes(job.decodes)

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        columns = self._requests
        columns["status"][request.index] = status
        columns["ended_ns"][request.index] = now_ns
        columns["ended_job"][request.index] = jobs_begun
        if reason is not None:
            self._reasons[request.index] = reason

    def end_unfinished(self, running: Collection[int]) -> None:
        """The horizon: whoever has not ended is unfinished, where it is. ``running`` holds indices."""
        columns = self._requests
        for index in np.flatnonzero(columns["status"] == NEVER).tolist():
            columns["status"][index] = Status.UNFINISHED
            arrived = columns["arrived_job"][index] != NEVER
            self._reasons[index] = "running" if index in running else "waiting" if arrived else "not arrived"

    def record(self) -> Record:
        """The tables as they stand. Call it once, when the run is over."""
        for index in list(self._stretches):
            self._close_stretch(index)
        schedule = self._schedule.table()
        jobs = self._jobs.table()
        order = np.lexsort((first_jobs(schedule, jobs), schedule["request"]))
        return Record(
            workload=self._workload,
            requests=self._requests,
            reasons=self._reasons,
            jobs=jobs,
            schedule={name: column[order] for name, column in schedule.items()},
            admissions=self._admissions.table(),
            preemptions=self._preemptions.table(),
        )

    def _log_decodes(self, decodes: Sequence[Request]) -> None:
        """Each request's stretch goes on if it decoded in the decoding job before this one, else a new one begins."""
        number = self._decoding_jobs
        self._decoding_jobs += 1
        for request in decodes:
            first, after = self._stretches.get(request.index, (number, number))
            if after != number:
                self._close_stretch(request.index)
                first = number
            self._stretches[request.index] = (first, number + 1)

    def _close_stretch(self, index: int) -> None:
        first, after = self._stretches.pop(index)
        self._schedule.append(index, DECODE, first, after - first, after - first, NEVER, 1)
