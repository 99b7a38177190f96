"""What the pool's memory was used for, over time: per job, in slots (a block has ``block_tokens`` of them).

The kinds are those of the PagedAttention paper (SOSP '23, section 3.1): slots that *hold* a token, slots that are taken
and *will* be used before their request gives them back, slots that are taken and *never* used (internal fragmentation),
and free ones, which count as *external* fragmentation while the head of the queue would fit into them together but into
no hole. What a fault withholds is a kind of its own.

A request's time in the pool is a *stay*: from an admission to the preemption that ends it, or to its end. What it will
come to hold in a stay is known from the record, so no kind is a guess. The unused end of a request's last block counts
from the job that first writes into that block; until then (while a swap job runs before it) it counts as reserved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.engine.plan import Blocked
from sim.record.tables import DECODE, Record, Table
from sim.request import NEVER, Flags, Ints


@dataclass(frozen=True)
class Usage:
    """An entry per job, once it is scheduled: ``held + reserved + unused + free + withheld`` make up the pool."""

    held_slots: Ints
    reserved_slots: Ints
    unused_slots: Ints
    free_slots: Ints
    withheld_slots: Ints
    external: Flags
    """Whether the free slots were in no hole large enough for a request that would have fitted into all of them."""
    duration_ns: Ints

    @property
    def taken_slots(self) -> Ints:
        return self.held_slots + self.reserved_slots + self.unused_slots

    @property
    def held_share(self) -> float | None:
        """Over time, the share of the taken memory that holds tokens; None when none was ever taken."""
        taken = float(self.taken_slots @ self.duration_ns)
        return float(self.held_slots @ self.duration_ns) / taken if taken else None


def usage(record: Record, settings: Mapping[str, Any]) -> Usage:
    """The kinds for a run with these settings (those of its result).

    ``ValueError``: it has no pool, or its requests share blocks (a prefix cache, several samples), so that a slot may
    hold tokens of many.
    """
    if settings["kv.blocks"] is None:
        raise ValueError("this run has no pool: its scenario has no [kv]")
    if settings["kv.prefix_cache"] or (record.workload.samples > 1).any():
        raise ValueError("requests of this run share blocks: whose a slot is can't be said")
    jobs, block_tokens = record.jobs, settings["kv.block_tokens"]
    stays, progress = _stays(record), _Progress(record)
    asked = _asked_at_admission(record, stays, progress, settings)
    last_block = np.maximum(stays.final - 1, 0) // block_tokens * block_tokens  # its first slot
    at_once = asked > last_block  # the stay had its last block, or more, from the start
    unused = -(-np.where(at_once, asked, stays.final) // block_tokens) * block_tokens - stays.final
    written_in = progress.job_of(stays.request, stays.before + last_block - stays.brought)

    def changes(job: Ints, comes: Ints, goes: Ints) -> Ints:
        """Per job, what comes in it and goes with the stays that have ended before it."""
        change = np.zeros(len(jobs["start_ns"]) + 1, dtype=np.int64)
        np.add.at(change, job, comes)
        np.subtract.at(change, stays.end_job, goes)
        return change[:-1]

    moved = changes(stays.first_job, stays.brought, stays.final)
    held = np.cumsum(jobs["prefill_tokens"] + jobs["decode_requests"] + moved)
    never = np.cumsum(changes(np.where(at_once, stays.first_job, written_in), unused, unused))
    taken = (settings["kv.blocks"] - jobs["withheld_blocks"] - jobs["free_blocks"]) * block_tokens
    return Usage(
        held_slots=held,
        reserved_slots=taken - held - never,
        unused_slots=never,
        free_slots=jobs["free_blocks"] * block_tokens,
        withheld_slots=jobs["withheld_blocks"] * block_tokens,
        external=jobs["blocked"] == Blocked.HOLES,
        duration_ns=jobs["end_ns"] - jobs["start_ns"],
    )


@dataclass(frozen=True)
class _Stays:
    """One entry per admission, by request and then in time.

    ``brought`` tokens were there when it began and ``final`` when it ended, before job ``end_job``; ``before``: tokens
    of this request that were scheduled earlier. ``back``: it came from the host.
    """

    request: Ints
    first_job: Ints
    end_job: Ints
    brought: Ints
    final: Ints
    before: Ints
    back: Flags


def _stays(record: Record) -> _Stays:
    """The k-th stay of a request begins with its k-th admission and ends with its k-th preemption, if there is one."""
    admissions, preemptions = _by_request(record.admissions), _by_request(record.preemptions)
    request, back = admissions["request"], admissions["back"] == 1
    lost = _partner(request, _rank(request), preemptions["request"])
    jobs = len(record.jobs["start_ns"])
    ended = record.requests["ended_job"][request]
    end_job = np.minimum(np.where(ended == NEVER, jobs, ended), jobs)
    tokens = np.zeros_like(request)
    end_job[lost != NEVER] = preemptions["job"][lost[lost != NEVER]]
    tokens[lost != NEVER] = preemptions["tokens"][lost[lost != NEVER]]
    brought = np.where(back, np.roll(tokens, 1), 0)  # who comes back brings what the stay before left on the host
    scheduled = np.where(lost != NEVER, tokens - brought, 0)
    before = np.cumsum(scheduled) - scheduled
    before -= before[np.searchsorted(request, request)]  # counted from the first stay of the request
    total = np.zeros(len(record.workload), dtype=np.int64)
    np.add.at(total, record.schedule["request"], record.schedule["tokens"])
    final = np.where(lost != NEVER, tokens, brought + total[request] - before)
    return _Stays(request, admissions["job"], end_job, brought, final, before, back)


def _asked_at_admission(record: Record, stays: _Stays, progress: "_Progress", settings: Mapping[str, Any]) -> Ints:
    """For how many tokens each stay took blocks when it began, beyond the work of its first job."""
    workload = record.workload
    prompt, declared = workload.prompt_tokens[stays.request], workload.max_tokens[stays.request]
    if settings["kv.gate"] == "reserve" or settings["kv.allocation"] == "contiguous":
        longest = settings["scheduler.max_model_tokens"]
        return prompt + (np.minimum(declared, longest - prompt) if longest else declared) - 1
    known = prompt + progress.emitted(stays.request, stays.before)
    everybody = settings["scheduler.batching"] == "static"  # a batch is admitted whole, before any of its work
    return np.where(stays.back | everybody, known, 0)


class _Progress:
    """How far each request was when so many of its tokens had been scheduled. The last row of all is of nobody."""

    def __init__(self, record: Record) -> None:
        schedule = record.schedule
        decodes = schedule["phase"] == DECODE
        self._request = schedule["request"]
        self._job = np.append(schedule["job"], 0)
        self._decodes = np.append(decodes, False)
        self._decode_jobs = np.append(record.decode_jobs, 0)
        self._upto = np.append(0, np.cumsum(schedule["tokens"]))
        self._emitted = np.append(0, np.cumsum(np.where(decodes, schedule["jobs"], schedule["emits"])))

    def job_of(self, request: Ints, tokens: Ints) -> Ints:
        """The job that schedules the token after the first ``tokens`` of each request; any, where there is none."""
        row, beyond = self._row(request, tokens)
        number = np.where(self._decodes[row], self._job[row] + beyond, -1)
        jobs: Ints = np.where(self._decodes[row], self._decode_jobs[number], self._job[row])
        return jobs

    def emitted(self, request: Ints, tokens: Ints) -> Ints:
        """How many tokens each request had emitted once its first ``tokens`` were computed."""
        row, beyond = self._row(request, tokens)
        before = self._emitted[np.searchsorted(self._request, request)]
        emitted: Ints = self._emitted[row] + np.where(self._decodes[row], beyond, 0) - before
        return emitted

    def _row(self, request: Ints, tokens: Ints) -> tuple[Ints, Ints]:
        """The row of the schedule that holds the token after these, and how many of its tokens come before that."""
        position = self._upto[np.searchsorted(self._request, request)] + tokens
        row = np.searchsorted(self._upto, position, side="right") - 1
        return row, position - self._upto[row]


def _by_request(table: Table) -> Table:
    """The rows by request, those of one request in their order."""
    order = np.argsort(table["request"], kind="stable")
    return {name: column[order] for name, column in table.items()}


def _rank(owner: Ints) -> Ints:
    """For each entry of a sorted column, how many of the same stand before it."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


def _partner(owner: Ints, rank: Ints, others: Ints) -> Ints:
    """For each (owner, rank), the place of that owner's entry of this rank in the sorted ``others``, or NEVER."""
    place = np.searchsorted(others, owner) + rank
    return np.where(place < np.searchsorted(others, owner, side="right"), place, NEVER)
