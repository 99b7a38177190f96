"""A scenario before it is checked: the plain document (tables, lists, text, numbers), from a TOML file or a mapping."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.files import looks_like_utf16, not_utf8, open_regular
from sim.show import show, show_path

Document = dict[str, Any]

MAX_BYTES = 64 * 2**20
"""Largest scenario file. A workload that needs more belongs into a trace."""


def read_text(path: Path) -> str:
    """The text of a scenario file, without a byte order mark."""
    if str(path) == "-":
        raise ScenarioError("-: reading a scenario from standard input is not supported; must be a file")
    with open_regular(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ScenarioError(f"{show_path(path)}: larger than {MAX_BYTES // 2**20} MiB; put the requests into a trace")
    if seems := looks_like_utf16(data):
        raise ScenarioError(f"{show_path(path)}: not UTF-8{seems}; must be UTF-8")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{show_path(path)}: {not_utf8(error.start)}") from None


def parse(text: str, label: str) -> Document:
    """TOML to a document, its floats as exact decimals. ``ScenarioError`` with line and column when it is no TOML."""
    try:
        document = tomllib.loads(text, parse_float=_decimal)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_toml_complaint(str(error), text, label)) from None
    except RecursionError:
        raise ScenarioError(f"{label}: nested too deeply") from None
    except ValueError:  # the one way: Python refuses to read an integer of more than 4,300 digits
        line = next((n for n, row in enumerate(text.split("\n"), 1) if re.search(r"[0-9_]{4301}", row)), None)
        raise ScenarioError(f"{label}{f' (line {line})' if line else ''}: an integer of thousands of digits") from None
    if not document:
        raise ScenarioError(f"{label}: empty; a scenario has at least schema = 1, a name and a [workload]")
    return document


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits: no number that anybody means, like inf
        return Decimal("inf")


def _toml_complaint(message: str, text: str, label: str) -> str:
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message, re.DOTALL)
    if match is None:
        return f"{label}: not valid TOML: {message}"
    what, line, column = match.groups()
    last = text.rstrip("\n").count("\n") + 1
    where = f"line {line}, column {column}" if line else f"line {last}, at the end"
    return f"{label} ({where}): not valid TOML: {what[:1].lower()}{what[1:]}"


def plain(value: object) -> Any:  # noqa: PLR0911 (one kind of value, one return)
    """A copy out of dict, list, str, int, bool and Decimal; what is none of these stays as it is, for the complaint.

    A float becomes the decimal of its ``repr``, NumPy's numbers their Python values, a tuple a list. A key whose
    value is None is left out, as if it had not been written.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return Decimal(float.__repr__(value))
    if isinstance(value, str):
        return str.__str__(value)
    return next((base(value) for base in (int, Decimal) if isinstance(value, base)), value)


_PLAIN = frozenset((int, str, Decimal, bool))


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise ScenarioError(f"scenario: a key is {show(key)}; all keys must be strings")


def put(document: Document, key: str, value: object) -> None:
    """Puts one of the values of :func:`flatten` at the dotted ``key``, in place; None takes the key away."""
    *tables, last = key.split(".")
    table: Any = document
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return  # the complaint about what stands there is enough
    if value is None:
        table.pop(last, None)
    elif not (value == {} and isinstance(table.get(last), dict)):  # an empty table adds nothing to one
        table[last] = plain(value)


Whole = Callable[[str, Mapping[str, object]], bool]
"""Whether the table under a dotted key is one value."""


def flatten(tables: Mapping[str, object], whole: Whole, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Flattens nested tables into (dotted key, value); an empty table is a value, and so is one that is ``whole``."""
    for key, value in tables.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not whole(name, value):
            yield from flatten(value, whole, f"{name}.")
        else:
            yield name, value
