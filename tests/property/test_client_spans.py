"""Closed loops, sessions, patience and retries, over the axes of ``axes``: spans leave no trace there either.

Each scenario keeps the device, pool, scheduler, faults and horizon that ``axes`` draws for its seed, and gets a load
whose requests depend on the ends of others or on when tokens come. Each run is also verified from its own record (where
clients and server are worked out a second time), and its resolved scenario runs again to the same bytes.
"""

import json
import random
from decimal import Decimal

import axes
import pytest
from axes import Document
from test_spans import MAX_JOBS, as_json, as_parquet, assert_no_trace, outcome

import sim
from sim.analysis.verify import verify_document
from sim.request import Status

AT_ONCE = 50
QUICK = 3
"""So many times so many scenarios in the quick tests; in the slow ones there are 2,000 more."""


def scenario(seed: int) -> Document:
    """Half of the seeds are short outputs with many ties, half long ones with long spans; some under other orders."""
    document, rng = axes.seeded(seed), random.Random(seed)
    load = (closed_loop, sessions, given)[seed % 3](rng, document)
    if seed % 3 == 2 or rng.random() < 0.6:
        load["patience_ms"] = duration(rng, longest=rng.choice([3, 12, 60]))
        if rng.random() < 0.7:
            load["retry"] = retry(rng)
    if (kv := document.get("kv")) is not None and seed % 3 < 2:
        kv["blocks"] = max(kv["blocks"], -(-rng.choice([12, 24, 60]) // kv["block_tokens"]))
        kv["watermark_blocks"] = min(kv.get("watermark_blocks", 0), kv["blocks"] - 1)
    drawn = {**document, "workload": load, "run": {**document.get("run", {}), "max_jobs": MAX_JOBS}}
    return axes.with_order(drawn, seed) if seed % 4 == 0 else drawn


def lengths(rng: random.Random, longest: int) -> Document:
    return {"distribution": "uniform", "min": 1, "max": rng.randint(1, longest)}


def duration(rng: random.Random, longest: float) -> object:
    """A number that makes ties, or a law."""
    if rng.random() < 0.6:
        return rng.choice([0, 0, 1, 0.25, 2, longest])
    name = rng.choice(["exponential", "lognormal", "gamma"])
    return {"distribution": name, "mean": longest / 2, **({} if name == "exponential" else {"cv": 0.7})}


def retry(rng: random.Random) -> Document:
    return {"attempts": rng.randint(1, 3), "backoff_ms": rng.choice([0, 0, 1, 2.5]), "factor": rng.choice([1, 2]),
            "max_backoff_ms": rng.choice([3, 1000])}  # fmt: skip


def closed_loop(rng: random.Random, _: Document) -> Document:
    return {
        "count": rng.randint(1, 14),
        "prompt_tokens": lengths(rng, 8),
        "output_tokens": lengths(rng, rng.choice([6, 60])),
        "clients": {"users": rng.randint(1, 5), "think_ms": duration(rng, longest=8)},
    }


def sessions(rng: random.Random, _: Document) -> Document:
    return {
        "count": rng.randint(1, 5),
        "arrivals": {"process": "poisson", "rate_per_s": rng.choice([50, 1000])},
        "prompt_tokens": lengths(rng, 6),
        "output_tokens": lengths(rng, rng.choice([4, 30])),
        "sessions": {"turns": lengths(rng, 4), "think_ms": duration(rng, longest=8)},
    }


def given(rng: random.Random, document: Document) -> Document:
    requests = document["workload"]["requests"]
    if rng.random() < 0.5:
        for request in requests:
            request["output_tokens"] *= rng.choice([1, 5, 20])
            request.pop("max_tokens", None)
    return {"requests": requests}


def assert_sound(document: Document, name: str) -> tuple[int, set[tuple[Status, bool]]]:
    """Compare, verify and run again; how many spans there were, and what became of first and further attempts."""
    spans = assert_no_trace(document, name)
    result = outcome(document)
    if isinstance(result, str):
        return spans, set()
    report = verify_document(json.loads(json.dumps(result.to_dict()), parse_float=Decimal))
    assert report.findings == [], name
    again = sim.simulate(sim.load(result.resolved))
    assert as_json(again) == as_json(result), name
    assert as_parquet(again) == as_parquet(result), name
    ids = result.record.workload.all_ids()
    return spans, {(Status(s), "~" in id_) for id_, s in zip(ids, result.requests["status"].tolist(), strict=True)}


def compare(first: int) -> tuple[int, set[tuple[Status, bool]]]:
    spans, seen = 0, set[tuple[Status, bool]]()
    for seed in range(first, first + AT_ONCE):
        document = scenario(seed)
        if not axes.left_out(document):
            more, met = assert_sound(document, f"seed {seed}")
            spans, seen = spans + more, seen | met
    return spans, seen


@pytest.mark.parametrize("first", range(0, QUICK * AT_ONCE, AT_ONCE))
def test_spans_leave_no_trace(first: int) -> None:
    spans, seen = compare(first)
    assert spans > AT_ONCE // 4, "hardly anything ran in spans: the comparison says little"
    ends = {Status.FINISHED, Status.CANCELLED}
    assert {(status, again) for status in ends for again in (False, True)} <= seen


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, AT_ONCE))
def test_spans_leave_no_trace_in_two_thousand(first: int) -> None:
    compare(first)
