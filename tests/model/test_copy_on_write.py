"""Several samples over one prompt, and regions of one address space: what they take, measured from the free blocks.

A group of n samples shares the full blocks of its prompt by count; the partial block is copied by whoever writes while
others still hold it (PagedAttention, SOSP '23, section 4.4).
"""

from math import ceil
from typing import Any

import pytest

import sim
from sim.record.result import Result

BLOCKS = 500


def request(name: str, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "prompt_tokens": prompt, "output_tokens": output, **more}


def run(*requests: dict[str, Any], kv: dict[str, Any], **scheduler: Any) -> Result:
    document = {
        "schema": 1,
        "name": "groups",
        "workload": {"requests": list(requests)},
        "device": {"job_ms": 1},
        "kv": {"block_tokens": 1, **kv},
        "scheduler": {"policy": "vllm", **scheduler},
    }
    return sim.simulate(sim.load(document), check=True)


def events(result: Result) -> list[dict[str, Any]]:
    (only,) = result.to_dict()["runs"]
    seen: list[dict[str, Any]] = only["events"]
    return seen


def row(result: Result, place: int = 0) -> dict[str, Any]:
    (only,) = result.to_dict()["runs"]
    seen: dict[str, Any] = only["requests"][place]
    return seen


def lines(result: Result) -> list[str]:
    """Each job: who is scheduled with how many tokens, who was preempted for it, how many blocks are then free."""
    return [
        " ".join(f"{item['id']}{item['tokens']}" for item in event["scheduled"])
        + "".join(f" -{name}" for name in event["preempted"])
        + f" | {event['freeBlocks']}"
        for event in events(result)
    ]


# --- samples ---------------------------------------------------------------------------------------------------------

SHAPES = [(p, o, n, b) for p in (1, 4, 5, 7, 8, 16) for o in (1, 2, 3, 9) for n in (1, 2, 3, 5) for b in (1, 3, 4, 16)]


@pytest.mark.parametrize("prefix_cache", [False, True])
def test_a_group_takes_the_shared_blocks_once_and_the_others_per_sample(prefix_cache: bool) -> None:
    """floor(P/b) + n (ceil((P + O - 1)/b) - floor(P/b)) for O >= 2; ceil(P/b) for O = 1, which nobody writes behind."""
    for prompt, output, samples, size in SHAPES:
        result = run(
            request("g", prompt, output, samples=samples),
            kv={"blocks": BLOCKS, "block_tokens": size, "prefix_cache": prefix_cache},
        )
        shared = prompt // size
        peak = shared + samples * (ceil((prompt + output - 1) / size) - shared) if output > 1 else ceil(prompt / size)
        taken = BLOCKS - min(event["freeBlocks"] for event in events(result))
        assert taken == peak, (prompt, output, samples, size)


def test_a_group_emits_all_its_samples_and_computes_its_prompt_once() -> None:
    for prompt, output, samples, size in SHAPES:
        result = run(request("g", prompt, output, samples=samples), kv={"blocks": BLOCKS, "block_tokens": size})
        scheduled = sum(item["tokens"] for event in events(result) for item in event["scheduled"])
        assert row(result)["emittedTokens"] == samples * output
        assert len(row(result)["tokenTimesMs"]) == output
        assert scheduled == prompt + samples * (output - 1)


def test_the_pool_that_just_holds_the_peak_serves_it_and_one_block_less_rejects_it() -> None:
    """P 5, O 4, n 3, blocks of 4: one full block is shared, and each sample has ceil(8/4) - 1 = 1 more: 4 blocks."""
    asked = request("g", 5, 4, samples=3)
    assert lines(run(asked, kv={"blocks": 4, "block_tokens": 4})) == ["g5 | 2", "g3 | 0", "g3 | 0", "g3 | 0"]
    rejected = row(run(asked, kv={"blocks": 3, "block_tokens": 4}))
    assert rejected["status"] == "rejected"
    assert rejected["reason"] == "needs 4 of 3 blocks: 5 + 3 * (4 - 1) = 14 tokens, 4 a block"


def test_the_copies_are_made_when_the_samples_first_write() -> None:
    """P 2, O 3, n 3, blocks of 4: the prompt's half-full block is the last writer's own, two copies are made of it."""
    result = run(request("g", 2, 3, samples=3), kv={"blocks": 10, "block_tokens": 4})
    assert lines(result) == ["g2 | 9", "g3 | 7", "g3 | 7"]


def test_a_group_is_preempted_as_one_and_computes_all_that_it_emitted_again() -> None:
    """Nine blocks of one token. a(P2, O7) and, behind it, g(P2, O3, n 2).

    ::

        job  scheduled  held: a g   free
        0    a2 g2            2 2   5
        1    a1 g2            3 4   2     g has emitted 2 * 2 tokens
        2    a1, and g needs 6 blocks, 5 are left: g goes, with its 2 + 2 computed tokens
        3    a1 and so on until a is done with 2 + 7 - 1 = 8 blocks; g wants 2 + 4 = 6 at once, and waits
        7    g6 (its prompt, and what both samples emitted), and emits the third of each
    """
    result = run(request("a", 2, 7), request("g", 2, 3, samples=2), kv={"blocks": 9})
    assert lines(result) == [
        "a2 g2 | 5",
        "a1 g2 | 2",
        "a1 -g | 5",
        "a1 | 4",
        "a1 | 3",
        "a1 | 2",
        "a1 | 1",
        "g6 | 3",
    ]
    group = row(result, 1)
    assert (group["preemptions"], group["recomputedTokens"], group["emittedTokens"]) == (1, 4, 6)
    assert group["tokenTimesMs"] == [1, 2, 8]
    assert (group["ttftMs"], group["maxItlMs"]) == (1, 6)


def test_a_group_swapped_out_comes_back_as_one() -> None:
    """The same with room on the host: four blocks go out, and come back into six (the newest tokens' included)."""
    result = run(
        request("a", 2, 7),
        request("g", 2, 3, samples=2),
        kv={"blocks": 9, "preemption": "swap", "swap_blocks": 4},
    )
    copies = [(event["job"], event["swapped"]) for event in events(result) if event["kind"] == "swap"]
    assert copies == [
        (2, [{"id": "g", "blocks": 4, "direction": "out"}]),
        (8, [{"id": "g", "blocks": 4, "direction": "in"}]),
    ]
    assert lines(result)[9] == "g2 | 3"
    assert row(result, 1)["recomputedTokens"] == 0


def test_a_group_takes_as_many_slots_as_samples() -> None:
    result = run(
        request("a", 1, 2, samples=3),
        request("b", 1, 1, samples=2),
        request("c", 1, 1),
        kv={"blocks": BLOCKS},
        max_running=4,
    )
    # b does not get in beside a, and c waits behind it although a slot is free
    assert [event["running"] for event in events(result)] == [["a"], ["a"], ["b", "c"]]


def test_a_decode_of_a_group_is_all_or_nothing_of_the_budget() -> None:
    """Budget 4: beside the three tokens of a no room is left for the two of b."""
    result = run(request("a", 1, 3, samples=3), request("b", 1, 2, samples=2), kv={"blocks": BLOCKS}, token_budget=4)
    assert [line.split(" | ")[0] for line in lines(result)] == ["a1 b1", "a3", "a3", "b2"]


def test_a_group_that_is_thrown_out_of_a_job_gives_all_its_tokens_back_to_the_budget() -> None:
    """Budget 3, eight blocks. In job 2 the group g takes two tokens, and the last two blocks; x needs one.

    g, the least urgent, goes. Of the budget two tokens are there again: x takes its one, and y behind it gets one too.
    """
    result = run(
        request("g", 1, 4, samples=2, priority=1),
        request("x", 1, 3),
        request("y", 1, 2),
        kv={"blocks": 8, "victim": "lowest-priority"},
        token_budget=3,
    )
    assert lines(result)[:3] == ["g1 x1 y1 | 5", "g2 x1 | 2", "x1 y1 -g | 3"]


# --- regions ---------------------------------------------------------------------------------------------------------

REGIONS = {"allocation": "contiguous", "block_tokens": 1}


def test_a_region_is_all_that_was_declared_from_the_first_job_on() -> None:
    """ceil((3 + 9 - 1) / 4) = 3 blocks, whatever it emits."""
    result = run(request("a", 3, 2, max_tokens=9), kv={"blocks": 10, **REGIONS, "block_tokens": 4})
    assert lines(result) == ["a3 | 7", "a1 | 7"]


def test_first_fit_takes_the_first_hole_that_is_large_enough() -> None:
    """Eleven blocks: a 0-2, b 3-4, c 5-8, d 9-10. a and c end first; then e fits where a was, f where c was.

    Had e (3 blocks) been given the last hole that fits, or the largest, f (4 blocks) would have had to wait.
    """
    result = run(
        request("a", 3, 1),
        request("b", 1, 2),
        request("c", 4, 1),
        request("d", 1, 2),
        request("e", 3, 1, arrival_ms=1),
        request("f", 4, 1, arrival_ms=1),
        kv={"blocks": 11, **REGIONS},
    )
    assert lines(result) == ["a3 b1 c4 d1 | 0", "b1 d1 e3 f4 | 0"]


def test_free_blocks_in_no_hole_that_is_large_enough_keep_the_head_out() -> None:
    """Nine blocks: a 0-2, b 3-5, c 6-8. When a and c have ended, six are free and e wants four: three and three.

    e gets in when b ends. With paged allocation it would not have waited.
    """
    requests = [
        request("a", 3, 1, max_tokens=1),
        request("b", 1, 3),
        request("c", 3, 1),
        request("e", 4, 1, arrival_ms=1),
    ]
    fragmented = run(*requests, kv={"blocks": 9, **REGIONS})
    assert lines(fragmented) == ["a3 b1 c3 | 0", "b1 | 6", "b1 | 6", "e4 | 5"]
    paged = run(*requests, kv={"blocks": 9, "gate": "reserve", "allocation": "paged"})
    assert lines(paged) == ["a3 b1 c3 | 0", "b1 e4 | 2", "b1 | 6"]


def test_holes_side_by_side_are_one_hole() -> None:
    """a 0-1, b 2-3, c 4-5: a and b end together and leave four blocks for d."""
    result = run(
        request("a", 2, 1),
        request("b", 2, 1),
        request("c", 1, 2),
        request("d", 4, 1, arrival_ms=1),
        kv={"blocks": 6, **REGIONS},
    )
    assert lines(result) == ["a2 b2 c1 | 0", "c1 d4 | 0"]


def test_nobody_in_a_region_is_ever_preempted_for_blocks() -> None:
    result = run(*(request(name, 2, 6) for name in "abcd"), kv={"blocks": 15, **REGIONS})
    assert result.summary.preemptions == 0
    assert events(result)[0]["running"] == ["a", "b"]


def test_the_kinds_of_memory_use_sum_to_the_pool_at_every_instant() -> None:
    """Twelve blocks of two tokens. a declares 9 and emits 4: a region of ceil(11 / 2) = 6 blocks, of which it uses 6.

    ::

        job  held        reserved  never used  free
        0    a 3 b 2     a 3 b 1   a 6 b 1     8
        1    a 4 b 3 c 5 a 2       a 6 b 1 c 1 2
        2    a 5         a 1       a 6         12
        3    a 6                   a 6         12
    """
    result = run(
        request("a", 3, 4, max_tokens=9),
        request("b", 2, 2),
        request("c", 5, 1, arrival_ms=1),
        kv={"blocks": 12, "block_tokens": 2, "allocation": "contiguous"},
    )
    usage = result.memory_usage()
    assert usage.held_slots.tolist() == [5, 12, 5, 6]
    assert usage.reserved_slots.tolist() == [4, 2, 1, 0]
    assert usage.unused_slots.tolist() == [7, 8, 6, 6]
    assert usage.free_slots.tolist() == [8, 2, 12, 12]
    kinds = (usage.held_slots, usage.reserved_slots, usage.unused_slots, usage.free_slots, usage.withheld_slots)
    assert [sum(slots) for slots in zip(*(kind.tolist() for kind in kinds), strict=True)] == [24] * 4
