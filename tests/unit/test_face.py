"""``import sim``: what it offers, whatever else has been imported before."""

import subprocess
import sys
from pathlib import Path

import pytest

import sim

ROOT = Path(sim.__file__).parents[1]


def python(code: str) -> str:
    """What ``code`` prints in a fresh Python."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_names_that_it_offers() -> None:
    assert set(sim.__all__) <= set(dir(sim))
    assert all(getattr(sim, name) is not None for name in sim.__all__)


def test_a_name_that_it_does_not() -> None:
    with pytest.raises(AttributeError, match="module 'sim' has no attribute 'simulat'"):
        sim.simulat  # noqa: B018


@pytest.mark.parametrize("name", ["load", "simulate", "open_result", "open_results"])
def test_its_verbs_can_be_called(name: str) -> None:
    assert python(f"import sim; print(callable(sim.{name}))") == "True\n"


@pytest.mark.parametrize(
    "before", ["sim.simulation", "sim.experiment", "sim.analysis.verify", "sim.cli, sim.experiment"]
)
def test_whatever_was_imported_before(before: str) -> None:
    assert python(f"import {before}; import sim; print(callable(sim.simulate))") == "True\n"


def test_the_imported_name_too() -> None:
    assert python("import sim.experiment; from sim import simulate; print(callable(simulate))") == "True\n"


def test_whatever_is_imported_after() -> None:
    assert python("import sim; sim.simulate; import sim.experiment; print(callable(sim.simulate))") == "True\n"
