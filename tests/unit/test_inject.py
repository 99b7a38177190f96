"""Fault switches: each damages a copy of a result as a bug of a simulator would, and ``verify`` sees every one."""

from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sim import gallery
from sim import scenario as scenarios
from sim.analysis import inject
from sim.analysis.faults_of_memory import MEMORY
from sim.analysis.findings import Tried
from sim.analysis.verify import verify, verify_document, verify_injected
from sim.errors import ResultError, ScenarioError
from sim.experiment import plan
from sim.record import json_form, write
from sim.record.json_read import strict_json
from sim.record.result import Result


def results(name: str, **overrides: Any) -> list[Result]:
    return [one.run() for one in plan(scenarios.load(gallery.path(name), overrides=overrides))]


def as_json(runs: list[Result]) -> dict[str, Any]:
    read: dict[str, Any] = strict_json("".join(json_form.text(json_form.document(runs))).encode())
    return read


@pytest.fixture(scope="module")
def mixed() -> dict[str, Any]:
    return as_json(results("mixed"))


CAUGHT_BY = {
    "lost-token": "emitted = output, scheduled = prompt + output - 1",
    "phantom-decode": "emitted = output, scheduled = prompt + output - 1",
    "decode-too-early": "no token before its prefill is complete",
    "job-without-work": "every job has work",
    "lost-job": "jobs start at the earliest moment",
    "overlapping-jobs": "jobs do not overlap",
    "idle-gap": "jobs start at the earliest moment",
    "wrong-duration": "jobs take what the device charges",
    "chunk-over-limit": "prompts are cut as the policy says",
    "early-admission": "every decision is that of the policy",
    "overtaking": "nobody is overtaken in admission",
    "token-before-arrival": "nobody is served before arrival",
    "swapped-requests": "nobody is overtaken in admission",
    "stale-running": "who waits and runs is listed",
    "lost-waiting": "who waits and runs is listed",
    "wrong-order-of-batch": "jobs schedule in the order of those who run",
    "doubled-token": "emitted tokens are counted",
    "moved-token": "tokens leave at the ends of their jobs",
    "wrong-ttft": "TTFT = first token - arrival, set once",
    "ttft-revised-later": "TTFT = first token - arrival, set once",
    "wrong-queue-time": "queue time = first scheduled - arrival",
    "wrong-max-itl": "max ITL is the longest gap between tokens",
    "wrong-metric": "summary: distributions",
    "wrong-count": "summary: counts",
    "wrong-kind": "a job's kind follows from its work",
    "wrong-status": "every request has exactly one status, the right one",
    "lost-request": "requests are those of the scenario",
    "doubled-request": "ids are unique",
    "swapped-rows": "requests are those of the scenario",
    "changed-settings": "settings are those of scenario and policy",
    "changed-device": "jobs take what the device charges",
    "changed-workload": "requests are those of the scenario",
    "changed-digest": "provenance is that of the scenario",
    "changed-seed": "provenance is that of the scenario",
}


def test_every_switch_is_in_the_list_and_says_what_it_is() -> None:
    assert [name for name in inject.FAULTS if name not in MEMORY] == list(CAUGHT_BY)
    assert all(fault.__doc__ for fault in inject.FAULTS.values())


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_each_switch_is_caught_by_the_check_that_is_about_it(mixed: dict[str, Any], name: str) -> None:
    before = deepcopy(mixed)
    damaged = inject.inject(mixed, name)
    assert mixed == before, "the original is not touched"
    assert CAUGHT_BY[name] in [finding.check for finding in verify_document(damaged).findings]


@pytest.mark.parametrize(
    "name", ["idle-gap", "wrong-duration", "chunk-over-limit", "early-admission", "overlapping-jobs"]
)
def test_what_follows_from_the_damage_agrees_with_it(mixed: dict[str, Any], name: str) -> None:
    """No metric, no token and no figure gives the fault away: only the rule that it breaks."""
    found = {finding.check for finding in verify_document(inject.inject(mixed, name)).findings}
    assert found == {CAUGHT_BY[name]}


def test_all_are_tried_on_mixed_and_all_are_caught(mixed: dict[str, Any]) -> None:
    tried = inject.try_all(mixed)
    assert [fault.name for fault in tried] == list(CAUGHT_BY)
    assert all(fault.caught and fault.by for fault in tried)


@pytest.mark.parametrize(("name", "overrides"), [
    ("prefill-only", {}), ("unseen", {}), ("static-vs-continuous", {}),
    ("mixed", {"run.policies": ["static"]}), ("mixed", {"run.horizon_ms": Decimal(20)}),
])  # fmt: skip
def test_none_is_missed_on_other_scenarios(name: str, overrides: dict[str, Any]) -> None:
    tried = inject.try_all(as_json(results(name, **overrides)))
    assert [fault.name for fault in tried if not fault.caught] == []
    assert len(tried) > 10


def test_a_dictionary_of_floats_can_be_damaged_too() -> None:
    (first, *_) = results("mixed")
    assert all(fault.caught for fault in inject.try_all(first.to_dict()))


def test_an_unknown_switch_is_refused_with_the_nearest(mixed: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"--inject lost-tokens: no such fault; .*did you mean 'lost-token'"):
        inject.inject(mixed, "lost-tokens")


def test_a_result_without_a_place_for_it_is_told() -> None:
    document = as_json(results("prefill-only"))
    with pytest.raises(ScenarioError, match="--inject lost-token: nothing in this result can be damaged so"):
        inject.inject(document, "lost-token")


def test_a_fault_that_nothing_sees_is_a_finding(mixed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inject, "FAULTS", {"no-fault": lambda _: None})
    report = inject.report_all(mixed)
    assert not report.ok
    assert report.tried == [Tried("no-fault", caught=False, by=None)]
    assert list(report.lines()) == [
        "no-fault: NOT CAUGHT",
        "verify: fault no-fault is caught: expected a finding, found none",
        "0 of 1 faults caught",
    ]


def test_damage_that_leaves_no_result_counts_as_caught(mixed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inject, "FAULTS", {"no-status": lambda damaged: damaged.requests[0].pop("status")})
    assert inject.try_all(mixed) == [Tried("no-status", caught=True, by=inject.SHAPE)]


# --- as the command does it ------------------------------------------------------------------------------------------


def test_a_file_or_a_folder_is_damaged_in_memory_only(tmp_path: Path) -> None:
    write.save_all(results("mixed"), tmp_path / "r")
    write.save_all(results("mixed"), tmp_path / "r.json")
    for name in ("r", "r.json"):
        report = verify_injected(tmp_path / name, "wrong-ttft")
        assert [finding.check for finding in report.findings] == ["TTFT = first token - arrival, set once"]
        assert verify(tmp_path / name).ok
        everything = verify_injected(tmp_path / name, "all")
        assert everything.ok
        assert everything.to_dict()["tried"][0] == {"name": "lost-token", "caught": True, "by": CAUGHT_BY["lost-token"]}
        assert list(everything.lines())[-1] == f"{len(CAUGHT_BY)} of {len(CAUGHT_BY)} faults caught"


def test_a_result_that_is_wrong_already_is_reported_as_it_is(tmp_path: Path) -> None:
    write.save_all(results("mixed"), tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text().replace('"jobs": 14,', '"jobs": 13,', 1)
    (tmp_path / "r.json").write_text(text)
    report = verify_injected(tmp_path / "r.json", "all")
    assert report.tried is None
    assert [finding.check for finding in report.findings] == ["summary: counts"]


def test_a_folder_of_one_run_has_no_json_to_damage(tmp_path: Path) -> None:
    results("mixed")[0].save(tmp_path / "r")
    with pytest.raises(ResultError):
        verify_injected(tmp_path / "r", "all")
