"""Recorded traces as columns of requests. A format is a row in a table (``trace_formats``).

What the options of ``[workload.trace]`` do, in this order: each row of the file is taken or not by ``skip``, ``thin``
and ``window``; rows without tokens are problems or left out (``zero_tokens``); of the others the first ``limit`` are
taken; they are put in order of arrival, ties in the order of the file, and the first arrives at 0; ``loop`` puts copies
behind each other; ``speedup`` divides all times.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np

from sim.complaints import unknown_name
from sim.errors import ScenarioError
from sim.request import NEVER, Ints, Pieces
from sim.show import show
from sim.workload import trace_checks
from sim.workload.own_format import OwnRows
from sim.workload.ragpulse import RagRows
from sim.workload.sharegpt import ConversationRows
from sim.workload.trace_csv import CsvRows
from sim.workload.trace_detect import detect
from sim.workload.trace_file import MAX_LINE, TraceFile
from sim.workload.trace_formats import AUTO, FORMATS
from sim.workload.trace_jsonl import MAX_LINE as MAX_OBJECT
from sim.workload.trace_jsonl import JsonRows
from sim.workload.trace_layout import CONVERSATIONS, CSV, PARQUET, Layout, Names, names_of
from sim.workload.trace_parquet import ParquetRows
from sim.workload.trace_requests import TraceRows, faster, looped
from sim.workload.trace_rows import Columns, Rows, Take, gather, int64
from sim.workload.trace_values import DEFAULTS, NO_TIME, Instants

__all__ = ["Form", "TraceRows", "faster", "read_trace"]


@dataclass(frozen=True)
class Form:
    """What the scenario says of how the file is to be read."""

    format: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    hash_block_tokens: int | None = None


def read_trace(  # noqa: PLR0913 (each is a key of the scenario)
    path: Path,
    format: str = "auto",  # noqa: A002 (the key of the scenario)
    *,
    limit: int | None = None,
    skip: int = 0,
    speedup: Decimal = Decimal(1),
    form: Form | None = None,
    take: Take | None = None,
    loop: int = 1,
    allow_empty: bool = False,
    settable: str | None = "workload.trace.path",
) -> TraceRows:
    """Reads a trace: the rows after the first ``skip``, at most ``limit``, their times divided by ``speedup``.

    ``form`` and ``take`` say all of this and more (see :class:`Form`, :class:`~sim.workload.trace_rows.Take`).
    ``settable``: the key that has the path, if it can be set from outside.
    ``ScenarioError`` lists the first 20 problems of the rows that are used.
    """
    form = form or Form(format)
    take = take or Take(limit, skip)
    if form.format not in (*FORMATS, AUTO):
        known = unknown_name(form.format, [*FORMATS, AUTO])
        raise ScenarioError(f"workload.trace.format = {show(form.format)}: {known}")
    how = "" if settable is None else f": give its path with --set {settable}=FILE"
    name = form.format if form.format != AUTO else _detected(path, form, how)
    layout = FORMATS[name]
    missing = f"; must be {layout.what}{how}"
    with TraceFile(path, missing, MAX_LINE if layout.container == CSV else MAX_OBJECT) as file:
        rows, names = _opened(file, name, form)
        zero = take.zero_tokens if take.zero_tokens != AUTO else layout.zero_tokens
        columns = gather(file, rows, take._replace(zero_tokens=zero))
        named = {**names.columns, **dict(zip(rows.keys, rows.columns, strict=True))}
        trace_checks.check(file, columns, named)
        parents = trace_checks.parents(file, columns, named) if "parent" in columns.texts else None
        file.raise_problems()
        if not columns.taken and not allow_empty:
            raise file.error(_no_rows(columns, take))
        read = _in_order(columns, parents, _Asked(file, name, layout, rows, form))
    return looped(read, loop, speedup)


def _detected(path: Path, form: Form, how: str) -> str:
    with TraceFile(path, f"; must be a trace{how}") as file:
        return detect(file, columns_given=bool(form.columns))


def _opened(file: TraceFile, name: str, form: Form) -> tuple[Rows, Names]:
    layout = FORMATS[name]
    if layout.container == CONVERSATIONS:
        rows = ConversationRows(file)
        return rows, Names(dict(zip(rows.keys, rows.columns, strict=True)), tuple(rows.keys), "s")
    names = names_of(layout, form.columns, form.unit, _found(file, layout))
    clock = Instants(names.unit, from_zero=name == "headway",
                     numbers_as_text=layout.container == CSV or name == "ragpulse")  # fmt: skip
    if layout.container == CSV:
        return CsvRows(file, layout, names, clock), names
    if layout.container == PARQUET:
        return ParquetRows(file, names, clock), names
    kind = {"headway": OwnRows, "ragpulse": RagRows}.get(name, JsonRows)
    return kind(file, names, clock), names


def _found(file: TraceFile, layout: Layout) -> tuple[str, ...] | None:
    """The names in a file of a generic format, for the unit that a name may have at its end."""
    if not layout.generic:
        return None
    from sim.workload.trace_names import names_in

    return names_in(file.path, layout)


@dataclass(frozen=True)
class _Asked:
    """What is known of the file besides its rows."""

    file: TraceFile
    name: str
    layout: Layout
    rows: Rows
    form: Form


def _in_order(columns: Columns, parents: tuple[Ints, int] | None, asked: _Asked) -> TraceRows:
    """The columns in order of arrival (as they stand, where the file is a workload), the first at 0."""
    ints = {key: int64(values) for key, values in columns.ints.items()}
    timed = "arrival" in ints
    time_ns = ints.pop("arrival", np.zeros(columns.taken, dtype=np.int64))
    as_it_stands = asked.name == "headway"
    order = np.arange(columns.taken) if as_it_stands else np.argsort(time_ns, kind="stable")
    first = 0 if as_it_stands or not columns.taken else int(time_ns[order[0]])
    more = {key: values[order] for key, values in ints.items() if key not in ("prompt_tokens", "output_tokens")
            and (values != DEFAULTS[key]).any()}  # fmt: skip
    for key in ("deadline", "cancel"):
        if key in more:
            more[key] = _later(more[key], first, key, asked.file)
    if parents is not None and (parents[0] != NEVER).any():
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        above = parents[0][order]
        more["parent"] = np.where(above == NEVER, NEVER, back[above])
    more.pop("parent_tokens" if "parent" not in more else "", None)
    prompt = ints["prompt_tokens"]
    pieces = _pieces(columns, prompt, asked)
    return TraceRows(
        arrival_ns=time_ns[order] - first,
        prompt_tokens=prompt[order],
        output_tokens=ints["output_tokens"][order],
        sha256=asked.file.sha256(),
        rows_read=columns.rows_read,
        unsorted=0 if as_it_stands else int(np.count_nonzero(time_ns < np.maximum.accumulate(time_ns))),
        format=asked.name,
        zero_rows=columns.zero_rows,
        more=more,
        texts={key: [texts[row] for row in order.tolist()] for key, texts in columns.texts.items()
               if key != "parent" and any(texts)},
        pieces=None if pieces is None else pieces.take(order),
        timed=timed,
        notes=tuple(_notes(columns, parents, asked)),
    )  # fmt: skip


def _later(times_ns: Ints, first: int, key: str, file: TraceFile) -> Ints:
    early = (times_ns != NO_TIME) & (times_ns < first)
    if early.any():
        raise file.error(f"{int(early.sum())} times of {key} lie before the first arrival; at least that")
    return np.where(times_ns == NO_TIME, NEVER, times_ns - first)


def _pieces(columns: Columns, prompt: Ints, asked: _Asked) -> Pieces | None:
    """The pieces of all prompts. Blocks of a fixed size are cut at the prompt's end."""
    if not len(columns.piece_ids):
        return None
    counts, ids = int64(columns.piece_counts), int64(columns.piece_ids)
    if len(columns.piece_tokens):
        return Pieces.of(counts, ids, int64(columns.piece_tokens))
    size = asked.form.hash_block_tokens or asked.layout.block_tokens
    if size is None:
        raise ScenarioError("workload.trace.hash_block_tokens: missing; how many tokens one of hash_ids stands for")
    most = -(-prompt // size)
    for row in np.flatnonzero(counts > most).tolist():
        said = f"{counts[row]} ids for a prompt of {prompt[row]} tokens"
        allowed = f"at most {most[row]} blocks of {size} tokens (hash_block_tokens)"
        asked.file.complain_of_line(columns.lines[row], f"{said}; {allowed}")
    asked.file.raise_problems()
    pieces = Pieces.of(counts, ids, np.full(len(ids), size, dtype=np.int64))
    ends = pieces.offsets[1:][counts > 0] - 1
    pieces.tokens[ends] = np.minimum(size, (prompt - size * (counts - 1))[counts > 0])
    return pieces


def _notes(columns: Columns, parents: tuple[Ints, int] | None, asked: _Asked) -> list[str]:
    notes = []
    if columns.zero_rows:
        why = " (in BurstGPT, no response tokens mark a failure)" if asked.name == "burstgpt" else ""
        first = ", ".join(map(str, columns.zero_lines))
        more = ", …" if columns.zero_rows > len(columns.zero_lines) else ""
        notes.append(f"{columns.zero_rows} rows without prompt or output tokens are left out{why}: lines {first}{more}")
    if parents is not None and parents[1]:
        notes.append(f"{parents[1]} rows name a parent that is not among the rows taken; they have none")
    if isinstance(asked.rows, RagRows) and asked.rows.tokens is None:
        notes.append("no side files are there: lengths are read, nothing is shared")
    if isinstance(asked.rows, ConversationRows) and asked.rows.counted_words:
        notes.append("lengths are words, not tokens: there is no tokenizer here")
    if isinstance(asked.rows, CsvRows) and "NumImages" in asked.rows.unread:
        notes.append("NumImages is not read: images take no part in the simulation")
    return notes


def _no_rows(columns: Columns, take: Take) -> str:
    if columns.zero_rows:
        return f"no row is left: {columns.zero_rows} without tokens are left out"
    if columns.rows_read and take.skip >= columns.rows_read:
        return f"no row is left: workload.trace.skip = {take.skip} of {columns.rows_read} rows; skip fewer"
    if columns.rows_read:
        return f"no row is left: window or thin take none of {columns.rows_read} rows; take more"
    return "no requests in it; at least one row must follow the header"
