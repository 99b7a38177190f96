"""What orders promise, held over many generated loads: optimal means, bounded waits, fair shares.

All on one slot unless said otherwise. Every comparison is between whole sums of ns: nothing is rounded.
"""

import random
from fractions import Fraction
from typing import Any

import pytest

import sim
from sim.record.result import Result

Document = dict[str, Any]
MS = 10**6


def run(requests: list[Document], device: Document, **scheduler: Any) -> Result:
    document = {
        "schema": 1, "name": "bounds", "workload": {"requests": requests}, "device": device,
        "scheduler": {"policy": "vllm", "max_running": 1, **scheduler},
    }  # fmt: skip
    return sim.simulate(sim.load(document))


def total_e2e_ns(result: Result) -> int:
    assert (result.requests["status"] == 0).all()
    return int(result.requests["e2e_ns"].sum())


# --- means ----------------------------------------------------------------------------------------------------------

UNIT = {"job_ms": 1}
"""Every job takes 1 ms, a prefill as well, however much of it was computed before: recomputation is free."""


def unit_jobs(rng: random.Random) -> list[Document]:
    """Prompts of one length: then the tokens that are left are in the order of the jobs that are left."""
    prompt = rng.choice([1, 1, 5])
    arrivals = sorted(rng.choice([0, rng.randrange(12), rng.randrange(40)]) for _ in range(rng.randint(2, 7)))
    return [{"arrival_ms": at, "prompt_tokens": prompt, "output_tokens": rng.randint(1, 12)} for at in arrivals]


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(250, 5000, 250))])
def test_preemptive_srpt_is_never_worse_than_fcfs_where_recomputation_is_free(first: int) -> None:
    better = preempted = 0
    for seed in range(first, first + 250):
        requests = unit_jobs(random.Random(seed))
        srpt = run(requests, UNIT, order="srpt", preemptive=True)
        difference = total_e2e_ns(run(requests, UNIT)) - total_e2e_ns(srpt)
        assert difference >= 0, f"seed {seed}: {requests}"
        better += difference > 0
        preempted += bool(srpt.requests["preemptions"].any())
    assert better > 50 and preempted > 25, "the loads hardly tell the two apart"  # noqa: PT018


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(250, 2000, 250))])
def test_sjf_is_never_worse_than_fcfs_if_all_are_there_at_once(first: int) -> None:
    """A prefill token and a decode cost the same, so that tokens are time."""
    device = {"prefill_ms_per_token": 1, "decode_ms_per_batch": 1}
    better = 0
    for seed in range(first, first + 250):
        rng = random.Random(seed)
        requests = [
            {"prompt_tokens": rng.randint(1, 9), "output_tokens": rng.randint(1, 9)} for _ in range(rng.randint(2, 8))
        ]
        difference = total_e2e_ns(run(requests, device)) - total_e2e_ns(run(requests, device, order="sjf"))
        assert difference >= 0, f"seed {seed}: {requests}"
        better += difference > 0
    assert better > 100


def test_srpt_can_lose_where_recomputation_costs() -> None:
    """The smallest case that was found, among all pairs by their tokens: nine. A token takes 1 ms, of prompt or output.

    A (3, 4) has its first token at 3 ms and 3 to go. B (1, 1) comes then, 2 tokens in all, and takes its place until 4.
    A computes its prompt and the token that it emitted again, 4 ms for the next token, and is done at 10: 10 + 1 ms.
    First come, first served: A is done at 6, B at 7: 6 + 4.
    """
    device = {"prefill_ms_per_token": 1, "decode_ms_per_batch": 1}
    requests = [
        {"id": "A", "prompt_tokens": 3, "output_tokens": 4},
        {"id": "B", "arrival_ms": 3, "prompt_tokens": 1, "output_tokens": 1},
    ]
    srpt = run(requests, device, order="srpt", preemptive=True)
    assert (srpt.requests["e2e_ns"] / MS).tolist() == [10, 1]
    assert (run(requests, device).requests["e2e_ns"] / MS).tolist() == [6, 4]


# --- starvation -----------------------------------------------------------------------------------------------------

AGED = ["lifo", "priority", "sjf", "srpt", "edf", "least-slack", "mlfq", "hrrn", "vtc", "random"]
FAIR = ["hrrn", "vtc", "random"]
"""Under these nobody waits for ever anyway."""
LEVELS = {"mlfq_quantum_tokens": 10}


def stream(count: int) -> list[Document]:
    """One that every order dislikes, at 0.5 ms, in a stream of others that keeps the server busy for good.

    It is the first of those who wait, the least urgent, the longest, and without a deadline.
    """
    disliked = {"id": "L", "arrival_ms": 0.5, "prompt_tokens": 50, "output_tokens": 1, "priority": 9, "tenant": "x"}
    first = {"id": "s000", "prompt_tokens": 900, "output_tokens": 1, "tenant": "x", "deadline_ms": 1}
    others = [
        {"id": f"s{i:03}", "arrival_ms": i, "prompt_tokens": 1, "output_tokens": 1, "tenant": "y", "deadline_ms": 1}
        for i in range(1, count)
    ]
    return [first, disliked, *others]


@pytest.mark.parametrize("order", AGED)
def test_ageing_by_passes_bounds_what_anybody_waits_for(order: str) -> None:
    """Who came before (one, until 1 ms), and then at most so many as may pass: each takes 1 ms."""
    requests = stream(60)
    for passes in (0, 3, 10):
        result = run(requests, UNIT, order=order, ageing={"by": "passes", "value": passes}, **LEVELS)
        assert result.requests["first_scheduled_ns"][1] <= (1 + passes) * MS
    if order not in FAIR:
        assert run(requests, UNIT, order=order, **LEVELS).requests["first_scheduled_ns"][1] >= 59 * MS


@pytest.mark.parametrize("order", AGED)
def test_ageing_by_time_bounds_what_anybody_waits(order: str) -> None:
    """From 0.5 + value on it is the first: it gets in when the one that runs then is done."""
    for value in (0, 4, 20):
        result = run(stream(60), UNIT, order=order, ageing={"by": "ms", "value": value}, **LEVELS)
        assert result.requests["first_scheduled_ns"][1] <= (value + 1) * MS


def test_the_highest_response_ratio_comes_to_everybody() -> None:
    """51 tokens that came at 0.5 ms, against others of 2 that wait 0 to 1 ms: at 26 ms 25.5/51 is as much as 1/2."""
    result = run(stream(60), UNIT, order="hrrn")
    assert result.requests["first_scheduled_ns"][1] <= 27 * MS


# --- fair shares -----------------------------------------------------------------------------------------------------

POOL_TOKENS, W_P, W_Q = 64 * 16, 1, 2


def service(result: Result, upto: int) -> dict[str, Fraction]:
    """What each tenant was served by the end of job ``upto``: prompts when they were admitted, tokens as they came."""
    record = result.record
    tenants, served = record.workload.tenants or (), dict.fromkeys("ab", Fraction(0))
    for job, request in zip(*(record.admissions[name].tolist() for name in ("job", "request")), strict=True):
        if job <= upto:
            served[tenants[request]] += W_P * int(record.workload.prompt_tokens[request])
    end_ns = int(record.jobs["end_ns"][upto])
    for index, tenant in enumerate(tenants):
        served[tenant] += W_Q * int((result.token_times(record.workload.id(index)) <= end_ns).sum())
    return served


@pytest.mark.parametrize("seed", range(6))
def test_vtc_keeps_two_backlogged_tenants_together(seed: int) -> None:
    """Sheng et al., theorem 4.4: over any time in which both wait, service differs by no more than the bound.

    Gate ``reserve``, so that nobody is preempted. Jobs are looked at as long as both have somebody in the queue.
    """
    rng = random.Random(seed)
    requests: list[Document] = [
        {"id": f"{tenant}{i}", "prompt_tokens": rng.randint(1, 100 if tenant == "a" else 40),
         "output_tokens": rng.randint(1, 20 if tenant == "a" else 120), "tenant": tenant}
        for i in range(60) for tenant in "ab"
    ]  # fmt: skip
    document = {
        "schema": 1, "name": "fair", "workload": {"requests": requests},
        "device": {"job_ms": 1, "prefill_ms_per_token": 0.01, "decode_ms_per_request": 0.05},
        "kv": {"blocks": 64, "block_tokens": 16, "gate": "reserve"},
        "scheduler": {"policy": "vllm", "order": "vtc", "prompt_token_weight": W_P, "output_token_weight": W_Q},
    }  # fmt: skip
    result = sim.simulate(sim.load(document))
    assert result.requests["preemptions"].sum() == 0
    tenants = result.record.workload.tenants or ()
    first_job = {index: job for job, index in zip(result.record.admissions["job"].tolist(),
                 result.record.admissions["request"].tolist(), strict=True)}  # fmt: skip
    last = min(max(job for index, job in first_job.items() if tenants[index] == tenant) for tenant in "ab")
    longest = max(request["prompt_tokens"] for request in requests)
    bound = 2 * max(W_P * longest, W_Q * POOL_TOKENS)
    levels = [service(result, job) for job in range(0, last, 7)]
    gaps = [level["a"] - level["b"] for level in levels]
    assert len(levels) > 20
    assert max(gaps) - min(gaps) <= bound
    # first come, first served, b gets far more: its requests are served one for one, and cost more
    fcfs = service(sim.simulate(sim.load({**document, "scheduler": {"policy": "vllm"}})), last)
    assert abs(fcfs["a"] - fcfs["b"]) > 2 * max(map(abs, gaps))


def test_vtc_gives_twice_the_weight_twice_the_service() -> None:
    """One slot, requests all alike (1 prompt token, 4 of output: 9 each), b counts double: a b b, and so on."""
    requests = [
        {"id": f"{tenant}{i}", "prompt_tokens": 1, "output_tokens": 4, "tenant": tenant}
        for i in range(20)
        for tenant in "ab"
    ]
    result = run(requests, UNIT, order="vtc", weights={"b": 2})
    starts = sorted(zip(result.requests["first_token_ns"].tolist(), result.record.workload.tenants or (), strict=True))
    assert "".join(tenant for _, tenant in starts[:15]) == "abb" * 5


@pytest.mark.parametrize("seed", range(5))
def test_drr_serves_backlogged_tenants_within_a_quantum_and_a_request(seed: int) -> None:
    """Shreedhar & Varghese, theorem 4.1: what two served tenants got differs by less than 3 * max(quantum, longest)."""
    rng = random.Random(seed)
    requests: list[Document] = [
        {"id": f"{tenant}{i}", "prompt_tokens": rng.randint(1, 90 if tenant == "a" else 9), "output_tokens": 1,
         "tenant": tenant} for i in range(80) for tenant in "ab"
    ]  # fmt: skip
    quantum, longest = 50, 91
    result = run(requests, UNIT, order="drr", drr_quantum_tokens=quantum)
    served, gaps = dict.fromkeys("ab", 0), []
    left = dict.fromkeys("ab", 80)
    starts = result.requests["first_token_ns"].tolist()
    for index in sorted(range(len(requests)), key=starts.__getitem__):
        tenant = requests[index]["tenant"]
        served[tenant] += requests[index]["prompt_tokens"] + 1
        left[tenant] -= 1
        if not all(left.values()):
            break
        gaps.append(served["a"] - served["b"])
    assert len(gaps) > 30
    assert max(map(abs, gaps)) <= 3 * max(quantum, longest)


# --- by lot -----------------------------------------------------------------------------------------------------------


def test_random_draws_each_of_those_who_wait_as_often_as_any_other() -> None:
    """Twelve wait; each is the first with probability 1/12: 600 seeds, chi-square with 11 degrees below 31.3 (0.1 %).

    And the second is drawn anew: of the eleven left, whatever the first was.
    """
    requests = [{"id": f"r{i}", "prompt_tokens": 1, "output_tokens": 1} for i in range(12)]
    first, second = [0] * 12, [0] * 12
    for seed in range(600):
        document = {
            "schema": 1, "name": "lot", "workload": {"requests": requests}, "device": UNIT, "run": {"seed": seed},
            "scheduler": {"policy": "vllm", "max_running": 1, "order": "random"},
        }  # fmt: skip
        served = sim.simulate(sim.load(document)).requests["first_token_ns"].argsort()
        first[int(served[0])] += 1
        second[int(served[1])] += 1
    for counts in (first, second):
        assert sum((count - 50) ** 2 / 50 for count in counts) < 31.3
