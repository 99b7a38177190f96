"""The table ``[workload.trace]``: which file, how it is read, which of its rows are taken."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sim import fields
from sim.clock import instant_ns
from sim.complaints import at
from sim.fields import FilePath, Instant, Name, Text
from sim.table import Table

Column = Annotated[Text, Field(min_length=1)]


class Columns(Table):
    """What the file calls the keys of a request; default: by the same name, or as the format has it."""

    arrival: Column | None = Field(default=None, description="Time of arrival, in workload.trace.unit.")
    prompt_tokens: Column | None = Field(default=None, description="Tokens of the prompt.")
    output_tokens: Column | None = Field(default=None, description="Tokens that it emits.")
    id: Column | None = Field(default=None, description="Name of the request; without: r000001 by its place.")
    max_tokens: Column | None = Field(default=None, description="Declared bound of the output.")
    priority: Column | None = Field(default=None, description="Lower is more urgent.")
    tenant: Column | None = Field(default=None, description="Whose request it is.")
    deadline: Column | None = Field(default=None, description="By when it should be done, on the clock of arrival.")
    cancel: Column | None = Field(default=None, description="When its client gives up, on the clock of arrival.")
    samples: Column | None = Field(default=None, description="Sequences over one prompt.")
    prefix_group: Column | None = Field(default=None, description="Requests of one group begin alike.")
    prefix_tokens: Column | None = Field(default=None, description="How many of its first tokens are the group's.")
    parent: Column | None = Field(default=None, description="Id of a request with whose tokens this one begins.")
    parent_tokens: Column | None = Field(default=None, description="How many of its first tokens are the parent's.")
    hash_ids: Column | None = Field(default=None, description="Ids of the prompt's blocks: equal ids, equal tokens.")


class Window(Table):
    """Part of a trace's time, which counts from its first row after ``skip``."""

    from_ms: Instant = Field(default=Decimal(0), description="Rows from this time on, in ms.")
    to_ms: Instant | None = Field(default=None, description="Rows before this time, in ms; default to the end.")

    @model_validator(mode="after")
    def _forward(self) -> Self:
        if self.to_ms is not None and self.to_ms <= self.from_ms:
            raise at("to_ms", f"too small; more than from_ms, {self.from_ms}")
        return self

    @property
    def ns(self) -> tuple[int, int | None]:
        return instant_ns(self.from_ms), None if self.to_ms is None else instant_ns(self.to_ms)


class Trace(Table):
    """Requests from a recorded trace. Rows are taken by skip, thin, window, zero_tokens, limit; then loop, speedup."""

    path: FilePath = Field(
        description="The trace, relative to the scenario file; plain, gzip or zstd by its first bytes.",
        examples=["trace.csv"],
    )
    format: Annotated[Name, fields.known("format")] = Field(
        default="auto", description="What the file looks like; auto: by its first lines."
    )
    columns: Columns | None = Field(default=None, description="What the file calls the keys of a request.")
    unit: Literal["s", "ms", "us", "ns", "iso"] | None = Field(
        default=None, description="Of its times; default the format's, or the end of the column's name (arrival_ms)."
    )
    hash_block_tokens: fields.Tokens | None = Field(
        default=None, description="Tokens of one of its hash_ids; default the format's."
    )
    skip: fields.Natural = Field(default=0, description="Leave out this many rows at the start.")
    thin: fields.Sampling = Field(
        default=Decimal(1), description="Share of the rows that is kept, at random; above 0, up to 1."
    )
    window: Window | None = Field(default=None, description="Take only the rows of this part of its time.")
    zero_tokens: Literal["error", "skip", "auto"] = Field(
        default="auto",
        description="Rows without prompt or output tokens: a problem, or left out and counted; auto: as the format "
        "has it (burstgpt, sharegpt: left out).",
    )
    limit: fields.Count | None = Field(default=None, description="Take at most this many rows; default all.")
    loop: Annotated[int, Field(ge=1, le=10**6)] = Field(
        default=1, description="Passes, one after the other, a mean gap of the trace between them."
    )
    speedup: fields.Speedup = Field(
        default=Decimal(1), description="Divides the times between arrivals: 2 is twice the load."
    )
    allow_empty: bool = Field(default=False, description="Whether a trace without requests is no error.")
