# ruff: noqa: RUF001 -- Chinese is written with full-width punctuation
"""What `headway run` prints, whole, as a reader sees it in a pipe of 100 cells, and what it says in odd cases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import sim
from sim.record.result import Result
from sim.report.table import render, show
from sim.request import Status

MIXED = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12},
    {"id": "L", "arrival_ms": 2, "prompt_tokens": 12, "output_tokens": 2},
    {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4},
]
CLAIM = "Chunking moves time."


def run(requests: Sequence[Mapping[str, Any]], policy: str = "fcfs", name: str | None = None, **tables: Any) -> Result:
    """One run of these requests on the lesson's device, or with the tables given; ``chunk`` is short for its key."""
    scheduler = {"policy": policy} | ({"chunk_tokens": tables.pop("chunk")} if "chunk" in tables else {})
    document = {"schema": 1, "name": "mixed", "workload": {"requests": requests}, "scheduler": scheduler, **tables}
    return replace(sim.simulate(sim.load(document)), name=name or policy)


def both(requests: Sequence[Mapping[str, Any]], **tables: Any) -> list[Result]:
    return [run(requests, "fcfs", **tables), run(requests, "chunked", **tables)]


def request(id_: str, arrival_ms: float, prompt_tokens: int, output_tokens: int, **more: Any) -> dict[str, Any]:
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, **more}


def printed(results: Sequence[Result], lang: str = "en", width: int = 100) -> str:
    out = StringIO()
    render(results, lang=lang, console=Console(file=out, width=width))
    return out.getvalue()


def verdicts(results: Sequence[Result], lang: str = "en") -> list[str]:
    """The lines after the tables and their legend, without the last, which is always the same."""
    paragraphs = printed(results, lang).split("\n\n")
    lines = [line for paragraph in paragraphs[len(results) + 2 :] for line in paragraph.splitlines()]
    return lines[:-1]


# --- the lesson's experiment, whole ----------------------------------------------------------------------------------


def test_mixed_in_english() -> None:
    assert (
        printed(both(MIXED, claim=CLAIM))
        == """\
mixed: 3 requests, 15 prompt and 18 output tokens
Claim: Chunking moves time.
Device: cost=linear, job_ms=0.25, prefill_ms_per_token=1, decode_ms_per_batch=1

fcfs
| request | TTFT ms | max ITL ms | E2E ms | queue ms |
|---------|---------|------------|--------|----------|
| A       |    2.25 |      14.75 |  29.50 |     0.00 |
| L       |   12.50 |       2.50 |  15.00 |     0.25 |
| S       |   11.75 |       1.25 |  15.50 |    10.50 |
makespan 29.50 ms, 14 jobs; all 3 requests finished
λ 500.0/s arrive, λ* 190.5/s can be served: load 2.625, at or above saturation

chunked (chunk_tokens=2)
| request | TTFT ms | max ITL ms | E2E ms | queue ms |
|---------|---------|------------|--------|----------|
| A       |    2.25 |       3.50 |  30.75 |     0.00 |
| L       |   21.25 |       1.25 |  22.50 |     1.50 |
| S       |   21.75 |       1.25 |  25.50 |    20.50 |
makespan 30.75 ms, 19 jobs; all 3 requests finished
λ 500.0/s arrive, λ* 111.1/s can be served: load 4.500, at or above saturation

From its arrival, a request waits for its first token (TTFT), its last (E2E) and its first job
(queue); max ITL is its longest stall between two tokens. Makespan: first arrival to last token.

chunked against fcfs
  gained     A's longest stall 14.75 → 3.50 ms, L's 2.50 → 1.25 ms
  lost       L's first token 12.50 → 21.25 ms, S's 11.75 → 21.75 ms
             A's last token 29.50 → 30.75 ms, L's 15.00 → 22.50 ms, S's 15.50 → 25.50 ms
  unchanged  A's first token 2.25 ms; S's longest stall 1.25 ms
  overall    makespan 29.50 → 30.75 ms, jobs 14 → 19
  A and L gain and lose, S only loses: no policy is better for all three.

All this holds for this trace on this device only.
"""
    )


def test_mixed_in_chinese() -> None:
    assert (
        printed(both(MIXED, claim=CLAIM), "zh")
        == """\
mixed：3 条请求，输入 15 tokens，输出 18 tokens
主张：Chunking moves time.
设备：cost=linear，job_ms=0.25，prefill_ms_per_token=1，decode_ms_per_batch=1

fcfs
| 请求 | TTFT ms | 最大 ITL ms | E2E ms | 排队 ms |
|------|---------|-------------|--------|---------|
| A    |    2.25 |       14.75 |  29.50 |    0.00 |
| L    |   12.50 |        2.50 |  15.00 |    0.25 |
| S    |   11.75 |        1.25 |  15.50 |   10.50 |
全批结束 29.50 ms，提交 14 次；3 条请求全部完成
到达 λ 500.0/s，饱和 λ* 190.5/s：负载 2.625，达到或超过饱和

chunked（chunk_tokens=2）
| 请求 | TTFT ms | 最大 ITL ms | E2E ms | 排队 ms |
|------|---------|-------------|--------|---------|
| A    |    2.25 |        3.50 |  30.75 |    0.00 |
| L    |   21.25 |        1.25 |  22.50 |    1.50 |
| S    |   21.75 |        1.25 |  25.50 |   20.50 |
全批结束 30.75 ms，提交 19 次；3 条请求全部完成
到达 λ 500.0/s，饱和 λ* 111.1/s：负载 4.500，达到或超过饱和

TTFT、E2E、排队分别是从到达到首 token、末 token、第一次执行的时间；最大 ITL 是两个 token 之间的最长
停顿；全批结束从最早的到达算起。

chunked 对照 fcfs
  改善  A 的最长停顿 14.75 → 3.50 ms，L 的 2.50 → 1.25 ms
  变差  L 的首 token 12.50 → 21.25 ms，S 的 11.75 → 21.75 ms
        A 的末 token 29.50 → 30.75 ms，L 的 15.00 → 22.50 ms，S 的 15.50 → 25.50 ms
  不变  A 的首 token 2.25 ms；S 的最长停顿 1.25 ms
  整批  全批结束 29.50 → 30.75 ms，提交 14 → 19 次
  A、L 有得有失，S 只变差：没有哪种策略对 3 条请求都更好。

以上结论限定到当前 trace 和这台设备。
"""
    )


def test_one_run_is_compared_with_nobody() -> None:
    text = printed([run(MIXED)])
    assert "against" not in text
    assert "Makespan: first arrival to last token.\n" in text[-80:]


# --- verdicts --------------------------------------------------------------------------------------------------------

ALONE = [request("A", 0, 2, 2), request("B", 100, 4, 3)]  # B comes when A is long done, and only B is ever cut in two


def test_better_for_all_in_everything() -> None:
    slow = run(MIXED, name="slow", device={"job_ms": 1, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1})
    fast = run(MIXED, name="fast", device={"job_ms": 0, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1})
    assert verdicts([slow, fast])[-1] == "  fast is better for all three, in everything."
    assert verdicts([fast, slow])[-1] == "  slow is worse for all three, in everything."
    assert verdicts([slow, fast], "zh")[-1] == "  换成 fast，3 条请求各项都改善。"


def test_what_the_runs_do_not_share_stands_with_each_of_them() -> None:
    devices = ({"job_ms": job_ms, "prefill_ms_per_token": 1, "decode_ms_per_batch": 1} for job_ms in (0, 0.5))
    text = printed([run(MIXED, name=name, device=device) for name, device in zip("ab", devices, strict=True)])
    assert "Device: cost=linear, prefill_ms_per_token=1, decode_ms_per_batch=1\n" in text
    assert "\na (policy=fcfs, device.job_ms=0)\n" in text
    assert "\nb (policy=fcfs, device.job_ms=0.5)\n" in text


def test_better_for_all_in_something_and_worse_for_nobody() -> None:
    results = [run(ALONE[1:], "chunked", name, chunk=chunk) for name, chunk in (("chunk-2", 2), ("chunk-4", 4))]
    assert verdicts(results) == [
        "chunk-4 against chunk-2",
        "  gained     B's first token 4.50 → 4.25 ms",
        "             B's last token 7.00 → 6.75 ms",
        "  unchanged  B's longest stall 1.25 ms",
        "  overall    makespan 7.00 → 6.75 ms, jobs 4 → 3",
        "  chunk-4 is better for B in something, and worse for nobody in anything.",
    ]


def test_better_for_some_and_worse_for_nobody() -> None:
    results = [run(ALONE, "chunked", name, chunk=chunk) for name, chunk in (("chunk-2", 2), ("chunk-4", 4))]
    assert verdicts(results)[-1] == "  chunk-4 is better for B, and worse for nobody."
    assert verdicts(results[::-1])[-1] == "  chunk-2 is worse for B, and better for nobody."
    assert verdicts(results, "zh")[-1] == "  换成 chunk-4，B 改善，没有请求变差。"


def test_one_request_that_gains_and_loses() -> None:
    slow_decode = run(MIXED[:1], name="x", device={"prefill_ms_per_token": 1, "decode_ms_per_batch": 2})
    slow_prefill = run(MIXED[:1], name="y", device={"prefill_ms_per_token": 2, "decode_ms_per_batch": 1})
    assert verdicts([slow_decode, slow_prefill])[-1] == "  A gains and loses: no setting is better in everything."


def test_nobody_notices() -> None:
    assert verdicts(both([request("P", 0, 12, 1)], device={"job_ms": 0, "prefill_ms_per_token": 1})) == [
        "chunked against fcfs",
        "  unchanged  P's first token 12.00 ms",  # which is its last: said once
        "  overall    makespan 12.00 ms, jobs 1 → 6",
        "  Nobody notices a difference.",
    ]


def test_only_the_makespan_differs() -> None:
    # A is done before C comes; C, cancelled at 110 ms, has had fewer tokens by then when its prompt came in pieces.
    requests = [request("A", 0, 2, 2), request("C", 100, 4, 100, cancel_ms=110.1)]
    results = [run(requests, "chunked", name, chunk=chunk) for name, chunk in (("two", 2), ("four", 4))]
    assert verdicts(results) == [
        "four against two",
        "  unchanged  A's first token 2.25 ms; A's longest stall 1.25 ms; A's last token 3.50 ms",
        "  finished   C under neither",
        "  overall    makespan 110.75 → 110.50 ms, jobs 9 → 8",
        "  Nobody notices a difference; only the makespan differs.",
    ]


def test_finishing_under_one_run_only_is_a_gain_or_a_loss() -> None:
    requests = [*MIXED[:1], {**MIXED[1], "cancel_ms": 16}, MIXED[2], request("T", 900, 1, 4)]
    results = both(requests, run={"horizon_ms": 30})
    assert "  cancelled 1: L (running)\n  unfinished 1: T (not arrived)\n" in printed(results)
    assert verdicts(results)[-3:] == [
        "  finished   L under fcfs only; T under neither",
        "  overall    makespan 29.50 → 26.25 ms, jobs 14 → 17",
        "  A only gains, L and S only lose: no policy is better for all three.",
    ]
    assert verdicts(results, "zh")[-3] == "  完成  L 只在 fcfs 下完成；T 两次都没有完成"


def test_nobody_finished() -> None:
    results = both(MIXED, run={"horizon_ms": 1})
    assert verdicts(results)[-3:] == [
        "  finished  A, L and S under neither",
        "  overall   makespan -, jobs 0",
        "  No request finished under either: there is nobody to compare.",
    ]
    assert "| A       |       - |          - |      - |        - | unfinished |" in printed(results)


def test_rejected_requests_are_counted_and_the_first_ones_named_with_their_reasons() -> None:
    requests = [request(f"R{number}", 0, 10, 1) for number in range(5)]
    result = run(requests, run={"horizon_ms": 1})
    record = result.record
    rejected = replace(
        record,
        requests={**record.requests, "status": np.full(5, int(Status.REJECTED), dtype=np.int64)},
        reasons=dict.fromkeys(range(5), "12 blocks > 10"),
    )
    text = printed([replace(result, record=rejected)])
    assert "makespan -, 0 jobs; 0 of 5 requests finished\n" in text
    reasons = "; ".join(f"R{number} (12 blocks > 10)" for number in range(3))
    assert f"  rejected 5: {reasons}; 2 more\n" in text


def test_runs_of_different_requests_are_not_compared_one_by_one() -> None:
    assert verdicts([run(MIXED), run(MIXED[:2], name="two")])[1:] == [
        "  overall  makespan 29.50 → 28.25 ms, jobs 14 → 13",
        "  The two runs serve different requests: nobody can be compared with themselves.",
    ]


def test_another_load_of_the_same_names_is_said() -> None:
    later = [{**MIXED[0], "arrival_ms": 1}, *MIXED[1:]]
    assert verdicts([run(MIXED), run(later, name="later")])[1] == (
        "  The two runs do not serve the same load: requests of the same name are compared."
    )


def test_three_runs_are_compared_with_the_first_and_then_all_together() -> None:
    results = [*both(MIXED), run(MIXED, "static")]
    lines = verdicts(results)
    assert [line for line in lines if " against " in line] == ["chunked against fcfs", "static against fcfs"]
    assert lines[-1] == "None of the three runs is the best for all three in everything."
    assert "neither is better for all three." in " ".join(lines)


def test_runs_that_nobody_can_tell_apart() -> None:
    results = [run(MIXED[:1], policy) for policy in ("fcfs", "chunked", "static")]
    assert verdicts(results)[-1] == "All three runs are the same to everybody."


def test_one_of_three_runs_is_best() -> None:
    results = [run(ALONE[1:], "chunked", f"chunk-{chunk}", chunk=chunk) for chunk in (1, 2, 4)]
    assert verdicts(results)[-1] == "chunk-4 is as good as any other run or better, for B in everything."


# --- many requests ---------------------------------------------------------------------------------------------------


def crowd(count: int) -> list[dict[str, Any]]:
    return [request(f"r{number}", number, 1 + number % 7, 1 + number % 5) for number in range(count)]


def test_beyond_eight_requests_are_counted_and_the_largest_change_is_named() -> None:
    results = both(crowd(12))
    text = printed(results)
    assert "\n| r11 " in text
    (first,) = [line for line in verdicts(results) if "first token" in line and "lost" in line]
    ttft_ns = [result.requests["ttft_ns"] for result in results]
    lost_ns = ttft_ns[1] - ttft_ns[0]
    most = int(np.argmax(lost_ns))
    assert first.startswith(
        f"  lost       first token of {np.count_nonzero(lost_ns > 0)} of 12 requests, most of all r{most}'s,"
    )


def test_a_thousand_requests_are_quantiles_and_shares() -> None:
    results = both(crowd(1000))
    text = printed(results)
    assert "| r5 " not in text
    for name in ("TTFT", "ITL", "TPOT", "E2E", "queue"):
        assert text.count(f"\n| {name} ") == 2
    assert "| metric |     mean ms |" in text
    ttft = results[0].summary.distributions["ttft"]
    assert ttft.max is not None
    assert f"{ttft.max / 10**6:.2f}" in text
    assert " requests (" in text
    assert " %)" in text
    assert "  first token    p50 " in text
    assert len(text.splitlines()) < 60


def test_times_line_up_by_their_points_and_have_as_many_decimals_as_they_need() -> None:
    device = {"prefill_ms_per_token": 0.333333333333}
    text = printed([run([request("A", 0, 12, 1), request("B", 0, 4, 3)], device=device)])
    table = """
| request |  TTFT ms | max ITL ms |   E2E ms | queue ms |
|---------|----------|------------|----------|----------|
| A       | 4.00     |       -    | 4.00     |     0.00 |
| B       | 5.333333 |       0.00 | 5.333333 |     4.00 |
"""
    assert table in text


def test_few_of_many_are_named_all_the_same() -> None:
    alone = [request(f"r{number}", 1000 * number, 1, 1) for number in range(30)]
    requests = [alone[0], {**alone[1], "prompt_tokens": 3}, *alone[2:]]
    # p99 of 30 values lies at rank 28.71: 1.25 + 0.71 * (3.50 - 1.25), and 1.25 + 0.71 * (3.25 - 1.25)
    results = [run(requests, "chunked", f"chunk-{chunk}", chunk=chunk) for chunk in (2, 4)]
    assert verdicts(results) == [
        "chunk-4 against chunk-2",
        "  gained       r1's first token 3.50 → 3.25 ms",
        "               r1's last token 3.50 → 3.25 ms",
        "  unchanged    first token of 29 requests (96.7 %); last token of 29 requests (96.7 %)",
        "  first token  p50 1.25, p90 1.25, p99 2.8475 → 2.67, max 3.50 → 3.25 ms",
        "  last token   p50 1.25, p90 1.25, p99 2.8475 → 2.67, max 3.50 → 3.25 ms",
        "  overall      makespan 29001.25 ms, jobs 31 → 30",
        "  chunk-4 is better for r1, and worse for nobody.",
    ]


# --- the same in Chinese ---------------------------------------------------------------------------------------------


def test_counts_and_shares_in_chinese() -> None:
    alone = [request(f"r{number}", 1000 * number, 3, 1) for number in range(30)]
    results = [run(alone, "chunked", f"chunk-{chunk}", chunk=chunk) for chunk in (2, 4)]
    assert verdicts(results, "zh") == [
        "chunk-4 对照 chunk-2",
        "  改善      30 条请求（100.0 %）的首 token，变化最大的是 r0：3.50 → 3.25 ms",
        "            30 条请求（100.0 %）的末 token，变化最大的是 r0：3.50 → 3.25 ms",
        "  首 token  p50 3.50 → 3.25，p90 3.50 → 3.25，p99 3.50 → 3.25，最大 3.50 → 3.25 ms",
        "  末 token  p50 3.50 → 3.25，p90 3.50 → 3.25，p99 3.50 → 3.25，最大 3.50 → 3.25 ms",
        "  整批      全批结束 29003.50 → 29003.25 ms，提交 60 → 30 次",
        "  换成 chunk-4，30 条请求各项都改善。",
    ]
    assert verdicts(both(crowd(12)), "zh")[1] == "  改善  9 条请求中 8 条的最长停顿，变化最大的是 r1：43.75 → 1.25 ms"


def test_verdicts_in_chinese() -> None:
    chunks = [run(ALONE[1:], "chunked", f"chunk-{chunk}", chunk=chunk) for chunk in (1, 2, 4)]
    assert verdicts(chunks[1:], "zh")[-1] == "  换成 chunk-4，B 都有改善的一项，没有变差的。"
    assert verdicts(chunks, "zh")[-1] == "chunk-4 对 B 各项都不比其他任何一次差。"
    three = [*both(MIXED), run(MIXED, "static")]
    assert verdicts(three, "zh")[-1] == "3 次运行中，没有一次在各项上对 3 条请求都最好。"
    alike = [run(MIXED[:1], policy) for policy in ("fcfs", "chunked", "static")]
    assert verdicts(alike, "zh")[-2:] == ["  没有人会察觉差别。", "3 次运行对所有请求都一样。"]
    assert verdicts(both(MIXED, run={"horizon_ms": 1}), "zh")[-1] == "  两次运行都没有请求完成，无从比较。"


# --- the pool --------------------------------------------------------------------------------------------------------

TWINS = [request("A", 0, 8, 9), request("B", 0, 8, 9)]
UNIT = {"job_ms": 1}


def in_pool(kv: Mapping[str, Any], requests: Sequence[Mapping[str, Any]] = TWINS, **tables: Any) -> Result:
    """In blocks of 4 tokens, under `vllm`; every job takes 1 ms."""
    return run(requests, "vllm", device=UNIT, kv={"block_tokens": 4, **kv}, **tables)


def test_a_run_with_a_pool_in_english() -> None:
    # A and B begin with 2 blocks each and end with 4; of 6, B loses its three at 5 ms and is back at 9 ms
    assert (
        printed([in_pool({"blocks": 6})])
        == """\
mixed: 2 requests, 16 prompt and 18 output tokens
Device: cost=linear, job_ms=1

vllm (token_budget=2048, max_running=256)
| request | TTFT ms | max ITL ms | E2E ms | queue ms |
|---------|---------|------------|--------|----------|
| A       |    1.00 |       1.00 |   9.00 |     0.00 |
| B       |    1.00 |       5.00 |  13.00 |     0.00 |
makespan 13.00 ms, 13 jobs; all 2 requests finished; 1 preemption, 12 tokens recomputed
all arrive at one instant, λ* 28,440/s can be served
  pool       of 6 blocks in use: min 4, mean 4.62, p99 6, max 6
  admission  3 admissions; head of the queue kept out in 3 jobs (blocks 3)
  work       44 tokens scheduled; 12 (27.3 %) recomputed, 12 (27.3 %) wasted

From its arrival, a request waits for its first token (TTFT), its last (E2E) and its first job
(queue); max ITL is its longest stall between two tokens. Makespan: first arrival to last token.
Blocks in use are weighted by the time of jobs. Recomputed: tokens lost by preemption; wasted:
scheduled tokens that no finished request needed for the first time; both as shares of what was
scheduled.
"""
    )


def test_a_run_with_a_pool_in_chinese() -> None:
    text = printed([in_pool({"blocks": 6})], "zh")
    assert (
        """
全批结束 13.00 ms，提交 13 次；2 条请求全部完成；抢占 1 次，重算 12 tokens
全部同时到达，饱和 λ* 28,440/s
  块池  共 6 块，使用中最少 4，平均 4.62，p99 6，最多 6
  准入  准入 3 次；队首在 3 次提交中进不来（块不够 3）
  工作  安排 44 tokens；重算 12（27.3 %），浪费 12（27.3 %）

"""
        in text
    )
    assert "两者都给出占全部安排的比例。\n" in text


def pool_lines(result: Result, lang: str = "en") -> list[str]:
    """The lines of one run below its totals."""
    lines = printed([result], lang, width=300).split("\n\n")[1].splitlines()
    return [line for line in lines if line.startswith("  ")]


def test_without_a_pool_nothing_is_said_of_it() -> None:
    assert pool_lines(run(MIXED)) == []
    assert "Blocks in use" not in printed([run(MIXED)])
    assert pool_lines(run(MIXED, "vllm", faults=[{"kind": "crash", "at_ms": 3}])) == []


def test_where_everything_fits_only_level_and_admissions_are_said() -> None:
    assert pool_lines(in_pool({"blocks": 8})) == [
        "  pool       of 8 blocks in use: min 4, mean 6.67, p99 8, max 8",
        "  admission  2 admissions",
    ]


def test_one_of_each_is_singular() -> None:
    one = in_pool({"blocks": 1, "block_tokens": 1}, [request("A", 0, 1, 1), request("B", 1.5, 1, 1)])
    assert pool_lines(one) == [
        "  pool       of 1 block in use: min 1, mean 1.00, p99 1, max 1",
        "  admission  2 admissions",
    ]
    # B, with one token computed, loses its only block to A
    lost = in_pool({"blocks": 2, "block_tokens": 1}, [request("A", 0, 1, 2), request("B", 0, 1, 2)])
    assert "2 requests finished; 1 preemption, 1 token recomputed\n" in printed([lost])
    assert pool_lines(lost)[1] == "  admission  3 admissions"


def test_each_reason_for_keeping_the_head_out_is_named_and_how_many_stand_behind_it() -> None:
    requests = [request(id_, 0, 8, 3) for id_ in "ABC"]
    # one after the other, three jobs each: B is the head with C behind it, then C with nobody
    assert pool_lines(in_pool({"blocks": 3}, requests))[1] == (
        "  admission  3 admissions; "
        "head of the queue kept out in 6 jobs (blocks 6), with a mean of 0.50 requests behind it"
    )
    chinese = "队首在 6 次提交中进不来（块不够 6），身后平均有 0.50 条请求"
    assert chinese in pool_lines(in_pool({"blocks": 3}, requests), "zh")[1]
    one_slot = in_pool({"blocks": 9}, requests, scheduler={"policy": "vllm", "max_running": 1})
    assert "kept out in 6 jobs (slots 6), with a mean of 0.50 requests behind it" in pool_lines(one_slot)[1]
    budget = in_pool({"blocks": 9}, requests, scheduler={"policy": "vllm", "token_budget": 10})
    assert "kept out in 1 job (budget 1)" in pool_lines(budget)[1]


def test_holes_and_swapped_requests_keep_the_head_out() -> None:
    regions = [request("A", 0, 2, 1), request("B", 0, 2, 2), request("C", 0, 2, 1), request("D", 1, 3, 1)]
    kv = {"blocks": 7, "block_tokens": 1}
    assert "(holes 1)" in pool_lines(run(regions, "orca", device=UNIT, kv=kv))[1]
    waiting = [*TWINS, request("C", 6, 4, 2)]
    swapped = in_pool({"blocks": 6, "preemption": "swap", "swap_blocks": 3}, waiting)
    assert "(swapped requests first " in pool_lines(swapped)[1]
    assert pool_lines(swapped)[-1] == "  swap       1 preemption to the host; 3 blocks out, 3 in"
    assert pool_lines(swapped, "zh")[-1] == "  换出  抢占到主机 1 次；换出 3 块，换回 3 块"


def test_cache_hits_of_first_admissions_and_of_resumes_are_apart() -> None:
    alone = in_pool({"blocks": 6, "prefix_cache": True})
    assert pool_lines(alone)[-1] == "  cache      0 tokens found at first admission, 8 on resume"
    assert pool_lines(alone)[-2] == "  work       36 tokens scheduled; 12 (33.3 %) recomputed, 4 (11.1 %) wasted"
    shared = [each | {"prefix_group": "g", "prefix_tokens": 4} for each in TWINS]
    assert pool_lines(in_pool({"blocks": 12, "prefix_cache": True}, shared), "zh")[-1] == (
        "  缓存  首次准入命中 4 tokens，恢复时命中 0 tokens"
    )


LEDGER = "0.001 GiB = 1,073,741 B; one block of 4 tokens takes 4 * 32,768 = 131,072 B; 8 blocks fit"


def test_the_ledger_of_a_memory_stands_in_the_title() -> None:
    model = {"kv_bytes_per_token": 32768}
    text = printed([in_pool({"memory_gib": 0.001}, model=model)] * 2)
    assert text.count(f"\nMemory: {LEDGER}\n\n") == 1
    chinese = printed([in_pool({"memory_gib": 0.001}, model=model)], "zh")
    assert "\n内存：0.001 GiB = 1,073,741 B；每块 4 tokens 占 4 * 32,768 = 131,072 B；放得下 8 块\n" in chinese
    assert "Memory" not in printed([in_pool({"blocks": 8})])


def test_where_the_runs_have_different_ledgers_each_has_its_own() -> None:
    found = [in_pool({"memory_gib": 0.001}, model={"kv_bytes_per_token": size}) for size in (32768, 65536)]
    text = printed([*found, in_pool({"blocks": 8})], width=300)
    assert "Memory" not in text
    assert text.count(f"\n  memory     {LEDGER}\n") == 1
    assert text.count("\n  memory     0.001 GiB = 1,073,741 B; one block of 4 tokens takes 4 * 65,536") == 1
    assert text.count("\n  memory ") == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_stored_result_prints_the_same(lang: str, tmp_path: Path) -> None:
    result = in_pool({"memory_gib": 0.001, "preemption": "swap"}, model={"kv_bytes_per_token": 40000})
    result.save(tmp_path / "result.json")
    assert printed([sim.open_result(tmp_path / "result.json")], lang) == printed([result], lang)


# --- strangers' names ------------------------------------------------------------------------------------------------

HOSTILE = ["[red]x[/red]", "a\u202eb", "\u0301\u0302", "中文请求", "x" * 250, "-", " lead", "\u3164", ":smile:"]


def test_hostile_ids_are_shown_and_obeyed_by_nobody() -> None:
    text = printed([run([request(id_, 0, 1, 1) for id_ in HOSTILE])])
    for shown in (
        '"[red]x[/red]"',
        r'"a\u202Eb"',
        r'"\u0301\u0302"',
        "中文请求",
        '"-"',
        '" lead"',
        r'"\u3164"',
        ":smile:",
    ):
        assert f"\n| {shown} " in text
    assert "\n| xxxxxxxxxxxxxxxx…xxxxxxxx (#5) |" in text
    assert "\u202e" not in text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_tables_line_up_whatever_the_width_of_the_characters(lang: str) -> None:
    lines = printed(both([request(id_, 0, 1, 2) for id_ in HOSTILE]), lang).splitlines()
    assert len({cell_len(line) for line in lines if line.startswith("|")}) == 1


def test_no_markup_in_a_claim() -> None:
    text = printed([run(MIXED, claim="[bold]never[/bold] \u202e:rocket:")])
    assert r"Claim: [bold]never[/bold] \u202E:rocket:" in text


# --- widths, colours, encodings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [1, 7, 20, 40, 60, 100, 300])
def test_no_number_is_lost_or_broken_at_any_width(lang: str, width: int) -> None:
    results = both(MIXED)
    words = printed(results, lang, width).replace("|", " ").split()
    for ms in ("2.25", "14.75", "29.50", "0.00", "12.50", "11.75", "10.50", "3.50", "30.75", "21.25", "22.50", "21.75"):
        assert any(word.strip("，,;；") == ms for word in words), ms


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_lines_keep_within_the_width_and_end_where_their_text_ends(lang: str, width: int) -> None:
    for line in printed(both(MIXED), lang, width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_a_narrow_console_gets_lines_instead_of_a_table() -> None:
    text = printed(both([request("P", 0, 12, 1)]), width=40)
    assert "\nP: TTFT 12.25 ms, max ITL -,\nE2E 12.25 ms, queue 0.00 ms\nmakespan" in text
    assert "|" not in text


@pytest.mark.parametrize(("environment", "colour"), [({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, True)])
def test_colour_is_for_terminals_that_want_it(
    environment: dict[str, str], *, colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm-256color"} | environment).items():
        monkeypatch.setenv(name, value)
    out = StringIO()
    render(both(MIXED), lang="en", console=Console(file=out, width=100, force_terminal=True))
    assert ("\x1b" in out.getvalue()) is colour


@pytest.mark.parametrize(("encoding", "expected"), [("ascii", "14.75 -> 3.50 ms"), ("gbk", "14.75 → 3.50 ms")])
def test_what_the_output_cannot_carry_is_written_otherwise(encoding: str, expected: str) -> None:
    raw = BytesIO()
    out = TextIOWrapper(raw, encoding=encoding)
    render(both([*MIXED, request("é", 40, 1, 1)]), lang="zh", console=Console(file=out, width=100))
    out.flush()
    text = raw.getvalue().decode(encoding)
    assert expected in text
    assert ("Device" in text) is (encoding == "ascii")  # Chinese where it can be written, English otherwise


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("0", 100), ("nonsense", 100), ("60", 60)])
def test_a_pipe_is_a_hundred_cells_wide(
    columns: str | None, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.__stdout__", StringIO())  # where the tests run in a terminal, its width is not asked for
    show(both(MIXED), lang="en")
    assert capsys.readouterr().out == printed(both(MIXED), width=width)
