"""Policy names. A policy is a row of values for independent axes; whatever a scenario writes overrules its row."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType

from sim.errors import ScenarioError
from sim.policies.alternate import Alternate
from sim.policies.base import Policy
from sim.policies.prefill_first import PrefillFirst
from sim.policies.static_batch import StaticBatch
from sim.scenario import Scheduler
from sim.spelling import nearest


@dataclass(frozen=True, slots=True)
class Axes:
    """The scheduler's resolved settings, named as in ``[scheduler]``. ``max_running`` None: no limit."""

    batching: str
    composition: str
    prefills_per_job: int = 1
    chunk_tokens: int = 2
    max_running: int | None = None


PRESETS: Mapping[str, Axes] = MappingProxyType(
    {
        "fcfs": Axes(batching="continuous", composition="prefill-first"),
        "chunked": Axes(batching="continuous", composition="alternate"),
        "static": Axes(batching="static", composition="prefill-first", max_running=8),
    }
)

COMPOSITIONS: Mapping[str, Callable[[Axes], Policy]] = MappingProxyType(
    {
        "prefill-first": lambda axes: PrefillFirst(axes.prefills_per_job),
        "alternate": lambda axes: Alternate(axes.chunk_tokens),
    }
)

USES = MappingProxyType({"prefill-first": ("prefills_per_job",), "alternate": ("chunk_tokens",)})
"""The settings that only some compositions read."""


def resolve(policy: str, written: Scheduler) -> Axes:
    """The preset's row, overruled by every key that the scenario writes."""
    if policy not in PRESETS:
        raise ScenarioError(f"policy = {policy!r}: unknown; one of {', '.join(PRESETS)}{nearest(policy, PRESETS)}")
    row = asdict(PRESETS[policy])
    row.update({field.name: getattr(written, field.name) for field in fields(Axes)
                if getattr(written, field.name) is not None})  # fmt: skip
    return Axes(**row)


def compose(axes: Axes) -> Policy:
    """The policy that these settings describe."""
    composition = COMPOSITIONS[axes.composition](axes)
    return StaticBatch(composition) if axes.batching == "static" else composition


def unused(policy: str, written: Scheduler) -> list[str]:
    """The settings that the scenario writes and this policy does not read."""
    read = USES[resolve(policy, written).composition]
    return [name for names in USES.values() for name in names
            if getattr(written, name) is not None and name not in read]  # fmt: skip
