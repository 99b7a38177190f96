"""A trace as JSON lines: one object a line, each with the keys of its format."""

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from sim.complaints import wrong_type
from sim.show import show
from sim.workload.trace_file import TraceFile
from sim.workload.trace_layout import Names
from sim.workload.trace_values import BadValueError, Instants, Read, reader_of

MAX_LINE = 2**20


class JsonRows:
    """A row may leave out what is not needed. What else an object has is not read."""

    def __init__(self, file: TraceFile, names: Names, instants: Instants) -> None:
        self._file = file
        self.keys: Sequence[str] = tuple(names.columns)
        self.columns: Sequence[str] = tuple(names.columns.values())
        self.readers: Sequence[Read] = [
            reader_of(key, instants, of_text=False, optional=key not in names.needed) for key in self.keys
        ]
        self._needed = [names.columns[key] for key in names.needed]

    def records(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self._file.lines(), 1):
            if line and not line.isspace():
                yield number, line

    def values(self, record: str) -> Sequence[Any]:
        return self.of_object(parse(record))

    def of_object(self, found: Any) -> Sequence[Any]:
        if not isinstance(found, dict):
            raise BadValueError(f'{wrong_type("an object", found)}; one a line, like {{"{self.columns[0]}": 0, …}}')
        missing = [column for column in self._needed if column not in found]
        if missing:
            raise BadValueError(f"{', '.join(missing)} missing; must have {', '.join(self._needed)}")
        return list(map(found.get, self.columns))


def parse(text: str) -> Any:
    """Strict JSON: numbers int or exact Decimal, no NaN, no key twice. ``BadValueError`` says where it breaks."""
    try:
        return json.loads(text, parse_float=_decimal, parse_constant=_refuse, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        if "\r" in text:
            raise BadValueError("lines end with CR only; must be LF or CRLF") from None
        raise BadValueError(f"column {error.colno}: not JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise BadValueError("nested too deeply; an object of numbers, texts and lists") from None
    except ValueError:  # the one way left: Python refuses to read an integer of more than 4,300 digits
        raise BadValueError("an integer of thousands of digits") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return Decimal("inf")


def _refuse(text: str) -> None:
    raise BadValueError(f"{text}: not a number that JSON has; must be finite")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise BadValueError(f"the key {show(twice)} stands twice; each once")
    return table
