"""`azure-conv`: an hour of real conversations under both policies, written, read again and verified."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.analysis.verify import verify
from sim.experiment import plan
from sim.record import json_form, write


def run(trace: Path, folder: Path, limit: int | None = None) -> dict[str, sim.Result]:
    """Both policies, as read back from what they wrote."""
    scenario = sim.load("azure-conv", overrides={"workload.trace.path": str(trace), "workload.trace.limit": limit})
    write.save_all([each.run() for each in plan(scenario)], folder)
    return {result.name: result for result in sim.open_results(folder)}


def jobs(results: dict[str, sim.Result]) -> dict[str, int]:
    return {name: len(result.jobs["start_ns"]) for name, result in results.items()}


def metric(result: sim.Result, name: str, statistic: str) -> float:
    summary: dict[str, Any] = json_form.plain(json_form.summary(result.summary))
    return float(summary[name][statistic])


@pytest.fixture
def conversations(headway_data: Path) -> Path:
    return headway_data / "traces" / "AzureLLMInferenceTrace_conv.csv"


def test_the_first_two_hundred(conversations: Path, tmp_path: Path) -> None:
    results = run(conversations, tmp_path / "out", limit=200)
    assert jobs(results) == {"fcfs": 6648, "chunked": 6899}
    assert verify(tmp_path / "out").findings == []
    for result in results.values():
        assert result.requests["finish_ns"].min() > 0  # all of them finished
    # What the scenario claims: chunks of 512 bound the stalls, and first tokens come later.
    fcfs, chunked = results["fcfs"], results["chunked"]
    assert metric(fcfs, "itl", "p99") == 31.2
    assert metric(chunked, "itl", "p99") == metric(chunked, "itl", "max") == 18.64  # 0.2 + 512 * 0.02 + 0.2 + 8
    assert metric(chunked, "ttft", "mean") > metric(fcfs, "ttft", "mean")


@pytest.mark.slow
def test_the_whole_hour(conversations: Path, tmp_path: Path) -> None:
    """19,366 requests; some 20 s for both policies and 5 s for ``verify``."""
    results = run(conversations, tmp_path / "out")
    assert {len(result.requests["arrival_ns"]) for result in results.values()} == {19_366}
    assert jobs(results) == {"fcfs": 390_669, "chunked": 423_404}
    assert verify(tmp_path / "out").findings == []
    fcfs, chunked = results["fcfs"], results["chunked"]
    assert metric(chunked, "itl", "p99") < metric(fcfs, "itl", "p99")
    assert metric(chunked, "itl", "max") == 18.64
    assert metric(chunked, "ttft", "mean") > metric(fcfs, "ttft", "mean")
    # Not overloaded: it is done 11 s after the last arrival at most, and idles in between.
    for result in results.values():
        busy_ns = int((result.jobs["end_ns"] - result.jobs["start_ns"]).sum())
        assert busy_ns < int(result.jobs["end_ns"][-1])
        assert int(result.jobs["end_ns"][-1]) - int(result.requests["arrival_ns"].max()) < 11 * 10**9
