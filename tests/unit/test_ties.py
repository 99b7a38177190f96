"""At one instant: the end of a job, then arrivals in the order of the file, then the decision, which sees it all.

On the lesson's device (see ``tiny``) a prompt of 2 tokens takes 2.25 ms, one of 1 token and a decode batch 1.25 ms.
"""

import pytest
from tiny import column, log, queues, request, simulate


def test_an_arrival_at_the_end_of_a_job_is_seen_by_the_next_decision() -> None:
    run = simulate([request("A", 0, 2, 2), request("B", 2.25, 1, 1)])
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "prefill B 1"),
        (3.5, 4.75, "decode A"),
    ]
    assert column(run, "queueMs") == {"A": 0.0, "B": 0.0}


def test_an_arrival_a_nanosecond_later_is_not() -> None:
    run = simulate([request("A", 0, 2, 2), request("B", 2.250001, 1, 1)])
    assert log(run) == [
        (0.0, 2.25, "prefill A 2"),
        (2.25, 3.5, "decode A"),
        (3.5, 4.75, "prefill B 1"),
    ]


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "static"])
def test_an_arrival_at_the_very_end_of_all_work_starts_at_once(policy: str) -> None:
    run = simulate([request("A", 0, 2, 1), request("B", 2.25, 2, 1)], policy)
    assert log(run) == [(0.0, 2.25, "prefill A 2"), (2.25, 4.5, "prefill B 2")]


def test_arrivals_of_one_instant_are_all_seen_by_its_decision() -> None:
    run = simulate([request("B", 1, 1, 1), request("A", 1, 1, 1)])
    assert log(run) == [(1.0, 2.25, "prefill B 1"), (2.25, 3.5, "prefill A 1")]
    assert queues(run) == ["A | B", "| A"]


def test_at_the_end_of_a_job_too_they_are_served_in_the_order_of_the_file() -> None:
    run = simulate([request("A", 0, 2, 1), request("Z", 2.25, 1, 1), request("B", 2.25, 1, 1)])
    assert [what for _, _, what in log(run)] == ["prefill A 2", "prefill Z 1", "prefill B 1"]


def test_who_comes_first_goes_first_wherever_in_the_file_it_stands() -> None:
    run = simulate([request("C", 3, 1, 1), request("B", 2, 1, 1), request("A", 0, 4, 1)])
    assert log(run) == [
        (0.0, 4.25, "prefill A 4"),
        (4.25, 5.5, "prefill B 1"),
        (5.5, 6.75, "prefill C 1"),
    ]
    assert queues(run) == ["| A", "C | B", "| C"]


def test_the_device_sleeps_while_there_is_nothing_to_do() -> None:
    run = simulate([request("A", 0, 2, 1), request("B", 10, 2, 1), request("C", 1000, 2, 1)])
    assert [(start, end) for start, end, _ in log(run)] == [(0.0, 2.25), (10.0, 12.25), (1000.0, 1002.25)]


# --- jobs that take no time: progress is counted in tokens, not in time ----------------------------------------------

FREE_DECODES = {"prefill_ms_per_token": 0.1}


def test_decodes_that_take_no_time_all_leave_at_one_instant() -> None:
    run = simulate([request("A", 0, 10, 5), request("B", 0, 10, 3)], device=FREE_DECODES)
    assert log(run) == [
        (0.0, 1.0, "prefill A 10"),
        (1.0, 2.0, "prefill B 10"),
        (2.0, 2.0, "decode A B"),
        (2.0, 2.0, "decode A B"),
        (2.0, 2.0, "decode A"),
        (2.0, 2.0, "decode A"),
    ]
    assert column(run, "tokenTimesMs") == {"A": [1.0, 2.0, 2.0, 2.0, 2.0], "B": [2.0, 2.0, 2.0]}
    assert column(run, "maxItlMs") == {"A": 1.0, "B": 0.0}


def test_both_prompts_in_one_job_that_takes_no_time_to_submit() -> None:
    """Two prompts of 10 in one job: 2 ms, and then five instants of work, all at 2 ms."""
    run = simulate([request("A", 0, 10, 5), request("B", 0, 10, 3)], device=FREE_DECODES, prefills_per_job=2)
    assert log(run) == [
        (0.0, 2.0, "prefill A 10 B 10"),
        (2.0, 2.0, "decode A B"),
        (2.0, 2.0, "decode A B"),
        (2.0, 2.0, "decode A"),
        (2.0, 2.0, "decode A"),
    ]


def test_an_arrival_while_time_stands_still_is_seen_by_the_next_job() -> None:
    """B comes at 1.0, at which A's prompt ends; prefill goes first, so no free decode happens before it."""
    run = simulate([request("A", 0, 10, 3), request("B", 1, 10, 1)], device=FREE_DECODES)
    assert [what for _, _, what in log(run)] == ["prefill A 10", "prefill B 10", "decode A", "decode A"]


def test_prompts_that_take_no_time() -> None:
    run = simulate([request("A", 0, 1000, 2), request("B", 0, 7, 1)], device={"decode_ms_per_batch": 1})
    assert log(run) == [(0.0, 0.0, "prefill A 1000"), (0.0, 0.0, "prefill B 7"), (0.0, 1.0, "decode A")]
    assert column(run, "ttftMs") == {"A": 0.0, "B": 0.0}
