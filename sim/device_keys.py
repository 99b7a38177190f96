"""What a job costs, as a scenario says it: the linear device, or a cost model of somebody's own."""

from decimal import Decimal
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sim import fields
from sim.own_keys import OpenTable, OwnThing, names_in
from sim.registry import Registry

COSTS: Registry[OwnThing | None] = Registry("cost", {"linear": None})
"""The cost models by name. The keys of the linear one are those of :class:`Device`."""


class Device(OpenTable):
    """What a job costs. Of the costs that a ``[device]`` table leaves out, each is 0."""

    names_by: ClassVar[str] = "cost"
    rows: ClassVar[Registry[OwnThing | None]] = COSTS

    cost: Annotated[fields.Name, fields.one_of(COSTS), Field(json_schema_extra=names_in(COSTS))] = Field(
        default="linear", description="The cost model."
    )
    job_ms: fields.Cost = Field(default=Decimal(0), description="Cost of every job, in ms.")
    prefill_ms_per_token: fields.Cost = Field(
        default=Decimal(0), description="Cost of each prompt token of a job, in ms."
    )
    decode_ms_per_batch: fields.Cost = Field(
        default=Decimal(0), description="Cost of decoding anything in a job, in ms, once."
    )
    decode_ms_per_request: fields.Cost = Field(
        default=Decimal(0), description="Cost of each decoding request of a job, in ms."
    )
    context_ms_per_token: fields.Cost = Field(
        default=Decimal(0),
        description="Cost of each token of context that a job's decodes read (their own included), in ms.",
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if COSTS.source(self.cost) is not None:
            return self
        costs = [self.job_ms, self.prefill_ms_per_token, self.decode_ms_per_batch]
        if not any([*costs, self.decode_ms_per_request, self.context_ms_per_token]):
            raise PydanticCustomError("no_cost", "every cost is 0, so that no job takes any time; at least one above 0")
        return self


LESSON: dict[str, object] = {
    "job_ms": Decimal("0.25"),
    "prefill_ms_per_token": Decimal(1),
    "decode_ms_per_batch": Decimal(1),
}
"""The lesson's device: the one that a scenario without a ``[device]`` table has."""
