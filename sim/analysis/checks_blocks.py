"""Are the blocks accounted for? By counts, from who ran and what of each request was computed."""

from collections.abc import Iterator

import numpy as np

from sim.analysis.exact import sum_by, whole_ns
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.stays import Stays
from sim.policies.presets import KvAxes
from sim.request import NEVER, Ints

BLOCKS_AT_ONCE = 2**16
"""About so many blocks are followed one by one together."""


def no_blocks(facts: Facts) -> Iterator[Difference]:
    """No KV pool, no blocks: none free, none withheld."""
    told, first = facts.pieces.table, facts.pieces.first
    for piece in np.flatnonzero(told["free_blocks"] != NEVER).tolist():
        yield Difference(f"job {first[piece]}, freeBlocks", None, int(told["free_blocks"][piece]))
    for piece in np.flatnonzero(told["withheld_blocks"] != 0).tolist():
        yield Difference(f"job {first[piece]}, withheld blocks", 0, int(told["withheld_blocks"][piece]))


def free_blocks(facts: Facts, stays: Stays, kv: KvAxes) -> Iterator[Difference]:
    """Free, withheld and held blocks make up the pool at every job. With a prefix cache some are held by several.

    Those that like jobs take from the free ones must have been there; that they do, ``checks_rows`` sees to.
    """
    told, first = facts.pieces.table, facts.pieces.first
    held, later = held_blocks(facts, stays, kv)
    asked = _asked(facts)[stays.decision]
    free, withheld = told["free_blocks"], told["withheld_blocks"]
    least = np.maximum(kv.blocks - held - asked, 0)
    shared = kv.prefix_cache
    wrong = (free < least) | (free > kv.blocks - withheld) if shared else free != least
    cut = stays.cut_off
    wrong &= ~cut | (free > kv.blocks - withheld)  # what its work, which is not in the record, takes is not known
    for piece in np.flatnonzero(wrong).tolist():
        bound = f"{least[piece]} to {kv.blocks - withheld[piece]}" if shared else int(least[piece])
        yield Difference(f"job {first[piece]}, freeBlocks", bound, int(free[piece]))
    for piece in np.flatnonzero((later > free) & ~wrong & ~shared).tolist():
        where = f"job {first[piece]} and {facts.pieces.jobs[piece] - 1} like it, blocks taken"
        yield Difference(where, f"at most {free[piece]}", int(later[piece]))
    if not facts.claims.pool_known:
        return
    due = np.where(free > 0, asked, np.where(cut | shared, withheld, np.minimum(asked, kv.blocks - held)))
    due = np.minimum(due, np.minimum(asked, kv.blocks))
    for piece in np.flatnonzero(due != withheld).tolist():
        yield Difference(f"job {first[piece]}, withheld blocks", int(due[piece]), int(withheld[piece]))


def _asked(facts: Facts) -> Ints:
    """Per piece, how many blocks the faults want to withhold when its jobs start."""
    asked = np.zeros(len(facts.pieces), dtype=np.int64)
    for fault in facts.claims.scenario.faults:
        if fault.kind == "pool" and fault.until_ms is not None:
            within = (facts.starts_ns >= whole_ns(fault.at_ms)) & (facts.starts_ns < whole_ns(fault.until_ms))
            asked += np.where(within, fault.blocks or 0, 0)
    return asked


def held_blocks(facts: Facts, stays: Stays, kv: KvAxes) -> tuple[Ints, Ints]:
    """Per piece, the blocks that all who run hold together, those of several counted for each of them.

    At its first job; and how many more its other jobs take.
    """
    pieces = facts.pieces
    steps, later = np.zeros(len(pieces) + 1, dtype=np.int64), np.zeros(len(pieces) + 1, dtype=np.int64)
    last = np.zeros(len(stays.owner), dtype=np.int64)
    decision = np.append(stays.decision, len(pieces))
    firsts = np.append(pieces.first, facts.jobs)
    for stay, job, more in _steps(facts, stays, kv):
        piece = pieces.of(job)
        np.add.at(steps, decision[piece], more)
        inside = np.flatnonzero(firsts[piece] > job)
        np.add.at(later, piece[inside] - 1, more[inside])
        np.add.at(last, stay, more)
    np.subtract.at(steps, pieces.of(np.maximum(stays.behind, stays.first)), last)
    return np.cumsum(steps)[: len(pieces)], later[: len(pieces)]


def held_at_end(facts: Facts, stays: Stays, kv: KvAxes) -> Ints:
    """The blocks that each stay holds when it ends, without those of a job that it was taken out of again."""
    last = np.zeros(len(stays.owner), dtype=np.int64)
    for stay, _, more in _steps(facts, stays, kv):
        np.add.at(last, stay, more)
    return last


def _steps(facts: Facts, stays: Stays, kv: KvAxes) -> Iterator[tuple[Ints, Ints, Ints]]:
    """``(stay, job, blocks)``: so many more are held from that job on. Of some requests at a time."""
    for some in _some_requests(facts, kv.block_tokens):
        stay, job, blocks = _levels(facts, stays, kv, some)
        order = np.lexsort((job, stay))
        stay, job, blocks = stay[order], job[order], blocks[order]
        top = int(blocks.max(initial=0)) + 1
        level = np.maximum.accumulate(blocks + stay * top) - stay * top  # nobody gives back some of its blocks
        before = np.concatenate([[0], level[:-1]])[: len(stay)]
        before[np.concatenate([[True], stay[1:] != stay[:-1]])[: len(stay)]] = 0
        yield stay, job, level - before


def _some_requests(facts: Facts, size: int) -> Iterator[tuple[int, int]]:
    """Requests in order, from one to before another, so many together that their blocks are not too many."""
    rows = 2 + facts.record.schedule["jobs"] // size
    upto = np.cumsum(sum_by(facts.owner, rows, facts.requests) + 1)
    first = 0
    while first < facts.requests:
        most = BLOCKS_AT_ONCE + (int(upto[first - 1]) if first else 0)
        after = max(int(np.searchsorted(upto, most, side="right")), first + 1)
        yield first, after
        first = after


def _levels(facts: Facts, stays: Stays, kv: KvAxes, some: tuple[int, int]) -> tuple[Ints, Ints, Ints]:
    """``(stay, job, blocks)``: from that job on the stay holds at least so many blocks. Of ``some`` requests."""
    number = np.arange(*np.searchsorted(stays.owner, some))
    if kv.gate == "reserve" or kv.allocation == "contiguous":
        return number, stays.first[number], _reserved(facts, kv, stays.owner[number])
    known = _known_at_start(facts, stays.owner[number], stays.first[number])
    whole = blocks_of(facts, kv, stays.owner[number], known)
    whole = np.where(stays.back[number] | (facts.claims.axes.batching == "static"), whole, 0)
    rows, at = _growth(facts, kv.block_tokens, np.arange(*np.searchsorted(facts.owner, some)))
    schedule = facts.record.schedule
    owner, decodes = facts.owner[rows], facts.is_stretch[rows]
    job = facts.first_job[rows]
    job[decodes] = facts.record.stretches.job_of_decoding(schedule["job"][rows[decodes]] + at[decodes])
    steps = np.where(decodes, (at + 1) * facts.samples[rows], schedule["tokens"][rows])
    blocks = blocks_of(facts, kv, owner, facts.computed_before[rows] + steps)
    key = stays.owner * (facts.jobs + 2) + stays.first
    stay = np.searchsorted(key, owner * (facts.jobs + 2) + job, side="right") - 1
    mine = (stay >= 0) & (np.append(stays.owner, NEVER)[stay] == owner)
    return (
        np.concatenate([number, stay[mine]]),
        np.concatenate([stays.first[number], job[mine]]),
        np.concatenate([whole, blocks[mine]]),
    )


def _reserved(facts: Facts, kv: KvAxes, owner: Ints) -> Ints:
    """Blocks for all that each of them declared."""
    workload, longest = facts.workload, facts.claims.axes.max_model_tokens
    declared = workload.max_tokens[owner]
    if longest:
        declared = np.minimum(declared, longest - workload.prompt_tokens[owner])
    return blocks_of(facts, kv, owner, workload.prompt_tokens[owner] + workload.samples[owner] * (declared - 1))


def _known_at_start(facts: Facts, owner: Ints, first: Ints) -> Ints:
    """Tokens that were known of each request when a stay of it began, with job ``first``."""
    _, emitted = facts.before(owner, first)
    return facts.workload.prompt_tokens[owner] + facts.workload.samples[owner] * emitted


def _growth(facts: Facts, size: int, rows: Ints) -> tuple[Ints, Ints]:
    """``(row, k)``: all chunks of these rows, and the decodes of each stretch (from 0) that may need blocks.

    These are its first, and those that write the first token of a block of each sequence.
    """
    jobs = facts.record.schedule["jobs"]
    chunk, stretch = rows[facts.is_chunk[rows]], rows[facts.is_stretch[rows]]
    length = facts.workload.prompt_tokens[facts.owner[stretch]] + facts.emitted_before[stretch] - 1
    to_border = -length % size
    times = np.maximum(-(-(jobs[stretch] - to_border) // size), 0)
    row = np.repeat(stretch, times)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    at = np.repeat(to_border, times) + nth * size
    rows = np.concatenate([chunk, stretch, row])
    return rows, np.concatenate([np.zeros(len(chunk) + len(stretch), dtype=np.int64), at])


def blocks_of(facts: Facts, kv: KvAxes, owner: Ints, tokens: Ints) -> Ints:
    """Blocks for so many computed tokens of each owner: the prompt's full blocks once, the others per sample."""
    size, samples, prompt = kv.block_tokens, facts.workload.samples[owner], facts.workload.prompt_tokens[owner]
    longest = prompt + -(-(tokens - prompt) // samples)
    full = prompt // size
    several = full + samples * (-(-longest // size) - full)
    return np.where((samples == 1) | (tokens <= prompt), -(-tokens // size), several)


def hits(facts: Facts, _: Stays, kv: KvAxes) -> Iterator[Difference]:
    """Only whole blocks are found in a cache, and one token at least is left to compute; without a cache none."""
    lives = facts.lives
    size = kv.block_tokens if kv.prefix_cache else 0
    most = (lives.target - 1) // size * size if size else np.zeros_like(lives.target)
    rest = lives.cached % size if size else np.zeros_like(lives.target)
    for life in np.flatnonzero((lives.cached > most) | (rest > 0)).tolist():
        where = f"job {lives.job[life]}, {facts.claims.request(lives.owner[life])} admitted, cached"
        due = f"at most {most[life]}, whole blocks" if size else 0
        yield Difference(where, due, int(lives.cached[life]))
    back = facts.record.admissions["back"] == 1
    for row in np.flatnonzero(back & (facts.record.admissions["cached_tokens"] != 0)).tolist():
        admissions = facts.record.admissions
        where = f"job {admissions['job'][row]}, {facts.claims.request(admissions['request'][row])} back, cached"
        yield Difference(where, 0, int(admissions["cached_tokens"][row]))


def losses(facts: Facts, stays: Stays) -> Iterator[Difference]:
    """Who is preempted ran, and loses what was computed of it, cached tokens included."""
    preemptions = facts.record.preemptions
    told = np.zeros(len(preemptions["job"]), dtype=bool)
    told[stays.loss_row[stays.preempted]] = True
    for row in np.flatnonzero(~told).tolist():
        where = f"job {preemptions['job'][row]}, {facts.claims.request(preemptions['request'][row])} preempted"
        yield Difference(where, "one that runs", "one that does not")
    computed = computed_at_end(facts, stays)
    for stay in np.flatnonzero(stays.preempted & (computed != stays.tokens_lost)).tolist():
        where = f"job {stays.behind[stay]}, {facts.claims.request(stays.owner[stay])} preempted, tokens"
        yield Difference(where, int(computed[stay]), int(stays.tokens_lost[stay]))


def computed_at_end(facts: Facts, stays: Stays) -> Ints:
    """Tokens of each stay's request that are computed when it runs no longer, cached ones included."""
    if not len(stays.owner):
        return stays.owner
    upto, _ = facts.before(stays.owner, stays.behind)
    since, _ = facts.before(stays.owner, facts.lives.job[stays.life])
    return facts.lives.cached[stays.life] + upto - since
