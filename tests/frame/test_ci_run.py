"""`.ci/run` runs the README's commands, names each, and fails when one does: tried with a stand-in for make."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = ["make run SCENARIO=mixed", "make check", "make slow"]
STAND_IN = """#!/bin/sh
echo "make $* (data: ${HEADWAY_DATA-none})"
[ "$*" != "$FAILS" ]
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    clone = tmp_path / "a clone"
    (clone / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci" / "run")
    make = tmp_path / "programs" / "make"
    make.parent.mkdir()
    make.write_text(STAND_IN)
    make.chmod(0o755)
    return clone


def run(clone: Path, fails: str = "") -> tuple[int, list[str]]:
    environment = {"PATH": f"{clone.parent / 'programs'}:{os.environ['PATH']}", "FAILS": fails}
    done = subprocess.run(
        [clone / ".ci" / "run"], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line]


def test_every_step_is_run_and_named(clone: Path) -> None:
    code, lines = run(clone)
    assert code == 0
    assert [line for line in lines if line.startswith("make")] == [f"{step} (data: none)" for step in STEPS]
    assert [line for line in lines if line.startswith("===") and not line.endswith("s")] == [f"=== {s}" for s in STEPS]


@pytest.mark.parametrize("step", STEPS)
def test_one_that_fails_is_named_at_the_end_and_the_others_still_run(clone: Path, step: str) -> None:
    code, lines = run(clone, fails=step.removeprefix("make "))
    assert code == 1
    assert len([line for line in lines if line.startswith("make")]) == len(STEPS)
    assert lines[-2:] == ["failed:", f"  {step}"]


def test_large_inputs_beside_the_clone_are_used(clone: Path) -> None:
    (clone.parent / "shared").mkdir()
    _, lines = run(clone)
    assert f"make check (data: {clone.parent / 'shared'})" in lines
