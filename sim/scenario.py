"""The scenario: what is asked of which device, under which policy; and how one is read, checked and changed.

Its tables and keys are those of the TOML file (see ``tables``). Everything of time is an exact decimal of milliseconds.
What the complaints look like stands in ``complaints``.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from sim import complaints, fields
from sim.capacity import MODELS, Ledger, Shape
from sim.clients import DURATION_KEYS, is_short, spelled_out
from sim.device_keys import COSTS, LESSON, Device
from sim.document import Document, flatten, parse, plain, put, read_text
from sim.duplicates import duplicates
from sim.errors import ScenarioError
from sim.keys import Keys, is_list, models, settable, tables
from sim.own_keys import OpenTable, own_fields
from sim.schema import JsonSchema
from sim.show import show, show_path
from sim.table import Table
from sim.tables import Fault, Kv, Model, Request, Run, Scheduler, Variant, Workload
from sim.traced import Trace

__all__ = [
    "Device", "Fault", "Kv", "Model", "Request", "Run", "Scenario", "Scheduler", "Table", "Trace", "Variant",
    "Workload", "load", "schema_json",
]  # fmt: skip

SCHEMA = 1
"""The version of the schema that is understood."""


@dataclass(frozen=True)
class Origin:
    """Where a scenario came from: all that is needed to check it again with other values, and to say where it fails."""

    document: Document
    place: complaints.Place
    source: Path | None = None
    known: Mapping[str, Collection[str]] = field(default_factory=dict)


def _kv_bytes_per_token(model: Model) -> int:
    if model.name is not None:
        return MODELS[model.name]
    if model.kv_bytes_per_token is not None:
        return model.kv_bytes_per_token
    return Shape(model.layers or 0, model.kv_heads or 0, model.head_size or 0, model.bytes).kv_bytes_per_token


def _lesson_device() -> Device:
    return Device.model_validate(LESSON)


class Scenario(Table):
    """A scenario, checked. Made by :func:`load`."""

    schema_: Annotated[int, Field(ge=1, le=SCHEMA)] = Field(
        alias="schema", description="Version of this schema: 1.", examples=[1]
    )
    name: fields.Name = Field(description="Its name: 1 to 64 of letters, digits, '.', '_', '-'.", examples=["mixed"])
    claim: str = Field(default="", description="What it is to show, in one sentence.")
    workload: Workload = Field(description="Where the requests come from.")
    device: Device = Field(default_factory=_lesson_device, description="What a job costs; left out: 0.25 ms a job, "
                           "1 ms a prompt token, 1 ms a decode batch.")  # fmt: skip
    kv: Kv | None = Field(default=None, description="The KV block pool; left out: memory without limit.")
    model: Model | None = Field(default=None, description="What a token's KV takes, for kv.memory_gib.")
    faults: Annotated[tuple[Fault, ...], Field(strict=False)] = Field(
        default=(), description="What goes wrong, and when."
    )
    scheduler: Scheduler = Field(default_factory=Scheduler, description="Who goes first.")
    run: Run = Field(default_factory=Run, description="How it is run, how far, and beside what.")
    _origin: Origin | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _pool(self) -> Self:
        """What [kv], [model] and [[faults]] say of one another."""
        if self.kv is None:
            if any(fault.kind == "pool" for fault in self.faults):
                raise complaints.at("faults", "a fault of kind pool without [kv]; blocks are withheld from a pool")
            return self
        ledger = self.ledger
        if self.kv.memory_gib is not None and ledger is None:
            raise complaints.at(("kv", "memory_gib"), "without [model]; what a token's KV takes gives the blocks")
        if ledger is not None and not 1 <= ledger.blocks <= fields.MAX_BLOCKS:
            raise complaints.at(("kv", "memory_gib"), f"{ledger}; a pool has 1 to {fields.MAX_BLOCKS:,}")
        if (self.kv.watermark_blocks or 0) >= self.pool_blocks:
            raise complaints.at(
                ("kv", "watermark_blocks"), f"too large; less than the pool's {self.pool_blocks} blocks"
            )
        return self

    @property
    def ledger(self) -> Ledger | None:
        """The arithmetic from ``kv.memory_gib`` and ``[model]`` to blocks; None when the blocks are given."""
        if self.kv is None or self.kv.memory_gib is None or self.model is None:
            return None
        return Ledger(self.kv.memory_gib, _kv_bytes_per_token(self.model), self.kv.block_tokens)

    @property
    def pool_blocks(self) -> int:
        """The blocks of the pool; 0 without one."""
        if self.kv is None:
            return 0
        return self.kv.blocks or (self.ledger.blocks if self.ledger else 0)

    @property
    def document(self) -> Document:
        """A copy of the document as it was read, overrides applied: dict, list, str, int, bool and Decimal."""
        if self._origin is None:
            return dict(plain(self.model_dump(by_alias=True, exclude_unset=True)))
        return dict(plain(self._origin.document))

    @property
    def source(self) -> Path | None:
        """The file that it was read from, None for a mapping."""
        return self._origin.source if self._origin else None

    @property
    def folder(self) -> Path:
        """What the paths in it are relative to: the folder of its file, or the working directory without one."""
        return self.source.parent if self.source else Path()

    @property
    def policies(self) -> tuple[str, ...]:
        """What the command compares when no policy is asked for."""
        return self.run.policies or (self.scheduler.policy,)

    def trace_path(self) -> Path:
        """The path of the trace: relative to the scenario file, or to the working directory without one."""
        if self.workload.trace is None:
            raise ValueError("the workload is no trace")
        return self.folder / self.workload.trace.path

    def with_overrides(self, overrides: Mapping[str, object]) -> "Scenario":
        """This scenario with other values, checked again: ``{"scheduler.chunk_tokens": 4}``; None takes a key away."""
        with complaints.at_most():
            return _overridden(self._from(), overrides)

    def variant(self, name: str) -> "Scenario":
        """This scenario with what the variant ``name`` sets, and without the list of variants (or policies)."""
        names = [variant.name for variant in self.run.variants or ()]
        if name not in names:
            allowed = complaints.unknown_name(name, names) if names else f"{self.name} has no variants"
            raise ScenarioError(f"--variant {show(name)}: {allowed}")
        with complaints.at_most():
            return _variant(self._from(), names.index(name))

    def _from(self) -> Origin:
        return self._origin or Origin(self.document, complaints.Place("scenario"))


KEYS = tables(Scenario)
SETTABLE = settable(KEYS)
OPEN = models(Scenario, OpenTable)
"""The tables whose keys may be those of somebody's own thing."""

LAW_KEYS = frozenset(("process", "distribution"))
"""What a law is called by."""
FIXED = ("schema", "name", "claim", "run.policies", "run.variants")
"""What a variant can't set: it is a variant of this scenario, and has no variants of its own."""


def load(
    source: str | os.PathLike[str] | Mapping[str, object],
    *,
    overrides: Mapping[str, object] | None = None,
    known: Mapping[str, Collection[str]] | None = None,
) -> Scenario:
    """Reads and checks a scenario.

    ``source`` is the path of a TOML file or a mapping of the same shape. ``overrides`` are put into it before it is
    checked, by dotted key; None takes a key away. ``known`` lists the names of a kind that this module can't know
    (``"policy"``, ``"composition"``, ``"format"``). ``ScenarioError`` has one line for each problem, at most 20.
    """
    names = dict(known or {})
    if isinstance(source, Mapping):
        origin = Origin(_copied(source), complaints.Place("scenario"), None, names)
    else:
        path = Path(os.fsdecode(source))
        text, label = read_text(path), show_path(path)
        origin = Origin(parse(text, label), complaints.Place(label, text), path, names)
    with complaints.at_most():
        return _overridden(origin, overrides) if overrides else _checked(origin, origin.place)


def schema_json() -> dict[str, Any]:
    """The JSON Schema of a scenario's TOML, for editors."""
    return Scenario.model_json_schema(schema_generator=JsonSchema)


def _copied(source: Mapping[str, object]) -> Document:
    try:
        document: Document = plain(source)
    except RecursionError:
        raise ScenarioError("scenario: nested too deeply") from None
    if not document:
        raise ScenarioError("scenario: empty; a scenario has at least schema = 1, a name and a [workload]")
    return document


def _overridden(origin: Origin, overrides: Mapping[str, object]) -> Scenario:
    changes = dict(flatten(overrides, _is_value))
    place = replace(origin.place, overrides=origin.place.overrides | changes.keys())
    document = _changed(origin.document, changes, place)
    return _checked(replace(origin, document=document, place=place), place)


def _changed(original: Document, changes: Mapping[str, object], place: complaints.Place) -> Document:
    """A copy of the document with ``changes``. ``ScenarioError`` when one has no key in the schema."""
    problems = [
        complaints.Problem(_path(key), message, plain(value))
        for key, value in changes.items()
        if (message := complaints.unknown_override(key, _settable()))
    ]
    if problems:
        raise complaints.scenario_error(problems, place)
    document: Document = plain(original)
    if any(key.split(".")[0] == "device" for key in changes):
        # the device that it has is to be changed, and no new one described; unless the new one is somebody's own
        is_own = COSTS.source(str(changes.get("device.cost"))) is not None
        document.setdefault("device", {} if is_own else dict(LESSON))
    for law in DURATION_KEYS:
        stands = complaints.look_up(document, _path(law))
        if is_short(stands) and any(key.startswith(f"{law}.") for key in changes):
            put(document, law, spelled_out(stands))  # to change the law that the number stands for
    for key, value in changes.items():
        put(document, key, value)
    return document


def _settable() -> dict[str, bool]:
    """Every dotted key that can be set, those of somebody's own things included."""
    own = {(*at, key): is_list(info) for at, table in OPEN.items() if ".".join(at) in SETTABLE
           for name in table.rows.own for key, info in table.rows[name].table.model_fields.items()}  # fmt: skip
    return SETTABLE | {".".join(path): as_list for path, as_list in own.items()}


def _keys_at(path: tuple[str | int, ...], document: Document) -> Keys:
    """The keys of all tables; of the one at ``path`` those that it has as it stands."""
    at = complaints.names(path)
    fields_there = own_fields(OPEN[at], complaints.look_up(document, path)) if at in OPEN else None
    return KEYS if fields_there is None else {**KEYS, at: fields_there}


def _variant(origin: Origin, index: int) -> Scenario:
    """The scenario of one variant of a document whose own values are sound."""
    document: Document = plain(origin.document)
    run = document["run"]
    written = run.pop("variants")[index]
    run.pop("policies", None)
    changes = dict(flatten(written.get("set", {}), _is_value))
    place = replace(
        origin.place, overrides=frozenset(changes), variant=written["name"], within=("run", "variants", index)
    )
    refused = [complaints.Problem(_path(key), "can't be set by a variant") for key in changes if key in FIXED]
    if refused:
        raise complaints.scenario_error(refused, place)
    return _checked(replace(origin, document=_changed(document, changes, place)), place)


def _checked(origin: Origin, place: complaints.Place) -> Scenario:
    """The scenario of a document; what is wrong with it is said of ``place``."""
    document = origin.document
    version = document.get("schema")
    if type(version) is int and version > SCHEMA:
        newer = complaints.Problem(("schema",), f"newer than this version of Headway; understood: {SCHEMA}", version)
        raise complaints.scenario_error([newer], place)
    problems = duplicates(document)
    try:
        scenario = Scenario.model_validate(document, context=origin.known)
    except ValidationError as error:
        problems += complaints.of_validation(error, document, lambda path: _keys_at(path, document))
    if problems:
        raise complaints.scenario_error(problems, place)
    scenario._origin = origin  # noqa: SLF001 (this is the one who makes scenarios)
    _check_variants(scenario, origin)
    return scenario


def _check_variants(scenario: Scenario, origin: Origin) -> None:
    lines: list[str] = []
    for index in range(len(scenario.run.variants or ())):
        try:
            _variant(origin, index)
        except ScenarioError as error:
            lines.extend(error.args)
    if lines:
        raise ScenarioError(*lines)


def _is_value(key: str, table: Mapping[str, object]) -> bool:
    """Whether a table is set as a whole: it names its law, whose keys are no other's, or its keys are the user's."""
    return key in SETTABLE and (_path(key) not in KEYS or not LAW_KEYS.isdisjoint(table))


def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))
