"""The tables of a scenario whose requests are generated: a law by its name, and the keys that this law has."""

from collections.abc import Mapping
from dataclasses import fields as fields_of
from itertools import pairwise
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, model_validator

from sim import fields
from sim.complaints import at
from sim.show import show
from sim.table import Table
from sim.workload.arrivals import PROCESSES, Process
from sim.workload.lengths import DISTRIBUTIONS, Distribution

Law = TypeVar("Law")

MAX_REQUESTS = 10**7
"""Most requests that are generated: their columns take a gigabyte."""


class Arrivals(Table):
    """A law of arrivals, by its name, and its keys."""

    process: Annotated[str, fields.one_of(PROCESSES), Field(json_schema_extra={"enum": list(PROCESSES)})] = Field(
        description="The law of the arrivals.", examples=["poisson"]
    )
    rate_per_s: fields.Rate | None = Field(
        default=None, description="poisson, deterministic: requests per second.", examples=[4]
    )
    times_ms: Annotated[tuple[fields.Instant, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, description="given: the times themselves, ascending, as many as count."
    )

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        _only_its_own(self, "process", PROCESSES)
        times = self.times_ms or ()
        for place, (before, time) in enumerate(pairwise(times), 1):
            if time < before:
                raise at(("times_ms", place), f"too small; times ascend, at least the one before, {before:f}")
        return self

    @property
    def law(self) -> Process:
        return _law(self, "process", PROCESSES)


class Lengths(Table):
    """A law of lengths, by its name, and its keys."""

    distribution: Annotated[
        str, fields.one_of(DISTRIBUTIONS), Field(json_schema_extra={"enum": list(DISTRIBUTIONS)})
    ] = Field(description="The law of the lengths.", examples=["fixed"])
    value: fields.Tokens | None = Field(default=None, description="fixed: tokens of each.", examples=[512])
    min: fields.Tokens | None = Field(default=None, description="uniform: least tokens.", examples=[1])
    max: fields.Tokens | None = Field(default=None, description="uniform: most tokens, included.", examples=[1024])

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        _only_its_own(self, "distribution", DISTRIBUTIONS)
        if self.min is not None and self.max is not None and self.max < self.min:
            raise at("max", f"too small; at least min, {self.min}")
        return self

    @property
    def law(self) -> Distribution:
        return _law(self, "distribution", DISTRIBUTIONS)


def _only_its_own(table: Table, kind: str, laws: Mapping[str, type[Any]]) -> None:
    """Every key of the law that the table names is there, and none of another's."""
    name = getattr(table, kind)
    own = [field.name for field in fields_of(laws[name])]
    for key, info in type(table).model_fields.items():
        given = getattr(table, key) is not None
        if given and key not in (kind, *own):
            raise at(key, f"not a key of {kind} {name}, which has {', '.join(own)}")
        if not given and key in own:
            example = f"; for example {key} = {show(info.examples[0])}" if info.examples else ""
            raise at(key, f"missing in {kind} {name}{example}")


def _law(table: Table, kind: str, laws: Mapping[str, type[Law]]) -> Law:
    chosen: type[Any] = laws[getattr(table, kind)]
    law: Law = chosen(**{field.name: getattr(table, field.name) for field in fields_of(chosen)})
    return law
