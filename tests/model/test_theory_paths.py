"""Exact results for one path: the engine against Lindley's recursion and closed forms, without any tolerance."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis.theory.alone import Alone, static_batch_ns
from sim.analysis.theory.paths import busy_periods, by_key, lindley, number_in_system_ns

MS = 10**6
ARRIVALS = np.array([0, 1, 2, 20])
SERVICES = np.array([5, 3, 1, 4])


def request(id_: str, arrival_ms: float, prompt: int, output: int, **more: int) -> dict[str, Any]:
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


def single_slot(requests: Sequence[Mapping[str, Any]], device: Mapping[str, Any], **scheduler: Any) -> sim.Scenario:
    return sim.load(
        {
            "schema": 1,
            "name": "slot",
            "workload": {"requests": list(requests)},
            "device": dict(device),
            "scheduler": {"max_running": 1, **scheduler},
        }
    )


def served(scenario: sim.Scenario) -> tuple[list[int], list[int]]:
    """(wait, finish) of each request, in ns."""
    columns = sim.simulate(scenario).requests
    return (columns["first_scheduled_ns"] - columns["arrival_ns"]).tolist(), columns["finish_ns"].tolist()


# --- on paper --------------------------------------------------------------------------------------------------------


def test_four_customers_in_the_order_of_arrival() -> None:
    """The second waits 0 + 5 - 1 = 4, the third 4 + 3 - 1 = 6, the fourth 6 + 1 - 18 < 0: not at all."""
    waits = lindley(ARRIVALS, SERVICES)
    finish = ARRIVALS + waits + SERVICES
    assert waits.tolist() == [0, 4, 6, 0]
    assert finish.tolist() == [5, 8, 9, 24]
    assert number_in_system_ns(ARRIVALS, finish) == 23  # of 24: L = 23/24 = (4/24) (23/4)


def test_four_customers_shortest_first() -> None:
    """At 5, the third (1) goes before the second (3): it ends at 6, that one at 9."""
    waits = by_key(ARRIVALS, SERVICES, SERVICES)
    finish = ARRIVALS + waits + SERVICES
    assert (finish - ARRIVALS).tolist() == [5, 8, 4, 4]
    assert number_in_system_ns(ARRIVALS, finish) == 21


def test_the_server_is_busy_at_the_same_times_in_any_order() -> None:
    for waits in (lindley(ARRIVALS, SERVICES), by_key(ARRIVALS, SERVICES, SERVICES)):
        busy = busy_periods(ARRIVALS, ARRIVALS + waits + SERVICES)
        assert [column.tolist() for column in busy] == [[0, 20], [9, 24], [3, 1]]


def test_who_arrives_as_a_service_ends_is_seen() -> None:
    """At 5 two wait: the one that came at 5 is shorter."""
    assert by_key(np.array([0, 1, 5]), np.array([5, 3, 1]), np.array([5, 3, 1])).tolist() == [0, 5, 0]


def test_nobody_and_everybody_at_once() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert (lindley(none, none).tolist(), by_key(none, none, none).tolist()) == ([], [])
    assert lindley(np.zeros(3, dtype=np.int64), np.array([2, 2, 2])).tolist() == [0, 2, 4]


# --- the engine ------------------------------------------------------------------------------------------------------


def test_the_engine_serves_the_four_customers_as_on_paper() -> None:
    """1 ms a prompt token, one output token: the prompt is the service."""
    requests = [request(f"r{i}", int(a), int(s), 1) for i, (a, s) in enumerate(zip(ARRIVALS, SERVICES, strict=True))]
    waits, finish = served(single_slot(requests, {"prefill_ms_per_token": 1}))
    assert waits == [0, 4 * MS, 6 * MS, 0]
    assert finish == [5 * MS, 8 * MS, 9 * MS, 24 * MS]


def test_what_a_request_alone_takes() -> None:
    """10 prompt tokens in chunks of 4 are 3 jobs: 3 * 0.25 + 10 = 10.75 ms; each of 4 decodes 0.25 + 1 = 1.25 ms."""
    (ten, five) = (np.array([10]), np.array([5]))
    whole = single_slot([request("A", 0, 10, 5)], {"job_ms": 0.25, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1})
    chunked = whole.with_overrides({"scheduler.policy": "chunked", "scheduler.chunk_tokens": 4})
    budget = whole.with_overrides({"scheduler.policy": "vllm", "scheduler.token_budget": 4})
    assert Alone.of(whole).prefill_ns(ten).tolist() == [10.25 * MS]
    assert Alone.of(chunked).prefill_ns(ten).tolist() == [10.75 * MS]
    assert Alone.of(budget).prefill_ns(ten).tolist() == [10.75 * MS]
    assert Alone.of(chunked).decode_ns(ten, five).tolist() == [5 * MS]
    assert Alone.of(chunked).service_ns(ten, five).tolist() == [15.75 * MS]


def test_what_context_adds() -> None:
    """3 prompt tokens: the second token reads 4, the third 5, at 0.1 ms each."""
    scenario = single_slot([request("A", 0, 3, 3)], {"job_ms": 1, "context_ms_per_token": 0.1})
    assert Alone.of(scenario).decode_ns(np.array([3]), np.array([3])).tolist() == [int(2.9 * MS)]


def test_every_job_is_rounded_on_its_own() -> None:
    """0.0000005 ms are half a nanosecond: 1 ns for each of three jobs, and not 1.5 for all."""
    scenario = single_slot([request("A", 0, 3, 1)], {"job_ms": 0.0000005}, policy="chunked", chunk_tokens=1)
    assert Alone.of(scenario).prefill_ns(np.array([3])).tolist() == [3]
    assert served(scenario) == ([0], [3])


COSTS = (0, 0.25, 1, 0.0301, 0.000000333, 0.1234567)


def drawn(seed: int) -> sim.Scenario:
    """Any costs, lengths, chunks; gaps around the length of a service, and ties."""
    rng = random.Random(seed)
    names = ("prefill_ms_per_token", "decode_ms_per_batch", "decode_ms_per_request", "context_ms_per_token")
    device = {name: rng.choice(COSTS) for name in names} | {"job_ms": rng.choice(COSTS[1:])}
    policy = rng.choice(["fcfs", "chunked", "vllm", "sarathi", "static"])
    scheduler: dict[str, Any] = {"policy": policy, "order": rng.choice(["fcfs", "fcfs", "priority"])}
    if policy == "chunked":
        scheduler["chunk_tokens"] = rng.choice([1, 2, 7, 100])
    if policy in {"vllm", "sarathi"}:
        scheduler["token_budget"] = rng.choice([1, 3, 16, 4096])
    at, requests = 0.0, []
    for index in range(rng.randint(1, 60)):
        at = round(at + rng.choice([0, 0, 0.001, 1, rng.expovariate(0.1), 40 * rng.random()]), 6)
        output = rng.choice([1, 1, 2, rng.randint(1, 30)])
        requests.append(request(f"r{index}", at, rng.randint(1, 40), output, priority=rng.randint(0, 3)))
    return single_slot(requests, device, **scheduler)


@pytest.mark.parametrize("seed", range(400))
def test_one_slot_is_lindleys_queue(seed: int) -> None:
    """Whatever the policy makes of it: with one slot, each request has the server to itself, and the others wait."""
    scenario = drawn(seed)
    columns = sim.simulate(scenario).requests
    arrival = columns["arrival_ns"]
    service = Alone.of(scenario).service_ns(columns["prompt_tokens"], columns["output_tokens"])
    if scenario.scheduler.order == "priority":
        wait = by_key(arrival, service, sim.simulate(scenario).record.workload.priority)
    else:
        wait = lindley(arrival, service)
    assert (columns["first_scheduled_ns"] - arrival).tolist() == wait.tolist()
    assert columns["finish_ns"].tolist() == (arrival + wait + service).tolist()


@pytest.mark.parametrize("seed", range(100))
def test_a_request_alone_is_as_fast_under_any_policy_as_its_chunks_allow(seed: int) -> None:
    """TTFT is what its chunks take, and every further token c0 + c_d (and its context): here with slots to spare."""
    rng = random.Random(seed)
    device = {"job_ms": rng.choice(COSTS), "prefill_ms_per_token": rng.choice(COSTS[1:]), "decode_ms_per_request": 0.5}
    policy = rng.choice(["fcfs", "chunked", "vllm", "sarathi", "orca", "vllm-v0", "static"])
    prompt, output = rng.randint(1, 500), rng.randint(1, 50)
    document = {"schema": 1, "name": "alone", "device": device, "scheduler": {"policy": policy}}
    scenario = sim.load(document | {"workload": {"requests": [request("A", 3, prompt, output)]}})
    alone, result = Alone.of(scenario), sim.simulate(scenario)
    ttft = int(alone.prefill_ns(np.array([prompt]))[0])
    step = round((device["job_ms"] + 0.5) * MS)
    assert result.token_times("A").tolist() == [3 * MS + ttft + k * step for k in range(output)]


@pytest.mark.parametrize(("policy", "in_one_job"), [("fcfs", False), ("static", False), ("vllm", True)])
@pytest.mark.parametrize("seed", range(20))
def test_a_batch_that_begins_at_once(policy: str, in_one_job: bool, seed: int) -> None:
    """n requests of the same output: their prefills, and then O - 1 jobs of n."""
    rng = random.Random(seed)
    device = {name: rng.choice(COSTS[1:]) for name in ("job_ms", "prefill_ms_per_token", "decode_ms_per_request")}
    device["context_ms_per_token"] = rng.choice(COSTS)
    output, n = rng.randint(2, 40), rng.randint(1, 30)
    requests = [request(f"r{i}", 0, rng.randint(1, 50), output) for i in range(n)]
    scheduler = {"policy": policy, "max_running": 1000}
    document = {"schema": 1, "name": "batch", "device": device, "scheduler": scheduler}
    scenario = sim.load(document | {"workload": {"requests": requests}})
    prompts = np.array([r["prompt_tokens"] for r in requests])
    end = static_batch_ns(scenario, prompts, output, in_one_job=in_one_job)
    assert set(sim.simulate(scenario).requests["finish_ns"].tolist()) == {end}


def test_a_batch_on_paper() -> None:
    """Three prompts of 2 at 0.25 + 2 ms each; then 4 jobs of 0.25 + 3 * 0.5 ms: 6.75 + 7 = 13.75 ms."""
    device = {"job_ms": 0.25, "prefill_ms_per_token": 1, "decode_ms_per_request": 0.5}
    scenario = single_slot([request("A", 0, 2, 5)], device)
    assert static_batch_ns(scenario, np.array([2, 2, 2]), 5, in_one_job=False) == 13.75 * MS
    assert static_batch_ns(scenario, np.array([2, 2, 2]), 5, in_one_job=True) == 13.25 * MS
