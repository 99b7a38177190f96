"""What all tests share: where large inputs lie, and how Hypothesis searches."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in a shell's background: programs under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("headway", derandomize=True, deadline=None, database=None)
settings.load_profile("headway")

RECORDED_RUN = "test_vllm_runs.py::test_recorded_run["


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many of vLLM's recorded runs were compared."""
    passed, failed = (
        sum(report.when == "call" and RECORDED_RUN in report.nodeid for report in terminalreporter.stats.get(how, ()))
        for how in ("passed", "failed")
    )
    if passed + failed:
        terminalreporter.write_line(f"recorded vLLM runs: {passed + failed} ran, {passed} equal")


@pytest.fixture(scope="session")
def headway_data() -> Path:
    """The folder of traces and recorded runs that are too large for the repository, named by HEADWAY_DATA."""
    folder = os.environ.get("HEADWAY_DATA")
    if not folder:
        pytest.skip("HEADWAY_DATA names no folder: set it to the one that holds traces/ and vllm/")
    if not Path(folder).is_dir():
        pytest.fail(f"HEADWAY_DATA={folder}: no such folder")
    return Path(folder)
