"""Decode batches and prompt chunks take turns, the decode batch first (the lesson's ``chunked``)."""

from dataclasses import dataclass

from sim.engine.plan import Cycle, Kind, View


@dataclass(frozen=True)
class Alternate:
    """After a decode batch, at most ``chunk_tokens`` of the head's prompt; else a decode batch; else a chunk."""

    chunk_tokens: int

    def plan(self, view: View, cycle: Cycle) -> None:
        if view.last_kind is Kind.DECODE and self._chunk(cycle):
            return
        if not cycle.decode_all():
            self._chunk(cycle)

    def _chunk(self, cycle: Cycle) -> bool:
        head = cycle.next_prefill()
        return head is not None and cycle.prefill(head, min(self.chunk_tokens, head.rest))
