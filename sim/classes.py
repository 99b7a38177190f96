"""What generated requests have besides their laws, and several classes of them at once."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Protocol, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sim import fields
from sim.complaints import at
from sim.generated import MAX_REQUESTS, Arrivals, Lengths
from sim.table import Table

LAWS = ("arrivals", "prompt_tokens", "output_tokens")
"""What generated requests are drawn from."""


Correlation = Annotated[
    fields.Correlation | None,
    Field(
        description="Of prompt and output, -1 to 1: that of their normal scores (a Gaussian copula).", examples=[0.5]
    ),
]
MaxTokens = Annotated[
    fields.TokensOrOutput,
    Field(description='Bound of the output that each declares, at least the longest; "output", the default: its own.'),
]
Tenant = Annotated[fields.Text, Field(description="Whose requests they are, at most 256 characters.")]
Priority = Annotated[fields.Priority, Field(description="Lower is more urgent.")]
DeadlineAfter = Annotated[
    fields.Instant | None, Field(description="By when each should be done, in ms after its arrival.")
]
EACH = ("correlation", "max_tokens", "tenant", "priority", "deadline_after_ms")
"""What can be said of all requests that are drawn from the same laws."""


class Traffic(Protocol):
    """Requests that are drawn from the same laws: a class of them, or a workload that has no classes."""

    @property
    def arrivals(self) -> Arrivals | None: ...
    @property
    def prompt_tokens(self) -> Lengths | None: ...
    @property
    def output_tokens(self) -> Lengths | None: ...
    @property
    def correlation(self) -> Decimal | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def tenant(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def deadline_after_ms(self) -> Decimal | None: ...


class TrafficClass(Table):
    """One class of generated requests."""

    name: fields.Name = Field(description="Its name, which its random numbers depend on.", examples=["chat"])
    count: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        default=None, description="How many requests it has.", examples=[1000]
    )
    share: fields.Share | None = Field(
        default=None, description="Instead of its count, its part of workload.count.", examples=[0.5]
    )
    arrivals: Arrivals = Field(description="When its requests arrive.")
    prompt_tokens: Lengths = Field(description="Tokens of their prompts.")
    output_tokens: Lengths = Field(description="Tokens that they will emit.")
    correlation: Correlation = None
    max_tokens: MaxTokens = None
    tenant: Tenant = ""
    priority: Priority = 0
    deadline_after_ms: DeadlineAfter = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.count is None) == (self.share is None):
            problem = "neither count nor share" if self.count is None else "both count and share"
            raise PydanticCustomError("class_count", f"{problem}; exactly one of them")
        check_traffic(self, self.count)
        return self


def lengths_of(traffic: Traffic) -> tuple[Lengths, Lengths]:
    """The laws of prompts and outputs, which must be there."""
    if traffic.prompt_tokens is None or traffic.output_tokens is None:
        raise TypeError("requests without laws")
    return traffic.prompt_tokens, traffic.output_tokens


def check_traffic(traffic: Traffic, count: int | None) -> None:
    """What the laws of a class, or of a workload without classes, say of one another and of the count (None: later)."""
    prompt, output = lengths_of(traffic)
    times = traffic.arrivals.times_ms if traffic.arrivals else None
    if count is not None and times is not None and len(times) != count:
        raise at(("arrivals", "times_ms"), f"{len(times)} times for count = {count}; as many as count")
    if traffic.correlation is not None and drawn_together(prompt, output):
        raise at("correlation", "prompts and outputs of the same trace are drawn as pairs; leave it out")
    longest = output.law.largest
    if traffic.max_tokens is None or traffic.max_tokens >= longest or output.distribution == "empirical":
        return
    if longest == fields.MAX_TOKENS and output.own is not None:
        return  # it states no bound; what it draws is looked at then
    if longest == fields.MAX_TOKENS and output.max is None:
        raise at("max_tokens", f"output_tokens has no bound; give it max = {traffic.max_tokens} or less")
    raise at("max_tokens", f"too small; at least the longest output that may be drawn, {longest}")


def drawn_together(prompt: Lengths, output: Lengths) -> bool:
    """Whether both are the tokens of the same rows of one trace."""
    both = {prompt.distribution, output.distribution} == {"empirical"}
    return both and (prompt.path, prompt.format or "auto") == (output.path, output.format or "auto")


def check_classes(classes: Sequence[TrafficClass], total: int | None, most: int) -> None:
    """What several classes say of one another."""
    names = [each.name for each in classes]
    by_share = classes[0].share is not None
    for place, each in enumerate(classes):
        if each.name in names[:place]:
            raise at(("classes", place, "name"), f"the name of class {names.index(each.name)} too; each its own")
        if (each.share is not None) != by_share:
            key = "count" if by_share else "share"
            raise at(("classes", place, key), f"the first class has {'share' if by_share else 'count'}; all alike")
    if by_share:
        _check_shares(classes, total)
    of_each = counts(classes, total)
    if sum(of_each) > most:
        raise at("classes", f"{sum(of_each)} requests together; at most {most}")
    for place, (each, count) in enumerate(zip(classes, of_each, strict=True)):
        times = each.arrivals.times_ms
        if times is not None and len(times) != count:
            raise at(("classes", place, "arrivals", "times_ms"), f"{len(times)} times for {count} requests; as many")


def _check_shares(classes: Sequence[TrafficClass], total: int | None) -> None:
    if total is None:
        raise at("count", "missing; the total that the classes have shares of")
    shares = sum((each.share or Decimal(0) for each in classes), Decimal(0))
    if abs(shares - 1) > Decimal("1e-9"):
        raise at("classes", f"the shares sum to {float(shares):.9g}; must be 1")
    for place, count in enumerate(counts(classes, total)):
        if count == 0:
            raise at(("classes", place, "share"), f"too small; no request of {total} is left for it")


def counts(classes: Sequence[TrafficClass], total: int | None) -> tuple[int, ...]:
    """How many requests each class has: of shares, whole numbers; the largest remainders (then the first) round up."""
    if any(each.count is not None for each in classes):
        return tuple(each.count or 0 for each in classes)
    parts = [Fraction(each.share or 0) * (total or 0) for each in classes]
    whole = [int(part) for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda place: whole[place] - parts[place])
    for place in by_remainder[: (total or 0) - sum(whole)]:
        whole[place] += 1
    return tuple(whole)
