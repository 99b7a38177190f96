"""What a run costs the simulator: counts that are the same on every machine, unlike time.

A job, or a stretch of like jobs, costs an event, its end; the decision behind it another if anything else happens at
that instant. Nothing is paid per token. A change here is a change of speed: make it on purpose.
"""

from typing import Any

import pytest
from tiny import Document, request, simulate

import sim


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


def test_decodes_that_nothing_disturbs_are_one_event() -> None:
    """A thousand tokens more, and not an event more."""
    assert alone(1, 1100) == alone(1, 100)


def test_a_stretch_of_decodes_is_one_row_whatever_its_length() -> None:
    few, many = (simulate([request("A", 0, 1, output), request("B", 0, 1, output)])["work"] for output in (10, 1000))
    assert many["rows"] == few["rows"]
    assert many["jobs"] - few["jobs"] == 990


def test_no_policy_is_asked_about_decodes_while_nobody_waits() -> None:
    """Twice: to begin, and when all is done."""
    assert simulate([request("A", 0, 1, 1000)])["work"]["policyCalls"] <= 2


# --- a request, in five loads ----------------------------------------------------------------------------------------

DEVICE = {"job_ms": 0.2, "prefill_ms_per_token": 0.02, "decode_ms_per_batch": 8.0, "decode_ms_per_request": 0.02,
          "context_ms_per_token": 0.000005}  # fmt: skip
REQUESTS = 400


def per_request(prompt: int, output: int, rate: float, *, blocks: int = 40_000, **kv: Any) -> dict[str, float]:
    """Each count of work, divided by the number of requests."""
    document = {
        "schema": 1,
        "name": "load",
        "workload": {
            "count": REQUESTS,
            "arrivals": {"process": "poisson", "rate_per_s": rate},
            "prompt_tokens": {"distribution": "fixed", "value": prompt},
            "output_tokens": {"distribution": "fixed", "value": output},
        },
        "device": DEVICE,
        "kv": {"blocks": blocks, "block_tokens": 16, **kv},
        "scheduler": {"policy": "vllm", "token_budget": 2048, "max_running": 256},
    }
    work = sim.simulate(sim.load(document)).work
    return {name: count / REQUESTS for name, count in work.items()}


LOADS: dict[str, tuple[tuple[int, int, float], dict[str, float]]] = {
    # it is due, its process begins, a span is cut, its prefill ends, a span ends with it, it is told, a late decision
    # (somebody was told), its process ends; and some instants that fall together
    "moderate": ((512, 512, 8.0), {"heapEvents": 8.5, "rows": 6, "policyCalls": 1.1}),
    "moderate, prefix cache": ((512, 512, 8.0), {"heapEvents": 8.5, "rows": 6, "policyCalls": 1.1}),
    # nobody cuts a span while the queue stands
    "saturated": ((512, 512, 28.0), {"heapEvents": 7, "rows": 5, "policyCalls": 1.5}),
    # each on its own: nothing to cut, but the scheduler sleeps and is woken
    "light": ((512, 512, 0.0119), {"heapEvents": 8.5, "rows": 5.5, "policyCalls": 2.1}),
    # four chunks of 2,048 tokens and more
    "long prompts": ((8192, 16, 4.0), {"heapEvents": 12, "rows": 14, "policyCalls": 6}),
    # each is preempted several times, computes all again, and is a row in four tables each time
    "preempting": ((64, 512, 28.0), {"heapEvents": 14, "rows": 24, "policyCalls": 7}),
}


@pytest.mark.parametrize("load", LOADS)
def test_what_a_request_costs(load: str) -> None:
    (prompt, output, rate), most = LOADS[load]
    blocks = 2000 if load == "preempting" else 40_000
    found = per_request(prompt, output, rate, blocks=blocks, prefix_cache="cache" in load)
    assert {name: found[name] for name in most if found[name] > most[name]} == {}, found


CLIENTS: dict[str, tuple[dict[str, Any], float]] = {
    # it begins to think, its span is cut, its prefill ends, a span ends with it, it is told, a late decision
    "closed loop": ({"clients": {"users": 64, "think_ms": {"distribution": "exponential", "mean": 1000}}}, 6.5),
    # as in an open loop, and: its patience ends, the first of that or its end, and its moment of grace
    "patience": ({"arrivals": {"process": "poisson", "rate_per_s": 8}, "patience_ms": 5000}, 11.5),
}


@pytest.mark.parametrize("clients", CLIENTS)
def test_what_a_client_costs(clients: str) -> None:
    load, most = CLIENTS[clients]
    document = {
        "schema": 1,
        "name": "load",
        "workload": {
            "count": REQUESTS,
            "prompt_tokens": {"distribution": "fixed", "value": 512},
            "output_tokens": {"distribution": "fixed", "value": 512},
            **load,
        },
        "device": DEVICE,
        "scheduler": {"policy": "vllm"},
    }
    assert sim.simulate(sim.load(document)).work["heapEvents"] / REQUESTS <= most


def test_tokens_cost_nothing() -> None:
    """Four times the output, the same number of requests at a quarter of the rate: the same work."""
    short, long = per_request(512, 128, 8.0), per_request(512, 512, 2.0)
    for name in ("heapEvents", "rows", "policyCalls"):
        assert long[name] <= 1.1 * short[name], name
