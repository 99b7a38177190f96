"""Results from disk, in every form in which they are written."""

import json
import tomllib
from collections.abc import Callable
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from sim.errors import ResultError
from sim.record import parquet_form, store
from sim.record.result import Result
from sim.record.write import RUN_SCHEMA, RUNS_SCHEMA

Open = Callable[[str], BinaryIO]


def open_result(path: str | PathLike[str]) -> Result:
    """The one run in a JSON file or a run's folder. ``ResultError`` when it holds several, or can't be read."""
    results = open_results(path)
    if len(results) != 1:
        names = ", ".join(result.name for result in results)
        raise ResultError(f"{path}: holds {len(results)} runs ({names}); open_results reads them all")
    return results[0]


def open_results(path: str | PathLike[str]) -> list[Result]:
    """All runs in a JSON file, a folder of runs, or one run's folder, in the order in which they were run.

    What is there is taken as it stands; whether it is consistent, ``sim.analysis.verify`` finds out. ``ResultError``:
    it can't be read as a result.
    """
    place = Path(path)
    if not place.is_dir() and (place.exists() or place.suffix == ".json"):
        from sim.record.json_read import read_document, runs_of

        return runs_of(read_document(place))
    with store.reading(place) as open_file:
        return [read_run(open_file, prefix) for prefix in _runs(open_file)]


def read_run(open_file: Open, prefix: str) -> Result:
    """One run of a folder, whose files' names begin with ``prefix``."""
    summary = _json(open_file, f"{prefix}summary.json", RUN_SCHEMA)
    columns = {}
    for name in parquet_form.TABLES:
        with open_file(f"{prefix}{name}.parquet") as file:
            columns[name] = parquet_form.read(name, file)
    try:
        heading = {key: summary[key] for key in ("name", "policy", "settings", "provenance", "work")}
    except KeyError as error:
        raise ResultError(f"{prefix}summary.json: there is no {error}") from None
    return Result(
        **heading,
        incomplete=summary.get("incomplete"),
        scenario=_toml(open_file, f"{prefix}as-read.toml"),
        resolved=_toml(open_file, f"{prefix}scenario.toml"),
        record=parquet_form.record_of(columns, heading["settings"].get("kv.block_tokens") or 0),
    )


def _runs(open_file: Open) -> list[str]:
    """The prefixes of a folder's runs: several below it, or itself the one."""
    try:
        with open_file("summary.json"):
            return [""]
    except ResultError:
        runs = _json(open_file, "runs.json", RUNS_SCHEMA).get("runs")
    if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
        raise ResultError("runs.json: runs is no list of names")
    return [f"{run}/" for run in runs]


def _json(open_file: Open, name: str, schema: str) -> dict[str, Any]:
    with open_file(name) as file:
        try:
            document = json.load(file, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise ResultError(f"{name}: no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, dict) else document
        raise ResultError(f"{name}: schema is {found!r}; this version reads {schema!r}")
    return document


def _toml(open_file: Open, name: str) -> dict[str, Any]:
    with open_file(name) as file:
        try:
            return tomllib.loads(file.read().decode(), parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise ResultError(f"{name}: no TOML: {error}") from None
