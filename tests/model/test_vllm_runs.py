"""vLLM 0.33's own scheduler, decision by decision: every recorded run is run again, and every recorded field is equal.

The recordings are too large for the repository; HEADWAY_DATA names the folder whose vllm/cases/ holds them. What they
isolate, rule by rule, stands without them in tests/golden/test_vllm_rules.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vllm_runs

import sim
from sim.record.result import Result


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each file, by its name; nothing is read yet."""
    files = vllm_runs.files()
    if files is None:
        reason = "HEADWAY_DATA names no folder: set it to the one whose vllm/cases/ holds the recorded runs"
        rows = [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")]
    else:
        rows = [pytest.param(path, id=vllm_runs.name(path)) for path in files]
    metafunc.parametrize("path", rows)


def test_recorded_run(path: Path) -> None:
    assert path.is_file(), f"{path}: no recorded runs there, but HEADWAY_DATA says so"
    recording = vllm_runs.read(path)
    result, watch = vllm_runs.simulate(recording)
    assert_equal_with_spans(recording, result)
    found = vllm_runs.expectation(recording, result, watch)
    reasons = vllm_runs.unservable(recording)

    if reasons:
        assert_equal_until_it_matters(recording, found, reasons)
        assert_rejected_and_the_others_finished(recording, result, reasons)
        return
    for step, recorded in zip(found["steps"], recording["expect"]["steps"], strict=False):
        assert step == recorded
    for id_, recorded in recording["expect"]["requests"].items():
        assert found["requests"][id_] == recorded
    assert found == recording["expect"]  # whatever else there is: how many steps, when it ended, the watermark


def assert_equal_with_spans(recording: vllm_runs.Recording, result: Result) -> None:
    """Every cell of every table: all else follows from them."""
    fast = sim.simulate(sim.load(vllm_runs.scenario(recording))).record
    for name in ("rows", "schedule", "requests", "admissions", "preemptions", "copies"):
        one, other = getattr(fast, name), getattr(result.record, name)
        assert [column for column in one if not np.array_equal(one[column], other[column])] == [], name


def assert_equal_until_it_matters(
    recording: vllm_runs.Recording, found: dict[str, Any], reasons: dict[int, str]
) -> None:
    before = list(vllm_runs.steps_before(recording["expect"]["steps"], reasons))
    for step, recorded in zip(found["steps"], before, strict=False):
        assert step == recorded
    assert len(found["steps"]) >= len(before)


def assert_rejected_and_the_others_finished(
    recording: vllm_runs.Recording, result: Result, reasons: dict[int, str]
) -> None:
    """Where vLLM's scheduler stalls, or admits and preempts for ever, the simulator refuses on arrival, and goes on."""
    longest = recording["config"]["max_model_len"]
    outputs = {str(r["id"]): (r["prompt_tokens"], r["output_tokens"]) for r in recording["requests"]}
    for request in result.to_dict()["runs"][0]["requests"]:
        id_ = request["id"]
        prompt, output = outputs[id_]
        if int(id_) in reasons:
            assert (request["status"], request["emittedTokens"]) == ("rejected", 0)
            assert request["reason"].startswith(reasons[int(id_)])
        else:
            assert (request["status"], request["emittedTokens"]) == ("finished", min(output, longest - prompt))
