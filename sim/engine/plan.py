"""What comes of a decision: a job, what it schedules, and what the decision changed."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from sim.costs.base import Work
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


class Chunk(NamedTuple):
    """Prompt tokens of one request in a job; ``place`` counts from 0 in the job's scheduling order."""

    request: Request
    tokens: int
    place: int


class Admission(NamedTuple):
    """A request joined ``running``: from the queue, with what the cache had of it, or ``back`` from the host."""

    request: Request
    cached_tokens: int
    back: bool = False


class Preemption(NamedTuple):
    """A running request lost its blocks, with ``tokens`` computed tokens in them (copied to the host, or lost)."""

    request: Request
    tokens: int
    loss: Loss


class Untold(NamedTuple):
    """Who joined and who lost blocks in decisions that submitted no job: the next job tells of it."""

    admitted: list[Admission]
    lost: list[Preemption]


class Copy(NamedTuple):
    """Blocks of one request go out to the host, or come back in."""

    request: Request
    blocks: int
    out: bool


class Job:
    """One submission to the device: ``scheduled`` are its requests, in order, ``chunks`` those of them that prefill.

    What a decision changed (admissions, preemptions) is told by its first job; the others have none.
    """

    __slots__ = ("admitted", "blocked", "chunks", "copies", "end_ns", "free_blocks", "kind", "number", "preempted",
                 "running", "scheduled", "start_ns", "swapped", "waiting", "withheld_blocks", "work")  # fmt: skip

    admitted: Sequence[Admission]
    preempted: Sequence[Preemption]
    waiting: int
    running: int
    swapped: int
    free_blocks: int | None
    withheld_blocks: int
    blocked: Blocked
    start_ns: int
    end_ns: int

    def __init__(
        self,
        number: int,
        work: Work,
        scheduled: Sequence[Request] = (),
        chunks: Sequence[Chunk] = (),
        copies: Sequence[Copy] = (),
    ) -> None:
        self.number = number
        self.work = work
        self.scheduled = scheduled
        self.chunks = chunks
        self.copies = copies
        self.admitted = self.preempted = ()
        if copies:
            self.kind = Kind.SWAP
        elif not chunks:
            self.kind = Kind.DECODE
        else:
            self.kind = Kind.PREFILL if len(chunks) == len(scheduled) else Kind.MIXED

    @property
    def decodes(self) -> Sequence[Request]:
        """Those of its requests that decode, in scheduling order."""
        if not self.chunks:
            return self.scheduled
        prefilling = {chunk.request.index for chunk in self.chunks}
        return [request for request in self.scheduled if request.index not in prefilling]
