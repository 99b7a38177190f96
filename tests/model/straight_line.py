"""The lesson on paper: the lab device and its three policies as one plain loop.

This file is the second opinion about the simulator, so it shares nothing with it: no SimPy, no package of this project,
only the standard library. It walks job by job, the way one does with a pencil, and keeps no clever state. Slow is fine.

Units: instants are whole nanoseconds (`int`). Costs are exact `Fraction`s of a nanosecond; only the *sum* of a job is
rounded, half up, once per job.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Literal, NamedTuple

Phase = Literal["prefill", "decode"]


# --- what goes in ----------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One request as the scenario states it. Entries come in the order of the file."""

    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int


class Device(NamedTuple):
    """What a job costs, in exact fractions of a nanosecond."""

    job: Fraction  # every job
    prefill_per_token: Fraction
    decode_per_batch: Fraction  # once in a job that decodes
    decode_per_request: Fraction
    context_per_token: Fraction  # per token of context that the job's decodes read


# --- what comes out --------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """One job. `waiting` and `running` stand as they do after scheduling, before anybody leaves at the job's end."""

    start_ns: int
    end_ns: int
    kind: Phase
    scheduled: tuple[tuple[str, int, Phase], ...]  # (id, tokens, phase), in scheduling order
    waiting: tuple[str, ...]  # in queue order
    running: tuple[str, ...]  # in admission order


class Served(NamedTuple):
    """What happened to one request: when it was first scheduled, and when each of its tokens left."""

    id: str
    first_scheduled_ns: int
    token_ns: tuple[int, ...]


class Timeline(NamedTuple):
    jobs: list[Job]
    requests: list[Served]  # in the order of the file


# --- the sheet of paper ----------------------------------------------------------------------------------------------


@dataclass
class Request:
    """A request and the two things that change: how much of its prompt is done, and which tokens have left."""

    entry: Entry
    prefilled: int = 0
    first_scheduled_ns: int = -1
    token_ns: list[int] = field(default_factory=list)

    @property
    def prompt_left(self) -> int:
        return self.entry.prompt_tokens - self.prefilled

    @property
    def done(self) -> bool:
        return len(self.token_ns) == self.entry.output_tokens

    @property
    def context(self) -> int:
        """Tokens that its next decode reads: the prompt and all that it has emitted, the newest one included."""
        return self.entry.prompt_tokens + len(self.token_ns)


Work = list[tuple[Request, int, Phase]]  # one job: who gets how many tokens in it, and for what


@dataclass
class Desk:
    """What the scheduler sees when it decides."""

    max_running: int | None  # None: no limit
    chunk_tokens: int
    waiting: list[Request] = field(default_factory=list)  # in queue order
    running: list[Request] = field(default_factory=list)  # in admission order
    last_kind: Phase | None = None  # of the job before; None before the first

    def head_gets_a_slot(self) -> bool:
        """Whether somebody waits and there is a slot left for the head. Nobody overtakes a head without a slot."""
        return bool(self.waiting) and (self.max_running is None or len(self.running) < self.max_running)

    def admit_head(self) -> Request:
        head = self.waiting.pop(0)
        self.running.append(head)
        return head

    def half_prefilled(self) -> Request | None:
        """The first of `running` whose prompt is not complete."""
        return next((request for request in self.running if request.prompt_left), None)


# --- the policies: each says what the next job is, the empty list for "no such job" ----------------------------------


def fcfs(desk: Desk) -> Work:
    """While anything waits for prefill: the head's whole prompt. Otherwise: decode all."""
    if desk.head_gets_a_slot():
        return whole_prompt(desk.admit_head())
    return decode_batch(desk)


def chunked(desk: Desk) -> Work:
    """After a decode batch a chunk, if anybody can have one. Otherwise decode all, if any. Otherwise a chunk."""
    if desk.last_kind == "decode":
        return chunk_of_head(desk) or decode_batch(desk)
    return decode_batch(desk) or chunk_of_head(desk)


def static(desk: Desk) -> Work:
    """When nothing runs, take a batch. Prefill its members whole, one by one. Then decode until the longest ends."""
    if not desk.running:
        while desk.head_gets_a_slot():
            desk.admit_head()
    member = desk.half_prefilled()
    return whole_prompt(member) if member else decode_batch(desk)


POLICIES: dict[str, Callable[[Desk], Work]] = {"fcfs": fcfs, "chunked": chunked, "static": static}


def whole_prompt(request: Request) -> Work:
    return [(request, request.entry.prompt_tokens, "prefill")]


def chunk_of_head(desk: Desk) -> Work:
    """At most `chunk_tokens` of the half-prefilled request, else of the head of the queue, else nothing."""
    head = desk.half_prefilled()
    if head is None and desk.head_gets_a_slot():
        head = desk.admit_head()
    return [(head, min(desk.chunk_tokens, head.prompt_left), "prefill")] if head else []


def decode_batch(desk: Desk) -> Work:
    """One token for each of `running` whose prompt is complete."""
    return [(request, 1, "decode") for request in desk.running if not request.prompt_left]


# --- the loop --------------------------------------------------------------------------------------------------------


def straight_line(
    entries: Sequence[Entry], device: Device, policy: str, *, chunk_tokens: int = 2, max_running: int | None = None
) -> Timeline:
    """The whole timeline of `entries` (in the order of the file) under one policy."""
    requests = [Request(entry) for entry in entries]
    to_come = sorted(requests, key=lambda request: request.entry.arrival_ns)  # stable: ties in the order of the file
    desk = Desk(max_running, chunk_tokens)
    jobs: list[Job] = []
    now = 0

    while to_come or desk.waiting or desk.running:
        if not desk.waiting and not desk.running:
            now = max(now, to_come[0].entry.arrival_ns)  # nothing to do until somebody comes
        while to_come and to_come[0].entry.arrival_ns <= now:
            desk.waiting.append(to_come.pop(0))

        work = POLICIES[policy](desk)
        kind = work[0][2]  # one kind per job
        end = now + round_half_up(cost(work, device))
        scheduled = tuple((request.entry.id, tokens, phase) for request, tokens, phase in work)
        jobs.append(Job(now, end, kind, scheduled, ids(desk.waiting), ids(desk.running)))

        for request, tokens, phase in work:
            if request.first_scheduled_ns < 0:
                request.first_scheduled_ns = now
            if phase == "prefill":
                request.prefilled += tokens
            if not request.prompt_left:  # the job that completes the prompt emits token 1, each decode one more
                request.token_ns.append(end)
        desk.running = [request for request in desk.running if not request.done]
        desk.last_kind = kind
        now = end

    return Timeline(jobs, [Served(r.entry.id, r.first_scheduled_ns, tuple(r.token_ns)) for r in requests])


def cost(work: Work, device: Device) -> Fraction:
    """The exact cost of one job in ns."""
    prefill_tokens = sum(tokens for _, tokens, phase in work if phase == "prefill")
    decoding = [request for request, _, phase in work if phase == "decode"]
    total = device.job + prefill_tokens * device.prefill_per_token
    if decoding:
        total += device.decode_per_batch + len(decoding) * device.decode_per_request
        total += sum(request.context for request in decoding) * device.context_per_token
    return total


def round_half_up(ns: Fraction) -> int:
    return floor(ns + Fraction(1, 2))


def ids(requests: Sequence[Request]) -> tuple[str, ...]:
    return tuple(request.entry.id for request in requests)
