"""What must hold of every run, checked on its JSON alone by walking through it job by job.

The walk keeps its own books: who waits in which order, who runs, what each has computed and emitted and which blocks it
holds. They follow from the scenario and from the events' scheduled tokens; the lists, times, counts and free blocks of
the JSON are then compared with them. Two tables of the record say what the JSON does not: how many cached tokens each
single admission found, and how each preempted request lost its blocks. No code is shared with the simulator.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sim.record.memory import Usage
from sim.record.result import Result

NS = 10**6
RECOMPUTED, SWAPPED, CRASHED = range(3)


class BrokenError(AssertionError):
    """An invariant does not hold."""


def expect(holds: bool, what: str, *found: object) -> None:
    if not holds:
        raise BrokenError(f"{what}: {', '.join(map(repr, found))}")


def equal(what: str, found: object, expected: object) -> None:
    expect(found == expected, what, found, expected)


def ns(ms: float) -> int:
    return round(ms * NS)


def maybe_ns(ms: float | None) -> int | None:
    return None if ms is None else ns(ms)


def exact(value: object) -> Fraction:
    return Fraction(str(value))


def half_up(value: Fraction) -> int:
    return int((2 * value + 1) // 2)


@dataclass
class Asked:
    """A request as the scenario states it, and what the walk knows of it."""

    index: int
    id: str
    arrival_ns: int
    prompt: int
    output: int
    declared: int
    samples: int
    priority: int
    cancel_ns: int | None
    place: str = "future"
    computed: int = 0
    emissions: list[int] = field(default_factory=list)
    prefill_end: int = 0
    held: int = 0
    admissions: int = 0
    preemptions: int = 0
    lost: int = 0
    scheduled: int = 0
    cached: list[int] = field(default_factory=list)
    first_scheduled_ns: int | None = None

    @property
    def known(self) -> int:
        return self.prompt + self.samples * len(self.emissions)

    @property
    def rest(self) -> int:
        return self.known - self.computed

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prefill_end

    @property
    def done(self) -> bool:
        return bool(self.emissions) and len(self.emissions) == self.output


class Settings:
    """What the run resolved to."""

    def __init__(self, resolved: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        def of(key: str) -> Any:
            return resolved[key]

        self.static = of("scheduler.batching") == "static"
        self.composition = of("scheduler.composition")
        self.mixed = self.composition in {"mixed", "mixed-decode-first"}
        self.prefills_per_job = of("scheduler.prefills_per_job")
        self.chunk = of("scheduler.chunk_tokens")
        has_budget = self.mixed or (self.composition == "prefill-first" and self.prefills_per_job == 0)
        self.budget = of("scheduler.token_budget") if has_budget else None
        self.slots = of("scheduler.max_running")
        self.by_priority = of("scheduler.order") == "priority"
        self.chunked = of("scheduler.chunked_prefill")
        self.long_prefill = of("scheduler.long_prefill_tokens") if self.mixed else 0
        self.longest = of("scheduler.max_model_tokens")
        self.blocks = of("kv.blocks")
        self.pooled = self.blocks is not None
        self.block_tokens = of("kv.block_tokens")
        self.contiguous = of("kv.allocation") == "contiguous"
        self.gate = of("kv.gate")
        self.declares = self.contiguous or self.gate == "reserve"
        self.watermark = of("kv.watermark_blocks") or 0
        self.caches = bool(of("kv.prefix_cache")) and not self.contiguous
        self.swaps = of("kv.preemption") == "swap"
        self.host_blocks = of("kv.swap_blocks") if self.swaps else 0
        self.victim = of("kv.victim")
        if self.victim == "auto":
            self.victim = "lowest-priority" if self.by_priority else "last"
        names = ("job_ms", "prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request",
                 "context_ms_per_token")  # fmt: skip
        self.costs = {name: exact(of(f"device.{name}")) for name in names}
        self.swap_cost = exact(of("kv.swap_ms_per_block") or 0)
        horizon = document.get("run", {}).get("horizon_ms")
        self.horizon_ns = None if horizon is None else ns(horizon)
        self.faults = [Fault(fault) for fault in document.get("faults", ())]
        requests = document["workload"]["requests"]
        self.shares = self.caches and any(r.get("prefix_group") or r.get("parent") for r in requests)

    def withheld(self, at_ns: int) -> int:
        """How many blocks are to be withheld at this instant."""
        faults = [fault for fault in self.faults if fault.kind == "pool"]
        return sum(fault.blocks for fault in faults if fault.at_ns <= at_ns < fault.until_ns)

    def blocks_for(self, asked: Asked, tokens: int) -> int:
        """Blocks of ``tokens`` computed tokens, each sequence laid out on its own behind the shared prompt."""
        if not self.pooled:
            return 0
        size = int(self.block_tokens)
        if tokens <= asked.prompt:
            return -(-tokens // size)
        mine = asked.prompt + -(-(tokens - asked.prompt) // asked.samples)
        shared = asked.prompt // size
        return shared + asked.samples * (-(-mine // size) - shared)

    def declared_blocks(self, asked: Asked) -> int:
        return self.blocks_for(asked, asked.prompt + asked.samples * (asked.declared - 1))

    def never_fits(self, asked: Asked) -> list[tuple[int, ...]]:
        """For each rule that no state can satisfy, the numbers that the reason has to name."""
        reasons: list[tuple[int, ...]] = []
        if self.longest and asked.prompt >= self.longest:
            return [(asked.prompt, self.longest)]
        if self.slots is not None and asked.samples > self.slots:
            reasons.append((asked.samples, self.slots))
        if self.pooled:
            outputs = asked.declared if self.declares else asked.output
            needed = self.blocks_for(asked, asked.prompt + asked.samples * (outputs - 1))
            if needed > self.blocks:
                reasons.append((needed, self.blocks, asked.prompt, self.block_tokens))
        if self.budget is not None:
            may_lose = self.pooled or any(fault.kind == "crash" for fault in self.faults)
            longest = asked.prompt + (asked.samples * (asked.output - 1) if may_lose else 0)
            clipped = min(longest, self.long_prefill) if self.long_prefill else longest
            if asked.samples > self.budget:
                reasons.append((asked.samples, self.budget))
            elif not (self.chunked and self.mixed) and clipped > self.budget:
                reasons.append((longest, self.budget))
        return reasons


class Fault:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.kind = document["kind"]
        self.at_ns = ns(document["at_ms"])
        self.until_ns = ns(document.get("until_ms", document["at_ms"]))
        self.blocks = document.get("blocks", 0)
        self.factor = exact(document.get("factor", 1))


def check(result: Result) -> None:
    """Every invariant of one run. :class:`BrokenError` names the first that does not hold."""
    document = result.to_dict()
    walk = Walk(document, result)
    walk.check()
    if walk.settings.pooled and not walk.settings.caches and all(asked.samples == 1 for asked in walk.asked):
        _check_usage(walk, result.memory_usage())


def _check_usage(walk: "Walk", usage: Usage) -> None:
    """What the slots are used for: every kind is there, they sum to the pool, and what is held is what is computed."""
    settings = walk.settings
    kinds = (usage.held_slots, usage.reserved_slots, usage.unused_slots, usage.free_slots, usage.withheld_slots)
    for job, slots in enumerate(zip(*(kind.tolist() for kind in kinds), strict=True)):
        equal(f"the kinds of slots at {job} sum to the pool", sum(slots), settings.blocks * settings.block_tokens)
        expect(min(slots) >= 0, f"no kind of slots is below none at {job}", slots)
        if walk.events[job]["kind"] != "swap":
            equal(f"slots that hold a token at {job}", slots[0], walk.computed[job])


class Made:
    """Which contents were ever scheduled to be computed: only those can be found by the prefix cache.

    A block's content is all tokens up to its end, each known by where it comes from.
    """

    def __init__(self, requests: Sequence[Mapping[str, Any]], block_tokens: int) -> None:
        self._requests = {request["id"]: request for request in requests}
        self._block_tokens = block_tokens
        self._contents: set[tuple[tuple[str, int], ...]] = set()

    def add(self, asked: Asked, tokens: int) -> None:
        full = min(tokens, asked.known if asked.samples == 1 else asked.prompt) // self._block_tokens
        self._contents.update(self._blocks(asked, full))

    def has(self, asked: Asked, tokens: int) -> bool:
        return self._contents.issuperset(self._blocks(asked, tokens // self._block_tokens))

    def forget(self) -> None:
        self._contents.clear()

    def _blocks(self, asked: Asked, blocks: int) -> list[tuple[tuple[str, int], ...]]:
        tokens = tuple(self._token(asked.id, position) for position in range(blocks * self._block_tokens))
        return [tokens[: (block + 1) * self._block_tokens] for block in range(blocks)]

    def _token(self, name: str, position: int) -> tuple[str, int]:
        request = self._requests[name]
        if position < request.get("parent_tokens", 0):
            return self._token(request["parent"], position)
        if position < request.get("prefix_tokens", 0):
            return f"group {request['prefix_group']}", position
        return name, position


class Walk:
    """One run, event by event."""

    def __init__(self, document: Mapping[str, Any], result: Result) -> None:
        (self.run,) = document["runs"]
        self.settings = Settings(self.run["settings"], document["scenario"])
        self.events = self.run["events"]
        self.rows = self.run["requests"]
        self.asked = [self._asked(i, r) for i, r in enumerate(document["scenario"]["workload"]["requests"])]
        self.by_id = {asked.id: asked for asked in self.asked}
        self.queue: list[Asked] = []
        self.running: list[Asked] = []
        self.host: list[Asked] = []
        self.host_held: dict[int, int] = {}
        self.made = Made(document["scenario"]["workload"]["requests"], self.settings.block_tokens or 1)
        self.decided = list(self._decisions())
        self.earliest = [times[0] for times in self.decided]
        record = result.record
        self.admissions = _by_job(record.admissions, "request", "cached_tokens", "back")
        self.preemptions = _by_job(record.preemptions, "request", "tokens", "loss")
        self.arrived_job = record.requests["arrived_job"].tolist()
        self.ended_job = record.requests["ended_job"].tolist()
        self.last_kind: str | None = None
        self.computed: list[int] = []

    def _asked(self, index: int, request: Mapping[str, Any]) -> Asked:
        room = self.settings.longest - request["prompt_tokens"] if self.settings.longest else 2**60
        output = request["output_tokens"]
        return Asked(
            index=index,
            id=request["id"],
            arrival_ns=ns(request.get("arrival_ms", 0)),
            prompt=request["prompt_tokens"],
            output=min(output, room),
            declared=min(request.get("max_tokens", output), room),
            samples=request.get("samples", 1),
            priority=request.get("priority", 0),
            cancel_ns=None if request.get("cancel_ms") is None else ns(request["cancel_ms"]),
        )

    def _decisions(self) -> Iterator[list[int]]:
        """When each job may have been decided: at its start, or with the copies just before it."""
        times: list[int] = []
        for job, event in enumerate(self.events):
            if job == 0 or self.events[job - 1]["kind"] != "swap":
                times = []
            times = [*times, ns(event["startMs"])]
            yield times

    # The walk

    def check(self) -> None:
        self._check_clock()
        self._check_idle_before(0, None)
        for job, event in enumerate(self.events):
            self._step(job, event)
        self._check_requests()
        self._check_summary()

    def _check_clock(self) -> None:
        for job, event in enumerate(self.events):
            equal("jobs are numbered from 0", event["job"], job)
            expect(ns(event["endMs"]) >= ns(event["startMs"]), "a job ends after it starts", event)
            if self.settings.horizon_ns is not None:
                expect(ns(event["endMs"]) <= self.settings.horizon_ns, "no job ends after the horizon", event)
        for before, after in pairwise(self.events):
            expect(ns(before["endMs"]) <= ns(after["startMs"]), "jobs do not overlap", before["job"])

    def _step(self, job: int, event: Mapping[str, Any]) -> None:
        self._arrive(job, event)
        decision = Decision(self, job, event)
        decision.preempt()
        self._leave(job)
        decision.admit()
        equal(f"waiting at {job}", event["waiting"], [asked.id for asked in self.queue])
        equal(f"running at {job}", event["running"], [asked.id for asked in self.running])
        decision.check_work()
        decision.check_room()
        self.computed.append(sum(asked.computed for asked in self.running) + decision.total)
        self._end_of(event)

    def _arrive(self, job: int, event: Mapping[str, Any]) -> None:
        for asked in sorted(self.asked, key=lambda asked: (asked.arrival_ns, asked.index)):
            if self.arrived_job[asked.index] != job or self.rows[asked.index]["status"] == "rejected":
                continue
            expect(asked.arrival_ns <= ns(event["startMs"]), "nobody is seen before arrival", asked, job)
            if job:
                expect(self.earliest[job - 1] < asked.arrival_ns, "who has arrived is seen", asked, job)
            asked.place = "waiting"
            self._enqueue(asked)
        for asked in self.asked:
            arrived = asked.place != "future" or self.rows[asked.index]["status"] in {"rejected", "cancelled"}
            late = asked.arrival_ns > ns(event["startMs"])
            expect(arrived or late or self.earliest[job] < asked.arrival_ns, "who has arrived is there", asked, job)

    def _enqueue(self, asked: Asked) -> None:
        """A newcomer goes behind all who arrived before, and behind who was preempted."""
        place = len(self.queue)
        while place and self._goes_before(asked, self.queue[place - 1]):
            place -= 1
        self.queue.insert(place, asked)

    def _goes_before(self, asked: Asked, other: Asked) -> bool:
        if self.settings.by_priority:
            return self.key(asked) < self.key(other)
        return not other.admissions and self.key(asked) < self.key(other)

    def key(self, asked: Asked) -> tuple[int, int, int]:
        return (asked.priority if self.settings.by_priority else 0, asked.arrival_ns, asked.index)

    def put_back(self, asked: Asked) -> None:
        asked.place = "waiting"
        if self.settings.by_priority:
            self._enqueue(asked)
        else:
            self.queue.insert(0, asked)

    def cancelled_by(self, job: int, asked: Asked) -> bool:
        return bool(self.rows[asked.index]["status"] == "cancelled" and self.ended_job[asked.index] <= job)

    def _leave(self, job: int) -> None:
        """Whoever was cancelled has left by this job."""
        for asked in self.asked:
            if self.cancelled_by(job, asked) and asked.place not in {"future", "ended"}:
                {"waiting": self.queue, "running": self.running, "swapped": self.host}[asked.place].remove(asked)
                self.host_held.pop(asked.index, None)
                asked.place, asked.held = "ended", 0
            due = asked.cancel_ns is not None and asked.cancel_ns <= self.earliest[job]
            expect(not due or asked.place in {"ended", "future"}, "who was cancelled is gone", asked, job)

    def _end_of(self, event: Mapping[str, Any]) -> None:
        """The job's tokens are computed; who is complete emits."""
        end_ns = ns(event["endMs"])
        for item in event["scheduled"]:
            asked = self.by_id[item["id"]]
            asked.computed += item["tokens"]
            asked.scheduled += item["tokens"]
            expect(asked.computed <= asked.known, "computed <= prompt + emitted", asked)
            if asked.computed == asked.known:
                asked.emissions.append(end_ns)
            if asked.done:
                asked.place, asked.held = "ended", 0
                self.running.remove(asked)
        if event["kind"] != "swap":
            self.last_kind = event["kind"]
        self._check_idle_before(event["job"] + 1, end_ns)

    # Work conservation

    def _check_idle_before(self, job: int, idle_from_ns: int | None) -> None:
        """The device rests before ``job`` only while nobody is there who could be served."""
        if job < len(self.events):
            until_ns = ns(self.events[job]["startMs"])
        elif self.settings.horizon_ns is None:
            until_ns = 2**62
        else:
            return  # the job that the horizon cut off left no trace
        from_ns = 0 if idle_from_ns is None else idle_from_ns
        if from_ns == until_ns:
            return
        if not any(f.kind == "pool" and f.at_ns < until_ns and f.until_ns > from_ns for f in self.settings.faults):
            there = [asked for asked in self.asked if self._wants_during(asked, from_ns, until_ns)]
            expect(not there, "idle although somebody is there", (from_ns, until_ns), there)
            return
        self._check_blocked_by_fault(from_ns, until_ns)

    def _wants_during(self, asked: Asked, from_ns: int, until_ns: int) -> bool:
        """Whether it is there at some decision before ``until_ns``: it arrived by then and has not ended."""
        row = self.rows[asked.index]
        if asked.place == "ended" or row["status"] == "rejected" or asked.arrival_ns >= until_ns:
            return False
        seen_ns = max(asked.arrival_ns, from_ns)
        return asked.cancel_ns is None or asked.cancel_ns > seen_ns

    def _check_blocked_by_fault(self, from_ns: int, until_ns: int) -> None:
        """At each moment of the rest somebody who is there needs more than the fault leaves."""
        settings = self.settings
        moments = {from_ns} | {fault.until_ns for fault in settings.faults if from_ns < fault.until_ns < until_ns}
        moments |= {asked.arrival_ns for asked in self.asked if from_ns < asked.arrival_ns < until_ns}
        for moment in moments:
            there = [asked for asked in self.asked if self._wants_during(asked, moment, moment + 1)]
            if there:
                left = settings.blocks - settings.withheld(moment)
                needs = [self.least_needed(asked) for asked in there]
                expect(max(needs) > left, "idle although all there would fit", moment, left, there)

    def least_needed(self, asked: Asked) -> int:
        """Blocks without which the gate lets it in under no circumstances."""
        if self.settings.declares:
            return self.settings.declared_blocks(asked)
        return self.settings.blocks_for(asked, max(asked.known, 1))

    # What the requests' rows say

    def _check_requests(self) -> None:
        equal("a row for each request", [row["id"] for row in self.rows], [asked.id for asked in self.asked])
        for asked, row in zip(self.asked, self.rows, strict=True):
            self._check_end(asked, row)
            self._check_times(asked, row)
            self._check_tokens(asked, row)

    def _check_end(self, asked: Asked, row: Mapping[str, Any]) -> None:
        status, horizon = row["status"], self.settings.horizon_ns
        sent = asked.cancel_ns is None or asked.cancel_ns >= asked.arrival_ns
        sent = sent and (horizon is None or asked.arrival_ns <= horizon)
        reasons = self.settings.never_fits(asked) if sent else []
        equal("rejected just when it never fits", status == "rejected", bool(reasons))
        if reasons:
            named = [all(str(number) in row["reason"] for number in numbers) for numbers in reasons]
            expect(any(named), "the reason has the arithmetic", row["reason"], reasons)
            equal("a rejected request has no times", (row["endedMs"], row["tokenTimesMs"]), (None, []))
        elif status == "finished":
            expect(asked.done, "finished: all emitted", asked)
            short = asked.samples * asked.output < self._wanted(asked)
            equal("why it finished", row["finishReason"], "length" if short else "stop")
            equal("it ends with its last token", ns(row["finishMs"]), asked.emissions[-1])
            equal("it ends with its last token", ns(row["endedMs"]), asked.emissions[-1])
        elif status == "cancelled":
            expect(asked.cancel_ns is not None and not asked.done, "cancelled: somebody did", asked)
            expect(ns(row["endedMs"]) >= (asked.cancel_ns or 0), "cancelled at or after its time", asked, row)
            equal("a cancelled request did not finish", row["finishMs"], None)
        else:
            expect(status == "unfinished" and horizon is not None, "everything ends", asked, row)
            expect(not asked.done, "unfinished", asked)

    def _wanted(self, asked: Asked) -> int:
        return int(self.rows[asked.index]["outputTokens"]) * asked.samples

    def _check_times(self, asked: Asked, row: Mapping[str, Any]) -> None:
        times = asked.emissions
        equal("the times of its tokens", [ns(ms) for ms in row["tokenTimesMs"]], times)
        equal("tokens emitted", row["emittedTokens"], asked.samples * len(times))
        equal("first scheduled", maybe_ns(row["firstScheduledMs"]), asked.first_scheduled_ns)
        equal("first token", maybe_ns(row["firstTokenMs"]), times[0] if times else None)
        equal("TTFT", maybe_ns(row["ttftMs"]), times[0] - asked.arrival_ns if times else None)
        gaps = [after - before for before, after in pairwise(times)]
        expect(all(gap >= 0 for gap in gaps), "times go on", times)
        equal("max ITL", maybe_ns(row["maxItlMs"]), max(gaps) if gaps else None)
        tpot = half_up(Fraction(times[-1] - times[0], len(gaps))) if gaps else None
        equal("TPOT", maybe_ns(row["tpotMs"]), tpot)
        finished = row["status"] == "finished"
        equal("E2E", maybe_ns(row["e2eMs"]), times[-1] - asked.arrival_ns if finished else None)
        first = asked.first_scheduled_ns
        equal("queue time", maybe_ns(row["queueMs"]), None if first is None else first - asked.arrival_ns)

    def _check_tokens(self, asked: Asked, row: Mapping[str, Any]) -> None:
        equal("recomputed tokens", row["recomputedTokens"], asked.lost)
        equal("preemptions", row["preemptions"], asked.preemptions)
        equal("cached tokens", row["cachedTokens"], asked.cached[0] if asked.cached else 0)
        equal("cached on resume", row["cachedOnResumeTokens"], sum(asked.cached[1:]))
        due = asked.computed + asked.lost - sum(asked.cached)
        if row["status"] == "finished":
            due = asked.prompt + asked.samples * (asked.output - 1) + asked.lost - sum(asked.cached)
        equal("the identity of scheduled tokens", asked.scheduled, due)

    def _check_summary(self) -> None:
        summary = self.run["summary"]
        for status in ("finished", "rejected", "cancelled", "unfinished"):
            equal(status, summary[status], sum(row["status"] == status for row in self.rows))
        equal("all requests", summary["requests"], len(self.asked))
        equal("jobs", summary["jobs"], len(self.events))
        equal("preemptions", summary["preemptions"], sum(asked.preemptions for asked in self.asked))
        equal("recomputed", summary["recomputedTokens"], sum(asked.lost for asked in self.asked))
        equal("scheduled", summary["scheduledTokens"], sum(asked.scheduled for asked in self.asked))
        last = max((asked.emissions[-1] for asked in self.asked if asked.emissions), default=None)
        first = min(asked.arrival_ns for asked in self.asked)
        equal("makespan", maybe_ns(summary["makespanMs"]), None if last is None else last - first)


class Decision:
    """What one event tells of its decision, checked against the rules."""

    def __init__(self, walk: Walk, job: int, event: Mapping[str, Any]) -> None:
        self.walk = walk
        self.settings = walk.settings
        self.job = job
        self.event = event
        self.scheduled = [(walk.by_id[item["id"]], item["tokens"], item["phase"]) for item in event["scheduled"]]
        self.tokens = {asked.index: tokens for asked, tokens, _ in self.scheduled}
        self.total = sum(self.tokens.values())
        self.admitted = [(walk.asked[i], cached, back) for i, cached, back in walk.admissions.get(job, ())]
        self.lost = [(walk.asked[i], tokens, loss) for i, tokens, loss in walk.preemptions.get(job, ())]
        self.victims = [asked for asked, _, loss in self.lost if loss != CRASHED]
        self.copies = event["kind"] == "swap"
        self.after_copies = job > 0 and walk.events[job - 1]["kind"] == "swap"
        self.newcomers = {asked.index for asked, _, _ in self.admitted}
        self.ran: list[Asked] = []
        self.unsure = False
        """Whether somebody was cancelled before or after the preemptions: of several decisions, one event tells."""
        self.held_before = 0

    @property
    def alone_with_copies(self) -> bool:
        """No swap job belongs to this decision, so that one event tells all of it."""
        return not self.copies and not self.after_copies

    @property
    def carried(self) -> bool:
        """Whether a decision before this one, which a fault left without a job, may have preempted somebody."""
        before = ns(self.walk.events[self.job - 1]["endMs"]) if self.job else -1
        pool = any(fault.kind == "pool" for fault in self.settings.faults)
        return pool and before < ns(self.event["startMs"])

    # Preemption

    def preempt(self) -> None:
        walk = self.walk
        equal("preempted", self.event["preempted"], [asked.id for asked, _, _ in self.lost])
        self._remember()
        crashed = [asked for asked, _, loss in self.lost if loss == CRASHED]
        if crashed:
            expect(any(f.kind == "crash" for f in self.settings.faults), "a crash is in the scenario", crashed)
        expect(not self.victims or self.settings.pooled, "preempted for blocks", self.victims)
        cancelled = [a for a in walk.running if walk.cancelled_by(self.job, a)]
        gone = () if self.carried else cancelled
        self.unsure = self.carried and bool(cancelled)
        self.ran = [a for a in walk.running if a not in crashed and a not in gone]
        if self.victims and not self.carried:
            self._check_needed()
        for asked, tokens, loss in self.lost:
            expect(asked in walk.running, "only who runs is preempted", asked, self.job)
            if loss != CRASHED:
                self._check_victim(asked)
            equal("the tokens in its blocks", tokens, asked.computed)
            walk.running.remove(asked)
            asked.preemptions += 1
            self._lose(asked, loss)
        self.held_before = sum(asked.held for asked in walk.running if not walk.cancelled_by(self.job, asked))

    def _remember(self) -> None:
        """What this decision makes findable; a crash before it made everything else unfindable."""
        if not self.settings.caches:
            return
        before = self.walk.decided[self.job - 1][-1] if self.job else -1
        if len(self.walk.decided[self.job]) == 1:
            now = self.walk.decided[self.job][0]
            if any(fault.kind == "crash" and before < fault.at_ns <= now for fault in self.settings.faults):
                self.walk.made.forget()
        for victim in self.victims:  # it may have been in the job already: its blocks were findable at once
            bound = self.settings.long_prefill or victim.rest
            self.walk.made.add(victim, min(self._most(victim), victim.computed + bound))

    def _lose(self, asked: Asked, loss: int) -> None:
        if loss == SWAPPED:
            expect(self.settings.swaps, "swapped out", asked)
            asked.place = "swapped"
            self.walk.host.append(asked)
            self.walk.host_held[asked.index] = self._copied(asked, "out")
        else:
            asked.lost += asked.computed
            asked.computed = 0
            self.walk.put_back(asked)
        asked.held = 0

    def _copied(self, asked: Asked, direction: str) -> int:
        for event in self.walk.events[self.job : self.job + 2]:
            for copy in event.get("swapped", ()):
                if copy["id"] == asked.id and copy["direction"] == direction:
                    return int(copy["blocks"])
        if self.walk.settings.horizon_ns is None:
            raise BrokenError(f"no copy {direction} of {asked.id} in the decision of job {self.job}")
        return self.walk.host_held.get(asked.index, 0)  # the horizon cut it off

    def _check_needed(self) -> None:
        """Somebody was preempted: those who ran wanted more than was free."""
        settings = self.settings
        held = sum(asked.held for asked in self.ran)
        free = max(0, settings.blocks - settings.withheld(self.walk.earliest[self.job]) - held)
        if settings.shares or self.after_copies:
            return
        wanted = sum(max(settings.blocks_for(asked, self._most(asked)) - asked.held, 0) for asked in self.ran)
        expect(wanted > free, "preempted although all fit", self.job, wanted, free)

    def _most(self, asked: Asked) -> int:
        """The most tokens that it could have computed after this job."""
        if not asked.prefilling:
            return asked.computed + asked.samples
        step = asked.rest
        if self.settings.budget is not None:
            step = min(step, self.settings.budget)
        return asked.computed + (min(step, self.settings.chunk) if self.settings.composition == "alternate" else step)

    def _check_victim(self, victim: Asked) -> None:
        rule, running = "any" if self.unsure else self.settings.victim, self.ran
        expect(victim in running, "a victim runs", victim, self.job)
        if rule == "last":
            equal(f"the last is the victim at {self.job}", victim.id, running[-1].id)
        elif rule == "lowest-priority":
            worst = max(running, key=lambda a: (a.priority, a.arrival_ns, a.index))
            equal("the least urgent is the victim", victim.id, worst.id)
        elif rule == "fewest-tokens":
            equal("the least work is lost", victim.computed, min(a.computed for a in running))
        elif rule == "longest-remaining":
            rest = [a.declared - len(a.emissions) for a in running]
            equal("the longest is the victim", victim.declared - len(victim.emissions), max(rest))
        elif rule == "most-blocks":
            most = self.settings.blocks_for(victim, self._most(victim))
            expect(max(most, victim.held) >= max(a.held for a in running), "who holds most is the victim", victim)
        running.remove(victim)

    # Admission

    def admit(self) -> None:
        walk, settings = self.walk, self.settings
        self._check_may_admit()
        expect(sum(walk.host_held.values()) <= settings.host_blocks, "the host's blocks", self.job)
        held = self.held_before
        if settings.mixed and not self.victims:
            grown = [a for a in walk.running if a.index in self.tokens]
            held += sum(max(self._after(a) - a.held, 0) for a in grown) if not settings.declares else 0
        for asked, cached, back in self.admitted:
            if back:
                self._come_back(asked)
            else:
                self._check_gate(asked, cached, held)
                expect(not walk.host, "who is swapped out comes back before anybody else is admitted", asked, self.job)
                equal("the head is admitted", asked.id, walk.queue[0].id if walk.queue else None)
                walk.queue.pop(0)
                asked.computed = cached
                asked.prefill_end = asked.known
                asked.cached.append(cached)
                self._check_cached(asked, cached)
            asked.admissions += 1
            asked.place = "running"
            walk.running.append(asked)
            asked.held = self._taken_at_admission(asked, back=bool(back))
            held += asked.held
        slots = sum(asked.samples for asked in walk.running)
        expect(settings.slots is None or slots <= settings.slots, "slots", self.job, slots)

    def _check_may_admit(self) -> None:
        before = [a for a in self.walk.running if not self.walk.cancelled_by(self.job, a)]
        if self.admitted and self.settings.static:
            expect(not before, "nobody joins a batch that runs", self.job, before)
        if self.admitted and self.victims and self.settings.mixed:
            # unless everybody had to go: nothing was left to submit, so the scheduler decided again
            expect(not before, "no admission in a step that preempts", self.job, before)

    def _come_back(self, asked: Asked) -> None:
        walk = self.walk
        oldest = min(walk.host, key=lambda a: (a.arrival_ns, a.index), default=None)
        equal("the oldest comes back first", asked.id, None if oldest is None else oldest.id)
        equal("copied in as copied out", self._copied(asked, "in"), walk.host_held.pop(asked.index))
        walk.host.remove(asked)

    def _check_cached(self, asked: Asked, cached: int) -> None:
        settings = self.settings
        if not cached:
            return
        expect(settings.caches, "cached tokens without a cache", asked)
        expect(cached < asked.known, "at least one token is computed", asked, cached)
        equal("whole blocks are cached", cached % settings.block_tokens, 0)
        for other, tokens in self._scheduled_before(asked):
            self.walk.made.add(other, other.computed + tokens)
        expect(self.walk.made.has(asked, cached), "what is cached was computed, or is in this job", asked, cached)
        if asked.samples > 1:
            expect(cached <= asked.prompt, "a group finds no more than its one prompt", asked, cached)

    def _scheduled_before(self, asked: Asked) -> Iterator[tuple[Asked, int]]:
        """Who is in the same job ahead of it; of a job that copies come before, what it will be is not told here."""
        for event in self.walk.events[self.job : self.job + (3 if self.copies else 1)]:
            for item in event["scheduled"]:
                if item["id"] == asked.id:
                    return
                yield self.walk.by_id[item["id"]], item["tokens"]

    def _check_gate(self, asked: Asked, cached: int, held: int) -> None:
        """It got in: what the gate asks for was free, and the watermark beside it."""
        settings = self.settings
        if not settings.pooled or settings.shares or not self.alone_with_copies:
            return
        if settings.mixed and self.victims:
            held = 0  # everybody had to go
        free = max(0, settings.blocks - settings.withheld(self.walk.earliest[self.job]) - held)
        others = [a for a in self.walk.running if not self.walk.cancelled_by(self.job, a)]
        asked_for = self._needed(asked, cached) + (settings.watermark if others else 0)
        expect(asked_for <= free, "the gate let it in", self.job, asked, asked_for, free)

    def _needed(self, asked: Asked, cached: int) -> int:
        settings = self.settings
        if settings.declares:
            return settings.declared_blocks(asked)
        if settings.gate == "full" or settings.static:
            return settings.blocks_for(asked, asked.known)
        return settings.blocks_for(asked, cached + self.tokens.get(asked.index, 0))

    def _taken_at_admission(self, asked: Asked, *, back: bool) -> int:
        settings = self.settings
        if not settings.pooled:
            return 0
        if settings.declares:
            return settings.declared_blocks(asked)
        if back or settings.static:
            return settings.blocks_for(asked, asked.known)
        return settings.blocks_for(asked, asked.computed + self.tokens.get(asked.index, 0))

    def _after(self, asked: Asked) -> int:
        """Blocks that it needs for what it will have computed."""
        return self.settings.blocks_for(asked, asked.computed + self.tokens[asked.index])

    def _held_now(self, asked: Asked) -> int:
        """Blocks that it holds once it is scheduled."""
        if not self.settings.pooled or asked.index not in self.tokens:
            return asked.held
        return max(asked.held, self._after(asked))

    # The job

    def check_work(self) -> None:
        event, settings = self.event, self.settings
        expect(bool(event["scheduled"]) != self.copies, "a job has work, or copies", event)
        equal("nobody is in a job twice", len(self.tokens), len(self.scheduled))
        for asked, tokens, phase in self.scheduled:
            expect(asked in self.walk.running, "only who runs is scheduled", asked, self.job)
            equal("the phase", phase, "prefill" if asked.prefilling else "decode")
            expect(1 <= tokens <= asked.rest, "tokens that are there to compute", asked, tokens)
            expect(asked.prefilling or tokens == asked.samples, "a decode is one token a sample", asked, tokens)
            if asked.first_scheduled_ns is None:
                asked.first_scheduled_ns = ns(event["startMs"])
        phases = {phase for _, _, phase in self.scheduled}
        if not self.copies:
            equal("the kind", event["kind"], phases.pop() if len(phases) == 1 else "mixed")
        expect(settings.budget is None or self.total <= settings.budget, "the budget", self.job, self.total)
        self._check_duration()
        if not self.copies:
            {"prefill-first": self._check_prefill_first, "alternate": self._check_alternate}.get(
                settings.composition, self._check_mixed
            )()

    def _check_duration(self) -> None:
        costs, settings = self.settings.costs, self.settings
        ms = costs["job_ms"]
        if self.copies:
            ms += settings.swap_cost * sum(copy["blocks"] for copy in self.event["swapped"])
        ms += costs["prefill_ms_per_token"] * sum(tokens for _, tokens, phase in self.scheduled if phase == "prefill")
        decodes = [asked for asked, _, phase in self.scheduled if phase == "decode"]
        if decodes:
            sequences = sum(asked.samples for asked in decodes)
            context = sum(asked.samples * (asked.prompt + len(asked.emissions)) for asked in decodes)
            ms += costs["decode_ms_per_batch"] + costs["decode_ms_per_request"] * sequences
            ms += costs["context_ms_per_token"] * context
        start_ns = ns(self.event["startMs"])
        equal("how long it takes", ns(self.event["endMs"]), _end_ns(start_ns, half_up(ms * NS), settings.faults))

    def _check_prefill_first(self) -> None:
        settings = self.settings
        if self.event["kind"] == "decode":
            self._check_all_decode()
            self._check_head_blocked(self.held_before)
            return
        equal("prefills and decodes are apart", self.event["kind"], "prefill")
        most = settings.prefills_per_job
        expect(not most or len(self.scheduled) <= most, "prefills in a job", self.job)
        for asked, tokens, _ in self.scheduled:
            equal("prompts are whole", tokens, asked.rest)
        if not most or len(self.scheduled) < most:
            self._check_head_blocked(sum(asked.held for asked in self.walk.running))

    def _check_alternate(self) -> None:
        if self.event["kind"] == "decode":
            self._check_all_decode()
            if self.walk.last_kind == "decode":
                self._check_head_blocked(self.held_before)
            return
        equal("chunks are of one request", len(self.scheduled), 1)
        asked, tokens, _ = self.scheduled[0]
        equal("a chunk", tokens, min(self.settings.chunk, asked.rest))
        if self.walk.last_kind != "decode" and not self.victims:
            others = [a for a in self.walk.running if not a.prefilling]
            expect(not others, "a decode batch goes first", self.job, others)

    def _check_all_decode(self) -> None:
        """Everybody whose prefill is complete decodes, as far as the budget goes."""
        left = 2**60 if self.settings.budget is None else self.settings.budget - self.total
        missing = [a for a in self.walk.running if not a.prefilling and a.index not in self.tokens]
        expect(bool(self.victims) or all(a.samples > left for a in missing), "all decode", self.job, missing)

    def _does_not_fit(self, asked: Asked, left: int) -> bool:
        """A decode is all or nothing, and so is a prefill that has not begun and may not be cut."""
        if not asked.prefilling:
            return asked.samples > left
        begun = asked.computed > (asked.cached[-1] if asked.cached else 0)
        bound = self.settings.long_prefill or 2**60
        whole = not self.settings.chunked and not begun
        return left == 0 or (whole and min(asked.rest, bound) > left)

    def _check_mixed(self) -> None:
        settings, walk = self.settings, self.walk
        order = [a for a in walk.running if a.index in self.tokens]
        if settings.composition == "mixed-decode-first":
            old = [a for a in order if a.index not in self.newcomers]
            order = sorted(old, key=lambda a: a.prefilling) + [a for a in order if a.index in self.newcomers]
        if not (settings.static or self.after_copies):
            equal("running in order, then who waited", [a.id for a, _, _ in self.scheduled], [a.id for a in order])
        left = 2**60 if settings.budget is None else settings.budget - self.total
        restored = [a for a, _, back in self.admitted if back]
        alone = len(walk.running) + len(walk.queue) - len(restored) <= 1 or self.after_copies
        clip = settings.long_prefill or 2**60
        for asked, tokens, phase in self.scheduled:
            expect(phase == "decode" or alone or tokens <= clip, "long prefills are clipped", asked, tokens)
            if tokens < min(asked.rest, clip) and phase == "prefill":
                expect(settings.chunked or asked.index not in self.newcomers, "prefills are whole", asked, tokens)
                spent = left == 0 or bool(self.victims) or self.after_copies
                expect(spent, "a chunk takes all of the budget", self.job, asked, tokens, left)
        idle = [a for a in walk.running if a.index not in self.tokens]
        skipped = all(self._does_not_fit(a, left) for a in idle)
        expect(skipped or bool(self.victims) or self.after_copies, "nobody is passed over", self.job, idle, left)
        self._check_head_blocked(sum(self._held_now(a) for a in walk.running))

    def _check_head_blocked(self, held: int) -> None:
        """Somebody waits on: the head lacks slots, budget or blocks. ``held``: by those who run, when it was asked."""
        walk, settings = self.walk, self.settings
        if not walk.queue or walk.host or self.victims or not self.alone_with_copies:
            return
        if settings.static and any(a.index not in self.newcomers for a in walk.running):
            return
        head = walk.queue[0]
        if settings.slots is not None and sum(a.samples for a in walk.running) + head.samples > settings.slots:
            return
        tokens = head.known
        if not settings.static:
            left = 2**60 if settings.budget is None else settings.budget - self.total
            if settings.composition == "prefill-first" and self.event["kind"] == "decode" and settings.budget:
                left = settings.budget
            if left <= 0 or (tokens > left and not (settings.mixed and settings.chunked)):
                return  # (with thr or a cache less may have been asked for: then it is not looked at)
            tokens = min(tokens, left, settings.long_prefill or tokens)
            if settings.composition == "alternate":
                tokens = min(tokens, settings.chunk)
            if any(a.prefilling and a.index not in self.tokens for a in walk.running):
                return
        expect(settings.pooled, "the head is kept waiting for nothing", self.job, head)
        if settings.shares or settings.contiguous or (settings.caches and settings.gate == "chunk"):
            return
        free = max(0, settings.blocks - settings.withheld(walk.earliest[self.job]) - held)
        gate_tokens = tokens if settings.gate == "chunk" else head.known
        needed = settings.declared_blocks(head) if settings.declares else settings.blocks_for(head, gate_tokens)
        others = [a for a in walk.running if settings.mixed or settings.static or a.index not in self.newcomers
                  or self.event["kind"] == "prefill"]  # fmt: skip
        asked_for = needed + (settings.watermark if others else 0)
        expect(asked_for > free, "the head would have fitted", self.job, head, asked_for, free)

    # Blocks

    def check_room(self) -> None:
        settings, walk = self.settings, self.walk
        free = self.event["freeBlocks"]
        if not settings.pooled:
            equal("no pool, no free blocks", free, None)
            return
        for asked, tokens, _ in self.scheduled:
            walk.made.add(asked, asked.computed + tokens)
            if not settings.declares:
                asked.held = max(asked.held, self._after(asked))
            expect(asked.held >= self._after(asked), "blocks for its tokens", asked, self.job)
        held = [asked.held for asked in walk.running]
        if self.copies:
            expect(0 <= free <= settings.blocks, "free blocks", free)
            return
        levels = {settings.withheld(at_ns) for at_ns in walk.decided[self.job]}
        if settings.shares:
            least = settings.blocks - max(levels) - sum(held)
            most = settings.blocks - max(held, default=0)
            expect(max(least, 0) <= free <= most, "free blocks", self.job, free, held)
            return
        withheld = settings.blocks - sum(held) - free
        fits = any(withheld == level or (free == 0 and 0 <= withheld < level) for level in levels)
        expect(fits, "free + held + withheld = blocks", self.job, free, held, levels)


def _end_ns(start_ns: int, cost_ns: int, faults: Sequence[Fault]) -> int:
    """When a job ends that costs so much: every slow fault at its start stretches it, while a stall lasts it rests."""
    factor = Fraction(1)
    for fault in faults:
        if fault.kind == "slow" and fault.at_ns <= start_ns < fault.until_ns:
            factor *= fault.factor
    left, now = half_up(cost_ns * factor), start_ns
    stalls = [fault for fault in faults if fault.kind == "stall"]
    while True:
        stall = next((s for s in stalls if s.at_ns <= now < s.until_ns), None)
        if stall is not None and (left or stall.at_ns < now):
            now = stall.until_ns
            continue
        ahead = min((s.at_ns for s in stalls if s.at_ns > now), default=2**62)
        if now + left <= ahead:
            return now + left
        left -= ahead - now
        now = ahead


def _by_job(table: Mapping[str, Any], *columns: str) -> dict[int, list[tuple[int, ...]]]:
    rows: dict[int, list[tuple[int, ...]]] = {}
    for job, *row in zip(*(table[name].tolist() for name in ("job", *columns)), strict=True):
        rows.setdefault(job, []).append(tuple(row))
    return rows
