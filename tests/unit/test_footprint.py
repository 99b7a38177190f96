"""A run that can't fit into memory says so before it begins."""

from pathlib import Path

import pytest

from sim import footprint
from sim.errors import LimitError


@pytest.fixture
def meminfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two gigabytes and a bit are left."""
    file = tmp_path / "meminfo"
    file.write_text("MemTotal:        8000000 kB\nMemAvailable:    2000000 kB\n")
    monkeypatch.setattr(footprint, "MEMINFO", file)
    return file


def test_what_the_system_says_is_read(meminfo: Path) -> None:
    assert footprint.available_bytes() == 2_000_000 * 1024


def test_what_fits_passes_and_what_does_not_is_told_at_once(meminfo: Path) -> None:
    """1,100 bytes a request: 1.8 million fit into 2.048 GB."""
    footprint.check(1_800_000)
    with pytest.raises(
        LimitError,
        match=r"^10,000,000 requests need about 11\.0 GB of memory, and 2\.0 GB are available: nothing was simulated; "
        r"fewer requests \(workload\.count\) fit$",
    ):
        footprint.check(10_000_000)


def test_where_nothing_is_known_nothing_is_refused(meminfo: Path) -> None:
    footprint.check(None)
    meminfo.unlink()
    footprint.check(10**12)
