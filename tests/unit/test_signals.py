"""Ctrl-C and SIGTERM: exit 130 or 143 at once, nothing half-written, nothing left behind.

What is signalled would go on for a minute. How long it takes to end is measured in seconds of the processor, less than
one, for the machine may be busy with others; by the clock on the wall it has fifteen.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sim

ROOT = Path(sim.__file__).parents[1]
CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
BOTH = pytest.mark.parametrize("signum", CODES, ids=lambda signum: signal.Signals(signum).name)
AT_ONCE_S = 15.0
OF_THE_PROCESSOR_S = 1.0

ENDLESS = """\
schema = 1
name = "endless"
[workload]
requests = [{prompt_tokens = 1000000000, output_tokens = 1}]
[scheduler]
policy = "chunked"
chunk_tokens = 1
"""

# Runs the command, but stops at the place named by the first argument: says on stdout how many seconds of the
# processor it has used, and waits to be signalled.
STOPS = """
import sys, time
from resource import RUSAGE_SELF, getrusage
from sim import cli
from sim.record import disk, lock, store

owner, name, times = sys.argv[1].split(".")
owner = {"disk": disk, "Sink": store.Sink, "Log": None}[owner]
if owner is None:
    from sim.record.log import Log as owner
real, left = getattr(owner, name), int(times)

def stopping(*arguments):
    global left
    left -= 1
    if left == 0:
        used = getrusage(RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime, flush=True)
        time.sleep(60)
    return real(*arguments)

setattr(owner, name, stopping)
cli.main(sys.argv[2:])
"""

PLACES = {
    "in the middle of the simulation": "Log.on_job.3",
    "while it tries whether it can write": "disk.mkdir.1",
    "before the folder that it builds": "disk.mkdir.2",
    "while pyarrow writes a table": "Sink.write.3",
    "while pyarrow writes the last of a table": "Sink.write.40",
    "before a file is made to last": "disk.fsync.2",
    "before the old folder is put aside": "disk.rename.1",
    "between the two renames": "disk.rename.2",
}


@contextmanager
def started(*command: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def signalled(process: "subprocess.Popen[str]", *signums: int) -> tuple[int, str]:
    """Its exit code and what it said on stderr, after it has been signalled."""
    for signum in signums:
        process.send_signal(signum)
    said = process.communicate(timeout=AT_ONCE_S)[1]
    return process.returncode, said


def stopped(process: "subprocess.Popen[str]", *signums: int) -> tuple[int, str]:
    """The same of one that stops at a place of ours and tells what it has used by then."""
    assert process.stdout is not None
    before = float(process.stdout.readline()) + children_s()
    answer = signalled(process, *signums)
    assert children_s() - before < OF_THE_PROCESSOR_S
    return answer


def children_s() -> float:
    """Seconds of the processor that the children which have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@BOTH
def test_a_long_simulation(signum: int, tmp_path: Path) -> None:
    (tmp_path / "endless.toml").write_text(ENDLESS)
    arguments = ("run", "endless.toml", "--set", "scheduler.prefills_per_job=1", "--output", "out")
    with started("-m", "sim", *arguments, folder=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("note: ")  # it is about to simulate
        time.sleep(0.3)
        code, said = signalled(process, signum)
    assert code == CODES[signum]
    assert "Traceback" not in said
    assert list(contents(tmp_path)) == ["endless.toml"]
    assert [path.name for path in tmp_path.iterdir()] == ["endless.toml"]


@BOTH
@pytest.mark.parametrize("place", PLACES)
def test_wherever_it_is_the_old_result_stays_and_nothing_else(signum: int, place: str, tmp_path: Path) -> None:
    from sim.experiment import plan
    from sim.record import write

    write.save_all([each.run() for each in plan(sim.load("prefill-only"))], tmp_path / "out")
    before = contents(tmp_path)
    script = ("-c", STOPS, PLACES[place], "run", "unseen", "--policy", "chunked,static", "--output", "out")
    with started(*script, folder=tmp_path) as process:
        code, said = stopped(process, signum)
    assert code == CODES[signum]
    assert "Traceback" not in said
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@BOTH
def test_a_file_too(signum: int, tmp_path: Path) -> None:
    script = ("-c", STOPS, "disk.rename.1", "run", "unseen", "--policy", "chunked", "--output", "deep/out.json")
    with started(*script, folder=tmp_path) as process:
        assert stopped(process, signum)[0] == CODES[signum]
    assert list(tmp_path.iterdir()) == []


def test_a_second_interrupt_ends_it_all_the_same(tmp_path: Path) -> None:
    """Whoever is impatient gets out at once; what the first one could not clean up, the next run does."""
    script = ("-c", STOPS, "disk.fsync.3", "run", "unseen", "--policy", "chunked", "--output", "out")
    with started(*script, folder=tmp_path) as process:
        assert stopped(process, signal.SIGINT, signal.SIGINT)[0] == 130
    assert not (tmp_path / "out").exists()
    again = ("-m", "sim", "run", "unseen", "--policy", "chunked", "--output", "out")
    with started(*again, folder=tmp_path) as process:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@BOTH
def test_it_says_that_nothing_was_written_by_halves(signum: int, tmp_path: Path) -> None:
    script = ("-c", STOPS, "Log.on_job.2", "run", "unseen", "--policy", "chunked")
    with started(*script, folder=tmp_path) as process:
        assert stopped(process, signum) == (CODES[signum], f"{WORDS[signum]}; no result was left half-written\n")
