"""The names in the file of a trace: of the columns in its header or schema, or of the keys of its first object."""

from pathlib import Path

from sim.errors import ScenarioError
from sim.files import open_regular
from sim.workload.trace_csv import split_header
from sim.workload.trace_file import TraceFile
from sim.workload.trace_jsonl import MAX_LINE, parse
from sim.workload.trace_layout import CSV, PARQUET, Layout
from sim.workload.trace_values import BadValueError


def names_in(path: Path, layout: Layout) -> tuple[str, ...]:
    """Nothing where they can't be read: what is wrong is said when the rows are."""
    try:
        if layout.container == PARQUET:
            return _of_parquet(path)
        with TraceFile(path, "", MAX_LINE) as file:
            first = next((line for line in file.lines() if line.strip()), "")
    except ScenarioError:
        return ()
    if layout.container == CSV:
        return tuple(split_header(first))
    try:
        row = parse(first)
    except BadValueError:
        return ()
    return tuple(row) if isinstance(row, dict) else ()


def _of_parquet(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file:
            schema = pq.read_schema(file)
    except (pa.ArrowException, OSError, ValueError):
        return ()
    return tuple(schema.names)
