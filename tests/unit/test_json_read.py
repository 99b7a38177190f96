"""Reading a result JSON: strictly, every complaint with its place, and back to the very tables that it came from."""

import re
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import scenario as scenarios
from sim.errors import ResultError
from sim.experiment import plan
from sim.record import json_form
from sim.record.json_read import read_document, runs_of, strict_json
from sim.record.json_shape import shaped
from sim.record.result import Result

REQUESTS = [
    {"id": "A", "arrival_ms": 0, "prompt_tokens": 2, "output_tokens": 12},
    {"id": "L", "arrival_ms": 2, "prompt_tokens": 12, "output_tokens": 2},
    {"id": "S", "arrival_ms": 4, "prompt_tokens": 1, "output_tokens": 4},
]
PATIENCE = [{**REQUESTS[0], "cancel_ms": Decimal("9.3")}, {**REQUESTS[1], "cancel_ms": 1}, REQUESTS[2]]
SCENARIOS: dict[str, dict[str, Any]] = {
    "mixed": {"workload": {"requests": REQUESTS}, "run": {"policies": ["fcfs", "chunked", "static"]}},
    "cancelled": {"workload": {"requests": PATIENCE}, "scheduler": {"policy": "chunked"}},
    "horizon": {"workload": {"requests": REQUESTS}, "run": {"horizon_ms": 15}},
    "no job ends": {"workload": {"requests": REQUESTS}, "run": {"horizon_ms": 1}},
    "no time for prompts": {"workload": {"requests": REQUESTS}, "device": {"decode_ms_per_batch": 1}},
    "unnamed": {"workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1, "tenant": "t", "deadline_ms": 9}]}},
    "variants": {
        "workload": {"requests": REQUESTS},
        "run": {"variants": [{"name": "c4", "set": {"scheduler": {"policy": "chunked", "chunk_tokens": 4}}}]},
    },
}


def results(name: str) -> list[Result]:
    scenario = scenarios.load({"schema": 1, "name": "s", **SCENARIOS[name]})
    return [one.run() for one in plan(scenario)]


def text_of(runs: list[Result]) -> bytes:
    return "".join(json_form.text(json_form.document(runs))).encode()


@pytest.fixture
def document() -> dict[str, Any]:
    read: dict[str, Any] = strict_json(text_of(results("mixed")))
    return read


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_written_is_read_back(name: str) -> None:
    written = results(name)
    read = runs_of(strict_json(text_of(written)))
    assert text_of(read) == text_of(written)
    assert [one.resolved for one in read] == [one.resolved for one in written]


@pytest.mark.parametrize("name", ["mixed", "cancelled", "no time for prompts"])
def test_the_tables_are_those_that_were_recorded(name: str) -> None:
    written = results(name)
    for one, other in zip(written, runs_of(strict_json(text_of(written))), strict=True):
        assert one.record.reasons == other.record.reasons
        for table in ("requests", "jobs", "schedule", "admissions", "preemptions", "copies"):
            mine, theirs = getattr(one.record, table), getattr(other.record, table)
            assert list(mine) == list(theirs)
            assert all(np.array_equal(mine[column], theirs[column]) for column in mine), table


def test_times_of_a_dictionary_may_be_floats() -> None:
    (result, *_) = results("mixed")
    (read,) = runs_of(result.to_dict())
    assert read.token_times("A").tolist() == result.token_times("A").tolist()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not JSON: line 1, column 1: Expecting value"),
        (b'{"schema": "headway.result/1", "runs": [', "not JSON: line 1, column 41: Expecting value"),
        (b"[1, 2]", "not a result: its JSON is no object"),
        (b"{}", 'not a result: it has no "schema"; this version of Headway reads "headway.result/1"'),
        (
            b'{"schema": "headway.result/2"}',
            'schema = "headway.result/2": this version of Headway reads "headway.result/1"',
        ),
        (b'{"schema": 1}', 'schema = 1: this version of Headway reads "headway.result/1"'),
        (b'{"schema": NaN}', "NaN: not a number that JSON has"),
        (b'{"schema": -Infinity}', "-Infinity: not a number that JSON has"),
        (b'{"schema": 1e99999999999999999999}', "1e99999999999999999999: not a number that a result may hold"),
        (b'{"schema": 1, "schema": 2}', 'the key "schema" stands twice in one object'),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "an integer of thousands of digits"),
        ('{"schema": 1}'.encode("utf-16"), "byte 0 is not UTF-8; must be UTF-8 (looks like UTF-16 LE)"),
        (b'{"schema": "\xe4"}', "byte 12 is not UTF-8; must be UTF-8"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, data: bytes, complaint: str) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(data)
    with pytest.raises(ResultError, match=f"^{re.escape(f'{path}: {complaint}')}$"):
        read_document(path)


def test_what_can_not_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "a\0b"):
        with pytest.raises(ResultError):
            read_document(path)


def test_a_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.record.json_read.MAX_BYTES", 2**20)
    path = tmp_path / "r.json"
    path.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ResultError, match="larger than 1 MiB"):
        read_document(path)


def test_any_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    data = text_of(results("cancelled"))
    path = tmp_path / "r.json"
    for end in range(0, len(data), 41):
        path.write_bytes(data[:end])
        with pytest.raises(ResultError):
            read_document(path)


# --- shape -----------------------------------------------------------------------------------------------------------


def test_every_problem_is_told_at_once_with_its_place(document: dict[str, Any]) -> None:
    run = document["runs"][0]
    del run["requests"][2]["ttftMs"]
    run["requests"][0]["promptTokens"] = True
    run["requests"][1]["arrivalMs"] = Decimal("0.0000001")
    run["requests"][1]["endedMs"] = -1
    run["events"][3]["kind"] = "prefil"
    run["events"][4]["colour"] = "red"
    run["summary"]["ttft"]["mean"] = "1"
    run["settings"]["scheduler.policy"] = [[]]
    with pytest.raises(ResultError) as refused:
        shaped(document)
    assert refused.value.args == (
        "runs[0].settings.scheduler.policy = […]: not a number",
        "runs[0].requests[0].promptTokens = true: input should be a valid integer",
        "runs[0].requests[1].arrivalMs = 1e-7: not a whole number of nanoseconds",
        "runs[0].requests[1].endedMs = -1: not a time from 0 up to the end of the clock",
        "runs[0].requests[2].ttftMs: missing",
        "runs[0].events[3].kind = \"prefil\": unknown; one of prefill, decode, mixed, swap; did you mean 'prefill'?",
        "runs[0].events[4].colour: unknown key",
        'runs[0].summary.ttft.mean = "1": not a number',
    )


def test_the_twentieth_problem_is_the_last_that_is_told(document: dict[str, Any]) -> None:
    for run in document["runs"]:
        for event in run["events"]:
            del event["job"]
    with pytest.raises(ResultError) as refused:
        shaped(document)
    assert len(refused.value.args) == 21
    assert refused.value.args[-1] == "and 30 more"


@pytest.mark.parametrize(
    "value", [Decimal("NaN"), Decimal("1E+999999999"), Decimal("1E-999999999"), 10**60, "1", [], {}]
)
def test_no_number_is_too_strange(document: dict[str, Any], value: object) -> None:
    for place in (document["runs"][0]["requests"][0], document["runs"][0]["summary"]):
        damaged = deepcopy(document)
        row = damaged["runs"][0]["requests"][0] if "ttftMs" in place else damaged["runs"][0]["summary"]
        row["ttftMs" if "ttftMs" in place else "requestsPerS"] = value
        with pytest.raises(ResultError):
            shaped(damaged)


def test_an_invalid_scenario_is_refused(document: dict[str, Any]) -> None:
    document["scenario"]["scheduler"] = {"chunk_tokens": 0}
    with pytest.raises(ResultError, match=re.escape("scheduler.chunk_tokens = 0: too small; at least 1")):
        runs_of(document)


def test_what_no_table_can_hold_is_refused_with_the_reason(document: dict[str, Any]) -> None:
    run = document["runs"][0]
    run["name"] = "turbo"
    run["events"][0]["job"] = 7
    run["events"][1]["running"].append("Z")
    run["events"][2]["scheduled"] *= 2
    run["events"][3]["scheduled"][0]["tokens"] = 2
    run["events"][4]["waiting"].append("A")
    with pytest.raises(ResultError) as refused:
        runs_of(document)
    assert refused.value.args == (
        "runs[0]: job 0: jobs are numbered from 0 without a gap: expected 0, found 7",
        "runs[0]: job 1, running, request Z: every id is that of a request: expected a request of the run, found none",
        "runs[0]: job 2, scheduled, request S: no request twice in a job: expected 1, found 2",
        "runs[0]: job 3, request A: every scheduled item has tokens, a decode one a sample: expected 1, found 2",
        "runs[0]: job 4, waiting and running, request A: no request twice in a job: expected 1, found 2",
        'runs[0]: name = "turbo", policy = "fcfs": the scenario has no such run',
    )


def test_a_run_with_other_requests_than_its_scenario_is_refused(document: dict[str, Any]) -> None:
    document["scenario"]["workload"]["requests"].pop()
    with pytest.raises(ResultError, match=re.escape("runs[0].requests: 3 requests; the scenario has 2")):
        runs_of(document)
