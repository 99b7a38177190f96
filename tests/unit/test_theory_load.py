"""λ, λ* and the load: by hand, and against servers to which more comes than they can serve."""

from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis import overload
from sim.analysis.theory.laws import Table
from sim.analysis.theory.load import Load, arrival_rate, of_laws, of_requests, of_result
from sim.policies.presets import resolve
from sim.simulation import settings

DEVICE = {"job_ms": 2, "prefill_ms_per_token": 0.1, "decode_ms_per_batch": 1, "decode_ms_per_request": 0.5}


def scenario(
    scheduler: dict[str, Any],
    *,
    device: dict[str, Any] = DEVICE,
    lengths: tuple[int, int] = (30, 11),
    rate: float = 1000,
    count: int = 600,
) -> sim.Scenario:
    workload = {
        "count": count,
        "arrivals": {"process": "deterministic", "rate_per_s": rate},
        "prompt_tokens": {"distribution": "fixed", "value": lengths[0]},
        "output_tokens": {"distribution": "fixed", "value": lengths[1]},
    }
    document = {"schema": 1, "name": "load", "workload": workload, "device": device, "scheduler": scheduler}
    return sim.load(document)


def saturation(made: sim.Scenario, prompt: int = 30, output: int = 11) -> float:
    """λ* of fixed lengths, by their laws."""
    one = np.ones(1)
    tables = Table(np.array([prompt]), one), Table(np.array([output]), one)
    found = of_laws(settings(made, resolve(made)), [(1.0, *tables)]).saturation_rate
    assert found is not None
    return found


def test_the_rate_of_arrivals_is_that_of_the_gaps() -> None:
    """Three gaps in 1.5 s."""
    assert arrival_rate(np.array([0, 10**9, 10**9, 3 * 10**9 // 2])) == 2
    assert arrival_rate(np.array([7, 7])) is None
    assert arrival_rate(np.array([7])) is None
    assert arrival_rate(np.zeros(0, dtype=np.int64)) is None


@pytest.mark.parametrize(
    ("scheduler", "ms"),
    [
        # 3 ms of prompt and 10 decodes of 0.5: no batch makes them less; jobs cost nothing in a batch without limit
        ({"policy": "vllm", "max_running": 10**6, "token_budget": 10**6}, 8 + 2 * 40 / 10**6 + 10 / 10**6),
        # one slot: 11 jobs of 2 ms, 10 of them with 1 ms more
        ({"policy": "vllm", "max_running": 1, "token_budget": 10**6}, 8 + 11 * 2 + 10 * 1),
        # 5 at a time: a fifth of these
        ({"policy": "vllm", "max_running": 5, "token_budget": 10**6}, 8 + (11 * 2 + 10 * 1) / 5),
        # 40 tokens in jobs of 20 are two of them, of which at least 10/256 decode
        ({"policy": "vllm", "max_running": 256, "token_budget": 20}, 8 + 2 * 2 + 10 / 256),
        # each prompt in a job of its own, decodes in a batch without limit
        ({"policy": "fcfs"}, 8 + 2),
        # ... and with four slots a quarter of the ten decode jobs
        ({"policy": "fcfs", "max_running": 4}, 8 + 2 + 10 / 4 * (2 + 1)),
        # three prompts in a job
        ({"policy": "fcfs", "prefills_per_job": 3}, 8 + 2 / 3),
        # three chunks, and a decode batch after each
        ({"policy": "chunked", "chunk_tokens": 10}, 8 + 3 * 2 + 3 * 3),
        # one chunk after each of its ten decodes would do for three requests, were there more chunks
        ({"policy": "chunked", "chunk_tokens": 1}, 8 + 30 * 2 + 10 * 3),
        # batches of 8: a prompt job each, ten decode jobs for all eight
        ({"policy": "static"}, 8 + 2 + 10 / 8 * 3),
    ],
)
def test_what_a_request_costs_at_saturation(scheduler: dict[str, Any], ms: float) -> None:
    made = scenario(scheduler)
    assert saturation(made) == pytest.approx(1000 / ms)
    requests = sim.simulate(scenario(scheduler, count=16)).requests
    assert of_requests(settings(made, resolve(made)), requests).saturation_rate == pytest.approx(1000 / ms)


def test_context_is_read_at_every_decode() -> None:
    """3 prompt tokens and 3 outputs: 4 and 5 tokens are read. 0.1 ms each, and 3 jobs of 1 ms with one slot."""
    made = scenario({"max_running": 1}, device={"job_ms": 1, "context_ms_per_token": 0.1}, lengths=(3, 3))
    assert saturation(made, 3, 3) == pytest.approx(1000 / 3.9)


@pytest.mark.parametrize(
    ("scheduler", "accuracy"),
    [
        ({"policy": "vllm", "max_running": 5, "token_budget": 10**6}, 0.02),  # in nearly every job somebody decodes
        ({"policy": "vllm", "max_running": 16, "token_budget": 10**6}, 0.01),
        ({"policy": "fcfs", "max_running": 1}, 0.001),
        ({"policy": "fcfs"}, 0.02),
        ({"policy": "chunked", "chunk_tokens": 10}, 0.02),
        ({"policy": "chunked", "chunk_tokens": 30}, 0.02),
        ({"policy": "static"}, 0.01),
    ],
)
def test_a_server_in_overload_is_as_fast_as_that(scheduler: dict[str, Any], accuracy: float) -> None:
    """600 requests that all come within 0.6 s: the whole takes as long as their work."""
    made = scenario(scheduler)
    result = sim.simulate(made)
    makespan = int(result.requests["finish_ns"].max()) / 10**9
    assert 600 / makespan == pytest.approx(saturation(made), rel=accuracy)


def test_the_busy_share_is_not_the_load() -> None:
    """At a fifth of saturation a batch without limit is nearly always busy, and far from saturated."""
    made = scenario({"policy": "vllm"}, device={"job_ms": 10, "decode_ms_per_request": 0.2}, rate=100)
    result = sim.simulate(made)
    jobs = result.jobs
    busy = (jobs["end_ns"] - jobs["start_ns"]).sum() / (jobs["end_ns"].max() - jobs["start_ns"].min())
    assert busy > 0.99
    load = of_result(result).load
    assert load is not None
    assert load < 0.7


def test_where_no_rate_is_there_is_no_load() -> None:
    assert Load(None, 3.0).load is None
    assert Load(3.0, None).load is None
    assert not Load(3.0, None).saturated
    assert Load(3.0, 3.0).saturated


def test_requests_that_are_turned_away_are_no_load() -> None:
    requests = [{"arrival_ms": 10 * k, "prompt_tokens": 1 if k % 2 else 100, "output_tokens": 1} for k in range(5)]
    document = {"schema": 1, "name": "some", "workload": {"requests": requests}, "scheduler": {"max_model_tokens": 50}}
    load = of_result(sim.simulate(sim.load(document)))
    assert load.arrival_rate == pytest.approx(50)  # at 10 and at 30 ms
    assert load.saturation_rate == pytest.approx(1000 / 1.25)


def test_who_reads_the_figures_of_an_overloaded_server_is_warned() -> None:
    slow = sim.simulate(scenario({"policy": "fcfs"}, rate=1000, count=50))
    assert list(overload.warnings([slow])) == [
        "fcfs: load 10: 1000 requests/s come, λ* = 100/s can be served; the queue grows as long as this goes on"
    ]
    assert list(overload.warnings([sim.simulate(scenario({"policy": "fcfs"}, rate=50, count=50))])) == []
    assert list(overload.warnings([sim.simulate(sim.load("mixed"))])) == []  # a burst of three, and meant as one
