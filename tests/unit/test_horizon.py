"""A horizon (``run.horizon_ms``): jobs that end by then count, at that very instant too; the rest is unfinished."""

from typing import Any

import pytest
from tiny import column, ends, log, request, simulate

TENTH = {"prefill_ms_per_token": 0.1}
"""A prompt of 10 tokens takes 1 ms; nothing else takes time."""

ABC = [request("A", 0, 10, 1), request("B", 0.5, 10, 1), request("C", 10, 10, 1)]

RUNNING, WAITING, NOT_ARRIVED = (("unfinished", reason, None) for reason in ("running", "waiting", "not arrived"))


def cut(horizon_ms: float, **settings: Any) -> dict[str, Any]:
    return simulate(ABC, device=TENTH, run={"horizon_ms": horizon_ms}, **settings)


def test_within_a_job_what_is_under_way_is_running() -> None:
    run = cut(1.5)
    assert log(run) == [(0.0, 1.0, "prefill A 10")]
    assert ends(run) == {"A": ("finished", None, 1.0), "B": RUNNING, "C": NOT_ARRIVED}


def test_the_distributions_are_those_of_the_finished_and_all_are_counted() -> None:
    summary = cut(1.5)["summary"]
    assert {key: summary[key] for key in ("finished", "rejected", "cancelled", "unfinished", "jobs")} == {
        "finished": 1,
        "rejected": 0,
        "cancelled": 0,
        "unfinished": 2,
        "jobs": 1,
    }
    assert (summary["ttft"]["n"], summary["makespanMs"]) == (1, 1.0)


def test_a_job_that_ends_at_the_horizon_counts() -> None:
    assert log(cut(1)) == [(0.0, 1.0, "prefill A 10")]
    assert ends(cut(1)) == {"A": ("finished", None, 1.0), "B": RUNNING, "C": NOT_ARRIVED}


def test_one_that_would_end_a_nanosecond_later_does_not() -> None:
    run = cut(0.999999)
    assert log(run) == []
    assert ends(run) == {"A": RUNNING, "B": WAITING, "C": NOT_ARRIVED}


def test_before_the_first_arrival_nothing_has_arrived() -> None:
    run = simulate([request("A", 5, 10, 1)], run={"horizon_ms": 1})
    assert ends(run) == {"A": NOT_ARRIVED}
    assert (log(run), run["summary"]["makespanMs"]) == ([], None)


def test_who_arrives_at_the_horizon_has_arrived() -> None:
    assert ends(cut(0.5))["B"] == WAITING
    assert ends(cut(0.499999))["B"] == NOT_ARRIVED


def test_after_everything_it_changes_nothing_but_the_settings() -> None:
    with_it, without = cut(99), simulate(ABC, device=TENTH)
    assert {key: with_it[key] for key in ("requests", "events", "summary")} == {
        key: without[key] for key in ("requests", "events", "summary")
    }


def test_the_very_last_end_is_not_cut_off() -> None:
    """C's prompt ends at 11."""
    assert ends(cut(11))["C"] == ("finished", None, 11.0)
    assert ends(cut(10.999999))["C"] == RUNNING


def test_jobs_without_a_duration_at_the_horizon_all_count() -> None:
    """At 1 ms A's prompt ends and its four decodes take no time: all of them end by 1 ms."""
    run = simulate([request("A", 0, 10, 5)], device=TENTH, run={"horizon_ms": 1})
    assert ends(run) == {"A": ("finished", None, 1.0)}
    assert len(log(run)) == 5


def test_a_half_computed_prompt_keeps_what_was_computed() -> None:
    """Chunks of 2, of 2.25 ms each: one of three ends by 4 ms."""
    run = simulate([request("A", 0, 6, 1)], "chunked", run={"horizon_ms": 4})
    assert log(run) == [(0.0, 2.25, "prefill A 2")]
    assert ends(run) == {"A": RUNNING}
    assert run["summary"]["scheduledTokens"] == 2


def test_tokens_that_left_stay_and_there_is_no_finish() -> None:
    run = simulate([request("A", 0, 2, 9)], run={"horizon_ms": 4})
    assert column(run, "tokenTimesMs") == {"A": [2.25, 3.5]}
    assert column(run, "ttftMs") == {"A": 2.25}
    assert column(run, "e2eMs") == {"A": None}


def test_members_of_a_static_batch_run_from_its_beginning() -> None:
    run = simulate([request("A", 0, 4, 1), request("B", 0, 4, 1), request("C", 1, 4, 1)], "static", max_running=2,
                   run={"horizon_ms": 2})  # fmt: skip
    assert ends(run) == {"A": RUNNING, "B": RUNNING, "C": WAITING}


@pytest.mark.parametrize(
    ("cancel_ms", "end"),
    [
        (1.0, ("cancelled", "waiting", 1.0)),  # at the horizon: the decision of that instant comes before it
        (0.7, ("cancelled", "waiting", 1.0)),  # within the job that ends there
        (1.000001, RUNNING),  # later: by then it is let in, and nobody gives it up in time
    ],
)
def test_giving_up_at_the_horizon(cancel_ms: float, end: tuple[str, str, float | None]) -> None:
    requests = [ABC[0], {**ABC[1], "cancel_ms": cancel_ms}]
    assert ends(simulate(requests, device=TENTH, run={"horizon_ms": 1}))["B"] == end


def test_giving_up_within_the_job_that_is_cut_off_was_never_decided() -> None:
    """A is given up at 0.5, which the decision at 1.0 would see; the horizon comes first."""
    run = simulate([request("A", 0, 10, 2, cancel_ms=0.5)], device=TENTH, run={"horizon_ms": 0.9})
    assert ends(run) == {"A": RUNNING}


def test_giving_up_before_the_horizon_but_arriving_after_it() -> None:
    run = simulate([ABC[0], request("Z", 50, 1, 1, cancel_ms=0.2)], device=TENTH, run={"horizon_ms": 1})
    assert ends(run)["Z"] == ("cancelled", "not arrived", 1.0)
