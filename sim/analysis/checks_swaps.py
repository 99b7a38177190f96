"""Are the copies between device and host accounted for?"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from sim.analysis.checks_blocks import blocks_of, held_at_end
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference
from sim.analysis.stays import Stays
from sim.request import Status


def copies(facts: Facts, stays: Stays) -> Iterator[Difference]:
    """Who is swapped out leaves on the host what it held, within ``swap_blocks``, and takes as much back."""
    kv, rows = facts.claims.kv, facts.record.copies
    most = kv.swap_blocks if kv is not None and kv.preemption == "swap" else 0
    out, taken = dict[int, int](), 0
    going = _going(facts)
    at = 0
    due = _due(facts, stays)
    for job, request, blocks, way in zip(*(rows[name].tolist() for name in ("job", "request", "blocks", "out")),
                                         strict=True):  # fmt: skip
        while at < len(going) and going[at][0] <= job:
            taken -= out.pop(going[at][1], 0)
            at += 1
        where = f"job {job}, {facts.claims.request(request)} swapped {'out' if way else 'in'}"
        if way:
            least, most_held = due[request].pop(0) if due[request] else (0, -1)
            if not least <= blocks <= most_held or request in out:
                held = f"{least} blocks" if least == most_held else f"{least} to {most_held} blocks"
                yield Difference(where, held if most_held >= 0 else "nothing, for it is not swapped out", blocks)
            out[request] = blocks
            taken += blocks
            if taken > most:
                yield Difference(f"job {job}, blocks on the host", f"at most {most}", taken)
        else:
            if out.get(request) != blocks:
                yield Difference(where, out.get(request), blocks)
            taken -= out.pop(request, 0)
    for request, left in due.items():
        if left:
            yield Difference(f"{facts.claims.request(request)}, copies to the host", f"{len(left)} more", "none")


def _due(facts: Facts, stays: Stays) -> dict[int, list[tuple[int, int]]]:
    """Per request, least and most blocks of each of its copies to the host.

    Somebody who was in the job already when it became the victim may have taken blocks for it.
    """
    kv, due = facts.claims.kv, defaultdict[int, list[tuple[int, int]]](list)
    if kv is None or not stays.swapped.any():
        return due
    _, emitted = facts.before(stays.owner, stays.behind)
    known = facts.workload.prompt_tokens[stays.owner] + facts.workload.samples[stays.owner] * emitted
    least = held_at_end(facts, stays, kv)
    most = np.maximum(least, blocks_of(facts, kv, stays.owner, known))
    if kv.gate == "reserve" or kv.allocation == "contiguous":
        most = least
    for stay in np.flatnonzero(stays.swapped).tolist():
        due[int(stays.owner[stay])].append((int(least[stay]), int(most[stay])))
    return due


def _going(facts: Facts) -> list[tuple[int, int]]:
    """``(job, request)``: who was cancelled, and before which job, in this order."""
    requests = facts.record.requests
    cancelled = np.flatnonzero(requests["status"] == Status.CANCELLED)
    return sorted(zip(requests["ended_job"][cancelled].tolist(), cancelled.tolist(), strict=True))
