"""From ``[workload.trace]`` to a workload."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.request import NEVER, Ints, Workload, default_id
from sim.scenario import Scenario, Trace
from sim.show import show
from sim.tables import Workload as Asked
from sim.workload.generate import arrival_law, declared
from sim.workload.streams import stream
from sim.workload.trace_rows import Take
from sim.workload.traces import Form, TraceRows, read_trace


def of_trace(scenario: Scenario) -> tuple[Workload, str]:
    """The workload of a scenario that has a trace, and the sha256 of its file."""
    trace, asked = scenario.workload.trace, scenario.workload
    if trace is None:
        raise TypeError("a workload without a trace")
    rows = read_trace(
        scenario.trace_path(), form=form_of(trace), take=take_of(trace, scenario.run.seed), loop=trace.loop,
        speedup=trace.speedup, allow_empty=trace.allow_empty,
    )  # fmt: skip
    return bounded(workload_of(_arriving(rows, scenario)), asked), rows.sha256


def form_of(trace: Trace) -> Form:
    columns = {} if trace.columns is None else trace.columns.model_dump(exclude_none=True)
    return Form(trace.format, columns, trace.unit, trace.hash_block_tokens)


def take_of(trace: Trace, seed: int) -> Take:
    window = (0, None) if trace.window is None else trace.window.ns
    return Take(trace.limit, trace.skip, trace.thin, window, trace.zero_tokens, seed)


def _arriving(rows: TraceRows, scenario: Scenario) -> TraceRows:
    """The rows as they arrive: as the trace has it, or by a law that the scenario states beside it.

    Then deadlines, and when clients give up, are as far from the arrival as they were (0 at the earliest).
    """
    table, count = scenario.workload.arrivals, len(rows.arrival_ns)
    if table is not None:
        if table.times_ms is not None and len(table.times_ms) != count:
            raise ScenarioError(
                f"workload.arrivals.times_ms: {len(table.times_ms)} times for {count} requests of the trace; as many"
            )
        arrives = stream(scenario.run.seed, "arrivals")
        law = arrival_law(table, scenario.folder)
        times = law.arrival_ns(count, arrives) if count else rows.arrival_ns
        later = times - rows.arrival_ns
        more = {key: _moved(values, later) if key in ("deadline", "cancel") else values
                for key, values in rows.more.items()}  # fmt: skip
        return replace(rows, arrival_ns=times, more=more)
    if not rows.timed:
        raise ScenarioError(
            f"workload.trace: {rows.format} has no times; state workload.arrivals beside it, e.g. "
            '{process = "poisson", rate_per_s = 4}'
        )
    return rows


def _moved(times_ns: Ints, later_ns: Ints) -> Ints:
    return np.where(times_ns == NEVER, NEVER, np.maximum(times_ns + later_ns, 0))


def workload_of(rows: TraceRows) -> Workload:
    """The requests of a trace, each with what its row says."""
    plain = Workload.of(rows.arrival_ns, rows.prompt_tokens, rows.output_tokens)
    names = {"deadline": "deadline_ns", "cancel": "cancel_ns"}
    columns: dict[str, Any] = {names.get(key, key): values for key, values in rows.more.items()}
    if "max_tokens" in columns:
        columns["max_tokens"] = np.where(columns["max_tokens"] == 0, rows.output_tokens, columns["max_tokens"])
    unsorted = [f"{rows.unsorted} rows stand behind a later one; put in order of arrival"] if rows.unsorted else []
    return replace(
        plain,
        **columns,
        ids=_ids(rows.texts.get("id")),
        tenants=rows.texts.get("tenant"),
        prefix_groups=rows.texts.get("prefix_group"),
        pieces=rows.pieces,
        notes=(*rows.notes, *unsorted),
    )


def _ids(ids: list[str] | None) -> list[str] | None:
    """Those that are given; a request without one goes by its place. ``ScenarioError``: two have the same."""
    if ids is None:
        return None
    named = [id_ or default_id(place) for place, id_ in enumerate(ids)]
    if len(set(named)) < len(named):
        twice = next(id_ for id_, times in Counter(named).items() if times > 1)
        why = ", one of them by its place in order of arrival" if "" in ids else ""
        raise ScenarioError(f"workload.trace: two requests have the id {show(twice)}{why}; each its own")
    return None if named == [default_id(place) for place in range(len(named))] else named


def bounded(workload: Workload, asked: Asked) -> Workload:
    """With the bound that ``workload.max_tokens`` states, which must cover every output."""
    if asked.max_tokens is not None and len(workload) and asked.max_tokens < workload.output_tokens.max():
        longest = int(workload.output_tokens.max())
        raise ScenarioError(
            f"workload.max_tokens = {asked.max_tokens}: too small; at least the longest output of the trace, {longest}"
        )
    return declared(workload, asked)
