"""Results on disk: one JSON file with all runs, or a folder with a folder of Parquet tables for each run."""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.record import json_form, parquet_form, store

if TYPE_CHECKING:
    from sim.record.result import Result

JSON_TOKENS = 100_000
"""Up to so many tokens in all, a folder holds the JSON as well."""

RUN_SCHEMA = "headway.run/1"
RUNS_SCHEMA = "headway.runs/1"


def is_json(path: str | PathLike[str]) -> bool:
    """Whether a result at ``path`` is one JSON file."""
    return str(path).endswith(".json")


def check_writable(path: str | PathLike[str]) -> None:
    """Refuse at once what :func:`save_all` would refuse at the end. ``OutputError``."""
    if is_json(path):
        store.check_writable(Path(path), "file", ours=store.begins_with_schema("headway.result/"))
    else:
        store.check_writable(Path(path), "folder")


def save_all(results: Sequence["Result"], path: str | PathLike[str]) -> None:
    """All runs of one scenario: a JSON file, or ``DIR/<run>/`` and (few tokens) ``DIR/result.json``."""
    if is_json(path):
        _save_json(results, Path(path))
        return
    with store.folder(Path(path)) as folder:
        for result in results:
            _save_tables(result, folder, f"{result.name}/")
        tokens = sum(int(result.requests["emitted_tokens"].sum()) for result in results)
        if tokens <= JSON_TOKENS:
            folder.write("result.json", _json(results))
        folder.write("runs.json", [_object({"schema": RUNS_SCHEMA, "runs": [result.name for result in results]})])


def save_run(result: "Result", path: str | PathLike[str]) -> None:
    """One run: a JSON file, or one folder of tables."""
    if is_json(path):
        _save_json([result], Path(path))
        return
    with store.folder(Path(path)) as folder:
        _save_tables(result, folder, "")


def _save_json(results: Sequence["Result"], path: Path) -> None:
    store.write_file(path, _json(results), ours=store.begins_with_schema("headway.result/"))


def _save_tables(result: "Result", folder: store.Folder, prefix: str) -> None:
    import tomli_w

    for name, parts in parquet_form.tables(result):
        with folder.open(f"{prefix}{name}.parquet") as file:
            parquet_form.write(parts, file)
    summary = {
        "schema": RUN_SCHEMA,
        **json_form.heading(result),
        "provenance": result.provenance,
        "summary": json_form.summary(result.summary),
        "work": result.work,
    }
    folder.write(f"{prefix}summary.json", [_object(summary)])
    folder.write(f"{prefix}scenario.toml", [tomli_w.dumps(result.resolved).encode()])
    folder.write(f"{prefix}as-read.toml", [tomli_w.dumps(result.scenario).encode()])


def _json(results: Sequence["Result"]) -> Iterator[bytes]:
    for piece in json_form.text(json_form.document(results)):
        yield piece.encode()
    yield b"\n"


def _object(value: Mapping[str, Any]) -> bytes:
    return "".join([*json_form.text(value, levels=2), "\n"]).encode()
