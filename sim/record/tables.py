"""The raw record of one run as columns: the product. Every metric is a pure function of these tables.

=============  ======================================================================================================
requests       one row each, in the order of the workload: how it ended (``status``, ``reason``), when (``ended_ns``),
               and between which jobs it came and went (``arrived_job``, ``ended_job``: jobs begun before that moment)
jobs           one row each: ``start_ns, end_ns, kind, prefill_tokens, decode_requests``, and as it stood once the
               decision was made: ``waiting, running, swapped`` requests, ``free_blocks, withheld_blocks``, and what
               ``blocked`` the head of the queue. What a decision changed is told by its first job
schedule       ``request, phase, job, jobs, tokens, place, emits``. A prefill row is one chunk in job ``job``. A decode
               row is a stretch of ``jobs`` consecutive decoding jobs, which are numbered on their own: ``job`` counts
               the jobs that decode anything. By request, then in time.
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

import numpy as np

from sim.engine.plan import Loss
from sim.request import Ints, Workload


class Phase(IntEnum):
    """What a row of the schedule is: a chunk (of a prompt, or of a recomputation), or decodes."""

    PREFILL = 0
    DECODE = 1


PREFILL, DECODE = Phase

REQUEST_COLUMNS = ("status", "ended_ns", "arrived_job", "ended_job")
JOB_COLUMNS = ("start_ns", "end_ns", "kind", "prefill_tokens", "decode_requests", "waiting", "running", "swapped",
               "free_blocks", "withheld_blocks", "blocked")  # fmt: skip
SCHEDULE_COLUMNS = ("request", "phase", "job", "jobs", "tokens", "place", "emits")
PREEMPTION_COLUMNS = ("job", "request", "tokens", "loss")
COPY_COLUMNS = ("job", "request", "blocks", "out")
ADMISSION_COLUMNS = ("job", "request", "cached_tokens", "back")

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
    copies: Table

    @property
    def decode_jobs(self) -> Ints:
        """The number of the k-th job that decodes anything."""
        return decode_jobs(self.jobs)

    @property
    def recomputed(self) -> Table:
        """The preemptions after which tokens had to be computed again (all but the swapped ones)."""
        again = self.preemptions["loss"] != Loss.SWAP
        return {name: column[again] for name, column in self.preemptions.items()}


def decode_jobs(jobs: Table) -> Ints:
    """The numbers of the jobs that decode anything, in order."""
    return np.flatnonzero(jobs["decode_requests"])


def first_jobs(schedule: Table, jobs: Table) -> Ints:
    """For each row of the schedule, the number of the job in which it begins."""
    first = schedule["job"].copy()
    decodes = schedule["phase"] == DECODE
    first[decodes] = decode_jobs(jobs)[first[decodes]]
    return first
