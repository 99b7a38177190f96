"""A law that a variant, `--set` or an override states is the law, whatever stood there; one of its keys changes it."""

from decimal import Decimal
from typing import Any

import pytest

import sim
from sim.errors import ScenarioError


def generated(**workload: Any) -> dict[str, Any]:
    """Ten requests of fixed lengths that come at 4 a second, unless ``workload`` says otherwise."""
    return {
        "schema": 1,
        "name": "generated",
        "workload": {
            "count": 10,
            "arrivals": {"process": "poisson", "rate_per_s": 4},
            "prompt_tokens": {"distribution": "fixed", "value": 8},
            "output_tokens": {"distribution": "fixed", "value": 2},
            **workload,
        },
    }


def users(think_ms: object) -> dict[str, Any]:
    """The same requests from two users."""
    document = generated(clients={"users": 2, "think_ms": think_ms})
    del document["workload"]["arrivals"]
    return document


TWO = {"distribution": "fixed", "value": 2}
MMPP = {"process": "mmpp", "rates_per_s": [1, 20], "mean_sojourn_ms": [1000, 1000]}


def test_a_law_takes_the_place_of_another() -> None:
    """mmpp has no rate_per_s, which would be left over from the other law."""
    scenario = sim.load(generated(), overrides={"workload.arrivals": MMPP})
    assert scenario.document["workload"]["arrivals"] == MMPP


def test_however_deep_it_is_written() -> None:
    turns = {"distribution": "geometric", "mean": 3}
    document = generated(sessions={"turns": TWO})
    scenario = sim.load(document, overrides={"workload": {"sessions": {"turns": turns}}})
    assert scenario.document["workload"]["sessions"] == {"turns": turns}


def test_keys_without_the_law_change_the_one_that_is_there() -> None:
    arrivals = {"process": "gamma", "rate_per_s": 4, "cv": 2}
    scenario = sim.load(generated(arrivals=arrivals), overrides={"workload.arrivals": {"cv": 3}})
    assert scenario.document["workload"]["arrivals"] == {**arrivals, "cv": 3}


def test_so_does_the_name_of_a_law_alone() -> None:
    changes = {"workload.arrivals.process": "gamma", "workload.arrivals.cv": 3}
    scenario = sim.load(generated(), overrides=changes)
    assert scenario.document["workload"]["arrivals"] == {"process": "gamma", "rate_per_s": 4, "cv": 3}


def test_a_variant_states_a_law() -> None:
    variants = [{"name": "poisson"}, {"name": "mmpp", "set": {"workload.arrivals": MMPP}}]
    scenario = sim.load({**generated(), "run": {"variants": variants}})
    assert scenario.variant("mmpp").document["workload"]["arrivals"] == MMPP


def test_what_is_wrong_in_it_is_said_of_its_place() -> None:
    with pytest.raises(ScenarioError) as refused:
        sim.load(generated(), overrides={"workload.arrivals": {**MMPP, "rate": 3}})
    assert str(refused.value) == (
        "--set workload.arrivals.rate = 3: unknown key in [workload.arrivals]; did you mean 'rate_per_s'?"
    )


def test_a_law_takes_the_place_of_a_number() -> None:
    law = {"distribution": "exponential", "mean": 500}
    scenario = sim.load(users(5), overrides={"workload.clients.think_ms": law})
    assert scenario.document["workload"]["clients"] == {"users": 2, "think_ms": law}


def test_a_number_takes_the_place_of_a_law() -> None:
    scenario = sim.load(users({"distribution": "exponential", "mean": 5}), overrides={"workload.clients.think_ms": 7})
    assert scenario.document["workload"]["clients"] == {"users": 2, "think_ms": 7}


@pytest.mark.parametrize("number", [5, Decimal("5.5")])
def test_a_number_is_a_fixed_law_whose_keys_can_be_set(number: object) -> None:
    scenario = sim.load(users(number), overrides={"workload.clients.think_ms.value": 7})
    assert scenario.document["workload"]["clients"]["think_ms"] == {"distribution": "fixed", "value": 7}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        (users(5), "workload.clients.think_ms"),
        (generated(sessions={"turns": TWO, "think_ms": 5}), "workload.sessions.think_ms"),
        (generated(patience_ms=5), "workload.patience_ms"),
    ],
)  # fmt: skip
def test_a_key_that_it_does_not_have_is_refused(document: dict[str, Any], key: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        sim.load(document, overrides={f"{key}.mean": 500})
    assert str(refused.value) == (f"--set {key}.mean = 500: not a key of distribution fixed, which has value")


def test_weights_are_set_as_a_whole_whatever_tenants_are_called() -> None:
    document = {**generated(), "scheduler": {"order": "vtc", "weights": {"a": 2}}}
    scenario = sim.load(document, overrides={"scheduler.weights": {"b": 3, "c.d": 4}})
    assert scenario.scheduler.weights == {"b": 3, "c.d": 4}
