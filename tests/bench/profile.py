"""Where a run spends its time, function by function."""

import io
import pstats
import sys
from pathlib import Path

from bench import measure
from bench.workloads import Run

HEAD_LINES = 7
"""pstats' own lines above the functions."""


def profile(workload: Run) -> str:
    """cProfile of the whole command, its functions by the time spent in themselves."""
    with measure.written(workload.document) as (scenario, folder):
        found = scenario.with_name("profile")
        measure.process([sys.executable, "-m", "cProfile", "-o", str(found), *measure.headway(scenario, folder)])
        text = io.StringIO()
        pstats.Stats(str(found), stream=text).strip_dirs().sort_stats("tottime").print_stats()
    return "\n".join(line for line in text.getvalue().splitlines() if str(scenario.parent) not in line).strip()


def write(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def top(text: str, functions: int = 25) -> str:
    return "\n".join(text.splitlines()[: HEAD_LINES + functions])
