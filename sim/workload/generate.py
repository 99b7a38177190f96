"""Requests drawn from their laws, a stream of random numbers for each law."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator

from sim.classes import LAWS, Traffic, TrafficClass, drawn_together, lengths_of
from sim.clock import instant_ns
from sim.errors import ScenarioError
from sim.generated import MAX_REQUESTS, Arrivals, Lengths
from sim.request import Ints, Workload
from sim.show import show
from sim.tables import Workload as Asked
from sim.workload.batches import Ticked
from sim.workload.distribution import Distribution, Empirical, Sample
from sim.workload.pairs import correlated, recorded
from sim.workload.process import Process
from sim.workload.sending import closed_loop, sessions
from sim.workload.streams import stream
from sim.workload.varying import TraceRate

if TYPE_CHECKING:
    from sim.workload.traces import TraceRows

HERE = Path()


class Source(NamedTuple):
    """Where random numbers and traces come from. A class's streams have its name, so that no other class moves them."""

    seed: int
    folder: Path
    prefix: str = ""

    def stream(self, name: str) -> Generator:
        return stream(self.seed, f"{self.prefix}{name}")


def generate(asked: Asked, seed: int, folder: Path = HERE) -> Workload:
    """The requests of a ``[workload]`` that has laws, numbered as they arrive; ``folder`` is where its paths begin.

    ``ScenarioError``: the last would arrive too late, or a trace can't be read.
    """
    if asked.classes is None:
        if asked.count is None:
            raise TypeError("a workload without count and laws")
        source = Source(seed, folder)
        if asked.clients is not None:
            return _by_users(asked, asked.count, source)
        if asked.sessions is not None:
            return _by_sessions(asked, asked.count, source)
        return _drawn(asked, asked.count, source)
    drawn = [
        _of_class(each, place, count, Source(seed, folder, f"{each.name}/"))
        for place, (each, count) in enumerate(zip(asked.classes, asked.counts, strict=True))
    ]
    return merged(drawn)


def _by_users(asked: Asked, count: int, source: Source) -> Workload:
    return declared(closed_loop(asked, _lengths(asked, count, source), source.seed), asked)


def _by_sessions(asked: Asked, count: int, source: Source) -> Workload:
    if asked.sessions is None or asked.arrivals is None:
        raise TypeError("a workload without sessions and arrivals")
    opened_ns = arrival_law(asked.arrivals, source.folder).arrival_ns(count, source.stream("arrivals"))
    turns = length_law(asked.sessions.turns, source.folder).tokens(count, source.stream("turns"))
    total = int(turns.sum())
    if total > MAX_REQUESTS:
        raise ScenarioError(f"workload.sessions.turns: {total} turns in all; at most {MAX_REQUESTS}")
    return declared(sessions(asked, (opened_ns, turns), _lengths(asked, total, source), source.seed), asked)


def _of_class(each: TrafficClass, place: int, count: int, source: Source) -> Workload:
    try:
        return _drawn(each, count, source)
    except ScenarioError as error:
        name = f"workload.classes[{place}]."
        raise ScenarioError(*(str(line).replace("workload.", name, 1) for line in error.args)) from None


def _drawn(asked: Traffic, count: int, source: Source) -> Workload:
    if asked.arrivals is None:
        raise TypeError("requests without a law of their arrivals")
    times = arrival_law(asked.arrivals, source.folder).arrival_ns(count, source.stream("arrivals"))
    return declared(Workload.of(times, *_lengths(asked, count, source)), asked)


def _lengths(asked: Traffic, count: int, source: Source) -> tuple[Ints, Ints]:
    """Tokens of prompts and outputs."""
    prompts, outputs = _drawn_lengths(asked, lengths_of(asked), count, source)
    if asked.max_tokens is not None and asked.max_tokens < (longest := int(outputs.max())):
        raise ScenarioError(f"workload.max_tokens = {asked.max_tokens}: too small; an output of {longest} was drawn")
    return prompts, outputs


def _drawn_lengths(asked: Traffic, tables: tuple[Lengths, Lengths], count: int, source: Source) -> tuple[Ints, Ints]:
    randoms = source.stream("prompt_tokens"), source.stream("output_tokens")
    prompt, output = tables[0].law, tables[1].law
    if drawn_together(*tables) and isinstance(prompt, Empirical) and isinstance(output, Empirical):
        columns = _columns(prompt, source.folder)
        return recorded((columns[prompt.column], columns[output.column]), count, randoms[0])
    laws = length_law(tables[0], source.folder), length_law(tables[1], source.folder)
    if asked.correlation is not None:
        return correlated(laws, asked.correlation, count, randoms)
    return laws[0].tokens(count, randoms[0]), laws[1].tokens(count, randoms[1])


def arrival_law(table: Arrivals, folder: Path) -> Process:
    """The law of a table, its trace read if it is of one."""
    law = table.law
    if isinstance(law, Ticked) and isinstance(law.process, TraceRate):
        return replace(law, process=_rate_of(law.process, folder))
    return _rate_of(law, folder) if isinstance(law, TraceRate) else law


def length_law(table: Lengths, folder: Path) -> Distribution:
    """The law of a table, its trace read if it is of one."""
    law = table.law
    return Sample(_columns(law, folder)[law.column]) if isinstance(law, Empirical) else law


def _rate_of(law: TraceRate, folder: Path) -> Process:
    rows = _rows(law.path, law.format, folder)
    if not rows.timed:
        said = f"{rows.format} has no times; must be a trace that has them"
        raise ScenarioError(f"workload.arrivals.path = {show(law.path)}: {said}")
    return law.recorded(rows.arrival_ns)


def _columns(law: Empirical, folder: Path) -> dict[str, Ints]:
    rows = _rows(law.path, law.format, folder)
    return {"prompt": rows.prompt_tokens, "output": rows.output_tokens}


def _rows(path: str, name: str, folder: Path) -> "TraceRows":
    from sim.workload.traces import read_trace

    return read_trace(folder / path, name, settable=None)


def declared(workload: Workload, asked: Traffic) -> Workload:
    """The workload with what is said of all its requests: the bound on outputs, tenant, priority, deadline."""
    count = len(workload)
    if asked.max_tokens is not None:
        workload = replace(workload, max_tokens=np.full(count, asked.max_tokens, dtype=np.int64))
    if asked.priority:
        workload = replace(workload, priority=np.broadcast_to(np.int64(asked.priority), count))
    if asked.tenant:
        workload = replace(workload, tenants=[asked.tenant] * count)
    if asked.deadline_after_ms is not None:
        workload = replace(workload, deadline_ns=workload.arrival_ns + instant_ns(asked.deadline_after_ms))
    return workload


def merged(workloads: Sequence[Workload]) -> Workload:
    """All requests in order of arrival, ties in the order of the workloads and then of their requests."""
    order = np.argsort(np.concatenate([each.arrival_ns for each in workloads]), kind="stable")

    def column(name: str) -> Ints:
        return np.concatenate([getattr(each, name) for each in workloads])[order]

    whole = Workload.of(column("arrival_ns"), column("prompt_tokens"), column("output_tokens"))
    tenants = None
    if any(each.tenants is not None for each in workloads):
        names = [each.tenants[0] if each.tenants else "" for each in workloads]
        owner = np.repeat(np.arange(len(workloads)), [len(each) for each in workloads])[order]
        tenants = [names[place] for place in owner.tolist()]
    return replace(
        whole,
        max_tokens=column("max_tokens"),
        priority=column("priority"),
        deadline_ns=column("deadline_ns"),
        tenants=tenants,
    )


def reads_files(asked: Asked) -> bool:
    """Whether the requests depend on more than the scenario."""
    tables = [getattr(each, name) for each in (asked, *(asked.classes or ())) for name in LAWS]
    return any(getattr(table, "path", None) is not None for table in tables if isinstance(table, (Arrivals, Lengths)))
