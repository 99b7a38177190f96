"""Users in a closed loop: each thinks, sends a request, waits for its end, and thinks again.

On the device here a prompt of 10 tokens takes 1 ms and nothing else takes time; ``fcfs`` serves one prompt at a time.
"""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tiny import checked, column, ends, log

import sim
from sim import experiment
from sim.analysis.closed_loop import measure
from sim.analysis.verify import verify, verify_document
from sim.errors import ScenarioError
from sim.record.result import Result
from sim.request import NEVER
from sim.workload.build import build
from sim.workload.streams import stream

TENTH = {"prefill_ms_per_token": 0.1}


def loop(users: int, count: int, think_ms: object, **more: Any) -> sim.Scenario:
    """Requests of 10 tokens in and 1 out, unless ``more`` of the workload says otherwise."""
    tables: dict[str, Any] = {name: more.pop(name) for name in ("run", "kv", "scheduler", "device") if name in more}
    document: dict[str, Any] = {
        "schema": 1,
        "name": "loop",
        "workload": {
            "count": count,
            "prompt_tokens": {"distribution": "fixed", "value": 10},
            "output_tokens": {"distribution": "fixed", "value": 1},
            "clients": {"users": users, "think_ms": think_ms},
            **more,
        },
        "device": TENTH,
        **tables,
    }
    return sim.load(document)


def simulate(*args: Any, **more: Any) -> dict[str, Any]:
    return checked(sim.simulate(loop(*args, **more)))


def arrivals(run: dict[str, Any]) -> list[float | None]:
    return list(column(run, "arrivalMs").values())


# --- when a user sends -----------------------------------------------------------------------------------------------


def test_one_user_who_does_not_think_sends_at_the_end_of_the_request_before() -> None:
    assert arrivals(simulate(1, 3, 0)) == [0.0, 1.0, 2.0]


def test_each_user_thinks_first() -> None:
    assert arrivals(simulate(1, 3, 0.5)) == [0.5, 2.0, 3.5]


def test_users_take_turns_in_the_file_and_wait_for_their_own_requests_only() -> None:
    """Both send at 1; user 0 is served until 2, thinks until 3; user 1 is served until 3, thinks until 4."""
    run = simulate(2, 4, 1)
    assert log(run) == [
        (1.0, 2.0, "prefill r000001 10"),
        (2.0, 3.0, "prefill r000002 10"),
        (3.0, 4.0, "prefill r000003 10"),
        (4.0, 5.0, "prefill r000004 10"),
    ]
    assert arrivals(run) == [1.0, 1.0, 3.0, 4.0]


def test_who_does_not_think_is_seen_by_the_decision_of_the_instant_at_which_the_request_before_ended() -> None:
    """Two prompts of 10 go into a job of 2 ms; at its end both users send, and both are in the next job."""
    scheduler = {"policy": "vllm"}
    assert log(simulate(2, 4, 0, scheduler=scheduler)) == [
        (0.0, 2.0, "prefill r000001 10 r000002 10"),
        (2.0, 4.0, "prefill r000003 10 r000004 10"),
    ]


def test_users_who_have_nothing_to_send_do_nothing() -> None:
    assert arrivals(simulate(5, 2, 1)) == [1.0, 1.0]


def test_a_rejected_request_sets_its_user_free_at_once() -> None:
    run = simulate(1, 3, 2, kv={"blocks": 1, "block_tokens": 4})
    assert arrivals(run) == [2.0, 4.0, 6.0]
    assert set(column(run, "status").values()) == {"rejected"}


def test_one_who_left_thinks_from_the_decision_that_ended_the_request() -> None:
    """Both send at 0. User 1 leaves at 0.5, and goes with the decision at 1; behind that it sends again at once."""
    run = simulate(2, 4, 0, patience_ms=0.5)
    assert ends(run)["r000002"] == ("cancelled", "waiting", 1.0)
    assert arrivals(run) == [0.0, 0.0, 1.0, 1.000001]


def test_who_comes_because_a_decision_ended_another_is_seen_by_the_next_one() -> None:
    """At 1 user 0's next request is there, and is taken; only then is user 1 told that its request has ended."""
    run = simulate(2, 4, 0, patience_ms=0.5, scheduler={"policy": "vllm", "token_budget": 10})
    assert log(run)[1] == (1.0, 2.0, "prefill r000003 10")
    assert ends(run)["r000004"] == ("cancelled", "waiting", 2.0)


@pytest.mark.parametrize("spans", [True, False])
def test_decodes_in_a_span_are_cut_where_a_user_comes_back(spans: bool) -> None:
    """User 0 decodes until 9; user 1 thinks 2 ms, and its second request arrives while the span runs."""
    device = {"prefill_ms_per_token": 0.1, "decode_ms_per_batch": 1}
    scenario = loop(
        2, 4, 2, device=device, output_tokens={"distribution": "fixed", "value": 4}, scheduler={"policy": "vllm"}
    )
    run = checked(sim.simulate(scenario, spans=spans))
    assert arrivals(run) == [2.0, 2.0, 9.0, 9.0]


# --- what does not depend on the server ------------------------------------------------------------------------------


def test_a_policy_moves_neither_lengths_nor_thinking() -> None:
    laws = {
        "prompt_tokens": {"distribution": "uniform", "min": 1, "max": 30},
        "output_tokens": {"distribution": "uniform", "min": 1, "max": 9},
    }
    think = {"distribution": "exponential", "mean": 5}
    device = {"prefill_ms_per_token": 0.1, "decode_ms_per_batch": 1}
    fast, slow = (
        sim.simulate(loop(3, 30, think, device=device, scheduler={"policy": policy}, **laws)).requests
        for policy in ("fcfs", "static")
    )
    assert (fast["arrival_ns"] != slow["arrival_ns"]).any()
    for name in ("prompt_tokens", "output_tokens"):
        assert (fast[name] == slow[name]).all()
    thought = [
        requests["arrival_ns"][3:] - requests["ended_ns"][:-3]  # the one before of the same user stands 3 rows above
        for requests in (fast, slow)
    ]
    assert (thought[0] == thought[1]).all()
    assert (thought[0] > 0).any()


def test_more_requests_move_none_of_the_first() -> None:
    think = {"distribution": "gamma", "mean": 3, "cv": 1.5}
    few, many = (build(loop(2, count, think))[0].sending for count in (8, 20))
    assert few is not None
    assert many is not None
    assert (many.pause_ns[:8] == few.pause_ns).all()
    assert (many.after[:8] == few.after).all()


@pytest.mark.parametrize(
    ("law", "mean", "deviation"),
    [
        ({"distribution": "fixed", "value": 3}, 3, 0),
        ({"distribution": "uniform", "min": 1, "max": 4}, 2.5, 3 / 12**0.5),
        ({"distribution": "exponential", "mean": 3}, 3, 3),
        ({"distribution": "lognormal", "mean": 3, "cv": 0.5}, 3, 1.5),
        ({"distribution": "gamma", "mean": 3, "cv": 2}, 3, 6),
    ],
)
def test_durations_have_the_moments_of_their_laws(law: dict[str, Any], mean: float, deviation: float) -> None:
    """Of n draws the mean is within 5 deviations / sqrt(n), and so, for these laws, is the deviation within 5 %."""
    count = 100_000
    workload = loop(count, count, law).workload
    assert workload.clients is not None
    ms = workload.clients.think_ms.law.ns(count, stream(0, "think")) / 10**6
    assert abs(ms.mean() - mean) <= 5 * deviation / count**0.5
    assert abs(ms.std() - deviation) <= 0.05 * deviation


# --- the horizon -----------------------------------------------------------------------------------------------------


def test_what_is_never_sent_has_no_arrival() -> None:
    """Request 3 would be sent when request 1 has ended and its user has thought: at 3, after the horizon."""
    run = simulate(2, 4, 1, run={"horizon_ms": 2.5})
    assert ends(run) == {
        "r000001": ("finished", None, 2.0),
        "r000002": ("unfinished", "running", None),
        "r000003": ("unfinished", "not arrived", None),
        "r000004": ("unfinished", "not arrived", None),
    }
    assert arrivals(run) == [1.0, 1.0, None, None]
    assert run["summary"]["makespanMs"] == 1.0


def test_nothing_is_sent_within_a_horizon_that_ends_before() -> None:
    run = simulate(2, 4, 5, run={"horizon_ms": 2})
    assert set(column(run, "reason").values()) == {"not arrived"}
    assert run["summary"]["makespanMs"] is None


# --- the law R = N / X - Z -------------------------------------------------------------------------------------------


def test_the_response_time_law_by_hand() -> None:
    """Users 0 and 1 as above, observed from 0 to 5 ms, in ms.

    In the server: 1 + 2 (user 1 waits for user 0) + 1 + 1 = 5. Outside: user 0 1 + 1 + 1 (nothing left to send), user 1
    1 + 1. X = 4 / 5, R = 5 / 4, Z = 5 / 4, and N / X - Z = 2.5 - 1.25.
    """
    found = measure(sim.simulate(loop(2, 4, 1)))
    assert found == (2, 5 * 10**6, 4, 5 * 10**6, 5 * 10**6)
    assert found.throughput_per_ns == Fraction(4, 5 * 10**6)
    assert (found.response_ns, found.think_ns) == (Fraction(5, 4) * 10**6, Fraction(5, 4) * 10**6)


def test_what_the_horizon_cuts_off_is_counted_on_both_sides() -> None:
    """To 2.5 ms: request 1 was there for 1 ms, request 2 for 1.5; user 0 thought for 1 and 0.5, user 1 for 1."""
    found = measure(sim.simulate(loop(2, 4, 1, run={"horizon_ms": 2.5})))
    assert found == (2, 2_500_000, 1, 2_500_000, 2_500_000)


def drawn_thinking_ns(result: Result, users: int, until_ns: int) -> int:
    """The thinking that was drawn, of each user up to ``until_ns``; it has nothing to do after its last request."""
    sending, requests = result.record.workload.sending, result.requests
    assert sending is not None
    total = 0
    for user in range(users):
        now_ns: int = 0
        for row in range(user, len(sending.after), users):
            total += min(int(sending.pause_ns[row]), until_ns - now_ns)
            if requests["arrived_job"][row] == NEVER or requests["ended_ns"][row] == NEVER:
                now_ns = until_ns  # still thinking, or still in the server
                break
            now_ns = int(requests["ended_ns"][row])
        total += until_ns - now_ns
    return total


@pytest.mark.parametrize("seed", range(40))
def test_the_law_holds_exactly(seed: int) -> None:
    users, horizon = 1 + seed % 7, [None, 40, 333.3, 777.777777][seed % 4]
    laws = {
        "prompt_tokens": {"distribution": "uniform", "min": 1, "max": 40},
        "output_tokens": {"distribution": "uniform", "min": 1, "max": 20},
    }
    think = [0, 3, {"distribution": "exponential", "mean": 20}, {"distribution": "lognormal", "mean": 9, "cv": 3}]
    result = sim.simulate(
        loop(
            users,
            60,
            think[seed // 4 % 4],
            device={"job_ms": 0.123457, "prefill_ms_per_token": 0.1, "decode_ms_per_batch": 0.71},
            kv={"blocks": 12, "block_tokens": 8},
            scheduler={"policy": ["vllm", "fcfs", "chunked", "static", "trtllm-no-evict"][seed % 5]},
            run={"seed": seed, **({} if horizon is None else {"horizon_ms": horizon})},
            **laws,
        )
    )
    found = measure(result)
    assert found.response_ns == users / found.throughput_per_ns - found.think_ns
    assert found.outside_ns == drawn_thinking_ns(result, users, found.observed_ns)
    if horizon is None:
        assert found.ended == 60
        assert found.in_server_ns == int((result.requests["ended_ns"] - result.requests["arrival_ns"]).sum())


def test_it_can_be_measured_in_a_result_from_disk(tmp_path: Path) -> None:
    result = sim.simulate(
        loop(2, 6, {"distribution": "exponential", "mean": 2}, patience_ms=1.5, retry={"attempts": 1})
    )
    for name in ("out", "out.json"):
        result.save(tmp_path / name)
        assert measure(sim.open_result(tmp_path / name)) == measure(result)
        assert verify(tmp_path / name).ok


def test_an_open_loop_is_none() -> None:
    requests = [{"prompt_tokens": 1, "output_tokens": 1}]
    result = sim.simulate(sim.load({"schema": 1, "name": "open", "workload": {"requests": requests}}))
    with pytest.raises(ValueError, match="not a closed loop"):
        measure(result)


# --- overload --------------------------------------------------------------------------------------------------------


def test_running_counts_of_an_overloaded_loop_differ_by_policy() -> None:
    """20 users who never think, 4 of whose largest requests fill the pool.

    With a gate that looks at the prompt only, all that fit are let in and throw each other out as they grow; with one
    that sets everything aside, nobody is let in too early. The record has how many run at each job of both.
    """
    settings: dict[str, Any] = {
        "prompt_tokens": {"distribution": "fixed", "value": 16},
        "output_tokens": {"distribution": "fixed", "value": 48},
        "kv": {"blocks": 16, "block_tokens": 16},
        "device": {"job_ms": 1},
    }
    eager, careful = (
        sim.simulate(loop(20, 60, 0, scheduler={"policy": policy}, **settings))
        for policy in ("vllm", "trtllm-no-evict")
    )
    assert int(careful.jobs["running"].max()) == 4
    assert int(careful.requests["preemptions"].sum()) == 0
    assert int(eager.jobs["running"].max()) > 8
    assert int(eager.requests["preemptions"].sum()) > 60
    assert int(eager.jobs["running"].min()) < int(eager.jobs["running"].max()) // 2, "it goes up and down"
    for result in (eager, careful):
        assert len(result.jobs["running"]) == len(result.jobs["start_ns"])
        assert (result.jobs["running"] + result.jobs["waiting"] <= 20).all(), "a loop has no more than its users"


# --- around the run --------------------------------------------------------------------------------------------------


def test_strict_names_each_request_that_never_fits_once() -> None:
    scenario = loop(1, 2, 1, kv={"blocks": 1, "block_tokens": 4}, patience_ms=1, retry={"attempts": 2})
    (plan,) = experiment.plan(scenario)
    why = "needs 3 of 1 blocks: 10 + 1 - 1 = 10 tokens, 4 a block"
    assert plan.rejections() == [f'fcfs: request "r00000{number}": {why}' for number in (1, 2)]


def test_the_workload_has_one_digest_whatever_the_policy_made_of_it() -> None:
    one, other = (sim.simulate(loop(3, 9, 1, scheduler={"policy": policy})) for policy in ("fcfs", "static"))
    assert one.provenance["workloadSha256"] == other.provenance["workloadSha256"]
    assert one.provenance["workloadSha256"] != sim.simulate(loop(3, 9, 2)).provenance["workloadSha256"]


@pytest.mark.parametrize("moved_ms", ["0.5", "-0.000001"])
def test_an_arrival_that_is_not_the_users_is_found_out(moved_ms: str) -> None:
    document = json.loads(json.dumps(sim.simulate(loop(2, 6, 1)).to_dict()), parse_float=Decimal)
    document["runs"][0]["requests"][4]["arrivalMs"] += Decimal(moved_ms)
    found = [finding.check for finding in verify_document(document).findings]
    assert "requests are sent when their clients send them" in found


# --- bad inputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"users": 0}, "workload.clients.users = 0: too small; at least 1"),
        ({"users": 1.5}, "workload.clients.users = 1.5: expected an integer"),
        ({"think_ms": -1}, "workload.clients.think_ms = -1: too small; at least 0"),
        ({"think_ms": float("nan")}, "workload.clients.think_ms = nan: not finite"),
        ({"think_ms": 2e9}, "workload.clients.think_ms = 2000000000.0: too large; at most 1000000000"),
        ({"think_ms": "5"}, 'workload.clients.think_ms = "5": expected a table'),
        ({"think_ms": {"distribution": "pareto"}}, 'think_ms.distribution = "pareto": unknown; one of'),
        ({"think_ms": {"distribution": "exponential"}}, "workload.clients.think_ms.mean: missing in distribution exp"),
        ({"think_ms": {"distribution": "fixed", "value": 1, "cv": 1}}, "not a key of distribution fixed"),
        ({"think_ms": {"distribution": "gamma", "mean": 1, "cv": 0}}, "workload.clients.think_ms.cv = 0: too small"),
        ({"think_ms": {"distribution": "uniform", "min": 2, "max": 1}}, "max = 1: too small; at least min, 2"),
        ({"user": 2}, "workload.clients.user = 2: unknown key in [workload.clients]; did you mean 'users'?"),
    ],
)  # fmt: skip
def test_bad_clients_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loop(1, 3, 0, clients={"users": 1, **change})
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"arrivals": {"process": "poisson", "rate_per_s": 1}}, "workload.arrivals: together with clients"),
        ({"sessions": {"turns": {"distribution": "fixed", "value": 2}}}, "workload.sessions: together with clients"),
        ({"retry": {"attempts": 1}}, "workload.retry: without patience_ms"),
        ({"prompt_tokens": None}, "workload.prompt_tokens: missing"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loop(1, 3, 0, **change)
    assert complaint in str(refused.value)


def test_users_without_requests_of_their_own_are_refused() -> None:
    requests = [{"prompt_tokens": 1, "output_tokens": 1}]
    document = {"schema": 1, "name": "loop", "workload": {"requests": requests, "clients": {"users": 1}}}
    with pytest.raises(ScenarioError, match=r"workload\.clients.*: without count; only for generated requests"):
        sim.load(document)
