"""The rules of vLLM's scheduler that its recorded runs isolate, each in a scenario small enough for a pencil.

Blocks of 4 tokens, a budget of 16 tokens, 4 slots, unless a test says otherwise. Every job takes 1 ms, so job n begins
at n ms. In a table, ``A:8p`` is eight prompt tokens of A (or of its recomputation), ``A:1d`` one decode; ``waiting``,
``running`` and ``free`` blocks are as they stand after scheduling; who is ``finished`` ends with the job. A column that
a table leaves out is empty in every row.

Two formulas explain most numbers. With T tokens computed after a job, a request holds ceil(T / 4) blocks. A job that
completes what is known of a request emits one token, whose own KV is computed by the next job.
"""

from typing import Any

import sim

COLUMNS = ("ms", "scheduled", "preempted", "waiting", "running", "free", "finished")

Run = dict[str, Any]


def ask(name: str, at_ms: int, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "arrival_ms": at_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


def simulate(
    *requests: dict[str, Any], kv: dict[str, Any], device: dict[str, Any] | None = None, **scheduler: Any
) -> Run:
    scenario = {
        "schema": 1,
        "name": "rule",
        "workload": {"requests": list(requests)},
        "device": device or {"job_ms": 1},
        "kv": {"block_tokens": 4, **kv},
        "scheduler": {"policy": "vllm", "token_budget": 16, "max_running": 4, **scheduler},
    }
    run: Run = sim.simulate(sim.load(scenario), check=True).to_dict()["runs"][0]
    return run


def timeline(run: Run) -> list[dict[str, str]]:
    """One row for each job, every cell a text."""
    finish_ms = {request["id"]: request["finishMs"] for request in run["requests"]}
    return [
        {
            "ms": f"{event['startMs']:g}",
            "scheduled": " ".join(f"{item['id']}:{item['tokens']}{item['phase'][0]}" for item in event["scheduled"]),
            "preempted": " ".join(event["preempted"]),
            "waiting": " ".join(event["waiting"]),
            "running": " ".join(event["running"]),
            "free": str(event["freeBlocks"]),
            "finished": " ".join(i["id"] for i in event["scheduled"] if finish_ms[i["id"]] == event["endMs"]),
        }
        for event in run["events"]
    ]


def table(text: str) -> list[dict[str, str]]:
    """A table as written in a test: cells between bars, the first line naming the columns."""
    header, *lines = ([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())
    assert set(header) <= set(COLUMNS)
    return [dict.fromkeys(COLUMNS, "") | dict(zip(header, cells, strict=True)) for cells in lines]


def cached(run: Run) -> dict[str, tuple[int, int]]:
    """Tokens that each request did not compute: at its first admission, and at later ones."""
    return {r["id"]: (r["cachedTokens"], r["cachedOnResumeTokens"]) for r in run["requests"]}


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_a_prompt_of_whole_blocks_takes_the_next_one_with_its_first_decode() -> None:
    # 8 tokens are 2 blocks: 16 - 2 = 14 free. The token emitted at 1 ms has no slot yet; the decode that begins then
    # computes it: 9 tokens, 3 blocks. The last output token never gets a slot: 8 + 3 - 1 = 10 tokens are the most.
    run = simulate(ask("A", 0, 8, 3), kv={"blocks": 16})
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:8p      | A       | 14   |
        1  | A:1d      | A       | 13   |
        2  | A:1d      | A       | 13   | A
    """)


def test_the_last_token_needs_no_slot() -> None:
    # 8 + 1 tokens in a pool of 2 blocks of 4: the peak is 8 + 1 - 1 = 8 tokens.
    run = simulate(ask("A", 0, 8, 1), kv={"blocks": 2})
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:8p      | A       | 0    | A
    """)


def test_outputs_of_one_token_finish_in_the_job_that_ends_their_prefill() -> None:
    # ceil(5/4) + ceil(4/4) + ceil(1/4) = 4 blocks of 16.
    run = simulate(ask("A", 0, 5, 1), ask("B", 0, 4, 1), ask("C", 0, 1, 1), kv={"blocks": 16})
    assert timeline(run) == table("""
        ms | scheduled      | running | free | finished
        0  | A:5p B:4p C:1p | A B C   | 12   | A B C
    """)


def test_the_length_of_the_model_ends_an_output_early() -> None:
    # 12 + 10 tokens, but the model has 16: 4 tokens are emitted (jobs 0 to 3), and the reason says so.
    run = simulate(ask("A", 0, 12, 10), kv={"blocks": 16}, max_model_tokens=16)
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:12p     | A       | 13   |
        1  | A:1d      | A       | 12   |
        2  | A:1d      | A       | 12   |
        3  | A:1d      | A       | 12   | A
    """)
    (request,) = run["requests"]
    assert (request["emittedTokens"], request["outputTokens"], request["finishReason"]) == (4, 10, "length")


def test_who_can_never_be_served_is_rejected_on_arrival_and_the_rest_goes_on() -> None:
    # A would need ceil((6 + 12 - 1) / 4) = 5 blocks of 3. vLLM's own scheduler admits it, preempts it when the pool is
    # full, and then stands still with A at the head of its queue.
    run = simulate(ask("A", 0, 6, 12), ask("B", 0, 2, 2), kv={"blocks": 3})
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | B:2p      | B       | 2    |
        1  | B:1d      | B       | 2    | B
    """)
    assert run["requests"][0]["status"] == "rejected"
    assert run["requests"][0]["reason"] == "needs 5 of 3 blocks: 6 + 12 - 1 = 17 tokens, 4 a block"


# --- the budget and the order -----------------------------------------------------------------------------------------


def test_a_prefill_takes_all_that_is_left_of_the_budget() -> None:
    # Job 0: 16 = 15 of A + 1 of B's 9; nothing is left for C. Job 1: the running first, 1 of A and 8 of B, then C.
    run = simulate(ask("A", 0, 15, 2), ask("B", 0, 9, 2), ask("C", 0, 3, 1), kv={"blocks": 16})
    assert timeline(run) == table("""
        ms | scheduled      | waiting | running | free | finished
        0  | A:15p B:1p     | C       | A B     | 11   |
        1  | A:1d B:8p C:3p |         | A B C   | 8    | A C
        2  | B:1d           |         | B       | 13   | B
    """)


def test_who_runs_goes_before_who_waits() -> None:
    # Job 1: the decodes of A and B take 2 of 16, C's prompt the 14 that are left. Job 2: the same, C has 6 to go, and
    # the 8 that are left admit D.
    run = simulate(ask("A", 0, 6, 4), ask("B", 0, 6, 4), ask("C", 1, 20, 2), ask("D", 1, 9, 2), kv={"blocks": 40})
    assert timeline(run) == table("""
        ms | scheduled           | waiting | running | free | finished
        0  | A:6p B:6p           |         | A B     | 36   |
        1  | A:1d B:1d C:14p     | D       | A B C   | 32   |
        2  | A:1d B:1d C:6p D:8p |         | A B C D | 29   |
        3  | A:1d B:1d C:1d D:1p |         | A B C D | 25   | A B C
        4  | D:1d                |         | D       | 37   | D
    """)


def test_a_long_prompt_that_came_first_takes_whole_budgets() -> None:
    # 40 = 16 + 16 + 8. Only job 2 leaves B anything, although it came at the same time and asks for little.
    run = simulate(ask("A", 0, 40, 2), ask("B", 0, 6, 3), kv={"blocks": 40})
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:16p     | B       | A       | 36   |
        1  | A:16p     | B       | A       | 32   |
        2  | A:8p B:6p |         | A B     | 28   |
        3  | A:1d B:1d |         | A B     | 27   | A
        4  | B:1d      |         | B       | 38   | B
    """)


def test_without_chunks_a_prompt_over_what_is_left_of_the_budget_stops_admission() -> None:
    # A budget of 32. Job 0: A's 20 leave 12, B's 20 do not fit, and C, whose 4 would, is behind B.
    run = simulate(
        ask("A", 0, 20, 3), ask("B", 0, 20, 3), ask("C", 0, 4, 3),
        kv={"blocks": 16}, token_budget=32, chunked_prefill=False,
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled       | waiting | running | free | finished
        0  | A:20p           | B C     | A       | 11   |
        1  | A:1d B:20p C:4p |         | A B C   | 4    |
        2  | A:1d B:1d C:1d  |         | A B C   | 2    | A
        3  | B:1d C:1d       |         | B C     | 8    | B C
    """)


def test_one_slot_serves_one_after_another() -> None:
    # A's slot is free only when it has finished, at 3 ms.
    run = simulate(ask("A", 0, 6, 3), ask("B", 0, 6, 3), ask("C", 0, 2, 1), kv={"blocks": 16}, max_running=1)
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:6p      | B C     | A       | 14   |
        1  | A:1d      | B C     | A       | 14   |
        2  | A:1d      | B C     | A       | 14   | A
        3  | B:6p      | C       | B       | 14   |
        4  | B:1d      | C       | B       | 14   |
        5  | B:1d      | C       | B       | 14   | B
        6  | C:2p      |         | C       | 15   | C
    """)


def test_the_bound_on_long_prefills_does_not_hold_for_who_is_alone() -> None:
    # 30 = 16 + 14: bounded by the budget, not by 6.
    run = simulate(ask("A", 0, 30, 2), kv={"blocks": 16}, long_prefill_tokens=6)
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:16p     | A       | 12   |
        1  | A:14p     | A       | 8    |
        2  | A:1d      | A       | 8    | A
    """)


def test_the_bound_on_long_prefills_holds_for_all_as_soon_as_there_are_two() -> None:
    # Job 0: A alone takes the budget. B comes at 1 ms: A is cut to 6 (jobs 1 and 2), B's 3 are under the bound anyway.
    # Job 3: A has 30 - 16 - 6 - 6 = 2 to go.
    run = simulate(ask("A", 0, 30, 2), ask("B", 1, 3, 2), kv={"blocks": 16}, long_prefill_tokens=6)
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:16p     | A       | 12   |
        1  | A:6p B:3p | A B     | 9    |
        2  | A:6p B:1d | A B     | 8    | B
        3  | A:2p      | A       | 8    |
        4  | A:1d      | A       | 8    | A
    """)


def test_bounded_prefills_share_jobs_with_decodes() -> None:
    # Both cut to 6 until B's prompt is done (20 = 6 + 6 + 6 + 2); a decode (job 4) is never cut.
    run = simulate(ask("A", 0, 30, 2), ask("B", 0, 20, 2), kv={"blocks": 16}, long_prefill_tokens=6)
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:6p B:6p | A B     | 12   |
        1  | A:6p B:6p | A B     | 10   |
        2  | A:6p B:6p | A B     | 6    |
        3  | A:6p B:2p | A B     | 5    |
        4  | A:6p B:1d | A B     | 2    | B
        5  | A:1d      | A       | 8    | A
    """)


# --- admission --------------------------------------------------------------------------------------------------------


def test_a_head_that_does_not_get_in_blocks_who_would_fit() -> None:
    # B needs ceil(20/4) = 5 blocks, 8 - 4 = 4 are free while A runs. C needs one and waits behind B.
    run = simulate(ask("A", 0, 14, 3), ask("B", 0, 20, 2), ask("C", 0, 3, 2), kv={"blocks": 8})
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:14p     | B C     | A       | 4    |
        1  | A:1d      | B C     | A       | 4    |
        2  | A:1d      | B C     | A       | 4    | A
        3  | B:16p     | C       | B       | 4    |
        4  | B:4p C:3p |         | B C     | 2    |
        5  | B:1d C:1d |         | B C     | 1    | B C
    """)


def test_the_full_gate_waits_for_room_for_the_whole_prompt() -> None:
    # 12 blocks. B's 30 tokens need 8: at 1 ms 4 are free, at 4 ms 3, and only A's end at 5 ms frees them.
    run = simulate(ask("A", 0, 30, 4), ask("B", 0, 30, 1), kv={"blocks": 12})
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:16p     | B       | A       | 8    |
        1  | A:14p     | B       | A       | 4    |
        2  | A:1d      | B       | A       | 4    |
        3  | A:1d      | B       | A       | 4    |
        4  | A:1d      | B       | A       | 3    | A
        5  | B:16p     |         | B       | 8    |
        6  | B:14p     |         | B       | 4    | B
    """)


def test_the_chunk_gate_admits_what_it_has_to_throw_out_again() -> None:
    # The same with gate chunk: B gets in with 2 tokens (1 block) at 1 ms. At 2 ms the 15 left of the budget would make
    # it 17, 5 blocks; it holds 1 and 3 are free: it preempts itself. At 3 ms it gets in with 15 (4 blocks), at 4 ms A's
    # token 33 needs a ninth block, and B is the victim again; 2 + 15 tokens are lost.
    run = simulate(ask("A", 0, 30, 4), ask("B", 0, 30, 1), kv={"blocks": 12, "gate": "chunk"})
    assert timeline(run) == table("""
        ms | scheduled  | preempted | waiting | running | free | finished
        0  | A:16p      |           | B       | A       | 8    |
        1  | A:14p B:2p |           |         | A B     | 3    |
        2  | A:1d       | B         | B       | A       | 4    |
        3  | A:1d B:15p |           |         | A B     | 0    |
        4  | A:1d       | B         | B       | A       | 3    | A
        5  | B:16p      |           |         | B       | 8    |
        6  | B:14p      |           |         | B       | 4    | B
    """)
    assert run["requests"][1]["recomputedTokens"] == 17


def test_the_full_gate_reserves_nothing() -> None:
    # Chunks of 4. At 0 ms each of the three sees 5 free blocks or more, what its 20 tokens need, and gets in: 15 blocks
    # are wanted, 9 are there. At 3 ms A needs a fourth and C, the last, has to go. At 4 ms A takes the last free one as
    # its fifth; B needs its fifth as well, and now is the last itself.
    run = simulate(ask("A", 0, 20, 2), ask("B", 0, 20, 1), ask("C", 0, 20, 1), kv={"blocks": 9}, long_prefill_tokens=4)
    assert timeline(run)[:7] == table("""
        ms | scheduled      | preempted | waiting | running | free | finished
        0  | A:4p B:4p C:4p |           |         | A B C   | 6    |
        1  | A:4p B:4p C:4p |           |         | A B C   | 3    |
        2  | A:4p B:4p C:4p |           |         | A B C   | 0    |
        3  | A:4p B:4p      | C         | C       | A B     | 1    |
        4  | A:4p           | B         | B C     | A       | 4    |
        5  | A:1d           |           | B C     | A       | 3    | A
        6  | B:4p C:4p      |           |         | B C     | 7    |
    """)


def test_the_watermark_stays_free_while_others_run() -> None:
    # 11 blocks, 4 of them as watermark, a budget for all. B: 4 + 4 of 8 free, in. C: 4 + 4 of 4, out, although its 4
    # blocks are there. A and B grow into the watermark at 1 ms; it holds for admission only. At 2 ms nobody runs.
    # (vLLM's share is of all blocks, its null block included, which no request ever gets: 0.25 of 15 usable ones is 4.)
    run = simulate(
        ask("A", 0, 12, 2), ask("B", 0, 16, 2), ask("C", 0, 16, 1),
        kv={"blocks": 11, "watermark_blocks": 4}, token_budget=64,
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled   | waiting | running | free | finished
        0  | A:12p B:16p | C       | A B     | 4    |
        1  | A:1d B:1d   | C       | A B     | 2    | A B
        2  | C:16p       |         | C       | 7    | C
    """)


def test_the_watermark_is_waived_when_nobody_runs() -> None:
    # A needs all 4 blocks; with a watermark of 3 that held for an idle server it would wait for ever.
    run = simulate(ask("A", 0, 16, 1), kv={"blocks": 4, "watermark_blocks": 3})
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:16p     | A       | 0    | A
    """)


# --- preemption -------------------------------------------------------------------------------------------------------


def test_nobody_is_admitted_in_a_job_that_preempted() -> None:
    # 3 blocks, order priority. Job 1: A's fifth token takes the last one; B, which needs one as well, is the least
    # urgent: it preempts itself. C, more urgent than B, is the head of the queue and needs the one block that is free
    # now. It gets in with the next job.
    run = simulate(
        ask("A", 0, 4, 4), ask("B", 0, 4, 3, priority=9), ask("C", 1, 1, 1, priority=1),
        kv={"blocks": 3}, order="priority",
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | preempted | waiting | running | free | finished
        0  | A:4p B:4p |           |         | A B     | 1    |
        1  | A:1d      | B         | C B     | A       | 1    |
        2  | A:1d C:1p |           | B       | A C     | 0    | C
        3  | A:1d      |           | B       | A       | 1    | A
        4  | B:5p      |           |         | B       | 1    |
        5  | B:1d      |           |         | B       | 1    | B
    """)


def test_the_last_to_run_is_the_victim_and_computes_what_it_emitted_again() -> None:
    # Job 3: A's ninth token needs a block; A holds 2 (8 tokens), B 3 (10 tokens), 0 of 5 are free. B, the last, loses
    # 10 computed tokens. It had emitted 3 and comes back with 8 + 3 = 11 to compute; that emits its fourth, the last.
    run = simulate(ask("A", 0, 6, 6), ask("B", 0, 8, 4), kv={"blocks": 5})
    assert timeline(run) == table("""
        ms | scheduled | preempted | waiting | running | free | finished
        0  | A:6p B:8p |           |         | A B     | 1    |
        1  | A:1d B:1d |           |         | A B     | 0    |
        2  | A:1d B:1d |           |         | A B     | 0    |
        3  | A:1d      | B         | B       | A       | 2    |
        4  | A:1d      |           | B       | A       | 2    |
        5  | A:1d      |           | B       | A       | 2    | A
        6  | B:11p     |           |         | B       | 2    | B
    """)
    assert run["requests"][1]["recomputedTokens"] == 10
    assert run["requests"][1]["tokenTimesMs"] == [1, 2, 3, 7]


def test_a_half_done_prefill_can_be_the_victim() -> None:
    # Gate chunk. Job 1: A's ninth token takes its third block, 3 are free. B has 8 of 24 tokens (2 blocks); with the 15
    # left of the budget 23, 6 blocks, 4 more: it preempts itself and loses the 8. Job 2: it gets in again with 15 (4
    # blocks of 5). A is done; 9 are left.
    run = simulate(ask("A", 0, 8, 3), ask("B", 0, 24, 1), kv={"blocks": 8, "gate": "chunk"})
    assert timeline(run) == table("""
        ms | scheduled  | preempted | waiting | running | free | finished
        0  | A:8p B:8p  |           |         | A B     | 4    |
        1  | A:1d       | B         | B       | A       | 5    |
        2  | A:1d B:15p |           |         | A B     | 1    | A
        3  | B:9p       |           |         | B       | 2    | B
    """)
    assert run["requests"][1]["recomputedTokens"] == 8


def test_two_victims_of_one_job_wait_in_their_old_order() -> None:
    # Job 1: A needs a second block and gets C's. Then B needs one, and now is the last itself. Each goes to the head of
    # the queue: C, then B before it, both before D, which came at 1 ms. B needs 2 blocks, 1 is free: all wait for A.
    run = simulate(ask("A", 0, 4, 5), ask("B", 0, 4, 2), ask("C", 0, 3, 2), ask("D", 1, 1, 1), kv={"blocks": 3})
    assert timeline(run) == table("""
        ms | scheduled      | preempted | waiting | running | free | finished
        0  | A:4p B:4p C:3p |           |         | A B C   | 0    |
        1  | A:1d           | C B       | B C D   | A       | 1    |
        2  | A:1d           |           | B C D   | A       | 1    |
        3  | A:1d           |           | B C D   | A       | 1    |
        4  | A:1d           |           | B C D   | A       | 1    | A
        5  | B:5p C:4p      |           | D       | B C     | 0    | B C
        6  | D:1p           |           |         | D       | 2    | D
    """)


# --- priority ---------------------------------------------------------------------------------------------------------


def test_an_urgent_request_goes_first_in_the_queue_and_throws_nobody_out() -> None:
    # C (0, the most urgent) passes B (9) while both wait, but A keeps its slot until it has finished.
    run = simulate(
        ask("A", 0, 4, 3, priority=9), ask("B", 1, 4, 2, priority=9), ask("C", 1, 4, 2),
        kv={"blocks": 16}, order="priority", max_running=1,
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:4p      |         | A       | 15   |
        1  | A:1d      | C B     | A       | 14   |
        2  | A:1d      | C B     | A       | 14   | A
        3  | C:4p      | B       | C       | 15   |
        4  | C:1d      | B       | C       | 14   | C
        5  | B:4p      |         | B       | 15   |
        6  | B:1d      |         | B       | 14   | B
    """)


def test_the_least_urgent_is_the_victim_even_if_the_job_has_it_already() -> None:
    # 5 blocks. Job 2: A's ninth token takes the last one, then B's ninth finds none. A (priority 9) is taken out of the
    # job again, with its 3 blocks. It had emitted 2 and comes back with 7 + 2 = 9 tokens.
    run = simulate(ask("A", 0, 7, 5, priority=9), ask("B", 1, 8, 3), kv={"blocks": 5}, order="priority")
    assert timeline(run) == table("""
        ms | scheduled | preempted | waiting | running | free | finished
        0  | A:7p      |           |         | A       | 3    |
        1  | A:1d B:8p |           |         | A B     | 1    |
        2  | B:1d      | A         | A       | B       | 2    |
        3  | B:1d      |           | A       | B       | 2    | B
        4  | A:9p      |           |         | A       | 2    |
        5  | A:1d      |           |         | A       | 2    |
        6  | A:1d      |           |         | A       | 2    | A
    """)


def test_a_request_that_preempts_itself_does_not_end_the_job_under_priority() -> None:
    # 3 blocks. Job 2: A's ninth token needs a third one, and A is the least urgent itself. B is behind it in the list,
    # and goes on: its fourth token has room. A comes back with 7 + 2 tokens. (Under fcfs B would be the victim.)
    run = simulate(ask("A", 0, 7, 3, priority=9), ask("B", 1, 3, 2), kv={"blocks": 3}, order="priority")
    assert timeline(run) == table("""
        ms | scheduled | preempted | waiting | running | free | finished
        0  | A:7p      |           |         | A       | 1    |
        1  | A:1d B:3p |           |         | A B     | 0    |
        2  | B:1d      | A         | A       | B       | 2    | B
        3  | A:9p      |           |         | A       | 0    | A
    """)


def test_what_a_victim_gives_back_to_the_budget_goes_to_those_behind() -> None:
    # A budget of 4, 8 blocks. Until job 6 A and B decode and C's prompt gets the other 2. Job 7: A's eleventh token has
    # room; B's ninth needs a block, none is free: A leaves the job, its token is budget again, and C gets 4 - 1 = 3.
    run = simulate(
        ask("A", 0, 4, 8, priority=9), ask("B", 1, 4, 7), ask("C", 2, 20, 2, priority=1),
        kv={"blocks": 8}, order="priority", token_budget=4,
    )  # fmt: skip
    assert timeline(run)[5:10] == table("""
        ms | scheduled      | preempted | waiting | running | free | finished
        5  | A:1d B:1d C:2p |           |         | A B C   | 1    |
        6  | A:1d B:1d C:2p |           |         | A B C   | 0    |
        7  | B:1d C:3p      | A         | A       | B C     | 1    |
        8  | B:1d C:3p      |           | A       | B C     | 1    | B
        9  | C:4p           |           | A       | C       | 3    |
    """)


def test_who_preempts_keeps_the_chunk_that_it_had_asked_for() -> None:
    # The same with 9 blocks: at job 8 it is C, with 2 tokens left for it, that finds no block. A goes, its token is
    # budget again, but C's chunk stays 2 and one token of the budget stays unused. From job 9 on C gets 3.
    run = simulate(
        ask("A", 0, 4, 9, priority=9), ask("B", 1, 4, 8), ask("C", 2, 20, 2, priority=1),
        kv={"blocks": 9}, order="priority", token_budget=4,
    )  # fmt: skip
    assert timeline(run)[7:11] == table("""
        ms | scheduled      | preempted | waiting | running | free | finished
        7  | A:1d B:1d C:2p |           |         | A B C   | 0    |
        8  | B:1d C:2p      | A         | A       | B C     | 2    |
        9  | B:1d C:3p      |           | A       | B C     | 1    | B
        10 | C:3p A:1p      |           |         | C A     | 3    |
    """)


# --- the prefix cache -------------------------------------------------------------------------------------------------


def test_a_block_can_be_found_in_the_job_that_computes_it() -> None:
    # 8 common tokens. A takes 3 blocks, B shares two of them and takes one: 16 - 4 = 12. At 2 ms both have 12 tokens.
    run = simulate(
        ask("A", 0, 10, 3, prefix_group="g", prefix_tokens=8), ask("B", 0, 10, 3, prefix_group="g", prefix_tokens=8),
        kv={"blocks": 16, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled  | running | free | finished
        0  | A:10p B:2p | A B     | 12   |
        1  | A:1d B:1d  | A B     | 12   |
        2  | A:1d B:1d  | A B     | 12   | A B
    """)
    assert cached(run) == {"A": (0, 0), "B": (8, 0)}


def test_the_finished_chunks_of_a_prompt_can_be_found_while_it_is_prefilled() -> None:
    # Job 1: of the 20 tokens that are the same, 16 are there, and the last block's 4 have to be computed anyhow.
    run = simulate(
        ask("A", 0, 20, 2, prefix_group="g", prefix_tokens=20), ask("B", 0, 20, 2, prefix_group="g", prefix_tokens=20),
        kv={"blocks": 16, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:16p     | B       | A       | 12   |
        1  | A:4p B:4p |         | A B     | 10   |
        2  | A:1d B:1d |         | A B     | 8    | A B
    """)
    assert cached(run) == {"A": (0, 0), "B": (16, 0)}


def test_of_a_prompt_that_is_not_whole_blocks_only_the_rest_is_computed() -> None:
    # 9 tokens, 8 of them in 2 blocks that A left in the cache when it finished.
    run = simulate(
        ask("A", 0, 9, 2, prefix_group="g", prefix_tokens=9), ask("B", 3, 9, 2, prefix_group="g", prefix_tokens=9),
        kv={"blocks": 16, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:9p      | A       | 13   |
        1  | A:1d      | A       | 13   | A
        3  | B:1p      | B       | 13   |
        4  | B:1d      | B       | 13   | B
    """)
    assert cached(run) == {"A": (0, 0), "B": (8, 0)}


def test_of_a_prompt_of_whole_blocks_the_last_is_computed_again() -> None:
    # 8 tokens, all in the cache. One has to be computed, and hits are whole blocks: floor((8 - 1) / 4) = 1 of them.
    run = simulate(
        ask("A", 0, 8, 2, prefix_group="g", prefix_tokens=8), ask("B", 3, 8, 2, prefix_group="g", prefix_tokens=8),
        kv={"blocks": 16, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:8p      | A       | 14   |
        1  | A:1d      | A       | 13   | A
        3  | B:4p      | B       | 14   |
        4  | B:1d      | B       | 13   | B
    """)
    assert cached(run) == {"A": (0, 0), "B": (4, 0)}


def test_two_blocks_of_the_same_content_are_two_and_one_may_be_evicted() -> None:
    # A's blocks 0 and 1; free list after it: 2 3 1 0 (the tail first). B hits 0 and computes its second block anew, in
    # block 2, beside block 1 of the same content; free list 3 1 2 0. C takes 3 and 1. D still finds 0 and 2.
    group = {"prefix_group": "g", "prefix_tokens": 8}
    run = simulate(
        ask("A", 0, 8, 1, **group), ask("B", 2, 8, 1, **group), ask("C", 4, 5, 1), ask("D", 6, 9, 1, **group),
        kv={"blocks": 4, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:8p      | A       | 2    | A
        2  | B:4p      | B       | 2    | B
        4  | C:5p      | C       | 2    | C
        6  | D:1p      | D       | 1    | D
    """)
    assert cached(run) == {"A": (0, 0), "B": (4, 0), "C": (0, 0), "D": (8, 0)}


def test_of_two_blocks_of_the_same_content_the_one_that_was_hashed_first_is_found() -> None:
    # A leaves blocks 0 and 1. B shares 0 and computes its second block anew: 2 are taken. At 3 B takes a third, and D
    # finds 0, which B holds, and for its second block 1, which is free, not B's: 0, 1 and a new one. 16 - 3 - 2 = 11.
    group = {"prefix_group": "g", "prefix_tokens": 8}
    run = simulate(
        ask("A", 0, 8, 1, **group), ask("B", 2, 8, 3, **group), ask("D", 3, 9, 1, **group),
        kv={"blocks": 16, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:8p      | A       | 14   | A
        2  | B:4p      | B       | 14   |
        3  | B:1d D:1p | B D     | 11   | D
        4  | B:1d      | B       | 13   | B
    """)
    assert cached(run) == {"A": (0, 0), "B": (4, 0), "D": (8, 0)}


def test_the_least_recently_freed_goes_first_and_of_one_request_the_tail() -> None:
    # 6 blocks. A takes 0 1 2; its partial block 2 goes to the front, 1 and 0 to the back: 2 3 4 5 1 0. B takes 2 3 4:
    # 4 5 1 0 3 2. C takes 4 5 1 and so evicts A's second block. D, A's twin, finds the first alone (4 tokens) and takes
    # two blocks, the second of which evicts B's tail. E, B's twin, finds one.
    run = simulate(
        ask("A", 0, 9, 1, prefix_group="a", prefix_tokens=9),
        ask("B", 2, 9, 1, prefix_group="b", prefix_tokens=9),
        ask("C", 4, 10, 1),
        ask("D", 6, 9, 1, prefix_group="a", prefix_tokens=9),
        ask("E", 8, 9, 1, prefix_group="b", prefix_tokens=9),
        kv={"blocks": 6, "prefix_cache": True},
    )
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:9p      | A       | 3    | A
        2  | B:9p      | B       | 3    | B
        4  | C:10p     | C       | 3    | C
        6  | D:5p      | D       | 3    | D
        8  | E:5p      | E       | 3    | E
    """)
    assert cached(run) == {"A": (0, 0), "B": (0, 0), "C": (0, 0), "D": (4, 0), "E": (4, 0)}


def test_blocks_that_hold_nothing_to_be_found_are_used_first() -> None:
    # 3 blocks. A leaves block 0 in the cache: 1 2 0. B uses 1, not full, and gives it back to the front: 1 2 0, not
    # 2 0 1. So C's two blocks are 1 and 2, and A's is still there for D.
    group = {"prefix_group": "g", "prefix_tokens": 4}
    run = simulate(
        ask("A", 0, 4, 1, **group), ask("B", 2, 3, 1), ask("C", 4, 8, 1), ask("D", 6, 5, 1, **group),
        kv={"blocks": 3, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:4p      | A       | 2    | A
        2  | B:3p      | B       | 2    | B
        4  | C:8p      | C       | 1    | C
        6  | D:1p      | D       | 1    | D
    """)
    assert cached(run)["D"] == (4, 0)


def test_hits_that_lie_in_the_free_list_count_against_it() -> None:
    # 6 blocks, A's 3 full ones cached. At 2 ms B takes 3. C needs ceil(13/4) = 4: 3 hits, which are among the 3 free
    # ones, and 1 new: 4 > 3. To be looked at does not make A's blocks younger: B's growth (6 ms) evicts the last of
    # them, and at 8 ms C hits 8 tokens, not 12.
    group = {"prefix_group": "g", "prefix_tokens": 13}
    run = simulate(
        ask("A", 0, 13, 1, **group), ask("B", 2, 9, 6), ask("C", 2, 13, 2, **group),
        kv={"blocks": 6, "prefix_cache": True},
    )  # fmt: skip
    assert timeline(run) == table("""
        ms | scheduled | waiting | running | free | finished
        0  | A:13p     |         | A       | 2    | A
        2  | B:9p      | C       | B       | 3    |
        3  | B:1d      | C       | B       | 3    |
        4  | B:1d      | C       | B       | 3    |
        5  | B:1d      | C       | B       | 3    |
        6  | B:1d      | C       | B       | 2    |
        7  | B:1d      | C       | B       | 2    | B
        8  | C:5p      |         | C       | 2    |
        9  | C:1d      |         | C       | 2    | C
    """)
    assert cached(run) == {"A": (0, 0), "B": (0, 0), "C": (8, 0)}


def test_who_was_preempted_finds_its_own_blocks_again() -> None:
    # 6 blocks. Job 4: B's thirteenth token needs a fourth block, and B is the last: it loses 12 computed tokens (3
    # blocks, all findable, outputs included) and has 9 + 4 = 13 to compute. It finds 3 blocks at first, but has to wait
    # for 1 new one beside the 3 (A's end); by then A has taken one, the tail: 8 tokens are hit, 5 computed.
    run = simulate(ask("A", 0, 7, 8), ask("B", 0, 9, 8), kv={"blocks": 6, "prefix_cache": True})
    assert timeline(run) == table("""
        ms | scheduled | preempted | waiting | running | free | finished
        0  | A:7p B:9p |           |         | A B     | 1    |
        1  | A:1d B:1d |           |         | A B     | 1    |
        2  | A:1d B:1d |           |         | A B     | 0    |
        3  | A:1d B:1d |           |         | A B     | 0    |
        4  | A:1d      | B         | B       | A       | 3    |
        5  | A:1d      |           | B       | A       | 3    |
        6  | A:1d      |           | B       | A       | 2    |
        7  | A:1d      |           | B       | A       | 2    | A
        8  | B:5p      |           |         | B       | 2    |
        9  | B:1d      |           |         | B       | 2    |
        10 | B:1d      |           |         | B       | 2    |
        11 | B:1d      |           |         | B       | 2    | B
    """)
    assert cached(run) == {"A": (0, 0), "B": (0, 8)}
    assert run["requests"][1]["recomputedTokens"] == 12


def test_the_next_turn_of_a_chat_finds_prompt_and_answer() -> None:
    # A: 10 + 7 tokens, of which the last never had a slot: 16 computed, 4 full blocks. B begins with the same 17.
    run = simulate(
        ask("A", 0, 10, 7), ask("B", 9, 22, 3, parent="A", parent_tokens=17), kv={"blocks": 16, "prefix_cache": True}
    )
    assert timeline(run) == table("""
        ms | scheduled | running | free | finished
        0  | A:10p     | A       | 13   |
        1  | A:1d      | A       | 13   |
        2  | A:1d      | A       | 13   |
        3  | A:1d      | A       | 12   |
        4  | A:1d      | A       | 12   |
        5  | A:1d      | A       | 12   |
        6  | A:1d      | A       | 12   | A
        9  | B:6p      | B       | 10   |
        10 | B:1d      | B       | 10   |
        11 | B:1d      | B       | 10   | B
    """)
    assert cached(run) == {"A": (0, 0), "B": (16, 0)}


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_job_takes_its_overhead_its_prompt_tokens_and_its_decodes() -> None:
    # 1 ms a job, 0.01 a prompt token, 0.5 once if anything decodes, 0.1 for each that does. A: 1 + 0.1 = 1.1, then
    # 1 + 0.5 + 0.1 = 1.6. Idle until 100. B and C: 1 + 0.06 = 1.06, then 1 + 0.5 + 0.2 = 1.7: until 102.76.
    run = simulate(
        ask("A", 0, 10, 2), ask("B", 100, 3, 2), ask("C", 100, 3, 2),
        kv={"blocks": 16},
        device={
            "job_ms": 1, "prefill_ms_per_token": 0.01, "decode_ms_per_batch": 0.5, "decode_ms_per_request": 0.1,
        },
    )  # fmt: skip
    assert timeline(run) == table("""
        ms     | scheduled | running | free | finished
        0      | A:10p     | A       | 13   |
        1.1    | A:1d      | A       | 13   | A
        100    | B:3p C:3p | B C     | 14   |
        101.06 | B:1d C:1d | B C     | 14   | B C
    """)
    assert [request["tokenTimesMs"] for request in run["requests"]] == [[1.1, 2.7], [101.06, 102.76], [101.06, 102.76]]
