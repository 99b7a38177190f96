"""The record's tables as Parquet: snake_case columns, times in ns; what does not exist is null, codes are words."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from sim.engine.plan import Blocked, Kind, Loss
from sim.errors import ResultError
from sim.record.packed import Packed
from sim.record.tables import (
    ADMISSION_COLUMNS,
    COPY_COLUMNS,
    PREEMPTION_COLUMNS,
    REQUEST_COLUMNS,
    ROW_COLUMNS,
    SCHEDULE_COLUMNS,
    Phase,
    Record,
    Table,
)
from sim.request import NEVER, Ints, Pieces, Status, Workload, default_id

if TYPE_CHECKING:
    import pyarrow as pa

    from sim.record.result import Result

TABLES = ("requests", "jobs", "schedule", "admissions", "preemptions", "copies")
COLUMNS = {
    "jobs": ROW_COLUMNS,
    "schedule": SCHEDULE_COLUMNS,
    "admissions": ADMISSION_COLUMNS,
    "preemptions": PREEMPTION_COLUMNS,
    "copies": COPY_COLUMNS,
}
FIELDS = {"jobs": "rows"}
"""The tables whose name in a record is another."""
WORDS: Mapping[str, type[IntEnum]] = {
    "status": Status,
    "kind": Kind,
    "phase": Phase,
    "loss": Loss,
    "blocked": Blocked,
}
"""The columns that hold codes, and what the codes mean."""

ROWS_AT_ONCE = 1 << 15


class Lists(NamedTuple):
    """A column of lists of whole numbers: how many each has, and all of them."""

    counts: Ints
    values: Ints


def tables(result: "Result") -> Iterator[tuple[str, Iterator["pa.Table"]]]:
    """Each table of a run by name, ready to be written: some rows at a time."""
    yield "requests", _requests(result)
    for name, columns in COLUMNS.items():
        table: Table = getattr(result.record, FIELDS.get(name, name))
        yield name, _parts(table, columns)


def write(parts: Iterable["pa.Table"], file: io.RawIOBase) -> None:
    """One table, part by part, into an open file: the same bytes for the same table."""
    import pyarrow.parquet as pq

    writer = None
    for part in parts:
        writer = writer or pq.ParquetWriter(file, part.schema, compression="zstd", use_dictionary=_words(part))
        writer.write_table(part)
    if writer is not None:
        writer.close()


def _words(part: "pa.Table") -> list[str]:
    return [name for name in part.column_names if name in WORDS or name == "finish_reason"]


def _parts(table: Table, columns: Sequence[str]) -> Iterator["pa.Table"]:
    rows = len(table[columns[0]])
    for start in range(0, max(rows, 1), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        part = table.part(some) if isinstance(table, Packed) else {name: table[name][some] for name in columns}
        yield _arrow({name: part[name] for name in columns})


def read(name: str, file: BinaryIO) -> dict[str, Any]:
    """The columns of a table: int64 arrays (:data:`NEVER` for null), lists of str or None for texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file).read()
        return {column: _plain(name, column, table[column].combine_chunks()) for column in table.column_names}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ResultError(f"{name}.parquet: can't be read: {error}") from error


def record_of(columns: Mapping[str, Mapping[str, Any]], block_tokens: int) -> Record:
    """The record from the columns of all tables; ``block_tokens`` of the pool, 0 without one.

    ``ResultError`` when a column is missing or of the wrong type.
    """
    requests = columns["requests"]
    workload_names = [name for name, _ in Workload.empty().columns()]
    numbers = _take("requests", requests, (*workload_names, *REQUEST_COLUMNS))
    texts = {
        name: _texts(requests, name, len(numbers["status"])) for name in ("id", "tenant", "prefix_group", "reason")
    }
    columns_of_workload: dict[str, Any] = {name: numbers[name] for name in workload_names}
    workload = Workload(
        **columns_of_workload,
        ids=_ids([text or "" for text in texts["id"]]),
        tenants=[text or "" for text in texts["tenant"]] if any(texts["tenant"]) else None,
        prefix_groups=[text or "" for text in texts["prefix_group"]] if any(texts["prefix_group"]) else None,
        sending=None,  # the tables tell what came of it; the scenario has it
        pieces=_pieces(requests, len(numbers["status"])) if "piece_ids" in requests else None,
    )
    return Record(
        workload=workload,
        requests={name: numbers[name] for name in REQUEST_COLUMNS},
        reasons={index: text for index, text in enumerate(texts["reason"]) if text is not None},
        **{FIELDS.get(name, name): _take(name, columns[name], wanted) for name, wanted in COLUMNS.items()},
        block_tokens=block_tokens,
    )


def _pieces(columns: Mapping[str, Any], rows: int) -> Pieces:
    ids, tokens = columns["piece_ids"], columns.get("piece_tokens")
    if not isinstance(ids, Lists) or not isinstance(tokens, Lists) or len(ids.counts) != rows:
        raise ResultError("requests.parquet: piece_ids and piece_tokens are no lists of whole numbers, one a request")
    if not np.array_equal(ids.counts, tokens.counts) or (tokens.values < 0).any() or (ids.values < 0).any():
        raise ResultError("requests.parquet: piece_ids and piece_tokens do not belong together")
    return Pieces.of(ids.counts, ids.values, tokens.values)


def _ids(texts: list[str]) -> list[str] | None:
    """None for the default names, as the workload has it."""
    return None if all(text == default_id(index) for index, text in enumerate(texts)) else texts


def _requests(result: "Result") -> Iterator["pa.Table"]:
    workload, columns = result.record.workload, result.requests
    reasons, finish = result.record.reasons, np.array([None, "stop", "length"], dtype=object)
    for start in range(0, max(len(workload), 1), ROWS_AT_ONCE):
        some = range(start, min(start + ROWS_AT_ONCE, len(workload)))
        yield _arrow(
            {
                "id": [workload.id(index) for index in some],
                "tenant": [""] * len(some) if workload.tenants is None else [workload.tenants[i] for i in some],
                "prefix_group": [""] * len(some)
                if workload.prefix_groups is None
                else [workload.prefix_groups[index] for index in some],
                **{name: column[some.start : some.stop] for name, column in columns.items()},
                **_lists(workload.pieces, some),
                "reason": [reasons.get(index) for index in some],
                "finish_reason": finish[result.finish_codes[some.start : some.stop]].tolist(),
            }
        )


def _lists(pieces: Pieces | None, some: range) -> dict[str, Lists]:
    """What prompts are made of, where anything says so."""
    if pieces is None:
        return {}
    part = slice(int(pieces.offsets[some.start]), int(pieces.offsets[some.stop]))
    counts = pieces.counts[some.start : some.stop]
    return {"piece_ids": Lists(counts, pieces.ids[part]), "piece_tokens": Lists(counts, pieces.tokens[part])}


def _arrow(columns: Mapping[str, Any]) -> "pa.Table":
    import pyarrow as pa

    def column(name: str, values: Any) -> Any:
        if isinstance(values, Lists):
            offsets = np.concatenate(([0], np.cumsum(values.counts))).astype(np.int32)
            return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.values, pa.int64()))
        if not isinstance(values, np.ndarray):
            return pa.array(values, pa.string())
        if name in WORDS:
            words = [word.name.lower() for word in WORDS[name]]
            return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int8)), pa.array(words))
        absent = (
            values == NEVER
            if name.endswith("_ns") or name in ("place", "arrived_job", "ended_job", "parent", "free_blocks", "grows")
            else None
        )
        return pa.array(values, pa.int64(), mask=absent)

    return pa.table({name: column(name, values) for name, values in columns.items()})


def _plain(table: str, name: str, column: Any) -> "Ints | list[str | None] | Lists":
    import pyarrow as pa

    if pa.types.is_list(column.type) and pa.types.is_int64(column.type.value_type) and not column.null_count:
        counts = column.value_lengths().to_numpy(zero_copy_only=False)
        values = column.flatten().fill_null(NEVER).to_numpy(zero_copy_only=False)
        return Lists(np.asarray(counts, dtype=np.int64), np.asarray(values, dtype=np.int64))
    if name in WORDS:
        return _codes(table, name, column)
    if pa.types.is_string(column.type):
        texts: list[str | None] = column.to_pylist()
        return texts
    if not pa.types.is_int64(column.type):
        raise ResultError(f"{table}.parquet: {name} is of type {column.type}, expected int64")
    return np.asarray(column.fill_null(NEVER).to_numpy(), dtype=np.int64)


def _codes(table: str, name: str, column: Any) -> Ints:
    """A column of words as their codes."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        raise ResultError(f"{table}.parquet: {name} is of type {column.type}, expected a dictionary of words")
    codes = {word.name.lower(): word.value for word in WORDS[name]}
    unknown = [word for word in column.dictionary.to_pylist() if word not in codes]
    if unknown or column.null_count:
        found = repr(unknown[0]) if unknown else "nothing in some rows"
        raise ResultError(f"{table}.parquet: {name} holds {found}; known are {', '.join(codes)}")
    meaning = np.array([codes[word] for word in column.dictionary.to_pylist()], dtype=np.int64)
    return np.asarray(meaning[column.indices.to_numpy()], dtype=np.int64)


def _take(table: str, columns: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Ints]:
    for name in names:
        if not isinstance(columns.get(name), np.ndarray):
            raise ResultError(f"{table}.parquet: there is no column {name} of whole numbers")
    return {name: columns[name] for name in names}


def _texts(columns: Mapping[str, Any], name: str, rows: int) -> list[str | None]:
    texts = columns.get(name)
    if not isinstance(texts, list) or len(texts) != rows:
        raise ResultError(f"requests.parquet: there is no column {name} of texts")
    return texts
