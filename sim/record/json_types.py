"""The kinds of values in a result JSON, as types for pydantic: strict, times as whole ns."""

from decimal import Decimal
from math import isfinite
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from sim.clock import MAX_NS, NS_PER_MS
from sim.fields import MAX_TOKENS

_DIGITS = 40
"""Beyond 10^40, or finer than 10^-40, no number of a result lies; an exponent without bound would fill the memory."""


def _decimal(value: object) -> Decimal:
    if type(value) is float and isfinite(value):
        value = Decimal(repr(value))
    if type(value) is int and value.bit_length() <= 128:
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise PydanticCustomError("number", "not a number")
    exponent = value.as_tuple().exponent
    if (
        not isinstance(exponent, int)
        or (value and not -_DIGITS <= value.adjusted() <= _DIGITS)
        or -exponent > 2 * _DIGITS
    ):
        raise PydanticCustomError("number", "not a number that a result may hold")
    return value


def _ns(value: object) -> int:
    """A time in ms to whole ns."""
    numerator, denominator = _decimal(value).as_integer_ratio()
    whole, rest = divmod(numerator * NS_PER_MS, denominator)
    if rest:
        raise PydanticCustomError("ns", "not a whole number of nanoseconds")
    if not 0 <= whole < MAX_NS:
        raise PydanticCustomError("ns", "not a time from 0 up to the end of the clock")
    return whole


def _scalar(value: object) -> object:
    if value is None or type(value) in (str, bool):
        return value
    number = _decimal(value)
    return value if type(value) is int else number


def _setting(value: object) -> object:
    """A scalar, or a table or a list of them."""
    if isinstance(value, list):
        return [_scalar(each) for each in value]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _scalar(each) for key, each in value.items()}
    return _scalar(value)


Ms = Annotated[int, BeforeValidator(_ns)]
"""Milliseconds in the file, whole ns once read."""

Number = Annotated[Decimal, BeforeValidator(_decimal)]
Scalar = Annotated[Any, BeforeValidator(_scalar)]
Setting = Annotated[Any, BeforeValidator(_setting)]
Count = Annotated[int, Field(ge=0, lt=2**62)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Shape(BaseModel):
    """Any object of the JSON: its keys in camelCase, all of them, none besides."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=_camel)
