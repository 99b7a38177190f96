"""The raw record of one run as columns: the product. Every metric is a pure function of these tables.

=============  ======================================================================================================
requests       one row each, in the order of the workload: how it ended (``status``, ``reason``), when (``ended_ns``),
               and between which jobs it came and went (``arrived_job``, ``ended_job``: jobs begun before that moment)
rows           one row per job, or per stretch of like decode jobs that follow each other: how many ``jobs`` it stands
               for, ``start_ns, end_ns`` of all, the durations of each (``first_fs, growth_fs``: the j-th takes
               ``first_fs + growth_fs * j``, half up to ns), ``kind, prefill_tokens, decode_requests``, and as it stood
               once the first of them was decided: ``waiting, running, swapped`` requests, ``free_blocks,
               withheld_blocks``, and what ``blocked`` the head of the queue. What a decision changed is told by its
               first job. ``jobs`` is the same, one row per job
schedule       ``request, phase, job, jobs, tokens, place, emits, grows``. A prefill row is one chunk in job ``job``. A
               decode row is a stretch of ``jobs`` consecutive decoding jobs, which are numbered on their own: ``job``
               counts the jobs that decode anything. Its request took its first new block in decoding job ``grows``, and
               one more every block of tokens, as far as rows of several jobs are concerned. By request, then in time.
admissions     ``job, request, cached_tokens, back``: in the order in which requests joined ``running``, from the queue
               or (``back`` 1) from the host
preemptions    ``job, request, tokens, loss``: in the order in which they lost their blocks, and the tokens in them
copies         ``job, request, blocks, out``: what swap jobs copied to the host (``out`` 1) or back (0)
=============  ======================================================================================================

All columns are int64 but for texts; :data:`~sim.request.NEVER` is "no such".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from sim.engine.plan import Loss
from sim.record import stretches
from sim.record.packed import Narrow, narrow
from sim.record.stretches import Stretches
from sim.request import NEVER, Ints, Status, Workload


class Phase(IntEnum):
    """What a row of the schedule is: a chunk (of a prompt, or of a recomputation), or decodes."""

    PREFILL = 0
    DECODE = 1


PREFILL, DECODE = Phase

REQUEST_COLUMNS = ("status", "ended_ns", "arrived_job", "ended_job")
JOB_COLUMNS = ("start_ns", "end_ns", "kind", "prefill_tokens", "decode_requests", "waiting", "running", "swapped",
               "free_blocks", "withheld_blocks", "blocked")  # fmt: skip
ROW_COLUMNS = stretches.COLUMNS
SCHEDULE_COLUMNS = ("request", "phase", "job", "jobs", "tokens", "place", "emits", "grows")
PREEMPTION_COLUMNS = ("job", "request", "tokens", "loss")
COPY_COLUMNS = ("job", "request", "blocks", "out")
ADMISSION_COLUMNS = ("job", "request", "cached_tokens", "back")

Table = Mapping[str, Ints]


@dataclass(frozen=True)
class Record:
    """The tables of one run. ``reasons``: why a request that did not finish ended so, by its index.

    ``block_tokens`` of the pool, 0 without one.
    """

    workload: Workload
    requests: Table
    reasons: Mapping[int, str]
    rows: Table
    schedule: Table
    admissions: Table
    preemptions: Table
    copies: Table
    block_tokens: int = 0

    @cached_property
    def stretches(self) -> Stretches:
        return Stretches(self.rows)

    @cached_property
    def jobs(self) -> Table:
        """One row per job: :data:`JOB_COLUMNS`."""
        jobs = self.stretches.expand()
        if self.stretches.jobs > len(self.stretches):
            jobs["waiting"] = jobs["waiting"] + self._inside(self.arrivals(), self.stretches.first)
            jobs["free_blocks"] = jobs["free_blocks"] - self._taken_inside()
        return {name: jobs[name] for name in JOB_COLUMNS}

    @property
    def decode_jobs(self) -> Ints:
        """The number of the k-th job that decodes anything."""
        return decode_jobs(self.jobs)

    @property
    def recomputed(self) -> Table:
        """The preemptions after which tokens had to be computed again (all but the swapped ones)."""
        again = self.preemptions["loss"] != Loss.SWAP
        return {name: column[again] for name, column in self.preemptions.items()}

    def arrivals(self) -> Ints:
        """Of each request that joined the queue, how many jobs had begun before; in order."""
        arrived = self.requests["arrived_job"]
        return np.sort(arrived[(arrived != NEVER) & (self.requests["status"] != Status.REJECTED)])

    @cached_property
    def _growing(self) -> tuple[Narrow, Narrow, Narrow, int]:
        """Of the stretches in which blocks are taken: where they begin, in order, and end, ``grows``, the longest."""
        rows = np.flatnonzero(self.schedule["grows"] != NEVER)
        begins = self.schedule["job"][rows]
        order = np.argsort(begins, kind="stable")
        jobs, grows = self.schedule["jobs"][rows], self.schedule["grows"][rows]
        ends = begins + jobs
        return narrow(begins[order]), narrow(ends[order]), narrow(grows[order]), int(jobs.max(initial=0))

    def growths(self, first: int, after: int) -> Ints:
        """The decoding jobs from ``first`` to before ``after`` in which somebody took a block, once each time."""
        begins, ends, grows, longest = self._growing
        some = slice(*np.searchsorted(begins, [first - longest, after]).tolist())
        ends, grows = ends[some].astype(np.int64), grows[some].astype(np.int64)
        period = max(self.block_tokens, 1)
        low = np.maximum(-(-(first - grows) // period), 0)
        high = np.maximum(-(-(np.minimum(ends, after) - grows) // period), low)
        counts = high - low
        before = np.repeat(np.cumsum(counts) - counts, counts)
        moments: Ints = np.repeat(grows + low * period, counts) + (np.arange(len(before)) - before) * period
        return moments

    def _inside(self, moments: Ints, firsts: Ints) -> Ints:
        """For each of the things numbered up to the last of ``firsts``, how many moments since the first of its row."""
        numbers = int(firsts[-1])
        upto = np.cumsum(np.bincount(moments[moments < numbers], minlength=numbers))
        since: Ints = upto - np.repeat(upto[np.minimum(firsts[:-1], numbers - 1)], np.diff(firsts))
        return since

    def _taken_inside(self) -> Ints:
        """Blocks that were taken in a stretch by each of its jobs, since the first of them."""
        stretches = self.stretches
        taken = np.zeros(stretches.jobs, dtype=np.int64)
        if stretches.decoding:
            decodes = np.repeat(self.rows["decode_requests"] > 0, self.rows["jobs"])
            taken[decodes] = self._inside(self.growths(0, stretches.decoding), stretches.first_decoding)
        return taken


def one_each(jobs: Table) -> dict[str, Ints]:
    """Rows of one job each, from a table of jobs."""
    count = len(jobs["start_ns"])
    none = np.zeros(count, dtype=np.int64)
    rows = {"jobs": np.ones_like(none), "first_fs": none, "growth_fs": none, **jobs}
    return {name: rows[name] for name in ROW_COLUMNS}


def decode_jobs(jobs: Table) -> Ints:
    """The numbers of the jobs that decode anything, in order."""
    return np.flatnonzero(jobs["decode_requests"])
