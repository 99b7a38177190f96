"""What `run` says of a generated load: what was asked for, and what came, of the same things."""

from typing import Any

import sim
from sim.experiment import loads, plan, remarks

ONE = {"distribution": "fixed", "value": 1}


def told(**workload: Any) -> list[str]:
    """Of requests of one token in and out, unless ``workload`` says otherwise."""
    document = {
        "schema": 1,
        "name": "told",
        "workload": {"prompt_tokens": ONE, "output_tokens": ONE, **workload},
        "device": {"job_ms": 1000},
    }
    plans = plan(sim.load(document))
    return list(loads(plans, [each.run() for each in plans]))


def test_of_requests() -> None:
    """At 0, 1 and 3 s: 2 gaps in 3 s, of mean 1.5 and deviation 0.5 s.

    In windows of 1 s come 1, 1 and 0: mean 2/3, variance 2/9.
    """
    arrivals = {"process": "given", "times_ms": [0, 1000, 3000]}
    assert told(count=3, arrivals=arrivals) == [
        "load: asked given; came 0.6667 requests/s, CV of gaps 0.333, variance to mean 0.333 in 1 s (3 requests in 3 s)"
    ]


def test_of_sessions_their_first_turns_count() -> None:
    """Three conversations of three turns each; the law of arrivals is about the three."""
    sessions = {"turns": {"distribution": "fixed", "value": 3}, "think_ms": 10}
    assert told(count=3, arrivals={"process": "deterministic", "rate_per_s": 2}, sessions=sessions) == [
        "load: asked 2 sessions/s, CV of gaps 0 (deterministic); came 2 sessions/s, CV of gaps 0 (3 sessions in 1 s)"
    ]


def test_who_is_sent_again_does_not_come_again() -> None:
    """The device needs a second for each; the other two leave after 0.1 s, and are sent again in vain."""
    again = {"patience_ms": 100, "retry": {"attempts": 2}}
    assert told(count=3, arrivals={"process": "deterministic", "rate_per_s": 2}, **again) == [
        "load: asked 2 requests/s, CV of gaps 0 (deterministic); came 2 requests/s, CV of gaps 0 (3 requests in 1 s)"
    ]


def test_gaps_that_differ_by_a_ns_are_alike() -> None:
    """A third of a second is no whole number of ns."""
    assert (
        "CV of gaps 0,"
        in told(count=30, arrivals={"process": "deterministic", "rate_per_s": 3})[0].partition("came")[2]
    )


def test_requests_that_were_cancelled_before_they_arrived_are_not_said_to_be_beyond_a_horizon() -> None:
    request = {"arrival_ms": 10, "cancel_ms": 5, "prompt_tokens": 1, "output_tokens": 1}
    document = {"schema": 1, "name": "told", "workload": {"requests": [request]}}
    result = sim.simulate(sim.load(document))
    assert list(remarks([result])) == ["fcfs: every request was cancelled before it arrived, nothing ran"]
