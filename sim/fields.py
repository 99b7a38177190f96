"""The kinds of values that a scenario may hold, as types for pydantic. Nothing is converted silently.

A number is a number: ``true``, ``"16"`` and (for an integer) ``16.0`` are refused. Times and costs are exact decimals.
"""

import unicodedata
from collections.abc import Callable, Collection
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from sim.clock import COST_DECIMALS

MAX_TOKENS = 2**31 - 1
"""Most tokens of a prompt or an output (2.1 * 10^9): a column of them, and their sums, fit in 64 bits."""

MAX_INSTANT_MS = 10**12
"""Latest instant (31 years). In ns it leaves two bits of 64 free."""

MAX_COST_MS = 10**9
"""Dearest cost (11 days): in fs it fits 64 bits."""

MAX_SPEEDUP = 10**9
MAX_RATE = 10**6
"""Most arrivals per second: in gaps of a microsecond, the rounding to whole ns does not show."""

SPEEDUP_DECIMALS = 30
"""Enough for every float's ``repr`` within the bounds; an exponent without bound would fill the memory."""

MAX_COUNT = 2**63 - 1
MAX_BLOCKS = 10**9
TEXT_LENGTH = 256
_EXACT = Context(prec=64, traps=[Inexact, InvalidOperation])
_CUT = Context(prec=64, rounding="ROUND_FLOOR", traps=[InvalidOperation])


def _widen(value: object) -> object:
    """An integer is a number; a boolean is not."""
    return Decimal(value) if type(value) is int else value


def _no_minus_zero(value: Decimal) -> Decimal:
    return value or Decimal(0)


def _cut(value: Decimal) -> Decimal:
    """An instant without decimals that can't matter: what is cut lies below the half ns that decides the rounding."""
    return (
        value.quantize(Decimal(1).scaleb(-COST_DECIMALS), context=_CUT) if _decimals(value) > COST_DECIMALS else value
    )


def _exact(most: int, of: str) -> Callable[[Decimal], Decimal]:
    def check(value: Decimal) -> Decimal:
        if _decimals(value) <= most:
            return value
        try:
            return value.quantize(Decimal(1).scaleb(-most), context=_EXACT)
        except (Inexact, InvalidOperation):
            raise PydanticCustomError("decimals", f"too many decimals; at most {most}{of}") from None

    return check


def _decimals(value: Decimal) -> int:
    """Of a finite value."""
    return -int(value.as_tuple().exponent)


_Bounded = AfterValidator(_exact(SPEEDUP_DECIMALS, ""))

Instant = Annotated[
    Decimal,
    Field(ge=0, le=MAX_INSTANT_MS, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_no_minus_zero),
    AfterValidator(_cut),
]
"""A time in ms, 0 .. 10^12."""

Horizon = Annotated[
    Decimal,
    Field(ge=Decimal("0.000001"), le=MAX_INSTANT_MS, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_cut),
]
"""A time in ms of at least one ns."""

Cost = Annotated[
    Decimal,
    Field(ge=0, le=MAX_COST_MS, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_no_minus_zero),
    AfterValidator(_exact(COST_DECIMALS, " of a millisecond")),
]
"""A cost in ms, 0 .. 10^9, with at most 12 decimals."""

Speedup = Annotated[
    Decimal,
    Field(ge=Decimal("1e-9"), le=MAX_SPEEDUP, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_exact(SPEEDUP_DECIMALS, "")),
]

Rate = Annotated[
    Decimal,
    Field(ge=Decimal("1e-9"), le=MAX_RATE, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_exact(SPEEDUP_DECIMALS, "")),
]
"""Arrivals per second, 10^-9 .. 10^6."""

Sampling = Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False), BeforeValidator(_widen), AfterValidator(_cut)]
"""What part of something is kept, above 0 and up to 1."""

Factor = Annotated[
    Decimal,
    Field(gt=0, le=10**6, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_exact(COST_DECIMALS, "")),
]

Error = Annotated[
    Decimal,
    Field(ge=0, le=100, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_no_minus_zero),
    AfterValidator(_exact(COST_DECIMALS, "")),
]
"""How far something errs, 0 .. 100."""

Gib = Annotated[
    Decimal,
    Field(gt=0, le=10**6, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_exact(COST_DECIMALS, "")),
]

Seconds = Annotated[Decimal, Field(gt=0, le=10**9, allow_inf_nan=False), BeforeValidator(_widen), AfterValidator(_cut)]

Rate0 = Annotated[
    Decimal,
    Field(ge=0, le=MAX_RATE, allow_inf_nan=False),
    BeforeValidator(_widen),
    AfterValidator(_no_minus_zero),
    AfterValidator(_exact(SPEEDUP_DECIMALS, "")),
]
"""Arrivals per second, 0 .. 10^6."""

Variation = Annotated[
    Decimal, Field(ge=Decimal("0.001"), le=1000, allow_inf_nan=False), BeforeValidator(_widen), _Bounded
]
"""A coefficient of variation, 0.001 .. 1000."""

Share = Annotated[
    Decimal, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_widen), AfterValidator(_no_minus_zero), _Bounded
]
"""A part of a whole, 0 .. 1."""

Weight = Annotated[
    Decimal, Field(ge=0, le=10**9, allow_inf_nan=False), BeforeValidator(_widen), AfterValidator(_no_minus_zero),
    _Bounded,
]  # fmt: skip
"""What a probability is in proportion to."""

Branching = Annotated[Decimal, Field(ge=0, le=Decimal("0.999"), allow_inf_nan=False), BeforeValidator(_widen), _Bounded]
"""How many each arrival brings, 0 .. 0.999: from 1 on, there is no end to them."""

Duration = Annotated[
    Decimal, Field(ge=Decimal("0.000001"), le=10**9, allow_inf_nan=False), BeforeValidator(_widen), AfterValidator(_cut)
]
"""A mean time in ms, from a ns to 11 days."""

Correlation = Annotated[Decimal, Field(ge=-1, le=1, allow_inf_nan=False), BeforeValidator(_widen), _Bounded]
Mean = Annotated[Decimal, Field(ge=1, le=MAX_TOKENS, allow_inf_nan=False), BeforeValidator(_widen), _Bounded]
"""Mean tokens of a law of lengths."""

Deviation = Annotated[Decimal, Field(ge=0, le=MAX_TOKENS, allow_inf_nan=False), BeforeValidator(_widen), _Bounded]
Exponent = Annotated[Decimal, Field(ge=0, le=100, allow_inf_nan=False), BeforeValidator(_widen), _Bounded]
WeibullShape = Annotated[
    Decimal, Field(ge=Decimal("0.1"), le=1000, allow_inf_nan=False), BeforeValidator(_widen), _Bounded
]
_Shape = Annotated[
    Decimal, Field(ge=Decimal("0.000001"), le=10**6, allow_inf_nan=False), BeforeValidator(_widen), _Bounded
]


def _or_infinite(value: object, finite: ValidatorFunctionWrapHandler) -> Decimal:
    if value == "inf" or (isinstance(value, Decimal) and value == Decimal("inf")):
        return Decimal("inf")
    return Decimal(finite(value))


Burstiness = Annotated[
    _Shape,
    WrapValidator(_or_infinite),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0.000001}, {"const": "inf"}]}),
]
"""The shape of a gamma law, 10^-6 .. 10^6, or ``inf`` (in JSON, which has no such number, ``"inf"``)."""

Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Tokens0 = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Samples = Annotated[int, Field(ge=1, le=10**6)]
Blocks = Annotated[int, Field(ge=1, le=MAX_BLOCKS)]
Natural = Annotated[int, Field(ge=0, le=MAX_COUNT)]


def _or_output(value: object, tokens: ValidatorFunctionWrapHandler) -> int | None:
    if isinstance(value, str) and value != "output":
        raise PydanticCustomError("tokens_or_output", "neither tokens nor output")
    return None if value == "output" else int(tokens(value))


TokensOrOutput = Annotated[
    Tokens | None,
    WrapValidator(_or_output),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_TOKENS}, {"const": "output"}]}),
]
"""A number of tokens, or ``"output"`` for each request's own output, which is None here."""


def _name(value: str) -> str:
    if value in (".", ".."):
        raise PydanticCustomError("name", "a name of a folder that exists everywhere; any other name")
    return value


NAME_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(_name)]
"""Names make files' names: 1 to 64 of letters, digits, ``.``, ``_``, ``-``."""


def known(kind: str) -> AfterValidator:
    """Checks a name against those of ``kind`` that the caller of ``load`` knows; without any, every name will do."""

    def check(value: str, info: ValidationInfo) -> str:
        names = (info.context or {}).get(kind)
        if names is not None and value not in names:
            raise PydanticCustomError("unknown_name", "unknown", {"names": list(names)})
        return value

    return AfterValidator(check)


def one_of(names: Collection[str]) -> AfterValidator:
    """Checks a name against a list that is known here."""

    def check(value: str) -> str:
        if value not in names:
            raise PydanticCustomError("unknown_name", "unknown", {"names": list(names)})
        return value

    return AfterValidator(check)


def _printable(value: str) -> str:
    if value.isprintable():
        return value
    at = next((i for i, c in enumerate(value) if unicodedata.category(c) == "Cc"), None)
    if at is not None:
        raise PydanticCustomError("control", f"control character U+{ord(value[at]):04X}; none is allowed")
    return value


Text = Annotated[str, Field(max_length=TEXT_LENGTH), AfterValidator(_printable)]
"""A word of the user's: at most 256 characters, no control characters. Where it is shown, it is escaped."""

Id = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH), AfterValidator(_printable)]
FilePath = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
