"""A client gives up (``cancel_ms``): the first decision at or after that time ends the request; what was done stays.

On the lesson's device (see ``tiny``) A's prompt of 2 tokens takes 2.25 ms, each decode batch 1.25 ms: its tokens leave
at 2.25, 3.50, 4.75, ...
"""

import pytest
from tiny import column, ends, log, queues, request, simulate, tokens

GIVEN_UP = [
    # cancel_ms, status, reason, ended, tokens that left
    (0.0, "cancelled", "waiting", 0.0, []),  # at its arrival: it came, and goes before anything is decided
    (1.0, "cancelled", "running", 2.25, [2.25]),  # within the prefill, which counts
    (2.25, "cancelled", "running", 2.25, [2.25]),  # at the end of the prefill: its token is out
    (2.250001, "cancelled", "running", 3.5, [2.25, 3.5]),  # a nanosecond later the next job runs, and counts
    (3.0, "cancelled", "running", 3.5, [2.25, 3.5]),  # within the first decode
    (3.5, "cancelled", "running", 3.5, [2.25, 3.5]),  # at its end
    (4.0, "finished", None, 4.75, [2.25, 3.5, 4.75]),  # within the last job: it finishes, so it has finished
    (4.75, "finished", None, 4.75, [2.25, 3.5, 4.75]),  # at the instant at which it finishes
    (9.0, "finished", None, 4.75, [2.25, 3.5, 4.75]),  # long after
]


@pytest.mark.parametrize("policy", ["fcfs", "chunked", "static"])
@pytest.mark.parametrize("case", GIVEN_UP, ids=str)
def test_when_a_request_is_given_up(policy: str, case: tuple[float, str, str | None, float, list[float]]) -> None:
    cancel_ms, status, reason, ended_ms, left = case
    run = simulate([request("A", 0, 2, 3, cancel_ms=cancel_ms)], policy)
    assert ends(run) == {"A": (status, reason, ended_ms)}
    assert tokens(run) == {"A": left}


def test_a_cancelled_request_keeps_what_it_had_and_has_no_finish() -> None:
    row = simulate([request("A", 0, 2, 3, cancel_ms=3)])["requests"][0]
    assert {key: row[key] for key in ("firstScheduledMs", "firstTokenMs", "ttftMs", "maxItlMs", "emittedTokens")} == {
        "firstScheduledMs": 0.0,
        "firstTokenMs": 2.25,
        "ttftMs": 2.25,
        "maxItlMs": 1.25,
        "emittedTokens": 2,
    }
    assert (row["finishMs"], row["e2eMs"], row["finishReason"]) == (None, None, None)


def test_it_leaves_the_queue_and_the_next_one_goes() -> None:
    run = simulate([request("A", 0, 2, 1), request("B", 1, 8, 1, cancel_ms=2.25), request("C", 2, 1, 1)])
    assert log(run) == [(0.0, 2.25, "prefill A 2"), (2.25, 3.5, "prefill C 1")]
    assert ends(run)["B"] == ("cancelled", "waiting", 2.25)


def test_one_in_the_middle_of_the_queue_leaves_it_too() -> None:
    run = simulate([request("A", 0, 4, 1), request("B", 1, 2, 1), request("C", 2, 2, 1, cancel_ms=3),
                    request("D", 3, 2, 1)])  # fmt: skip
    assert log(run) == [(0.0, 4.25, "prefill A 4"), (4.25, 6.5, "prefill B 2"), (6.5, 8.75, "prefill D 2")]
    assert queues(run) == ["| A", "D | B", "| D"]


def test_its_place_is_free_for_the_next_one_at_once() -> None:
    """One place. A is given up within the decode that ends at 3.5; B, waiting since 1, is let in by that decision."""
    run = simulate([request("A", 0, 2, 9, cancel_ms=3), request("B", 1, 2, 1)], max_running=1)
    assert log(run) == [(0.0, 2.25, "prefill A 2"), (2.25, 3.5, "decode A"), (3.5, 5.75, "prefill B 2")]


def test_a_half_computed_prompt_is_given_up_and_the_next_prompt_begins() -> None:
    """Chunks of 2. L has 2 of its 6 tokens when it is given up; S, behind it, gets the next chunk."""
    run = simulate([request("L", 0, 6, 1, cancel_ms=1), request("S", 1, 2, 1)], "chunked")
    assert log(run) == [(0.0, 2.25, "prefill L 2"), (2.25, 4.5, "prefill S 2")]
    assert column(run, "emittedTokens") == {"L": 0, "S": 1}


def test_a_batch_goes_on_without_the_member_that_is_given_up() -> None:
    """Static: A and B are one batch. B is given up while A's prompt runs, and is never computed; C waits on."""
    requests = [request("A", 0, 2, 2), request("B", 0, 2, 9, cancel_ms=1), request("C", 1, 2, 1)]
    run = simulate(requests, "static", max_running=2)
    assert log(run) == [(0.0, 2.25, "prefill A 2"), (2.25, 3.5, "decode A"), (3.5, 5.75, "prefill C 2")]
    assert ends(run)["B"] == ("cancelled", "running", 2.25)


def test_a_batch_of_which_all_are_given_up_makes_room_for_the_next() -> None:
    requests = [request("A", 0, 2, 9, cancel_ms=1), request("B", 0, 2, 9, cancel_ms=1), request("C", 1, 2, 1)]
    run = simulate(requests, "static", max_running=2)
    assert log(run) == [(0.0, 2.25, "prefill A 2"), (2.25, 4.5, "prefill C 2")]


# --- before it would arrive ------------------------------------------------------------------------------------------


def test_a_request_given_up_before_it_arrives_is_never_queued() -> None:
    run = simulate([request("A", 0, 2, 3), request("B", 3, 2, 3, cancel_ms=1)])
    assert queues(run) == ["| A", "| A", "| A"]
    assert ends(run) == {"A": ("finished", None, 4.75), "B": ("cancelled", "not arrived", 2.25)}  # A's prompt runs at 1


def test_a_sleeping_device_decides_at_once_that_it_is_over() -> None:
    run = simulate([request("A", 5, 2, 3, cancel_ms=1)])
    assert ends(run) == {"A": ("cancelled", "not arrived", 1.0)}
    assert log(run) == []
    assert run["summary"]["makespanMs"] is None


def test_when_all_are_given_up_nothing_runs_and_nothing_is_null_that_should_be_a_count() -> None:
    run = simulate([request("A", 0, 2, 3, cancel_ms=0), request("B", 5, 2, 3, cancel_ms=2)])
    summary = run["summary"]
    assert summary["jobs"] == 0
    assert summary["ttft"] == {"n": 0, "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "max": None}


def test_many_at_one_instant_end_in_the_order_in_which_they_were_given_up() -> None:
    requests = [request(id_, 0, 4, 1, cancel_ms=1) for id_ in "CAB"]
    run = simulate(requests, max_running=1)
    assert log(run) == [(0.0, 4.25, "prefill C 4")]
    assert ends(run) == {
        "C": ("finished", None, 4.25),
        "A": ("cancelled", "waiting", 4.25),
        "B": ("cancelled", "waiting", 4.25),
    }
