"""Are rows what they say: like jobs in a row, on the line that their cost gives, each as long as it can be?"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.claims import Claims
from sim.analysis.cost import Work, growth_fs, job_fs
from sim.analysis.exact import Mask
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.analysis.moments import Moments
from sim.clock import FS_PER_NS
from sim.engine.growth import LONGEST
from sim.engine.plan import Kind
from sim.engine.span import MOST_JOBS
from sim.record.tables import DECODE, Record
from sim.request import NEVER, Ints


def like_jobs(claims: Claims) -> Iterator[Difference]:
    """Only jobs that do nothing but decode stand on a line, or several in a row."""
    rows = claims.record.rows
    only_decodes = (rows["kind"] == Kind.DECODE) & (rows["prefill_tokens"] == 0) & (rows["decode_requests"] > 0)
    for row in np.flatnonzero(((rows["jobs"] > 1) | _on_line(claims.record)) & ~only_decodes).tolist():
        yield Difference(_named(claims.record, row), "a job alone, on no line, or only decodes", "neither")


def ends(claims: Claims) -> Iterator[Difference]:
    """A row ends with the last of its jobs, each as long as the line says."""
    end_ns = claims.record.rows["end_ns"]
    for laid in Moments(claims.record.stretches).laid():
        last = np.flatnonzero(np.append(laid.row[1:] != laid.row[:-1], True))  # a value, no switch
        row, due_ns = laid.row[last], laid.ends_ns[last]
        for at in np.flatnonzero(due_ns != end_ns[row]).tolist():
            where = f"{_named(claims.record, int(row[at]))}, end"
            yield Difference(where, time(due_ns[at]), time(end_ns[row[at]]))


def changes(claims: Claims) -> Iterator[Difference]:
    """Nobody joins, leaves, begins or stops within a row."""
    record, rows = claims.record, claims.record.stretches
    schedule = record.schedule
    decodes = schedule["phase"] == DECODE
    last = schedule["job"] + schedule["jobs"] - 1
    jobs = {
        "admitted": record.admissions["job"],
        "preempted": record.preemptions["job"],
        "copied": record.copies["job"],
        "chunk": schedule["job"][~decodes],
        "first decode": rows.job_of_decoding(schedule["job"][decodes]),
        "after the last decode": rows.job_of_decoding(last[decodes]) + 1,
    }
    for name, job in jobs.items():
        row = np.minimum(rows.row_of(job), len(rows))
        for at in np.flatnonzero(rows.first[row] != job).tolist():
            yield Difference(f"job {job[at]}, {name}", "the first of a row", _named(record, int(row[at])))


SOUND: Mapping[str, Callable[[Claims], Iterator[Difference]]] = {
    "rows of several jobs only decode": like_jobs,
    "rows end with the last of their jobs": ends,
    "whatever changes begins a row": changes,
}
"""As in ``checks_tables``, and after them."""


def one_row(facts: Facts) -> Iterator[Difference]:
    """A row goes on for as long as nothing changes: two that could be one are none. Asked of those on lines only.

    For who stands on none, the record can't say why.
    """
    record, table, rows = facts.record, facts.record.rows, facts.record.stretches
    on_line, begins = _on_line(record), rows.first[1:-1]
    arrivals = record.arrivals()
    came = np.diff(np.searchsorted(arrivals, rows.first[:-1], side="right"))
    moved_fs = table["first_fs"] + table["growth_fs"] * table["jobs"]
    same = on_line[1:] & on_line[:-1] & (table["start_ns"][1:] == table["end_ns"][:-1])
    for name in ("growth_fs", "decode_requests", "running", "swapped", "withheld_blocks", "blocked"):
        same &= table[name][1:] == table[name][:-1]
    same &= (table["first_fs"][1:] == moved_fs[:-1]) & (table["waiting"][1:] == table["waiting"][:-1] + came)
    told = np.concatenate([record.admissions["job"], record.preemptions["job"]])
    stretch, schedule = facts.is_stretch, record.schedule
    number = np.concatenate([schedule["job"][stretch], (schedule["job"] + schedule["jobs"])[stretch]])
    decoding = rows.first_decoding[1:-1]
    same &= ~np.isin(begins, told) & ~np.isin(decoding, number) & (decoding % MOST_JOBS != 0)
    for row in (np.flatnonzero(same) + 1).tolist():
        yield Difference(_named(record, row), f"one row with {_named(record, row - 1)}", "two")


def lines(facts: Facts) -> Iterator[Difference]:
    """The line of a row is what the device charges for its first job, and for one token more of each context."""
    record, table, scenario = facts.record, facts.record.rows, facts.claims.scenario
    rows = np.flatnonzero(_on_line(record) | (table["jobs"] > 1))
    piece = facts.pieces.of(record.stretches.first[rows])
    sequences, none = table["decode_requests"][rows], np.zeros_like(rows)
    due = {
        "first_fs": job_fs(scenario, Work(none, sequences, facts.context_tokens[piece], none)),
        "growth_fs": growth_fs(scenario, sequences),
    }
    for name, column in due.items():
        for at in np.flatnonzero(column != table[name][rows]).tolist():
            where = f"{_named(record, int(rows[at]))}, {name}"
            yield Difference(where, int(column[at]), int(table[name][rows[at]]))
    first_ns = (table["first_fs"][rows] + FS_PER_NS // 2) // FS_PER_NS
    found_ns = facts.pieces.first_ends_ns[piece] - facts.starts_ns[piece]
    for at in np.flatnonzero(first_ns != found_ns).tolist():
        yield Difference(f"{_named(record, int(rows[at]))}, first job", time(first_ns[at]), time(found_ns[at]))


def growths(facts: Facts) -> Iterator[Difference]:
    """Whoever decodes takes its next block when all that it has are full. Alone in a row a job tells so itself.

    Who begins to decode straight behind its prefill says so from the start, but in a record that has no rows of several
    jobs at all (one that was read from a JSON).
    """
    schedule, grows = facts.record.schedule, facts.record.schedule["grows"]
    size = _block_tokens(facts)
    can = facts.is_stretch & (facts.samples == 1) & (size > 0)
    spare = -facts.computed_before % max(size, 1)
    needs = can & (spare < facts.whole_output[facts.owner] - facts.emitted_before)
    due = schedule["job"] + spare
    later = grows - due
    until = schedule["job"] + facts.whole_output[facts.owner] - facts.emitted_before
    right = (grows == NEVER) | (needs & (later >= 0) & (later % max(size, 1) == 0) & (grows < until))
    if size <= LONGEST and (_on_line(facts.record).any() or (grows != NEVER).any()):
        right &= ~(needs & _straight(facts)) | (grows == due)
    untold = needs & (grows != due)
    untold[untold] = _inside(facts, due[untold], np.where(grows == NEVER, until, grows)[untold], size, untold)
    for row in np.flatnonzero(~right | untold).tolist():
        where = f"decodes from job {facts.first_job[row]}, {facts.claims.request(facts.owner[row])}, grows"
        yield Difference(where, _or_none(due[row]) if needs[row] else None, _or_none(grows[row]))


def _straight(facts: Facts) -> Mask:
    """Which stretches begin with the decoding job behind the chunk that completes the prefill, and no loss between."""
    schedule, lost = facts.record.schedule, facts.record.preemptions
    straight = np.zeros(len(schedule["job"]), dtype=bool)
    row = np.flatnonzero(facts.is_stretch[1:] & facts.completes[:-1] & (facts.owner[1:] == facts.owner[:-1])) + 1
    number = facts.pieces.decoding_before(facts.last_job[row - 1] + 1)
    losses = np.sort(lost["request"] * (facts.jobs + 1) + lost["job"])
    at = facts.owner[row] * (facts.jobs + 1)
    before = np.searchsorted(losses, at + facts.last_job[row - 1], side="right")
    until = np.searchsorted(losses, at + facts.first_job[row], side="right")
    straight[row] = (schedule["job"][row] == number) & (before == until)
    return straight


def _inside(facts: Facts, due: Ints, before: Ints, size: int, of: Mask) -> Mask:
    """Whether each of these stretches takes a block within a row, before decoding job ``before``."""
    rows, schedule = facts.record.stretches, facts.record.schedule
    end = np.minimum((schedule["job"] + schedule["jobs"])[of], before)
    inside = np.zeros(len(due), dtype=bool)
    several = np.where(facts.record.rows["decode_requests"] > 0, facts.record.rows["jobs"] - 1, 0)
    if not several.any():
        return inside
    for at in np.flatnonzero(due < end).tolist():
        number = np.arange(due[at], end[at], size)
        row = rows.row_of_decoding(number)
        inside[at] = (number > rows.first_decoding[row]).any()
    return inside


def _block_tokens(facts: Facts) -> int:
    """Tokens of a block, if blocks are taken one by one; 0 else."""
    kv = facts.claims.kv
    return 0 if kv is None or kv.gate == "reserve" or kv.allocation == "contiguous" else kv.block_tokens


def _on_line(record: Record) -> Mask:
    line: Mask = (record.rows["first_fs"] > 0) | (record.rows["growth_fs"] > 0)
    return line


def _named(record: Record, row: int) -> str:
    """How a finding names a row."""
    first, jobs = record.stretches.first[row], record.rows["jobs"][row] if row < len(record.stretches) else 1
    return f"jobs {first} to {first + jobs - 1}" if jobs > 1 else f"job {first}"


def _or_none(number: int) -> Value:
    return None if number == NEVER else int(number)
