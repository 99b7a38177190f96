"""``import sim`` is light: what is heavy is imported where it is used."""

import os
import resource
import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "pyarrow", "rich", "scipy", "typer")


def python(code: str) -> str:
    """What a fresh Python prints when it runs ``code``."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTHON"))}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return run.stdout


def test_import_sim_pulls_in_nothing_heavy() -> None:
    loaded = set(python("import sim, sys; print(*sys.modules)").split())
    assert [name for name in HEAVY if name in loaded] == []


def cpu_seconds(code: str) -> float:
    """CPU time of a fresh Python that runs ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_import_sim_costs_at_most_two_and_a_half_times_its_engine() -> None:
    """The least of several runs each, taken in turn, so that a busy machine disturbs both alike."""
    pairs = [(cpu_seconds("import sim"), cpu_seconds("import numpy, simpy")) for _ in range(9)]
    ours, engine = map(min, zip(*pairs, strict=True))
    assert ours <= 2.5 * engine
