"""Values from strangers as text for one line of a message: short, and with nothing that a terminal would obey."""

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

WIDTH = 48
WIDEST = 128
"""Bits of the largest integer that is written out."""


def escape(text: str) -> str:
    """``text`` with every character that does not print (bidirectional marks, too) escaped as in TOML."""
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or (f"\\u{code:04X}" if code < 2**16 else f"\\U{code:08X}")


def shorten(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def show(value: object) -> str:
    """The value as TOML would write it, shortened."""
    return next((text(value) for kind, text in _SHOWN if isinstance(value, kind)), None) or shorten(escape(str(value)))


def _string(value: str) -> str:
    quoted = shorten(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(quoted)}"'


def _integer(value: int) -> str:
    # str() of a huge int is slow, and refused beyond 4,300 digits
    return str(value) if value.bit_length() <= WIDEST else f"an integer of {value.bit_length()} bits"


def _decimal(value: Decimal) -> str:
    if value.is_nan():
        return "nan"
    if value.is_infinite():
        return "-inf" if value < 0 else "inf"
    return shorten(str(value)).lower()


_SHOWN: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    (str, _string),
    (int, _integer),
    (Decimal, _decimal),
    (list, lambda value: "[…]" if value else "[]"),
    (dict, lambda value: "{…}" if value else "{}"),
)


def show_path(path: Path | str) -> str:
    return escape(os.fspath(path))
