"""The contract of a policy."""

from typing import Protocol

from sim.engine.cycle import Cycle, View


class Policy(Protocol):
    """A decision: fill the cycle from what the view shows.

    A policy is pure. It reads no clock but ``view.now_ns``, draws no random number, iterates no set, knows nothing of
    SimPy, and changes nothing but through the cycle's verbs, each of which answers whether it went in.
    """

    def plan(self, view: View, cycle: Cycle) -> None: ...
