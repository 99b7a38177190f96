"""What faults do to jobs: slow windows stretch those that start within, stalls stand in their way."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import whole_ns
from sim.analysis.findings import Difference
from sim.analysis.pieces import Pieces
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


def within(scenario: Scenario, pieces: Pieces) -> Iterator[Difference]:
    """Who is touched by a fault stands alone: of several like jobs none, for all take what the device charges."""
    windows = [
        (fault.kind, whole_ns(fault.at_ms), whole_ns(fault.until_ms))
        for fault in scenario.faults
        if fault.kind in ("slow", "stall") and fault.until_ms is not None
    ]
    for kind, from_ns, until_ns in windows:
        last_ns = pieces.last_starts_ns if kind == "slow" else pieces.ends_ns - 1
        touched = (pieces.jobs > 1) & (pieces.starts_ns < until_ns) & (last_ns >= from_ns)
        for piece in np.flatnonzero(touched).tolist():
            where = f"job {pieces.first[piece]}, and {pieces.jobs[piece] - 1} like it"
            yield Difference(where, f"none in the {kind} from {time(from_ns)}", "one")


def instants_ns(scenario: Scenario) -> Ints:
    """When a fault begins or ends."""
    bounds = [ms for fault in scenario.faults for ms in (fault.at_ms, fault.until_ms) if ms is not None]
    return np.array([whole_ns(ms) for ms in bounds], dtype=np.int64)


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
