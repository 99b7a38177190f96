"""The tables of a scenario's clients: who sends requests when others have ended, and how long they wait for them."""

from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from sim import fields
from sim.complaints import at
from sim.generated import MAX_REQUESTS, Lengths, check_law, law_of
from sim.table import Table
from sim.workload.durations import DURATIONS, Duration

MAX_MS = 10**9
"""Longest time that a client thinks or waits, in ms (11 days): ten million of them stay within the clock."""

Span = Annotated[
    Decimal,
    Field(ge=0, le=MAX_MS, allow_inf_nan=False),
    BeforeValidator(lambda value: Decimal(value) if type(value) is int else value),
]
"""A duration in ms."""


class Durations(Table):
    """A law of durations by its name, and its keys, in ms. A number alone stands for itself, every time."""

    distribution: Annotated[str, fields.one_of(DURATIONS), Field(json_schema_extra={"enum": list(DURATIONS)})] = Field(
        description="The law of the durations.", examples=["exponential"]
    )
    value: Span | None = Field(default=None, description="fixed: each, in ms.", examples=[1000])
    mean: Span | None = Field(
        default=None, description="exponential, lognormal, gamma: their mean, in ms.", examples=[1000]
    )
    cv: Annotated[fields.Factor, Field(ge=Decimal("0.001"), le=100)] | None = Field(
        default=None, description="lognormal, gamma: standard deviation over mean.", examples=[1]
    )
    min: Span | None = Field(default=None, description="uniform: the shortest, in ms.", examples=[500])
    max: Span | None = Field(default=None, description="uniform: the longest, in ms.", examples=[1500])

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        check_law(self, "distribution", DURATIONS)
        if self.min is not None and self.max is not None and self.max < self.min:
            raise at("max", f"too small; at least min, {self.min:f}")
        return self

    @property
    def law(self) -> Duration:
        return law_of(self, "distribution", DURATIONS)


def is_short(value: object) -> bool:
    """Whether it is a number, which stands for a law."""
    return type(value) in (int, Decimal)


def spelled_out(ms: object) -> dict[str, object]:
    """The law that a number of ms stands for."""
    return {"distribution": "fixed", "value": ms}


def _of_number(value: object) -> object:
    """A number as the table that it stands for."""
    if not is_short(value):
        return value
    ms = Decimal(value)  # type: ignore[arg-type]  # one of these two
    if not ms.is_finite():
        raise PydanticCustomError("not_finite", "not finite; must be a finite number")
    if not 0 <= ms <= MAX_MS:
        bound = "small; at least 0" if ms < 0 else f"large; at most {MAX_MS}"
        raise PydanticCustomError("out_of_bounds", "{problem}", {"problem": f"too {bound}"})
    return spelled_out(ms)


class OrNumber:
    """Says so in the JSON Schema."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "number", "minimum": 0, "maximum": MAX_MS}, handler(schema)]}


AnyDuration = Annotated[Durations, BeforeValidator(_of_number), OrNumber()]
"""A number of ms, or a law."""

DURATION_KEYS = ("workload.clients.think_ms", "workload.sessions.think_ms", "workload.patience_ms")
"""Where a number may stand for a law."""


def _at_once() -> Durations:
    return Durations(distribution="fixed", value=Decimal(0))


class Clients(Table):
    """A closed loop: so many users, each of whom thinks, sends a request, waits for its end, and thinks again."""

    users: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] = Field(description="How many users.", examples=[10])
    think_ms: AnyDuration = Field(
        default_factory=_at_once,
        description="How long a user thinks before each request, the first one too: ms, or a law; default 0.",
    )


class Sessions(Table):
    """Conversations: each turn's prompt is the one before with its answer, and something new."""

    turns: Lengths = Field(description="The law of the number of turns of a session.", examples=[{"value": 3}])
    think_ms: AnyDuration = Field(
        default_factory=_at_once, description="From the end of a turn to the next one: ms, or a law; default 0."
    )


class Retry(Table):
    """Who left is sent again."""

    attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        description="How often a request whose client left is sent again at most.", examples=[3]
    )
    backoff_ms: Span = Field(
        default=Decimal(0), description="From the end of an attempt to the next one, the first time, in ms."
    )
    factor: Annotated[fields.Factor, Field(ge=1)] = Field(
        default=Decimal(2), description="Each further backoff is so many times the one before."
    )
    max_backoff_ms: Span = Field(default=Decimal(MAX_MS), description="No backoff is longer, in ms.")

    def backoffs_ms(self) -> list[Decimal]:
        """The backoff before each attempt but the first."""
        found, backoff = [], self.backoff_ms
        for _ in range(self.attempts):
            found.append(min(backoff, self.max_backoff_ms))
            backoff = min(backoff * self.factor, Decimal(MAX_MS))
        return found


def check_clients(workload: Any) -> None:
    """What the keys of ``[workload]`` about clients say of the others. Raises what a validator raises."""
    sent = [name for name in ("clients", "sessions") if getattr(workload, name) is not None]
    if sent and workload.classes is not None:
        raise at(sent[0], "with classes, which have arrivals of their own; only one of them")
    if sent and workload.count is None:
        raise at(sent[0], "without count; only for generated requests")
    if sent and workload.deadline_after_ms is not None:
        raise at("deadline_after_ms", f"with {sent[0]}, whose arrivals nobody knows before; leave it out")
    if workload.clients is not None:
        for name in ("arrivals", "sessions"):
            if getattr(workload, name) is not None:
                raise at(name, "together with clients, who send when their request before has ended; only one of them")
    if workload.retry is not None:
        _check_retry(workload)


def _check_retry(workload: Any) -> None:
    if workload.patience_ms is None:
        raise at("retry", "without patience_ms; only who runs out of patience is sent again")
    for place, request in enumerate(workload.requests or ()):
        _, tilde, number = request.id.rpartition("~")
        if tilde and number.isdecimal():
            raise at(("requests", place, "id"), "ends like that of a second attempt; not with retry")
