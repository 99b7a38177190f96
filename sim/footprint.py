"""What a run will need of this machine, told before it begins."""

from pathlib import Path

from sim.errors import LimitError

BYTES_PER_REQUEST = 1_100
"""Measured: the peak of a run of a million requests with its record and all metrics, divided by a million."""

MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def check(requests: int | None) -> None:
    """``LimitError`` if so many requests (None: not known yet) need more memory than there is."""
    available = available_bytes()
    if requests is None or available is None:
        return
    needed = requests * BYTES_PER_REQUEST
    if needed > available:
        raise LimitError(
            f"{requests:,} requests need about {needed / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB are "
            "available: nothing was simulated; fewer requests (workload.count) fit"
        )
