"""`mixed` and `prefill-only` of the lesson, job by job with a pencil, then the simulator beside it.

The device: every job costs 0.25 ms to submit. A prefill adds 1 ms per prompt token; a decode batch adds 1 ms, whatever
its size. A job therefore takes

    prefill of n tokens   0.25 + n      a chunk of 2: 2.25, the whole of L: 12.25, the whole of S: 1.25
    decode batch          1.25

Tokens leave at the end of a job: the job that completes a prompt emits token 1, each decode emits the next.

The requests of `mixed`:  A comes at 0 ms with  2 prompt tokens, wants 12.
                          L comes at 2 ms with 12 prompt tokens, wants  2.
                          S comes at 4 ms with  1 prompt token,  wants  4.
"""

from decimal import Decimal
from typing import Any

import pytest

import sim

MIXED = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12},
    {"id": "L", "arrival_ms": 2, "prompt_tokens": 12, "output_tokens": 2},
    {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4},
]
PREFILL_ONLY = [{"id": "P", "arrival_ms": 0, "prompt_tokens": 12, "output_tokens": 1}]


def run(requests: list[dict[str, Any]], job_ms: str, **scheduler: Any) -> dict[str, Any]:
    """One run of the lesson's device, as the result's JSON has it."""
    scenario = {
        "schema": 1,
        "name": "by-hand",
        "workload": {"requests": requests},
        "device": {
            "job_ms": Decimal(job_ms),
            "prefill_ms_per_token": Decimal(1),
            "decode_ms_per_batch": Decimal(1),
        },
        "scheduler": scheduler,
    }
    found: dict[str, Any] = sim.simulate(sim.load(scenario)).to_dict()["runs"][0]
    return found


def jobs(found: dict[str, Any]) -> list[tuple[float, float, str]]:
    """(start, end, what): "prefill L 2" is two prompt tokens of L, "decode A S" one token for each of A and S."""
    rows = []
    for event in found["events"]:
        who = [entry["id"] for entry in event["scheduled"]]
        if event["kind"] == "prefill":
            who += [str(entry["tokens"]) for entry in event["scheduled"]]
        rows.append((event["startMs"], event["endMs"], " ".join([event["kind"], *who])))
    return rows


def queues(found: dict[str, Any]) -> list[str]:
    """Per job "waiting | running" as they stand after scheduling."""
    return [f"{' '.join(event['waiting'])} | {' '.join(event['running'])}" for event in found["events"]]


def tokens(found: dict[str, Any]) -> dict[str, list[float]]:
    return {request["id"]: request["tokenTimesMs"] for request in found["requests"]}


def metrics(found: dict[str, Any], key: str) -> dict[str, float | None]:
    return {request["id"]: request[key] for request in found["requests"]}


def test_mixed_under_fcfs() -> None:
    """Rule: while anybody waits for prefill, the whole prompt of the head. Otherwise one decode batch of all."""
    found = run(MIXED, "0.25", policy="fcfs")

    assert jobs(found) == [
        # At 0 only A is there: its whole prompt, 0.25 + 2. Its first token leaves at the end.
        (0.00, 2.25, "prefill A 2"),  # A1
        # L came at 2, while A was prefilled. Somebody waits, so A's decode has to wait: 0.25 + 12.
        (2.25, 14.50, "prefill L 12"),  # L1
        # S came at 4, in the middle of L. It waits too, so prefill again: 0.25 + 1. A is still stalled.
        (14.50, 15.75, "prefill S 1"),  # S1
        # Nobody waits any more: from here on decode batches of 1.25 with all that are not done.
        (15.75, 17.00, "decode A L S"),  # A2 L2 S2: L wanted two tokens and leaves
        (17.00, 18.25, "decode A S"),  # A3 S3
        (18.25, 19.50, "decode A S"),  # A4 S4: S wanted four and leaves
        # A alone: it has 4 of 12 tokens, so eight more batches.
        (19.50, 20.75, "decode A"),  # A5
        (20.75, 22.00, "decode A"),  # A6
        (22.00, 23.25, "decode A"),  # A7
        (23.25, 24.50, "decode A"),  # A8
        (24.50, 25.75, "decode A"),  # A9
        (25.75, 27.00, "decode A"),  # A10
        (27.00, 28.25, "decode A"),  # A11
        (28.25, 29.50, "decode A"),  # A12: all done, after 3 + 3 + 8 = 14 jobs
    ]
    assert queues(found) == [
        " | A",  # job 0 starts at 0: L and S have not come
        " | A L",  # job 1 starts at 2.25: S has not come
        " | A L S",  # job 2 starts at 14.5: S was the only one who waited, and is admitted
        " | A L S",  # job 3: L leaves at its end, and is still here
        " | A S",
        " | A S",
        *[" | A"] * 8,
    ]
    assert tokens(found) == {  # the comments above, read down, one request at a time
        "A": [2.25, 17.00, 18.25, 19.50, 20.75, 22.00, 23.25, 24.50, 25.75, 27.00, 28.25, 29.50],
        "L": [14.50, 17.00],
        "S": [15.75, 17.00, 18.25, 19.50],
    }
    assert metrics(found, "ttftMs") == {
        "A": 2.25,  # 2.25 - 0
        "L": 12.50,  # 14.50 - 2
        "S": 11.75,  # 15.75 - 4
    }
    assert metrics(found, "maxItlMs") == {
        "A": 14.75,  # A1 to A2: 17.00 - 2.25 = the prefills of L (12.25) and S (1.25) and its own decode (1.25)
        "L": 2.50,  # L1 to L2: 17.00 - 14.50 = the prefill of S and a decode
        "S": 1.25,  # nothing but decodes
    }
    assert metrics(found, "queueMs") == {
        "A": 0,
        "L": 0.25,  # 2.25 - 2
        "S": 10.50,  # 14.50 - 4
    }
    assert metrics(found, "e2eMs") == {"A": 29.50, "L": 15.00, "S": 15.50}  # 29.50 - 0, 17.00 - 2, 19.50 - 4


def test_mixed_under_chunked_2() -> None:
    """Rule: after a decode batch at most 2 tokens of the head, if anybody waits. Otherwise decode all, if any."""
    found = run(MIXED, "0.25", policy="chunked", chunk_tokens=2)

    assert jobs(found) == [
        # At 0 nobody can decode, so a chunk: A's prompt is just 2 tokens, 0.25 + 2, and complete.
        (0.00, 2.25, "prefill A 2"),  # A1
        # The last job was no decode batch: A decodes first, although L (came at 2) waits.
        (2.25, 3.50, "decode A"),  # A2
        # After a decode batch a chunk: L's first 2 of 12. From here on the two take turns: 1.25 + 2.25 = 3.5 per round.
        (3.50, 5.75, "prefill L 2"),  # L has 2 of 12; S came at 4 and waits behind L
        (5.75, 7.00, "decode A"),  # A3
        (7.00, 9.25, "prefill L 2"),  # 4 of 12
        (9.25, 10.50, "decode A"),  # A4
        (10.50, 12.75, "prefill L 2"),  # 6 of 12
        (12.75, 14.00, "decode A"),  # A5
        (14.00, 16.25, "prefill L 2"),  # 8 of 12
        (16.25, 17.50, "decode A"),  # A6
        (17.50, 19.75, "prefill L 2"),  # 10 of 12
        (19.75, 21.00, "decode A"),  # A7
        (21.00, 23.25, "prefill L 2"),  # L1: 12 of 12, the prompt is complete
        # Decode's turn, now with L. S still waits: its single token was behind all six chunks of L.
        (23.25, 24.50, "decode A L"),  # A8 L2: L wanted two tokens and leaves
        (24.50, 25.75, "prefill S 1"),  # S1: a chunk of 1, for there is no more: 0.25 + 1
        # Nobody waits any more: decode batches only.
        (25.75, 27.00, "decode A S"),  # A9 S2
        (27.00, 28.25, "decode A S"),  # A10 S3
        (28.25, 29.50, "decode A S"),  # A11 S4: S wanted four and leaves
        (29.50, 30.75, "decode A"),  # A12: all done, after 1 + 6 x 2 + 6 = 19 jobs
    ]
    assert queues(found) == [
        " | A",  # job 0 starts at 0: L and S have not come
        "L | A",  # job 1 starts at 2.25: it is A's turn, L waits
        " | A L",  # job 2 starts at 3.5: L's first chunk admits it; S has not come
        *["S | A L"] * 11,  # jobs 3 (at 5.75) to 13 (at 23.25): L, half prefilled, runs; S waits
        " | A S",  # job 14: L has left, S is admitted
        *[" | A S"] * 3,
        " | A",
    ]
    assert tokens(found) == {  # the comments above, read down, one request at a time
        "A": [2.25, 3.50, 7.00, 10.50, 14.00, 17.50, 21.00, 24.50, 27.00, 28.25, 29.50, 30.75],
        "L": [23.25, 24.50],
        "S": [25.75, 27.00, 28.25, 29.50],
    }
    assert metrics(found, "ttftMs") == {
        "A": 2.25,  # 2.25 - 0, as under fcfs: what has left has left
        "L": 21.25,  # 23.25 - 2
        "S": 21.75,  # 25.75 - 4
    }
    assert metrics(found, "maxItlMs") == {
        "A": 3.50,  # one round: a chunk of 2 (2.25) and its own decode (1.25)
        "L": 1.25,
        "S": 1.25,
    }
    assert metrics(found, "queueMs") == {
        "A": 0,
        "L": 1.50,  # 3.50 - 2
        "S": 20.50,  # 24.50 - 4
    }
    assert metrics(found, "e2eMs") == {"A": 30.75, "L": 22.50, "S": 25.50}  # 30.75 - 0, 24.50 - 2, 29.50 - 4


def prefill_only_ends(job_ms: str, **scheduler: Any) -> list[float]:
    """The ends of the jobs of `prefill-only`. P wants one token, which leaves with the last of its prompt."""
    found = run(PREFILL_ONLY, job_ms, **scheduler)
    ends = [end for _, end, _ in jobs(found)]
    assert tokens(found) == {"P": ends[-1:]}
    return ends


@pytest.mark.parametrize(
    ("job_ms", "ends"),
    [
        ("0.25", [12.25]),  # one submission: 0.25 + 12
        ("0", [12]),  # 12
    ],
)
def test_prefill_only_under_fcfs(job_ms: str, ends: list[float]) -> None:
    assert prefill_only_ends(job_ms, policy="fcfs") == ends


@pytest.mark.parametrize(
    ("job_ms", "ends"),
    [
        ("0.25", [2.25, 4.50, 6.75, 9.00, 11.25, 13.50]),  # six chunks of 0.25 + 2: five submissions more than fcfs
        ("0", [2, 4, 6, 8, 10, 12]),  # six chunks of 2: cutting costs nothing when submitting costs nothing
    ],
)
def test_prefill_only_under_chunked_2(job_ms: str, ends: list[float]) -> None:
    assert prefill_only_ends(job_ms, policy="chunked", chunk_tokens=2) == ends
