"""Is every job what it says: its kind, its work, its duration, its start, and the decision that its policy demands?"""

from collections.abc import Iterator

import numpy as np

from sim.analysis import troubles
from sim.analysis.checks_tables import time
from sim.analysis.cost import Work, job_ns
from sim.analysis.decisions import decide
from sim.analysis.exact import FOREVER
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.stays import Stays
from sim.analysis.timetable import Timetable
from sim.engine.plan import Blocked, Kind
from sim.record.tables import DECODE
from sim.request import Ints


def work_adds_up(facts: Facts) -> Iterator[Difference]:
    """Prefill tokens and decoding sequences of each job are the sums of what was scheduled."""
    for name, due in (("prefill_tokens", facts.prefill_tokens), ("decode_requests", facts.sequences)):
        yield from _per_job(name, due, facts.record.jobs[name])


def no_empty_job(facts: Facts) -> Iterator[Difference]:
    empty = (facts.chunks == 0) & (facts.decodes == 0) & (facts.copies == 0)
    for job in np.flatnonzero(empty).tolist():
        yield Difference(f"job {job}", "something scheduled", "nothing")


def kinds(facts: Facts) -> Iterator[Difference]:
    """A job's kind follows from its content."""
    due = np.where(facts.chunks == 0, int(Kind.DECODE), np.where(facts.decodes > 0, int(Kind.MIXED), int(Kind.PREFILL)))
    due[(facts.copies > 0) & (facts.chunks == 0) & (facts.decodes == 0)] = Kind.SWAP
    kind = facts.record.jobs["kind"]
    for job in np.flatnonzero(due != kind).tolist():
        yield Difference(f"job {job}, kind", Kind(int(due[job])).name.lower(), Kind(int(kind[job])).name.lower())


def durations(facts: Facts) -> Iterator[Difference]:
    """Each job takes what its device charges for its work, rounded once; and what faults add to it."""
    scenario = facts.claims.scenario
    work = Work(facts.prefill_tokens, facts.sequences, facts.context_tokens, facts.copied_blocks)
    due = troubles.ends(scenario, facts.starts_ns, job_ns(scenario, work)) - facts.starts_ns
    found = facts.ends_ns - facts.starts_ns
    for job in np.flatnonzero(due != found).tolist():
        yield Difference(f"job {job}, duration", time(due[job]), time(found[job]))


def earliest_starts(_: Facts, timetable: Timetable) -> Iterator[Difference]:
    """The device is idle only when nobody is there."""
    due, found = timetable.due_starts_ns, timetable.facts.starts_ns
    for job in np.flatnonzero(due != found).tolist():
        yield Difference(f"job {job}, start", time(due[job]), time(found[job]))


def decisions(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """How many join, prefill and decode in each job is what the composition makes of those who are there."""
    due = decide(facts, timetable)
    jobs = slice(0, facts.jobs)
    yield from _per_job("admissions", due.admitted[jobs], facts.admissions)
    yield from _per_job("chunks", due.chunks[jobs], facts.chunks)
    yield from _per_job("decodes", due.decodes[jobs], facts.decodes)


def crowd(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """How many wait and run at each job follows from who has come, joined and gone."""
    jobs = slice(0, facts.jobs)
    yield from _per_job("waiting", timetable.waiting[jobs] - facts.admissions, facts.record.jobs["waiting"])
    yield from _per_job("running", timetable.running[jobs] + facts.admissions, facts.record.jobs["running"])
    yield from _per_job("swapped", np.zeros(facts.jobs, dtype=np.int64), facts.record.jobs["swapped"])


def slots(facts: Facts, stays: Stays, most: int) -> Iterator[Difference]:
    """Each sequence of a request takes a slot."""
    taken = np.maximum(stays.count(facts.workload.samples[stays.owner]), facts.record.jobs["running"])
    for job in np.flatnonzero(taken > most).tolist():
        yield Difference(f"job {job}, running", f"at most {most}", int(taken[job]))


def budget(facts: Facts, _: Stays, most: int) -> Iterator[Difference]:
    """A job schedules at most its budget of tokens."""
    tokens = facts.prefill_tokens + facts.sequences
    for job in np.flatnonzero(tokens > most).tolist():
        yield Difference(f"job {job}, tokens", f"at most {most}", int(tokens[job]))


def chunk_sizes(facts: Facts) -> Iterator[Difference]:
    """Prompts whole in ``prefill-first``, in ``alternate`` by ``chunk_tokens`` while so much is left.

    In ``mixed`` at most ``long_prefill_tokens`` at a time, unless nobody else is there.
    """
    axes, rows = facts.claims.axes, np.flatnonzero(facts.is_chunk)
    left, tokens = facts.prompt_left[rows], facts.record.schedule["tokens"][rows]
    due = left
    if axes.composition == "alternate":
        due = np.minimum(left, axes.chunk_tokens)
    elif axes.composition != "prefill-first":
        crowd = facts.record.jobs
        there = crowd["waiting"] + crowd["running"]
        bound = np.where(there[facts.first_job[rows]] > 1, axes.long_prefill_tokens or FOREVER, FOREVER)
        due = np.where(facts.copied_around[facts.first_job[rows]], tokens, np.minimum(tokens, bound))
    for at in np.flatnonzero(due != tokens).tolist():
        where = f"job {facts.first_job[rows[at]]}, {facts.claims.request(facts.owner[rows[at]])}, tokens"
        yield Difference(where, int(due[at]), int(tokens[at]))


def blocked(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Slots are all that can keep the head of the queue out: at decisions that would have let it in."""
    axes, jobs = facts.claims.axes, facts.record.jobs
    if axes.batching == "static":
        asked = timetable.running[: facts.jobs] == 0
    elif axes.composition == "alternate":
        asked = facts.chunks == 0
        asked[:1] = False
        asked[1:] &= facts.chunks[:-1] == 0
    else:
        asked = facts.chunks < (axes.prefills_per_job or FOREVER)
    due = np.where(asked & (jobs["waiting"] > 0), int(Blocked.SLOTS), int(Blocked.NOTHING))
    for job in np.flatnonzero(due != jobs["blocked"]).tolist():
        found = Blocked(int(jobs["blocked"][job])).name.lower()
        yield Difference(f"job {job}, blocked", Blocked(int(due[job])).name.lower(), found)


def chunk_places(facts: Facts) -> Iterator[Difference]:
    """A chunk's place is one of its job's scheduling order."""
    items = (facts.chunks + facts.decodes)[facts.first_job]
    place = facts.record.schedule["place"]
    for row in np.flatnonzero(facts.is_chunk & (place >= items)).tolist():
        where = f"job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}, place"
        yield Difference(where, f"below {items[row]}", int(place[row]))


def decodes_after_prefill(facts: Facts) -> Iterator[Difference]:
    """Nobody decodes before the job after the one that completed its prefill, nobody prefills after it."""
    early = facts.is_stretch & (facts.prompt_left > 0)
    for row in np.flatnonzero(early).tolist():
        where = f"job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}"
        yield Difference(where, "prefill first", "decode")
    beyond = facts.is_chunk & (facts.record.schedule["tokens"] > facts.prompt_left)
    for row in np.flatnonzero(beyond).tolist():
        where = f"job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}, tokens"
        yield Difference(where, f"at most {facts.prompt_left[row]}", int(facts.record.schedule["tokens"][row]))


def emission_marks(facts: Facts) -> Iterator[Difference]:
    """A row emits if it decodes or completes a prompt."""
    emits = facts.record.schedule["emits"]
    for row in np.flatnonzero(facts.emits != (emits == 1)).tolist():
        phase = "decodes" if facts.record.schedule["phase"][row] == DECODE else "chunk"
        where = f"{phase} from job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}, emits"
        yield Difference(where, int(facts.emits[row]), int(emits[row]))


def _per_job(name: str, due: Ints, found: Ints) -> Iterator[Difference]:
    for job in np.flatnonzero(due != found).tolist():
        values: tuple[Value, Value] = (int(due[job]), int(found[job]))
        yield Difference(f"job {job}, {name}", *values)
