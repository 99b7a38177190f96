"""``verify`` on runs with a block pool, and all others that are decided again: silent about what is right."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kv_scenarios import SCENARIOS, as_json, drawn, run

import sim
from sim.analysis import checks_origin as origin
from sim.analysis.checking import check_claims
from sim.analysis.claims import COLUMNS, Claims
from sim.analysis.course import ALWAYS, VICTIM
from sim.analysis.findings import Finding, Report
from sim.analysis.verify import verify, verify_document
from sim.errors import HeadwayError, LimitError
from sim.policies.presets import PRESETS, resolve
from sim.record import json_form, write
from sim.record.json_read import runs_of
from sim.record.json_shape import Provenance, Summary
from sim.record.read import open_result
from sim.record.result import Result

TABLES = ("requests", "jobs", "schedule", "admissions", "preemptions", "copies")
Document = dict[str, Any]


def findings(document: Document) -> list[Finding]:
    return verify_document(document).findings


def same_tables(one: Result, other: Result) -> bool:
    """All that a JSON says: it has each job on its own, and not how they came in rows."""
    return one.record.reasons == other.record.reasons and all(
        np.array_equal(column, getattr(other.record, table)[name])
        for table in TABLES
        for name, column in getattr(one.record, table).items()
        if name != "grows"
    )


def same_rows(one: Result, other: Result) -> bool:
    """The rows too, and when blocks were taken."""
    return np.array_equal(one.record.schedule["grows"], other.record.schedule["grows"]) and all(
        np.array_equal(column, other.record.rows[name]) for name, column in one.record.rows.items()
    )


# --- what is right ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [pytest.param(at, marks=pytest.mark.slow if at >= 600 else []) for at in range(0, 2000, 200)]
)
def test_whatever_the_simulator_writes_is_consistent(seed: int) -> None:
    """All tables; and of every eighth the JSON, which is also read back: the same again, and the very tables."""
    endless = 0
    for each in range(seed, seed + 200):
        try:
            result = run(drawn(each))
        except LimitError:  # two that preempt one another for ever
            endless += 1
            continue
        report = Report()
        check_claims(claims_of(result), report)
        assert report.ok, (each, list(report.lines())[:5])
        if each % 8 == 0:
            document = as_json(result)
            report = verify_document(document)
            assert report.ok, (each, list(report.lines())[:5])
            (read,) = runs_of(document)
            assert read.to_dict() == result.to_dict(), each
            assert same_tables(read, result) or "random" in str(drawn(each)), each
    assert endless < 20


def claims_of(result: Result) -> Claims:
    """What a folder of this result would claim, without the detour over files."""
    scenario = sim.load(result.scenario)
    return Claims(
        where="",
        settings=result.settings,
        scenario=scenario,
        choice=resolve(scenario),
        asked=origin.asked(scenario),
        provenance=Provenance.model_validate(result.provenance),
        record=result.record,
        columns={name: result.requests[name] for name in COLUMNS},
        finish_reasons=[result.finish_reason(index) for index in range(len(result.record.workload))],
        summary=Summary.model_validate(json_form.plain(json_form.summary(result.summary))),
    )


@pytest.mark.parametrize("policy", PRESETS)
@pytest.mark.parametrize("name", [*SCENARIOS, "without"])
def test_every_policy_is_read_back_from_both_forms(name: str, policy: str, tmp_path: Path) -> None:
    scenario = SCENARIOS.get(name) or {"workload": SCENARIOS["recompute"]["workload"]}
    try:
        result = run({**scenario, "scheduler": {"policy": policy}, "run": {"max_jobs": 4000}})
    except HeadwayError as error:
        assert "regions share no blocks" in str(error)  # noqa: PT017  # orca and a prefix cache
        return
    for place in ("r.json", "r"):
        write.save_run(result, tmp_path / place)
        read = open_result(tmp_path / place)
        assert read.to_dict() == result.to_dict()
        assert same_tables(read, result)
        assert same_rows(read, result) or place == "r.json"
        report = verify(tmp_path / place)
        assert report.ok, list(report.lines())


def test_what_was_read_from_a_json_is_consistent_as_a_folder(tmp_path: Path) -> None:
    """Nothing that a JSON does not say is lost: withheld blocks, what blocked the queue, each admission's hits."""
    for name, scenario in SCENARIOS.items():
        (read,) = runs_of(as_json(run(scenario)))
        read.save(tmp_path / name)
        report = verify(tmp_path / name)
        assert report.ok, list(report.lines())


def test_the_checks_that_were_made_are_listed() -> None:
    checks = verify_document(as_json(run(SCENARIOS["recompute"]))).checks
    assert {*ALWAYS, VICTIM, "blocks are conserved", "no job schedules more than its budget"} <= {*checks}


def test_a_victim_by_lot_is_not_said_to_be_checked() -> None:
    kv = {**SCENARIOS["recompute"]["kv"], "victim": "random"}
    report = verify_document(as_json(run({**SCENARIOS["recompute"], "kv": kv})))
    assert report.ok
    assert VICTIM not in report.checks
    assert "every decision is that of the policy" in report.checks


def test_what_does_not_apply_is_not_listed() -> None:
    """No pool, no budget, no limit of slots: nothing is said of them."""
    document = {"workload": SCENARIOS["recompute"]["workload"], "scheduler": {"policy": "fcfs"}}
    checks = verify_document(as_json(run(document))).checks
    assert not {"blocks are conserved", "no job schedules more than its budget", VICTIM} & {*checks}
    assert "no KV pool, no blocks" in checks


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tight() -> Document:
    return as_json(run(SCENARIOS["recompute"]))


def events(document: Document) -> list[Document]:
    found: list[Document] = document["runs"][0]["events"]
    return found


def test_free_blocks_are_exact_at_every_job(tight: Document) -> None:
    for event in events(tight):
        event["freeBlocks"] += 1
        due = event["freeBlocks"] - 1
        found = {(one.check, one.where, one.expected, one.found) for one in findings(tight)}
        where = f"runs[0] vllm, job {event['job']}"
        assert ("blocks are conserved", f"{where}, freeBlocks", due, due + 1) in found
        assert ("free blocks are those that nobody holds", f"{where}, free blocks", due, due + 1) in found
        event["freeBlocks"] -= 1


def test_a_victim_names_who_it_should_have_been(tight: Document) -> None:
    event = next(event for event in events(tight) if event["preempted"])
    (victim,) = event["preempted"]
    event["preempted"] = ["A"]
    assert Finding("victims are those of the rule", f"runs[0] vllm, job {event['job']}, preempted", victim, "A") in (
        findings(tight)
    )


def test_a_reason_for_a_rejection_is_worked_out_again(tight: Document) -> None:
    row = next(row for row in tight["runs"][0]["requests"] if row["status"] == "rejected")
    assert row["reason"] == "needs 20 of 7 blocks: 40 + 1 - 1 = 40 tokens, 2 a block"
    row["reason"] = row["reason"].replace("20", "21")
    assert {one.check for one in findings(tight)} == {
        "who never fits is rejected, nobody else", "reasons are given where due",
    }  # fmt: skip


def test_durations_are_held_against_the_faults() -> None:
    """Without the stall in its scenario, the job that it stood in the way of is too long."""
    document = as_json(run(SCENARIOS["faults"]))
    document["scenario"]["faults"].pop()
    assert "jobs take what the device charges" in {one.check for one in findings(document)}


def test_a_crash_that_is_not_in_the_scenario_is_found() -> None:
    document = as_json(run(SCENARIOS["faults"]))
    del document["scenario"]["faults"][1]
    assert "victims are those of the rule" in {one.check for one in findings(document)}


def test_an_unfinished_request_says_that_it_is_swapped_out() -> None:
    scenario = {**SCENARIOS["swap"], "run": {"horizon_ms": 16}}
    document = as_json(run(scenario))
    rows = {row["id"]: row for row in document["runs"][0]["requests"]}
    swapped = [row for row in rows.values() if row["reason"] == "swapped"]
    assert swapped
    assert findings(document) == []
    swapped[0]["reason"] = "waiting"
    assert {one.check for one in findings(document)} == {"reasons are given where due"}


def test_a_request_cut_by_the_length_of_the_model_says_so() -> None:
    scenario = {**SCENARIOS["recompute"], "scheduler": {"policy": "vllm", "max_model_tokens": 9}}
    document = as_json(run(scenario))
    row = next(row for row in document["runs"][0]["requests"] if row["finishReason"] == "length")
    assert findings(document) == []
    row["finishReason"] = "stop"
    assert [(one.check, one.expected, one.found) for one in findings(document)] == [
        ("reasons are given where due", "length", "stop")
    ]


def test_a_figure_of_the_pool_is_worked_out_again(tight: Document) -> None:
    kv = tight["runs"][0]["summary"]["kv"]
    kv["usedBlocks"]["p99"] += 1
    kv["keptOut"]["blocks"] -= 1
    assert [one.where.partition("kv, ")[2] for one in findings(tight)] == ["usedBlocks, p99", "keptOut, blocks"]


def test_a_dictionary_of_floats_is_consistent() -> None:
    for scenario in SCENARIOS.values():
        text = json.dumps(run(scenario).to_dict())
        assert findings(json.loads(text)) == []
        assert findings(json.loads(text, parse_float=Decimal)) == []
