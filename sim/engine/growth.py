"""Who of the cohort needs a new block, and at which of its jobs: counts by place in the block, whatever their number."""

from collections import Counter

from sim.request import NEVER


class Growth:
    """Each who grows needs one block every ``period`` jobs of the cohort (a block has so many tokens)."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._jobs = 0
        self._first: dict[int, int] = {}
        self._due: Counter[int] = Counter()
        self._growing = 0

    def __contains__(self, index: int) -> bool:
        return index in self._first

    def add(self, index: int, spare: int) -> None:
        """The request at ``index`` needs its next block for the job after ``spare`` jobs; NEVER: none any more."""
        first = self._first[index] = NEVER if spare == NEVER else self._jobs + spare
        if first != NEVER:
            self._due[first % self._period] += 1
            self._growing += 1

    def remove(self, index: int) -> int:
        """How many blocks it took since it was added."""
        taken = self.taken(index)
        first = self._first.pop(index)
        if first != NEVER:
            self._due[first % self._period] -= 1
            self._growing -= 1
        return taken

    def taken(self, index: int) -> int:
        """How many blocks the request took since it was added; 0 if it was not."""
        first = self._first.get(index, NEVER)
        return 0 if first in (NEVER, self._jobs) or first > self._jobs else (self._jobs - 1 - first) // self._period + 1

    def needed(self, jobs: int) -> int:
        """Blocks that the next ``jobs`` jobs of the cohort take."""
        if jobs == 1:
            return self._due[self._jobs % self._period]
        periods, rest = divmod(jobs, self._period)
        partly = sum(count for place, count in self._due.items() if (place - self._jobs) % self._period < rest)
        return periods * self._growing + partly

    def covered(self, blocks: int, most: int) -> int:
        """How many of the next ``most`` jobs so many free blocks are enough for."""
        if most == 1:
            return int(self.needed(1) <= blocks)
        if self._growing * (-(-most // self._period)) <= blocks:
            return most
        periods, left = divmod(blocks, self._growing)
        for offset, count in sorted(((place - self._jobs) % self._period, count) for place, count in self._due.items()):
            if count > left:
                return min(periods * self._period + offset, most)
            left -= count
        return min((periods + 1) * self._period, most)

    def step(self, jobs: int) -> None:
        """The blocks for the next ``jobs`` jobs have been taken."""
        self._jobs += jobs
