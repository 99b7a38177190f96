"""The same workload through others' simulators, in turn with ours; and vLLM's own scheduler, as it was recorded."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench import measure, workloads
from bench.measure import ROOT, Figures, ProcessError, Row, Sample

VERSION = "0.13.0.dev202610270000000085"
"""A wheel of AISimulate; its release 0.13.0 is on PyPI as a stub that fetches another file."""

NEEDED = (
    *("numpy>=2.1,<3", "pandas>=2.2.3", "pydantic>=2.5", "pyyaml>=6.0", "psutil>=7.0,<8", "ijson>=3.4,<4"),
    "packaging>=20.0",
)
"""Of the eighty packages that it asks for, those that its simulation imports."""

PYTHONS = ((3, 11), (3, 13))
ENVIRONMENT = ROOT / ".bench" / f"aisimulate-{VERSION}"
DRIVER = Path(__file__).with_name("aisimulate_run.py")
RATE_PER_S = 8.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
"""As AISimulate's own command sets it."""

WANTED_RATIO, MISSED_RATIO = 3.0, 2.5


# --- its environment -------------------------------------------------------------------------------------------------


def python() -> Path:
    """The Python of AISimulate's environment, which is made when there is none, or only half of one."""
    interpreter, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "ready"
    if ready.is_file():
        return interpreter
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise ProcessError("AISimulate runs on Python 3.11 to 3.13")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)
    _quietly([base, "-I", "-m", "venv", str(ENVIRONMENT)])
    install = [str(interpreter), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    _quietly([*install, *NEEDED])
    _quietly([*install, "--no-deps", "--only-binary=aisimulate", f"aisimulate=={VERSION}"])
    ready.touch()
    return interpreter


def _quietly(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessError(f"{' '.join(command[1:5])} …: exit {done.returncode}", *done.stderr.splitlines()[-3:])


# --- side by side ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """One simulator in one setting, with its runs so far."""

    name: str
    run: Callable[[], Figures]
    samples: list[Sample] = field(default_factory=list)

    @property
    def tokens_per_cpu_s(self) -> float:
        return median(each.figures["tokens_per_cpu_s"] for each in self.samples)


@dataclass(frozen=True)
class SideBySide:
    requests: int
    contenders: list[Contender]

    def ratio(self, place: int) -> float:
        """Output tokens per CPU second, median against median: ours, the first, to that of another."""
        return self.contenders[0].tokens_per_cpu_s / self.contenders[place].tokens_per_cpu_s

    def verdict(self) -> str:
        ratio = self.ratio(1)
        return "met" if ratio >= WANTED_RATIO else "near" if ratio >= MISSED_RATIO else "missed"


def side_by_side(requests: int, rounds: int) -> SideBySide:
    """Everybody once, then everybody again: what the machine does meanwhile, it does to all of them."""
    interpreter = python()
    document = workloads.document(workloads.poisson(requests, RATE_PER_S), prefix_cache=True)
    with measure.written(document) as (scenario, folder), tempfile.TemporaryDirectory() as place:
        ours = [sys.executable, *measure.headway(scenario, folder)]
        theirs = [str(interpreter), "-I", str(DRIVER), str(requests), str(RATE_PER_S)]
        with_records = [*theirs, str(Path(place, "records"))]
        contenders = [
            Contender("Headway, complete record", lambda: _ours(ours, requests)),
            Contender("AISimulate, no record", lambda: _theirs(theirs, requests)),
            Contender("AISimulate, a record per request", lambda: _theirs(with_records, requests)),
        ]
        machine = measure.calibrated()
        for _ in range(rounds):
            for contender in contenders:
                taken, machine = measure.sample(contender.run, machine)
                contender.samples.append(taken)
    return SideBySide(requests, contenders)


def _ours(command: Sequence[str], requests: int) -> Figures:
    usage, _ = measure.process(command)
    return _figures(usage, requests)


def _theirs(command: Sequence[str], requests: int) -> Figures:
    usage, printed = measure.process(command, ONE_THREAD)
    done = json.loads(printed.splitlines()[-1])
    if done != [requests, 512 * requests, 512 * requests]:
        raise ProcessError(f"AISimulate completed {done}, not {requests} requests of 512/512")
    return _figures(usage, requests)


def _figures(usage: measure.Usage, requests: int) -> Figures:
    return {**usage._asdict(), "tokens_per_cpu_s": 512 * requests / usage.cpu_s}


# --- vLLM's own scheduler --------------------------------------------------------------------------------------------


def scheduler_us() -> dict[str, float]:
    """CPU µs a step of vLLM's own scheduler by recording, as whoever recorded them wrote it down beside them."""
    notes = workloads.data("vllm", "README.md")
    if not os.environ.get("HEADWAY_DATA") or not notes.is_file():
        return {}
    lines = (line for line in notes.read_text(encoding="utf-8").splitlines() if "CPU time per step" in line)
    return {name: float(us) for line in lines for name, us in re.findall(r"(big_\w+) ([\d.]+)", line)}


def steps(rounds: int) -> list[tuple[Row, float | None]]:
    """Ours on each large recording, beside vLLM's own time."""
    theirs = scheduler_us()
    return [(measure.measured(row, rounds), theirs.get(row.name)) for row in workloads.recorded()]
