"""What the record tells of each job, and what a decision leads to, in the same form."""

from collections import defaultdict

import numpy as np

from sim.analysis import troubles
from sim.analysis.cost import Work, job_ns
from sim.analysis.facts import Facts
from sim.record.again.server import Planned, Req
from sim.record.json_shape import Run
from sim.record.tables import DECODE, PREFILL, Table
from sim.request import Ints

Row = tuple[int, ...]


class Told:
    """By job who was admitted, preempted and copied. ``run`` has the lists, if there are any.

    The rows: ``(request, cached tokens, back)``, ``(request, tokens, loss)``, ``(request, blocks, out)``.
    """

    def __init__(self, facts: Facts, run: Run | None) -> None:
        record = facts.record
        self.run = run
        self.admitted = _by_job(record.admissions, ("request", "cached_tokens", "back"))
        self.preempted = _by_job(record.preemptions, ("request", "tokens", "loss"))
        self.copied = _by_job(record.copies, ("request", "blocks", "out"))
        self.victims = [[index for index, *_ in self.preempted[job]] for job in range(facts.jobs)]
        self._place = {} if run is None else {row.id: index for index, row in enumerate(run.requests)}
        schedule = record.schedule
        chunk, stretch = facts.is_chunk, facts.is_stretch
        self._chunks: dict[int, list[Row]] = defaultdict(list)
        columns = (schedule[name][chunk].tolist() for name in ("job", "place", "request", "tokens"))
        for job, *row in zip(*columns, strict=True):
            self._chunks[job].append(tuple(row))
        self._begin: dict[int, list[int]] = defaultdict(list)
        self._stop: dict[int, list[int]] = defaultdict(list)
        columns = (schedule[name][stretch].tolist() for name in ("request", "job", "jobs"))
        for request, first, jobs in zip(*columns, strict=True):
            self._begin[first].append(request)
            self._stop[first + jobs].append(request)
        decodes = np.repeat(record.rows["decode_requests"] > 0, record.rows["jobs"])
        self._number = np.cumsum(decodes) - 1
        self._decoding = decodes.tolist()
        self._active: set[int] = set()
        self._upto = -1

    def scheduled(self, job: int) -> list[Row] | None:
        """``(request, tokens, phase)`` in order; None when only the tables tell. A request that nobody knows is -1."""
        if self.run is None:
            return None
        return [
            (self._place.get(item.id, -1), item.tokens, DECODE if item.phase == "decode" else PREFILL)
            for item in self.run.events[job].scheduled
        ]

    def work(self, job: int) -> tuple[list[Row], set[int]]:
        """The chunks ``(place, request, tokens)`` and who decodes. To be asked job after job."""
        if not self._decoding[job]:
            return sorted(self._chunks.get(job, [])), set()
        while self._upto < self._number[job]:
            self._upto += 1
            self._active.difference_update(self._stop.get(self._upto, ()))
            self._active.update(self._begin.get(self._upto, ()))
        return sorted(self._chunks.get(job, [])), self._active


def planned_work(job: Planned) -> tuple[list[Row], set[int]]:
    """The same of what was decided."""
    chunks: list[Row] = [
        (place, index, tokens) for place, (index, tokens, phase) in enumerate(job.scheduled) if phase == PREFILL
    ]
    return chunks, {index for index, _, phase in job.scheduled if phase == DECODE}


def planned_end_ns(facts: Facts, job: Planned, requests: list[Req], start_ns: int) -> int:
    """When such a job would end; what it computes is not booked yet."""
    prompt = sum(tokens for _, tokens, phase in job.scheduled if phase == PREFILL)
    decoding = [requests[index] for index, _, phase in job.scheduled if phase == DECODE]
    context = sum(req.samples * (req.prompt + req.emitted) for req in decoding)
    blocks = sum(blocks for _, blocks, _ in job.copies)
    work = Work(_one(prompt), _one(sum(req.samples for req in decoding)), _one(context), _one(blocks))
    scenario = facts.claims.scenario
    return int(troubles.ends(scenario, _one(start_ns), job_ns(scenario, work))[0])


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)


def _by_job(table: Table, names: tuple[str, ...]) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = defaultdict(list)
    columns = (table[name].tolist() for name in ("job", *names))
    for job, *row in zip(*columns, strict=True):
        rows[job].append(tuple(row))
    return rows
