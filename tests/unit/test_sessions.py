"""Sessions: each turn's prompt is all of the turn before and something new, sent when that has ended and after a pause.

On the device here a prompt token takes 0.1 ms, a decode 1 ms.
"""

from typing import Any

import numpy as np
import pytest
from tiny import checked, column, ends, log

import sim
from sim.errors import ScenarioError
from sim.request import NEVER
from sim.workload.build import build

DEVICE = {"prefill_ms_per_token": 0.1, "decode_ms_per_batch": 1}


def fixed(value: int) -> dict[str, Any]:
    return {"distribution": "fixed", "value": value}


def talk(turns: int | dict[str, Any], *, at_ms: tuple[float, ...] = (0,), think_ms: object = 0, prompt: Any = 10,
         output: Any = 3, **more: Any) -> sim.Scenario:  # fmt: skip
    """Sessions that begin at these times; ``prompt`` are the new tokens of each turn."""
    laws = {name: fixed(law) if isinstance(law, int) else law
            for name, law in (("turns", turns), ("prompt_tokens", prompt), ("output_tokens", output))}  # fmt: skip
    patience = {name: more.pop(name) for name in ("patience_ms", "retry", "max_tokens") if name in more}
    document: dict[str, Any] = {
        "schema": 1,
        "name": "talk",
        "workload": {
            "count": len(at_ms),
            "arrivals": {"process": "given", "times_ms": list(at_ms)},
            "sessions": {"turns": laws.pop("turns"), "think_ms": think_ms},
            **laws,
            **patience,
        },
        "device": DEVICE,
        **more,
    }
    return sim.load(document)


def test_each_turn_begins_with_the_one_before() -> None:
    """10 new tokens a turn, 3 of output: prompts of 10, 10 + 3 + 10 and 23 + 3 + 10 tokens."""
    workload, _ = build(talk(3))
    assert workload.prompt_tokens.tolist() == [10, 23, 36]
    assert workload.parent.tolist() == [NEVER, 0, 1]
    assert workload.parent_tokens.tolist() == [0, 13, 26]
    assert workload.arrival_ns.tolist() == [0, NEVER, NEVER]


def test_sessions_stand_one_behind_the_other_and_each_begins_anew() -> None:
    workload, _ = build(talk(2, at_ms=(0, 5)))
    assert workload.prompt_tokens.tolist() == [10, 23, 10, 23]
    assert workload.parent.tolist() == [NEVER, 0, NEVER, 2]
    assert workload.arrival_ns.tolist() == [0, NEVER, 5_000_000, NEVER]


def test_a_turn_comes_when_the_one_before_has_ended_and_its_client_has_thought() -> None:
    """Turn 1: prefill 0 to 1, two more tokens by 3. Turn 2 at 3 + 4: 23 tokens of prompt to 9.3, done at 11.3."""
    run = checked(sim.simulate(talk(2, think_ms=4)))
    assert column(run, "arrivalMs") == {"r000001": 0.0, "r000002": 7.0}
    assert column(run, "finishMs") == {"r000001": 3.0, "r000002": 11.3}


def test_the_first_turn_does_not_wait_for_other_sessions() -> None:
    run = checked(sim.simulate(talk(1, at_ms=(0, 0.5, 0.5))))
    assert column(run, "arrivalMs") == {"r000001": 0.0, "r000002": 0.5, "r000003": 0.5}


def test_the_prefix_cache_holds_what_was_said_before() -> None:
    """Turn 1 leaves 12 tokens computed (its last output token never is), three blocks of 4; turn 2 finds them.

    So turn 2 has 23 - 12 = 11 tokens to compute: from 3 to 4.1. It leaves 25: six blocks, so that turn 3 finds 24
    tokens of its 36.
    """
    kv = {"blocks": 100, "block_tokens": 4, "prefix_cache": True}
    run = checked(sim.simulate(talk(3, kv=kv)))
    assert list(column(run, "cachedTokens").values()) == [0, 12, 24]
    assert (3.0, 4.1, "prefill r000002 11") in log(run)
    assert list(column(checked(sim.simulate(talk(3, kv={**kv, "prefix_cache": False}))), "cachedTokens").values()) == [
        0, 0, 0,
    ]  # fmt: skip


def test_a_turn_that_was_turned_away_is_followed_by_the_next_one() -> None:
    """With at most 30 tokens, turns of 10 and 23 fit; the third, of 36, does not, nor the fourth: both at once."""
    run = checked(sim.simulate(talk(4, scheduler={"max_model_tokens": 30})))
    assert list(column(run, "status").values()) == ["finished", "finished", "rejected", "rejected"]
    assert (
        column(run, "arrivalMs")["r000003"] == column(run, "arrivalMs")["r000004"] == column(run, "finishMs")["r000002"]
    )


def test_a_horizon_leaves_turns_unsent() -> None:
    run = checked(sim.simulate(talk(3, think_ms=4, run={"horizon_ms": 6})))
    assert ends(run) == {
        "r000001": ("finished", None, 3.0),
        "r000002": ("unfinished", "not arrived", None),
        "r000003": ("unfinished", "not arrived", None),
    }
    assert list(column(run, "arrivalMs").values()) == [0.0, None, None]


def test_a_turn_that_is_tried_again_delays_the_next_one() -> None:
    """Sessions A and B begin at 0, with turns of 10 and 10 + 1 + 10 tokens; nobody waits for more than 0.75 ms.

    A's are computed from 0 to 1 and from 1 to 3.1 (it leaves at 1.75, but is done with the job in flight). B leaves at
    0.75, goes at 1, and comes again at 2; it leaves at 2.75, goes at 3.1, and its next turn comes behind that.
    """
    scenario = talk(2, at_ms=(0, 0), output=1, patience_ms=0.75, retry={"attempts": 1, "backoff_ms": 1})
    run = checked(sim.simulate(scenario))
    assert column(run, "arrivalMs") == {
        "r000001": 0.0,
        "r000002": 1.0,
        "r000003": 0.0,
        "r000003~2": 2.0,
        "r000004": 3.100001,
    }
    assert ends(run)["r000003"] == ("cancelled", "waiting", 1.0)
    assert ends(run)["r000003~2"] == ("cancelled", "waiting", 3.1)
    assert ends(run)["r000004"] == ("finished", None, 5.200001)


def test_turns_are_drawn_and_policies_meet_the_same() -> None:
    turns = {"distribution": "uniform", "min": 1, "max": 5}
    scenario = talk(turns, at_ms=tuple(range(40)), prompt={"distribution": "uniform", "min": 1, "max": 9})
    results = [sim.simulate(scenario.with_overrides({"scheduler.policy": policy})) for policy in ("fcfs", "vllm")]
    one, other = (result.requests for result in results)
    assert (one["prompt_tokens"] == other["prompt_tokens"]).all()
    assert (one["parent"] == other["parent"]).all()
    per_session = np.bincount(np.cumsum(one["parent"] == NEVER) - 1)
    assert set(per_session.tolist()) == {1, 2, 3, 4, 5}
    assert len(per_session) == 40


def test_what_they_declare_may_be_more_than_they_say() -> None:
    assert build(talk(2, max_tokens=7))[0].max_tokens.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sessions": {"think_ms": 1}}, "workload.sessions.turns: missing"),
        ({"sessions": {"turns": {"distribution": "fixed", "value": 0}}}, "value = 0: too small; at least 1"),
        ({"arrivals": None}, "workload.arrivals: missing; generated requests have count, arrivals"),
        ({"arrivals": {"process": "given", "times_ms": [1, 2]}}, "2 times for count = 1; as many as count"),
    ],
)
def test_bad_sessions_are_refused(change: dict[str, Any], complaint: str) -> None:
    document = talk(1).document
    document["workload"] |= change
    with pytest.raises(ScenarioError) as refused:
        sim.load(document)
    assert complaint in str(refused.value)


def test_more_turns_than_requests_are_possible_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.sessions\.turns: 12000000 turns in all; at most 10000000"):
        build(talk(6_000_000, at_ms=(0, 0)))


def test_a_prompt_without_end_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.sessions: a prompt of 6000000002 tokens; at most 2147483647"):
        build(talk(3, prompt=2_000_000_000, output=1))
