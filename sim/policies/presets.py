"""Policy names. A policy is a row of values for independent axes; whatever a scenario writes overrules its row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from sim.engine.state import Limits
from sim.errors import ScenarioError
from sim.policies.alternate import Alternate
from sim.policies.base import Policy
from sim.policies.mixed import Mixed
from sim.policies.prefill_first import PrefillFirst
from sim.policies.static_batch import StaticBatch
from sim.registry import Registry
from sim.scenario import Kv, Scenario, Table
from sim.spelling import nearest
from sim.tables import Ageing


@dataclass(frozen=True, slots=True)
class Axes:
    """The scheduler's settings, named as in ``[scheduler]``. None: no limit."""

    batching: str
    composition: str
    prefills_per_job: int = 1
    chunk_tokens: int = 2
    token_budget: int | None = None
    max_running: int | None = None
    order: str = "fcfs"
    ageing: Ageing | None = None
    preemptive: bool = False
    predictor: str = "declared"
    predictor_error: Decimal = Decimal("0.5")
    mlfq_quantum_tokens: int = 512
    mlfq_levels: int = 8
    drr_quantum_tokens: int = 512
    weights: Mapping[str, int] = field(default_factory=dict)
    prompt_token_weight: int = 1
    output_token_weight: int = 2
    chunked_prefill: bool = True
    long_prefill_tokens: int = 0
    max_model_tokens: int = 0

    def document(self) -> dict[str, Any]:
        """The settings as values of a document."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value.model_dump() if isinstance(value, Ageing) else value for name, value in values.items()}

    @property
    def has_budget(self) -> bool:
        """Whether the composition reads ``token_budget``."""
        return fills_up(self.composition) or (self.composition == "prefill-first" and not self.prefills_per_job)

    @property
    def limits(self) -> Limits:
        return Limits(self.max_running, self.token_budget if self.has_budget else None)


@dataclass(frozen=True, slots=True)
class KvAxes:
    """The pool's settings, named as in ``[kv]``."""

    blocks: int
    block_tokens: int
    allocation: str = "paged"
    gate: str = "full"
    watermark_blocks: int = 0
    prefix_cache: bool = False
    preemption: str = "recompute"
    victim: str = "auto"
    swap_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Preset:
    """A row: the scheduler's axes, and those of the pool where they are not the defaults of :class:`KvAxes`."""

    axes: Axes
    allocation: str = "paged"
    gate: str = "full"
    watermark_percent: int = 0


_SERVER = Axes("continuous", "mixed", token_budget=2048, max_running=256)

PRESETS: Registry[Preset] = Registry(
    "policy",
    {
        "fcfs": Preset(Axes("continuous", "prefill-first")),
        "chunked": Preset(Axes("continuous", "alternate")),
        "static": Preset(Axes("static", "prefill-first", max_running=8)),
        "orca": Preset(replace(_SERVER, chunked_prefill=False), allocation="contiguous", gate="reserve"),
        "sarathi": Preset(replace(_SERVER, composition="mixed-decode-first", token_budget=512), watermark_percent=1),
        "vllm": Preset(_SERVER),
        "vllm-v0": Preset(
            replace(_SERVER, composition="prefill-first", prefills_per_job=0, chunked_prefill=False),
            watermark_percent=1,
        ),
        "trtllm-no-evict": Preset(_SERVER, gate="reserve"),
        "trtllm-max-utilization": Preset(_SERVER, gate="chunk"),
    },
)

COMPOSITIONS: Registry[Callable[[Axes], Policy]] = Registry(
    "composition",
    {
        "prefill-first": lambda axes: PrefillFirst(axes.prefills_per_job),
        "alternate": lambda axes: Alternate(axes.chunk_tokens),
        "mixed": lambda axes: Mixed(axes.chunked_prefill, axes.long_prefill_tokens),
        "mixed-decode-first": lambda axes: Mixed(axes.chunked_prefill, axes.long_prefill_tokens, decode_first=True),
    },
)

BUDGETED = ("mixed", "mixed-decode-first")
"""The compositions that fill one job up to the budget."""


def fills_up(composition: str) -> bool:
    """Whether a composition fills one job up to the budget; of somebody's own we have to suppose it."""
    return composition in BUDGETED or composition not in USES


USES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "prefill-first": ("prefills_per_job",),
        "alternate": ("chunk_tokens",),
        "mixed": ("chunked_prefill", "long_prefill_tokens"),
        "mixed-decode-first": ("chunked_prefill", "long_prefill_tokens"),
    }
)
"""The settings that only some compositions read, beside ``token_budget``; what somebody's own reads, nobody knows."""


class Choice(NamedTuple):
    """What a scenario's policy comes to. ``kv`` None: no pool."""

    axes: Axes
    kv: KvAxes | None


def resolve(scenario: Scenario) -> Choice:
    """What the scenario's policy comes to: its row, overruled by every key that the scenario writes."""
    policy = scenario.scheduler.policy
    if policy not in PRESETS:
        raise ScenarioError(f"policy = {policy!r}: unknown; one of {', '.join(PRESETS)}{nearest(policy, PRESETS)}")
    preset = PRESETS[policy]
    axes = replace(preset.axes, **_written(scenario.scheduler, Axes))
    return Choice(axes, None if scenario.kv is None else _resolve_kv(preset, scenario.kv, scenario.pool_blocks))


def _resolve_kv(preset: Preset, kv: Kv, blocks: int) -> KvAxes:
    row = KvAxes(
        blocks=blocks,
        block_tokens=kv.block_tokens,
        allocation=preset.allocation,
        gate=preset.gate,
        watermark_blocks=blocks * preset.watermark_percent // 100,
    )
    axes = replace(row, **(_written(kv, KvAxes) | {"blocks": blocks}))
    if axes.allocation == "contiguous" and axes.prefix_cache:
        raise ScenarioError("kv.prefix_cache = true: regions share no blocks; only with kv.allocation paged")
    return axes


def _written(table: Table, axes: type[Axes] | type[KvAxes]) -> dict[str, Any]:
    values = {each.name: getattr(table, each.name) for each in fields(axes)}
    return {name: value for name, value in values.items() if value is not None}


def compose(axes: Axes) -> Policy:
    """The policy that these settings describe."""
    composition = COMPOSITIONS[axes.composition](axes)
    return StaticBatch(composition, getattr(composition, "stable_for", 1)) if axes.batching == "static" else composition
