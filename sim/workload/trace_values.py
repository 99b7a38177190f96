"""Single values of a trace, from text or from what JSON and Parquet hold, to whole numbers; nothing is guessed."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from sim.complaints import wrong_type
from sim.fields import MAX_INSTANT_MS, MAX_TOKENS, TEXT_LENGTH

SPAN_NS = MAX_INSTANT_MS * 10**6
STAMP_LIKE = "like 2023-11-16 18:17:03.9799600"
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
ISO = "iso"
MAX_ID = 2**63 - 1
MAX_DIGITS = 40

_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T](?:[01]\d|2[0-3]):[0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(Z|\+00:00)?", re.ASCII
).fullmatch
_OFFSET = re.compile(r".*\d\d:\d\d.*[+-]\d\d:?\d\d$", re.ASCII).fullmatch
_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,2})?", re.ASCII).fullmatch


class BadValueError(Exception):
    """What is wrong with a value, and what is allowed."""


class Bounds(NamedTuple):
    """What a whole number may be. ``stated``: the least as it is told, where a 0 is judged with its whole row."""

    least: int
    most: int
    stated: int


TOKENS = Bounds(1, MAX_TOKENS, 1)
OF_A_ROW = Bounds(0, MAX_TOKENS, 1)
COUNT = Bounds(0, MAX_TOKENS, 0)
PRIORITY = Bounds(-(2**31), 2**31 - 1, -(2**31))
SAMPLES = Bounds(1, 10**6, 1)


def whole_of_text(text: str, bounds: Bounds) -> int:
    """Digits 0 to 9 alone, with a minus where the bounds allow one."""
    if text.isdigit() and text.isascii() and len(text) <= 10 and bounds.least <= (number := int(text)) <= bounds.most:
        return number
    if bounds.least < 0 and re.fullmatch(r"-\d{1,10}", text, re.ASCII) and int(text) >= bounds.least:
        return int(text)
    raise BadValueError(_bad_text(text, bounds))


def _bad_text(text: str, bounds: Bounds) -> str:
    if re.fullmatch(r"-\d+|0+", text, re.ASCII):
        return f"too small; at least {bounds.stated}"
    if re.fullmatch(r"\d+", text, re.ASCII):
        return f"too large; at most {bounds.most}"
    return f"{'no integer' if text else 'empty'}; {bounds.stated} to {bounds.most}, in the digits 0 to 9 alone"


def whole_of_value(value: Any, bounds: Bounds) -> int:
    """An integer that is one: no boolean, no 16.0, no text."""
    if type(value) is not int:
        raise BadValueError(f"{wrong_type('an integer', value)}; {bounds.stated} to {bounds.most}")
    if value < bounds.least:
        raise BadValueError(f"too small; at least {bounds.stated}")
    if value > bounds.most:
        raise BadValueError(f"too large; at most {bounds.most}")
    return value


def text_of(value: Any) -> str:
    """A word of the user's, at most 256 characters without control characters; an integer is its digits."""
    if type(value) is int and value.bit_length() <= 128:
        return str(value)
    if type(value) is not str:
        raise BadValueError(wrong_type("a string", value))
    if len(value) > TEXT_LENGTH:
        raise BadValueError(f"{len(value)} characters; at most {TEXT_LENGTH}")
    for char in value if not value.isprintable() else "":
        if ord(char) < 32 or 127 <= ord(char) < 160:
            raise BadValueError(f"control character U+{ord(char):04X}; none is allowed")
        if 0xD800 <= ord(char) < 0xE000:
            raise BadValueError("not valid Unicode; no lone surrogates")
    return value


def id_of(value: Any) -> str:
    text = text_of(value)
    if not text:
        raise BadValueError("empty; 1 to 256 characters")
    return text


def ids_of(value: Any) -> list[int]:
    """A list of whole numbers; in text, digits with spaces between them."""
    if type(value) is str:
        if not re.fullmatch(r"(\d{1,19}( \d{1,19})*)?", value, re.ASCII):
            raise BadValueError("no list of ids; whole numbers with single spaces between them")
        value = [int(word) for word in value.split()]
    if type(value) is not list:
        raise BadValueError(wrong_type("a list", value))
    for id_ in value:
        if type(id_) is not int or not 0 <= id_ <= MAX_ID:
            raise BadValueError(f"holds what is no id; whole numbers from 0 to {MAX_ID}")
    return list(value)


class Instants:
    """Times of one file to ns since the first of them, exactly. Not thread-safe: it remembers.

    ``unit``: of numbers; ``iso``: timestamps, naive (UTC) or with ``Z`` or ``+00:00``, all alike. ``from_zero``: the
    clock is that of the simulation, and starts at 0. ``numbers_as_text``: a number may stand in quotes.
    """

    def __init__(self, unit: str, *, from_zero: bool = False, numbers_as_text: bool = True) -> None:
        self._scale = UNITS.get(unit, 0)
        self._digits = len(str(self._scale)) - 1
        self._numbers_as_text = numbers_as_text
        self._minute, self._start_ns = "", 0
        self._first_ns: int | None = 0 if from_zero else None
        self._zoned: bool | None = None

    def ns(self, value: Any) -> int:
        read = self._number if self._scale else self._stamp
        return self._since_first(read(value))

    def _since_first(self, ns: int) -> int:
        if self._first_ns is None:
            self._first_ns = ns
        if abs(ns - self._first_ns) > SPAN_NS:
            raise BadValueError(f"too far from the first row; at most {MAX_INSTANT_MS} ms")
        return ns - self._first_ns

    def _number(self, value: Any) -> int:
        """Rounded half up to whole ns, whatever the number of digits."""
        if type(value) is str and self._numbers_as_text:
            return self._of_text(value)
        if type(value) is int:
            if value < 0:
                raise BadValueError("too small; at least 0")
            return value * self._scale
        if not isinstance(value, Decimal):
            raise BadValueError(wrong_type("a number", value))
        if not value.is_finite():
            raise BadValueError("not finite; must be a finite number")
        if value and not -MAX_DIGITS <= value.adjusted() <= MAX_DIGITS:
            raise BadValueError("out of all bounds; a number with at most 40 digits")
        return self._of_decimal(value)

    def _of_text(self, text: str) -> int:
        if text.isdigit() and text.isascii() and len(text) < MAX_DIGITS:
            return int(text) * self._scale
        whole, _, fraction = text.partition(".")
        if (
            (whole + fraction).isdigit()
            and text.isascii()
            and whole
            and len(text) < MAX_DIGITS
            and 0 < len(fraction) <= self._digits
        ):
            return int(whole + fraction.ljust(self._digits, "0"))  # nothing to round
        if not _NUMBER(text):
            raise BadValueError(f"{'no number' if text else 'empty'}; digits, with a decimal point if needed")
        try:
            return self._of_decimal(Decimal(text))
        except InvalidOperation:
            raise BadValueError("no number; digits, with a decimal point if needed") from None

    def _of_decimal(self, value: Decimal) -> int:
        if value < 0:
            raise BadValueError("too small; at least 0")
        up, down = value.as_integer_ratio()
        return (2 * up * self._scale + down) // (2 * down)

    def _stamp(self, value: Any) -> int:
        """Ns since the year 1."""
        if type(value) is not str:
            raise BadValueError(f"{wrong_type('a string', value)}; {STAMP_LIKE}")
        match = _STAMP(value)
        if match is None:
            raise BadValueError(_bad_stamp(value))
        minute, second, fraction, zone = match.groups()
        if minute != self._minute:
            self._start_ns = _minute_ns(minute)
            self._minute = minute
        if self._zoned is None:
            self._zoned = zone is not None
        if self._zoned != (zone is not None):
            raise BadValueError("with and without a time zone in one file; all or none")
        return self._start_ns + int(second) * 10**9 + (int(fraction.ljust(9, "0")) if fraction else 0)


def _minute_ns(text: str) -> int:
    """Nanoseconds from the year 1 to the start of the minute ``2023-11-16 18:17``."""
    try:
        days = date.fromisoformat(text[:10]).toordinal()
    except ValueError:
        raise BadValueError(f"no such day; {STAMP_LIKE}") from None
    return ((days * 24 + int(text[11:13])) * 60 + int(text[14:16])) * 60 * 10**9


def _bad_stamp(text: str) -> str:
    if not text:
        return f"empty; {STAMP_LIKE}"
    if re.search(r":60(\.|Z|\+|$)", text):
        return "second 60: leap seconds are not supported; 00 to 59"
    if _OFFSET(text):
        return "a time zone other than UTC; none, Z or +00:00"
    if re.search(r"\.\d{10}", text, re.ASCII):
        return "finer than a nanosecond; at most 9 digits"
    return f"no timestamp; {STAMP_LIKE}"


Read = Callable[[Any], Any]


def reader_of(key: str, instants: Instants, *, of_text: bool, optional: bool = False) -> Read:
    """How the values of one key of a request are read; those of ``arrival`` must be read first.

    ``optional``: nothing (None, or an empty text) is the key's default.
    """
    if key in BOUNDS:
        bounds, whole = BOUNDS[key], whole_of_text if of_text else whole_of_value
        read: Read = lambda value: whole(value, bounds)  # noqa: E731
    else:
        read = {"arrival": instants.ns, "deadline": instants.ns, "cancel": instants.ns, "id": id_of,
                "hash_ids": ids_of}.get(key, text_of)  # fmt: skip
    if not optional or key not in DEFAULTS:
        return read
    nothing, default = (None, "") if of_text and key != "id" else (None, None), DEFAULTS[key]
    return lambda value: default if value in nothing else read(value)


NO_TIME = -(2**63)
DEFAULTS: Mapping[str, Any] = {
    "id": "", "max_tokens": 0, "priority": 0, "tenant": "", "deadline": NO_TIME, "cancel": NO_TIME, "samples": 1,
    "prefix_group": "", "prefix_tokens": 0, "parent": "", "parent_tokens": 0, "hash_ids": [],
}  # fmt: skip
"""What a row says that says nothing; an id "" is that of its place, ``max_tokens`` 0 the output."""

BOUNDS = {
    "prompt_tokens": OF_A_ROW,
    "output_tokens": OF_A_ROW,
    "max_tokens": TOKENS,
    "priority": PRIORITY,
    "samples": SAMPLES,
    "prefix_tokens": COUNT,
    "parent_tokens": COUNT,
}
"""The keys that hold whole numbers. Rows without tokens are judged as a whole: see ``zero_tokens``."""
