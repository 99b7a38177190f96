"""From a scenario's ``[workload]`` to the columns of a :class:`~sim.request.Workload`."""

from collections.abc import Callable, Sequence

import numpy as np

from sim.clock import instant_ns
from sim.request import NEVER, Ints, Workload, default_id
from sim.scenario import Request, Scenario
from sim.workload.sending import planned, without_attempts


def build(scenario: Scenario) -> tuple[Workload, str | None]:
    """The workload, and the sha256 of the trace file that it came from (None without a trace)."""
    base, trace_sha256 = _base(scenario)
    return planned(base, scenario.workload, scenario.run.seed), trace_sha256


def _base(scenario: Scenario) -> tuple[Workload, str | None]:
    """The requests themselves, whatever their clients' patience."""
    asked = scenario.workload
    if asked.requests is not None:
        return of_requests(asked.requests), None
    if asked.trace is None:
        from sim.workload.generate import generate

        return generate(asked, scenario.run.seed, scenario.folder), None
    from sim.workload.traced import of_trace

    return of_trace(scenario)


def plan_of(scenario: Scenario, shown: Workload) -> Workload:
    """The workload as it stood before the run of which ``shown`` is the record's; without reading a trace again."""
    asked = scenario.workload
    if asked.trace is None:
        return build(scenario)[0]
    return planned(without_attempts(shown, retried=asked.retry is not None), asked, scenario.run.seed)


def of_requests(requests: Sequence[Request]) -> Workload:
    place = {request.id: index for index, request in enumerate(requests)}

    def column(value: Callable[[Request], int | None]) -> Ints:
        values = map(value, requests)
        return np.array([NEVER if v is None else v for v in values], dtype=np.int64)

    def texts(value: Callable[[Request], str]) -> list[str] | None:
        values = list(map(value, requests))
        return values if any(values) else None

    return Workload(
        ids=None if all(r.id == default_id(place) for place, r in enumerate(requests)) else [r.id for r in requests],
        arrival_ns=column(lambda r: instant_ns(r.arrival_ms)),
        prompt_tokens=column(lambda r: r.prompt_tokens),
        output_tokens=column(lambda r: r.output_tokens),
        max_tokens=column(lambda r: r.max_tokens),
        priority=column(lambda r: r.priority),
        deadline_ns=column(lambda r: None if r.deadline_ms is None else instant_ns(r.deadline_ms)),
        cancel_ns=column(lambda r: None if r.cancel_ms is None else instant_ns(r.cancel_ms)),
        samples=column(lambda r: r.samples),
        prefix_tokens=column(lambda r: r.prefix_tokens),
        parent=column(lambda r: None if r.parent is None else place[r.parent]),
        parent_tokens=column(lambda r: r.parent_tokens),
        tenants=texts(lambda r: r.tenant),
        prefix_groups=texts(lambda r: r.prefix_group),
    )
