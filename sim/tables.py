"""The tables of a scenario, as pydantic models: their keys, defaults, what each value may be (see ``fields``)."""

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from sim import fields
from sim.complaints import at
from sim.request import default_id


class Table(BaseModel):
    """Any table: its values fixed once read, its types taken as they are, no key beyond those declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Request(Table):
    """One request, as the workload states it."""

    id: fields.Id = Field(
        default_factory=str, description="Name of the request, 1 to 256 characters; default r000001 by its place."
    )
    arrival_ms: fields.Instant = Field(
        default=Decimal(0), description="When it arrives, in ms, rounded half up to whole ns."
    )
    prompt_tokens: fields.Tokens = Field(description="Tokens of the prompt.", examples=[512])
    output_tokens: fields.Tokens = Field(description="Tokens that it will emit.", examples=[128])
    max_tokens: fields.Tokens = Field(
        default_factory=lambda before: before["output_tokens"],
        description="Declared bound of the output in tokens, at least output_tokens; default output_tokens.",
    )
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = Field(default=0, description="Lower is more urgent.")
    tenant: fields.Text = Field(default="", description="Whose request it is, at most 256 characters.")
    deadline_ms: fields.Instant | None = Field(
        default=None, description="By when it should be done: an absolute time in ms."
    )
    cancel_ms: fields.Instant | None = Field(
        default=None, description="When its client gives up: an absolute time in ms."
    )
    # samples, prefix_group, prefix_tokens, parent and parent_tokens stand here once there is a KV pool

    @model_validator(mode="after")
    def _declared(self) -> Self:
        if self.max_tokens < self.output_tokens:
            raise at("max_tokens", f"too small; at least output_tokens, {self.output_tokens}")
        return self


class Trace(Table):
    """Requests from a recorded trace."""

    path: fields.FilePath = Field(
        description="The trace, relative to the scenario file; plain, gzip or zstd by its first bytes.",
        examples=["trace.csv"],
    )
    format: Annotated[fields.Name, fields.known("format")] = Field(
        default="azure", description="What the file looks like."
    )
    limit: fields.Count | None = Field(default=None, description="Take at most this many rows; default all.")
    skip: fields.Natural = Field(default=0, description="Leave out this many rows at the start.")
    speedup: fields.Speedup = Field(
        default=Decimal(1), description="Divides the times between arrivals: 2 is twice the load."
    )
    # thin, loop and columns stand here once there are formats that need them


def _named(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Requests without a name get the one of their place."""
    if all(request.id for request in requests):
        return requests
    return tuple(r if r.id else r.model_copy(update={"id": default_id(i)}) for i, r in enumerate(requests))


class Workload(Table):
    """Where the requests come from: exactly one of its keys."""

    requests: Annotated[tuple[Request, ...], Field(strict=False, min_length=1), AfterValidator(_named)] | None = Field(
        default=None, description="The requests themselves, one table each; ties of arrival are served in this order."
    )
    trace: Trace | None = Field(default=None, description="A recorded trace to take them from.")
    # count + arrivals + prompt_tokens + output_tokens, max_tokens stand here once requests are generated

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("requests", "trace") if getattr(self, name) is not None]
        if len(given) != 1:
            problem = "both requests and trace" if given else "neither requests nor trace"
            raise PydanticCustomError("source", f"{problem}; exactly one of them")
        return self


class Device(Table):
    """What a job costs. Of the costs that a ``[device]`` table leaves out, each is 0."""

    cost: Literal["linear"] = Field(default="linear", description="The cost model.")
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

PolicyName = Annotated[fields.Name, fields.known("policy")]


class Scheduler(Table):
    """Who goes first. What is None takes the value of the policy's preset."""

    policy: PolicyName = Field(default="fcfs", description="A preset over the keys below.")
    batching: Literal["continuous", "static"] | None = Field(
        default=None,
        description="Whether others may join a batch before its longest request ends; default the policy's.",
    )
    composition: Annotated[fields.Name, fields.known("composition")] | None = Field(
        default=None, description="What goes into one job; default the policy's."
    )
    prefills_per_job: fields.Natural | None = Field(
        default=None,
        description="Whole prompts in one prefill job, 0 for as many as the budget allows; default the policy's.",
    )
    chunk_tokens: fields.Tokens | None = Field(
        default=None, description="Most prompt tokens of a chunk; default the policy's."
    )
    max_running: fields.Count | None = Field(
        default=None, description="Most requests that run at once; default the policy's."
    )


class Variant(Table):
    """One of several settings that a run puts side by side."""

    name: fields.Name = Field(description="Its name, and that of its folder.", examples=["chunk-4"])
    set: dict[str, Any] = Field(
        default_factory=dict, description='What it changes: {"scheduler.chunk_tokens" = 4, …}, dotted keys and values.'
    )


class Run(Table):
    """How it is run, and how far."""

    seed: Annotated[int, Field(ge=0, le=2**64 - 1)] = Field(default=0, description="Start of all random numbers.")
    policies: Annotated[tuple[PolicyName, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, description="The policies that the command compares; default scheduler.policy alone."
    )
    variants: Annotated[tuple[Variant, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, description="Settings that the command puts side by side, instead of policies."
    )
    horizon_ms: fields.Horizon | None = Field(
        default=None, description="Jobs that end by this time count, in ms; default all."
    )
    max_jobs: fields.Count | None = Field(default=None, description="Stop after this many jobs; default never.")
    max_seconds: fields.Seconds | None = Field(
        default=None, description="Stop after so many seconds of computing, real time."
    )

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.policies is not None and self.variants is not None:
            raise at("variants", "together with run.policies; only one of them")
        return self
