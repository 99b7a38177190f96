"""Every order on six requests, worked out by hand; and what public reports say of orders, as small inputs.

One slot, and every job takes 1 ms: a request takes as many ms as it emits tokens, and nothing overlaps. Where nobody
makes way, ``a`` runs until 6 ms and finds all others waiting.
"""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.analysis.verify import verify
from sim.record.result import Result

Document = dict[str, Any]


def request(id_: str, arrival_ms: float, tokens: tuple[int, int], **more: Any) -> Document:
    """``tokens``: of prompt and output."""
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": tokens[0], "output_tokens": tokens[1], **more}


SIX = [
    request("a", 0, (4, 6), priority=3, tenant="x", deadline_ms=40),
    request("b", 1, (8, 2), priority=1, tenant="x", deadline_ms=30),
    request("c", 2, (2, 3), priority=2, tenant="y", deadline_ms=20),
    request("d", 3, (1, 1), priority=5, tenant="x"),
    request("e", 4, (3, 9), priority=0, tenant="y", deadline_ms=25),
    request("f", 5, (5, 1), priority=1, tenant="z", deadline_ms=100),
]
MS = 10**6


def run(requests: list[Document], *, kv: Document | None = None, **scheduler: Any) -> Result:
    """One slot, 1 ms a job, unless ``scheduler`` says otherwise."""
    document: Document = {
        "schema": 1, "name": "orders", "workload": {"requests": requests}, "device": {"job_ms": 1},
        "scheduler": {"policy": "vllm", "max_running": 1, **scheduler},
    }  # fmt: skip
    return sim.simulate(sim.load(document if kv is None else document | {"kv": kv}), check=True)


def starts(result: Result) -> str:
    """The requests in the order of their first tokens."""
    ids, times = result.record.workload.all_ids(), result.requests["first_token_ns"]
    return "".join(id_ for _, id_ in sorted(zip(times.tolist(), ids, strict=True)))


def finishes(result: Result) -> dict[str, float]:
    """When each is done, in ms."""
    return dict(zip(result.record.workload.all_ids(), (result.requests["finish_ns"] / MS).tolist(), strict=True))


@pytest.mark.parametrize(
    ("order", "settings", "expected"),
    [
        ("fcfs", {}, "abcdef"),
        ("lifo", {}, "afedcb"),
        ("priority", {}, "aebfcd"),  # e 0; b and f 1, b came first; c 2; d 5
        ("sjf", {}, "adcfbe"),  # tokens of both: d 2, c 5, f 6, b 10, e 12
        ("srpt", {}, "adcfbe"),  # who waits has all to do: as sjf
        ("edf", {}, "acebfd"),  # c 20, e 25, b 30, f 100; d has none
        # the deadline less the jobs to do: e 25 - 9, c 20 - 3, b 30 - 2, f 100 - 1; d has none
        ("least-slack", {}, "aecbfd"),
        # wait/size: at 6 d 3/2, c 4/5, b 5/10, f 1/6, e 2/12; at 7 c 5/5 and b 6/10 lead; at 10 b 9/10, f 5/6, e 6/12;
        # at 12 f 7/6, e 8/12
        ("hrrn", {}, "adcbfe"),
        # quanta 2, 4, 8: c (2 prompt tokens) and d (1) join level 0, e (3) level 1, b (8) and f (5) level 2
        ("mlfq", {"mlfq_quantum_tokens": 2, "mlfq_levels": 3}, "acdebf"),
        # x is charged 4 for a and 2 a token: 8 at 2, when y comes and is lifted to it; z is lifted to y at 5. At 6
        # x 16, y 8, z 8: c. At 9 y 8 + 2 + 6: f. At 10 x 16, y 16: b came first. At 12 x 28: e; then d.
        ("vtc", {}, "acfbed"),
        # quantum 8. x: 8 < b 10. y: 8, c 5, leaves 3 < e 12. z: 8, f 6, done. x: 16, b, leaves 6, d 2, done. y: 11,
        # 19: e
        ("drr", {"drr_quantum_tokens": 8}, "acfbde"),
        # with twice the share x has 16 at its first turn: b, then d with what is left
        ("drr", {"drr_quantum_tokens": 8, "weights": {"x": 2}}, "abdcfe"),
        # x counts half: at 6 x 8; y and z were lifted to 4 (x at 2: 8/2), so c; at 9 y 4 + 8: f; at 10 x 8: b; then
        # x is at 8 + 12/2 = 14 beside y 12: e
        ("vtc", {"weights": {"x": 2}}, "acfbed"),
    ],
)  # fmt: skip
def test_six_requests(order: str, settings: Document, expected: str) -> None:
    assert starts(run(SIX, order=order, **settings)) == expected


@pytest.mark.parametrize(
    ("order", "settings", "expected"),
    [
        # b (1) takes a's place at 1, e (0) takes c's at 4; then f 13-14, c 14-16, a 16-21, d
        ("priority", {}, {"b": 3, "e": 13, "f": 14, "c": 16, "a": 21, "d": 22}),
        # b takes a's place at 1, c takes b's at 2; then e 5-14, b 14-15, a 15-20, f, d
        ("edf", {}, {"c": 5, "e": 14, "b": 15, "a": 20, "f": 21, "d": 22}),
        # at 3 a has 3 tokens to go, d 2 in all: it goes first; a comes back with 4 + 3: c 5 before it, f 6 as well
        ("srpt", {}, {"d": 4, "c": 7, "f": 8, "a": 11, "b": 13, "e": 22}),
        # a sinks from level 1 to 2 with its first token; c (0) takes its place at 2 and sinks to 1, d (0) takes c's at
        # 3; c goes on before e (both 1), e before all on level 2, where nobody gives way: a, b, f
        ("mlfq", {"mlfq_quantum_tokens": 2, "mlfq_levels": 3}, {"d": 4, "c": 6, "e": 15, "a": 19, "b": 21, "f": 22}),
    ],
)  # fmt: skip
def test_six_requests_when_the_less_urgent_makes_way(
    order: str, settings: Document, expected: dict[str, float]
) -> None:
    result = run(SIX, order=order, preemptive=True, **settings)
    assert finishes(result) == expected
    assert result.summary.recomputed_tokens == result.requests["recomputed_tokens"].sum() > 0


def test_what_has_to_be_computed_again_does_not_count_for_srpt() -> None:
    """A (2, 10) has 4 tokens to go when B (2 in all) takes its place at 6; back, it is 2 + 4, and C is 3 + 4."""
    requests = [request("A", 0, (2, 10)), request("B", 6, (1, 1)), request("C", 6.5, (3, 4))]
    assert finishes(run(requests, order="srpt", preemptive=True)) == {"B": 7, "A": 11, "C": 15}


def test_a_level_of_mlfq_ends_with_its_quantum() -> None:
    """Quantum 2: with its first token A has had 1 + 1, and is on level 1 when B comes at 1, on level 0."""
    requests = [request("A", 0, (1, 5)), request("B", 1, (2, 1))]
    result = run(requests, order="mlfq", preemptive=True, mlfq_quantum_tokens=2, mlfq_levels=2)
    assert finishes(result) == {"B": 2, "A": 6}


def test_the_next_tenant_has_its_quantum_when_one_has_nobody_left() -> None:
    """Each has one request of 8 tokens, the quantum: x, then y, then z, as they came."""
    requests = [request(tenant, 0, (7, 1), tenant=tenant) for tenant in "xyz"]
    assert starts(run(requests, order="drr", drr_quantum_tokens=8)) == "xyz"


@pytest.mark.parametrize("order", ["lifo", "sjf", "hrrn", "least-slack", "vtc", "drr", "random", "fcfs"])
def test_other_orders_have_no_preemptive_form(order: str) -> None:
    assert finishes(run(SIX, order=order, preemptive=True)) == finishes(run(SIX, order=order))


def test_every_job_of_a_preemption() -> None:
    """priority, of a and b alone. a emits at 1; b comes then and is admitted for the job that begins at 1."""
    result = run(SIX[:2], order="priority", preemptive=True)
    assert [
        (e["startMs"], [(s["id"], s["tokens"], s["phase"]) for s in e["scheduled"]], e["preempted"], e["waiting"])
        for e in result.to_dict()["runs"][0]["events"]
    ] == [
        (0, [("a", 4, "prefill")], [], []),
        (1, [("b", 8, "prefill")], ["a"], ["a"]),
        (2, [("b", 1, "decode")], [], ["a"]),
        (3, [("a", 5, "prefill")], [], []),  # its prompt and the token that it emitted
        *[(time, [("a", 1, "decode")], [], []) for time in (4, 5, 6, 7)],
    ]


# --- public reports ---------------------------------------------------------------------------------------------------


def test_a7_who_makes_way_completes_once() -> None:
    """semantic-router 2890: A (10, 20, priority 5) runs; B (10, 3, priority 0) comes at 5 and takes its place.

    B emits at 6, 7, 8. A has emitted 5, computes 10 + 5 again and goes on at 9 … 23.
    """
    requests = [
        {"id": "A", "prompt_tokens": 10, "output_tokens": 20, "priority": 5},
        {"id": "B", "arrival_ms": 5, "prompt_tokens": 10, "output_tokens": 3, "priority": 0},
    ]
    result = run(requests, order="priority", preemptive=True)
    assert (result.token_times("B") / MS).tolist() == [6, 7, 8]
    assert (result.token_times("A") / MS).tolist() == [1, 2, 3, 4, 5, *range(9, 24)]
    assert result.requests["preemptions"].tolist() == [1, 0]
    assert result.requests["recomputed_tokens"].tolist() == [14, 0]  # 10 + 4 were computed: the last emitted was not


def jam() -> list[Document]:
    """A9: a long request at 0.5 s, among fifty short ones, one every 0.1 s, of which each takes 0.1 s."""
    long = {"id": "L", "arrival_ms": 500, "prompt_tokens": 100, "output_tokens": 1}
    short = [{"id": f"s{i:02}", "arrival_ms": 100 * i, "prompt_tokens": 10, "output_tokens": 1} for i in range(50)]
    return [long, *short]


def run_jam(**scheduler: Any) -> Result:
    document = {
        "schema": 1, "name": "jam", "workload": {"requests": jam()}, "device": {"prefill_ms_per_token": 10},
        "scheduler": {"policy": "vllm", "max_running": 1, **scheduler},
    }  # fmt: skip
    return sim.simulate(sim.load(document), check=True)


def test_a9_ties_are_exact() -> None:
    """Each short one ends just when the next comes, which is seen: the long one waits for all of them."""
    ttft = run_jam(order="sjf").requests["ttft_ns"] / MS
    assert ttft.tolist() == [5500, *[100] * 50]


@pytest.mark.parametrize("passes", [0, 1, 2, 10, 44])
def test_a28_a_bound_on_passes_ends_the_starvation(passes: int) -> None:
    """First come, first served it waits for nobody: 1 s. Each that may pass costs it 0.1 s."""
    assert run_jam(order="fcfs").requests["ttft_ns"][0] == 1000 * MS
    result = run_jam(order="sjf", ageing={"by": "passes", "value": passes})
    assert result.requests["ttft_ns"][0] == (1000 + 100 * passes) * MS


@pytest.mark.parametrize("wait_ms", [0, 1, 100, 150, 1000])
def test_a_bound_on_waiting_ends_the_starvation(wait_ms: int) -> None:
    """Who runs when the time has come ends first: every 100 ms somebody does."""
    result = run_jam(order="sjf", ageing={"by": "ms", "value": wait_ms})
    assert result.requests["ttft_ns"][0] == (1000 + -(-wait_ms // 100) * 100) * MS


def test_a10_one_instant_is_served_in_the_order_of_the_file() -> None:
    result = run([{"id": name, "prompt_tokens": 1, "output_tokens": 1} for name in "bac"])
    assert (result.requests["ttft_ns"] / MS).tolist() == [1, 2, 3]


def inversion(priority: int) -> list[Document]:
    return [
        {"id": "A", "prompt_tokens": 4, "output_tokens": 20, "priority": 10},
        {"id": "B", "arrival_ms": 5, "prompt_tokens": 4, "output_tokens": 3, "priority": priority},
    ]


@pytest.mark.parametrize(
    ("preemptive", "ttft_of_b", "done"), [(False, 16, {"A": 20, "B": 23}), (True, 1, {"A": 23, "B": 8})]
)
def test_a20_priority_inversion(preemptive: bool, ttft_of_b: int, done: dict[str, float]) -> None:
    result = run(inversion(0), order="priority", preemptive=preemptive)
    assert result.requests["ttft_ns"][1] == ttft_of_b * MS
    assert finishes(result) == done
    assert result.requests["preemptions"].tolist() == [int(preemptive), 0]


@pytest.mark.parametrize("policy", ["vllm", "vllm-v0", "sarathi", "fcfs", "chunked"])
def test_a20_equals_never_take_each_others_places(policy: str) -> None:
    result = run(inversion(10), order="priority", preemptive=True, policy=policy)
    assert result.requests["preemptions"].sum() == 0


def hot_and_cold() -> list[Document]:
    hot = [
        {"id": f"h{i:02}", "arrival_ms": i, "prompt_tokens": 80, "output_tokens": 1, "prefix_group": "hot",
         "prefix_tokens": 64} for i in range(50)
    ]  # fmt: skip
    return [*hot, {"id": "cold", "arrival_ms": 0.5, "prompt_tokens": 16, "output_tokens": 1}]


@pytest.mark.parametrize(
    ("scheduler", "ttft_ms"),
    [
        ({"order": "lpm"}, 50.5),  # every ms there comes another with 64 tokens in the cache: it waits 49.5
        ({"order": "fcfs"}, 1.5),
        ({"order": "lpm", "ageing": {"by": "passes", "value": 4}}, 5.5),  # h01 … h04 pass it, then it runs from 5 to 6
        ({"order": "lpm", "ageing": {"by": "passes", "value": 0}}, 1.5),
        ({"order": "lpm", "ageing": {"by": "ms", "value": 10}}, 11.5),  # waits from 0.5 on: overdue at 10.5, seen at 11
    ],
)
def test_a27_the_longest_prefix_starves_who_has_none(scheduler: Document, ttft_ms: float) -> None:
    result = run(hot_and_cold(), kv={"blocks": 64, "block_tokens": 16, "prefix_cache": True}, **scheduler)
    assert result.requests["ttft_ns"][-1] == ttft_ms * MS


def test_lpm_goes_by_what_is_cached_now() -> None:
    """p (3 blocks of its own) makes q, which shares 2 of them, better than r, which shares 1: though r came first."""
    requests = [
        {"id": "p", "prompt_tokens": 48, "output_tokens": 1},
        {"id": "n", "arrival_ms": 0.1, "prompt_tokens": 48, "output_tokens": 1},
        {"id": "r", "arrival_ms": 0.2, "prompt_tokens": 48, "output_tokens": 1, "parent": "p", "parent_tokens": 16},
        {"id": "q", "arrival_ms": 0.3, "prompt_tokens": 48, "output_tokens": 1, "parent": "p", "parent_tokens": 32},
    ]
    result = run(requests, kv={"blocks": 64, "block_tokens": 16, "prefix_cache": True}, order="lpm")
    assert starts(result) == "pqrn"
    assert result.requests["cached_tokens"].tolist() == [0, 0, 16, 32]


# --- preemption at a price -------------------------------------------------------------------------------------------


def test_as_few_make_way_as_will_do() -> None:
    """Twelve blocks, set aside: s has 5, v 4, w 2. u, more urgent than all, needs 4, and one is free.

    w is the least urgent, and its 2 are not enough; those of w and v are. But those of v alone would do, so w stays.
    """
    requests = [
        {"id": "s", "prompt_tokens": 3, "output_tokens": 3, "priority": 1},
        {"id": "v", "prompt_tokens": 3, "output_tokens": 2, "priority": 5},
        {"id": "w", "prompt_tokens": 1, "output_tokens": 2, "priority": 9},
        {"id": "u", "arrival_ms": 0.5, "prompt_tokens": 4, "output_tokens": 1, "priority": 0},
    ]
    kv = {"blocks": 12, "block_tokens": 1, "gate": "reserve"}
    result = run(requests, kv=kv, order="priority", preemptive=True, max_running=8)
    second = result.to_dict()["runs"][0]["events"][1]
    assert second["preempted"] == ["v"]
    assert [item["id"] for item in second["scheduled"]] == ["s", "w", "u"]


def test_who_was_swapped_out_for_somebody_comes_back_behind_the_more_urgent() -> None:
    """A makes way for B, and its block goes to the host. C, more urgent than A as well, is served before."""
    requests = [
        {"id": "A", "prompt_tokens": 4, "output_tokens": 6, "priority": 9},
        {"id": "B", "arrival_ms": 1, "prompt_tokens": 4, "output_tokens": 2, "priority": 1},
        {"id": "C", "arrival_ms": 2, "prompt_tokens": 4, "output_tokens": 2, "priority": 2},
    ]
    kv = {"blocks": 40, "block_tokens": 4, "preemption": "swap", "swap_blocks": 8}
    result = run(requests, kv=kv, order="priority", preemptive=True)
    assert starts(result) == "ABC"
    assert result.requests["preemptions"].tolist() == [1, 0, 0]
    assert result.requests["recomputed_tokens"].tolist() == [0, 0, 0]
    # A's block goes out in a job of 1 ms at 1; B from 2 to 4, C to 6, the block comes in until 7, five more tokens
    assert finishes(result) == {"A": 12, "B": 4, "C": 6}


def checked(document: Document, tmp_path: Path) -> Result:
    """A run of the lesson's device that a second statement of the rules agrees with."""
    result = sim.simulate(sim.load({"schema": 1, "name": "found", **document}), check=True)
    result.save(tmp_path / "found.json")
    assert list(verify(tmp_path / "found.json", decisions=True).lines())[-1].startswith("consistent")
    return result


def test_an_entry_of_an_earlier_stay_in_the_queue_counts_no_more(tmp_path: Path) -> None:
    """E is admitted as overdue, preempted, and comes back on a lower level: behind D, who was first by the old one."""
    tokens = {"A": (1, 1), "B": (16, 9), "C": (19, 2), "D": (15, 3), "E": (14, 4)}
    at = {"A": 3, "B": 0, "C": 0, "D": 2, "E": 1}
    requests = [request(name, at[name], tokens[name]) for name in tokens]
    scheduler = {"policy": "sarathi", "long_prefill_tokens": 3, "order": "mlfq", "mlfq_quantum_tokens": 1,
                 "ageing": {"by": "passes", "value": 1}}  # fmt: skip
    checked({"workload": {"requests": requests}, "kv": {"blocks": 3}, "scheduler": scheduler}, tmp_path)


@pytest.mark.parametrize(
    ("requests", "kv", "scheduler"),
    [
        (
            [request("A", 0, (1, 9)), request("B", 0, (1, 11), deadline_ms=0)],
            {"blocks": 12, "block_tokens": 1, "victim": "lowest-priority"},
            {"composition": "mixed-decode-first", "order": "edf"},
        ),
        (
            [request("A", 0, (1, 8)), request("B", 0, (4, 3))],
            {"blocks": 8, "block_tokens": 1, "victim": "longest-remaining"},
            {"composition": "mixed", "order": "mlfq", "mlfq_quantum_tokens": 1},
        ),
        (
            [request("A", 0, (1, 6)), request("B", 0, (4, 2), priority=1)],
            {"blocks": 3, "block_tokens": 2, "victim": "longest-remaining", "gate": "chunk", "watermark_blocks": 1},
            {"composition": "mixed", "order": "priority"},
        ),
    ],
)
def test_whoever_needs_blocks_does_not_get_them_of_the_more_urgent(
    requests: list[Document], kv: Document, scheduler: Document, tmp_path: Path
) -> None:
    """Or that one takes the place of who is left, and so on for ever: the rule chooses among the least urgent."""
    scheduler = {"long_prefill_tokens": 1, "preemptive": True, **scheduler}
    result = checked({"workload": {"requests": requests}, "kv": kv, "scheduler": scheduler}, tmp_path)
    assert (result.requests["status"] == 0).all()


@pytest.mark.parametrize("composition", ["mixed", "mixed-decode-first", "alternate", "prefill-first"])
@pytest.mark.parametrize("ageing", [{"by": "ms", "value": 3}, {"by": "passes", "value": 2}])
def test_who_was_overdue_keeps_its_place(composition: str, ageing: Document, tmp_path: Path) -> None:
    """A (8, 40) in an endless stream of more urgent ones, one every 2 ms: once it is overdue it runs to its end.

    It is so within the first 10 ms; then 2 jobs of prefill (or more, in chunks of 2), and 39 decodes, at most every
    other job one.
    """
    stream = [request(f"u{i}", 1 + 2 * i, (1, 2), priority=0) for i in range(200)]
    document = {
        "workload": {"requests": [request("A", 0, (8, 40), priority=5), *stream]}, "device": {"job_ms": 1},
        "scheduler": {"policy": "vllm", "max_running": 1, "token_budget": 8, "composition": composition,
                      "order": "priority", "preemptive": True, "ageing": ageing},
    }  # fmt: skip
    result = checked(document, tmp_path)
    assert finishes(result)["A"] <= 10 + 2 * (4 + 40)
    assert finishes(result)["A"] < 401, "it waited until the stream was over"


def test_outputs_of_several_samples_are_not_found_again(tmp_path: Path) -> None:
    """P's four samples emit tokens of their own: of P preempted, the cache holds its prompt and no more."""
    requests = [
        request("C", 0, (2, 1), parent="P", parent_tokens=2),
        request("P", 0, (1, 6), samples=4),
        request("D", 0, (1, 6), samples=2),
    ]
    kv = {"blocks": 28, "block_tokens": 1, "prefix_cache": True, "victim": "most-blocks"}
    result = checked({"workload": {"requests": requests}, "kv": kv}, tmp_path)
    assert result.requests["cached_on_resume_tokens"].max() <= 1
