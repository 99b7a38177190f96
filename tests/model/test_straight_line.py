"""The simulator against the lesson on paper (`straight_line.py`): every job and every token of generated scenarios.

Three parts: the paper itself against numbers worked out by hand, the simulator against the paper on seeded scenarios,
and a property test that shrinks to a tiny scenario when the two disagree. A failure prints the scenario as a mapping
that can be pasted into Python.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise
from pprint import pformat
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from straight_line import Device, Entry, Timeline, straight_line

import sim

MS = 1_000_000  # ns
Scenario = dict[str, Any]  # the TOML's shape


# --- reading a mapping, without the package's help -------------------------------------------------------------------


def instant_ns(ms: Decimal | int) -> int:
    """An instant of a scenario, rounded half up to whole ns."""
    return int((Decimal(ms) * MS).to_integral_value(rounding=ROUND_HALF_UP))


def on_paper(scenario: Scenario) -> Timeline:
    entries = [
        Entry(row["id"], instant_ns(row["arrival_ms"]), row["prompt_tokens"], row["output_tokens"])
        for row in scenario["workload"]["requests"]
    ]
    costs = [
        Fraction(scenario["device"].get(key, 0)) * MS  # in a [device] table, what is not given is 0
        for key in (
            "job_ms",
            "prefill_ms_per_token",
            "decode_ms_per_batch",
            "decode_ms_per_request",
            "context_ms_per_token",
        )
    ]
    policy = scenario["scheduler"]["policy"]
    return straight_line(
        entries,
        Device(*costs),
        policy,
        chunk_tokens=scenario["scheduler"].get("chunk_tokens", 2),
        max_running=scenario["scheduler"].get("max_running", 8 if policy == "static" else None),
    )


# --- comparing -------------------------------------------------------------------------------------------------------


def whole_ns(ms: float | None) -> int | None:
    """A time of the result in ns. The contract: its text is the exact decimal of the ns, so nothing is lost here."""
    if ms is None:
        return None
    ns = Decimal(str(ms)) * MS
    assert ns == ns.to_integral_value(), f"{ms!r} ms is not the exact decimal of whole ns"
    return int(ns)


def expected(scenario: Scenario) -> dict[str, Any]:
    """What the paper says: one entry per job, per request and per number of the summary."""
    timeline = on_paper(scenario)
    rows: dict[str, Any] = {}
    for number, job in enumerate(timeline.jobs):
        scheduled = [{"id": id_, "tokens": tokens, "phase": phase} for id_, tokens, phase in job.scheduled]
        rows[f"job {number}"] = {
            "job": number,
            "startMs": job.start_ns,
            "endMs": job.end_ns,
            "kind": job.kind,
            "scheduled": scheduled,
            "waiting": list(job.waiting),
            "running": list(job.running),
        }
    arrivals = [instant_ns(row["arrival_ms"]) for row in scenario["workload"]["requests"]]
    for served, arrival in zip(timeline.requests, arrivals, strict=True):
        times = list(served.token_ns)
        gaps = [later - earlier for earlier, later in pairwise(times)]
        rows[f"request {served.id}"] = {
            "firstScheduledMs": served.first_scheduled_ns,
            "tokenTimesMs": times,
            "queueMs": served.first_scheduled_ns - arrival,
            "ttftMs": times[0] - arrival,
            "maxItlMs": max(gaps, default=None),
            "tpotMs": (2 * sum(gaps) + len(gaps)) // (2 * len(gaps)) if gaps else None,  # rounded half up
            "e2eMs": times[-1] - arrival,
        }
    last_token = max(served.token_ns[-1] for served in timeline.requests)
    rows["summary"] = {"jobs": len(timeline.jobs), "makespanMs": last_token - min(arrivals)}
    return rows


def found(scenario: Scenario) -> dict[str, Any]:
    """What the simulator says, in the same form."""
    run = sim.simulate(sim.load(scenario)).to_dict()["runs"][0]
    rows: dict[str, Any] = {}
    for number, event in enumerate(run["events"]):
        rows[f"job {number}"] = {
            "job": event["job"],
            "startMs": whole_ns(event["startMs"]),
            "endMs": whole_ns(event["endMs"]),
            "kind": event["kind"],
            "scheduled": event["scheduled"],
            "waiting": event["waiting"],
            "running": event["running"],
        }
    for request in run["requests"]:
        single = ("firstScheduledMs", "queueMs", "ttftMs", "maxItlMs", "tpotMs", "e2eMs")
        rows[f"request {request['id']}"] = {key: whole_ns(request[key]) for key in single} | {
            "tokenTimesMs": [whole_ns(ms) for ms in request["tokenTimesMs"]]
        }
    summary = run["summary"]
    rows["summary"] = {"jobs": summary["jobs"], "makespanMs": whole_ns(summary["makespanMs"])}
    return rows


def differences(paper: Mapping[str, Any], simulated: Mapping[str, Any]) -> list[str]:
    """One line per field that differs (ns), in the order of the paper; then what the paper does not have."""
    lines = []
    for name, fields in paper.items():
        if name not in simulated:
            lines.append(f"{name}: missing; on paper {fields}")
            continue
        lines += [
            f"{name}: {key}: on paper {value!r}, simulated {simulated[name][key]!r}"
            for key, value in fields.items()
            if simulated[name][key] != value
        ]
    lines += [f"{name}: not on paper; simulated {simulated[name]}" for name in simulated if name not in paper]
    if not lines and list(paper) != list(simulated):
        lines.append(f"order: on paper {list(paper)}, simulated {list(simulated)}")
    return lines


def assert_equal_to_paper(scenario: Scenario) -> None:
    try:
        simulated = found(scenario)
    except Exception as error:
        raise AssertionError(f"the simulator failed: {error!r}\n{pasteable(scenario)}") from error
    lines = differences(expected(scenario), simulated)
    if lines:
        shown = "\n".join(line[:600] for line in lines[:8])
        pytest.fail(
            f"{len(lines)} differences, the first (times in ns):\n{shown}\n{pasteable(scenario)}", pytrace=False
        )


def pasteable(scenario: Scenario) -> str:
    return f"from decimal import Decimal\nscenario = {pformat(scenario, width=120, sort_dicts=False)}"


# --- (a) the paper against hand numbers ------------------------------------------------------------------------------

LESSON_DEVICE = {"job_ms": Decimal("0.25"), "prefill_ms_per_token": 1, "decode_ms_per_batch": 1}
MIXED = [("A", 0, 2, 12), ("L", 2, 12, 2), ("S", 4, 1, 4)]
PREFILL_ONLY = [("P", 0, 12, 1)]


def scenario_of(
    requests: Sequence[tuple[str, Decimal | int, int, int]], device: Mapping[str, Any], **scheduler: Any
) -> Scenario:
    keys = ("id", "arrival_ms", "prompt_tokens", "output_tokens")
    rows = [dict(zip(keys, request, strict=True)) for request in requests]
    return {
        "schema": 1,
        "name": "x",
        "workload": {"requests": rows},
        "device": dict(device),
        "scheduler": dict(scheduler),
    }


LESSON_TABLE = ("A max ITL", "L TTFT", "S TTFT", "all done", "jobs")


@pytest.mark.parametrize(
    ("scheduler", "row"),
    [
        ({"policy": "fcfs"}, (14.75, 12.50, 11.75, 29.50, 14)),
        ({"policy": "chunked", "chunk_tokens": 2}, (3.50, 21.25, 21.75, 30.75, 19)),
        # A alone is the first batch: prefill to 2.25, eleven decodes to 16. Then L and S: prefills to 28.25 and 29.5,
        # three decodes to 33.25.
        ({"policy": "static"}, (1.25, 26.25, 25.50, 33.25, 17)),
    ],
)
def test_paper_has_the_lessons_numbers_for_mixed(scheduler: dict[str, Any], row: tuple[float, ...]) -> None:
    rows = expected(scenario_of(MIXED, LESSON_DEVICE, **scheduler))
    assert rows["request A"]["ttftMs"] == 2.25 * MS
    found_row = (
        rows["request A"]["maxItlMs"] / MS,
        rows["request L"]["ttftMs"] / MS,
        rows["request S"]["ttftMs"] / MS,
        rows["summary"]["makespanMs"] / MS,
        rows["summary"]["jobs"],
    )
    assert dict(zip(LESSON_TABLE, found_row, strict=True)) == dict(zip(LESSON_TABLE, row, strict=True))


@pytest.mark.parametrize(
    ("scheduler", "job_ms", "all_done", "jobs"),
    [
        ({"policy": "fcfs"}, "0.25", 12.25, 1),
        ({"policy": "chunked", "chunk_tokens": 2}, "0.25", 13.50, 6),
        ({"policy": "fcfs"}, "0", 12, 1),
        ({"policy": "chunked", "chunk_tokens": 2}, "0", 12, 6),
    ],
)
def test_paper_has_the_lessons_numbers_for_prefill_only(
    scheduler: dict[str, Any], job_ms: str, all_done: float, jobs: int
) -> None:
    rows = expected(scenario_of(PREFILL_ONLY, LESSON_DEVICE | {"job_ms": Decimal(job_ms)}, **scheduler))
    assert rows["summary"] == {"jobs": jobs, "makespanMs": all_done * MS}


def ends_ms(scenario: Scenario) -> list[float]:
    return [job.end_ns / MS for job in on_paper(scenario).jobs]


def test_paper_charges_decodes_for_the_context_they_read() -> None:
    # P = 2, O = 3. Prefill 2. The first decode reads 2 + 1 tokens, the second 2 + 2.
    device = {"prefill_ms_per_token": 1, "context_ms_per_token": Decimal("0.1")}
    assert ends_ms(scenario_of([("a", 0, 2, 3)], device, policy="fcfs")) == [2, 2.3, 2.7]


def test_paper_charges_decodes_per_batch_and_per_request() -> None:
    # Prefills to 1 and 2, then one batch of both (10 + 2 x 0.5), then one of b alone (10 + 0.5).
    device = {"prefill_ms_per_token": 1, "decode_ms_per_batch": 10, "decode_ms_per_request": Decimal("0.5")}
    assert ends_ms(scenario_of([("a", 0, 1, 2), ("b", 0, 1, 3)], device, policy="fcfs")) == [1, 2, 13, 23.5]


def test_paper_rounds_a_job_once_and_half_up() -> None:
    # A prefill of three tokens of 0.5 ns is 1.5 ns: 2 ns. Token by token it would be 3 ns.
    # A decode batch of 0.4 ns is 0 ns; of two requests, 0.4 + 2 x 0.05 = 0.5 ns: 1 ns.
    device = {
        "prefill_ms_per_token": Decimal("0.0000005"),
        "decode_ms_per_batch": Decimal("0.0000004"),
        "decode_ms_per_request": Decimal("0.00000005"),
    }
    timeline = on_paper(scenario_of([("a", 0, 3, 2), ("b", 0, 3, 3)], device, policy="fcfs"))
    assert [job.end_ns for job in timeline.jobs] == [2, 4, 5, 5]


def test_paper_lets_the_head_without_a_slot_block_prefill() -> None:
    # One slot: b waits, and nobody overtakes it, until a has left.
    timeline = on_paper(scenario_of([("a", 0, 1, 2), ("b", 0, 1, 1)], LESSON_DEVICE, policy="fcfs", max_running=1))
    assert [(job.kind, job.waiting, job.running) for job in timeline.jobs] == [
        ("prefill", ("b",), ("a",)),
        ("decode", ("b",), ("a",)),
        ("prefill", (), ("b",)),
    ]


def test_paper_lists_a_static_batch_as_running_from_its_admission() -> None:
    # Two places, three requests. a (O = 1) is done after its prefill; its place stands empty until b is done too.
    requests = [("a", 0, 1, 1), ("b", 0, 1, 2), ("c", 0, 1, 1)]
    timeline = on_paper(scenario_of(requests, LESSON_DEVICE, policy="static", max_running=2))
    assert [(job.kind, job.waiting, job.running) for job in timeline.jobs] == [
        ("prefill", ("c",), ("a", "b")),
        ("prefill", ("c",), ("b",)),
        ("decode", ("c",), ("b",)),
        ("prefill", (), ("c",)),
    ]


def test_paper_sees_an_arrival_at_a_jobs_end_in_the_next_decision() -> None:
    # a's prefill ends at 1.25 ms, the instant at which b comes: b's prefill goes before a's decode. Not 1 ns later.
    at_the_end, too_late = Decimal("1.25"), Decimal("1.250001")
    for arrival, second in ((at_the_end, "prefill"), (too_late, "decode")):
        timeline = on_paper(scenario_of([("a", 0, 1, 3), ("b", arrival, 1, 1)], LESSON_DEVICE, policy="fcfs"))
        assert timeline.jobs[1].kind == second


def test_paper_rounds_arrivals_before_it_looks_for_ties() -> None:
    # x and y come within the same ns (half up), so the file decides: y first. Chunks of 1 of two prompts of 2.
    requests = [("y", Decimal("0.00000049"), 2, 1), ("x", Decimal("0.0000001"), 2, 1)]
    timeline = on_paper(scenario_of(requests, LESSON_DEVICE, policy="chunked", chunk_tokens=1))
    assert [job.scheduled[0][0] for job in timeline.jobs] == ["y", "y", "x", "x"]


# --- (b) the simulator against the paper: seeded scenarios -----------------------------------------------------------

BLOCKS, BLOCK = 20, 100
ODD_JOB_MS = ["0.123457", "0.2000001", "0.0000005", "0.00000049", "0.333333333333", "1.0000015"]
ODD_COSTS = ["0.0123456789", "0.1000000005", "0.000000300001", "0.7", "0.999999999999", "0.00000025"]


def random_cost(rng: Random, *, zero: float) -> Decimal:
    """A cost in ms: 0 in a share `zero` of the cases, else round, odd, or any with up to 12 decimals."""
    if rng.random() < zero:
        return Decimal(0)
    kind = rng.random()
    if kind < 0.3:
        return rng.choice([Decimal(1), Decimal("0.25"), Decimal("0.5"), Decimal(2)])
    if kind < 0.6:
        return Decimal(rng.choice(ODD_JOB_MS + ODD_COSTS))
    places = rng.randint(0, 12)
    return Decimal(rng.randint(1, 10 ** min(places + 1, 12))).scaleb(-places)


def random_device(rng: Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.25:
        return dict(LESSON_DEVICE)
    if kind < 0.4:  # parts of a ns: rounding is all there is, and many jobs take no time
        keys = (*LESSON_DEVICE, "decode_ms_per_request", "context_ms_per_token")
        return {key: Decimal(rng.randint(key == "job_ms", 9)) / (10 * MS) for key in keys}  # not all 0: that is refused
    device = {
        "job_ms": Decimal(rng.choice(ODD_JOB_MS)) if rng.random() < 0.5 else random_cost(rng, zero=0.2),
        "prefill_ms_per_token": random_cost(rng, zero=0.1),
        "decode_ms_per_batch": random_cost(rng, zero=0.1),
        "decode_ms_per_request": random_cost(rng, zero=0.5),
        "context_ms_per_token": random_cost(rng, zero=0.5) / 1000,
    }
    device["context_ms_per_token"] = round(device["context_ms_per_token"], 12)
    if not any(device.values()):
        device["job_ms"] = Decimal(1)
    return {key: value for key, value in device.items() if value or key == "job_ms" or rng.random() < 0.5}


def random_scheduler(rng: Random) -> dict[str, Any]:
    """A policy and, mostly, its key. Now and then a key that the policy does not use."""
    policy = rng.choice(["fcfs", "chunked", "static"])
    scheduler: dict[str, Any] = {"policy": policy}
    if rng.random() < (0.9 if policy == "chunked" else 0.1):
        scheduler["chunk_tokens"] = rng.choice([1, 2, 3, rng.randint(1, 64)])
    if rng.random() < (0.9 if policy == "static" else 0.4):
        scheduler["max_running"] = rng.randint(1, 8)
    return scheduler


def random_arrivals(rng: Random, count: int) -> list[Decimal]:
    """Arrivals in ms: all at once, ties, on the quarter ms of the lesson's jobs, any fraction, with idle gaps."""
    step = rng.choice(["none", "whole", "quarter", "fraction", "below a ns"])
    now, arrivals = Decimal(0), []
    for _ in range(count):
        if rng.random() < 0.05:
            now += rng.randint(50, 5_000)  # mostly long enough for everybody to leave
        if step == "whole":
            now += rng.choice([0, 0, 1, 2, 5])
        elif step == "quarter":
            now += Decimal(rng.randint(0, 12)) / 4
        elif step == "fraction":
            now += Decimal(rng.randint(0, 40_000_000)) / MS
        elif step == "below a ns":
            now += Decimal(rng.randint(0, 15)) / (10 * MS)
        arrivals.append(now)
    return arrivals


def random_scenario(rng: Random) -> Scenario:
    count = rng.randint(1, 14)
    most_prompt = rng.choice([1, 4, 20, 300])
    most_output = rng.choice([1, 3, 12, 40])
    arrivals = random_arrivals(rng, count)
    if rng.random() < 0.4:
        rng.shuffle(arrivals)
    requests: list[tuple[str, Decimal | int, int, int]] = []
    for number, arrival in enumerate(arrivals):
        output = 1 if rng.random() < 0.2 else rng.randint(1, most_output)
        requests.append((f"q{number}", arrival, rng.randint(1, most_prompt), output))
    scenario = scenario_of(requests, random_device(rng), **random_scheduler(rng))
    while rng.random() < 0.4:
        add_arrival_at_a_jobs_end(scenario, rng)
    return scenario


def add_arrival_at_a_jobs_end(scenario: Scenario, rng: Random) -> None:
    """One more request, exactly at the end of a job that the paper knows, or 1 ns beside it.

    What happened before that instant does not change, so the job still ends there.
    """
    rows = scenario["workload"]["requests"]
    end_ns = rng.choice(on_paper(scenario).jobs).end_ns + rng.choice([-1, 0, 0, 0, 1])
    row = {
        "id": f"q{len(rows)}",
        "arrival_ms": Decimal(max(0, end_ns)) / MS,
        "prompt_tokens": rng.randint(1, 5),
        "output_tokens": rng.randint(1, 4),
    }
    rows.insert(rng.randint(0, len(rows)), row)


@pytest.mark.parametrize("block", [pytest.param(k, marks=pytest.mark.slow if k % 2 else []) for k in range(BLOCKS)])
def test_simulator_equals_paper(block: int) -> None:
    for number in range(BLOCK):
        assert_equal_to_paper(random_scenario(Random(f"lab {block} {number}")))


def test_generated_scenarios_reach_what_they_are_for() -> None:
    """A comparison is worth what its scenarios reach: count the rare things in the first blocks."""
    seen: Counter[str] = Counter()
    for number in range(3 * BLOCK):
        scenario = random_scenario(Random(f"lab {number // BLOCK} {number % BLOCK}"))
        rows = scenario["workload"]["requests"]
        arrivals = [instant_ns(row["arrival_ms"]) for row in rows]
        jobs = on_paper(scenario).jobs
        ends = {job.end_ns for job in jobs}
        seen[scenario["scheduler"]["policy"]] += 1
        seen["tie"] += len(set(arrivals)) < len(arrivals)
        seen["unsorted"] += arrivals != sorted(arrivals)
        seen["O = 1"] += any(row["output_tokens"] == 1 for row in rows)
        seen["idle gap"] += any(b.start_ns > a.end_ns for a, b in pairwise(jobs))
        seen["arrival at an end"] += any(arrival in ends for arrival in arrivals)
        seen["half-prefilled while others decode"] += any(
            job.kind == "decode" and len(job.running) > len(job.scheduled) for job in jobs
        )
        seen["decode while the head has no slot"] += any(job.kind == "decode" and job.waiting for job in jobs)
        seen["job of no time"] += any(job.start_ns == job.end_ns for job in jobs)
        seen["part of a ns"] += any(instant_ns(v) != v * MS for v in scenario["device"].values())
    rare = {name: count for name, count in seen.items() if count < 10}
    assert not rare, f"too rare among {3 * BLOCK}: {rare}"


# --- (b) the simulator against the paper: crowds ---------------------------------------------------------------------


def crowd(number: int) -> Scenario:
    """Several hundred requests that decode together, on a device whose costs are no whole ns."""
    rng = Random(f"crowd {number}")
    count = rng.randint(300, 450)
    policy = ["fcfs", "chunked", "static"][number % 3]
    # Under `chunked` a decode batch goes before each chunk, so the first must still decode when the last comes in.
    outputs = (count, count + 60) if policy == "chunked" else (2, 90)
    requests = [
        # Three of four at 0, the others within 30 ms.
        (f"q{i}", Decimal(max(0, rng.randint(-90 * MS, 30 * MS))) / MS, rng.randint(1, 4), rng.randint(*outputs))
        for i in range(count)
    ]
    device = {
        "job_ms": Decimal(rng.choice(ODD_JOB_MS)),
        "prefill_ms_per_token": Decimal(rng.randint(1, 10**10)).scaleb(-12),
        "decode_ms_per_batch": Decimal(rng.randint(1, 10**12)).scaleb(-12),
        "decode_ms_per_request": Decimal(rng.randint(1, 10**9)).scaleb(-12),
        "context_ms_per_token": Decimal(rng.randint(1, 10**6)).scaleb(-12),
    }
    scheduler: dict[str, Any] = {"policy": policy}
    if policy == "chunked":
        scheduler["chunk_tokens"] = rng.randint(3, 8)
    if policy == "static" or number % 2:
        scheduler["max_running"] = rng.randint(220, 300)
    return scenario_of(requests, device, **scheduler)


@pytest.mark.parametrize("number", [pytest.param(k, marks=pytest.mark.slow if k % 3 else []) for k in range(12)])
def test_simulator_equals_paper_with_hundreds_active(number: int) -> None:
    scenario = crowd(number)
    most_active = max(len(job.scheduled) for job in on_paper(scenario).jobs)
    assert most_active >= 200, "the scenario misses its point"
    assert_equal_to_paper(scenario)


# --- (c) the simulator against the paper: a search that shrinks ------------------------------------------------------


def decimals(most: int, places: int) -> st.SearchStrategy[Decimal]:
    """Decimals from 0 to `most` with up to so many places; simplest first: few places, small."""
    return st.integers(0, places).flatmap(
        lambda used: st.integers(0, most * 10**used).map(lambda digits: Decimal(digits).scaleb(-used))
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    tokens = st.tuples(decimals(20, 7), st.integers(1, 12), st.integers(1, 6))
    drawn = draw(st.lists(tokens, min_size=1, max_size=8))
    requests = [(f"q{number}", *row) for number, row in enumerate(drawn)]
    device = {
        "job_ms": draw(decimals(1, 12)),
        "prefill_ms_per_token": draw(decimals(2, 12)),
        "decode_ms_per_batch": draw(decimals(2, 12)),
        "decode_ms_per_request": draw(decimals(1, 12)),
        "context_ms_per_token": draw(decimals(1, 12)),
    }
    assume(any(device.values()))  # a device on which nothing costs anything is refused
    policy = draw(st.sampled_from(["fcfs", "chunked", "static"]))
    scheduler: dict[str, Any] = {"policy": policy}
    if policy == "chunked":
        scheduler["chunk_tokens"] = draw(st.integers(1, 5))
    if policy == "static" or draw(st.booleans()):
        scheduler["max_running"] = draw(st.integers(1, 4))
    return scenario_of(requests, device, **scheduler)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(scenarios())
def test_simulator_equals_paper_on_searched_scenarios(scenario: Scenario) -> None:
    assert_equal_to_paper(scenario)
