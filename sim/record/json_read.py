"""Reading the result JSON, one that somebody else may have written: strictly, and back to the tables of a record."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim import names
from sim import scenario as scenarios
from sim.clock import instant_ns
from sim.errors import ResultError, ScenarioError
from sim.files import looks_like_utf16, not_utf8, open_regular
from sim.policies.presets import resolve
from sim.record.json_said import said_by_trace
from sim.record.json_shape import Event, Run, check_version, shaped
from sim.record.json_tables import record_of
from sim.record.result import Result
from sim.request import NEVER, Ints, Workload, default_id
from sim.scenario import Scenario
from sim.show import escape, show, show_path
from sim.workload.build import of_requests, plan_of
from sim.workload.generate import declared, generate
from sim.workload.sending import is_sent_by_clients, kept, met, rows_of

MAX_BYTES = 2**30
"""Largest result file that is read. More belongs into a folder of tables."""


def read_document(path: Path) -> dict[str, Any]:
    """The JSON of a result, its numbers int or exact Decimal. ``ResultError``: it can't be read, or is no result."""
    label = show_path(path)
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except ScenarioError as error:
        raise ResultError(*error.args) from None
    except OSError as error:
        raise ResultError(f"{label}: can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ResultError(f"{label}: larger than {MAX_BYTES // 2**20} MiB; read the folder of tables instead")
    try:
        document = strict_json(data)
        check_version(document)
    except ResultError as error:
        raise ResultError(*(f"{label}: {line}" for line in error.args)) from None
    return dict(document)


def strict_json(data: bytes) -> Any:
    """JSON in UTF-8, floats as Decimal; no NaN, no key twice in an object. ``ResultError`` without a path."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ResultError(not_utf8(error.start) + looks_like_utf16(data[:4])) from None
    try:
        return json.loads(text, parse_float=_decimal, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ResultError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ResultError("nested too deeply") from None
    except ValueError:  # the one way left: Python refuses to read an integer of more than 4,300 digits
        raise ResultError("an integer of thousands of digits") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ResultError(f"{text[:40]}: not a number that a result may hold") from None


def _refuse_constant(text: str) -> None:
    raise ResultError(f"{text}: not a number that JSON has")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ResultError(f"the key {show(twice)} stands twice in one object")
    return table


class Contradiction(NamedTuple):
    """Something that no record can say: which rule it breaks, where, what should be there and what is."""

    rule: str
    where: str
    expected: str | int
    found: str | int


def contradictions(run: Run, scenario: Scenario) -> Iterator[Contradiction]:
    """What keeps a run from being read as tables: unknown ids, requests that are in a job twice, and more."""
    samples = {request.id: request.samples for request in scenario.workload.requests or ()}
    samples |= {row.id: row.asked.samples for row in run.requests if row.asked.samples != 1}
    known = Counter(request.id for request in run.requests)
    for id_, times in known.items():
        if times > 1:
            yield Contradiction("ids are unique", f"request {escape(id_)}", 1, times)
    for place, event in enumerate(run.events):
        where = f"job {place}"
        if event.job != place:
            yield Contradiction("jobs are numbered from 0 without a gap", where, place, event.job)
        yield from _listed(event, where, known)
        for item in event.scheduled:
            due = samples.get(item.id.rpartition("~")[0] if item.id not in samples else item.id, 1)
            if item.tokens < 1 or (item.phase == "decode" and item.tokens != due):
                at, wanted = f"{where}, request {escape(item.id)}", due if item.phase == "decode" else "at least 1"
                yield Contradiction("every scheduled item has tokens, a decode one a sample", at, wanted, item.tokens)
        if ("swapped" in event.model_fields_set) != (event.kind == "swap"):
            at, wanted = f"{where}, swapped", "a list" if event.kind == "swap" else "none"
            yield Contradiction("swap jobs list what they copy", at, wanted, len(event.swapped))


def _listed(event: Event, where: str, known: Mapping[str, int]) -> Iterator[Contradiction]:
    lists = {
        "scheduled": [item.id for item in event.scheduled],
        "preempted": event.preempted,
        "waiting": event.waiting,
        "running": event.running,
        "swapped": [copy.id for copy in event.swapped],
    }
    for name, ids in lists.items():
        for id_, times in Counter(ids).items():
            at = f"{where}, {name}, request {escape(id_)}"
            if id_ not in known:
                yield Contradiction("every id is that of a request", at, "a request of the run", "none")
            if times > 1:
                yield Contradiction("no request twice in a job", at, 1, times)
    for id_ in sorted(set(event.waiting) & set(event.running)):
        yield Contradiction("no request twice in a job", f"{where}, waiting and running, request {escape(id_)}", 1, 2)


def runs_of(document: Mapping[str, Any]) -> list[Result]:
    """Every run of a document as a result whose ``to_dict()`` says the same. ``ResultError``: it is no result.

    What is recomputed from the record (metrics, summary) is not compared with what the document claims:
    ``sim.analysis.verify`` does that.
    """
    read = shaped(document)
    base = scenario_of(read.scenario)
    return [_result(document, run, base, f"runs[{place}]") for place, run in enumerate(read.runs)]


def scenario_of(document: Mapping[str, Any]) -> Scenario:
    """The scenario that a result holds. ``ResultError`` when it is none."""
    try:
        return scenarios.load(document, known=names.known())
    except ScenarioError as error:
        raise ResultError(*(_perhaps_own(str(line)) for line in error.args)) from None


def _perhaps_own(line: str) -> str:
    """What a result was made with, it once knew: a name that is unknown now was a plug-in's."""
    return f"{line}; a plug-in's? give it with --plugin FILE" if ": unknown; one of " in line else line


def scenarios_of_run(base: Scenario, name: str, policy: str) -> list[Scenario]:
    """What a run of this name may have run: the variant of this name, or ``base`` under the policy of this name."""
    found = []
    try:
        if name in [variant.name for variant in base.run.variants or ()]:
            variant = base.variant(name)
            found += [variant] if variant.scheduler.policy == policy else []
        if name == policy:
            found.append(base.with_overrides({"scheduler.policy": policy}))
    except ScenarioError:  # such a policy, or such a variant, can't be run
        pass
    return found


def workload_of(run: Run, scenario: Scenario) -> Workload:
    """The workload as the run's rows show it; what they do not show is the scenario's (a trace has no more)."""
    asked, stated = scenario.workload.requests, scenario.workload.stated
    if stated is not None and stated != len(run.requests):
        raise ResultError(f"{len(run.requests)} requests; the scenario has {stated}")
    rows, ids = run.requests, [row.id for row in run.requests]
    arrival_ns = _column(row.arrival_ms for row in rows)
    prompt_tokens = np.array([row.prompt_tokens for row in rows], dtype=np.int64)
    output_tokens = np.array([row.output_tokens for row in rows], dtype=np.int64)
    whole = asked is not None and len(asked) == len(rows)
    base = of_requests(asked) if asked and whole else Workload.of(arrival_ns, prompt_tokens, output_tokens)
    if scenario.workload.trace is not None:
        base = replace(base, **said_by_trace(run, output_tokens))
    if scenario.workload.classes is not None:  # which of them a request belongs to is not shown
        base = _generated(scenario)
    shown = replace(
        base,
        arrival_ns=arrival_ns,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        ids=None if all(id_ == default_id(index) for index, id_ in enumerate(ids)) else ids,
    )
    shown = declared(shown, scenario.workload)
    return _sent(run, shown, scenario) if is_sent_by_clients(scenario.workload) else shown


def _sent(run: Run, shown: Workload, scenario: Scenario) -> Workload:
    """With what the scenario says of its clients, and when they gave up, which follows from when tokens came."""
    plan = plan_of(scenario, shown)
    rows = rows_of(plan, shown.all_ids())
    if len(rows) != len(shown):
        raise ResultError(f"{len(shown)} requests; the scenario has {len(rows)}")
    plan = replace(
        kept(plan, rows), prompt_tokens=shown.prompt_tokens, output_tokens=shown.output_tokens, ids=shown.ids
    )
    first_token_ns = _column(row.first_token_ms for row in run.requests)
    rejected = np.array([row.status == "rejected" for row in run.requests], dtype=bool)
    horizon_ms = scenario.run.horizon_ms
    horizon_ns = None if horizon_ms is None else instant_ns(horizon_ms)
    return met(plan, shown.arrival_ns, first_token_ns, rejected, horizon_ns)


def _column(times: Iterable[int | None]) -> Ints:
    return np.array([NEVER if ns is None else ns for ns in times], dtype=np.int64)


def _generated(scenario: Scenario) -> Workload:
    try:
        return generate(scenario.workload, scenario.run.seed, scenario.folder)
    except ScenarioError as error:
        raise ResultError(*error.args) from None


def _result(document: Mapping[str, Any], run: Run, base: Scenario, where: str) -> Result:
    candidates = scenarios_of_run(base, run.name, run.policy)
    broken = contradictions(run, candidates[0] if candidates else base)
    found = [f"{where}: {c.where}: {c.rule}: expected {c.expected}, found {c.found}" for c in broken]
    if not candidates:
        found.append(f"{where}: name = {show(run.name)}, policy = {show(run.policy)}: the scenario has no such run")
    if found:
        raise ResultError(*found[:20], *([f"and {len(found) - 20} more"] if len(found) > 20 else []))
    try:
        workload = workload_of(run, candidates[0])
    except ResultError as error:
        raise ResultError(f"{where}.requests: {error}") from None
    return Result(
        name=run.name,
        policy=run.policy,
        scenario=base.document,
        resolved=_resolved(candidates[0], run),
        settings=run.settings,
        provenance=document["provenance"],
        record=record_of(run, workload, candidates[0], resolve(candidates[0])),
        work=run.work,
        incomplete=run.incomplete,
    )


def _resolved(scenario: Scenario, run: Run) -> dict[str, Any]:
    """The complete document of one run, from the settings that it records."""
    document = scenario.document
    tables: dict[str, dict[str, Any]] = {"device": {}, "kv": {}, "scheduler": {}}
    for key, value in run.settings.items():
        table, _, name = key.partition(".")
        if table in tables and value is not None:
            tables[table][name] = value
    if scenario.ledger is not None:  # they follow from memory_gib and [model]
        tables["kv"].pop("blocks", None)
        tables["kv"].pop("bytes_per_token", None)
    written = {key: value for key, value in document.get("run", {}).items() if key not in ("policies", "variants")}
    variant = [] if run.name == run.policy else [{"name": run.name, "set": {}}]
    return (
        document
        | {table: values for table, values in tables.items() if values}
        | {"run": {"seed": scenario.run.seed, **written, **({"variants": variant} if variant else {})}}
    )
