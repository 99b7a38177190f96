"""One cycle: what a policy sees (:class:`View`), what it fills (:class:`Cycle`), and the job that comes of it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from sim.costs.base import Work
from sim.engine.queue import FcfsQueue
from sim.errors import InvariantError
from sim.request import Request


class Kind(IntEnum):
    """What a job contains."""

    PREFILL = 0
    DECODE = 1
    MIXED = 2
    SWAP = 3


class Chunk(NamedTuple):
    """Prompt tokens of one request in a job; ``place`` counts from 0 in the job's scheduling order."""

    request: Request
    tokens: int
    place: int


class Admission(NamedTuple):
    """A request joined ``running`` with ``cached_tokens`` of its tokens computed already."""

    request: Request
    cached_tokens: int


@dataclass(slots=True)
class Job:
    """One submission to the device. Decodes stand in scheduling order, at the places that chunks leave."""

    number: int
    chunks: list[Chunk]
    decodes: list[Request]
    work: Work
    admitted: list[Admission] = field(default_factory=list)
    waiting: int = 0
    running: int = 0
    start_ns: int = 0
    end_ns: int = 0

    @property
    def kind(self) -> Kind:
        if not self.chunks:
            return Kind.DECODE
        return Kind.MIXED if self.decodes else Kind.PREFILL


class State:
    """Who waits, in queue order, and who runs, in order of admission (by index; some still prefill)."""

    def __init__(self) -> None:
        self.waiting = FcfsQueue()
        self.running: dict[int, Request] = {}
        self.prefilling: dict[int, Request] = {}

    def admit(self, request: Request) -> None:
        """Move a waiting request to the end of ``running``; its prefill covers what is known of it now."""
        if request is self.waiting.head:
            self.waiting.take_head()
        else:
            self.waiting.remove(request)
        request.prefill_end = request.known
        request.admitted_before = True
        self.running[request.index] = request
        self.prefilling[request.index] = request

    def leave(self, request: Request) -> None:
        """``request`` runs no longer."""
        del self.running[request.index]
        self.prefilling.pop(request.index, None)


class View(NamedTuple):
    """What a policy may know. It reads no other clock and changes nothing here; it acts through the cycle."""

    now_ns: int
    last_kind: Kind | None
    waiting: FcfsQueue
    running: Collection[Request]


class Cycle:
    """The job under construction. Each verb asks whether there is room, acts if so, and answers whether it did."""

    def __init__(self, state: State, max_running: int | None) -> None:
        self._state = state
        self._max_running = max_running
        self._closed = False
        self._planned: list[Request] = []
        self._admitted: list[Admission] = []

    @property
    def empty(self) -> bool:
        return not self._planned

    def close_admission(self) -> None:
        """Nobody else joins ``running`` in this cycle."""
        self._closed = True

    def next_prefill(self) -> Request | None:
        """Whose prompt tokens come next: the first of ``running`` that still prefills, else the head of waiting."""
        for request in self._state.prefilling.values():
            if not request.planned:
                return request
        return None if self._closed else self._state.waiting.head

    def can_admit(self) -> bool:
        has_slot = self._max_running is None or len(self._state.running) < self._max_running
        return has_slot and not self._closed

    def admit(self, request: Request) -> bool:
        """Let a waiting request join ``running`` without work in this job."""
        if not self.can_admit():
            return False
        self._state.admit(request)
        self._admitted.append(Admission(request, cached_tokens=0))
        return True

    def prefill(self, request: Request, tokens: int) -> bool:
        """Schedule the next ``tokens`` prompt tokens of a running or waiting request."""
        if request.planned or not 1 <= tokens <= request.rest:
            raise InvariantError(f"a policy schedules {tokens} prefill tokens of {request!r}, {request.planned} before")
        if request.index not in self._state.running and not self.admit(request):
            return False
        request.planned = tokens
        self._planned.append(request)
        return True

    def decode_all(self) -> bool:
        """Schedule the next token of every running request whose prefill is complete."""
        decoders = [r for r in self._state.running.values() if r.computed >= r.prefill_end and not r.planned]
        for request in decoders:
            request.planned = 1
        self._planned += decoders
        return bool(decoders)

    def close(self, number: int) -> Job | None:
        """The job, or None when nothing was scheduled."""
        if not self._planned:
            return None
        chunks: list[Chunk] = []
        decodes: list[Request] = []
        context_tokens = prefill_tokens = 0
        for place, request in enumerate(self._planned):
            if request.prefilling:
                chunks.append(Chunk(request, request.planned, place))
                prefill_tokens += request.planned
            else:
                decodes.append(request)
                context_tokens += request.computed + 1
            request.planned = 0
        return Job(
            number=number,
            chunks=chunks,
            decodes=decodes,
            work=Work(prefill_tokens, len(decodes), context_tokens),
            admitted=self._admitted,
            waiting=len(self._state.waiting),
            running=len(self._state.running),
        )
