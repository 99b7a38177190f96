"""Did clients do as they do: send when it was time, leave when it was too late, try again? Worked out from the ends."""

from collections.abc import Iterator

import numpy as np

from sim.analysis.checks_tables import time
from sim.analysis.exact import FOREVER, whole_ns
from sim.analysis.facts import Facts
from sim.analysis.findings import Difference, Value
from sim.request import NEVER, Sending, Status


def arrivals(facts: Facts) -> Iterator[Difference]:
    """Who waits for another's end comes so long after it, to the nanosecond, if that is within the run.

    After an end by a decision, a nanosecond at least.
    """
    sending, plan = _sending(facts), facts.claims.asked
    found, ends_ns, horizon_ns = facts.workload.arrival_ns.tolist(), _ends_ns(facts), _horizon_ns(facts)
    last = _last_attempts(sending)
    cancelled = facts.record.requests["status"] == Status.CANCELLED
    stated = {} if plan is None else dict(zip(plan.all_ids(), plan.arrival_ns.tolist(), strict=True))
    columns = (sending.after.tolist(), sending.pause_ns.tolist(), sending.attempt.tolist())
    for row, (after, pause_ns, attempt) in enumerate(zip(*columns, strict=True)):
        if after == NEVER:
            due = stated.get(facts.workload.id(row), found[row])
        else:
            before = row - 1 if attempt else last[after]
            before_ns = ends_ns[before]
            due = before_ns + max(pause_ns, int(cancelled[before]))
            due = NEVER if before_ns == FOREVER or due > horizon_ns else due
        if due != found[row]:
            yield Difference(f"{facts.claims.request(row)}, arrival", _time(due), _time(found[row]))


def leaving(facts: Facts) -> Iterator[Difference]:
    """Who has no token when its patience ends leaves at that moment; a token of that very moment is in time."""
    found_ns = facts.workload.cancel_ns.tolist()
    for row, (leaves_ns, stated_ns) in enumerate(zip(_leaves_ns(facts), _stated_cancel(facts), strict=True)):
        due_ns = stated_ns if leaves_ns == FOREVER else leaves_ns
        if due_ns != found_ns[row]:
            yield Difference(f"{facts.claims.request(row)}, left", _time(due_ns), _time(found_ns[row]))


def attempts(facts: Facts) -> Iterator[Difference]:
    """There is a next attempt if the one before was cancelled for want of patience, as far as there may be more."""
    sending, plan = _sending(facts), facts.claims.asked
    if plan is None or plan.sending is None:
        return
    most = int(plan.sending.attempt.max(initial=0))
    first_backoffs = plan.sending.pause_ns[1 : most + 1].tolist()
    leaves_ns, ends_ns, stated = _leaves_ns(facts), _ends_ns(facts), _stated_cancel(facts)
    cancelled = (facts.record.requests["status"] == Status.CANCELLED).tolist()
    attempt = sending.attempt.tolist()
    for row, number in enumerate(attempt):
        again = row + 1 < len(attempt) and attempt[row + 1] > number
        due = number < most and cancelled[row] and leaves_ns[row] != FOREVER
        if due and stated[row] != NEVER:
            due = ends_ns[row] + max(first_backoffs[number], 1) < stated[row]
        if due != again:
            yield Difference(
                f"{facts.claims.request(row)}, sent again", *("yes" if way else "no" for way in (due, again))
            )


def _sending(facts: Facts) -> Sending:
    sending = facts.workload.sending
    if sending is None:
        raise TypeError("a workload without clients")
    return sending


def _ends_ns(facts: Facts) -> list[int]:
    """When each request had ended; who is turned away ends as it comes."""
    ended_ns, status = facts.claims.columns["ended_ns"], facts.record.requests["status"]
    ends_ns = np.where(status == Status.REJECTED, facts.workload.arrival_ns, ended_ns)
    ends: list[int] = np.where(ends_ns == NEVER, FOREVER, ends_ns).tolist()
    return ends


def _leaves_ns(facts: Facts) -> list[int]:
    """When each client left for want of patience; ``FOREVER`` if it did not."""
    sending, status, horizon_ns = _sending(facts), facts.record.requests["status"], _horizon_ns(facts)
    rows = zip(facts.workload.arrival_ns.tolist(), sending.patience_ns.tolist(), facts.first_token_ns.tolist(),
               _stated_cancel(facts), (status == Status.REJECTED).tolist(), strict=True)  # fmt: skip
    leaves = []
    for arrival_ns, patience_ns, first_ns, cancel_ns, rejected in rows:
        ns = arrival_ns + patience_ns
        waits = NEVER not in (arrival_ns, patience_ns) and not rejected and ns <= horizon_ns
        wants = cancel_ns == NEVER or ns < cancel_ns
        leaves.append(ns if waits and wants and (first_ns == NEVER or first_ns > ns) else FOREVER)
    return leaves


def _stated_cancel(facts: Facts) -> list[int]:
    """When each client gives up in any case, as the scenario says."""
    plan = facts.claims.asked
    if plan is None:
        return [NEVER] * facts.requests
    stated = dict(zip(plan.all_ids(), plan.cancel_ns.tolist(), strict=True))
    return [stated.get(id_, NEVER) for id_ in facts.workload.all_ids()]


def _last_attempts(sending: Sending) -> dict[int, int]:
    """By the first attempt of each request, its last."""
    last: dict[int, int] = {}
    for row, number in enumerate(sending.attempt.tolist()):
        last[row - number] = row
    return last


def _horizon_ns(facts: Facts) -> int:
    horizon_ms = facts.claims.scenario.run.horizon_ms
    return FOREVER if horizon_ms is None else whole_ns(horizon_ms)


def _time(ns: int) -> Value:
    return None if ns == NEVER else time(ns)
