"""Are the blocks accounted for? By counts, from who ran and what of each request was computed."""

from collections.abc import Iterator

import numpy as np

from sim.analysis.exact import sum_by
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.stays import Stays
from sim.analysis.timetable import whole_ns
from sim.policies.presets import KvAxes
from sim.request import NEVER, Ints


def no_blocks(facts: Facts) -> Iterator[Difference]:
    """No KV pool, no blocks: none free, none withheld."""
    jobs = facts.record.jobs
    for job in np.flatnonzero(jobs["free_blocks"] != NEVER).tolist():
        yield Difference(f"job {job}, freeBlocks", None, int(jobs["free_blocks"][job]))
    for job in np.flatnonzero(jobs["withheld_blocks"] != 0).tolist():
        yield Difference(f"job {job}, withheld blocks", 0, int(jobs["withheld_blocks"][job]))


def free_blocks(facts: Facts, stays: Stays, kv: KvAxes) -> Iterator[Difference]:
    """Free, withheld and held blocks make up the pool at every job. With a prefix cache some are held by several."""
    jobs = facts.record.jobs
    held = held_blocks(facts, stays, kv)
    asked = _asked(facts)[stays.decision]
    free, withheld = jobs["free_blocks"], jobs["withheld_blocks"]
    least = np.maximum(kv.blocks - held - asked, 0)
    shared = kv.prefix_cache
    wrong = (free < least) | (free > kv.blocks - withheld) if shared else free != least
    cut = stays.cut_off
    wrong &= ~cut | (free > kv.blocks - withheld)  # what its work, which is not in the record, takes is not known
    for job in np.flatnonzero(wrong).tolist():
        bound = f"{least[job]} to {kv.blocks - withheld[job]}" if shared else int(least[job])
        yield Difference(f"job {job}, freeBlocks", bound, int(free[job]))
    if not facts.claims.pool_known:
        return
    due = np.where(free > 0, asked, np.where(cut | shared, withheld, np.minimum(asked, kv.blocks - held)))
    due = np.minimum(due, np.minimum(asked, kv.blocks))
    for job in np.flatnonzero(due != withheld).tolist():
        yield Difference(f"job {job}, withheld blocks", int(due[job]), int(withheld[job]))


def _asked(facts: Facts) -> Ints:
    """Per job, how many blocks the faults want to withhold when it starts."""
    asked = np.zeros(facts.jobs, dtype=np.int64)
    for fault in facts.claims.scenario.faults:
        if fault.kind == "pool" and fault.until_ms is not None:
            within = (facts.starts_ns >= whole_ns(fault.at_ms)) & (facts.starts_ns < whole_ns(fault.until_ms))
            asked += np.where(within, fault.blocks or 0, 0)
    return asked


def held_blocks(facts: Facts, stays: Stays, kv: KvAxes) -> Ints:
    """Per job, the blocks that all who run hold together, those of several counted for each of them."""
    stay, job, more = _steps(facts, stays, kv)
    steps = sum_by(np.append(stays.decision, facts.jobs)[np.minimum(job, facts.jobs)], more, facts.jobs + 1)
    last = sum_by(stay, more, len(stays.owner))
    np.subtract.at(steps, np.minimum(np.maximum(stays.behind, stays.first), facts.jobs), last)
    return np.cumsum(steps)[: facts.jobs]


def held_at_end(facts: Facts, stays: Stays, kv: KvAxes) -> Ints:
    """The blocks that each stay holds when it ends, without those of a job that it was taken out of again."""
    stay, _, more = _steps(facts, stays, kv)
    return sum_by(stay, more, len(stays.owner))


def _steps(facts: Facts, stays: Stays, kv: KvAxes) -> tuple[Ints, Ints, Ints]:
    """``(stay, job, blocks)``: so many more are held from that job on."""
    stay, job, blocks = _levels(facts, stays, kv)
    order = np.lexsort((job, stay))
    stay, job, blocks = stay[order], job[order], blocks[order]
    top = int(blocks.max(initial=0)) + 1
    level = np.maximum.accumulate(blocks + stay * top) - stay * top  # nobody gives back some of its blocks
    before = np.concatenate([[0], level[:-1]])[: len(stay)]
    before[np.concatenate([[True], stay[1:] != stay[:-1]])[: len(stay)]] = 0
    return stay, job, level - before


def _levels(facts: Facts, stays: Stays, kv: KvAxes) -> tuple[Ints, Ints, Ints]:
    """``(stay, job, blocks)``: from that job on the stay holds at least so many blocks."""
    declared = facts.workload.max_tokens
    if facts.claims.axes.max_model_tokens:
        declared = np.minimum(declared, facts.claims.axes.max_model_tokens - facts.workload.prompt_tokens)
    everyone = np.arange(facts.requests)
    samples, prompt = facts.workload.samples, facts.workload.prompt_tokens
    reserved = blocks_of(facts, kv, everyone, prompt + samples * (declared - 1))
    number = np.arange(len(stays.owner))
    known = _known_at_start(facts, stays)
    if kv.gate == "reserve" or kv.allocation == "contiguous":
        return number, stays.first, reserved[stays.owner]
    whole = blocks_of(facts, kv, stays.owner, known)
    whole = np.where(stays.back | (facts.claims.axes.batching == "static"), whole, 0)
    rows, at = _growth(facts, kv.block_tokens)
    owner, decodes = facts.owner[rows], facts.is_stretch[rows]
    job = facts.first_job[rows]
    job[decodes] = facts.decoding[facts.record.schedule["job"][rows[decodes]] + at[decodes]]
    steps = np.where(decodes, (at + 1) * facts.samples[rows], facts.record.schedule["tokens"][rows])
    blocks = blocks_of(facts, kv, owner, facts.computed_before[rows] + steps)
    key = stays.owner * (facts.jobs + 2) + stays.first
    stay = np.searchsorted(key, owner * (facts.jobs + 2) + job, side="right") - 1
    mine = (stay >= 0) & (np.append(stays.owner, NEVER)[stay] == owner)
    return (
        np.concatenate([number, stay[mine]]),
        np.concatenate([stays.first, job[mine]]),
        np.concatenate([whole, blocks[mine]]),
    )


def _known_at_start(facts: Facts, stays: Stays) -> Ints:
    """Tokens that were known of each request when its stay began."""
    _, emitted = facts.before(stays.owner, stays.first)
    return facts.workload.prompt_tokens[stays.owner] + facts.workload.samples[stays.owner] * emitted


def _growth(facts: Facts, size: int) -> tuple[Ints, Ints]:
    """``(row, k)``: all chunks, and the decodes of each stretch (from 0) that may need blocks.

    These are its first, and those that write the first token of a block of each sequence.
    """
    jobs = facts.record.schedule["jobs"]
    chunk, stretch = np.flatnonzero(facts.is_chunk), np.flatnonzero(facts.is_stretch)
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
