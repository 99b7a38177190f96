"""What faults do to jobs: slow windows stretch those that start within, stalls stand in their way."""

from fractions import Fraction

import numpy as np

from sim.analysis.timetable import whole_ns
from sim.request import Ints
from sim.scenario import Scenario

Span = tuple[int, int]


def ends(scenario: Scenario, starts_ns: Ints, durations_ns: Ints) -> Ints:
    """When jobs of these durations end that start then."""
    left_ns = durations_ns.copy()
    factors: dict[int, Fraction] = {}
    for fault in scenario.faults:
        if fault.kind == "slow" and fault.until_ms is not None:
            within = (starts_ns >= whole_ns(fault.at_ms)) & (starts_ns < whole_ns(fault.until_ms))
            for job in np.flatnonzero(within).tolist():
                factors[job] = factors.get(job, Fraction(1)) * Fraction(fault.factor or 1)
    for job, factor in factors.items():
        left_ns[job] = int(int(left_ns[job]) * factor + Fraction(1, 2))
    ends_ns = starts_ns + left_ns
    stalls = _stalls(scenario)
    if stalls:
        touched = (starts_ns < stalls[-1][1]) & (ends_ns > stalls[0][0])
        for job in np.flatnonzero(touched).tolist():
            ends_ns[job] = _around(stalls, int(starts_ns[job]), int(left_ns[job]))
    return ends_ns


def _stalls(scenario: Scenario) -> list[Span]:
    """When the device does nothing: spans one after the other, those that meet or overlap as one."""
    spans: list[Span] = []
    for start_ns, end_ns in sorted(
        (whole_ns(fault.at_ms), whole_ns(fault.until_ms))
        for fault in scenario.faults
        if fault.kind == "stall" and fault.until_ms is not None
    ):
        if spans and start_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end_ns))
        else:
            spans.append((start_ns, end_ns))
    return spans


def _around(stalls: list[Span], at_ns: int, left_ns: int) -> int:
    """The end of ``left_ns`` of work from ``at_ns`` on, none of it during a stall."""
    for start_ns, end_ns in stalls:
        if at_ns >= end_ns:
            continue
        if at_ns + left_ns <= start_ns:
            break
        left_ns -= max(start_ns - at_ns, 0)
        at_ns = end_ns
    return at_ns + left_ns
