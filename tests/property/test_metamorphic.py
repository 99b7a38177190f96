"""What must not change when something that does not matter is changed, and one thing that one would think so and may.

Each test runs a generated scenario twice, changed in between, and compares the two results event by event.
"""

import copy
from collections.abc import Callable
from typing import Any

import axes
import pytest
from axes import Document
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import sim
from sim.errors import StalledError
from sim.record.result import Result

UNIT = {"job_ms": 1}
BLOCKS, HOLES = 1, 5
"""Codes of what blocked the head, in the record."""

few = settings(
    max_examples=60,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def run(document: Document) -> Result:
    assume(not axes.left_out(document))
    try:
        return axes.run(document)
    except StalledError as error:
        assume(not str(error).startswith("no progress"))
        raise


def outcome(result: Result) -> dict[str, Any]:
    """What happened: requests, events and summary, but neither settings nor what it cost the simulator."""
    (only,) = result.to_dict()["runs"]
    return {key: only[key] for key in ("requests", "events", "summary")}


def without_pool(result: Result) -> dict[str, Any]:
    """The outcome without how many blocks are free or in use."""
    seen = outcome(result)
    for event in seen["events"]:
        event.pop("freeBlocks")
        for moved in event.get("swapped", ()):
            moved.pop("blocks")
    seen["summary"].pop("kv", None)
    return seen


def changed(document: Document, **tables: Any) -> Document:
    """The document with some keys of some tables replaced."""
    new = copy.deepcopy(document)
    for table, values in tables.items():
        new[table] = {**new.get(table, {}), **values}
    return new


def without_pool_faults(document: Document) -> Document:
    faults = [fault for fault in document.get("faults", ()) if fault["kind"] != "pool"]
    return {**document, "faults": faults}


def largest_total(document: Document) -> int:
    """More token slots than all requests of the scenario ever hold, however often they are admitted."""
    crashes: int = sum(fault["kind"] == "crash" for fault in document.get("faults", ()))
    longest: list[int] = [
        r["prompt_tokens"] + r.get("samples", 1) * (r.get("max_tokens", r["output_tokens"]) + 16)
        for r in document["workload"]["requests"]
    ]
    return sum(longest) * (1 + int(crashes))


# --- the pool --------------------------------------------------------------------------------------------------------


@few
@given(axes.scenarios(), st.integers(1, 50))
def test_more_blocks_change_nothing_where_nobody_ever_lacked_any(document: Document, more: int) -> None:
    """Composition ``mixed``: the others don't say when a chunk of who runs already has no blocks."""
    document = without_pool_faults(document)
    assume("kv" in document)
    same = {"watermark_blocks": document["kv"].get("watermark_blocks", 0), "prefix_cache": False}
    document = changed(document, kv=same, scheduler={"composition": "mixed"})
    result = run(document)
    assume(not result.record.preemptions["loss"].tolist() and 3 not in result.requests["status"])
    assume(not {BLOCKS, HOLES} & set(result.record.jobs["blocked"].tolist()))
    assume(1 not in result.requests["status"])  # none rejected: another pool may serve it
    larger = run(changed(document, kv={"blocks": document["kv"]["blocks"] + more}))
    assert without_pool(larger) == without_pool(result)


@few
@given(axes.scenarios(), st.integers(1, 50))
def test_more_blocks_change_nothing_where_all_requests_fit_at_once(document: Document, more: int) -> None:
    """With the prefix cache, too: nothing is ever evicted."""
    document = without_pool_faults(document)
    assume("kv" in document)
    enough = largest_total(document) + 20
    document = changed(document, kv={"blocks": enough, "watermark_blocks": document["kv"].get("watermark_blocks", 0)})
    larger = changed(document, kv={"blocks": enough + more})
    before, after = outcome(run(document)), outcome(run(larger))
    assert [e["freeBlocks"] + more for e in before["events"]] == [e["freeBlocks"] for e in after["events"]]
    assert before["requests"] == after["requests"]


@few
@given(axes.scenarios())
def test_blocks_of_16_and_of_1_are_the_same_where_all_fits(document: Document) -> None:
    document = without_pool_faults(document)
    assume("kv" in document)
    enough = largest_total(document) + 20
    pools = [{"block_tokens": size, "blocks": enough * 16 // size} for size in (1, 16)]
    same = {"watermark_blocks": 0, "prefix_cache": False}
    ones, sixteens = (without_pool(run(changed(document, kv={**pool, **same}))) for pool in pools)
    assert ones == sixteens


@few
@given(axes.scenarios())
def test_a_pool_in_which_all_fits_is_no_pool(document: Document) -> None:
    document = without_pool_faults(document)
    assume("kv" in document)
    assume(all(request.get("samples", 1) == 1 for request in document["workload"]["requests"]))
    enough = {"blocks": largest_total(document) + 20, "block_tokens": 1, "watermark_blocks": 0, "prefix_cache": False}
    pooled = changed(document, kv=enough)
    unpooled = {key: value for key, value in document.items() if key != "kv"}
    with_pool, without = run(pooled), run(unpooled)
    # with a pool, what a preemption might make it compute again counts too when a prefill may not be cut
    assume(with_pool.requests["status"].tolist() == without.requests["status"].tolist())
    assert without_pool(with_pool) == without_pool(without)


# --- names and time --------------------------------------------------------------------------------------------------


@few
@given(axes.scenarios())
def test_other_names_change_only_the_names(document: Document) -> None:
    names = [request["id"] for request in document["workload"]["requests"]]
    new = dict(zip(names, ["10", "9", "é", "z z", "A", '"', "\\n", "-1"], strict=False))
    renamed = copy.deepcopy(document)
    for request in renamed["workload"]["requests"]:
        request["id"] = new[request["id"]]
        if "parent" in request:
            request["parent"] = new[request["parent"]]
        if "prefix_group" in request:
            request["prefix_group"] = "another " + request["prefix_group"]
    expected = outcome(run(document))
    for row in expected["requests"]:
        row["id"] = new[row["id"]]
    for event in expected["events"]:
        for list_of_names in ("waiting", "running", "preempted"):
            event[list_of_names] = [new[name] for name in event[list_of_names]]
        for item in [*event["scheduled"], *event.get("swapped", ())]:
            item["id"] = new[item["id"]]
    assert outcome(run(renamed)) == expected


@few
@given(axes.scenarios())
def test_twice_the_times_and_costs_are_twice_the_times(document: Document) -> None:
    """Costs of whole ns, so that nothing is rounded."""
    document = copy.deepcopy(document)
    device = document.setdefault("device", {"job_ms": 0.25, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1})
    document["device"] = {name: 0.75 if 0 < cost < 1 else cost for name, cost in device.items()}
    document["faults"] = [
        {**fault, **({"factor": 3} if fault["kind"] == "slow" else {})} for fault in document.get("faults", ())
    ]
    doubled = copy.deepcopy(document)
    doubled["device"] = {name: 2 * cost for name, cost in document["device"].items()}
    if "kv" in doubled:
        doubled["kv"]["swap_ms_per_block"] = 2 * document["kv"].get("swap_ms_per_block", 0)
    for entry in [*doubled["workload"]["requests"], *doubled["faults"], doubled["run"]]:
        for key in entry.keys() & {"arrival_ms", "cancel_ms", "at_ms", "until_ms", "horizon_ms"}:
            entry[key] = 2 * entry[key]
    once, twice = run(document), run(doubled)
    for name, column in once.requests.items():
        factor = 2 if name.endswith("_ns") else 1
        # a mean is rounded to whole ns once
        slack = 1 if name == "tpot_ns" else 0
        for value, other in zip(column.tolist(), twice.requests[name].tolist(), strict=True):
            assert abs(other - (value if value == -1 else factor * value)) <= slack, name
    for name, column in once.jobs.items():
        factor = 2 if name.endswith("_ns") else 1
        assert (column * factor).tolist() == twice.jobs[name].tolist(), name
    assert _lists(once) == _lists(twice)


def _lists(result: Result) -> list[Any]:
    names = ("kind", "scheduled", "preempted", "waiting", "running", "freeBlocks")
    return [[event[name] for name in names] for event in outcome(result)["events"]]


# --- the future ------------------------------------------------------------------------------------------------------


@few
@given(axes.scenarios())
def test_a_request_after_all_is_done_changes_nothing_before(document: Document) -> None:
    document = changed(document, run={"horizon_ms": 10**9})
    before = run(document)
    done_ms = max((event["endMs"] for event in outcome(before)["events"]), default=0) + 10_000
    late = {"id": "late", "arrival_ms": done_ms, "prompt_tokens": 3, "output_tokens": 2, "priority": -9}
    after = run(changed(document, workload={"requests": [*document["workload"]["requests"], late]}))
    (*requests, _), events = outcome(after)["requests"], outcome(after)["events"]
    assert requests == outcome(before)["requests"]
    assert events[: len(before.jobs["kind"])] == outcome(before)["events"]


CHANGES: list[Callable[[Document], Document]] = [
    lambda request: {**request, "prompt_tokens": request["prompt_tokens"] + 5},
    lambda request: {**request, "output_tokens": 1},
    lambda request: {**request, "priority": -7},
    lambda request: {**request, "samples": 3},
    lambda request: {**request, "max_tokens": (request.get("max_tokens") or request["output_tokens"]) + 20},
    lambda request: {k: v for k, v in request.items() if k not in {"prefix_group", "prefix_tokens"}},
]


@settings(few, max_examples=120)
@given(axes.scenarios(), st.sampled_from(CHANGES))
def test_who_comes_later_changes_nothing_earlier(document: Document, change: Callable[[Document], Document]) -> None:
    requests = document["workload"]["requests"]
    place = max(range(len(requests)), key=lambda place: requests[place]["arrival_ms"])
    name, arrival_ms = requests[place]["id"], requests[place]["arrival_ms"]
    assume(not any(request.get("parent") == name for request in requests))
    other = [*requests[:place], change(requests[place]), *requests[place + 1 :]]
    one, another = (
        [event for event in outcome(run(d))["events"] if event["startMs"] < arrival_ms]
        for d in (document, changed(document, workload={"requests": other}))
    )
    assert one == another


@few
@given(axes.scenarios(), st.integers(1, 100))
def test_a_budget_beyond_all_that_is_asked_may_be_any(document: Document, more: int) -> None:
    enough = largest_total(document)
    one, another = (
        outcome(run(changed(document, scheduler={"token_budget": budget}))) for budget in (enough, enough + more)
    )
    assert one == another


# --- what may change -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "makespan_ms", "jobs"),
    [
        (8, 3.0, ["a5 b3", "a1 b1 c4", "b1 c1"]),
        # b's prompt is complete a job earlier, so b takes its second block, the last one, before c can come in
        (10, 4.0, ["a5 b4", "a1 b1", "c4", "c1"]),
    ],
)
def test_a_larger_budget_may_hurt(budget: int, makespan_ms: float, jobs: list[str]) -> None:
    """Four blocks of four tokens, every job takes 1 ms. A Graham anomaly: no test may say that more is better."""
    requests = [
        {"id": "a", "arrival_ms": 0, "prompt_tokens": 5, "output_tokens": 2},
        {"id": "b", "arrival_ms": 0, "prompt_tokens": 4, "output_tokens": 2},
        {"id": "c", "arrival_ms": 1, "prompt_tokens": 4, "output_tokens": 2},
    ]
    scenario = sim.load(
        {
            "schema": 1,
            "name": "graham",
            "workload": {"requests": requests},
            "device": UNIT,
            "kv": {"blocks": 4, "block_tokens": 4},
            "scheduler": {"policy": "vllm", "token_budget": budget},
        }
    )
    seen = outcome(sim.simulate(scenario, check=True))
    assert [" ".join(f"{i['id']}{i['tokens']}" for i in event["scheduled"]) for event in seen["events"]] == jobs
    assert seen["summary"]["makespanMs"] == makespan_ms


@pytest.mark.parametrize("policy", axes.POLICIES)
def test_one_slot_and_nothing_to_decode_keep_the_device_busy_in_the_same_intervals(policy: str) -> None:
    """Whatever the order of tokens in a prompt: service of 1 ms a token, one request at a time, first come first."""
    asked = [("a", 0, 5), ("b", 1, 2), ("c", 2, 3), ("d", 30, 4)]
    requests = [{"id": i, "arrival_ms": at, "prompt_tokens": p, "output_tokens": 1} for i, at, p in asked]
    document = {
        "schema": 1,
        "name": "single",
        "workload": {"requests": requests},
        "device": {"prefill_ms_per_token": 1},
        "scheduler": {"policy": policy, "max_running": 1},
    }
    seen = outcome(sim.simulate(sim.load(document), check=True))
    assert [row["finishMs"] for row in seen["requests"]] == [5, 7, 10, 34]
    assert sum(event["endMs"] - event["startMs"] for event in seen["events"]) == 14
