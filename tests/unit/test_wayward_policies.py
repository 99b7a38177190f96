"""What a policy must not do is refused by name, wherever in the run it is; what it raises itself gets out whole."""

from collections.abc import Callable

import pytest
from tiny import request, scenario, with_policy

import sim
from sim.engine.cycle import Cycle, View
from sim.errors import InvariantError
from sim.request import Request

Plan = Callable[[View, Cycle], object]


class Does:
    """A policy that is one function."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def plan(self, view: View, cycle: Cycle) -> None:
        self._plan(view, cycle)


def run(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> sim.Result:
    with_policy(monkeypatch, Does(plan))
    return sim.simulate(scenario([request("A", 0, 4, 3), request("B", 1, 4, 3)]))


def first(view: View) -> Request:
    """Who runs, else who waits."""
    head = next(iter(view.running), view.waiting.head)
    assert head is not None
    return head


def twice(view: View, cycle: Cycle) -> None:
    cycle.prefill(first(view), 2)
    cycle.prefill(first(view), 2)


def decode_twice(view: View, cycle: Cycle) -> None:
    if not cycle.decode_all():
        cycle.prefill(first(view), 4)
    else:
        cycle.prefill(first(view), 1)


TOKENS_OF_NOTHING: dict[str, tuple[Plan, str]] = {
    "twice": (
        twice,
        (
            "a policy schedules 2 tokens, 4 are left to compute, of <A: 0 of 4 tokens computed, 0 emitted>, "
            "which is in this job already"
        ),
    ),
    "a decode and a prefill": (
        decode_twice,
        (
            "a policy schedules 1 tokens, 1 are left to compute, of <A: 4 of 5 tokens computed, 1 emitted>, "
            "which is in this job already"
        ),
    ),
    "none": (
        lambda view, cycle: cycle.prefill(first(view), 0),
        "a policy schedules 0 tokens, 4 are left to compute, of <A: 0 of 4 tokens computed, 0 emitted>",
    ),
    "less than none": (
        lambda view, cycle: cycle.prefill(first(view), -1),
        "a policy schedules -1 tokens, 4 are left to compute, of <A: 0 of 4 tokens computed, 0 emitted>",
    ),
    "more than there are": (
        lambda view, cycle: cycle.prefill(first(view), 5),
        "a policy schedules 5 tokens, 4 are left to compute, of <A: 0 of 4 tokens computed, 0 emitted>",
    ),
}


@pytest.mark.parametrize("case", TOKENS_OF_NOTHING)
def test_tokens_that_are_not_there_to_be_scheduled(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    plan, said = TOKENS_OF_NOTHING[case]
    with pytest.raises(InvariantError) as refused:
        run(monkeypatch, plan)
    assert str(refused.value) == said
    assert refused.value.exit_code == 1


def test_a_request_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy remembers A and schedules it again when it is done."""
    remembered: list[Request] = []

    def plan(view: View, cycle: Cycle) -> None:
        if not remembered:
            remembered.append(first(view))
        request_ = remembered[0]
        cycle.prefill(request_, request_.rest)

    with pytest.raises(
        InvariantError, match=r"^a policy admits <A: 6 of 7 tokens computed, 3 emitted>, which does not wait$"
    ):
        run(monkeypatch, plan)


def test_a_request_that_runs_already_is_not_admitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(view: View, cycle: Cycle) -> None:
        head = first(view)
        cycle.admit(head, head.rest)
        cycle.prefill(head, head.rest)

    said = r"^a policy admits <A: 4 of 5 tokens computed, 1 emitted>, which does not wait$"
    with pytest.raises(InvariantError, match=said):
        run(monkeypatch, plan)


def test_a_request_admitted_in_a_cycle_without_a_job_is_in_the_record_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The policy lets A in at 0, and does nothing until B comes at 1: the admission goes into the record."""

    def plan(view: View, cycle: Cycle) -> None:
        if view.now_ns == 0:
            cycle.admit(first(view), 4)
        elif not cycle.decode_all():
            cycle.prefill(first(view), first(view).rest)

    with_policy(monkeypatch, Does(plan))
    result = sim.simulate(scenario([request("A", 0, 4, 1), request("B", 1, 4, 1, cancel_ms=2)]))
    assert result.record.admissions["request"].tolist() == [0]


@pytest.mark.parametrize("error", [RuntimeError("no more"), ValueError("two", "arguments"), ZeroDivisionError()])
def test_what_a_policy_raises_gets_out_as_it_is(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def plan(view: View, cycle: Cycle) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run(monkeypatch, plan)
    assert type(raised.value) is type(error)
    assert raised.value.args == error.args
