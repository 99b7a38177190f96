"""Tiny scenarios for tests that read like a specification: a line per request in, a line per job out.

On the lesson's device a prefill of n tokens takes 0.25 + n ms and a decode batch 1.25 ms, whatever its size.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest

import sim
from sim.analysis.verify import verify_document
from sim.policies.base import Policy

Requests = Sequence[Mapping[str, Any]]
Document = dict[str, Any]


def request(id_: str, arrival_ms: float, prompt: int, output: int, **more: Any) -> Document:
    return {"id": id_, "arrival_ms": arrival_ms, "prompt_tokens": prompt, "output_tokens": output, **more}


def scenario(requests: Requests, policy: str = "fcfs", *, device: Mapping[str, Any] | None = None,
             run: Mapping[str, Any] | None = None, **scheduler: Any) -> sim.Scenario:  # fmt: skip
    document: Document = {
        "schema": 1,
        "name": "tiny",
        "workload": {"requests": list(requests)},
        "scheduler": {"policy": policy, **scheduler},
    }
    if device is not None:
        document["device"] = dict(device)
    if run is not None:
        document["run"] = dict(run)
    return sim.load(document)


def simulate(requests: Requests, policy: str = "fcfs", **settings: Any) -> Document:
    """One run as the JSON has it. Whatever it is for, its record is also checked from itself."""
    return checked(sim.simulate(scenario(requests, policy, **settings)))


def checked(result: sim.Result) -> Document:
    """The one run of a result, after ``verify`` found nothing wrong with it."""
    text = json.dumps(result.to_dict())
    report = verify_document(json.loads(text, parse_float=Decimal))
    assert report.findings == []
    run: Document = json.loads(text)["runs"][0]
    return run


def with_policy(patch: pytest.MonkeyPatch, policy: Policy) -> None:
    """Every run from now on is decided by ``policy``, whatever its scenario names: the one place that knows how."""
    run_it = sim.simulate  # the function; the module of this name is found below
    patch.setattr(import_module(run_it.__module__), "compose", lambda _: policy)


def log(run: Document) -> list[tuple[float, float, str]]:
    """(start, end, what) in ms: "prefill L 2" is two prompt tokens of L, "decode A S" one token each of A and S."""
    rows = []
    for event in run["events"]:
        words = [event["kind"]]
        for entry in event["scheduled"]:
            words += [entry["id"]] if entry["phase"] == "decode" else [entry["id"], str(entry["tokens"])]
        rows.append((event["startMs"], event["endMs"], " ".join(words)))
    return rows


def queues(run: Document) -> list[str]:
    """Per job "waiting | running", as they stand after scheduling."""
    return [" ".join([*event["waiting"], "|", *event["running"]]) for event in run["events"]]


def tokens(run: Document) -> dict[str, list[float]]:
    return {row["id"]: row["tokenTimesMs"] for row in run["requests"]}


def column(run: Document, key: str) -> dict[str, Any]:
    return {row["id"]: row[key] for row in run["requests"]}


def ends(run: Document) -> dict[str, tuple[str, str | None, float | None]]:
    """Per request (status, reason, when it ended in ms)."""
    return {row["id"]: (row["status"], row["reason"], row["endedMs"]) for row in run["requests"]}
