"""Who of the cohort needs a new block, and at which of its jobs: counts by place in the block."""

from sim.request import NEVER

LONGEST = 4096
"""No longer period is kept count of."""


class Growth:
    """Each who grows needs one block every ``period`` jobs of the cohort (a block has so many tokens)."""

    def __init__(self, period: int) -> None:
        self._period = period
        self.jobs = 0
        self.next = 0
        """Blocks that the next job takes."""
        self._first: dict[int, int] = {}
        self._due = [0] * min(period, LONGEST)
        self._growing = 0

    def add(self, index: int, spare: int, jobs: int) -> int | None:
        """The request at ``index`` takes part in ``jobs`` jobs, and needs its next block after ``spare`` of them.

        After how many it takes that block (NEVER: in none); None if that can't be counted, and it takes no part.
        """
        if spare >= jobs:
            self._first[index] = NEVER
            return NEVER
        if not spare < self._period <= LONGEST:
            return None
        period, due = self._period, self._due
        first = self._first[index] = self.jobs + spare
        due[first % period] += 1
        self._growing += 1
        self.next = due[self.jobs % period]
        return spare

    def remove(self, index: int) -> int:
        """How many blocks it took since it was added."""
        first, period, due = self._first.pop(index), self._period, self._due
        if first == NEVER:
            return 0
        due[first % period] -= 1
        self._growing -= 1
        self.next = due[self.jobs % period]
        return (self.jobs - 1 - first) // period + 1

    def taken(self, index: int) -> int:
        """How many blocks the request took since it was added; 0 if it was not."""
        first = self._first.get(index, NEVER)
        return 0 if first == NEVER else (self.jobs - 1 - first) // self._period + 1

    def needed(self, jobs: int) -> int:
        """Blocks that the next ``jobs`` jobs take."""
        if jobs == 1 or not self._growing:
            return self.next
        period, due, place = self._period, self._due, self.jobs % self._period
        end = place + jobs % period
        blocks = jobs // period * self._growing + sum(due[place:end])
        return blocks + sum(due[: end - period]) if end > period else blocks

    def covered(self, blocks: int, most: int) -> int:
        """How many of the next ``most`` jobs so many free blocks are enough for."""
        if self._growing * (most // self._period + 1) <= blocks:
            return most
        periods, left = divmod(blocks, self._growing)
        place = self.jobs % self._period
        for offset, count in enumerate(self._due[place:] + self._due[:place]):
            if count > left:
                return min(periods * self._period + offset, most)
            left -= count
        return min((periods + 1) * self._period, most)

    def step(self, jobs: int) -> int:
        """Go on by so many jobs; the blocks that they take."""
        if not self._growing:
            self.jobs += jobs
            return 0
        blocks = self.next if jobs == 1 else self.needed(jobs)
        self.jobs += jobs
        self.next = self._due[self.jobs % self._period]
        return blocks
