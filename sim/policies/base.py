"""The contract of a policy."""

from typing import Protocol

from sim.engine.cycle import Cycle, View


class Policy(Protocol):
    """A decision: fill the cycle from what the view shows, and change nothing but through the cycle's verbs.

    A policy is pure: no clock but ``view.now_ns``, no random number, no iterated set, no SimPy. ``stable_for`` is how
    often in a row it decides the same while nothing changes but tokens and time (see engine/span.py); 1 if left out.
    """

    def plan(self, view: View, cycle: Cycle) -> None: ...
