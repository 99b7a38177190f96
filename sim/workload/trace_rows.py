"""Rows of a trace, one after the other, to columns: which are taken, what they hold, what is wrong with them."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import numpy as np

from sim.request import Ints
from sim.workload.streams import stream
from sim.workload.trace_file import TraceFile
from sim.workload.trace_values import BOUNDS, BadValueError, Read

DRAWS = 4096
SHOWN = 5
"""Lines that are told of rows without tokens."""
NEEDED = ("prompt_tokens", "output_tokens")


class Take(NamedTuple):
    """Which rows are taken: each on its own by ``skip``, ``thin`` and ``window_ns``, of those the first ``limit``.

    Rows without prompt or output tokens are problems ("error"), or left out ("skip"), or as the format has it ("auto").
    """

    limit: int | None = None
    skip: int = 0
    thin: Decimal = Decimal(1)
    window_ns: tuple[int, int | None] = (0, None)
    zero_tokens: str = "auto"
    seed: int = 0


class Rows(Protocol):
    """A file as rows of raw values. ``keys`` are those of a request; ``columns`` what the file calls them."""

    keys: Sequence[str]
    columns: Sequence[str]
    readers: Sequence[Read]

    def records(self) -> Iterator[tuple[int, Any]]:
        """The number of each row's line, and the row as it stands. To the end: a file cut short is not a whole one."""
        ...

    def values(self, record: Any) -> Sequence[Any]:
        """The values by key. ``BadValueError``: the row is none."""
        ...


class Columns:
    """The rows that were taken, in the order of the file. Times are ns since the first row after ``skip``."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.rows_read = 0
        self.zero_rows = 0
        self.zero_lines: list[int] = []
        """Of the first of them."""
        self.lines = array("q")
        """The line of each."""
        self.ints = {key: array("q") for key in keys if key in BOUNDS or key in ("arrival", "deadline", "cancel")}
        self.texts: dict[str, list[str]] = {key: [] for key in keys if key not in self.ints and key != "hash_ids"}
        self.piece_counts, self.piece_ids = array("q"), array("q")
        self.piece_tokens = array("q")
        """Of each piece; empty where a block of the trace has a fixed size."""

    @property
    def taken(self) -> int:
        return len(self.ints["prompt_tokens"])


def gather(file: TraceFile, rows: Rows, take: Take) -> Columns:
    """The rows that ``take`` wants. All problems of these rows are noted in ``file``; others are not looked at."""
    columns = Columns(rows.keys)
    row = _Row(file, rows, columns, take)
    thin = _thinned(take)
    number = 0
    for line, record in rows.records():
        if take.limit is not None and columns.taken + row.broken >= take.limit:
            continue
        number += 1
        if number <= take.skip:
            continue
        if next(thin):
            row.add(line, record)
        elif number == take.skip + 1:
            row.begin(record)
    columns.rows_read = number
    return columns


def _thinned(take: Take) -> Iterator[bool]:
    """Whether each row after ``skip`` is among those that are kept; what a larger share keeps, too."""
    if take.thin >= 1:
        while True:
            yield True
    random, share = stream(take.seed, "thin"), float(take.thin)
    while True:
        yield from (random.random(DRAWS) < share).tolist()


class _Row:
    def __init__(self, file: TraceFile, rows: Rows, columns: Columns, take: Take) -> None:
        self.broken = 0
        self._file, self._rows, self._columns, self._take = file, rows, columns, take
        self._appends: list[Callable[[Any], None]] = [self._append_of(key) for key in rows.keys]
        at = {key: place for place, key in enumerate(rows.keys)}
        self._prompt, self._output = (at[key] for key in NEEDED)
        self._arrival = at.get("arrival")

    def _append_of(self, key: str) -> Callable[[Any], None]:
        columns = self._columns
        if key == "hash_ids":
            return self._append_pieces
        append: Callable[[Any], None] = (columns.ints[key] if key in columns.ints else columns.texts[key]).append
        return append

    def _append_pieces(self, pieces: list[int] | tuple[list[int], list[int]]) -> None:
        columns = self._columns
        ids, tokens = pieces if isinstance(pieces, tuple) else (pieces, [])
        columns.piece_counts.append(len(ids))
        columns.piece_ids.extend(ids)
        columns.piece_tokens.extend(tokens)

    def add(self, line: int, record: Any) -> None:
        """Appends the row where it is wanted, or notes each of its problems."""
        try:
            raw = self._rows.values(record)
        except BadValueError as bad:
            self.broken += 1
            self._file.complain_of_line(line, str(bad))
            return
        try:
            values = [read(value) for read, value in zip(self._rows.readers, raw, strict=True)]
        except BadValueError:
            self._explain(line, raw)
            return
        if self._arrival is not None and not self._in_window(values[self._arrival]):
            return
        if not values[self._prompt] or not values[self._output]:
            self._without_tokens(line, values, raw)
            return
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        self._columns.lines.append(line)

    def begin(self, record: Any) -> None:
        """The first row starts the clock, whether it is taken or not."""
        if self._arrival is not None:
            with suppress(BadValueError):
                self._rows.readers[self._arrival](self._rows.values(record)[self._arrival])

    def _in_window(self, ns: int) -> bool:
        first, after = self._take.window_ns
        return (first == 0 and after is None) or (ns >= first and (after is None or ns < after))

    def _without_tokens(self, line: int, values: Sequence[Any], raw: Sequence[Any]) -> None:
        if self._take.zero_tokens == "skip":
            self._columns.zero_rows += 1
            self._columns.zero_lines += [line] if len(self._columns.zero_lines) < SHOWN else []
            return
        self.broken += 1
        for place in (self._prompt, self._output):
            if not values[place]:
                self._file.complain(line, self._rows.columns[place], raw[place], "too small; at least 1")

    def _explain(self, line: int, raw: Sequence[Any]) -> None:
        """Each value on its own, for there may be more than one problem."""
        self.broken += 1
        for place, (column, value, read) in enumerate(zip(self._rows.columns, raw, self._rows.readers, strict=True)):
            try:
                if read(value) == 0 and place in (self._prompt, self._output) and self._take.zero_tokens == "error":
                    raise BadValueError("too small; at least 1")
            except BadValueError as bad:
                self._file.complain(line, column, value, str(bad))


def int64(values: "array[int]") -> Ints:
    return np.frombuffer(values, dtype=np.int64).copy() if len(values) else np.empty(0, dtype=np.int64)
