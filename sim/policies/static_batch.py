"""Static batching: a batch is formed when nothing runs, and nobody joins until its longest request has ended."""

from typing import NamedTuple

from sim.engine.cycle import Cycle, View
from sim.policies.base import Policy


class StaticBatch(NamedTuple):
    """Closes admission around any composition, which then sees only the members of the batch."""

    composition: Policy
    stable_for: int = 1

    def plan(self, view: View, cycle: Cycle) -> None:
        if not view.running:
            self._form_batch(cycle)
        cycle.close_admission()
        self.composition.plan(view, cycle)

    def _form_batch(self, cycle: Cycle) -> None:
        """Take what waits, in order, up to the first that does not get in; each with memory for its whole prompt."""
        cycle.restore()
        while (head := cycle.next_waiting()) is not None and cycle.admit(head, cycle.rest(head)):
            pass
