"""The Azure LLM inference traces of 2023 and 2024: ``TIMESTAMP,ContextTokens,GeneratedTokens``, one request a line.

A timestamp is ``2023-11-16 18:17:03.9799600``: naive, which means UTC, or with ``Z`` or ``+00:00``; up to nine digits
of a second, none of them lost.
"""

import csv
import re
from array import array
from collections.abc import Iterator
from datetime import date

from sim.errors import ScenarioError
from sim.fields import MAX_INSTANT_MS, MAX_TOKENS
from sim.show import show
from sim.workload.trace_file import TraceFile

WHAT = (
    "a CSV file of the Azure LLM inference trace, columns TIMESTAMP,ContextTokens,GeneratedTokens "
    "(AzurePublicDataset, files AzureLLMInferenceTrace_conv.csv and AzureLLMInferenceTrace_code.csv)"
)
COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
SPAN_NS = MAX_INSTANT_MS * 10**6
ALLOWED = "like 2023-11-16 18:17:03.9799600"

_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T](?:[01]\d|2[0-3]):[0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(Z|\+00:00)?", re.ASCII
).fullmatch
_OFFSET = re.compile(r".*\d\d:\d\d.*[+-]\d\d:?\d\d$", re.ASCII).fullmatch


class Columns:
    """Rows as they stand in the file: ns since the first of them, prompt and output tokens; and how many were read."""

    def __init__(self) -> None:
        self.time_ns, self.prompt_tokens, self.output_tokens = array("q"), array("q"), array("q")
        self.rows_read = 0


def read_azure(file: TraceFile, *, limit: int | None, skip: int) -> Columns:
    """The rows after the first ``skip``, at most ``limit``. All problems of these rows are noted in ``file``."""
    lines = enumerate(file.lines(), 1)
    _check_header(file, next(lines, (1, None))[1])
    columns, stamps = Columns(), _Stamps()
    end = None if limit is None else skip + limit
    for number, line in lines:
        if not line:
            continue  # nothing is lost with an empty line
        if columns.rows_read == end:
            break
        columns.rows_read += 1
        if columns.rows_read > skip:
            _read_row(file, number, line, stamps, columns)
    for _ in lines:
        pass  # to the end: a file that is cut short is not taken for a whole one
    return columns


def _read_row(file: TraceFile, number: int, line: str, stamps: "_Stamps", columns: Columns) -> None:
    """Appends the row, or notes each of its problems."""
    values = _split(line)
    if isinstance(values, str):
        file.complain_of_line(number, values)
        return
    stamp, prompt, output = values
    try:
        row = (stamps.ns(stamp), _tokens(prompt), _tokens(output))
    except _BadError:
        _explain(file, number, values, stamps)
        return
    columns.time_ns.append(row[0])
    columns.prompt_tokens.append(row[1])
    columns.output_tokens.append(row[2])


def _explain(file: TraceFile, number: int, values: list[str], stamps: "_Stamps") -> None:
    """Each value on its own, for there may be more than one problem."""
    for column, value, read in zip(COLUMNS, values, (stamps.ns, _tokens, _tokens), strict=True):
        try:
            read(value)
        except _BadError as bad:
            file.complain(number, column, value, str(bad))


class _BadError(Exception):
    """What is wrong with a value, and what is allowed."""


def _split(line: str) -> list[str] | str:
    """The three values of a line, or what is wrong with it."""
    try:
        values = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
    except csv.Error as error:
        return f"not CSV: {error}; quotes must be closed in their line"
    if len(values) == len(COLUMNS):
        return values
    return f"{len(values)} value{'' if len(values) == 1 else 's'}; must be 3: {','.join(COLUMNS)}"


def _tokens(text: str) -> int:
    if text.isdigit() and text.isascii() and len(text) <= 10 and 1 <= (number := int(text)) <= MAX_TOKENS:
        return number
    raise _BadError(_bad_tokens(text))


def _bad_tokens(text: str) -> str:
    if re.fullmatch(r"-\d+|0+", text, re.ASCII):
        return "too small; at least 1"
    if re.fullmatch(r"\d+", text, re.ASCII):
        return f"too large; at most {MAX_TOKENS}"
    return f"{'no integer' if text else 'empty'}; 1 to {MAX_TOKENS}, in the digits 0 to 9 alone"


class _Stamps:
    """Reads timestamps: ns since the first one. Remembers the last minute, and whether zones are given."""

    def __init__(self) -> None:
        self._minute, self._start_ns = "", 0
        self._first_ns: int | None = None
        self._zoned = False

    def ns(self, text: str) -> int:
        match = _STAMP(text)
        if match is None:
            raise _BadError(_bad_stamp(text))
        minute, second, fraction, zone = match.groups()
        if minute != self._minute:
            self._start_ns = _minute_ns(minute)
            self._minute = minute
        ns = self._start_ns + int(second) * 10**9 + (int(fraction.ljust(9, "0")) if fraction else 0)
        if self._first_ns is None:
            self._first_ns, self._zoned = ns, zone is not None
        if self._zoned != (zone is not None):
            raise _BadError("with and without a time zone in one file; all or none")
        if abs(ns - self._first_ns) > SPAN_NS:
            raise _BadError(f"too far from the first row; at most {MAX_INSTANT_MS} ms")
        return ns - self._first_ns


def _minute_ns(text: str) -> int:
    """Nanoseconds from the year 1 to the start of the minute ``2023-11-16 18:17``."""
    try:
        days = date.fromisoformat(text[:10]).toordinal()
    except ValueError:
        raise _BadError(f"no such day; {ALLOWED}") from None
    return ((days * 24 + int(text[11:13])) * 60 + int(text[14:16])) * 60 * 10**9


def _bad_stamp(text: str) -> str:
    if not text:
        return f"empty; {ALLOWED}"
    if re.search(r":60(\.|Z|\+|$)", text):
        return "second 60: leap seconds are not supported; 00 to 59"
    if _OFFSET(text):
        return "a time zone other than UTC; none, Z or +00:00"
    if re.search(r"\.\d{10}", text, re.ASCII):
        return "finer than a nanosecond; at most 9 digits"
    return f"no timestamp; {ALLOWED}"


def _check_header(file: TraceFile, header: str | None) -> None:
    wanted = ",".join(COLUMNS)
    if not header or not header.strip():
        raise file.error(f"no header; the first line must be {wanted}")
    if "\r" in header:
        raise file.error("lines end with CR only; must be LF or CRLF")
    try:
        found = next(csv.reader([header], strict=True))
    except csv.Error:
        found = [header]
    if found == COLUMNS:
        return
    problem = "; ".join(_header_problems(found)) or "wrong order"
    raise ScenarioError(f"{file.label} (line 1): header = {show(header)}: {problem}; must be {wanted}")


def _header_problems(found: list[str]) -> Iterator[str]:
    if len(found) == 1:
        others = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))
        separated = (f", separated by {name}" for char, name in others if char in found[0])
        yield "1 column" + next(separated, "")
        return
    for name in COLUMNS:
        if found.count(name) != 1:
            yield f"{name} is missing" if name not in found else f"{name} {found.count(name)} times"
    yield from (f"{show(name)} is none of its columns" for name in found if name not in COLUMNS)
