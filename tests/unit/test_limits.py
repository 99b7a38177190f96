"""Limits end a run with an error of exit code 3: so many jobs, so many seconds, the range of the clock."""

import tracemalloc

import pytest
from tiny import log, request, scenario, simulate

import sim
from sim.errors import LimitError

BILLION = 10**9


def test_as_many_jobs_as_the_limit_are_no_error() -> None:
    assert len(log(simulate([request("A", 0, 2, 5)], run={"max_jobs": 5}))) == 5


def test_one_more_is_and_the_message_says_how_far_it_came() -> None:
    """The prompt takes 2.25 ms, three decodes take 1.25 ms each."""
    with pytest.raises(LimitError) as stopped:
        sim.simulate(scenario([request("A", 0, 2, 5)], run={"max_jobs": 4}))
    assert str(stopped.value) == "stopped after 4 jobs (run.max_jobs): 4 jobs, 6.0 ms of simulated time"
    assert stopped.value.exit_code == 3


def test_what_there_was_by_then_comes_with_it_marked_as_incomplete() -> None:
    """Prefill and three decodes; B has not come yet."""
    requests = [request("A", 0, 2, 50), request("B", 9, 1, 1)]
    parts = []
    for spans in (True, False):
        with pytest.raises(LimitError) as stopped:
            sim.simulate(scenario(requests, run={"max_jobs": 4}), spans=spans)
        parts.append(stopped.value.result)
    for part in parts:
        assert part.incomplete == "stopped after 4 jobs (run.max_jobs): 4 jobs, 6.0 ms of simulated time"
        assert part.jobs["end_ns"].tolist() == [2_250_000, 3_500_000, 4_750_000, 6_000_000]
        assert part.requests["emitted_tokens"].tolist() == [4, 0]
        assert [part.record.reasons[index] for index in (0, 1)] == ["running", "not arrived"]
    both = [part.to_dict()["runs"][0] for part in parts]
    assert both[0] | {"work": {}} == both[1] | {"work": {}}


def test_a_whole_result_is_not_marked() -> None:
    result = sim.simulate(scenario([request("A", 0, 2, 5)], run={"max_jobs": 5}))
    assert result.incomplete is None
    assert "incomplete" not in result.to_dict()["runs"][0]


def test_what_the_horizon_cuts_off_is_not_counted() -> None:
    assert len(log(simulate([request("A", 0, 2, 5)], run={"max_jobs": 1, "horizon_ms": 3}))) == 1


def test_seconds_of_computing_are_limited() -> None:
    with pytest.raises(LimitError, match=r"^stopped after 0\.000001 s \(run\.max_seconds\): \d+ jobs, [\d.]+ ms"):
        sim.simulate(scenario([request("A", 0, 2, BILLION)], run={"max_seconds": 0.000001}))


def test_a_run_well_within_its_seconds_is_not_stopped() -> None:
    assert len(log(simulate([request("A", 0, 2, 600)], run={"max_seconds": 600}))) == 600


@pytest.mark.parametrize(
    ("device", "tokens"),
    [
        ({"prefill_ms_per_token": BILLION}, 2**31 - 1),  # one job alone leaves the range of the clock
        ({"job_ms": BILLION}, 1),  # many jobs do: 10^15 ns each, 4,611 of them
    ],
)
def test_the_clock_has_a_range(device: dict[str, int], tokens: int) -> None:
    with pytest.raises(LimitError, match=r"^job \d+ would end at \d+ ns, beyond the range of the clock \(\d+\)$"):
        sim.simulate(scenario([request("A", 0, tokens, 10_000)], device=device))


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "static"])
def test_a_billion_tokens_cost_nothing_to_load_and_a_limit_ends_them(policy: str) -> None:
    tracemalloc.start()
    try:
        loaded = scenario([request(id_, 0, BILLION, BILLION) for id_ in "AB"], policy, run={"max_jobs": 300})
        with pytest.raises(LimitError, match="stopped after 300 jobs"):
            sim.simulate(loaded)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # a list of so many bytes would take a thousand of these
    finally:
        tracemalloc.stop()


def test_a_billion_prompt_tokens_are_one_job() -> None:
    """A million seconds (and a quarter of a millisecond)."""
    run = simulate([request("A", 0, BILLION, 1)])
    assert log(run) == [(0.0, 1_000_000_000.25, "prefill A 1000000000")]
