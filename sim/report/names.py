"""Values and names of strangers as a line of text: exact, one way to read them, nothing that a terminal would obey."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import floor, isfinite, log10

from sim.clock import ms_text
from sim.request import Workload
from sim.show import escape, shorten, show

LONGEST = 32
"""Most characters of a name that are shown."""

BLANK = dict.fromkeys("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that show nothing, though Unicode calls them printable."""

MARKS = 2
"""Most combining marks on one letter: more of them would run into the lines above and below."""

LEFT_TO_RIGHT = "\u200e"


def visible(text: str) -> str:
    """``text`` with an escape for whatever would not be seen: controls, bidirectional marks, blanks, stray accents."""
    shown, marks = [], MARKS
    for char in escape(text):
        marks = marks + 1 if unicodedata.category(char).startswith("M") else MARKS if char == " " else 0
        hidden = char in BLANK or marks > MARKS
        shown.append(f"\\u{ord(char):04X}" if hidden else char)
    # Digits after Hebrew or Arabic would be laid out from right to left: the mark ends the name for the eye, too.
    turned = any(unicodedata.bidirectional(char) in {"R", "AL", "AN"} for char in text)
    return "".join(shown) + (LEFT_TO_RIGHT if turned else "")


def request_name(workload: Workload, index: int) -> str:
    """The request's id as prose can carry it: in TOML's quotes unless it is one plain word.

    A long one is shown by its two ends and its place in the workload, counted from 1.
    """
    id_ = workload.id(index)
    place = ""
    if len(id_) > LONGEST:
        id_, place = f"{id_[: LONGEST // 2]}…{id_[-LONGEST // 4 :]}", f"\N{NO-BREAK SPACE}(#{index + 1})"
    text = visible(id_.replace("\\", "\\\\").replace('"', '\\"'))
    plain = re.fullmatch(rf"[\w.:/@#+=…-]*\w[\w.:/@#+=…-]*{LEFT_TO_RIGHT}?", text)
    return (text if plain else f'"{text}"') + place


def ms(ns: int) -> str:
    """Whole ns in milliseconds, exactly, with at least two decimals: ``3.50``."""
    whole, _, decimals = ms_text(ns).partition(".")
    return f"{whole}.{decimals:0<2}"


def whole_ns(ns: Fraction) -> int:
    """Half up, as everywhere."""
    return (2 * ns.numerator + ns.denominator) // (2 * ns.denominator)


def hundredths(value: Fraction) -> str:
    """With two decimals, half up: ``7.16``."""
    whole, rest = divmod((200 * value.numerator + value.denominator) // (2 * value.denominator), 100)
    return f"{whole:,}.{rest:02}"


def figure(value: float) -> str:
    """A measured or computed number, in four digits: ``0.8123``, ``12.35``, ``12,346``."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    digits = 3 - floor(log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(digits, 0)}f}" if -8 < digits < 7 else f"{value:.3e}"


def setting(value: object) -> str:
    """A setting's value as one would write it: ``1``, not ``1.0`` or ``1E+0``; a table's in one line, shortened."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return f"{{{shorten(', '.join(f'{_key(key)} = {setting(item)}' for key, item in value.items()))}}}"
    if isinstance(value, (Decimal, float)):
        number = Decimal(str(value))
        return f"{number.normalize():f}" if number.is_finite() else str(number)
    return visible(value) if isinstance(value, str) else show(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else visible(show(key))


@cache
def encodable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def fit(text: str, encoding: str) -> str:
    """``text`` for an output of this encoding: what it can't carry is written in ASCII or escaped."""
    if encodable(text, encoding):
        return text
    plain = (
        text.replace("→", "->")
        .replace("λ", "lambda")
        .replace("ρ", "rho")
        .replace("…", "...")
        .replace(LEFT_TO_RIGHT, "")
    )
    return plain.encode(encoding, "backslashreplace").decode(encoding)
