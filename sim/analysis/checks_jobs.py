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
from sim.request import NEVER, Ints, Status


def work_adds_up(facts: Facts) -> Iterator[Difference]:
    """Prefill tokens and decoding sequences of each job are the sums of what was scheduled."""
    for name, due in (("prefill_tokens", facts.prefill_tokens), ("decode_requests", facts.sequences)):
        yield from _per_piece(facts, name, due, facts.pieces.table[name])


def no_empty_job(facts: Facts) -> Iterator[Difference]:
    empty = (facts.chunks == 0) & (facts.decodes == 0) & (facts.copies == 0)
    for piece in np.flatnonzero(empty).tolist():
        yield Difference(f"job {facts.pieces.first[piece]}", "something scheduled", "nothing")


def kinds(facts: Facts) -> Iterator[Difference]:
    """A job's kind follows from its content."""
    due = np.where(facts.chunks == 0, int(Kind.DECODE), np.where(facts.decodes > 0, int(Kind.MIXED), int(Kind.PREFILL)))
    due[(facts.copies > 0) & (facts.chunks == 0) & (facts.decodes == 0)] = Kind.SWAP
    kind = facts.pieces.table["kind"]
    for piece in np.flatnonzero(due != kind).tolist():
        where = f"job {facts.pieces.first[piece]}, kind"
        yield Difference(where, Kind(int(due[piece])).name.lower(), Kind(int(kind[piece])).name.lower())


def durations(facts: Facts) -> Iterator[Difference]:
    """Each job takes what its device charges for its work, rounded once; and what faults add to it.

    Of like jobs the first: that the others follow from it, ``checks_rows`` sees to.
    """
    scenario = facts.claims.scenario
    work = Work(facts.prefill_tokens, facts.sequences, facts.context_tokens, facts.copied_blocks)
    due = troubles.ends(scenario, facts.starts_ns, job_ns(scenario, work)) - facts.starts_ns
    found = facts.pieces.first_ends_ns - facts.starts_ns
    for piece in np.flatnonzero(due != found).tolist():
        yield Difference(f"job {facts.pieces.first[piece]}, duration", time(due[piece]), time(found[piece]))
    yield from troubles.within(scenario, facts.pieces)


def earliest_starts(_: Facts, timetable: Timetable) -> Iterator[Difference]:
    """The device is idle only when nobody is there."""
    facts = timetable.facts
    due, found = timetable.due_starts_ns, facts.starts_ns
    for piece in np.flatnonzero(due != found).tolist():
        yield Difference(f"job {facts.pieces.first[piece]}, start", time(due[piece]), time(found[piece]))


def decisions(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """How many join, prefill and decode in each job is what the composition makes of those who are there."""
    pieces = slice(0, len(facts.pieces))
    for again, admissions in ((False, facts.admissions), (True, np.zeros_like(facts.admissions))):
        due = decide(facts, timetable, again=again)
        several = facts.pieces.jobs > 1
        for name, column, found in (
            ("admissions", due.admitted, admissions),
            ("chunks", due.chunks, facts.chunks),
            ("decodes", due.decodes, facts.decodes),
        ):
            yield from _per_piece(facts, name, np.where(several | (not again), column[pieces], found), found)


def crowd(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """How many wait and run at each job follows from who has come, joined and gone."""
    pieces, told = slice(0, len(facts.pieces)), facts.pieces.table
    yield from _per_piece(facts, "waiting", timetable.waiting[pieces] - facts.admissions, told["waiting"])
    yield from _per_piece(facts, "running", timetable.running[pieces] + facts.admissions, told["running"])
    yield from _per_piece(facts, "swapped", np.zeros(len(facts.pieces), dtype=np.int64), told["swapped"])


def crowd_in_stays(facts: Facts, stays: Stays) -> Iterator[Difference]:
    """The same where no decision is made again: from when the record says that each came, joined, lost and went."""
    requests, gone, told = facts.record.requests, stays.gone, facts.pieces.table
    sent = (requests["arrived_job"] != NEVER) & (requests["status"] != Status.REJECTED)
    comes, joins = requests["arrived_job"][sent], np.minimum(facts.admitted_job, gone)[sent]
    lost = np.flatnonzero(stays.preempted)
    again = np.append(stays.owner[1:] == stays.owner[:-1], np.zeros(min(len(stays.owner), 1), dtype=bool))[lost]
    back = np.where(again, np.append(stays.first, NEVER)[lost + 1], gone[stays.owner[lost]])
    on_host, from_ = stays.swapped[lost], stays.behind[lost]
    due = {
        "waiting": _within(facts, comes, joins) + _within(facts, from_[~on_host], back[~on_host]),
        "running": _within(facts, stays.first, stays.behind),
        "swapped": _within(facts, from_[on_host], back[on_host]),
    }
    for name, column in due.items():
        yield from _per_piece(facts, name, column, told[name])


def _within(facts: Facts, first: Ints, until: Ints) -> Ints:
    """Per piece, how many began with its first job or before, and are not over by then."""
    until = np.maximum(first, until)
    begun, over = (np.searchsorted(np.sort(job), facts.pieces.first, side="right") for job in (first, until))
    within: Ints = begun - over
    return within


def slots(facts: Facts, stays: Stays, most: int) -> Iterator[Difference]:
    """Each sequence of a request takes a slot."""
    taken = np.maximum(stays.count(facts.workload.samples[stays.owner]), facts.pieces.table["running"])
    for piece in np.flatnonzero(taken > most).tolist():
        yield Difference(f"job {facts.pieces.first[piece]}, running", f"at most {most}", int(taken[piece]))


def budget(facts: Facts, _: Stays, most: int) -> Iterator[Difference]:
    """A job schedules at most its budget of tokens."""
    tokens = facts.prefill_tokens + facts.sequences
    for piece in np.flatnonzero(tokens > most).tolist():
        yield Difference(f"job {facts.pieces.first[piece]}, tokens", f"at most {most}", int(tokens[piece]))


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
        crowd, piece = facts.pieces.table, facts.first_piece[rows]
        there = crowd["waiting"] + crowd["running"]
        bound = np.where(there[piece] > 1, axes.long_prefill_tokens or FOREVER, FOREVER)
        due = np.where(facts.copied_around[piece], tokens, np.minimum(tokens, bound))
    for at in np.flatnonzero(due != tokens).tolist():
        where = f"job {facts.first_job[rows[at]]}, {facts.claims.request(facts.owner[rows[at]])}, tokens"
        yield Difference(where, int(due[at]), int(tokens[at]))


def blocked(facts: Facts, timetable: Timetable) -> Iterator[Difference]:
    """Slots are all that can keep the head of the queue out: at decisions that would have let it in."""
    axes, told = facts.claims.axes, facts.pieces.table
    if axes.batching == "static":
        asked = again = timetable.running[: len(facts.pieces)] == 0
    elif axes.composition == "alternate":
        asked, again = facts.chunks == 0, facts.chunks == 0
        asked[:1] = False
        asked[1:] &= facts.chunks[:-1] == 0
    else:
        asked = again = facts.chunks < (axes.prefills_per_job or FOREVER)
    for whose, each in ((asked, facts.pieces.jobs > 0), (again, facts.pieces.jobs > 1)):
        due = np.where(whose & (told["waiting"] > 0), int(Blocked.SLOTS), int(Blocked.NOTHING))
        for piece in np.flatnonzero((due != told["blocked"]) & each).tolist():
            found = Blocked(int(told["blocked"][piece])).name.lower()
            where = f"job {facts.pieces.first[piece]}, blocked"
            yield Difference(where, Blocked(int(due[piece])).name.lower(), found)


def chunk_places(facts: Facts) -> Iterator[Difference]:
    """A chunk's place is one of its job's scheduling order."""
    items = (facts.chunks + facts.decodes)[facts.first_piece]
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


def _per_piece(facts: Facts, name: str, due: Ints, found: Ints) -> Iterator[Difference]:
    for piece in np.flatnonzero(due != found).tolist():
        values: tuple[Value, Value] = (int(due[piece]), int(found[piece]))
        yield Difference(f"job {facts.pieces.first[piece]}, {name}", *values)
