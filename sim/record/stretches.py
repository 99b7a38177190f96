"""Jobs kept as rows, each a job or a stretch of like decode jobs, from which every job's times follow exactly."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from sim.clock import FS_PER_NS
from sim.request import Ints

COLUMNS = ("jobs", "start_ns", "end_ns", "first_fs", "growth_fs", "kind", "prefill_tokens", "decode_requests",
           "waiting", "running", "swapped", "free_blocks", "withheld_blocks", "blocked")  # fmt: skip


def floor_sums(count: Ints, first: Ints, growth: Ints, divisor: int) -> Ints:
    """:func:`sim.costs.line.floor_sum`, one entry each; for lines within the limits of that module."""
    whole, growth = np.divmod(growth, divisor)
    total: Ints = whole * (count * (count - 1) // 2)
    whole, first = np.divmod(first, divisor)
    total += whole * count
    last = first + growth * count
    left = np.flatnonzero(last >= divisor)
    divisors = np.full(len(left), divisor, dtype=np.int64)
    count, growth, last = count[left], growth[left], last[left]
    while len(left):
        count, first = np.divmod(last, divisors)
        growth, divisors = divisors, growth
        whole, growth = np.divmod(growth, divisors)
        total[left] += whole * (count * (count - 1) // 2)
        whole, first = np.divmod(first, divisors)
        total[left] += whole * count
        last = first + growth * count
        on = (last >= divisors) & (count > 0)
        left, count, growth, last, divisors = left[on], count[on], growth[on], last[on], divisors[on]
    return total


class Stretches:
    """The rows of a jobs table. Job numbers count all jobs, decoding numbers those that decode anything."""

    def __init__(self, table: Mapping[str, Ints]) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table["jobs"])

    @cached_property
    def first(self) -> Ints:
        """The number of each row's first job; at last, how many jobs there are."""
        return np.append(0, np.cumsum(self.table["jobs"]))

    @cached_property
    def first_decoding(self) -> Ints:
        """How many decoding jobs there are before each row; at last, how many in all."""
        return np.append(0, np.cumsum(np.where(self.table["decode_requests"] > 0, self.table["jobs"], 0)))

    @property
    def jobs(self) -> int:
        return int(self.first[-1])

    @property
    def decoding(self) -> int:
        """How many jobs decode anything."""
        return int(self.first_decoding[-1])

    def row_of(self, job: Ints) -> Ints:
        """In which row a job stands."""
        return np.searchsorted(self.first, job, side="right") - 1

    def row_of_decoding(self, number: Ints) -> Ints:
        """In which row a decoding job stands."""
        return np.searchsorted(self.first_decoding, number, side="right") - 1

    def job_of_decoding(self, number: Ints) -> Ints:
        """The job number of each decoding number."""
        row = self.row_of_decoding(number)
        jobs: Ints = self.first[row] + number - self.first_decoding[row]
        return jobs

    def decoding_ends_ns(self, number: Ints) -> Ints:
        """When these decoding jobs end."""
        row = self.row_of_decoding(number)
        return self.ends_ns(row, number - self.first_decoding[row] + 1)

    def ends_ns(self, row: Ints, count: Ints) -> Ints:
        """When the first ``count`` jobs of each of these rows have ended."""
        table = self.table
        ends_ns: Ints = table["end_ns"][row]
        inside = np.flatnonzero(count < table["jobs"][row])
        if len(inside):
            ends_ns[inside] = self._inside_ns(row[inside], count[inside])
        return ends_ns

    def _inside_ns(self, row: Ints, count: Ints) -> Ints:
        """Stretches stand on lines (:class:`sim.costs.line.Line`)."""
        table = self.table
        half_up = table["first_fs"][row] + FS_PER_NS // 2
        ends_ns: Ints = table["start_ns"][row] + floor_sums(count, half_up, table["growth_fs"][row], FS_PER_NS)
        return ends_ns

    @property
    def first_ends_ns(self) -> Ints:
        """When the first job of each row ends."""
        rows = np.arange(len(self))
        return self.ends_ns(rows, np.ones_like(rows))

    @property
    def last_starts_ns(self) -> Ints:
        """When the last job of each row begins."""
        rows = np.arange(len(self))
        jobs = self.table["jobs"]
        starts_ns: Ints = self.table["start_ns"].copy()
        long = np.flatnonzero(jobs > 1)
        starts_ns[long] = self.ends_ns(rows[long], jobs[long] - 1)
        return starts_ns

    def expand(self) -> dict[str, Ints]:
        """All but what changes within a stretch, one entry per job."""
        jobs = self.table["jobs"]
        if (jobs == 1).all():
            return {name: self.table[name] for name in COLUMNS if name not in ("jobs", "first_fs", "growth_fs")}
        row = np.repeat(np.arange(len(self)), jobs)
        place = np.arange(self.jobs) - self.first[row]
        ends_ns = self.ends_ns(row, place + 1)
        starts_ns = self.table["start_ns"][row]
        later = np.flatnonzero(place)
        starts_ns[later] = ends_ns[later - 1]
        columns = {"start_ns": starts_ns, "end_ns": ends_ns}
        return columns | {name: self.table[name][row] for name in COLUMNS[5:]}
