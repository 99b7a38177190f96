"""The jobs of a run in pieces: like jobs in a row, among which nothing that is told changes but free blocks."""

from functools import cached_property

import numpy as np

from sim.analysis.moments import Moments
from sim.clock import FS_PER_NS
from sim.record.tables import DECODE, JOB_COLUMNS, Record, Table
from sim.request import NEVER, Ints


class Pieces:
    """Rows, cut where anybody comes, goes, joins, begins or stops, and at ``instants_ns``. The last job is a piece.

    Columns, one entry a piece. What a job is said to be is so of each job of a piece, ``free_blocks`` of its first.
    """

    def __init__(self, record: Record, instants_ns: Ints) -> None:
        self._record = record
        self._rows = record.stretches
        self.moments = Moments(self._rows)
        begins = self._begins(instants_ns)
        self.first = begins[:-1]
        """The number of each piece's first job."""
        self.jobs = np.diff(begins)
        """For how many jobs each stands."""
        self._row = self._rows.row_of(self.first)
        self._place = self.first - self._rows.first[self._row]

    def __len__(self) -> int:
        return len(self.first)

    def of(self, job: Ints) -> Ints:
        """The piece that begins with each job, or the next one that begins behind it; as many as there are: none."""
        return np.searchsorted(self.first, job, side="left")

    def _begins(self, instants_ns: Ints) -> Ints:
        record, rows = self._record, self._rows
        schedule = record.schedule
        decodes = schedule["phase"] == DECODE
        first, last = schedule["job"], schedule["job"] + schedule["jobs"] - 1
        jobs = [
            rows.first, [0, rows.jobs - 1], first[~decodes], first[~decodes] + 1,
            rows.job_of_decoding(first[decodes]), rows.job_of_decoding(last[decodes]) + 1,
            record.admissions["job"], record.admissions["job"] + 1, record.preemptions["job"], record.copies["job"],
            record.requests["arrived_job"], record.requests["ended_job"], self.moments.begun_before(instants_ns)[0],
        ]  # fmt: skip
        every = np.concatenate([np.asarray(column, dtype=np.int64) for column in jobs])
        return np.unique(np.clip(every, 0, rows.jobs))

    # Times, in ns

    @cached_property
    def starts_ns(self) -> Ints:
        """When the first job of each begins."""
        starts_ns: Ints = self._record.rows["start_ns"][self._row]
        inside = np.flatnonzero(self._place)
        if len(inside):
            starts_ns[inside] = self.moments.starts_ns(self.first[inside])
        return starts_ns

    @cached_property
    def ends_ns(self) -> Ints:
        """When the last job of each ends."""
        ends_ns: Ints = self._record.rows["end_ns"][self._row]
        on = np.flatnonzero(self._row[1:] == self._row[:-1])
        ends_ns[on] = self.starts_ns[on + 1]
        return ends_ns

    @cached_property
    def first_ends_ns(self) -> Ints:
        """When the first job of each ends."""
        one_ns = self.starts_ns + self._job_ns(self._place)
        return np.where(self.jobs == 1, self.ends_ns, one_ns)

    @cached_property
    def last_starts_ns(self) -> Ints:
        """When the last job of each begins."""
        one_ns = self.ends_ns - self._job_ns(self._place + self.jobs - 1)
        return np.where(self.jobs == 1, self.starts_ns, one_ns)

    @cached_property
    def later_fs(self) -> Ints:
        """How long the second job of each takes, in fs; those behind it ``growth_fs`` longer each."""
        return self._record.rows["first_fs"][self._row] + self.growth_fs * (self._place + 1)

    @cached_property
    def growth_fs(self) -> Ints:
        return self._record.rows["growth_fs"][self._row]

    def _job_ns(self, place: Ints) -> Ints:
        fs = self._record.rows["first_fs"][self._row] + self.growth_fs * place
        return (fs + FS_PER_NS // 2) // FS_PER_NS

    # What the record says of them

    @cached_property
    def table(self) -> Table:
        """The columns of the jobs, without times."""
        rows = self._record.rows
        columns = {name: rows[name][self._row] for name in JOB_COLUMNS if not name.endswith("_ns")}
        inside = np.flatnonzero(self._place)
        if len(inside):
            arrivals = self._record.arrivals()
            since = self._rows.first[self._row[inside]]
            came = np.searchsorted(arrivals, self.first[inside], "right") - np.searchsorted(arrivals, since, "right")
            columns["waiting"][inside] += came
            columns["free_blocks"][inside] -= self._taken_before(inside)
        return columns

    def _taken_before(self, pieces: Ints) -> Ints:
        """Blocks that the jobs of their rows took, from the second of the row to the first of each of these pieces."""
        record, rows = self._record, self._rows
        taken = np.zeros_like(pieces)
        if not (record.schedule["grows"] != NEVER).any():
            return taken
        first = rows.first_decoding[self._row[pieces]]
        until = first + self._place[pieces]
        for laid in self.moments.laid():
            low, high = (int(rows.first_decoding[at]) for at in (laid.rows.start, laid.rows.stop))
            mine = np.flatnonzero((first >= low) & (first < high))
            if len(mine):
                upto = np.cumsum(np.bincount(record.growths(low, high) - low, minlength=high - low))
                taken[mine] = upto[until[mine] - low] - upto[first[mine] - low]
        return taken

    # Those that decode

    @cached_property
    def decoding(self) -> Ints:
        """The pieces that decode anything."""
        return np.flatnonzero(self._record.rows["decode_requests"][self._row] > 0)

    @cached_property
    def first_decoding(self) -> Ints:
        """The decoding number of the first job of each piece that decodes; at last, how many decode in all."""
        here = self.decoding
        return np.append(self._rows.first_decoding[self._row[here]] + self._place[here], self._rows.decoding)

    def decoding_before(self, job: Ints) -> Ints:
        """How many jobs decode anything before each job."""
        if not len(self._rows):
            return np.zeros_like(job)
        job = np.clip(job, 0, self._rows.jobs)
        row = np.minimum(self._rows.row_of(job), len(self._rows) - 1)
        begins = self._rows.first_decoding
        inside = np.where(self._record.rows["decode_requests"][row] > 0, job - self._rows.first[row], 0)
        before: Ints = begins[row] + inside
        return before
