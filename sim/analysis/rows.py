"""The rows of a schedule read as a history: how far each request was when each of them begins."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from sim.analysis.claims import Claims
from sim.analysis.exact import Mask
from sim.analysis.pieces import Pieces
from sim.analysis.troubles import instants_ns
from sim.record.tables import DECODE, PREFILL
from sim.request import NEVER, Ints


class Rows:
    """Columns, one entry a row of the schedule. The tables must be sound (``checks_tables``, ``checks_rows``).

    A *job* is the number of one; what is asked of jobs is asked of *pieces*, each of which stands for like jobs.
    """

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.record = record = claims.record
        self.workload = record.workload
        self.requests = len(record.workload)
        self.jobs = record.stretches.jobs
        self.pieces = Pieces(record, instants_ns(claims.scenario))
        self.starts_ns = self.pieces.starts_ns
        """When the first job of each piece begins."""
        self.ends_ns = self.pieces.ends_ns
        """When the last job of each piece ends."""

    @cached_property
    def owner(self) -> Ints:
        """Whose each row is."""
        return self.record.schedule["request"]

    @cached_property
    def is_chunk(self) -> Mask:
        return np.equal(self.record.schedule["phase"], PREFILL)

    @cached_property
    def is_stretch(self) -> Mask:
        return np.equal(self.record.schedule["phase"], DECODE)

    @cached_property
    def first_job(self) -> Ints:
        """The number of the job in which each row begins."""
        return self._numbered(self.record.schedule["job"])

    @cached_property
    def last_job(self) -> Ints:
        """The number of the job in which each row ends."""
        return self._numbered(self.record.schedule["job"] + self.record.schedule["jobs"] - 1)

    def _numbered(self, job: Ints) -> Ints:
        number = job.copy()
        number[self.is_stretch] = self.record.stretches.job_of_decoding(job[self.is_stretch])
        return number

    @cached_property
    def first_piece(self) -> Ints:
        """The piece that each row begins with."""
        return self.pieces.of(self.first_job)

    @cached_property
    def last_piece(self) -> Ints:
        """The piece that each row ends with."""
        return self.pieces.of(self.last_job + 1) - 1

    def start_ns(self, job: Ints) -> Ints:
        """When each of these jobs begins, with which a piece does."""
        return self.starts_ns[self.pieces.of(job)]

    @cached_property
    def samples(self) -> Ints:
        """Sequences of each row's request."""
        return self.workload.samples[self.owner]

    @cached_property
    def emitted_before(self) -> Ints:
        """Tokens per sample that the row's request had emitted when the row begins, by the marks of the rows before."""
        return _sums_before(self._marked, self.owner)

    @property
    def _marked(self) -> Ints:
        return np.where(self.record.schedule["emits"] == 1, self.record.schedule["jobs"], 0)

    def before(self, request: Ints, job: Ints) -> tuple[Ints, Ints]:
        """Tokens scheduled for each of these requests before the job beside it, and tokens emitted per sample."""
        if not len(self.owner):
            return np.zeros_like(request), np.zeros_like(request)
        schedule = self.record.schedule
        row = np.searchsorted(self._keys, self._key(request, job)) - 1
        mine = (row >= 0) & (self.owner[row] == request)
        steps = np.minimum(self.pieces.decoding_before(job) - schedule["job"][row], schedule["jobs"][row])
        stretch = self.is_stretch[row]
        tokens = np.where(stretch, steps * self.samples[row], schedule["tokens"][row])
        emitted = np.where(stretch, steps, self._marked[row])
        scheduled = self._scheduled_before[row] + tokens
        return np.where(mine, scheduled, 0), np.where(mine, self.emitted_before[row] + emitted, 0)

    @cached_property
    def _keys(self) -> Ints:
        return self._key(self.owner, self.first_job)

    @cached_property
    def _scheduled_before(self) -> Ints:
        return _sums_before(self.record.schedule["tokens"], self.owner)

    @cached_property
    def life(self) -> Ints:
        """The life that each row belongs to, by its place in :attr:`lives`; NEVER before any."""
        lives = self.lives
        place = np.searchsorted(lives.key, self._keys, side="right") - 1
        mine = place >= 0
        mine[mine] = lives.owner[place[mine]] == self.owner[mine]
        return np.where(mine, place, NEVER)

    @cached_property
    def lives(self) -> "Lives":
        """A request's lives: from each admission from the queue to the loss of what it computes from then on."""
        admissions = self.record.admissions
        fresh = np.flatnonzero(admissions["back"] == 0)
        key = self._key(admissions["request"][fresh], admissions["job"][fresh])
        order = np.argsort(key, kind="stable")
        rows, key = fresh[order], key[order]
        owner = admissions["request"][rows]
        _, begun = self.before(owner, admissions["job"][rows])
        target = self.workload.prompt_tokens[owner] + self.workload.samples[owner] * begun
        return Lives(key, owner, admissions["job"][rows], admissions["cached_tokens"][rows], target)

    def _key(self, request: Ints, job: Ints) -> Ints:
        """Sorts by request, then by job."""
        return request * (self.jobs + 2) + np.minimum(job, self.jobs + 1)

    @cached_property
    def computed_before(self) -> Ints:
        """Tokens of the row's request that were computed when the row begins, cached ones included."""
        before = _sums_before(self.record.schedule["tokens"], self.life * self.requests + self.owner)
        return before + np.where(self.life == NEVER, 0, np.append(self.lives.cached, 0)[self.life])

    @cached_property
    def prompt_left(self) -> Ints:
        """Tokens to prefill of the row's request that were still to be computed when the row begins."""
        target = np.append(self.lives.target, 0)[self.life]
        return np.where(self.life == NEVER, self.workload.prompt_tokens[self.owner], target) - self.computed_before

    @cached_property
    def completes(self) -> Mask:
        """Whether the row is the chunk that completes its request's prefill."""
        return self.is_chunk & np.equal(self.record.schedule["tokens"], self.prompt_left)

    @cached_property
    def emits(self) -> Mask:
        return self.completes | self.is_stretch


class Lives(NamedTuple):
    """Columns, one row a life, by request and then in time; ``target`` is what is to be prefilled in it."""

    key: Ints
    owner: Ints
    job: Ints
    cached: Ints
    target: Ints


def _sums_before(values: Ints, group: Ints) -> Ints:
    """For each row the sum of the values before it in its group; groups are neighbours."""
    before = np.cumsum(values) - values
    new = np.ones(len(values), dtype=bool)
    new[1:] = group[1:] != group[:-1]
    rows = np.flatnonzero(new)
    return before - np.repeat(before[rows], np.diff(np.append(rows, len(values))))
