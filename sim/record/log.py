"""The monitor that writes the raw record: every job, what it scheduled, and every request's comings and goings."""

from array import array
from collections.abc import Collection, Sequence

import numpy as np

from sim.engine.plan import Job
from sim.record.tables import (
    ADMISSION_COLUMNS,
    COPY_COLUMNS,
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
        self._copies = Rows(COPY_COLUMNS)
        self._reasons: dict[int, str] = {}
        self._requests = {name: np.full(len(workload), NEVER, dtype=np.int64) for name in REQUEST_COLUMNS}
        self._decoding_jobs = 0
        self._decoders: Sequence[Request] = ()
        self._stretches: dict[int, int] = {}
        self._samples = workload.samples

    def on_arrival(self, request: Request, jobs_begun: int) -> None:
        self._requests["arrived_job"][request.index] = jobs_begun

    def on_job(self, job: Job) -> None:
        free_blocks = NEVER if job.free_blocks is None else job.free_blocks
        self._jobs.append(job.start_ns, job.end_ns, job.kind, job.work.prefill_tokens, job.work.decode_requests,
                          job.waiting, job.running, job.swapped, free_blocks, job.withheld_blocks,
                          job.blocked)  # fmt: skip
        for request, cached_tokens, back in job.admitted:
            self._admissions.append(job.number, request.index, cached_tokens, back)
        for request, tokens, loss in job.preempted:
            self._preemptions.append(job.number, request.index, tokens, loss)
        for request, blocks, out in job.copies:
            self._copies.append(job.number, request.index, blocks, out)
        for request, tokens, place in job.chunks:
            if request.index in self._stretches:  # it was preempted, and computes again what it had
                self._close_stretch(request.index)
                self._decoders = ()
            emits = request.computed + tokens == request.prefill_end
            self._schedule.append(request.index, PREFILL, job.number, 1, tokens, place, emits)
        decodes = job.decodes
        if decodes:
            if decodes != self._decoders:
                self._change_decoders(decodes)
            self._decoding_jobs += 1

    def on_end(self, request: Request, status: Status, reason: str | None, now_ns: int, jobs_begun: int) -> None:
        columns = self._requests
        columns["status"][request.index] = status
        columns["ended_ns"][request.index] = now_ns
        columns["ended_job"][request.index] = jobs_begun
        if status is Status.REJECTED:
            columns["ended_ns"][request.index] = NEVER  # a rejected request has no times
        if reason is not None:
            self._reasons[request.index] = reason

    def end_unfinished(self, running: Collection[int], swapped: Collection[int]) -> None:
        """The horizon: whoever has not ended is unfinished, where it is. Both hold indices."""
        columns = self._requests
        for index in np.flatnonzero(columns["status"] == NEVER).tolist():
            columns["status"][index] = Status.UNFINISHED
            arrived = "waiting" if columns["arrived_job"][index] != NEVER else "not arrived"
            self._reasons[index] = "running" if index in running else "swapped" if index in swapped else arrived

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
            copies=self._copies.table(),
        )

    def _change_decoders(self, decodes: Sequence[Request]) -> None:
        """Others decode than in the decoding job before: their stretches begin, those of who is missing are over."""
        number = self._decoding_jobs
        now = {request.index for request in decodes}
        for index in [index for index in self._stretches if index not in now]:
            self._close_stretch(index)
        for request in decodes:
            self._stretches.setdefault(request.index, number)
        self._decoders = decodes

    def _close_stretch(self, index: int) -> None:
        first = self._stretches.pop(index)
        jobs = self._decoding_jobs - first
        self._schedule.append(index, DECODE, first, jobs, jobs * int(self._samples[index]), NEVER, 1)
