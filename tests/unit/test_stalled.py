"""A model in which nothing will ever happen again does not end in silence: the error names who is stuck, and where."""

import pytest
from tiny import ends, request, scenario, simulate, with_policy

import sim
from sim.engine.cycle import Cycle, View
from sim.errors import StalledError


class Idle:
    """Never schedules anything."""

    def plan(self, view: View, cycle: Cycle) -> None: ...


class Prefills:
    """Whole prompts, and then nothing: whoever wants a second token is stuck."""

    def plan(self, view: View, cycle: Cycle) -> None:
        head = view.waiting.head
        if head is not None:
            cycle.prefill(head, head.rest)


def stuck(requests: list[dict[str, object]]) -> StalledError:
    with pytest.raises(StalledError) as caught:
        sim.simulate(scenario(requests))
    return caught.value


def test_who_waits_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(monkeypatch, Idle())
    error = stuck([request("A", 0, 2, 2), request("B", 3, 1, 1)])
    assert error.args == (
        "stuck at 3000000 ns: 2 requests have not ended",
        "<A: 0 of 2 tokens computed, 0 emitted> is waiting",
        "<B: 0 of 1 tokens computed, 0 emitted> is waiting",
    )
    assert error.exit_code == 3


def test_who_runs_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(monkeypatch, Prefills())
    error = stuck([request("A", 0, 2, 2), request("B", 0, 2, 1)])
    assert error.args == (
        "stuck at 4500000 ns: 1 requests have not ended",
        "<A: 2 of 3 tokens computed, 1 emitted> is running",
    )


def test_the_first_ten_are_named_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(monkeypatch, Idle())
    error = stuck([request(f"r{n}", 0, 1, 1) for n in range(13)])
    assert len(error.args) == 12
    assert error.args[0] == "stuck at 0 ns: 13 requests have not ended"
    assert error.args[-1] == "and 3 more"


def test_who_is_given_up_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(monkeypatch, Idle())
    error = stuck([request("A", 0, 2, 2, cancel_ms=7), request("B", 3, 1, 1)])
    assert error.args[1:] == ("<B: 0 of 1 tokens computed, 0 emitted> is waiting",)


def test_a_horizon_ends_it_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policy(monkeypatch, Idle())
    result = sim.simulate(scenario([request("A", 0, 2, 2)], run={"horizon_ms": 50}))
    assert ends(result.to_dict()["runs"][0]) == {"A": ("unfinished", "waiting", None)}


def test_a_batch_that_takes_as_many_prompts_as_the_budget_allows_is_not_stuck() -> None:
    """``prefills_per_job = 0``: up to the budget; without a budget, whatever waits."""
    run = simulate([request("A", 0, 2, 1), request("B", 0, 2, 1)], prefills_per_job=0)
    assert len(run["events"]) == 1
