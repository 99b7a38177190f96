"""Does the run belong to its scenario: settings, seed, and the requests that were asked for?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.claims import Claims
from sim.analysis.exact import whole_ns
from sim.analysis.findings import Difference, Value
from sim.names import brought
from sim.request import NEVER, Ints, Workload
from sim.scenario import Request, Scenario
from sim.show import show
from sim.simulation import settings
from sim.workload.generate import generate, reads_files
from sim.workload.sending import is_sent_by_clients, kept, planned, rows_of, without_attempts


def settings_differ(claims: Claims) -> Iterator[Difference]:
    """The settings recorded against those that the scenario gives this policy, worked out anew."""
    yield from compare_settings(settings(claims.scenario, claims.choice), claims.settings)


def compare_settings(due: dict[str, Any], found: Any) -> Iterator[Difference]:
    for key in [*due, *(key for key in found if key not in due)]:
        if key not in found:
            yield Difference(f"settings, {key}", _text(due[key]), "missing")
        elif key not in due:
            yield Difference(f"settings, {show(key)}", "no such setting", _text(found[key]))
        elif not _same(due[key], found[key]):
            yield Difference(f"settings, {key}", _text(due[key]), _text(found[key]))


def _same(due: Any, found: Any) -> bool:
    numbers = (int, Decimal)
    if type(due) in numbers and type(found) in numbers:
        return bool(due == found)
    return type(due) is type(found) and bool(due == found)


def _text(value: Any) -> Value:
    return value if value is None or type(value) is int else show(value)


def provenance(claims: Claims) -> Iterator[Difference]:
    """The seed is the scenario's; the digests are there that belong there, that of the workload is right."""
    given, scenario = claims.provenance, claims.scenario
    if given is None:
        return
    if given.seed != scenario.run.seed:
        yield Difference("provenance, seed", scenario.run.seed, given.seed)
    is_trace = scenario.workload.trace is not None
    if is_trace != (given.trace_sha256 is not None):
        yield Difference("provenance, traceSha256", "that of the trace" if is_trace else None, given.trace_sha256)
    stated = claims.asked
    if stated is not None and stated.sending is not None:
        digest = stated.sha256()  # that of the requests before the run
    else:
        digest = _digest(claims.record.workload, is_trace=is_trace)
    if given.workload_sha256 != digest:
        yield Difference("provenance, workloadSha256", digest, given.workload_sha256)

    listed = [file.file for file in given.plugins]
    for each in brought(scenario, claims.choice):
        if each.source.name not in listed:
            yield Difference(f"provenance, plugins, of {each.kind} {show(each.name)}", each.source.name, None)


def other_plugins(claims: Claims) -> Iterator[str]:
    """The plug-ins given that are not those that the run was made with."""
    made_with = {} if claims.provenance is None else {file.file: file.sha256 for file in claims.provenance.plugins}
    for each in brought(claims.scenario, claims.choice):
        digest = made_with.get(each.source.name)
        if None not in (digest, each.source.sha256) and digest != each.source.sha256:
            yield f"{each}: not the file that this was made with, which had sha256 {digest}; give that one"


def same_load(first: Scenario, other: Scenario) -> bool:
    """Whether one provenance can be that of both: a JSON has that of its first run."""
    return first.workload == other.workload and first.run.seed == other.run.seed


def _digest(workload: Workload, *, is_trace: bool) -> str:
    """Of what was asked. A trace gives no names; those of its requests are their places."""
    ids = workload.ids
    if is_trace and ids is not None and all(id_ == f"r{place:06d}" for place, id_ in enumerate(ids, 1)):
        workload = replace(workload, ids=None)
    return workload.sha256()


def asked_for(claims: Claims) -> Iterator[Difference]:
    """The requests of the record are those of the scenario, in its order; a trace's are at least as its keys say."""
    record, asked = claims.record.workload, claims.asked
    if claims.scenario.workload.trace is not None:
        yield from _of_trace(claims)
    if asked is None:
        return
    if asked.sending is not None:
        asked = kept(asked, rows_of(asked, record.all_ids()))
        asked = replace(asked, arrival_ns=record.arrival_ns, cancel_ns=record.cancel_ns)  # these, checks_sending knows
    yield from _names_differ(claims, asked)
    found = dict(record.columns())
    for name, due in asked.columns():
        for index in np.flatnonzero(due != found[name]).tolist():
            values = (due[index], found[name][index])
            shown = [_time(v) if name.endswith("_ns") else int(v) for v in values]
            yield Difference(f"{claims.request(index)}, {name.removesuffix('_ns')}", *shown)


def _names_differ(claims: Claims, asked: Workload) -> Iterator[Difference]:
    record = claims.record.workload
    for index in range(len(asked)) if _texts(asked) != _texts(record) else ():
        if asked.id(index) != record.id(index):
            yield Difference(f"requests[{index}], id", show(asked.id(index)), show(record.id(index)))
        for name in ("tenants", "prefix_groups"):
            texts = [_text_at(getattr(workload, name), index) for workload in (asked, record)]
            if texts[0] != texts[1]:
                yield Difference(f"{claims.request(index)}, {name.removesuffix('s')}", *map(show, texts))


def _texts(workload: Workload) -> tuple[Sequence[str] | None, ...]:
    return workload.ids, workload.tenants, workload.prefix_groups


def _text_at(texts: Sequence[str] | None, index: int) -> str:
    return texts[index] if texts else ""


def _time(ns: int) -> Value:
    return None if ns == NEVER else time(ns)


UNSORTED = ("headway", "auto")
"""Formats of which the first request may arrive at any time, and others before it."""


def _of_trace(claims: Claims) -> Iterator[Difference]:
    trace, arrival_ns = claims.scenario.workload.trace, claims.record.workload.arrival_ns
    sending = claims.record.workload.sending
    if sending is not None:
        arrival_ns = arrival_ns[sending.attempt == 0]
    requests = len(arrival_ns)
    if trace is not None and trace.limit is not None and requests > trace.limit * trace.loop:
        yield Difference("requests", f"at most {trace.limit * trace.loop}", requests)
    if trace is None or trace.format in UNSORTED or claims.scenario.workload.arrivals is not None or not requests:
        return
    if arrival_ns[0] != 0:
        yield Difference(f"{claims.request(0)}, arrival", time(0), time(arrival_ns[0]))
    for index in (np.flatnonzero(np.diff(arrival_ns) < 0) + 1).tolist():
        yield Difference(f"{claims.request(index)}, arrival", f"at least {time(arrival_ns[index - 1])}",
                         time(arrival_ns[index]))  # fmt: skip


def plan(scenario: Scenario, found: Workload) -> Workload | None:
    """The workload before the run whose record has ``found``; None when a trace gives it, which is not here."""
    base = asked(scenario)
    if not is_sent_by_clients(scenario.workload):
        return base
    if base is None:
        base = without_attempts(found, retried=scenario.workload.retry is not None)
    return planned(base, scenario.workload, scenario.run.seed)


def asked(scenario: Scenario) -> Workload | None:
    """The workload that the scenario states request by request or generates; None when it takes it from a file."""
    requests = scenario.workload.requests
    if requests is None:
        from_file = scenario.workload.trace is not None or reads_files(scenario.workload)
        return None if from_file else generate(scenario.workload, scenario.run.seed)

    place = {request.id: index for index, request in enumerate(requests)}

    def ints(values: Iterator[int]) -> Ints:
        return np.fromiter(values, dtype=np.int64, count=len(requests))

    def instants(name: str) -> Ints:
        return ints(_instant(request, name) for request in requests)

    def texts(name: str) -> list[str] | None:
        values = [getattr(request, name) for request in requests]
        return values if any(values) else None

    return Workload(
        ids=None if all(id_ == f"r{at:06d}" for at, id_ in enumerate(place, 1)) else list(place),
        tenants=texts("tenant"),
        prefix_groups=texts("prefix_group"),
        arrival_ns=instants("arrival_ms"),
        deadline_ns=instants("deadline_ms"),
        cancel_ns=instants("cancel_ms"),
        prompt_tokens=ints(request.prompt_tokens for request in requests),
        output_tokens=ints(request.output_tokens for request in requests),
        max_tokens=ints(request.max_tokens for request in requests),
        priority=ints(request.priority for request in requests),
        samples=ints(request.samples for request in requests),
        prefix_tokens=ints(request.prefix_tokens for request in requests),
        parent=ints(NEVER if request.parent is None else place[request.parent] for request in requests),
        parent_tokens=ints(request.parent_tokens for request in requests),
    )


def _instant(request: Request, name: str) -> int:
    ms = getattr(request, name)
    return NEVER if ms is None else whole_ns(ms)
