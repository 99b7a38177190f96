"""The tables of a scenario whose requests are generated: a law by its name, and the keys that this law has."""

from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from sim import fields
from sim.complaints import at
from sim.own_keys import OpenTable, names_in
from sim.registry import Registry
from sim.show import show
from sim.table import Table
from sim.workload.arrivals import PROCESSES
from sim.workload.batches import ExactRate, Ticked
from sim.workload.distribution import Distribution
from sim.workload.law import Law
from sim.workload.lengths import DISTRIBUTIONS, IN_MIXTURES
from sim.workload.own_laws import OwnDistribution, OwnProcess
from sim.workload.process import Process

AnyLaw = TypeVar("AnyLaw", bound=Law)

MAX_REQUESTS = 10**7
"""Most requests that are generated: their columns take a gigabyte."""

Numbers = Field(strict=False, min_length=1)
Point = Annotated[tuple[fields.Instant, fields.Rate0], Field(strict=False)]
GROWTHS = ("linear", "exponential")


class Arrivals(OpenTable):
    """A law of arrivals, by its name, and its keys."""

    names_by: ClassVar[str] = "process"
    rows: ClassVar[Registry[Any]] = PROCESSES
    besides: ClassVar[tuple[str, ...]] = ("tick_ms", "exact_rate")

    process: Annotated[str, fields.one_of(PROCESSES), Field(json_schema_extra=names_in(PROCESSES))] = Field(
        description="The law of the arrivals.", examples=["poisson"]
    )
    rate_per_s: fields.Rate | None = Field(
        default=None, description="Requests per second, on average; on-off: while it is on.", examples=[4]
    )
    times_ms: Annotated[tuple[fields.Instant, ...], Numbers] | None = Field(
        default=None, description="given: the times themselves, ascending, as many as count."
    )
    cv: fields.Variation | None = Field(
        default=None, description="gamma, hyperexponential: standard deviation of the gaps over their mean."
    )
    burstiness: fields.Burstiness | None = Field(
        default=None, description="gamma, instead of cv: the shape, 1 / cv^2; inf for constant gaps."
    )
    shape: fields.WeibullShape | None = Field(
        default=None, description="weibull: its shape, below 1 for gaps burstier than Poisson's.", examples=[0.5]
    )
    probabilities: Annotated[tuple[fields.Share, ...], Numbers] | None = Field(
        default=None, description="hyperexponential, instead of rate_per_s and cv: of its branches."
    )
    rates_per_s: Annotated[tuple[fields.Rate0, ...], Numbers] | None = Field(
        default=None, description="hyperexponential: rates of the branches; mmpp: of the states.", examples=[[1, 20]]
    )

    mean_sojourn_ms: Annotated[tuple[fields.Duration, ...], Numbers] | None = Field(
        default=None, description="mmpp: how long each state lasts on average.", examples=[[60000, 5000]]
    )
    transitions: Annotated[tuple[Annotated[tuple[fields.Share, ...], Numbers], ...], Numbers] | None = Field(
        default=None, description="mmpp: a row for each state, how probable each next one is; default: in turn."
    )
    on_ms: fields.Duration | None = Field(
        default=None, description="on-off: how long it is on, on average.", examples=[5000]
    )
    off_ms: fields.Duration | None = Field(
        default=None, description="on-off: how long it is off, on average.", examples=[15000]
    )
    amplitude: fields.Share | None = Field(
        default=None, description="sinusoid: how far the rate swings, as a part of its mean.", examples=[0.5]
    )
    period_ms: fields.Horizon | None = Field(
        default=None,
        description="sinusoid: of the swing; piecewise-linear, steps: after it all begins again; batch: between two.",
        examples=[60000],
    )
    phase: fields.Share | None = Field(
        default=None, description="sinusoid: where in its period it starts; 0, the default: at the mean, rising."
    )
    points: Annotated[tuple[Point, ...], Numbers] | None = Field(
        default=None, description="piecewise-linear, steps: pairs of ms and requests per second, the first at 0 ms.",
        examples=[[[0, 2], [60000, 20]]],
    )  # fmt: skip
    from_per_s: fields.Rate0 | None = Field(default=None, description="ramp: rate at the start.", examples=[1])
    to_per_s: fields.Rate | None = Field(default=None, description="ramp: rate from its end on.", examples=[8])
    over_ms: fields.Horizon | None = Field(default=None, description="ramp: how long it takes.", examples=[60000])
    growth: Annotated[str, fields.one_of(GROWTHS), Field(json_schema_extra={"enum": list(GROWTHS)})] | None = Field(
        default=None, description="ramp: linear, the default, or exponential."
    )
    path: fields.FilePath | None = Field(
        default=None, description="trace-rate: a trace, relative to the scenario file.", examples=["trace.csv"]
    )
    format: Annotated[fields.Name, fields.known("format")] | None = Field(
        default=None, description="trace-rate: what the file looks like; default auto, by its content."
    )
    window_ms: fields.Horizon | None = Field(
        default=None, description="trace-rate: the rate is constant in each window of so many ms.", examples=[10000]
    )
    base_per_s: fields.Rate | None = Field(
        default=None, description="hawkes: rate of those who come by themselves.", examples=[2]
    )
    branching: fields.Branching | None = Field(
        default=None, description="hawkes: how many others each brings, on average.", examples=[0.6]
    )
    decay_ms: fields.Duration | None = Field(
        default=None, description="hawkes: after how long it brings them, on average.", examples=[2000]
    )
    size: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        default=None, description="batch: requests that arrive together.", examples=[8]
    )
    tick_ms: fields.Horizon | None = Field(
        default=None, description="Any process: each arrives at the last multiple of this before its time."
    )
    exact_rate: bool = Field(
        default=False,
        description="Any process with a mean rate: times are stretched so that the last of N arrives at N / rate, as "
        "vLLM's client does; it is no longer the law that was asked for.",
    )

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        if PROCESSES.source(self.process) is not None:
            return self
        check_law(self, "process", PROCESSES, besides=self.besides)
        self.check_own()
        return self

    def check_own(self) -> None:
        if self.exact_rate and self.law.mean_rate_per_s is None:
            raise at("exact_rate", f"process {self.process} states no mean rate here")

    @property
    def law(self) -> Process:
        law = law_of(self, "process", PROCESSES) if self.own is None else OwnProcess(*self.own)
        law = ExactRate(law) if self.exact_rate else law
        return law if self.tick_ms is None else Ticked(law, self.tick_ms)


class LengthKeys(Table):
    """The keys of every law of lengths but those that are made of others."""

    value: fields.Tokens | None = Field(default=None, description="fixed: tokens of each.", examples=[512])
    min: fields.Tokens | None = Field(
        default=None, description="Least tokens; the law is restricted to what lies above (normal: clipped).",
        examples=[1],
    )  # fmt: skip
    max: fields.Tokens | None = Field(
        default=None, description="Most tokens, included; the law is restricted to what lies below (normal: clipped).",
        examples=[1024],
    )  # fmt: skip
    length: fields.Tokens | None = Field(
        default=None, description="uniform-vllm, uniform-sglang: what the ratio is of.", examples=[1024]
    )
    range_ratio: fields.Share | None = Field(
        default=None,
        description="uniform-vllm: from length (1 - r) to length (1 + r); uniform-sglang: from length r to length.",
        examples=[0.5],
    )
    mean: fields.Mean | None = Field(
        default=None, description="Mean tokens of the law, before it is restricted and rounded.", examples=[512]
    )
    std: fields.Deviation | None = Field(default=None, description="normal: standard deviation.", examples=[128])
    cv: fields.Variation | None = Field(
        default=None, description="lognormal, gamma: standard deviation over mean.", examples=[1]
    )
    theta: fields.Exponent | None = Field(
        default=None, description="zipf: the r-th length from min on has probability in proportion to r^-theta.",
        examples=[0.6],
    )  # fmt: skip
    values: Annotated[tuple[fields.Tokens, ...], Numbers] | None = Field(
        default=None, description="choice: the lengths.", examples=[[128, 4096]]
    )
    weights: Annotated[tuple[fields.Weight, ...], Numbers] | None = Field(
        default=None, description="choice: how probable each is, in proportion; default all alike."
    )


class Component(LengthKeys):
    """One law of a mixture."""

    weight: fields.Weight = Field(description="How probable it is, in proportion.", examples=[0.5])
    distribution: Annotated[str, fields.one_of(IN_MIXTURES), Field(json_schema_extra={"enum": list(IN_MIXTURES)})] = (
        Field(description="The law of the lengths.", examples=["fixed"])
    )

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        check_law(self, "distribution", IN_MIXTURES, besides=("weight",))
        return self

    @property
    def law(self) -> Distribution:
        return law_of(self, "distribution", IN_MIXTURES)


class Lengths(OpenTable, LengthKeys):
    """A law of lengths, by its name, and its keys."""

    names_by: ClassVar[str] = "distribution"
    rows: ClassVar[Registry[Any]] = DISTRIBUTIONS

    distribution: Annotated[str, fields.one_of(DISTRIBUTIONS), Field(json_schema_extra=names_in(DISTRIBUTIONS))] = (
        Field(description="The law of the lengths.", examples=["fixed"])
    )
    components: Annotated[tuple[Component, ...], Numbers] | None = Field(
        default=None, description="mixture: the laws, each with its weight."
    )
    path: fields.FilePath | None = Field(
        default=None, description="empirical: a trace, relative to the scenario file.", examples=["trace.csv"]
    )
    format: Annotated[fields.Name, fields.known("format")] | None = Field(
        default=None, description="empirical: what the file looks like; default auto, by its content."
    )
    column: (
        Annotated[str, fields.one_of(("prompt", "output")), Field(json_schema_extra={"enum": ["prompt", "output"]})]
        | None
    ) = Field(default=None, description="empirical: which tokens of its rows.", examples=["prompt"])

    @model_validator(mode="after")
    def _of_one_law(self) -> Self:
        if DISTRIBUTIONS.source(self.distribution) is None:
            check_law(self, "distribution", DISTRIBUTIONS)
        return self

    @property
    def law(self) -> Distribution:
        return law_of(self, "distribution", DISTRIBUTIONS) if self.own is None else OwnDistribution(*self.own)


def check_law(table: Table, kind: str, laws: Mapping[str, type[Law]], besides: tuple[str, ...] = ()) -> None:
    """Every key that the law must have is there, none of another's is, and together they make sense.

    ``besides`` are keys of the table that belong to no law.
    """
    name = getattr(table, kind)
    own = {field.name: field.default is MISSING for field in fields_of(laws[name])}  # type: ignore[arg-type]
    for key, info in type(table).model_fields.items():
        given = getattr(table, key) is not None
        if given and key not in (kind, *besides, *own):
            raise at(key, f"not a key of {kind} {name}, which has {', '.join(own)}")
        if not given and own.get(key):
            example = f"; for example {key} = {show(info.examples[0])}" if info.examples else ""
            raise at(key, f"missing in {kind} {name}{example}")
    problem = law_of(table, kind, laws).problem()
    if problem is not None:
        raise at(*problem)


def law_of(table: Table, kind: str, laws: Mapping[str, type[AnyLaw]]) -> AnyLaw:
    """The law that a table describes; what the table leaves out has the law's own default."""
    chosen: type[Any] = laws[getattr(table, kind)]
    keys = {field.name: getattr(table, field.name) for field in fields_of(chosen)}
    law: AnyLaw = chosen(**{key: value for key, value in keys.items() if value is not None})
    return law
