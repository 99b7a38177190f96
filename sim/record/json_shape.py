"""What the result JSON looks like, as models for pydantic: strict types, no key beyond these, times as whole ns."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from sim.errors import ResultError
from sim.record.json_form import SCHEMA
from sim.record.json_types import Count, Ms, Number, Setting, Sha256, Shape, Tokens
from sim.show import escape, shorten, show
from sim.spelling import nearest

MOST = 20
"""Most problems that are listed; the others are counted."""


class PluginFile(Shape):
    """Somebody's own file that a run went by; without a digest if it was no file."""

    file: str
    sha256: Sha256 | None


class Provenance(Shape):
    """Where the result came from."""

    version: str
    seed: Count
    python: str
    simpy: str
    numpy: str
    workload_sha256: Sha256
    trace_sha256: Sha256 | None
    plugins: list[PluginFile] = Field(default=[])


Piece = Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], Tokens], Field(strict=False)]
"""An id of a text, and how many of its tokens."""


class Said(Shape):
    """What only a trace says of a request, where that is not the default."""

    max_tokens: Tokens | None = None
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    tenant: str = ""
    deadline_ms: Ms | None = None
    cancel_ms: Ms | None = None
    samples: Annotated[int, Field(ge=1, le=10**6)] = 1
    prefix_group: str = ""
    prefix_tokens: Tokens = 0
    parent: str | None = None
    parent_tokens: Tokens = 0
    pieces: list[Piece] = Field(default=[])


class Asked(Shape):
    """One request: what was asked, how it ended, its metrics and all its tokens."""

    id: str
    status: Literal["finished", "rejected", "cancelled", "unfinished"]
    reason: str | None
    finish_reason: Literal["stop", "length"] | None
    arrival_ms: Ms | None
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
    asked: Said = Field(default_factory=Said)


class Scheduled(Shape):
    """Tokens of one request in a job."""

    id: str
    tokens: Tokens
    phase: Literal["prefill", "decode"]


class Copied(Shape):
    """Blocks of one request in a swap job."""

    id: str
    blocks: Count
    direction: Literal["out", "in"]


class Event(Shape):
    """One job; ``swapped`` is there in swap jobs, and only there."""

    job: Count
    kind: Literal["prefill", "decode", "mixed", "swap"]
    start_ms: Ms
    end_ms: Ms
    scheduled: list[Scheduled]
    preempted: list[str]
    waiting: list[str]
    running: list[str]
    free_blocks: Count | None
    swapped: list[Copied] = Field(default=[])


class Distribution(Shape):
    """Figures of some values; all null when there is none."""

    n: Count
    mean: Number | None
    p50: Number | None
    p90: Number | None
    p95: Number | None
    p99: Number | None
    max: Ms | None


class UsedBlocks(Shape):
    """Levels of blocks in use, weighted by the durations of jobs."""

    min: Count
    mean: Number
    p99: Count
    max: Count


class KeptOut(Shape):
    """At how many jobs the head of the queue was kept out by what, and how many stood behind it, over all of them."""

    blocks: Count
    slots: Count
    budget: Count
    swapped: Count
    holes: Count
    head_of_line: Count


class PoolSummary(Shape):
    """How the block pool was used."""

    blocks: Count
    used_blocks: UsedBlocks
    admissions: Count
    kept_out: KeptOut
    swapped_out: Count
    swap_blocks_out: Count
    swap_blocks_in: Count
    cached_tokens: Count
    cached_on_resume_tokens: Count


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
    recomputed_share: Number | None
    wasted_tokens: Count
    wasted_share: Number | None
    kv: PoolSummary | None


class Run(Shape):
    """One policy, one run."""

    name: str
    policy: str
    incomplete: str | None = None
    settings: dict[str, Setting]
    requests: list[Asked]
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
    incomplete: str | None = None
    settings: dict[str, Setting]
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
