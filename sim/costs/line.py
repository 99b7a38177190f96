"""The durations of like jobs in a row, and when each of them ends: exact, whatever the costs, and never job by job."""

from dataclasses import dataclass
from math import isqrt

from sim.clock import FS_PER_NS

MOST_FS = 2**59
MOST_GROWTH_FS = 2**39
"""A job that takes longer (ten minutes), or so much longer than the one before, stands on no line: then nothing about
2**20 jobs on one leaves 64 bits."""


def floor_sum(jobs: int, first: int, growth: int, divisor: int) -> int:
    """The sum of (first + growth * j) // divisor over j = 0 ... jobs - 1, in O(log) steps; none may be negative.

    Source: the classical lattice point count, as in "Concrete Mathematics", section 3.5.
    """
    total = 0
    while jobs > 0:
        total += growth // divisor * (jobs * (jobs - 1) // 2) + first // divisor * jobs
        growth %= divisor
        last = first % divisor + growth * jobs
        if last < divisor:
            break
        jobs, first = divmod(last, divisor)
        growth, divisor = divisor, growth
    return total


@dataclass(slots=True)
class Line:
    """The durations of like jobs in a row: the j-th (from 0) takes ``first_fs + growth_fs * j``, half up to ns."""

    first_fs: int
    growth_fs: int

    def job_ns(self, place: int) -> int:
        """How long the job at this place takes."""
        return (self.first_fs + self.growth_fs * place + FS_PER_NS // 2) // FS_PER_NS

    def ends_ns(self, jobs: int) -> int:
        """When the first ``jobs`` of them have ended, from the start of the first."""
        return floor_sum(jobs, self.first_fs + FS_PER_NS // 2, self.growth_fs, FS_PER_NS)

    def within(self, ns: int, jobs: int) -> tuple[int, int]:
        """How many of the first ``jobs`` have ended after so many ns, and when the last of these did."""
        low, high = 0, jobs
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.ends_ns(middle) <= ns else (low, middle - 1)
        return low, self.ends_ns(low)

    def begun(self, ns: int, jobs: int) -> tuple[int, int]:
        """How many of the first ``jobs`` have begun before so many ns, and when the last of these ends.

        Mostly it is known from the durations before they are rounded.
        """
        first_fs, growth_fs = self.first_fs, self.growth_fs
        if growth_fs:
            linear = 2 * first_fs - growth_fs
            guess = (isqrt(linear * linear + 8 * growth_fs * ns * FS_PER_NS) - linear) // (2 * growth_fs) + 1
        else:
            guess = ns * FS_PER_NS // max(first_fs, 1) + 1
        guess = min(guess, jobs)
        ends_ns = self.ends_ns(guess)
        if ends_ns - self.job_ns(guess - 1) < ns and (ends_ns >= ns or guess == jobs):
            return guess, ends_ns
        before, ends_ns = self.within(ns - 1, jobs - 1) if ns > 0 else (0, 0)
        return before + 1, ends_ns + self.job_ns(before)

    def moved(self, jobs: int) -> "Line":
        """Without the first ``jobs``."""
        return Line(self.first_fs + self.growth_fs * jobs, self.growth_fs)
