"""From a scenario's ``[[faults]]`` to what goes wrong in a run."""

from fractions import Fraction

from sim.clock import instant_ns
from sim.engine.faults import Faults, Troubles, Window
from sim.scenario import Scenario


def schedule(scenario: Scenario) -> Faults:
    stalls, slow, crashes, changes = [], [], [], dict[int, int]()
    for fault in scenario.faults:
        at_ns = instant_ns(fault.at_ms)
        until_ns = at_ns if fault.until_ms is None else instant_ns(fault.until_ms)
        if fault.kind == "stall":
            stalls.append(Window(at_ns, until_ns))
        elif fault.kind == "slow":
            slow.append(Window(at_ns, until_ns, Fraction(fault.factor or 1)))
        elif fault.kind == "crash":
            crashes.append(at_ns)
        else:
            blocks = fault.blocks or 0
            changes[at_ns] = changes.get(at_ns, 0) + blocks
            changes[until_ns] = changes.get(until_ns, 0) - blocks
    return Faults(Troubles(sorted(stalls), sorted(slow)), tuple(sorted(crashes)), _levels(changes))


def _levels(changes: dict[int, int]) -> tuple[tuple[int, int], ...]:
    """How many blocks are withheld in all from each time on; overlapping faults add up."""
    levels, blocks = [], 0
    for at_ns in sorted(changes):
        blocks += changes[at_ns]
        levels.append((at_ns, blocks))
    return tuple(levels)
