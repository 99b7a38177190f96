"""The same scenario, seed and version: the same bytes, wherever and however it runs."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import sim
from sim import gallery
from sim.engine.monitor import Monitor
from sim.engine.plan import Job
from sim.experiment import plan
from sim.record import write

CROWD = """\
schema = 1
name = "crowd"
claim = "Überholt wird niemand; 谁先走?"
[workload]
requests = [
  {id = "İ", prompt_tokens = 5, output_tokens = 7, tenant = "\u0131", priority = 3},
  {id = "ß", arrival_ms = 0.123457, prompt_tokens = 9, output_tokens = 1, deadline_ms = 30.5},
  {id = "👩‍👩‍👧", arrival_ms = 0.123457, prompt_tokens = 1, output_tokens = 9, cancel_ms = 9.999999},
  {id = "=1+1", arrival_ms = 2.25, prompt_tokens = 2, output_tokens = 3, max_tokens = 4},
  {id = "late", arrival_ms = 1000.1, prompt_tokens = 3, output_tokens = 3},
]
[device]
job_ms = 0.123457
prefill_ms_per_token = 0.333333333333
decode_ms_per_batch = 1.1
decode_ms_per_request = 0.01
context_ms_per_token = 0.000000000001
[scheduler]
chunk_tokens = 3
max_running = 3
[run]
seed = 18446744073709551615
policies = ["chunked", "fcfs", "static"]
horizon_ms = 900
"""
VARIANTS = """
[[run.variants]]
name = "one-by-one"
set = {"scheduler.policy" = "static", "scheduler.max_running" = 1}

[[run.variants]]
name = "chunk-4"
set = {"scheduler.policy" = "chunked", "scheduler.chunk_tokens" = 4, "device.job_ms" = 0.5}
"""


def digests(folder: Path) -> dict[str, str]:
    """Every file below ``folder``, by its relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crowd") / "crowd.toml"
    path.write_text(CROWD, encoding="utf-8")
    return path


def written(scenario: Path, folder: Path) -> dict[str, str]:
    """What a run in this process writes."""
    write.save_all([each.run() for each in plan(sim.load(scenario))], folder)
    return digests(folder)


@pytest.fixture(scope="module")
def here(crowd: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return written(crowd, tmp_path_factory.mktemp("here") / "out")


def test_there_is_something_to_compare(here: Mapping[str, str]) -> None:
    tables = ("admissions", "copies", "jobs", "preemptions", "requests", "schedule")
    assert {f"{policy}/{table}.parquet" for policy in ("chunked", "fcfs", "static") for table in tables} < here.keys()
    assert {"result.json", "chunked/scenario.toml", "chunked/summary.json"} < here.keys()


def test_twice(crowd: Path, here: Mapping[str, str], tmp_path: Path) -> None:
    assert written(crowd, tmp_path / "out") == here


ELSEWHERE: dict[str, tuple[list[str], dict[str, str]]] = {
    "hash seed 0": ([], {"PYTHONHASHSEED": "0"}),
    "hash seed 1": ([], {"PYTHONHASHSEED": "1"}),
    "hash seed 2": ([], {"PYTHONHASHSEED": "2"}),
    "optimised": (["-O"], {}),
    "Kolkata, in Turkish": ([], {"TZ": "Asia/Kolkata", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}),
    "no locale, no UTF-8 mode": (["-X", "utf8=0"], {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0"}),
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_another_process_in_another_folder(how: str, crowd: Path, here: Mapping[str, str], tmp_path: Path) -> None:
    flags, environment = ELSEWHERE[how]
    command = [sys.executable, *flags, "-m", "sim", "run", str(crowd), "--output", "out", "--lang", "zh"]
    root = str(Path(sim.__file__).parents[1])
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": root, **environment}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert digests(tmp_path / "out") == here


# --- two simulations in one process ----------------------------------------------------------------------------------


class Baton(Monitor):
    """Lets two runs in two threads do one job each in turn: nobody goes on before the other has, or is done."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._whose = 0
        self._done = [False, False]
        self.order: list[int] = []

    def runner(self, me: int) -> "Runner":
        return Runner(self, me)

    def hand_over(self, me: int) -> None:
        with self._turn:
            self.order.append(me)
            self._whose = 1 - me
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: self._whose == me or self._done[1 - me], timeout=60)

    def begin(self, me: int) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._whose == me or self._done[1 - me], timeout=60)

    def finish(self, me: int) -> None:
        with self._turn:
            self._done[me] = True
            self._turn.notify_all()


class Runner(Monitor):
    """A monitor that hands the baton over at the end of each job."""

    def __init__(self, baton: Baton, me: int) -> None:
        self._baton, self._me = baton, me

    def on_job(self, job: Job) -> None:
        self._baton.hand_over(self._me)


def both_in_turn(one: sim.Scenario, other: sim.Scenario) -> tuple[list[dict[str, Any]], list[int]]:
    baton = Baton()
    results: list[dict[str, Any]] = [{}, {}]

    def run(me: int, scenario: sim.Scenario) -> None:
        baton.begin(me)
        try:
            results[me] = sim.simulate(scenario, monitors=[baton.runner(me)], spans=False).to_dict()
        finally:
            baton.finish(me)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate((one, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    return results, baton.order


def test_two_that_take_turns_job_by_job_do_not_meet(crowd: Path) -> None:
    one = sim.load(crowd, overrides={"scheduler.policy": "fcfs"})
    other = sim.load(crowd, overrides={"scheduler.policy": "chunked"})
    together, order = both_in_turn(one, other)
    assert order[:20] == [0, 1] * 10  # they did take turns
    assert together == [sim.simulate(each, spans=False).to_dict() for each in (one, other)]


def test_the_same_scenario_twice_at_once_shares_nothing(crowd: Path) -> None:
    scenario = sim.load(crowd)
    together, order = both_in_turn(scenario, scenario)
    assert order[:20] == [0, 1] * 10
    assert together == [sim.simulate(scenario, spans=False).to_dict()] * 2


def test_one_within_another(crowd: Path) -> None:
    """A whole run happens while a job of another is being booked."""
    scenario = sim.load(crowd)
    within: list[dict[str, Any]] = []

    class Nested(Monitor):
        def on_job(self, job: Job) -> None:
            if job.number <= 5 < job.number + job.count:
                within.append(sim.simulate(scenario).to_dict())

    around = sim.simulate(scenario, monitors=[Nested()]).to_dict()
    assert [around] == within


# --- the resolved scenario -------------------------------------------------------------------------------------------

SAME_AGAIN = ("admissions.parquet", "jobs.parquet", "preemptions.parquet", "requests.parquet", "schedule.parquet",
              "scenario.toml", "summary.json")  # fmt: skip


@pytest.mark.parametrize("with_variants", [False, True], ids=["policies", "variants"])
def test_the_resolved_scenario_runs_again_to_the_same_bytes(with_variants: bool, tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    text = CROWD.replace('policies = ["chunked", "fcfs", "static"]\n', "") + VARIANTS if with_variants else CROWD
    scenario.write_text(text, encoding="utf-8")
    first = written(scenario, tmp_path / "first")
    runs = sorted({name.split("/")[0] for name in first if "/" in name})
    assert runs == (["chunk-4", "one-by-one"] if with_variants else ["chunked", "fcfs", "static"])
    for run in runs:
        again = written(tmp_path / "first" / run / "scenario.toml", tmp_path / "again" / run)
        assert {name: again[f"{run}/{name}"] for name in SAME_AGAIN} == {
            name: first[f"{run}/{name}"] for name in SAME_AGAIN
        }


HEAVY = ("closed-loop-overload", "multi-turn", "diurnal", "bursty-vs-poisson")
READY = [name for name in gallery.names() if name != "azure-conv"]  # it needs its trace


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in READY]
)
def test_so_does_that_of_every_ready_scenario(name: str, tmp_path: Path) -> None:
    write.save_all([each.run() for each in plan(sim.load(name))], tmp_path / "first")
    first = digests(tmp_path / "first")
    for run in sorted({file.split("/")[0] for file in first if "/" in file}):
        again = written(tmp_path / "first" / run / "scenario.toml", tmp_path / "again" / run)
        assert {file: again[f"{run}/{file}"] for file in SAME_AGAIN} == {
            file: first[f"{run}/{file}"] for file in SAME_AGAIN
        }


def test_whole_costs_run_again_to_the_same_bytes_too(tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    requests = "requests = [{prompt_tokens = 2, output_tokens = 2}]"
    scenario.write_text(f'schema = 1\nname = "s"\n[workload]\n{requests}\n[device]\njob_ms = 1\n')
    first = written(scenario, tmp_path / "first")
    again = written(tmp_path / "first" / "fcfs" / "scenario.toml", tmp_path / "again")
    assert again["fcfs/summary.json"] == first["fcfs/summary.json"]


def test_that_of_a_trace_does_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace is named relative to the scenario; its resolved form, in another folder, still finds it."""
    home = tmp_path / "home"
    home.mkdir()
    rows = "".join(f"2023-11-16 18:00:{n:02d}.1234567,{n + 1},{n % 5 + 1}\n" for n in range(20))
    (home / "t.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    trace = 'schema = 1\nname = "t"\n[workload]\ntrace = {path = "t.csv", limit = 15, skip = 2, speedup = 1.5}\n'
    (home / "s.toml").write_text(f"{trace}[device]\njob_ms = 0.5\n")
    monkeypatch.chdir(home)
    first = written(Path("s.toml"), tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    again = written(tmp_path / "first" / "fcfs" / "scenario.toml", tmp_path / "again")
    assert {name: again[f"fcfs/{name}"] for name in SAME_AGAIN} == {name: first[f"fcfs/{name}"] for name in SAME_AGAIN}
