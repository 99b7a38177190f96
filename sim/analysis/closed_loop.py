"""A closed loop as measured, in whole ns: throughput, response and think time, and the law that ties them together.

Each user is either in the server or not; over an observation of length T, the times of N users add up to N * T. With
C requests ended in it, X = C / T, R = (time in the server) / C and Z = (time outside) / C that is the interactive
response time law R = N / X - Z, exactly (Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978).
It holds for any run, as long as what the end of the observation cuts off is counted on both sides: requests that are
still in the server, and users who still think (or have nothing left to send).
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from sim.clock import instant_ns
from sim.record.result import Result
from sim.request import NEVER, Sending, Status
from sim.scenario import Scenario, load
from sim.workload.build import plan_of
from sim.workload.sending import kept, rows_of


class ClosedLoop(NamedTuple):
    """What was measured. Times in ns; a retry's backoff is time outside the server."""

    users: int
    observed_ns: int
    ended: int
    in_server_ns: int
    outside_ns: int

    @property
    def throughput_per_ns(self) -> Fraction:
        """X: requests that ended (however they did) per ns. ``ZeroDivisionError``: nothing was observed."""
        return Fraction(self.ended, self.observed_ns)

    @property
    def response_ns(self) -> Fraction:
        """R: time in the server per request that ended. ``ZeroDivisionError``: none did."""
        return Fraction(self.in_server_ns, self.ended)

    @property
    def think_ns(self) -> Fraction:
        """Z: time outside the server per request that ended. ``ZeroDivisionError``: none did."""
        return Fraction(self.outside_ns, self.ended)


def measure(result: Result) -> ClosedLoop:
    """From time 0 to the horizon, or to the end of the last request without one.

    ``ValueError``: its scenario is no closed loop.
    """
    scenario = load(dict(result.resolved))
    if scenario.workload.clients is None:
        raise ValueError("not a closed loop: its scenario has no workload.clients")
    users = scenario.workload.clients.users
    stays = list(_stays(result, _sending(result, scenario)))
    ends_ns = [to_ns for _, _, to_ns in stays if to_ns is not None]
    horizon_ms = scenario.run.horizon_ms
    until_ns = max(ends_ns, default=0) if horizon_ms is None else instant_ns(horizon_ms)
    in_server_ns = sum((until_ns if to_ns is None else to_ns) - from_ns for _, from_ns, to_ns in stays)
    return ClosedLoop(users, until_ns, len(ends_ns), in_server_ns, _outside_ns(users, until_ns, stays))


Stay = tuple[int, int, int | None]
"""User, arrival and end of a request in ns; no end if it is still there."""


def _stays(result: Result, sending: Sending) -> Iterator[Stay]:
    """The stays in the server, those of a user in turn."""
    user_of: list[int] = []
    users = count()
    columns = zip(sending.after.tolist(), result.requests["arrival_ns"].tolist(),
                  result.requests["ended_ns"].tolist(), result.requests["status"].tolist(),
                  (result.requests["arrived_job"] != NEVER).tolist(), strict=True)  # fmt: skip
    for after, arrival_ns, ended_ns, status, came in columns:
        user_of.append(next(users) if after == NEVER else user_of[after])
        if came:
            end_ns = arrival_ns if status == Status.REJECTED else ended_ns
            yield user_of[-1], arrival_ns, None if end_ns == NEVER else end_ns


def _outside_ns(users: int, until_ns: int, stays: list[Stay]) -> int:
    """The time that all users spend outside the server, from one of their stays to the next."""
    free_ns: list[int | None] = [0] * users
    outside_ns = 0
    for user, from_ns, to_ns in stays:
        since_ns = free_ns[user]
        if since_ns is None or from_ns < since_ns:
            raise ValueError(f"user {user} sends at {from_ns} ns while its request before is in the server")
        outside_ns += from_ns - since_ns
        free_ns[user] = to_ns
    return outside_ns + sum(until_ns - since_ns for since_ns in free_ns if since_ns is not None)


def _sending(result: Result, scenario: Scenario) -> Sending:
    """Who waits for whom; a result from disk has it in its scenario only."""
    workload = result.record.workload
    if workload.sending is not None:
        return workload.sending
    plan = plan_of(scenario, workload)
    sending = kept(plan, rows_of(plan, workload.all_ids())).sending
    if sending is None:
        raise ValueError("not a closed loop")
    return sending
