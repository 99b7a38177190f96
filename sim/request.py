"""What is asked of the server: a request as specified, a workload of them as columns, and a request under way."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NEVER = -1
"""In columns of times: there is no such time."""

AT_ONCE = 4096
"""So many requests are taken out of the columns together."""


class Status(IntEnum):
    """How a request ended. Every request of a run has exactly one of these."""

    FINISHED = 0
    REJECTED = 1
    CANCELLED = 2
    UNFINISHED = 3


class RequestSpec(NamedTuple):
    """One request as the workload states it. ``index`` is its place in the file, which breaks every tie."""

    index: int  # type: ignore[assignment]  # instead of the tuple's method of this name
    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    priority: int = 0
    tenant: str = ""
    deadline_ns: int | None = None
    cancel_ns: int | None = None
    samples: int = 1


class Pieces(NamedTuple):
    """What prompts are made of, from their first token on: ids of texts, and how many tokens of each.

    Request ``i`` has the pieces ``offsets[i]`` to before ``offsets[i + 1]``. Token ``k`` of the text ``id`` is the same
    token wherever it stands; what a prompt has beyond its pieces is its own.
    """

    offsets: Ints
    ids: Ints
    tokens: Ints

    @classmethod
    def of(cls, counts: Ints, ids: Ints, tokens: Ints) -> "Pieces":
        """From how many each request has."""
        return cls(np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts))), ids, tokens)

    @property
    def counts(self) -> Ints:
        """How many pieces each request has."""
        return np.diff(self.offsets)

    def of_request(self, index: int) -> list[tuple[int, int]]:
        """``(id, tokens)`` of its pieces."""
        some = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return list(zip(self.ids[some].tolist(), self.tokens[some].tolist(), strict=True))

    def of_each(self) -> Iterator[list[tuple[int, int]]]:
        """The same of all requests, one after the other."""
        return map(self.of_request, range(len(self.offsets) - 1))

    def take(self, order: Ints) -> "Pieces":
        """The pieces of the requests at these places, in this order."""
        counts = self.counts[order]
        after = np.cumsum(counts)
        places = np.repeat(self.offsets[:-1][order] - (after - counts), counts) + np.arange(int(counts.sum()))
        return Pieces.of(counts, self.ids[places], self.tokens[places])


@dataclass(frozen=True)
class Sending:
    """How requests are sent whose arrival no file states, and how long their clients wait: a row for each request.

    ``after``: the request that has to have ended first (NEVER: none, it is sent at its ``arrival_ns``), and
    ``pause_ns``, how long after that. ``patience_ns``: so long after its arrival its client leaves if no token has
    come (NEVER: it waits). ``attempt``: 0, or k for the k-th time that the request in the rows above is sent again;
    then it is only sent, ``pause_ns`` after the end of the row above, if that one's client left. ``after`` names rows
    of attempt 0, and means the end of the last attempt.
    """

    after: Ints
    pause_ns: Ints
    patience_ns: Ints
    attempt: Ints

    def columns(self) -> Iterator[tuple[str, Ints]]:
        """The columns, by name, in a fixed order."""
        for name in ("after", "pause_ns", "patience_ns", "attempt"):
            yield name, getattr(self, name)


@dataclass(frozen=True)
class Workload:
    """Requests as columns, in the order of the file; nothing here grows with their tokens.

    ``ids`` is None for the default names r000001, r000002, … Times are int64 ns, :data:`NEVER` where there is none.
    A prefix group and a parent (an index) only say which tokens are equal: the first ``prefix_tokens`` are the group's,
    the first ``parent_tokens`` those of the parent's prompt and output. So do ``pieces``, of which a prompt is made as
    far as neither of the two says. Without ``sending``, all are sent at their arrivals; with it, those that wait for
    another's end have none (NEVER) until they are sent. ``notes`` tell whoever reads a result what became of its trace.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    max_tokens: Ints
    priority: Ints
    deadline_ns: Ints
    cancel_ns: Ints
    samples: Ints
    prefix_tokens: Ints
    parent: Ints
    parent_tokens: Ints
    ids: Sequence[str] | None = None
    tenants: Sequence[str] | None = None
    prefix_groups: Sequence[str] | None = None
    sending: Sending | None = None
    pieces: Pieces | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, arrival_ns: Ints, prompt_tokens: Ints, output_tokens: Ints) -> "Workload":
        """Requests of which only this is said."""

        def same(value: int) -> Ints:
            return np.broadcast_to(np.int64(value), len(arrival_ns))  # one number, whatever the length

        return cls(
            arrival_ns=arrival_ns,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            max_tokens=output_tokens,
            priority=same(0),
            deadline_ns=same(NEVER),
            cancel_ns=same(NEVER),
            samples=same(1),
            prefix_tokens=same(0),
            parent=same(NEVER),
            parent_tokens=same(0),
        )

    @classmethod
    def empty(cls) -> "Workload":
        none = np.empty(0, dtype=np.int64)
        return cls.of(none, none, none)

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def id(self, index: int) -> str:
        return default_id(index) if self.ids is None else self.ids[index]

    def all_ids(self) -> list[str]:
        return [self.id(index) for index in range(len(self))]

    def spec(self, index: int) -> RequestSpec:
        def number(column: Ints) -> int:
            return int(column[index])

        def time(column: Ints) -> int | None:
            return None if column[index] == NEVER else int(column[index])

        return RequestSpec(
            index,
            self.id(index),
            number(self.arrival_ns),
            number(self.prompt_tokens),
            number(self.output_tokens),
            number(self.max_tokens),
            number(self.priority),
            "" if self.tenants is None else self.tenants[index],
            time(self.deadline_ns),
            time(self.cancel_ns),
            number(self.samples),
        )

    def specs(self, indices: Ints | None = None) -> Iterator[RequestSpec]:
        """The requests at these places (None: all), in this order."""
        order = np.arange(len(self)) if indices is None else indices
        for start in range(0, len(order), AT_ONCE):
            some = order[start : start + AT_ONCE]
            names = list(map(default_id if self.ids is None else self.ids.__getitem__, some.tolist()))
            tenants = repeat("") if self.tenants is None else [self.tenants[index] for index in some.tolist()]
            columns = (self.arrival_ns, self.prompt_tokens, self.output_tokens, self.max_tokens, self.priority)
            numbers = (column[some].tolist() for column in columns)
            times = (_none_for_never(column[some]) for column in (self.deadline_ns, self.cancel_ns))
            rows = zip(some.tolist(), names, *numbers, tenants, *times, self.samples[some].tolist(), strict=False)
            yield from map(tuple.__new__, repeat(RequestSpec), rows)

    def columns(self) -> Iterator[tuple[str, Ints]]:
        """The numeric columns, by name, in a fixed order."""
        for name in (
            "arrival_ns", "prompt_tokens", "output_tokens", "max_tokens", "priority", "deadline_ns", "cancel_ns",
            "samples", "prefix_tokens", "parent", "parent_tokens",
        ):  # fmt: skip
            yield name, getattr(self, name)

    def in_order_of_arrival(self) -> Ints:
        """Indices by (arrival, place in the file)."""
        return np.argsort(self.arrival_ns, kind="stable")

    def sha256(self) -> str:
        """A digest of everything that the simulation can see of the workload."""
        digest = hashlib.sha256()
        for name, column in chain(self.columns(), () if self.sending is None else self.sending.columns()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        for name, texts in (("ids", self.ids), ("tenants", self.tenants), ("prefix_groups", self.prefix_groups)):
            digest.update(name.encode())
            for text in texts or ():
                encoded = text.encode("utf-8", "surrogatepass")
                digest.update(len(encoded).to_bytes(4, "little") + encoded)
        for name, column in zip(Pieces._fields, self.pieces or (), strict=False):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        return digest.hexdigest()


def _none_for_never(times_ns: Ints) -> list[int | None]:
    values: list[int | None] = times_ns.tolist()
    return [None if value == NEVER else value for value in values] if (times_ns == NEVER).any() else values


def default_id(index: int) -> str:
    """The name of the request at place ``index`` (from 0) that was given none."""
    return f"r{index + 1:06d}"


class Clock:
    """How many jobs that decode anything have ended."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs = 0


STANDING = Clock()
"""It never moves: the clock of a request whose tokens are booked one job at a time."""


class Request:
    """A request in the server: its specification, and what has happened to it so far.

    There is no prefill or decode state: each job brings ``computed`` nearer to ``known`` tokens (prompt and emitted),
    and a request whose computed tokens reach them at a job's end emits one more. ``prefill_end`` is what was known
    when it was last admitted: below it, its work is prefill (or recomputation); from there on, decode. ``place`` is its
    place in the order of admission, ``turn`` the cycle that scheduled it last by itself, ``chunk`` the prompt tokens
    that this one scheduled of it (0: it decodes). ``overdue``: it was admitted for having waited so long.

    While it follows a clock, it computes and emits one token whenever that moves on: nobody has to book them.
    """

    arrived = admitted_before = cancelled = ended = overdue = False
    turn = place = finish = grows = stretch_first = stretch_after = NEVER
    admitted_with = chunk = 0

    def __init__(self, spec: RequestSpec, max_model_tokens: int = 0) -> None:
        self._clock = STANDING
        self._computed = self._emitted = 0
        """At zero of its clock."""
        self.spec = spec
        (self.index, self.id, self.arrival_ns, self.prompt_tokens, self.output_tokens, self.max_tokens,
         self.priority, _, _, _, self.samples) = spec  # fmt: skip
        self.prefill_end = self.prompt_tokens
        if max_model_tokens:
            longest = max_model_tokens - spec.prompt_tokens
            self.output_tokens = min(spec.output_tokens, longest)
            self.max_tokens = min(spec.max_tokens, longest)

    @property
    def computed(self) -> int:
        """Tokens whose KV is there."""
        return self._computed + self._clock.jobs

    @computed.setter
    def computed(self, tokens: int) -> None:
        self._computed = tokens - self._clock.jobs

    @property
    def emitted(self) -> int:
        """Tokens that came out, for each of its samples."""
        return self._emitted + self._clock.jobs

    @emitted.setter
    def emitted(self, tokens: int) -> None:
        self._emitted = tokens - self._clock.jobs

    def follow(self, clock: Clock) -> None:
        """From now on a token is computed and one emitted with each move of ``clock``."""
        jobs = clock.jobs
        self._computed -= jobs
        self._emitted -= jobs
        self._clock = clock

    def stand(self) -> None:
        """Follow no clock any more."""
        jobs = self._clock.jobs
        self._computed += jobs
        self._emitted += jobs
        self._clock = STANDING

    @property
    def known(self) -> int:
        """Tokens that exist: the prompt and what each sample emitted."""
        return self.prompt_tokens + self.samples * (self._emitted + self._clock.jobs)

    @property
    def rest(self) -> int:
        """Known tokens that are not computed yet: of its prompt, or the newest of each sample."""
        jobs = self._clock.jobs
        return self.prompt_tokens + self.samples * (self._emitted + jobs) - self._computed - jobs

    @property
    def prefilling(self) -> bool:
        return self._computed + self._clock.jobs < self.prefill_end

    def admitted(self, cached_tokens: int) -> None:
        """It joins those who run, with so many tokens computed; its prefill covers what is known of it now."""
        self._computed = self.admitted_with = cached_tokens
        self.prefill_end = self.prompt_tokens + self.samples * self._emitted
        self.admitted_before = True

    def compute(self, tokens: int) -> bool:
        """A job computed so many of its tokens. Whether that was all that was known of it: then it emits one more."""
        self._computed += tokens
        if self._computed < self.prefill_end:
            return False
        self._emitted += 1
        return True

    def forget(self) -> int:
        """Its blocks are gone: how many computed tokens were lost. What it emitted stays emitted."""
        lost, self.computed = self.computed, 0
        return lost

    def __repr__(self) -> str:
        return f"<{self.id}: {self.computed} of {self.known} tokens computed, {self.emitted} emitted>"
