"""What a run costs the simulator, in events on SimPy's heap: a count that is the same on every machine, unlike time.

A job costs two events: its end, and the late decision behind it. Nothing is paid per token of a prompt. A change here
is a change of speed: make it on purpose.
"""

from typing import Any

import pytest
from tiny import Document, request, simulate


def events(requests: list[Document], policy: str = "fcfs", **settings: Any) -> int:
    count: int = simulate(requests, policy, **settings)["work"]["heapEvents"]
    return count


def alone(prompt: int, output: int, policy: str = "fcfs", **settings: Any) -> int:
    return events([request("A", 0, prompt, output)], policy, **settings)


def test_the_smallest_run() -> None:
    """Three processes begin: scheduler, arrivals, request (3); the scheduler takes the device (1) and decides (1); the
    job ends (1), it decides again (1); the request is told of its end (1), two processes end (2), all is done (1).
    """
    assert alone(1, 1) <= 11


def test_a_job_costs_at_most_two_events() -> None:
    assert alone(1, 101) - alone(1, 1) <= 2 * 100


def test_a_prompt_token_costs_nothing() -> None:
    assert alone(10**9, 1) == alone(1, 1)


def test_a_chunk_costs_what_a_job_costs() -> None:
    assert alone(200, 1, "chunked", chunk_tokens=2) - alone(2, 1, "chunked", chunk_tokens=2) <= 2 * 99


def test_whoever_decodes_along_costs_nothing_per_token() -> None:
    """Ten that decode together 100 times cost what they cost for 10 times, and two events for each job more."""
    few = [request(f"r{n}", 0, 1, 10) for n in range(10)]
    many = [{**each, "output_tokens": 100} for each in few]
    assert events(many) - events(few) <= 2 * 90


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "static"])
def test_a_request_costs_at_most_seven_events(policy: str) -> None:
    """Each in its own idle time, with one job: it is due, its process begins, the sleeping scheduler is woken, the job
    ends, a decision finds nothing more, the request is told, its process ends.
    """

    def apart(count: int) -> list[Document]:
        return [request(f"r{n}", 100 * n, 1, 1) for n in range(count)]

    assert events(apart(101), policy) - events(apart(1), policy) <= 7 * 100


def test_patience_costs_at_most_two_events_more() -> None:
    calm = [request(f"r{n}", 100 * n, 1, 1) for n in range(101)]
    hasty = [{**each, "cancel_ms": 10**9} for each in calm]
    assert events(hasty) - events(calm) <= 2 * 101


def test_one_that_is_withdrawn_before_it_arrives_costs_at_most_three_events() -> None:
    withdrawn = [request(f"r{n}", 10**6, 1, 1, cancel_ms=100 * n) for n in range(1, 101)]
    assert events([request("A", 0, 1, 1), *withdrawn]) - alone(1, 1) <= 3 * 100


def test_decisions_and_jobs_are_counted() -> None:
    """Three jobs, a decision before each; and the one after A's end, which finds nothing until B comes."""
    work = simulate([request("A", 0, 2, 2), request("B", 50, 1, 1)])["work"]
    assert {"decisions": 4, "jobs": 3}.items() <= work.items()
