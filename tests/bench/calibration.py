"""How fast this machine is just now: what SimPy takes for an event that does nothing, and NumPy for a copy.

A shared machine's speed varies by a factor of two within the hour. A time is therefore shown twice: as it was taken,
and scaled to a machine on which a bare timeout costs ``REFERENCE_US``.
"""

import json
import sys
from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import NamedTuple

REFERENCE_US = 0.7
ROUNDS = 5
TIMEOUTS = 200_000
COPIED_BYTES = 32_000_000


class Calibration(NamedTuple):
    timeout_us: float
    copy_gb_per_s: float


def scaled(time: float, timeout_us: float) -> float:
    """A time, in any unit, taken where a bare timeout cost ``timeout_us``, as it would be on the reference machine."""
    return time * REFERENCE_US / timeout_us


def between(before: Calibration, after: Calibration) -> Calibration:
    """The machine while something ran, from its speed before and after."""
    return Calibration(*((b + a) / 2 for b, a in zip(before, after, strict=True)))


def measured() -> Calibration:
    return Calibration(median(_timeouts_us()), median(_copies_gb_per_s()))


def _timeouts_us() -> Iterator[float]:
    from simpy import Environment

    for _ in range(ROUNDS):
        env = Environment()
        env.process(env.timeout(1) for _ in range(TIMEOUTS))
        began = process_time()
        env.run()
        yield 1e6 * (process_time() - began) / TIMEOUTS


def _copies_gb_per_s() -> Iterator[float]:
    import numpy as np

    source, target = np.ones(COPIED_BYTES // 8), np.zeros(COPIED_BYTES // 8)
    for _ in range(ROUNDS):
        began = process_time()
        np.copyto(target, source)
        yield COPIED_BYTES / 1e9 / (process_time() - began)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured()))
