"""A folder of tables as claims: what each of its files says about a run."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sim.analysis import checks_origin as origin
from sim.analysis.checking import WORKLOAD, belonging, check_claims, check_document, workload_differs
from sim.analysis.claims import COLUMNS, Claims
from sim.analysis.findings import Difference, Report
from sim.errors import ResultError
from sim.policies.presets import resolve
from sim.record import parquet_form, store
from sim.record.json_read import scenario_of, scenarios_of_run, strict_json
from sim.record.json_shape import Heading, shaped_heading
from sim.record.write import RUN_SCHEMA, RUNS_SCHEMA
from sim.scenario import Scenario
from sim.show import escape, show
from sim.simulation import settings
from sim.workload.sending import kept, rows_of

Open = Callable[[str], BinaryIO]


def check_folder(path: Path, report: Report) -> None:
    """Enter all that is to say about a folder of runs, or one run's folder. ``ResultError``: it is no result."""
    with store.reading(path) as open_file:
        runs = _runs(open_file)
        for prefix in runs:
            _check_run(open_file, prefix, report)
        if runs != [""]:
            _check_json(open_file, report)
    problems = store.manifest_problems(path)
    report.run("files are those of the manifest", (Difference(p, "as in the manifest", "changed") for p in problems))


def _runs(open_file: Open) -> list[str]:
    """What the names of each run's files begin with."""
    try:
        with open_file("summary.json"):
            return [""]
    except ResultError:
        index = _json(open_file, "runs.json", RUNS_SCHEMA)
    names = index.get("runs")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ResultError("runs.json: runs: not a list of names")
    return [f"{name}/" for name in names]


def _check_json(open_file: Open, report: Report) -> None:
    """The JSON beside the folders, if there is one."""
    try:
        file = open_file("result.json")
    except ResultError:
        return
    with file:
        document = strict_json(file.read())
    check_document(document, report, "result.json: ")


def _check_run(open_file: Open, prefix: str, report: Report) -> None:
    heading = shaped_heading(_json(open_file, f"{prefix}summary.json", RUN_SCHEMA), f"{prefix}summary.json")
    tables = {}
    for name in parquet_form.TABLES:
        with open_file(f"{prefix}{name}.parquet") as file:
            tables[name] = parquet_form.read(name, file)
    record = parquet_form.record_of(tables, _block_tokens(heading))
    where = f"{escape(prefix)} " if prefix else ""
    scenario = belonging(heading, _toml(open_file, f"{prefix}as-read.toml"), where, report)
    if scenario is None or not report.run(WORKLOAD, workload_differs(scenario, record.workload.all_ids()), where):
        return
    asked = origin.plan(scenario, record.workload)
    if asked is not None and asked.sending is not None:
        sending = kept(asked, rows_of(asked, record.workload.all_ids())).sending
        record = replace(record, workload=replace(record.workload, sending=sending))
    claims = Claims(
        where=where,
        settings=heading.settings,
        scenario=scenario,
        choice=resolve(scenario),
        asked=asked,
        provenance=heading.provenance,
        record=record,
        columns={name: _column(prefix, tables["requests"], name) for name in COLUMNS},
        finish_reasons=_texts(prefix, tables["requests"], len(record.workload)),
        summary=heading.summary,
    )
    check_claims(claims, report)
    resolved = _toml(open_file, f"{prefix}scenario.toml")
    report.run("scenario.toml runs again to the same", _resolved(resolved, heading, claims), where)


def _resolved(resolved: Scenario, heading: Heading, claims: Claims) -> Iterator[Difference]:
    """The complete scenario beside the tables gives the same settings and the same requests."""
    candidates = scenarios_of_run(resolved, heading.name, heading.policy)
    if not candidates:
        yield Difference("scenario.toml", f"a run {show(heading.name)} of {show(heading.policy)}", "none")
        return
    if resolved.scheduler.policy != heading.policy:
        yield Difference("scenario.toml, scheduler.policy", show(heading.policy), show(resolved.scheduler.policy))
    scenario = candidates[0]
    for difference in origin.compare_settings(settings(scenario, resolve(scenario)), claims.settings):
        yield difference._replace(where=f"scenario.toml, {difference.where}")
    record = claims.record.workload
    asked = origin.plan(scenario, record)
    if asked is not None and asked.sending is not None and claims.asked is not None:
        record = claims.asked  # what the run made of it is not in the scenario
    if (asked is None) != (claims.asked is None) or (asked is not None and asked.sha256() != record.sha256()):
        yield Difference("scenario.toml, workload", "that of the record", "another")


def _block_tokens(heading: Heading) -> int:
    """Those of the pool, 0 without one; whether they are those of the scenario, the check of the settings sees."""
    block_tokens = heading.settings.get("kv.block_tokens")
    return block_tokens if isinstance(block_tokens, int) and block_tokens > 0 else 0


def _column(prefix: str, columns: Mapping[str, Any], name: str) -> Any:
    column = columns.get(name)
    if not isinstance(column, np.ndarray):
        raise ResultError(f"{prefix}requests.parquet: there is no column {name} of whole numbers")
    return column


def _texts(prefix: str, columns: Mapping[str, Any], rows: int) -> list[str | None]:
    texts = columns.get("finish_reason")
    if not isinstance(texts, list) or len(texts) != rows:
        raise ResultError(f"{prefix}requests.parquet: there is no column finish_reason of texts")
    return texts


def _json(open_file: Open, name: str, schema: str) -> dict[str, Any]:
    with open_file(name) as file:
        try:
            document = strict_json(file.read())
        except ResultError as error:
            raise ResultError(f"{name}: {error}") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise ResultError(f'{name}: no schema; this version of Headway reads "{schema}"')
    if document["schema"] != schema:
        raise ResultError(f'{name}: schema = {show(document["schema"])}: this version of Headway reads "{schema}"')
    return document


def _toml(open_file: Open, name: str) -> Scenario:
    with open_file(name) as file:
        try:
            return scenario_of(tomllib.loads(file.read().decode(), parse_float=Decimal))
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise ResultError(f"{name}: not TOML: {error}") from None
        except ResultError as error:
            raise ResultError(*(f"{name}: {line}" for line in error.args)) from None
