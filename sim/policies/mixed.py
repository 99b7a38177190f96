"""One job for everybody under one token budget: running requests in order of admission, then those who wait.

The rules of vLLM's v1 scheduler; ``decode_first`` makes them Sarathi-Serve's (OSDI '24, algorithm 3): decodes, then
running chunks, then those who wait.
"""

from dataclasses import dataclass

from sim.engine.cycle import UNBOUNDED, Cycle, View


@dataclass(frozen=True)
class Mixed:
    """``long_prefill_tokens`` bounds each prefill in a job (0: no bound) unless its request is the only one."""

    chunked_prefill: bool
    long_prefill_tokens: int
    decode_first: bool = False
    stable_for = UNBOUNDED

    def plan(self, view: View, cycle: Cycle) -> None:
        most = self._most(view, cycle)
        cycle.extend_running(most, cut=self.chunked_prefill, decodes_first=self.decode_first)
        if not cycle.preempted:
            cycle.extend_all(cycle.restore(), most, cut=self.chunked_prefill)
            self._admit(most, cycle)

    def _most(self, view: View, cycle: Cycle) -> int:
        """Tokens of one prefill in a job: who is alone is not bound, unless it may not be cut and would never fit."""
        if not self.long_prefill_tokens:
            return UNBOUNDED
        alone = len(view.running) + len(view.waiting) <= 1
        whole = (cycle.rest(request) for request in (*view.running, *view.waiting)) if alone else ()
        if alone and (self.chunked_prefill or max(whole, default=0) <= cycle.budget):
            return UNBOUNDED
        return self.long_prefill_tokens

    def _admit(self, most: int, cycle: Cycle) -> None:
        while cycle.budget > 0 and (head := cycle.next_waiting()) is not None:
            tokens = min(cycle.rest(head), most)
            if self.chunked_prefill:
                tokens = min(tokens, cycle.budget)
            if not cycle.prefill(head, tokens):
                return
