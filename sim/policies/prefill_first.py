"""Prefill first: while anything waits for prefill, whole prompts go before any decode (the lesson's ``fcfs``)."""

from typing import NamedTuple

from sim.engine.cycle import UNBOUNDED, Cycle, View


class PrefillFirst(NamedTuple):
    """Up to ``prefills_per_job`` whole prompts in a job (0: up to the budget); if none gets in, all who can decode."""

    prefills_per_job: int
    stable_for: int = UNBOUNDED

    def plan(self, view: View, cycle: Cycle) -> None:
        prefills = 0
        while not self.prefills_per_job or prefills < self.prefills_per_job:
            head = cycle.next_prefill()
            if head is None or not cycle.prefill(head, cycle.rest(head)):
                break
            prefills += 1
        if not prefills and not cycle.decode_all():
            cycle.make_room_for_prefill()
