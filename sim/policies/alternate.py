"""Decode batches and prompt chunks take turns, the decode batch first (the lesson's ``chunked``)."""

from typing import NamedTuple

from sim.engine.cycle import UNBOUNDED, Cycle, View
from sim.engine.plan import Kind


class Alternate(NamedTuple):
    """After a decode batch, at most ``chunk_tokens`` of the head's prompt; else a decode batch; else a chunk."""

    chunk_tokens: int
    stable_for: int = UNBOUNDED

    def plan(self, view: View, cycle: Cycle) -> None:
        if view.last_kind is Kind.DECODE and self._chunk(cycle):
            return
        if not cycle.decode_all() and not self._chunk(cycle):
            cycle.make_room_for_prefill()

    def _chunk(self, cycle: Cycle) -> bool:
        head = cycle.next_prefill()
        return head is not None and cycle.prefill(head, min(self.chunk_tokens, cycle.rest(head)))
