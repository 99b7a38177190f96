"""Measuring: processes by what the system says they used, between two looks at how fast the machine is."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from bench import calibration, workloads
from bench.calibration import Calibration
from bench.workloads import Cycles, Document, Recorded, Run, Workload

ROOT = Path(__file__).parents[2]
TESTS = (ROOT / "tests", ROOT / "tests" / "model")

Figures = dict[str, float]

SIZES = {"rss_mb"}
"""Figures that are no times: a faster machine does not change them."""


class ProcessError(Exception):
    """A measured process did not end well."""


class Usage(NamedTuple):
    """What a whole process used, its children included: CPU of user and system, and peak memory."""

    cpu_s: float
    rss_mb: float


def clean_environment() -> dict[str, str]:
    """Nothing of the user's own Python, as `make` has it; compiled modules are kept, so that no run compiles them."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**others, "PYTHONNOUSERSITE": "1", "PYTHONPATH": os.pathsep.join(map(str, TESTS))}


def process(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[Usage, str]:
    """Run a command in the checkout until its end: what it used, and what it printed.

    Whoever calls this should be small itself: where a process begins as a copy of its parent, its peak is at least
    what the parent has.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=complaints,
            env={**clean_environment(), **(environment or {})},
        )  # fmt: skip
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        complaints.seek(0)
        if child.returncode:
            last = complaints.read().decode(errors="replace").strip().splitlines()[-3:]
            raise ProcessError(f"{' '.join(command)}: exit {child.returncode}", *last)
        rss_bytes = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return Usage(used.ru_utime + used.ru_stime, rss_bytes / 1e6), output.read().decode()


def answer(module: str, *arguments: str | Path) -> Any:
    """What one of our modules prints as JSON, run in a process of its own."""
    return json.loads(process([sys.executable, "-m", module, *map(str, arguments)])[1])


def calibrated() -> Calibration:
    return Calibration(*answer("bench.calibration"))


# --- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Figures of one run as they were taken, and the machine's speed meanwhile."""

    figures: Figures
    machine: Calibration

    @property
    def scaled(self) -> Figures:
        return {
            name: value if name in SIZES else calibration.scaled(value, self.machine.timeout_us)
            for name, value in self.figures.items()
        }


def sample(take: Callable[[], Figures], before: Calibration) -> tuple[Sample, Calibration]:
    """One run, and the machine's speed after it, which is that before the next."""
    figures = take()
    after = calibrated()
    return Sample(figures, calibration.between(before, after)), after


def samples(take: Callable[[], Figures], runs: int) -> list[Sample]:
    found, machine = [], calibrated()
    for _ in range(runs):
        taken, machine = sample(take, machine)
        found.append(taken)
    return found


def best(found: Sequence[Sample]) -> Sample:
    """The run that took the least time, unscaled: the one for which the machine was nearest to its best."""
    return min(found, key=lambda each: next(iter(each.figures.values())))


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A workload with what was found: nothing, when there is a reason in ``left_out``."""

    workload: Workload
    samples: list[Sample] = field(default_factory=list)
    phases: Figures = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)
    left_out: str | None = None

    @property
    def scaled(self) -> Figures:
        return best(self.samples).scaled if self.samples else {}


def measured(workload: Workload, runs: int) -> Row:
    if reason := workloads.missing(workload):
        return Row(workload, left_out=reason)
    try:
        match workload:
            case Run():
                with written(workload.document) as (scenario, folder):
                    inside = answer("bench.inside", "phases", scenario, folder.with_name("inside"))
                    found = samples(lambda: whole_run(scenario, folder, workload.requests), runs)
                return Row(workload, found, inside["phases"], inside["work"])
            case Cycles():
                return Row(workload, samples(lambda: answer("bench.inside", "cycle", str(workload.batch)), runs))
            case Recorded():
                path = workloads.recording(workload.name)
                return Row(workload, samples(lambda: answer("bench.inside", "step", path), runs))
    except ProcessError as error:
        return Row(workload, left_out="; ".join(error.args))


def headway(scenario: Path, folder: Path) -> list[str]:
    """The command as a user types it, behind the interpreter; the record is complete."""
    return ["-m", "sim", "run", str(scenario), "--output", str(folder)]


def whole_run(scenario: Path, folder: Path, requests: int) -> Figures:
    usage, _ = process([sys.executable, *headway(scenario, folder)])
    return {"cpu_s": usage.cpu_s, "us_per_request": 1e6 * usage.cpu_s / requests, "rss_mb": usage.rss_mb}


@contextmanager
def written(document: Document) -> Iterator[tuple[Path, Path]]:
    """The scenario as a file, and a folder for its result."""
    with tempfile.TemporaryDirectory() as place:
        scenario = Path(place, "scenario.toml")
        scenario.write_text(tomli_w.dumps(document), encoding="utf-8")
        yield scenario, Path(place, "result")


# --- instructions ----------------------------------------------------------------------------------------------------

COUNTED = (500, 1500)
"""Two sizes of the base workload; their difference leaves out what every start of Python costs."""


def instructions_per_request() -> float | None:
    """Instructions that a request of the base workload costs, by cachegrind; None without valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None

    def counted(requests: int) -> int:
        with written(workloads.document(workloads.poisson(requests))) as (scenario, folder):
            log = scenario.with_name("cachegrind.txt")
            tool = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
            command = [*tool, f"--log-file={log}", sys.executable, *headway(scenario, folder)]
            process(command, {"PYTHONHASHSEED": "0"})
            found = re.search(r"I +refs: +([\d,]+)", log.read_text())
            if found is None:
                raise ProcessError("valgrind counted nothing")
            return int(found[1].replace(",", ""))

    few, many = map(counted, COUNTED)
    return (many - few) / (COUNTED[1] - COUNTED[0])
