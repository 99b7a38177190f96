"""When jobs begin and end: laid out some at a time, never all of them together."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.clock import FS_PER_NS
from sim.record.stretches import Stretches
from sim.request import Ints

JOBS_AT_ONCE = 2**18
"""So many jobs are laid out together, unless a single row stands for more."""


class Laid(NamedTuple):
    """Some jobs side by side: the number of the first, which rows they come from, and of each its row and its times."""

    first: int
    rows: slice
    row: Ints
    starts_ns: Ints
    ends_ns: Ints


class Moments:
    """The times of the jobs of some rows. A row of one job says when it ends; others stand on their lines."""

    def __init__(self, rows: Stretches) -> None:
        self._rows = rows

    def laid(self) -> Iterator[Laid]:
        """All jobs in order, whole rows at a time."""
        first, after = 0, 0
        begins = self._rows.first
        while first < len(self._rows):
            after = int(np.searchsorted(begins, begins[first] + JOBS_AT_ONCE, side="right")) - 1
            after = max(after, first + 1)
            yield self._lay(first, after)
            first = after

    def starts_ns(self, job: Ints) -> Ints:
        """When each of these jobs begins."""
        starts_ns = np.empty_like(job)
        for laid in self.laid():
            mine = np.flatnonzero((job >= laid.first) & (job < laid.first + len(laid.starts_ns)))
            starts_ns[mine] = laid.starts_ns[job[mine] - laid.first]
        return starts_ns

    def begun_before(self, ns: Ints) -> tuple[Ints, Ints]:
        """How many jobs had begun before each of these instants, and when the last of them ends (0 without one)."""
        begun, ends_ns = np.zeros_like(ns), np.zeros_like(ns)
        for laid in self.laid():
            place = np.searchsorted(laid.starts_ns, ns, side="left")
            some = np.flatnonzero(place)
            begun[some] = laid.first + place[some]
            ends_ns[some] = laid.ends_ns[place[some] - 1]
        return begun, ends_ns

    def _lay(self, first: int, after: int) -> Laid:
        rows, table = slice(first, after), self._rows.table
        jobs, starts_ns, ends_ns = (table[name][rows] for name in ("jobs", "start_ns", "end_ns"))
        row = np.arange(first, after)
        if (jobs == 1).all():
            return Laid(int(self._rows.first[first]), rows, row, starts_ns, ends_ns)
        begins = np.cumsum(jobs) - jobs
        here = np.repeat(row - first, jobs)
        place = np.arange(len(here)) - begins[here]
        fs = table["first_fs"][rows][here] + table["growth_fs"][rows][here] * place
        duration_ns = (fs + FS_PER_NS // 2) // FS_PER_NS
        alone = np.flatnonzero((jobs == 1)[here])
        duration_ns[alone] = (ends_ns - starts_ns)[here[alone]]
        behind_ns = np.cumsum(duration_ns)
        to_ns = behind_ns + (starts_ns - behind_ns[begins] + duration_ns[begins])[here]
        return Laid(int(self._rows.first[first]), rows, here + first, to_ns - duration_ns, to_ns)
