"""Several classes of generated requests: merged by arrival, each with laws and random numbers of its own."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from goodness import is_unit_poisson

import sim
from sim.analysis.verify import verify, verify_document
from sim.errors import ScenarioError
from sim.record import json_form
from sim.request import NEVER, Workload
from sim.workload.build import build

CHAT: Mapping[str, Any] = {
    "name": "chat",
    "count": 60,
    "arrivals": {"process": "poisson", "rate_per_s": 20},
    "prompt_tokens": {"distribution": "uniform", "min": 1, "max": 30},
    "output_tokens": {"distribution": "uniform", "min": 1, "max": 20},
}
BATCH: Mapping[str, Any] = {
    "name": "batch",
    "count": 15,
    "arrivals": {"process": "gamma", "rate_per_s": 5, "cv": 2},
    "prompt_tokens": {"distribution": "choice", "values": [100, 200]},
    "output_tokens": {"distribution": "fixed", "value": 3},
}


def scenario(*classes: Mapping[str, Any], seed: int = 0, **workload: Any) -> sim.Scenario:
    keys = {"classes": list(classes), **workload}
    return sim.load({"schema": 1, "name": "mixed", "workload": keys, "run": {"seed": seed}})


def drawn(*classes: Mapping[str, Any], seed: int = 0, **workload: Any) -> Workload:
    return build(scenario(*classes, seed=seed, **workload))[0]


def given(name: str, *times_ms: int, **more: Any) -> dict[str, Any]:
    return {
        **BATCH,
        "name": name,
        "count": len(times_ms),
        "arrivals": {"process": "given", "times_ms": times_ms},
        **more,
    }


def rows(workload: Workload, tenant: str) -> list[tuple[int, int, int]]:
    """Arrival, prompt and output of a tenant's requests."""
    mine = [place for place, name in enumerate(workload.tenants or ()) if name == tenant]
    columns = (workload.arrival_ns, workload.prompt_tokens, workload.output_tokens)
    return [(int(a), int(p), int(o)) for a, p, o in zip(*(column[mine] for column in columns), strict=True)]


def test_requests_are_merged_by_arrival_and_numbered_as_they_arrive() -> None:
    workload = drawn(given("a", 0, 4, 9, tenant="a"), given("b", 1, 4, 5, tenant="b"))
    assert (workload.arrival_ns // 10**6).tolist() == [0, 1, 4, 4, 5, 9]
    assert workload.tenants == ["a", "b", "a", "b", "b", "a"]  # at 4 ms, in the order of the classes
    assert workload.all_ids()[:2] == ["r000001", "r000002"]


def test_ties_within_a_class_keep_its_order() -> None:
    """Of one class with ties at 0 and 1 ms, lengths come in the order in which they are drawn."""
    alone, beside = drawn(given("a", 0, 0, 0, 1, 1)), drawn(given("a", 0, 0, 0, 1, 1), given("b", 0, 1, tenant="b"))
    kept = [place for place, name in enumerate(beside.tenants or ()) if name == ""]
    assert beside.prompt_tokens[kept].tolist() == alone.prompt_tokens.tolist()
    assert kept == [0, 1, 2, 4, 5]


def test_what_a_class_says_is_said_of_its_requests() -> None:
    urgent = given("a", 0, 3, tenant="a", priority=-1, max_tokens=64, deadline_after_ms=Decimal("2.5"))
    workload = drawn(urgent, given("b", 1))
    assert workload.priority.tolist() == [-1, 0, -1]
    assert workload.tenants == ["a", "", "a"]
    assert workload.max_tokens.tolist() == [64, 3, 64]
    assert workload.deadline_ns.tolist() == [2_500_000, NEVER, 5_500_000]


def test_the_same_can_be_said_without_classes() -> None:
    laws = {key: value for key, value in CHAT.items() if key != "name"}
    said = {"tenant": "a", "priority": 3, "deadline_after_ms": 7}
    workload = build(sim.load({"schema": 1, "name": "t", "workload": {**laws, **said}}))[0]
    assert set(workload.tenants or ()) == {"a"}
    assert set(workload.priority.tolist()) == {3}
    assert (workload.deadline_ns - workload.arrival_ns == 7_000_000).all()


def test_another_class_moves_nothing_of_the_first() -> None:
    chat = {**CHAT, "tenant": "chat"}
    alone = rows(drawn(chat), "chat")
    for beside in (drawn(chat, BATCH), drawn(BATCH, chat), drawn(chat, {**CHAT, "name": "more", "tenant": "more"})):
        assert rows(beside, "chat") == alone
    renamed = rows(drawn({**chat, "name": "talk"}), "chat")
    assert renamed != alone


def test_classes_of_the_same_laws_are_not_the_same_numbers() -> None:
    workload = drawn({**CHAT, "tenant": "a", "name": "a"}, {**CHAT, "tenant": "b", "name": "b"})
    assert rows(workload, "a") != rows(workload, "b")


@pytest.mark.parametrize("key", ["prompt_tokens", "output_tokens", "arrivals"])
def test_a_change_of_one_law_moves_nothing_else(key: str) -> None:
    other: dict[str, Any] = {"distribution": "fixed", "value": 9}
    other = {"process": "poisson", "rate_per_s": 20, "tick_ms": 100} if key == "arrivals" else other
    before, after = drawn(CHAT), drawn({**CHAT, key: other})
    columns = {"prompt_tokens", "output_tokens", "arrival_ns"}
    moved = {name for name in columns if not np.array_equal(getattr(before, name), getattr(after, name))}
    assert moved == {"arrival_ns" if key == "arrivals" else key}


def test_poisson_classes_superpose_to_a_poisson_process() -> None:
    """Of 2 and 6 a second, cut where the first of them ends: the gaps are of 8 a second."""
    fast = {**CHAT, "name": "fast", "count": 60_000, "arrivals": {"process": "poisson", "rate_per_s": 6}}
    slow = {**CHAT, "name": "slow", "count": 20_000, "arrivals": {"process": "poisson", "rate_per_s": 2}}
    times = drawn(fast, slow).arrival_ns[:75_000] / 1e9
    assert is_unit_poisson(times * 8)
    assert not is_unit_poisson(times * 6)


def test_shares_of_a_count() -> None:
    """Of 10: 3.5, 3.5 and 3 are 4, 3 and 3, the larger remainders first, then the order."""
    parts = [{key: value for key, value in CHAT.items() if key != "count"} | {"name": name} for name in "abc"]
    for part, share in zip(parts, ("0.35", "0.35", "0.3"), strict=True):
        part["share"] = Decimal(share)
    workload = scenario(*parts, count=10).workload
    assert workload.counts == (4, 3, 3)
    assert workload.stated == 10


def test_policies_meet_the_same_classes() -> None:
    base = scenario(CHAT, BATCH)
    digests = {
        sim.simulate(base.with_overrides({"scheduler.policy": policy})).provenance["workloadSha256"]
        for policy in ("fcfs", "chunked", "static", "vllm")
    }
    assert len(digests) == 1


@pytest.fixture(scope="module")
def result() -> sim.Result:
    urgent = {**BATCH, "tenant": "t", "priority": -3, "max_tokens": 50, "deadline_after_ms": 100}
    return sim.simulate(scenario(CHAT, urgent, seed=5))


def test_a_result_as_json_is_verified_and_its_faults_are_found(result: sim.Result) -> None:
    document = json.loads("".join(json_form.text(json_form.document([result]))), parse_float=Decimal)
    assert verify_document(document).findings == []
    document["scenario"]["workload"]["classes"][1]["priority"] = -2
    assert any("workloadSha256" in finding.where for finding in verify_document(document).findings)
    document["scenario"]["workload"]["classes"][1]["priority"] = -3
    document["scenario"]["workload"]["classes"][0]["count"] += 1
    assert not verify_document(document).ok


def test_a_folder_is_verified(result: sim.Result, tmp_path: Any) -> None:
    result.save(tmp_path / "out")
    assert verify(tmp_path / "out").findings == []
    opened = sim.open_result(tmp_path / "out")
    assert opened.record.workload.sha256() == result.record.workload.sha256()


def test_a_class_whose_load_outlasts_the_clock_is_named() -> None:
    slow = {**BATCH, "arrivals": {"process": "poisson", "rate_per_s": Decimal("1e-9")}}
    with pytest.raises(ScenarioError, match=r"^workload\.classes\[1\]\.arrivals\.rate_per_s = 1e-9: too small for 15"):
        drawn(CHAT, slow)


@pytest.mark.parametrize(
    ("key", "table"),
    [("clients", {"users": 2}), ("sessions", {"turns": {"distribution": "fixed", "value": 2}})],
)
def test_classes_have_arrivals_of_their_own(key: str, table: dict[str, Any]) -> None:
    halves = [{**part, "share": Decimal("0.5")} for part in (CHAT, BATCH)]
    for part in halves:
        del part["count"]
    with pytest.raises(ScenarioError, match=rf"workload\.{key}.*: with classes, which have arrivals of their own"):
        sim.load({"schema": 1, "name": "mixed", "workload": {"classes": halves, "count": 10, key: table}})
