"""What is there for speed does not show: with spans on and off the result is the same to the byte, ``work`` aside.

Without the cohort as well it is the same job by job; only how many jobs a row of the table stands for differs then.
The scenarios are those of ``axes``: all compositions, gates, victims, orders, swap, sharing, faults, cancellation,
horizons and odd costs. Half of them get outputs up to forty times as long, so that spans are long.
"""

import io
import json
import random
from pathlib import Path
from typing import Any

import axes
import numpy as np
import pytest
from axes import Document, Requests

import sim
from sim.analysis.verify import verify
from sim.engine.cycle import Cycle, View
from sim.errors import HeadwayError
from sim.record import parquet_form
from sim.record.result import Result

AT_ONCE = 50
QUICK = 6
"""So many times so many scenarios in the quick tests; in the slow ones there are 3,000 more."""

MAX_JOBS = 20_000


def scenario(seed: int) -> Document:
    """Every third one under another order of the queue, every fourth with requests that are drawn from laws."""
    document = axes.seeded(seed)
    if seed % 4 == 2:
        document = axes.generated(document, seed)
    if seed % 3 == 0:
        document = axes.with_order(document, seed)
    if seed % 2:
        lengthen(document["workload"]["requests"], document.get("kv"), random.Random(seed))
    return {**document, "run": {**document.get("run", {}), "max_jobs": MAX_JOBS}}


def lengthen(requests: Requests, kv: Document | None, rng: random.Random) -> None:
    """Longer outputs, and a pool that holds the longest request and not much more."""
    for request in requests:
        longer = request["output_tokens"] * (rng.choice([1, 3, 10, 40]) - 1)
        request["output_tokens"] += longer
        if "max_tokens" in request:
            request["max_tokens"] += longer
    if kv is not None:
        largest = max(r["prompt_tokens"] + r.get("samples", 1) * r["output_tokens"] for r in requests)
        kv["blocks"] = max(kv["blocks"], largest // kv["block_tokens"] + rng.choice([1, 2, 10]))


def outcome(document: Document, *, spans: bool = True, cohort: bool = True) -> Result | str:
    """The result, or what was said instead."""
    try:
        return sim.simulate(sim.load(document), check=True, spans=spans, cohort=cohort)
    except HeadwayError as error:
        return f"{type(error).__name__}: {error}"


def as_json(result: Result | str) -> str:
    if isinstance(result, str):
        return result
    (run,) = result.to_dict()["runs"]
    return json.dumps({key: value for key, value in run.items() if key != "work"})


def as_parquet(result: Result) -> dict[str, bytes]:
    tables = {}
    for name, parts in parquet_form.tables(result):
        file = io.BytesIO()
        parquet_form.write(parts, file)  # type: ignore[arg-type]  # a file all the same
        tables[name] = file.getvalue()
    return tables


def assert_no_trace(document: Document, name: str) -> int:
    """Compare; how many spans there were."""
    fast, single = outcome(document), outcome(document, spans=False)
    plain = outcome(document, spans=False, cohort=False)
    assert as_json(fast) == as_json(single) == as_json(plain), name
    if isinstance(fast, str) or isinstance(single, str) or isinstance(plain, str):
        return 0
    assert as_parquet(fast) == as_parquet(single), name
    for table in ("jobs", "schedule", "admissions", "preemptions", "copies", "requests"):
        one, other = getattr(fast.record, table), getattr(plain.record, table)
        differing = [column for column in one if column != "grows" and not np.array_equal(one[column], other[column])]
        assert differing == [], f"{name}, {table}"
    assert single.work["spans"] == 0
    return fast.work["spans"]


def compare(first: int) -> None:
    spans = 0
    for seed in range(first, first + AT_ONCE):
        document = scenario(seed)
        if not axes.left_out(document):
            spans += assert_no_trace(document, f"seed {seed}")
    assert spans > AT_ONCE // 4, "hardly anything ran in spans: the comparison says little"


@pytest.mark.parametrize("first", range(0, QUICK * AT_ONCE, AT_ONCE))
def test_spans_leave_no_trace(first: int) -> None:
    compare(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 13_000, AT_ONCE))
def test_spans_leave_no_trace_in_three_thousand(first: int) -> None:
    compare(first)


def crowd(**tables: Any) -> Document:
    """A, B and C decode for long, D comes in between."""
    requests = [
        {"id": "A", "prompt_tokens": 4, "output_tokens": 60},
        {"id": "B", "prompt_tokens": 7, "output_tokens": 90},
        {"id": "C", "arrival_ms": 3, "prompt_tokens": 2, "output_tokens": 41},
        {"id": "D", "arrival_ms": 50, "prompt_tokens": 3, "output_tokens": 9},
    ]
    return {"schema": 1, "name": "crowd", "workload": {"requests": requests}, **tables}


class OldestOnly:
    """A policy that goes by the time and by how far somebody has come, and promises nothing."""

    def plan(self, view: View, cycle: Cycle) -> None:
        if view.now_ns % 3 == 0 and (head := cycle.next_prefill()) is not None:
            cycle.prefill(head, 1)
        for request in list(view.running):
            if not request.prefilling and (request.emitted % 4 or len(view.running) == 1):
                cycle.extend(request, 1)
        if cycle.empty and (head := cycle.next_prefill()) is not None:
            cycle.prefill(head, cycle.rest(head))
        if cycle.empty:
            cycle.decode_all()


def test_a_policy_that_knows_nothing_of_spans_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.simulation.compose", lambda _axes: OldestOnly())
    assert assert_no_trace(crowd(kv={"blocks": 40, "block_tokens": 4}), "own policy") == 0


def test_a_parent_that_fills_a_block_lets_its_waiting_child_in() -> None:
    """The child waits for blocks; each that its parent fills is one that it need not have."""
    requests = [
        {"id": "parent", "prompt_tokens": 8, "output_tokens": 60},
        {"id": "child", "arrival_ms": 2, "prompt_tokens": 60, "output_tokens": 4, "parent": "parent",
         "parent_tokens": 60},
    ]  # fmt: skip
    document = crowd(kv={"blocks": 21, "block_tokens": 4, "prefix_cache": True}, scheduler={"policy": "vllm"})
    document["workload"] = {"requests": requests}
    assert_no_trace(document, "child")
    result = sim.simulate(sim.load(document))
    finished = {row["id"]: row for row in result.to_dict()["runs"][0]["requests"]}
    assert finished["child"]["firstTokenMs"] < finished["parent"]["finishMs"], "it need not wait for the end"
    assert finished["child"]["cachedTokens"] > 0


def test_a_row_ends_when_one_leaves_that_only_held_blocks() -> None:
    """A and B have a block each, C the third and no fourth for its next chunk; it goes at 20, and its block with it."""
    requests = [
        {"id": "A", "prompt_tokens": 2, "output_tokens": 12},
        {"id": "B", "prompt_tokens": 2, "output_tokens": 12},
        {"id": "C", "prompt_tokens": 40, "output_tokens": 1, "cancel_ms": 28},
    ]
    document = crowd(
        kv={"blocks": 3, "block_tokens": 16, "gate": "chunk"}, scheduler={"policy": "chunked", "chunk_tokens": 16}
    )
    document["workload"] = {"requests": requests}
    assert_no_trace(document, "C leaves")
    jobs = sim.simulate(sim.load(document)).jobs
    late = jobs["start_ns"] > 28 * 10**6
    assert late.any()
    assert jobs["free_blocks"][late][0] == 1
    assert jobs["running"][late][0] == 2


@pytest.mark.parametrize("horizon", [10, 22.75, 60, 61.3, 400])
def test_the_horizon_counts_the_jobs_of_a_span_that_have_ended(horizon: float) -> None:
    assert_no_trace(crowd(run={"horizon_ms": horizon}), f"horizon {horizon}")


@pytest.mark.parametrize("context_ms", [0.001, 0.0000003, 0.000000000001])
def test_durations_that_grow_with_the_context_are_exact(context_ms: float) -> None:
    device = {"job_ms": 0.2000001, "prefill_ms_per_token": 0.02, "decode_ms_per_batch": 1.0000003,
              "decode_ms_per_request": 0.0100007, "context_ms_per_token": context_ms}  # fmt: skip
    assert assert_no_trace(crowd(device=device), f"context {context_ms}") > 3


def test_jobs_of_no_length_that_begin_when_the_device_becomes_slow_are_no_span(tmp_path: Path) -> None:
    """The prefill of 9 tokens ends at 9 ms, when the device becomes slow: from then on each job is one of its own.

    The decodes take 0.4 ns, which rounds to none, so that a whole stretch of them would end before anything is slow.
    """
    document = crowd(
        device={"prefill_ms_per_token": 1, "decode_ms_per_request": 0.0000004},
        faults=[{"kind": "slow", "at_ms": 9, "until_ms": 10, "factor": 2}],
    )
    document["workload"] = {"requests": [{"id": "A", "prompt_tokens": 9, "output_tokens": 10}]}
    assert assert_no_trace(document, "slow from now on") == 0
    result = sim.simulate(sim.load(document))
    assert result.record.rows["jobs"].tolist() == [1] * 10
    result.save(tmp_path / "slow")
    assert verify(tmp_path / "slow").ok


def test_whoever_comes_to_be_the_head_with_time_is_let_in_then() -> None:
    """R holds one of two blocks for 40 ms. A needs two and is kept out; B, who needs one, comes behind A at 5 ms.

    Under ``hrrn`` B has waited for 0/2 of its size at 5 ms, A for 4/66; at 6 ms it is 1/2 against 5/66: B gets in with
    the decision of that instant, and not when R is done.
    """
    requests = [
        {"id": "R", "prompt_tokens": 2, "output_tokens": 40},
        {"id": "A", "arrival_ms": 1, "prompt_tokens": 65, "output_tokens": 1},
        {"id": "B", "arrival_ms": 5, "prompt_tokens": 1, "output_tokens": 1},
    ]
    scheduler = {"policy": "vllm", "order": "hrrn"}
    document = crowd(device={"job_ms": 1}, kv={"blocks": 2, "block_tokens": 64}, scheduler=scheduler)
    document["workload"] = {"requests": requests}
    assert_no_trace(document, "B overtakes A")
    assert sim.simulate(sim.load(document)).requests["finish_ns"].tolist() == [40_000_000, 41_000_000, 7_000_000]
