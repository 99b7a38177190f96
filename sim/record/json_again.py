"""What a JSON leaves out of a run, from making its decisions again; as long as they come out as the JSON has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sim.engine.plan import Blocked, Kind
from sim.policies.presets import Choice
from sim.record.again.server import OffTheRecordError, Planned
from sim.record.again.walk import Decision, Ended, Walk
from sim.record.json_shape import Event, Run
from sim.record.tables import DECODE
from sim.request import Workload
from sim.scenario import Scenario


@dataclass
class Again:
    """Of the first jobs, those that agree: what was cached and lost, by job and request, and how the pool stood."""

    admissions: dict[tuple[int, int], int] = field(default_factory=dict)
    preemptions: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    ends: list[Ended] | None = None
    """How each request came and went, when all of it agrees."""
    _first_jobs: list[int] = field(default_factory=list)
    _pool: list[tuple[int, int]] = field(default_factory=list)

    @property
    def jobs(self) -> int:
        """How many jobs agree."""
        return len(self._pool)

    def first_job(self, job: int) -> int:
        """The first job of the decision that led to ``job``."""
        return self._first_jobs[job] if job < len(self._first_jobs) else job

    def pool(self, job: int) -> tuple[int, int]:
        """How many blocks were withheld, and what blocked the head of the queue."""
        return self._pool[job] if job < len(self._pool) else (0, int(Blocked.NOTHING))

    def enter(self, decision: Decision) -> None:
        first = decision.number
        self._first_jobs += [first] * len(decision.jobs)
        self._pool += [(decision.withheld, int(decision.blocked))] * len(decision.jobs)
        self.admissions |= {(first, index): cached for index, cached, back in decision.jobs[0].admitted if not back}
        self.preemptions |= {(first, index): (tokens, loss) for index, tokens, loss in decision.jobs[0].preempted}


def again(run: Run, workload: Workload, scenario: Scenario, choice: Choice, index_of: Mapping[str, int]) -> Again:
    told = Again()
    victims = [[index_of[id_] for id_ in event.preempted] for event in run.events]
    ids = [row.id for row in run.requests]
    try:
        walk = Walk(scenario, choice, workload, [event.end_ms for event in run.events], victims)
        for decision in walk:
            events = run.events[decision.number : decision.number + len(decision.jobs)]
            if not all(_agrees(decision, place, event, ids) for place, event in enumerate(events)):
                return told
            told.enter(decision)
        told.ends = walk.ends
    except OffTheRecordError:
        pass
    return told


def _agrees(decision: Decision, place: int, event: Event, ids: list[str]) -> bool:
    job = decision.jobs[place]
    return (
        Kind[event.kind.upper()] == job.kind
        and (place > 0 or event.start_ms == decision.at_ns)
        and event.free_blocks == decision.free
        and event.preempted == [ids[index] for index, *_ in job.preempted]
        and _work(event) == [(ids[index], tokens, phase == DECODE) for index, tokens, phase in job.scheduled]
        and _copies(event) == _planned_copies(job, ids)
        and event.running == [ids[req.index] for req in decision.running]
        and event.waiting == [ids[req.index] for req in decision.waiting]
    )


def _work(event: Event) -> list[tuple[str, int, bool]]:
    return [(item.id, item.tokens, item.phase == "decode") for item in event.scheduled]


def _copies(event: Event) -> list[tuple[str, int, bool]]:
    return [(copy.id, copy.blocks, copy.direction == "out") for copy in event.swapped]


def _planned_copies(job: Planned, ids: list[str]) -> list[tuple[str, int, bool]]:
    return [(ids[index], blocks, out == 1) for index, blocks, out in job.copies]
