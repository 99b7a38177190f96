"""Recorded traces as columns of requests. A format is a function and a row in a table."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.complaints import unknown_name
from sim.errors import ScenarioError
from sim.fields import MAX_INSTANT_MS
from sim.registry import Registry
from sim.request import Ints
from sim.show import show
from sim.workload import azure
from sim.workload.trace_file import TraceFile


class Format(NamedTuple):
    """How a format is read, and what to tell somebody who does not have the file."""

    read: Callable[..., azure.Columns]
    what: str


FORMATS: Registry[Format] = Registry("trace format", {"azure": Format(azure.read_azure, azure.WHAT)})


@dataclass(frozen=True)
class TraceRows:
    """The requests of a trace in order of arrival, ties in the order of the file. Columns are int64.

    ``arrival_ns`` counts from the first of them. ``sha256`` is of the file as it is stored. ``rows_read`` counts the
    rows looked at, skipped ones included; ``unsorted`` those that stand behind a later one in the file.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    sha256: str
    rows_read: int
    unsorted: int


def read_trace(
    path: Path,
    format: str = "azure",  # noqa: A002 (the key of the scenario)
    *,
    limit: int | None = None,
    skip: int = 0,
    speedup: Decimal = Decimal(1),
) -> TraceRows:
    """Reads a trace: the rows after the first ``skip``, at most ``limit``, their times divided by ``speedup``.

    ``skip`` and ``limit`` count rows as they stand in the file. ``ScenarioError`` lists the first 20 problems of the
    rows that are used.
    """
    if format not in FORMATS:
        raise ScenarioError(f"workload.trace.format = {show(format)}: {unknown_name(format, list(FORMATS))}")
    reader = FORMATS[format]
    missing = f"; must be {reader.what}: give its path with --set workload.trace.path=FILE"
    with TraceFile(path, missing) as file:
        columns = reader.read(file, limit=limit, skip=skip)
        file.raise_problems()
        if not columns.time_ns:
            raise file.error(_no_rows(columns.rows_read, skip))
        sha256 = file.sha256()
    time_ns = np.array(columns.time_ns, dtype=np.int64)
    order = np.argsort(time_ns, kind="stable")
    arrival_ns = faster(time_ns[order] - time_ns[order[0]], speedup)
    return TraceRows(
        arrival_ns=arrival_ns,
        prompt_tokens=np.array(columns.prompt_tokens, dtype=np.int64)[order],
        output_tokens=np.array(columns.output_tokens, dtype=np.int64)[order],
        sha256=sha256,
        rows_read=columns.rows_read,
        unsorted=int(np.count_nonzero(time_ns < np.maximum.accumulate(time_ns))),
    )


def faster(time_ns: Ints, speedup: Decimal) -> Ints:
    """Times in ns (ascending from 0) divided by ``speedup``, rounded half up; exact whatever the numbers."""
    up, down = speedup.as_integer_ratio()
    if up == down:
        return time_ns
    last = (2 * int(time_ns[-1]) * down + up) // (2 * up)
    if last > MAX_INSTANT_MS * 10**6:
        raise ScenarioError(
            f"workload.trace.speedup = {show(speedup)}: too small; the last arrival may be at most {MAX_INSTANT_MS} ms"
        )
    if 2 * int(time_ns[-1]) * down + up < 2**62 and 2 * up < 2**62:
        return (2 * down * time_ns + up) // (2 * up)
    return np.array([(2 * ns * down + up) // (2 * up) for ns in time_ns.tolist()], dtype=np.int64)


def _no_rows(rows_read: int, skip: int) -> str:
    if rows_read:
        return f"no row is left: workload.trace.skip = {skip} of {rows_read} rows; skip fewer"
    return "no requests in it; at least one row must follow the header"
