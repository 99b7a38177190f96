"""Patience and retry: a client whose first token has not come in time leaves, and may come back after a while.

On the device here a prompt of 10 tokens takes 1 ms, a decode 1 ms; ``fcfs`` serves whole prompts, one at a time.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import checked, column, ends, log, request, tokens

import sim
from sim.analysis.verify import verify, verify_document
from sim.errors import ScenarioError
from sim.workload import own_format
from sim.workload.build import build

DEVICE = {"prefill_ms_per_token": 0.1, "decode_ms_per_batch": 1}


def scenario(*requests: dict[str, Any], patience_ms: object, retry: dict[str, Any] | None = None, **tables: Any) -> Any:
    workload: dict[str, Any] = {"requests": list(requests), "patience_ms": patience_ms}
    if retry is not None:
        workload["retry"] = retry
    return sim.load({"schema": 1, "name": "wait", "workload": workload, "device": DEVICE, **tables})


def simulate(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return checked(sim.simulate(scenario(*requests, **more)))


A, B = request("A", 0, 10, 1), request("B", 0, 10, 1)

# --- patience --------------------------------------------------------------------------------------------------------


def test_who_waits_too_long_leaves_with_the_next_decision() -> None:
    """A's job runs until 1. B's patience ends at 0.75: the decision at 1 ends it."""
    run = simulate(A, B, patience_ms=0.75)
    assert ends(run) == {"A": ("finished", None, 1.0), "B": ("cancelled", "waiting", 1.0)}
    assert log(run) == [(0.0, 1.0, "prefill A 10")]


def test_a_token_at_the_very_instant_is_in_time() -> None:
    """B's token comes at 2, and its patience ends at 2; A's at 1."""
    run = simulate(A, request("B", 0, 10, 3), patience_ms=2)
    assert ends(run)["B"] == ("finished", None, 4.0)


def test_a_token_a_nanosecond_later_is_not() -> None:
    """What is computed when it leaves still counts: B's token comes at 2, and the decision there ends it."""
    run = simulate(A, request("B", 0, 10, 3), patience_ms=1.999999)
    assert ends(run)["B"] == ("cancelled", "running", 2.0)
    assert tokens(run)["B"] == [2.0]


def test_who_finishes_with_the_job_in_flight_has_finished() -> None:
    assert ends(simulate(A, B, patience_ms=1.999999))["B"] == ("finished", None, 2.0)


def test_who_decodes_does_not_leave() -> None:
    """Its first token comes at 1; the others may take as long as they do."""
    run = simulate(request("A", 0, 10, 9), patience_ms=1.5)
    assert ends(run) == {"A": ("finished", None, 9.0)}


def test_who_was_preempted_after_its_first_token_does_not_leave() -> None:
    """Blocks of 4: A and B hold two each of four, and one of them has to go when both need a third."""
    a, b = (request(id_, 0, 8, 6) for id_ in "AB")
    run = simulate(a, b, patience_ms=2, kv={"blocks": 4, "block_tokens": 4}, scheduler={"policy": "vllm"})
    assert column(run, "preemptions") == {"A": 0, "B": 1}
    assert set(column(run, "status").values()) == {"finished"}


def test_without_any_patience_nobody_is_served() -> None:
    run = simulate(A, request("B", 3, 10, 1), patience_ms=0)
    assert ends(run) == {"A": ("cancelled", "waiting", 0.0), "B": ("cancelled", "waiting", 3.0)}
    assert log(run) == []


def test_who_gives_up_before_does_so() -> None:
    run = simulate(A, {**B, "cancel_ms": 0.25}, request("C", 0, 10, 1), patience_ms=0.75, run={"horizon_ms": 0.5})
    assert ends(run) == {name: ("unfinished", where, None) for name, where in
                         (("A", "running"), ("B", "waiting"), ("C", "waiting"))}  # fmt: skip
    result = sim.simulate(scenario(A, {**B, "cancel_ms": 0.25}, request("C", 0, 10, 1), patience_ms=0.75))
    assert result.requests["cancel_ns"].tolist() == [750_000, 250_000, 750_000]  # A leaves, and finishes all the same
    assert ends(checked(result))["B"] == ("cancelled", "waiting", 1.0)


def test_who_gives_up_before_it_would_come_never_comes() -> None:
    run = simulate(A, {**request("B", 5, 10, 1), "cancel_ms": 2}, patience_ms=3, retry={"attempts": 2})
    assert ends(run) == {"A": ("finished", None, 1.0), "B": ("cancelled", "not arrived", 2.0)}


@pytest.mark.parametrize("spans", [True, False])
def test_a_span_is_cut_where_somebody_leaves(spans: bool) -> None:
    """A decodes alone, one slot: B leaves at 3.5 and goes at 4, C gets the slot at 9, within its patience."""
    requests = [request("A", 0, 10, 9), request("B", 0.5, 10, 1), request("C", 6, 10, 1)]
    found = sim.simulate(scenario(*requests, patience_ms=4.5, scheduler={"max_running": 1}), spans=spans)
    run = checked(found)
    assert ends(run) == {
        "A": ("finished", None, 9.0),
        "B": ("cancelled", "waiting", 5.0),
        "C": ("finished", None, 10.0),
    }


def test_patience_can_be_drawn_and_is_the_same_for_every_policy() -> None:
    law = {"distribution": "exponential", "mean": 3}
    one, other = (
        build(scenario(A, B, patience_ms=law, scheduler={"policy": policy}))[0].sending for policy in ("fcfs", "vllm")
    )
    assert one is not None
    assert other is not None
    assert (one.patience_ns == other.patience_ns).all()
    assert len(set(one.patience_ns.tolist())) == 2


def test_generated_requests_in_an_open_loop_can_be_impatient() -> None:
    """One comes each ms, and each takes 2: the k-th (from 0) would begin after a wait of k ms."""
    document = {
        "schema": 1,
        "name": "open",
        "workload": {
            "count": 6,
            "arrivals": {"process": "deterministic", "rate_per_s": 1000},
            "prompt_tokens": {"distribution": "fixed", "value": 20},
            "output_tokens": {"distribution": "fixed", "value": 1},
            "patience_ms": 3.5,
        },
        "device": DEVICE,
    }
    # 0: 0-2; 1: 2-4 (3 ms after it came); 2, due at 6, leaves at 5.5 in its job of 4-6: done all the same;
    # 3 leaves at 6.5: in its job 6-8, done; 4 leaves at 7.5, gone at 8; 5, at 5 + 3.5 = 8.5, is in the job 8-10
    run = checked(sim.simulate(sim.load(document)))
    assert ends(run) == {
        "r000001": ("finished", None, 2.0),
        "r000002": ("finished", None, 4.0),
        "r000003": ("finished", None, 6.0),
        "r000004": ("finished", None, 8.0),
        "r000005": ("cancelled", "waiting", 8.0),
        "r000006": ("finished", None, 10.0),
    }


def test_requests_of_a_trace_can_be_impatient(tmp_path: Path) -> None:
    """The trace is not needed to check the result: what its clients did follows from the record."""
    trace = tmp_path / "trace.csv"
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens", *["2023-11-16 18:15:00.0000000,10,1"] * 3]
    trace.write_text("\n".join(rows) + "\n")
    workload = {"trace": {"path": str(trace)}, "patience_ms": 0.75, "retry": {"attempts": 1, "backoff_ms": 0.5}}
    result = sim.simulate(sim.load({"schema": 1, "name": "trace", "workload": workload, "device": DEVICE}))
    result.save(tmp_path / "out")
    result.save(tmp_path / "out.json")
    trace.unlink()
    assert verify(tmp_path / "out").findings == verify(tmp_path / "out.json").findings == []
    # the second and third leave at 0.75, go at 1, come again at 1.5: one of them is served, one leaves at 2.25
    assert ends(checked(result)) == {
        "r000001": ("finished", None, 1.0),
        "r000002": ("cancelled", "waiting", 1.0),
        "r000002~2": ("finished", None, 2.5),
        "r000003": ("cancelled", "waiting", 1.0),
        "r000003~2": ("cancelled", "waiting", 2.5),
    }


# --- retry -----------------------------------------------------------------------------------------------------------


def test_who_left_comes_back_after_a_backoff() -> None:
    """B goes at 1 and comes again at 1 + 0.5."""
    run = simulate(A, B, patience_ms=0.75, retry={"attempts": 3, "backoff_ms": 0.5})
    assert list(column(run, "arrivalMs").items()) == [("A", 0.0), ("B", 0.0), ("B~2", 1.5)]
    assert ends(run) == {
        "A": ("finished", None, 1.0),
        "B": ("cancelled", "waiting", 1.0),
        "B~2": ("finished", None, 2.5),
    }
    assert log(run) == [(0.0, 1.0, "prefill A 10"), (1.5, 2.5, "prefill B~2 10")]


def test_each_backoff_is_longer_up_to_the_longest() -> None:
    """A keeps the one slot until 60. B leaves 1 ms after each arrival; backoffs of 2, 4, 5 and 5 ms, then no more."""
    retry = {"attempts": 4, "backoff_ms": 2, "factor": 2, "max_backoff_ms": 5}
    run = simulate(request("A", 0, 10, 60), B, patience_ms=1, retry=retry, scheduler={"max_running": 1})
    assert list(column(run, "arrivalMs").items())[1:] == [
        ("B", 0.0), ("B~2", 3.0), ("B~3", 8.0), ("B~4", 14.0), ("B~5", 20.0),
    ]  # fmt: skip
    assert [row["endedMs"] for row in run["requests"]] == [60.0, 1.0, 4.0, 9.0, 15.0, 21.0]


def test_attempts_that_nobody_needed_are_not_in_the_record() -> None:
    result = sim.simulate(scenario(A, B, patience_ms=5, retry={"attempts": 3}))
    assert result.record.workload.all_ids() == ["A", "B"]
    assert {len(column) for column in result.requests.values()} == {2}


def test_who_left_and_finished_all_the_same_does_not_come_back() -> None:
    assert list(column(simulate(A, B, patience_ms=1.5, retry={"attempts": 3}), "status")) == ["A", "B"]


def test_who_is_turned_away_does_not_come_back() -> None:
    run = simulate(A, B, patience_ms=1.5, retry={"attempts": 3}, kv={"blocks": 1, "block_tokens": 4})
    assert column(run, "status") == {"A": "rejected", "B": "rejected"}


def test_who_gives_up_for_good_does_not_come_back() -> None:
    """B leaves at 0.75, goes at 1, and would come again at 3, which is not before 3."""
    run = simulate(A, {**B, "cancel_ms": 3}, patience_ms=0.75, retry={"attempts": 3, "backoff_ms": 2})
    assert list(column(run, "arrivalMs")) == ["A", "B"]
    run = simulate(A, {**B, "cancel_ms": 3.000001}, patience_ms=0.75, retry={"attempts": 3, "backoff_ms": 2})
    assert list(column(run, "arrivalMs")) == ["A", "B", "B~2"]


def test_one_that_is_to_come_back_after_the_horizon_has_not_arrived() -> None:
    run = simulate(A, B, patience_ms=0.75, retry={"attempts": 3, "backoff_ms": 2}, run={"horizon_ms": 2.5})
    assert ends(run) == {
        "A": ("finished", None, 1.0),
        "B": ("cancelled", "waiting", 1.0),
        "B~2": ("unfinished", "not arrived", None),
    }
    assert column(run, "arrivalMs")["B~2"] is None


def test_an_attempt_finds_in_the_cache_what_the_one_before_computed() -> None:
    """One slot: B is computed from 1 to 2 and leaves in it at 1.5, with a token too late; its 10 tokens of prompt are
    two full blocks of 4 and a rest. Again behind the decision at 2, it has 2 left to compute."""
    kv = {"blocks": 20, "block_tokens": 4, "prefix_cache": True}
    run = simulate(A, request("B", 0, 10, 3), patience_ms=1.5, retry={"attempts": 1}, kv=kv)
    assert column(run, "cachedTokens") == {"A": 0, "B": 0, "B~2": 8}
    assert (2.000001, 2.200001, "prefill B~2 2") in log(run)


def test_a_child_of_one_that_was_tried_again_shares_with_the_first_attempt() -> None:
    """The rows in between do not shift who is whose parent."""
    child = request("C", 9, 14, 1, parent="B", parent_tokens=10)
    kv = {"blocks": 20, "block_tokens": 4, "prefix_cache": True}
    run = simulate(A, request("B", 0, 10, 3), child, patience_ms=1.5, retry={"attempts": 2}, kv=kv)
    assert list(column(run, "cachedTokens").items()) == [("A", 0), ("B", 0), ("B~2", 8), ("C", 8)]


def test_priorities_tenants_and_deadlines_are_those_of_the_first_attempt() -> None:
    b = {**B, "priority": 5, "tenant": "t", "deadline_ms": 9, "prefix_group": "g", "prefix_tokens": 4}
    result = sim.simulate(scenario(A, b, patience_ms=0.75, retry={"attempts": 1}))
    workload = result.record.workload
    assert workload.tenants == ["", "t", "t"]
    assert workload.prefix_groups == ["", "g", "g"]
    assert workload.priority.tolist() == [0, 5, 5]
    assert workload.deadline_ns.tolist() == [-1, 9_000_000, 9_000_000]


# --- what verify sees ------------------------------------------------------------------------------------------------


def document() -> dict[str, Any]:
    result = sim.simulate(
        scenario(A, B, request("C", 4, 10, 2), patience_ms=0.75, retry={"attempts": 2, "backoff_ms": 0.5})
    )
    whole: dict[str, Any] = json.loads(json.dumps(result.to_dict()), parse_float=Decimal)
    return whole


def found(damaged: dict[str, Any]) -> set[str]:
    return {finding.check for finding in verify_document(damaged).findings}


def test_an_attempt_that_is_missing_is_found_out() -> None:
    damaged = document()
    run = damaged["runs"][0]
    run["requests"] = [row for row in run["requests"] if row["id"] != "B~2"]
    run["events"] = [event for event in run["events"] if event["scheduled"][0]["id"] != "B~2"]
    for number, event in enumerate(run["events"]):
        event["job"] = number
    assert "who left is sent again, nobody else" in found(damaged)


def test_an_attempt_that_came_too_early_is_found_out() -> None:
    damaged = document()
    row = next(row for row in damaged["runs"][0]["requests"] if row["id"] == "B~2")
    row["arrivalMs"] -= Decimal("0.25")
    assert "requests are sent when their clients send them" in found(damaged)


def test_a_request_of_nobody_is_found_out() -> None:
    damaged = document()
    damaged["runs"][0]["requests"].append({**damaged["runs"][0]["requests"][-1], "id": "C~9"})
    assert "requests are those of the scenario" in found(damaged)


# --- bad inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"patience_ms": -0.1}, "workload.patience_ms = -0.1: too small; at least 0"),
        ({"patience_ms": True}, "workload.patience_ms = true: expected a table, got a boolean"),
        ({"retry": {"attempts": 0}}, "workload.retry.attempts = 0: too small; at least 1"),
        ({"retry": {"attempts": 101}}, "workload.retry.attempts = 101: too large; at most 100"),
        ({"retry": {}}, "workload.retry.attempts: missing; for example attempts = 3"),
        ({"retry": {"attempts": 1, "factor": 0.5}}, "workload.retry.factor = 0.5: too small; at least 1"),
        ({"retry": {"attempts": 1, "backoff_ms": -1}}, "workload.retry.backoff_ms = -1: too small; at least 0"),
        ({"retry": {"attempts": 1, "backof_ms": 1}}, "did you mean 'backoff_ms'?"),
    ],
)
def test_bad_values_are_refused(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(A, **{"patience_ms": 1, **keys})
    assert complaint in str(refused.value)


def test_an_id_that_a_second_attempt_would_have_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r'requests\[1\].id = "A~2": ends like that of a second attempt'):
        scenario(A, request("A~2", 0, 1, 1), patience_ms=1, retry={"attempts": 1})


def test_too_many_attempts_are_refused() -> None:
    workload = {
        "count": 1_000_000,
        "arrivals": {"process": "deterministic", "rate_per_s": 1},
        "prompt_tokens": {"distribution": "fixed", "value": 1},
        "output_tokens": {"distribution": "fixed", "value": 1},
        "patience_ms": 1,
        "retry": {"attempts": 10},
    }
    with pytest.raises(ScenarioError, match=r"retry\.attempts = 10: too large for 1000000 requests; at most 9"):
        build(sim.load({"schema": 1, "name": "many", "workload": workload}))


def test_backoffs_of_a_great_factor_stay_within_the_clock() -> None:
    retry = {"attempts": 100, "backoff_ms": 1, "factor": 1000000}
    workload, _ = build(scenario(A, patience_ms=1, retry=retry))
    assert workload.sending is not None
    assert workload.sending.pause_ns[1:4].tolist() == [10**6, 10**12, 10**15]
    assert int(np.max(workload.sending.pause_ns)) == 10**15


def test_who_is_set_off_by_a_decision_comes_behind_it_in_a_saved_workload_as_well(tmp_path: Path) -> None:
    """A runs from 0 to 8.5 ms beside B, who leaves at 5; the decision at 8.5 ends B, and B~2 comes after it.

    A nanosecond after, so that whoever sees only the times, as a replay does, decides the same at 8.5.
    """
    document: dict[str, Any] = {
        "schema": 1,
        "name": "behind",
        "workload": {
            "requests": [
                {"id": "A", "prompt_tokens": 4, "output_tokens": 2},
                {"id": "B", "prompt_tokens": 4, "output_tokens": 3},
            ],
            "patience_ms": 5,
            "retry": {"attempts": 1},
        },
    }
    first = sim.simulate(sim.load(document))
    assert first.requests["arrival_ns"][-1] == 8_500_001
    saved = tmp_path / "w.jsonl"
    saved.write_text("".join(own_format.lines_of(first.record.workload)))
    again = sim.simulate(sim.load({**document, "workload": {"trace": {"path": str(saved)}}}))
    for name in ("ended_ns", "first_token_ns", "status"):
        assert again.requests[name].tolist() == first.requests[name].tolist()


def test_a_deadline_is_that_of_the_first_attempt_however_the_requests_were_made(tmp_path: Path) -> None:
    """Two come at 0, the second leaves at 10 and comes back when the first is done: its deadline is still 30."""
    document: dict[str, Any] = {
        "schema": 1,
        "name": "deadline",
        "workload": {
            "count": 2,
            "arrivals": {"process": "batch", "size": 2, "period_ms": 20},
            "prompt_tokens": {"distribution": "fixed", "value": 10},
            "output_tokens": {"distribution": "fixed", "value": 1},
            "deadline_after_ms": 30,
            "patience_ms": 10,
            "retry": {"attempts": 1},
        },
    }
    result = sim.simulate(sim.load(document))
    assert (result.record.workload.deadline_ns - result.record.workload.arrival_ns[0]).tolist() == [30_000_000] * 3
    result.save(tmp_path / "x.json")
    assert verify(tmp_path / "x.json").ok
