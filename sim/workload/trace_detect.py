"""Which format a trace has, by its first lines."""

from collections.abc import Sequence
from typing import Any

from sim.errors import ScenarioError
from sim.files import looks_like_utf16
from sim.show import show
from sim.workload.trace_csv import split_header
from sim.workload.trace_file import TraceFile
from sim.workload.trace_formats import FORMATS
from sim.workload.trace_jsonl import parse
from sim.workload.trace_layout import CSV, JSONL, Layout
from sim.workload.trace_parquet import MAGIC
from sim.workload.trace_values import BadValueError

LOOKED_AT = 100
"""Rows of a file that are looked at."""

HINT = "say which with workload.trace.format (or --format)"


def detect(file: TraceFile, *, columns_given: bool) -> str:
    """The one format that the start of the file fits. ``columns_given``: the scenario says what its columns are.

    ``ScenarioError``: it fits none, or several.
    """
    start = file.start()
    if start.startswith(MAGIC):
        return "parquet"
    if seems := looks_like_utf16(start):
        raise file.error(f"not UTF-8{seems}; must be UTF-8")
    text = start.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line for line in text.replace("\r\n", "\n").split("\n")[:LOOKED_AT] if line.strip()]
    first = lines[0].lstrip() if lines else ""
    if not first:
        raise file.error("no header; empty, or blank lines only")
    if first.startswith("["):
        return "sharegpt" if '"conversations"' in text else _refuse_list(file)
    if first.startswith("{"):
        fits = _of_objects(lines)
        return _one(file, ["jsonl"] if columns_given and not fits else fits, "keys", _keys(first))
    if "\r" in first:
        raise file.error("lines end with CR only; must be LF or CRLF")
    header = split_header(lines[0])
    fits = [name for name, layout in FORMATS.items() if _is(layout, CSV, header)]
    return _one(file, ["csv"] if columns_given and not fits else fits, "columns", header)


def _is(layout: Layout, container: str, found: Sequence[str]) -> bool:
    """Whether a file with these columns or keys may have this format."""
    return layout.container == container and bool(layout.marks) and set(layout.marks) <= set(found)


def _refuse_list(file: TraceFile) -> str:
    raise file.error("a JSON list; must be JSON lines, one object a line (or a list of conversations)")


def _one(file: TraceFile, fits: list[str], kind: str, found: Sequence[str]) -> str:
    if len(fits) == 1:
        return fits[0]
    shown = show(",".join(found))
    if fits:
        raise ScenarioError(f"{file.label} (line 1): {kind} = {shown}: may be {' or '.join(fits)}; {HINT}")
    near = max(FORMATS, key=lambda name: len(set(FORMATS[name].marks) & set(found)))
    layout, count = FORMATS[near], len(set(FORMATS[near].marks) & set(found))
    missing = ", ".join(name for name in layout.marks if name not in found)
    most = f"; nearest {near}, where {missing} is missing" if count and missing else ""
    if len(found) == 1 and kind == "columns":
        most = "; 1 column" + next((f", separated by {n}" for c, n in SEPARATORS if c in found[0]), "")
    raise ScenarioError(f"{file.label} (line 1): {kind} = {shown}: no format has these{most}; {HINT}: "
                        f"{', '.join(FORMATS)}")  # fmt: skip


SEPARATORS = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))


def _keys(line: str) -> list[str]:
    row = _object(line)
    return list(row) if row is not None else [line[:40]]


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = parse(line)
    except BadValueError:
        return None
    return row if isinstance(row, dict) else None


def _of_objects(lines: list[str]) -> list[str]:
    rows = [row for line in lines if (row := _object(line)) is not None]
    if not rows:
        return []
    first = rows[0]
    fits = [name for name, layout in FORMATS.items() if _is(layout, JSONL, list(first))]
    if "conversations" in first:
        return ["sharegpt"]
    if isinstance(first.get("hash_ids"), dict):
        return ["ragpulse"]
    if "bailian" in fits:
        return ["bailian"]
    if {"mooncake", "timed_trace"} <= {*fits}:
        return [name for name in ("mooncake", "timed_trace") if _fit(rows, FORMATS[name].block_tokens or 1)]
    return fits


def _fit(rows: list[dict[str, Any]], block_tokens: int) -> bool:
    """Whether every row that has ids has as many as blocks of this size."""
    pairs = [(row.get("hash_ids"), row.get("input_length")) for row in rows]
    return all(
        len(ids) in (tokens // block_tokens, -(-tokens // block_tokens))
        for ids, tokens in pairs
        if isinstance(ids, list) and ids and type(tokens) is int
    )
