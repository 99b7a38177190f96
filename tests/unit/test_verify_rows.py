"""``verify`` on rows that stand for several jobs, and on runs that are too long to be decided again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kv_scenarios import SCENARIOS, drawn, run
from test_verify_kv import claims_of
from typer.testing import CliRunner

from sim.analysis import checking, checks_blocks, moments
from sim.analysis.checking import check_claims
from sim.analysis.course import ALWAYS, COUNTED
from sim.analysis.findings import Report
from sim.analysis.moments import Moments
from sim.analysis.verify import verify
from sim.cli import app
from sim.errors import LimitError
from sim.record.result import Result
from sim.record.stretches import Stretches
from sim.record.tables import ROW_COLUMNS, Record
from sim.request import NEVER, Ints

LONG = {
    "workload": {
        "requests": [
            {"id": id_, "arrival_ms": at, "prompt_tokens": 3, "output_tokens": tokens}
            for id_, at, tokens in (("A", 0, 40), ("B", 1, 30), ("C", 8, 5), ("D", 9, 2))
        ]
    },
    "device": {"job_ms": 0.25, "decode_ms_per_batch": 0.9, "context_ms_per_token": 0.0012345},
    "kv": {"blocks": 40, "block_tokens": 4},
    "scheduler": {"policy": "vllm", "max_running": 2},
}


@pytest.fixture(scope="module")
def long() -> Result:
    return run(LONG)


def checked(result: Result, record: Record) -> Report:
    report = Report()
    check_claims(replace(claims_of(result), record=record), report)
    return report


def cut(record: Record, row: int, at: int) -> dict[str, Ints]:
    """The rows with one of them in two, of which the first stands for ``at`` jobs."""
    rows, jobs = {name: np.insert(column, row, column[row]) for name, column in record.rows.items()}, record.jobs
    first = int(record.stretches.first[row])
    rows["jobs"][row], rows["jobs"][row + 1] = at, rows["jobs"][row + 1] - at
    rows["end_ns"][row] = rows["start_ns"][row + 1] = jobs["end_ns"][first + at - 1]
    rows["first_fs"][row + 1] += at * rows["growth_fs"][row]
    for name in ("waiting", "free_blocks"):
        rows[name][row + 1] = jobs[name][first + at]
    return rows


def test_a_row_in_two_is_found(long: Result) -> None:
    """All jobs are the very same; only that they stand in two rows is wrong."""
    record = long.record
    for row in np.flatnonzero(record.rows["jobs"] > 1).tolist():
        for at in range(1, int(record.rows["jobs"][row])):
            apart = replace(record, rows=cut(record, row, at))
            assert all(np.array_equal(column, record.jobs[name]) for name, column in apart.jobs.items())
            assert {found.check for found in checked(long, apart).findings} == {"like jobs in a row are one row"}


def test_blocks_that_nobody_was_said_to_take_are_found(long: Result) -> None:
    schedule = long.record.schedule
    for row in np.flatnonzero(schedule["grows"] != NEVER).tolist():
        grows = schedule["grows"].copy()
        grows[row] = NEVER
        report = checked(long, replace(long.record, schedule={**schedule, "grows": grows}))
        assert "blocks of like jobs are taken when needed" in {found.check for found in report.findings}


@pytest.mark.parametrize(
    ("name", "by", "check"),
    [
        ("jobs", 1, "rows end with the last of their jobs"),
        ("end_ns", -1, "rows end with the last of their jobs"),
        ("prefill_tokens", 1, "rows of several jobs only decode"),
        ("kind", 1, "rows of several jobs only decode"),
        ("growth_fs", -1, "like jobs take what the device charges"),
        ("first_fs", 1, "like jobs take what the device charges"),
    ],
)
def test_each_number_of_a_long_row_is_held_to_account(long: Result, name: str, by: int, check: str) -> None:
    row = int(np.argmax(long.record.rows["jobs"]))
    column = long.record.rows[name].copy()
    column[row] += by
    report = checked(long, replace(long.record, rows={**long.record.rows, name: column}))
    assert check in {found.check for found in report.findings}


def test_whatever_begins_within_a_row_is_found(long: Result) -> None:
    schedule = long.record.schedule
    row = int(np.flatnonzero(schedule["request"] == 1)[-1])  # the decodes of B
    shorter = {**schedule, "jobs": schedule["jobs"].copy(), "tokens": schedule["tokens"].copy()}
    for name in ("jobs", "tokens"):
        shorter[name][row] -= 1
    report = checked(long, replace(long.record, schedule=shorter))
    assert {found.check for found in report.findings} >= {"whatever changes begins a row"}


# --- a few at a time -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "JOBS_AT_ONCE", 3)
    monkeypatch.setattr(checks_blocks, "BLOCKS_AT_ONCE", 2)


@pytest.mark.usefixtures("small_pieces")
def test_a_few_at_a_time_gives_the_same(long: Result) -> None:
    assert checked(long, long.record).ok
    for scenario in SCENARIOS.values():
        result = run(scenario)
        assert checked(result, result.record).ok


@pytest.mark.usefixtures("small_pieces")
def test_moments_are_those_of_the_jobs(long: Result) -> None:
    of, jobs = Moments(Stretches(long.record.rows)), long.record.jobs
    laid = list(of.laid())
    assert len(laid) > 1
    for name in ("starts_ns", "ends_ns"):
        assert np.array_equal(np.concatenate([getattr(one, name) for one in laid]), jobs[name.replace("s_", "_")])
    assert np.array_equal(of.starts_ns(np.arange(len(jobs["start_ns"]))), jobs["start_ns"])
    instants = np.unique(np.concatenate([jobs["start_ns"] + by for by in (-1, 0, 1)]))
    begun, ends_ns = of.begun_before(instants)
    assert np.array_equal(begun, np.searchsorted(jobs["start_ns"], instants))
    assert np.array_equal(ends_ns, np.append(0, jobs["end_ns"])[begun])


# --- too long to be decided again ------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST_JOBS_AGAIN", 5)


@pytest.mark.usefixtures("few")
def test_a_long_run_is_not_decided_again_unless_that_is_asked_for(long: Result, tmp_path: Path) -> None:
    long.save(tmp_path / "r")
    jobs = long.record.stretches.jobs
    said = f"every decision is made again: {jobs:,} jobs; at most 5, or --decisions"
    report = verify(tmp_path / "r")
    assert report.ok
    assert report.left_out == [said]
    assert {*ALWAYS} & {*report.checks} == {COUNTED}  # from the record alone
    assert f"left out: {said}" in report.lines()
    whole = verify(tmp_path / "r", decisions=True)
    assert whole.ok
    assert not whole.left_out
    assert {*ALWAYS} <= {*whole.checks}


@pytest.mark.usefixtures("few")
def test_the_command_says_what_it_left_out(long: Result, tmp_path: Path) -> None:
    long.save(tmp_path / "r")

    def told(*options: str) -> dict[str, Any]:
        answer = CliRunner().invoke(app, ["verify", str(tmp_path / "r"), "--json", *options])
        assert answer.exit_code == 0
        read: dict[str, Any] = json.loads(answer.stdout)
        return read

    assert len(told()["leftOut"]) == 1
    assert "leftOut" not in told("--decisions")


@pytest.mark.usefixtures("few")
def test_a_json_is_always_decided_again(long: Result, tmp_path: Path) -> None:
    long.save(tmp_path / "r.json")
    report = verify(tmp_path / "r.json")
    assert report.ok
    assert {*ALWAYS} <= {*report.checks}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in range(250, 1000, 250))])
def test_what_is_right_is_not_found_wrong_without_deciding_again(seed: int) -> None:
    for each in range(seed, seed + 250):
        try:
            result = run(drawn(each))
        except LimitError:
            continue
        report = checked(result, result.record)
        assert report.ok, (each, list(report.lines())[:5])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", [name for name in ROW_COLUMNS if name not in ("blocked", "withheld_blocks")])
def test_each_number_of_each_row_is_checked_without_deciding_again(long: Result, name: str) -> None:
    for row in range(len(long.record.stretches)):
        for by in (-1, 1):
            column = long.record.rows[name].copy()
            column[row] += by
            assert not checked(long, replace(long.record, rows={**long.record.rows, name: column})).ok, (name, row, by)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", ["status", "arrived_job", "ended_job"])
def test_how_requests_ended_is_checked_without_deciding_again(long: Result, name: str) -> None:
    for index in range(len(long.record.workload)):
        column = long.record.requests[name].copy()
        column[index] += 1
        record = replace(long.record, requests={**long.record.requests, name: column})
        assert not checked(long, record).ok, (name, index)
