"""Somebody's own cost models, and what the device of a scenario costs, whoever wrote its model."""

from decimal import Decimal
from operator import index
from typing import Any

from sim.clock import MAX_NS, cost_fs, round_fs
from sim.costs.base import CostModel, Work
from sim.costs.linear import LinearCost
from sim.own_keys import OwnThing
from sim.scenario import Device


class OwnCost:
    """Somebody's cost model, which is asked for each job. What copying costs, ``[kv]`` says, as for every device."""

    def __init__(self, row: OwnThing, model: Any, swap_ms_per_block: Decimal) -> None:
        self.reads_context = bool(getattr(model, "reads_context", True))
        self._row = row
        self._model = model
        self._swap_fs = cost_fs(swap_ms_per_block)

    def job_ns(self, work: Work) -> int:
        answer: Any = self._row.guard.call(self._model.job_ns, work)
        try:
            ns = index(answer)
        except TypeError:
            ns = -1
        if isinstance(answer, bool) or not 0 <= ns < MAX_NS:
            self._row.guard.refuse(f"job_ns answers {answer!r} for {work}; whole ns, from 0 on", self._row.make.job_ns)
        return ns + round_fs(self._swap_fs * work.blocks) if work.blocks else ns


def cost_of(device: Device, swap_ms_per_block: Decimal = Decimal(0)) -> CostModel:
    """What jobs cost on this device."""
    own = device.own
    if own is None:
        return LinearCost.of(device, swap_ms_per_block)
    return OwnCost(*own, swap_ms_per_block)
