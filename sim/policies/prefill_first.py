"""Prefill first: while anything waits for prefill, whole prompts go before any decode (the lesson's ``fcfs``)."""

from dataclasses import dataclass

from sim.engine.plan import Cycle, View


@dataclass(frozen=True)
class PrefillFirst:
    """Up to ``prefills_per_job`` whole prompts in one job; when none gets in, all active requests decode."""

    prefills_per_job: int

    def plan(self, view: View, cycle: Cycle) -> None:
        for _ in range(self.prefills_per_job):
            head = cycle.next_prefill()
            if head is None or not cycle.prefill(head, head.rest):
                break
        if cycle.empty:
            cycle.decode_all()
