"""From a scenario's ``[workload]`` to the columns of a :class:`~sim.request.Workload`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim.clock import instant_ns
from sim.request import NEVER, Ints, Workload
from sim.scenario import Request, Scenario

if TYPE_CHECKING:
    from sim.workload.traces import TraceRows


def build(scenario: Scenario) -> tuple[Workload, str | None]:
    """The workload, and the sha256 of the trace file that it came from (None without a trace)."""
    trace = scenario.workload.trace
    if trace is None:
        return of_requests(scenario.workload.requests or ()), None
    from sim.workload.traces import read_trace

    path = scenario.trace_path()
    rows = read_trace(path, trace.format, limit=trace.limit, skip=trace.skip, speedup=trace.speedup)
    return of_trace(rows), rows.sha256


def of_requests(requests: Sequence[Request]) -> Workload:
    def column(value: Callable[[Request], int | None]) -> Ints:
        values = map(value, requests)
        return np.array([NEVER if v is None else v for v in values], dtype=np.int64)

    ids = [r.id for r in requests]
    return Workload(
        ids=None if not any(ids) else ids,
        arrival_ns=column(lambda r: instant_ns(r.arrival_ms)),
        prompt_tokens=column(lambda r: r.prompt_tokens),
        output_tokens=column(lambda r: r.output_tokens),
        max_tokens=column(lambda r: r.max_tokens),
        priority=column(lambda r: r.priority),
        deadline_ns=column(lambda r: None if r.deadline_ms is None else instant_ns(r.deadline_ms)),
        cancel_ns=column(lambda r: None if r.cancel_ms is None else instant_ns(r.cancel_ms)),
        tenants=[r.tenant for r in requests] if any(r.tenant for r in requests) else None,
    )


def of_trace(rows: "TraceRows") -> Workload:
    never = np.full(len(rows.arrival_ns), NEVER, dtype=np.int64)
    return Workload(
        arrival_ns=rows.arrival_ns,
        prompt_tokens=rows.prompt_tokens,
        output_tokens=rows.output_tokens,
        max_tokens=rows.output_tokens,
        priority=np.zeros_like(never),
        deadline_ns=never,
        cancel_ns=never,
    )
