"""Spans: a stretch of jobs that are alike, run as one event. What makes one, how long it may be, and what cuts it.

Everything here is a pure function. A span is only there for speed: it stands for the very jobs that would have been
decided one by one, and its ends are exact (:mod:`sim.costs.line`).

A policy takes part if it promises ``stable_for = n``: n decisions in a row come out the same as long as the same
requests wait, run and prefill, the job before was a decode as well, and every verb answers as it did; and while nobody
waits or prefills, it decodes all who run. It may not go by the time, or by how far anybody has come. Without the
promise each decision is asked for, which is exact for any policy.
"""

from dataclasses import dataclass

from sim.engine.plan import Blocked

MOST_JOBS = 2**20
"""No span is longer, so that nothing about it leaves 64 bits."""


@dataclass(slots=True)
class Decision:
    """What a decision of a steady policy came to, as far as it says whether the next one must be the same.

    ``whole``: its one job decodes everybody who runs, and nothing else happened. ``refused``: the head of the queue was
    asked for and did not get in. ``closed``: nobody was to get in.
    """

    whole: bool
    waits: bool
    blocked: Blocked
    closed: bool
    refusal_lasts: bool


ALONE = Decision(whole=True, waits=False, blocked=Blocked.NOTHING, closed=False, refusal_lasts=True)
"""The cohort decodes, and nobody waits."""


def repeats(decision: Decision) -> bool:
    """Whether the same job comes again, as long as nobody arrives, leaves or finishes and the blocks reach.

    Blocks only become fewer, slots and budget stay: who was kept out stays so. A head that was not asked for (its turn
    comes after this job) is no such case.
    """
    if not decision.whole:
        return False
    if not decision.waits or decision.closed:
        return True
    if decision.blocked is Blocked.SLOTS:
        return True
    return decision.refusal_lasts and decision.blocked in (Blocked.BLOCKS, Blocked.HOLES, Blocked.BUDGET)


def arrival_cuts(decision: Decision, *, same_head: bool) -> bool:
    """Whether a newcomer in a span may change what comes next: not behind a head that is kept out as it was."""
    return not (decision.waits and (decision.closed or same_head))
