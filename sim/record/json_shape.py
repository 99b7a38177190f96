"""What the result JSON looks like, as models for pydantic: strict types, no key beyond these, times as whole ns."""

from collections.abc import Sequence
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from sim.clock import MAX_NS, NS_PER_MS
from sim.errors import ResultError
from sim.fields import MAX_TOKENS
from sim.record.json_form import SCHEMA
from sim.show import escape, shorten, show
from sim.spelling import nearest

MOST = 20
"""Most problems that are listed; the others are counted."""

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


Ms = Annotated[int, BeforeValidator(_ns)]
"""Milliseconds in the file, whole ns once read."""

Number = Annotated[Decimal, BeforeValidator(_decimal)]
Scalar = Annotated[Any, BeforeValidator(_scalar)]
Count = Annotated[int, Field(ge=0, lt=2**62)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Shape(BaseModel):
    """Any object of the JSON: its keys in camelCase, all of them, none besides."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=_camel)


class Provenance(Shape):
    """Where the result came from."""

    version: str
    seed: Count
    python: str
    simpy: str
    numpy: str
    workload_sha256: Sha256
    trace_sha256: Sha256 | None


class Asked(Shape):
    """One request: what was asked, how it ended, its metrics and all its tokens."""

    id: str
    status: Literal["finished", "rejected", "cancelled", "unfinished"]
    reason: str | None
    finish_reason: Literal["stop", "length"] | None
    arrival_ms: Ms
    prompt_tokens: Tokens
    output_tokens: Tokens
    emitted_tokens: Tokens
    first_scheduled_ms: Ms | None
    first_token_ms: Ms | None
    finish_ms: Ms | None
    ended_ms: Ms | None
    queue_ms: Ms | None
    ttft_ms: Ms | None
    max_itl_ms: Ms | None
    tpot_ms: Ms | None
    e2e_ms: Ms | None
    preemptions: Count
    recomputed_tokens: Count
    cached_tokens: Count
    cached_on_resume_tokens: Count
    token_times_ms: list[Ms]


class Scheduled(Shape):
    """Tokens of one request in a job."""

    id: str
    tokens: Tokens
    phase: Literal["prefill", "decode"]


class Event(Shape):
    """One job."""

    job: Count
    kind: Literal["prefill", "decode", "mixed", "swap"]
    start_ms: Ms
    end_ms: Ms
    scheduled: list[Scheduled]
    preempted: list[str]
    waiting: list[str]
    running: list[str]
    free_blocks: Count | None


class Distribution(Shape):
    """Figures of some values; all null when there is none."""

    n: Count
    mean: Number | None
    p50: Number | None
    p90: Number | None
    p95: Number | None
    p99: Number | None
    max: Ms | None


class Summary(Shape):
    """The figures of one run."""

    requests: Count
    finished: Count
    rejected: Count
    cancelled: Count
    unfinished: Count
    makespan_ms: Ms | None
    ttft: Distribution
    itl: Distribution
    tpot: Distribution
    e2e: Distribution
    queue: Distribution
    output_tokens_per_s: Number | None
    requests_per_s: Number | None
    jobs: Count
    preemptions: Count
    recomputed_tokens: Count
    scheduled_tokens: Count


class Run(Shape):
    """One policy, one run."""

    name: str
    policy: str
    settings: dict[str, Scalar]
    requests: list[Asked] = Field(min_length=1)
    events: list[Event]
    summary: Summary
    work: dict[str, Count]


class ResultDocument(Shape):
    """The whole file."""

    schema_: Literal["headway.result/1"] = Field(alias="schema")
    scenario: dict[str, Any]
    provenance: Provenance
    runs: list[Run] = Field(min_length=1)


class Heading(Shape):
    """``summary.json``, beside the tables of a run."""

    schema_: Literal["headway.run/1"] = Field(alias="schema")
    name: str
    policy: str
    settings: dict[str, Scalar]
    provenance: Provenance
    summary: Summary
    work: dict[str, Count]


Model = TypeVar("Model", bound=Shape)


def check_version(document: object) -> None:
    """``ResultError`` unless it is an object of the schema that this version reads."""
    if not isinstance(document, dict):
        raise ResultError("not a result: its JSON is no object")
    if "schema" not in document:
        raise ResultError(f'not a result: it has no "schema"; this version of Headway reads "{SCHEMA}"')
    version = document["schema"]
    if version != SCHEMA:
        raise ResultError(f'schema = {show(version)}: this version of Headway reads "{SCHEMA}"')


def shaped(document: object) -> ResultDocument:
    """The document, if it has the shape of a result. ``ResultError`` has a line for each thing that is wrong."""
    check_version(document)
    return _read(ResultDocument, document)


def shaped_heading(heading: object, name: str) -> Heading:
    """A ``summary.json`` of a run's folder, whose path is ``name``; ``ResultError`` if it does not have its shape."""
    return _read(Heading, heading, name)


def _read(model: type[Model], value: object, name: str = "") -> Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=True)
    except RecursionError:
        raise ResultError("nested too deeply") from None
    lines = [_complaint(detail, name) for detail in details[:MOST]]
    more = [f"and {len(details) - MOST} more"] if len(details) > MOST else []
    raise ResultError(*lines, *more)


def _complaint(detail: ErrorDetails, name: str) -> str:
    where, kind, context = (
        json_path((name, *detail["loc"]) if name else detail["loc"]),
        detail["type"],
        detail.get("ctx", {}),
    )
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        return f"{where}: unknown key"
    found = f"{where} = {show(detail['input'])}" if where else "the whole"
    if kind == "literal_error":
        allowed = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        return f"{found}: unknown; one of {', '.join(allowed)}{nearest(str(detail['input']), allowed)}"
    return f"{found}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def json_path(steps: Sequence[str | int]) -> str:
    """``runs[0].requests[2].ttftMs``."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{escape(shorten(step))}" if text else escape(shorten(step))
    return text
