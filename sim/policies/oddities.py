"""What is legal and yet odd about a scenario's settings: those that nothing reads, or that get in each other's way."""

from collections.abc import Iterator

from sim.policies.orders import ORDERS, SPECIAL, makes_way
from sim.policies.presets import USES, Axes, KvAxes, resolve
from sim.scenario import Scenario


def oddities(scenario: Scenario) -> Iterator[str]:
    """What is legal and yet odd about the settings of this scenario's policy, up to where the policy is named."""
    axes, kv = resolve(scenario)
    for name in (*_unused(scenario, axes), *_unused_by_order(scenario, axes), *_unused_kv(scenario, kv)):
        yield f"{name} is not used by"
    if axes.order == "lpm" and not (kv and kv.prefix_cache):
        yield "order lpm without kv.prefix_cache is first come, first served under"
    budget, slots = axes.limits.token_budget, axes.max_running
    if budget is not None and slots is not None and budget < slots:
        yield f"token_budget = {budget} is below max_running = {slots}: not all can decode in one job under"
    if budget is not None and axes.long_prefill_tokens > budget:
        yield f"long_prefill_tokens = {axes.long_prefill_tokens} is above token_budget = {budget}, which holds under"


def _unused(scenario: Scenario, axes: Axes) -> Iterator[str]:
    """The settings of ``[scheduler]`` that the scenario writes and its policy does not read."""
    if axes.composition not in USES:
        return iter(())
    read = (*USES[axes.composition], *(("token_budget",) if axes.has_budget else ()))
    special = dict.fromkeys([*(name for names in USES.values() for name in names), "token_budget"])
    written = scenario.scheduler.model_fields_set
    return (f"scheduler.{name}" for name in special if name in written and name not in read)


def _unused_by_order(scenario: Scenario, axes: Axes) -> Iterator[str]:
    """The settings that only some orders read, and the one of this scenario does not."""
    order, written = ORDERS[axes.order], scenario.scheduler.model_fields_set
    for name in SPECIAL:
        if name in written and name not in order.uses:
            yield f"scheduler.{name}"
    if axes.preemptive and not makes_way(axes):
        yield "scheduler.preemptive"


def _unused_kv(scenario: Scenario, kv: KvAxes | None) -> Iterator[str]:
    """The settings of ``[kv]`` and ``[model]`` that the scenario writes and nothing reads."""
    if scenario.model is not None and scenario.ledger is None:
        yield "model"
    if kv is None or scenario.kv is None:
        return
    idle = {"gate": kv.allocation == "contiguous"}
    idle |= dict.fromkeys(("swap_blocks", "swap_ms_per_block"), kv.preemption != "swap")
    for name in idle:
        if idle[name] and name in scenario.kv.model_fields_set:
            yield f"kv.{name}"
