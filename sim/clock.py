"""Exact time. Inside, instants are whole nanoseconds (``int``); milliseconds exist only in files and on screens.

Two units: an instant or a duration is in **ns**; a cost coefficient is in **fs** (10^-15 s, the twelfth decimal of a
millisecond), so that the coefficients of a job add up without error and are rounded once, when the job's sum is known.
"""

from decimal import Decimal
from fractions import Fraction

NS_PER_MS = 10**6
NS_PER_S = 10**9
FS_PER_NS = 10**6
COST_DECIMALS = 12
"""Most decimals of a millisecond that a cost may have: fs are whole."""

MAX_NS = 2**62
"""No instant may reach this (146 years): two of them still add up within 64 bits."""


def instant_ns(ms: Decimal | int) -> int:
    """Milliseconds to whole ns, half up (away from zero for none is negative)."""
    return int((Fraction(ms) * NS_PER_MS * 2 + 1) // 2)


def cost_fs(ms: Decimal | int) -> int:
    """A cost in milliseconds to fs, exactly. ``ValueError`` beyond :data:`COST_DECIMALS` decimals."""
    fs = Fraction(ms) * NS_PER_MS * FS_PER_NS
    if fs.denominator != 1:
        raise ValueError(f"more than {COST_DECIMALS} decimals")
    return int(fs)


def round_fs(fs: int) -> int:
    """Femtoseconds to whole ns, half up: the one rounding that a job's duration gets."""
    return (fs + FS_PER_NS // 2) // FS_PER_NS


def ms_text(ns: int) -> str:
    """The exact decimal of ``ns`` in milliseconds, as JSON wants it: ``14750000`` is ``14.75``, ``0`` is ``0.0``."""
    whole, rest = divmod(abs(ns), NS_PER_MS)
    decimals = f"{rest:06d}".rstrip("0") or "0"
    return f"{'-' if ns < 0 else ''}{whole}.{decimals}"


def ms_float(ns: int | Fraction) -> float:
    """The float nearest to ``ns`` in milliseconds."""
    return float(Fraction(ns) / NS_PER_MS)


def ms_decimal(value: float | Decimal) -> Decimal:
    """A number of a scenario as an exact decimal; a Python float means its ``repr``."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
