"""The raw record of one run as columns: the product. Every metric is a pure function of these tables.

=============  ======================================================================================================
requests       one row each, in the order of the workload: how it ended (``status``, ``reason``), when (``ended_ns``),
               and between which jobs it came and went (``arrived_job``, ``ended_job``: jobs begun before that moment)
jobs           one row each: ``start_ns, end_ns, kind, prefill_tokens, decode_requests, waiting, running``
schedule       ``request, phase, job, jobs, tokens, place, emits``. A prefill row is one chunk in job ``job``. A decode
               row is a stretch of ``jobs`` consecutive decoding jobs, which are numbered on their own: ``job`` counts
               the jobs that decode anything. By request, then in time.
admissions     ``job, request, cached_tokens``: in the order in which requests joined ``running``
preemptions    ``job, request, tokens_lost``: in the order in which they lost their blocks
=============  ======================================================================================================

All columns are int64 but for texts; :data:`~sim.request.NEVER` is "no such".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sim.request import Ints, Workload


class Phase(IntEnum):
    """What a row of the schedule is: a chunk (of a prompt, or of a recomputation), or decodes."""

    PREFILL = 0
    DECODE = 1


PREFILL, DECODE = Phase

REQUEST_COLUMNS = ("status", "ended_ns", "arrived_job", "ended_job")
JOB_COLUMNS = ("start_ns", "end_ns", "kind", "prefill_tokens", "decode_requests", "waiting", "running")
SCHEDULE_COLUMNS = ("request", "phase", "job", "jobs", "tokens", "place", "emits")
PREEMPTION_COLUMNS = ("job", "request", "tokens_lost")
ADMISSION_COLUMNS = ("job", "request", "cached_tokens")

Table = Mapping[str, Ints]


@dataclass(frozen=True)
class Record:
    """The tables of one run. ``reasons``: why a request that did not finish ended so, by its index."""

    workload: Workload
    requests: Table
    reasons: Mapping[int, str]
    jobs: Table
    schedule: Table
    admissions: Table
    preemptions: Table

    @property
    def decode_jobs(self) -> Ints:
        """The number of the k-th job that decodes anything."""
        return decode_jobs(self.jobs)


def decode_jobs(jobs: Table) -> Ints:
    """The numbers of the jobs that decode anything, in order."""
    return np.flatnonzero(jobs["decode_requests"])


def first_jobs(schedule: Table, jobs: Table) -> Ints:
    """For each row of the schedule, the number of the job in which it begins."""
    first = schedule["job"].copy()
    decodes = schedule["phase"] == DECODE
    first[decodes] = decode_jobs(jobs)[first[decodes]]
    return first
