"""What the pool's slots were used for, against a plain recount: request by request, job by job, from the events."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st

import sim
from sim.errors import LimitError
from sim.policies.presets import PRESETS
from sim.policies.victims import VICTIMS
from sim.record.result import Result

KINDS = ("held", "reserved", "unused", "free", "withheld")


def usage_by_job(result: Result) -> list[tuple[int, ...]]:
    """Per job the slots of each kind."""
    usage = result.memory_usage()
    return list(zip(*(getattr(usage, f"{kind}_slots").tolist() for kind in KINDS), strict=True))


# --- by hand ---------------------------------------------------------------------------------------------------------


def run(requests: list[dict[str, Any]], kv: Mapping[str, Any], policy: str = "vllm", **tables: Any) -> Result:
    """On a device that takes 1 ms for every job, so that job k runs from k to k + 1 ms while there is work."""
    scheduler = {"policy": policy, **tables.pop("scheduler", {})}
    document = {"schema": 1, "name": "usage", "workload": {"requests": requests}, "device": {"job_ms": 1}, "kv": kv,
                "scheduler": scheduler, **tables}  # fmt: skip
    return sim.simulate(sim.load(document), check=True)


def request(id_: str, arrival_ms: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


def test_one_request_that_is_paged() -> None:
    # 3 tokens of the prompt and 3 of its 4 outputs are ever stored: 6 tokens, the second block keeps 2 slots unused
    result = run([request("A", 0, 3, 4)], {"blocks": 5, "block_tokens": 4})
    assert usage_by_job(result) == [(3, 1, 0, 16, 0), (4, 0, 0, 16, 0), (5, 1, 2, 12, 0), (6, 0, 2, 12, 0)]
    assert result.memory_usage().held_share == 18 / (4 + 4 + 8 + 8)


def test_one_request_that_declares_more_than_it_emits_and_has_a_region() -> None:
    # the region: 3 + 10 - 1 = 12 tokens, 3 blocks; 6 of the 12 slots are never used
    result = run([request("A", 0, 3, 4, max_tokens=10)], {"blocks": 5, "block_tokens": 4}, "orca")
    assert usage_by_job(result) == [(3, 3, 6, 8, 0), (4, 2, 6, 8, 0), (5, 1, 6, 8, 0), (6, 0, 6, 8, 0)]
    assert result.memory_usage().held_share == 18 / 48


def test_slots_that_one_request_will_not_use_are_not_used_by_another() -> None:
    # A's block has 3 slots that stay empty while B's has 3 that fill up: they are of two kinds
    result = run([request("A", 0, 1, 1), request("B", 0, 1, 4)], {"blocks": 2, "block_tokens": 4})
    assert usage_by_job(result) == [(2, 3, 3, 0, 0), (2, 2, 0, 4, 0), (3, 1, 0, 4, 0), (4, 0, 0, 4, 0)]


def test_a_preempted_request_holds_nothing_until_it_is_back() -> None:
    # blocks of 4, 6 of them: at 5 ms A takes the block of its 13th token and B, with 12 tokens, loses its three
    result = run([request("A", 0, 8, 9), request("B", 0, 8, 9)], {"blocks": 6, "block_tokens": 4})
    held = result.memory_usage().held_slots.tolist()
    assert held == [16, 18, 20, 22, 24, 13, 14, 15, 16, 13, 14, 15, 16]
    assert [row[1:3] for row in usage_by_job(result)][4:6] == [(0, 0), (3, 0)]


def test_who_is_cancelled_while_it_waits_for_its_second_turn_held_what_it_held() -> None:
    # as above, but B gives up at 6 ms: in its only stay it came to hold 12 tokens
    requests = [request("A", 0, 8, 9), request("B", 0, 8, 9, cancel_ms=6)]
    result = run(requests, {"blocks": 6, "block_tokens": 4})
    assert usage_by_job(result)[:2] == [(16, 0, 0, 8, 0), (18, 6, 0, 0, 0)]


def test_who_comes_back_from_the_host_brings_its_tokens_and_has_blocks_for_all_that_is_known_of_it() -> None:
    # at 5 ms A, with 8 tokens, finds no third block and goes to the host; B's second chunk is job 6. In job 7 A is
    # copied back, in 3 blocks for its 8 tokens and the one that it emitted last; it will hold 11
    requests = [request("A", 0, 4, 8, priority=1), request("B", 4, 8, 1)]
    kv = {"blocks": 3, "block_tokens": 4, "gate": "chunk", "preemption": "swap", "swap_blocks": 2,
          "victim": "lowest-priority"}  # fmt: skip
    result = run(requests, kv, scheduler={"long_prefill_tokens": 4})
    assert usage_by_job(result) == [
        (4, 0, 0, 8, 0),
        (5, 3, 0, 4, 0),
        (6, 2, 0, 4, 0),
        (7, 1, 0, 4, 0),
        (12, 0, 0, 0, 0),
        (4, 4, 0, 4, 0),  # A goes out; the block of B's second chunk is taken
        (8, 0, 0, 4, 0),
        (8, 3, 1, 0, 0),  # A comes in
        (9, 2, 1, 0, 0),
        (10, 1, 1, 0, 0),
        (11, 0, 1, 0, 0),
    ]


def test_whom_a_static_batch_admits_has_its_blocks_before_its_work() -> None:
    result = run([request("A", 0, 4, 1), request("B", 0, 5, 1)], {"blocks": 4, "block_tokens": 4}, "static")
    assert usage_by_job(result) == [(4, 5, 3, 4, 0), (5, 0, 3, 8, 0)]  # B's 3 last slots are never used


def test_withheld_blocks_are_neither_free_nor_taken() -> None:
    fault = {"kind": "pool", "at_ms": 1, "until_ms": 3, "blocks": 2}
    result = run([request("A", 0, 3, 4)], {"blocks": 5, "block_tokens": 4}, faults=[fault])
    assert [row[3:] for row in usage_by_job(result)] == [(16, 0), (8, 8), (4, 8), (12, 0)]


def test_free_slots_in_holes_that_are_too_small_are_external_fragmentation() -> None:
    # regions of 2, 3 and 2 blocks; when A and C have gone, D's 3 blocks fit into the 4 that are free, but into no hole
    requests = [request("A", 0, 2, 1), request("B", 0, 2, 2), request("C", 0, 2, 1), request("D", 1, 3, 1)]
    result = run(requests, {"blocks": 7, "block_tokens": 1}, "orca")
    assert result.memory_usage().external.tolist() == [False, True, False]
    assert result.memory_usage().free_slots.tolist() == [0, 4, 4]


def test_the_kinds_of_a_run_without_a_pool_or_with_shared_blocks_are_refused() -> None:
    document = {"schema": 1, "name": "none", "workload": {"requests": [request("A", 0, 3, 4)]}}
    with pytest.raises(ValueError, match="no pool"):
        sim.simulate(sim.load(document)).memory_usage()
    with pytest.raises(ValueError, match="share blocks"):
        run([request("A", 0, 3, 4)], {"blocks": 5, "prefix_cache": True}).memory_usage()
    with pytest.raises(ValueError, match="share blocks"):
        run([request("A", 0, 3, 4, samples=2)], {"blocks": 5}).memory_usage()


# --- against a recount, on whatever scenario -------------------------------------------------------------------------


@dataclass
class Stay:
    """A request's time in the pool. ``asked``: for how many tokens it took blocks when it began."""

    asked: int
    final: int = 0


class Walk:
    """Through the events of a run: who is in the pool, and how many tokens each has computed."""

    def __init__(self, result: Result) -> None:
        self.run = result.to_dict()["runs"][0]
        self._rules = self.run["settings"]
        self._specs = {spec.id: spec for spec in result.record.workload.specs()}
        self._computed: Counter[str] = Counter()
        self._emitted: Counter[str] = Counter()
        self._on_host: dict[str, int] = {}
        self._stays: dict[str, Stay] = {}

    def stays(self) -> list[list[tuple[Stay, int]]]:
        """Per event, everybody's stay and the tokens it holds then."""
        return [self._move(event) for event in self.run["events"]]

    def _move(self, event: Mapping[str, Any]) -> list[tuple[Stay, int]]:
        out = {copy["id"] for copy in event.get("swapped", ()) if copy["direction"] == "out"}
        for id_ in event["preempted"]:
            del self._stays[id_]
            if id_ in out:
                self._on_host[id_] = self._computed[id_]
            self._computed[id_] = 0
        self._stays = {id_: stay for id_, stay in self._stays.items() if id_ in event["running"]}
        for id_ in event["running"]:
            if id_ not in self._stays:
                self._stays[id_] = self._begin(id_)
        for entry in event["scheduled"]:
            id_ = entry["id"]
            self._computed[id_] += entry["tokens"]
            self._emitted[id_] += self._computed[id_] == self._known(id_)
        for id_, stay in self._stays.items():
            stay.final = self._computed[id_]
        return [(stay, self._computed[id_]) for id_, stay in self._stays.items()]

    def _begin(self, id_: str) -> Stay:
        back = id_ in self._on_host
        self._computed[id_] = self._on_host.pop(id_, 0)
        if self._rules["kv.gate"] == "reserve" or self._rules["kv.allocation"] == "contiguous":
            spec, longest = self._specs[id_], self._rules["scheduler.max_model_tokens"]
            most = min(spec.max_tokens, longest - spec.prompt_tokens) if longest else spec.max_tokens
            return Stay(spec.prompt_tokens + most - 1)
        whole = back or self._rules["scheduler.batching"] == "static"
        return Stay(self._known(id_) if whole else 0)

    def _known(self, id_: str) -> int:
        return self._specs[id_].prompt_tokens + self._emitted[id_]


def recount(result: Result) -> list[tuple[int, ...]]:
    """The kinds per job, from the events of the JSON and the rules, one request at a time."""
    walk = Walk(result)
    rules = walk.run["settings"]
    block = rules["kv.block_tokens"]
    kinds: list[tuple[int, ...]] = []
    withheld = result.jobs["withheld_blocks"].tolist()
    for job, stays, kept in zip(walk.run["events"], walk.stays(), withheld, strict=True):
        held = sum(tokens for _, tokens in stays)
        slots = [max(-(-stay.asked // block), -(-tokens // block)) * block for stay, tokens in stays]
        unused = sum(max(taken - stay.final, 0) for taken, (stay, _) in zip(slots, stays, strict=True))
        taken = (rules["kv.blocks"] - kept - job["freeBlocks"]) * block
        if job["kind"] == "swap":  # the blocks for the job behind it are taken already
            assert sum(slots) <= taken
        else:
            assert sum(slots) == taken
        kinds.append((held, taken - held - unused, unused, job["freeBlocks"] * block, kept * block))
    return kinds


whole = st.integers


@st.composite
def requests_(draw: st.DrawFn, number: int) -> dict[str, Any]:
    output = draw(whole(1, 10))
    made = request(f"r{number}", draw(whole(0, 4)), draw(whole(1, 20)), output,
                   max_tokens=output + draw(whole(0, 8)), priority=draw(whole(0, 2)))  # fmt: skip
    if draw(whole(0, 3)) == 0:
        made["cancel_ms"] = draw(whole(0, 20)) + draw(st.sampled_from([0, 0.5]))
    return made


@st.composite
def pools(draw: st.DrawFn, requests: list[dict[str, Any]]) -> dict[str, Any]:
    """Hardly larger than what one of the requests needs, so that they are in want of it."""
    block = draw(whole(1, 5))
    longest = max(-(-(each["prompt_tokens"] + each["output_tokens"] - 1) // block) for each in requests)
    kv: dict[str, Any] = {"blocks": longest + draw(whole(0, 4)), "block_tokens": block}
    kv["victim"] = draw(st.sampled_from(["auto", *VICTIMS]))
    kv["watermark_blocks"] = draw(whole(0, min(longest - 1, 2)))
    for key, values in {"allocation": ["paged", "contiguous"], "gate": ["full", "chunk", "reserve"]}.items():
        if draw(st.booleans()):
            kv[key] = draw(st.sampled_from(values))
    if draw(st.booleans()):
        kv |= {"preemption": "swap", "swap_blocks": draw(whole(0, 2 * longest)), "swap_ms_per_block": draw(whole(0, 1))}
    return kv


@st.composite
def schedulers(draw: st.DrawFn) -> dict[str, Any]:
    scheduler: dict[str, Any] = {"policy": draw(st.sampled_from(sorted(PRESETS)))}
    scheduler["order"] = draw(st.sampled_from(["fcfs", "priority"]))
    bounds = {"token_budget": 16, "max_running": 5, "max_model_tokens": 25}
    preset = PRESETS[scheduler["policy"]].axes
    if preset.composition.startswith("mixed") and preset.chunked_prefill:
        bounds["long_prefill_tokens"] = 6
    for key, most in bounds.items():
        if draw(st.booleans()):
            scheduler[key] = draw(whole(2, most))
    if draw(whole(0, 3)) == 0:
        scheduler["batching"] = "static"
    return scheduler


@st.composite
def faults_(draw: st.DrawFn) -> dict[str, Any]:
    at_ms = draw(whole(0, 15)) + draw(st.sampled_from([0, 0.5]))
    if draw(st.booleans()):
        return {"kind": "crash", "at_ms": at_ms}
    return {"kind": "pool", "at_ms": at_ms, "until_ms": at_ms + draw(whole(1, 9)), "blocks": draw(whole(1, 6))}


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Small ones over all the axes that bear on memory, but for shared blocks."""
    requests = [draw(requests_(number)) for number in range(draw(whole(2, 6)))]
    horizon = {"horizon_ms": draw(whole(1, 25))} if draw(whole(0, 4)) == 0 else {}
    return {
        "schema": 1,
        "name": "any",
        "workload": {"requests": requests},
        "device": {"job_ms": 1},
        "kv": draw(pools(requests)),
        "scheduler": draw(schedulers()),
        "faults": draw(st.lists(faults_(), max_size=2)),
        "run": {"max_jobs": 1000, **horizon},
    }


def check(document: dict[str, Any]) -> Result:
    try:
        result = sim.simulate(sim.load(document), check=True)
    except LimitError:  # with gate chunk, some victim rules take turns for ever (docs/policies.md)
        reject()
    found = usage_by_job(result)
    assert found == recount(result)
    slots = result.settings["kv.blocks"] * result.settings["kv.block_tokens"]
    assert all(min(kinds) >= 0 and sum(kinds) == slots for kinds in found)
    return result


@given(scenarios())
@settings(max_examples=300)
def test_any_scenario_as_a_recount_has_it(document: dict[str, Any]) -> None:
    result = check(document)
    event(f"preempted: {result.summary.preemptions > 0}")
    event(f"swapped: {len(result.record.copies['job']) > 0}")


@pytest.mark.stress
@given(scenarios())
@settings(max_examples=20_000)
def test_many_scenarios_as_a_recount_has_them(document: dict[str, Any]) -> None:
    check(document)
