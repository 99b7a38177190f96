"""All gaps between tokens, without one entry a gap: single ones, and those of jobs that stand on lines."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sim.analysis.exact import LIMIT, dot, total
from sim.clock import FS_PER_NS
from sim.request import Ints


@dataclass(frozen=True)
class Gaps:
    """``ns``, each so many ``times``; and of each line the durations of its ``later`` jobs, each ``later_times``.

    The first of these takes ``later_fs``, each other ``growth_fs`` more, half up to ns; ``later_ns`` all together.
    """

    ns: Ints
    times: Ints
    later_fs: Ints
    growth_fs: Ints
    later: Ints
    later_ns: Ints
    later_times: Ints

    @property
    def count(self) -> int:
        return total(self.times) + dot(self.later, self.later_times)

    @property
    def total_ns(self) -> int:
        return dot(self.ns, self.times) + dot(self.later_ns, self.later_times)

    def bounds_ns(self) -> tuple[int, int]:
        """The shortest and the longest; there must be one."""
        some = self.later_times > 0
        first_fs, growth_fs = self.later_fs[some], self.growth_fs[some]
        ends_fs = np.concatenate([first_fs, first_fs + growth_fs * (self.later[some] - 1)])
        ns = np.concatenate([self.ns[self.times > 0], (ends_fs + FS_PER_NS // 2) // FS_PER_NS])
        return int(ns.min()), int(ns.max())

    def at(self, ranks: list[int]) -> dict[int, int]:
        """The gap at each rank, from 0, among all in order of their length: the least that so many are not longer."""
        order = np.argsort(self.ns, kind="stable")
        ns, upto = self.ns[order], np.append(0, np.cumsum(self.times[order]))
        found = {}
        for rank in ranks:
            low, high = self.bounds_ns()
            while low < high:
                middle = (low + high) // 2
                singles = int(upto[np.searchsorted(ns, middle, side="right")])
                low, high = (low, middle) if singles + self._later_upto(middle) > rank else (middle + 1, high)
            found[rank] = low
        return found

    def figures(self) -> tuple[int, dict[str, Fraction | None]]:
        """How many they are; mean and linear percentiles, None when there are none."""
        count = self.count
        figures: dict[str, Fraction | None] = dict.fromkeys(("mean", "p50", "p90", "p95", "p99"))
        if count:
            places = {percent: Fraction((count - 1) * percent, 100) for percent in (50, 90, 95, 99)}
            ranks = {int(at) for at in places.values()} | {min(int(at) + 1, count - 1) for at in places.values()}
            ns = self.at(sorted(ranks))
            figures["mean"] = Fraction(self.total_ns, count)
            for percent, at in places.items():
                low, high = ns[int(at)], ns[min(int(at) + 1, count - 1)]
                figures[f"p{percent}"] = low + (at - int(at)) * (high - low)
        return count, figures

    def _later_upto(self, ns: int) -> int:
        """How many gaps on lines are not longer."""
        if not len(self.later):
            return 0
        left_fs = min((ns + 1) * FS_PER_NS, LIMIT) - FS_PER_NS // 2 - self.later_fs  # what a shorter one lacks
        growth_fs = np.maximum(self.growth_fs, 1)
        jobs = np.where(self.growth_fs > 0, -(-left_fs // growth_fs), np.where(left_fs > 0, self.later, 0))
        return dot(np.clip(jobs, 0, self.later), self.later_times)
