"""Who waited at each job of a result, in the order of the queue."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sim.costs.own import cost_of
from sim.policies.given import given_of
from sim.policies.orders import queue_of
from sim.policies.presets import Choice, resolve
from sim.record.again.orders import KEYS
from sim.record.again.walk import Walk
from sim.record.replay import Event, events
from sim.request import Request
from sim.scenario import Scenario, load

if TYPE_CHECKING:
    from sim.record.result import Result


def events_of(result: "Result") -> Iterator[Event]:
    """Every job of a result, as it was when it began.

    An order that moves goes by the time, by what others were served, or by the cache: for it the decisions are made
    again, since nobody kept its lists.
    """
    scenario = load(result.resolved)
    choice = resolve(scenario)
    given = given_of(choice.axes, scenario.run.seed, result.record.workload, cost_of(scenario.device), _nothing)
    queue = queue_of(given)
    lists = _lists(result, scenario, choice) if queue.moves and choice.axes.order in KEYS else None
    return events(result.record, queue, lists)


def _lists(result: "Result", scenario: Scenario, choice: Choice) -> Iterator[list[int]]:
    jobs, record = result.record.jobs["end_ns"].tolist(), result.record
    victims: list[list[int]] = [[] for _ in jobs]
    for job, request in zip(record.preemptions["job"].tolist(), record.preemptions["request"].tolist(), strict=True):
        victims[job].append(request)
    for decision in Walk(scenario, choice, record.workload, jobs, victims):
        waiting = [req.index for req in decision.waiting]
        for _ in decision.jobs:
            yield waiting


def _nothing(_request: Request) -> int:
    return 0
