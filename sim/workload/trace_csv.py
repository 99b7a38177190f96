"""A trace as CSV: one header, as many values in each line as it has names."""

import csv
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from sim.errors import ScenarioError
from sim.show import show
from sim.workload.trace_file import TraceFile
from sim.workload.trace_layout import Layout, Names
from sim.workload.trace_values import BadValueError, Instants, Read, reader_of


class CsvRows:
    """``names``: which columns are which keys. ``ScenarioError``: the header lacks one, or has one twice."""

    def __init__(self, file: TraceFile, layout: Layout, names: Names, instants: Instants) -> None:
        self._file = file
        self._lines = enumerate(file.lines(), 1)
        self.header = header_of(file, next(self._lines, (1, None))[1], layout)
        _check(file, self.header, layout, names)
        found = {key: column for key, column in names.columns.items() if column in self.header}
        self.keys: Sequence[str] = tuple(found)
        self.columns: Sequence[str] = tuple(found.values())
        self.unread = [column for column in self.header if column not in self.columns]
        self.readers: Sequence[Read] = [
            reader_of(key, instants, of_text=True, optional=key not in names.needed) for key in found
        ]
        self._pick = itemgetter(*(self.header.index(column) for column in self.columns))

    def records(self) -> Iterator[tuple[int, str]]:
        for number, line in self._lines:
            if line:  # nothing is lost with an empty line
                yield number, line

    def values(self, record: str) -> Sequence[Any]:
        try:
            values = next(csv.reader([record], strict=True)) if '"' in record else record.split(",")
        except csv.Error as error:
            column = record.rindex('"') + 1
            raise BadValueError(f"not CSV: {error}; quotes must be closed in their line (column {column})") from None
        if len(values) != len(self.header):
            raise BadValueError(_wrong_count(values, self.header))
        picked: Sequence[Any] = self._pick(values)
        return picked


def _wrong_count(values: list[str], header: list[str]) -> str:
    said = f"{len(values)} value{'' if len(values) == 1 else 's'}; must be {len(header)}: {','.join(header)}"
    return said + (f"; nothing for {header[len(values)]}" if len(values) < len(header) else "")


def split_header(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return [line]


def header_of(file: TraceFile, line: str | None, layout: Layout) -> list[str]:
    if not line or not line.strip():
        raise file.error(f"no header; the first line must be {layout.wanted}")
    if "\r" in line:
        raise file.error("lines end with CR only; must be LF or CRLF")
    return split_header(line)


def _check(file: TraceFile, found: list[str], layout: Layout, names: Names) -> None:
    if layout.headers:
        if tuple(found) in layout.headers:
            return
        problem = "; ".join(_problems(found, layout.headers[0], layout.headers[0])) or "wrong order"
        raise _header_error(file, found, problem, layout)
    wanted = [names.columns[key] for key in names.needed]
    allowed = None if layout.others is None else [*names.columns.values(), *layout.others]
    if problem := "; ".join(_problems(found, wanted, allowed)):
        raise _header_error(file, found, problem, layout)


def _header_error(file: TraceFile, found: list[str], problem: str, layout: Layout) -> ScenarioError:
    header = show(",".join(found))
    return ScenarioError(f"{file.label} (line 1): header = {header}: {problem}; must be {layout.wanted}")


def _problems(found: list[str], wanted: Sequence[str], allowed: Sequence[str] | None) -> Iterator[str]:
    if len(found) == 1 and len(wanted) > 1:
        others = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))
        separated = (f", separated by {name}" for char, name in others if char in found[0])
        yield "1 column" + next(separated, "")
        return
    for name in wanted:
        if found.count(name) != 1:
            yield f"{name} is missing" if name not in found else f"{name} {found.count(name)} times"
    for name in dict.fromkeys(found):
        if found.count(name) > 1 and name not in wanted:
            yield f"{show(name)} {found.count(name)} times"
        elif allowed is not None and name not in allowed:
            yield f"{show(name)} is none of its columns"
