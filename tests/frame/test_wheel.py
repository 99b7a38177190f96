"""What `pip install headway` gives: the wheel, built by way of the source archive, in an environment of its own.

Nothing of the checkout may be needed: the commands run in another folder. The environment's packages come from the
index, so this needs a network.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READY = sorted(file.stem for file in (ROOT / "scenarios").glob("*.toml"))
OURS = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTHON", "VIRTUAL_ENV"))}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


def call(*command: str | Path, folder: Path) -> str:
    """What a program that must succeed prints."""
    run = subprocess.run(command, cwd=folder, env=OURS, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT, folder=dist)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a fresh environment into which the wheel was installed."""
    environment = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", environment, folder=environment)
    pip = ("-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(environment / "bin" / "python", *pip, wheel, folder=environment)
    return environment / "bin"


def test_the_wheel_holds_the_package_the_scenarios_and_nothing_else(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel).namelist()
    assert {file.split("/")[0] for file in files} == {"sim", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert sorted(Path(file).stem for file in files if file.startswith("sim/scenarios/")) == READY
    assert "sim/py.typed" in files


def test_both_commands_work_in_another_folder(programs: Path, tmp_path: Path) -> None:
    listed = call(programs / "python", "-m", "sim", "list", folder=tmp_path)
    assert [name for name in READY if name not in listed] == []
    assert call(programs / "headway", "list", folder=tmp_path) == listed


def test_the_installed_command_runs_a_ready_scenario(programs: Path, tmp_path: Path) -> None:
    call(programs / "headway", "run", "mixed", "--output", "mixed.json", folder=tmp_path)
    runs = json.loads((tmp_path / "mixed.json").read_text())["runs"]
    assert {run["policy"]: len(run["events"]) for run in runs} == {"fcfs": 14, "chunked": 19}
    call(programs / "headway", "verify", "mixed.json", folder=tmp_path)


def test_it_is_the_wheel_that_ran(programs: Path, tmp_path: Path) -> None:
    place = call(programs / "python", "-c", "import sim; print(sim.__file__)", folder=tmp_path)
    assert Path(place.strip()).is_relative_to(programs.parent)
