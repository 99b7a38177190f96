"""The stress scenarios of KV memory keep what their headers say, and conservation holds in each of their runs.

The expected figures stand in a table here; each number of a header is then held to what the runs give.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sim
from sim import gallery
from sim.analysis.verify import verify_document
from sim.experiment import plan
from sim.record import json_form
from sim.record.result import Result
from sim.workload.traces import read_trace

Run = dict[str, Any]

# A run; its requests: first token, longest stall, last token (ms, from the arrival), preemptions, recomputed tokens;
# and figures of its summary, what is not named of `keptOut` and of the swap and cache counts being 0.
GOLDEN = """
kv-exhaustion / ample
  A 1 1 9 0 0 | B 1 1 9 0 0 | C 1 1 9 0 0
  = makespanMs 9; jobs 9; preemptions 0; scheduledTokens 48; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 6; max 12
kv-exhaustion / short
  A 1 1 9 0 0 | B 1 5 13 1 12 | C 1 9 17 1 8
  = makespanMs 17; jobs 17; preemptions 2; scheduledTokens 68; recomputedTokens 20; wastedTokens 20; admissions 5;
  = min 4; max 7; blocks 6; headOfLine 3
gate-thrash / full
  A 84 11 788 0 0 | B 940 11 973 0 0
  = makespanMs 973; jobs 73; preemptions 0; scheduledTokens 243; recomputedTokens 0; wastedTokens 0; admissions 2;
  = min 2; max 8; blocks 64; budget 2
gate-thrash / chunk
  A 84 42 1966 0 0 | B 2077 11 2110 26 1147
  = makespanMs 2110; jobs 72; preemptions 26; scheduledTokens 1390; recomputedTokens 1147; wastedTokens 1147;
  = admissions 28; min 2; max 10; budget 2
no-evict-vs-max-utilization / trtllm-no-evict
  R0 1 1 49 0 0 | R1 1 1 49 0 0 | R2 50 1 98 0 0 | R3 50 1 98 0 0
  = makespanMs 98; jobs 98; preemptions 0; scheduledTokens 256; recomputedTokens 0; wastedTokens 0; admissions 4;
  = min 8; max 8; blocks 49; headOfLine 49
no-evict-vs-max-utilization / trtllm-max-utilization
  R0 1 1 49 0 0 | R1 1 1 49 0 0 | R2 1 33 81 1 32 | R3 1 33 81 1 32
  = makespanMs 81; jobs 81; preemptions 2; scheduledTokens 320; recomputedTokens 64; wastedTokens 64; admissions 6;
  = min 4; max 8; blocks 31; headOfLine 31
swap-runs-out / swap-4
  R0 17 6 70 0 0 | R1 17 6 70 0 0 | R2 17 43 107 1 0 | R3 17 43 107 1 0
  = makespanMs 107; jobs 83; preemptions 2; scheduledTokens 256; recomputedTokens 0; wastedTokens 0; admissions 6;
  = min 4; max 8; swappedOut 2; swapBlocksOut 4; swapBlocksIn 4
swap-runs-out / swap-2
  R0 17 4 68 0 0 | R1 17 4 68 0 0 | R2 17 47.25 111.25 1 32 | R3 17 47.25 111.25 1 0
  = makespanMs 111.25; jobs 83; preemptions 2; scheduledTokens 288; recomputedTokens 32; wastedTokens 32;
  = admissions 6; min 4; max 8; swapped 31; swappedOut 1; swapBlocksOut 2; swapBlocksIn 2
swap-runs-out / swap-1
  R0 17 1 65 0 0 | R1 17 1 65 0 0 | R2 17 49.5 113.5 1 32 | R3 17 49.5 113.5 1 32
  = makespanMs 113.5; jobs 81; preemptions 2; scheduledTokens 320; recomputedTokens 64; wastedTokens 64;
  = admissions 6; min 4; max 8; blocks 31; headOfLine 31
swap-runs-out / swap-0
  R0 17 1 65 0 0 | R1 17 1 65 0 0 | R2 17 49.5 113.5 1 32 | R3 17 49.5 113.5 1 32
  = makespanMs 113.5; jobs 81; preemptions 2; scheduledTokens 320; recomputedTokens 64; wastedTokens 64;
  = admissions 6; min 4; max 8; blocks 31; headOfLine 31
priority-inversion / fcfs
  A 1 1 20 0 0 | C 17 1 21 0 0 | B 21 1 23 0 0
  = makespanMs 28; jobs 28; preemptions 0; scheduledTokens 37; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 1; max 6; slots 21; headOfLine 15
priority-inversion / priority
  A 1 1 20 0 0 | C 20 1 24 0 0 | B 16 1 18 0 0
  = makespanMs 28; jobs 28; preemptions 0; scheduledTokens 37; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 1; max 6; slots 19; headOfLine 15
priority-inversion / reserved
  A 1 1 20 0 0 | C 17 1 21 0 0 | B 16 1 18 0 0
  = makespanMs 25; jobs 25; preemptions 0; scheduledTokens 37; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 2; max 6; blocks 16; headOfLine 15
priority-inversion / two-slots
  A 1 1 20 0 0 | C 1 1 5 0 0 | B 5 1 7 0 0
  = makespanMs 20; jobs 20; preemptions 0; scheduledTokens 37; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 1; max 6; slots 4
prefix-saves / off
  A 17 1 24 0 0 | B 17 1 24 0 0 | C 40 1 47 0 0 | D 40 1 47 0 0
  = makespanMs 48; jobs 16; preemptions 0; scheduledTokens 348; recomputedTokens 0; wastedTokens 0; admissions 4;
  = min 10; max 12; blocks 7; headOfLine 7
prefix-saves / on
  A 10.6 4.2 20.8 0 0 | B 10.6 4.2 20.8 0 0 | C 13.8 1 20.8 0 0 | D 13.8 1 20.8 0 0
  = makespanMs 21.8; jobs 9; preemptions 0; scheduledTokens 156; recomputedTokens 0; wastedTokens 0; admissions 4;
  = min 6; max 12; cachedTokens 192
prefix-does-not / off
  A 2.6 1 10.6 0 0 | B 2.6 6.3 15.9 1 12
  = makespanMs 15.9; jobs 13; preemptions 1; scheduledTokens 44; recomputedTokens 12; wastedTokens 12; admissions 3;
  = min 4; max 6; blocks 3
prefix-does-not / on
  A 2.6 1 10.6 0 0 | B 2.6 5.5 15.1 1 12
  = makespanMs 15.1; jobs 13; preemptions 1; scheduledTokens 36; recomputedTokens 12; wastedTokens 4; admissions 3;
  = min 4; max 6; blocks 3; cachedOnResumeTokens 8
samples / vllm
  G 7 1 26 0 0 | S1 19 1 38 0 0 | S2 19 1 38 0 0 | S3 19 28.5 65.5 1 64 | S4 51.5 1 70.5 0 0
  = makespanMs 170.5; jobs 60; preemptions 1; scheduledTokens 516; recomputedTokens 64; wastedTokens 64;
  = admissions 6; min 4; max 12; blocks 19; headOfLine 14
pool-fault / vllm
  A 1 1 9 0 0 | B 1 5 13 1 12 | D 9 1 10 0 0
  = makespanMs 16; jobs 15; preemptions 1; scheduledTokens 73; recomputedTokens 12; wastedTokens 12; admissions 4;
  = min 4; max 8; blocks 7; headOfLine 3
pool-fault / trtllm-no-evict
  A 1 1 9 0 0 | B 1 1 9 0 0 | D 9 1 10 0 0
  = makespanMs 16; jobs 11; preemptions 0; scheduledTokens 61; recomputedTokens 0; wastedTokens 0; admissions 3;
  = min 8; max 8; blocks 3
crash / fcfs
  A 1.8 3.8 13.2 1 9 | B 4.4 4.8 11.2 1 17
  = makespanMs 13.2; jobs 8; preemptions 2; scheduledTokens 58; recomputedTokens 26; wastedTokens 26; admissions 4;
  = min 2; max 8
crash / vllm
  A 3.4 4 11.4 1 10 | B 3.4 4 9.4 1 18
  = makespanMs 11.4; jobs 6; preemptions 2; scheduledTokens 60; recomputedTokens 28; wastedTokens 28; admissions 4;
  = min 3; max 8
victims / last
  old 1.4 3.2 19.8 0 0 | big 3 2.6 13.6 0 0 | wordy 4.6 7.2 21.8 1 12 | late 3.6 11.2 20.8 1 8
  = makespanMs 23.8; jobs 18; preemptions 2; scheduledTokens 96; recomputedTokens 20; wastedTokens 20; admissions 6;
  = min 1; max 12; blocks 6; headOfLine 3
victims / lowest-priority
  old 1.4 2.6 17.6 0 0 | big 3 11.1 23.7 1 21 | wordy 4.6 1 15.6 0 0 | late 3.6 15.1 24.7 1 8
  = makespanMs 27.7; jobs 21; preemptions 2; scheduledTokens 105; recomputedTokens 29; wastedTokens 29;
  = admissions 6; min 1; max 12; blocks 9; headOfLine 6
victims / fewest-tokens
  old 1.4 11 27.6 1 6 | big 3 2.6 13.6 0 0 | wordy 4.6 3 17.6 0 0 | late 3.6 7 16.6 1 12
  = makespanMs 27.6; jobs 22; preemptions 2; scheduledTokens 94; recomputedTokens 18; wastedTokens 18; admissions 6;
  = min 1; max 12; blocks 6; headOfLine 3
victims / most-blocks
  old 1.4 2.6 17.6 0 0 | big 3 13.8 26.4 1 17 | wordy 4.6 1 15.6 0 0 | late 3.6 1 10.6 0 0
  = makespanMs 27.4; jobs 22; preemptions 1; scheduledTokens 93; recomputedTokens 17; wastedTokens 17; admissions 5;
  = min 1; max 12; blocks 10
victims / longest-remaining
  old 1.4 5.1 22.6 1 10 | big 3 2.6 14.7 0 0 | wordy 4.6 11 25.6 1 8 | late 3.6 1 10.6 0 0
  = makespanMs 27.6; jobs 22; preemptions 2; scheduledTokens 94; recomputedTokens 18; wastedTokens 18; admissions 6;
  = min 1; max 12; blocks 6; headOfLine 2
victims / random
  old 1.4 11 27.6 1 6 | big 3 2.6 14.9 0 0 | wordy 4.6 5.3 20.6 1 12 | late 3.6 1 10.6 0 0
  = makespanMs 27.6; jobs 22; preemptions 2; scheduledTokens 94; recomputedTokens 18; wastedTokens 18; admissions 6;
  = min 1; max 12; blocks 6; headOfLine 2
capacity / llama-2-7b
  r01 1 1 33 0 0 | r02 1 1 33 0 0 | r03 34 1 66 0 0 | r04 34 1 66 0 0 | r05 67 1 99 0 0 | r06 67 1 99 0 0 |
  r07 100 1 132 0 0 | r08 100 1 132 0 0 | r09 133 1 165 0 0 | r10 133 1 165 0 0 | r11 166 1 198 0 0 |
  r12 166 1 198 0 0 | r13 199 1 231 0 0 | r14 199 1 231 0 0 | r15 232 1 264 0 0 | r16 232 1 264 0 0
  = makespanMs 264; jobs 264; preemptions 0; scheduledTokens 8192; recomputedTokens 0; wastedTokens 0;
  = admissions 16; min 60; max 64; blocks 231; headOfLine 1617
capacity / llama-3-8b
  r01 1 1 33 0 0 | r02 1 1 33 0 0 | r03 1 1 33 0 0 | r04 1 1 33 0 0 | r05 1 1 33 0 0 | r06 1 1 33 0 0 |
  r07 1 1 33 0 0 | r08 1 1 33 0 0 | r09 34 1 66 0 0 | r10 34 1 66 0 0 | r11 34 1 66 0 0 | r12 34 1 66 0 0 |
  r13 34 1 66 0 0 | r14 34 1 66 0 0 | r15 34 1 66 0 0 | r16 34 1 66 0 0
  = makespanMs 66; jobs 66; preemptions 0; scheduledTokens 8192; recomputedTokens 0; wastedTokens 0; admissions 16;
  = min 240; max 256; blocks 33; headOfLine 231
capacity / deepseek-v3
  r01 1 1 33 0 0 | r02 1 1 33 0 0 | r03 1 1 33 0 0 | r04 1 1 33 0 0 | r05 1 1 33 0 0 | r06 1 1 33 0 0 |
  r07 1 1 33 0 0 | r08 1 1 33 0 0 | r09 1 1 33 0 0 | r10 1 1 33 0 0 | r11 1 1 33 0 0 | r12 1 1 33 0 0 |
  r13 1 1 33 0 0 | r14 1 1 33 0 0 | r15 1 17 49 1 496 | r16 34 1 66 0 0
  = makespanMs 66; jobs 66; preemptions 1; scheduledTokens 8688; recomputedTokens 496; wastedTokens 496;
  = admissions 17; min 31; max 465; blocks 32; headOfLine 15
paged-vs-contiguous / contiguous
  r0 1 1 20 0 0 | r1 1 1 28 0 0 | r2 21 1 56 0 0 | r3 29 1 72 0 0 | r4 73 1 124 0 0 | r5 73 1 132 0 0 |
  r6 125 1 192 0 0 | r7 133 1 208 0 0
  = makespanMs 208; jobs 208; preemptions 0; scheduledTokens 1784; recomputedTokens 0; wastedTokens 0; admissions 8;
  = min 132; max 292; blocks 100; holes 32; headOfLine 316
paged-vs-contiguous / paged-reserve
  r0 1 1 20 0 0 | r1 1 1 28 0 0 | r2 21 1 56 0 0 | r3 21 1 64 0 0 | r4 57 1 108 0 0 | r5 65 1 124 0 0 |
  r6 109 1 176 0 0 | r7 109 1 184 0 0
  = makespanMs 184; jobs 184; preemptions 0; scheduledTokens 1784; recomputedTokens 0; wastedTokens 0; admissions 8;
  = min 132; max 396; blocks 108; headOfLine 268
paged-vs-contiguous / paged
  r0 1 1 20 0 0 | r1 1 1 28 0 0 | r2 1 1 36 0 0 | r3 1 1 44 0 0 | r4 1 1 52 0 0 | r5 1 1 60 0 0 | r6 1 1 68 0 0 |
  r7 1 1 76 0 0
  = makespanMs 76; jobs 76; preemptions 0; scheduledTokens 1784; recomputedTokens 0; wastedTokens 0; admissions 8;
  = min 9; max 104
"""


def parsed() -> dict[str, dict[str, tuple[dict[str, tuple[Decimal | None, ...]], dict[str, Decimal]]]]:
    golden: dict[str, dict[str, Any]] = {}
    for line in GOLDEN.strip().splitlines():
        if not line.startswith(" "):
            name, _, run = line.partition(" / ")
            requests, figures = golden.setdefault(name, {})[run] = ({}, {})
        elif line.startswith("  ="):
            for word in line.removeprefix("  =").split(";"):
                if word.strip():
                    key, value = word.split()
                    figures[key] = Decimal(value)
        else:
            for row in line.strip().strip("|").split("|"):
                id_, *values = row.split()
                requests[id_] = tuple(None if value == "-" else Decimal(value) for value in values)
    return golden


FIGURES = parsed()
UNSAID = ("blocks", "holes", "slots", "budget", "swapped", "headOfLine", "swappedOut", "swapBlocksOut", "swapBlocksIn",
          "cachedTokens", "cachedOnResumeTokens")  # fmt: skip
"""What is 0 where the table does not name it."""

SHARED = (("prefix-saves", "on"), ("prefix-does-not", "on"), ("samples", "vllm"))
"""Runs in which blocks have several holders, or keep what nobody holds."""


@cache
def results(name: str) -> dict[str, Result]:
    """The runs that the command compares, with all blocks counted at every decision."""
    return {each.name: each.run(check=True) for each in plan(sim.load(name))}


def as_json(runs: Mapping[str, Result]) -> dict[str, Any]:
    text = "".join(json_form.text(json_form.document(list(runs.values()))))
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


@cache
def runs(name: str) -> dict[str, Run]:
    return {run["name"]: run for run in as_json(results(name))["runs"]}


def column(run: Run, key: str) -> dict[str, Any]:
    return {row["id"]: row[key] for row in run["requests"]}


def figures(run: Run) -> dict[str, Any]:
    """All that the table may name, in one mapping."""
    summary = run["summary"]
    return {**summary, **summary["kv"], **summary["kv"]["usedBlocks"], **summary["kv"]["keptOut"]}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    assert list(runs(name)) == list(FIGURES[name])
    for run_name, (requests, expected) in FIGURES[name].items():
        run = runs(name)[run_name]
        keys = ("ttftMs", "maxItlMs", "e2eMs", "preemptions", "recomputedTokens")
        assert {row["id"]: tuple(row[key] for key in keys) for row in run["requests"]} == requests
        found = figures(run)
        assert {key: found[key] for key in expected} == expected
        # a run's `blocks` is the pool's, but in the table it is what kept the head out: it comes last in `figures`
        assert {key: found[key] for key in UNSAID if key not in expected} == dict.fromkeys(
            set(UNSAID) - set(expected), 0
        )


@pytest.mark.parametrize("name", FIGURES)
def test_the_record_is_sound(name: str) -> None:
    assert verify_document(as_json(results(name))).findings == []


# --- conservation, from the events -----------------------------------------------------------------------------------


def walk(run: Run) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
    """Each job with the computed tokens (the job's own included) of those who run; swaps are followed."""
    computed: Counter[str] = Counter()
    for event in run["events"]:
        swapped = {copy["id"] for copy in event.get("swapped", ())}
        for id_ in event["preempted"]:
            if id_ not in swapped:
                computed[id_] = 0
        for entry in event["scheduled"]:
            computed[entry["id"]] += entry["tokens"]
        yield event, {id_: computed[id_] for id_ in event["running"]}


RUNS = [(name, run) for name, expected in FIGURES.items() for run in expected]


@pytest.mark.parametrize(("name", "run_name"), [each for each in RUNS if each not in SHARED])
def test_blocks_of_those_who_run_and_free_ones_make_up_the_pool(name: str, run_name: str) -> None:
    run, result = runs(name)[run_name], results(name)[run_name]
    rules, workload = run["settings"], result.record.workload
    pool, block = rules["kv.blocks"], rules["kv.block_tokens"]
    declared = workload.prompt_tokens + workload.max_tokens - 1
    whole = {workload.id(i): -(-int(tokens) // block) for i, tokens in enumerate(declared)}
    reserves = rules["kv.gate"] == "reserve"
    for (event, computed), withheld in zip(walk(run), result.jobs["withheld_blocks"].tolist(), strict=True):
        held = sum(whole[id_] if reserves else -(-tokens // block) for id_, tokens in computed.items())
        taken = pool - withheld - event["freeBlocks"]
        if event["kind"] == "swap":  # the blocks for the job behind it are taken already
            assert held <= taken
        else:
            assert held == taken


@pytest.mark.parametrize(("name", "run_name"), RUNS)
def test_scheduled_tokens_are_what_had_to_be_computed(name: str, run_name: str) -> None:
    run = runs(name)[run_name]
    samples = results(name)[run_name].record.workload.samples.tolist()
    once = sum(r["promptTokens"] + n * (r["outputTokens"] - 1) for r, n in zip(run["requests"], samples, strict=True))
    again = sum(r["recomputedTokens"] for r in run["requests"])
    cached = sum(r["cachedTokens"] + r["cachedOnResumeTokens"] for r in run["requests"])
    assert set(column(run, "status").values()) == {"finished"}
    assert sum(entry["tokens"] for event in run["events"] for entry in event["scheduled"]) == once + again - cached
    assert run["summary"]["scheduledTokens"] == once + again - cached


@pytest.mark.parametrize(("name", "run_name"), RUNS)
def test_the_pool_is_never_overdrawn_and_no_job_holds_a_request_twice(name: str, run_name: str) -> None:
    run = runs(name)[run_name]
    for event in run["events"]:
        assert 0 <= event["freeBlocks"] <= run["settings"]["kv.blocks"]
        ids = [entry["id"] for entry in event["scheduled"]]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= set(event["running"])
        assert not set(event["running"]) & set(event["waiting"])


# --- the headers -----------------------------------------------------------------------------------------------------


def ms(name: str, run: str, key: str, id_: str) -> Any:
    return column(runs(name)[run], key)[id_]


def makespan(name: str, run: str) -> Any:
    return runs(name)[run]["summary"]["makespanMs"]


# What a header works out from what the runs give: its number, and how.
WORKED_OUT: dict[str, dict[str, Callable[[], Any]]] = {
    "prefix-saves": {
        "26.2": lambda: makespan("prefix-saves", "off") - makespan("prefix-saves", "on"),
        "19.2": lambda: Decimal("0.1") * runs("prefix-saves")["on"]["summary"]["kv"]["cachedTokens"],
    },
    "samples": {"79": lambda: 60 + 20 - 1},
    "capacity": {
        "420": lambda: 14 * 30,
        "512": lambda: 480 + 33 - 1,
        "536870912": lambda: 2**30 // 2,
        "14": lambda: 477 // 32,
        "30": lambda: 480 // 16,
    },
    "paged-vs-contiguous": {
        "160": lambda: -(-(512 + 2048 - 1) // 16),
        "1408": lambda: int(results("paged-vs-contiguous")["paged"].jobs["prefill_tokens"].sum()),
        "8.0": lambda: held_percent("contiguous"),
        "95.7": lambda: held_percent("paged"),
    },
    "pool-fault": {"4": lambda: ms_without_faults("pool-fault", "vllm", "ttftMs")["D"]},
    "crash": {
        "9.4": lambda: max(ms_without_faults("crash", "fcfs", "e2eMs").values()),
        "8.4": lambda: max(ms_without_faults("crash", "vllm", "e2eMs").values()),
    },
}


def held_percent(run: str) -> Decimal:
    share = results("paged-vs-contiguous")[run].memory_usage().held_share
    return Decimal(f"{100 * (share or 0):.1f}")


def without_faults(name: str, run: str) -> Run:
    found: Run = sim.simulate(sim.load(name, overrides={"faults": None, "scheduler.policy": run})).to_dict()["runs"][0]
    return found


def ms_without_faults(name: str, run: str, key: str) -> dict[str, Decimal]:
    return {id_: Decimal(str(value)) for id_, value in column(without_faults(name, run), key).items()}


def header(name: str) -> str:
    lines = gallery.path(name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("#") for line in lines[: next(n for n, x in enumerate(lines) if x[:1] != "#")])


def stated(name: str) -> set[str]:
    """The numbers in a header as they are written; not those in names (R1, swap-2, llama-2-7b) and of issues."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", re.sub(r"issues \d+ and \d+", "", header(name)))
    return set(re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", text))


def numbers(value: Any) -> Iterator[Decimal]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        yield Decimal(str(value))


def given(name: str) -> set[Decimal]:
    """The numbers of the scenario and of what its runs give, shares in percent with one decimal too."""
    found = set(numbers(json.loads(json.dumps(sim.load(name).document, default=str), parse_float=Decimal)))
    found |= {
        Decimal(value) for value in re.findall(r'"(\d+(?:\.\d+)?)"', json.dumps(sim.load(name).document, default=str))
    }
    for run_name, run in runs(name).items():
        found |= set(numbers([run["requests"], run["summary"], run["settings"]]))
        found |= {event["startMs"] for event in run["events"]}
        found |= {run["settings"]["kv.blocks"] - event["freeBlocks"] for event in run["events"]}
        found |= {Decimal(len(event["running"])) for event in run["events"]}
        found |= {Decimal(f"{100 * run['summary'][share]:.1f}") for share in ("recomputedShare", "wastedShare")}
        jobs = [results(name)[run_name].jobs[column].tolist() for column in ("free_blocks", "withheld_blocks")]
        found |= {Decimal(value) for values in jobs for value in values}
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_each_number_in_the_header_is_one_that_the_runs_give(name: str) -> None:
    worked_out = WORKED_OUT.get(name, {})
    assert {number for number, how in worked_out.items() if Decimal(number) != how()} == set()
    assert set(worked_out) <= stated(name)
    known = given(name)
    assert {number for number in stated(name) - set(worked_out) if Decimal(number) not in known} == set()


@pytest.mark.parametrize("name", FIGURES)
def test_the_header_states_the_makespan_of_each_run(name: str) -> None:
    """So that the test above can't pass on an empty header (samples is one run, told request by request)."""
    said = {Decimal(number) for number in stated(name)}
    if name == "samples":
        assert set(column(runs(name)["vllm"], "e2eMs").values()) <= said
    elif name in {"priority-inversion", "pool-fault"}:
        assert {ms for run in runs(name).values() for ms in column(run, "e2eMs").values()} <= said
    else:
        assert {run["summary"]["makespanMs"] for run in runs(name).values()} <= said


# --- the claims ------------------------------------------------------------------------------------------------------


def preempted(run: Run) -> list[str]:
    return [id_ for event in run["events"] for id_ in event["preempted"]]


def test_kv_exhaustion_the_last_admitted_goes_first() -> None:
    ample, short = runs("kv-exhaustion").values()
    assert preempted(short) == ["C", "B"]
    assert column(short, "tokenTimesMs")["A"] == column(ample, "tokenTimesMs")["A"]
    assert [event["running"] for event in short["events"]][9] == ["B", "C"]


def test_gate_thrash_everybody_pays() -> None:
    full, chunk = runs("gate-thrash").values()
    assert set(preempted(chunk)) == {"B"}
    for id_ in ("A", "B"):
        assert column(chunk, "e2eMs")[id_] > column(full, "e2eMs")[id_]


def test_no_evict_needs_the_declared_length_which_may_be_absurd() -> None:
    """One request that declares 100,000 tokens: rejected where they would be reserved, served where they are not."""
    document = sim.load("no-evict-vs-max-utilization").document
    document["workload"]["requests"][0]["max_tokens"] = 100_000
    reserve, use = (each.run().to_dict()["runs"][0] for each in plan(sim.load(document)))
    assert column(reserve, "status") == {"R0": "rejected", "R1": "finished", "R2": "finished", "R3": "finished"}
    assert column(reserve, "reason")["R0"] == (
        "needs 6251 of 8 blocks: 16 + 100000 - 1 = 100015 tokens as declared, 16 a block"
    )
    assert set(column(use, "status").values()) == {"finished"}


def test_no_host_memory_is_recomputation_job_by_job() -> None:
    recompute = sim.simulate(sim.load("swap-runs-out", overrides={"kv.preemption": "recompute"})).to_dict()["runs"][0]
    for name in ("swap-1", "swap-0"):
        run = results("swap-runs-out")[name].to_dict()["runs"][0]
        assert all(run[key] == recompute[key] for key in ("requests", "events", "summary"))


def test_swap_runs_out_host_and_pool_conserve_blocks() -> None:
    for name, room in (("swap-4", 4), ("swap-2", 2), ("swap-1", 1), ("swap-0", 0)):
        on_host = 0
        for event in runs("swap-runs-out")[name]["events"]:
            for copy in event.get("swapped", ()):
                on_host += copy["blocks"] if copy["direction"] == "out" else -copy["blocks"]
                assert 0 <= on_host <= room
        assert on_host == 0


def test_swap_runs_out_copying_takes_its_time() -> None:
    """1 ms for the job and 1 ms for each block that it copies."""
    copies = [
        (event["endMs"] - event["startMs"], sum(copy["blocks"] for copy in event["swapped"]))
        for event in runs("swap-runs-out")["swap-4"]["events"]
        if event["kind"] == "swap"
    ]
    assert copies == [(5, 4), (5, 4)]


def test_priority_inversion_nobody_leaves_for_the_urgent_one() -> None:
    for run in runs("priority-inversion").values():
        assert preempted(run) == []
    assert ms("priority-inversion", "priority", "queueMs", "B") == ms("priority-inversion", "reserved", "queueMs", "B")


def test_prefix_saves_in_the_very_job() -> None:
    first = runs("prefix-saves")["on"]["events"][0]
    assert [(entry["id"], entry["tokens"]) for entry in first["scheduled"]] == [("A", 80), ("B", 16)]
    assert first["freeBlocks"] == 13 - 6


def test_prefix_does_not_change_anything_before_the_first_resume() -> None:
    off, on = (run["events"][:9] for run in runs("prefix-does-not").values())
    assert off == on


def test_samples_at_most_eleven_blocks() -> None:
    events = runs("samples")["vllm"]["events"]
    assert max(12 - event["freeBlocks"] for event in events if event["running"] == ["G"]) == 11


def test_pool_fault_nobody_would_be_preempted_without_it() -> None:
    for policy in ("vllm", "trtllm-no-evict"):
        assert preempted(without_faults("pool-fault", policy)) == []
        assert column(without_faults("pool-fault", policy), "e2eMs")["B"] == 9


def test_crash_what_was_emitted_stays() -> None:
    for policy, run in runs("crash").items():
        before = without_faults("crash", policy)
        for id_, times in column(run, "tokenTimesMs").items():
            early = [time for time in times if time <= Decimal("5.4")]
            assert early == [Decimal(str(t)) for t in column(before, "tokenTimesMs")[id_]][: len(early)]
        assert column(run, "ttftMs") == ms_without_faults("crash", policy, "ttftMs")


VICTIMS = {
    "last": ["late", "wordy"],
    "lowest-priority": ["late", "big"],
    "fewest-tokens": ["old", "late"],
    "most-blocks": ["big"],
    "longest-remaining": ["wordy", "old"],
    "random": ["old", "wordy"],
}


def test_victims_are_whom_the_rules_name() -> None:
    assert {name: preempted(run) for name, run in runs("victims").items()} == VICTIMS
    assert len({tuple(column(run, "e2eMs").values()) for run in runs("victims").values()}) == len(VICTIMS)
    least = min(runs("victims"), key=lambda name: runs("victims")[name]["summary"]["recomputedTokens"])
    assert least == "most-blocks"
    assert min(runs("victims"), key=lambda name: makespan("victims", name)) == "last"


def test_capacity_the_ledger_gives_the_blocks() -> None:
    per_token = {"llama-2-7b": 2 * 32 * 32 * 128 * 2, "llama-3-8b": 2 * 32 * 8 * 128 * 2, "deepseek-v3": 61 * 576 * 2}
    for name, run in runs("capacity").items():
        assert run["settings"]["kv.bytes_per_token"] == per_token[name]
        assert run["settings"]["kv.blocks"] == 2**29 // (16 * per_token[name])
        most = max(len(event["running"]) for event in run["events"])
        assert most == {"llama-2-7b": 2, "llama-3-8b": 8, "deepseek-v3": 15}[name]


# --- paged against contiguous ----------------------------------------------------------------------------------------


def test_paging_changes_who_fits() -> None:
    most = {name: int(result.jobs["running"].max()) for name, result in results("paged-vs-contiguous").items()}
    assert most == {"contiguous": 2, "paged-reserve": 3, "paged": 8}


def test_the_kinds_sum_to_the_pool_in_every_job() -> None:
    for result in results("paged-vs-contiguous").values():
        usage = result.memory_usage()
        kinds = [usage.held_slots, usage.reserved_slots, usage.unused_slots, usage.free_slots, usage.withheld_slots]
        assert all((kind >= 0).all() for kind in kinds)
        assert {sum(kinds) for kinds in zip(*(kind.tolist() for kind in kinds), strict=True)} == {420 * 16}


def test_the_queue_order_and_the_work_of_prefill_are_the_same() -> None:
    found = results("paged-vs-contiguous").values()
    orders = [result.record.admissions["request"].tolist() for result in found]
    assert orders == [list(range(8))] * 3
    assert [prefill(result) for result in found] == [prefill(results("paged-vs-contiguous")["paged"])] * 3


def prefill(result: Result) -> dict[str, int]:
    """Prompt tokens that were computed for each request."""
    run = result.to_dict()["runs"][0]
    entries = (entry for event in run["events"] for entry in event["scheduled"] if entry["phase"] == "prefill")
    tokens: Counter[str] = Counter()
    for entry in entries:
        tokens[entry["id"]] += entry["tokens"]
    return dict(tokens)


def test_holes_are_external_fragmentation_of_regions_only() -> None:
    external = {name: int(r.memory_usage().external.sum()) for name, r in results("paged-vs-contiguous").items()}
    assert external == {"contiguous": 32, "paged-reserve": 0, "paged": 0}


# --- on real lengths -------------------------------------------------------------------------------------------------

# Of the memory that was taken: slots that hold a token, that will be used, and that never are, in percent over time.
# The PagedAttention paper measured 20 to 38 % of the first kind on systems with regions and 96 % on its own, with
# other lengths and models; here everybody declares 2,048. Prompts of 1,155 tokens on average fill a good part of a
# region of 3,202, and of a request with so many tokens, half a block of 16 is little.
AZURE_300 = {"contiguous": (36.9, 6.0, 57.1), "paged": (99.3, 0.7, 0.0)}
AZURE_WHOLE = {"contiguous": (39.4, 5.5, 55.1), "paged": (99.4, 0.6, 0.0)}

SPEEDUP = 20
"""The trace's hour in three minutes: more than the device can do, so that memory is what limits."""


def on_azure_lengths(folder: Path, rows: int | None, blocks: int) -> dict[str, Result]:
    """The first ``rows`` conversations of the trace, each declaring 2,048 tokens, in regions and in pages."""
    path = folder / "traces" / "AzureLLMInferenceTrace_conv.csv"
    trace = read_trace(path, "azure", limit=rows, speedup=Decimal(SPEEDUP))
    columns = (trace.arrival_ns.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist())
    requests = [
        {"arrival_ms": Decimal(at_ns) / 10**6, "prompt_tokens": prompt, "output_tokens": output, "max_tokens": 2048}
        for at_ns, prompt, output in zip(*columns, strict=True)
    ]
    document = {
        "schema": 1,
        "name": "azure-lengths",
        "workload": {"requests": requests},
        "device": {"job_ms": 10, "prefill_ms_per_token": 0.02, "decode_ms_per_request": 0.1},
        "scheduler": {"policy": "vllm"},
    }
    settings: dict[str, dict[str, object]] = {
        "contiguous": {"allocation": "contiguous", "gate": "reserve"},
        "paged": {},
    }
    return {name: sim.simulate(sim.load(document | {"kv": {"blocks": blocks, **kv}})) for name, kv in settings.items()}


def shares(result: Result) -> tuple[float, ...]:
    """Over time, of what was taken: held, reserved (will be used), unused (never), in percent."""
    usage = result.memory_usage()
    taken = float(usage.taken_slots @ usage.duration_ns)
    kinds = (usage.held_slots, usage.reserved_slots, usage.unused_slots)
    return tuple(round(100 * float(kind @ usage.duration_ns) / taken, 1) for kind in kinds)


def check_azure(found: Mapping[str, Result]) -> None:
    """Everybody is served, memory is what limits, and the queue is served in its order both ways."""
    for result in found.values():
        assert (result.requests["status"] == 0).all()
        usage = result.memory_usage()
        pool = result.settings["kv.blocks"] * result.settings["kv.block_tokens"]
        assert (usage.taken_slots + usage.free_slots == pool).all()
        kept_out = result.summary.pool.kept_out if result.summary.pool else {}
        by_memory = sum(count for reason, count in kept_out.items() if reason.name in {"BLOCKS", "HOLES"})
        assert by_memory > 0.5 * result.summary.jobs  # memory is what limits
    queue = list(range(len(found["paged"].record.workload)))
    assert found["contiguous"].record.admissions["request"].tolist() == queue  # regions are never taken back
    first = dict.fromkeys(found["paged"].record.admissions["request"].tolist())
    assert list(first) == queue


def test_azure_lengths_a_few_hundred(headway_data: Path) -> None:
    found = on_azure_lengths(headway_data, 300, 2048)
    check_azure(found)
    assert {name: shares(result) for name, result in found.items()} == AZURE_300


@pytest.mark.slow
def test_azure_lengths_whole(headway_data: Path) -> None:
    found = on_azure_lengths(headway_data, None, 8192)
    check_azure(found)
    assert {name: shares(result) for name, result in found.items()} == AZURE_WHOLE
