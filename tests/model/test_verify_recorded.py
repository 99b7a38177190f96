"""The simulator's answers to the recorded inputs are consistent in themselves, by ``verify``: every run, every job."""

from pathlib import Path

import pytest
import vllm_runs

import sim
from sim.analysis.verify import verify_document
from sim.record import json_form
from sim.record.json_read import strict_json

LARGE = "big"
"""The kind whose runs take seconds each; the first of them is enough here."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a kind."""
    files = vllm_runs.files()
    if files is None:
        reason = "HEADWAY_DATA names no folder: set it to the one whose vllm/cases/ holds the recorded runs"
        metafunc.parametrize("paths", [pytest.param([], marks=pytest.mark.skip(reason=reason), id="none")])
        return
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(vllm_runs.name(path).split("_")[0], []).append(path)
    metafunc.parametrize("paths", [paths[:1] if kind == LARGE else paths for kind, paths in kinds.items()], ids=kinds)


def test_recorded_inputs_give_consistent_records(paths: list[Path]) -> None:
    for path in paths:
        assert path.is_file(), f"{path}: no recorded runs there, but HEADWAY_DATA says so"
        result = sim.simulate(sim.load(vllm_runs.scenario(vllm_runs.read(path))))
        text = "".join(json_form.text(json_form.document([result])))
        report = verify_document(strict_json(text.encode()))
        assert report.ok, (path, list(report.lines())[:5])
