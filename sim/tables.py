"""The tables of a scenario, as pydantic models: their keys, defaults, what each value may be (see ``fields``)."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from sim import fields
from sim.capacity import MODELS
from sim.classes import (
    EACH,
    LAWS,
    Correlation,
    DeadlineAfter,
    MaxTokens,
    Priority,
    Tenant,
    TrafficClass,
    check_classes,
    check_traffic,
    counts,
)
from sim.clients import AnyDuration, Clients, Retry, Sessions, check_clients
from sim.complaints import at
from sim.generated import MAX_REQUESTS, Arrivals, Lengths
from sim.request import default_id
from sim.spelling import nearest
from sim.table import Table
from sim.traced import Trace


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
    priority: fields.Priority = Field(default=0, description="Lower is more urgent.")
    tenant: fields.Text = Field(default="", description="Whose request it is, at most 256 characters.")
    deadline_ms: fields.Instant | None = Field(
        default=None, description="By when it should be done: an absolute time in ms."
    )
    cancel_ms: fields.Instant | None = Field(
        default=None, description="When its client gives up: an absolute time in ms."
    )
    samples: fields.Samples = Field(
        default=1, description="Sequences over one prompt, scheduled as one; each emits output_tokens."
    )
    prefix_group: fields.Text = Field(default="", description="Requests of one group begin with the same tokens.")
    prefix_tokens: fields.Tokens0 = Field(default=0, description="How many of its first tokens are the group's.")
    parent: fields.Text | None = Field(
        default=None, description="Id of a request with whose prompt and output this one's prompt begins."
    )
    parent_tokens: fields.Tokens0 = Field(default=0, description="How many of its first tokens are the parent's.")

    @model_validator(mode="after")
    def _declared(self) -> Self:
        if self.max_tokens < self.output_tokens:
            raise at("max_tokens", f"too small; at least output_tokens, {self.output_tokens}")
        for tokens, of, given in (
            ("prefix_tokens", "prefix_group", self.prefix_group),
            ("parent_tokens", "parent", self.parent),
        ):
            if getattr(self, tokens) > self.prompt_tokens:
                raise at(tokens, f"too large; at most prompt_tokens, {self.prompt_tokens}")
            if getattr(self, tokens) and not given:
                raise at(tokens, f"without {of}; name it, or leave {tokens} out")
        return self


def _named(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Requests without a name get the one of their place."""
    if all(request.id for request in requests):
        return requests
    return tuple(r if r.id else r.model_copy(update={"id": default_id(i)}) for i, r in enumerate(requests))


def _parent_problem(request: Request, requests: Mapping[str, Request]) -> tuple[str, str]:
    """The key that is wrong with the request's parent, and how: none such, too short, in the end the request itself."""
    name = request.parent or ""
    if name not in requests:
        return "parent", f"no such request{nearest(name, requests)}"
    parent = requests[name]
    longest = parent.prompt_tokens + parent.output_tokens
    if request.parent_tokens > longest:
        return "parent_tokens", f"too large; at most {longest}, the parent's prompt and output"
    seen = {request.id}
    while parent.id not in seen:
        seen.add(parent.id)
        if parent.parent is None or parent.parent not in requests:
            return "parent", ""
        parent = requests[parent.parent]
    return "parent", "in the end its own parent; parents may not go round"


SOURCES = ("requests", "trace", "count", "classes")
"""Where requests come from: each key is another way to say it."""


class Workload(Table):
    """Where the requests come from: a list of them, a trace, or a count of requests that are generated."""

    requests: Annotated[tuple[Request, ...], Field(strict=False, min_length=1), AfterValidator(_named)] | None = Field(
        default=None, description="The requests themselves, one table each; ties of arrival are served in this order."
    )
    trace: Trace | None = Field(default=None, description="A recorded trace to take them from.")
    count: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        default=None, description="How many requests are generated from the laws below.", examples=[1000]
    )
    arrivals: Arrivals | None = Field(default=None, description="When generated requests arrive.")
    prompt_tokens: Lengths | None = Field(default=None, description="Tokens of their prompts.")
    output_tokens: Lengths | None = Field(default=None, description="Tokens that they will emit.")
    correlation: Correlation = None
    max_tokens: MaxTokens = None
    tenant: Tenant = ""
    priority: Priority = 0
    deadline_after_ms: DeadlineAfter = None
    classes: Annotated[tuple[TrafficClass, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, description="Several kinds of generated requests at once, each with laws of its own."
    )

    clients: Clients | None = Field(
        default=None, description="Users who send them in a closed loop, instead of arrivals."
    )
    sessions: Sessions | None = Field(
        default=None, description="Each of the count arrivals is the first turn of a session."
    )
    patience_ms: AnyDuration | None = Field(
        default=None, description="Whose first token has not come by then leaves: ms after its arrival, or a law."
    )
    retry: Retry | None = Field(default=None, description="Whether and when who left is sent again.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if self.classes is not None and any(each.share is not None for each in self.classes):
            given = [name for name in given if name != "count"]  # the total that the shares are of
        laws = [name for name in (*LAWS, *EACH) if name in self.model_fields_set]
        if given == ["trace"]:
            laws = [name for name in laws if name not in ("arrivals", "max_tokens")]
        if laws and "classes" in given:
            raise at(laws[0], "with classes; each of them has its own")
        if "count" not in given and laws:
            problem = f"with {given[0]}" if given else "without count"
            raise at(laws[0], f"{problem}; only for generated requests, which have count, {', '.join(LAWS)}")
        if len(given) != 1:
            problem = f"{', '.join(given[:-1])} and {given[-1]} together" if given else "no requests"
            raise PydanticCustomError("source", f"{problem}; exactly one of {', '.join(SOURCES)}")
        return self

    @model_validator(mode="after")
    def _whole_law(self) -> Self:
        check_clients(self)
        if self.classes is not None:
            check_classes(self.classes, self.count, MAX_REQUESTS)
        elif self.count is not None:
            for name in LAWS if self.clients is None else LAWS[1:]:
                if getattr(self, name) is None:
                    raise at(name, f"missing; generated requests have count, {', '.join(LAWS)}")
            check_traffic(self, self.count)
        return self

    @property
    def counts(self) -> tuple[int, ...]:
        """How many requests each class has."""
        return counts(self.classes or (), self.count)

    @property
    def stated(self) -> int | None:
        """How many requests there are; None when only a trace, the turns of sessions or the run itself knows."""
        if self.sessions is not None or self.retry is not None:
            return None
        if self.classes is not None:
            return sum(self.counts)
        return self.count if self.requests is None else len(self.requests)

    @model_validator(mode="after")
    def _parents(self) -> Self:
        requests = {request.id: request for request in self.requests or ()}
        for place, request in enumerate(self.requests or ()):
            if request.parent is not None:
                key, problem = _parent_problem(request, requests)
                if problem:
                    raise at(("requests", place, key), problem)
        return self


class Ageing(Table):
    """When a request that waits goes before all others: so long after it came, or passed over so often."""

    by: Literal["ms", "passes"] = Field(description="What is counted: time, or admissions of who came later.",
                                        examples=["passes"])  # fmt: skip
    value: fields.Instant = Field(description="From how many on it goes first.", examples=[10])

    @model_validator(mode="after")
    def _whole_passes(self) -> Self:
        if self.by == "passes" and self.value % 1:
            raise at("value", "not an integer; passes are counted")
        return self


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
    token_budget: fields.Count | None = Field(
        default=None, description="Most tokens of one job, where the composition has a budget; default the policy's."
    )
    order: Annotated[fields.Name, fields.known("order")] | None = Field(
        default=None, description="Who of those who wait is first; default fcfs."
    )
    ageing: Ageing | None = Field(
        default=None, description="Who has waited long, or was passed over often, goes first; default nobody."
    )
    preemptive: bool | None = Field(
        default=None,
        description="Whether who waits takes the place of who runs and comes after it in the order; default false.",
    )
    predictor: Annotated[fields.Name, fields.known("predictor")] | None = Field(
        default=None, description="What orders by length go by; default declared: max_tokens."
    )
    predictor_error: fields.Error | None = Field(
        default=None, description="noisy: sigma of the error's logarithm; rank-noisy: as a share of all ranks; 0.5."
    )
    mlfq_quantum_tokens: fields.Tokens | None = Field(
        default=None, description="mlfq: tokens of the first level, each further one has twice as many; default 512."
    )
    mlfq_levels: Annotated[int, Field(ge=1, le=64)] | None = Field(default=None, description="mlfq: default 8.")
    drr_quantum_tokens: fields.Tokens | None = Field(
        default=None, description="drr: tokens that a tenant of weight 1 may spend more each round; default 512."
    )
    weights: dict[fields.Text, Annotated[int, Field(ge=1, le=10**6)]] | None = Field(
        default=None, description="vtc, drr: by tenant, its share beside the others; default 1 each."
    )
    prompt_token_weight: Annotated[int, Field(ge=0, le=10**6)] | None = Field(
        default=None, description="vtc: what a prompt token counts; default 1."
    )
    output_token_weight: Annotated[int, Field(ge=0, le=10**6)] | None = Field(
        default=None, description="vtc: what an emitted token counts; default 2."
    )
    chunked_prefill: bool | None = Field(
        default=None, description="Whether a prefill may be cut to fit the budget; default the policy's."
    )
    long_prefill_tokens: fields.Natural | None = Field(
        default=None,
        description="Most tokens of one prefill in a job, unless its request is the only one; 0: no bound.",
    )
    max_model_tokens: fields.Natural | None = Field(
        default=None, description="Most tokens of prompt and output together; 0: no limit."
    )


class Kv(Table):
    """The KV block pool. What is None takes the value of the policy's preset."""

    blocks: fields.Blocks | None = Field(default=None, description="Usable blocks of the pool.", examples=[1000])
    memory_gib: fields.Gib | None = Field(
        default=None, description="Memory for KV in GiB, instead of blocks: with [model] it gives the blocks."
    )
    block_tokens: Annotated[int, Field(ge=1, le=2**20)] = Field(default=16, description="Tokens of one block.")
    allocation: Literal["paged", "contiguous"] | None = Field(
        default=None, description="Any blocks for any request, or one region for all that it declares."
    )
    gate: Literal["full", "chunk", "reserve"] | None = Field(
        default=None, description="What must be free at admission: the whole sequence, the first chunk, all declared."
    )
    watermark_blocks: fields.Natural | None = Field(
        default=None, description="Blocks that admission leaves free while others run; default the policy's."
    )
    prefix_cache: bool = Field(default=False, description="Whether full blocks are kept and found by their content.")
    preemption: Literal["recompute", "swap"] | None = Field(
        default=None, description="What becomes of the blocks of who is preempted; default recompute."
    )
    victim: Annotated[fields.Name, fields.known("victim")] = Field(
        default="auto", description="Who is preempted; auto: the least urgent under order priority, else the last."
    )
    swap_blocks: fields.Natural = Field(default=0, description="Blocks on the host for those who are swapped out.")
    swap_ms_per_block: fields.Cost = Field(
        default=Decimal(0), description="Cost of copying a block out or in, in ms, on top of the job's."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.blocks is None) == (self.memory_gib is None):
            problem = "neither blocks nor memory_gib" if self.blocks is None else "both blocks and memory_gib"
            raise PydanticCustomError("pool", f"{problem}; exactly one of them")
        if self.allocation == "contiguous" and self.prefix_cache:
            raise at("prefix_cache", "regions share no blocks; only with allocation paged")
        return self


class Model(Table):
    """What one token's KV takes: a model by name, its shape, or the bytes themselves (MLA and the like)."""

    name: Annotated[str, fields.one_of(MODELS)] | None = Field(
        default=None, description="A well-known model, instead of its shape."
    )
    layers: fields.Count | None = Field(default=None, description="Layers that keep KV.")
    kv_heads: fields.Count | None = Field(default=None, description="KV heads of a layer.")
    head_size: fields.Count | None = Field(default=None, description="Values of one head.")
    bytes: Annotated[int, Field(ge=1, le=16)] = Field(default=2, description="Bytes of one value.")
    kv_bytes_per_token: fields.Count | None = Field(default=None, description="Bytes of one token's KV, all layers.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        shape = (self.layers, self.kv_heads, self.head_size)
        ways = [self.name is not None, any(part is not None for part in shape), self.kv_bytes_per_token is not None]
        if sum(ways) != 1 or (ways[1] and None in shape):
            wanted = "exactly one of: name; layers, kv_heads and head_size; kv_bytes_per_token"
            raise PydanticCustomError("model", f"does not say what a token's KV takes; {wanted}")
        return self


class Fault(Table):
    """Something that goes wrong: blocks withheld, a device that stands still or is slow, memory lost."""

    kind: Literal["pool", "stall", "slow", "crash"] = Field(description="What goes wrong.", examples=["crash"])
    at_ms: fields.Instant = Field(description="When it begins, in ms.", examples=[100])
    until_ms: fields.Instant | None = Field(default=None, description="When it is over, in ms; a crash has no end.")
    blocks: fields.Blocks | None = Field(default=None, description="pool: blocks kept out of use, as they come free.")
    factor: fields.Factor | None = Field(default=None, description="slow: on the duration of jobs that start within.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        wanted = {"pool": ("until_ms", "blocks"), "stall": ("until_ms",), "slow": ("until_ms", "factor"), "crash": ()}
        for key in ("until_ms", "blocks", "factor"):
            given = getattr(self, key) is not None
            if given != (key in wanted[self.kind]):
                raise at(key, f"{'not of' if given else 'missing in'} a fault of kind {self.kind}")
        if self.until_ms is not None and self.until_ms <= self.at_ms:
            raise at("until_ms", f"too small; more than at_ms, {self.at_ms}")
        return self


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
