"""What comes of a decision: a job, what it schedules, and what the decision changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sim.costs.base import Work
from sim.costs.line import Line
from sim.request import Request


class Kind(IntEnum):
    """What a job contains."""

    PREFILL = 0
    DECODE = 1
    MIXED = 2
    SWAP = 3


class Loss(IntEnum):
    """How a preempted request lost its blocks: to be computed again, copied to the host, or with the device."""

    RECOMPUTE = 0
    SWAP = 1
    CRASH = 2


class Blocked(IntEnum):
    """What kept the head of the queue out at a decision.

    BLOCKS: too few are free; HOLES: enough, but not side by side; SLOTS: all taken; BUDGET: spent; SWAPPED: others come
    back first.
    """

    NOTHING = 0
    BLOCKS = 1
    SLOTS = 2
    BUDGET = 3
    SWAPPED = 4
    HOLES = 5


@dataclass(slots=True)
class Chunk:
    """Prompt tokens of one request in a job; ``place`` counts from 0 in the job's scheduling order."""

    request: Request
    tokens: int
    place: int


@dataclass(slots=True)
class Admission:
    """A request joined ``running``: from the queue, with what the cache had of it, or ``back`` from the host."""

    request: Request
    cached_tokens: int
    back: bool = False


@dataclass(slots=True)
class Preemption:
    """A running request lost its blocks, with ``tokens`` computed tokens in them (copied to the host, or lost)."""

    request: Request
    tokens: int
    loss: Loss


class Untold(NamedTuple):
    """Who joined and who lost blocks in decisions that submitted no job: the next job tells of it."""

    admitted: list[Admission]
    lost: list[Preemption]

    @property
    def nothing(self) -> bool:
        return not (self.admitted or self.lost)


class Copy(NamedTuple):
    """Blocks of one request go out to the host, or come back in."""

    request: Request
    blocks: int
    out: bool


class Job:
    """One submission to the device, or ``count`` alike in a row. It decodes the cohort (``decoding`` requests of it).

    ``scheduled`` are all others that it schedules, one by one, in order; ``chunks`` those of them that prefill. What a
    decision changed (admissions, preemptions) is told by its first job; the others have none. ``crowd``: how often
    anybody had joined or left the cohort. ``most``: how many alike may be run as one (0: it has a kind of its own), and
    ``stepped``: for how many of them the cohort has taken its blocks already. What stands here is how it stood for the
    first of the ``count``.
    """

    scheduled: Sequence[Request] = ()
    chunks: Sequence[Chunk] = ()
    copies: Sequence[Copy] = ()
    admitted: Sequence[Admission] = ()
    preempted: Sequence[Preemption] = ()
    kind = Kind.DECODE
    in_order = False
    """Whether those of the cohort and the others stand in the order of admission; if not, the cohort comes first."""
    count = 1
    most = stepped = 0
    line: Line | None = None
    waiting = swapped = 0
    running: int
    free_blocks: int | None
    withheld_blocks: int
    blocked = Blocked.NOTHING
    start_ns: int
    end_ns: int

    def __init__(self, number: int, work: Work, decoding: int = 0, crowd: int = 0) -> None:
        self.number = number
        self.work = work
        self.decoding = decoding
        self.crowd = crowd

    @classmethod
    def of_copies(cls, number: int, copies: Sequence[Copy]) -> "Job":
        """Copies blocks between device and host."""
        job = cls(number, Work(0, 0, 0, blocks=sum(copy.blocks for copy in copies)))
        job.copies, job.kind = copies, Kind.SWAP
        return job

    @property
    def whole(self) -> bool:
        """Whether it does nothing but decode the cohort."""
        return self.decoding > 0 and not self.scheduled
